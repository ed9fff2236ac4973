// Package patch applies edits to a text, tells why they no longer fit a text that
// has moved on, and carries them over to it.
//
// An edit replaces a piece of text that occurs exactly once, every occurrence of
// a piece, or a range of lines. Edits are applied one after the other: a piece is
// looked for in what the edits before have left. Line numbers, though, are those
// of the text before the first edit, since that is the text the caller has seen;
// two edits of one call may not touch the same lines.
//
// Text is taken literally and never decoded: bytes outside the edits stay as they
// are, valid or not. A line ends with "\n".
//
// All functions are pure. Their work is linear in the size of the texts for each
// edit, and the search for what an edit may have meant is bounded.
package patch

import (
	"errors"
	"fmt"
	"strings"
)

// Edit is one change of a text. With StartLine it replaces lines, else text.
type Edit struct {
	// Old occurs exactly once, or with ReplaceAll at least once. New stands in
	// its place afterwards.
	Old        string
	New        string
	ReplaceAll bool

	// StartLine to EndLine are replaced by New, counted from 1 and inclusive.
	// With EndLine one less than StartLine, New is put before StartLine, which
	// may then be one past the last. New is whole lines: the line end after the
	// last one is supplied where New has none. Empty, it removes the lines.
	StartLine, EndLine int
	// Expected, if given, is what the lines must say; the last line end may be
	// left out.
	Expected *string
}

func (e *Edit) byLines() bool { return e.StartLine != 0 || e.EndLine != 0 }

// Reason says why an edit does not fit.
type Reason int

// The reasons.
const (
	NotFound    Reason = iota + 1 // the old text does not occur
	Repeated                      // it occurs more than once
	EmptyOld                      // there is no old text to look for
	NoSuchLines                   // the lines are not all there, or in the wrong order
	Unexpected                    // the lines do not say what was expected
	Touched                       // an edit before has changed the same lines
)

// Error says which edit does not fit a text, and why.
type Error struct {
	Index   int // of the edit
	Reason  Reason
	Count   int    // Repeated: how often the old text occurs
	Lines   []int  // Repeated: the lines on which it begins, the first few
	Nearest *Match // NotFound: what is most like it, if anything is
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "patch %d: ", e.Index)
	switch e.Reason {
	case NotFound:
		b.WriteString("old_string not found")
	case Repeated:
		fmt.Fprintf(&b, "old_string occurs %d times, on lines %s; make it longer or set replace_all", e.Count, list(e.Lines, e.Count))
	case EmptyOld:
		b.WriteString("old_string is empty")
	case NoSuchLines:
		b.WriteString("start_line and end_line are not lines of the file")
	case Unexpected:
		b.WriteString("the lines are not as expected")
	case Touched:
		b.WriteString("an earlier patch changes the same lines")
	}
	if e.Nearest != nil {
		fmt.Fprintf(&b, "; most alike is line %d", e.Nearest.Line)
	}
	return b.String()
}

func list(lines []int, count int) string {
	s := strings.Trim(strings.ReplaceAll(fmt.Sprint(lines), " ", ", "), "[]")
	if count > len(lines) {
		s += ", …"
	}
	return s
}

// ErrTooLarge is returned when the edited text would be longer than allowed.
var ErrTooLarge = errors.New("the edited text is too large")

// Apply returns text with all edits applied, in order. It returns an *Error for
// the first that does not fit, and ErrTooLarge when the text would come to have
// more than limit bytes; 0 is no limit.
func Apply(text []byte, edits []Edit, limit int) ([]byte, error) {
	ed := newEditor(text, limit)
	for i := range edits {
		p, reason := ed.find(&edits[i])
		if reason != 0 {
			return nil, ed.failure(i, &edits[i], reason)
		}
		if !ed.replace(p) {
			return nil, ErrTooLarge
		}
	}
	return ed.text, nil
}

func (ed *editor) failure(index int, e *Edit, why Reason) *Error {
	err := &Error{Index: index, Reason: why}
	switch why {
	case NotFound:
		budget := searchBudget
		err.Nearest = ed.nearest(e.Old, span{}, &budget)
	case Repeated:
		at := ed.occurrences(e.Old, maxNamed)
		err.Count, err.Lines = ed.count(e.Old, at), ed.linesAt(at)
	default: // the edit itself says all there is to say
	}
	return err
}
