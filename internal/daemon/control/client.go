package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/localsock"
)

// The files of a daemon in its data directory.
const (
	LifeLock  = "daemon.lock"       // held by the daemon for as long as it lives
	startLock = "daemon-start.lock" // held by who starts one
)

// StartLog is where a daemon that is being started says why it cannot, in the log
// directory.
const StartLog = "daemon-start.log"

// ErrAbsent is returned when no daemon runs.
var ErrAbsent = errors.New("no daemon runs")

// Client asks the daemon of one data directory.
type Client struct {
	Dirs  fsys.Dirs
	Build string // of this program
}

// Conn is a connection that goes on after the daemon's answer.
type Conn struct {
	net.Conn
	Reader *bufio.Reader // what comes behind the answer
	Answer Answer
}

// answerPatience bounds the wait for an answer to a Hello.
const answerPatience = 30 * time.Second

// dial says hello. A refusal is a *Refused, a daemon that is not there or goes
// away before it answers is ErrAbsent.
func (c *Client) dial(ctx context.Context, h Hello) (*Conn, error) {
	conn, err := localsock.Dial(ctx, localsock.Path(c.Dirs.Data))
	if err != nil {
		if localsock.Absent(err) {
			return nil, ErrAbsent
		}
		return nil, fmt.Errorf("connect to the daemon: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	h.Protocol, h.Build, h.PID = Protocol, c.Build, os.Getpid()
	out := &Conn{Conn: conn, Reader: bufio.NewReaderSize(conn, 64<<10)}
	_ = conn.SetDeadline(time.Now().Add(answerPatience)) // a connection without deadlines is closed by its other end
	if err = Write(conn, h); err == nil {
		err = Read(out.Reader, &out.Answer)
	}
	if err == nil && !out.Answer.OK {
		err = &Refused{out.Answer}
	}
	if err != nil {
		_ = conn.Close() // it brought what it had
		if gone(err) {
			return nil, ErrAbsent
		}
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return out, nil
}

// gone reports whether the other end closed the connection without a word: it was
// about to end.
func gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Status asks how the daemon is.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	conn, err := c.dial(ctx, Hello{Kind: KindStatus})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if conn.Answer.Status == nil {
		return nil, errors.New("the daemon does not say how it is")
	}
	return conn.Answer.Status, nil
}

// Stop asks the daemon to end and waits until it has. With ifIdle it is refused,
// with CodeBusy, while somebody else uses it. No daemon is ErrAbsent.
func (c *Client) Stop(ctx context.Context, ifIdle bool) error {
	conn, err := c.dial(ctx, Hello{Kind: KindStop, IfIdle: ifIdle})
	if err != nil {
		return err
	}
	_ = conn.Close() // it has answered
	return c.waitGone(ctx)
}

// waitGone waits until no daemon holds the data directory.
func (c *Client) waitGone(ctx context.Context) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		release, held, err := fsys.Hold(filepath.Join(c.Dirs.Data, LifeLock))
		if err != nil {
			return fmt.Errorf("wait for the daemon's end: %w", err)
		}
		if held {
			release()
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("wait for the daemon's end: %w", context.Cause(ctx))
		}
	}
}

// Listen asks the daemon to serve HTTP as start says. It does so until the
// connection is closed or, with keep, until it ends.
func (c *Client) Listen(ctx context.Context, start Start, keep bool) (*Conn, error) {
	return c.dial(ctx, Hello{Kind: KindListen, Start: &start, Keep: keep})
}

// Session joins the daemon that runs.
func (c *Client) Session(ctx context.Context, start Start) (*Conn, error) {
	return c.dial(ctx, Hello{Kind: KindSession, Start: &start})
}

// Launch is how to start a daemon.
type Launch struct {
	Program string   // path
	Args    []string // with the name of the program as the first
	Env     []string
}

// Join joins the daemon, and starts one first when there is none. One that is
// older than this program, or has settings that do not suit it, is replaced when
// nobody else uses it.
func (c *Client) Join(ctx context.Context, start Start, launch func() (Launch, error)) (*Conn, error) {
	conn, err := c.Session(ctx, start)
	if err == nil || !c.mayStart(ctx, err) {
		return conn, err
	}
	if err := c.Start(ctx, launch); err != nil {
		return nil, err
	}
	if conn, err = c.Session(ctx, start); errors.Is(err, ErrAbsent) {
		// It was idle for long when we came.
		if err = c.Start(ctx, launch); err == nil {
			conn, err = c.Session(ctx, start)
		}
	}
	return conn, err
}

// mayStart reports whether a daemon is to be started after err: there is none, or
// the one there has made room.
func (c *Client) mayStart(ctx context.Context, err error) bool {
	if errors.Is(err, ErrAbsent) {
		return true
	}
	refused, ok := errors.AsType[*Refused](err)
	if !ok || !refused.Answer.Restart || !refused.Answer.Idle {
		return false
	}
	err = c.Stop(ctx, true)
	return err == nil || errors.Is(err, ErrAbsent)
}

// startPatience bounds how long a daemon may take until it can be connected to.
const startPatience = 30 * time.Second

// Start starts a daemon, unless one runs, and returns when one can be connected
// to. Of many that call it at once one starts it.
func (c *Client) Start(ctx context.Context, launch func() (Launch, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("the daemon was not ready within %s", startPatience))
	defer cancel()
	if err := fsys.MkdirPrivate(c.Dirs.Data); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return fsys.Locked(filepath.Join(c.Dirs.Data, startLock), func() error {
		if c.connectable(ctx) {
			return nil // somebody was faster
		}
		l, err := launch()
		if err != nil {
			return err
		}
		return c.spawn(ctx, l)
	})
}

func (c *Client) connectable(ctx context.Context) bool {
	conn, err := localsock.Dial(ctx, localsock.Path(c.Dirs.Data))
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was said
	return true
}

// spawn starts the program and waits until it is ready or has ended.
func (c *Client) spawn(ctx context.Context, l Launch) error {
	p, err := spawnChild(l, c.Dirs.Data, filepath.Join(c.Dirs.Log, StartLog))
	if err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	for pause := time.Millisecond; ; pause = min(pause+pause/2, 20*time.Millisecond) {
		select {
		case <-p.ended:
			if c.connectable(ctx) {
				return nil // it found another one
			}
			return fmt.Errorf("the daemon could not start: %s", p.said())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
			if c.connectable(ctx) {
				return nil
			}
		}
	}
}
