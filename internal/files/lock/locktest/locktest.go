// Package locktest is the contract of lock.Table as tests: every implementation
// of locks passes the one suite.
//
// All of it but the stress test runs in synctest bubbles, so that waits are seen
// rather than slept for and times are exact.
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

	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
)

// Locker is what the suite tests.
type Locker interface {
	Hold(context.Context, lock.Request) (lock.Lease, error)
	Inspect(lock.Key) lock.State
	Stats() lock.Stats
}

// Run runs the suite. newLocker returns a locker that nobody uses; it is called
// inside the bubble of each test.
func Run(t *testing.T, newLocker func(*testing.T) Locker) {
	for _, c := range []struct {
		name string
		test func(*room)
	}{
		{"SharedLeasesAreInTogether", sharedTogether},
		{"ExclusiveLeaseIsAlone", exclusiveAlone},
		{"ReadNeverPassesQueuedWrite", readBehindWrite},
		{"QueuedReadsAreLetInTogether", readsTogether},
		{"ArrivalIsTheOrderOfService", arrivalOrder},
		{"WaitEndsAtItsDeadline", deadline},
		{"DeadlineBoundsTheWaitAlone", pastDeadline},
		{"ReleaseAtTheDeadlineIsOneOrTheOther", releaseAtDeadline},
		{"CancelledCallerNeverGetsIn", cancelled},
		{"ContextDoesNotEndTheLease", contextAfterGrant},
		{"WaiterThatLeavesLetsOthersMoveUp", leaverFreesOthers},
		{"SeveralKeysAreHeldAtOnce", severalKeys},
		{"SeveralKeysTakeTheirPlacesOnArrival", severalPlaces},
		{"SeveralKeysNeverDeadlock", crossedKeys},
		{"WaiterForSeveralKeysLeavesAllQueues", severalLeave},
		{"RepeatedKeyCountsOnce", repeatedKey},
		{"RequestWithoutKeyIsRefused", noKey},
		{"CommitIsRefusedFromTheTTLOn", commitAtTTL},
		{"LapsedLeaseLetsTheNextIn", lapse},
		{"LapsedLeaseOfSeveralKeysFreesAll", lapseSeveral},
		{"NextGetsInAfterALeaseNobodyWaitedFor", lapsedUnseen},
		{"RunningCommitKeepsTheKeys", commitOutlivesTTL},
		{"RunningCommitKeepsTheKeysAfterRelease", commitOutlivesRelease},
		{"CommitReturnsTheErrorAndSurvivesAPanic", commitFails},
		{"ReleaseIsIdempotent", releaseTwice},
		{"ZeroLeaseHoldsNothing", zeroLease},
		{"TokensRise", tokens},
		{"InspectTellsWhoIsInAndWhoWaits", inspect},
		{"InspectShowsAHolderThatStillWaits", inspectPartial},
		{"StatsCountLocksAndWaiters", stats},
		{"PositionIsTold", position},
		{"SlowListenerDelaysOnlyItself", slowListener},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &room{T: t, Locker: newLocker(t)}
				c.test(r)
				r.leave()
			})
		})
	}
	t.Run("Model", func(t *testing.T) { checkModel(t, newLocker) })
	t.Run("Stress", func(t *testing.T) { stress(t, newLocker) })
}

// room is one test: a locker and those who asked it for a lease.
type room struct {
	*testing.T
	Locker
	calls []*call
}

// call is one Hold on a goroutine of its own.
type call struct {
	r      *room
	name   string
	cancel context.CancelCauseFunc
	began  time.Time

	done  chan struct{} // closed when Hold has returned what follows
	lease lock.Lease
	err   error
	took  time.Duration
}

// ask starts a Hold and returns when it has its lease or its place in the queue.
// The name becomes the operation.
func (r *room) ask(name string, m lock.Mode, keys ...lock.Key) *call {
	r.Helper()
	return r.askFor(0, lock.Request{Mode: m, Keys: keys, Owner: lock.Owner{Op: name}})
}

// askFor is ask with a limit to the wait, 0 for none.
func (r *room) askFor(wait time.Duration, q lock.Request) *call {
	r.Helper()
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := func() {}
	if wait > 0 {
		ctx, stop = context.WithTimeout(ctx, wait)
	}
	c := &call{r: r, name: q.Op, cancel: cancel, began: time.Now(), done: make(chan struct{})}
	r.calls = append(r.calls, c)
	go func() {
		defer stop()
		lease, err := r.Hold(ctx, q)
		c.lease, c.err, c.took = lease, err, time.Since(c.began)
		close(c.done)
	}()
	synctest.Wait()
	return c
}

// leave ends all calls and checks that nothing is held or queued afterwards.
func (r *room) leave() {
	r.Helper()
	for _, c := range r.calls {
		c.cancel(nil)
	}
	synctest.Wait()
	for _, c := range r.calls {
		if !closed(c.done) {
			r.Errorf("%s still waits after its context was cancelled", c.name)
			continue
		}
		c.lease.Release()
	}
	synctest.Wait()
	if s := r.Stats(); s != (lock.Stats{}) {
		r.Errorf("at the end Stats = %+v, want none", s)
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (c *call) release() {
	c.lease.Release()
	synctest.Wait()
}

// state is what became of the call: "in", "waits" or its error.
func (c *call) state() string {
	synctest.Wait()
	switch {
	case !closed(c.done):
		return "waits"
	case c.err != nil:
		return c.err.Error()
	default:
		return "in"
	}
}

func (c *call) wantIn() {
	c.r.Helper()
	if s := c.state(); s != "in" {
		c.r.Fatalf("%s: %s, want in", c.name, s)
	}
}

func (c *call) wantWaits() {
	c.r.Helper()
	if s := c.state(); s != "waits" {
		c.r.Fatalf("%s: %s, want waits", c.name, s)
	}
}

func (c *call) wantErr(want error) {
	c.r.Helper()
	if synctest.Wait(); !closed(c.done) || !errors.Is(c.err, want) {
		c.r.Fatalf("%s: %s, want error %v", c.name, c.state(), want)
	}
}

// wantState compares who holds k and who waits for it, as "holders | waiters".
func (r *room) wantState(k lock.Key, want string) {
	r.Helper()
	if got := line(r.Inspect(k)); got != want {
		r.Fatalf("state of %s = %q, want %q", k, got, want)
	}
}

func line(s lock.State) string {
	var in, out []string
	for _, h := range s.Holders {
		in = append(in, h.Op)
	}
	for _, w := range s.Queue {
		out = append(out, w.Op)
	}
	return strings.Join(in, " ") + " | " + strings.Join(out, " ")
}

func sharedTogether(r *room) {
	a, b := r.ask("a", lock.Shared, "k"), r.ask("b", lock.Shared, "k")
	a.wantIn()
	b.wantIn()
	r.wantState("k", "a b | ")
}

func exclusiveAlone(r *room) {
	a := r.ask("a", lock.Exclusive, "k")
	b := r.ask("b", lock.Exclusive, "k")
	c := r.ask("c", lock.Shared, "k")
	other := r.ask("other", lock.Exclusive, "k2")
	a.wantIn()
	b.wantWaits()
	c.wantWaits()
	other.wantIn()
	a.release()
	b.wantIn()
	c.wantWaits()
	b.release()
	c.wantIn()
}

func readBehindWrite(r *room) {
	r1 := r.ask("r1", lock.Shared, "k")
	w := r.ask("w", lock.Exclusive, "k")
	r2 := r.ask("r2", lock.Shared, "k")
	w.wantWaits()
	r2.wantWaits()
	r1.release()
	w.wantIn()
	r2.wantWaits()
	w.release()
	r2.wantIn()
}

func readsTogether(r *room) {
	w1 := r.ask("w1", lock.Exclusive, "k")
	r1, r2 := r.ask("r1", lock.Shared, "k"), r.ask("r2", lock.Shared, "k")
	w2 := r.ask("w2", lock.Exclusive, "k")
	r3 := r.ask("r3", lock.Shared, "k")
	r.wantState("k", "w1 | r1 r2 w2 r3")
	w1.release()
	r.wantState("k", "r1 r2 | w2 r3")
	r1.release()
	r.wantState("k", "r2 | w2 r3")
	r2.release()
	w2.wantIn()
	w2.release()
	r3.wantIn()
}

func arrivalOrder(r *room) {
	first := r.ask("0", lock.Exclusive, "k")
	const n = 50
	var waiting []*call
	for i := 1; i <= n; i++ {
		waiting = append(waiting, r.ask(fmt.Sprint(i), lock.Exclusive, "k"))
	}
	first.release()
	for i, c := range waiting {
		c.wantIn()
		for _, behind := range waiting[i+1:] {
			behind.wantWaits()
		}
		c.release()
	}
}

func deadline(r *room) {
	a := r.ask("a", lock.Exclusive, "k")
	b := r.askFor(20*time.Second, lock.Request{Mode: lock.Exclusive, Keys: []lock.Key{"k"}})
	time.Sleep(20*time.Second - time.Nanosecond)
	b.wantWaits()
	time.Sleep(time.Nanosecond)
	b.wantErr(lock.ErrTimeout)
	if b.took != 20*time.Second {
		r.Errorf("timed out after %v, want 20s", b.took)
	}
	if s := r.Inspect("k"); len(s.Queue) != 0 {
		r.Errorf("who timed out is still queued: %v", s.Queue)
	}
	if err := a.lease.Commit(func() error { return nil }); err != nil {
		r.Errorf("the holder was disturbed: Commit = %v", err)
	}
}

func pastDeadline(r *room) {
	ctx, cancel := context.WithTimeout(r.Context(), 0)
	defer cancel()
	q := lock.Request{Mode: lock.Exclusive, Keys: []lock.Key{"a", "b"}}
	l, err := r.Hold(ctx, q)
	if err != nil {
		r.Fatalf("Hold of a free key past the deadline = %v, want a lease", err)
	}
	if _, err := r.Hold(ctx, q); !errors.Is(err, lock.ErrTimeout) {
		r.Fatalf("Hold of a held key past the deadline = %v, want ErrTimeout", err)
	}
	r.wantState("b", " | ")
	l.Release()
}

func releaseAtDeadline(r *room) {
	for i := range 200 {
		k := []lock.Key{"k", "j"}[:1+i%2]
		a := r.ask("a", lock.Exclusive, k...)
		b := r.askFor(time.Second, lock.Request{Mode: lock.Exclusive, Keys: k})
		time.AfterFunc(time.Second, a.lease.Release)
		c := r.ask("c", lock.Exclusive, k...)
		time.Sleep(time.Second)
		if b.state() == "in" {
			c.wantWaits()
			b.release()
		} else {
			b.wantErr(lock.ErrTimeout)
		}
		c.wantIn()
		c.release()
	}
}

var errGone = errors.New("client went away")

func cancelled(r *room) {
	ctx, cancel := context.WithCancelCause(r.Context())
	cancel(errGone)
	if _, err := r.Hold(ctx, lock.Request{Keys: []lock.Key{"k"}}); !errors.Is(err, errGone) {
		r.Fatalf("Hold with a cancelled context = %v, want its cause", err)
	}
	r.wantState("k", " | ")

	a := r.ask("a", lock.Exclusive, "k")
	b := r.ask("b", lock.Exclusive, "k")
	b.cancel(errGone)
	b.wantErr(errGone)
	r.wantState("k", "a | ")

	// Cancelled and served in the same moment.
	c := r.ask("c", lock.Exclusive, "k")
	d := r.ask("d", lock.Exclusive, "k")
	c.cancel(errGone)
	a.release()
	switch c.state() {
	case "in":
		d.wantWaits()
		c.release()
	default:
		c.wantErr(errGone)
	}
	d.wantIn()
}

func contextAfterGrant(r *room) {
	a := r.ask("a", lock.Exclusive, "k")
	a.cancel(errGone)
	b := r.ask("b", lock.Exclusive, "k")
	b.wantWaits()
	if err := a.lease.Commit(func() error { return nil }); err != nil {
		r.Errorf("Commit after the end of the context = %v", err)
	}
}

func leaverFreesOthers(r *room) {
	r.ask("r1", lock.Shared, "k")
	w := r.askFor(time.Second, lock.Request{Mode: lock.Exclusive, Keys: []lock.Key{"k"}, Owner: lock.Owner{Op: "w"}})
	r2 := r.ask("r2", lock.Shared, "k")
	r2.wantWaits()
	time.Sleep(time.Second)
	w.wantErr(lock.ErrTimeout)
	r2.wantIn()
	if r2.took != time.Second {
		r.Errorf("r2 got in after %v, want 1s", r2.took)
	}
}

func severalKeys(r *room) {
	ab := r.ask("ab", lock.Exclusive, "b", "a")
	a, b := r.ask("a", lock.Exclusive, "a"), r.ask("b", lock.Shared, "b")
	ab.wantIn()
	a.wantWaits()
	b.wantWaits()
	ab.release()
	a.wantIn()
	b.wantIn()

	var many []lock.Key
	for i := range 200 {
		many = append(many, lock.Key(fmt.Sprint("key", i)))
	}
	all := r.ask("all", lock.Exclusive, many...)
	one := r.ask("one", lock.Shared, "key137")
	all.wantIn()
	one.wantWaits()
	if s := r.Stats(); s.Exclusive != len(many)+1 {
		r.Errorf("%d exclusive locks, want %d", s.Exclusive, len(many)+1)
	}
	all.release()
	one.wantIn()
}

func severalPlaces(r *room) {
	a := r.ask("a", lock.Exclusive, "a")
	ab := r.ask("ab", lock.Exclusive, "a", "b")
	b := r.ask("b", lock.Exclusive, "b")
	ab.wantWaits()
	b.wantWaits() // behind ab, which has been given b and waits for a
	a.release()
	ab.wantIn()
	b.wantWaits()
	ab.release()
	b.wantIn()
}

func crossedKeys(r *room) {
	first := r.ask("first", lock.Exclusive, "a", "b", "c")
	var calls []*call
	for i := range 30 {
		keys := []lock.Key{"a", "b", "c"}
		for range i % 3 {
			keys = append(keys[1:], keys[0])
		}
		calls = append(calls, r.ask(fmt.Sprint(i), lock.Mode(i%2), keys[:2]...))
	}
	first.release()
	for {
		i := slices.IndexFunc(calls, func(c *call) bool { return c.state() == "in" })
		if i < 0 {
			break
		}
		calls[i].release()
		calls = slices.Delete(calls, i, i+1)
	}
	if len(calls) > 0 {
		r.Fatalf("%d calls wait for each other", len(calls))
	}
}

func severalLeave(r *room) {
	a := r.ask("a", lock.Exclusive, "a")
	abc := r.askFor(time.Second, lock.Request{Mode: lock.Exclusive, Keys: []lock.Key{"a", "b", "c"}})
	c := r.ask("c", lock.Shared, "c")
	c.wantWaits()
	time.Sleep(time.Second)
	abc.wantErr(lock.ErrTimeout)
	c.wantIn()
	r.wantState("a", "a | ")
	r.wantState("b", " | ")
	a.release()
}

func repeatedKey(r *room) {
	a := r.ask("a", lock.Exclusive, "k", "j", "k", "k")
	a.wantIn()
	if s := r.Stats(); s.Exclusive != 2 {
		r.Errorf("Stats = %+v, want 2 exclusive locks", s)
	}
	a.release()
	r.wantState("k", " | ")
}

func noKey(r *room) {
	if _, err := r.Hold(r.Context(), lock.Request{}); err == nil {
		r.Error("Hold of nothing gave a lease")
	}
}

func commitAtTTL(r *room) {
	a := r.askFor(0, lock.Request{Mode: lock.Exclusive, Keys: []lock.Key{"k"}, TTL: 45 * time.Second})
	b := r.askFor(0, lock.Request{Mode: lock.Exclusive, Keys: []lock.Key{"j"}}) // the default
	ran := 0
	commit := func(c *call) error { return c.lease.Commit(func() error { ran++; return nil }) }
	time.Sleep(lock.DefaultTTL - time.Nanosecond)
	if err := commit(b); err != nil {
		r.Errorf("Commit just before the default TTL = %v", err)
	}
	time.Sleep(time.Nanosecond)
	if err := commit(b); !errors.Is(err, lock.ErrLost) {
		r.Errorf("Commit at the default TTL = %v, want ErrLost", err)
	}
	time.Sleep(15*time.Second - time.Nanosecond)
	if err := commit(a); err != nil {
		r.Errorf("Commit just before the TTL = %v", err)
	}
	time.Sleep(time.Nanosecond)
	if err := commit(a); !errors.Is(err, lock.ErrLost) {
		r.Errorf("Commit at the TTL = %v, want ErrLost", err)
	}
	if ran != 2 {
		r.Errorf("%d commits ran, want 2", ran)
	}
}

func lapse(r *room) {
	a := r.askFor(0, lock.Request{Mode: lock.Exclusive, Keys: []lock.Key{"k"}, TTL: 5 * time.Second})
	time.Sleep(2 * time.Second)
	b := r.ask("b", lock.Exclusive, "k")
	c := r.ask("c", lock.Exclusive, "k")
	time.Sleep(3*time.Second - time.Nanosecond)
	b.wantWaits()
	time.Sleep(time.Nanosecond)
	b.wantIn()
	if b.took != 3*time.Second {
		r.Errorf("waited %v for the lapse, want 3s", b.took)
	}
	if err := a.lease.Commit(func() error { r.Error("a lapsed lease committed"); return nil }); !errors.Is(err, lock.ErrLost) {
		r.Errorf("Commit = %v, want ErrLost", err)
	}
	a.release() // must not touch the lease of b
	c.wantWaits()
	if err := b.lease.Commit(func() error { return nil }); err != nil {
		r.Errorf("Commit of the next = %v", err)
	}
	time.Sleep(lock.DefaultTTL)
	c.wantIn() // b lapsed in its turn
}

func lapseSeveral(r *room) {
	r.ask("b", lock.Exclusive, "b")
	r.askFor(0, lock.Request{Mode: lock.Exclusive, Keys: []lock.Key{"a", "b", "c"}, TTL: time.Second})
	a, c := r.ask("a", lock.Shared, "a"), r.ask("c", lock.Shared, "c")
	time.Sleep(lock.DefaultTTL) // b lapses and the second gets in
	a.wantWaits()
	time.Sleep(time.Second)
	a.wantIn()
	c.wantIn()
	r.wantState("b", " | ")
}

func lapsedUnseen(r *room) {
	r.ask("a", lock.Exclusive, "k", "j")
	time.Sleep(time.Hour)
	r.wantState("k", " | ")
	if s := r.Stats(); s != (lock.Stats{}) {
		r.Errorf("Stats = %+v with nothing but a lapsed lease", s)
	}
	b := r.ask("b", lock.Exclusive, "k")
	b.wantIn()
	if b.took != 0 {
		r.Errorf("waited %v behind a lapsed lease", b.took)
	}
}

func commitOutlivesTTL(r *room) {
	a := r.askFor(0, lock.Request{Mode: lock.Exclusive, Keys: []lock.Key{"k", "j"}, TTL: time.Second, Owner: lock.Owner{Op: "a"}})
	b := r.ask("b", lock.Exclusive, "k")
	err := a.lease.Commit(func() error {
		time.Sleep(10 * time.Second)
		b.wantWaits()
		r.wantState("k", "a | b")
		if err := a.lease.Commit(func() error { return nil }); !errors.Is(err, lock.ErrLost) {
			r.Errorf("a second Commit past the TTL = %v, want ErrLost", err)
		}
		return nil
	})
	if err != nil {
		r.Errorf("Commit that began in time = %v", err)
	}
	b.wantIn()
	r.wantState("j", " | ")
	if b.took != 10*time.Second {
		r.Errorf("b got in after %v, want 10s", b.took)
	}
}

func commitOutlivesRelease(r *room) {
	a, end := r.ask("a", lock.Exclusive, "k"), make(chan struct{})
	committed := make(chan error)
	go func() { committed <- a.lease.Commit(func() error { <-end; return nil }) }()
	synctest.Wait()
	a.release()
	a.release()
	b := r.ask("b", lock.Exclusive, "k")
	b.wantWaits()
	if err := a.lease.Commit(func() error { return nil }); !errors.Is(err, lock.ErrLost) {
		r.Errorf("Commit after Release = %v, want ErrLost", err)
	}
	close(end)
	if err := <-committed; err != nil {
		r.Errorf("Commit = %v", err)
	}
	b.wantIn()
}

func commitFails(r *room) {
	a := r.ask("a", lock.Exclusive, "k")
	if err := a.lease.Commit(func() error { return errGone }); !errors.Is(err, errGone) {
		r.Errorf("Commit = %v, want the error of its function", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				r.Error("Commit swallowed a panic")
			}
		}()
		_ = a.lease.Commit(func() error { panic("broken") })
	}()
	a.release()
	r.ask("b", lock.Exclusive, "k").wantIn()
}

func releaseTwice(r *room) {
	a := r.ask("a", lock.Exclusive, "k")
	b := r.ask("b", lock.Exclusive, "k")
	c := r.ask("c", lock.Exclusive, "k")
	a.release()
	b.wantIn()
	for range 3 {
		a.release()
	}
	c.wantWaits()
	b.release()
	c.wantIn()
	b.release()
	a.release()
	d := r.ask("d", lock.Exclusive, "k")
	d.wantWaits()
}

func zeroLease(r *room) {
	var l lock.Lease
	l.Release()
	if err := l.Commit(func() error { r.Error("ran"); return nil }); !errors.Is(err, lock.ErrLost) {
		r.Errorf("Commit = %v, want ErrLost", err)
	}
}

func tokens(r *room) {
	last := map[lock.Key]uint64{}
	for i := range 30 {
		keys := [][]lock.Key{{"a"}, {"b"}, {"a", "b"}}[i%3]
		c := r.ask("", lock.Exclusive, keys...)
		for _, k := range keys {
			if c.lease.Token() <= last[k] {
				r.Fatalf("token %d on %s after %d", c.lease.Token(), k, last[k])
			}
			last[k] = c.lease.Token()
		}
		c.release()
	}
}

func inspect(r *room) {
	start := time.Now()
	want := func(want lock.State) {
		r.Helper()
		got := r.Inspect("k")
		if fmt.Sprintf("%+v", utc(got)) != fmt.Sprintf("%+v", utc(want)) {
			r.Errorf("Inspect after %v = %+v\nwant %+v", time.Since(start), got, want)
		}
		if n := got.Readers(); n != len(want.Holders) && want.Access == lock.ReadLocked || n != 0 && want.Access != lock.ReadLocked {
			r.Errorf("%d readers in %+v", n, got)
		}
	}
	want(lock.State{Access: lock.Unlocked})
	reader := lock.Owner{Op: "read", Caller: "agent 1", Session: "s1"}
	writer := lock.Owner{Op: "update", Caller: "agent 2", Session: "s2"}
	a := r.askFor(0, lock.Request{Mode: lock.Shared, Keys: []lock.Key{"k"}, Owner: reader, TTL: time.Minute})
	time.Sleep(time.Second)
	b := r.askFor(0, lock.Request{Mode: lock.Shared, Keys: []lock.Key{"k"}, Owner: reader, TTL: time.Minute})
	w := r.askFor(30*time.Second, lock.Request{Mode: lock.Exclusive, Keys: []lock.Key{"k"}, Owner: writer, TTL: time.Minute})
	time.Sleep(time.Second)
	c := r.askFor(0, lock.Request{Mode: lock.Shared, Keys: []lock.Key{"k"}, Owner: reader, TTL: time.Minute})
	time.Sleep(time.Second)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	want(lock.State{
		Access: lock.ReadLocked,
		Holders: []lock.Holder{
			{Owner: reader, Mode: lock.Shared, Since: at(0), Expires: at(60)},
			{Owner: reader, Mode: lock.Shared, Since: at(1), Expires: at(61)},
		},
		Queue: []lock.Waiter{
			{Owner: writer, Mode: lock.Exclusive, QueuedAt: at(1), TimeoutAt: at(31), Position: 1},
			{Owner: reader, Mode: lock.Shared, QueuedAt: at(2), Position: 2},
		},
	})
	a.release()
	b.release()
	want(lock.State{
		Access:  lock.WriteLocked,
		Holders: []lock.Holder{{Owner: writer, Mode: lock.Exclusive, Since: at(3), Expires: at(63)}},
		Queue:   []lock.Waiter{{Owner: reader, Mode: lock.Shared, QueuedAt: at(2), Position: 1}},
	})
	w.release()
	c.release()
	want(lock.State{Access: lock.Unlocked})
}

// utc drops what two equal times may differ in.
func utc(s lock.State) lock.State {
	s.Holders, s.Queue = slices.Clone(s.Holders), slices.Clone(s.Queue)
	for i := range s.Holders {
		h := &s.Holders[i]
		h.Since, h.Expires = h.Since.Round(0).UTC(), h.Expires.Round(0).UTC()
	}
	for i := range s.Queue {
		w := &s.Queue[i]
		w.QueuedAt, w.TimeoutAt = w.QueuedAt.Round(0).UTC(), w.TimeoutAt.Round(0).UTC()
	}
	return s
}

func inspectPartial(r *room) {
	r.ask("a", lock.Shared, "a")
	ab := r.ask("ab", lock.Exclusive, "a", "b")
	ab.wantWaits()
	r.wantState("a", "a | ab")
	s := r.Inspect("b")
	if s.Access != lock.WriteLocked || len(s.Holders) != 1 || !s.Holders[0].Expires.IsZero() {
		r.Errorf("Inspect(b) = %+v, want one holder that does not expire yet", s)
	}
}

func stats(r *room) {
	want := func(shared, exclusive, queued int) {
		r.Helper()
		if got, want := r.Stats(), (lock.Stats{Shared: shared, Exclusive: exclusive, Queued: queued}); got != want {
			r.Errorf("Stats = %+v, want %+v", got, want)
		}
	}
	want(0, 0, 0)
	a, b := r.ask("", lock.Shared, "k"), r.ask("", lock.Shared, "k")
	c := r.ask("", lock.Exclusive, "x", "y")
	want(2, 2, 0)
	d := r.ask("", lock.Exclusive, "k", "x")
	want(2, 2, 1)
	a.release()
	b.release()
	want(0, 3, 1) // d has k and waits for x
	c.release()
	want(0, 2, 0)
	d.release()
	want(0, 0, 0)
}

func position(r *room) {
	var told []int
	first := r.ask("first", lock.Exclusive, "k", "j")
	var ahead []*call
	for i := range 3 {
		ahead = append(ahead, r.ask(fmt.Sprint(i), lock.Exclusive, "k"))
	}
	r.ask("j", lock.Exclusive, "j")
	c := r.askFor(0, lock.Request{Mode: lock.Exclusive, Keys: []lock.Key{"k", "j"}, Moved: func(p int) { told = append(told, p) }})
	r.ask("behind", lock.Exclusive, "k")
	c.wantWaits()
	want := func(want ...int) {
		r.Helper()
		if synctest.Wait(); !slices.Equal(told, want) {
			r.Errorf("told %v, want %v", told, want)
		}
	}
	want(4)
	ahead[1].cancel(nil)
	want(4, 3)
	first.release()
	want(4, 3, 2)
	ahead[0].release()
	want(4, 3, 2, 1)
	ahead[2].release()
	c.wantWaits() // for j
	want(4, 3, 2, 1)
}

func slowListener(r *room) {
	a := r.ask("a", lock.Exclusive, "k")
	stuck := make(chan struct{})
	b := r.askFor(0, lock.Request{Mode: lock.Exclusive, Keys: []lock.Key{"k"}, TTL: time.Second, Moved: func(int) { <-stuck }})
	c := r.ask("c", lock.Exclusive, "k")
	a.release() // b gets the lease and does not notice
	c.wantWaits()
	time.Sleep(time.Second)
	c.wantIn()
	d := r.ask("d", lock.Exclusive, "k")
	close(stuck)
	b.wantIn()
	if err := b.lease.Commit(func() error { return nil }); !errors.Is(err, lock.ErrLost) {
		r.Errorf("Commit = %v, want ErrLost", err)
	}
	b.release()
	d.wantWaits()

	// The same, but with a caller that has gone meanwhile.
	stuck = make(chan struct{})
	c.release()
	e := r.askFor(0, lock.Request{Mode: lock.Exclusive, Keys: []lock.Key{"k"}, TTL: time.Second, Moved: func(int) { <-stuck }})
	f := r.ask("f", lock.Exclusive, "k")
	d.release()
	time.Sleep(time.Second)
	f.wantIn()
	e.cancel(errGone)
	close(stuck)
	if s := e.state(); s == "in" {
		e.release()
	} else {
		e.wantErr(errGone)
	}
	f.lease.Release()
}
