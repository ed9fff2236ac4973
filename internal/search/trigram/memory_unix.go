//go:build linux || darwin || freebsd

package trigram

import (
	"fmt"
	"syscall"
)

// allocate returns memory that is not part of the collector's heap: as much text
// there would make the heap grow to twice its size.
func allocate(size int) ([]byte, error) {
	mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	return mem, nil
}

func free(mem []byte) {
	if err := syscall.Munmap(mem); err != nil {
		panic(fmt.Sprintf("trigram: unmap what was mapped: %v", err))
	}
}
