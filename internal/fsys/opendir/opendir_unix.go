//go:build unix

package opendir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Base is an opened directory below which names are looked up.
type Base struct {
	f    *os.File
	conn syscall.RawConn
}

// OpenBase opens the directory at path, following links in it.
func OpenBase(path string) (*Base, error) {
	f, err := os.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	conn, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Base{f: f, conn: conn}, nil
}

// Close ends the use of the base. Calls under way finish first, later ones get
// fs.ErrClosed.
func (b *Base) Close() { b.f.Close() }

// with lends the descriptor for one call, so that closing cannot hand its number
// to somebody else in the middle.
func (b *Base) with(call func(fd int) error) error {
	var err error
	if closed := b.conn.Control(func(fd uintptr) { err = call(int(fd)) }); closed != nil {
		return fs.ErrClosed
	}
	return err
}

// Dir opens the directory rel, "." being the base itself.
func (b *Base) Dir(rel string) (d *Dir, err error) {
	err = b.with(func(fd int) error {
		d, err = openDir(fd, rel)
		return err
	})
	return d, err
}

// Open opens rel for reading without ever waiting for a writer. What it is, the
// caller has to look at.
func (b *Base) Open(rel string) (f *File, err error) {
	err = b.with(func(fd int) error {
		n, err := openBeneath(fd, rel, readFlags)
		if err != nil {
			return named("open", err)
		}
		f = &File{fd: n}
		return nil
	})
	return f, err
}

// Stat looks at rel. A link as its last component is told as such; one before it
// is ErrLink.
func (b *Base) Stat(rel string) (info Info, err error) {
	err = b.with(func(fd int) error {
		info, err = statBeneath(fd, rel)
		return err
	})
	return info, err
}

// Dir is an opened directory. Its methods take names directly inside it.
type Dir struct {
	fd     int
	listed bool // opened with the right to read it, which flushing needs too
}

func openDir(fd int, rel string) (*Dir, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY
	n, err := openBeneath(fd, rel, flags)
	if errors.Is(err, unix.EACCES) {
		// It may still be open to those who know a name in it.
		n, err = openBeneath(fd, rel, searchFlags)
		if err == nil {
			return &Dir{fd: n}, nil
		}
	}
	if err != nil {
		return nil, named("open directory", err)
	}
	return &Dir{fd: n, listed: true}, nil
}

// Close closes the directory. Closing it again does nothing.
func (d *Dir) Close() { _ = closeOnce(&d.fd) }

// closeOnce forgets the number: it may be somebody else's a moment later.
func closeOnce(fd *int) error {
	if *fd < 0 {
		return nil
	}
	n := *fd
	*fd = -1
	return named("close", unix.Close(n))
}

// Dir opens the directory name in d.
func (d *Dir) Dir(name string) (*Dir, error) {
	if err := single(name); err != nil {
		return nil, err
	}
	return openDir(d.fd, name)
}

// Again returns a second, independent opening of d.
func (d *Dir) Again() (*Dir, error) {
	n, err := unix.FcntlInt(uintptr(d.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, named("duplicate", err)
	}
	return &Dir{fd: n, listed: d.listed}, nil
}

// Open opens name for reading without ever waiting for a writer.
func (d *Dir) Open(name string) (*File, error) { return d.open("open", name, readFlags, 0) }

// OpenAppend opens an existing name for writing at its end.
func (d *Dir) OpenAppend(name string) (*File, error) {
	return d.open("open", name, unix.O_WRONLY|unix.O_APPEND|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}

// Create makes a new file for writing; perm is cut by the umask. A name that
// exists, a link included, is fs.ErrExist.
func (d *Dir) Create(name string, perm fs.FileMode) (*File, error) {
	return d.open("create", name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, uint32(perm.Perm()))
}

func (d *Dir) open(op, name string, flags int, perm uint32) (*File, error) {
	if err := single(name); err != nil {
		return nil, err
	}
	n, err := patient(func() (int, error) {
		return unix.Openat(d.fd, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
	})
	if err != nil {
		return nil, named(op, err)
	}
	return &File{fd: n}, nil
}

// Stat looks at name, not following a link.
func (d *Dir) Stat(name string) (Info, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil {
			return infoOf(&st), nil
		}
		if !errors.Is(err, unix.EINTR) {
			return Info{}, named("stat", err)
		}
	}
}

// Pin opens whatever stands under name, without using it. While it is open its
// number is not given to another file, so that SameFile can be trusted.
func (d *Dir) Pin(name string) (*File, error) { return d.open("open", name, pinFlags, 0) }

// ID returns what tells this directory from others.
func (d *Dir) ID() (Stamp, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(d.fd, &st) }); err != nil {
		return Stamp{}, named("stat", err)
	}
	return infoOf(&st).Stamp, nil
}

// Writable returns the error the system has for who wants to write to name.
func (d *Dir) Writable(name string) error {
	return named("write", retry(func() error { return unix.Faccessat(d.fd, name, unix.W_OK, 0) }))
}

// Mkdir makes the directory name; perm is cut by the umask.
func (d *Dir) Mkdir(name string, perm fs.FileMode) error {
	if err := single(name); err != nil {
		return err
	}
	return named("mkdir", retry(func() error { return unix.Mkdirat(d.fd, name, uint32(perm.Perm())) }))
}

// Remove removes name, which is no directory.
func (d *Dir) Remove(name string) error {
	return named("remove", retry(func() error { return unix.Unlinkat(d.fd, name, 0) }))
}

// RemoveDir removes the empty directory name.
func (d *Dir) RemoveDir(name string) error {
	return named("remove directory", retry(func() error { return unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR) }))
}

// Readlink returns where the link name points.
func (d *Dir) Readlink(name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := patient(func() (int, error) { return unix.Readlinkat(d.fd, name, buf) })
	if err != nil {
		return "", named("read link", err)
	}
	return string(buf[:n]), nil
}

// Symlink makes name a link to target.
func (d *Dir) Symlink(target, name string) error {
	return named("link", retry(func() error { return unix.Symlinkat(target, d.fd, name) }))
}

// Chtime sets the time of the last change of name, not following a link.
func (d *Dir) Chtime(name string, modified time.Time) error {
	at, err := unix.TimeToTimespec(modified)
	if err == nil {
		err = unix.UtimesNanoAt(d.fd, name, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
	}
	return named("set time", err)
}

// Rename moves name to toName in another opened directory, over whatever file
// stands there.
func (d *Dir) Rename(name string, to *Dir, toName string) error {
	if err := errors.Join(single(name), single(toName)); err != nil {
		return err
	}
	return named("rename", retry(func() error { return unix.Renameat(d.fd, name, to.fd, toName) }))
}

// RenameNew is Rename that finds fs.ErrExist, in the same step, when something
// stands at toName.
func (d *Dir) RenameNew(name string, to *Dir, toName string) error {
	if err := errors.Join(single(name), single(toName)); err != nil {
		return err
	}
	err := retry(func() error { return renameNew(d.fd, name, to.fd, toName) })
	if !unsupported(err) {
		return named("rename", err)
	}
	// A second name is the other thing that is never made over an existing one.
	err = retry(func() error { return unix.Linkat(d.fd, name, to.fd, toName, 0) })
	if err == nil {
		if err = d.Remove(name); err != nil {
			_ = to.Remove(toName)
		}
		return err
	}
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ENOENT) {
		return named("link", err)
	}
	// Neither can be had, for directories never: look, then leap.
	if _, err := to.Stat(toName); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = named("rename", unix.EEXIST)
		}
		return err
	}
	return d.Rename(name, to, toName)
}

// Exchange swaps the names a and b in d in one step. errors.ErrUnsupported tells that
// this system or file system cannot do it.
func (d *Dir) Exchange(a, b string) error {
	if err := errors.Join(single(a), single(b)); err != nil {
		return err
	}
	err := retry(func() error { return exchange(d.fd, a, b) })
	if unsupported(err) {
		err = errors.ErrUnsupported
	}
	return named("exchange", err)
}

// Sync makes what happened to the names in d survive a power cut. A directory or
// file system that cannot be flushed is no error: nothing better can be done.
func (d *Dir) Sync() error {
	if !d.listed {
		return nil
	}
	err := retry(func() error { return unix.Fsync(d.fd) })
	if unsupported(err) {
		return nil
	}
	return named("flush directory", err)
}

// File is an opened file.
type File struct{ fd int }

// Close closes a file that was read. Closing it again does nothing.
func (f *File) Close() { _ = closeOnce(&f.fd) }

// Finish closes a file that was written, and returns what went wrong with that
// only now.
func (f *File) Finish() error { return closeOnce(&f.fd) }

// Stat looks at the opened file.
func (f *File) Stat() (Info, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstat(f.fd, &st)
		if err == nil {
			return infoOf(&st), nil
		}
		if !errors.Is(err, unix.EINTR) {
			return Info{}, named("stat", err)
		}
	}
}

// Read is io.Reader. It never waits: a file that has nothing to give yet is an
// error.
func (f *File) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, err := unix.Read(f.fd, p)
		switch {
		case err == nil && n == 0:
			return 0, io.EOF
		case err == nil:
			return n, nil
		case !errors.Is(err, unix.EINTR):
			return 0, named("read", err)
		}
	}
}

// Seek is io.Seeker.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	n, err := unix.Seek(f.fd, offset, whence)
	return n, named("seek", err)
}

// Write is io.Writer.
func (f *File) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := unix.Write(f.fd, p[done:])
		done += max(n, 0)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return done, named("write", err)
		}
	}
	return done, nil
}

// Truncate cuts the file to size bytes.
func (f *File) Truncate(size int64) error {
	return named("truncate", retry(func() error { return unix.Ftruncate(f.fd, size) }))
}

// Sync makes the file's content survive a power cut.
func (f *File) Sync() error { return named("flush", retry(func() error { return flush(f.fd) })) }

// Chmod sets the permissions, the set-id and the sticky bits.
func (f *File) Chmod(mode fs.FileMode) error {
	return named("chmod", retry(func() error { return unix.Fchmod(f.fd, unixMode(mode)) }))
}

// Resemble gives f the owner, permissions and extended attributes of old, which
// it is about to replace. Permissions are an error when they cannot be had; the
// owner and the rest are kept as far as this process may.
func (f *File) Resemble(old *File) error {
	var want, have unix.Stat_t
	err := retry(func() error { return unix.Fstat(old.fd, &want) })
	if err == nil {
		err = retry(func() error { return unix.Fstat(f.fd, &have) })
	}
	if err != nil {
		return named("stat", err)
	}
	mode := unixMode(infoOf(&want).Mode)
	if have.Uid != want.Uid && unix.Fchown(f.fd, int(want.Uid), -1) != nil {
		mode &^= unix.S_ISUID // it would run as somebody else now
	}
	if have.Gid != want.Gid && unix.Fchown(f.fd, -1, int(want.Gid)) != nil {
		mode &^= unix.S_ISGID
	}
	if err := retry(func() error { return unix.Fchmod(f.fd, mode) }); err != nil {
		return named("chmod", err)
	}
	copyAttributes(f.fd, old.fd)
	return nil
}

// copyAttributes does what it can: the file systems, and what they let through,
// differ too much for an error to be of use. An access list that f inherited
// from its directory and old does not have goes; what the system computes from
// the content stays behind.
func copyAttributes(f, old int) {
	wanted := attributes(old)
	for _, name := range attributes(f) {
		if !slices.Contains(wanted, name) && strings.Contains(name, "acl") {
			_ = unix.Fremovexattr(f, name)
		}
	}
	for _, name := range wanted {
		if name == "security.capability" || name == "security.ima" || name == "security.evm" {
			continue
		}
		size, err := unix.Fgetxattr(old, name, nil)
		if err != nil {
			continue
		}
		value := make([]byte, size)
		if size, err = unix.Fgetxattr(old, name, value); err == nil {
			_ = unix.Fsetxattr(f, name, value[:size], 0)
		}
	}
}

func attributes(fd int) []string {
	size, err := unix.Flistxattr(fd, nil)
	if err != nil || size == 0 {
		return nil
	}
	list := make([]byte, size)
	if size, err = unix.Flistxattr(fd, list); err != nil {
		return nil
	}
	return strings.FieldsFunc(string(list[:size]), func(r rune) bool { return r == 0 })
}

// openSteps opens rel component by component, for systems that cannot do it in
// one call.
func openSteps(fd int, rel string, flags int) (int, error) {
	at := fd
	for {
		name, rest, more := strings.Cut(rel, "/")
		how := flags
		if more {
			how = searchFlags
		}
		n, err := patient(func() (int, error) {
			return unix.Openat(at, name, how|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		})
		if errors.Is(err, unix.ENOTDIR) {
			// Asked for a directory, the system says this of a link too.
			var st unix.Stat_t
			if unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
				err = unix.ELOOP
			}
		}
		if at != fd {
			_ = unix.Close(at)
		}
		if err != nil || !more {
			return n, err
		}
		at, rel = n, rest
	}
}

// statSteps is Stat for systems that cannot do it in one call.
func statSteps(fd int, rel string) (Info, error) {
	at, name := &Dir{fd: fd}, rel
	if i := strings.LastIndexByte(rel, '/'); i >= 0 {
		n, err := openSteps(fd, rel[:i], searchFlags)
		if err != nil {
			return Info{}, named("stat", err)
		}
		at, name = &Dir{fd: n}, rel[i+1:]
		defer at.Close()
	}
	return at.Stat(name)
}

const readFlags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY

// single refuses what is not one plain name: Dir is not to be led elsewhere.
func single(name string) error {
	if name == "" || name == "." || name == ".." || strings.IndexByte(name, '/') >= 0 {
		return &fs.PathError{Op: "use", Path: name, Err: fs.ErrInvalid}
	}
	return nil
}

// named says which call failed, and turns the system's word for a link in the
// way into ours.
func named(op string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, unix.ELOOP) {
		err = ErrLink
	}
	return os.NewSyscallError(op, err)
}

// unsupported reports whether err means that a call, or a flag of it, is not to
// be had here.
func unsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
}

func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// patient is retry for opening. A file that another process leased, or a tree
// that is being moved about, is worth another try, within a tenth of a second.
func patient(call func() (int, error)) (int, error) {
	for tries := 0; ; tries++ {
		n, err := call()
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN) && tries < 100:
			time.Sleep(time.Millisecond)
		default:
			return n, err
		}
	}
}

func infoOf(st *unix.Stat_t) Info {
	mode := fs.FileMode(st.Mode & 0o777)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	default:
		mode |= fs.ModeDevice
	}
	if st.Mode&unix.S_ISUID != 0 {
		mode |= fs.ModeSetuid
	}
	if st.Mode&unix.S_ISGID != 0 {
		mode |= fs.ModeSetgid
	}
	if st.Mode&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	sec, nsec := st.Mtim.Unix()
	return Info{
		Kind:    kind(mode),
		Size:    st.Size,
		ModTime: time.Unix(sec, nsec),
		Mode:    mode,
		Links:   uint64(st.Nlink), //nolint:unconvert // types differ between systems
		Stamp: Stamp{
			Dev: uint64(st.Dev), Ino: st.Ino, Size: st.Size, //nolint:unconvert // macOS has a smaller one
			Mtime: unix.TimespecToNsec(st.Mtim), Ctime: unix.TimespecToNsec(st.Ctim),
		},
	}
}

func unixMode(mode fs.FileMode) uint32 {
	m := uint32(mode.Perm())
	if mode&fs.ModeSetuid != 0 {
		m |= unix.S_ISUID
	}
	if mode&fs.ModeSetgid != 0 {
		m |= unix.S_ISGID
	}
	if mode&fs.ModeSticky != 0 {
		m |= unix.S_ISVTX
	}
	return m
}
