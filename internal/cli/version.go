package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
)

// version is set by the linker for a release; a build from source says which
// commit it is of.
var version = "0.1.0-dev"

type versionInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	System  string `json:"system"`
}

func versionOf() versionInfo {
	v := versionInfo{Name: app.Name, Version: version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return v
}

func versionText() string {
	v := versionOf()
	text := v.Name + " " + v.Version
	if v.Commit != "" {
		text += " (" + v.Commit + ")"
	}
	return text + ", " + v.Go + ", " + v.System
}

func versionCommand(t *terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "version", Short: "Show which version this is", GroupID: "look", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return t.printJSON(versionOf())
			}
			t.print("%s\n", versionText())
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
