package files

import (
	"strings"
	"unicode/utf8"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/diff"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/encoding"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/patch"
)

// contention is the answer to a late caller that brings no edits.
func (t *target) contention(expected, format string, current content) *Contention {
	late := t.late(expected, format, current)
	t.served(current) // its hash is in the answer, and may come back as a base
	return late.contention
}

// lateness is what is known about a caller that is late.
type lateness struct {
	contention *Contention
	base       []byte // the version it knows; nil: gone
}

// late compares the version a caller knows with the current one.
func (t *target) late(expected, format string, current content) *lateness {
	if !strings.HasPrefix(expected, "sha256:") {
		expected = "sha256:" + expected
	}
	c := &Contention{Path: t.path.String(), ExpectedHash: expected, CurrentHash: current.hash, ChangedBy: t.changedBy(current)}
	late := &lateness{contention: c}
	if d := t.scope.Rules.Check(access.Read, t.path.Rel()); !d.Allowed {
		c.Note = "A rule forbids reading this file, so there is no diff."
		return late
	}
	if current.large > 0 {
		c.Note = "The file is over the size limit now, so there is no diff."
		return late
	}
	base, _, ok := t.opts.History.Get(t.scope.Project, t.path.String(), strings.ToLower(expected))
	if !ok {
		c.Note = "Your version is not known any more; read the file again."
		return late
	}
	late.base, c.BaseAvailable = base, true
	old, errOld := t.shown(base)
	now, errNow := t.shown(current.raw)
	if errOld != nil || errNow != nil {
		c.Note = "A content rule forbids showing this file, so there is no diff."
		return late
	}
	lossy := !utf8.ValidString(old) || !utf8.ValidString(now)
	d := diff.Lines([]byte(strings.ToValidUTF8(old, "\uFFFD")), []byte(strings.ToValidUTF8(now, "\uFFFD")))
	c.Diff = render(d, format, t.scope.Limits.ContextLines, lossy)
	return late
}

// shown returns a version as the caller may see it, for a diff.
func (t *target) shown(raw []byte) (string, error) {
	text, _, err := t.show(string(raw), raw)
	return text, err
}

func render(d *diff.Diff, format string, context int, lossy bool) *Diff {
	s := d.Summary()
	out := &Diff{Format: "json", Lossy: lossy, Summary: DiffSummary(s)}
	if format == "unified" {
		out.Format, out.Unified = format, d.Unified("expected", "current", context)
		return out
	}
	for _, c := range d.Changes(context) {
		out.Changes = append(out.Changes, Region{
			Type: string(c.Kind), StartLine: c.StartLine, EndLine: c.EndLine,
			NewStartLine: c.NewStart, NewEndLine: c.NewStart + c.NewLines - 1,
			OldContent: c.OldContent, NewContent: c.NewContent, OldNoNewline: c.OldNoNewline, NewNoNewline: c.NewNoNewline, ContextBefore: c.ContextBefore, ContextAfter: c.ContextAfter,
		})
	}
	return out
}

// merge lets a late change land where those of others allow it.
func (t *target) merge(r UpdateRequest, late *lateness, current content) ([]byte, bool) {
	enc, err := t.encoding(r.Encoding)
	if err != nil {
		return nil, false
	}
	v := enc.View(current.raw)
	seen, err := t.look(v, current)
	if err != nil {
		return nil, false
	}
	now := []byte(seen.Text)
	base := t.lookBack(enc, late)
	var merged []byte
	if r.Content != nil {
		if base == nil || t.mayWrite(enc.View(late.base).Loose(), *r.Content) != nil {
			return nil, false
		}
		var conflicts []diff.Conflict
		if merged, conflicts = diff.Merge(base, now, []byte(*r.Content)); conflicts != nil {
			return nil, false
		}
	} else if merged, _ = patch.Rebase(fitted(seen.Text, r.Patches), base, now, int(t.scope.Limits.MaxFileSize)); merged == nil {
		return nil, false
	}
	next, err := t.splice(v, seen, current, merged)
	return next, err == nil
}

// lookBack returns the version a late caller knows as it may see it; nil if that
// is gone.
func (t *target) lookBack(enc *encoding.Encoding, late *lateness) []byte {
	if late.base == nil {
		return nil
	}
	seen, err := t.look(enc.View(late.base), content{raw: late.base})
	if err != nil {
		return nil
	}
	return []byte(seen.Text)
}

// judge tells which patches of a late caller still fit.
func (t *target) judge(r UpdateRequest, late *lateness, current content) {
	if r.Patches == nil || !t.scope.Rules.Check(access.Read, t.path.Rel()).Allowed {
		return
	}
	enc, err := t.encoding(r.Encoding)
	if err != nil {
		return
	}
	seen, err := t.look(enc.View(current.raw), current)
	if err != nil {
		return
	}
	report := patch.Check(fitted(seen.Text, r.Patches), t.lookBack(enc, late), []byte(seen.Text), int(t.scope.Limits.MaxFileSize))
	late.contention.Applicable = report.Applicable()
	for _, f := range report.Findings {
		late.contention.Patches = append(late.contention.Patches, PatchVerdict{
			Verdict: string(f.Verdict), Reason: f.Reason, Line: f.Line, Lines: f.Lines, Nearest: t.nearest(f.Nearest),
		})
	}
}
