package watch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// openKernel asks Linux for notices.
func openKernel(o kernelOptions) (kernel, error) { return openInotify(o) }

const (
	treeMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
		unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB |
		unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK
	belowMask = treeMask | unix.IN_DONT_FOLLOW
	rootMask  = treeMask | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
)

// inotify is the kernel's queue, read without a reader in between: Linux queues
// a notice within the system call that causes it, so whoever empties the queue
// knows of everything that happened before.
type inotify struct {
	fd    int
	file  *os.File // the same descriptor, for waiting
	conn  syscall.RawConn
	fill  chan struct{}
	done  chan struct{}
	wait  sync.WaitGroup
	buf   [1 << 16]byte
	limit int
	used  map[int32]struct{}
}

func openInotify(o kernelOptions) (*inotify, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if errors.Is(err, unix.EMFILE) {
		return nil, fmt.Errorf("no inotify instance is left to this user: sysctl fs.inotify.max_user_instances=%d, or fewer watching programs",
			max(1024, 2*sysctl("max_user_instances")))
	}
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	k := &inotify{
		fd: fd, file: os.NewFile(uintptr(fd), "inotify"),
		fill: make(chan struct{}), done: make(chan struct{}),
		limit: o.watches, used: make(map[int32]struct{}),
	}
	if k.limit == 0 {
		k.limit = sysctl("max_user_watches") / 2
	}
	if k.conn, err = k.file.SyscallConn(); err != nil {
		k.file.Close()
		return nil, fmt.Errorf("inotify: %w", err)
	}
	k.wait.Go(k.waitForNotices)
	return k, nil
}

func (k *inotify) mode() string           { return ModeInotify }
func (k *inotify) exact() bool            { return true }
func (k *inotify) ready() <-chan struct{} { return k.fill }

func (k *inotify) close() {
	close(k.done)
	k.file.Close()
	k.wait.Wait()
}

// waitForNotices tells the loop when something is queued, and leaves reading to
// it. It says so once more than needed when the loop is slow, which is harmless.
func (k *inotify) waitForNotices() {
	for {
		err := k.conn.Read(func(uintptr) bool { return k.queued() > 0 })
		if err != nil {
			return // closed
		}
		select {
		case k.fill <- struct{}{}:
		case <-k.done:
			return
		}
	}
}

func (k *inotify) add(dir string, root bool) (int32, error) {
	mask := uint32(belowMask)
	if root {
		mask = rootMask
	}
	wd, err := unix.InotifyAddWatch(k.fd, dir, mask)
	if errors.Is(err, unix.ENOSPC) {
		return 0, &fullError{fmt.Sprintf("the system's limit for this user's inotify watches is reached: sysctl fs.inotify.max_user_watches=%d",
			max(1<<19, 2*sysctl("max_user_watches")))}
	}
	if err != nil {
		return 0, fmt.Errorf("watch %s: %w", dir, err)
	}
	watch := int32(wd)
	if _, known := k.used[watch]; !known && k.limit > 0 && len(k.used) >= k.limit {
		_, _ = unix.InotifyRmWatch(k.fd, uint32(wd)) // it exists: it was made just now
		return 0, &fullError{fmt.Sprintf("the limit of %d watches for one tree is reached: sysctl fs.inotify.max_user_watches=%d, or skip more directories",
			k.limit, max(1<<19, 2*sysctl("max_user_watches")))}
	}
	k.used[watch] = struct{}{}
	return watch, nil
}

func (k *inotify) remove(watch int32) {
	if _, used := k.used[watch]; used {
		delete(k.used, watch)
		_, _ = unix.InotifyRmWatch(k.fd, uint32(watch)) // it may have ended with its directory
	}
}

// read empties the queue of what it held at the call. More may follow without
// end under a storm; it is left to the next call.
func (k *inotify) read(each func(notice)) error {
	for queued := k.queued(); queued > 0; {
		n, err := unix.Read(k.fd, k.buf[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil:
			return fmt.Errorf("inotify: %w", err)
		}
		queued -= n
		k.parse(k.buf[:n], each)
	}
	return nil
}

// queued is how many bytes wait to be read.
func (k *inotify) queued() int {
	n, err := unix.IoctlGetInt(k.fd, unix.TIOCINQ)
	if err != nil {
		return 0 // it knows no other error than a closed descriptor
	}
	return n
}

func (k *inotify) parse(buf []byte, each func(notice)) {
	for len(buf) >= unix.SizeofInotifyEvent {
		mask := binary.NativeEndian.Uint32(buf[4:])
		size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buf[12:]))
		name, _, _ := bytes.Cut(buf[unix.SizeofInotifyEvent:size], []byte{0})
		n := notice{
			watch: int32(binary.NativeEndian.Uint32(buf)),
			dir:   mask&unix.IN_ISDIR != 0,
			name:  string(name),
		}
		buf = buf[size:]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			n.what = lost
		case mask&unix.IN_IGNORED != 0:
			delete(k.used, n.watch)
			n.what = ended
		case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
			n.what = appeared
		case mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0:
			n.what = vanished
		default:
			n.what = touched
		}
		each(n)
	}
}

func sysctl(name string) int {
	text, err := os.ReadFile("/proc/sys/fs/inotify/" + name)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text))) // 0: unknown
	return n
}
