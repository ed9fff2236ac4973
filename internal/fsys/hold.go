package fsys

import (
	"fmt"
	"os"
)

// Hold takes the lock file at path, which is made when it does not exist and
// stays, and keeps it until release is called or the process ends, however it
// ends. held is false when somebody else has it; it never waits.
func Hold(path string) (release func(), held bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|nonblock, 0o600)
	if err != nil {
		return nil, false, err
	}
	held, err = tryLockFile(f)
	if err != nil || !held {
		_ = f.Close() // nothing was written
		if err != nil {
			err = fmt.Errorf("lock %s: %w", path, err)
		}
		return nil, false, err
	}
	return func() {
		unlockFile(f)
		_ = f.Close()
	}, true, nil
}
