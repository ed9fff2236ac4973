package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/policy"
)

func policyCommand(t *terminal, f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "policy", Short: "Ask what the policy thinks of a command", GroupID: "look", Args: cobra.NoArgs,
		Long: "Ask what the policy thinks of a command. The built-in rules, shell.deny_patterns of the settings and those\n" +
			"of the project decide, as they do for agents.",
	}
	cmd.AddCommand(policyCheck(t, f))
	return cmd
}

// maxChecked bounds a command that is read from standard input.
const maxChecked = 1 << 20

func policyCheck(t *terminal, f *flags) *cobra.Command {
	var asJSON bool
	var shell string
	cmd := &cobra.Command{
		Use: "check CMD", Short: "Explain whether a command would run, and run nothing", Args: cobra.ExactArgs(1),
		Long: "Explain whether a command would run, and run nothing. CMD is one argument, as the shell would get it; - reads\n" +
			"it from standard input. The exit code is 0 when it is allowed and 1 when it is denied.",
		Example: "  " + app.Name + " policy check 'go test ./... | tail -5'\n  " + app.Name + " policy check --json 'cat README.md'",
		RunE: func(cmd *cobra.Command, args []string) error {
			text := args[0]
			if text == "-" {
				raw, err := io.ReadAll(io.LimitReader(t.in, maxChecked))
				if err != nil {
					return fmt.Errorf("read the command: %w", err)
				}
				text = strings.TrimRight(string(raw), "\n")
			}
			dialect := policy.Dialect(shell)
			switch dialect {
			case policy.Bash, policy.Nu, policy.PowerShell, policy.Unknown:
			default:
				return &failure{code: exitUsage, err: fmt.Errorf("--shell %s is not known", shell), next: "write bash, nu, powershell or unknown"}
			}
			here, err := existing(".")
			if err != nil {
				return err
			}
			a, err := f.load(cmd, t, "call")
			if err != nil {
				return err
			}
			defer a.Close()
			d, err := a.Judge(projectOf(a.Root(), here), text, dialect)
			if err != nil {
				return &failure{code: exitFailed, err: err, next: nextForLoad(err)}
			}
			if asJSON {
				err = t.printJSON(d)
			} else {
				showDecision(t, text, d)
			}
			if err == nil && d.Denied {
				err = &failure{code: exitFailed, err: errors.New("the command is denied"), silent: true}
			}
			return err
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	fl.StringVar(&shell, "shell", string(policy.Bash), "the `LANGUAGE` of the command: bash, nu, powershell, or unknown")
	fl.StringVar(&f.root, "root", "", "the project directory (default: the nearest from here up with .git or .async-crud-mcp)")
	fl.BoolVar(&f.trustProject, "trust-project", false, "let the project's own configuration loosen the policy")
	f.registerSettings(cmd)
	_ = cmd.MarkFlagDirname("root")
	return cmd
}

// showDecision prints a decision for a person, with what it is about underlined.
func showDecision(t *terminal, text string, d policy.Decision) {
	if !d.Denied {
		t.print("%s\n", paint(t.out, green, "allowed"))
		return
	}
	t.print("%s by %s\n", paint(t.out, red, "denied"), paint(t.out, bold, d.Rule))
	line, mark := underlined(text, d.Span)
	t.print("  %s\n  %s\n", line, paint(t.out, yellow, mark))
	t.print("%s\n", d.Reason)
}

// underlined returns the line in which a span begins, and the marks to print below
// it.
func underlined(text string, at policy.Span) (line, mark string) {
	start := strings.LastIndexByte(text[:at.Start], '\n') + 1
	end := len(text)
	if i := strings.IndexByte(text[at.Start:], '\n'); i >= 0 {
		end = at.Start + i
	}
	plain := strings.NewReplacer("\t", " ", "\r", " ", "\x1b", " ")
	before := utf8.RuneCountInString(text[start:at.Start])
	width := utf8.RuneCountInString(text[at.Start:min(at.End, end)])
	return plain.Replace(text[start:end]), strings.Repeat(" ", before) + strings.Repeat("^", max(1, width))
}
