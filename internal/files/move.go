package files

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// pair admits the two paths of a rename or copy.
func (e *Engine) pair(ctx context.Context, op access.Op, from, to string) (source, dest *target, err error) {
	scope, err := e.opts.Scope(ctx)
	if err != nil {
		return nil, nil, err
	}
	if source, err = e.admit(scope, op, from); err != nil {
		return nil, nil, err
	}
	if dest, err = e.admit(scope, op, to); errors.Is(err, syscall.ENOTDIR) {
		return nil, nil, coded(access.Write, to, syscall.ENOTDIR)
	} else if err != nil {
		return nil, nil, err
	}
	if source.path.Key() == dest.path.Key() && source.path.String() == dest.path.String() {
		return nil, nil, fault.New(fault.ValidationError, "both paths are the same file").At(source.path.String())
	}
	return source, dest, nil
}

// Rename moves a file, or with Recursive a directory, under the locks of both
// places.
func (e *Engine) Rename(ctx context.Context, r RenameRequest) (Outcome[Renamed], error) {
	return again(func() (Outcome[Renamed], error) { return e.rename(ctx, r) })
}

func (e *Engine) rename(ctx context.Context, r RenameRequest) (out Outcome[Renamed], err error) {
	from, to, err := e.pair(ctx, access.Rename, r.OldPath, r.NewPath)
	if err != nil {
		return out, err
	}
	if d := from.scope.Rules.Move(from.path.Rel(), to.path.Rel(), r.Overwrite); !d.Allowed {
		return out, denied(from.path.String(), d)
	}
	info, err := from.path.Stat()
	if err != nil {
		return out, from.failed(err)
	}
	if err := to.free(r.Overwrite && info.Kind != fsys.Directory); err != nil {
		return out, err
	}
	if info.Kind == fsys.Directory {
		done, err := from.renameDir(ctx, to, r)
		return Outcome[Renamed]{Done: done}, err
	}
	lease, err := e.hold(ctx, lock.Exclusive, from.scope.timeout(r.Timeout), from, to)
	if err != nil {
		return out, err
	}
	defer lease.Release()
	for range outsideTries {
		if out, err = from.renameFile(ctx, lease, to, r); !errors.Is(err, fsys.ErrChanged) {
			return out, err
		}
	}
	return out, from.failed(fsys.ErrChanged)
}

// renameFile moves a file under its lock; ErrChanged if somebody outside changed it
// after it was looked at.
func (t *target) renameFile(ctx context.Context, lease lock.Lease, to *target, r RenameRequest) (out Outcome[Renamed], err error) {
	current, err := t.loadAny()
	if err != nil {
		return out, err
	}
	if r.ExpectedHash != "" && !sameHash(r.ExpectedHash, current.hash) {
		return Outcome[Renamed]{Contention: t.contention(r.ExpectedHash, r.DiffFormat, current)}, nil //nolint:contextcheck // a look at who made a version is short, and the answer needs it
	}
	t.served(current)
	if r.Overwrite {
		if old, err := to.loadAny(); err == nil {
			to.served(old) // what is overwritten can be taken back
		}
	}
	var done *Renamed
	if err := t.making(func() error {
		done, err = t.moveTo(to, lease, r, &current)
		return err
	}); err != nil {
		return out, err
	}
	done.Hash = current.hash
	t.opts.History.Rename(t.scope.Project, t.path.String(), to.path.String())
	t.announce(ctx, "")
	to.remember(ctx, current)
	return Outcome[Renamed]{Done: done}, nil
}

// free refuses a place that is taken.
func (t *target) free(overwrite bool) error {
	info, err := t.path.Stat()
	switch {
	case err == nil && info.Kind == fsys.Directory:
		return fault.New(fault.FileExists, "there is a directory at %s", t.path).At(t.path.String())
	case err == nil && !overwrite:
		return t.exists().With("next", "Choose another path, or set overwrite: true.")
	case err == nil && info.Kind != fsys.Regular:
		return t.failed(fsys.ErrNotRegular)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return t.failed(err)
	}
	return nil
}

// moveTo moves the file that was read as c, or what else there is.
func (t *target) moveTo(to *target, lease lock.Lease, r RenameRequest, c *content) (*Renamed, error) {
	done := &Renamed{OldPath: t.path.String(), NewPath: to.path.String()}
	err := lease.Commit(func() (err error) {
		if c != nil {
			if err := t.still(*c); err != nil {
				return err
			}
		}
		done.CrossFilesystem, err = fsys.Rename(t.path, to.path, fsys.RenameOptions{
			Overwrite: r.Overwrite, MakeDirs: r.CreateDirs, Sync: t.scope.Limits.Sync,
		})
		if info, look := to.path.Stat(); err == nil && look == nil && info.Kind == fsys.Link {
			// A link took the place of what was to be moved at the last moment.
			if _, back := fsys.Rename(to.path, t.path, fsys.RenameOptions{Sync: t.scope.Limits.Sync}); back == nil {
				return fsys.ErrMoved
			}
		}
		if err == nil && c != nil && !r.Overwrite && !done.CrossFilesystem && errors.Is(to.still(*c), fsys.ErrChanged) {
			// It was saved at the last moment: it goes back, to be looked at again.
			if _, back := fsys.Rename(to.path, t.path, fsys.RenameOptions{Sync: t.scope.Limits.Sync}); back == nil {
				return fsys.ErrChanged
			}
		}
		return err
	})
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, to.exists()
	case errors.Is(err, fs.ErrNotExist):
		return nil, to.noDir()
	case err != nil:
		return nil, t.failed(err)
	}
	return done, nil
}

func (t *target) noDir() error {
	return fault.New(fault.DirNotFound, "the directory of %s does not exist", t.path).At(t.path.String()).
		With("next", "Set create_dirs, or make it with async_mkdir.")
}

func (t *target) renameDir(ctx context.Context, to *target, r RenameRequest) (*Renamed, error) {
	switch {
	case !r.Recursive:
		return nil, fault.New(fault.IsADirectory, "%s is a directory", t.path).At(t.path.String()).
			With("next", "Set recursive: true to move it with everything in it.")
	case r.ExpectedHash != "":
		return nil, noHash()
	case fsys.Within(t.path.String(), to.path.String()):
		return nil, fault.New(fault.ValidationError, "a directory cannot be moved into itself").At(to.path.String())
	}
	_, lease, err := t.holdTree(ctx, r.Timeout, to)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	t.tree.Lock()
	defer t.tree.Unlock()
	inside, err := t.survey(ctx) // again: now nothing comes any more
	if err != nil {
		return nil, err
	}
	for _, p := range inside.paths {
		// There may be a forbidden place below the new name that is not below the old.
		moved := to.path.Rel() + strings.TrimPrefix(p.Rel(), t.path.Rel())
		if d := t.scope.Rules.Move(p.Rel(), moved, false); !d.Allowed {
			return nil, denied(p.String(), d)
		}
	}
	done, err := t.moveTo(to, lease, r, nil)
	if err != nil {
		return nil, err
	}
	t.opts.History.RenameTree(t.scope.Project, t.path.String(), to.path.String())
	t.announce(ctx, "")
	to.announce(ctx, "")
	return done, nil
}

// Copy copies a file byte for byte.
func (e *Engine) Copy(ctx context.Context, r CopyRequest) (*Copied, error) {
	return again(func() (*Copied, error) { return e.copy(ctx, r) })
}

func (e *Engine) copy(ctx context.Context, r CopyRequest) (*Copied, error) {
	from, to, err := e.pair(ctx, access.Copy, r.From, r.To)
	if err != nil {
		return nil, err
	}
	if d := from.scope.Rules.Copy(from.path.Rel(), to.path.Rel(), r.Overwrite); !d.Allowed {
		return nil, denied(to.path.String(), d)
	}
	if err := to.free(r.Overwrite); err != nil {
		return nil, err
	}
	lease, err := e.hold(ctx, lock.Exclusive, from.scope.timeout(r.Timeout), from, to)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	for range outsideTries {
		done, err := from.copyTo(ctx, lease, to, r)
		if !errors.Is(err, fsys.ErrChanged) {
			return done, err
		}
	}
	return nil, from.failed(fsys.ErrChanged)
}

// copyTo copies a file under its lock; ErrChanged if somebody outside changed it
// after it was looked at.
func (t *target) copyTo(ctx context.Context, lease lock.Lease, to *target, r CopyRequest) (*Copied, error) {
	c, err := t.load()
	if err != nil {
		return nil, err
	}
	if d := t.scope.Content.ScanBytes(c.raw); d != nil {
		return nil, t.blocked(d)
	}
	if r.Overwrite {
		if old, err := to.load(); err == nil {
			to.served(old)
		}
	}
	err = t.making(func() error {
		return lease.Commit(func() error {
			if err := t.still(c); err != nil {
				return err
			}
			return fsys.Copy(t.path, to.path, fsys.RenameOptions{Overwrite: r.Overwrite, MakeDirs: r.CreateDirs, Sync: t.scope.Limits.Sync})
		})
	})
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, to.exists()
	case errors.Is(err, fs.ErrNotExist):
		return nil, to.noDir()
	case err != nil:
		return nil, to.failed(err)
	}
	to.remember(ctx, c)
	return &Copied{From: t.path.String(), To: to.path.String(), Hash: c.hash, BytesWritten: int64(len(c.raw))}, nil
}

// Mkdir makes a directory.
func (e *Engine) Mkdir(ctx context.Context, r MkdirRequest) (*Made, error) {
	t, err := e.admitOne(ctx, access.Mkdir, r.Path)
	if err != nil {
		return nil, err
	}
	info, err := t.path.Stat()
	switch {
	case err == nil && info.Kind == fsys.Directory:
		return &Made{Path: t.path.String()}, nil
	case err == nil:
		return nil, t.exists()
	}
	if err := t.making(func() error { return t.path.Mkdir(r.Parents, t.scope.Limits.Sync) }); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, t.noDir()
		}
		return nil, t.failed(err)
	}
	return &Made{Path: t.path.String(), Created: true}, nil
}
