//go:build !linux && !darwin

package watch

import "os"

// openFlags open a directory to list it.
const openFlags = os.O_RDONLY

// identity tells files apart that share a name, a size and a time. Here nothing
// more is known without opening each file.
func identity(os.FileInfo) (dev, inode uint64, changed int64) { return 0, 0, 0 }

// remoteName names the file system of dir when others may change it without a
// notice here. Everything is polled here, so nothing depends on it.
func remoteName(string) string { return "" }
