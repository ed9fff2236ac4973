package localsock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"
)

// socketPath names a pipe: pipes have a space of names of their own.
func socketPath(data string) string { return `\\.\pipe\async-crud-mcp-` + short(data) }

// listen makes a pipe that this user alone may open. The system lets nobody else
// make another of the name while it is there.
func listen(path string) (net.Listener, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, fmt.Errorf("current user: %w", err)
	}
	ln, err := winio.ListenPipe(path, &winio.PipeConfig{
		SecurityDescriptor: "D:P(A;;GA;;;" + user.User.Sid.String() + ")", InputBufferSize: 64 << 10, OutputBufferSize: 64 << 10,
	})
	if err != nil {
		return nil, err
	}
	return &own{Listener: ln, admit: func(net.Conn) error { return nil }, done: func() {}}, nil
}

func dial(ctx context.Context, path string) (net.Conn, error) {
	return winio.DialPipeContext(ctx, path)
}

func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func peerUID(net.Conn) (int, error) { return 0, ErrUnsupported }

func peerPID(net.Conn) (int, error) { return 0, ErrUnsupported }
