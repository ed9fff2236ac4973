package control

import "syscall"

// detachedProcess has no console.
const detachedProcess = 0x00000008

// detached makes a process without our console, which Ctrl-C does not reach.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: detachedProcess | syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}
