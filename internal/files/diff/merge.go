package diff

import "cmp"

// Conflict is a place where two versions changed the same lines of their base in
// different ways.
type Conflict struct {
	Base, Theirs, Yours Span
}

// Merge puts together what two versions changed in their base. When they are in
// conflict it returns no text but every conflict.
//
// Two changes are in conflict when both replace or remove the same line, when one
// adds lines in the midst of those the other replaces, and when both add lines at
// the same place, unless what comes out is the same. Changes that only touch are
// merged: lines added at the edge of a replaced region stand before or after what
// replaces it. Every line of the merged text is a line of theirs or of yours.
func Merge(base, theirs, yours []byte) ([]byte, []Conflict) {
	m := merger{base: base}
	m.sides[0] = version{theirs, compare(base, theirs)}
	m.sides[1] = version{yours, compare(base, yours)}
	for m.next() {
	}
	if m.conflicts != nil {
		return nil, m.conflicts
	}
	return append(m.merged, base[m.done:]...), nil
}

// version is one of the two texts and its hunks that are not merged yet.
type version struct {
	text  []byte
	hunks []Hunk
}

type merger struct {
	base      []byte
	sides     [2]version
	merged    []byte // stands for base[:done]
	done      int
	conflicts []Conflict
}

// next merges the first hunk and all that are entangled with it.
func (m *merger) next() bool {
	var group [2][]Hunk
	for {
		from, h, ok := m.first()
		if !ok {
			break
		}
		if len(group[0])+len(group[1]) > 0 && !m.entangled(1-from, group[1-from], h) {
			break
		}
		group[from] = append(group[from], h)
		m.sides[from].hunks = m.sides[from].hunks[1:]
	}
	switch {
	case len(group[0])+len(group[1]) == 0:
		return false
	case len(group[1]) == 0:
		m.take(0, group[0][0])
	case len(group[0]) == 0:
		m.take(1, group[1][0])
	default:
		m.reconcile(group)
	}
	return true
}

// first returns the hunk that comes next and whose it is.
func (m *merger) first() (side int, h Hunk, ok bool) {
	a, b := m.sides[0].hunks, m.sides[1].hunks
	switch {
	case len(a) == 0 && len(b) == 0:
		return 0, Hunk{}, false
	case len(b) == 0 || len(a) > 0 && order(a[0].Old, b[0].Old) <= 0:
		return 0, a[0], true
	default:
		return 1, b[0], true
	}
}

// order sorts added lines before a region that begins where they stand.
func order(a, b Span) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.LineEnd, b.LineEnd))
}

// take puts a hunk of one side into the merged text.
func (m *merger) take(side int, h Hunk) {
	m.merged = append(m.merged, m.base[m.done:h.Old.Byte]...)
	m.merged = append(m.merged, h.New.Of(m.sides[side].text)...)
	m.done = h.Old.ByteEnd
}

// reconcile looks at what both sides made of the same part of the base.
func (m *merger) reconcile(group [2][]Hunk) {
	whole := hull(hull(group[0][0].Old, group[1][0].Old), hull(group[0][len(group[0])-1].Old, group[1][len(group[1])-1].Old))
	theirs, yours := became(group[0], whole), became(group[1], whole)
	if string(theirs.Of(m.sides[0].text)) == string(yours.Of(m.sides[1].text)) {
		m.take(0, Hunk{whole, theirs})
		return
	}
	m.conflicts = append(m.conflicts, Conflict{whole, theirs, yours})
}

func hull(a, b Span) Span {
	return Span{min(a.Line, b.Line), max(a.LineEnd, b.LineEnd), min(a.Byte, b.Byte), max(a.ByteEnd, b.ByteEnd)}
}

// became returns what one side's hunks made of a part of the base that begins
// before and ends behind them.
func became(hunks []Hunk, base Span) Span {
	first, last := hunks[0], hunks[len(hunks)-1]
	return Span{
		Line:    first.New.Line - (first.Old.Line - base.Line),
		LineEnd: last.New.LineEnd + (base.LineEnd - last.Old.LineEnd),
		Byte:    first.New.Byte - (first.Old.Byte - base.Byte),
		ByteEnd: last.New.ByteEnd + (base.ByteEnd - last.Old.ByteEnd),
	}
}

// entangled reports whether h and one of the other side's hunks before it get
// into each other's way. Nothing can follow a last line that has no end.
func (m *merger) entangled(side int, earlier []Hunk, h Hunk) bool {
	for _, e := range earlier {
		text := e.New.Of(m.sides[side].text)
		if overlap(e.Old, h.Old) || !startsLine(text, len(text)) && h.Old.Line == e.Old.LineEnd {
			return true
		}
	}
	return false
}

// overlap reports whether changes of the two parts of the base get into each
// other's way. The first one is not behind the second.
func overlap(a, b Span) bool {
	if a.Lines() == 0 || b.Lines() == 0 {
		return a.Line == b.Line && a.LineEnd == b.LineEnd || a.Line < b.Line && b.LineEnd < a.LineEnd
	}
	return b.Line < a.LineEnd
}
