package localsock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
)

// ErrStranger is returned for a socket that belongs to another user.
var ErrStranger = errors.New("the socket belongs to another user")

// Path returns where the socket of the world in the directory data is: the same
// for every process of the user, and short enough for every system. It need not
// exist.
func Path(data string) string { return socketPath(data) }

// Listen listens on the socket at path for processes of this user alone. Whoever
// can connect finds a listener that is ready: the name appears after it. A name
// that is left over from a listener that died is taken over, so hold a lock that
// only one process has. Connections of other users are closed unseen.
func Listen(path string) (net.Listener, error) { return listen(path) }

// Dial connects to the socket at path, if its listener is of this user. When
// nobody listens there the error is one that Absent knows.
func Dial(ctx context.Context, path string) (net.Conn, error) { return dial(ctx, path) }

// Absent reports whether err of Dial says that nobody listens.
func Absent(err error) bool { return absent(err) }

// PeerPID returns the process that made the connection, as the system noted it
// then; ErrUnsupported where it does not.
func PeerPID(c net.Conn) (int, error) { return peerPID(c) }

// short is a name for something long.
func short(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:10])
}

// own is a listener that serves this user alone.
type own struct {
	net.Listener
	admit func(net.Conn) error
	done  func()
}

func (l *own) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.admit(c) == nil {
			return c, nil
		}
		_ = c.Close() // a stranger is told nothing
	}
}

func (l *own) Close() error {
	l.done()
	if err := l.Listener.Close(); err != nil {
		return fmt.Errorf("close socket: %w", err)
	}
	return nil
}
