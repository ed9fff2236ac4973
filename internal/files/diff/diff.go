// Package diff compares texts by lines: what changed between two versions, as
// regions or as a unified diff, and the three-way merge of two versions that
// come from the same base.
//
// A line is everything up to and with its "\n"; what follows the last one is a
// line too. So line ends, and whether the last line has one, take part in every
// comparison, and bytes are never decoded: putting the new side of every hunk in
// the place of its old side gives exactly the new text.
//
// The work is bounded whatever the texts are: roughly linear, plus a fixed number
// of steps for the search. Where that number does not suffice, hunks come out
// larger than they need be, and still right.
//
// All functions are pure; a Diff is immutable and safe for concurrent use, as
// long as nobody changes the texts it was made from.
package diff

import (
	"bytes"
	"strings"
)

// Diff is what differs between an old and a new text.
type Diff struct {
	old, new []byte
	hunks    []Hunk
}

// Hunk is a place where the texts differ: the lines and bytes of the old text
// that are replaced, and those of the new text that replace them. Lines count
// from 0, ends are exclusive. Between two hunks is at least one line that both
// texts have.
type Hunk struct {
	Old, New Span
}

// Span is a part of one text.
type Span struct {
	Line, LineEnd int
	Byte, ByteEnd int
}

// Lines is how many lines the span has.
func (s Span) Lines() int { return s.LineEnd - s.Line }

// Of returns the bytes of the span.
func (s Span) Of(text []byte) []byte { return text[s.Byte:s.ByteEnd] }

// Lines compares two texts.
func Lines(old, new []byte) *Diff {
	return &Diff{old, new, compare(old, new)}
}

// Hunks returns all differences in order. The caller must not change them.
func (d *Diff) Hunks() []Hunk { return d.hunks }

// Kind says what happened to a region.
type Kind string

// The kinds of change.
const (
	Added    Kind = "added"    // lines that only the new text has
	Removed  Kind = "removed"  // lines that only the old text has
	Modified Kind = "modified" // lines of the old text that others stand for in the new
)

// Change is one region that differs, told for somebody who knows the old text.
//
// StartLine and EndLine count from 1, both inclusive, in the text that has the
// lines: the old one for Removed and Modified, the new one for Added. OldStart
// and NewStart give both sides for every kind; where a side has no line it is the
// line before which the other's stand, one past the last at the end of the text.
//
// Contents and context are whole lines without the "\n" of the last one. When
// that last line has none to begin with, being the end of its text,
// OldNoNewline or NewNoNewline says so.
type Change struct {
	Kind               Kind
	StartLine, EndLine int

	OldStart, OldLines int
	NewStart, NewLines int

	OldContent, NewContent     string
	OldNoNewline, NewNoNewline bool

	ContextBefore, ContextAfter string // unchanged lines next to the region
}

// Changes returns every region with up to context unchanged lines on each side,
// none of which is shared with another region's lines.
func (d *Diff) Changes(context int) []Change {
	changes := make([]Change, len(d.hunks))
	for i, h := range d.hunks {
		c := Change{
			OldStart: h.Old.Line + 1, OldLines: h.Old.Lines(),
			NewStart: h.New.Line + 1, NewLines: h.New.Lines(),
		}
		c.OldContent, c.OldNoNewline = content(h.Old.Of(d.old))
		c.NewContent, c.NewNoNewline = content(h.New.Of(d.new))
		switch {
		case c.OldLines == 0:
			c.Kind, c.StartLine, c.EndLine = Added, c.NewStart, h.New.LineEnd
		case c.NewLines == 0:
			c.Kind, c.StartLine, c.EndLine = Removed, c.OldStart, h.Old.LineEnd
		default:
			c.Kind, c.StartLine, c.EndLine = Modified, c.OldStart, h.Old.LineEnd
		}
		from, to := 0, len(d.old)
		if i > 0 {
			from = d.hunks[i-1].Old.ByteEnd
		}
		if i+1 < len(d.hunks) {
			to = d.hunks[i+1].Old.Byte
		}
		c.ContextBefore, _ = content(lastLines(d.old[from:h.Old.Byte], context))
		c.ContextAfter, _ = content(firstLines(d.old[h.Old.ByteEnd:to], context))
		changes[i] = c
	}
	return changes
}

func content(lines []byte) (text string, noNewline bool) {
	text, found := strings.CutSuffix(string(lines), "\n")
	return text, !found && len(lines) > 0
}

func firstLines(text []byte, n int) []byte {
	end := 0
	for ; n > 0 && end < len(text); n-- {
		end = lineEnd(text, end)
	}
	return text[:end]
}

func lastLines(text []byte, n int) []byte {
	start := len(text)
	for ; n > 0 && start > 0; n-- {
		start = bytes.LastIndexByte(text[:start-1], '\n') + 1
	}
	return text[start:]
}

// lineEnd returns where the line that begins at i ends.
func lineEnd(text []byte, i int) int {
	if n := bytes.IndexByte(text[i:], '\n'); n >= 0 {
		return i + n + 1
	}
	return len(text)
}

// Summary counts what differs. A modified region counts with the larger of its
// two sides, in LinesModified alone.
type Summary struct {
	LinesAdded, LinesRemoved, LinesModified int
	RegionsChanged                          int
}

// Summary counts what differs.
func (d *Diff) Summary() Summary {
	s := Summary{RegionsChanged: len(d.hunks)}
	for _, h := range d.hunks {
		switch old, new := h.Old.Lines(), h.New.Lines(); {
		case old == 0:
			s.LinesAdded += new
		case new == 0:
			s.LinesRemoved += old
		default:
			s.LinesModified += max(old, new)
		}
	}
	return s
}
