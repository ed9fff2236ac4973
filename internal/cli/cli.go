// Package cli is the command line: every command, and the only place that
// prints and exits.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitPort   = 48 // the port is taken by somebody else
)

// Main runs the program and returns its exit code.
func Main() int {
	// One signal asks to stop; a second one ends the process at once, by default.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	defer stop()
	// A client that closes our output must not end us before our calls know of
	// it. Ignoring the signal would do that to the commands we start as well.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRoot(&terminal{in: in, out: out, err: errOut})
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, syscall.EPIPE): // who reads our output has had enough, as head does
		return exitFailed
	}
	e, ok := errors.AsType[*failure](err)
	if !ok {
		e = explain(cmd, err)
	}
	if !e.silent {
		(&terminal{err: errOut}).failed(e)
	}
	return e.code
}

// failure is an error with an exit code and the next step for the person.
type failure struct {
	code   int
	err    error
	next   string
	silent bool // everything has been said already
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// explain gives an error of cobra's or of an engine its exit code and advice.
func explain(cmd *cobra.Command, err error) *failure {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return &failure{code: exitFailed, err: err, next: fault.Describe(e.Code).Next}
	}
	text := err.Error()
	for _, usage := range []string{"unknown command", "unknown flag", "unknown shorthand", "accepts ", "requires ", "invalid argument", "flag needs an argument", "if any flags in the group", "required flag"} {
		if strings.HasPrefix(text, usage) {
			return &failure{code: exitUsage, err: err, next: fmt.Sprintf("see '%s --help'", cmd.CommandPath())}
		}
	}
	return &failure{code: exitFailed, err: err}
}

func newRoot(t *terminal) *cobra.Command {
	f := &flags{}
	root := &cobra.Command{
		Use:   app.Name,
		Short: "One MCP server between a fleet of AI agents and a code base",
		Long: "One MCP server between a fleet of AI agents and a code base: agents read, write, search\n" +
			"and run commands through it, so that nobody overwrites anybody and every effect is recorded.",
		Example: "  " + app.Name + " serve --root .        MCP over HTTP on http://127.0.0.1:8720/mcp\n" +
			"  " + app.Name + " stdio --root .        MCP on standard input and output, for hosts\n" +
			"  " + app.Name + " call health           call one tool and see its answer",
		SilenceErrors: true, SilenceUsage: true,
		Version: versionText(),
		// The commands an unknown word may have meant are named in the error.
		SuggestionsMinimumDistance: 2,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddGroup(&cobra.Group{ID: "run", Title: "Run the server:"}, &cobra.Group{ID: "set", Title: "Set it up:"}, &cobra.Group{ID: "look", Title: "Look inside:"})
	root.SetHelpCommandGroupID("look")
	root.SetCompletionCommandGroupID("set")
	root.AddCommand(
		stdioCommand(t, f), serveCommand(t, f), daemonCommand(t, f),
		setupCommand(t), installCommand(t), uninstallCommand(t), doctorCommand(t, f), configCommand(t, f), trustCommand(t, f), manCommand(t),
		toolsCommand(t, f), callCommand(t, f), searchCommand(t, f), historyCommand(t, f), auditCommand(t, f), sandboxCommand(t), policyCommand(t, f), aliasCommand(t, f), versionCommand(t),
		docsCommand(t),
	)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" { // else a shell it does not know would be met with help and success
			c.Args, c.RunE = cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	return root
}
