package sandbox

import "os"

// mayWrite reports whether path looks writable; nothing here depends on it.
func mayWrite(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o200 != 0
}
