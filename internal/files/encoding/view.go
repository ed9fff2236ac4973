package encoding

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// View is the bytes of a file as text.
type View struct {
	enc   *Encoding
	codec codec
	raw   []byte
	mark  int    // length of the byte order mark
	text  string // loose
	bad   int    // offset in raw of the first byte that is no text, or -1
}

// Span is a part of the text of a view: from byte Start up to byte End.
type Span struct{ Start, End int }

// Edit puts Text in the place of a part of the text.
type Edit struct {
	Span
	Text string
}

// ErrSplit says that an edit begins or ends inside a character, or that two edits
// overlap.
var ErrSplit = errors.New("the edit splits a character or another edit")

// View reads raw. The view keeps raw, which must not change from then on.
func (e *Encoding) View(raw []byte) *View {
	v := &View{enc: e, codec: e.codec, raw: raw, bad: -1}
	for _, m := range e.marks {
		if bytes.HasPrefix(raw, []byte(m.bytes)) {
			v.mark, v.codec = len(m.bytes), m.codec
			break
		}
	}
	body := raw[v.mark:]
	text, ok := v.codec.decode(body)
	if !ok {
		text, v.bad = v.loosely(body)
	}
	v.text = text
	return v
}

// loosely returns the text of b with what is no text escaped, and where that
// begins, in raw.
func (v *View) loosely(b []byte) (text string, bad int) {
	if _, same := v.codec.(utf8Codec); same {
		text = string(b)
		return text, v.mark + validUTF8(text)
	}
	bad = -1
	out := make([]byte, 0, len(b)+len(b)/2)
	for at := 0; at < len(b); {
		next, n, ok := v.codec.next(out, b[at:])
		if !ok {
			if bad < 0 {
				bad = v.mark + at
			}
			for _, c := range b[at : at+n] {
				next = append(next, escape(c)...)
			}
		}
		out = next
		at += n
	}
	return string(out), bad
}

// escape stands for a byte that is no text: the surrogate U+DC00 and up, as Python
// has it, in the form UTF-8 would have for it. No valid text holds it.
func escape(c byte) []byte { return []byte{0xed, 0xb0 | c>>6, 0x80 | c&0x3f} }

// Text returns the whole text, without the byte order mark. The error is a
// *[DecodeError].
func (v *View) Text() (string, error) {
	if v.bad < 0 {
		return v.text, nil
	}
	return "", &DecodeError{
		Encoding: v.enc.name,
		Offset:   v.bad,
		Line:     v.line(),
		Byte:     v.raw[v.bad],
		Hint:     v.hint(),
	}
}

// line returns the line of the first bad byte.
func (v *View) line() int {
	line, at := 1, v.mark
	for at < v.bad {
		text, n, _ := v.codec.next(nil, v.raw[at:])
		if string(text) == "\n" {
			line++
		}
		at += n
	}
	return line
}

func (v *View) hint() string {
	switch {
	case bytes.HasPrefix(v.raw, []byte(markLE)), bytes.HasPrefix(v.raw, []byte(markBE)):
		return "the file begins with the byte order mark of utf-16"
	case bytes.IndexByte(v.raw[:min(len(v.raw), 8192)], 0) >= 0:
		return "the file has NUL bytes: it may be binary, or utf-16"
	case v.enc.name != "utf-8" && utf8.Valid(v.raw):
		return "the file is valid utf-8"
	default:
		return "name the encoding the file really has"
	}
}

// Loose returns the whole text, with something that is not valid UTF-8 in place of
// each byte that is no text. Valid text is found in it where it is in the file,
// and only there. It is for finding; before it is shown it must be made valid.
func (v *View) Loose() string { return v.text }

// Find returns where needle occurs in [View.Loose], without overlap. Places that
// begin or end inside a character of the file do not count.
func (v *View) Find(needle string) []Span {
	if needle == "" {
		return nil
	}
	var found []Span
	c := v.cursor()
	for at := 0; ; {
		i := strings.Index(v.text[at:], needle)
		if i < 0 {
			return found
		}
		s := Span{at + i, at + i + len(needle)}
		at = s.Start + 1
		if _, ok := c.to(s.Start); !ok {
			continue
		}
		behind := c
		if _, ok := behind.to(s.End); ok {
			found = append(found, s)
			at, c = s.End, behind
		}
	}
}

// Splice returns the bytes of the file with edits applied. Spans are parts of
// [View.Loose] and do not overlap. Every byte outside them is as it was. The error
// is an *[EncodeError] or [ErrSplit].
func (v *View) Splice(edits ...Edit) ([]byte, error) {
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b Edit) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
	size := len(v.raw)
	for _, e := range edits {
		size += len(e.Text)
	}
	out := make([]byte, 0, size)
	c := v.cursor()
	from, behind := 0, 0 // in raw, in the text
	for _, e := range edits {
		if e.Start < behind || e.End < e.Start || e.End > len(v.text) {
			return nil, fmt.Errorf("%w: %d to %d of %d", ErrSplit, e.Start, e.End, len(v.text))
		}
		start, ok := c.to(e.Start)
		end, ok2 := c.to(e.End)
		if !ok || !ok2 {
			return nil, fmt.Errorf("%w: %d to %d", ErrSplit, e.Start, e.End)
		}
		text, err := v.encode(e.Text, len(out) == 0 && len(v.raw) == 0)
		if err != nil {
			return nil, err
		}
		out = append(append(out, v.raw[from:start]...), text...)
		from, behind = end, e.End
	}
	return append(out, v.raw[from:]...), nil
}

// Replace returns the bytes of the file with text in place of its whole text. The
// byte order mark stays, and so does what text and file have in common at the
// beginning and at the end. The error is an *[EncodeError].
func (v *View) Replace(text string) ([]byte, error) {
	if v.mark > 0 {
		text = strings.TrimPrefix(text, "\ufeff") // it is there already
	}
	// A character of the file may be more than one of text; between lines none is.
	start := commonLines(v.text, text)
	end := commonEnd(v.text[start:], text[start:])
	return v.Splice(Edit{Span{start, len(v.text) - end}, text[start : len(text)-end]})
}

// commonLines returns the length of the lines with which both begin.
func commonLines(a, b string) int {
	n, line := min(len(a), len(b)), 0
	for i := range n {
		if a[i] != b[i] {
			return line
		}
		if a[i] == '\n' {
			line = i + 1
		}
	}
	if len(a) == len(b) {
		return n
	}
	return line
}

// commonEnd returns the length of the lines with which both end.
func commonEnd(a, b string) int {
	n, line := min(len(a), len(b)), 0
	for i := 1; i <= n; i++ {
		if a[len(a)-i] != b[len(b)-i] {
			return line
		}
		if a[len(a)-i] == '\n' {
			line = i - 1
		}
	}
	return line
}

// Encode returns the bytes of text as they stand in the file, in its byte order.
// For an empty file they begin with a byte order mark where the encoding asks for
// one. The error is an *[EncodeError].
func (v *View) Encode(text string) ([]byte, error) { return v.encode(text, len(v.raw) == 0) }

func (v *View) encode(text string, first bool) ([]byte, error) {
	var out []byte
	if first && text != "" && v.enc.begins != "" {
		out = []byte(v.enc.begins)
		text = strings.TrimPrefix(text, "\ufeff")
	}
	bad, r := validUTF8(text), invalid
	if bad < 0 {
		var b []byte
		if b, bad = v.codec.encode(text); bad < 0 {
			return append(out, b...), nil
		}
		r, _ = utf8.DecodeRuneInString(text[bad:])
	}
	return nil, &EncodeError{v.enc.name, r, bad, 1 + strings.Count(text[:bad], "\n")}
}

// cursor goes forward through the characters of a view.
type cursor struct {
	v        *View
	raw, txt int // the same place in both
}

func (v *View) cursor() cursor { return cursor{v, v.mark, 0} }

// to goes to a place in the text that is not behind, and returns where that is in
// raw. It is false if the place is inside a character.
func (c *cursor) to(place int) (raw int, ok bool) {
	if _, same := c.v.codec.(utf8Codec); same {
		c.raw, c.txt = c.v.mark+place, place
		return c.raw, !inside(c.v.text, place)
	}
	buf := make([]byte, 0, 64)
	for c.txt < place {
		s, n, ok := c.v.codec.next(buf, c.v.raw[c.raw:])
		c.raw += n
		if c.txt += len(s); !ok {
			c.txt += n * len(escape(0))
		}
	}
	return c.raw, c.txt == place
}

// inside reports whether offset p of s lies inside a valid character.
func inside(s string, p int) bool {
	if p >= len(s) || utf8.RuneStart(s[p]) {
		return false
	}
	for from := p - 1; from >= max(0, p-utf8.UTFMax+1); from-- {
		if utf8.RuneStart(s[from]) {
			_, n := utf8.DecodeRuneInString(s[from:])
			return from+n > p
		}
	}
	return false
}

// validUTF8 returns the offset of the first byte that is not valid UTF-8, or -1.
func validUTF8(s string) int {
	if utf8.ValidString(s) {
		return -1
	}
	for at := 0; at < len(s); {
		r, n := utf8.DecodeRuneInString(s[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
	return -1
}
