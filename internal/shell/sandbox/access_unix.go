//go:build unix

package sandbox

import "golang.org/x/sys/unix"

// mayWrite reports whether this process may write path.
func mayWrite(path string) bool { return unix.Access(path, unix.W_OK) == nil }
