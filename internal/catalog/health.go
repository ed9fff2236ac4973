package catalog

import (
	"context"

	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// HealthIn has no fields: the question has no options.
type HealthIn struct{}

// HealthOut is a health.Report inside the result envelope, whose status says
// only that the question was answered.
type HealthOut struct {
	Status        string           `json:"status"`
	Health        string           `json:"health" enum:"healthy,degraded"`
	Version       string           `json:"version"`
	UptimeSeconds int64            `json:"uptime_seconds"`
	PortListening bool             `json:"port_listening"`
	Address       string           `json:"address,omitempty"`
	Mode          string           `json:"mode"`
	Coordination  string           `json:"coordination"`
	Sessions      int              `json:"sessions"`
	Tools         int              `json:"tools"`
	ReadOnly      bool             `json:"read_only"`
	Persistence   string           `json:"persistence"`
	Sandbox       string           `json:"sandbox,omitempty" jsonschema:"what commands may touch"`
	Findings      []health.Finding `json:"findings"`
	Timestamp     string           `json:"timestamp"`
}

// Health declares the health tool.
func Health(report func() health.Report) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "health", Title: "Server health", Toolset: Project,
		Doc:      "Show how the server is: version, uptime, sessions, with whom it coordinates, and what a person should look at.",
		Effect:   tool.ReadOnly | tool.Idempotent,
		Examples: []tool.Example{{Title: "Ask how the server is", Args: `{}`, Status: tool.OK}},
	}, func(context.Context, HealthIn) (HealthOut, error) {
		r := report()
		if r.Findings == nil {
			r.Findings = []health.Finding{}
		}
		return HealthOut{
			Status: tool.OK, Health: r.Status, Version: r.Version, UptimeSeconds: r.UptimeSeconds,
			PortListening: r.PortListening, Address: r.Address, Mode: r.Mode, Coordination: r.Coordination,
			Sessions: r.Sessions, Tools: r.Tools, ReadOnly: r.ReadOnly, Persistence: r.Persistence, Sandbox: r.Sandbox, Findings: r.Findings, Timestamp: now(),
		}, nil
	})
}
