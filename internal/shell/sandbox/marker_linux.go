package sandbox

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Mark makes every process that this one starts from now on recognisable to
// InJob, for good: it lowers by one a limit that all children inherit and that
// nobody without special power can raise again. The limit is on the time that a
// real-time process runs without a pause, and stays at half a million years.
//
// A server calls it once when it starts, before its first command.
func Mark() error { return mark() }

var mark = sync.OnceValue(func() error {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_RTTIME, &now); err != nil {
		return fmt.Errorf("read the limit that marks commands: %w", err)
	}
	marked := unix.Rlimit{Max: now.Max - 1}
	marked.Cur = min(now.Cur, marked.Max)
	if err := unix.Setrlimit(unix.RLIMIT_RTTIME, &marked); err != nil {
		return fmt.Errorf("set the limit that marks commands: %w", err)
	}
	markedAt.Store(marked.Max)
	return nil
})

var markedAt atomic.Uint64 // the limit that children have; 0 before Mark

// InJob reports whether the process is a command of ours, or was started by one
// however indirectly: whether it has the mark of Mark, or a MarkerEnv in its
// environment that this process has not. An error means that it cannot be told,
// as when the process is gone.
func InJob(pid int) (bool, error) {
	var its unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &its); err != nil {
		return false, fmt.Errorf("read the limits of process %d: %w", pid, err)
	}
	if its.Max <= markedAt.Load() {
		return true, nil
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false, fmt.Errorf("read the environment of process %d: %w", pid, err)
	}
	return foreignMarker(env), nil
}
