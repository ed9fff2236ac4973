package fsys

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"gopkg.in/natefinch/lumberjack.v2"
)

// RotatingFile is a file for logs that never grows without bound: full files
// are set aside, compressed, and deleted by age. Only its owner can read it.
// Writes are safe for concurrent use within one process. Its first write starts
// the library's goroutine for old files, which stays until the process ends.
type RotatingFile struct {
	out   *lumberjack.Logger
	ready atomic.Bool // prepare succeeded
}

// NewRotatingFile returns the file at path, of which up to 10 MB are kept in one
// piece and older pieces for 7 days. It touches no disk before the first write,
// which makes missing directories.
func NewRotatingFile(path string) *RotatingFile {
	return &RotatingFile{out: &lumberjack.Logger{Filename: path, MaxSize: 10, MaxAge: 7, Compress: true}}
}

func (f *RotatingFile) Write(p []byte) (int, error) {
	if !f.ready.Load() {
		if err := f.prepare(); err != nil {
			return 0, err
		}
		f.ready.Store(true)
	}
	return f.out.Write(p)
}

// prepare sees to what the library does not: a directory and an old file that
// only the owner can read, and no waiting on a pipe. Doing it twice does no
// harm.
func (f *RotatingFile) prepare() error {
	path := f.out.Filename
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil: // it will be made with the right permissions
	case !info.Mode().IsRegular():
		return &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	case info.Mode().Perm()&0o077 != 0:
		return os.Chmod(path, 0o600)
	}
	return nil
}

// Close closes the file. A later write opens it again.
func (f *RotatingFile) Close() error { return f.out.Close() }
