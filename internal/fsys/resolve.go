package fsys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// ResolveNearest returns the absolute path with every link of its existing part
// resolved; what does not exist yet is kept as it is spelled. A link that leads
// nowhere is an error, since nobody can say where it would lead.
func ResolveNearest(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	existing, rest := abs, ""
	for {
		_, err := os.Lstat(existing)
		if err == nil {
			break
		}
		parent := filepath.Dir(existing)
		if !errors.Is(err, fs.ErrNotExist) || parent == existing {
			return "", err
		}
		existing, rest = parent, filepath.Join(filepath.Base(existing), rest)
	}
	real, err := filepath.EvalSymlinks(existing)
	if err != nil {
		return "", err
	}
	return filepath.Join(real, rest), nil
}

// Exists reports whether something stands at path, a link that leads nowhere
// included.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Home returns the user's home directory.
func Home() (string, error) { return os.UserHomeDir() }

// MkdirPrivate makes a directory, and its missing parents, that only the owner
// can enter.
func MkdirPrivate(path string) error { return os.MkdirAll(path, 0o700) }

// ReadPrivateFile is ReadFile for a file with a secret: it refuses one that
// others can read, where the system has such permissions.
func ReadPrivateFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("others can read it: chmod 600 it first")}
	}
	return ReadFile(path, limit)
}
