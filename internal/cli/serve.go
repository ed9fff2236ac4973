package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/daemon"
	"github.com/async-crud-mcp/async-crud-mcp/internal/daemon/control"
)

func stdioCommand(t *terminal, f *flags) *cobra.Command {
	var standalone bool
	cmd := &cobra.Command{
		Use: "stdio", Short: "Serve MCP on standard input and output, for a host that starts us", GroupID: "run", Args: cobra.NoArgs,
		Example: "  claude mcp add files -- " + app.Name + " stdio --root .",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if isTerminal(t.in) {
				t.say("waiting for JSON-RPC on standard input; a host usually starts this command (see '%s serve --help' for HTTP)", app.Name)
			}
			if !standalone {
				return joinStdio(cmd, t, f)
			}
			a, err := f.load(cmd, t, "stdio")
			if err != nil {
				return err
			}
			defer a.Close()
			return a.Stdio(cmd.Context(), t.in, t.out)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&standalone, "standalone", false, "serve this host alone, in this process, instead of joining the daemon")
	return cmd
}

func serveCommand(t *terminal, f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve MCP over HTTP in the foreground", GroupID: "run", Args: cobra.NoArgs,
		Long: "Serve MCP over HTTP in the foreground: /mcp (streamable HTTP, every protocol version), /sse (older hosts),\n" +
			"/health and /metrics. Only this user on this machine can connect, unless a token is set.",
		Example: "  " + app.Name + " serve --root .\n  claude mcp add --transport http files http://127.0.0.1:8720/mcp",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd, t, f)
		},
	}
	f.register(cmd)
	cmd.Flags().IntVar(&f.port, "port", 0, "port to listen on; 0 takes any free one (default: daemon.port, 8720)")
	cmd.Flags().StringVar(&f.host, "host", "", "address to listen on (default: daemon.host, 127.0.0.1)")
	return cmd
}

// serve is the daemon in the foreground; where one runs, that one listens for as
// long as this process does.
func serve(cmd *cobra.Command, t *terminal, f *flags) error {
	ctx := cmd.Context()
	for attempt := 0; ; attempt++ {
		err := runDaemon(ctx, t, f, daemonRun{cmd: cmd, mode: "serve", http: true, ready: func(a *app.App, ln net.Listener) {
			t.sayListening(ln.Addr().String(), app.Address(ln), a.Token() != "")
		}})
		if !errors.Is(err, daemon.ErrRuns) {
			return err
		}
		client, err := daemonClient()
		if err != nil {
			return err
		}
		conn, err := client.Listen(ctx, f.start(cmd), false)
		if refused, ok := errors.AsType[*control.Refused](err); ok && attempt < 3 && refused.Answer.Restart && refused.Answer.Idle {
			if err := client.Stop(ctx, true); err == nil || errors.Is(err, control.ErrAbsent) {
				continue // with settings that suit us
			}
		}
		if errors.Is(err, control.ErrAbsent) && attempt < 3 {
			continue
		}
		if err != nil {
			return asFailure(err)
		}
		return attach(ctx, t, conn)
	}
}

// attach stays with a daemon that listens for us.
func attach(ctx context.Context, t *terminal, conn *control.Conn) error {
	defer conn.Close()
	t.sayListening(conn.Answer.Address, conn.Answer.Address, conn.Answer.Token)
	t.say("%s", paint(t.err, faint, fmt.Sprintf("the daemon that runs (pid %d) serves it", conn.Answer.PID)))
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_, err := conn.Reader.ReadByte() // nothing comes but the end
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("the daemon has ended: %w", err)
}

func (t *terminal) sayListening(address, reached string, token bool) {
	t.say("%s %s listening on http://%s", app.Name, version, address)
	header := ""
	if token {
		header = ` --header "Authorization: Bearer $(cat TOKEN_FILE)"`
	}
	t.say("%s connect with: claude mcp add --transport http %s http://%s/mcp%s", paint(t.err, cyan, "next:"), app.Name, reached, header)
}

func cannotListen(err error) error {
	if taken, ok := errors.AsType[*app.PortTaken](err); ok {
		return &failure{code: exitPort, err: taken, next: "stop that process, or choose another port with --port N (0 takes any free one)"}
	}
	if errors.Is(err, syscall.EACCES) {
		return &failure{code: exitFailed, err: err, next: "choose a port above 1023 with --port"}
	}
	return &failure{code: exitFailed, err: err}
}
