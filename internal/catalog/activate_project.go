package catalog

import (
	"context"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/project"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// ActivateProjectIn is the input of crud_activate_project.
type ActivateProjectIn struct {
	Path string `json:"path" jsonschema:"absolute path of the project directory" minLength:"1" maxLength:"4096"`
}

// ActivateProjectOut is what holds in the project now.
type ActivateProjectOut struct {
	Status          string   `json:"status"`
	Root            string   `json:"root"`
	ID              string   `json:"id"`
	BaseDirectories []string `json:"base_directories"`
	Trusted         bool     `json:"trusted"`
	Limits          Limits   `json:"limits"`
	Warnings        []string `json:"warnings"`
	Note            string   `json:"note,omitempty"`
	Timestamp       string   `json:"timestamp"`
}

// Limits are the effective bounds an agent should know before it works.
type Limits struct {
	ReadOnly         bool    `json:"read_only"`
	MaxFileSizeBytes int64   `json:"max_file_size_bytes"`
	DefaultTimeout   float64 `json:"default_timeout"`
	MaxTimeout       float64 `json:"max_timeout"`
	OnContention     string  `json:"on_contention"`
	SearchEnabled    bool    `json:"search_enabled"`
	SearchMaxResults int     `json:"search_max_results"`
	ShellEnabled     bool    `json:"shell_enabled"`
	ShellTimeoutMax  float64 `json:"shell_timeout_max"`
	SandboxMode      string  `json:"sandbox_mode"`
}

// ActivateProject declares crud_activate_project.
func ActivateProject(projects *project.Registry) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "crud_activate_project", Title: "Activate a project", Toolset: Project,
		Doc:    "Choose the project directory this session works in, from which relative paths start. Needed when a call answers NO_PROJECT_ACTIVATED, or to change projects.",
		Effect: tool.ReadOnly | tool.Idempotent,
		Codes:  []fault.Code{fault.PathOutsideBase, fault.DirNotFound, fault.AccessDenied, fault.NoProjectActivated},
		Examples: []tool.Example{
			{Title: "Work in a project", Args: `{"path": "{{root}}"}`, Status: tool.OK},
			{Title: "A directory nobody has allowed", Args: `{"path": "/"}`, Status: tool.Error, Code: fault.PathOutsideBase},
		},
	}, func(ctx context.Context, in ActivateProjectIn) (ActivateProjectOut, error) {
		a, err := projects.Activate(ctx, in.Path)
		if err != nil {
			return ActivateProjectOut{}, err
		}
		settings := a.Settings()
		out := ActivateProjectOut{
			Status: tool.OK, Root: a.Root, ID: a.ID, BaseDirectories: a.Bases, Trusted: a.Trusted(),
			Limits: limitsOf(settings.Config), Warnings: a.Warnings(), Timestamp: now(),
		}
		if caller.From(ctx).Session == "" {
			out.Note = "This connection has no session: name the project in every request, as /mcp?project=" + a.ID + ` or in _meta as "async-crud-mcp/project".`
		}
		return out, nil
	})
}

func limitsOf(c config.Config) Limits {
	return Limits{
		ReadOnly: c.Daemon.ReadOnly, MaxFileSizeBytes: c.Crud.MaxFileSizeBytes,
		DefaultTimeout: c.Crud.DefaultTimeout, MaxTimeout: c.Crud.MaxTimeout, OnContention: c.Crud.OnContention,
		SearchEnabled: c.Search.Enabled, SearchMaxResults: c.Search.MaxResults,
		ShellEnabled: c.Shell.Enabled, ShellTimeoutMax: c.Shell.TimeoutMax, SandboxMode: c.Sandbox.Mode,
	}
}
