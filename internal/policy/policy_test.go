package policy

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func builtin(t testing.TB) *Set {
	t.Helper()
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type labelled struct {
	ID, Cmd, Expect, Class, Why, Prefer string
}

func corpus(t testing.TB, file string) []labelled {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []labelled
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var l labelled
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v in %s", file, err, lines.Text())
		}
		all = append(all, l)
	}
	return all
}

func TestCorpusIsJudgedAsLabelled(t *testing.T) {
	s := builtin(t)
	for _, file := range []string{"testdata/sample.jsonl", "testdata/corpus.jsonl"} {
		for _, l := range corpus(t, file) {
			d := s.Script(l.Cmd, Bash)
			want := l.Expect
			if want == "either" {
				want = l.Prefer
			}
			if want == "" {
				continue
			}
			if got := map[bool]string{true: "deny", false: "allow"}[d.Denied]; got != want {
				t.Errorf("%s %q: got %s (%s: %s), want %s: %s", l.ID, l.Cmd, got, d.Rule, d.Reason, want, l.Why)
			}
		}
	}
}
