//go:build !linux

package localsock

import "net"

func peerHeldBy(net.Conn, func(int) bool) (bool, error) { return false, ErrUnsupported }
