package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
)

func manCommand(t *terminal) *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write manual pages into a directory", GroupID: "set", Args: cobra.ExactArgs(1),
		Example: "  " + app.Name + " man ~/.local/share/man/man1",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			n, err := writeManual(cmd.Root(), args[0])
			if err != nil {
				return err
			}
			t.say("%d manual pages written to %s", n, args[0])
			return nil
		},
	}
}

// writeManual writes a page for c and for each command below it.
func writeManual(c *cobra.Command, dir string) (pages int, err error) {
	if c.Hidden || c.Name() == "help" {
		return 0, nil
	}
	file := filepath.Join(dir, pageName(c)+".1")
	if err := os.WriteFile(file, []byte(manualPage(c)), 0o644); err != nil {
		return 0, err
	}
	pages = 1
	for _, sub := range c.Commands() {
		n, err := writeManual(sub, dir)
		if err != nil {
			return pages, err
		}
		pages += n
	}
	return pages, nil
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manualPage is one command in the language of man.
func manualPage(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"%s %s\"\n", roff(strings.ToUpper(pageName(c))), app.Name, version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	if c.Long != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", roff(c.Long))
	}
	var options strings.Builder
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		variable, usage := pflag.UnquoteUsage(f)
		fmt.Fprintf(&options, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace("--"+f.Name+" "+variable)), roff(usage))
	})
	if options.Len() > 0 {
		fmt.Fprintf(&b, ".SH OPTIONS\n%s", options.String())
	}
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	var also []string
	if c.HasParent() {
		also = append(also, pageName(c.Parent()))
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			also = append(also, pageName(sub))
		}
	}
	for i, name := range also {
		also[i] = `\fB` + roff(name) + `\fR(1)`
	}
	if len(also) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", strings.Join(also, ", "))
	}
	return b.String()
}

// roff makes text mean itself: hyphens, backslashes, and lines that begin like a
// request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
