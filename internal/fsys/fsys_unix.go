//go:build unix

package fsys

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// nonblock keeps an open from waiting for the other end of a pipe.
const nonblock = syscall.O_NONBLOCK

// syncDir makes a rename in dir survive a power cut.
func syncDir(dir *os.Root) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// lockFile waits until no other open file has the lock of f.
func lockFile(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// tryLockFile is lockFile that does not wait.
func tryLockFile(f *os.File) (bool, error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		default:
			return err == nil, err
		}
	}
}

// unlockFile lets the next one in; closing would do so, but not while a child
// process still has the file.
func unlockFile(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }
