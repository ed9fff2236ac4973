//go:build unix

package fsys

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Without O_NONBLOCK each of these would wait for a writer for ever.
func TestNothingWaitsOnAPipe(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(pipe, 10); !errors.Is(err, ErrNotRegular) {
		t.Errorf("ReadFile = %v, want ErrNotRegular", err)
	}
	if _, err := ReadFileIn(dir, "pipe", 10); !errors.Is(err, ErrNotRegular) {
		t.Errorf("ReadFileIn = %v, want ErrNotRegular", err)
	}
	if _, err := NewRotatingFile(pipe).Write([]byte("x")); !errors.Is(err, ErrNotRegular) {
		t.Errorf("RotatingFile = %v, want ErrNotRegular", err)
	}
	if _, err := ReadFile(os.DevNull, 10); !errors.Is(err, ErrNotRegular) {
		t.Errorf("device: %v, want ErrNotRegular", err)
	}
}
