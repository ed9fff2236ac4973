package fsys

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/commit"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/opendir"
)

// ErrChanged is returned when somebody outside was faster; nothing was done.
var ErrChanged = commit.ErrChanged

// How changes are made.
type (
	// Sync says what has to survive a power cut when a call returns.
	Sync = commit.Sync
	// DirSync lets a batch flush each directory once.
	DirSync = commit.DirSync
	// Content is what a file is expected to hold.
	Content = commit.Content
)

// ContentOf returns the content that data is.
func ContentOf(data []byte) Content { return commit.ContentOf(data) }

// IsTemp reports whether name is that of a temp file of ours. Resolve refuses
// such names and Walk leaves them out.
func IsTemp(name string) bool { return commit.IsTemp(name) }

// WriteOptions say how a file is written. The zero value is the careful way.
type WriteOptions struct {
	Perm     fs.FileMode // exact permissions; 0: those of the old file, else what the umask leaves
	MakeDirs bool        // make missing directories
	Made     *int        // if not nil, how many directories were made
	Sync     Sync
}

// Create makes the file p with this content, or nothing at all. Something that
// stands there already, since long or since a moment, is fs.ErrExist.
func (p Path) Create(data []byte, o WriteOptions) error {
	for tries := 0; ; tries++ {
		err := p.placed(o.MakeDirs, o.Sync, func(at *place) error {
			if o.Made != nil {
				*o.Made = len(at.made)
			}
			return commit.Create(at.dir, at.name, data, o.Perm, o.Sync)
		})
		// Somebody may have made this directory, failed, and taken it away again.
		if !o.MakeDirs || tries == 3 || !errors.Is(err, fs.ErrNotExist) {
			return p.failed("create", err)
		}
	}
}

// Replace puts data in the place of the regular file p if that holds base, else
// ErrChanged. commit.Replace has what it promises about others who save at the
// same time.
func (p Path) Replace(data []byte, base Content, o WriteOptions) error {
	return p.failed("replace", p.placed(false, o.Sync, func(at *place) error {
		return commit.Replace(at.dir, at.name, data, base, o.Perm, o.Sync)
	}))
}

// Append writes data behind what the regular file p holds and returns where it
// ends. It is done in place; if it fails the file is cut back, unless somebody has
// written behind it already.
func (p Path) Append(data []byte, s Sync) (end int64, err error) {
	err = p.placed(false, s, func(at *place) error {
		end, err = commit.Append(at.dir, at.name, data, s)
		return err
	})
	return end, p.failed("append", err)
}

// Remove removes the file or link p, but no directory. If expected is not nil,
// only if p is a regular file that holds it, else ErrChanged.
func (p Path) Remove(expected *Content, s Sync) error {
	return p.failed("remove", p.placed(false, s, func(at *place) error {
		return commit.Remove(at.dir, at.name, expected, s)
	}))
}

// RemoveLink removes the link p. Anything else that stands there is ErrMoved.
func (p Path) RemoveLink(s Sync) error {
	return p.failed("remove", p.placed(false, s, func(at *place) error {
		err := commit.RemoveLink(at.dir, at.name, s)
		if errors.Is(err, ErrChanged) {
			err = ErrMoved
		}
		return err
	}))
}

// RemoveParents removes the directories that Create made above p, n of them, as
// long as there is nothing in them.
func (p Path) RemoveParents(n int) error {
	for range n {
		p.abs = filepath.Dir(p.abs)
		if err := p.placed(false, Sync{}, func(at *place) error { return at.dir.RemoveDir(at.name) }); err != nil {
			return p.failed("remove", err)
		}
	}
	return nil
}

// RemoveAll removes the directory p and everything in it, or nothing. Every file,
// link and directory below is first shown to visit, if there is one: an error
// from it ends the call. Then the directory disappears in one step. If something
// came or changed in it that visit has not seen, it is put back: ErrChanged. A
// directory below that does not let its entries go is an error beforehand. Links
// are removed, not followed. commit.RemoveAll has the case in which a part is
// left all the same.
func (p Path) RemoveAll(ctx context.Context, visit func(Path, Info) error, s Sync) error {
	return p.failed("remove", p.placed(false, s, func(at *place) error {
		info, err := at.dir.Stat(at.name)
		if err != nil {
			return err
		}
		if info.Kind != Directory {
			return syscall.ENOTDIR
		}
		seen := commit.Seen{".": info.Stamp}
		w := walker{recursive: true, asLinks: true}
		w.failed = func(_ string, err error) error { return err }
		emptied := "" // the directory last found to let its entries go
		w.fn = func(e *Entry) error {
			if in := path.Dir(e.Rel); in != emptied && runtime.GOOS != "windows" { // which has no such permission
				if err := e.dir.Writable("."); err != nil {
					return err // before anything in the tree is gone
				}
				emptied = in
			}
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			seen[e.Rel] = info.Stamp
			if visit == nil {
				return nil
			}
			return visit(e.Path(), info)
		}
		if err := w.from(ctx, p); err != nil {
			return err
		}
		return commit.RemoveAll(at.dir, at.name, seen, s)
	}))
}

// Mkdir makes the directory p, and its missing parents if asked to. Something
// that stands there is fs.ErrExist.
func (p Path) Mkdir(parents bool, s Sync) error {
	err := p.placed(parents, s, func(at *place) error {
		made, err := commit.Mkdir(at.dir, at.name, s)
		if err == nil && !made {
			err = fs.ErrExist
		}
		return err
	})
	if errors.Is(err, ErrBase) {
		err = fs.ErrExist
	}
	return p.failed("mkdir", err)
}

// RenameOptions say how something is moved or copied.
type RenameOptions struct {
	Overwrite bool // a file that stands at the target is replaced
	MakeDirs  bool // make missing directories of the target
	Sync      Sync
}

// Rename moves a file, a link or a directory in one step. Without Overwrite
// something that stands at to is fs.ErrExist, at whatever moment it came there.
// Between file systems (crossFS) it is copied, put in place and then removed at
// from, and ErrChanged if that changed meanwhile; commit.Move has the rest.
func Rename(from, to Path, o RenameOptions) (crossFS bool, err error) {
	if from.abs == to.abs {
		return false, from.failed("rename", fs.ErrExist)
	}
	err = between(from, to, o, func(dir *opendir.Dir, name string, at *place) error {
		crossFS, err = commit.Move(dir, name, at.dir, at.name, o.Overwrite, from.Key() == to.Key(), o.Sync)
		return err
	})
	return crossFS, from.failed("rename", err)
}

// Copy copies the regular file from to to, permissions included, as a new file
// or over an old one. If from changes meanwhile, ErrChanged.
func Copy(from, to Path, o RenameOptions) error {
	return from.failed("copy", between(from, to, o, func(dir *opendir.Dir, name string, at *place) error {
		return commit.Copy(dir, name, at.dir, at.name, o.Overwrite, o.Sync)
	}))
}

func between(from, to Path, o RenameOptions, do func(dir *opendir.Dir, name string, at *place) error) error {
	err := from.placed(false, o.Sync, func(src *place) error {
		if _, err := src.dir.Stat(src.name); err != nil {
			return err // before a directory is made for it
		}
		return to.placed(o.MakeDirs, o.Sync, func(at *place) error { return do(src.dir, src.name, at) })
	})
	if err != nil {
		return fmt.Errorf("to %s: %w", to, err)
	}
	return nil
}

// Sweep removes what processes that died in the middle of a change left behind
// in the bases, and puts back what such a process held of others; commit.Sweep
// has the details. Temp files of the living stay.
func (b *Bases) Sweep(ctx context.Context) (removed int, err error) {
	for _, base := range b.all {
		n, err := base.sweep(ctx)
		removed += n
		if err != nil {
			return removed, fmt.Errorf("sweep %s: %w", base.path, err)
		}
	}
	return removed, nil
}

func (b *base) sweep(ctx context.Context) (int, error) {
	d, err := b.dir.Dir(".")
	if err != nil {
		return 0, err
	}
	defer d.Close()
	return commit.Sweep(ctx, d)
}

// place is an opened directory and a name in it.
type place struct {
	dir  *opendir.Dir
	name string
	made []made // directories made on the way, outermost first
}

type made struct {
	in   *opendir.Dir
	name string
}

// placed opens the directory that p stands in, making it if asked to, and calls
// do. If that fails, directories that were made go again.
func (p Path) placed(makeDirs bool, s Sync, do func(*place) error) error {
	dir, name, err := p.split()
	if err != nil {
		return err
	}
	at := &place{name: name}
	at.dir, err = p.base.dir.Dir(dir)
	if makeDirs && errors.Is(err, fs.ErrNotExist) {
		at.dir, err = p.base.dir.Dir(".")
		if err == nil {
			err = at.down(dir, s)
		}
	}
	if err == nil {
		err = do(at)
	}
	at.close(err != nil)
	return err
}

// down enters directory after directory, making what is missing.
func (at *place) down(dir string, s Sync) error {
	for name := range strings.SplitSeq(dir, "/") {
		sub, err := at.dir.Dir(name)
		isNew := false
		if errors.Is(err, fs.ErrNotExist) {
			if isNew, err = commit.Mkdir(at.dir, name, s); err == nil {
				sub, err = at.dir.Dir(name)
			}
		}
		switch {
		case err != nil && isNew:
			_ = at.dir.RemoveDir(name)
			return err
		case err != nil:
			return err
		case isNew:
			at.made = append(at.made, made{at.dir, name})
		default:
			at.dir.Close()
		}
		at.dir = sub
	}
	return nil
}

func (at *place) close(undo bool) {
	if at.dir != nil {
		at.dir.Close()
	}
	for _, m := range slices.Backward(at.made) {
		if undo {
			_ = m.in.RemoveDir(m.name)
		}
		m.in.Close()
	}
}
