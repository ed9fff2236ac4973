// Package lock gives out leases on keys: shared or exclusive, first come first
// served per key, with an end to every hold.
//
//	Hold ──▶ queue of each key ──▶ Lease ──▶ Commit(fn) … ──▶ Release
//	          │ ctx ends: leaves            │ TTL ends: lapses
//	          ▼                             ▼
//	         ErrTimeout, cause of ctx      Commit: ErrLost
//
// The promises, under any concurrency:
//
//   - A request takes its place in the queues of all its keys in one step, on
//     arrival. Requests for a key are served in that order; shared ones that
//     stand next to each other are served together. A shared request never
//     passes an exclusive one that waits.
//   - Requests for several keys cannot block each other for good: since all
//     places are taken in one step, everybody waits only for earlier arrivals.
//   - A waiter whose context ends leaves at once, and those behind it move up.
//   - A lease ends on Release or when its TTL passes. Commit runs its function
//     only under a lease that has not ended, and the keys stay held until the
//     function returns, so work done in Commit never overlaps that of the next
//     exclusive holder.
//
// What a key stands for, how long a wait or a hold may be, and what a lost lease
// means to a client is left to the caller. A Table lives in one process; other
// implementations of the same contract pass the suite in locktest.
package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of Hold and Commit.
var (
	// ErrTimeout is returned by Hold when the deadline of its context passes
	// before all keys are free.
	ErrTimeout = errors.New("timed out waiting for the lock")
	// ErrLost is returned by Commit when the lease has ended.
	ErrLost = errors.New("the lock was lost before the commit")
)

// DefaultTTL is how long a lease lasts when the request does not say.
const DefaultTTL = 30 * time.Second

// Key names what is locked.
type Key string

// Mode says who else may be in.
type Mode uint8

// The modes.
const (
	Shared    Mode = iota // other shared leases may be in
	Exclusive             // nobody else is in
)

func (m Mode) String() string {
	if m == Exclusive {
		return "exclusive"
	}
	return "shared"
}

// Owner says for whom a lease is; it is only ever shown.
type Owner struct {
	Op      string // what the caller does: "read", "update", …
	Caller  string // label of the client or agent
	Session string
}

// Request asks for a lease.
type Request struct {
	Mode Mode
	Keys []Key // at least one; any order, repetitions count once
	TTL  time.Duration
	Owner

	// Moved, when set, is told the place in the queue: once on queueing up and
	// again whenever it changes, 1 being next. Of several keys the worst place
	// counts. It runs on the goroutine of Hold, so a slow one delays only itself.
	Moved func(position int)
}

// Lease is a hold on keys. It is a value: copies are the same lease. The zero
// Lease holds nothing.
type Lease struct {
	grant Grant
	token uint64
}

// Grant is what stands behind a lease in an implementation of locks. One grant
// may serve several leases, one after the other, told apart by their tokens.
type Grant interface {
	Commit(token uint64, fn func() error) error
	Release(token uint64)
}

// NewLease returns the lease of g with the given token.
func NewLease(g Grant, token uint64) Lease { return Lease{g, token} }

// Token is the fencing token of the lease: later leases on a key have a higher
// one.
func (l Lease) Token() uint64 { return l.token }

// Commit runs fn and returns its error, unless the lease has ended: then it
// returns ErrLost and fn does not run. Once fn has begun, the keys stay held
// until it returns, whatever happens to the lease meanwhile.
func (l Lease) Commit(fn func() error) error {
	if l.grant == nil {
		return ErrLost
	}
	return l.grant.Commit(l.token, fn)
}

// Release ends the lease. It may be called any number of times.
func (l Lease) Release() {
	if l.grant != nil {
		l.grant.Release(l.token)
	}
}

const (
	shardCount = 64
	chainCount = 16 // chains of queues in a shard
	spare      = 16 // idle objects of a kind that a shard keeps for the next request
)

// Table is the lock table of one process. Its zero value is ready. It is safe
// for concurrent use and runs no goroutine, but for the timer of a lease that
// somebody waits for.
type Table struct {
	waiting atomic.Int64 // requests in a queue
	shards  [shardCount]shard
}

// shard has the queues of one part of the keys. Who needs several shards locks
// them by rising index.
type shard struct {
	mu     sync.Mutex
	token  uint64             // the last one given to a hold with a key here
	queues [chainCount]*queue // of keys that are held or waited for, by hash
	idle   []*queue
	holds  []*hold // without a lease
}

// queue is who holds a key and who waits for it; guarded by its shard.
type queue struct {
	place
	next      *queue // in the chain
	holders   list
	waiters   list // nobody waits unless somebody holds
	exclusive bool // the holder is
	watched   int  // waiters that want to know their position
}

// hold is a request from arrival to the end of its lease, then the next one.
//
// The home of a hold is the first shard it has a key in, for as long as the hold
// exists: locking the home makes the rest readable.
type hold struct {
	table *Table
	home  *shard

	token   uint64       // of the lease; 0: none. Guarded by home
	ended   bool         // released or lapsed; a commit is still running. Guarded by home
	lapsed  bool         // guarded by home
	commits atomic.Int32 // running; changed under home

	pending atomic.Int32 // claims not yet granted; changed under the claim's shard
	expiry  atomic.Int64 // when the lease lapses, by clock; 0 while pending
	armed   atomic.Bool  // timer will lapse the lease
	timer   *time.Timer
	ready   chan struct{} // a token once pending is 0, if anybody waits
	changed chan struct{} // a token after a change of position, if moved is set

	// What follows stays as it is from arrival to the end.
	mode     Mode
	owner    Owner
	ttl      time.Duration
	moved    func(int)
	arrived  int64     // by clock
	deadline time.Time // of the wait; zero: none
	claims   []claim   // by rising shard
	first    [2]claim  // room for the usual number
}

// claim is the place of a hold in the queue of one key; guarded by the shard.
type claim struct {
	hold       *hold
	shard      *shard
	queue      *queue
	granted    bool
	since      int64 // when it was granted, by clock
	position   int   // among the waiters, while the queue is watched
	prev, next *claim
}

var (
	seed  = maphash.MakeSeed()
	epoch = time.Now()
)

// clock is the time as leases count it: nanoseconds, monotonic, never 0.
func clock() int64 { return int64(time.Since(epoch)) + 1 }

// Hold waits for all keys of r and returns the lease on them. The context bounds
// the wait, not the lease: past its deadline Hold returns ErrTimeout, unless no
// wait is needed; when it is cancelled Hold returns its cause.
func (t *Table) Hold(ctx context.Context, r Request) (Lease, error) {
	err := ctx.Err()
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return Lease{}, fmt.Errorf("wait for the lock: %w", context.Cause(ctx))
	}
	if len(r.Keys) == 0 {
		return Lease{}, errors.New("a lock needs a key")
	}
	if len(r.Keys) == 1 {
		if l, ok := t.holdFree(&r); ok {
			return l, nil
		}
	}
	h, token, wait := t.arrive(ctx, &r, err == nil)
	switch {
	case h == nil:
		return Lease{}, ErrTimeout
	case wait:
		return h.wait(ctx, token)
	}
	return Lease{h, token}, nil
}

// place is a key and where it belongs.
type place struct {
	hash uint64
	key  Key
}

func placeOf(k Key) place { return place{maphash.String(seed, string(k)), k} }

func (p place) shard() uint64 { return p.hash % shardCount }
func (p place) chain() uint64 { return p.hash / shardCount % chainCount }

// holdFree takes a key that nobody has: arrive for the usual case, in less time.
func (t *Table) holdFree(r *Request) (Lease, bool) {
	p := placeOf(r.Keys[0])
	s := &t.shards[p.shard()]
	s.mu.Lock()
	if s.findLocked(p) != nil {
		s.mu.Unlock()
		return Lease{}, false
	}
	now := clock()
	s.token++
	token := s.token
	h := s.holdLocked(t)
	h.beginLocked(r, token, 1, now)
	c := &h.claims[0]
	q := s.newLocked(p)
	c.hold, c.shard, c.queue = h, s, q
	q.grantLocked(c, now)
	h.expiry.Store(now + int64(h.ttl))
	s.mu.Unlock()
	return Lease{h, token}, true
}

// beginLocked makes h the hold of a request for so many keys.
func (h *hold) beginLocked(r *Request, token uint64, keys int, now int64) {
	h.token, h.mode, h.owner, h.ttl, h.moved, h.arrived = token, r.Mode, r.Owner, r.TTL, r.Moved, now
	if h.ttl <= 0 {
		h.ttl = DefaultTTL
	}
	if keys <= len(h.first) {
		h.claims = h.first[:keys]
	} else {
		h.claims = make([]claim, keys)
	}
}

// arrive takes a place in the queue of every key. The hold is nil when it would
// have to wait but may not.
func (t *Table) arrive(ctx context.Context, r *Request, mayWait bool) (h *hold, token uint64, wait bool) {
	var room [2]place
	places := room[:0]
	for _, k := range r.Keys {
		places = append(places, placeOf(k))
	}
	if len(places) > 1 {
		slices.SortFunc(places, func(a, b place) int {
			return cmp.Or(cmp.Compare(a.shard(), b.shard()), cmp.Compare(a.key, b.key))
		})
		places = slices.Compact(places)
	}
	t.lockPlaces(places)
	if !mayWait && !t.freeLocked(places, r.Mode) {
		t.unlockPlaces(places)
		return nil, 0, false
	}
	now := clock()
	token = t.tokenLocked(places)
	h = t.shards[places[0].shard()].holdLocked(t)
	h.beginLocked(r, token, len(places), now)
	pending := 0
	for i, p := range places {
		s := &t.shards[p.shard()]
		c := &h.claims[i]
		q := s.queueLocked(p)
		c.hold, c.shard, c.queue, c.granted = h, s, q, false
		if q.admitsLocked(h.mode) {
			q.grantLocked(c, now)
			continue
		}
		pending++
		q.waiters.push(c)
		c.position = q.waiters.len
		if h.moved != nil {
			q.watched++
		}
		q.armLocked(now)
	}
	if pending == 0 {
		h.expiry.Store(now + int64(h.ttl))
	} else {
		h.expiry.Store(0)
		h.pending.Store(int32(pending))
		h.deadline, _ = ctx.Deadline()
		if h.ready == nil {
			h.ready, h.changed = make(chan struct{}, 1), make(chan struct{}, 1)
		}
		t.waiting.Add(1)
	}
	t.unlockPlaces(places)
	return h, token, pending > 0
}

// wait returns once h has all its keys or ctx ends.
func (h *hold) wait(ctx context.Context, token uint64) (Lease, error) {
	told := 0
	for {
		if h.moved != nil {
			if p := h.position(); p > 0 && p != told {
				told = p
				h.moved(p)
			}
		}
		select {
		case <-h.ready:
			return Lease{h, token}, nil
		case <-h.changed:
		case <-ctx.Done():
			return h.leave(ctx, token)
		}
	}
}

// leave gives up waiting. A lease that was granted just before the deadline
// stays; one granted to a caller that has gone away goes to the next.
func (h *hold) leave(ctx context.Context, token uint64) (Lease, error) {
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	h.home.mu.Lock()
	h.lockRest()
	granted := h.pending.Load() == 0
	if granted {
		<-h.ready
	} else {
		h.table.waiting.Add(-1)
	}
	if granted && (late || h.token != token) { // in the second case it has lapsed already
		h.unlockRest()
		h.home.mu.Unlock()
	} else {
		h.endLocked()
	}
	switch {
	case granted && late:
		return Lease{h, token}, nil
	case late:
		return Lease{}, ErrTimeout
	}
	return Lease{}, fmt.Errorf("wait for the lock: %w", context.Cause(ctx))
}

// position is the worst place of h among the waiters, 0 when it waits no more.
func (h *hold) position() int {
	worst := 0
	for i := range h.claims {
		c := &h.claims[i]
		c.shard.mu.Lock()
		if !c.granted {
			worst = max(worst, c.position)
		}
		c.shard.mu.Unlock()
	}
	return worst
}

// Commit is Lease.Commit.
func (h *hold) Commit(token uint64, fn func() error) error {
	h.home.mu.Lock()
	if h.token != token || h.ended || clock() >= h.expiry.Load() {
		h.home.mu.Unlock()
		return ErrLost
	}
	h.commits.Add(1)
	h.home.mu.Unlock()
	defer h.committed()
	return fn()
}

func (h *hold) committed() {
	h.home.mu.Lock()
	if h.commits.Add(-1) > 0 || !h.ended {
		h.home.mu.Unlock()
		return
	}
	h.lockRest()
	h.endLocked()
}

// Release is Lease.Release.
func (h *hold) Release(token uint64) {
	h.home.mu.Lock()
	if h.token != token || h.ended {
		h.home.mu.Unlock()
		return
	}
	h.finishLocked()
}

// lapse ends a lease whose time is over; it runs on the timer's goroutine.
func (h *hold) lapse() {
	h.home.mu.Lock()
	if !h.armed.Load() { // the lease has ended meanwhile
		h.home.mu.Unlock()
		return
	}
	if left := h.expiry.Load() - clock(); left > 0 {
		// The timer ran for the lease before this one, too late to be stopped.
		h.timer.Reset(time.Duration(left))
		h.home.mu.Unlock()
		return
	}
	// Never reused: the goroutine of Hold may not have looked yet.
	h.lapsed = true
	h.finishLocked()
}

// finishLocked ends the lease now, or leaves that to the commit that is running.
// It unlocks the home.
func (h *hold) finishLocked() {
	h.ended = true
	if h.commits.Load() > 0 {
		h.home.mu.Unlock()
		return
	}
	h.lockRest()
	h.endLocked()
}

// endLocked takes h out of all its queues, lets the next ones in, and unlocks
// all shards of h.
func (h *hold) endLocked() {
	if h.armed.Load() {
		h.timer.Stop()
		h.armed.Store(false)
	}
	for i := range h.claims {
		c := &h.claims[i]
		s, q := c.shard, c.queue
		if c.granted {
			q.holders.remove(c)
		} else {
			q.waiters.remove(c)
			if h.moved != nil {
				q.watched--
			}
		}
		if q.waiters.len > 0 {
			q.advanceLocked(clock())
		}
		if q.holders.len == 0 {
			s.dropLocked(q)
		}
	}
	h.unlockRest()
	h.token = 0
	if !h.lapsed && len(h.home.holds) < spare {
		h.resetLocked()
		h.home.holds = append(h.home.holds, h)
	}
	h.home.mu.Unlock()
}

// resetLocked makes h free for another request. Small things stay until then.
func (h *hold) resetLocked() {
	h.claims = nil
	h.ended = false
	if h.moved != nil {
		h.moved = nil
		select {
		case <-h.changed:
		default:
		}
	}
}

// armLocked sees to it that the lease lapses in time. It is called with the lock
// of any shard of h.
func (h *hold) armLocked(now int64) {
	expiry := h.expiry.Load()
	if expiry == 0 || !h.armed.CompareAndSwap(false, true) {
		return
	}
	if d := time.Duration(expiry - now); h.timer == nil {
		h.timer = time.AfterFunc(d, h.lapse)
	} else {
		h.timer.Reset(d)
	}
}

// lockRest locks the other shards of a hold whose home is locked.
func (h *hold) lockRest() {
	last := h.home
	for i := range h.claims {
		if s := h.claims[i].shard; s != last {
			s.mu.Lock()
			last = s
		}
	}
}

func (h *hold) unlockRest() {
	last := h.home
	for i := range h.claims {
		if s := h.claims[i].shard; s != last {
			s.mu.Unlock()
			last = s
		}
	}
}

func (t *Table) lockPlaces(places []place) {
	for i, p := range places {
		if i == 0 || p.shard() != places[i-1].shard() {
			t.shards[p.shard()].mu.Lock()
		}
	}
}

func (t *Table) unlockPlaces(places []place) {
	for i, p := range places {
		if i == 0 || p.shard() != places[i-1].shard() {
			t.shards[p.shard()].mu.Unlock()
		}
	}
}

// tokenLocked returns a token that is higher than those of all leases before on
// any of the keys.
func (t *Table) tokenLocked(places []place) uint64 {
	var token uint64
	for _, p := range places {
		token = max(token, t.shards[p.shard()].token)
	}
	token++
	for _, p := range places {
		t.shards[p.shard()].token = token
	}
	return token
}

// freeLocked reports whether a request would be served without a wait.
func (t *Table) freeLocked(places []place, m Mode) bool {
	for _, p := range places {
		if q := t.shards[p.shard()].findLocked(p); q != nil && !q.admitsLocked(m) {
			return false
		}
	}
	return true
}

func (s *shard) holdLocked(t *Table) *hold {
	if n := len(s.holds); n > 0 {
		h := s.holds[n-1]
		s.holds = s.holds[:n-1]
		return h
	}
	return &hold{table: t, home: s}
}

func (s *shard) findLocked(p place) *queue {
	q := s.queues[p.chain()]
	for q != nil && q.place != p {
		q = q.next
	}
	return q
}

// queueLocked returns the queue of a key, a new one if need be.
func (s *shard) queueLocked(p place) *queue {
	if q := s.findLocked(p); q != nil {
		return q
	}
	return s.newLocked(p)
}

// newLocked returns a new queue of a key that has none.
func (s *shard) newLocked(p place) *queue {
	var q *queue
	if n := len(s.idle); n > 0 {
		q = s.idle[n-1]
		s.idle = s.idle[:n-1]
	} else {
		q = new(queue)
	}
	chain := &s.queues[p.chain()]
	q.place, q.next = p, *chain
	*chain = q
	return q
}

// dropLocked forgets a queue in which nobody is.
func (s *shard) dropLocked(q *queue) {
	at := &s.queues[q.chain()]
	for *at != q {
		at = &(*at).next
	}
	*at, q.next = q.next, nil
	if len(s.idle) < spare {
		s.idle = append(s.idle, q)
	}
}

// admitsLocked reports whether a request that arrives now gets in at once.
func (q *queue) admitsLocked(m Mode) bool {
	return q.holders.len == 0 || q.waiters.len == 0 && m == Shared && !q.exclusive
}

func (q *queue) grantLocked(c *claim, now int64) {
	c.granted, c.since = true, now
	q.exclusive = c.hold.mode == Exclusive
	q.holders.push(c)
}

// advanceLocked lets in those at the head of the queue that now fit, and tells
// the others that they moved.
func (q *queue) advanceLocked(now int64) {
	for c := q.waiters.first; c != nil; c = q.waiters.first {
		if q.holders.len > 0 && (q.exclusive || c.hold.mode == Exclusive) {
			break
		}
		q.waiters.remove(c)
		q.grantLocked(c, now)
		h := c.hold
		if h.moved != nil {
			q.watched--
		}
		if h.pending.Add(-1) > 0 {
			continue
		}
		h.table.waiting.Add(-1)
		h.expiry.Store(now + int64(h.ttl))
		if len(h.claims) > 1 {
			h.armLocked(now) // somebody may wait for another of its keys
		}
		h.ready <- struct{}{}
	}
	if q.waiters.len == 0 {
		return
	}
	q.armLocked(now)
	if q.watched == 0 {
		return
	}
	position := 0
	for c := q.waiters.first; c != nil; c = c.next {
		position++
		if c.position != position {
			c.position = position
			c.hold.tell()
		}
	}
}

// armLocked sees to it that every holder leaves in time.
func (q *queue) armLocked(now int64) {
	for c := q.holders.first; c != nil; c = c.next {
		c.hold.armLocked(now)
	}
}

// tell wakes the waiter so that it looks at its position again.
func (h *hold) tell() {
	if h.moved == nil {
		return
	}
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// list is a queue of claims.
type list struct {
	first, last *claim
	len         int
}

func (l *list) push(c *claim) {
	c.prev, c.next = l.last, nil
	if l.last == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
	l.len++
}

func (l *list) remove(c *claim) {
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	l.len--
}
