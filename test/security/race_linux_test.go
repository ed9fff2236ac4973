package security_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// raceTime is how long each tool is raced.
func raceTime() time.Duration {
	if os.Getenv("ACM_STRESS") != "" {
		return 5 * time.Second
	}
	return 400 * time.Millisecond
}

// TestNoToolIsLedOutByWhatMovesUnderIt flips a directory and a file with links
// that lead out, as fast as it goes, while a tool works there.
func TestNoToolIsLedOutByWhatMovesUnderIt(t *testing.T) {
	for _, u := range uses {
		t.Run(u.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, settings{})
			w.put("dir/secret.txt", "inside\n")
			w.put("dir/dir/deep.txt", "inside\n")
			w.put("file", "inside\n")
			w.link(w.outside, "dirlink")
			w.link(filepath.Join(w.outside, "secret.txt"), "filelink")
			dir, err := os.OpenRoot(filepath.Join(w.root, "dir"))
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			stop := make(chan struct{})
			var flipper sync.WaitGroup
			flips := 0
			flipper.Go(func() {
				for ; ; flips++ {
					select {
					case <-stop:
						return
					default:
					}
					for _, name := range []string{"dir", "file"} {
						// It fails while the tool has taken one of them away.
						_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(w.root, name), unix.AT_FDCWD, filepath.Join(w.root, name+"link"), unix.RENAME_EXCHANGE)
					}
				}
			})
			before := state(t, w.outside)
			outcomes := map[string]int{}
			calls := 0
			for end := time.Now().Add(raceTime()); time.Now().Before(end) || calls < 3; calls++ {
				for _, path := range []string{"dir/secret.txt", fmt.Sprintf("dir/new%d/x", calls), "dir/dir", "dir/../dir/secret.txt", "file"} {
					a := w.call(u.tool, u.args(path))
					outcomes[a.status+" "+a.code]++
					if strings.Contains(a.body, secret) {
						t.Fatalf("%s of %s shows what is outside: %s", u.name, path, a.body)
					}
					taken := filepath.Join(w.root, "other.txt")
					// A link that was put in place of a file may be moved as the link it
					// is: no tool follows it, at either place.
					if info, err := os.Lstat(taken); err == nil && info.Mode()&os.ModeSymlink == 0 {
						if raw, err := os.ReadFile(taken); err == nil && strings.Contains(string(raw), secret) {
							t.Fatalf("%s of %s brought in what is outside", u.name, path)
						}
					}
					if err := os.RemoveAll(taken); err != nil {
						t.Fatal(err)
					}
				}
				w.restore(dir)
				if calls%16 == 0 {
					if after := state(t, w.outside); after != before {
						t.Fatalf("%s changed what is outside:\nbefore:\n%s\nafter:\n%s", u.name, before, after)
					}
				}
			}
			close(stop)
			flipper.Wait()
			if after := state(t, w.outside); after != before {
				t.Fatalf("%s changed what is outside:\nbefore:\n%s\nafter:\n%s", u.name, before, after)
			}
			t.Logf("%d calls, %d flips: %v", calls, flips, outcomes)
		})
	}
}

// restore puts back what the tool took, without following a link.
func (w *world) restore(dir *os.Root) {
	w.t.Helper()
	_ = dir.MkdirAll("dir", 0o755)
	for _, name := range []string{"secret.txt", "dir/deep.txt"} {
		if err := dir.WriteFile(name, []byte("inside\n"), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	// A tool may have moved a link here; writing through it would be our own doing.
	if err := os.RemoveAll(filepath.Join(w.root, "in.txt")); err != nil {
		w.t.Fatal(err)
	}
	w.put("in.txt", "inside\n")
	if f, err := os.OpenFile(filepath.Join(w.root, "file"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644); err == nil {
		_, _ = f.WriteString("inside\n")
		_ = f.Close()
	}
}

// TestADirectoryBringsNothingAlongToAProtectedPlace writes into a directory while
// it is moved to where the same file could not be written.
func TestADirectoryBringsNothingAlongToAProtectedPlace(t *testing.T) {
	w := newWorld(t, settings{})
	forbidden := filepath.Join(w.root, "sub/.git/hooks")
	moved := 0
	for end, i := time.Now().Add(raceTime()), 0; time.Now().Before(end) || i < 3; i++ {
		w.put("evil/HEAD", "ref\n")
		var writer sync.WaitGroup
		writer.Go(func() {
			w.call("async_write", args{"path": "evil/hooks/pre-commit", "content": "#!/bin/sh\n"})
		})
		if a := w.call("async_rename", args{"old_path": "evil", "new_path": "sub/.git", "recursive": true}); a.status == "ok" {
			moved++
		}
		writer.Wait()
		if _, err := os.Stat(filepath.Join(forbidden, "pre-commit")); err == nil {
			t.Fatalf("after %d moves there is a hook", i+1)
		}
		for _, dir := range []string{"evil", "sub/.git"} {
			if err := os.RemoveAll(filepath.Join(w.root, dir)); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d moves", moved)
}
