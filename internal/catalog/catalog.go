// Package catalog is the product's table of contents: every tool, one file
// each. A handler converts, makes one engine call, and converts back; it holds
// no state and no rules of its own.
package catalog

import (
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
	"github.com/async-crud-mcp/async-crud-mcp/internal/project"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// Engines are what the tools call.
type Engines struct {
	Projects *project.Registry
	Health   func() health.Report
}

// The toolsets.
const (
	Project = "project"
)

// DefaultToolsets are on unless the settings say otherwise.
func DefaultToolsets() []string { return []string{Project} }

// All returns every tool in listing order.
func All(e Engines) []*tool.Tool {
	return append([]*tool.Tool{
		ActivateProject(e.Projects),
		GetConfig(e.Projects),
		UpdateConfig(e.Projects),
		Health(e.Health),
	}, extra()...)
}

// Instructions tell a model when to use what. They are sent once per session
// and stay under 150 words.
const Instructions = `async-crud-mcp stands between you and the project's files, so that agents working side by side do not overwrite each other.

- Start: if a call answers NO_PROJECT_ACTIVATED, call crud_activate_project with the project's absolute path.
- Every result has "status". "ok": done. "error": read error_code, message and details.next, which says what to do. "contention" and "denied" are answers, not failures: nothing was changed; read what came with them and adjust.
- crud_get_config shows the limits in force and where each comes from. crud_update_config can only tighten them, unless a person confirms.
- health shows how the server is.`

// now is the timestamp of a result.
func now() string { return time.Now().UTC().Format(time.RFC3339) }
