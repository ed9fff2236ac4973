package diff_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/async-crud-mcp/async-crud-mcp/internal/files/diff"
)

// brief shows changes as "kind start-end old → new".
func brief(changes []diff.Change) string {
	var out []string
	for _, c := range changes {
		out = append(out, fmt.Sprintf("%s %d-%d %q > %q", c.Kind, c.StartLine, c.EndLine, c.OldContent, c.NewContent))
	}
	return strings.Join(out, "\n")
}

func TestChangesNameTheLinesThatDiffer(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"equal", "a\nb\n", "a\nb\n", ""},
		{"both empty", "", "", ""},
		{"modified", "a\nb\nc\n", "a\nB\nc\n", `modified 2-2 "b" > "B"`},
		{"modified to fewer", "a\nb\nc\nd\n", "a\nX\nd\n", `modified 2-3 "b\nc" > "X"`},
		{"added in the middle", "a\nc\n", "a\nb\nb2\nc\n", `added 2-3 "" > "b\nb2"`},
		{"added at the start", "b\n", "a\nb\n", `added 1-1 "" > "a"`},
		{"added at the end", "a\n", "a\nb\n", `added 2-2 "" > "b"`},
		{"added to nothing", "", "a\nb\n", `added 1-2 "" > "a\nb"`},
		{"added blank line", "a\nb\n", "a\n\nb\n", `added 2-2 "" > ""`},
		{"removed", "a\nb\nc\n", "a\nc\n", `removed 2-2 "b" > ""`},
		{"removed all", "a\nb\n", "", `removed 1-2 "a\nb" > ""`},
		{"new end of line", "a\nb\n", "a\r\nb\n", `modified 1-1 "a" > "a\r"`},
		{"newline lost at the end", "a\nb\n", "a\nb", `modified 2-2 "b" > "b"`},
		{"newline won at the end", "a\nb", "a\nb\n", `modified 2-2 "b" > "b"`},
		{"no newline on either side", "a\nb", "a\nc", `modified 2-2 "b" > "c"`},
		{"tail is not a whole line", "ab\n", "b\n", `modified 1-1 "ab" > "b"`},
		{"head is not a whole line", "ab\n", "a\n", `modified 1-1 "ab" > "a"`},
		{"invalid text", "\xff\n\xfe\n", "\xff\n\xfd\n", `modified 2-2 "\xfe" > "\xfd"`},
		{
			"numbers of added lines are of the new text, of others of the old",
			"1\n2\n3\n4\n5\n6\n7\n8\n", "x\ny\n1\n2\nthree\n4\n5\nz\n6\n8\n",
			"added 1-2 \"\" > \"x\\ny\"\nmodified 3-3 \"3\" > \"three\"\nadded 8-8 \"\" > \"z\"\nremoved 7-7 \"7\" > \"\"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := brief(diff.Lines([]byte(c.old), []byte(c.new)).Changes(3)); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestChangesCarryBothSidesAndTheEnds(t *testing.T) {
	d := diff.Lines([]byte("1\n2\n3\n4\n5"), []byte("0\n1\n2\n4\n5\n"))
	got := d.Changes(2)
	want := []diff.Change{
		{
			Kind: diff.Added, StartLine: 1, EndLine: 1, OldStart: 1, NewStart: 1, NewLines: 1,
			NewContent: "0", ContextAfter: "1\n2",
		},
		{
			Kind: diff.Removed, StartLine: 3, EndLine: 3, OldStart: 3, OldLines: 1, NewStart: 4,
			OldContent: "3", ContextBefore: "1\n2", ContextAfter: "4",
		},
		{
			Kind: diff.Modified, StartLine: 5, EndLine: 5, OldStart: 5, OldLines: 1, NewStart: 5, NewLines: 1,
			OldContent: "5", NewContent: "5", OldNoNewline: true, ContextBefore: "4",
		},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	if s, want := d.Summary(), (diff.Summary{LinesAdded: 1, LinesRemoved: 1, LinesModified: 1, RegionsChanged: 3}); s != want {
		t.Errorf("Summary = %+v, want %+v", s, want)
	}
	for _, n := range []int{0, -1} {
		for _, c := range d.Changes(n) {
			if c.ContextBefore != "" || c.ContextAfter != "" {
				t.Errorf("Changes(%d) has context: %+v", n, c)
			}
		}
	}
}

func TestSummaryCountsAModifiedRegionOnce(t *testing.T) {
	old := numbered(1, 60)
	new := slices.Clone(old)
	new = slices.Delete(new, 39, 42)               // three lines removed
	new = slices.Insert(new, 24, "brand new\n")    // one added
	new = slices.Replace(new, 9, 12, "x\n", "y\n") // three become two
	d := diff.Lines(join(old), join(new))
	want := diff.Summary{LinesAdded: 1, LinesRemoved: 3, LinesModified: 3, RegionsChanged: 3}
	if got := d.Summary(); got != want {
		t.Errorf("Summary = %+v, want %+v", got, want)
	}
	if got := brief(d.Changes(0)); !strings.HasPrefix(got, `modified 10-12 "10\n11\n12" > "x\ny"`) {
		t.Errorf("changes:\n%s", got)
	}
}

func TestBlocksAreShownWhereOneWouldPutThem(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{
			"function between functions",
			"func a() {\n\tx\n}\n\nfunc c() {\n}\n",
			"func a() {\n\tx\n}\n\nfunc b() {\n\ty\n}\n\nfunc c() {\n}\n",
			`added 5-8 "" > "func b() {\n\ty\n}\n"`,
		},
		{
			"block among blocks",
			"{\n\tif a {\n\t\tx\n\t}\n\tif c {\n\t\tx\n\t}\n}\n",
			"{\n\tif a {\n\t\tx\n\t}\n\tif b {\n\t\tx\n\t}\n\tif c {\n\t\tx\n\t}\n}\n",
			`added 5-7 "" > "\tif b {\n\t\tx\n\t}"`,
		},
		{
			"function at the end",
			"def a():\n    return 1\n",
			"def a():\n    return 1\n\ndef b():\n    return 1\n",
			`added 3-5 "" > "\ndef b():\n    return 1"`,
		},
		{
			"block with a closing word",
			"do\n  x\nend\ndo\n  z\nend\n",
			"do\n  x\nend\ndo\n  y\nend\ndo\n  z\nend\n",
			`added 4-6 "" > "do\n  y\nend"`,
		},
		{
			"one of equal lines removed",
			"x\nx\nx\n", "x\nx\n", `removed 3-3 "x" > ""`,
		},
		{
			"meets the change behind it",
			"a\nx\nq\nc\n", "a\nx\nx\nr\nc\n", `modified 3-3 "q" > "x\nr"`,
		},
		{
			"meets the change before it",
			"a\nq\nx\ny\nc\n", "a\nr\nx\ny\nx\ny\nc\n", `modified 2-2 "q" > "r\nx\ny"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := brief(diff.Lines([]byte(c.old), []byte(c.new)).Changes(0)); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestUnifiedLooksLikeGits(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		context        int
		want           string
	}{
		{"equal", "a\n", "a\n", 3, ""},
		{"seed's example without context", strings.Join(numbered(1, 20), ""), strings.Join(slices.Replace(numbered(1, 20), 9, 12, "x\n", "y\n"), ""), 0, "@@ -10,3 +10,2 @@\n-10\n-11\n-12\n+x\n+y\n"},
		{"context", "1\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\nx\n5\n6\n7\n", 2, "@@ -2,5 +2,5 @@\n 2\n 3\n-4\n+x\n 5\n 6\n"},
		{"one line", "a\n", "b\n", 3, "@@ -1 +1 @@\n-a\n+b\n"},
		{"from nothing", "", "a\nb\n", 3, "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"to nothing", "a\n", "", 3, "@@ -1 +0,0 @@\n-a\n"},
		{"added behind the third line", "1\n2\n3\n4\n", "1\n2\n3\nx\n4\n", 0, "@@ -3,0 +4 @@\n+x\n"},
		{"removed", "1\n2\n3\n", "1\n3\n", 0, "@@ -2 +1,0 @@\n-2\n"},
		{"no newline", "a\nb", "a\nb\n", 1, "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"},
		{"no newline in the context", "a\nb", "x\nb", 1, "@@ -1,2 +1,2 @@\n-a\n+x\n b\n\\ No newline at end of file\n"},
		{"close changes share a hunk", "1\n2\n3\n4\n5\n", "x\n2\n3\n4\ny\n", 2, "@@ -1,5 +1,5 @@\n-1\n+x\n 2\n 3\n 4\n-5\n+y\n"},
		{"distant ones do not", "1\n2\n3\n4\n5\n", "x\n2\n3\n4\ny\n", 1, "@@ -1,2 +1,2 @@\n-1\n+x\n 2\n@@ -4,2 +4,2 @@\n 4\n-5\n+y\n"},
		{"negative context is none", "1\n2\n", "1\n3\n", -5, "@@ -2 +2 @@\n-2\n+3\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := c.want
			if want != "" {
				want = "--- expected\n+++ current\n" + want
			}
			if got := diff.Lines([]byte(c.old), []byte(c.new)).Unified("expected", "current", c.context); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// texts are pairs that are hard in different ways.
func texts() map[string][2]string {
	r := rand.New(rand.NewPCG(1, 2))
	edited := func(lines []string) []string {
		lines = slices.Clone(lines)
		for range 10 {
			i := r.IntN(len(lines))
			switch r.IntN(3) {
			case 0:
				lines = slices.Delete(lines, i, i+1)
			case 1:
				lines = slices.Insert(lines, i, "new\n")
			default:
				lines[i] = fmt.Sprint("edit", r.IntN(1000), "\n")
			}
		}
		return lines
	}
	out := map[string][2]string{
		"no newline before":  {"a\nb", "a\nb\nc\n"},
		"no newline after":   {"a\nb\nc\n", "a\nb"},
		"no newline at all":  {"a", "b"},
		"carriage returns":   {"a\r\nb\r\nc\r\n", "a\r\nb\nc\r\n"},
		"from nothing":       {"", "a\n"},
		"to nothing":         {"a\n", ""},
		"dashes and pluses":  {"--- a\n+++ b\n@@ -1 +1 @@\n", "--- a\n-- c\n@@ -1 +1 @@\n"},
		"blank lines":        {"\n\n\n", "\n\nx\n\n\n"},
		"first line changes": {"a\nb\nc\nd\ne\nf\n", "A\nb\nc\nd\ne\nf\n"},
	}
	for i := range 10 {
		lines := numbered(1, 20+r.IntN(200))
		out[fmt.Sprint("random ", i)] = [2]string{strings.Join(lines, ""), strings.Join(edited(lines), "")}
	}
	return out
}

func TestUnifiedIsAppliedByTheProgramsPeopleUse(t *testing.T) {
	for _, program := range []string{"patch", "git"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("no %s here, not tried", program)
			continue
		}
		for name, pair := range texts() {
			for _, context := range []int{0, 3} {
				t.Run(fmt.Sprintf("%s/%s/%d", program, name, context), func(t *testing.T) {
					dir := t.TempDir()
					file := filepath.Join(dir, "f")
					if err := os.WriteFile(file, []byte(pair[0]), 0o644); err != nil {
						t.Fatal(err)
					}
					u := diff.Lines([]byte(pair[0]), []byte(pair[1])).Unified("a/f", "b/f", context)
					args := []string{"--binary", "--posix", "-s", "f"}
					if program == "git" {
						args = []string{"apply", "--unidiff-zero", "--whitespace=nowarn", "-"}
					}
					cmd := exec.CommandContext(t.Context(), program, args...)
					cmd.Dir, cmd.Stdin = dir, strings.NewReader(u)
					cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Fatalf("%v: %v\n%s\n%s", cmd, err, out, u)
					}
					got, err := os.ReadFile(file)
					if err != nil && !os.IsNotExist(err) {
						t.Fatal(err)
					}
					if string(got) != pair[1] {
						t.Errorf("got %q, want %q, by\n%s", got, pair[1], u)
					}
				})
			}
		}
	}
}

// apply puts the changes into old, using nothing but what the changes say.
func apply(old []byte, changes []diff.Change) []byte {
	lines := slices.Collect(bytes.Lines(old))
	var out []byte
	at := 0
	for _, c := range changes {
		for ; at < c.OldStart-1; at++ {
			out = append(out, lines[at]...)
		}
		at += c.OldLines
		out = append(out, c.NewContent...)
		if c.NewLines > 0 && !c.NewNoNewline {
			out = append(out, '\n')
		}
	}
	for ; at < len(lines); at++ {
		out = append(out, lines[at]...)
	}
	return out
}

// check judges everything that must hold for any two texts.
func check(t interface {
	Helper()
	Fatalf(string, ...any)
}, old, new []byte,
) {
	t.Helper()
	d := diff.Lines(old, new)
	changes := d.Changes(3)
	if got := apply(old, changes); !bytes.Equal(got, new) {
		t.Fatalf("changes from %q to %q give %q:\n%s", old, new, got, brief(changes))
	}
	oldLines, newLines := slices.Collect(bytes.Lines(old)), slices.Collect(bytes.Lines(new))
	side := func(lines [][]byte, start, n int, noNewline bool, content string) {
		t.Helper()
		want := string(bytes.Join(lines[start-1:start-1+n], nil))
		if n > 0 && !noNewline {
			content += "\n"
		}
		if content != want {
			t.Fatalf("from %q to %q: %d lines from %d are %q, want %q", old, new, n, start, content, want)
		}
	}
	at, end := 0, 0
	for i, c := range changes {
		side(oldLines, c.OldStart, c.OldLines, c.OldNoNewline, c.OldContent)
		side(newLines, c.NewStart, c.NewLines, c.NewNoNewline, c.NewContent)
		h := d.Hunks()[i]
		if h.Old.Line != c.OldStart-1 || h.New.Line != c.NewStart-1 || h.Old.Lines()+h.New.Lines() == 0 {
			t.Fatalf("hunk %+v for change %+v", h, c)
		}
		if !bytes.Equal(old[at:h.Old.Byte], new[end:h.New.Byte]) || i > 0 && h.Old.Byte == at {
			t.Fatalf("from %q to %q: what is before hunk %d is not the same, or nothing: %+v", old, new, i, d.Hunks())
		}
		at, end = h.Old.ByteEnd, h.New.ByteEnd
		if before, _ := strings.CutSuffix(string(bytes.Join(oldLines[max(0, c.OldStart-4):c.OldStart-1], nil)), "\n"); !strings.HasSuffix(before, c.ContextBefore) {
			t.Fatalf("context before %+v is not what stands there: %q", c, before)
		}
	}
	if len(changes) == 0 != bytes.Equal(old, new) {
		t.Fatalf("%d changes from %q to %q", len(changes), old, new)
	}
	if got := applyUnified(t, old, d.Unified("a", "b", 2)); !bytes.Equal(got, new) {
		t.Fatalf("unified diff from %q to %q gives %q:\n%s", old, new, got, d.Unified("a", "b", 2))
	}
}

// applyUnified is a reader of the format that trusts headers and marks alone.
func applyUnified(t interface {
	Helper()
	Fatalf(string, ...any)
}, old []byte, u string,
) []byte {
	t.Helper()
	lines := slices.Collect(bytes.Lines(old))
	var out []byte
	at := 0
	rest := slices.Collect(strings.Lines(u))
	for i := 0; i < len(rest); i++ {
		line := rest[i]
		switch {
		case i < 2:
		case strings.HasPrefix(line, "@@ "):
			var start, n int
			if _, err := fmt.Sscanf(line, "@@ -%d,%d ", &start, &n); err != nil {
				if _, err := fmt.Sscanf(line, "@@ -%d ", &start); err != nil {
					t.Fatalf("header %q: %v", line, err)
				}
				n = 1
			}
			if n > 0 {
				start--
			}
			for ; at < start; at++ {
				out = append(out, lines[at]...)
			}
		default:
			text := line[1:]
			if i+1 < len(rest) && strings.HasPrefix(rest[i+1], `\ `) {
				text = strings.TrimSuffix(text, "\n")
				i++
			}
			if line[0] != '+' {
				if at >= len(lines) || string(lines[at]) != text {
					t.Fatalf("%q is not line %d of %q", text, at+1, old)
				}
				at++
			}
			if line[0] != '-' {
				out = append(out, text...)
			}
		}
	}
	for ; at < len(lines); at++ {
		out = append(out, lines[at]...)
	}
	return out
}

// words are texts of few different lines, so that much is equal by chance.
func words() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "\n", "  c\n", "}\n", "d\r\n"}), 0, 25).Draw(t, "lines")
		return strings.Join(lines, "") + rapid.SampledFrom([]string{"", "", "a", "x"}).Draw(t, "end")
	})
}

func TestDiffOfAnyTextsIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		check(t, []byte(words().Draw(t, "old")), []byte(words().Draw(t, "new")))
	})
}

func TestHardTextsAreComparedExactly(t *testing.T) {
	for name, p := range hard(4000) {
		t.Run(name, func(t *testing.T) { check(t, join(p[0]), join(p[1])) })
	}
}

func TestLongEqualEndsAreSkipped(t *testing.T) {
	lines := numbered(1, 5000)
	for _, at := range []int{0, 1, 2500, 4998, 4999} {
		new := slices.Clone(lines)
		new[at] = "x\n"
		want := fmt.Sprintf(`modified %d-%d "%d" > "x"`, at+1, at+1, at+1)
		if got := brief(diff.Lines(join(lines), join(new)).Changes(0)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		check(t, join(lines), join(slices.Insert(new, at, "y\n", lines[at])))
	}
}

func TestTextOfTooManyLinesIsOneChange(t *testing.T) {
	old := []byte("head\n" + strings.Repeat("\n", 1<<20+1) + "a")
	new := []byte("head\n" + strings.Repeat("\r\n", 10) + "b")
	changes := diff.Lines(old, new).Changes(1)
	if len(changes) != 1 || changes[0].OldLines < 1<<20 || changes[0].NewLines < 11 || !changes[0].NewNoNewline {
		t.Fatalf("%d changes, the first of %d lines", len(changes), changes[0].OldLines)
	}
	if got := apply(old, changes); !bytes.Equal(got, new) {
		t.Error("the change does not give the new text")
	}
}

func FuzzDiff(f *testing.F) {
	for _, p := range texts() {
		f.Add([]byte(p[0]), []byte(p[1]))
	}
	f.Fuzz(func(t *testing.T, old, new []byte) { check(t, old, new) })
}

func numbered(from, to int) []string {
	var lines []string
	for i := from; i <= to; i++ {
		lines = append(lines, fmt.Sprint(i, "\n"))
	}
	return lines
}

func join(lines []string) []byte { return []byte(strings.Join(lines, "")) }
