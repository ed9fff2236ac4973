package linematch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/pattern"
)

// limits are the sizes of the automaton that the comparisons run with: hardly any
// states at all, a few, and as usual.
var limits = []int{1, 20_000, stateLimit}

func TestFindsTheLinesThatTheStandardEngineMatches(t *testing.T) {
	rounds := 5000
	if os.Getenv("ACM_STRESS") != "" {
		rounds = 60_000
	}
	if testing.Short() {
		rounds = 500
	}
	var mu sync.Mutex
	seen := make(map[way]int)
	tired, long := 0, 0
	var group sync.WaitGroup
	const workers = 2
	for w := range workers {
		group.Go(func() {
			for seed := w; seed < rounds && !t.Failed(); seed += workers {
				g := newGenerator(uint64(seed))
				expr, fold, text := g.pattern(), g.IntN(3) == 0, g.text()
				m, s := compare(t, expr, fold, limits[seed%len(limits)], text)
				if m == nil {
					continue
				}
				mu.Lock()
				seen[m.way]++
				if s.a != nil && s.a.tired {
					tired++
				}
				if len(text) > firstBlock {
					long++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	for _, w := range []way{byAutomaton, byLiterals, byCandidates, every} {
		if seen[w] < rounds/100 {
			t.Errorf("way %d was taken by %d of %d patterns", w, seen[w], rounds)
		}
	}
	if tired == 0 || long < rounds/100 {
		t.Errorf("%d scans gave up keeping states, %d texts were long", tired, long)
	}
}

// compare holds the matcher of expr against the standard engine on text. It
// returns nil if the pattern is refused by both.
func compare(t *testing.T, expr string, fold bool, limit int, text []byte) (*Matcher, *Scanner) {
	t.Helper()
	source := expr
	if fold {
		source = "(?i)" + expr
	}
	re, err := regexp.Compile(source)
	m, ours := compile(expr, Options{FoldCase: fold}, limit)
	if err != nil {
		if ours == nil && !m.Slow() {
			t.Errorf("%q compiles, but not as a standard pattern: %v", expr, err)
		}
		return nil, nil
	}
	if ours != nil {
		if !strings.Contains(ours.Error(), "across lines") || re.MatchString("") {
			t.Errorf("%q: %v", expr, ours)
		}
		return nil, nil
	}
	want := expected(re, text)
	s := m.Scanner()
	got := scan(s, text)
	if !slices.Equal(got, want) {
		t.Errorf("pattern %q, fold %v, limit %d, way %d, text of %d bytes: lines\n%s\nwant\n%s",
			expr, fold, limit, m.way, len(text), show(text, got, want), show(text, want, got))
	}
	for _, l := range want {
		line := text[l.Start:l.End]
		for _, set := range m.Required() {
			if !slices.ContainsFunc(set, func(l Literal) bool { return newNeedle(l).find(line, 0) >= 0 }) {
				t.Errorf("pattern %q, fold %v: line %q matches and has none of %v", expr, fold, line, set)
			}
		}
	}
	return m, s
}

func scan(s *Scanner, text []byte) (lines []Span) {
	s.Reset(text, nil)
	for {
		l, ok := s.Next()
		if !ok {
			return lines
		}
		lines = append(lines, l)
	}
}

func expected(re *regexp.Regexp, text []byte) (lines []Span) {
	for from := 0; from < len(text); {
		end := len(text)
		if i := bytes.IndexByte(text[from:], '\n'); i >= 0 {
			end = from + i
		}
		if re.Match(text[from:end]) {
			lines = append(lines, Span{Start: from, End: end})
		}
		from = end + 1
	}
	return lines
}

// show prints the first of the lines that the others lack.
func show(text []byte, lines, others []Span) string {
	for _, l := range lines {
		if !slices.Contains(others, l) {
			return fmt.Sprintf("%d: %v %.300q", len(lines), l, text[l.Start:l.End])
		}
	}
	return fmt.Sprintf("%d", len(lines))
}

// generator makes patterns and texts in which they occur now and then.
type generator struct {
	*rand.Rand
	words []string // that went into the pattern
	mild  bool     // repeat little, for the sake of backtracking
}

func newGenerator(seed uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 5))}
}

func (g *generator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g *generator) pattern() string { return g.alternatives(3) }

func (g *generator) alternatives(depth int) string {
	parts := []string{g.sequence(depth)}
	for g.IntN(4) == 0 && len(parts) < 4 {
		parts = append(parts, g.sequence(depth))
	}
	return strings.Join(parts, "|")
}

func (g *generator) sequence(depth int) string {
	var b strings.Builder
	for range 1 + g.IntN(3) {
		b.WriteString(g.piece(depth))
	}
	return b.String()
}

func (g *generator) piece(depth int) string {
	if depth > 0 && g.IntN(5) == 0 {
		return g.pick("(", "(?:", "(?i:", "(?P<n>", "(?s:", "(?m:") + g.alternatives(depth-1) + ")" + g.times()
	}
	switch g.IntN(9) {
	case 0, 1, 2:
		w := g.word()
		g.words = append(g.words, w)
		return regexp.QuoteMeta(w)
	case 3, 4:
		return g.pick("a", "b", "k", "s", "K", "ſ", "x", "é", "Σ", " ", "_", "0", ".", "\t", `\x{fffd}`, `\x00`, `\x{10ffff}`, "日") + g.times()
	case 5, 6:
		return g.pick("[a-c]", "[^a]", `\w`, `\W`, `\d`, `\s`, `\S`, "[k-s]", "[ab]", "[aA]", "[sſ]", `[^[:ascii:]]`, `\pL`, `\p{Greek}`,
			`\PL`, `[[:upper:]]`, `[é-ü]`, `[\x{fff0}-\x{ffff}]`, `[\n\r]`, `[^\n]`, `[\x{fff0}-\x{10010}]`, "[日本]", `[\x{d7ff}-\x{e000}]`, `[\x{dc00}-\x{fff0}]`, `[\x{d800}-\x{d9ff}]`) + g.times()
	case 7:
		return "." + g.times()
	default:
		return g.pick("^", "$", `\b`, `\b`, `\B`, `\A`, `\z`, "(?i)", "(?m)^", "(?m)$", `\n`)
	}
}

func (g *generator) times() string {
	if g.mild {
		return g.pick("", "?", "{2}")
	}
	return g.pick("", "", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{3,}", "{0}")
}

func (g *generator) word() string {
	if g.IntN(3) > 0 {
		return g.pick("foo", "bar", "task", "key", "once", "Sky", "if", "ab", "panic(", "log.Fatal", "straße", "ΣΊΣΥΦΟΣ", "ÉTÉ", "日本語", "x", "  ", "json:\"", "mass")
	}
	var b strings.Builder
	for range 1 + g.IntN(5) {
		b.WriteString(g.pick("a", "b", "c", "k", "s", "K", "S", "0", "_", "(", "é", "日", "\u212a", "ſ", "\ufffd"))
	}
	return b.String()
}

func (g *generator) text() []byte {
	size := g.IntN(300)
	switch g.IntN(60) {
	case 0:
		size = g.IntN(40_000)
	case 1, 2, 3, 4:
		size = g.IntN(6000)
	}
	plain := g.IntN(2) == 0 // has lines of a usual length, and is mostly ASCII
	var b []byte
	for len(b) < size {
		switch n := g.IntN(40); {
		case n < 4 && len(g.words) > 0:
			b = append(b, g.cased(g.words[g.IntN(len(g.words))])...)
		case n < 6:
			b = append(b, g.cased(g.word())...)
		case n < 8 && !plain:
			b = append(b, byte(g.IntN(256)))
		case n < 10 && !plain:
			b = append(b, g.pick("\xe6\x97", "\xe6", "\x97", "\xf0\x9f\x98", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80", "\xff", "\u2028", "\ue000", "\ud7ff", "😀", "\ufffd", "\x00", "\r\n")...)
		case n < 12:
			b = append(b, '\n')
			if g.IntN(8) == 0 {
				b = append(b, '\n')
			}
		case n < 15 && !plain:
			b = append(b, string(rune(g.IntN(0x3000)))...)
		default:
			b = append(b, g.pick("a", "b", "c", "k", "s", "K", "x", "A", " ", " ", "\t", "_", "0", "9", ".", "(", "é", "σ")...)
		}
	}
	return b
}

// cased changes the case of some words.
func (g *generator) cased(w string) string {
	switch g.IntN(5) {
	case 0:
		return strings.ToUpper(w)
	case 1:
		return strings.ToLower(w)
	case 2:
		return strings.ReplaceAll(strings.ReplaceAll(w, "k", "\u212a"), "s", "ſ")
	default:
		return w
	}
}

// Patterns that the standard engine cannot read are held against the backtracking
// engine alone.
func TestFindsTheLinesThatLookAroundMatches(t *testing.T) {
	rounds := 120
	if os.Getenv("ACM_STRESS") != "" {
		rounds = 5000
	}
	narrowed := 0
	for seed := range rounds {
		g := newGenerator(uint64(seed))
		g.mild = true
		var b strings.Builder
		for range 1 + g.IntN(3) {
			b.WriteString(g.piece(0))
			b.WriteString(g.pick("(?="+g.piece(0)+")", "(?!"+g.alternatives(1)+")", "(?<="+g.piece(0)+")", "(?<!"+g.piece(0)+")", `(?>`+g.piece(0)+")", `(b|k)\1`))
			b.WriteString(g.piece(0))
		}
		expr, fold := b.String(), g.IntN(30) == 0 // classes are slow to fold there
		source := expr
		if fold {
			source = "(?i)" + expr
		}
		re, err := pattern.Compile(source)
		if err != nil || !re.Slow() {
			continue
		}
		m, err := compile(expr, Options{FoldCase: fold}, stateLimit)
		if err != nil && strings.Contains(err.Error(), "across lines") {
			continue
		}
		if err != nil {
			t.Fatalf("seed %d: %q: %v", seed, expr, err)
		}
		if m.way != every {
			narrowed++
		}
		g.words = append(g.words, "bb", "kk")
		text := g.text()
		text = text[:min(len(text), 400)]
		var want []Span
		var late error
		for from := 0; from < len(text); {
			end := len(text)
			if i := bytes.IndexByte(text[from:], '\n'); i >= 0 {
				end = from + i
			}
			found, err := re.Match(string(text[from:end]))
			if err != nil {
				late = err
				break
			}
			if found {
				want = append(want, Span{Start: from, End: end})
			}
			from = end + 1
		}
		if late != nil {
			continue
		}
		s := m.Scanner()
		if got := scan(s, text); !slices.Equal(got, want) || s.Err() != nil {
			t.Fatalf("seed %d: pattern %q: lines (%v)\n%s\nwant\n%s", seed, expr, s.Err(), show(text, got, want), show(text, want, got))
		}
	}
	if narrowed < rounds/4 {
		t.Errorf("%d of %d patterns were narrowed", narrowed, rounds)
	}
}

func FuzzFindsTheLinesThatTheStandardEngineMatches(f *testing.F) {
	for seed := range uint64(50) {
		g := newGenerator(seed)
		f.Add(g.pattern(), seed%3 == 0, g.text())
	}
	f.Fuzz(func(t *testing.T, expr string, fold bool, text []byte) {
		if len(expr) > 200 || len(text) > 1<<15 {
			return
		}
		for _, limit := range limits {
			compare(t, expr, fold, limit, text)
		}
	})
}
