package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/alias"
	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/catalog"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

func aliasCommand(t *terminal, f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "alias", Short: "Look at shell aliases as agents see them, and run one", GroupID: "look", Args: cobra.NoArgs,
		Long: "Look at the shell aliases in aliases.alias_files as agents see them, and run one. The verdicts are those that\n" +
			"agents get.",
	}
	cmd.AddCommand(aliasList(t, f), aliasShow(t, f), aliasRun(t, f))
	return cmd
}

// aliasFlags are those that choose settings, for every command about aliases.
func aliasFlags(cmd *cobra.Command, f *flags) {
	cmd.Flags().StringVar(&f.root, "root", "", "the project whose settings hold")
	cmd.Flags().BoolVar(&f.trustProject, "trust-project", false, "let the project's own configuration loosen the policy")
	f.registerSettings(cmd)
	_ = cmd.MarkFlagDirname("root")
}

// cliContext is the context of a person at the command line.
func cliContext(ctx context.Context) context.Context {
	return caller.With(ctx, &caller.Caller{Client: app.Name, Version: version, Transport: "cli", Session: "cli"})
}

func aliasList(t *terminal, f *flags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List aliases, and which of them may run", Args: cobra.NoArgs,
		Example: "  " + app.Name + " alias list\n  " + app.Name + " alias list --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := f.load(cmd, t, "call")
			if err != nil {
				return err
			}
			defer a.Close()
			scope, err := a.Aliases(cliContext(cmd.Context()))
			if err != nil {
				return err
			}
			book := scope.Book
			for _, w := range book.Warnings() {
				t.warn("%s", w)
			}
			if asJSON {
				return t.printJSON(catalog.AliasItems(scope))
			}
			for _, one := range book.All() {
				t.print("%s %-16s %s\n", safety(t, one.Safe), one.Name, oneLine(one.Expansion))
			}
			if book.Len() == 0 {
				t.say("%s name files of aliases in aliases.alias_files", paint(t.err, cyan, "next:"))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, as the resource alias://catalog has it")
	aliasFlags(cmd, f)
	return cmd
}

func safety(t *terminal, safe bool) string {
	if safe {
		return paint(t.out, green, "safe  ")
	}
	return paint(t.out, yellow, "unsafe")
}

func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 100 {
		text = strings.ToValidUTF8(text[:97], "") + "…"
	}
	return text
}

func aliasShow(t *terminal, f *flags) *cobra.Command {
	var asJSON bool
	var cwd string
	cmd := &cobra.Command{
		Use: "show NAME [ARG...]", Short: "Show an alias and what it would run", Args: cobra.MinimumNArgs(1),
		Long: "Show an alias: what it stands for, where it is from, whether it may run with these arguments and, if not, what\n" +
			"would have to change. Nothing is run. Flags stand before NAME; the exit code is 1 when it may not run.",
		Example: "  " + app.Name + " alias show gs\n  " + app.Name + " alias show g push",
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := f.load(cmd, t, "call")
			if err != nil {
				return err
			}
			defer a.Close()
			ctx := cliContext(cmd.Context())
			res, out, err := callAlias(ctx, a, args, map[string]any{"cwd": cwd})
			if err != nil {
				return err
			}
			if asJSON {
				if err := t.printJSON(res.Body); err != nil {
					return err
				}
			} else {
				scope, err := a.Aliases(ctx)
				if err != nil {
					return err
				}
				t.showAlias(scope.Book.Lookup(args[0]), out)
			}
			if !out.Safe {
				return &failure{code: exitFailed, err: errors.New("it may not run"), silent: true}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, as alias_exec answers")
	cmd.Flags().StringVar(&cwd, "cwd", "", "where it would run (default: aliases.default_cwd)")
	cmd.Flags().SetInterspersed(false)
	aliasFlags(cmd, f)
	return cmd
}

// showAlias prints an alias, and what it would run as it was called.
func (t *terminal) showAlias(a *alias.Alias, out catalog.AliasExecOut) {
	line := func(key, value string) {
		if value != "" {
			t.print("%s %s\n", paint(t.out, cyan, fmt.Sprintf("%-12s", key+":")), value)
		}
	}
	if a != nil { // else its file changed a moment ago
		line("alias", a.Name)
		line("expansion", a.Expansion)
		line("uses", strings.Join(a.Uses, ", "))
		line("source", fmt.Sprintf("%s:%d", a.File, a.Line))
	}
	line("would run", out.Command)
	line("in", out.Cwd)
	line("environment", strings.Join(out.Environment, ", "))
	line("verdict", safety(t, out.Safe))
	line("reason", out.Reason)
	line("next", out.Next)
}

func aliasRun(t *terminal, f *flags) *cobra.Command {
	var yes bool
	var cwd string
	var timeout int
	cmd := &cobra.Command{
		Use: "run NAME [ARG...]", Short: "Run an alias as agents do", Args: cobra.MinimumNArgs(1),
		Long: "Run an alias as agents do: with a minimal environment, in the sandbox, if the rules allow it. Without --yes it\n" +
			"is a dry run. Flags stand before NAME. The exit code is that of the alias, or 1 when it did not run to its end.",
		Example: "  " + app.Name + " alias run gs\n  " + app.Name + " alias run --yes --cwd . gs --short",
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := f.load(cmd, t, "call")
			if err != nil {
				return err
			}
			defer a.Close()
			more := map[string]any{"cwd": cwd, "dryRun": !yes, "confirm": yes}
			if timeout > 0 {
				more["timeoutSeconds"] = timeout
			}
			_, out, err := callAlias(cliContext(cmd.Context()), a, args, more)
			if err != nil {
				return err
			}
			if out.DryRun {
				t.showAlias(nil, out)
				if out.Safe {
					t.say("%s add --yes before the name to run it", paint(t.err, cyan, "next:"))
				}
				return nil
			}
			return t.showRun(out)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "run it; without this it is a dry run")
	cmd.Flags().StringVar(&cwd, "cwd", "", "where it runs (default: aliases.default_cwd)")
	cmd.Flags().IntVar(&timeout, "timeout", 0, "end it after this many `seconds` (default: aliases.default_timeout_seconds)")
	cmd.Flags().SetInterspersed(false)
	aliasFlags(cmd, f)
	return cmd
}

// showRun prints what an alias printed, and returns how it ended.
func (t *terminal) showRun(out catalog.AliasExecOut) error {
	t.print("%s", out.Stdout)
	_, _ = fmt.Fprint(t.err, out.Stderr)
	for name, cut := range map[string]bool{"stdout": out.Truncated.Stdout, "stderr": out.Truncated.Stderr} {
		if cut {
			t.warn("%s is cut at aliases.max_%s_bytes", name, name)
		}
	}
	switch {
	case out.TimedOut:
		return &failure{code: exitFailed, err: fmt.Errorf("it was ended after %g s", out.TimeoutSeconds), next: "give it longer with --timeout"}
	case out.ExitCode != nil && *out.ExitCode != 0:
		return &failure{code: *out.ExitCode, err: fmt.Errorf("it ended with %d", *out.ExitCode), silent: true}
	}
	return nil
}

// callAlias calls alias_exec, so that people get what agents get, record included.
func callAlias(ctx context.Context, a *app.App, args []string, more map[string]any) (tool.Result, catalog.AliasExecOut, error) {
	in := map[string]any{"name": args[0], "args": shellWords(args[1:])}
	for key, value := range more {
		if value != "" {
			in[key] = value
		}
	}
	raw, err := json.Marshal(in)
	if err != nil {
		return tool.Result{}, catalog.AliasExecOut{}, err
	}
	all := a.AllTools()
	res := all.Call(ctx, all.Lookup("alias_exec"), raw)
	if res.IsError {
		var env tool.Envelope
		if err := json.Unmarshal(res.Body, &env); err != nil {
			return res, catalog.AliasExecOut{}, err
		}
		next, _ := env.Details["next"].(string)
		return res, catalog.AliasExecOut{}, &failure{code: exitFailed, err: fault.New(env.Code, "%s", env.Message), next: next}
	}
	var out catalog.AliasExecOut
	err = json.Unmarshal(res.Body, &out)
	return res, out, err
}

// shellWords writes words as a shell reads them.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		other := func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-./:,@%+", r)
		}
		if quoted[i] = w; w == "" || strings.ContainsFunc(w, other) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
