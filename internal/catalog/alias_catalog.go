package catalog

import (
	"context"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/alias"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// AliasCatalogIn is the input of alias_catalog.
type AliasCatalogIn struct {
	Query string `json:"query,omitempty" jsonschema:"only aliases whose name or expansion contains this"`
}

// AliasCatalogOut lists aliases.
type AliasCatalogOut struct {
	Status    string      `json:"status" enum:"ok"`
	Aliases   []AliasItem `json:"aliases"`
	Total     int         `json:"total" jsonschema:"that fit query"`
	Truncated bool        `json:"truncated" jsonschema:"there are more; narrow them down with query"`
	Warnings  []string    `json:"warnings,omitempty" jsonschema:"what of the alias files does not apply as written"`
}

// AliasItem is an alias in a list.
type AliasItem struct {
	Name       string   `json:"name"`
	Expansion  string   `json:"expansion"`
	Safe       bool     `json:"safe"`
	SourceFile string   `json:"sourceFile"`
	Line       int      `json:"line"`
	Function   bool     `json:"function,omitempty"`
	Resolved   string   `json:"resolved,omitempty" jsonschema:"with the aliases it uses in their place"`
	Uses       []string `json:"uses,omitempty" jsonschema:"aliases it is made of"`
	Reason     string   `json:"reason,omitempty" jsonschema:"why it is not safe"`
	Tool       string   `json:"tool,omitempty" jsonschema:"tool that is this alias alone"`
}

func aliasItem(a *alias.Alias) AliasItem {
	item := AliasItem{
		Name: a.Name, Expansion: a.Expansion, Safe: a.Safe, SourceFile: a.File, Line: a.Line, Function: a.Function, Uses: a.Uses, Reason: a.Reason,
	}
	if a.Resolved != a.Expansion {
		item.Resolved = a.Resolved
	}
	return item
}

// AliasItems lists a whole catalogue, as alias://catalog has it.
func AliasItems(scope *shell.AliasScope) []AliasItem {
	var tools map[string]string
	if scope.PerAlias {
		tools = aliasToolNames(scope.Book)
	}
	items := []AliasItem{}
	for _, a := range scope.Book.All() {
		item := aliasItem(a)
		item.Tool = tools[a.Name]
		items = append(items, item)
	}
	return items
}

// catalogBytes is how much of a catalogue one answer holds, roughly.
const catalogBytes = 48 << 10

// AliasCatalog declares alias_catalog.
func AliasCatalog(engine *shell.Engine) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "alias_catalog", Title: "List aliases", Toolset: Aliases, Other: []string{"alias.catalog"},
		Doc:    "List the person's shell aliases: what each stands for, whether alias_exec may run it, and which file has it. The same as the resource alias://catalog.",
		Effect: tool.ReadOnly | tool.Idempotent, Codes: []fault.Code{fault.NoProjectActivated, fault.PathOutsideBase, fault.AliasNotFound},
		Examples: []tool.Example{
			{Title: "All aliases", Args: `{}`, Status: tool.OK},
			{Title: "Those about git", Args: `{"query": "git"}`, Status: tool.OK},
		},
	}, func(ctx context.Context, in AliasCatalogIn) (AliasCatalogOut, error) {
		scope, err := engine.Aliases(ctx)
		if err != nil {
			return AliasCatalogOut{}, err
		}
		out := AliasCatalogOut{Status: tool.OK, Aliases: []AliasItem{}}
		room := catalogBytes
		for _, item := range AliasItems(scope) {
			if !strings.Contains(item.Name, in.Query) && !strings.Contains(item.Resolved, in.Query) && !strings.Contains(item.Expansion, in.Query) {
				continue
			}
			out.Total++
			if room -= len(item.Name) + len(item.Expansion) + len(item.Resolved) + len(item.SourceFile) + len(item.Reason) + 80; room < 0 {
				out.Truncated = true
				continue
			}
			out.Aliases = append(out.Aliases, item)
		}
		for _, w := range scope.Book.Warnings() {
			out.Warnings = append(out.Warnings, w.String())
		}
		return out, nil
	})
}
