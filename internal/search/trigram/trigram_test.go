package trigram

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/async-crud-mcp/async-crud-mcp/internal/search/linematch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func query(t testing.TB, expr string, fold bool) (Query, *linematch.Matcher) {
	t.Helper()
	m, err := linematch.Compile(expr, linematch.Options{FoldCase: fold})
	if err != nil {
		t.Fatal(err)
	}
	return NewQuery(m.Required()), m
}

func ids(r Result) (ids []ID) {
	for _, c := range r.Files {
		ids = append(ids, c.ID)
	}
	return ids
}

func TestCandidates(t *testing.T) {
	texts := []string{
		0: "func New() {\n\treturn\n}\n",
		1: "the (renewal)func\n",
		2: "no go here, but gopher and ergo\n",
		3: "let us Go!",
		4: "ÉTÉ, été\n",
		5: "",
		6: "go",
		7: "two  blanks",
	}
	x := New(Options{})
	for i, text := range texts {
		if !x.Put(ID(i), []byte(text)) {
			t.Fatal("Put refused a small text")
		}
	}
	for _, c := range []struct {
		expr string
		fold bool
		want []ID
	}{
		{`func`, false, []ID{0, 1}},
		{`^func`, false, []ID{0}},
		{`\)func$`, false, []ID{1}},
		{`renew|gopher`, false, []ID{1, 2}},
		{`\bgo\b`, false, []ID{2, 3, 6}}, // in 3 the case differs: it is one to the index
		{`^go$`, false, []ID{2, 6}},      // the end of a line is a blank like any other
		{`gopher.*absent`, false, nil},
		{`absent`, false, nil},
		{`été`, true, []ID{4}},
		{`\w+`, false, []ID{0, 1, 2, 3, 4, 6, 7}},
		{`two  bl`, false, []ID{7}},
	} {
		q, _ := query(t, c.expr, c.fold)
		r := x.Candidates(q)
		if got := ids(r); !slices.Equal(got, c.want) {
			t.Errorf("%q: candidates %v, want %v", c.expr, got, c.want)
		}
		if !r.Indexed(5) || !r.Indexed(6) || r.Indexed(8) || r.Indexed(1000) {
			t.Errorf("%q: Indexed says yes to 5: %v, 6: %v, 8: %v, 1000: %v, want yes, yes, no, no",
				c.expr, r.Indexed(5), r.Indexed(6), r.Indexed(8), r.Indexed(1000))
		}
	}
	if q, _ := query(t, `\w+`, false); q.Narrows() {
		t.Error("a class alone narrows")
	}
}

func TestChunksAreWholeLines(t *testing.T) {
	var b strings.Builder
	for i := range 6000 {
		fmt.Fprintf(&b, "line %d of a text that is longer than a chunk\n", i)
	}
	b.WriteString(strings.Repeat("x", 100_000) + " needle\n") // a line that is longer
	fmt.Fprintf(&b, "the last one, with a second needle")
	text := b.String()
	x := New(Options{})
	x.Put(3, []byte(text))
	for _, word := range []string{"line 0 of", "line 3456 of", "xx needle", "second needle"} {
		word = strings.ReplaceAll(word, "xx", strings.Repeat("x", 30))
		q, _ := query(t, word, false)
		r := x.Candidates(q)
		if len(r.Files) != 1 {
			t.Fatalf("%.20q: %d files, want 1", word, len(r.Files))
		}
		at, seen := strings.Index(text, word), false
		for _, c := range r.Files[0].Chunks {
			if c.Start > 0 && text[c.Start-1] != '\n' || c.End < len(text) && text[c.End-1] != '\n' {
				t.Errorf("chunk %v is not of whole lines", c)
			}
			if want := strings.Count(text[:c.Start], "\n"); c.Line != want {
				t.Errorf("chunk %v: %d lines before it, want %d", c, c.Line, want)
			}
			seen = seen || c.Start <= at && at < c.End
		}
		if !seen {
			t.Errorf("%.20q is at %d, which is in none of %v", word, at, r.Files[0].Chunks)
		}
		if n := len(r.Files[0].Chunks); n > 2 {
			t.Errorf("%.20q: %d chunks, want 1 or 2", word, n)
		}
	}
}

// Whatever was put, replaced, removed, sealed and joined: a file that matches is a
// candidate, with a chunk that holds the line.
func TestNoMatchIsMissed(t *testing.T) {
	rounds, steps := 5, 200
	if os.Getenv("ACM_STRESS") != "" {
		rounds = 300
	}
	asked, narrowed, listed, files := 0, 0, 0, 0
	for seed := range rounds {
		g := &generator{Rand: rand.New(rand.NewPCG(uint64(seed), 3))}
		x := New(Options{})
		texts := make(map[ID]string)
		for range steps {
			id := ID(g.IntN(60))
			switch g.IntN(12) {
			case 0:
				x.Remove(id)
				delete(texts, id)
			case 1:
				x.mu.Lock()
				full := x.takeFreshLocked()
				x.mu.Unlock()
				if len(full) > 0 {
					x.seal(full)
				}
			case 2:
				for x.tidy(g.IntN(2) == 0) {
					continue
				}
			default:
				texts[id] = g.text()
				if !x.Put(id, []byte(texts[id])) {
					t.Fatal("Put refused")
				}
			}
			if g.IntN(4) > 0 {
				continue
			}
			expr, fold := g.pattern(), g.IntN(3) == 0
			q, m := query(t, expr, fold)
			r := x.Candidates(q)
			asked++
			if q.Narrows() {
				narrowed++
				listed += len(r.Files)
				files += len(texts)
			}
			check(t, fmt.Sprintf("seed %d, pattern %q, fold %v", seed, expr, fold), r, m, texts)
			if t.Failed() {
				return
			}
		}
		if s := x.Stats(); s.Files != len(texts) {
			t.Errorf("Stats.Files = %d, want %d", s.Files, len(texts))
		}
	}
	if narrowed < asked/2 || listed > files/2 {
		t.Errorf("%d of %d queries narrow, to %d of %d files: the test is too easy", narrowed, asked, listed, files)
	}
}

func check(t *testing.T, what string, r Result, m *linematch.Matcher, texts map[ID]string) {
	t.Helper()
	s := m.Scanner()
	defer s.Close()
	if !slices.IsSortedFunc(r.Files, func(a, b Candidate) int { return int(a.ID) - int(b.ID) }) {
		t.Errorf("%s: candidates are not in order: %v", what, ids(r))
	}
	for id, text := range texts {
		if !r.Indexed(id) {
			t.Errorf("%s: file %d is not said to be indexed", what, id)
		}
		at := slices.IndexFunc(r.Files, func(c Candidate) bool { return c.ID == id })
		s.Reset([]byte(text), nil)
		for line, ok := s.Next(); ok; line, ok = s.Next() {
			if at < 0 || !slices.ContainsFunc(r.Files[at].Chunks, func(c Chunk) bool { return c.Start <= line.Start && line.End <= c.End }) {
				t.Errorf("%s: line %.200q of file %d is in no chunk", what, text[line.Start:line.End], id)
				return
			}
		}
	}
	for _, c := range r.Files {
		if _, ok := texts[c.ID]; !ok {
			t.Errorf("%s: file %d is gone and a candidate", what, c.ID)
		}
	}
}

type generator struct{ *rand.Rand }

func (g *generator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g *generator) word() string {
	return g.pick("func", "New", "go", "return", "x", "if", "task", "Kelvin", "été", "ΣΊΣΥΦΟΣ", "日本", "a_b", "v1.2", "foo(", "\xff\xfe", "==", "mass", "  ", "\t", "\u212a", "ſ", "é", "12") +
		g.pick("", "", "", "s", "ed", "1", "_")
}

func (g *generator) text() string {
	n := g.IntN(30)
	if g.IntN(60) == 0 {
		n = 15_000
	}
	var b strings.Builder
	for range n {
		b.WriteString(g.word())
		b.WriteString(g.pick("", " ", " ", "  ", "\n", "\n", "\r\n", "\n\n", "\t", ".", ",", "(", ")"))
	}
	return b.String()
}

func (g *generator) pattern() string {
	var b strings.Builder
	b.WriteString(g.pick("", "", "^", `\b`, `^\s*`))
	for range 1 + g.IntN(2) {
		w := regexp.QuoteMeta(strings.ToValidUTF8(g.word(), ""))
		b.WriteString(g.pick(w, w, w, "(?:"+w+")?", "(?:"+w+"|go)", "(?:"+w+")+", "[nN]ew", `\w`, "(?i:"+w+")"))
		b.WriteString(g.pick("", "", "", ".*", `\s+`, `\b`, `\(`))
	}
	b.WriteString(g.pick("", "", "$", `\b`))
	return b.String()
}

func FuzzNoMatchIsMissed(f *testing.F) {
	g := &generator{Rand: rand.New(rand.NewPCG(1, 1))}
	for i := range 30 {
		f.Add(g.pattern(), i%3 == 0, []byte(g.text()))
	}
	f.Fuzz(func(t *testing.T, expr string, fold bool, text []byte) {
		if len(expr) > 200 || len(text) > 1<<17 {
			return
		}
		m, err := linematch.Compile(expr, linematch.Options{FoldCase: fold})
		if err != nil || m.Slow() {
			return
		}
		x := New(Options{})
		x.Put(1, []byte("another\n"))
		x.Put(2, text)
		texts := map[ID]string{1: "another\n", 2: string(text)}
		q := NewQuery(m.Required())
		check(t, "fresh", x.Candidates(q), m, texts)
		x.mu.Lock()
		full := x.takeFreshLocked()
		x.mu.Unlock()
		x.seal(full)
		check(t, "sealed", x.Candidates(q), m, texts)
	})
}

// A file that is replaced all the time and holds a word in every version is a
// candidate at any moment.
func TestFilesThatChangeDuringAQuestionAreNotMissed(t *testing.T) {
	x := New(Options{})
	for i := range ID(200) {
		x.Put(i, fmt.Appendf(nil, "file %d is here\n", i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = x.Run(ctx) })
	for w := range 2 {
		group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				id := ID(100*w + n%100)
				x.Put(id, fmt.Appendf(nil, "file %d is here for the %dth time\n%s", id, n, strings.Repeat("and more of it\n", n%50)))
				if n%64 == 0 {
					x.tidy(true)
				}
			}
		})
	}
	q, _ := query(t, `is here`, false)
	for range 300 {
		r := x.Candidates(q)
		if len(r.Files) != 200 {
			t.Errorf("%d candidates, want 200", len(r.Files))
			break
		}
		for i := range ID(200) {
			if !r.Indexed(i) {
				t.Errorf("file %d is not indexed", i)
			}
		}
	}
	cancel()
	group.Wait()
}

func TestFilesAreRefusedWithoutRoom(t *testing.T) {
	x := New(Options{MaxBytes: 20_000})
	g := &generator{Rand: rand.New(rand.NewPCG(1, 1))}
	refused := 0
	for i := range ID(300) {
		if !x.Put(i, []byte(g.text()[:])) {
			refused++
			if r := x.Candidates(Query{}); r.Indexed(i) {
				t.Fatalf("file %d was refused and is said to be indexed", i)
			}
		}
	}
	if s := x.Stats(); refused == 0 || refused == 300 || s.Files != 300-refused {
		t.Errorf("%d of 300 refused, %d in the index", refused, s.Files)
	}
	x.Drop()
	if !x.Put(1, []byte("room again")) {
		t.Error("Put refused after Drop")
	}
}

func TestRunJoinsShardsAndClearsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := New(Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- x.Run(ctx) }()
		for round := range 40 {
			for i := range ID(100) {
				x.Put(i, fmt.Appendf(nil, "file %d in round %d\n", i, round))
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		s := x.Stats()
		if s.Files != 100 || s.Units != 100 || s.Gone > 64 || s.Shards > 3 {
			t.Errorf("Stats = %+v, want 100 files, and hardly anything that is gone", s)
		}
		q, _ := query(t, `round 39`, false)
		if got := len(x.Candidates(q).Files); got != 100 {
			t.Errorf("%d candidates, want 100", got)
		}
		for i := range ID(100) {
			x.Remove(i)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if s := x.Stats(); s.Files != 0 || s.Units != 0 || s.Shards != 0 {
			t.Errorf("Stats = %+v after all was removed", s)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

func TestIndexIsDroppedWhenNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		x := New(Options{Dropped: func() { told++ }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- x.Run(ctx) }()
		x.Put(1, []byte("some text"))
		q, _ := query(t, `text`, false)
		time.Sleep(20 * time.Minute)
		if r := x.Candidates(q); !r.Indexed(1) || len(r.Files) != 1 {
			t.Error("dropped too early")
		}
		time.Sleep(29 * time.Minute)
		synctest.Wait()
		if s := x.Stats(); s.Files != 1 {
			t.Errorf("Stats = %+v within half an hour after the last question", s)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s := x.Stats(); s.Files != 0 || s.Units != 0 {
			t.Errorf("Stats = %+v half an hour after the last question", s)
		}
		if r := x.Candidates(q); r.Indexed(1) || len(r.Files) != 0 {
			t.Error("a file is still said to be indexed")
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if told != 1 {
			t.Errorf("told %d times that the index was dropped, want once", told)
		}
		cancel()
		<-done
	})
}
