package fsys

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/commit"
)

// Process names this process, for what it leaves to be found if it dies.
func Process() string { return commit.Process() }

// Gone reports whether the process that Process named has ended.
func Gone(process string) bool { return commit.Gone(process) }

// Files lists the regular files in a directory of our own, by name; none if
// there is no such directory.
func Files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	var paths []string
	for _, e := range entries {
		if e.Type() == fs.FileMode(0) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, err
}

// RemoveFile removes a file of our own and makes that last.
func RemoveFile(path string) error {
	r, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.Remove(filepath.Base(path)); err != nil {
		return err
	}
	return syncDir(r)
}

// Paths returns the base directories, the one relative names start from first.
func (b *Bases) Paths() []string {
	var paths []string
	for _, base := range b.all {
		paths = append(paths, base.path)
	}
	return slices.Clip(paths)
}
