// Package pattern compiles regular expressions and path globs that come from
// settings and from callers, and matches them in bounded time.
//
// A regular expression is RE2 wherever RE2 can say it: linear in the text,
// whatever the pattern. One that needs look-around, a backreference or an atomic
// group is run by a backtracking engine under a time limit; [Regexp.Slow] tells,
// and past the limit matching answers [ErrTimeout] instead of guessing. Where the
// two dialects overlap they mean the same. A [Glob] is about paths.
//
// Compiled values are immutable and safe for concurrent use. What a match means,
// and what to do about a timeout, is left to the caller. The backtracking engine
// keeps a clock of its own running for about a second after its last use.
package pattern

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

const (
	// Limit is how long the backtracking engine may take on a text of up to
	// 256 KiB.
	Limit = 100 * time.Millisecond
	// LongLimit is the same for longer texts, where honest patterns need more.
	LongLimit = 2 * time.Second

	shortText = 256 << 10
	// maxExpr bounds the source of a pattern: compilers recurse.
	maxExpr = 32 << 10
)

// ErrTimeout says that a pattern was given up: it took longer than its limit or
// backtracked too deep. It never holds any of the text.
var ErrTimeout = errors.New("the pattern took too long on this text")

// Regexp is a compiled regular expression.
type Regexp struct {
	expr string

	linear *regexp.Regexp
	prefix string  // what every match begins with
	finder *finder // narrows long texts down for linear

	// In place of linear, for patterns it cannot say: one for each limit.
	short, long *regexp2.Regexp
}

// Span is a part of a text: from byte Start up to byte End.
type Span struct{ Start, End int }

// Compile compiles expr. The error is a *[SyntaxError].
func Compile(expr string) (*Regexp, error) {
	if len(expr) > maxExpr {
		return nil, tooLong(expr, maxExpr)
	}
	re, err := regexp.Compile(expr)
	if err == nil {
		prefix, _ := re.LiteralPrefix()
		return &Regexp{expr: expr, linear: re, prefix: prefix, finder: newFinder(expr)}, nil
	}
	refused, beyond := explain(expr, err)
	if !beyond {
		return nil, refused
	}
	if at := strayEscape(expr); at >= 0 {
		known := refusals[syntax.ErrInvalidEscape]
		return nil, &SyntaxError{expr, at, fmt.Sprintf(known.reason, expr[at:at+2]), known.advice}
	}
	r := &Regexp{expr: expr}
	if r.short, err = backtracking(expr, Limit); err == nil {
		r.long, err = backtracking(expr, LongLimit)
	}
	if err != nil {
		return nil, refused.inOther(err)
	}
	return r, nil
}

// tick makes the backtracking engine look at the time often enough for Limit to
// mean something. It is set before the engine is first used.
var tick = sync.OnceFunc(func() { regexp2.SetTimeoutCheckPeriod(10 * time.Millisecond) })

func backtracking(expr string, limit time.Duration) (re *regexp2.Regexp, err error) {
	tick()
	defer recovered(&err)
	if re, err = regexp2.Compile(expr, regexp2.RE2); err != nil {
		return nil, err
	}
	re.MatchTimeout = limit
	return re, nil
}

// recovered turns a panic of the backtracking engine into an error: pattern and
// text come from outside, and a fault there must not end the server.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the pattern engine failed: %v", p)
	}
}

// String returns the source of the pattern.
func (r *Regexp) String() string { return r.expr }

// Slow reports whether the pattern needs the backtracking engine, and so a time
// limit.
func (r *Regexp) Slow() bool { return r.linear == nil }

// Engine names the engine that runs the pattern: re2 or backtracking.
func (r *Regexp) Engine() string {
	if r.Slow() {
		return "backtracking"
	}
	return "re2"
}

// Match reports whether the pattern occurs in text, be it as an empty match. The
// only error is [ErrTimeout], and only a slow pattern returns it.
func (r *Regexp) Match(text string) (found bool, err error) {
	if !r.Slow() {
		r.search(text, func(part string, _ int) bool {
			found = r.linear.MatchString(part)
			return !found
		})
		return found, nil
	}
	re, _ := r.limited(text)
	if found, err = matchString(re, text); err != nil {
		return false, ErrTimeout // the engine's own error quotes the text
	}
	return found, nil
}

func matchString(re *regexp2.Regexp, text string) (found bool, err error) {
	defer recovered(&err)
	return re.MatchString(text)
}

// FindAll returns the matches in text from left to right, without overlap, at
// most limit of them (all if limit is negative). Empty matches are left out. The
// only error is [ErrTimeout], and only a slow pattern returns it.
func (r *Regexp) FindAll(text string, limit int) ([]Span, error) {
	if r.Slow() {
		return r.backtrack(text, limit)
	}
	var spans []Span
	r.search(text, func(part string, at int) bool {
		for _, m := range findAll(r.linear, part, limit-len(spans)) {
			spans = append(spans, Span{at + m[0], at + m[1]})
		}
		return len(spans) != limit
	})
	return spans, nil
}

// findAll returns up to limit matches that are not empty, or all. It does not
// gather all matches to hand out a few.
func findAll(re *regexp.Regexp, part string, limit int) [][]int {
	for ask := limit; ; ask *= 2 {
		all := re.FindAllStringIndex(part, ask)
		kept := make([][]int, 0, len(all))
		for _, m := range all {
			if m[0] < m[1] {
				kept = append(kept, m)
			}
		}
		switch {
		case limit < 0 || len(kept) < limit && len(all) < ask:
			return kept
		case len(kept) >= limit:
			return kept[:limit]
		}
	}
}

// search calls found with the parts of text that may hold matches, and where
// each begins, until it returns false. No match reaches over the edge of a part,
// and to the pattern the edge looks as that place in the text does.
func (r *Regexp) search(text string, found func(part string, at int) bool) {
	if len(text) < worthNarrowing {
		found(text, 0)
		return
	}
	if r.prefix != "" && !strings.Contains(text, r.prefix) {
		return
	}
	r.finder.parts(text, found)
}

func (r *Regexp) limited(text string) (*regexp2.Regexp, time.Duration) {
	if len(text) > shortText {
		return r.long, LongLimit
	}
	return r.short, Limit
}

// backtrack is FindAll with the backtracking engine. The engine limits each
// match; here the same limit holds for all of them together.
func (r *Regexp) backtrack(text string, limit int) ([]Span, error) {
	re, allowed := r.limited(text)
	deadline := time.Now().Add(allowed)
	var spans []Span
	at := place{text: text}
	late := false
	err := findRunes(re, []rune(text), func(m regexp2.MatchView) bool {
		if i, n, _ := m.GroupRange(0); n > 0 && len(spans) != limit {
			spans = append(spans, Span{at.bytes(i), at.bytes(i + n)})
		}
		late = time.Now().After(deadline)
		return !late && len(spans) != limit
	})
	if err != nil || late {
		return nil, ErrTimeout
	}
	return spans, nil
}

func findRunes(re *regexp2.Regexp, text []rune, yield func(regexp2.MatchView) bool) (err error) {
	defer recovered(&err)
	return re.FindRunesMatches(text, -1, yield)
}

// place turns rune positions into byte positions, in one pass if they grow.
type place struct {
	text   string
	rune   int
	offset int
}

func (p *place) bytes(rune int) int {
	if rune < p.rune {
		p.rune, p.offset = 0, 0
	}
	for ; p.rune < rune; p.rune++ {
		_, n := utf8.DecodeRuneInString(p.text[p.offset:])
		p.offset += n
	}
	return p.offset
}
