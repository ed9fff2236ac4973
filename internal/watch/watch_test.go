package watch

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// start runs f until the test ends and returns the stream of settled paths.
func start(t *testing.T, f *Files) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	settled, done := make(chan string, 100), make(chan error, 1)
	go func() { done <- f.Run(ctx, func(path string) { settled <- path }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	return settled
}

// pending returns what has settled by now, in a synctest bubble.
func pending(settled <-chan string) int {
	synctest.Wait()
	return len(settled)
}

func TestPolledChangeIsToldOnceTheFileIsAtRest(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(dir, "f")
		write(t, path, "1")
		f := NewFiles(Options{PollOnly: true})
		f.Add(path)
		settled := start(t, f)
		time.Sleep(10 * time.Second)
		if n := pending(settled); n != 1 {
			t.Fatalf("%d notices without a change, want the one for taking it up", n)
		}
		<-settled
		write(t, path, "12") // at 10 s; the look at 12 s sees it
		time.Sleep(2900 * time.Millisecond)
		if n := pending(settled); n != 0 {
			t.Fatal("told before it was at rest")
		}
		write(t, path, "123") // at 12.9 s, seen at 13 s: the rest starts over
		time.Sleep(time.Second)
		if n := pending(settled); n != 0 {
			t.Fatal("told although it was written again")
		}
		time.Sleep(200 * time.Millisecond)
		if n := pending(settled); n != 1 {
			t.Fatalf("%d notices, want 1", n)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if n := pending(settled); n != 2 {
			t.Fatalf("%d notices after deletion, want 2", n)
		}
	})
}

func TestChangeBetweenAddAndRunIsTold(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(dir, "f")
		f := NewFiles(Options{PollOnly: true})
		f.Add(path)
		write(t, path, "new")
		settled := start(t, f)
		time.Sleep(time.Second)
		if n := pending(settled); n != 1 {
			t.Fatalf("%d notices, want 1", n)
		}
	})
}

func TestRemovedFileIsNotTold(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(dir, "f")
		f := NewFiles(Options{PollOnly: true})
		f.Add(path)
		settled := start(t, f)
		f.Remove(path)
		write(t, path, "new")
		time.Sleep(time.Minute)
		if n := pending(settled); n != 0 {
			t.Fatalf("%d notices of a removed file", n)
		}
	})
}

// In these the poll interval is so long that only notices of the operating
// system can end the wait.
func TestSystemNotices(t *testing.T) {
	for name, c := range map[string]struct {
		file   string
		before func(t *testing.T, dir string)
		change func(t *testing.T, dir string)
	}{
		"rewritten in place": {
			file:   "f",
			before: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "f"), "1") },
			change: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "f"), "2") },
		},
		"saved by rename": {
			file:   "f",
			before: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "f"), "1") },
			change: func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, "f.tmp"), "2")
				if err := os.Rename(filepath.Join(dir, "f.tmp"), filepath.Join(dir, "f")); err != nil {
					t.Fatal(err)
				}
			},
		},
		"deleted": {
			file:   "f",
			before: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "f"), "1") },
			change: func(t *testing.T, dir string) {
				if err := os.Remove(filepath.Join(dir, "f")); err != nil {
					t.Fatal(err)
				}
			},
		},
		"created below directories that did not exist": {
			file:   "a/b/f",
			before: func(*testing.T, string) {},
			change: func(t *testing.T, dir string) {
				if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(dir, "a", "b", "f"), "1")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.before(t, dir)
			path := filepath.Join(dir, filepath.FromSlash(c.file))
			f := NewFiles(Options{Debounce: 10 * time.Millisecond, Poll: time.Hour})
			f.Add(path)
			settled := start(t, f)
			<-settled // taken up: from here on the system watches
			c.change(t, dir)
			if got := <-settled; got != path {
				t.Fatalf("settled %q, want %q", got, path)
			}
		})
	}
}

func TestNoticesSurviveAReplacedDirectory(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "d")
	path := filepath.Join(dir, "f")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f := NewFiles(Options{Debounce: 10 * time.Millisecond, Poll: time.Hour})
	f.Add(path)
	settled := start(t, f)
	<-settled
	for _, text := range []string{"1", "2"} {
		write(t, path, text)
		<-settled
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		<-settled
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		<-settled
	}
}
