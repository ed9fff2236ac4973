package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/daemon/control"
	"github.com/async-crud-mcp/async-crud-mcp/internal/mcpserver"
	"github.com/async-crud-mcp/async-crud-mcp/internal/schema"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

func callCommand(t *terminal, f *flags) *cobra.Command {
	var url string
	var standalone, compact bool
	cmd := &cobra.Command{
		Use:   "call TOOL [JSON | - | name=value ...]",
		Short: "Call one tool and print its answer", GroupID: "look", Args: cobra.MinimumNArgs(1),
		Long: "Call one tool and print its answer. Arguments are one JSON object, - for JSON on standard input, or\n" +
			"name=value pairs. A server that runs here is asked; without one, the call runs in this process. Standard error\n" +
			"says which. --toolsets, --exclude-tools and --read-only hold either way; --trust-project and --set hold only in\n" +
			"this process, but for where the server is: daemon.host, daemon.port and daemon.token.\n" +
			"The exit code is 1 when the tool answers with an error.",
		Example: "  " + app.Name + " call health\n" +
			"  " + app.Name + " call crud_activate_project path=$PWD\n" +
			"  " + app.Name + ` call crud_get_config '{"section": "crud"}' --root .`,
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments, err := callArguments(t.in, args[1:])
			if err != nil {
				return &failure{code: exitUsage, err: err, next: fmt.Sprintf("'%s tools %s' shows its parameters", app.Name, args[0])}
			}
			a, err := f.load(cmd, t, "call")
			if err != nil {
				return err
			}
			defer a.Close()
			var server *mcpserver.Client
			switch {
			case url != "":
				if server, err = dial(cmd.Context(), a, url); err != nil {
					return &failure{code: exitFailed, err: err, next: "check the address, or leave --url out to run the call in this process"}
				}
			case !standalone:
				if server, url, err = runningServer(cmd.Context(), a); server == nil {
					asked, pid, failed := askDaemon(cmd, f)
					switch {
					case failed == nil:
						server = asked
						t.say("%s", paint(t.err, faint, fmt.Sprintf("the daemon (pid %d) answers", pid)))
					case errors.Is(failed, control.ErrAbsent):
						sayNoServer(t, err)
					default:
						return asFailure(failed)
					}
				}
			}
			var res tool.Result
			if server != nil {
				defer server.Close()
				if url != "" {
					if err := f.mayAsk(cmd, a, url, args[0]); err != nil {
						return err
					}
					t.say("%s", paint(t.err, faint, "the server at "+url+" answers"))
				}
				res, err = server.Call(cmd.Context(), args[0], arguments)
			} else {
				res, err = callHere(cmd.Context(), a, args[0], arguments)
			}
			if err != nil {
				return err
			}
			if err := printResult(t, res, compact); err != nil {
				return err
			}
			if res.IsError {
				return &failure{code: exitFailed, err: errors.New("the tool answered with an error"), silent: true}
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return toolNames(f, cmd, t, len(args) == 0), cobra.ShellCompDirectiveNoFileComp
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&url, "url", "", "the server to ask, such as http://127.0.0.1:8720/mcp")
	cmd.Flags().BoolVar(&standalone, "standalone", false, "run the call in this process even when a server runs here")
	cmd.Flags().BoolVar(&compact, "compact", false, "print the answer on one line, as it came")
	cmd.MarkFlagsMutuallyExclusive("url", "standalone")
	return cmd
}

// callArguments makes one JSON object of what stands behind the tool's name.
func callArguments(in io.Reader, args []string) (json.RawMessage, error) {
	switch {
	case len(args) == 0:
		return json.RawMessage("{}"), nil
	case len(args) == 1 && args[0] == "-":
		raw, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("read arguments: %w", err)
		}
		return checkJSON(raw)
	case len(args) == 1 && strings.HasPrefix(strings.TrimSpace(args[0]), "{"):
		return checkJSON([]byte(args[0]))
	}
	object := make(map[string]json.RawMessage)
	for _, pair := range args {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("argument %q is neither a JSON object nor name=value", pair)
		}
		raw := json.RawMessage(value)
		if !json.Valid(raw) { // plain text needs no quotes
			raw, _ = tool.Encode(value)
		}
		object[name] = raw
	}
	return tool.Encode(object)
}

func checkJSON(raw []byte) (json.RawMessage, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf("arguments are not a JSON object: %w", err)
	}
	return raw, nil
}

// mayAsk refuses a call that flags of this command forbid or that they mean
// otherwise than the server at url would take it: it has settings of its own.
func (f *flags) mayAsk(cmd *cobra.Command, a *app.App, url, name string) error {
	for _, flag := range []string{"toolsets", "exclude-tools", "read-only"} {
		if cmd.Flags().Changed(flag) && a.Tools().Lookup(name) == nil {
			return unknownTool(a, name)
		}
	}
	lost := ""
	if f.trustProject {
		lost = "--trust-project"
	}
	for _, entry := range f.set {
		if key, _, _ := strings.Cut(entry, "="); !slices.Contains(whereServerIs, config.KeyName(key)) {
			lost = "--set " + key
		}
	}
	if lost == "" {
		return nil
	}
	return &failure{
		code: exitUsage, err: fmt.Errorf("the server at %s answers here, and %s does not reach it", url, lost),
		next: "add --standalone to run the call in this process, or leave the flag out",
	}
}

// whereServerIs are the settings that help to find a server rather than to run
// one.
var whereServerIs = []string{"daemon.host", "daemon.port", "daemon.token"}

// runningServer connects to our server on this machine and returns its address,
// or the reason why none answers.
func runningServer(ctx context.Context, a *app.App) (server *mcpserver.Client, url string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for _, address := range addresses(a.Settings.Current().Config.Daemon) {
		at := "http://" + address + "/mcp"
		c, failed := dial(ctx, a, at)
		if failed == nil && c.Server == app.Name {
			return c, at, nil
		}
		if failed == nil {
			c.Close()
			failed = fmt.Errorf("%s is served by %q", at, c.Server)
		}
		if err == nil || errors.Is(err, syscall.ECONNREFUSED) { // a refusal tells more than nobody being there
			err = failed
		}
	}
	return nil, "", err
}

// askDaemon joins the daemon for one call, with the flags and the environment of
// this process. It starts none.
func askDaemon(cmd *cobra.Command, f *flags) (server *mcpserver.Client, pid int, err error) {
	client, err := daemonClient()
	if err != nil {
		return nil, 0, err
	}
	conn, err := client.Session(cmd.Context(), f.start(cmd))
	if err != nil {
		return nil, 0, err
	}
	server, err = mcpserver.Attach(cmd.Context(), conn, conn.Reader, mcpserver.DialOptions{Name: app.Name, Version: version})
	return server, conn.Answer.PID, err
}

// addresses lists where our server may listen, as a client on this machine
// reaches it.
func addresses(d config.Daemon) []string {
	host := strings.Trim(d.Host, "[]")
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = map[bool]string{true: "127.0.0.1", false: "::1"}[ip.To4() != nil]
	}
	first, count := 0, 0
	switch {
	case d.Port == nil: // it took the first of ours that was free
		first, count = config.UserPort(userName()), config.PortRange
	case *d.Port != 0:
		first, count = *d.Port, 1
	}
	var all []string
	for i := range count {
		port := first
		if count > 1 {
			port = config.FirstPort + (first-config.FirstPort+i)%config.PortRange
		}
		all = append(all, net.JoinHostPort(host, strconv.Itoa(port)))
	}
	return all
}

// userName is the name that the port of the user goes by.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username[strings.LastIndexByte(u.Username, '\\')+1:] // Windows puts the domain before it
}

// sayNoServer tells the person why the call runs in this process.
func sayNoServer(t *terminal, err error) {
	if err == nil || errors.Is(err, syscall.ECONNREFUSED) {
		t.say("%s", paint(t.err, faint, "no server runs here; the call runs in this process"))
		return
	}
	t.warn("%v; the call runs in this process, which shares nothing with what runs there", err)
}

func dial(ctx context.Context, a *app.App, url string) (*mcpserver.Client, error) {
	return mcpserver.Dial(ctx, url, mcpserver.DialOptions{Name: app.Name, Version: version, Token: a.Token(), Project: a.Root()})
}

func callHere(ctx context.Context, a *app.App, name string, args json.RawMessage) (tool.Result, error) {
	set := a.Tools()
	called := set.Lookup(name)
	if called == nil {
		return tool.Result{}, unknownTool(a, name)
	}
	ctx = caller.With(ctx, &caller.Caller{Client: app.Name, Version: version, Transport: "cli", Session: "cli"})
	if err := a.History.Open(ctx); err != nil {
		return tool.Result{}, err
	}
	res := set.Call(ctx, called, args)
	// What the call replaced is kept, although the person may have lost patience.
	return res, a.History.Close(context.WithoutCancel(ctx))
}

func unknownTool(a *app.App, name string) error {
	if off := a.AllTools().Lookup(name); off != nil {
		return &failure{code: exitUsage, err: fmt.Errorf("tool %s is not on", off.Name), next: "add --toolsets " + off.Toolset + " and see that --read-only and --exclude-tools let it through"}
	}
	names := make([]string, 0, a.AllTools().Len())
	for _, known := range a.AllTools().Tools() {
		names = append(names, known.Name)
	}
	f := &failure{code: exitUsage, err: fmt.Errorf("there is no tool %q", name), next: "'" + app.Name + " tools' lists them"}
	if near := schema.Nearest(name, names); near != "" {
		f.next = "did you mean " + near + "? " + f.next
	}
	return f
}

func printResult(t *terminal, res tool.Result, compact bool) error {
	if compact {
		t.print("%s\n", res.Body)
		return nil
	}
	return t.printJSON(res.Body)
}
