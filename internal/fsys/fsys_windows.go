package fsys

import "os"

// nonblock has no counterpart: opening by path does not wait here.
const nonblock = 0

// syncDir has nothing to do: directories cannot be flushed on Windows, and the
// file system journals the rename.
func syncDir(*os.Root) error { return nil }
