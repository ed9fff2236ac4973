package audit

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// Record is one line of the record: a call, or with Event something that befell
// the record itself.
type Record struct {
	Time       time.Time `json:"time"` // when the call began
	Event      string    `json:"event,omitempty"`
	Tool       string    `json:"tool,omitempty"`
	Caller     *Caller   `json:"caller,omitempty"`
	DurationMS float64   `json:"duration_ms,omitempty"`
	tool.Facts

	Lost  int        `json:"lost,omitempty"`  // of a gap: calls; of a torn line: bytes
	Since *time.Time `json:"since,omitempty"` // of a gap: the first of them
}

// The events.
const (
	EventGap  = "gap"  // calls that could not be recorded
	EventTorn = "torn" // the last line was cut off by a crash, and taken out
)

// notOffered is the rule that refuses calls of tools that are switched off.
const notOffered = "not on offer"

// Caller is who made a call.
type Caller struct {
	Client    string `json:"client,omitempty"`
	Version   string `json:"version,omitempty"`
	Agent     string `json:"agent,omitempty"`
	Session   string `json:"session,omitempty"`
	Thread    string `json:"thread,omitempty"`
	Transport string `json:"transport,omitempty"`
}

func callerOf(c *caller.Caller) *Caller {
	return &Caller{Client: c.Client, Version: c.Version, Agent: c.Agent, Session: c.Session, Thread: c.Thread, Transport: c.Transport}
}

// Refused reports whether the call was refused, or part of it.
func (r *Record) Refused() bool {
	refused := func(f *tool.Facts) bool { return f.Outcome == tool.Denied || refusals[f.Code] }
	if refused(&r.Facts) {
		return true
	}
	for i := range r.Items {
		if refused(&r.Items[i]) {
			return true
		}
	}
	return false
}

const (
	maxPath    = 4096
	maxCommand = 16 << 10
)

// bound keeps nothing that a caller sent at any length. Commands keep more than
// is written, so that no secret is cut in two before it is redacted.
func (r *Record) bound() {
	r.Command, r.Args = clip(r.Command, 2*maxCommand), clip(r.Args, 2*maxCommand)
	r.Path, r.To, r.Cwd = clip(r.Path, maxPath), clip(r.To, maxPath), clip(r.Cwd, maxPath)
	long := func(f tool.Facts) bool { return len(f.Path) > maxPath }
	if slices.ContainsFunc(r.Items, long) {
		r.Items = slices.Clone(r.Items) // other observers see the same ones
		for i := range r.Items {
			r.Items[i].Path = clip(r.Items[i].Path, maxPath)
		}
	}
}

// redact makes a record fit for the file.
func (r *Record) redact() {
	r.Command, r.Args = clip(Redact(r.Command), maxCommand), clip(Redact(r.Args), maxCommand)
}

// clip cuts s to n bytes at a character, and says so.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
