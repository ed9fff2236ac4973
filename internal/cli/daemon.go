package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/daemon"
	"github.com/async-crud-mcp/async-crud-mcp/internal/daemon/bridge"
	"github.com/async-crud-mcp/async-crud-mcp/internal/daemon/control"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

func daemonCommand(t *terminal, f *flags) *cobra.Command {
	cmd := &cobra.Command{Use: "daemon", Short: "The server that every session of yours shares", GroupID: "run", Hidden: true}
	cmd.AddCommand(daemonRunCommand(t, f))
	return cmd
}

// daemonRunCommand is what is started when a session finds no daemon.
func daemonRunCommand(t *terminal, f *flags) *cobra.Command {
	var idle time.Duration
	var http bool
	cmd := &cobra.Command{
		Use: "run", Short: "Run the daemon in the foreground", Args: cobra.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDaemon(cmd.Context(), t, f, daemonRun{cmd: cmd, mode: app.SharedMode, idle: idle, http: http})
		},
	}
	f.registerSettings(cmd)
	cmd.Flags().DurationVar(&idle, "idle", daemon.DefaultIdle, "end after this long without a client and a command; 0: never")
	cmd.Flags().BoolVar(&http, "http", false, "serve HTTP too")
	return cmd
}

// daemonRun is one way to run the daemon in this process.
type daemonRun struct {
	cmd   *cobra.Command
	mode  string
	idle  time.Duration
	http  bool
	ready func(*app.App, net.Listener) // told where HTTP is served; may be nil
}

// runDaemon runs the daemon in this process until it ends. When one runs already
// the error is daemon.ErrRuns.
func runDaemon(ctx context.Context, t *terminal, f *flags, r daemonRun) error {
	dirs, err := fsys.UserDirs()
	if err != nil {
		return err
	}
	release, err := daemon.Hold(ctx, dirs)
	if err != nil {
		return err
	}
	defer release()
	a, err := f.load(r.cmd, t, r.mode)
	if err != nil {
		return err
	}
	defer a.Close()
	o := daemon.Options{App: a, Dirs: dirs, Build: version, Idle: r.idle}
	if r.http {
		if o.HTTP, err = a.Listen(ctx); err != nil {
			return cannotListen(err)
		}
		if r.ready != nil {
			o.Ready = func() { r.ready(a, o.HTTP) }
		}
	}
	return daemon.Run(ctx, o)
}

// daemonClient returns what talks to the daemon.
func daemonClient() (*control.Client, error) {
	dirs, err := fsys.UserDirs()
	if err != nil {
		return nil, err
	}
	return &control.Client{Dirs: dirs, Build: version}, nil
}

// start is what this process was started with, for the daemon.
func (f *flags) start(cmd *cobra.Command) control.Start {
	o := f.settings(cmd)
	dir, _ := os.Getwd() // without one there is no project here
	return control.Start{
		Root: f.root, Dir: dir, TrustProject: f.trustProject, Config: f.config, Set: o.Set, Flags: o.Flags, Environ: o.Env,
	}
}

// launch says how to start a daemon that suits this process.
func (f *flags) launch(cmd *cobra.Command) (control.Launch, error) {
	self, err := os.Executable()
	if err != nil {
		return control.Launch{}, fmt.Errorf("find this program: %w", err)
	}
	l := control.Launch{Program: self, Args: []string{os.Args[0], "daemon", "run"}}
	o := f.settings(cmd)
	if o.UserFile != "" {
		if o.UserFile, err = filepath.Abs(o.UserFile); err != nil {
			return l, err
		}
		l.Args = append(l.Args, "--config", o.UserFile)
	}
	asks := len(o.Set)+len(o.Flags) > 0
	for _, entry := range o.Env {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case name == "ASYNC_CRUD_MCP_HOME": // it may be relative
			abs, err := filepath.Abs(value)
			if err != nil {
				return l, err
			}
			l.Env = append(l.Env, name+"="+abs)
		case strings.HasPrefix(name, "ASYNC_CRUD_MCP_") && strings.Contains(name, "__"):
			asks = true // settings of this session, not of others
		default:
			l.Env = append(l.Env, entry)
		}
	}
	if !asks {
		return l, nil
	}
	store := config.New(o)
	if err := store.Load(); err != nil {
		return l, &failure{code: exitFailed, err: err, next: nextForLoad(err)}
	}
	for _, set := range store.Needs() {
		l.Args = append(l.Args, "--set", set)
	}
	return l, nil
}

// joinStdio serves a host through the daemon.
func joinStdio(cmd *cobra.Command, t *terminal, f *flags) error {
	client, err := daemonClient()
	if err != nil {
		return err
	}
	start := f.start(cmd)
	return asFailure(bridge.Run(cmd.Context(), bridge.Options{In: t.in, Out: t.out, Join: func(ctx context.Context) (*control.Conn, error) {
		return client.Join(ctx, start, func() (control.Launch, error) { return f.launch(cmd) })
	}}))
}

// asFailure gives a refusal of the daemon its exit code and its cure.
func asFailure(err error) error {
	refused, ok := errors.AsType[*control.Refused](err)
	if !ok {
		return err
	}
	code := exitFailed
	if refused.Answer.Code == control.CodePort {
		code = exitPort
	}
	return &failure{code: code, err: err, next: refused.Answer.Cure}
}
