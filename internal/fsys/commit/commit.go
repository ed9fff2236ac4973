// Package commit changes names in an opened directory so that each change happens
// wholly or not at all, survives a power cut once it is reported, and never
// overwrites unseen what somebody outside saved meanwhile.
//
//	new file     temp file, write, flush, rename if nothing is there, flush directory
//	replacement  temp file, write, flush, exchange, look at what came out, flush
//	             directory, remove what came out
//	removal      rename to a temp name, look at it, flush directory, remove
//
// Whatever fails on the way is undone: the old file stands, no temp file is left.
// What a crash leaves is known by its name and swept later.
//
// Functions are safe for concurrent use on different names; on one name the
// caller lets one at a time in. Where a name lies and who may touch it is the
// caller's business, and so is saying which file an error is about.
package commit

import (
	"errors"
	"io"
	"io/fs"
	"sync"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/opendir"
)

// ErrChanged is returned when a file no longer holds what it was expected to, or
// is no longer the one that was looked at: somebody outside was faster. Nothing
// was done.
var ErrChanged = errors.New("changed meanwhile")

// Sync says what has to survive a power cut when a call returns. The zero value:
// everything.
type Sync struct {
	Off   bool     // nothing; names still change in one step
	Defer *DirSync // file contents; names once this is flushed
}

// file flushes the content of a file.
func (s Sync) file(f *opendir.File) error {
	if s.Off {
		return nil
	}
	return f.Sync()
}

// dir flushes, or notes, that names in d changed.
func (s Sync) dir(d *opendir.Dir) error {
	switch {
	case s.Off:
		return nil
	case s.Defer != nil:
		return s.Defer.add(d)
	default:
		return d.Sync()
	}
}

// DirSync collects the directories in which names changed, so that a batch
// flushes each of them once. The zero value is ready; safe for concurrent use.
type DirSync struct {
	mu   sync.Mutex
	dirs map[[2]uint64]*opendir.Dir // guarded by mu
}

func (s *DirSync) add(d *opendir.Dir) error {
	id, err := d.ID()
	if err != nil {
		return err
	}
	again, err := d.Again()
	if err != nil {
		return err
	}
	key := [2]uint64{id.Dev, id.Ino}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dirs[key] != nil {
		again.Close()
		return nil
	}
	if s.dirs == nil {
		s.dirs = make(map[[2]uint64]*opendir.Dir)
	}
	s.dirs[key] = again
	return nil
}

// Flush makes everything noted so far durable. A DirSync that was used must be
// flushed, also when the batch failed.
func (s *DirSync) Flush() error {
	s.mu.Lock()
	dirs := s.dirs
	s.dirs = nil
	s.mu.Unlock()
	var errs []error
	for _, d := range dirs {
		errs = append(errs, d.Sync())
		d.Close()
	}
	return errors.Join(errs...)
}

// Create makes the file name with this content, or nothing at all. Something that
// stands there already, since long or since a moment, is fs.ErrExist. A perm of 0
// is what the umask leaves.
func Create(dir *opendir.Dir, name string, data []byte, perm fs.FileMode, s Sync) error {
	if _, err := dir.Stat(name); err == nil {
		return fs.ErrExist
	}
	t, err := drafted("create", dir, name, data, nil, nil, perm, s)
	if err != nil {
		return err
	}
	err = step("create.place", func() error { return dir.RenameNew(t.name, dir, name) })
	if err != nil {
		t.drop()
		return err
	}
	err = step("create.sync", func() error { return s.dir(dir) })
	if err != nil {
		t.pin.retract(dir, name)
	}
	t.done()
	return err
}

// Replace puts data in the place of the regular file name if that holds base,
// else ErrChanged. Readers see the old bytes or the new ones. Permissions, unless
// perm gives others, owner and extended attributes stay, as far as this process
// may give them. A file that does not let us write is left alone, although its
// directory would.
//
// On Linux and macOS the two files change places in one step, and what came out
// is looked at: a save by rename that came first, at whatever moment, is put back
// and nothing is lost. A save in place is seen if its bytes are there when we
// look. Linux also holds back who opens the old file for writing meanwhile, and
// waits for who has it open, up to a tenth of a second. What remains there: a
// process that keeps the file open for longer, and one that is between finding
// the file by its name and opening it when that name goes to the other one.
// Without leases (macOS, network file systems, files of others) a save in place
// that begins before and ends after the look is lost; without exchange (Windows,
// some file systems) any save between the look and the rename is, and an error of
// the last step, flushing the directory, leaves the new file.
func Replace(dir *opendir.Dir, name string, data []byte, base Content, perm fs.FileMode, s Sync) error {
	old, err := dir.Open(name)
	if err != nil {
		return err
	}
	defer old.Close()
	info, err := old.Regular()
	if err == nil {
		err = dir.Writable(name)
	}
	if err != nil {
		return err
	}
	t, err := drafted("replace", dir, name, data, &base, old, perm, s)
	if err != nil {
		return err
	}
	w := watched{file: old, stamp: info.Stamp, want: &base}
	for range 3 {
		w.lease()
		err = t.swap(name, &w, s)
		w.release()
		if !errors.Is(err, errOpened) {
			break
		}
	}
	if errors.Is(err, errNoExchange) {
		old.Close() // some systems do not rename over an open file
		err = t.cover(name, base, s)
	}
	if err != nil {
		t.drop()
	}
	t.done()
	return changed(err)
}

// Append writes data behind what the regular file name holds and returns where it
// ends: data has no hole in it and nobody else's bytes. It is done in place; if it
// fails the file is cut back, unless somebody has written behind it already.
func Append(dir *opendir.Dir, name string, data []byte, s Sync) (end int64, err error) {
	f, err := dir.OpenAppend(name)
	if err != nil {
		return 0, err
	}
	defer func() {
		if closing := f.Finish(); err == nil {
			err = closing
		}
	}()
	if _, err := f.Regular(); err != nil {
		return 0, err
	}
	written := 0
	err = step("append.write", func() (err error) {
		written, err = f.Write(data)
		return err
	})
	end, seek := f.Seek(0, io.SeekCurrent) // where our last write ended, whoever wrote before
	if err == nil {
		err = seek
	}
	if err == nil {
		err = step("append.flush", func() error { return s.file(f) })
	}
	if err != nil && written > 0 && seek == nil {
		if info, failed := f.Stat(); failed == nil && info.Size == end {
			err = errors.Join(err, f.Truncate(end-int64(written)))
		}
	}
	return end, err
}

// Remove removes the file or link name, but no directory. If expected is not nil,
// only if it is a regular file that holds it, else ErrChanged; what is said at
// Replace about others holds here too.
func Remove(dir *opendir.Dir, name string, expected *Content, s Sync) error {
	info, err := dir.Stat(name)
	if err != nil {
		return err
	}
	if info.Kind == opendir.Directory {
		return opendir.ErrIsDirectory
	}
	w := watched{stamp: info.Stamp, want: expected}
	if expected != nil {
		if w.file, err = dir.Open(name); err != nil {
			return err
		}
		defer w.file.Close()
		if info, err = w.file.Regular(); err != nil {
			return err
		}
		w.stamp = info.Stamp
		w.lease()
		defer w.release()
	}
	return aside(dir, name, tempName(name, oldTag(expected), noTag), s,
		func(temp string) error { return w.check(dir, temp) },
		func(temp string) error {
			if w.disturbed() {
				return errOpened
			}
			return dir.Remove(temp)
		})
}

// RemoveLink removes the link name. Anything else that stands there, since long or
// since a moment, is ErrChanged.
func RemoveLink(dir *opendir.Dir, name string, s Sync) error {
	check := func(name string) error {
		info, err := dir.Stat(name)
		if err == nil && info.Kind != opendir.Link {
			err = ErrChanged
		}
		return err
	}
	if err := check(name); err != nil {
		return err
	}
	return aside(dir, name, tempName(name, noTag, noTag), s, check, dir.Remove)
}

// Mkdir makes the directory name and tells whether it was us: a directory or
// anything else that stands there already is no error.
func Mkdir(in *opendir.Dir, name string, s Sync) (bool, error) {
	err := step("mkdir.make", func() error { return in.Mkdir(name, 0o777) })
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	err = step("mkdir.sync", func() error { return s.dir(in) })
	if err != nil {
		_ = in.RemoveDir(name)
	}
	return err == nil, err
}
