package files

import (
	"context"
	"errors"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// link returns the link that name is, nil if it is none. Whoever reads or writes
// goes where a link leads, and t is that place; whoever deletes means the link
// itself, as everywhere else: what it leads to may be the only copy.
func (t *target) link(name string) (*target, error) {
	p, err := t.scope.Bases.ResolveLink(name)
	if err != nil {
		return nil, t.failed(err)
	}
	if info, err := p.Stat(); err != nil || info.Kind != fsys.Link {
		return nil, nil // what else it is, or that it is gone, is seen where it leads
	}
	if d := t.scope.Rules.Check(t.op, p.Rel()); !d.Allowed {
		return nil, denied(p.String(), d)
	}
	return &target{Engine: t.Engine, scope: t.scope, op: t.op, path: p}, nil
}

// deleteLink removes the link to t, which need not exist.
func (t *target) deleteLink(ctx context.Context, link *target, r DeleteRequest) (out Outcome[Deleted], err error) {
	info, err := t.path.Stat()
	switch {
	case err == nil && info.Kind == fsys.Special:
		return out, t.failed(fsys.ErrNotRegular)
	case err == nil && info.Kind == fsys.Directory && r.ExpectedHash != "":
		return out, noHash()
	case err == nil && info.Kind == fsys.Directory:
		if err := t.mayVanish(ctx, link); err != nil {
			return out, err
		}
	}
	lease, err := t.hold(ctx, lock.Exclusive, t.scope.timeout(r.Timeout), link, t)
	if err != nil {
		return out, err
	}
	defer lease.Release()
	if r.ExpectedHash != "" {
		current, err := t.loadAny()
		if err != nil {
			return out, err
		}
		if !sameHash(r.ExpectedHash, current.hash) {
			out.Contention = t.contention(r.ExpectedHash, r.DiffFormat, current) //nolint:contextcheck // a look at who made a version is short, and the answer needs it
			return out, nil
		}
	}
	if err := lease.Commit(func() error { return link.path.RemoveLink(t.scope.Limits.Sync) }); err != nil {
		return out, link.failed(err)
	}
	link.announce(ctx, "")
	out.Done = &Deleted{Path: link.path.String(), Link: true}
	return out, nil
}

// mayVanish refuses when there is something in the directory t that may not be
// deleted under the name it has through the link.
func (t *target) mayVanish(ctx context.Context, link *target) error {
	if !t.scope.Rules.Below(t.op, link.path.Rel()) {
		return nil
	}
	err := t.path.Walk(ctx, fsys.WalkOptions{Recursive: true}, func(f *fsys.Entry) error {
		if d := t.scope.Rules.Check(t.op, link.path.Rel()+"/"+f.Rel); !d.Allowed {
			return denied(link.path.String(), d)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fsys.ErrMoved) { // no longer the directory it was
		return t.failed(err)
	}
	return nil
}

func noHash() *fault.Error {
	return fault.New(fault.ValidationError, "expected_hash is for files; a directory has none").With("field", "expected_hash")
}
