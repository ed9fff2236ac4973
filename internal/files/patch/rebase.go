package patch

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// Verdict says what has become of an edit that was meant for another text.
type Verdict string

// The verdicts.
const (
	// Applies: the edit as it stands does on the current text what was meant.
	Applies Verdict = "applies"
	// AlreadyApplied: somebody else has made the same change.
	AlreadyApplied Verdict = "already_applied"
	// Moved: what was meant is still there, and it is known where, but not where
	// the edit as it stands would look, or not where it was.
	Moved Verdict = "moved"
	// Ambiguous: the old text occurs more than once, and any could be meant.
	Ambiguous Verdict = "ambiguous"
	// Conflicts: what was to be replaced is gone, or has become something else.
	Conflicts Verdict = "conflicts"
)

// The reasons of a finding that is Ambiguous or Conflicts.
const (
	ReasonNotFound = "old_string not found in current version"
	ReasonContext  = "old_string found but surrounding context changed"
)

// Finding is what has become of one edit.
type Finding struct {
	Verdict Verdict
	AsIs    bool   // the edit as it stands does on the current text what was meant
	Reason  string // of what conflicts; else empty
	Line    int    // of the current text, where the edit belongs; 0 when unknown
	Lines   []int  // Ambiguous: where the old text occurs, the first few
	Nearest *Match // Conflicts: what is most like the old text, if anything is
}

// fits reports whether the edit can be carried over.
func (f *Finding) fits() bool {
	return f.Verdict == Applies || f.Verdict == AlreadyApplied || f.Verdict == Moved
}

// Report is what has become of all edits of a call.
type Report struct {
	Findings []Finding // one for each edit
	TooLarge bool      // the edited text would be longer than allowed
}

// Fits reports whether all edits can be carried over to the current text.
func (r *Report) Fits() bool { return len(r.Conflicts()) == 0 && !r.TooLarge }

// Applicable reports whether Apply would take all edits as they stand on the
// current text, and do what was meant. That is less often so than Fits: an edit
// that has been made already need not, and a moved one may not, be made again.
func (r *Report) Applicable() bool {
	return !r.TooLarge && !slices.ContainsFunc(r.Findings, func(f Finding) bool { return !f.AsIs })
}

// Conflict is an edit that cannot be carried over.
type Conflict struct {
	Index  int
	Reason string
}

// Conflicts returns the edits that cannot be carried over.
func (r *Report) Conflicts() []Conflict {
	var out []Conflict
	for i, f := range r.Findings {
		if !f.fits() {
			out = append(out, Conflict{i, f.Reason})
		}
	}
	return out
}

// NonConflicting returns the indices of all other edits.
func (r *Report) NonConflicting() []int {
	var out []int
	for i, f := range r.Findings {
		if f.fits() {
			out = append(out, i)
		}
	}
	return out
}

// Check tells what has become of edits that were made for base now that the text
// is current. Without the base, nil, what can be said is less: nothing is then
// known to be moved or already applied.
//
// Edits are judged one after the other, each on what those before would leave.
func Check(edits []Edit, base, current []byte, limit int) Report {
	_, r := Rebase(edits, base, current, limit)
	return r
}

// Rebase carries edits that were made for base over to the current text and
// returns that text with all of them applied, or nil if not all of them fit.
// Where an edit does not fit, the report goes on without it.
func Rebase(edits []Edit, base, current []byte, limit int) ([]byte, Report) {
	r := rebaser{now: newEditor(current, limit), budget: searchBudget}
	if base != nil {
		r.then, r.runs = newEditor(base, limit), align(base, current)
	}
	for i := range edits {
		r.report.Findings = append(r.report.Findings, r.edit(&edits[i]))
	}
	if !r.report.Fits() {
		return nil, r.report
	}
	if r.now.text == nil {
		return []byte{}, r.report
	}
	return r.now.text, r.report
}

// rebaser applies the edits to both texts side by side, so that it always knows
// which parts of them belong together.
type rebaser struct {
	then   *editor // the base; nil: unknown
	now    *editor
	runs   runs
	budget int // for looking for what is alike
	report Report
}

// edit judges an edit and applies it where it can be.
func (r *rebaser) edit(e *Edit) Finding {
	meant, known := r.meant(e)
	var f Finding
	var p placed
	switch {
	case !known:
		f, p = r.unknown(e)
	case e.byLines():
		f, p = r.lines(e, meant)
	case e.ReplaceAll:
		f, p = r.everywhere(e, meant)
	default:
		f, p = r.text(e, meant)
	}
	if !r.now.replace(p) || known && !r.then.replace(meant) {
		r.report.TooLarge = true
		return f
	}
	r.follow(meant, p)
	return f
}

// meant returns what the edit was meant to do to the base, if that is known.
func (r *rebaser) meant(e *Edit) (placed, bool) {
	if r.then == nil {
		return placed{}, false
	}
	p, why := r.then.find(e)
	return p, why == 0
}

// follow keeps the runs in step with what was done to the two texts.
func (r *rebaser) follow(meant, p placed) {
	if r.then == nil {
		return
	}
	var common []run // what both now have in the place of the ranges
	if len(meant.ranges) == len(p.ranges) && meant.with == p.with {
		var moved [2]int // by the replacements before
		for i, s := range meant.ranges {
			at := p.ranges[i]
			if _, around := r.runs.around(s); around.from <= at.from && at.to <= around.to {
				common = append(common, run{[2]int{s.from + moved[base], at.from + moved[current]}, len(p.with)})
			}
			moved[base] += len(p.with) - s.len()
			moved[current] += len(p.with) - at.len()
		}
	}
	r.runs.cut(base, meant.ranges, len(meant.with))
	r.runs.cut(current, p.ranges, len(p.with))
	r.runs.add(common)
}

// unknown judges an edit of which nothing is known but what it says.
func (r *rebaser) unknown(e *Edit) (Finding, placed) {
	p, why := r.now.find(e)
	switch {
	case why == Repeated:
		return r.ambiguous(e), placed{}
	case why == 0 && (!e.byLines() || e.Expected != nil):
		return Finding{Verdict: Applies, AsIs: true, Line: r.now.lineAt(p.ranges[0].from)}, p
	}
	wanted := e.Old
	if e.Expected != nil {
		wanted = *e.Expected
	}
	return r.conflict(ReasonNotFound, wanted, span{}), placed{}
}

// text judges the edit of a piece of text that occurs once in the base.
func (r *rebaser) text(e *Edit, meant placed) (Finding, placed) {
	s := meant.ranges[0]
	place, kept := r.runs.find(s)
	if !kept || e.New != e.Old && strings.Contains(e.New, e.Old) {
		if at, ok := r.done(s, e.New); ok {
			return r.already(at)
		}
	}
	all := r.now.occurrences(e.Old, 2)
	unique := len(all) == 1
	if !kept {
		_, around := r.runs.around(s)
		near := r.now.occurrencesIn(around, e.Old, 2)
		switch {
		case len(all) == 0:
			return r.conflict(ReasonNotFound, e.Old, around), placed{}
		case len(near) == 1:
			place = span{near[0], near[0] + s.len()}
		case !unique:
			return r.ambiguous(e), placed{}
		default:
			place = span{all[0], all[0] + s.len()}
			if !r.sameSurroundings(s, place) {
				f := Finding{Verdict: Conflicts, Reason: ReasonContext, Line: r.now.lineAt(place.from)}
				return f, placed{}
			}
			return Finding{Verdict: Moved, AsIs: true, Line: r.now.lineAt(place.from)}, placed{[]span{place}, e.New}
		}
	}
	f := Finding{Verdict: Applies, AsIs: unique, Line: r.now.lineAt(place.from)}
	if !unique {
		f.Verdict = Moved
	}
	return f, placed{[]span{place}, e.New}
}

// everywhere judges the edit of all occurrences of a piece of text.
func (r *rebaser) everywhere(e *Edit, meant placed) (Finding, placed) {
	p, why := r.now.find(e)
	if why != 0 || strings.Contains(e.New, e.Old) {
		// Where the old text is part of the new one, those that somebody else has
		// replaced would be replaced again.
		line, done := 0, 0
		for _, s := range meant.ranges {
			if at, ok := r.done(s, meant.with); ok {
				line = cmp.Or(line, r.now.lineAt(at.from))
				done++
			}
		}
		switch {
		case done == len(meant.ranges):
			return Finding{Verdict: AlreadyApplied, Line: line}, placed{}
		case why != 0:
			return r.conflict(ReasonNotFound, e.Old, span{}), placed{}
		case done > 0:
			return Finding{Verdict: Conflicts, Reason: ReasonContext, Line: line}, placed{}
		}
	}
	return Finding{Verdict: Applies, AsIs: true, Line: r.now.lineAt(p.ranges[0].from)}, p
}

// lines judges the edit of a range of lines.
func (r *rebaser) lines(e *Edit, meant placed) (Finding, placed) {
	s := meant.ranges[0]
	place, kept := r.runs.find(s)
	if s.len() == 0 {
		place.from, kept = r.runs.point(s.from)
		place.to = place.from
	}
	if !kept {
		if at, ok := r.done(s, meant.with); ok {
			return r.already(at)
		}
		_, around := r.runs.around(s)
		reason, old := ReasonContext, r.then.text[s.from:s.to]
		if !bytes.Contains(r.now.text, old) {
			reason = ReasonNotFound
		}
		return r.conflict(reason, string(old), around), placed{}
	}
	f := Finding{Verdict: Moved, Line: r.now.lineAt(place.from)}
	if at, why := r.now.lines(e); why == 0 && at == place {
		f.Verdict, f.AsIs = Applies, true
	}
	return f, r.now.wholeLines(place, e.New)
}

// already says that somebody else has made the change; at is where what was to
// be put there stands.
func (r *rebaser) already(at span) (Finding, placed) {
	f := Finding{Verdict: AlreadyApplied, Line: r.now.lineAt(at.from)}
	return f, placed{[]span{at}, string(r.now.text[at.from:at.to])} // nothing changes
}

// done reports whether the current text has what replacing s in the base by with
// gives, and where with stands there: the very lines that would come out, where
// those of s were, and only since.
func (r *rebaser) done(s span, with string) (at span, ok bool) {
	then, now := r.then.text, r.now.text
	lines := s
	if s.len() > 0 {
		lines = span{bytes.LastIndexByte(then[:s.from], '\n') + 1, lineEnd(then, s.to-1)}
	}
	inBase, inCurrent := r.runs.around(lines)
	want := slices.Concat(then[lines.from:s.from], []byte(with), then[s.to:lines.to])
	if len(want) == 0 {
		return inCurrent, inCurrent.len() == 0 && lines.len() > 0
	}
	from := wholeLinesIn(now, inCurrent, want)
	if from < 0 || wholeLinesIn(then, inBase, want) >= 0 {
		return span{}, false
	}
	from += s.from - lines.from
	return span{from, from + len(with)}, true
}

// wholeLinesIn returns where in a part of the text the given lines stand, or -1.
func wholeLinesIn(text []byte, in span, lines []byte) int {
	for from := in.from; from+len(lines) <= in.to; {
		i := bytes.Index(text[from:in.to], lines)
		if i < 0 {
			break
		}
		at, end := from+i, from+i+len(lines)
		if (at == 0 || text[at-1] == '\n') && (end == len(text) || text[end-1] == '\n') {
			return at
		}
		from = lineEnd(text, at)
	}
	return -1
}

func lineEnd(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// sameSurroundings reports whether a part of the base and a part of the current
// text, which say the same, have the same rest of the line and the same lines
// around them, blank ones aside.
func (r *rebaser) sameSurroundings(s, place span) bool {
	a, b := surroundings(r.then.text, s), surroundings(r.now.text, place)
	return bytes.Equal(a[0], b[0]) && bytes.Equal(a[1], b[1])
}

// surroundings returns what stands before and behind s: the rest of the line and
// all up to the end of the next line that says something.
func surroundings(text []byte, s span) [2][]byte {
	from, to := s.from, s.to
	for range maxBlank {
		from = bytes.LastIndexByte(text[:max(from-1, 0)], '\n') + 1
		if i := bytes.IndexByte(text[from:s.from], '\n'); i >= 0 && len(bytes.TrimSpace(text[from:from+i])) > 0 {
			break
		}
	}
	for range maxBlank {
		start := to
		to = lineEnd(text, to)
		if start > s.to && len(bytes.TrimSpace(text[start:to])) > 0 {
			break
		}
	}
	return [2][]byte{text[from:s.from], text[s.to:to]}
}

// maxBlank is how far the next line that says something is looked for.
const maxBlank = 20

func (r *rebaser) ambiguous(e *Edit) Finding {
	return Finding{Verdict: Ambiguous, Reason: ReasonContext, Lines: r.now.linesAt(r.now.occurrences(e.Old, maxNamed))}
}

// conflict says that what was wanted is not there. Near is where it was.
func (r *rebaser) conflict(reason, wanted string, near span) Finding {
	return Finding{Verdict: Conflicts, Reason: reason, Nearest: r.now.nearest(wanted, near, &r.budget)}
}
