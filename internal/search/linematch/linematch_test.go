package linematch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/pattern"
)

func lines(t *testing.T, expr string, o Options, text string) (found []string) {
	t.Helper()
	m, err := Compile(expr, o)
	if err != nil {
		t.Fatal(err)
	}
	s := m.Scanner()
	defer s.Close()
	for _, l := range scan(s, []byte(text)) {
		found = append(found, text[l.Start:l.End])
	}
	if s.Err() != nil {
		t.Errorf("Err = %v, want none", s.Err())
	}
	return found
}

func TestLines(t *testing.T) {
	for _, c := range []struct {
		name, expr, text string
		fold             bool
		want             []string
	}{
		{"no text", `x*`, "", false, nil},
		{"one empty line", `x*`, "\n", false, []string{""}},
		{"a line feed at the end begins no line", `^$`, "a\n", false, nil},
		{"a last line without line feed", `b`, "a\nab", false, []string{"ab"}},
		{"ends of lines", `^a$`, "a\nab\nba\na", false, []string{"a", "a"}},
		{"beginning and end of text are those of lines", `\Aa\z`, "b\na\nb", false, []string{"a"}},
		{"a dot does not leave the line", `a.b`, "a\nb", false, nil},
		{"nor does a negated class", `a[^x]b`, "a\nb", false, nil},
		{"nor does anything with (?s)", `(?s)a.b`, "a\nb", false, nil},
		{"a line feed that may be missing", `a\n?b`, "ab\na\nb", false, []string{"ab"}},
		{"a carriage return belongs to the line", `a$`, "a\r\na\n", false, []string{"a"}},
		{"a dot matches a byte that is no UTF-8", `^a.b$`, "a\xffb", false, []string{"a\xffb"}},
		{"each such byte is a character", `^...$`, "\xe6\x97a", false, []string{"\xe6\x97a"}},
		{"the long s", `mass`, "MAſS", true, []string{"MAſS"}},
		{"the Kelvin sign, which is no word to \\b", `\bkey`, "x\u212aey\nxkey", true, []string{"x\u212aey"}},
		{"word", `\bonce\b`, "once\nonced\n(once)\nat once", false, []string{"once", "(once)", "at once"}},
		{"look ahead", `foo(?!bar)`, "foobar\nfoobaz", false, []string{"foobaz"}},
		{"look behind", `(?<=a)b`, "ab\ncb", false, []string{"ab"}},
		{"backreference", `(\w)\1`, "aba\nabba", false, []string{"abba"}},
		{"a word that is not ASCII, to an engine that knows such", `(?=.)\bété`, "été", false, []string{"été"}},
		{"a class that begins among surrogates", `[é\x{dc00}-\x{ee80}]`, "\ue000", false, []string{"\ue000"}},
		{"an open brace is itself", `func() {`, "func() {\nx", false, nil},
		{"escaped parentheses before it", `func\(\) {`, "func() {\nx", false, []string{"func() {"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := lines(t, c.expr, Options{FoldCase: c.fold}, c.text); !slices.Equal(got, c.want) {
				t.Errorf("lines = %q, want %q", got, c.want)
			}
		})
	}
}

func TestCompileSaysWhereTheFaultIs(t *testing.T) {
	for _, c := range []struct {
		expr   string
		offset int
		reason string
	}{
		{`foo(bar`, 3, "not closed"},
		{`foo[a-`, 3, "not closed"},
		{`foo\nbar`, 3, "across lines"},
		{"foo\nbar", 3, "across lines"},
		{`(a|b)\n+`, 5, "across lines"},
		{`(?<=a)\nb`, 6, "across lines"},
		{`a**b(`, 4, "not closed"},
		{`*a`, 0, "nothing to repeat"},
		{strings.Repeat("a", 40_000), 32 << 10, "longer"},
	} {
		for _, fold := range []bool{false, true} {
			_, err := Compile(c.expr, Options{FoldCase: fold})
			fault, ok := errors.AsType[*pattern.SyntaxError](err)
			if !ok {
				t.Errorf("%.20q: error %v, want a syntax error", c.expr, err)
				continue
			}
			if fault.Offset != c.offset || !strings.Contains(fault.Reason, c.reason) || fault.Advice == "" || fault.Expr != c.expr {
				t.Errorf("%.20q: at %d of %.20q: %s; %s; want at %d: %s", c.expr, fault.Offset, fault.Expr, fault.Reason, fault.Advice, c.offset, c.reason)
			}
		}
	}
}

func TestRequiredLiterals(t *testing.T) {
	for _, c := range []struct {
		expr string
		fold bool
		want string
	}{
		{`ErrNoProgress`, false, `"ErrNoProgress"`},
		{`^func New\w*\(`, false, `^"func New" & "("`},
		{`panic\(|log\.Fatal`, false, `"panic(" | "log.Fatal"`},
		{`\bonce\b`, false, `\b"once"\b`},
		{`^import \($`, false, `^"import ("$`},
		{`json:"[a-z]+,omitempty"`, false, `",omitempty\"" & "json:\""`},
		{`race condition`, true, `(?i)"race condition"`},
		{`ask`, true, `(?i)"ask" | (?i)"as` + "\u212a" + `" | (?i)"aſk" | (?i)"aſ` + "\u212a" + `"`},
		{`[Ee]rror`, false, `(?i)"error"`},
		{`(foo|foobar)x?`, false, `"foo"`},
		{`colou?r`, false, `"colour" | "color"`},
		{`[a-f0-9]{16,}`, false, ``},
		{`(foo)*`, false, ``},
		{`foo|x*`, false, ``},
		{`é+`, false, `"é"`},
		{`\x{fffd}`, false, ``},
		{`foo(?=bar)baz`, false, `"foobaz"`},
	} {
		m, err := Compile(c.expr, Options{FoldCase: c.fold})
		if err != nil {
			t.Fatal(err)
		}
		if got := sentence(m.Required()); got != c.want {
			t.Errorf("%q requires %s, want %s", c.expr, got, c.want)
		}
	}
}

func sentence(sets [][]Literal) string {
	left := map[Edge]string{LineEdge: "^", NonWord: `\b`}
	right := map[Edge]string{LineEdge: "$", NonWord: `\b`}
	var and []string
	for _, set := range sets {
		var or []string
		for _, l := range set {
			fold := ""
			if l.Fold {
				fold = "(?i)"
			}
			or = append(or, fold+left[l.Left]+fmt.Sprintf("%q", l.Text)+right[l.Right])
		}
		and = append(and, strings.Join(or, " | "))
	}
	return strings.Join(and, " & ")
}

func TestSpansOfALine(t *testing.T) {
	m, err := Compile(`a+|é`, Options{FoldCase: true})
	if err != nil {
		t.Fatal(err)
	}
	s := m.Scanner()
	defer s.Close()
	got, err := s.Spans([]byte("xAa É a"), 2)
	if want := []Span{{Start: 1, End: 3}, {Start: 4, End: 6}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("Spans = %v, %v, want %v", got, err, want)
	}
}

func TestCountGoesOnFromWhereNextWas(t *testing.T) {
	m, err := Compile(`a`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := m.Scanner()
	defer s.Close()
	s.Reset([]byte("a\nb\na\nca\nb"), nil)
	s.Next()
	if got := s.Count(); got != 2 {
		t.Errorf("Count = %d, want 2", got)
	}
}

// Whatever finds the lines, and however far it has looked ahead, a closed channel
// ends the scan.
func TestScanEndsWhenStopped(t *testing.T) {
	text := []byte(strings.Repeat("some words and numbers 12.5\n", 20_000))
	stop := make(chan struct{})
	close(stop)
	for _, c := range []struct {
		expr  string
		limit int
	}{
		{`[A-Z]{3}`, stateLimit},             // the automaton
		{`(\w+ ){3}[^x]+[A-Z]`, 1},           // hardly any states
		{`(?!some)(\w+ )(?=\d)`, stateLimit}, // backtracking
	} {
		m, err := compile(c.expr, Options{}, c.limit)
		if err != nil {
			t.Fatal(err)
		}
		s := m.Scanner()
		s.Reset(text, stop)
		if n := s.Count(); n > 0 || !errors.Is(s.Err(), ErrStopped) {
			t.Errorf("%q: %d lines, error %v, want %v", c.expr, n, s.Err(), ErrStopped)
		}
		s.Close()
	}
}

// A pattern that backtracks for ever on a line is given up there.
func TestBacktrackingHasALimit(t *testing.T) {
	m, err := Compile(`(?=a)(a+)+(?=b)c`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !m.Slow() {
		t.Error("Slow = false for a pattern that looks around")
	}
	s := m.Scanner()
	defer s.Close()
	s.Reset([]byte(strings.Repeat("a", 40)+"c\n"), nil)
	if n := s.Count(); n != 0 || !errors.Is(s.Err(), pattern.ErrTimeout) {
		t.Errorf("%d lines, error %v, want %v", n, s.Err(), pattern.ErrTimeout)
	}
}

// A pattern that makes states without end is read without keeping them, within
// the same memory, and finds the same.
func TestStatesAreBounded(t *testing.T) {
	expr := `[ab]*a[ab]{12}c`
	m, err := compile(expr, Options{}, 200_000)
	if err != nil {
		t.Fatal(err)
	}
	g := newGenerator(1)
	var b strings.Builder
	for range 100_000 {
		b.WriteString(g.pick("a", "b", "a", "b", "a", "b", "c", "\n"))
	}
	compare(t, expr, false, 200_000, []byte(b.String()))
	s := m.Scanner()
	defer s.Close()
	scan(s, []byte(b.String()))
	if !s.a.tired {
		t.Error("the automaton did not tire: the test is too easy")
	}
	if s.a.size > 210_000 || cap(s.a.table)*4 > 500_000 {
		t.Errorf("states take %d bytes, their table %d, want 200,000 or so", s.a.size, cap(s.a.table)*4)
	}
	s.Reset([]byte("aaaaaaaaaaaaac\n"), nil)
	if n := s.Count(); n != 1 || s.a.tired {
		t.Errorf("the next text: %d lines, tired %v, want 1 line by the automaton", n, s.a.tired)
	}
}

func TestMatcherIsSharedByGoroutines(t *testing.T) {
	m, err := Compile(`(foo|bar)\d+$`, Options{FoldCase: true})
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat("some Foo12\nbar\nbar 3\nBAR7\n", 500))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				s := m.Scanner()
				s.Reset(text, nil)
				if n := s.Count(); n != 1000 {
					t.Errorf("Count = %d, want 1000", n)
				}
				s.Close()
			}
		})
	}
	group.Wait()
}
