package opendir

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"
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

// Read returns the names in d, in no order.
func (d *Dir) Read() ([]Entry, error) {
	if !d.listed {
		return nil, named("read directory", unix.EACCES)
	}
	if _, err := unix.Seek(d.fd, 0, io.SeekStart); err != nil {
		return nil, named("read directory", err)
	}
	buf := direntBuffers.Get().(*[]byte)
	defer direntBuffers.Put(buf)
	var all []Entry
	for {
		n, err := unix.Getdents(d.fd, *buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return all, named("read directory", err)
		}
		all = d.parse(all, string((*buf)[:n]))
	}
}

var direntBuffers = sync.Pool{New: func() any {
	buf := make([]byte, 32<<10)
	return &buf
}}

// parse adds the names that the kernel wrote: each record has its length at 16,
// the kind of file at 18, and from 19 on the name, ended by a zero. The names
// share the memory of records.
func (d *Dir) parse(all []Entry, records string) []Entry {
	if all == nil {
		all = make([]Entry, 0, len(records)/32)
	}
	for len(records) > 19 {
		size := int(binary.NativeEndian.Uint16([]byte(records[16:18])))
		if size <= 19 || size > len(records) {
			break
		}
		name := records[19:size]
		if end := strings.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		kind := Special
		switch records[18] {
		case unix.DT_REG:
			kind = Regular
		case unix.DT_DIR:
			kind = Directory
		case unix.DT_LNK:
			kind = Link
		case unix.DT_UNKNOWN: // not every file system keeps it there
			if info, err := d.Stat(name); err == nil {
				kind = info.Kind
			}
		}
		if name != "." && name != ".." {
			all = append(all, Entry{Name: name, Kind: kind})
		}
		records = records[size:]
	}
	return all
}

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
	case errors.Is(err, unix.EAGAIN) && !remote(f.fd):
		return false, nil
	default:
		return false, errors.ErrUnsupported
	}
}

// remote reports whether a file lies on a file system that says "try again" when
// it means that its server gives no leases.
func remote(fd int) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil {
		return true
	}
	switch fs.Type {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC:
		return true
	default:
		return false
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
