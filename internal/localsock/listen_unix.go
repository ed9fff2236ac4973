//go:build !windows

package localsock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// maxPath is the longest path a socket may have on every system, with room for
// the name it is bound under at first.
const maxPath = 104 - 1 - len(".new")

// socketPath puts the socket into the world's own directory, or where that is
// too long into one of the user's.
func socketPath(data string) string {
	path := filepath.Join(data, "run", "daemon.sock")
	if len(path) <= maxPath {
		return path
	}
	return filepath.Join("/tmp", "async-crud-mcp-"+strconv.Itoa(os.Getuid()), short(data)+".sock")
}

// listen binds under another name and renames when all is ready.
func listen(path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("socket directory: %w", err)
	}
	if err := checkDir(dir, true); err != nil {
		return nil, err
	}
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove an old socket: %w", err)
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, err
	}
	ln.SetUnlinkOnClose(false) // it has another name by then
	if err := errors.Join(os.Chmod(fresh, 0o600), os.Rename(fresh, path)); err != nil {
		_ = ln.Close() // the error that counts is the one we have
		return nil, fmt.Errorf("socket: %w", err)
	}
	mine, err := os.Lstat(path)
	if err != nil {
		_ = ln.Close()
		return nil, fmt.Errorf("socket: %w", err)
	}
	return &own{Listener: ln, admit: sameUser, done: func() {
		if now, err := os.Lstat(path); err == nil && os.SameFile(mine, now) {
			_ = os.Remove(path) // what stays is taken over by the next listener
		}
	}}, nil
}

// checkDir refuses a directory that others can reach into. One of ours that is
// merely open is closed.
func checkDir(dir string, repair bool) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("socket directory: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(st.Uid) != os.Getuid() {
		return fmt.Errorf("socket directory %s: %w", dir, ErrStranger)
	}
	if info.Mode().Perm() == 0o700 {
		return nil
	}
	if !repair {
		return fmt.Errorf("socket directory %s is open to other users", dir)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("socket directory: %w", err)
	}
	return nil
}

func dial(ctx context.Context, path string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := sameUser(c); err != nil {
		_ = c.Close() // nothing was sent
		return nil, err
	}
	return c, nil
}

func sameUser(c net.Conn) error {
	uid, err := peerUID(c)
	switch {
	case errors.Is(err, ErrUnsupported):
		return nil // the directory keeps others out
	case err != nil:
		return err
	case uid != os.Getuid():
		return ErrStranger
	}
	return nil
}

func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}
