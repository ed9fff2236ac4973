package lock

import "time"

// Access is how a key is held, in a word.
type Access string

// The ways a key is held.
const (
	Unlocked    Access = "unlocked"
	ReadLocked  Access = "read_locked"
	WriteLocked Access = "write_locked"
)

// State is who holds a key and who waits for it, at one moment.
type State struct {
	Access  Access
	Holders []Holder // in the order in which they got in
	Queue   []Waiter // in the order in which they will be served
}

// Readers is how many shared holders there are.
func (s State) Readers() int {
	if s.Access != ReadLocked {
		return 0
	}
	return len(s.Holders)
}

// Holder is one who is in.
type Holder struct {
	Owner
	Mode    Mode
	Since   time.Time
	Expires time.Time // zero while it still waits for another key
}

// Waiter is one who waits.
type Waiter struct {
	Owner
	Mode      Mode
	QueuedAt  time.Time
	TimeoutAt time.Time // zero: waits for as long as it takes
	Position  int       // 1 is next
}

// Stats is what a table holds.
type Stats struct {
	Shared    int // shared locks: one for each key and holder
	Exclusive int
	Queued    int // requests that wait
}

// Inspect returns the state of a key.
func (t *Table) Inspect(k Key) State {
	p := placeOf(k)
	s := &t.shards[p.shard()]
	s.mu.Lock()
	defer s.mu.Unlock()
	state := State{Access: Unlocked}
	q := s.findLocked(p)
	if q == nil {
		return state
	}
	wall, now := time.Now(), clock()
	at := func(c int64) time.Time { return wall.Add(time.Duration(c - now)) }
	for c := q.holders.first; c != nil; c = c.next {
		if c.hold.expired(now) {
			continue
		}
		state.Access = access(c.hold.mode)
		holder := Holder{Owner: c.hold.owner, Mode: c.hold.mode, Since: at(c.since)}
		if e := c.hold.expiry.Load(); e != 0 {
			holder.Expires = at(e)
		}
		state.Holders = append(state.Holders, holder)
	}
	for c := q.waiters.first; c != nil; c = c.next {
		state.Queue = append(state.Queue, Waiter{
			Owner:     c.hold.owner,
			Mode:      c.hold.mode,
			QueuedAt:  at(c.hold.arrived),
			TimeoutAt: c.hold.deadline,
			Position:  len(state.Queue) + 1,
		})
	}
	return state
}

// Stats counts what is held and waited for now.
func (t *Table) Stats() Stats {
	stats := Stats{Queued: int(t.waiting.Load())}
	now := clock()
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, q := range s.queues {
			for ; q != nil; q = q.next {
				stats.add(q, now)
			}
		}
		s.mu.Unlock()
	}
	return stats
}

func (s *Stats) add(q *queue, now int64) {
	for c := q.holders.first; c != nil; c = c.next {
		switch {
		case c.hold.expired(now):
		case c.hold.mode == Exclusive:
			s.Exclusive++
		default:
			s.Shared++
		}
	}
}

// expired reports whether the lease has run out, so that whoever comes next gets
// in: nobody has asked yet, or its timer is just running.
func (h *hold) expired(now int64) bool {
	e := h.expiry.Load()
	return e != 0 && now >= e && h.commits.Load() == 0
}

func access(m Mode) Access {
	if m == Exclusive {
		return WriteLocked
	}
	return ReadLocked
}
