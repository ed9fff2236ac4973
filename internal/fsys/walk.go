package fsys

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/commit"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/opendir"
)

// WalkOptions say how a directory is gone through.
type WalkOptions struct {
	Recursive bool // into directories too, not through links to them
	// Unreadable, if not nil, is told of directories that could not be read.
	Unreadable func(rel string, err error)
}

// Entry is a name that Walk came by. It is valid during the call only.
type Entry struct {
	Rel    string // below the directory Walk started in, with slashes
	Kind   Kind   // of a link: what it leads to; Link only if that is out of reach or missing
	IsLink bool

	start  Path
	dir    *opendir.Dir
	name   string
	target Path // of a link that leads to something
}

// Path returns the path of the entry, not following a link.
func (e *Entry) Path() Path {
	abs, between := e.start.abs, sep
	if os.IsPathSeparator(abs[len(abs)-1]) { // only a root ends so
		between = ""
	}
	return Path{base: e.start.base, abs: abs + between + filepath.FromSlash(e.Rel)} // both are clean
}

// Info looks at the entry, or at what it leads to if it is a link that leads to
// something.
func (e *Entry) Info() (Info, error) {
	if e.target.base != nil {
		return e.target.Stat()
	}
	info, err := e.dir.Stat(e.name)
	if err != nil {
		return Info{}, e.Path().failed("stat", err)
	}
	return info, nil
}

// Walk calls fn for what is in the directory p, sorted by name in each directory,
// a directory before what is in it. Temp files of ours are left out. fn may
// return fs.SkipDir to leave out a directory's content, or the rest of the
// directory when it was called for something else, and fs.SkipAll to end. What
// vanishes meanwhile is passed over.
func (p Path) Walk(ctx context.Context, o WalkOptions, fn func(*Entry) error) error {
	w := walker{recursive: o.Recursive, fn: fn, failed: func(rel string, err error) error {
		if o.Unreadable != nil {
			o.Unreadable(rel, err)
		}
		return nil
	}}
	return p.failed("list", w.from(ctx, p))
}

type walker struct {
	recursive bool
	asLinks   bool // links are what they are, not what they lead to
	fn        func(*Entry) error
	failed    func(rel string, err error) error
}

func (w *walker) from(ctx context.Context, p Path) error {
	d, err := p.base.dir.Dir(p.Rel())
	if err != nil {
		return err
	}
	defer d.Close()
	entries, err := d.Read()
	if err != nil {
		return err
	}
	err = w.through(ctx, p, d, entries, ".", 0)
	if errors.Is(err, fs.SkipAll) || errors.Is(err, fs.SkipDir) {
		return nil
	}
	return err
}

func (w *walker) through(ctx context.Context, start Path, d *opendir.Dir, entries []opendir.Entry, rel string, depth int) error {
	slices.SortFunc(entries, func(a, b opendir.Entry) int { return strings.Compare(a.Name, b.Name) })
	prefix := ""
	if rel != "." {
		prefix = rel + "/"
	}
	var e Entry
	for i := range entries {
		if i%256 == 0 {
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
		name := entries[i].Name
		if commit.IsTemp(name) {
			continue
		}
		e = Entry{Rel: prefix + name, Kind: entries[i].Kind, start: start, dir: d, name: name}
		if e.Kind == Link {
			e.IsLink = true
			if !w.asLinks {
				e.follow()
			}
		}
		err := w.fn(&e)
		if errors.Is(err, fs.SkipDir) {
			if e.Kind == Directory && !e.IsLink {
				continue
			}
			return nil
		}
		if err != nil {
			return err
		}
		if w.recursive && e.Kind == Directory && !e.IsLink {
			if err := w.down(ctx, start, d, name, e.Rel, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walker) down(ctx context.Context, start Path, d *opendir.Dir, name, rel string, depth int) error {
	if depth > commit.Deepest {
		return w.failed(rel, syscall.ENAMETOOLONG)
	}
	sub, err := d.Dir(name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, opendir.ErrLink) || errors.Is(err, syscall.ENOTDIR) {
			return nil // no longer what it was when it was listed
		}
		return w.failed(rel, err)
	}
	defer sub.Close()
	entries, err := sub.Read()
	if err != nil {
		if err := w.failed(rel, err); err != nil {
			return err
		}
	}
	return w.through(ctx, start, sub, entries, rel, depth)
}

// follow finds out what a link leads to.
func (e *Entry) follow() {
	target, err := e.start.base.of.Resolve(path.Join(e.start.abs, e.Rel))
	if err != nil {
		return
	}
	if info, err := target.Stat(); err == nil && info.Kind != Link {
		e.Kind, e.target = info.Kind, target
	}
}
