package files

import (
	"bytes"
	"context"
	"errors"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// Update changes an existing file, or tells a late caller what others changed.
func (e *Engine) Update(ctx context.Context, r UpdateRequest) (Outcome[Written], error) {
	return again(func() (Outcome[Written], error) {
		t, err := e.admitOne(ctx, access.Update, r.Path)
		if err != nil {
			return Outcome[Written]{}, err
		}
		return t.update(ctx, r, t.scope.Limits.Sync)
	})
}

// outsideTries is how often a change is tried again when somebody outside saves
// the file at just that moment.
const outsideTries = 5

func (t *target) update(ctx context.Context, r UpdateRequest, sync fsys.Sync) (out Outcome[Written], err error) {
	if err := t.checkEdit(r); err != nil {
		return out, err
	}
	if _, err := t.path.Stat(); err != nil {
		return out, t.failed(err) // no need to wait for that
	}
	lease, err := t.hold(ctx, lock.Exclusive, t.scope.timeout(r.Timeout), t)
	if err != nil {
		return out, err
	}
	defer lease.Release()
	for range outsideTries {
		current, err := t.load()
		if err != nil {
			return out, err
		}
		plan, err := t.decide(r, current) //nolint:contextcheck // a look at who made a version is short, and the answer needs it
		if err != nil || plan.contention != nil {
			return Outcome[Written]{Contention: plan.contention}, err
		}
		next, err := t.replace(ctx, lease, current, plan.next, sync)
		if errors.Is(err, fsys.ErrChanged) {
			continue // an outside editor was faster: look again
		}
		if err != nil {
			return out, err
		}
		return Outcome[Written]{Done: &Written{
			Path: t.path.String(), PreviousHash: current.hash, Hash: next.hash,
			BytesWritten: int64(len(next.raw)), Merge: plan.merge,
		}}, nil
	}
	return out, t.failed(fsys.ErrChanged)
}

// checkEdit refuses an update that cannot be right whatever the file holds.
func (t *target) checkEdit(r UpdateRequest) error {
	if (r.Content == nil) == (r.Patches == nil) {
		return fault.New(fault.ContentOrPatchesRequired, "give either content or patches").At(t.path.String())
	}
	if r.Content == nil && len(r.Patches) == 0 {
		return fault.New(fault.ContentOrPatchesRequired, "patches is empty; give at least one").At(t.path.String())
	}
	if r.Patches != nil { // whether one fits tells what is there
		if d := t.scope.Rules.Check(access.Read, t.path.Rel()); !d.Allowed {
			return denied(t.path.String(), d).With("next", "Patches need a file that may be read; replace it whole with content.")
		}
	}
	return nil
}

// plan is what shall become of a file: new content, or an answer for a late
// caller.
type plan struct {
	next       []byte
	merge      *Merge
	contention *Contention
}

// decide applies the edit to what the caller knows, or to what others made of it
// when that is asked for and possible.
func (t *target) decide(r UpdateRequest, current content) (plan, error) {
	if sameHash(r.ExpectedHash, current.hash) {
		next, err := t.edit(r, current)
		return plan{next: next}, err
	}
	late := t.late(r.ExpectedHash, r.DiffFormat, current)
	mode := r.OnContention
	if mode == "" {
		mode = t.scope.Limits.OnContention
	}
	if mode == "merge" {
		if next, ok := t.merge(r, late, current); ok {
			return plan{next: next, merge: &Merge{
				ExpectedHash: r.ExpectedHash, CurrentHash: current.hash, Diff: late.contention.Diff, ChangedBy: late.contention.ChangedBy,
			}}, nil
		}
	}
	t.judge(r, late, current)
	t.served(current) // its hash is in the answer, and may come back as a base
	return plan{contention: late.contention}, nil
}

// replace commits new bytes over the content they were made from.
func (t *target) replace(ctx context.Context, lease lock.Lease, old content, raw []byte, flush fsys.Sync) (content, error) {
	t.served(old) // what is replaced can be taken back
	if bytes.Equal(old.raw, raw) {
		return old, nil
	}
	next := hashing(raw)
	err := lease.Commit(func() error { return t.path.Replace(raw, old.onDisk(), fsys.WriteOptions{Sync: flush}) })
	c := next()
	if err != nil {
		if errors.Is(err, fsys.ErrChanged) {
			return content{}, err
		}
		return content{}, t.failed(err)
	}
	t.remember(ctx, c)
	return c, nil
}

// longHash is from how many bytes on a hash takes longer than to start a
// goroutine for it.
const longHash = 64 << 10

// hashing is contentOf that goes on while something else is done, such as waiting
// for a disk. Nothing stays behind if nobody asks for its result.
func hashing(raw []byte) func() content {
	if len(raw) < longHash {
		return func() content { return contentOf(raw) }
	}
	done := make(chan content, 1)
	go func() { done <- contentOf(raw) }()
	return func() content { return <-done }
}
