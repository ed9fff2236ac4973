//go:build !windows

package control

import "syscall"

// detached makes a session of its own: no terminal and no signal of ours reaches
// it.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
