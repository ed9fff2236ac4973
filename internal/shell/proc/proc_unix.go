//go:build unix

package proc

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// system is what a process holds of the operating system: here nothing.
type system struct{}

func (*system) free() {}

// attributes give a command a session of its own: a group to be ended by, and no
// terminal to ask a person at.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// signalGroup signals the leader's group, while that is certainly its own, and
// returns it; 0 when nothing was sent. A group that is all there is of a tree is
// also signalled later: its number stays taken while it has members.
func (p *Process) signalGroup(kill bool) (group int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.reaped && (p.id.Mark != 0 || p.groupStrays() == 0):
		return 0
	case !p.reaped && p.cmd == nil && !p.id.alive():
		return 0
	case kill:
		_ = unix.Kill(-p.id.PID, unix.SIGKILL) // it may have ended
	default:
		_ = unix.Kill(-p.id.PID, unix.SIGTERM)
		_ = unix.Kill(-p.id.PID, unix.SIGCONT) // a stopped process cannot end
	}
	return p.id.PID
}

// groupStrays tells whether anybody is left in the group of a leader that is
// gone: as 1, since the group does not tell how many.
func (p *Process) groupStrays() int {
	if p.id.PID > 0 && unix.Kill(-p.id.PID, 0) == nil {
		return 1
	}
	return 0
}

// from reads how the process ended.
func (e *Exit) from(s *os.ProcessState) {
	if s == nil {
		e.Code, e.Unknown = -1, true // somebody else has reaped it
		return
	}
	e.Code = s.ExitCode()
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		e.Number = int(w.Signal())
		e.Signal = unix.SignalName(w.Signal())
	}
}

// stopReading ends a read that waits.
func stopReading(r *os.File) { _ = r.SetReadDeadline(time.Unix(1, 0)) }
