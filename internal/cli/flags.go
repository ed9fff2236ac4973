package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
)

// flags are those that every command which builds a server shares.
type flags struct {
	root         string
	config       string
	toolsets     []string
	exclude      []string
	readOnly     bool
	set          []string
	trustProject bool
	logFile      string
	host         string // of serve
	port         int    // of serve
}

func (f *flags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.root, "root", "", "the project directory, active in every session")
	fl.StringSliceVar(&f.toolsets, "toolsets", nil, "toolsets to offer, or all (default: those that are on)")
	fl.StringSliceVar(&f.exclude, "exclude-tools", nil, "tools to leave out")
	fl.BoolVar(&f.readOnly, "read-only", false, "offer only tools that change nothing")
	fl.BoolVar(&f.trustProject, "trust-project", false, "let the project's own configuration loosen the policy")
	fl.StringVar(&f.logFile, "log-file", "", "where to write the log (default: in the user's state directory)")
	f.registerSettings(cmd)
	_ = cmd.MarkFlagDirname("root")
}

// registerSettings adds only the flags that choose settings.
func (f *flags) registerSettings(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.config, "config", "", "settings file (default: config.json, .yaml or .toml in the user's configuration directory)")
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "one setting as `key=value`, the value in JSON; may be repeated")
	_ = cmd.MarkFlagFilename("config", "json", "yaml", "yml", "toml")
}

// settings maps the flags that were given to settings.
func (f *flags) settings(cmd *cobra.Command) config.Options {
	o := config.Options{UserFile: f.config, Env: os.Environ(), Set: f.set, Flags: map[string]any{}}
	put := func(flag, key string, value any) {
		if fl := cmd.Flags().Lookup(flag); fl != nil && fl.Changed {
			o.Flags[key] = value
		}
	}
	put("toolsets", "daemon.toolsets", f.toolsets)
	put("exclude-tools", "daemon.exclude_tools", f.exclude)
	put("read-only", "daemon.read_only", f.readOnly)
	put("log-file", "daemon.log_file", f.logFile)
	put("host", "daemon.host", f.host)
	put("port", "daemon.port", f.port)
	return o
}

// load builds the server the flags describe.
func (f *flags) load(cmd *cobra.Command, t *terminal, mode string) (*app.App, error) {
	o := app.Options{
		Version: version, Mode: mode, Shared: mode == app.SharedMode || mode == "serve", Root: f.root, TrustProject: f.trustProject,
		Settings: f.settings(cmd), Quiet: mode == "call",
	}
	if mode != "call" && isTerminal(t.err) {
		o.Terminal = t.err
	}
	a, err := app.Load(o)
	if err != nil {
		return nil, &failure{code: exitFailed, err: err, next: nextForLoad(err)}
	}
	return a, nil
}

func nextForLoad(err error) string {
	if strings.Contains(err.Error(), "--root") {
		return "name an existing directory with --root"
	}
	return "correct it, then check with '" + app.Name + " config validate'"
}
