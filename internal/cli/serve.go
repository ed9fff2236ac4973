package cli

import (
	"context"
	"errors"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
)

func stdioCommand(t *terminal, f *flags) *cobra.Command {
	var standalone bool
	cmd := &cobra.Command{
		Use: "stdio", Short: "Serve MCP on standard input and output, for a host that starts us", GroupID: "run", Args: cobra.NoArgs,
		Example: "  claude mcp add files -- " + app.Name + " stdio --root .",
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := f.load(cmd, t, "stdio")
			if err != nil {
				return err
			}
			defer a.Close()
			if isTerminal(t.in) {
				t.say("waiting for JSON-RPC on standard input; a host usually starts this command (see '%s serve --help' for HTTP)", app.Name)
			}
			return a.Stdio(cmd.Context(), t.in, t.out)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&standalone, "standalone", false, "do not join other processes (until they can be joined, always so)")
	return cmd
}

func serveCommand(t *terminal, f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve MCP over HTTP in the foreground", GroupID: "run", Args: cobra.NoArgs,
		Long: "Serve MCP over HTTP in the foreground: /mcp (streamable HTTP, every protocol version), /sse (older hosts),\n" +
			"/health and /metrics. Only this user on this machine can connect, unless a token is set.",
		Example: "  " + app.Name + " serve --root .\n  claude mcp add --transport http files http://127.0.0.1:8720/mcp",
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := f.load(cmd, t, "serve")
			if err != nil {
				return err
			}
			defer a.Close()
			ln, err := a.Listen(cmd.Context())
			if err != nil {
				return cannotListen(err)
			}
			t.say("%s %s listening on http://%s", app.Name, version, ln.Addr())
			header := ""
			if a.Token() != "" {
				header = ` --header "Authorization: Bearer $(cat TOKEN_FILE)"`
			}
			t.say("%s connect with: claude mcp add --transport http %s http://%s/mcp%s", paint(t.err, cyan, "next:"), app.Name, app.Address(ln), header)
			return a.Run(cmd.Context(), func(ctx context.Context) error { return a.Serve(ctx, ln) })
		},
	}
	f.register(cmd)
	cmd.Flags().IntVar(&f.port, "port", 0, "port to listen on; 0 takes any free one (default: daemon.port, 8720)")
	cmd.Flags().StringVar(&f.host, "host", "", "address to listen on (default: daemon.host, 127.0.0.1)")
	return cmd
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
