//go:build !linux

package watch

import (
	"errors"
	"runtime"
)

// openKernel asks the operating system where to look.
func openKernel(o kernelOptions) (kernel, error) {
	if runtime.GOOS == "windows" {
		// A watch is an open directory there, and a directory that holds an open
		// one cannot be renamed or deleted: people would find their tree stuck.
		return nil, errors.New("watching directories on Windows would keep people from renaming them")
	}
	return openHints(o)
}
