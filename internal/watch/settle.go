package watch

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"time"
)

// presence is what a path holds.
type presence uint8

const (
	nothing presence = iota
	aFile            // or a link, a pipe, …: anything but a directory
	aDir
)

// settler keeps what changed until it has come to rest. It is plain data: the
// loop owns it and tells it the time.
//
// It keeps a bounded number of paths. Past that it is lost: it forgets them all,
// notes nothing, and once it is found again there is one Overflow to tell.
type settler struct {
	rest, longest time.Duration
	most          int
	passing       bool // what came and went is told, too

	paths     map[string]*unrest
	queue     unrestQueue
	lost      bool
	lostSince time.Time
	overflow  bool // to be told before everything else
}

// unrest is a path that changed and has not been told.
type unrest struct {
	rel         string
	was, is     presence  // when it was last told of, and now
	first, last time.Time // of its notices
	due         time.Time // when to look whether it is at rest
}

func newSettler(rest time.Duration, most int) settler {
	return settler{rest: rest, longest: longestRest * rest, most: most, paths: make(map[string]*unrest)}
}

// note takes in that the path now holds is. was is what it held before this
// notice, which matters only when nothing is waiting to be told of it.
func (s *settler) note(rel string, was, is presence, now time.Time) {
	if s.lost {
		return
	}
	if u := s.paths[rel]; u != nil {
		u.is, u.last = is, now
		return
	}
	if len(s.paths) >= s.most {
		s.lose(now)
		return
	}
	u := &unrest{rel: rel, was: was, is: is, first: now, last: now, due: now.Add(s.rest)}
	s.paths[rel] = u
	heap.Push(&s.queue, u)
}

// lose forgets all paths: more has changed than is known.
func (s *settler) lose(now time.Time) {
	if !s.lost {
		s.lost, s.lostSince = true, now
	}
	s.paths, s.queue = make(map[string]*unrest), nil
}

// found ends being lost: what happens from now on is noted again.
func (s *settler) found() { s.lost, s.overflow = false, true }

// next is when there may be something to take.
func (s *settler) next() (time.Time, bool) {
	switch {
	case s.overflow:
		return time.Time{}, true
	case len(s.queue) > 0:
		return s.queue[0].due, true
	}
	return time.Time{}, false
}

// take removes what is at rest, or everything, and returns it in the order of
// telling. Paths are set by the caller.
func (s *settler) take(now time.Time, everything bool) []Change {
	var changes []Change
	for len(s.queue) > 0 {
		u := s.queue[0]
		if !everything {
			if u.due.After(now) {
				break
			}
			if rested := u.restedBy(s.rest, s.longest); rested.After(now) {
				u.due = rested // it was touched since; the queue learns of it only here
				heap.Fix(&s.queue, 0)
				continue
			}
		}
		heap.Pop(&s.queue)
		delete(s.paths, u.rel)
		if u.was == nothing && u.is == nothing && s.passing {
			changes = append(changes, Change{Rel: u.rel, Kind: Passed})
		}
		changes = u.append(changes)
	}
	slices.SortFunc(changes, tellingOrder)
	if s.overflow {
		s.overflow = false
		changes = slices.Insert(changes, 0, Change{Rel: ".", Kind: Overflow, Dir: true})
	}
	return changes
}

// tellingOrder has deletions first, files before their directory; then the rest,
// directories before what they hold.
func tellingOrder(a, b Change) int {
	gone := func(c Change) int {
		if c.Kind == Deleted {
			return 0
		}
		return 1
	}
	if d := cmp.Compare(gone(a), gone(b)); d != 0 {
		return d
	}
	if a.Kind == Deleted {
		a, b = b, a
	}
	switch { // the root is above everything, whatever its name
	case a.Rel == b.Rel:
		return 0
	case a.Rel == ".":
		return -1
	case b.Rel == ".":
		return 1
	}
	return strings.Compare(a.Rel, b.Rel)
}

func (u *unrest) restedBy(rest, longest time.Duration) time.Time {
	rested, latest := u.last.Add(rest), u.first.Add(longest)
	if latest.Before(rested) {
		return latest
	}
	return rested
}

// append adds what there is to tell: nothing for what came and went meanwhile,
// two changes where a directory took a file's place or the other way round.
func (u *unrest) append(changes []Change) []Change {
	if u.was == u.is {
		if u.is == nothing {
			return changes
		}
		return append(changes, Change{Rel: u.rel, Kind: Modified, Dir: u.is == aDir})
	}
	if u.was != nothing {
		changes = append(changes, Change{Rel: u.rel, Kind: Deleted, Dir: u.was == aDir})
	}
	if u.is != nothing {
		changes = append(changes, Change{Rel: u.rel, Kind: Created, Dir: u.is == aDir})
	}
	return changes
}

// unrestQueue is a heap, the earliest due first.
type unrestQueue []*unrest

func (q unrestQueue) Len() int           { return len(q) }
func (q unrestQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q unrestQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *unrestQueue) Push(x any)        { *q = append(*q, x.(*unrest)) }

func (q *unrestQueue) Pop() any {
	last := len(*q) - 1
	u := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return u
}
