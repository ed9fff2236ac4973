package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/alias"
	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

const aliasCatalogURI = "alias://catalog"

// AliasCatalogResource declares alias://catalog.
func AliasCatalogResource(engine *shell.Engine) *tool.Resource {
	return tool.NewResource(tool.ResourceSpec{
		Name: "alias_catalog", URI: aliasCatalogURI, Title: "Aliases", MIME: "application/json", Toolset: Aliases,
		Doc:      "Every shell alias of the person: name, expansion, whether alias_exec may run it (safe), and the file it is from. Subscribe to hear when an alias file changes.",
		Codes:    []fault.Code{fault.NoProjectActivated, fault.PathOutsideBase, fault.AliasNotFound},
		Examples: []tool.ResourceExample{{Title: "All aliases", URI: aliasCatalogURI}},
		Read: func(ctx context.Context, _ tool.Ref) ([]tool.Content, error) {
			scope, err := engine.Aliases(ctx)
			if err != nil {
				return nil, err
			}
			body, err := tool.Encode(AliasItems(scope))
			if err != nil {
				return nil, err
			}
			return []tool.Content{{Text: string(body)}}, nil
		},
		Watch: func(ctx context.Context, _ tool.Ref) (tool.Watch, error) {
			return watchAliases(ctx, engine, func(event.Aliases) bool { return true })
		},
	})
}

// AliasResource declares alias://{name}.
func AliasResource(engine *shell.Engine) *tool.Resource {
	return tool.NewResource(tool.ResourceSpec{
		Name: "alias", Template: "alias://{name}", Title: "Alias", MIME: "text/plain", Toolset: Aliases,
		Doc:   "One alias in words: what it stands for, whether it may run and why not, where it is from, and how to call it. Subscribe to hear when it changes.",
		Codes: []fault.Code{fault.NoProjectActivated, fault.PathOutsideBase, fault.AliasNotFound},
		Examples: []tool.ResourceExample{
			{Title: "An alias", URI: "alias://gs"},
			{Title: "An alias that is not there", URI: "alias://gx", Code: fault.AliasNotFound},
		},
		Read: func(ctx context.Context, ref tool.Ref) ([]tool.Content, error) {
			book, err := engine.Book(ctx)
			if err != nil {
				return nil, err
			}
			a, err := book.Find(ref.Vars["name"])
			if err != nil {
				return nil, err
			}
			return []tool.Content{{Text: aliasText(a)}}, nil
		},
		List: func(ctx context.Context) ([]tool.Listed, error) {
			book, err := engine.Book(ctx)
			if err != nil {
				return nil, err
			}
			var all []tool.Listed
			for _, a := range book.All() {
				doc := "safe"
				if !a.Safe {
					doc = "not safe: " + clip(a.Reason, 120)
				}
				all = append(all, tool.Listed{URI: aliasURI(a.Name), Name: a.Name, Title: clip(a.Expansion, 80), Doc: doc, MIME: "text/plain"})
			}
			return all, nil
		},
		Complete: func(ctx context.Context, c tool.Completion) ([]string, error) {
			return completeAlias(ctx, engine, c.Value)
		},
		Watch: func(ctx context.Context, ref tool.Ref) (tool.Watch, error) {
			return watchAliases(ctx, engine, func(e event.Aliases) bool { return slices.Contains(e.Names, ref.Vars["name"]) })
		},
	})
}

// aliasURI is the address of an alias. One that is named as the catalogue is
// written in another way.
func aliasURI(name string) string {
	if name == "catalog" {
		return "alias://%63atalog"
	}
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return "alias://" + b.String()
}

func aliasText(a *alias.Alias) string {
	var b strings.Builder
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", key, value)
		}
	}
	kind := "alias"
	if a.Function {
		kind = "function"
	}
	line(kind, a.Name)
	line("expansion", a.Expansion)
	if a.Resolved != a.Expansion {
		line("runs", a.Resolved)
		line("uses", strings.Join(a.Uses, ", "))
	}
	line("safe", fmt.Sprint(a.Safe))
	line("reason", a.Reason)
	line("next", a.Next)
	line("source", fmt.Sprintf("%s:%d", a.File, a.Line))
	if a.Conditional {
		line("note", "its file defines it under a condition, which is not looked at")
	}
	line("example", fmt.Sprintf(`alias_exec { "name": %q, "dryRun": true }`, a.Name))
	return b.String()
}

func completeAlias(ctx context.Context, engine *shell.Engine, begun string) ([]string, error) {
	book, err := engine.Book(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, a := range book.All() {
		if strings.HasPrefix(a.Name, begun) {
			names = append(names, a.Name)
		}
	}
	return names, nil
}

func watchAliases(ctx context.Context, engine *shell.Engine, touched func(event.Aliases) bool) (tool.Watch, error) {
	if _, err := engine.Book(ctx); err != nil {
		return tool.Watch{}, err
	}
	return tool.Watch{
		Touched: func(e event.Event) bool {
			changed, ok := e.Data.(event.Aliases)
			return ok && touched(changed)
		},
		MayRead: func(ctx context.Context) bool {
			_, err := engine.Book(ctx)
			return err == nil
		},
	}, nil
}
