package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
)

// checkModel drives a locker and a naive model of it by the same random steps
// and compares them after each.
func checkModel(t *testing.T, newLocker func(*testing.T) Locker) {
	synctest.Test(t, func(t *testing.T) {
		// rapid asks a *testing.T for its deadline, which a bubble refuses.
		rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) {
			m := &model{T: rt, locker: newLocker(t), ctx: t.Context()}
			defer m.end()
			rt.Repeat(map[string]func(*rapid.T){
				"hold":    m.hold,
				"release": m.release,
				"cancel":  m.cancel,
				"begin":   m.begin,
				"finish":  m.finish,
				"sleep":   m.sleep,
				"":        m.check,
			})
		})
	})
}

var keys = []lock.Key{"a", "b", "c", "d"}

// model says of every request what should have become of it. A request has a
// key once no earlier request for the key is in its way: that is all the rule.
type model struct {
	*rapid.T
	locker Locker
	ctx    context.Context //nolint:containedctx // the test's own, for the steps
	all    []*request      // in order of arrival
}

type request struct {
	name     string
	mode     lock.Mode
	keys     []lock.Key
	ttl      time.Duration
	deadline time.Time // zero: none
	cancel   context.CancelFunc

	live    bool      // in some queue
	in      bool      // has all its keys
	expires time.Time // when in
	ended   bool      // released while a commit runs
	want    error     // of Hold, when it never gets in
	lost    bool      // the lease has ended

	commit chan struct{} // ends the running commit
	result chan error    // of the running commit

	done  chan struct{} // closed when Hold has returned what follows
	lease lock.Lease
	err   error
}

func (m *model) hold(t *rapid.T) {
	n := len(m.all)
	r := &request{
		name: fmt.Sprint("r", n),
		mode: lock.Mode(rapid.IntRange(0, 1).Draw(t, "mode")),
		keys: rapid.SliceOfNDistinct(rapid.SampledFrom(keys), 1, 3, rapid.ID).Draw(t, "keys"),
		// Odd fractions, so that no two ends of time fall together.
		ttl:  time.Duration(rapid.IntRange(1, 20).Draw(t, "ttl"))*time.Second + time.Duration(n*7919+1),
		live: true,
		done: make(chan struct{}),
	}
	var ctx context.Context
	if w := rapid.IntRange(0, 10).Draw(t, "wait"); w > 0 {
		r.deadline = time.Now().Add(time.Duration(w)*time.Second + time.Duration(n*104729))
		ctx, r.cancel = context.WithDeadline(m.ctx, r.deadline)
	} else {
		ctx, r.cancel = context.WithCancel(m.ctx)
	}
	m.all = append(m.all, r)
	go func() {
		r.lease, r.err = m.locker.Hold(ctx, lock.Request{Mode: r.mode, Keys: r.keys, TTL: r.ttl, Owner: lock.Owner{Op: r.name}})
		close(r.done)
	}()
	m.settle()
}

// pick draws a request that fits, or skips the step.
func (m *model) pick(t *rapid.T, fits func(*request) bool) *request {
	var some []*request
	for _, r := range m.all {
		if fits(r) {
			some = append(some, r)
		}
	}
	if len(some) == 0 {
		t.Skip("nobody")
	}
	return some[rapid.IntRange(0, len(some)-1).Draw(t, "who")]
}

func (m *model) release(t *rapid.T) {
	r := m.pick(t, func(r *request) bool { return closed(r.done) && r.err == nil })
	r.lease.Release()
	r.lost = true
	if r.commit == nil {
		r.live = false
	} else {
		r.ended = true
	}
	m.settle()
}

func (m *model) cancel(t *rapid.T) {
	r := m.pick(t, func(r *request) bool { return r.live && !r.in })
	r.cancel()
	r.live, r.want = false, context.Canceled
	m.settle()
}

func (m *model) begin(t *rapid.T) {
	r := m.pick(t, func(r *request) bool { return closed(r.done) && r.err == nil && r.commit == nil })
	if r.lost {
		if err := r.lease.Commit(func() error { return nil }); !errors.Is(err, lock.ErrLost) {
			t.Fatalf("%s: Commit = %v, want ErrLost", r.name, err)
		}
		return
	}
	r.commit, r.result = make(chan struct{}), make(chan error, 1)
	go func() { r.result <- r.lease.Commit(func() error { <-r.commit; return nil }) }()
	synctest.Wait()
}

func (m *model) finish(t *rapid.T) {
	r := m.pick(t, func(r *request) bool { return r.commit != nil })
	close(r.commit)
	if err := <-r.result; err != nil {
		t.Fatalf("%s: Commit = %v", r.name, err)
	}
	r.commit = nil
	if r.ended {
		r.live = false
	}
	m.settle()
}

// sleep lets time pass from one end of a wait or a lease to the next.
func (m *model) sleep(t *rapid.T) {
	until := time.Now().Add(time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond)
	for {
		next := until
		for _, r := range m.all {
			if end := r.end(); !end.IsZero() && end.Before(next) {
				next = end
			}
		}
		time.Sleep(time.Until(next))
		for _, r := range m.all {
			if end := r.end(); end.IsZero() || end.After(next) {
				continue
			}
			switch {
			case !r.in:
				r.live, r.want = false, lock.ErrTimeout
			case r.commit != nil:
				r.lost, r.ended = true, true
			default:
				r.lost, r.live = true, false
			}
		}
		m.settle()
		if next.Equal(until) {
			return
		}
	}
}

// end is when time will change the state of r by itself, zero for never.
func (r *request) end() time.Time {
	switch {
	case !r.live || r.ended:
		return time.Time{}
	case r.in:
		return r.expires
	default:
		return r.deadline
	}
}

// settle works out who gets in now, and waits until the locker has come to rest.
func (m *model) settle() {
	for _, r := range m.all {
		if r.live && !r.in && !slices.ContainsFunc(r.keys, func(k lock.Key) bool { return !m.has(r, k) }) {
			r.in, r.expires = true, time.Now().Add(r.ttl)
		}
	}
	synctest.Wait()
}

// has reports whether r, which lives, has been given k.
func (m *model) has(r *request, k lock.Key) bool {
	for _, o := range m.all {
		if o == r {
			return true
		}
		if o.live && slices.Contains(o.keys, k) && (o.mode == lock.Exclusive || r.mode == lock.Exclusive) {
			return false
		}
	}
	return true
}

func (m *model) check(t *rapid.T) {
	for _, r := range m.all {
		switch done := closed(r.done); {
		case done != (r.in || r.want != nil):
			t.Fatalf("%s: returned %v, want in %v or error %v", r.name, done, r.in, r.want)
		case done && !errors.Is(r.err, r.want):
			t.Fatalf("%s: error %v, want %v", r.name, r.err, r.want)
		}
	}
	var want lock.Stats
	for _, k := range keys {
		var in, out []string
		access := lock.Unlocked
		for _, r := range m.all {
			switch {
			case !r.live || !slices.Contains(r.keys, k):
			case !m.has(r, k):
				out = append(out, r.name)
			case r.mode == lock.Exclusive:
				in, access = append(in, r.name), lock.WriteLocked
				want.Exclusive++
			default:
				in, access = append(in, r.name), lock.ReadLocked
				want.Shared++
			}
		}
		got := m.locker.Inspect(k)
		if l := strings.Join(in, " ") + " | " + strings.Join(out, " "); line(got) != l || got.Access != access {
			t.Fatalf("%s: %s %s, want %s %s", k, got.Access, line(got), access, l)
		}
	}
	for _, r := range m.all {
		if r.live && !r.in {
			want.Queued++
		}
	}
	if got := m.locker.Stats(); got != want {
		t.Fatalf("Stats = %+v, want %+v", got, want)
	}
}

// end lets everybody go, so that no goroutine outlives the run.
func (m *model) end() {
	for _, r := range m.all {
		r.cancel()
		if r.commit != nil {
			close(r.commit)
		}
	}
	synctest.Wait()
	for _, r := range m.all {
		r.lease.Release()
	}
	synctest.Wait()
	if got := m.locker.Stats(); got != (lock.Stats{}) {
		m.Errorf("at the end Stats = %+v", got)
	}
}
