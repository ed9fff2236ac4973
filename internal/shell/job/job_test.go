//go:build unix

package job

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/proc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// registry returns one that runs real commands.
func registry(t *testing.T, o Options) *Registry {
	t.Helper()
	r := New(o)
	t.Cleanup(func() { r.Stop(context.WithoutCancel(t.Context())) })
	return r
}

func script(text string) Spec {
	return Spec{Command: text, Argv: []string{"/bin/sh", "-c", text}, Env: os.Environ(), Project: "p", Session: "s"}
}

// printed waits until a job has printed something.
func printed(t *testing.T, r *Registry, id string) {
	t.Helper()
	if _, err := r.Wait(t.Context(), here, []Watch{{ID: id, After: &Cursor{}}}, WaitOptions{Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if s, _ := r.Get(t.Context(), here, id); s.Output == (Cursor{}) {
		t.Fatalf("nothing was printed: %+v", s)
	}
}

func TestRealCommands(t *testing.T) {
	r := registry(t, Options{})
	for _, c := range []struct {
		script string
		code   int // -1: none
		signal string
		out    string
		errs   string
	}{
		{"echo out; echo err >&2; exit 3", 3, "", "out\n", "err\n"},
		{"printf 'a\\377b'", 0, "", "a\ufffdb", ""},
		{"cat", 0, "", "", ""},
		{"kill -KILL $$", -1, "SIGKILL", "", ""},
	} {
		got := finished(t, r, start(t, r, script(c.script)).ID)
		o, err := r.Result(t.Context(), here, got.ID, 1000)
		if err != nil || got.State != Completed || got.Signal != c.signal || o.Stdout.Text != c.out || o.Stderr.Text != c.errs {
			t.Errorf("%s: %+v, %+v, %v", c.script, got, o, err)
		}
		if (got.ExitCode == nil) != (c.code < 0) || got.ExitCode != nil && *got.ExitCode != c.code {
			t.Errorf("%s: exit code %v, want %d", c.script, got.ExitCode, c.code)
		}
	}
	missing := script("x")
	missing.Argv = []string{"/nonexistent/program"}
	if got := start(t, r, missing); got.State != Failed || !strings.Contains(got.Error, "/nonexistent/program") {
		t.Errorf("a program that is not there: %+v", got)
	}
}

func TestPartialOutputStaysWhenAJobIsEnded(t *testing.T) {
	t.Parallel()
	r := registry(t, Options{})
	timed := script("echo first; echo second >&2; exec sleep 1000")
	timed.Timeout = 500 * time.Millisecond
	a := finished(t, r, start(t, r, timed).ID)
	cancelled := start(t, r, script("echo first; echo second >&2; exec sleep 1000"))
	printed(t, r, cancelled.ID)
	b, err := r.Cancel(t.Context(), here, cancelled.ID, "")
	if err != nil || a.State != TimedOut || b.State != Cancelled {
		t.Fatalf("%+v, %+v, %v", a, b, err)
	}
	if o, _ := r.Result(t.Context(), here, b.ID, 100); o.Stdout.Text != "first\n" {
		t.Errorf("output = %+v", o)
	}
}

func TestFinishSaysWhatTheEndMeansToEverybody(t *testing.T) {
	bus := &event.Bus{}
	told := bus.Subscribe(1)
	defer told.Close()
	r := registry(t, Options{Bus: bus})
	s := script("echo why >&2; exit 4")
	s.Finish = func(s *Snapshot, stderr string) {
		s.Note = json.RawMessage(strconv.Itoa(*s.ExitCode))
		code := len(stderr)
		s.ExitCode, s.Signal = &code, "SIGTEST"
	}
	if got := finished(t, r, start(t, r, s).ID); string(got.Note) != "4" || *got.ExitCode != len("why\n") || got.Signal != "SIGTEST" {
		t.Errorf("ended as %+v", got)
	}
	if e := (<-told.C).Data.(event.Job).Result; *e.ExitCode != len("why\n") || e.Signal != "SIGTEST" {
		t.Errorf("announced as %+v", e)
	}
}

func TestSpoolIsPrivateAndGoesWithItsJob(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "spool")
	dead := filepath.Join(dir, "nobody")
	if err := os.MkdirAll(dead, 0o700); err != nil {
		t.Fatal(err)
	}
	r := New(Options{SpoolDir: dir, SpoolBytes: 200_000})
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- r.Run(ctx) }()
	j := finished(t, r, start(t, r, script("i=0; while [ $i -lt 40000 ]; do echo line $i; i=$((i+1)); done; echo short >&2")).ID)
	var files []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dead {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 && path != dir {
			t.Errorf("%s is %v", path, info.Mode())
		}
		if !d.IsDir() {
			files = append(files, path)
			if info.Size() != 200_000 {
				t.Errorf("%s has %d bytes, want the cap", path, info.Size())
			}
		}
		return nil
	})
	if len(files) != 1 {
		t.Errorf("spooled: %q, want one file", files)
	}
	var all strings.Builder
	var at Cursor
	lost := int64(0)
	for {
		o, err := r.Output(t.Context(), here, j.ID, at, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		lost += o.Stdout.Omitted
		all.WriteString(o.Stdout.Text)
		if o.Next == at {
			break
		}
		at = o.Next
	}
	if at != j.Output || int64(all.Len())+lost != j.Output.Stdout || lost == 0 || !strings.HasSuffix(all.String(), "line 39999\n") {
		t.Errorf("read %d bytes, lost %d, ended at %s of %s", all.Len(), lost, at, j.Output)
	}
	stop()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left in the spool: %v, %v", left, err)
	}
}

func TestMuchOutputTakesLittleMemory(t *testing.T) {
	size, arg := int64(100<<20), "100M"
	if os.Getenv("ACM_STRESS") != "" {
		size, arg = 1<<30, "1G"
	}
	r := registry(t, Options{SpoolDir: t.TempDir()})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	j := finished(t, r, start(t, r, script("head -c "+arg+" /dev/zero")).ID)
	runtime.ReadMemStats(&after)
	o, err := r.Result(t.Context(), here, j.ID, 1000)
	if err != nil || o.Stdout.Total != size || !o.Stdout.Truncated || o.Stdout.Lost != size-64<<20-headBytes-tailBytes {
		t.Errorf("total %d, truncated %t, lost %d, %v", o.Stdout.Total, o.Stdout.Truncated, o.Stdout.Lost, err)
	}
	if grown := int64(after.Sys) - int64(before.Sys); grown > 32<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
}

func TestManyJobsAtOnce(t *testing.T) {
	t.Parallel()
	r := registry(t, Options{Limits: Limits{Running: 200, PerMinute: -1, Completed: 500}})
	release := filepath.Join(t.TempDir(), "go")
	var ids []string
	for range 200 {
		ids = append(ids, start(t, r, script("while [ ! -e "+release+" ]; do sleep 0.2; done; echo done")).ID)
	}
	if _, err := r.Start(script("true")); err == nil {
		t.Error("there is a 201st")
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		s := finished(t, r, id)
		if o, err := r.Result(t.Context(), here, s.ID, 100); err != nil || o.Stdout.Text != "done\n" {
			t.Errorf("%+v, %v", o, err)
		}
	}
}

// crashed returns a registry of a server that died with these jobs, as far as
// the store knows.
func crashed(t *testing.T, store Store, specs ...Spec) (*Registry, []Snapshot) {
	t.Helper()
	r := registry(t, Options{Store: store})
	r.owner = "dead" // no process has this name
	close(r.loaded)
	var jobs []Snapshot
	for _, s := range specs {
		j := start(t, r, s)
		printed(t, r, j.ID)
		s, _ := r.Get(t.Context(), here, j.ID)
		jobs = append(jobs, s)
	}
	r.save(t.Context())
	return r, jobs
}

func TestJobsOfADeadServer(t *testing.T) {
	t.Parallel()
	if !fsys.Gone("dead") {
		t.Fatal("the dead server is not gone")
	}
	store := &memory{}
	late := script("echo late; exec sleep 1000")
	late.Timeout = time.Second
	old, jobs := crashed(t, store,
		script("echo finished; exit 5"), script("echo lives; exec sleep 1000"), script("echo vanishes; exec sleep 1000"), late)
	finished(t, old, jobs[0].ID)
	old.save(t.Context())
	// The third dies between the servers.
	if s, err := old.Cancel(t.Context(), here, jobs[2].ID, ""); err != nil || s.State != Cancelled {
		t.Fatal(s, err)
	}

	r := New(Options{Store: store})
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- r.Run(ctx) }()
	for i, want := range []State{Completed, Running, Lost} {
		s, err := r.Get(t.Context(), here, jobs[i].ID)
		o, _ := r.Result(t.Context(), here, jobs[i].ID, 100)
		if err != nil || s.State != want || !s.Found || s.Command != jobs[i].Command || !s.Started.Equal(jobs[i].Started) ||
			o.Stdout.Text != []string{"finished\n", "lives\n", "vanishes\n"}[i] {
			t.Errorf("job %d is %+v with %q, %v, want %s", i, s, o.Stdout.Text, err, want)
		}
		if i == 0 && (s.ExitCode == nil || *s.ExitCode != 5) {
			t.Errorf("its exit code is %v", s.ExitCode)
		}
	}
	if s := finished(t, r, jobs[3].ID); s.State != TimedOut {
		t.Errorf("a job past its time is %s", s.State)
	}
	if s, err := r.Cancel(t.Context(), here, jobs[1].ID, ""); err != nil || s.State != Cancelled {
		t.Errorf("Cancel = %+v, %v", s, err)
	}
	if got := finished(t, old, jobs[1].ID); got.Signal != "SIGTERM" {
		t.Errorf("the process that was found again ended by %+v", got)
	}
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

func TestProcessThatWasFoundAgainEndsUnseen(t *testing.T) {
	t.Parallel()
	store := &memory{}
	old, jobs := crashed(t, store, script("echo ready; exec sleep 1000"))
	r := New(Options{Store: store})
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- r.Run(ctx) }()
	if s, err := r.Get(t.Context(), here, jobs[0].ID); err != nil || s.State != Running {
		t.Fatal(s, err)
	}
	old.mu.Lock()
	p := old.jobs[jobs[0].ID].proc
	old.mu.Unlock()
	p.End(0)
	if s := finished(t, r, jobs[0].ID); s.State != Lost || s.ExitCode != nil || s.Error == "" {
		t.Errorf("job is %+v, want lost", s)
	}
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// The end of the server is the end of all children, stubborn ones too, in time.
func TestRunEndsEverything(t *testing.T) {
	t.Parallel()
	r := New(Options{})
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- r.Run(ctx) }()
	j := start(t, r, script(`trap "" TERM; setsid -f sleep 1000; echo ready; while :; do sleep 1000; done`))
	printed(t, r, j.ID)
	r.mu.Lock()
	id := r.jobs[j.ID].proc.ID()
	r.mu.Unlock()
	stop()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if _, ok := proc.Find(id); ok {
		t.Error("it is still alive")
	}
	if s, _ := r.Get(t.Context(), here, j.ID); s.State != Cancelled || s.Signal != "SIGKILL" {
		t.Errorf("job is %+v", s)
	}
}
