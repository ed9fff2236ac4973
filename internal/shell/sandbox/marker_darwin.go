package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Mark has nothing to do here: commands are recognised by MarkerEnv, and the
// sandbox keeps them from Options.Hidden, where the server's socket is.
func Mark() error { return nil }

// InJob reports whether the process has a MarkerEnv in its environment that this
// process has not, as far as the system shows it. An error means that it cannot be told.
func InJob(pid int) (bool, error) {
	raw, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		return false, fmt.Errorf("read the environment of process %d: %w", pid, err)
	}
	return foreignMarker(raw), nil
}
