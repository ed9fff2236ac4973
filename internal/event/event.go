// Package event is the in-process stream of what happened: a fan-out from the
// parts that do things to the surfaces that show them.
//
// Publishing never blocks: a subscriber that does not keep up loses events and
// is told how many. Bus is safe for concurrent use; its zero value is ready.
package event

import (
	"sync"
	"sync/atomic"
	"time"
)

// Kind names what happened.
type Kind string

// The kinds of event.
const (
	ConfigReloaded   Kind = "config_reloaded"   // new settings are in force
	ConfigRefused    Kind = "config_refused"    // a file was refused; the last good settings stay
	ToolsChanged     Kind = "tools_changed"     // the list of tools differs from before
	ProjectActivated Kind = "project_activated" // a session chose a project
	SessionStarted   Kind = "session_started"
	SessionEnded     Kind = "session_ended"
	FileChanged      Kind = "file_changed"        // Data is a File
	JobCompleted     Kind = "shell_job_completed" // Data is a Job
	AliasesChanged   Kind = "aliases_changed"     // Data is an Aliases
)

// File is a file that changed.
type File struct {
	Path     string
	Hash     string // what it holds now; "": it is gone
	External bool   // somebody outside of the server did it
}

// Aliases are those that changed, came or went, by name.
type Aliases struct{ Names []string }

// Job is a command that has ended, in whatever way.
type Job struct {
	ID         string
	Command    string
	Background bool // nobody waits for it: clients are to be told
	Result     JobResult
}

// JobResult is how a command ended, and what it printed: the beginning and the
// end, when that is long.
type JobResult struct {
	Status         string // "completed", "failed", "timed_out", "cancelled" or "lost"
	ExitCode       *int   // nil: there is none
	Signal         string // that ended it, or ""
	Error          string // why it failed, was cancelled or is lost
	Stdout, Stderr string
	Duration       time.Duration
}

// Event is one thing that happened.
type Event struct {
	Kind    Kind
	Time    time.Time
	Session string // the session it belongs to, or ""
	Project string // the project id it belongs to, or ""
	Data    any    // depends on Kind
}

// Bus fans events out to subscribers.
type Bus struct {
	mu   sync.Mutex
	subs map[*Subscription]struct{} // guarded by mu
}

// Subscription receives events until Close.
type Subscription struct {
	C       <-chan Event
	ch      chan Event
	bus     *Bus
	dropped atomic.Int64
}

// Subscribe returns a subscription that buffers up to size events.
func (b *Bus) Subscribe(size int) *Subscription {
	ch := make(chan Event, max(size, 1))
	s := &Subscription{C: ch, ch: ch, bus: b}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subs == nil {
		b.subs = make(map[*Subscription]struct{})
	}
	b.subs[s] = struct{}{}
	return s
}

// Publish hands e to every subscriber that has room. A zero Time becomes now.
// A nil bus takes events and forgets them.
func (b *Bus) Publish(e Event) {
	if b == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subs {
		select {
		case s.ch <- e:
		default:
			s.dropped.Add(1)
		}
	}
}

// Dropped returns how many events this subscription has lost so far.
func (s *Subscription) Dropped() int64 { return s.dropped.Load() }

// Close ends the subscription and closes C. It may be called more than once.
func (s *Subscription) Close() {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	if _, ok := s.bus.subs[s]; ok {
		delete(s.bus.subs, s)
		close(s.ch)
	}
}
