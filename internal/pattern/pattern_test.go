package pattern_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/async-crud-mcp/async-crud-mcp/internal/pattern"
)

func compile(t rapid.TB, expr string) *pattern.Regexp {
	t.Helper()
	re, err := pattern.Compile(expr)
	if err != nil {
		t.Fatal(err)
	}
	return re
}

func TestEngineFollowsFromPattern(t *testing.T) {
	tests := []struct {
		expr string
		slow bool
	}{
		{`foo`, false},
		{`(?i)^git\s+push\b`, false},
		{`(?P<a>x)`, false},
		{`\Qa(b\E`, false},
		{`foo(?!bar)`, true},
		{`foo(?=bar)`, true},
		{`(?<!bar)foo`, true},
		{`(?<=bar)foo`, true},
		{`(a)\1`, true},
		{`(?P<a>x)(?P=a)`, true},
		{`(?>a+)b`, true},
		{`a++b`, true},
		{`a{1,2000}`, true},
	}
	for _, tt := range tests {
		re := compile(t, tt.expr)
		if re.Slow() != tt.slow {
			t.Errorf("%s: slow = %v (%s), want %v", tt.expr, re.Slow(), re.Engine(), tt.slow)
		}
		if re.String() != tt.expr {
			t.Errorf("String = %q, want %q", re.String(), tt.expr)
		}
	}
}

func TestFindAllReturnsByteSpans(t *testing.T) {
	tests := []struct {
		expr, text string
		limit      int
		want       []pattern.Span
	}{
		{`ä+`, "xääyä", -1, []pattern.Span{{1, 5}, {6, 8}}},
		{`(?<=x)ä+`, "xääyä xä", -1, []pattern.Span{{1, 5}, {10, 12}}},
		{`a*`, "baab", -1, []pattern.Span{{1, 3}}},
		{`(?<=b)a*`, "baab", -1, []pattern.Span{{1, 3}}},
		{`a*`, "bbbbbbaabba", 1, []pattern.Span{{6, 8}}},
		{`a`, "aaaa", 3, []pattern.Span{{0, 1}, {1, 2}, {2, 3}}},
		{`a(?=a)`, "aaaa", 2, []pattern.Span{{0, 1}, {1, 2}}},
		{`(?!x)b`, "\xff\xfeb\xffb", -1, []pattern.Span{{2, 3}, {4, 5}}},
		{`b`, "\xff\xfeb\xffb", -1, []pattern.Span{{2, 3}, {4, 5}}},
		{`(?m)^b$`, "b\nb\r\nb", -1, []pattern.Span{{0, 1}, {5, 6}}},
		{`(?s)a.b`, "a\nb", -1, []pattern.Span{{0, 3}}},
		{`x`, "", -1, nil},
	}
	for _, tt := range tests {
		got, err := compile(t, tt.expr).FindAll(tt.text, tt.limit)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("FindAll(%q in %q, %d) = %v, %v; want %v", tt.expr, tt.text, tt.limit, got, err, tt.want)
		}
	}
}

func TestMatchCountsEmptyMatches(t *testing.T) {
	for _, expr := range []string{`a*`, `(?!b)a*`, `$`, `(?m)^`} {
		if ok, err := compile(t, expr).Match("x"); !ok || err != nil {
			t.Errorf("Match(%s) = %v, %v, want true", expr, ok, err)
		}
	}
}

func TestCatastrophicPatternTimesOutWithoutQuotingText(t *testing.T) {
	text := "secret" + strings.Repeat("a", 40) + "!"
	re := compile(t, `(?=s)secret(?:(a+)+)+\1x`)
	if _, err := re.Match(text); !errors.Is(err, pattern.ErrTimeout) || strings.Contains(fmt.Sprint(err), "secret") {
		t.Errorf("Match = %v, want ErrTimeout without the text", err)
	}
	if _, err := re.FindAll(text, -1); !errors.Is(err, pattern.ErrTimeout) || strings.Contains(fmt.Sprint(err), "secret") {
		t.Errorf("FindAll = %v, want ErrTimeout without the text", err)
	}
}

func TestDeepBacktrackingIsATimeout(t *testing.T) {
	re := compile(t, `(?!b)(?:(x+)(y+)|z)+b`)
	if _, err := re.Match(strings.Repeat("xy", 200_000)); !errors.Is(err, pattern.ErrTimeout) {
		t.Errorf("Match = %v, want ErrTimeout", err)
	}
}

func TestCompileErrorsHavePositionAndAdvice(t *testing.T) {
	tests := []struct {
		expr   string
		offset int
		reason string
	}{
		{`a*b|*`, 4, "* has nothing to repeat"},
		{`(a)(b`, 3, "the ( is not closed"},
		{`(a(b)c`, 0, "the ( is not closed"},
		{`a)b`, 1, "the ) closes nothing"},
		{`[)]a)`, 4, "the ) closes nothing"},
		{`[])(]a)`, 6, "the ) closes nothing"},
		{`\Q(\Ea)`, 6, "the ) closes nothing"},
		{`ab[cd`, 2, "the [ is not closed"},
		{`x\`, 1, "a backslash at the end escapes nothing"},
		{`ok[z-a]`, 3, "z-a is not a valid range"},
		{`[[:nope:]]`, 1, "[:nope:] is not a valid range"},
		{`\y`, 0, `\y is not a known escape`},
		{`abc\y`, 3, `\y is not a known escape`},
		{`(?=a)\y`, 5, `\y is not a known escape`},
		{`a**`, 1, "** repeats what is repeated already"},
		{`(?<=a`, 0, "the ( is not closed"},
		{`(?=a)(b`, 5, "the ( is not closed"},
		{`(?=a))`, 5, "the ) closes nothing"},
		{`(?P=nope)`, 0, "reference to undefined group name nope"},
		{`(?P<a b>c)`, 0, "(?P<a b> is not a valid named group"},
		{"a\xff", 1, "it is not valid UTF-8"},
		{strings.Repeat("(", 1100) + strings.Repeat(")", 1100), 0, "nested too deep"},
		{`a{2,1}`, 1, "{2,1} repeats too often, or from more to less"},
		{strings.Repeat("a", 40_000), 32 << 10, "longer than"},
	}
	for _, tt := range tests {
		_, err := pattern.Compile(tt.expr)
		e, ok := errors.AsType[*pattern.SyntaxError](err)
		if !ok {
			t.Errorf("Compile(%.40q) = %v, want a SyntaxError", tt.expr, err)
			continue
		}
		if e.Offset != tt.offset || !strings.Contains(e.Reason, tt.reason) || e.Advice == "" {
			t.Errorf("Compile(%.40q) = offset %d, %q, %q; want offset %d, %q", tt.expr, e.Offset, e.Reason, e.Advice, tt.offset, tt.reason)
		}
		if len(err.Error()) > 1000 {
			t.Errorf("Compile(%.40q): the error has %d bytes", tt.expr, len(err.Error()))
		}
	}
}

// Both engines give the same answers where both can say a pattern; (?:(?=)) makes
// it one of the second.
func TestEnginesAgree(t *testing.T) {
	exprs := []string{
		`a`, `a+b*`, `(a|ab)(c|bcd)`, `\bfoo\b`, `(?i)straße`, `[^a-c]+`, `\d+\s*\w`, `^x`, `x$`, `(?m)^x$`, `(?s).+`, `.+`,
		`[[:alpha:]]+`, `\pL+`, `(?P<n>a)b`, `a{2,3}?`, `\x41`, `x*?y`, `\$HOME`, `[\w.-]+@[\w.-]+`,
	}
	texts := []string{
		"", "abcd", "foo bar foobar", "STRASSE straße ſtraße", "x\nx\nyx", "aaaa", "héllo wörld 123 abc", "A$HOME a.b@c.d",
		"\xff\xfe a", "abc\r\nx\r\n",
	}
	for _, expr := range exprs {
		a, b := compile(t, expr), compile(t, `(?=)`+expr)
		if a.Slow() || !b.Slow() {
			t.Fatalf("%s does not compare two engines", expr)
		}
		for _, text := range texts {
			want, _ := a.FindAll(text, -1)
			if got, err := b.FindAll(text, -1); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s in %q: backtracking %v, %v; linear %v", expr, text, got, err, want)
			}
		}
	}
}

// sample returns a long text out of few words, so that patterns hit.
func sample(size int, seed uint64, words ...string) string {
	rng := rand.New(rand.NewPCG(seed, 0))
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(words[rng.IntN(len(words))])
	}
	return b.String()
}

func TestLongTextsAreSearchedAsTheStandardEngineDoes(t *testing.T) {
	exprs := []string{
		`b`, `a`, `ab+c`, `(?m)^a.*b$`, `^a`, `b$`, `\bab\b`, `(?s)a.*?c`, `a\nb`, `(?m)\n$`, `(?m)^$`, `a[^b]*c`, `(?i)AB`,
		`é+`, `[^\x00-\x7f]`, `\Ba`, `a*`, `x`, `a\n+b`, `(?m)(a|b\n$)`, `(a|b)(c|\n)+`, `\W\w\W`, `日+\n本`, `^`, `\z`, `\xff`,
	}
	for seed := range uint64(3) {
		text := sample(5_000, seed, "a", "b", "c", "ab", "\n", " ", "é", "日本", "\xff", "\r\n")
		for _, expr := range exprs {
			checkAgainstStandard(t, expr, text)
		}
	}
	checkAgainstStandard(t, `x[ab]{9}c`, sample(60_000, 1, "a", "b")+"xababababac") // ever new states
	checkAgainstStandard(t, `[ab]*a[ab]{12}c`, sample(20_000, 1, "a", "b")+"c")
}

// exprs draws regular expressions of everything that looks at its surroundings.
func exprs() *rapid.Generator[string] {
	atom := rapid.SampledFrom([]string{`a`, `b`, `.`, `\n`, `[^a]`, `é`, `(?s:.)`, `\b`, `\B`, `(?m:^)`, `(?m:$)`, `^`, `$`, `\s`, `\xff`, ``, `(?i:B)`})
	return rapid.Custom(func(t *rapid.T) string {
		e := ""
		for range rapid.IntRange(1, 7).Draw(t, "parts") {
			part := atom.Draw(t, "atom")
			switch rapid.IntRange(0, 6).Draw(t, "shape") {
			case 0:
				e = "(?:" + e + ")" + rapid.SampledFrom([]string{"*", "+", "?", "*?", "{2}", "{0,3}"}).Draw(t, "times") + part
			case 1:
				e = "(?:" + e + "|" + part + ")"
			default:
				e += part
			}
		}
		return e
	})
}

func TestAnyPatternOnLongTexts(t *testing.T) {
	letters := rapid.SampledFrom([]rune("aab \n\né\u2028\ufffdB"))
	rapid.Check(t, func(t *rapid.T) {
		expr := exprs().Draw(t, "expr")
		part := rapid.StringOfN(letters, 1, 60, -1).Draw(t, "text")
		checkAgainstStandard(t, expr, strings.Repeat("c \n", 80)+part+"\xff"+strings.Repeat("\nc", rapid.IntRange(0, 3).Draw(t, "tail")))
	})
}

func TestPatternsAreSharedSafely(t *testing.T) {
	text := sample(5_000, 1, "a", "b", "\n", "é")
	for _, expr := range []string{`ab+\n`, `(?<=a)b+`} {
		re := compile(t, expr)
		find := func() (spans []pattern.Span, err error) {
			for range 50 { // the limit is one of time, and the machine may be busy
				if spans, err = re.FindAll(text, -1); !errors.Is(err, pattern.ErrTimeout) {
					break
				}
			}
			return spans, err
		}
		want, err := find()
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if got, err := find(); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %d spans, %v; want %d", expr, len(got), err, len(want))
				}
			})
		}
		all.Wait()
	}
}

func checkAgainstStandard(t rapid.TB, expr, text string) {
	t.Helper()
	std := regexp.MustCompile(expr)
	var want []pattern.Span
	for _, m := range std.FindAllStringIndex(text, -1) {
		if m[0] < m[1] {
			want = append(want, pattern.Span{Start: m[0], End: m[1]})
		}
	}
	re := compile(t, expr)
	if got, _ := re.FindAll(text, -1); !reflect.DeepEqual(got, want) {
		t.Errorf("FindAll(%s) has %d spans in %.60q, the standard engine %d", expr, len(got), text, len(want))
	}
	if got, _ := re.Match(text); got != std.MatchString(text) {
		t.Errorf("Match(%s) = %v, the standard engine says otherwise", expr, got)
	}
}

func FuzzRegexp(f *testing.F) {
	f.Add(`(?m)^a.*b$`, "a\nab\n")
	f.Add(`(a|b\n)+(?!c)`, "abc")
	f.Add(`\bx\b`, "x y\nx")
	f.Fuzz(func(t *testing.T, expr, text string) {
		if len(expr) > 60 || len(text) > 200 {
			return
		}
		re, err := pattern.Compile(expr)
		if err != nil {
			if e, ok := errors.AsType[*pattern.SyntaxError](err); !ok || e.Offset < 0 || e.Offset > len(expr) || e.Reason == "" || e.Advice == "" {
				t.Fatalf("Compile(%q) = %#v", expr, err)
			}
			return
		}
		if re.Slow() {
			_, _ = re.Match(text)
			_, _ = re.FindAll(text, 10)
			return
		}
		checkAgainstStandard(t, expr, text+strings.Repeat("\n"+text+"q", 1+3000/(len(text)+2)))
	})
}

var rules = []string{
	`AKIA[0-9A-Z]{16}`,
	`(?i)password\s*=\s*\S+`,
	`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]+?-----END`,
	`ghp_[A-Za-z0-9]{36}`,
	`\b[A-Za-z0-9+/]{40}\b`,
	`[\w.]+@[\w.]+\.\w+`,
	`(?i)(api|secret)[_-]?key["']?\s*[:=]\s*["']?[a-z0-9]{16,}`,
	`eyJ[\w-]+\.[\w-]+\.[\w-]+`,
	`(?m)^machine\s+\S+\s+login\s+\S+\s+password\s+\S+$`,
	`xox[baprs]-[0-9A-Za-z-]{10,}`,
}

func BenchmarkFindAll(b *testing.B) {
	text := sample(10<<20, 1, "func ", "return err\n", "password_hash ", "token ", "key := 12345\n", "abcdef ", "x == y\n", "ä ")
	for _, expr := range append(rules, `(?<=token )\d+`) {
		b.Run(expr, func(b *testing.B) {
			re := compile(b, expr)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := re.FindAll(text, -1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMatchOfACommand(b *testing.B) {
	re := compile(b, `(?i)^git\s+push\b.*--force`)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = re.Match("git commit -m 'a message of some length' && git push origin main")
	}
}
