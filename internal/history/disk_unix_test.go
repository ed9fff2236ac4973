//go:build unix

package history_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/history"
)

func TestReadOnlyDirectoryLeavesAStoreInMemory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "history.db")
	cmd := helper(t, "status", file, 0)
	if os.Geteuid() == 0 { // who may write everywhere: be somebody else
		exe := filepath.Join(dir, "helper")
		copyFile(t, cmd.Path, exe)
		cmd.Path = exe
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	for path, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o755, dir: 0o555} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.Chmod(dir, 0o755) })
	out, err := cmd.Output()
	if got := string(out); err != nil || !strings.Contains(got, `file=""`) || !strings.Contains(got, "in memory only") || !strings.Contains(got, "permission denied") {
		t.Errorf("status: %s, %v", got, err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFullDiskLeavesAStoreInMemoryUntilThereIsSpace(t *testing.T) {
	if out, err := helper(t, "full", dbFile(t), 0).Output(); err != nil {
		t.Errorf("%s%v", out, err)
	}
}

// helpFull limits how large its files may become, which for SQLite is the same
// as a disk without space.
func helpFull(file string) error {
	signal.Ignore(syscall.SIGXFSZ)
	ctx := context.Background()
	s := history.New(history.Options{File: file})
	if err := s.Open(ctx); err != nil {
		return err
	}
	put(s, "child", "/p/a", "one")
	if err := s.Flush(ctx); err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	full := limit
	full.Cur = 100_000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		return err
	}
	put(s, "child", "/p/big", noise(1, 500_000))
	if err := s.Flush(ctx); err == nil {
		return fmt.Errorf("the limit did nothing")
	}
	if got := s.Status().Findings; len(got) != 1 || !strings.Contains(got[0].Detail, "cannot be written") {
		return fmt.Errorf("findings: %+v", got)
	}
	if !has(s, "/p/big", noise(1, 500_000)) || !has(s, "/p/a", "one") {
		return fmt.Errorf("a content is gone")
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if err := s.Flush(ctx); err != nil {
		return fmt.Errorf("with space again: %w", err)
	}
	if got := s.Status(); len(got.Findings) != 0 || got.Unwritten != 0 || got.File != file {
		return fmt.Errorf("with space again: %+v", got)
	}
	return s.Close(ctx)
}
