// Package localsock says who is on the other end of a local connection: the
// user that owns the peer's socket.
//
// The answer is the system's, not the peer's, and holds for the moment of the
// question: ask when a connection is accepted. The functions keep no state and
// are safe for concurrent use. What to do about a stranger is left to others.
package localsock

import (
	"errors"
	"net"
)

// ErrUnsupported is returned where the system has no way to tell.
var ErrUnsupported = errors.New("this system does not tell who owns a connection")

// ErrNotLocal is returned for a connection that leaves this machine.
var ErrNotLocal = errors.New("the peer is not on this machine's loopback")

// PeerUID returns the user id that owns the other end of a Unix socket
// connection, or of a TCP connection over loopback.
func PeerUID(c net.Conn) (int, error) { return peerUID(c) }
