package commit

import (
	"errors"
	"io/fs"
	"path"
	"syscall"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/opendir"
)

// Deepest is how far down directories are followed; each level is held open.
const Deepest = 1000

// Seen are the stamps of what was looked at: of a file or directory as ".", and
// of what is in it by path.
type Seen map[string]opendir.Stamp

// Move moves name in from to the place toName in to, in one step. Without
// overwrite, something that stands there is fs.ErrExist. respelled says that both
// names mean one file, where case does not matter.
//
// Between file systems (crossFS) it is copied, put in place, and then removed at
// from: if that changed meanwhile, ErrChanged and nothing is moved. A copy keeps
// permissions, times, links as they are, and as much of the rest as can be had;
// pipes, sockets and devices are refused.
//
// A last flush that fails after something was overwritten leaves it so.
func Move(from *opendir.Dir, name string, to *opendir.Dir, toName string, overwrite, respelled bool, s Sync) (crossFS bool, err error) {
	err = step("rename.place", func() error { return place(from, name, to, toName, overwrite, respelled) })
	if errors.Is(err, syscall.EXDEV) {
		return true, moveAcross(from, name, to, toName, overwrite, s)
	}
	if err != nil {
		return false, err
	}
	err = step("rename.sync", func() error { return errors.Join(s.dir(to), s.dir(from)) })
	if err != nil && !overwrite {
		_ = to.RenameNew(toName, from, name)
	}
	return false, err
}

func place(from *opendir.Dir, name string, to *opendir.Dir, toName string, overwrite, respelled bool) error {
	if !overwrite && !respelled {
		return from.RenameNew(name, to, toName)
	}
	if there, err := to.Stat(toName); err == nil && !respelled {
		here, err := from.Stat(name)
		switch {
		case err != nil:
			return err
		case there.Kind == opendir.Directory:
			return opendir.ErrIsDirectory
		case there.Stamp.SameFile(here.Stamp):
			return from.Remove(name) // two names of one file: the system would do nothing
		}
	}
	return from.Rename(name, to, toName)
}

func moveAcross(from *opendir.Dir, name string, to *opendir.Dir, toName string, overwrite bool, s Sync) error {
	c := copier{sync: s, seen: make(Seen)}
	placed, err := c.to(from, name, to, toName, overwrite)
	defer placed.close()
	if err != nil {
		return err
	}
	err = RemoveAll(from, name, c.seen, s)
	if errors.Is(err, ErrChanged) && !overwrite {
		placed.retract(to, toName)
	}
	return err
}

// Copy copies the regular file name to toName, permissions included, as a new
// file or over an old one. A source that changes meanwhile is ErrChanged.
func Copy(from *opendir.Dir, name string, to *opendir.Dir, toName string, overwrite bool, s Sync) error {
	info, err := from.Stat(name)
	switch {
	case err != nil:
		return err
	case info.Kind == opendir.Directory:
		return opendir.ErrIsDirectory
	case info.Kind != opendir.Regular:
		return opendir.ErrNotRegular
	}
	if there, err := to.Stat(toName); err == nil && there.Stamp.SameFile(info.Stamp) {
		return fs.ErrExist
	}
	c := copier{sync: s, seen: make(Seen), onlyFile: true}
	placed, err := c.to(from, name, to, toName, overwrite)
	placed.close()
	return err
}

type copier struct {
	sync     Sync
	seen     Seen
	onlyFile bool // what is no regular file is an error
}

// to copies whatever name is, durably, and returns what stands at toName then.
func (c *copier) to(from *opendir.Dir, name string, to *opendir.Dir, toName string, overwrite bool) (copied pinned, err error) {
	if there, err := to.Stat(toName); err == nil {
		switch {
		case !overwrite:
			return pinned{}, fs.ErrExist
		case there.Kind == opendir.Directory:
			return pinned{}, opendir.ErrIsDirectory
		}
	}
	temp := tempName(toName, noTag, noTag)
	err = c.any(from, name, to, temp, ".", 0)
	if err == nil {
		copied, err = pin(to, temp)
	}
	if err == nil {
		err = step("copy.place", func() error {
			if overwrite {
				return to.Rename(temp, to, toName)
			}
			return to.RenameNew(temp, to, toName)
		})
	}
	if err != nil {
		_ = RemoveTree(to, temp)
		copied.close()
		return pinned{}, err
	}
	err = step("copy.sync", func() error { return c.sync.dir(to) })
	if err != nil && !overwrite {
		copied.retract(to, toName)
	}
	return copied, err
}

func (c *copier) any(from *opendir.Dir, name string, to *opendir.Dir, as, rel string, depth int) error {
	info, err := from.Stat(name)
	if err != nil {
		return err
	}
	if c.onlyFile && info.Kind != opendir.Regular {
		return opendir.ErrNotRegular
	}
	c.seen[rel] = info.Stamp
	switch info.Kind {
	case opendir.Regular:
		err = c.file(from, name, to, as, rel)
	case opendir.Directory:
		err = c.directory(from, name, to, as, rel, depth)
	case opendir.Link:
		var target string
		if target, err = from.Readlink(name); err == nil {
			err = to.Symlink(target, as)
		}
	default:
		err = opendir.ErrNotRegular
	}
	if err == nil {
		_ = to.Chtime(as, info.ModTime) // a time is not worth a failure
	}
	return err
}

func (c *copier) file(from *opendir.Dir, name string, to *opendir.Dir, as, rel string) error {
	src, err := from.Open(name)
	if err != nil {
		return err
	}
	defer src.Close()
	before, err := src.Regular()
	if err != nil {
		return err
	}
	c.seen[rel] = before.Stamp
	var dst *opendir.File
	err = step("copy.temp", func() (err error) {
		dst, err = to.Create(as, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	err = step("copy.write", func() error {
		_, err := dst.CopyFrom(src)
		return err
	})
	if err == nil {
		err = dst.Resemble(src)
	}
	if err == nil {
		err = step("copy.flush", func() error { return c.sync.file(dst) })
	}
	if closing := dst.Finish(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	after, err := src.Stat()
	if err == nil && after.Stamp != before.Stamp {
		err = ErrChanged
	}
	return err
}

func (c *copier) directory(from *opendir.Dir, name string, to *opendir.Dir, as, rel string, depth int) error {
	if depth > Deepest {
		return syscall.ENAMETOOLONG
	}
	src, err := from.Dir(name)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := to.Mkdir(as, 0o700); err != nil {
		return err
	}
	dst, err := to.Dir(as)
	if err != nil {
		return err
	}
	defer dst.Close()
	entries, err := src.Read()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if IsTemp(e.Name) {
			continue
		}
		if err := c.any(src, e.Name, dst, e.Name, path.Join(rel, e.Name), depth+1); err != nil {
			return err
		}
	}
	if !c.sync.Off {
		// Not put off: the original goes once this stands.
		if err := dst.Sync(); err != nil {
			return err
		}
	}
	return resemble(to, as, from, name)
}

// resemble gives a directory what Resemble gives a file.
func resemble(dir *opendir.Dir, name string, likeDir *opendir.Dir, like string) error {
	src, err := likeDir.Open(like)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := dir.Open(name)
	if err != nil {
		return err
	}
	defer dst.Close()
	return dst.Resemble(src)
}

// RemoveAll removes name and everything in it, in one step for who looks at it,
// if all of it was seen and is still as it was, else ErrChanged and it stays.
// Only an error while what has disappeared is being deleted, such as a directory
// without permission, leaves a part of it: that stands where it stood. Layered
// file systems, as in containers, do not rename a directory of a lower layer: it
// is deleted where it stands.
func RemoveAll(dir *opendir.Dir, name string, seen Seen, s Sync) error {
	err := aside(dir, name, tempName(name, noTag, noTag), s,
		func(temp string) error { return seen.unchanged(dir, temp, ".") },
		func(temp string) error { return RemoveTree(dir, temp) })
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	if err := seen.unchanged(dir, name, "."); err != nil {
		return err
	}
	if err := RemoveTree(dir, name); err != nil {
		return err
	}
	return s.dir(dir)
}

// unchanged returns ErrChanged if name, or anything in it, is not as it was seen.
// What is gone is no matter.
func (seen Seen) unchanged(dir *opendir.Dir, name, rel string) error {
	info, err := dir.Stat(name)
	if errors.Is(err, fs.ErrNotExist) && rel != "." {
		return nil
	}
	if err != nil {
		return err
	}
	was, ok := seen[rel]
	now := info.Stamp
	now.Ctime = was.Ctime // renaming counts as a change of it
	if info.Kind == opendir.Directory {
		now.Size, now.Mtime = was.Size, was.Mtime // what is in it is looked at below
	}
	if !ok || now != was {
		return ErrChanged
	}
	if info.Kind != opendir.Directory {
		return nil
	}
	sub, err := dir.Dir(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	entries, err := sub.Read()
	for _, e := range entries {
		if err == nil && !IsTemp(e.Name) {
			err = seen.unchanged(sub, e.Name, path.Join(rel, e.Name))
		}
	}
	return err
}

// RemoveTree removes name and what is in it, links as such.
func RemoveTree(dir *opendir.Dir, name string) error {
	info, err := dir.Stat(name)
	if err != nil {
		return err
	}
	if info.Kind != opendir.Directory {
		return dir.Remove(name)
	}
	sub, err := dir.Dir(name)
	if err != nil {
		return err
	}
	entries, err := sub.Read()
	for _, e := range entries {
		if err != nil {
			break
		}
		err = RemoveTree(sub, e.Name)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	sub.Close()
	if err != nil {
		return err
	}
	return dir.RemoveDir(name)
}
