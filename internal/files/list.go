package files

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/pattern"
)

// List returns the entries of a directory as they are at this moment; it takes
// no lock.
func (e *Engine) List(ctx context.Context, r ListRequest) (*List, error) {
	t, err := e.admitOne(ctx, access.List, r.Path)
	if err != nil {
		return nil, err
	}
	glob, err := pattern.CompileGlob(r.Pattern, false)
	if err != nil {
		return nil, fault.New(fault.ValidationError, "%v", err).With("field", "pattern")
	}
	info, err := t.path.Stat()
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, fault.New(fault.DirNotFound, "Directory does not exist: %s", t.path).At(t.path.String())
	case err != nil:
		return nil, t.failed(err)
	case info.Kind != fsys.Directory:
		return nil, fault.New(fault.DirNotFound, "%s is a file, not a directory", t.path).At(t.path.String()).
			With("next", "Read a file with async_read.")
	}
	out := &List{Path: t.path.String()}
	err = t.path.Walk(ctx, fsys.WalkOptions{
		Recursive: r.Recursive, Unreadable: func(string, error) { out.Skipped++ },
	}, func(f *fsys.Entry) error { return t.listed(out, f, glob, r.IncludeHashes) })
	if err != nil {
		return nil, t.failed(err)
	}
	out.Truncated = out.Total > len(out.Entries)
	return out, nil
}

// listed adds an entry that the rules let the caller see and the pattern fits.
func (t *target) listed(out *List, f *fsys.Entry, glob *pattern.Glob, hashes bool) error {
	p := f.Path()
	if d := t.scope.Rules.Check(t.op, p.Rel()); !d.Allowed {
		if f.Kind == fsys.Directory {
			return fs.SkipDir
		}
		return nil
	}
	if !glob.Match(f.Rel) {
		return nil
	}
	if out.Total++; len(out.Entries) >= t.scope.Limits.MaxEntries {
		return nil // only counted
	}
	info, err := f.Info()
	if err != nil {
		out.Total-- // it is gone meanwhile
		return nil
	}
	entry := Entry{Name: f.Rel, Dir: info.Kind == fsys.Directory, Other: info.Kind != fsys.Directory && info.Kind != fsys.Regular, Size: info.Size, Modified: info.ModTime}
	if hashes && info.Kind == fsys.Regular {
		entry.Hash, _ = t.opts.History.Tracked(t.scope.Project, p.String())
	}
	out.Entries = append(out.Entries, entry)
	return nil
}

// Status is the state of one file: what it holds and who waits for it.
type Status struct {
	Path   string
	Exists bool
	Hash   string // "" when it is not a file that can be read
	Lock   lock.State
}

// Status looks at one file without waiting for it.
func (e *Engine) Status(ctx context.Context, path string) (*Status, error) {
	t, err := e.admitOne(ctx, access.Status, path)
	if err != nil {
		return nil, err
	}
	out := &Status{Path: t.path.String(), Lock: e.opts.Locks.Inspect(lock.Key(t.path.Key()))}
	info, err := t.path.Stat()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, t.failed(err)
	}
	out.Exists = err == nil
	if out.Exists && info.Kind == fsys.Regular {
		if sum, _, err := t.path.Hash(t.scope.Limits.MaxFileSize); err == nil {
			out.Hash = hashOf(sum)
		} else if tracked, ok := e.opts.History.Tracked(t.scope.Project, t.path.String()); ok {
			out.Hash = tracked
		}
	}
	return out, nil
}

// Overview is the state of the engine in a project.
type Overview struct {
	Project      string
	TrackedFiles int
	Locks        lock.Stats
	Bases        []string
}

// Overview looks at everything at once.
func (e *Engine) Overview(ctx context.Context) (*Overview, error) {
	scope, err := e.opts.Scope(ctx)
	if err != nil {
		return nil, err
	}
	return &Overview{
		Project: scope.Project, TrackedFiles: e.opts.History.Count(scope.Project), Locks: e.opts.Locks.Stats(), Bases: scope.Bases.Paths(),
	}, nil
}
