// Package linematch finds the lines of a text that a regular expression matches:
// those that package regexp would find, and faster wherever the pattern is more
// than one plain literal, at which that package is as good.
//
// Patterns are RE2, as package regexp reads them, and are about one line at a
// time: ^ and $ are its ends, nothing matches a line feed, a carriage return is
// an ordinary character, and a byte that is no UTF-8 counts as U+FFFD, so that a
// dot matches it. A text is a sequence of lines; the last may lack its line feed.
//
// A [Matcher] chooses once how to look:
//
//	every line, or none                    the pattern matches the empty text, or nothing
//	literals alone                         the pattern is a few literals
//	literals, then the automaton           on lines that hold a literal every match must hold
//	the automaton, four places at once     when no literal helps
//	lines that pass a weaker pattern, then backtracking   for look-around and backreferences
//
// A Matcher is immutable and safe for concurrent use; each goroutine takes a
// [Scanner] from it. Memory is bounded by the length of the pattern and a fixed
// size per Scanner. All but backtracking takes time linear in the text; that is
// limited per line, and ends with [pattern.ErrTimeout]. Which texts are worth
// looking at is left to others: [Matcher.Required] is what an index needs for it.
package linematch

import (
	"errors"
	"regexp/syntax"
	"sync"

	"github.com/async-crud-mcp/async-crud-mcp/internal/pattern"
)

// Options say how a pattern is read.
type Options struct {
	FoldCase bool // letters match in either case
}

// ErrStopped says that a scan was stopped before its end.
var ErrStopped = errors.New("the scan was stopped")

// Span is a part of a text: from byte Start up to byte End.
type Span = pattern.Span

// Matcher is a compiled pattern.
type Matcher struct {
	full    *pattern.Regexp // finds the spans; for slow patterns all there is
	way     way
	prog    *program // nil: the automaton is not needed
	limit   int      // bytes of states that a Scanner may keep
	needles []*needle
	shared  *needle // what all needles begin or end with, if that is worth looking for
	atEnd   bool    // they end with it
	require [][]Literal
	jumps   bool // much of most lines need not be read
	pool    sync.Pool
}

// way is how lines are found.
type way uint8

const (
	byAutomaton  way = iota
	byLiterals       // those that hold one of the needles match
	byCandidates     // those that hold one of the needles may match
	every
	none
)

// stateLimit is how many bytes of states a Scanner keeps.
const stateLimit = 4 << 20

// Compile compiles expr. The error is a *[pattern.SyntaxError], which says where
// the fault is and what to write instead.
func Compile(expr string, o Options) (*Matcher, error) {
	return compile(expr, o, stateLimit)
}

func compile(expr string, o Options, limit int) (*Matcher, error) {
	source := expr
	if o.FoldCase {
		source = "(?i)" + expr
	}
	full, err := pattern.Compile(source)
	if err != nil {
		if _, plain := pattern.Compile(expr); plain != nil {
			err = plain // speaks of what the caller wrote
		}
		return nil, err
	}
	m := &Matcher{full: full, limit: limit}
	m.pool.New = func() any { return newScanner(m) }
	linear := expr
	if full.Slow() {
		if linear, err = weaken(expr); err != nil {
			m.way = every
			return m, nil
		}
	}
	re, err := parse(linear, o.FoldCase)
	switch {
	case errors.Is(err, errNeedsLineFeed):
		return nil, needsLineFeed(expr)
	case err != nil && full.Slow():
		m.way = every // the weaker pattern is not what it should be
		return m, nil
	case err != nil:
		return nil, err
	}
	return m, m.choose(re)
}

// choose decides how lines are found that re matches.
func (m *Matcher) choose(re *syntax.Regexp) error {
	if re.Op == syntax.OpNoMatch {
		m.way = none
		return nil
	}
	prog, err := newProgram(re)
	if err != nil {
		return err
	}
	whole, anchored := newAutomaton(prog, m.limit).about()
	if whole {
		m.way = every
		return nil
	}
	m.jumps = anchored
	lits := literalsOf(re)
	m.require = lits.required()
	sweep := sweepCost
	if anchored {
		sweep = anchoredCost
	}
	exact := lits.exact != nil && !lits.lossy && len(m.require) == 1
	best := sweep
	for _, set := range m.require {
		check := checkCost
		if exact {
			check = 0
		}
		needles := make([]*needle, len(set))
		cost := check * shareOf(set)
		for i, l := range set {
			needles[i] = newNeedle(l)
			cost += needles[i].cost()
		}
		if cost < best {
			best, m.needles, m.shared = cost, needles, nil
		}
		if l, atEnd := inCommon(set); len(set) > 1 && l.Text != "" {
			shared := newNeedle(l)
			if cost := check*shareOf(set) + shared.cost() + tryCost*l.share(); cost < best {
				best, m.needles, m.shared, m.atEnd = cost, needles, shared, atEnd
			}
		}
	}
	switch {
	case m.needles == nil:
		m.way, m.prog = byAutomaton, prog
	case exact:
		m.way = byLiterals
	default:
		m.way, m.prog = byCandidates, prog
	}
	return nil
}

// What looking takes, in nanoseconds as measured: the automaton per byte, for all
// of a text and where most of a line need not be read, and per line that holds a
// literal.
const (
	sweepCost    = 0.9
	anchoredCost = 0.5
	checkCost    = 100.0
	tryCost      = 1000.0 // per place with what needles share: words have more in common than letters
)

// Slow reports whether the pattern needs look-around or a backreference, and so
// takes more time and has a time limit.
func (m *Matcher) Slow() bool { return m.full.Slow() }

// Required returns what every line that matches holds: one literal of each of the
// sets. None means that nothing is known.
func (m *Matcher) Required() [][]Literal { return m.require }

// Scanner returns a scanner for use by one goroutine. Close gives it back.
func (m *Matcher) Scanner() *Scanner { return m.pool.Get().(*Scanner) }
