package proc

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// On Linux a tree is known by a mark: a value of the soft limit RLIMIT_LOCKS,
// which no kernel since 2.4 looks at and every child inherits, whatever it does
// to its session, its parents or its environment. Members that lost their parent
// become children of this process, the subreaper, so that one short list tells
// whether any are left, and none stays a zombie.

// A mark is a fixed pattern, a number that is this process's own, and a count.
const (
	pattern   = 0x4a0b << 48
	ownShift  = 24
	countMask = 1<<ownShift - 1
)

// forest is every living tree of this process. It is one for the process, as
// what it stands for is: limits, children and the subreaper.
var forest = struct {
	mu         sync.Mutex
	trees      map[uint64]*Process // guarded by mu; by mark
	count      uint64              // guarded by mu
	collecting bool                // guarded by mu: the collector runs
	empty      chan struct{}       // tells the collector that the last tree is gone
	forking    sync.Mutex          // held while this process has the mark of a child
	adopting   func() bool         // makes this process the subreaper, and reports whether it is
	own        func() uint64       // pattern and own number
}{
	trees: make(map[uint64]*Process), empty: make(chan struct{}, 1),
	adopting: sync.OnceValue(func() bool {
		return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil
	}),
	own: sync.OnceValue(func() uint64 {
		var random [8]byte
		_, _ = rand.Read(random[:]) // it never fails
		return pattern | binary.LittleEndian.Uint64(random[:])>>(64-ownShift)<<ownShift
	}),
}

// launch starts the command with a mark of its own.
func (p *Process) launch(cmd *exec.Cmd) error {
	forest.adopting()
	p.plant()
	if err := p.startMarked(cmd); err != nil {
		p.release()
		return err
	}
	forest.mu.Lock()
	p.id.PID = cmd.Process.Pid
	forest.mu.Unlock()
	p.id.Start, _ = startOf(p.id.PID) // it is there: nobody has reaped it
	return nil
}

// startMarked starts the command while this process has the mark. Where the
// limit cannot be set the tree has none, and is its group.
func (p *Process) startMarked(cmd *exec.Cmd) error {
	forest.forking.Lock()
	defer forest.forking.Unlock()
	var old unix.Rlimit
	err := unix.Prlimit(0, unix.RLIMIT_LOCKS, nil, &old)
	if err == nil {
		err = unix.Prlimit(0, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: p.id.Mark, Max: old.Max}, nil)
	}
	if err != nil {
		p.release()
		p.id.Mark = 0
		return cmd.Start()
	}
	defer func() { _ = unix.Prlimit(0, unix.RLIMIT_LOCKS, &old, nil) }() // as it was
	return cmd.Start()
}

// plant gives the process a mark and puts it into the forest.
func (p *Process) plant() {
	forest.mu.Lock()
	defer forest.mu.Unlock()
	forest.count++
	p.id.Mark = forest.own() | forest.count&countMask
	forest.trees[p.id.Mark] = p
	if !forest.collecting {
		forest.collecting = true
		go collector()
	}
}

// release takes the process out of the forest.
func (p *Process) release() {
	forest.mu.Lock()
	defer forest.mu.Unlock()
	delete(forest.trees, p.id.Mark)
	if len(forest.trees) == 0 {
		select {
		case forest.empty <- struct{}{}:
		default: // it knows
		}
	}
}

// adopt prepares a process that an earlier run started. With a mark it is only
// ever signalled by that.
func (p *Process) adopt() { p.reaped = p.reaped || p.id.Mark != 0 }

// collector reaps orphans that die while their tree lives, and ends those that
// a tree has left. It runs until there is neither.
func collector() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-forest.empty:
		case <-tick.C:
		}
		_, over := collect()
		forest.mu.Lock()
		if len(forest.trees) == 0 && over == 0 {
			forest.collecting = false
			forest.mu.Unlock()
			return
		}
		forest.mu.Unlock()
	}
}

// collect looks at the children of this process and reaps orphans that have
// died. It counts the living of each tree, and kills and counts those whose tree
// is over.
func collect() (alive map[uint64]int, over int) {
	alive = make(map[uint64]int)
	for _, pid := range children() {
		mark := markOf(pid)
		if mark&^countMask != forest.own() {
			continue // somebody else's child
		}
		forest.mu.Lock()
		tree := forest.trees[mark]
		leader := tree != nil && (tree.id.PID == pid || tree.id.PID == 0) // 0: it is being started
		forest.mu.Unlock()
		switch {
		case leader:
		case buried(pid):
		case tree == nil:
			send(pid, mark, unix.SIGKILL)
			over++
		default:
			alive[mark]++
		}
	}
	return alive, over
}

// buried takes the status of a child that has died, and reports whether it had.
func buried(pid int) bool {
	n, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
	return n == pid || errors.Is(err, unix.ECHILD)
}

func (p *Process) waitLeader() {
	// Left as a zombie, so that its number and its group stay its own.
	for errors.Is(unix.Waitid(unix.P_PID, p.id.PID, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}

// strays counts the living members of a tree whose leader has exited: by a short
// list that may lack one, or thoroughly.
func (p *Process) strays(thoroughly bool) (n int) {
	if p.id.Mark == 0 {
		return p.groupStrays()
	}
	if p.cmd != nil && forest.adopting() {
		alive, _ := collect()
		if n = alive[p.id.Mark]; n > 0 || !thoroughly {
			return n
		}
	}
	for _, pid := range members(p.id.Mark) {
		if pid != p.id.PID && !zombie(pid) {
			n++
		}
	}
	return n
}

// signal sends TERM or KILL to the whole tree. A keeper that got TERM would be gone
// before the command has had its say.
func (p *Process) signal(kill bool) {
	group, sig := 0, unix.SIGTERM
	kept := p.keeper && !kill && p.id.Mark != 0
	if !kept {
		group = p.signalGroup(kill)
	}
	if kill {
		sig = unix.SIGKILL
	}
	for _, pid := range members(p.id.Mark) {
		if kept && pid == p.id.PID {
			continue
		}
		if g, err := unix.Getpgid(pid); group != 0 && err == nil && g == group {
			continue // once is enough
		}
		send(pid, p.id.Mark, sig)
	}
}

// send signals a process if it has the mark. The handle holds on to the process
// that the mark is then read of: if that is another one, the signal goes nowhere.
func send(pid int, mark uint64, sig unix.Signal) {
	h, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer func() { _ = h.Release() }()
	if markOf(pid) != mark {
		return
	}
	_ = h.Signal(sig) // it may have ended
	if sig == unix.SIGTERM {
		_ = h.Signal(unix.SIGCONT) // a stopped process cannot end
	}
}

// members returns every process with the mark, but this one.
func members(mark uint64) (pids []int) {
	if mark == 0 {
		return nil
	}
	for _, pid := range processes() {
		if markOf(pid) == mark && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// markOf returns the limit that is the mark of a process, 0 when it is gone.
func markOf(pid int) uint64 {
	var limit unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &limit)
	if err == nil {
		return limit.Cur
	}
	if !errors.Is(err, unix.EPERM) {
		return 0
	}
	// A process of another user, which a setuid program makes.
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
	_, text, _ = bytes.Cut(text, []byte("Max file locks"))
	if f := bytes.Fields(text); len(f) > 0 {
		n, _ := strconv.ParseUint(string(f[0]), 10, 64) // "unlimited" is none
		return n
	}
	return 0
}

// children returns the processes that a new parent was found for in this one,
// and maybe others that it started. One may be missing while others come and go.
func children() (pids []int) {
	me := strconv.Itoa(os.Getpid())
	list, err := os.ReadFile("/proc/self/task/" + me + "/children")
	if err == nil {
		for s := range strings.FieldsSeq(string(list)) {
			if pid, err := strconv.Atoi(s); err == nil {
				pids = append(pids, pid)
			}
		}
		return pids
	}
	for _, pid := range processes() {
		if f := stat(pid); f != nil && f[1] == me {
			pids = append(pids, pid)
		}
	}
	return pids
}

// processes returns the numbers of all processes.
func processes() (pids []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what could be read counts
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stat returns what the kernel tells about a process, from its state on; nil
// when it is gone.
func stat(pid int) []string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	// The name before it may hold anything.
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(f) < 20 {
		return nil
	}
	return f
}

func zombie(pid int) bool {
	f := stat(pid)
	return f == nil || f[0] == "Z" || f[0] == "X"
}

// boot tells this run of the machine from others.
var boot = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without it marks and times are left
	first, _, _ := strings.Cut(string(id), "-")
	return first
})

// startOf returns when a process was started, and whether it runs.
func startOf(pid int) (start string, runs bool) {
	f := stat(pid)
	if f == nil {
		return "", false
	}
	return boot() + "-" + f[19], f[0] != "Z" && f[0] != "X"
}

func (id Identity) alive() bool {
	start, runs := startOf(id.PID)
	return runs && start == id.Start && (id.Mark == 0 || markOf(id.PID) == id.Mark)
}

// enlarge gives a pipe more room, where the system has some left for this user.
func enlarge(r *os.File) {
	const room = 1 << 20
	if c, err := r.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) {
			_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, room)
		})
	}
}
