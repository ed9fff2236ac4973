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
	return uint64(st.Dev), st.Ino, st.Ctim.Nano() //nolint:unconvert // types differ between architectures
}

// remoteName names the file system of dir when others may change it without a
// notice here; empty when it is local. An overlay counts as local: what is
// changed through it raises notices, and changing its layers behind its back is
// undefined anyway.
func remoteName(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return ""
	}
	return remoteTypes[uint32(st.Type)]
}

var remoteTypes = map[uint32]string{
	0x6969:     "NFS",
	0x517B:     "SMB",
	0xFF534D42: "CIFS",
	0xFE534D42: "SMB2",
	0x65735546: "FUSE",
	0x01021997: "9P",
	0x00C36400: "Ceph",
	0x5346414F: "AFS",
	0x6B414653: "AFS",
	0x73757245: "Coda",
	0x564C:     "NCP",
	0x01161970: "GFS2",
	0x7461636F: "OCFS2",
	0x0BD00BD0: "Lustre",
	0x47504653: "GPFS",
	0xAAD7AAEA: "PanFS",
	0x786F4256: "VirtualBox shared folders",
	0xBACBACBC: "VMware shared folders",
	0x7C7C6673: "Parallels shared folders",
}
