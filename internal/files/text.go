package files

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/diff"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/encoding"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/patch"
)

// encoding returns the encoding a caller names, or that of the settings.
func (t *target) encoding(name string) (*encoding.Encoding, error) {
	if name == "" {
		name = t.scope.Limits.Encoding
	}
	enc, err := encoding.Lookup(name)
	if err != nil {
		return nil, t.failed(err)
	}
	return enc, nil
}

// fits refuses a file over the size limit.
func (t *target) fits(size int) error {
	if limit := t.scope.Limits.MaxFileSize; int64(size) > limit {
		return fault.New(fault.FileTooLarge, "the file would have %d bytes; the limit is %d", size, limit).
			At(t.path.String()).With("size_bytes", size).With("max_file_size_bytes", limit)
	}
	return nil
}

// encode turns the text of a new file into bytes, within the rules.
func (t *target) encode(name, text string) ([]byte, error) {
	enc, err := t.encoding(name)
	if err != nil {
		return nil, err
	}
	if err := t.mayWrite("", text); err != nil {
		return nil, err
	}
	raw, err := enc.Encode(text)
	if err != nil {
		return nil, t.failed(err)
	}
	return raw, t.fits(len(raw))
}

// mayWrite applies the content rules to text that a caller brings in the place of
// other text.
func (t *target) mayWrite(before, text string) error {
	if t.scope.Redacts && access.AddsMarkers(before, text) {
		return fault.New(fault.RedactionMarkersPresent, "the text holds markers that stand for hidden content; writing them would destroy it").At(t.path.String())
	}
	if d := t.scope.Content.Scan(text).Denied; d != nil {
		return t.blocked(d)
	}
	return nil
}

func (t *target) blocked(d *access.Denial) error {
	return fault.New(fault.ContentBlocked, "%s", d.Reason).At(t.path.String()).With("rule", d.Rule).With("line", d.Line)
}

// show applies the content rules to text that a caller is about to see.
func (t *target) show(text string, raw []byte) (shown string, hidden int, err error) {
	v := t.scope.Content.ScanAs(text, raw)
	if v.Denied != nil {
		return "", 0, t.blocked(v.Denied)
	}
	return v.Text, len(v.Hidden), nil
}

// edit applies what a caller wants to the content it knows.
func (t *target) edit(r UpdateRequest, current content) (content, error) {
	enc, err := t.encoding(r.Encoding)
	if err != nil {
		return content{}, err
	}
	v := enc.View(current.raw)
	if r.Content != nil {
		if err := t.mayWrite(v.Loose(), *r.Content); err != nil {
			return content{}, err
		}
		raw, err := v.Replace(*r.Content)
		return t.edited(raw, err)
	}
	edits := fitted(v.Loose(), r.Patches)
	text, err := patch.Apply([]byte(v.Loose()), edits, int(t.scope.Limits.MaxFileSize))
	if err != nil {
		return content{}, t.invalidPatch(err)
	}
	return t.splice(v, current, text)
}

func (t *target) edited(raw []byte, err error) (content, error) {
	if err != nil {
		return content{}, t.failed(err)
	}
	return contentOf(raw), t.fits(len(raw))
}

// fitted translates patches, in the line ends of the text they are for.
func fitted(text string, patches []Patch) []patch.Edit {
	edits := make([]patch.Edit, len(patches))
	for i, p := range patches {
		edits[i] = patch.Edit{StartLine: p.StartLine, EndLine: p.EndLine, Expected: p.Expected, Old: p.OldString, New: p.NewString, ReplaceAll: p.ReplaceAll}
		if p.StartLine == 0 {
			f := encoding.Fit(text, p.OldString, p.NewString)
			edits[i].Old, edits[i].New = f.Old, f.New
		}
	}
	return edits
}

// splice takes an edited text back to bytes, those outside the edit untouched.
func (t *target) splice(v *encoding.View, current content, text []byte) (content, error) {
	before := v.Loose()
	if err := t.mayWrite(before, string(text)); err != nil && fault.CodeOf(err) == fault.RedactionMarkersPresent {
		return content{}, err
	}
	hunks := diff.Lines([]byte(before), text).Hunks()
	verdict := t.scope.Content.ScanAs(before, current.raw)
	if verdict.Denied != nil {
		return content{}, t.blocked(verdict.Denied)
	}
	edits := make([]encoding.Edit, len(hunks))
	for i, h := range hunks {
		if verdict.Touches(h.Old.Byte, h.Old.ByteEnd) {
			return content{}, fault.New(fault.RedactionMarkersPresent, "line %d holds hidden content; an edit there would change what you cannot see", h.Old.Line+1).At(t.path.String())
		}
		edits[i] = encoding.Edit{Span: encoding.Span{Start: h.Old.Byte, End: h.Old.ByteEnd}, Text: string(h.New.Of(text))}
	}
	if d := t.scope.Content.Scan(strings.ToValidUTF8(string(text), "")).Denied; d != nil {
		return content{}, t.blocked(d)
	}
	if mark, same := bytes.CutSuffix(current.raw, []byte(before)); same {
		// The text is the bytes, so that even a line with bytes that are no text
		// can be edited.
		return t.edited(append(bytes.Clone(mark), text...), nil)
	}
	return t.edited(v.Splice(edits...))
}

// invalidPatch says which patch does not fit, and where.
func (t *target) invalidPatch(err error) error {
	if errors.Is(err, patch.ErrTooLarge) {
		return t.fits(int(t.scope.Limits.MaxFileSize) + 1)
	}
	f := fault.New(fault.InvalidPatch, "%v", err).At(t.path.String())
	if p, ok := errors.AsType[*patch.Error](err); ok {
		f.With("patch_index", p.Index)
		if len(p.Lines) > 0 {
			f.With("lines", p.Lines).With("occurrences", p.Count)
		}
		if n := t.nearest(p.Nearest); n != nil {
			f.With("nearest", map[string]any{"line": n.Line, "text": n.Text, "similarity": math.Round(n.Similarity*100) / 100})
		}
	}
	return f
}

// nearest shows a match as far as the rules allow.
func (t *target) nearest(m *patch.Match) *Nearest {
	if m == nil || !t.scope.Rules.Check(access.Read, t.path.Rel()).Allowed {
		return nil
	}
	text, _, err := t.show(strings.ToValidUTF8(m.Text, "\uFFFD"), nil)
	if err != nil {
		return nil
	}
	return &Nearest{Line: m.Line, Text: text, Similarity: m.Similarity}
}

// clip cuts text to at most limit bytes at a line end where there is one.
func clip(text string, limit int64) (string, bool) {
	if limit == 0 || int64(len(text)) <= limit {
		return text, false
	}
	cut := text[:limit]
	if i := strings.LastIndexByte(cut, '\n'); i >= 0 {
		return cut[:i+1], true
	}
	for cut != "" && !utf8.ValidString(cut[max(0, len(cut)-utf8.UTFMax):]) {
		cut = cut[:len(cut)-1]
	}
	return cut, true
}
