package files

import (
	"context"
	"errors"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/history"
)

// Delete removes a file, a link, or with Recursive a directory. What is removed
// stays in history.
func (e *Engine) Delete(ctx context.Context, r DeleteRequest) (Outcome[Deleted], error) {
	return again(func() (out Outcome[Deleted], err error) {
		t, err := e.admitOne(ctx, access.Delete, r.Path)
		if err != nil {
			return out, err
		}
		if link, err := t.link(r.Path); err != nil {
			return out, err
		} else if link != nil {
			return t.deleteLink(ctx, link, r)
		}
		info, err := t.path.Stat()
		if err != nil {
			return out, t.failed(err)
		}
		if info.Kind == fsys.Directory {
			out.Done, err = t.deleteDir(ctx, r)
			return out, err
		}
		return t.deleteFile(ctx, r)
	})
}

func (t *target) deleteFile(ctx context.Context, r DeleteRequest) (out Outcome[Deleted], err error) {
	lease, err := t.hold(ctx, lock.Exclusive, t.scope.timeout(r.Timeout), t)
	if err != nil {
		return out, err
	}
	defer lease.Release()
	for range outsideTries {
		current, err := t.loadAny()
		if err != nil {
			return out, err
		}
		if r.ExpectedHash != "" && !sameHash(r.ExpectedHash, current.hash) {
			out.Contention = t.contention(r.ExpectedHash, r.DiffFormat, current) //nolint:contextcheck // a look at who made a version is short, and the answer needs it
			return out, nil
		}
		t.served(current)
		onDisk := current.onDisk()
		err = lease.Commit(func() error { return t.path.Remove(&onDisk, t.scope.Limits.Sync) })
		if errors.Is(err, fsys.ErrChanged) {
			continue // an outside editor was faster: look again
		}
		if err != nil {
			return out, t.failed(err)
		}
		t.gone(ctx, current)
		out.Done = &Deleted{Path: t.path.String(), DeletedHash: current.hash, Entries: 1}
		return out, nil
	}
	return out, t.failed(fsys.ErrChanged)
}

// gone notes that the file with this content was removed.
func (t *target) gone(ctx context.Context, c content) {
	t.put(c, history.OpDelete, author(ctx, t.op))
	t.announce(ctx, "")
}

// deleteDir removes a directory with everything in it, under the locks of all
// its files.
func (t *target) deleteDir(ctx context.Context, r DeleteRequest) (*Deleted, error) {
	if !r.Recursive {
		return nil, fault.New(fault.IsADirectory, "%s is a directory", t.path).At(t.path.String()).
			With("next", "Set recursive: true to delete it with everything in it.")
	}
	if r.ExpectedHash != "" {
		return nil, noHash()
	}
	for range outsideTries {
		done, err := t.deleteTree(ctx, r.Timeout)
		if !errors.Is(err, fsys.ErrChanged) {
			return done, err
		}
	}
	return nil, t.failed(fsys.ErrChanged)
}

func (t *target) deleteTree(ctx context.Context, timeout *time.Duration) (*Deleted, error) {
	inside, lease, err := t.holdTree(ctx, timeout)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	held := make(map[string]content, len(inside.files))
	for _, f := range inside.files {
		c, err := f.loadAny()
		if err == nil { // a link or a special file has no content to keep
			held[f.path.String()] = c
			f.served(c)
		}
	}
	err = lease.Commit(func() error {
		return t.path.RemoveAll(ctx, func(p fsys.Path, i fsys.Info) error {
			if d := t.scope.Rules.Check(t.op, p.Rel()); !d.Allowed {
				return denied(p.String(), d)
			}
			if _, ok := held[p.String()]; !ok && i.Kind == fsys.Regular {
				return fsys.ErrChanged // it came after we took the locks
			}
			return nil
		}, t.scope.Limits.Sync)
	})
	if err != nil {
		return nil, t.failed(err)
	}
	for _, f := range inside.files {
		if c, ok := held[f.path.String()]; ok {
			f.gone(ctx, c)
		}
	}
	return &Deleted{Path: t.path.String(), Entries: inside.entries}, nil
}

// tree is what lies in a directory.
type tree struct {
	files   []*target
	paths   []fsys.Path // directories too
	entries int         // the directory itself included
}

// maxTree bounds how many files one call takes into its hands.
const maxTree = 10_000

// holdTree admits and locks everything in a directory at once, and the places
// beside it. What came there before the locks were had is found by who acts.
func (t *target) holdTree(ctx context.Context, timeout *time.Duration, beside ...*target) (tree, lock.Lease, error) {
	inside, err := t.survey(ctx)
	if err != nil {
		return tree{}, lock.Lease{}, err
	}
	all := append(append([]*target{t}, beside...), inside.files...)
	lease, err := t.hold(ctx, lock.Exclusive, t.scope.timeout(timeout), all...)
	return inside, lease, err
}

// survey lists what lies in the directory, each entry within the rules.
func (t *target) survey(ctx context.Context) (tree, error) {
	out := tree{entries: 1}
	err := t.path.Walk(ctx, fsys.WalkOptions{Recursive: true}, func(f *fsys.Entry) error {
		if out.entries++; out.entries > maxTree {
			return fault.New(failure(t.op), "the directory has more than %d entries; take it in parts", maxTree).At(t.path.String())
		}
		p := f.Path()
		if d := t.scope.Rules.Check(t.op, p.Rel()); !d.Allowed {
			return denied(p.String(), d)
		}
		out.paths = append(out.paths, p)
		if f.Kind != fsys.Directory {
			out.files = append(out.files, &target{Engine: t.Engine, scope: t.scope, op: t.op, path: p})
		}
		return nil
	})
	if err != nil {
		return tree{}, t.failed(err)
	}
	return out, nil
}
