package opendir

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// searchFlags open a directory only to reach what is in it.
const searchFlags = unix.O_PATH | unix.O_DIRECTORY

// pinFlags open anything, a link too, without using it.
const pinFlags = unix.O_PATH

var hasOpenat2 = sync.OnceValue(func() bool {
	// An absolute name is not beneath anything: it says so if it understands.
	_, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: beneath})
	return errors.Is(err, unix.EXDEV)
})

// lacking are calls that old kernels, some containers and some file systems do
// not have.
var lacking struct{ openat2, renameat2, leases atomic.Bool }

// PretendLacking makes a test see a system without these calls, until undo.
func PretendLacking(openat2, renameat2, leases bool) (undo func()) {
	lacking.openat2.Store(openat2)
	lacking.renameat2.Store(renameat2)
	lacking.leases.Store(leases)
	return func() { PretendLacking(false, false, false) }
}

const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// openBeneath opens rel below fd if no component of it is a link.
func openBeneath(fd int, rel string, flags int) (int, error) {
	if !hasOpenat2() || lacking.openat2.Load() {
		return openSteps(fd, rel, flags)
	}
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: beneath}
	n, err := unix.Openat2(fd, rel, &how)
	if err == nil || !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
		return n, err
	}
	return patient(func() (int, error) { return unix.Openat2(fd, rel, &how) })
}

func statBeneath(fd int, rel string) (Info, error) {
	if !hasOpenat2() || lacking.openat2.Load() {
		return statSteps(fd, rel)
	}
	n, err := openBeneath(fd, rel, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return Info{}, named("stat", err)
	}
	f := File{fd: n}
	defer f.Close()
	return f.Stat()
}

func renameat2(from int, name string, to int, toName string, flags uint) error {
	if lacking.renameat2.Load() {
		return unix.ENOSYS
	}
	return unix.Renameat2(from, name, to, toName, flags)
}

func renameNew(from int, name string, to int, toName string) error {
	return renameat2(from, name, to, toName, unix.RENAME_NOREPLACE)
}

func exchange(fd int, a, b string) error {
	return renameat2(fd, a, fd, b, unix.RENAME_EXCHANGE)
}

func flush(fd int) error { return unix.Fsync(fd) }

// Lease asks the system to hold up whoever opens f for writing until Release.
// It reports false when somebody has it open for writing already. Where leases
// are not to be had, such as on network file systems and on files of others,
// errors.ErrUnsupported.
func (f *File) Lease() (bool, error) {
	if lacking.leases.Load() {
		return false, errors.ErrUnsupported
	}
	_, err := unix.FcntlInt(uintptr(f.fd), unix.F_SETLEASE, unix.F_RDLCK)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EAGAIN):
		return false, nil
	default:
		return false, errors.ErrUnsupported
	}
}

// Leased reports whether nobody asked to open f for writing since Lease.
func (f *File) Leased() bool {
	kind, err := unix.FcntlInt(uintptr(f.fd), unix.F_GETLEASE, 0)
	return err == nil && kind == unix.F_RDLCK
}

// Release lets those go on whom Lease held up.
func (f *File) Release() {
	// Closing is not enough: a child between fork and exec shares the descriptor.
	_, _ = unix.FcntlInt(uintptr(f.fd), unix.F_SETLEASE, unix.F_UNLCK)
}

// CopyFrom writes what src holds from its position on, inside the kernel where
// that can be.
func (f *File) CopyFrom(src *File) (int64, error) {
	var done int64
	for {
		n, err := unix.CopyFileRange(src.fd, nil, f.fd, nil, 1<<30, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err == nil && n > 0:
			done += int64(n)
		case err == nil && done > 0:
			return done, nil
		case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EFBIG) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EIO):
			return done, named("copy", err)
		default:
			// Not between these two, or nothing at all, as files of the kernel's
			// own making say: read and write.
			n, err := io.CopyBuffer(f, struct{ io.Reader }{src}, make([]byte, 256<<10))
			return done + n, err
		}
	}
}
