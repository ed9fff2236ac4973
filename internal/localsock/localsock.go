// Package localsock is the user's private socket, and says who is on the other
// end of a local connection: the user that owns the peer's socket.
//
// The answer is the system's, not the peer's, and holds for the moment of the
// question: ask when a connection is accepted, or before the first byte is sent
// on one that was made. The functions keep no state and are safe for concurrent
// use. What to do about a stranger is left to others.
package localsock

import (
	"context"
	"errors"
	"net"
	"time"
)

// ErrUnsupported is returned where the system has no way to tell.
var ErrUnsupported = errors.New("this system does not tell who owns a connection")

// ErrNotLocal is returned for a connection that leaves this machine.
var ErrNotLocal = errors.New("the peer is not on this machine's loopback")

// errNoOwner is the answer for a socket that nobody has accepted yet, and for
// one whose process closed it: the kernel then reports user 0, which it must not
// be taken for.
var errNoOwner = errors.New("no process owns that end of the connection")

// PeerUID returns the user id that owns the other end of a Unix socket
// connection, or of a TCP connection over loopback.
func PeerUID(c net.Conn) (int, error) { return peerUID(c) }

// PeerHeldBy reports whether one of the processes that pick selects has the other
// end of a TCP connection over loopback open. It goes through all processes.
func PeerHeldBy(c net.Conn, pick func(pid int) bool) (bool, error) { return peerHeldBy(c, pick) }

// acceptPatience is how long a server may take to accept a connection that is
// asked about; until then nobody owns its end.
const acceptPatience = 2 * time.Second

// AcceptorUID is PeerUID for who made the connection: it waits, at most two
// seconds, until somebody has accepted it.
func AcceptorUID(ctx context.Context, c net.Conn) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, acceptPatience)
	defer cancel()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		uid, err := peerUID(c)
		if !errors.Is(err, errNoOwner) {
			return uid, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return 0, err
		}
	}
}
