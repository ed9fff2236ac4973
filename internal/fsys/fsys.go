// Package fsys is the way to files: bounded reads that never block on a pipe or
// device, and changes that happen in one step and survive a crash.
//
// The files of a project are reached through Bases: Resolve turns a name into a
// Path, which lies below an opened base directory, and a Path has the verbs. None
// of them follows a link that was put there later, so a tree that moves while it
// is used leads nobody out; it leads to ErrMoved. How system calls stay below a
// directory is in opendir, in which order they make a change in commit.
//
// The functions that take plain names are for this program's own files. The
// package also knows the directories that belong to the user and keeps log files
// bounded.
//
// Everything is safe for concurrent use; two writers of one file do not mix their
// bytes. Who may touch which file, and who goes first, is decided elsewhere.
package fsys

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/opendir"
)

var (
	// ErrNotRegular is returned for a directory, pipe, device or socket where a
	// regular file is needed.
	ErrNotRegular = opendir.ErrNotRegular
	// ErrTooLarge is returned for a file over the given bound.
	ErrTooLarge = errors.New("file is too large")
)

// ReadFile returns the content of a regular file of at most limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	return readAll(f, limit)
}

// ReadFileIn is ReadFile for a name below the directory root. A link that
// leaves root, at any place of the name and at any moment, is an error, and so
// is an absolute link.
func ReadFileIn(root, name string, limit int64) ([]byte, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f, err := r.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	return readAll(f, limit)
}

// readAll judges the opened object, not its name, so that nothing can be
// exchanged in between.
func readAll(f *os.File, limit int64) ([]byte, error) {
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: ErrNotRegular}
	}
	if info.Size() <= limit { // else do not even begin
		data, err := io.ReadAll(io.LimitReader(f, limit+1))
		if err != nil {
			return nil, err
		}
		if int64(len(data)) <= limit {
			return data, nil
		}
	}
	return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: fmt.Errorf("%w: over %d bytes", ErrTooLarge, limit)}
}

// WriteFile replaces path by a file with exactly this content and these
// permissions, or leaves everything as it was. Readers see the old bytes or the
// new ones, also after a power cut. A link is replaced, not followed. Only an
// error of the very last step, flushing the directory, leaves the new file in
// place.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	r, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer r.Close()
	return replace(r, filepath.Base(path), data, perm)
}

// WriteFileIn is WriteFile for a name below the directory root. Missing
// directories are made; a directory that is a link out of root is an error. A
// file that exists keeps its permissions.
func WriteFileIn(root, name string, data []byte, perm fs.FileMode) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer r.Close()
	dir, base := filepath.Split(filepath.Clean(name))
	dir = filepath.Clean(dir)
	if err := r.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	d, err := r.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if info, err := d.Lstat(base); err == nil && info.Mode().IsRegular() {
		perm = info.Mode().Perm()
	}
	return replace(d, base, data, perm)
}

func replace(dir *os.Root, name string, data []byte, perm fs.FileMode) error {
	const longest = 255 // bytes in a file name on every common file system
	random := "." + rand.Text() + ".tmp"
	temp := "." + name[:min(len(name), longest-1-len(random))] + random
	f, err := dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	err = fill(f, data, perm)
	if err == nil {
		err = dir.Rename(temp, name)
	}
	if err != nil {
		_ = dir.Remove(temp) // the first error is the one that explains
		return err
	}
	return syncDir(dir)
}

func fill(f *os.File, data []byte, perm fs.FileMode) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Chmod(perm) // the umask had its say at creation
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// ResolveDir returns the absolute path of an existing directory with every link
// resolved.
func ResolveDir(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", &fs.PathError{Op: "resolve", Path: path, Err: syscall.ENOTDIR}
	}
	return real, nil
}

// Within reports whether path is base or lies below it. Both must be resolved
// already: links and spelling are not looked at.
func Within(base, path string) bool {
	rel, err := filepath.Rel(base, path)
	return err == nil && filepath.IsLocal(rel)
}
