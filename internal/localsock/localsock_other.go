//go:build !linux && !darwin && !windows

package localsock

import "net"

func peerUID(net.Conn) (int, error) { return 0, ErrUnsupported }

func peerPID(net.Conn) (int, error) { return 0, ErrUnsupported }
