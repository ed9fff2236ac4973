package catalog

import (
	"encoding/json"
	"math"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
)

// fileCodes are what every file tool can answer, with more.
func fileCodes(more ...fault.Code) []fault.Code {
	return append(more, fault.NoProjectActivated, fault.PathOutsideBase, fault.AccessDenied, fault.DirNotFound)
}

// duration is a timeout of the wire; nil means that none was given.
func duration(seconds *float64) *time.Duration {
	if seconds == nil {
		return nil
	}
	d := time.Duration(min(*seconds, 1e9) * float64(time.Second))
	return &d
}

// textOrNull is a text that is null when it is empty, where a pointer would be left
// out.
type textOrNull string

// MarshalJSON implements json.Marshaler.
func (t textOrNull) MarshalJSON() ([]byte, error) {
	if t == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(t))
}

// JSONTypes implements schema.Typed.
func (textOrNull) JSONTypes() []string { return []string{"string", "null"} }

func orNull(s string) *textOrNull {
	t := textOrNull(s)
	return &t
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// LateOut is the part of a result that tells a late caller what happened.
type LateOut struct {
	ExpectedHash  string       `json:"expected_hash,omitempty"`
	CurrentHash   string       `json:"current_hash,omitempty" jsonschema:"use it as expected_hash of the next try"`
	Message       string       `json:"message,omitempty"`
	Diff          *DiffOut     `json:"diff" jsonschema:"what changed since your version; null: it is not known any more"`
	BaseAvailable bool         `json:"base_available" jsonschema:"whether your version is still known"`
	ChangedBy     *AuthorOut   `json:"changed_by,omitempty"`
	Applicable    *bool        `json:"patches_applicable,omitempty" jsonschema:"whether every patch still fits"`
	Conflicts     *[]Conflict  `json:"conflicts,omitempty"`
	Fitting       *[]int       `json:"non_conflicting_patches,omitempty"`
	Verdicts      []VerdictOut `json:"patch_verdicts,omitempty"`
}

// DiffOut is a difference in one of two forms.
type DiffOut struct {
	Format  string       `json:"format"`
	Changes *[]ChangeOut `json:"changes,omitempty"`
	Content *string      `json:"content,omitempty"`
	Summary SummaryOut   `json:"summary"`
	Lossy   bool         `json:"lossy,omitempty" jsonschema:"bytes that are no text are shown as U+FFFD"`
}

// ChangeOut is one changed run of lines.
type ChangeOut struct {
	Type          string  `json:"type"`
	StartLine     int     `json:"start_line"`
	EndLine       *int    `json:"end_line,omitempty"`
	NewStartLine  int     `json:"new_start_line,omitempty"`
	NewEndLine    int     `json:"new_end_line,omitempty"`
	OldContent    *string `json:"old_content,omitempty"`
	NewContent    *string `json:"new_content,omitempty"`
	OldNoNewline  bool    `json:"old_no_newline,omitempty" jsonschema:"the old content ends without a line end"`
	NewNoNewline  bool    `json:"new_no_newline,omitempty" jsonschema:"the new content ends without a line end"`
	ContextBefore string  `json:"context_before"`
	ContextAfter  string  `json:"context_after"`
}

// SummaryOut counts.
type SummaryOut struct {
	LinesAdded     int `json:"lines_added"`
	LinesRemoved   int `json:"lines_removed"`
	LinesModified  int `json:"lines_modified"`
	RegionsChanged int `json:"regions_changed"`
}

// AuthorOut says who made a version.
type AuthorOut struct {
	Who   string `json:"who" jsonschema:"client, or external for a program outside"`
	Agent string `json:"agent,omitempty"`
	Tool  string `json:"tool,omitempty"`
	When  string `json:"when,omitempty"`
}

// Conflict is a patch that does not fit any more.
type Conflict struct {
	PatchIndex int    `json:"patch_index"`
	Reason     string `json:"reason"`
}

// VerdictOut says what became of a patch's place.
type VerdictOut struct {
	PatchIndex int         `json:"patch_index"`
	Verdict    string      `json:"verdict" enum:"applies,already_applied,moved,ambiguous,conflicts"`
	Line       int         `json:"line,omitempty" jsonschema:"where it belongs now"`
	Lines      []int       `json:"lines,omitempty" jsonschema:"where an ambiguous text occurs"`
	Nearest    *NearestOut `json:"nearest,omitempty"`
}

// NearestOut is the place most like what a patch looks for.
type NearestOut struct {
	Line       int     `json:"line"`
	Text       string  `json:"text"`
	Similarity float64 `json:"similarity"`
}

// late converts a contention.
func late(c *files.Contention) *LateOut {
	out := &LateOut{
		ExpectedHash: c.ExpectedHash, CurrentHash: c.CurrentHash, BaseAvailable: c.BaseAvailable,
		Message: "File was modified by another operation. Diff provided for update adjustment.",
		Diff:    diffOut(c.Diff), ChangedBy: authorOut(c.ChangedBy),
	}
	if c.Diff == nil {
		out.Message = "File was modified by another operation. " + c.Note
	}
	if c.Patches == nil {
		return out
	}
	conflicts, fitting := []Conflict{}, []int{}
	for i, v := range c.Patches {
		verdict := VerdictOut{PatchIndex: i, Verdict: v.Verdict, Line: v.Line, Lines: v.Lines}
		if n := v.Nearest; n != nil {
			verdict.Nearest = &NearestOut{Line: n.Line, Text: n.Text, Similarity: math.Round(n.Similarity*100) / 100}
		}
		out.Verdicts = append(out.Verdicts, verdict)
		if v.Reason == "" {
			fitting = append(fitting, i)
			continue
		}
		conflicts = append(conflicts, Conflict{PatchIndex: i, Reason: v.Reason})
	}
	out.Applicable, out.Conflicts, out.Fitting = &c.Applicable, &conflicts, &fitting
	return out
}

func diffOut(d *files.Diff) *DiffOut {
	if d == nil {
		return nil
	}
	out := &DiffOut{Format: d.Format, Lossy: d.Lossy, Summary: SummaryOut(d.Summary)}
	if d.Format == "unified" {
		out.Content = &d.Unified
		return out
	}
	changes := []ChangeOut{} // none is shown when all that changed is hidden
	for _, r := range d.Changes {
		c := ChangeOut{
			Type: r.Type, StartLine: r.StartLine, NewStartLine: r.NewStartLine, NewEndLine: r.NewEndLine,
			OldNoNewline: r.OldNoNewline, NewNoNewline: r.NewNoNewline, ContextBefore: r.ContextBefore, ContextAfter: r.ContextAfter,
		}
		if r.Type != "added" {
			c.EndLine, c.OldContent = &r.EndLine, &r.OldContent
		}
		if r.Type != "removed" {
			c.NewContent = &r.NewContent
		}
		changes = append(changes, c)
	}
	out.Changes = &changes
	return out
}

func authorOut(a *files.Author) *AuthorOut {
	if a == nil {
		return nil
	}
	out := &AuthorOut{Who: a.Client, Agent: a.Agent, Tool: a.Tool}
	if a.External {
		out.Who = "external"
	}
	if !a.Time.IsZero() {
		out.When = stamp(a.Time)
	}
	return out
}
