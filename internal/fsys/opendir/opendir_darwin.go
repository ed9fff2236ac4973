package opendir

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// searchFlags open a directory only to reach what is in it.
const searchFlags = unix.O_SEARCH | unix.O_DIRECTORY

// pinFlags open anything, a link too, without using it.
const pinFlags = unix.O_EVTONLY | unix.O_SYMLINK | unix.O_NONBLOCK

func openBeneath(fd int, rel string, flags int) (int, error) { return openSteps(fd, rel, flags) }

func statBeneath(fd int, rel string) (Info, error) { return statSteps(fd, rel) }

func renameNew(from int, name string, to int, toName string) error {
	return unix.RenameatxNp(from, name, to, toName, unix.RENAME_EXCL)
}

func exchange(fd int, a, b string) error {
	return unix.RenameatxNp(fd, a, fd, b, unix.RENAME_SWAP)
}

// flush asks the disk too, which fsync does not do here.
func flush(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	if err == nil || errors.Is(err, unix.EINTR) {
		return err
	}
	return unix.Fsync(fd)
}

// Read returns the names in d, in no order.
func (d *Dir) Read() ([]Entry, error) {
	n, err := patient(func() (int, error) {
		return unix.Openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, named("open directory", err)
	}
	f := os.NewFile(uintptr(n), ".")
	defer f.Close()
	list, err := f.ReadDir(-1)
	all := make([]Entry, len(list))
	for i, e := range list {
		all[i] = Entry{Name: e.Name(), Kind: kind(e.Type())}
	}
	return all, err
}

// Lease is not to be had here.
func (f *File) Lease() (bool, error) { return false, errors.ErrUnsupported }

// Leased reports what Lease gives: nothing.
func (f *File) Leased() bool { return false }

// Release has nothing to undo.
func (f *File) Release() {}

// CopyFrom writes what src holds from its position on.
func (f *File) CopyFrom(src *File) (int64, error) {
	return io.CopyBuffer(f, struct{ io.Reader }{src}, make([]byte, 256<<10))
}
