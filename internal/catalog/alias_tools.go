package catalog

import (
	"context"
	"fmt"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/alias"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// AliasToolPrefix begins the names of the tools that are one alias each.
const AliasToolPrefix = "alias_run_"

// AliasTools declares one tool for each safe alias. Aliases whose names become the
// same tool name are numbered; the notes say which.
func AliasTools(engine *shell.Engine, book *alias.Book) (tools []*tool.Tool, notes []string) {
	names := aliasToolNames(book)
	for _, a := range book.All() {
		name := names[a.Name]
		if name == "" {
			continue
		}
		if plain := aliasToolName(a.Name); name != plain {
			notes = append(notes, fmt.Sprintf("the alias %s is the tool %s, since %s is taken", a.Name, name, plain))
		}
		tools = append(tools, aliasTool(engine, a, name))
	}
	return tools, notes
}

// aliasToolNames gives each safe alias the name of its tool.
func aliasToolNames(book *alias.Book) map[string]string {
	names, taken := make(map[string]string), make(map[string]bool)
	for _, a := range book.All() {
		if !a.Safe {
			continue
		}
		plain := aliasToolName(a.Name)
		name := plain
		for n := 2; taken[name] || strings.HasSuffix(name, "_tool"); n++ {
			name = fmt.Sprintf("%s_%d", plain, n)
		}
		taken[name] = true
		names[a.Name] = name
	}
	return names
}

// aliasToolName is the name of an alias as every host can take it.
func aliasToolName(name string) string {
	name = AliasToolPrefix + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(name))
	return name[:min(len(name), 56)] // with room for a number
}

func aliasTool(engine *shell.Engine, a *alias.Alias, name string) *tool.Tool {
	spec := tool.Spec{
		Name: name, Title: "Alias " + a.Name, Toolset: Aliases,
		Doc: "Run the person's alias " + a.Name + ": " + clip(strings.Join(strings.Fields(a.Resolved), " "), 200) +
			". A dry run by default; to run it, show the person the command, then set dryRun: false and confirm: true.",
		Effect: tool.Destructive | tool.OpenWorld, Codes: aliasCodes,
	}
	if other := "alias." + a.Name; other != "alias.exec" && other != "alias.catalog" {
		spec.Other = []string{other}
	}
	return tool.New(spec, func(ctx context.Context, in AliasRunIn) (AliasExecOut, error) {
		return runAlias(ctx, engine, a.Name, in)
	})
}
