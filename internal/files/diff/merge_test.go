package diff_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/async-crud-mcp/async-crud-mcp/internal/files/diff"
)

func TestMerge(t *testing.T) {
	for _, c := range []struct{ name, base, theirs, yours, want string }{
		{"nobody changed", "a\n", "a\n", "a\n", "a\n"},
		{"they did", "a\nb\n", "a\nB\n", "a\nb\n", "a\nB\n"},
		{"you did", "a\nb\n", "a\nb\n", "a\nB\n", "a\nB\n"},
		{"apart", "1\n2\n3\n4\n5\n", "one\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive\n", "one\n2\n3\n4\nfive\n"},
		{"neighbouring lines", "1\n2\n3\n", "one\n2\n3\n", "1\ntwo\n3\n", "one\ntwo\n3\n"},
		{"neighbouring lines, one removed", "1\n2\n3\n", "2\n3\n", "1\ntwo\n3\n", "two\n3\n"},
		{"added before a changed line", "1\n2\n3\n", "1\nnew\n2\n3\n", "1\ntwo\n3\n", "1\nnew\ntwo\n3\n"},
		{"added behind a changed line", "1\n2\n3\n", "1\n2\nnew\n3\n", "1\ntwo\n3\n", "1\ntwo\nnew\n3\n"},
		{"same change", "1\n2\n3\n", "1\nX\n3\n", "1\nX\n3\n", "1\nX\n3\n"},
		{"same lines added", "1\n2\n", "1\nX\n2\n", "1\nX\n2\n", "1\nX\n2\n"},
		{"same removal", "1\n2\n3\n", "1\n3\n", "1\n3\n", "1\n3\n"},
		{"same change and others", "1\n2\n3\n4\n5\n", "1\n2\nX\n4\nfive\n", "one\n2\nX\n4\n5\n", "one\n2\nX\n4\nfive\n"},
		{"one side emptied, other unchanged", "1\n", "", "1\n", ""},
		{"end of line won and other line changed", "1\n2\n3", "1\n2\n3\n", "one\n2\n3", "one\n2\n3\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, conflicts := diff.Merge([]byte(c.base), []byte(c.theirs), []byte(c.yours))
			if conflicts != nil || string(got) != c.want {
				t.Errorf("Merge = %q, %+v, want %q", got, conflicts, c.want)
			}
		})
	}
}

func TestMergeNamesEveryConflict(t *testing.T) {
	for _, c := range []struct {
		name, base, theirs, yours string
		want                      []string // base | theirs | yours
	}{
		{"same line", "1\n2\n3\n", "1\nA\n3\n", "1\nB\n3\n", []string{"2\n|A\n|B\n"}},
		{"changed and removed", "1\n2\n3\n", "1\nA\n3\n", "1\n3\n", []string{"2\n|A\n|"}},
		{"added in the midst", "1\n2\n3\n4\n", "1\nA\nB\n4\n", "1\n2\nX\n3\n4\n", []string{"2\n3\n|A\nB\n|2\nX\n3\n"}},
		{"added at the same place", "1\n2\n", "1\nA\n2\n", "1\nB\n2\n", []string{"|A\n|B\n"}},
		{"added to an empty text", "", "A\n", "B\n", []string{"|A\n|B\n"}},
		{"chain", "1\n2\n3\n4\n5\n6\n", "A\nB\n3\nC\nD\n6\n", "1\nX\nY\nZ\n5\n6\n", []string{"1\n2\n3\n4\n5\n|A\nB\n3\nC\nD\n|1\nX\nY\nZ\n5\n"}},
		{
			"two, and one that is none", "1\n2\n3\n4\n5\n6\n7\n", "A\n2\n3\nX\n5\n6\nC\n", "B\n2\n3\n4\n5\n6\nD\n",
			[]string{"1\n|A\n|B\n", "7\n|C\n|D\n"},
		},
		{"lines behind a line without end", "1\n2\n", "1\ntwo", "1\n2\n3\n", []string{"2\n|two|2\n3\n"}},
		{"end of line won and line added", "1\n2", "1\n2\n", "1\n2\n3\n", []string{"2|2\n|2\n3\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			base, theirs, yours := []byte(c.base), []byte(c.theirs), []byte(c.yours)
			merged, conflicts := diff.Merge(base, theirs, yours)
			var got []string
			for _, x := range conflicts {
				got = append(got, fmt.Sprintf("%s|%s|%s", x.Base.Of(base), x.Theirs.Of(theirs), x.Yours.Of(yours)))
			}
			if !slices.Equal(got, c.want) || merged != nil {
				t.Errorf("Merge = %q, conflicts %q, want %q", merged, got, c.want)
			}
		})
	}
}

// checkMerge judges everything that must hold for any three texts.
func checkMerge(t interface {
	Helper()
	Fatalf(string, ...any)
}, base, theirs, yours []byte,
) {
	t.Helper()
	clean := func(want, base, theirs, yours []byte) {
		t.Helper()
		if got, conflicts := diff.Merge(base, theirs, yours); conflicts != nil || !bytes.Equal(got, want) {
			t.Fatalf("Merge(%q, %q, %q) = %q, %v, want %q", base, theirs, yours, got, conflicts, want)
		}
	}
	clean(yours, base, base, yours)
	clean(theirs, base, theirs, base)
	clean(yours, base, yours, yours)

	merged, conflicts := diff.Merge(base, theirs, yours)
	swapped, mirrored := diff.Merge(base, yours, theirs)
	for i := range mirrored {
		mirrored[i].Theirs, mirrored[i].Yours = mirrored[i].Yours, mirrored[i].Theirs
	}
	if !bytes.Equal(merged, swapped) || !slices.Equal(conflicts, mirrored) {
		t.Fatalf("Merge(%q, %q, %q) depends on the order: %q %v and %q %v", base, theirs, yours, merged, conflicts, swapped, mirrored)
	}
	end := 0
	for _, c := range conflicts {
		if c.Base.Byte < end || bytes.Equal(c.Theirs.Of(theirs), c.Yours.Of(yours)) ||
			bytes.Equal(c.Base.Of(base), c.Theirs.Of(theirs)) || bytes.Equal(c.Base.Of(base), c.Yours.Of(yours)) {
			t.Fatalf("Merge(%q, %q, %q): %+v is no conflict", base, theirs, yours, c)
		}
		end = c.Base.ByteEnd
	}
	if conflicts != nil {
		return
	}
	// Nothing is invented, and nothing that somebody added gets lost.
	count := func(text []byte) map[string]int {
		n := map[string]int{}
		for line := range bytes.Lines(text) {
			n[string(line)]++
		}
		return n
	}
	b, th, y, m := count(base), count(theirs), count(yours), count(merged)
	for line, n := range m {
		if n > th[line]+y[line] {
			t.Fatalf("Merge(%q, %q, %q) = %q has %q too often", base, theirs, yours, merged, line)
		}
	}
	for line, n := range th {
		if b[line] == 0 && y[line] == 0 && m[line] != n {
			t.Fatalf("Merge(%q, %q, %q) = %q lost %q of theirs", base, theirs, yours, merged, line)
		}
	}
}

func TestMergeOfAnyTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkMerge(t, []byte(words().Draw(t, "base")), []byte(words().Draw(t, "theirs")), []byte(words().Draw(t, "yours")))
	})
}

// Edits of different lines merge, wherever they are and whatever they do.
func TestEditsOfDifferentLinesAlwaysMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "lines")
		base, theirs, yours, want := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		for i := range n {
			base[i] = fmt.Sprintf("line %d\n", i)
			theirs[i], yours[i], want[i] = base[i], base[i], base[i]
			edited := ""
			switch rapid.IntRange(0, 4).Draw(t, "edit") {
			case 0:
				edited = fmt.Sprintf("changed %d\n", i)
			case 1:
				edited = ""
			case 2:
				edited = fmt.Sprintf("%sadded behind %d\nand more\n", base[i], i)
			default:
				continue
			}
			want[i] = edited
			if rapid.Bool().Draw(t, "theirs") {
				theirs[i] = edited
			} else {
				yours[i] = edited
			}
		}
		got, conflicts := diff.Merge(join(base), join(theirs), join(yours))
		if conflicts != nil || string(got) != strings.Join(want, "") {
			t.Fatalf("Merge = %q, %v, want %q", got, conflicts, strings.Join(want, ""))
		}
	})
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), []byte("a\nB\nc\n"), []byte("a\nb\nC\n"))
	f.Add([]byte("a\nb"), []byte("a\nb\n"), []byte("x\na\nb"))
	f.Add([]byte(""), []byte("a"), []byte("b\n"))
	f.Fuzz(func(t *testing.T, base, theirs, yours []byte) { checkMerge(t, base, theirs, yours) })
}
