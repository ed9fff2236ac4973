package fsys

import (
	"fmt"
	"os"
)

// Locked runs do while this process, and within it this call alone, holds the
// lock file at path, which is made when it does not exist and stays. It waits
// for others as long as they take, so what they do inside should be short. The
// operating system lets go of the lock when its holder dies. The lock is for
// files of our own, which are replaced and so cannot carry it themselves.
func Locked(path string, do func() error) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|nonblock, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := lockFile(f); err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	defer unlockFile(f)
	return do()
}
