package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// AliasSuggest declares the prompt alias_suggest.
func AliasSuggest() *tool.Prompt {
	return tool.NewPrompt(tool.PromptSpec{
		Name: "alias_suggest", Title: "Suggest an alias", Toolset: Aliases, Other: []string{"prompt.alias.suggest", "alias.suggest"},
		Doc:      "Have the model look through your aliases, propose a safe plan, and try it as a dry run first.",
		Examples: []tool.PromptExample{{Title: "Suggest"}},
		Render: func(context.Context, map[string]string) ([]tool.Message, error) {
			return []tool.Message{{Text: "Browse alias://catalog (or call alias_catalog). Then propose a safe plan for what I want to do with the aliases that are marked safe, " +
				"and call alias_exec with dryRun: true first for each step. Sum up what would run, where, and what it would change. Run nothing until I agree."}}, nil
		},
	})
}

// AliasConfirm declares the prompt alias_confirm.
func AliasConfirm(engine *shell.Engine) *tool.Prompt {
	return tool.NewPrompt(tool.PromptSpec{
		Name: "alias_confirm", Title: "Confirm an alias", Toolset: Aliases, Other: []string{"prompt.alias.confirm", "alias.confirm"},
		Doc: "See exactly what an alias would run and where, and decide whether the model may run it.",
		Arguments: []tool.Argument{
			{
				Name: "name", Doc: "the alias", Required: true,
				Complete: func(ctx context.Context, c tool.Completion) ([]string, error) {
					return completeAlias(ctx, engine, c.Value)
				},
			},
			{Name: "args", Doc: "words to put behind it"},
			{Name: "cwd", Doc: "where it runs; the default directory if left out"},
		},
		Codes: aliasCodes,
		Examples: []tool.PromptExample{
			{Title: "An alias", Args: map[string]string{"name": "gs", "args": "--short"}},
			{Title: "An alias that is not there", Args: map[string]string{"name": "gx"}, Code: fault.AliasNotFound},
		},
		Render: func(ctx context.Context, args map[string]string) ([]tool.Message, error) {
			plan, err := engine.Alias(ctx, shell.AliasRequest{Name: args["name"], Args: args["args"], Dir: args["cwd"]})
			if err != nil {
				return nil, err
			}
			return []tool.Message{{Text: confirmText(plan, args)}}, nil
		},
	})
}

func confirmText(plan shell.AliasResult, args map[string]string) string {
	name := plan.Command.Alias.Name
	var b strings.Builder
	fmt.Fprintf(&b, "Before the alias %s runs, show me this and wait for my answer:\n\n  command: %s\n  directory: %s\n  environment: %s\n  ended after: %s\n\n",
		name, plan.Text, plan.Dir, strings.Join(plan.Env, ", "), plan.Timeout)
	if !plan.Safe {
		fmt.Fprintf(&b, "It is not safe and cannot run: %s. %s", plan.Reason, plan.Next)
		return b.String()
	}
	call := map[string]any{"name": name, "dryRun": false, "confirm": true}
	for _, key := range []string{"args", "cwd"} {
		if args[key] != "" {
			call[key] = args[key]
		}
	}
	raw, err := json.Marshal(call)
	if err != nil {
		raw = nil // strings and booleans: it cannot be
	}
	fmt.Fprintf(&b, "Only when I say yes to this very command, call alias_exec with %s. If I say no, or ask for something else, do not run it.", raw)
	return b.String()
}
