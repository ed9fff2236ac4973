package localsock

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

func peerUID(c net.Conn) (int, error) {
	var uid int
	err := withSocket(c, func(fd int) error {
		cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		if err == nil {
			uid = int(cred.Uid)
		}
		return err
	})
	return uid, err
}

func peerPID(c net.Conn) (int, error) {
	var pid int
	err := withSocket(c, func(fd int) (err error) {
		pid, err = unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
		return err
	})
	return pid, err
}

// withSocket asks a Unix socket something.
func withSocket(c net.Conn, ask func(fd int) error) error {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("peer of a %T: %w", c, ErrUnsupported)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return fmt.Errorf("peer of %s: %w", c.LocalAddr(), err)
	}
	var asked error
	if err := raw.Control(func(fd uintptr) { asked = ask(int(fd)) }); err != nil {
		return fmt.Errorf("peer of %s: %w", c.LocalAddr(), err)
	}
	if asked != nil {
		return fmt.Errorf("peer of %s: %w", c.LocalAddr(), asked)
	}
	return nil
}
