// Package daemon is the one server per user that client processes share: single
// instance, who may talk to it, idle exit and stop.
//
//	Run: hold the data directory ─▶ app.Run ─▶ accept ─▶ hello ─┬▶ session: MCP until the client leaves
//	                                   └▶ idle watch             ├▶ listen: HTTP for as long as it is wanted
//	                                                             └▶ status, stop
//
// There is never more than one on a data directory: it holds a lock on it for as
// long as it lives, and the system lets go of that lock however it ends. Run owns
// every goroutine it starts and waits for them. What a session may do is the
// assembly's business, what is said first is control's.
package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/daemon/control"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/localsock"
)

// DefaultIdle is how long a daemon without a client and a command waits for
// another before it ends.
const DefaultIdle = 10 * time.Minute

// Options say what runs and for how long.
type Options struct {
	App   *app.App // loaded with Shared
	Dirs  fsys.Dirs
	Build string
	Idle  time.Duration // end after this long without a client and a command; 0: never
	// HTTP is a listener to serve with the settings of the process; may be nil.
	// While there is one the daemon does not end by itself.
	HTTP net.Listener
	// Ready is called when clients can connect; may be nil.
	Ready func()
}

// Daemon is one that runs.
type Daemon struct {
	opts   Options
	log    *slog.Logger
	start  time.Time
	stop   context.CancelFunc
	serves sync.WaitGroup // connections and listeners

	mu        sync.Mutex
	ending    bool                      // guarded by mu; nobody is admitted any more
	clients   map[*control.Conn]*client // guarded by mu
	addresses map[net.Listener]struct{} // guarded by mu; HTTP
}

type client struct {
	hello control.Hello
	since time.Time
}

// ErrRuns is returned when another daemon has the data directory.
var ErrRuns = errors.New("a daemon runs already")

// lockPatience is how long a daemon that ends may take to let go.
const lockPatience = 10 * time.Second

// Hold takes the data directory for a daemon, for as long as this process lives
// or until release. ErrRuns: another one has it and serves clients.
func Hold(ctx context.Context, dirs fsys.Dirs) (release func(), err error) {
	if err := fsys.MkdirPrivate(dirs.Data); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	for {
		release, held, err := fsys.Hold(filepath.Join(dirs.Data, control.LifeLock))
		if err != nil {
			return nil, err
		}
		if held {
			return release, nil
		}
		if c, err := localsock.Dial(ctx, localsock.Path(dirs.Data)); err == nil {
			_ = c.Close() // nothing was said
			return nil, ErrRuns
		}
		select { // it is about to begin, or about to end
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w, and does not answer", ErrRuns)
		}
	}
}

// Run serves until ctx ends, somebody asks it to stop or it was idle for long
// enough. The data directory must be held.
func Run(ctx context.Context, o Options) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	d := &Daemon{
		opts: o, log: o.App.Logger, start: time.Now(), stop: stop,
		clients: make(map[*control.Conn]*client), addresses: make(map[net.Listener]struct{}),
	}
	return o.App.Run(ctx, d.run)
}

func (d *Daemon) run(ctx context.Context) error {
	ln, err := localsock.Listen(localsock.Path(d.opts.Dirs.Data))
	if err != nil {
		return fmt.Errorf("listen for clients: %w", err)
	}
	if d.opts.HTTP != nil {
		d.listening(d.opts.HTTP, true)
		d.serves.Go(func() {
			defer d.stop() // without it the process has no reason to be
			if err := d.opts.App.Serve(ctx, d.opts.HTTP); err != nil {
				d.log.Error("HTTP ended early", "err", err)
			}
		})
	}
	d.serves.Go(func() { d.watchIdle(ctx) })
	accepted := make(chan error, 1)
	go func() { accepted <- d.accept(ctx, ln) }()
	if d.opts.Ready != nil {
		d.opts.Ready()
	}
	var result error
	select {
	case <-ctx.Done():
	case result = <-accepted:
		accepted <- result
		d.stop()
	}
	d.end()
	_ = ln.Close() // connections that wait are closed with it, and try again
	<-accepted
	d.serves.Wait()
	return result
}

func (d *Daemon) accept(ctx context.Context, ln net.Listener) error {
	for {
		c, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("accept clients: %w", err)
		}
		d.serves.Go(func() {
			defer c.Close()
			d.serve(ctx, c)
		})
	}
}

// helloPatience is how long a client may take to say who it is.
const helloPatience = 10 * time.Second

// serve serves one connection.
func (d *Daemon) serve(ctx context.Context, c net.Conn) {
	conn := &control.Conn{Conn: c, Reader: bufio.NewReaderSize(c, 64<<10)}
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	_ = c.SetReadDeadline(time.Now().Add(helloPatience)) // a connection without deadlines is closed by its other end
	var hello control.Hello
	err := control.Read(conn.Reader, &hello)
	stop()
	if errors.Is(err, io.EOF) {
		return // it only looked whether somebody is here
	}
	_ = c.SetReadDeadline(time.Time{})
	switch {
	case err != nil:
		err = d.answer(conn, control.Answer{Code: control.CodeHello, Message: err.Error()})
	case inJob(c):
		d.log.Warn("a command of ours tried to connect", "pid", hello.PID)
		err = d.answer(conn, control.Answer{
			Code: control.CodeInJob, Message: "a command that an agent runs cannot use the server that runs it",
			Cure: "call the server's tools directly",
		})
	default:
		err = d.admit(ctx, conn, hello)
	}
	if err != nil {
		d.log.Debug("a connection ended", "kind", hello.Kind, "pid", hello.PID, "err", err)
	}
}

// inJob reports whether the process at the other end was started by a command of
// ours. Where that cannot be told the sandbox keeps commands off the socket.
func inJob(c net.Conn) bool {
	pid, err := localsock.PeerPID(c)
	return err == nil && pid != os.Getpid() && app.InCommand(pid)
}

func (d *Daemon) admit(ctx context.Context, conn *control.Conn, hello control.Hello) error {
	switch {
	case hello.Kind == control.KindStatus:
		status := d.status()
		return d.answer(conn, control.Answer{OK: true, Status: &status})
	case hello.Kind == control.KindStop:
		if hello.IfIdle && !d.endIfIdle() {
			return d.answer(conn, control.Answer{Code: control.CodeBusy, Message: "the daemon is in use"})
		}
		d.log.Info("asked to stop", "pid", hello.PID)
		err := d.answer(conn, control.Answer{OK: true})
		d.stop()
		return err
	case hello.Protocol != control.Protocol:
		a := control.Answer{
			Code: control.CodeProtocol, Restart: hello.Protocol > control.Protocol, Idle: !d.busy(),
			Message: fmt.Sprintf("the daemon (%s, pid %d) is of another version than this program (%s)", d.opts.Build, os.Getpid(), hello.Build),
			Cure:    "end it with '" + app.Name + " daemon stop' once its clients are done",
		}
		if hello.Protocol < control.Protocol {
			a.Cure = "update this program, which is older, and start it again"
		}
		return d.answer(conn, a)
	case hello.Start == nil || hello.Kind != control.KindSession && hello.Kind != control.KindListen:
		return d.answer(conn, control.Answer{Code: control.CodeHello, Message: fmt.Sprintf("the daemon does not know %q", hello.Kind)})
	}
	idle := !d.busy()
	if !d.enter(conn, hello) {
		return nil // it is ending: who hears nothing tries again
	}
	defer d.leave(conn)
	s, err := d.opts.App.Join(ctx, app.Start{
		Root: hello.Start.Root, Dir: hello.Start.Dir, TrustProject: hello.Start.TrustProject, Environ: hello.Start.Environ,
		UserFile: hello.Start.Config, Set: hello.Start.Set, Flags: hello.Start.Flags,
	})
	if err != nil {
		a := control.Answer{Code: "failed", Message: err.Error(), Idle: idle}
		if r, ok := errors.AsType[*app.Refusal](err); ok {
			a.Code, a.Cure, a.Restart = r.Code, r.Cure, r.Restart
		}
		d.leave(conn) // before it hears of it and asks for another daemon
		return d.answer(conn, a)
	}
	defer s.Leave()
	if hello.Kind == control.KindListen {
		return d.listen(ctx, conn, s, hello.Keep)
	}
	if err := d.answer(conn, control.Answer{OK: true, Repeatable: d.opts.App.Repeatable()}); err != nil {
		return err
	}
	err = s.Stdio(ctx, conn.Reader, conn)
	if ctx.Err() != nil {
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(conn, control.Bye) // a client that has gone need not know
	}
	return err
}

// listen serves HTTP until the client goes or, with keep, the daemon ends.
func (d *Daemon) listen(ctx context.Context, conn *control.Conn, s *app.Session, keep bool) error {
	ln, err := s.Listen(ctx)
	if err != nil {
		a := control.Answer{Code: "failed", Message: err.Error()}
		if _, taken := errors.AsType[*app.PortTaken](err); taken {
			a.Code = control.CodePort
		}
		return d.answer(conn, a)
	}
	d.listening(ln, true)
	defer d.listening(ln, false)
	if err := d.answer(conn, control.Answer{OK: true, Address: ln.Addr().String(), Token: d.opts.App.Token() != ""}); err != nil {
		_ = ln.Close() // nobody has used it
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !keep {
		go func() {
			defer cancel()
			_, _ = conn.Reader.ReadByte() // ends with the connection
		}()
	}
	err = s.HTTP(ctx, ln)
	_ = conn.Close() // ends the read above
	return err
}

func (d *Daemon) answer(conn *control.Conn, a control.Answer) error {
	a.Protocol, a.Build, a.PID = control.Protocol, d.opts.Build, os.Getpid()
	return control.Write(conn, a)
}

// enter counts a client in, unless the daemon is ending.
func (d *Daemon) enter(conn *control.Conn, h control.Hello) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ending {
		d.clients[conn] = &client{hello: h, since: time.Now()}
	}
	return !d.ending
}

func (d *Daemon) leave(conn *control.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.clients, conn)
}

func (d *Daemon) listening(ln net.Listener, on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if on {
		d.addresses[ln] = struct{}{}
	} else {
		delete(d.addresses, ln)
	}
}

// busy reports whether somebody would miss the daemon.
func (d *Daemon) busy() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.busyLocked()
}

func (d *Daemon) busyLocked() bool {
	return len(d.clients) > 0 || len(d.addresses) > 0 || d.opts.App.Busy()
}

// endIfIdle decides to end when nobody would miss the daemon; from then on nobody
// is admitted.
func (d *Daemon) endIfIdle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ending && d.busyLocked() {
		return false
	}
	d.ending = true
	return true
}

func (d *Daemon) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ending = true
}

// watchIdle ends the daemon when it was idle for long enough.
func (d *Daemon) watchIdle(ctx context.Context) {
	if d.opts.Idle <= 0 {
		return
	}
	tick := time.NewTicker(max(d.opts.Idle/20, time.Millisecond))
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			switch {
			case d.busy():
				last = now
			case now.Sub(last) >= d.opts.Idle && d.endIfIdle():
				d.log.Info("idle for long enough", "idle", d.opts.Idle)
				d.stop()
				return
			}
		}
	}
}

func (d *Daemon) status() control.Status {
	s := control.Status{
		PID: os.Getpid(), Build: d.opts.Build, Protocol: control.Protocol, Uptime: time.Since(d.start).Seconds(), IdleAfter: d.opts.Idle.Seconds(),
		Socket: localsock.Path(d.opts.Dirs.Data), LogFile: d.opts.App.LogFile(), RunningJobs: d.opts.App.Jobs.Running(),
		Addresses: []string{}, Clients: []control.ClientProcess{}, Health: d.opts.App.Health(),
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for ln := range d.addresses {
		s.Addresses = append(s.Addresses, ln.Addr().String())
	}
	for _, c := range d.clients {
		s.Clients = append(s.Clients, control.ClientProcess{PID: c.hello.PID, Build: c.hello.Build, Root: c.hello.Start.Root, Age: time.Since(c.since).Seconds()})
	}
	slices.Sort(s.Addresses)
	slices.SortFunc(s.Clients, func(a, b control.ClientProcess) int { return a.PID - b.PID })
	return s
}
