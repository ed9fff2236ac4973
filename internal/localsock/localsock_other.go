//go:build !linux

package localsock

import "net"

func peerUID(net.Conn) (int, error) { return 0, ErrUnsupported }
