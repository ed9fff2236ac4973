package fsys

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// nonblock has no counterpart: opening by path does not wait here.
const nonblock = 0

// syncDir has nothing to do: directories cannot be flushed on Windows, and the
// file system journals the rename.
func syncDir(*os.Root) error { return nil }

// lockFile waits until no other open file has the lock of f.
func lockFile(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, new(windows.Overlapped))
}

// tryLockFile is lockFile that does not wait.
func tryLockFile(f *os.File) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

// unlockFile lets the next one in.
func unlockFile(f *os.File) {
	_ = windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, new(windows.Overlapped))
}
