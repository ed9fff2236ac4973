package files

import (
	"errors"
	"math"
	"slices"
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
		return t.markers()
	}
	if d := t.scope.Content.Scan(text).Denied; d != nil {
		return t.blocked(d)
	}
	return nil
}

func (t *target) markers() error {
	return fault.New(fault.RedactionMarkersPresent, "the text holds markers that stand for hidden content; writing them would destroy it").At(t.path.String())
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
func (t *target) edit(r UpdateRequest, current content) ([]byte, error) {
	enc, err := t.encoding(r.Encoding)
	if err != nil {
		return nil, err
	}
	v := enc.View(current.raw)
	if r.Content != nil {
		if err := t.mayWrite(v.Loose(), *r.Content); err != nil {
			return nil, err
		}
		raw, err := v.Replace(*r.Content)
		return t.edited(raw, err)
	}
	seen, err := t.look(v, current)
	if err != nil {
		return nil, err
	}
	var before []byte
	if mark, plain := bytesBefore(current.raw, seen.Text); plain {
		before = current.raw[len(mark):] // Apply does not write to it
	} else {
		before = []byte(seen.Text)
	}
	text, err := patch.Apply(before, fitted(seen.Text, r.Patches), int(t.scope.Limits.MaxFileSize))
	if err != nil {
		return nil, t.invalidPatch(err)
	}
	return t.splice(v, seen, current, text)
}

// look returns a text as its caller may see it. Edits are made there, line by
// line the same as the file: whether one fits tells nothing of what is hidden.
func (t *target) look(v *encoding.View, c content) (access.Verdict, error) {
	seen := t.scope.Content.ScanAs(v.Loose(), c.raw)
	if seen.Denied != nil {
		return seen, t.blocked(seen.Denied)
	}
	return seen, nil
}

func (t *target) edited(raw []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, t.failed(err)
	}
	return raw, t.fits(len(raw))
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

// splice takes an edit of what a caller sees back to bytes, those outside the
// edit untouched.
func (t *target) splice(v *encoding.View, seen access.Verdict, current content, text []byte) ([]byte, error) {
	if t.scope.Redacts && access.AddsMarkers(seen.Text, string(text)) {
		return nil, t.markers()
	}
	before := v.Loose()
	mark, plain := bytesBefore(current.raw, before)
	if plain && len(seen.Hidden) == 0 {
		if err := t.mayHold(text); err != nil {
			return nil, err
		}
		if len(mark) > 0 {
			text = slices.Concat(mark, text)
		}
		return t.edited(text, nil) // even a line with bytes that are no text can be edited so
	}
	at := lineStarts(before)
	hunks := diff.Lines([]byte(seen.Text), text).Hunks()
	edits := make([]encoding.Edit, len(hunks))
	for i, h := range hunks {
		if line := hiddenIn(seen, h.Old); line > 0 {
			return nil, fault.New(fault.RedactionMarkersPresent, "line %d holds hidden content; an edit there would change what you cannot see", line).At(t.path.String())
		}
		span := encoding.Span{Start: h.Old.Byte, End: h.Old.ByteEnd}
		if len(seen.Hidden) > 0 { // lines are where they were, bytes are not
			span = encoding.Span{Start: at(h.Old.Line), End: at(h.Old.LineEnd)}
		}
		edits[i] = encoding.Edit{Span: span, Text: string(h.New.Of(text))}
	}
	if len(seen.Hidden) > 0 {
		text = uncover(before, edits)
	}
	if err := t.mayHold(text); err != nil {
		return nil, err
	}
	if plain {
		return t.edited(slices.Concat(mark, text), nil)
	}
	return t.edited(v.Splice(edits...))
}

// bytesBefore returns what stands in raw before text, if text is the rest of it
// byte for byte.
func bytesBefore(raw []byte, text string) ([]byte, bool) {
	n := len(raw) - len(text)
	if n < 0 || string(raw[n:]) != text { // compares without a copy
		return nil, false
	}
	return raw[:n], true
}

// mayHold applies the content rules to a whole text that a file is to hold.
func (t *target) mayHold(text []byte) error {
	if !t.scope.Redacts {
		return nil // there are none, and the text may be long
	}
	if d := t.scope.Content.Scan(strings.ToValidUTF8(string(text), "")).Denied; d != nil {
		return t.blocked(d)
	}
	return nil
}

// uncover makes the edits in the text that holds what is hidden.
func uncover(text string, edits []encoding.Edit) []byte {
	var out []byte
	from := 0
	for _, e := range edits {
		out = append(append(out, text[from:e.Start]...), e.Text...)
		from = e.End
	}
	return append(out, text[from:]...)
}

// lineStarts returns where a line of the text begins, counted from 0. It is asked
// for lines in rising order.
func lineStarts(text string) func(line int) int {
	line, offset := 0, 0
	return func(want int) int {
		for ; line < want; line++ {
			end := strings.IndexByte(text[offset:], '\n')
			if end < 0 {
				return len(text)
			}
			offset += end + 1
		}
		return offset
	}
}

// hiddenIn returns the first line of hidden content that an edit has a part in,
// counted from 1; 0 if there is none.
func hiddenIn(seen access.Verdict, old diff.Span) int {
	for _, h := range seen.Hidden {
		if h.Line-1 < old.LineEnd && h.Line-1+h.Lines > old.Line {
			return h.Line
		}
	}
	return 0
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
