// Package proc starts commands and ends them with everything they started.
//
//	Start ──▶ watch: leader exits ─▶ pipes drained, or given up ─▶ Done
//	End   ──▶ TERM to the tree ─ grace ─▶ KILL                     │
//	                                    whoever is left: TERM, KILL ─▶ Gone
//
// A process runs in a group of its own with an empty standard input. Its tree is
// everything that descends from it, also what left the group (setsid) or the
// parent (double fork); on Linux every member is known by a mark that it
// inherits, on Windows by its job object, elsewhere the tree is the group. A tree
// ends with its leader: what the leader leaves behind gets TERM and, after
// [Grace], KILL, and nobody waits for pipes that it holds.
//
// Nothing is ever signalled by its number alone: a number is paired with the mark
// or start time of the process it was given to, and looked at again while a
// handle on that process is held.
//
// Methods are safe for concurrent use. Deadlines, what output means and who may
// start what is left to package job. Every process of the server is to be started
// here: on Linux a child that somebody else starts at the same moment could get
// the mark of a job.
package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

const (
	// Grace is how long a tree has between TERM and KILL when nobody says
	// otherwise.
	Grace = 5 * time.Second
	// linger is how long output is waited for once the leader has exited:
	// somebody else may hold the pipe for ever.
	linger = 250 * time.Millisecond
	// giveUp is how long KILL is repeated for what cannot die.
	giveUp = 5 * time.Second
)

// Spec is a command to start.
type Spec struct {
	Argv   []string
	Dir    string
	Env    []string   // nil: an empty environment
	Files  []*os.File // descriptors 3 and up of the child; closed by Start in any case
	Stdout io.Writer  // gets the output as it comes, from one goroutine; errors are ignored
	Stderr io.Writer  // likewise, from another goroutine
	// Keeper says that the process only keeps the command, which is below it, as a
	// sandbox does: it is not asked to end, and ends when the command has.
	Keeper bool
	// Prepare may change the command right before it starts: a sandbox puts
	// itself in front of Args, adds files and system attributes. Nil: nothing.
	Prepare func(*exec.Cmd) error
}

// Identity names one process for ever, across restarts of the server and reuse
// of its number.
type Identity struct {
	PID   int    `json:"pid"`
	Start string `json:"start"`          // when it was started, as the system tells
	Mark  uint64 `json:"mark,omitempty"` // what its whole tree has inherited; 0: nothing
}

// Exit says how a process ended.
type Exit struct {
	Code       int    // exit code; -1 when a signal ended it or nobody knows
	Signal     string // "SIGKILL" and the like; "": it exited by itself
	Number     int    // number of Signal, 0 without one
	Incomplete bool   // some output may be missing: somebody else still held the pipe
	Strays     int    // processes that outlived the leader, and were ended
	Unknown    bool   // nobody saw how it ended, as when it was found again after a restart
}

// Process is a started command.
type Process struct {
	id     Identity
	cmd    *exec.Cmd // nil: found again
	keeper bool
	done   chan struct{}
	gone   chan struct{}
	exit   Exit // set before done is closed
	system

	mu     sync.Mutex
	reaped bool        // guarded by mu: the leader's number may be somebody else's
	ended  bool        // guarded by mu: the tree got its TERM
	killAt time.Time   // guarded by mu
	timer  *time.Timer // guarded by mu: kills at killAt
}

// Start starts a command. The process belongs to the caller, who waits for Gone.
func Start(s Spec) (*Process, error) {
	defer closeAll(s.Files)
	if len(s.Argv) == 0 {
		return nil, errors.New("start: no command")
	}
	var out pipes
	cmd := exec.Command(s.Argv[0], s.Argv[1:]...) // without a context: it ends by End, with its whole tree
	cmd.Dir, cmd.ExtraFiles = s.Dir, s.Files
	cmd.Env = append([]string{}, s.Env...) // nil would inherit
	cmd.SysProcAttr = attributes()
	defer out.closeWriters()
	var err error
	if cmd.Stdout, err = out.open(s.Stdout); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Argv[0], err)
	}
	if cmd.Stderr, err = out.open(s.Stderr); err != nil {
		out.closeReaders()
		return nil, fmt.Errorf("start %s: %w", s.Argv[0], err)
	}
	if s.Prepare != nil {
		if err := s.Prepare(cmd); err != nil {
			out.closeReaders()
			return nil, fmt.Errorf("start %s: %w", s.Argv[0], err)
		}
	}
	p := &Process{cmd: cmd, keeper: s.Keeper, done: make(chan struct{}), gone: make(chan struct{})}
	if err := p.launch(cmd); err != nil {
		out.closeReaders()
		return nil, fmt.Errorf("start %s: %w", s.Argv[0], err)
	}
	out.drain()
	go p.watch(&out)
	return p, nil
}

// Find returns the process that an earlier run of the server started, and false
// when it has ended. How it ends is not known to anybody then.
func Find(id Identity) (*Process, bool) {
	if !id.alive() {
		return nil, false
	}
	p := &Process{id: id, done: make(chan struct{}), gone: make(chan struct{})}
	p.adopt()
	go p.watchFound()
	return p, true
}

// KillTree kills what is left of the tree of a process that has ended in an
// earlier run of the server. Where trees are not marked it does nothing.
func KillTree(id Identity) {
	p := &Process{id: id, reaped: true}
	p.adopt()
	p.signal(true)
}

// ID returns what names the process.
func (p *Process) ID() Identity { return p.id }

// Done is closed when the process has exited and its output was taken.
func (p *Process) Done() <-chan struct{} { return p.done }

// Gone is closed, after Done, when nothing of the tree is alive.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Exit says how the process ended. It is valid when Done is closed.
func (p *Process) Exit() Exit { return p.exit }

// End asks the whole tree to end, and kills what is left of it after the grace.
// It does not wait. A second call can only bring the kill forward.
func (p *Process) End(grace time.Duration) {
	p.mu.Lock()
	first := !p.ended
	if at := time.Now().Add(grace); first || at.Before(p.killAt) {
		if p.timer != nil {
			p.timer.Stop()
		}
		p.ended, p.killAt = true, at
		p.timer = time.AfterFunc(grace, func() { p.signal(true) })
	}
	p.mu.Unlock()
	if first && grace > 0 {
		p.signal(false)
	}
}

// watch follows the process to its end.
func (p *Process) watch(out *pipes) {
	p.waitLeader()
	limit := linger
	if at := p.deadline(); !at.IsZero() {
		limit += time.Until(at) // the rest of the tree may still be saying why it ends
	}
	p.exit.Incomplete = !out.finish(limit)
	p.reap()
	p.exit.Strays = p.strays(false)
	close(p.done)
	p.sweep()
}

// reap takes the leader's status; from then on its number may be somebody else's.
func (p *Process) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Wait() // the state says more than the error
	p.reaped = true
	p.exit.from(p.cmd.ProcessState)
}

// watchFound follows a process that is not our child.
func (p *Process) watchFound() {
	const often = 200 * time.Millisecond
	tick := time.NewTicker(often)
	defer tick.Stop()
	for p.id.alive() {
		<-tick.C
	}
	p.mu.Lock()
	p.reaped = true
	p.mu.Unlock()
	p.exit = Exit{Code: -1, Unknown: true}
	close(p.done)
	p.sweep()
}

// sweep ends what the leader left behind.
func (p *Process) sweep() {
	defer close(p.gone)
	defer p.release()
	const longest = 50 * time.Millisecond
	thoroughly := p.exit.Strays > 0 || !p.deadline().IsZero()
	for wait := time.Millisecond; p.strays(thoroughly) > 0; wait = min(2*wait, longest) {
		p.End(Grace)
		if late := time.Since(p.deadline()); late > giveUp {
			break
		} else if late >= 0 {
			p.signal(true)
		}
		time.Sleep(wait)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.free()
}

func (p *Process) deadline() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killAt
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // the child has its own
	}
}
