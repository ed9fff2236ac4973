package cli

import (
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

func toolsCommand(t *terminal, f *flags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "tools [TOOL]", Short: "List the tools, or explain one", GroupID: "look", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := f.load(cmd, t, "call")
			if err != nil {
				return err
			}
			defer a.Close()
			if len(args) == 1 {
				one := a.AllTools().Lookup(args[0])
				if one == nil {
					return unknownTool(a, args[0])
				}
				if asJSON {
					return t.printJSON(describe(a, one))
				}
				t.print("%s", one.Markdown())
				return nil
			}
			if asJSON {
				var all []toolInfo
				for _, one := range a.AllTools().Tools() {
					all = append(all, describe(a, one))
				}
				return t.printJSON(all)
			}
			return listTools(t, a)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return toolNames(f, cmd, t, len(args) == 0), cobra.ShellCompDirectiveNoFileComp
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func listTools(t *terminal, a *app.App) error {
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	line := func(cells ...string) {
		for i, c := range cells {
			if i > 0 {
				_, _ = w.Write([]byte{'\t'})
			}
			_, _ = w.Write([]byte(c))
		}
		_, _ = w.Write([]byte{'\n'})
	}
	line("TOOL", "TOOLSET", "ON", "EFFECT", "TITLE")
	for _, one := range a.AllTools().Tools() {
		on := "no"
		if a.Tools().Lookup(one.Name) != nil {
			on = "yes"
		}
		line(one.Name, one.Toolset, on, one.Effect.String(), one.Title)
	}
	return w.Flush()
}

// toolInfo is a tool as --json shows it.
type toolInfo struct {
	Name        string   `json:"name"`
	Title       string   `json:"title"`
	Toolset     string   `json:"toolset"`
	On          bool     `json:"on"`
	Effect      string   `json:"effect"`
	Description string   `json:"description"`
	Codes       []string `json:"error_codes"`
	Input       any      `json:"input_schema"`
	Output      any      `json:"output_schema"`
}

func describe(a *app.App, one *tool.Tool) toolInfo {
	info := toolInfo{
		Name: one.Name, Title: one.Title, Toolset: one.Toolset, On: a.Tools().Lookup(one.Name) != nil,
		Effect: one.Effect.String(), Description: one.Doc, Input: one.Input.JSON(), Output: one.Output.JSON(),
	}
	for _, c := range one.AllCodes() {
		info.Codes = append(info.Codes, string(c))
	}
	return info
}

// toolNames completes the name of a tool.
func toolNames(f *flags, cmd *cobra.Command, t *terminal, first bool) []string {
	if !first {
		return nil
	}
	a, err := f.load(cmd, t, "call")
	if err != nil {
		return nil
	}
	defer a.Close()
	var names []string
	for _, one := range a.AllTools().Tools() {
		names = append(names, one.Name+"\t"+one.Title)
	}
	return names
}
