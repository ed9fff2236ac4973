package proc

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Every way to stay alive that is known. $1 is a number of seconds that tells
// the processes of the case from others; "ready" is printed when all is set up.
var runaways = []struct {
	name   string
	script string
	exits  bool // the leader ends by itself
	alive  int  // processes at least, besides the leader, when it is ready
}{
	{"ignores TERM", `trap "" TERM; sleep $1 & echo ready; while :; do sleep $1; done`, false, 1},
	{"double fork", `(sleep $1 &); echo ready; sleep $1`, false, 1},
	{"new session", `setsid sleep $1 & echo ready; sleep $1`, false, 1},
	{"new session, new parent, no environment", `env -i setsid -f sh -c 'trap "" TERM; sleep '$1' & while :; do sleep '$1'; done'; echo ready; sleep $1`, false, 1},
	{"holds the pipe", `sleep $1 & echo ready`, true, 1},
	{"holds the pipe from another session", `setsid -f sh -c 'trap "" TERM; sleep '$1'; sleep '$1; echo ready`, true, 1},
	{"daemon that closed everything", `setsid -f sleep $1 </dev/null >/dev/null 2>&1; echo ready`, true, 1},
	{"fork storm", `i=0; while [ $i -lt 200 ]; do sleep $1 & i=$((i+1)); done; echo ready; wait`, false, 200},
	{"storm of sessions", `i=0; while [ $i -lt 50 ]; do setsid -f sleep $1; i=$((i+1)); done; echo ready`, true, 50},
	{"always a new session", `trap "" TERM; printf 'trap "" TERM; sleep 0.02; setsid -f sh ./chain %s\n' $1 >chain; setsid -f sh ./chain $1; echo ready; sleep $1`, false, 1},
	{"stopped", `sleep $1 & echo ready; kill -STOP $!; kill -STOP $$`, false, 1},
	{"reads standard input", `cat; sleep $1 & echo ready; cat; wait`, false, 1},
}

func TestNothingSurvivesTheEnd(t *testing.T) {
	for _, c := range runaways {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out buffer
			seconds := unique()
			p := sh(t, c.script, &out, seconds)
			eventually(t, "the script is ready", func() bool { return strings.Contains(out.String(), "ready") })
			if !c.exits {
				eventually(t, "its processes run", func() bool { return len(with(seconds)) >= c.alive })
				p.End(300 * time.Millisecond)
			}
			wait(t, p.Done(), "the exit")
			if c.exits && p.Exit().Strays == 0 {
				t.Error("the exit tells of no strays")
			}
			p.End(300 * time.Millisecond) // do not wait for the whole grace
			wait(t, p.Gone(), "the end of the tree")
			if left := with(seconds); len(left) > 0 {
				t.Errorf("still alive: %v", left)
			}
			if left := members(p.ID().Mark); len(left) > 0 {
				t.Errorf("still there, with the mark: %v", left)
			}
		})
	}
}

// A polite tree gets TERM, once, and the time to say so.
func TestEndIsAskedForFirst(t *testing.T) {
	var out buffer
	p := sh(t, `trap 'echo bye; sleep 0.3; echo end; exit 7' TERM; echo ready; while :; do sleep 0.05; done`, &out)
	eventually(t, "the script is ready", func() bool { return strings.Contains(out.String(), "ready") })
	p.End(patience)
	p.End(patience)
	wait(t, p.Gone(), "the end of the tree")
	if e := p.Exit(); e.Code != 7 || e.Signal != "" || strings.Count(out.String(), "bye\n") != 1 || !strings.HasSuffix(out.String(), "end\n") {
		t.Errorf("exit %+v, output %q; want code 7 and what it said", e, out.String())
	}
}

// Output that is printed while the tree ends is taken also after the leader.
func TestOutputOfATreeThatEndsIsTaken(t *testing.T) {
	var out buffer
	p := sh(t, `sh -c 'trap "sleep 0.6; echo tidied up; exit" TERM; echo ready; while :; do sleep 0.05; done' & wait`, &out)
	eventually(t, "the script is ready", func() bool { return strings.Contains(out.String(), "ready") })
	p.End(patience)
	wait(t, p.Done(), "the exit")
	if !strings.Contains(out.String(), "tidied up") || p.Exit().Incomplete {
		t.Errorf("output %q, exit %+v", out.String(), p.Exit())
	}
}

// While the leader lives, orphans that die are not left as zombies.
func TestOrphansAreReaped(t *testing.T) {
	var out buffer
	p := sh(t, `(sh -c 'echo $$' &); read x </dev/null; sleep `+unique(), &out)
	eventually(t, "the orphan has told its number", func() bool { return strings.Contains(out.String(), "\n") })
	var pid int
	if _, err := fmt.Sscan(out.String(), &pid); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the orphan is gone", func() bool { return unix.Kill(pid, 0) == unix.ESRCH })
	p.End(0)
}

// Nothing is signalled that is not ours, whatever the number says.
func TestStrangersAreLeftAlone(t *testing.T) {
	stranger := exec.CommandContext(t.Context(), "sleep", unique())
	stranger.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	pid := stranger.Process.Pid
	p := sh(t, `exit 0`, io.Discard)
	wait(t, p.Gone(), "the end of the tree")
	id := p.ID()
	id.PID = pid // as if the number had come to somebody else
	if _, ok := Find(id); ok {
		t.Error("a stranger was found")
	}
	late := &Process{id: id, cmd: p.cmd, reaped: true}
	late.signal(true)
	send(pid, id.Mark, unix.SIGKILL)
	KillTree(id)
	collect()
	if zombie(pid) {
		t.Error("the stranger was killed")
	}
	_ = stranger.Process.Kill()
	if err := stranger.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Wait = %v: somebody else has reaped or ended the stranger", err)
	}
}

// A process is found again, ended as a tree, and not found any more.
func TestProcessIsFoundAgain(t *testing.T) {
	var out buffer
	seconds := unique()
	p := sh(t, `setsid -f sleep $1; echo ready; sleep $1`, &out, seconds)
	eventually(t, "the script is ready", func() bool { return strings.Contains(out.String(), "ready") })
	eventually(t, "its processes run", func() bool { return len(with(seconds)) >= 3 })
	other := p.ID()
	other.Start += "1"
	if _, ok := Find(other); ok {
		t.Error("a process with another start was found")
	}
	other = p.ID()
	other.Mark++
	if _, ok := Find(other); ok {
		t.Error("a process with another mark was found")
	}
	found, ok := Find(p.ID())
	if !ok {
		t.Fatal("the process was not found again")
	}
	found.End(0)
	wait(t, found.Gone(), "the end of the tree")
	if e := found.Exit(); !e.Unknown || e.Code != -1 {
		t.Errorf("exit = %+v, want an unknown one", e)
	}
	wait(t, p.Gone(), "the end of the tree")
	if left := with(seconds); len(left) > 0 {
		t.Errorf("still alive: %v", left)
	}
	if _, ok := Find(p.ID()); ok {
		t.Error("a process that has ended was found")
	}
}

func TestKillTreeEndsWhatADeadLeaderLeft(t *testing.T) {
	var out buffer
	seconds := unique()
	p := sh(t, `setsid -f sleep $1; echo ready; sleep $1`, &out, seconds)
	eventually(t, "its processes run", func() bool { return len(with(seconds)) >= 3 })
	KillTree(p.ID())
	wait(t, p.Gone(), "the end of the tree")
	if left := with(seconds); len(left) > 0 {
		t.Errorf("still alive: %v", left)
	}
}

// The mark is taken off this process again, and gives trees of their own.
func TestMarksAreTheTreesAlone(t *testing.T) {
	before := markOf(os.Getpid())
	a, b := sh(t, "sleep 60", io.Discard), sh(t, "sleep 60", io.Discard)
	if got := markOf(os.Getpid()); got != before {
		t.Errorf("the mark of this process is %x, want %x", got, before)
	}
	if a.ID().Mark == 0 || a.ID().Mark == b.ID().Mark || markOf(a.ID().PID) != a.ID().Mark {
		t.Errorf("marks %x and %x, on the process %x", a.ID().Mark, b.ID().Mark, markOf(a.ID().PID))
	}
	a.End(0)
	wait(t, a.Gone(), "the end of one tree")
	if zombie(b.ID().PID) {
		t.Error("the end of one tree was the end of another")
	}
}

// What a finished tree left, and a look at it missed, goes with the next look.
func TestStraysOfFinishedTreesAreKilled(t *testing.T) {
	p := sh(t, "sleep 60", io.Discard) // keeps the collector at work
	over := &Process{id: Identity{Mark: forest.own() | countMask}}
	seconds := unique()
	cmd := exec.CommandContext(t.Context(), "setsid", "-f", "sleep", seconds)
	if err := over.startMarked(cmd); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the collector may have been faster
	p.End(0)       // the last tree: the collector looks once more
	eventually(t, "the stray is gone", func() bool { return len(with(seconds)) == 0 })
}

func TestFilesAndHook(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("from the pipe"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var out buffer
	dir := t.TempDir()
	p, err := Start(Spec{
		Argv: []string{"/bin/cat"}, Files: []*os.File{r}, Dir: dir, Stdout: &out,
		Prepare: func(c *exec.Cmd) error {
			c.Path, c.Args = "/bin/sh", []string{"sh", "-c", `cat <&3; pwd -P; env | grep -v PWD; ls -l /proc/self/fd/0 | sed 's/.*-> //'`}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	wait(t, p.Gone(), "the end of the tree")
	real, _ := filepath.EvalSymlinks(dir)
	if want := "from the pipe" + real + "\n/dev/null\n"; out.String() != want && out.String() != strings.Replace(want, "\n/dev", "\n_=/usr/bin/env\n/dev", 1) {
		t.Errorf("output = %q, want %q", out.String(), want)
	}
	if _, err := r.Stat(); err == nil {
		t.Error("the file is still open here")
	}
}
