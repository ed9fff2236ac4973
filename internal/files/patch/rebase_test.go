package patch_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/async-crud-mcp/async-crud-mcp/internal/files/patch"
)

const program = `package main

func a() error {
	return nil
}

func b() int {
	x := 1
	return x
}

// END
`

// after returns program with old replaced by new, which must be there once.
func after(old, new string) string {
	if strings.Count(program, old) != 1 {
		panic("not once in the program: " + old)
	}
	return strings.Replace(program, old, new, 1)
}

func TestCheck(t *testing.T) {
	const (
		none    = ""
		missing = patch.ReasonNotFound
		context = patch.ReasonContext
	)
	for _, c := range []struct {
		name    string
		current string
		edit    patch.Edit
		verdict patch.Verdict
		asIs    bool
		reason  string
		line    int
		want    string // the current text with the edit carried over; "" when it does not fit
	}{
		{
			"others changed something else", after("nil", "errBad"), text("x := 1", "x := 2"),
			patch.Applies, true, none, 8, strings.Replace(after("nil", "errBad"), "x := 1", "x := 2", 1),
		},
		{
			"others put lines above", after("package main\n", "package main\n\nimport \"fmt\"\n"), text("x := 1", "x := 2"),
			patch.Applies, true, none, 10, strings.Replace(after("package main\n", "package main\n\nimport \"fmt\"\n"), "x := 1", "x := 2", 1),
		},
		{
			"others changed the next line", after("return x", "return x+1"), text("x := 1", "x := 2"),
			patch.Applies, true, none, 8, strings.Replace(after("return x", "return x+1"), "x := 1", "x := 2", 1),
		},
		{
			"others changed the rest of the line", after("func b() int", "func b() int64"), text("func b", "func B"),
			patch.Applies, true, none, 7, strings.Replace(after("func b() int", "func b() int64"), "func b", "func B", 1),
		},
		{
			"others put lines before the same anchor", after("// END", "// one\n// END"), text("// END", "// two\n// END"),
			patch.Applies, true, none, 13, after("// END", "// one\n// two\n// END"),
		},
		{
			"others changed the same", after("x := 1", "x := 3"), text("x := 1", "x := 2"),
			patch.Conflicts, false, missing, 0, "",
		},
		{
			"others removed it", after("\tx := 1\n", ""), text("x := 1", "x := 2"),
			patch.Conflicts, false, missing, 0, "",
		},
		{
			"others did the same", after("x := 1", "x := 2"), text("x := 1", "x := 2"),
			patch.AlreadyApplied, false, none, 8, after("x := 1", "x := 2"),
		},
		{
			"others did the same and more", after("x := 1\n\treturn x", "x := 2\n\treturn x+x"), text("x := 1", "x := 2"),
			patch.AlreadyApplied, false, none, 8, after("x := 1\n\treturn x", "x := 2\n\treturn x+x"),
		},
		{
			"others put in the same lines", after("// END", "// two\n// END"), text("// END", "// two\n// END"),
			patch.AlreadyApplied, false, none, 12, after("// END", "// two\n// END"),
		},
		{
			"others removed the same lines", after("\tx := 1\n", ""), text("\tx := 1\n", ""),
			patch.AlreadyApplied, false, none, 8, after("\tx := 1\n", ""),
		},
		{
			"others put something in their place", after("\tx := 1\n", "\tx := 5\n"), text("\tx := 1\n", ""),
			patch.Conflicts, false, missing, 0, "",
		},
		{
			"what would come out was there before", after("\tx := 1\n\treturn x\n}\n", "\treturn 5\n}\n"), text("\tx := 1\n\treturn x\n}\n", "}\n"),
			patch.Conflicts, false, missing, 0, "",
		},
		{
			"a copy has appeared", after("// END", "// x := 1\n// END"), text("x := 1", "x := 2"),
			patch.Moved, false, none, 8, strings.Replace(after("// END", "// x := 1\n// END"), "x := 1", "x := 2", 1),
		},
		{
			"a copy has appeared before it", after("package main", "package main // x := 1"), text("x := 1", "x := 2"),
			patch.Moved, false, none, 8, strings.Replace(after("package main", "package main // x := 1"), "\tx := 1", "\tx := 2", 1),
		},
		{
			"the line has changed and a copy has appeared", strings.Replace(after("x := 1", "x := 1 // one"), "// END", "// x := 1\n// END", 1), text("x := 1", "x := 2"),
			patch.Moved, false, none, 8, strings.Replace(after("x := 1", "x := 2 // one"), "// END", "// x := 1\n// END", 1),
		},
		{
			"the block has moved", "package main\n\nfunc b() int {\n\tx := 1\n\treturn x\n}\n\nfunc a() error {\n\treturn nil\n}\n\n// END\n", text("return nil", "return errBad"),
			patch.Moved, true, none, 9, "package main\n\nfunc b() int {\n\tx := 1\n\treturn x\n}\n\nfunc a() error {\n\treturn errBad\n}\n\n// END\n",
		},
		{
			"two copies instead of it", after("x := 1", "y := 1; x := 10; x := 12"), text("x := 1", "x := 2"),
			patch.Ambiguous, false, context, 0, "",
		},
		{
			"one like it elsewhere", strings.Replace(after("return nil", "return errBad"), "// END", "func c() error {\n\treturn nil\n}\n", 1), text("return nil", "return err"),
			patch.Conflicts, false, context, 13, "",
		},
		{
			"all, and others added one", after("// END", "// x\n// END"), all("x", "y"),
			patch.Applies, true, none, 8, strings.ReplaceAll(after("// END", "// x\n// END"), "x", "y"),
		},
		{
			"all, and others did it", strings.ReplaceAll(program, "x", "y"), all("x", "y"),
			patch.AlreadyApplied, false, none, 8, strings.ReplaceAll(program, "x", "y"),
		},
		{
			"all, and others did it with something that contains it", strings.ReplaceAll(program, "x", "xx"), all("x", "xx"),
			patch.AlreadyApplied, false, none, 8, strings.ReplaceAll(program, "x", "xx"),
		},
		{
			"all, and others did it in part", after("x := 1", "xx := 1"), all("x", "xx"),
			patch.Conflicts, false, context, 8, "",
		},
		{
			"all of what is gone", strings.ReplaceAll(program, "x", "z"), all("x", "y"),
			patch.Conflicts, false, missing, 0, "",
		},
		{
			"never was there", after("nil", "errBad"), text("zzz", "y"),
			patch.Conflicts, false, missing, 0, "",
		},
		{
			"never was there but is now", after("nil", "zzz"), text("zzz", "y"),
			patch.Applies, true, none, 4, after("nil", "y"),
		},
		{
			"was there more than once and is not now", after("return nil", "panic(nil)"), text("return", "return 2 *"),
			patch.Applies, true, none, 9, strings.Replace(after("return nil", "panic(nil)"), "return", "return 2 *", 1),
		},
		{
			"was there more than once and still is", after("nil", "errBad"), text("return", "y"),
			patch.Ambiguous, false, context, 0, "",
		},

		{
			"lines where they were", after("// END", "// end"), lines(8, 8, "\tx := 2"),
			patch.Applies, true, none, 8, strings.Replace(after("// END", "// end"), "x := 1", "x := 2", 1),
		},
		{
			"lines pushed down", after("package main\n", "package main\n\nimport \"fmt\"\n"), lines(8, 9, "\treturn 2"),
			patch.Moved, false, none, 10, strings.Replace(after("package main\n", "package main\n\nimport \"fmt\"\n"), "\tx := 1\n\treturn x\n", "\treturn 2\n", 1),
		},
		{
			"lines pushed down, as expected", after("package main\n", "package main\n\nimport \"fmt\"\n"), expecting(lines(8, 8, "\tx := 2"), "\tx := 1"),
			patch.Moved, false, none, 10, strings.Replace(after("package main\n", "package main\n\nimport \"fmt\"\n"), "x := 1", "x := 2", 1),
		},
		{
			"lines that others changed", after("x := 1", "x := 3"), lines(8, 9, "\treturn 2"),
			patch.Conflicts, false, missing, 0, "",
		},
		{
			"lines that others split", after("x := 1\n", "x := 1\n\tx++\n"), lines(8, 9, "\treturn 2"),
			patch.Conflicts, false, missing, 0, "",
		},
		{
			"lines that others changed in the same way", after("\tx := 1\n\treturn x\n", "\treturn 2\n"), lines(8, 9, "\treturn 2"),
			patch.AlreadyApplied, false, none, 8, after("\tx := 1\n\treturn x\n", "\treturn 2\n"),
		},
		{
			"lines next to changed ones", after("return x", "return x+1"), lines(8, 8, "\tx := 2"),
			patch.Applies, true, none, 8, strings.Replace(after("return x", "return x+1"), "x := 1", "x := 2", 1),
		},
		{
			"lines were never as expected", after("// END", "// end"), expecting(lines(8, 8, "x"), "y := 1"),
			patch.Conflicts, false, missing, 0, "",
		},
		{
			"lines were never there", after("// END", "// end"), lines(100, 100, "x"),
			patch.Conflicts, false, missing, 0, "",
		},
		{
			"put where it was meant", after("nil", "errBad"), lines(8, 7, "\t// one"),
			patch.Applies, true, none, 8, strings.Replace(after("nil", "errBad"), "\tx := 1", "\t// one\n\tx := 1", 1),
		},
		{
			"put further down", after("package main\n", "package main\n\nimport \"fmt\"\n"), lines(8, 7, "\t// one"),
			patch.Moved, false, none, 10, strings.Replace(after("package main\n", "package main\n\nimport \"fmt\"\n"), "\tx := 1", "\t// one\n\tx := 1", 1),
		},
		{
			"put before a changed line", after("x := 1", "x := 3"), lines(8, 7, "\t// one"),
			patch.Applies, true, none, 8, after("\tx := 1", "\t// one\n\tx := 3"),
		},
		{
			"put behind a changed line", after("x := 1", "x := 3\n\tx++"), lines(9, 8, "\t// one"),
			patch.Moved, false, none, 10, after("x := 1", "x := 3\n\tx++\n\t// one"),
		},
		{
			"put where others put something", after("\treturn x", "\tx++\n\treturn x"), lines(9, 8, "\t// one"),
			patch.Conflicts, false, context, 0, "",
		},
		{
			"put in the midst of what others changed", after("\tx := 1\n\treturn x", "\treturn 5"), lines(9, 8, "\t// one"),
			patch.Conflicts, false, context, 0, "",
		},
		{
			"put what others put there", after("\treturn x", "\tx++\n\treturn x"), lines(9, 8, "\tx++"),
			patch.AlreadyApplied, false, none, 9, after("\treturn x", "\tx++\n\treturn x"),
		},
		{
			"put at the end", after("nil", "errBad"), lines(13, 12, "// more"),
			patch.Applies, true, none, 13, after("nil", "errBad") + "// more\n",
		},
		{
			"put at the start", after("nil", "errBad"), lines(1, 0, "// first"),
			patch.Applies, true, none, 1, "// first\n" + after("nil", "errBad"),
		},
		{
			"put at the start where others were", "// other\n" + program, lines(1, 0, "// first"),
			patch.Conflicts, false, context, 0, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			edits := []patch.Edit{c.edit}
			got, r := patch.Rebase(edits, []byte(program), []byte(c.current), 0)
			f := r.Findings[0]
			if f.Verdict != c.verdict || f.AsIs != c.asIs || f.Reason != c.reason || f.Line != c.line {
				t.Fatalf("got %+v", f)
			}
			if string(got) != c.want || (got == nil) != (c.want == "") {
				t.Errorf("text\n%s\nwant\n%s", got, c.want)
			}
			applied, err := patch.Apply([]byte(c.current), edits, 0)
			if c.asIs && (err != nil || string(applied) != c.want) {
				t.Errorf("Apply = %q, %v, want %q", applied, err, c.want)
			}
			if r.Applicable() != c.asIs || r.Fits() != (c.want != "") {
				t.Errorf("applicable %v, fits %v", r.Applicable(), r.Fits())
			}
			if again := patch.Check(edits, []byte(program), []byte(c.current), 0); !reflect.DeepEqual(again, r) {
				t.Errorf("Check = %+v, Rebase = %+v", again, r)
			}
		})
	}
}

func TestCheckSaysWhatTheSeedSays(t *testing.T) {
	base := "one\ntwo\nthree\nfour\nfive\nsix\n"
	current := "ONE\ntwo\nthree\nFOUR\nfive\nfour\nsix\n"
	r := patch.Check([]patch.Edit{text("one", "1"), text("two", "2"), text("four", "4"), text("six", "6")}, []byte(base), []byte(current), 0)
	if r.Applicable() || r.Fits() {
		t.Error("all patches are said to be applicable")
	}
	want := []patch.Conflict{{0, "old_string not found in current version"}, {2, "old_string found but surrounding context changed"}}
	if got := r.Conflicts(); !slices.Equal(got, want) {
		t.Errorf("conflicts %+v, want %+v", got, want)
	}
	if got := r.NonConflicting(); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("non-conflicting %v, want 1 and 3", got)
	}
}

func TestCheckWithoutTheBase(t *testing.T) {
	for _, c := range []struct {
		name    string
		edit    patch.Edit
		verdict patch.Verdict
		lines   []int
	}{
		{"once", text("x := 1", "x := 2"), patch.Applies, nil},
		{"gone", text("x := 7", "x := 1"), patch.Conflicts, nil},
		{"more than once", text("return", "y"), patch.Ambiguous, []int{4, 9}},
		{"all", all("return", "y"), patch.Applies, nil},
		{"all of none", all("zzz", "y"), patch.Conflicts, nil},
		{"lines", lines(8, 8, "x"), patch.Conflicts, nil},
		{"lines as expected", expecting(lines(8, 8, "x"), "\tx := 1"), patch.Applies, nil},
		{"lines not as expected", expecting(lines(8, 8, "x"), "\tx := 7"), patch.Conflicts, nil},
		{"empty", text("", "x"), patch.Conflicts, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := patch.Check([]patch.Edit{c.edit}, nil, []byte(program), 0)
			if f := r.Findings[0]; f.Verdict != c.verdict || f.AsIs != (c.verdict == patch.Applies) || !slices.Equal(f.Lines, c.lines) {
				t.Errorf("got %+v", f)
			}
			_, err := patch.Apply([]byte(program), []patch.Edit{c.edit}, 0)
			if r.Applicable() && err != nil {
				t.Errorf("said to be applicable, but Apply = %v", err)
			}
		})
	}
}

func TestLaterEditsAreJudgedOnWhatEarlierOnesLeave(t *testing.T) {
	for _, c := range []struct {
		name          string
		base, current string
		edits         []patch.Edit
		want          string // verdicts and the text
	}{
		{
			"each needs the one before", "a\nb\n", "x\na\nb\n",
			[]patch.Edit{text("a", "c"), text("c\nb", "d")},
			"applies applies x\nd\n",
		},
		{
			"needs one that does not fit", "a\nb\n", "x\nb\n",
			[]patch.Edit{text("a", "c"), text("c\nb", "d")},
			"conflicts conflicts ",
		},
		{
			"needs one that was made already", "a\nb\n", "c\nb\nx\n",
			[]patch.Edit{text("a", "c"), text("c\nb", "d")},
			"already_applied applies d\nx\n",
		},
		{
			"one of them made already", "a\nb\nc\n", "A\nb\nc\n",
			[]patch.Edit{text("a", "A"), text("c", "C")},
			"already_applied applies A\nb\nC\n",
		},
		{
			"in the text that one before has put, twice by now", "a\nq\nz\n", "a\nw\nq\nz\n",
			[]patch.Edit{text("a", "w"), text("w", "v")},
			"applies moved v\nw\nq\nz\n",
		},
		{
			"lines and text", "1\n2\n3\n4\n", "0\n1\n2\n3\n4\n",
			[]patch.Edit{lines(2, 2, "two\nmore"), text("4", "four"), lines(3, 3, "three")},
			"moved applies moved 0\n1\ntwo\nmore\nthree\nfour\n",
		},
		{
			"lines an earlier edit has touched", "1\n2\n3\n", "0\n1\n2\n3\n",
			[]patch.Edit{text("2", "x"), lines(2, 2, "y")},
			"applies conflicts ",
		},
		{
			"all, then one of them by what is around it", "a1\na2\na3\n", "a0\na1\na2\na3\n",
			[]patch.Edit{all("a", "b"), text("b2", "c")},
			"applies applies b0\nb1\nc\nb3\n",
		},
		{
			"lines at one place", "1\n2\n", "0\n1\n2\n",
			[]patch.Edit{lines(2, 1, "a"), lines(2, 1, "b")},
			"moved moved 0\n1\na\nb\n2\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, r := patch.Rebase(c.edits, []byte(c.base), []byte(c.current), 0)
			var verdicts []string
			for _, f := range r.Findings {
				verdicts = append(verdicts, string(f.Verdict))
			}
			if s := strings.Join(verdicts, " ") + " " + string(got); s != c.want {
				t.Errorf("got %q, want %q", s, c.want)
			}
		})
	}
}

func TestRebaseKeepsToTheLimit(t *testing.T) {
	for _, base := range [][]byte{nil, []byte("a\nb\n")} {
		got, r := patch.Rebase([]patch.Edit{text("a", "12345"), text("b", "c")}, base, []byte("a\nb\nx\n"), 9)
		if got != nil || !r.TooLarge || r.Fits() || r.Applicable() {
			t.Errorf("Rebase = %q, %+v, want too large", got, r)
		}
	}
	if got, r := patch.Rebase([]patch.Edit{text("a", "1234")}, []byte("a\nb\n"), []byte("a\nb\nx\n"), 9); string(got) != "1234\nb\nx\n" || r.TooLarge {
		t.Errorf("Rebase = %q, %+v", got, r)
	}
}

func TestRebaseToAnEmptyTextIsNotNil(t *testing.T) {
	for _, current := range [][]byte{[]byte("a\n"), nil} {
		got, r := patch.Rebase([]patch.Edit{text("a\n", "")}, []byte("a\n"), current, 0)
		if got == nil || len(got) != 0 || !r.Fits() {
			t.Errorf("Rebase on %q = %v, %+v", current, got, r)
		}
	}
}

// anyEdits are edits of every kind, valid or not, of texts like shortText.
func anyEdits() *rapid.Generator[[]patch.Edit] {
	piece := rapid.StringOfN(rapid.SampledFrom([]rune("ab\n")), 0, 4, -1)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) patch.Edit {
		e := patch.Edit{Old: piece.Draw(t, "old"), New: piece.Draw(t, "new"), ReplaceAll: rapid.Bool().Draw(t, "all")}
		if rapid.IntRange(0, 2).Draw(t, "kind") == 0 {
			e.StartLine = rapid.IntRange(1, 8).Draw(t, "start")
			e.EndLine = e.StartLine + rapid.IntRange(-1, 2).Draw(t, "count")
			if rapid.IntRange(0, 3).Draw(t, "expected") == 0 {
				e = expecting(e, piece.Draw(t, "expected text"))
			}
		}
		return e
	}), 0, 4)
}

func checkRebase(t interface {
	Helper()
	Fatalf(string, ...any)
}, edits []patch.Edit, base, current []byte,
) {
	t.Helper()
	got, r := patch.Rebase(edits, base, current, 0)
	if len(r.Findings) != len(edits) || len(r.Conflicts())+len(r.NonConflicting()) != len(edits) {
		t.Fatalf("%d edits, report %+v", len(edits), r)
	}
	if (got != nil) != r.Fits() {
		t.Fatalf("Rebase(%+v, %q, %q) = %q, %+v", edits, base, current, got, r)
	}
	for i, f := range r.Findings {
		conflict := f.Verdict == patch.Conflicts || f.Verdict == patch.Ambiguous
		if conflict != (f.Reason != "") || f.AsIs && f.Verdict != patch.Applies && f.Verdict != patch.Moved || f.Verdict == patch.Applies && !f.AsIs {
			t.Fatalf("Rebase(%+v, %q, %q): finding %d is %+v", edits, base, current, i, f)
		}
	}
	applied, err := patch.Apply(current, edits, 0)
	if r.Applicable() && (err != nil || string(applied) != string(got)) {
		t.Fatalf("Rebase(%+v, %q, %q) = %q, but Apply = %q, %v", edits, base, current, got, applied, err)
	}
	if base == nil || string(base) != string(current) {
		return
	}
	if err == nil && (!r.Applicable() || string(got) != string(applied)) {
		t.Fatalf("Rebase(%+v, %q) on the base itself = %q, %+v, want %q", edits, base, got, r, applied)
	}
}

func TestRebaseOfAnyEdits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		edits, base := anyEdits().Draw(t, "edits"), []byte(shortText.Draw(t, "base"))
		checkRebase(t, edits, base, []byte(shortText.Draw(t, "current")))
		checkRebase(t, edits, base, base)
		checkRebase(t, edits, nil, base)
	})
}

func FuzzCheck(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nB\nc\n", "b", "x", false, 0, 0, "c", "y", true)
	f.Add("a\nb\nc\n", "z\na\nb\nc\n", "", "x", false, 2, 3, "c", "y", true)
	f.Add("aaa", "aa", "a", "aa", true, 1, 0, "aa", "", false)
	f.Fuzz(func(t *testing.T, base, current, old, new string, all bool, start, end int, old2, new2 string, all2 bool) {
		if (len(base)+len(current))*(len(new)+1)*(len(new2)+1) > 1<<20 {
			t.Skip("grows too large")
		}
		edits := []patch.Edit{{Old: old, New: new, ReplaceAll: all, StartLine: start, EndLine: end}, {Old: old2, New: new2, ReplaceAll: all2}}
		checkRebase(t, edits, []byte(base), []byte(current))
		checkRebase(t, edits, []byte(base), []byte(base))
		checkRebase(t, edits, nil, []byte(current))
	})
}

// Edits of lines that nobody else touched land, however much others did around
// them, and what others did stays.
func TestRebaseLandsWhatNobodyElseTouched(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 15).Draw(t, "lines")
		var base, current, want []string
		var edits []patch.Edit
		for i := range n {
			line := fmt.Sprintf("line number %d.\n", i+1)
			base = append(base, line)
			theirs, merged := line, line
			switch rapid.IntRange(0, 6).Draw(t, "change") {
			case 0:
				theirs = "theirs\n"
				merged = theirs
			case 1:
				theirs = line + "and more\n"
				merged = theirs
			case 2:
				theirs, merged = "", ""
			case 3:
				new := fmt.Sprintf("mine %d\n", i)
				edits = append(edits, text(line, new))
				merged = new
			case 4:
				edits = append(edits, lines(i+1, i+1, "mine"))
				merged = "mine\n"
			}
			current, want = append(current, theirs), append(want, merged)
		}
		got, r := patch.Rebase(edits, []byte(strings.Join(base, "")), []byte(strings.Join(current, "")), 0)
		if !r.Fits() || string(got) != strings.Join(want, "") {
			t.Fatalf("from %q to %q: %+v = %q, %+v, want %q", base, current, edits, got, r, want)
		}
		_, again := patch.Rebase(edits, []byte(strings.Join(base, "")), got, 0)
		for i, f := range again.Findings {
			if f.Verdict != patch.AlreadyApplied {
				t.Fatalf("from %q to %q: %+v was made, and is said to be %+v", base, got, edits[i], f)
			}
		}
	})
}
