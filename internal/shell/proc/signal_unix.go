//go:build unix

package proc

import "golang.org/x/sys/unix"

// SignalName returns the name of a signal, such as SIGKILL.
func SignalName(number int) string { return unix.SignalName(unix.Signal(number)) }
