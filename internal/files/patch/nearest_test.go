package patch_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/async-crud-mcp/async-crud-mcp/internal/files/patch"
)

// near returns the match that Apply names when old is not in the text.
func near(t *testing.T, in, old string) *patch.Match {
	t.Helper()
	_, err := patch.Apply([]byte(in), []patch.Edit{text(old, "")}, 0)
	e, ok := errors.AsType[*patch.Error](err)
	if !ok || e.Reason != patch.NotFound {
		t.Fatalf("Apply = %v, want NotFound", err)
	}
	return e.Nearest
}

func TestNearestIsWhatWasMeant(t *testing.T) {
	var filler strings.Builder
	for i := range 300 {
		fmt.Fprintf(&filler, "\tvalue%d := compute(x, %d)\n", i, i*i)
	}
	const fn = "func (s *Server) handle(ctx context.Context, r *Request) error {\n\tif r == nil {\n\t\treturn errNoRequest\n\t}\n\treturn s.serve(ctx, r)\n}\n"
	file := "package server\n\n" + filler.String() + "\n" + fn + "\n" + filler.String()
	const line = 304 // of the function
	for _, c := range []struct {
		name, in, old  string
		from, to       int
		atLeast, below float64
		contains       string
	}{
		{"other spaces", file, strings.ReplaceAll(fn, "\t", "    "), line, line + 5, 0.85, 1, "func (s *Server) handle("},
		{"a changed name", file, strings.ReplaceAll(fn, "errNoRequest", "errMissing"), line, line + 5, 0.9, 1, "errNoRequest"},
		{"a changed line in the middle of it", file, "\tif r == nil {\n\t\treturn errMissing\n\t}\n", line + 1, line + 3, 0.7, 1, "errNoRequest"},
		{"a part of a line", file, "return s.server(ctx, r)", line + 4, line + 4, 0.8, 1, "return s.serve(ctx, r)"},
		{"a misspelt word", "retrun\nreturn nil\n", "return nl", 2, 2, 0.8, 1, "return nil"},
		{"other line ends", "a line\r\nand another one\r\nthe end\r\n", "and another one\nthe end\n", 2, 3, 0.9, 1, "and another one\r\nthe end"},
		{"longer than the text", "short text\n", "short text that goes on, but not for very long\n", 1, 1, 0.3, 1, ""},
		{"at the very end, no newline", "one\ntwo\nthree times seven", "three times eleven", 3, 3, 0.7, 1, "three times seven"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := near(t, c.in, c.old)
			if c.contains == "" {
				if m != nil {
					t.Errorf("got %+v, want none", m)
				}
				return
			}
			if m == nil {
				t.Fatal("none found")
			}
			if m.Line != c.from || m.EndLine != c.to || m.Similarity < c.atLeast || m.Similarity >= c.below || !strings.Contains(m.Text, c.contains) {
				t.Errorf("got %+v, want lines %d to %d", m, c.from, c.to)
			}
		})
	}
}

func TestNearestIsNoneWhenNothingIsAlike(t *testing.T) {
	for _, old := range []string{"zq", "  \n", "completely different words\n", "\x00\x01\x02"} {
		if m := near(t, "package main\n\nfunc main() {\n}\n", old); m != nil {
			t.Errorf("for %q: %+v", old, m)
		}
	}
	if m := near(t, "", "anything"); m != nil {
		t.Errorf("in nothing: %+v", m)
	}
}

func TestNearestShowsLittle(t *testing.T) {
	long := strings.Repeat("let it be known that ", 20) + "ünïcödé"
	for _, c := range []struct{ name, in, old string }{
		{"many lines", strings.Repeat("the same line again\n", 100), strings.Repeat("the same line again!\n", 50)},
		{"a long line", long + "\n", strings.Replace(long, "known", "knowm", 1)},
		{"far inside a very long line", strings.Repeat("é", 5000) + long + strings.Repeat("è", 5000), strings.Replace(long, "known", "knowm", 1)},
		{"invalid bytes", strings.Repeat("\xbf", 500) + "let it be known\n" + strings.Repeat("\xbf", 500), strings.Repeat("\xbf", 300) + "let it be knowm"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := near(t, c.in, c.old)
			if m == nil {
				t.Fatal("none found")
			}
			if len(m.Text) > 400 || strings.Count(m.Text, "\n") > 9 || !m.Truncated {
				t.Errorf("%d bytes in %d lines, truncated %v", len(m.Text), strings.Count(m.Text, "\n")+1, m.Truncated)
			}
			if utf8.ValidString(c.in) && !utf8.ValidString(m.Text) {
				t.Errorf("cut in the middle of a character: %q", m.Text)
			}
		})
	}
}

func TestCheckNamesWhatHasBecomeOfIt(t *testing.T) {
	r := patch.Check([]patch.Edit{text("x := 1", "x := 2")}, []byte(program), []byte(after("x := 1", "total := 1")), 0)
	m := r.Findings[0].Nearest
	if m == nil || m.Line != 8 || m.EndLine != 8 || m.Text != "\ttotal := 1" {
		t.Errorf("got %+v, want line 8", m)
	}
	if m != nil && (m.Similarity < 0.5 || m.Similarity >= 1) {
		t.Errorf("similarity %v", m.Similarity)
	}
	r = patch.Check([]patch.Edit{lines(8, 9, "\treturn 2")}, []byte(program), []byte(after("x := 1", "x := 3")), 0)
	if m := r.Findings[0].Nearest; m == nil || m.Line != 8 || m.EndLine != 9 {
		t.Errorf("got %+v, want lines 8 and 9", m)
	}
}

// hostile are texts and old strings on which a careless search takes for ever.
func hostile(size int) map[string][2]string {
	r := rand.New(rand.NewPCG(1, 2))
	ab := make([]byte, size)
	for i := range ab {
		ab[i] = "ab\n"[r.IntN(3)]
	}
	return map[string][2]string{
		"one letter":      {strings.Repeat("a", size), strings.Repeat("a", 1000) + "b"},
		"one long line":   {strings.Repeat("abc def ", size/8), strings.Repeat("abc dfe ", 200)},
		"short lines":     {string(ab), "abababab\nbabababa\nabxb\n"},
		"newlines":        {strings.Repeat("\n", size), strings.Repeat("\n", 999) + "a"},
		"huge old":        {strings.Repeat("line of text\n", size/13), strings.Repeat("line of test\n", size/13)},
		"repeated blocks": {strings.Repeat("{\n\tx := 1\n}\n", size/12), strings.Repeat("{\n\tx := 2\n}\n", 100)},
	}
}

func TestHostileTextsAreJudged(t *testing.T) {
	for name, c := range hostile(50_000) {
		t.Run(name, func(t *testing.T) {
			edits := make([]patch.Edit, 5)
			for i := range edits {
				edits[i] = text(c[1], "x")
			}
			r := patch.Check(edits, []byte(c[1]+"\n"), []byte(c[0]), 0)
			for i, f := range r.Findings {
				if f.Verdict != patch.Conflicts {
					t.Fatalf("finding %d is %+v", i, f)
				}
			}
		})
	}
}
