package patch

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
	"strings"
)

const (
	maxNamed = 20     // occurrences of a text that are named
	maxApart = 10_000 // replacements of one edit that are remembered one by one
)

// span is a part of a text, by bytes.
type span struct{ from, to int }

func (s span) len() int { return s.to - s.from }

// placed is an edit that has found its place: every range, they are in order and
// apart, is to be replaced by with.
type placed struct {
	ranges []span
	with   string
}

// editor is a text that is being edited. It knows which parts are as they were.
type editor struct {
	original []byte
	text     []byte
	limit    int      // of the length of text; 0: none
	owned    bool     // text may be changed in place
	changes  []change // in order, apart
	starts   []int    // of the original lines, and their end; nil until needed
}

// change is a part of the original and the part of the text it has become.
type change struct{ was, is span }

func newEditor(text []byte, limit int) *editor {
	return &editor{original: text, text: text, limit: limit}
}

// find returns where e is to be applied, or why it does not fit.
func (ed *editor) find(e *Edit) (placed, Reason) {
	switch {
	case e.byLines():
		s, why := ed.lines(e)
		if why != 0 {
			return placed{}, why
		}
		return ed.wholeLines(s, e.New), 0
	case e.Old == "":
		return placed{}, EmptyOld
	case e.ReplaceAll:
		return ed.all(e)
	}
	switch at := ed.occurrences(e.Old, 2); len(at) {
	case 0:
		return placed{}, NotFound
	case 1:
		return placed{[]span{{at[0], at[0] + len(e.Old)}}, e.New}, 0
	default:
		return placed{}, Repeated
	}
}

// occurrences returns where old occurs in the text, at most limit times. They
// may overlap.
func (ed *editor) occurrences(old string, limit int) []int {
	return ed.occurrencesIn(span{0, len(ed.text)}, old, limit)
}

func (ed *editor) occurrencesIn(s span, old string, limit int) []int {
	var at []int
	what := []byte(old)
	for from := s.from; len(at) < limit && from < s.to; {
		i := bytes.Index(ed.text[from:s.to], what)
		if i < 0 {
			break
		}
		at = append(at, from+i)
		from += i + 1
	}
	return at
}

// count is how often old occurs; at are the first occurrences.
func (ed *editor) count(old string, at []int) int {
	if len(at) < maxNamed {
		return len(at)
	}
	return max(bytes.Count(ed.text, []byte(old)), len(at))
}

// all places an edit of every occurrence. Very many are taken as one edit of
// all that is between them.
func (ed *editor) all(e *Edit) (placed, Reason) {
	old := []byte(e.Old)
	n := bytes.Count(ed.text, old)
	if n == 0 {
		return placed{}, NotFound
	}
	if n > maxApart && !ed.exceeds(n*(len(e.New)-len(e.Old))) {
		s := span{bytes.Index(ed.text, old), bytes.LastIndex(ed.text, old) + len(old)}
		return placed{[]span{s}, strings.ReplaceAll(string(ed.text[s.from:s.to]), e.Old, e.New)}, 0
	}
	p := placed{with: e.New}
	for from := 0; len(p.ranges) < n; {
		from += bytes.Index(ed.text[from:], old)
		p.ranges = append(p.ranges, span{from, from + len(old)})
		from += len(old)
	}
	return p, 0
}

// exceeds reports whether so many more bytes are too many.
func (ed *editor) exceeds(more int) bool { return ed.limit > 0 && len(ed.text)+more > ed.limit }

// replace carries out an edit. It reports whether there was room for it.
func (ed *editor) replace(p placed) bool {
	if len(p.ranges) == 0 {
		return true
	}
	more := 0
	for _, r := range p.ranges {
		more += len(p.with) - r.len()
	}
	if ed.exceeds(more) {
		return false
	}
	if ed.owned && len(p.ranges) == 1 {
		ed.text = slices.Replace(ed.text, p.ranges[0].from, p.ranges[0].to, []byte(p.with)...)
	} else {
		text := make([]byte, 0, len(ed.text)+more)
		at := 0
		for _, r := range p.ranges {
			text = append(append(text, ed.text[at:r.from]...), p.with...)
			at = r.to
		}
		ed.text, ed.owned = append(text, ed.text[at:]...), true
	}
	ed.note(p.ranges, len(p.with))
	return true
}

// note remembers that every range has become n bytes long.
func (ed *editor) note(ranges []span, n int) {
	type piece struct {
		change // both still as they were before
		grown  int
	}
	var pieces []piece
	for _, c := range ed.changes {
		pieces = append(pieces, piece{change: c})
	}
	for _, r := range ranges {
		pieces = append(pieces, piece{change{ed.was(r), r}, n - r.len()})
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(a.is.from, b.is.from) })
	joined := pieces[:0]
	for _, p := range pieces {
		if k := len(joined) - 1; k >= 0 && p.is.from < joined[k].is.to {
			j := &joined[k]
			j.was, j.is, j.grown = join(j.was, p.was), join(j.is, p.is), j.grown+p.grown
			continue
		}
		joined = append(joined, p)
	}
	ed.changes = ed.changes[:0]
	shift := 0
	for _, p := range joined {
		is := span{p.is.from + shift, p.is.to + shift + p.grown}
		ed.changes = append(ed.changes, change{p.was, is})
		shift += p.grown
	}
}

func join(a, b span) span { return span{min(a.from, b.from), max(a.to, b.to)} }

// was returns the part of the original that a part of the text comes from. An
// end that is inside a change is that of the change.
func (ed *editor) was(s span) span {
	// The first change that does not end before the part begins.
	i := sort.Search(len(ed.changes), func(i int) bool { return ed.changes[i].is.to > s.from })
	from := s.from
	switch {
	case i < len(ed.changes) && ed.changes[i].is.from <= s.from:
		from = ed.changes[i].was.from
	case i > 0:
		from += ed.changes[i-1].was.to - ed.changes[i-1].is.to
	}
	if s.len() == 0 {
		return span{from, from}
	}
	// The first change that does not begin before the part ends.
	j := sort.Search(len(ed.changes), func(i int) bool { return ed.changes[i].is.from >= s.to })
	to := s.to
	switch {
	case j > 0 && ed.changes[j-1].is.to >= s.to:
		to = ed.changes[j-1].was.to
	case j > 0:
		to += ed.changes[j-1].was.to - ed.changes[j-1].is.to
	}
	return span{from, to}
}

// now returns the part of the text that a part of the original is, if no change
// has touched it. What was put right before the part is not in it.
func (ed *editor) now(s span) (span, bool) {
	i := sort.Search(len(ed.changes), func(i int) bool { return ed.changes[i].was.to > s.from })
	if i < len(ed.changes) && ed.changes[i].was.from < s.to {
		return span{}, false
	}
	if i > 0 {
		shift := ed.changes[i-1].is.to - ed.changes[i-1].was.to
		s = span{s.from + shift, s.to + shift}
	}
	return s, true
}

// lines returns the part of the text that a range of lines is, or why it cannot
// be edited.
func (ed *editor) lines(e *Edit) (span, Reason) {
	ed.index()
	if n := len(ed.starts) - 1; e.StartLine < 1 || e.StartLine > n+1 || e.EndLine < e.StartLine-1 || e.EndLine > n {
		return span{}, NoSuchLines
	}
	s, ok := ed.now(span{ed.starts[e.StartLine-1], ed.starts[e.EndLine]})
	if !ok {
		return span{}, Touched
	}
	if e.Expected != nil && !says(ed.text[s.from:s.to], *e.Expected) {
		return span{}, Unexpected
	}
	return s, 0
}

// index finds the lines of the original.
func (ed *editor) index() {
	if ed.starts != nil {
		return
	}
	ed.starts = []int{0}
	at := 0
	for line := range bytes.Lines(ed.original) {
		at += len(line)
		ed.starts = append(ed.starts, at)
	}
}

// says reports whether lines are what is expected, but for the last line end.
func says(lines []byte, expected string) bool {
	rest, ok := bytes.CutPrefix(lines, []byte(expected))
	if !ok {
		return false
	}
	switch string(rest) {
	case "":
		return true
	case "\n", "\r\n":
		return !strings.HasSuffix(expected, "\n")
	}
	return false
}

// wholeLines places an edit of whole lines: with gets the line ends it lacks.
func (ed *editor) wholeLines(s span, with string) placed {
	if with != "" {
		if s.from > 0 && ed.text[s.from-1] != '\n' {
			with = ed.lineEnd(s.from) + with
		}
		terminated := len(ed.text) > 0 && ed.text[len(ed.text)-1] == '\n'
		if !strings.HasSuffix(with, "\n") && (s.to < len(ed.text) || terminated) {
			with += ed.lineEnd(s.to)
		}
	}
	return placed{[]span{s}, with}
}

// lineEnd returns how lines end around at.
func (ed *editor) lineEnd(at int) string {
	i := bytes.LastIndexByte(ed.text[:at], '\n')
	if i < 0 {
		i = bytes.IndexByte(ed.text, '\n')
	}
	if i > 0 && ed.text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// lineAt returns the line of the original that what stands at a place of the text
// comes from, counted from 1.
func (ed *editor) lineAt(at int) int {
	from := ed.was(span{at, at}).from
	if ed.starts != nil {
		return sort.SearchInts(ed.starts, from+1)
	}
	return bytes.Count(ed.original[:from], []byte{'\n'}) + 1
}

func (ed *editor) linesAt(at []int) []int {
	lines := make([]int, len(at))
	for i, a := range at {
		lines[i] = ed.lineAt(a)
	}
	return lines
}
