package fsys_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// countUp adds one to the number in a file, under its lock.
func countUp(path string) error {
	return fsys.Locked(path+".lock", func() error {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(raw))
		if err != nil {
			return err
		}
		return fsys.WriteFile(path, []byte(strconv.Itoa(n+1)), 0o600)
	})
}

const countEnv = "FSYS_TEST_COUNT_UP"

// TestLockedLosesNoChange runs the same counter in several goroutines of several
// processes.
func TestLockedLosesNoChange(t *testing.T) {
	const processes, goroutines, rounds = 3, 3, 10
	path, child := os.Getenv(countEnv), true
	if path == "" {
		path, child = filepath.Join(t.TempDir(), "count"), false
		if err := os.WriteFile(path, []byte("0"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range rounds {
				if err := countUp(path); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if !child {
		for range processes - 1 {
			all.Go(func() {
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLockedLosesNoChange$")
				cmd.Env = append(os.Environ(), countEnv+"="+path)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
	all.Wait()
	if raw, _ := os.ReadFile(path); !child && string(raw) != strconv.Itoa(processes*goroutines*rounds) {
		t.Errorf("count = %s, want %d", raw, processes*goroutines*rounds)
	}
}

func TestLockedReturnsTheErrorAndLetsGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	want := errors.New("no")
	for range 2 {
		if err := fsys.Locked(path, func() error { return want }); !errors.Is(err, want) {
			t.Errorf("Locked = %v, want %v", err, want)
		}
	}
	if err := fsys.Locked(filepath.Join(path, "below"), func() error { t.Error("ran without a lock"); return nil }); err == nil {
		t.Error("no error where there can be no lock file")
	}
}
