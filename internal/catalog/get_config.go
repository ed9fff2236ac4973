package catalog

import (
	"context"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/project"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// GetConfigIn is the input of crud_get_config.
type GetConfigIn struct {
	Section string `json:"section,omitempty" jsonschema:"only this section" enum:"daemon,crud,persistence,watcher,shell,search,aliases,sandbox,audit,cluster"`
}

// GetConfigOut is the settings in force.
type GetConfigOut struct {
	Status    string                              `json:"status"`
	Root      *string                             `json:"root" jsonschema:"the project they hold in; null: no project is active"`
	ID        *string                             `json:"id"`
	Trusted   bool                                `json:"trusted"`
	Config    map[string]map[string]any           `json:"config" jsonschema:"section, key, value"`
	Origins   map[string]map[string]config.Origin `json:"origins" jsonschema:"section, key, where the value comes from"`
	Warnings  []string                            `json:"warnings" jsonschema:"what was ignored, and why"`
	Timestamp string                              `json:"timestamp"`
}

// GetConfig declares crud_get_config.
func GetConfig(projects *project.Registry) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "crud_get_config", Title: "Show settings", Toolset: Project,
		Doc:    "Show the settings in force here, each with its origin (default, user file, project file, environment, flag), and what was ignored and why. Secrets are masked.",
		Effect: tool.ReadOnly | tool.Idempotent,
		Codes:  []fault.Code{fault.NoProjectActivated, fault.PathOutsideBase, fault.DirNotFound, fault.AccessDenied},
		Examples: []tool.Example{
			{Title: "Limits of the file tools", Args: `{"section": "crud"}`, Status: tool.OK},
			{Title: "Everything", Args: `{}`, Status: tool.OK},
		},
	}, func(ctx context.Context, in GetConfigIn) (GetConfigOut, error) {
		out := GetConfigOut{
			Status: tool.OK, Config: map[string]map[string]any{},
			Origins: map[string]map[string]config.Origin{}, Warnings: []string{}, Timestamp: now(),
		}
		settings, active, err := projects.Settings(ctx)
		if err != nil {
			return out, err
		}
		for _, w := range settings.Warnings() {
			out.Warnings = append(out.Warnings, w.String())
		}
		if active != nil {
			out.Root, out.ID, out.Trusted, out.Warnings = &active.Root, &active.ID, active.Trusted(), active.Warnings()
		}
		for _, v := range settings.Values(in.Section) {
			section, key, _ := strings.Cut(v.Key, ".")
			if out.Config[section] == nil {
				out.Config[section], out.Origins[section] = map[string]any{}, map[string]config.Origin{}
			}
			out.Config[section][key], out.Origins[section][key] = v.Value, v.Origin
		}
		return out, nil
	})
}
