package cli

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/project"
)

func trustCommand(t *terminal, f *flags) *cobra.Command {
	var list, remove bool
	cmd := &cobra.Command{
		Use: "trust [DIR]", Short: "Vouch for a project, so that its own configuration may loosen the policy", GroupID: "set", Args: cobra.MaximumNArgs(1),
		Long: "Vouch for a project (default: the current directory) with the configuration it has now. It may then be\n" +
			"activated, and its .async-crud-mcp configuration may loosen the policy. When the file changes, trust is lost\n" +
			"until you look at it and run this again.",
		Example: "  " + app.Name + " trust\n  " + app.Name + " trust --list\n  " + app.Name + " trust --remove ~/code/old",
		RunE: func(cmd *cobra.Command, args []string) error {
			dirs, err := fsys.UserDirs()
			if err != nil {
				return err
			}
			trust := project.NewTrust(filepath.Join(dirs.Config, app.TrustFile))
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			switch {
			case list:
				return listTrust(t, trust)
			case remove:
				return removeTrust(t, trust, dir)
			default:
				a, err := f.load(cmd, t, "call")
				if err != nil {
					return err
				}
				defer a.Close()
				return addTrust(t, trust, a.Settings, dir)
			}
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list the projects you vouch for")
	cmd.Flags().BoolVar(&remove, "remove", false, "no longer vouch for DIR")
	cmd.MarkFlagsMutuallyExclusive("list", "remove")
	f.registerSettings(cmd)
	return cmd
}

// addTrust reads the project's file once, shows what those bytes do, and vouches
// for just them.
func addTrust(t *terminal, trust *project.Trust, settings *config.Store, dir string) error {
	root, err := fsys.ResolveDir(dir)
	if err != nil {
		return &failure{code: exitFailed, err: err, next: "name an existing project directory"}
	}
	path, raw, err := config.ReadProjectFile(root)
	if err != nil {
		return &failure{code: exitFailed, err: err, next: nextRefused}
	}
	after, err := settings.Preview(root, path, raw, true)
	if err != nil {
		return &failure{code: exitFailed, err: err, next: nextRefused}
	}
	before, err := settings.Preview(root, path, raw, false)
	if err != nil {
		before = settings.Current() // without trust it would be refused: all it does is of interest
	}
	entry, err := trust.Add(root, raw)
	if err != nil {
		return err
	}
	t.print("%s %s\n", paint(t.out, green, "trusted"), entry.Root)
	if entry.SHA256 == "" {
		t.print("  it has no configuration of its own; one that appears later is not trusted\n")
		return nil
	}
	for _, w := range after.Warnings() {
		t.warn("%s", w)
	}
	changed := config.Changed(before, after)
	if len(changed) == 0 {
		t.print("  its configuration loosens nothing\n")
	}
	for _, key := range changed {
		t.print("  %s = %s\n", key, jsonText(valueOf(after, key)))
	}
	return nil
}

const nextRefused = "correct the project's file; nothing is trusted until then"

func valueOf(s *config.Snapshot, key string) any {
	for _, v := range s.Values("") {
		if v.Key == key {
			return v.Value
		}
	}
	return nil
}

func removeTrust(t *terminal, trust *project.Trust, dir string) error {
	found, err := trust.Remove(dir)
	if err != nil {
		return err
	}
	if !found {
		t.print("%s was not trusted\n", dir)
		return nil
	}
	t.print("no longer trusted: %s\n", dir)
	return nil
}

func listTrust(t *terminal, trust *project.Trust) error {
	entries, err := trust.List()
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		t.say("no project is trusted")
	}
	for _, e := range entries {
		state := "as it is"
		switch _, raw, err := config.ReadProjectFile(e.Root); {
		case err != nil:
			state = paint(t.out, red, "unreadable: "+err.Error())
		case project.Sum(raw) != e.SHA256:
			state = paint(t.out, yellow, "its configuration has changed since: not trusted until you run trust again")
		}
		t.print("%s  since %s  %s\n", e.Root, e.TrustedAt.Format("2006-01-02"), state)
	}
	return nil
}
