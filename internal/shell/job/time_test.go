package job

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/proc"
)

var here = Scope{Project: "p"}

// spec is a command of the project that takes so long, or until it is ended.
func spec(name, takes string) Spec {
	return Spec{Command: name, Argv: []string{"run", name}, Dir: takes, Project: "p", Session: "s"}
}

func start(t *testing.T, r *Registry, s Spec) Snapshot {
	t.Helper()
	j, err := r.Start(s)
	if err != nil {
		t.Fatalf("Start(%s) = %v", s.Command, err)
	}
	return j
}

// finished waits for one job.
func finished(t *testing.T, r *Registry, id string) Snapshot {
	t.Helper()
	all, err := r.Wait(t.Context(), Scope{All: true}, []Watch{{ID: id}}, WaitOptions{Timeout: time.Hour})
	if err != nil || !all[0].Done() {
		t.Fatalf("Wait = %+v, %v; want a finished job", all, err)
	}
	return all[0]
}

func code(t *testing.T, err error, want fault.Code) *fault.Error {
	t.Helper()
	if fault.CodeOf(err) != want {
		t.Errorf("error = %v, want %s", err, want)
	}
	return fault.From(err)
}

func TestStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := &event.Bus{}
		sub := bus.Subscribe(10)
		defer sub.Close()
		r, process := fakes(t, Options{Bus: bus})
		began := time.Now()
		timed := spec("timed", "")
		timed.Timeout = 30 * time.Second
		stubborn := spec("stubborn", "")
		stubborn.Argv[0], stubborn.Timeout = "stubborn", 40*time.Second
		missing := spec("missing", "")
		missing.Argv[0] = "missing"
		for _, c := range []struct {
			spec  Spec
			state State
			at    time.Duration
			error string
		}{
			{missing, Failed, 0, "no such program"},
			{spec("quick", "1s"), Completed, time.Second, ""},
			{timed, TimedOut, 31 * time.Second, ""},
			{stubborn, TimedOut, 31*time.Second + 40*time.Second + proc.Grace, ""},
		} {
			j := start(t, r, c.spec)
			if !regexp.MustCompile(`^job_[0-9a-hjkmnp-tv-z]{26}$`).MatchString(j.ID) {
				t.Errorf("id = %q", j.ID)
			}
			if c.state != Failed && (j.State != Running || !j.Ended.IsZero() || j.ExitCode != nil) {
				t.Errorf("%s begins as %+v", c.spec.Command, j)
			}
			printed := ""
			if f := process(c.spec.Command); f != nil {
				printed = "so far"
				fmt.Fprint(f.stdout, printed)
			}
			got := finished(t, r, j.ID)
			if o, err := r.Result(t.Context(), here, j.ID, 100); err != nil || o.Stdout.Text != printed {
				t.Errorf("%s: output %q, %v", c.spec.Command, o.Stdout.Text, err)
			}
			if got.State != c.state || got.Error != c.error || time.Since(began) != c.at || got.Ended.Sub(began) != c.at {
				t.Errorf("%s: %s %q after %s, want %s %q after %s", c.spec.Command, got.State, got.Error, time.Since(began), c.state, c.error, c.at)
			}
			e := <-sub.C
			data, _ := e.Data.(event.Job)
			if e.Kind != event.JobCompleted || e.Project != "p" || e.Session != "s" || data.ID != j.ID || data.Result.Status != string(c.state) || data.Result.Stdout != printed || data.Command != c.spec.Command {
				t.Errorf("%s: announced as %+v", c.spec.Command, e)
			}
			if (got.ExitCode != nil) != (c.state == Completed) {
				t.Errorf("%s: exit code %v", c.spec.Command, got.ExitCode)
			}
		}
	})
}

func TestCancelEndsTheTreeAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := fakes(t, Options{})
		s := spec("a", "")
		s.Argv[0] = "stubborn"
		j := start(t, r, s)
		if _, err := r.Cancel(t.Context(), Scope{Project: "other"}, j.ID, ""); err == nil {
			t.Error("a job was cancelled from another project")
		}
		began := time.Now()
		got, err := r.Cancel(t.Context(), here, strings.ToUpper(j.ID), "asked for")
		if err != nil || got.State != Cancelled || got.Error != "asked for" || got.Signal != "SIGKILL" || time.Since(began) != proc.Grace {
			t.Errorf("Cancel = %+v, %v after %s", got, err, time.Since(began))
		}
		_, err = r.Cancel(t.Context(), here, j.ID, "")
		code(t, err, fault.JobNotRunning)
		_, err = r.Cancel(t.Context(), here, "job_0", "")
		code(t, err, fault.JobNotFound)
	})
}

func TestJobsAreSeenInTheirProjectAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := fakes(t, Options{})
		a := start(t, r, spec("a", "1h"))
		time.Sleep(time.Second)
		other := spec("b", "1h")
		other.Project = "q"
		b := start(t, r, other)
		for in, want := range map[Scope][]string{
			here: {a.ID}, {Project: "q"}: {b.ID}, {All: true}: {a.ID, b.ID}, {}: nil,
		} {
			all, err := r.List(t.Context(), in)
			var got []string
			for _, s := range all {
				got = append(got, s.ID)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("List(%+v) = %v, %v, want %v", in, got, err, want)
			}
		}
		_, err := r.Get(t.Context(), here, b.ID)
		code(t, err, fault.JobNotFound)
		_, err = r.Output(t.Context(), here, b.ID, Cursor{}, 10)
		code(t, err, fault.JobNotFound)
		_, err = r.Result(t.Context(), here, b.ID, 10)
		code(t, err, fault.JobNotFound)
		_, err = r.HandOver(t.Context(), here, b.ID)
		code(t, err, fault.JobNotFound)
		_, err = r.Wait(t.Context(), here, []Watch{{ID: a.ID}, {ID: b.ID}}, WaitOptions{})
		code(t, err, fault.JobNotFound)
	})
}

func TestWaitReturnsWhenSomethingHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, process := fakes(t, Options{})
		a, b := start(t, r, spec("a", "1h")), start(t, r, spec("b", "10s"))
		began := time.Now()
		watches := []Watch{{ID: a.ID}, {ID: b.ID}}
		all, err := r.Wait(t.Context(), here, watches, WaitOptions{Timeout: 3 * time.Second})
		if err != nil || time.Since(began) != 3*time.Second || all[0].Done() || all[1].Done() {
			t.Errorf("Wait = %+v, %v after %s; want two running jobs after 3 s", all, err, time.Since(began))
		}
		all, err = r.Wait(t.Context(), here, watches, WaitOptions{Timeout: -1})
		if err != nil || time.Since(began) != 10*time.Second || all[0].Done() || !all[1].Done() {
			t.Errorf("Wait = %+v, %v after %s; want the second done after 10 s", all, err, time.Since(began))
		}
		time.AfterFunc(5*time.Second, func() { fmt.Fprintln(process("a").stdout, "hello") })
		all, err = r.Wait(t.Context(), here, []Watch{{ID: a.ID, After: &Cursor{}}}, WaitOptions{Timeout: time.Hour})
		if err != nil || time.Since(began) != 15*time.Second || all[0].Output != (Cursor{6, 0}) {
			t.Errorf("Wait = %+v, %v after %s; want output after 15 s", all, err, time.Since(began))
		}
		if _, err = r.Wait(t.Context(), here, nil, WaitOptions{Timeout: 5 * time.Second}); err != nil || time.Since(began) != 20*time.Second {
			t.Errorf("Wait for nothing = %v after %s", err, time.Since(began))
		}
		gone := errors.New("the client went away")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		if _, err = r.Wait(ctx, here, watches[:1], WaitOptions{Timeout: -1}); !errors.Is(err, gone) {
			t.Errorf("Wait = %v, want the cause", err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if n := len(r.jobs[a.ID].waiters); n != 0 {
			t.Errorf("%d waiters are left", n)
		}
	})
}

func TestWaitTellsTheLastLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, process := fakes(t, Options{})
		a := start(t, r, spec("a", "3500ms"))
		fmt.Fprint(process("a").stdout, "one\n\x1b[1mtwo\n\n")
		var got []string
		_, err := r.Wait(t.Context(), here, []Watch{{ID: a.ID}}, WaitOptions{Timeout: -1, Progress: func(d time.Duration, line string) {
			got = append(got, fmt.Sprint(d, " ", line))
			fmt.Fprint(process("a").stdout, "10%\r20%")
		}})
		want := []string{"1s [1mtwo", "2s 20%", "3s 20%"}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("progress = %q, %v, want %q", got, err, want)
		}
	})
}

func TestLimitsOfRunningJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := fakes(t, Options{Limits: Limits{Running: 3}})
		s := spec("a", "10s")
		s.Limits = &Limits{Running: 2}
		start(t, r, s)
		start(t, r, s)
		_, err := r.Start(s)
		code(t, err, fault.TooManyJobs)
		other := spec("b", "20s")
		other.Project = "q"
		start(t, r, other)
		other.Project = "r"
		_, err = r.Start(other)
		code(t, err, fault.TooManyJobs)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		start(t, r, s)
		start(t, r, s)
		r.SetLimits(Limits{Running: 4})
		start(t, r, other)
	})
}

func TestRateOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := fakes(t, Options{Limits: Limits{Running: 100, PerMinute: 2}})
		s := spec("a", "1ms")
		start(t, r, s)
		time.Sleep(20 * time.Second)
		start(t, r, s)
		time.Sleep(10 * time.Second)
		_, err := r.Start(s)
		if e := code(t, err, fault.RateLimited); e.Details["retry_after_seconds"] != 30.0 {
			t.Errorf("details = %v, want 30 s", e.Details)
		}
		other := spec("a", "1ms")
		other.Session = "t"
		start(t, r, other)
		tight := other
		tight.Limits = &Limits{PerMinute: 1}
		_, err = r.Start(tight)
		code(t, err, fault.RateLimited)
		time.Sleep(30*time.Second - time.Millisecond)
		_, err = r.Start(s)
		code(t, err, fault.RateLimited)
		time.Sleep(time.Millisecond)
		start(t, r, s)
		_, err = r.Start(s)
		code(t, err, fault.RateLimited)
		time.Sleep(time.Hour)
		r.prune(time.Now())
		if len(r.starts) != 0 {
			t.Errorf("starts of %d sessions are remembered for ever", len(r.starts))
		}
	})
}

func TestFinishedJobsAreKeptForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{}
		r, _ := fakes(t, Options{Store: store, Limits: Limits{Completed: 2, CompletedTTL: time.Minute}})
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- r.Run(ctx) }()
		known := func() (names []string) {
			all, err := r.List(t.Context(), here)
			if err != nil {
				t.Error(err)
			}
			for _, s := range all {
				names = append(names, s.Command)
			}
			return names
		}
		for _, s := range []Spec{spec("background", "1s"), spec("b", "2s"), spec("c", "3s"), spec("runs", "")} {
			s.Background = s.Command == "background"
			start(t, r, s)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got := known(); len(got) != 4 {
			t.Errorf("jobs = %q: one has gone at once", got)
		}
		time.Sleep(moment)
		synctest.Wait()
		if got, want := known(), []string{"background", "c", "runs"}; !slices.Equal(got, want) {
			t.Errorf("jobs = %q, want %q: background jobs stay longer", got, want)
		}
		time.Sleep(53*time.Second - 1)
		synctest.Wait()
		if got := len(known()); got != 3 {
			t.Errorf("%d jobs, want 3 until the minute is over", got)
		}
		time.Sleep(2*time.Second + moment + 1)
		synctest.Wait()
		r.mu.Lock()
		n := len(r.jobs) // without a look: Run forgets by itself
		r.mu.Unlock()
		if n != 1 || store.len() != 1 {
			t.Errorf("%d jobs and %d records, want the running one", n, store.len())
		}
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

func TestASessionTakesItsJobsAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := fakes(t, Options{})
		a, detached, other, none := spec("a", ""), spec("b", ""), spec("c", ""), spec("d", "")
		detached.Detach, other.Session, none.Session = true, "t", ""
		var ids []string
		for _, s := range []Spec{a, detached, other, none} {
			ids = append(ids, start(t, r, s).ID)
		}
		r.EndSession(t.Context(), "")
		r.EndSession(t.Context(), "s")
		for i, want := range []State{Cancelled, Running, Running, Running} {
			if got, _ := r.Get(t.Context(), here, ids[i]); got.State != want {
				t.Errorf("job %d is %s, want %s", i, got.State, want)
			}
		}
	})
}

func TestStopEndsAllAndTakesNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := fakes(t, Options{})
		s := spec("a", "")
		s.Argv[0], s.Detach = "stubborn", true
		a, b := start(t, r, s), start(t, r, spec("b", ""))
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		r.Stop(ctx)
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("Stop took %s, want the 2 s it had", took)
		}
		for _, id := range []string{a.ID, b.ID} {
			if got, _ := r.Get(t.Context(), here, id); got.State != Cancelled || got.Error != "the server is stopping" {
				t.Errorf("job is %s: %s", got.State, got.Error)
			}
		}
		if _, err := r.Start(spec("c", "")); err == nil {
			t.Error("a job was started after the stop")
		}
	})
}

// A job may be ended while it is being started.
func TestEndBeforeTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := fakes(t, Options{})
		begin := r.start
		r.start = func(s proc.Spec) (process, error) {
			time.Sleep(time.Second)
			return begin(s)
		}
		time.AfterFunc(time.Millisecond, func() { r.EndSession(context.Background(), "s") })
		j := start(t, r, spec("a", ""))
		if got := finished(t, r, j.ID); got.State != Cancelled || time.Since(j.Started) != time.Second {
			t.Errorf("job is %s after %s", got.State, time.Since(j.Started))
		}
	})
}

func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := &event.Bus{}
		sub := bus.Subscribe(10)
		defer sub.Close()
		r, _ := fakes(t, Options{Bus: bus})
		a, b := start(t, r, spec("a", "1s")), start(t, r, spec("b", "2s"))
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		for id, want := range map[string]bool{a.ID: false, b.ID: true} {
			if s, err := r.HandOver(t.Context(), here, id); err != nil || s.Background != want {
				t.Errorf("HandOver = %+v, %v, want background %t", s, err, want)
			}
		}
		time.Sleep(time.Second)
		for range 2 {
			if e := (<-sub.C).Data.(event.Job); e.Background != (e.ID == b.ID) {
				t.Errorf("announced as %+v", e)
			}
		}
	})
}
