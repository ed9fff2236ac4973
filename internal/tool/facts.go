package tool

import (
	"context"
	"sync/atomic"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
)

// Facts are what a call was about, in words that an observer may keep: names,
// hashes and sizes. There is no field for contents, so none can get into a
// record by mistake. Command and Args may hold secrets: whoever keeps them
// redacts them first.
type Facts struct {
	Outcome string     `json:"outcome,omitempty"`
	Code    fault.Code `json:"code,omitempty"`
	Rule    string     `json:"rule,omitempty"`  // what refused the call
	Field   string     `json:"field,omitempty"` // argument that was refused

	Project string `json:"project,omitempty"` // id
	Root    string `json:"root,omitempty"`

	Path     string  `json:"path,omitempty"` // as the client knows it, absolute once it is resolved
	To       string  `json:"to,omitempty"`
	Expected string  `json:"expected,omitempty"` // hash the caller knew
	Previous string  `json:"previous,omitempty"` // hash of what was replaced or removed
	Hash     string  `json:"hash,omitempty"`     // hash of what was handed out, written or found
	Bytes    *int64  `json:"bytes,omitempty"`    // handed out or written
	Entries  *int    `json:"entries,omitempty"`  // listed, found or removed
	Merged   bool    `json:"merged,omitempty"`
	Items    []Facts `json:"items,omitempty"` // of a batch, in its order

	Settings []string `json:"settings,omitempty"` // names of settings that were to change

	Alias       string   `json:"alias,omitempty"`
	Args        string   `json:"args,omitempty"`
	Command     string   `json:"command,omitempty"`
	Cwd         string   `json:"cwd,omitempty"`
	Shell       string   `json:"shell,omitempty"`
	Env         []string `json:"env,omitempty"` // names of variables the caller set
	Jobs        []string `json:"jobs,omitempty"`
	ExitCode    *int     `json:"exit_code,omitempty"`
	TimedOut    bool     `json:"timed_out,omitempty"`
	DryRun      bool     `json:"dry_run,omitempty"`
	OutputBytes *int64   `json:"output_bytes,omitempty"` // the output itself is with the job
}

// Teller is implemented by inputs and outputs that tell what a call is about.
// What an output tells stands over what its input did.
type Teller interface{ Tell(f *Facts) }

func tell(f *Facts, v any) {
	if t, ok := v.(Teller); ok {
		t.Tell(f)
	}
}

// Conclude has a result tell how its call ended.
func Conclude(f *Facts, result any) {
	f.Outcome = statusOf(result)
	tell(f, result)
}

// Tell implements Teller: where an error struck, and what refused the call. Its
// message stays out, since it may quote what the caller sent.
func (e Envelope) Tell(f *Facts) {
	f.Outcome, f.Code = e.Status, e.Code
	if e.Path != nil {
		f.Path = *e.Path
	}
	if name, ok := e.Details["alias"].(string); ok {
		f.Alias = name
	}
	for _, key := range []string{"rule", "matched_pattern"} {
		if rule, ok := e.Details[key].(string); ok {
			f.Rule = rule
		}
	}
}

type projectKey struct{}

type inProject struct{ id, root string }

// InProject notes, for the observers of the call that ctx belongs to, which
// project the call works in.
func InProject(ctx context.Context, id, root string) {
	if p, ok := ctx.Value(projectKey{}).(*atomic.Pointer[inProject]); ok {
		p.Store(&inProject{id, root})
	}
}
