package shell_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/policy"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/job"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a project with an engine.
type world struct {
	*shell.Engine
	scope *shell.Scope
	jobs  *job.Registry
	root  string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	root, err := fsys.ResolveDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policy.New(policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{root: root, jobs: job.New(job.Options{})}
	t.Cleanup(func() { w.jobs.Stop(context.Background()) })
	w.scope = &shell.Scope{
		Project: "p1", Root: root, Enabled: true, Rules: rules, Sandbox: shell.Unconfined(), Environ: []string{"PATH=" + os.Getenv("PATH"), "A_TOKEN=x"},
		Strip: []string{"*_TOKEN"}, Confined: true, Shell: "nu-that-is-not-installed", MaxCommand: 10000,
		Timeout: time.Minute, MaxTimeout: 10 * time.Minute, ShellTimeout: time.Minute,
	}
	w.Engine = shell.New(shell.Options{
		Jobs:  w.jobs,
		Scope: func(context.Context) (*shell.Scope, error) { return w.scope, nil },
		Changes: func(string) func() *shell.Changes {
			return func() *shell.Changes { return &shell.Changes{Paths: []string{"seen"}} }
		},
		Mark: "m",
	})
	return w
}

func (w *world) run(t *testing.T, r shell.Request) shell.Result {
	t.Helper()
	res, err := w.Run(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestCommandRunsAndTellsHowItEnded(t *testing.T) {
	w := newWorld(t)
	res := w.run(t, shell.Request{Command: "printf out; printf err >&2; exit 7"})
	if res.Denied != nil || res.Output.Stdout.Text != "out" || res.Output.Stderr.Text != "err" || *res.Job.ExitCode != 7 || res.Job.State != job.Completed {
		t.Errorf("got %+v", res)
	}
	if res.Shell != "bash" || res.Changed == nil || !slices.Equal(res.Changed.Paths, []string{"seen"}) {
		t.Errorf("shell %q, changed %v", res.Shell, res.Changed)
	}
	if res := w.run(t, shell.Request{Command: "kill -9 $$"}); res.Job.Signal != "SIGKILL" || *res.Job.ExitCode != 137 {
		t.Errorf("killed: signal %q, exit code %d", res.Job.Signal, *res.Job.ExitCode)
	}
}

func TestNothingRunsThatIsNotAllowed(t *testing.T) {
	w := newWorld(t)
	for name, r := range map[string]shell.Request{
		"a rule":            {Command: "touch made"},
		"a variable":        {Command: ": > /dev/null", Env: map[string]string{"LD_PRELOAD": "/x.so"}},
		"the shell's own":   {Door: shell.Shell, Command: "rm -rf /"},
		"behind a wrapper":  {Command: "env bash -c 'touch made'"},
		"the command door":  {Door: shell.Command, Command: "cat made"},
		"in the background": {Command: "touch made", Background: true},
	} {
		res := w.run(t, r)
		if res.Denied == nil || res.Denied.Rule == "" || res.Denied.Reason == "" || res.Job.ID != "" {
			t.Errorf("%s: %+v", name, res)
		}
	}
	if all, _ := w.jobs.List(t.Context(), job.Scope{All: true}); len(all) != 0 {
		t.Errorf("%d jobs were made", len(all))
	}
}

func TestRulesOfThePersonAndTheirModes(t *testing.T) {
	w := newWorld(t)
	mine := []policy.Rule{{Pattern: `^git push\b`, Reason: "ask first"}}
	for mode, want := range map[policy.Mode][2]bool{ // git push, touch: denied
		policy.Extend:  {true, true},
		policy.Replace: {true, false},
		policy.Disable: {false, false},
	} {
		var err error
		if w.scope.Rules, err = policy.New(policy.Options{Mode: mode, Rules: mine}); err != nil {
			t.Fatal(err)
		}
		for i, command := range []string{"git push --dry-run nowhere", "touch made"} {
			if res := w.run(t, shell.Request{Command: command}); (res.Denied != nil) != want[i] {
				t.Errorf("%s: %s denied %v", mode, command, res.Denied)
			}
		}
	}
	if res := w.run(t, shell.Request{Door: shell.Shell, Command: "echo rm -rf /"}); res.Denied == nil {
		t.Error("the shell door ran what it never runs")
	}
}

func TestCommandsAreRefusedWithACode(t *testing.T) {
	w := newWorld(t)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(w.root, "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.root, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		r    shell.Request
		want fault.Code
	}{
		{"empty", shell.Request{Command: " \n"}, fault.ValidationError},
		{"NUL", shell.Request{Command: "true\x00"}, fault.ValidationError},
		{"too long", shell.Request{Command: strings.Repeat("x", 10001)}, fault.ValidationError},
		{"a bad variable", shell.Request{Command: "true", Env: map[string]string{"A=B": "c"}}, fault.ValidationError},
		{"outside", shell.Request{Command: "true", Dir: outside}, fault.PathOutsideBase},
		{"up", shell.Request{Command: "true", Dir: "../.."}, fault.PathOutsideBase},
		{"outside by a link", shell.Request{Command: "true", Dir: "out"}, fault.PathOutsideBase},
		{"outside, not there", shell.Request{Command: "true", Dir: outside + "/none"}, fault.PathOutsideBase},
		{"missing", shell.Request{Command: "true", Dir: "none"}, fault.DirNotFound},
		{"a file", shell.Request{Command: "true", Dir: "file"}, fault.DirNotFound},
		{"shell: outside", shell.Request{Door: shell.Shell, Command: "true", Dir: "../../../etc"}, fault.WorkingDirEscape},
		{"shell: missing", shell.Request{Door: shell.Shell, Command: "true", Dir: "none"}, fault.WorkingDirNotFound},
		{"nu by name", shell.Request{Door: shell.Shell, Command: "true", Shell: "nu-that-is-not-installed"}, fault.ShellNotInstalled},
	} {
		if _, err := w.Run(t.Context(), c.r); fault.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	w.scope.Enabled = false
	if _, err := w.Run(t.Context(), shell.Request{Command: "true"}); fault.CodeOf(err) != fault.ShellDisabled {
		t.Errorf("switched off: %v", err)
	}
	if _, err := w.Wait(t.Context(), shell.WaitRequest{Timeout: time.Millisecond}); err != nil {
		t.Errorf("waiting needs no shell: %v", err)
	}
}

func TestWorkingDirectory(t *testing.T) {
	w := newWorld(t)
	sub, outside := filepath.Join(w.root, "sub"), t.TempDir()
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		r        shell.Request
		override string
		confined bool
		want     string
	}{
		{"the project", shell.Request{}, "", true, w.root},
		{"relative", shell.Request{Dir: "sub"}, "", true, sub},
		{"absolute", shell.Request{Dir: sub}, "", true, sub},
		{"of the settings", shell.Request{}, outside, true, outside},
		{"of the settings, relative", shell.Request{}, "sub", true, sub},
		{"shell, not confined", shell.Request{Door: shell.Shell, Dir: outside}, "", false, outside},
	} {
		w.scope.CwdOverride, w.scope.Confined = c.override, c.confined
		c.r.Command = `printf '%s %s' "$(pwd -P)" "$PWD"`
		want, err := fsys.ResolveDir(c.want)
		if err != nil {
			t.Fatal(err)
		}
		if res := w.run(t, c.r); res.Output.Stdout.Text != want+" "+want {
			t.Errorf("%s: %q, want %q twice", c.name, res.Output.Stdout.Text, want)
		}
	}
}

func TestEnvironmentIsStrippedAfterTheCallersIsMerged(t *testing.T) {
	w := newWorld(t)
	w.scope.Environ = append(w.scope.Environ, "BASH_ENV=/etc/profile", "KEPT=1")
	res := w.run(t, shell.Request{
		Command: `printf '%s,%s,%s,%s,%s,%s' "$A_TOKEN" "$B_TOKEN" "$KEPT" "$MINE" "$BASH_ENV" "$` + sandbox.MarkerEnv + `"`,
		Env:     map[string]string{"B_TOKEN": "y", "MINE": "z"},
	})
	if res.Output.Stdout.Text != ",,1,z,,m" || !slices.Equal(res.Stripped, []string{"A_TOKEN", "BASH_ENV", "B_TOKEN"}) {
		t.Errorf("printed %q, stripped %q", res.Output.Stdout.Text, res.Stripped)
	}
	w.scope.Environ = nil
	if res := w.run(t, shell.Request{Command: `printf %s "$KEPT"`}); res.Output.Stdout.Text != "" {
		t.Errorf("inherited %q", res.Output.Stdout.Text)
	}
}

func TestTimeouts(t *testing.T) {
	w := newWorld(t)
	w.scope.MaxTimeout = 300 * time.Millisecond
	hour := time.Hour
	res := w.run(t, shell.Request{Command: "echo begun; exec sleep 60", Timeout: &hour})
	if res.Job.State != job.TimedOut || res.Output.Stdout.Text != "begun\n" || !res.Clamped || res.Timeout != w.scope.MaxTimeout {
		t.Errorf("state %s, output %q, clamped %v to %s", res.Job.State, res.Output.Stdout.Text, res.Clamped, res.Timeout)
	}
	none, enough := time.Duration(0), 200*time.Millisecond
	if res := w.run(t, shell.Request{Command: "true", Timeout: &none, Background: true}); !res.Clamped || res.Timeout != 100*time.Millisecond {
		t.Errorf("no time at all is clamped %v to %s", res.Clamped, res.Timeout)
	}
	if res := w.run(t, shell.Request{Command: "true", Timeout: &enough, Background: true}); res.Clamped || res.Timeout != enough {
		t.Errorf("%s is clamped %v to %s", enough, res.Clamped, res.Timeout)
	}
	if res := w.run(t, shell.Request{Command: "true", Background: true}); res.Timeout != 0 {
		t.Errorf("a background command has a timeout of %s", res.Timeout)
	}
	if res := w.run(t, shell.Request{Door: shell.Shell, Command: "true", Background: true}); res.Timeout == 0 {
		t.Error("a background command of the shell door has no timeout")
	}
}

func TestCancelledCallEndsItsCommand(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	ctx = caller.With(ctx, &caller.Caller{Ask: caller.Ask{Progress: func(context.Context, float64, float64, string) { cancel() }}})
	_, err := w.Run(ctx, shell.Request{Command: "sleep 60"})
	if !errors.Is(err, context.Canceled) || fault.From(err).Text() != "the call was cancelled, and its command was ended" {
		t.Errorf("got %v", err)
	}
	all, err := w.jobs.List(t.Context(), job.Scope{All: true})
	if err != nil || len(all) != 1 || all[0].State != job.Cancelled {
		t.Errorf("jobs %+v, %v", all, err)
	}
	_, err = w.Wait(ctx, shell.WaitRequest{Timeout: time.Minute})
	if !errors.Is(err, context.Canceled) || fault.From(err).Text() != "the call was cancelled while it waited" {
		t.Errorf("waiting: %v", err)
	}
}

func TestLongOutputIsPagedFromItsBeginning(t *testing.T) {
	w := newWorld(t)
	id := w.run(t, shell.Request{Command: "for i in $(seq 15000); do echo $i; done", Background: true}).Job.ID
	whole, err := w.Wait(t.Context(), shell.WaitRequest{IDs: []string{id}, Timeout: time.Minute})
	if err != nil || !whole.Jobs[0].Output.Stdout.Truncated {
		t.Fatalf("got %+v, %v", whole, err)
	}
	var want strings.Builder
	for i := range 15000 {
		fmt.Fprintln(&want, i+1)
	}
	for _, first := range []string{"0.0", id + ":0.0", id + ":0.0:end"} {
		var got strings.Builder
		for at, more := first, true; more; {
			page, err := w.Wait(t.Context(), shell.WaitRequest{IDs: []string{id}, Timeout: time.Minute, Cursor: at})
			if err != nil {
				t.Fatalf("%s: %v", at, err)
			}
			got.WriteString(page.Jobs[0].Output.Stdout.Text)
			at, more = page.Cursor, page.Jobs[0].Output.Stdout.Truncated
		}
		if got.String() != want.String() {
			t.Errorf("from %s: %d bytes, want %d", first, got.Len(), want.Len())
		}
	}
}

func TestAnEndThatWasToldIsNoNews(t *testing.T) {
	w := newWorld(t)
	quick := w.run(t, shell.Request{Command: "echo quick", Background: true}).Job.ID
	slow := w.run(t, shell.Request{Command: "until test -e go; do sleep 0.02; done; echo slow", Background: true}).Job.ID
	ids := []string{quick, slow, strings.ToUpper(quick)}
	first, err := w.Wait(t.Context(), shell.WaitRequest{IDs: ids, Timeout: time.Minute})
	if err != nil || len(first.Jobs) != 2 || !first.Jobs[0].Job.Done() || first.Jobs[0].Known {
		t.Fatalf("first %+v, %v", first, err)
	}
	if err := os.WriteFile(filepath.Join(w.root, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	at := first.Cursor
	for {
		next, err := w.Wait(t.Context(), shell.WaitRequest{IDs: ids, Timeout: time.Minute, Cursor: at})
		if err != nil || !next.Jobs[0].Known {
			t.Fatalf("next %+v, %v", next, err)
		}
		if at = next.Cursor; next.Jobs[1].Job.Done() {
			break
		}
		if !next.News {
			t.Fatalf("came back for nothing: %+v", next)
		}
	}
	last, err := w.Wait(t.Context(), shell.WaitRequest{IDs: ids, Timeout: time.Minute, Cursor: at})
	if err != nil || last.News || !last.Jobs[0].Known || !last.Jobs[1].Known || last.Cursor != at {
		t.Errorf("after the last end: %+v, %v", last, err)
	}
}

func TestProgressCarriesTheLastLine(t *testing.T) {
	w := newWorld(t)
	told := make(chan string, 100)
	ctx := caller.With(t.Context(), &caller.Caller{Ask: caller.Ask{Progress: func(_ context.Context, _, _ float64, line string) { told <- line }}})
	if _, err := w.Run(ctx, shell.Request{Command: "echo one; echo two; sleep 1.5"}); err != nil {
		t.Fatal(err)
	}
	if line := <-told; line != "two" {
		t.Errorf("told %q", line)
	}
}

func TestLongCommandIsHandedOver(t *testing.T) {
	w := newWorld(t)
	soon := 50 * time.Millisecond
	fifo := filepath.Join(w.root, "go")
	res := w.run(t, shell.Request{Command: "echo begun; until test -e go; do sleep 0.02; done; echo over", Wait: &soon})
	if res.Job.Done() || !res.Job.Background {
		t.Fatalf("got %+v", res.Job)
	}
	ctx := t.Context()
	follow, err := w.Wait(ctx, shell.WaitRequest{IDs: []string{res.Job.ID}, Cursor: res.Job.ID + ":0.0", Timeout: time.Minute})
	if err != nil || !follow.News || follow.Jobs[0].Output.Stdout.Text != "begun\n" {
		t.Fatalf("followed %+v, %v", follow, err)
	}
	if err := os.WriteFile(fifo, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	more, err := w.Wait(ctx, shell.WaitRequest{IDs: []string{res.Job.ID}, Cursor: follow.Cursor, Timeout: time.Minute})
	if err != nil || more.Jobs[0].Output.Stdout.Text != "over\n" {
		t.Fatalf("followed %+v, %v", more, err)
	}
	end, err := w.Wait(ctx, shell.WaitRequest{IDs: []string{res.Job.ID}, Timeout: time.Minute})
	if err != nil || !end.Jobs[0].Job.Done() || end.Jobs[0].Output.Stdout.Text != "begun\nover\n" || end.Jobs[0].Shell != "bash" {
		t.Errorf("ended %+v, %v", end, err)
	}
}

func TestWaitReturnsWhenOneOfSeveralEnds(t *testing.T) {
	w := newWorld(t)
	long := w.run(t, shell.Request{Command: "sleep 60", Background: true}).Job.ID
	short := w.run(t, shell.Request{Command: "echo done", Background: true}).Job.ID
	got, err := w.Wait(t.Context(), shell.WaitRequest{IDs: []string{long, short}, Timeout: time.Minute})
	if err != nil || got.Jobs[0].Job.Done() || !got.Jobs[1].Job.Done() {
		t.Fatalf("got %+v, %v", got, err)
	}
	if all, err := w.Jobs(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("jobs %v, %v", all, err)
	}
	if s, err := w.Cancel(t.Context(), long); err != nil || s.State != job.Cancelled {
		t.Errorf("cancel: %+v, %v", s, err)
	}
	if _, err := w.Cancel(t.Context(), long); fault.CodeOf(err) != fault.JobNotRunning {
		t.Errorf("cancelled twice: %v", err)
	}
}

func TestJobsAreSeenInTheirProjectAlone(t *testing.T) {
	w := newWorld(t)
	id := w.run(t, shell.Request{Command: "sleep 60", Background: true}).Job.ID
	other := *w.scope
	other.Project = "p2"
	mine := w.scope
	w.scope = &other
	if _, err := w.Job(t.Context(), id); fault.CodeOf(err) != fault.JobNotFound {
		t.Errorf("looked at: %v", err)
	}
	if _, err := w.Cancel(t.Context(), id); fault.CodeOf(err) != fault.JobNotFound {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := w.Wait(t.Context(), shell.WaitRequest{IDs: []string{id}}); fault.CodeOf(err) != fault.TaskNotFound {
		t.Errorf("waited for: %v", err)
	}
	if all, err := w.Jobs(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("listed: %v, %v", all, err)
	}
	w.scope = mine
	if n, err := w.Job(t.Context(), id); err != nil || n.Job.Done() {
		t.Errorf("gone for its own project: %+v, %v", n, err)
	}
}

func TestShellDoorFallsBackToShAndSaysSo(t *testing.T) {
	w := newWorld(t)
	res := w.run(t, shell.Request{Door: shell.Shell, Command: "echo hi"})
	if res.Shell != "sh" || !res.Fallback || res.Output.Stdout.Text != "hi\n" {
		t.Errorf("got %+v", res)
	}
}

func TestCursorsOfOthersAreRefused(t *testing.T) {
	w := newWorld(t)
	for _, bad := range []string{"x", "job_1", "job_1:", "job_1:x", "job_1:1.2,", "0.0,1.0", ":end"} {
		if _, err := w.Wait(t.Context(), shell.WaitRequest{IDs: []string{"a", "b"}, Cursor: bad}); fault.CodeOf(err) != fault.ValidationError {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
