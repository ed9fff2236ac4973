// Package opendir works on names inside an opened directory instead of on
// paths, so that nothing that is renamed or linked meanwhile can lead a call
// astray.
//
// A Base is opened once by its path. Everything below it is reached by a
// relative name in which no component may be a link: a name that holds one is
// refused with ErrLink, at the moment of the call, by the kernel. A Dir or a
// File that was reached this way goes on naming the same object, wherever it is
// moved. Dir takes single names and never follows a link.
//
// A Base is safe for concurrent use, closing it included. A Dir or a File
// belongs to one goroutine and must be closed by it. Errors keep the system's
// cause; they name the call, the caller adds the path. In which order calls make
// a file durable, and who may make them, is decided by the caller.
//
// On Windows the same is built on os.Root: links below a base are followed there,
// never out of it.
package opendir

import (
	"errors"
	"io/fs"
	"time"
)

// LongestName is how many bytes a name can have on every common file system.
const LongestName = 255

var (
	// ErrLink is returned where a link stands, at the end or on the way, in place
	// of a file or directory.
	ErrLink = errors.New("a link stands in the way")
	// ErrIsDirectory is returned for a directory where a file is needed.
	ErrIsDirectory = errors.New("is a directory")
	// ErrNotRegular is returned for a pipe, device, socket or directory where a
	// regular file is needed.
	ErrNotRegular = errors.New("not a regular file")
)

// Kind is what stands under a name.
type Kind uint8

// What can stand under a name.
const (
	Special   Kind = iota // a pipe, socket or device
	Regular               // a regular file
	Directory             // a directory
	Link                  // a link, not followed
)

// Info is what the system says about a name or an opened file.
type Info struct {
	Kind    Kind
	Size    int64
	ModTime time.Time
	Mode    fs.FileMode // type and permissions
	Links   uint64      // names the file has; 0 where that is not known
	Stamp   Stamp
}

// Stamp tells one state of one file from another as well as the system can
// without reading it. Two equal stamps of a file that is being written in place
// may still hide a change that fell into one tick of the system's clock.
type Stamp struct {
	Dev, Ino     uint64 // 0 where the system has no such numbers
	Size         int64
	Mtime, Ctime int64 // nanoseconds
}

// SameFile reports whether both stamps were taken of one file, in whatever state.
// Where files have no numbers it never does.
func (s Stamp) SameFile(o Stamp) bool { return s.Ino != 0 && s.Dev == o.Dev && s.Ino == o.Ino }

// Entry is one name in a directory. Its kind is what the directory says about
// it, without looking at the file.
type Entry struct {
	Name string
	Kind Kind
}

// Regular is Stat that wants a regular file. It looks at what was opened, not at
// a name, so that nothing can be exchanged in between.
func (f *File) Regular() (Info, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.Kind == Directory:
		err = ErrIsDirectory
	case info.Kind != Regular:
		err = ErrNotRegular
	}
	return info, err
}

func kind(m fs.FileMode) Kind {
	switch m.Type() {
	case 0:
		return Regular
	case fs.ModeDir:
		return Directory
	case fs.ModeSymlink:
		return Link
	default:
		return Special
	}
}
