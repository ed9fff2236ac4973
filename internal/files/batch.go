package files

import (
	"context"
	"sync"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// batchWorkers is how many items of a batch run at once.
const batchWorkers = 8

// each runs every item and returns the results in order. Items on one file run
// one after the other, in order; others side by side.
func each[T, R any](items []T, path func(T) string, run func(T) (R, error)) []Item[R] {
	out := make([]Item[R], len(items))
	groups := make(map[string][]int)
	var order []string
	for i, item := range items {
		p := path(item)
		if groups[p] == nil {
			order = append(order, p)
		}
		groups[p] = append(groups[p], i)
	}
	work := make(chan []int)
	var workers sync.WaitGroup
	for range min(batchWorkers, len(order)) {
		workers.Go(func() {
			for group := range work {
				for _, i := range group {
					out[i] = item(run(items[i]))
				}
			}
		})
	}
	for _, p := range order {
		work <- groups[p]
	}
	close(work)
	workers.Wait()
	return out
}

func item[R any](r R, err error) Item[R] {
	if err != nil {
		return Item[R]{Err: fault.From(err)}
	}
	return Item[R]{Result: r}
}

// BatchRead reads several files, each by itself: together they are no snapshot.
func (e *Engine) BatchRead(ctx context.Context, rs []ReadRequest) ([]Item[*Read], error) {
	scope, err := e.opts.Scope(ctx)
	if err != nil {
		return nil, err
	}
	return each(rs, func(r ReadRequest) string { return r.Path }, func(r ReadRequest) (*Read, error) {
		return again(func() (*Read, error) {
			t, err := e.admit(scope, access.Read, r.Path)
			if err != nil {
				return nil, err
			}
			return t.read(ctx, r)
		})
	}), nil
}

// BatchWrite creates several files, each by itself, or all or none. applied says
// of an atomic batch that it was made.
func (e *Engine) BatchWrite(ctx context.Context, rs []WriteRequest, atomic bool) (items []Item[*Written], applied bool, err error) {
	scope, err := e.opts.Scope(ctx)
	if err != nil {
		return nil, false, err
	}
	if atomic {
		return e.writeAll(ctx, scope, rs)
	}
	dirs, sync := scope.batchSync()
	items = each(rs, func(r WriteRequest) string { return r.Path }, func(r WriteRequest) (*Written, error) {
		return again(func() (*Written, error) {
			t, err := e.admit(scope, access.Write, r.Path)
			if err != nil {
				return nil, err
			}
			return t.write(ctx, r, sync)
		})
	})
	return items, false, e.flush(dirs)
}

// BatchUpdate changes several files, each by itself, or all or none.
func (e *Engine) BatchUpdate(ctx context.Context, rs []UpdateRequest, atomic bool) (items []Item[Outcome[Written]], applied bool, err error) {
	scope, err := e.opts.Scope(ctx)
	if err != nil {
		return nil, false, err
	}
	if atomic {
		return e.updateAll(ctx, scope, rs)
	}
	dirs, sync := scope.batchSync()
	items = each(rs, func(r UpdateRequest) string { return r.Path }, func(r UpdateRequest) (Outcome[Written], error) {
		return again(func() (Outcome[Written], error) {
			t, err := e.admit(scope, access.Update, r.Path)
			if err != nil {
				return Outcome[Written]{}, err
			}
			return t.update(ctx, r, sync)
		})
	})
	return items, false, e.flush(dirs)
}

// writeAll creates all files or none.
func (e *Engine) writeAll(ctx context.Context, scope *Scope, rs []WriteRequest) ([]Item[*Written], bool, error) {
	items := make([]Item[*Written], len(rs))
	steps := make([]*step, len(rs))
	targets := make([]*target, len(rs))
	bad := -1
	for i, r := range rs {
		t, err := e.admit(scope, access.Write, r.Path)
		var raw []byte
		if err == nil {
			raw, err = t.encode(r.Encoding, r.Content)
		}
		if err == nil {
			if _, found := t.path.Stat(); found == nil {
				err = t.exists()
			}
		}
		if err != nil {
			items[i].Err = fault.From(err)
			bad = i
			continue
		}
		targets[i], steps[i] = t, &step{t: t, next: contentOf(raw), makeDirs: r.CreateDirs}
	}
	if bad < 0 {
		lease, err := e.holdAll(ctx, scope, targets, rs[0].Timeout)
		if err != nil {
			return nil, false, err
		}
		defer lease.Release()
		failed, err := e.together(ctx, scope, lease, steps)
		if err == nil {
			for i, s := range steps {
				items[i].Result = &Written{Path: s.t.path.String(), Hash: s.next.hash, BytesWritten: int64(len(s.next.raw))}
			}
			return items, true, nil
		}
		bad = failed
		items[bad].Err = fault.From(targets[bad].failed(err))
	}
	for i := range items {
		if items[i].Err == nil {
			items[i].Err = notApplied(rs[i].Path, bad)
		}
	}
	return items, false, nil
}

// updateAll changes all files or none.
func (e *Engine) updateAll(ctx context.Context, scope *Scope, rs []UpdateRequest) ([]Item[Outcome[Written]], bool, error) {
	items := make([]Item[Outcome[Written]], len(rs))
	targets := make([]*target, 0, len(rs))
	bad := -1
	for i, r := range rs {
		t, err := e.admit(scope, access.Update, r.Path)
		if err == nil {
			err = t.checkEdit(r)
		}
		if err != nil {
			items[i].Err = fault.From(err)
			bad = i
			continue
		}
		targets = append(targets, t)
	}
	if bad < 0 {
		lease, err := e.holdAll(ctx, scope, targets, rs[0].Timeout)
		if err != nil {
			return nil, false, err
		}
		defer lease.Release()
		steps := make([]*step, len(rs))
		for i, t := range targets {
			current, err := t.load()
			var p plan
			if err == nil {
				p, err = t.decide(rs[i], current) //nolint:contextcheck // a look at who made a version is short, and the answer needs it
			}
			switch {
			case err != nil:
				items[i].Err = fault.From(err)
				bad = i
			case p.contention != nil:
				items[i].Result = Outcome[Written]{Contention: p.contention}
				bad = i
			default:
				steps[i] = &step{t: t, old: current, next: contentOf(p.next), merge: p.merge}
			}
		}
		if bad < 0 {
			failed, err := e.together(ctx, scope, lease, steps)
			if err == nil {
				for i, s := range steps {
					items[i].Result = Outcome[Written]{Done: &Written{
						Path: s.t.path.String(), PreviousHash: s.old.hash, Hash: s.next.hash, BytesWritten: int64(len(s.next.raw)), Merge: s.merge,
					}}
				}
				return items, true, nil
			}
			bad = failed
			items[bad].Err = fault.From(targets[bad].failed(err))
		}
	}
	for i := range items {
		if items[i].Err == nil && items[i].Result.Contention == nil {
			items[i].Err = notApplied(rs[i].Path, bad)
		}
	}
	return items, false, nil
}

// batchSync flushes each directory once, at the end of the batch.
func (s *Scope) batchSync() (*fsys.DirSync, fsys.Sync) {
	if s.Limits.Sync.Off {
		return nil, s.Limits.Sync
	}
	dirs := new(fsys.DirSync)
	return dirs, fsys.Sync{Defer: dirs}
}

func (e *Engine) flush(dirs *fsys.DirSync) error {
	if dirs == nil {
		return nil
	}
	if err := dirs.Flush(); err != nil {
		return &fault.Error{Code: fault.WriteError, Op: "batch", Message: "the changes are made but may not survive a power cut: " + err.Error(), Err: err}
	}
	return nil
}
