package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/sandbox"
)

func sandboxCommand(t *terminal) *cobra.Command {
	cmd := &cobra.Command{Use: "sandbox", Short: "See what keeps commands in their place", GroupID: "look"}
	var asJSON bool
	probe := &cobra.Command{
		Use: "probe", Short: "Show what this system offers to confine commands with", Args: cobra.NoArgs,
		Long: "Show which backends of the sandbox work here for this user, which one sandbox.backend: auto stands for, and\n" +
			"what it cannot do.",
		Example: "  " + app.Name + " sandbox probe\n  " + app.Name + " sandbox probe --json",
		RunE: func(*cobra.Command, []string) error {
			p := probeSandbox(sandbox.Probe())
			if asJSON {
				return t.printJSON(p)
			}
			p.show(t)
			return nil
		},
	}
	probe.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.AddCommand(probe)
	return cmd
}

// sandboxProbe is what the system offers, and what follows from it.
type sandboxProbe struct {
	Backend  string           `json:"backend"`
	Backends []sandboxBackend `json:"backends"`
	System   sandbox.System   `json:"system"`
}

type sandboxBackend struct {
	Name   string `json:"name"`
	Usable bool   `json:"usable"`
	Detail string `json:"detail"`
}

func probeSandbox(s sandbox.System) sandboxProbe {
	p := sandboxProbe{Backend: s.Best(), System: s}
	for _, b := range []struct{ name, detail string }{
		{sandbox.Bwrap, bwrapDetail(s)},
		{sandbox.Landlock, landlockDetail(s)},
		{sandbox.Seatbelt, s.Seatbelt},
	} {
		detail := s.Lacks(b.name)
		usable := detail == ""
		if usable {
			detail = b.detail
		}
		p.Backends = append(p.Backends, sandboxBackend{b.name, usable, detail})
	}
	return p
}

func bwrapDetail(s sandbox.System) string {
	detail := s.Bwrap.Path + " " + s.Bwrap.Version
	if !s.Bwrap.PIDNamespace {
		detail += "; commands see other processes of this user"
	}
	return detail
}

func landlockDetail(s sandbox.System) string {
	detail := "version " + strconv.Itoa(s.LandlockABI) + "; cannot protect what lies inside a writable directory"
	if !s.Seccomp {
		detail += ", nor switch the network off"
	}
	return detail
}

func (p sandboxProbe) show(t *terminal) {
	for _, b := range p.Backends {
		state := paint(t.out, green, fmt.Sprintf("%-4s", "yes"))
		if !b.Usable {
			state = paint(t.out, faint, fmt.Sprintf("%-4s", "no"))
		}
		t.print("%-10s %s %s\n", b.Name, state, b.Detail)
	}
	if p.Backend == sandbox.None {
		t.print("\ncommands run %s here\n", paint(t.out, yellow, "without a sandbox"))
		if p.System.OS == "linux" {
			t.say("%s install bubblewrap, or a kernel with Landlock; sandbox.require refuses to run commands without one", paint(t.err, cyan, "next:"))
		}
		return
	}
	t.print("\nsandbox.backend: auto is %s here\n", paint(t.out, bold, p.Backend))
	if p.Backend == sandbox.Landlock {
		t.say("%s install bubblewrap: it also protects .git/hooks and .git/config inside the project", paint(t.err, cyan, "next:"))
	}
}
