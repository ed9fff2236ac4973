package watch

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openFlags open a directory to list it, and nothing else: no link, no pipe.
const openFlags = os.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK

// identity tells files apart that share a name, a size and a time: where they
// are, and when anything about them changed last, in nanoseconds.
func identity(info os.FileInfo) (dev, inode uint64, changed int64) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, 0
	}
	return uint64(st.Dev), st.Ino, st.Ctimespec.Nano()
}

// remoteName names the file system of dir when others may change it without a
// notice here; empty when it is local.
func remoteName(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil || st.Flags&unix.MNT_LOCAL != 0 {
		return ""
	}
	return unix.ByteSliceToString(st.Fstypename[:])
}
