//go:build unix

package proc

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

func TestExitCodeAndSignalAreToldApart(t *testing.T) {
	for script, want := range map[string]Exit{
		"exit 0":        {},
		"exit 3":        {Code: 3},
		"exit 137":      {Code: 137},
		"kill -KILL $$": {Code: -1, Signal: "SIGKILL", Number: 9},
		"kill -TERM $$": {Code: -1, Signal: "SIGTERM", Number: 15},
	} {
		p := sh(t, script, io.Discard)
		wait(t, p.Gone(), "the end of the tree")
		if got := p.Exit(); got != want {
			t.Errorf("%s: exit = %+v, want %+v", script, got, want)
		}
	}
}

func TestStreamsAreApartAndWhole(t *testing.T) {
	var out, errs buffer
	p, err := Start(Spec{Argv: []string{"/bin/sh", "-c", "echo a; echo b >&2; echo c"}, Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatal(err)
	}
	wait(t, p.Gone(), "the end of the tree")
	if out.String() != "a\nc\n" || errs.String() != "b\n" || p.Exit().Incomplete {
		t.Errorf("out %q, err %q, exit %+v", out.String(), errs.String(), p.Exit())
	}
}

func TestWhatCannotStartLeavesNothing(t *testing.T) {
	open := func() int {
		d, _ := os.ReadDir("/proc/self/fd")
		return len(d)
	}
	before := open()
	refused := errors.New("refused")
	for _, s := range []Spec{
		{},
		{Argv: []string{"/nonexistent/program"}, Stdout: io.Discard, Stderr: io.Discard},
		{Argv: []string{"/bin/true"}, Dir: "/nonexistent", Stdout: io.Discard},
		{Argv: []string{"/bin/true"}, Stdout: io.Discard, Prepare: func(*exec.Cmd) error { return refused }},
	} {
		if p, err := Start(s); err == nil {
			t.Errorf("Start(%v) = %v, want an error", s.Argv, p)
		} else if s.Prepare != nil && !errors.Is(err, refused) {
			t.Errorf("Start = %v, want the hook's error", err)
		}
	}
	if after := open(); after > before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
}

// count counts bytes.
type count struct{ n atomic.Int64 }

func (c *count) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// size is how much output the tests of much output make, as head has it.
func size() (bytes int64, arg string) {
	if os.Getenv("ACM_STRESS") != "" {
		return 1 << 30, "1G"
	}
	return 100 << 20, "100M"
}

func TestMuchOutputTakesLittleMemory(t *testing.T) {
	want, arg := size()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var c count
	p := sh(t, "head -c "+arg+" /dev/zero", &c)
	wait(t, p.Gone(), "the end of the tree")
	runtime.ReadMemStats(&after)
	if c.n.Load() != want {
		t.Errorf("got %d bytes, want %d", c.n.Load(), want)
	}
	if grown := int64(after.Sys) - int64(before.Sys); grown > 32<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
}

func TestManyAtOnce(t *testing.T) {
	var all []*Process
	var out buffer
	for range 200 {
		all = append(all, sh(t, "read x; echo done", &out))
	}
	for _, p := range all {
		wait(t, p.Gone(), "the end of the tree")
	}
	if n := strings.Count(out.String(), "done\n"); n != 200 {
		t.Errorf("%d of 200 have printed", n)
	}
}
