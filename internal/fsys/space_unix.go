//go:build unix

package fsys

import "golang.org/x/sys/unix"

// Free returns how many bytes this user can still write to the file system that
// holds path.
func Free(path string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert // the types differ between systems
}
