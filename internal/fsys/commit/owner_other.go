//go:build !linux

package commit

import (
	"crypto/rand"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// self is this process, on this machine.
var self = sync.OnceValue(func() owner {
	name, _ := os.Hostname()
	return owner{host: short(name), pid: os.Getpid(), life: strings.ToLower(rand.Text()[:6])}
})

// alive asks for the number alone: a number that was given out again keeps a
// temp file, which is hidden, until that process ends too.
func alive(pid int, _ string) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	if runtime.GOOS == "windows" {
		return true // it could be opened
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission)
}
