// Package health is the vocabulary for how the server is: one Report that the
// health tool, GET /health and the command line all show.
package health

// Status values of a Report.
const (
	Healthy  = "healthy"
	Degraded = "degraded" // serving, with something a person should look at
)

// Report is the state of the server at one moment.
type Report struct {
	Status        string    `json:"status" jsonschema:"healthy or degraded"`
	Version       string    `json:"version"`
	UptimeSeconds int64     `json:"uptime_seconds"`
	PortListening bool      `json:"port_listening" jsonschema:"whether the HTTP port accepts connections"`
	Address       string    `json:"address,omitempty" jsonschema:"HTTP address, when listening"`
	Mode          string    `json:"mode" jsonschema:"stdio, serve or call"`
	Coordination  string    `json:"coordination" jsonschema:"who shares this lock table"`
	Sessions      int       `json:"sessions" jsonschema:"open client sessions"`
	Tools         int       `json:"tools" jsonschema:"tools on offer"`
	ReadOnly      bool      `json:"read_only"`
	Persistence   string    `json:"persistence" jsonschema:"enabled or disabled"`
	Sandbox       string    `json:"sandbox,omitempty" jsonschema:"what commands may touch, where they may run at all"`
	Findings      []Finding `json:"findings,omitempty" jsonschema:"what a person should look at"`
}

// Finding is one thing worth a look, with its cure.
type Finding struct {
	Part   string `json:"part" jsonschema:"which part of the server"`
	Detail string `json:"detail"`
	Cure   string `json:"cure,omitempty" jsonschema:"what to do about it"`
}
