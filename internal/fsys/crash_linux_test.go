package fsys_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/commit"
)

// TestCrashHelper is the process that is killed: it makes the change that
// FSYS_CRASH names in FSYS_CRASH_ROOT and dies before its n-th step, after doing
// what FSYS_CRASH_BEFORE says before an earlier one.
func TestCrashHelper(t *testing.T) {
	root := os.Getenv("FSYS_CRASH_ROOT")
	if root == "" {
		return // nothing to do but for the crash tests
	}
	n, err := strconv.Atoi(os.Getenv("FSYS_CRASH_STEP"))
	must(t, err)
	meddle, with, _ := strings.Cut(os.Getenv("FSYS_CRASH_BEFORE"), "=")
	steps := 0
	commit.Failpoint = func(step string) error {
		if step == meddle {
			must(t, byRename(filepath.Join(root, "f"), with))
		}
		if steps++; steps == n {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}
	must(t, changes(t, open(t, root))[os.Getenv("FSYS_CRASH")]())
}

// crash runs op in a process that dies at its n-th step; false if it had fewer.
func crash(t *testing.T, root, op string, n int, before string) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrashHelper$")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "FSYS_CRASH="+op, "FSYS_CRASH_ROOT="+root, "FSYS_CRASH_STEP="+strconv.Itoa(n), "FSYS_CRASH_BEFORE="+before)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%s: %v\n%s", op, err, out)
	}
	return true
}

// outcomes are what may stand after a change that was cut off: all or nothing of
// it, and directories that were made on the way. D is the directory d as it was.
var outcomes = map[string][]string{
	"create":         {"D f=old", "D f=old new=n"},
	"create, dirs":   {"D f=old", "a D f=old", "a a/b D f=old", "a a/b a/b/new=n D f=old"},
	"replace":        {"D f=old", "D f=n"},
	"append":         {"D f=old", "D f=oldn"},
	"remove":         {"D f=old", "D"},
	"remove, if":     {"D f=old", "D"},
	"remove all":     {"D f=old", "f=old"},
	"mkdir":          {"D f=old", "a D f=old", "a a/b D f=old"},
	"copy":           {"D f=old", "a D f=old", "a a/copy=old D f=old"},
	"rename":         {"D f=old", "a D f=old", "a a/g=old D"},
	"rename dir":     {"D f=old", "a D f=old", "a a/e a/e/sub a/e/sub/x=x f=old"},
	"replace deeper": {"D f=old", "d d/sub d/sub/x=n f=old"},
}

// Killed at any step, a change has happened or it has not, and the next sweep
// leaves nothing of it.
func TestAKillAtAnyStepLeavesAllOrNothing(t *testing.T) {
	kills := 0
	for op, allowed := range outcomes {
		for n := 1; !testing.Short() || n <= 2; n++ {
			b, root := grow(t)
			if !crash(t, root, op, n, "") {
				break
			}
			kills++
			if got := walked(t, b); strings.Contains(got, ".acm-tmp") {
				t.Errorf("%s killed at step %d: a listing shows %s", op, n, got)
			}
			_, err := b.Sweep(t.Context())
			must(t, err)
			got := strings.ReplaceAll(snapshot(t, root), "d d/sub d/sub/x=x", "D")
			if !slices.Contains(allowed, got) {
				t.Errorf("%s killed at step %d left %s", op, n, got)
			}
		}
	}
	t.Logf("%d kills", kills)
}

// Somebody saves right before the files change places, and we die before we can
// look at what came out.
func TestASweepGivesBackWhatADeadProcessHeld(t *testing.T) {
	for _, c := range []struct {
		op, before string
		step       int
		then       string // saved after the crash, if anything
		want       string
	}{
		{"replace", "replace.exchange=outside", 6, "", "outside"},
		{"replace", "replace.exchange=outside", 6, "later", "later"},
		{"replace", "replace.exchange=old", 6, "", "n"},
		{"replace", "", 6, "", "n"},
		{"replace", "", 6, "later", "later"},
		{"replace", "", 5, "", "old"},
		{"remove, if", "remove.aside=outside", 2, "", "outside"},
		{"remove, if", "remove.aside=outside", 2, "later", "later"},
		{"remove, if", "", 2, "", "(no such file or directory)"},
	} {
		b, root := grow(t)
		if !crash(t, root, c.op, c.step, c.before) {
			t.Fatalf("%s has fewer than %d steps", c.op, c.step)
		}
		if c.then != "" {
			must(t, byRename(filepath.Join(root, "f"), c.then))
		}
		removed, err := b.Sweep(t.Context())
		must(t, err)
		got := text(t, filepath.Join(root, "f"))
		if got != c.want || strings.Contains(list(t, root), "acm-tmp") || removed != 1 {
			t.Errorf("%s cut off at step %d with %q, then %q: holds %q, want %q; swept %d, left %s",
				c.op, c.step, c.before, c.then, got, c.want, removed, list(t, root))
		}
	}
}

func TestSweepLeavesTheLivingAlone(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	// Our own, taken from a write under way.
	var own string
	commit.Failpoint = func(step string) error {
		if step == "create.place" {
			own = list(t, root)
			if n, err := b.Sweep(t.Context()); n != 0 || err != nil {
				t.Errorf("Sweep = %d, %v in the middle of a write", n, err)
			}
		}
		return nil
	}
	err := resolve(t, b, "f").Create([]byte("x"), fsys.WriteOptions{})
	commit.Failpoint = nil
	must(t, err)
	part := strings.Split(strings.TrimSuffix(own[strings.LastIndexByte(strings.TrimSuffix(own, ".acm-tmp"), '.')+1:], ".acm-tmp"), "-")
	host, pid, life := part[0], part[1], part[2]
	name := func(host, pid, life string) string {
		return fmt.Sprintf(".f.%s-%s-%s-abcdefghijklm-0-0.acm-tmp", host, pid, life)
	}
	child := exec.CommandContext(t.Context(), "sleep", "1000")
	must(t, child.Start())
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	for _, c := range []struct {
		name, temp string
		kept       bool
	}{
		{"ours", name(host, pid, life), true},
		{"of an earlier life of our number", name(host, pid, "zzzzzz"), false},
		{"of an earlier life of another's number", name(host, strconv.FormatInt(int64(child.Process.Pid), 36), life), false},
		{"of nobody", name(host, "zzzzz", life), false},
		{"of another machine, new", name("zzzzzz", pid, life), true},
	} {
		put(t, filepath.Join(root, "sub", c.temp), "x")
		if _, err := b.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		if got := fsys.Exists(filepath.Join(root, "sub", c.temp)); got != c.kept {
			t.Errorf("%s: kept %v, want %v", c.name, got, c.kept)
		}
		must(t, os.RemoveAll(filepath.Join(root, "sub")))
	}
	// A directory that a move across file systems left, and a planted link.
	outside := tempDir(t)
	put(t, filepath.Join(outside, "keep"), "kept")
	put(t, filepath.Join(root, name(host, pid, "zzzzzz"), "deep/x"), "x")
	must(t, os.Symlink(outside, filepath.Join(root, name(host, pid, "zzzzzz"), "out")))
	must(t, os.Symlink(outside, filepath.Join(root, "."+name(host, pid, "zzzzzz"))))
	n, err := b.Sweep(t.Context())
	if err != nil || n != 2 || list(t, root) != "f" || text(t, filepath.Join(outside, "keep")) != "kept" {
		t.Errorf("Sweep = %d, %v, left %s, outside %s", n, err, list(t, root), list(t, outside))
	}
	// What a dead process held of somebody whose whole name is not known is kept.
	sum := sha256.Sum256([]byte("old"))
	tail := fmt.Sprintf(".%s-%s-zzzzzz-abcdefghijklm-%x-%08x.acm-tmp", host, pid, sum[:4], crc32.Checksum([]byte("new"), crc32.MakeTable(crc32.Castagnoli)))
	unknown := "." + strings.Repeat("n", 254-len(tail)) + tail
	put(t, filepath.Join(root, unknown), "somebody's")
	if n, err := b.Sweep(t.Context()); n != 0 || err != nil || !fsys.Exists(filepath.Join(root, unknown)) {
		t.Errorf("Sweep = %d, %v, left %s", n, err, list(t, root))
	}
}
