package proc

import (
	"errors"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

// Here a tree is the group of its leader: what leaves the group is not found.

func (p *Process) launch(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	p.id.PID = cmd.Process.Pid
	p.id.Start, _ = startOf(p.id.PID)
	return nil
}

func (p *Process) release() {}
func (p *Process) adopt()   {}
func enlarge(*os.File)      {}

// waitLeader leaves the leader as a zombie, so that its number and its group stay
// its own.
func (p *Process) waitLeader() {
	queue, err := unix.Kqueue()
	if err != nil {
		return // Wait will wait
	}
	defer unix.Close(queue)
	want := make([]unix.Kevent_t, 1)
	unix.SetKevent(&want[0], p.id.PID, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	want[0].Fflags = unix.NOTE_EXIT
	got := make([]unix.Kevent_t, 1)
	for {
		// An error other than an interruption says that it has exited.
		if _, err := unix.Kevent(queue, want, got, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func (p *Process) strays(bool) int { return p.groupStrays() }

func (p *Process) signal(kill bool) { p.signalGroup(kill) }

// startOf returns when a process was started, and whether it runs.
func startOf(pid int) (start string, runs bool) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid {
		return "", false
	}
	const zombie = 5 // SZOMB
	t := info.Proc.P_starttime
	return strconv.FormatInt(t.Sec, 10) + "." + strconv.Itoa(int(t.Usec)), info.Proc.P_stat != zombie
}

func (id Identity) alive() bool {
	start, runs := startOf(id.PID)
	return runs && start == id.Start
}
