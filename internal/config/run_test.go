package config

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/watch"
)

// running runs f until the test ends and waits for it.
func running(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

// Only the poll interval is at work here, so the latest moment is known to the
// second: the poll, then the time at rest.
func TestPolledChangesHoldAfterPollAndRest(t *testing.T) {
	dir, root := userDir(t), projectDir(t, "config.json", `{}`)
	synctest.Test(t, func(t *testing.T) {
		st := loaded(t, Options{})
		p := st.Project(root)
		defer p.Release()
		daemon := st.Current().Config.Daemon
		running(t, func(ctx context.Context) error {
			return st.run(ctx, watch.Options{
				PollOnly: true, Debounce: seconds(daemon.ConfigDebounceSeconds), Poll: seconds(daemon.ConfigPollSeconds),
			})
		})
		time.Sleep(10 * time.Second)
		write(t, filepath.Join(dir, "config.toml"), "[crud]\nmax_timeout = 100\n")
		write(t, filepath.Join(root, ProjectDir, "config.json"), `{"crud": {"diff_context_lines": 9}}`)
		time.Sleep(time.Second)
		synctest.Wait()
		if st.Current().Config.Crud.MaxTimeout != 300 {
			t.Error("the change held before its poll")
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got := st.Current().Config.Crud.MaxTimeout; got != 100 {
			t.Errorf("4 s after the change max_timeout is %v, want 100", got)
		}
		if got := p.Current().Config.Crud; got.MaxTimeout != 100 || got.DiffContextLines != 9 {
			t.Errorf("4 s after the change the project has %+v", got)
		}
		// A file that is written on and on is not read half-way.
		for range 5 {
			write(t, filepath.Join(dir, "config.toml"), "[crud]\nmax_timeout = 50\n#"+time.Now().String()[:25]+"\n")
			time.Sleep(3 * time.Second)
		}
		other := projectDir(t, "config.json", `{}`)
		q := st.Project(other) // opened while running: watched too
		write(t, filepath.Join(other, ProjectDir, "config.json"), `{"crud": {"diff_context_lines": 8}}`)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if got := q.Current().Config.Crud; got.DiffContextLines != 8 || got.MaxTimeout != 50 {
			t.Errorf("a project opened later has %+v", got)
		}
		q.Release()
	})
}

// The whole way with real notices: the poll interval never comes.
func TestNoticedChangesHold(t *testing.T) {
	dir, root := userDir(t), projectDir(t, "config.json", `{}`)
	if err := os.RemoveAll(filepath.Join(root, ProjectDir)); err != nil {
		t.Fatal(err)
	}
	st := loaded(t, Options{Set: []string{"daemon.config_poll_seconds=3600", "daemon.config_debounce_seconds=0.01"}})
	committed := make(chan *Snapshot, 10)
	st.OnChange(nil, func(_, next *Snapshot) { committed <- next })
	p := st.Project(root)
	defer p.Release()
	running(t, st.Run)

	write(t, filepath.Join(dir, "config.yaml"), "crud: {max_timeout: 100}\n")
	for _, want := range []string{"", root} { // first the user's, then the project on it
		if s := <-committed; s.Root() != want || s.Config.Crud.MaxTimeout != 100 {
			t.Errorf("commit of %q with %v, want %q with 100", s.Root(), s.Config.Crud.MaxTimeout, want)
		}
	}
	// As an editor saves: a temporary file, renamed over the old one.
	temp := write(t, filepath.Join(dir, "config.yaml~"), "crud: {max_timeout: 50}\n")
	if err := os.Rename(temp, filepath.Join(dir, "config.yaml")); err != nil {
		t.Fatal(err)
	}
	<-committed
	<-committed
	if got := st.Current().Config.Crud.MaxTimeout; got != 50 {
		t.Errorf("max_timeout %v, want 50", got)
	}
	write(t, filepath.Join(root, ProjectDir, "config.yaml"), "crud: {max_timeout: 10}\n") // folder and all
	if s := <-committed; s.Root() != root || s.Config.Crud.MaxTimeout != 10 {
		t.Errorf("commit of %q with %v, want the project with 10", s.Root(), s.Config.Crud.MaxTimeout)
	}
}

// Opening, reloading, updating and reading at once: the race detector watches,
// and every snapshot is one of the whole ones.
func TestConcurrentUse(t *testing.T) {
	dir, root := userDir(t), projectDir(t, "config.json", `{"crud": {"diff_context_lines": 9}}`)
	st := loaded(t, Options{})
	st.OnChange(func(_, _ *Snapshot) error { return nil }, func(_, _ *Snapshot) {})
	running(t, st.Run)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 50 {
			write(t, filepath.Join(dir, "config.json"), `{"crud": {"max_timeout": 1`+[]string{"0", "00"}[i%2]+`}}`)
			st.Reload()
		}
	}()
	for open := true; open; {
		select {
		case <-done:
			open = false
		default:
		}
		p := st.Project(root)
		c := p.Current().Config.Crud
		if c.DiffContextLines != 9 || c.MaxTimeout != 300 && c.MaxTimeout != 10 && c.MaxTimeout != 100 {
			t.Errorf("a mixed snapshot: %+v", c)
		}
		p.Release()
	}
	p := st.Project(root)
	defer p.Release()
	if p.Current().Config.Crud.MaxTimeout != st.Current().Config.Crud.MaxTimeout {
		t.Error("a project lies on an old base")
	}
}
