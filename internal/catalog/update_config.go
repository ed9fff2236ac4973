package catalog

import (
	"context"
	"encoding/json"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/project"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// UpdateConfigIn is the input of crud_update_config.
type UpdateConfigIn struct {
	Set map[string]json.RawMessage `json:"set" jsonschema:"setting names, such as crud.max_timeout, to new values; null takes one out"`
}

// UpdateConfigOut is what changed.
type UpdateConfigOut struct {
	Status    string         `json:"status"`
	Root      string         `json:"root"`
	File      string         `json:"file" jsonschema:"the project's configuration file"`
	Changed   map[string]any `json:"changed" jsonschema:"settings whose value in force differs now"`
	Trusted   bool           `json:"trusted"`
	Warnings  []string       `json:"warnings"`
	Timestamp string         `json:"timestamp"`
}

// UpdateConfig declares crud_update_config.
func UpdateConfig(projects *project.Registry) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "crud_update_config", Title: "Tighten settings", Toolset: Project,
		Doc:    "Set keys in the project's configuration file, effective at once. Loosening the policy answers NOT_TRUSTED, or asks the person when the project is trusted.",
		Effect: tool.Destructive | tool.Idempotent,
		Codes: []fault.Code{
			fault.NoProjectActivated, fault.PathOutsideBase, fault.DirNotFound, fault.AccessDenied,
			fault.NotTrusted, fault.ConfirmationRequired, fault.WriteError,
		},
		Examples: []tool.Example{
			{Title: "A lower limit", Args: `{"set": {"crud.max_timeout": 60}}`, Status: tool.OK},
			{Title: "A higher limit is not the agent's to set", Args: `{"set": {"crud.max_timeout": 600}}`, Status: tool.Error, Code: fault.NotTrusted},
		},
	}, func(ctx context.Context, in UpdateConfigIn) (UpdateConfigOut, error) {
		if len(in.Set) == 0 {
			return UpdateConfigOut{}, fault.New(fault.ValidationError, "set names no setting").With("field", "set")
		}
		a, change, err := projects.Update(ctx, in.Set)
		if err != nil {
			return UpdateConfigOut{}, err
		}
		settings := a.Settings()
		out := UpdateConfigOut{
			Status: tool.OK, Root: a.Root, File: change.File, Changed: map[string]any{}, Trusted: a.Trusted(),
			Warnings: a.Warnings(), Timestamp: now(),
		}
		if change.CommentsLost {
			out.Warnings = append(out.Warnings, "comments in the TOML file were lost")
		}
		for _, v := range settings.Values("") {
			for _, key := range change.Keys {
				if v.Key == key {
					out.Changed[key] = v.Value
				}
			}
		}
		return out, nil
	})
}
