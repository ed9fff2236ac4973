package patch_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/async-crud-mcp/async-crud-mcp/internal/files/patch"
)

func text(old, new string) patch.Edit { return patch.Edit{Old: old, New: new} }

func all(old, new string) patch.Edit { return patch.Edit{Old: old, New: new, ReplaceAll: true} }

func lines(from, to int, new string) patch.Edit {
	return patch.Edit{StartLine: from, EndLine: to, New: new}
}

func expecting(e patch.Edit, want string) patch.Edit {
	e.Expected = &want
	return e
}

func TestApply(t *testing.T) {
	for _, c := range []struct {
		name, text string
		edits      []patch.Edit
		want       string
	}{
		{"nothing", "a\n", nil, "a\n"},
		{"a piece", "one two three\n", []patch.Edit{text("two", "2")}, "one 2 three\n"},
		{"literally", "price\n", []patch.Edit{text("price", `$1 \n ${x} %s`)}, `$1 \n ${x} %s` + "\n"},
		{"several lines", "a\nb\nc\n", []patch.Edit{text("a\nb\n", "x\n")}, "x\nc\n"},
		{"away with it", "a\nb\nc\n", []patch.Edit{text("b\n", "")}, "a\nc\n"},
		{"by itself", "a\n", []patch.Edit{text("a", "a")}, "a\n"},
		{"one after the other", "a\n", []patch.Edit{text("a", "b"), text("b", "c")}, "c\n"},
		{"made unique by the one before", "x x\n", []patch.Edit{text("x x", "x y"), text("x", "z")}, "z y\n"},
		{"all", "a b a b a\n", []patch.Edit{all("a", "aa")}, "aa b aa b aa\n"},
		{"all, overlapping", "aaaaa\n", []patch.Edit{all("aa", "b")}, "bba\n"},
		{"invalid bytes and line ends elsewhere", "\xff\r\nold\r\n\xfe\x00", []patch.Edit{text("old", "new")}, "\xff\r\nnew\r\n\xfe\x00"},

		{"a line", "a\nb\nc\n", []patch.Edit{lines(2, 2, "B\n")}, "a\nB\nc\n"},
		{"a line, its end supplied", "a\nb\nc\n", []patch.Edit{lines(2, 2, "B")}, "a\nB\nc\n"},
		{"a line, its end of the file's kind", "a\r\nb\r\nc\r\n", []patch.Edit{lines(2, 2, "B")}, "a\r\nB\r\nc\r\n"},
		{"lines away", "a\nb\nc\n", []patch.Edit{lines(1, 2, "")}, "c\n"},
		{"an empty line", "a\nb\n", []patch.Edit{lines(1, 1, "\n")}, "\nb\n"},
		{"last line without end", "a\nb", []patch.Edit{lines(2, 2, "B")}, "a\nB"},
		{"last line without end gets one", "a\nb", []patch.Edit{lines(2, 2, "B\n")}, "a\nB\n"},
		{"put before a line", "a\nb\n", []patch.Edit{lines(2, 1, "x\ny")}, "a\nx\ny\nb\n"},
		{"put first", "a\n", []patch.Edit{lines(1, 0, "x")}, "x\na\n"},
		{"put last", "a\n", []patch.Edit{lines(2, 1, "x")}, "a\nx\n"},
		{"put last behind a line without end", "a", []patch.Edit{lines(2, 1, "x")}, "a\nx"},
		{"put last behind a line without end, of the file's kind", "a\r\nb", []patch.Edit{lines(3, 2, "x")}, "a\r\nb\r\nx"},
		{"put into nothing", "", []patch.Edit{lines(1, 0, "x")}, "x"},
		{"put first without end before others", "a\r\nb", []patch.Edit{lines(1, 0, "x")}, "x\r\na\r\nb"},
		{"expected", "a\nb\nc\n", []patch.Edit{expecting(lines(1, 2, "x"), "a\nb\n")}, "x\nc\n"},
		{"expected without the last end", "a\nb\nc\n", []patch.Edit{expecting(lines(1, 2, "x"), "a\nb")}, "x\nc\n"},
		{"expected without the last end, CRLF", "a\r\nb\r\n", []patch.Edit{expecting(lines(2, 2, "x"), "b")}, "a\r\nx\r\n"},
		{"expected nothing between lines", "a\nb\n", []patch.Edit{expecting(lines(2, 1, "x"), "")}, "a\nx\nb\n"},
		{"numbers are those before the first edit", "1\n2\n3\n4\n", []patch.Edit{lines(1, 1, "a\nb\nc"), lines(3, 3, ""), lines(4, 4, "d")}, "a\nb\nc\n2\nd\n"},
		{"numbers survive edits of text", "1\n2\n3\n", []patch.Edit{text("1\n", "x\ny\n"), lines(3, 3, "z")}, "x\ny\n2\nz\n"},
		{"lines put at one place stay in order", "1\n2\n", []patch.Edit{lines(2, 1, "a"), lines(2, 1, "b")}, "1\na\nb\n2\n"},
		{"line behind what was put before it", "1\n2\n", []patch.Edit{lines(2, 1, "a"), lines(2, 2, "b")}, "1\na\nb\n"},
		{"text in a line that was put", "1\n", []patch.Edit{lines(2, 1, "two"), text("two", "2")}, "1\n2\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := []byte(c.text)
			got, err := patch.Apply(in, c.edits, 0)
			if err != nil || string(got) != c.want {
				t.Errorf("Apply = %q, %v, want %q", got, err, c.want)
			}
			if string(in) != c.text {
				t.Errorf("the text itself became %q", in)
			}
		})
	}
}

func TestApplySaysWhichEditDoesNotFitAndWhy(t *testing.T) {
	many := strings.Repeat("x\n", 30)
	for _, c := range []struct {
		name, text string
		edits      []patch.Edit
		want       patch.Error
		message    string
	}{
		{
			"not found", "a\n",
			[]patch.Edit{text("a", "b"), text("zzz", "")},
			patch.Error{Index: 1, Reason: patch.NotFound},
			"patch 1: old_string not found",
		},
		{
			"consumed by the one before", "a\n",
			[]patch.Edit{text("a", ""), text("a", "b")},
			patch.Error{Index: 1, Reason: patch.NotFound},
			"patch 1: old_string not found",
		},
		{
			"all of none", "a\n",
			[]patch.Edit{all("zzz", "")},
			patch.Error{Index: 0, Reason: patch.NotFound},
			"patch 0: old_string not found",
		},
		{
			"twice", "a\nb\na\n",
			[]patch.Edit{text("a", "c")},
			patch.Error{Index: 0, Reason: patch.Repeated, Count: 2, Lines: []int{1, 3}},
			"patch 0: old_string occurs 2 times, on lines 1, 3; make it longer or set replace_all",
		},
		{
			"overlapping itself", "aaa\n",
			[]patch.Edit{text("aa", "c")},
			patch.Error{Index: 0, Reason: patch.Repeated, Count: 2, Lines: []int{1, 1}},
			"patch 0: old_string occurs 2 times, on lines 1, 1; make it longer or set replace_all",
		},
		{
			"lines are those before the first edit", "1\na\na\n",
			[]patch.Edit{text("1", "x\ny\nz"), text("a", "c")},
			patch.Error{Index: 1, Reason: patch.Repeated, Count: 2, Lines: []int{2, 3}},
			"patch 1: old_string occurs 2 times, on lines 2, 3; make it longer or set replace_all",
		},
		{
			"very often", many,
			[]patch.Edit{text("x", "y")},
			patch.Error{Index: 0, Reason: patch.Repeated, Count: 30, Lines: []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}},
			"patch 0: old_string occurs 30 times, on lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, …; make it longer or set replace_all",
		},
		{
			"empty", "a\n",
			[]patch.Edit{text("", "b")},
			patch.Error{Index: 0, Reason: patch.EmptyOld},
			"patch 0: old_string is empty",
		},
		{
			"nearest", "func compute(a int) int {\n\treturn a\n}\n",
			[]patch.Edit{text("func compute(b int) int {", "")},
			patch.Error{Index: 0, Reason: patch.NotFound, Nearest: &patch.Match{Line: 1}},
			"patch 0: old_string not found; most alike is line 1",
		},
		{
			"not as expected", "a\nb\n",
			[]patch.Edit{expecting(lines(2, 2, "x"), "a")},
			patch.Error{Index: 0, Reason: patch.Unexpected},
			"patch 0: the lines are not as expected",
		},
		{
			"expected an end too many", "a\nb",
			[]patch.Edit{expecting(lines(2, 2, "x"), "b\n")},
			patch.Error{Index: 0, Reason: patch.Unexpected},
			"patch 0: the lines are not as expected",
		},
		{
			"expected less than a line", "abc\n",
			[]patch.Edit{expecting(lines(1, 1, "x"), "a")},
			patch.Error{Index: 0, Reason: patch.Unexpected},
			"patch 0: the lines are not as expected",
		},
		{
			"expected one line of two", "a\n\n",
			[]patch.Edit{expecting(lines(1, 2, "x"), "a\n")},
			patch.Error{Index: 0, Reason: patch.Unexpected},
			"patch 0: the lines are not as expected",
		},
		{
			"same lines twice", "a\nb\nc\n",
			[]patch.Edit{lines(1, 2, "x"), lines(2, 3, "y")},
			patch.Error{Index: 1, Reason: patch.Touched},
			"patch 1: an earlier patch changes the same lines",
		},
		{
			"a line whose text was edited", "a\nb\nc\n",
			[]patch.Edit{text("b", "B"), lines(2, 2, "y")},
			patch.Error{Index: 1, Reason: patch.Touched},
			"patch 1: an earlier patch changes the same lines",
		},
		{
			"put in the midst of edited lines", "a\nb\nc\n",
			[]patch.Edit{lines(1, 3, "x"), lines(2, 1, "y")},
			patch.Error{Index: 1, Reason: patch.Touched},
			"patch 1: an earlier patch changes the same lines",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := patch.Apply([]byte(c.text), c.edits, 0)
			got, ok := errors.AsType[*patch.Error](err)
			if !ok {
				t.Fatalf("Apply = %v, want %+v", err, c.want)
			}
			if got.Index != c.want.Index || got.Reason != c.want.Reason || got.Count != c.want.Count || !slices.Equal(got.Lines, c.want.Lines) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if (got.Nearest == nil) != (c.want.Nearest == nil) || got.Nearest != nil && got.Nearest.Line != c.want.Nearest.Line {
				t.Errorf("nearest %+v, want %+v", got.Nearest, c.want.Nearest)
			}
			if err.Error() != c.message {
				t.Errorf("message %q, want %q", err, c.message)
			}
		})
	}
}

func TestApplyKnowsWhichLinesThereAre(t *testing.T) {
	for _, r := range [][2]int{{0, 1}, {-1, 1}, {1, 4}, {3, 1}, {4, 4}, {5, 4}, {1, -1}} {
		_, err := patch.Apply([]byte("a\nb\nc\n"), []patch.Edit{lines(r[0], r[1], "x")}, 0)
		if got, ok := errors.AsType[*patch.Error](err); !ok || got.Reason != patch.NoSuchLines {
			t.Errorf("lines %v of three: %v, want NoSuchLines", r, err)
		} else if want := "patch 0: start_line and end_line are not lines of the file"; err.Error() != want {
			t.Errorf("message %q, want %q", err, want)
		}
	}
}

func TestApplyKeepsToTheLimit(t *testing.T) {
	for _, c := range []struct {
		text  string
		edit  patch.Edit
		limit int
		ok    bool
	}{
		{"abc", text("b", "12345"), 7, true},
		{"abc", text("b", "123456"), 7, false},
		{"abc", text("b", ""), 2, true},
		{strings.Repeat("a", 1000), all("a", "bb"), 2000, true},
		{strings.Repeat("a", 1000), all("a", "bb"), 1999, false},
		{strings.Repeat("a", 1_000_000), all("a", strings.Repeat("b", 1_000_000)), 10 << 20, false},
	} {
		got, err := patch.Apply([]byte(c.text), []patch.Edit{c.edit}, c.limit)
		switch {
		case c.ok && (err != nil || len(got) > c.limit):
			t.Errorf("%d bytes, limit %d: %d bytes, %v", len(c.text), c.limit, len(got), err)
		case !c.ok && !errors.Is(err, patch.ErrTooLarge):
			t.Errorf("%d bytes, limit %d: %v, want ErrTooLarge", len(c.text), c.limit, err)
		}
	}
}

func TestVeryManyReplacementsAreMadeAtOnce(t *testing.T) {
	in := "head\n" + strings.Repeat("a\n", 50_000) + "tail\n"
	got, err := patch.Apply([]byte(in), []patch.Edit{all("a\n", "bc\n"), text("head", "Head"), lines(50_002, 50_002, "Tail")}, 0)
	if want := "Head\n" + strings.Repeat("bc\n", 50_000) + "Tail\n"; err != nil || string(got) != want {
		t.Errorf("Apply: %d bytes, %v, want %d", len(got), err, len(want))
	}
}

// apply is what Apply does for edits of text, the plain way.
func apply(in string, edits []patch.Edit) (string, bool) {
	for _, e := range edits {
		n := 0
		for i := range len(in) {
			if strings.HasPrefix(in[i:], e.Old) {
				n++
			}
		}
		switch {
		case e.Old == "" || n == 0 || n > 1 && !e.ReplaceAll:
			return "", false
		case e.ReplaceAll:
			in = strings.ReplaceAll(in, e.Old, e.New)
		default:
			in = strings.Replace(in, e.Old, e.New, 1)
		}
	}
	return in, true
}

func checkApply(t interface {
	Helper()
	Fatalf(string, ...any)
}, in string, edits []patch.Edit,
) {
	t.Helper()
	want, ok := apply(in, edits)
	got, err := patch.Apply([]byte(in), edits, 0)
	if ok != (err == nil) || string(got) != want {
		t.Fatalf("Apply(%q, %+v) = %q, %v, want %q, %v", in, edits, got, err, want, ok)
	}
}

var shortText = rapid.StringOfN(rapid.SampledFrom([]rune("ab\n")), 0, 30, -1)

func textEdits() *rapid.Generator[[]patch.Edit] {
	piece := rapid.StringOfN(rapid.SampledFrom([]rune("ab\n")), 0, 4, -1)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) patch.Edit {
		return patch.Edit{Old: piece.Draw(t, "old"), New: piece.Draw(t, "new"), ReplaceAll: rapid.Bool().Draw(t, "all")}
	}), 0, 5)
}

func TestApplyDoesOneEditAfterTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkApply(t, shortText.Draw(t, "text"), textEdits().Draw(t, "edits")) })
}

func FuzzApply(f *testing.F) {
	f.Add("a b c\n", "a", "b", true, "b", "c", false)
	f.Add("aaa", "aa", "a", false, "a", "", true)
	f.Fuzz(func(t *testing.T, in, old, new string, all bool, old2, new2 string, all2 bool) {
		if len(in)*(len(new)+1)*(len(new2)+1) > 1<<20 {
			t.Skip("grows too large")
		}
		checkApply(t, in, []patch.Edit{{Old: old, New: new, ReplaceAll: all}, {Old: old2, New: new2, ReplaceAll: all2}})
	})
}

// Whatever was edited before, a range of lines is found by its first number and
// replaced as a whole, or refused because somebody was there before.
func TestLineNumbersHoldWhateverWasEditedBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 12
		var in, want []string
		var edits []patch.Edit
		for i := range n {
			in = append(in, fmt.Sprintf("line %d\n", i+1))
		}
		want = slices.Clone(in)
		touched := make([]bool, n)
		for _, i := range rapid.SliceOfDistinct(rapid.IntRange(0, n-1), rapid.ID).Draw(t, "lines") {
			if touched[i] {
				continue
			}
			new := rapid.SampledFrom([]string{"", "x\n", "x\ny\nz\n"}).Draw(t, "new")
			switch rapid.IntRange(0, 2).Draw(t, "how") {
			case 0:
				edits = append(edits, text(in[i], new))
				want[i] = new
			case 1:
				edits = append(edits, lines(i+1, i+1, new))
				want[i] = new
			default:
				to := i
				for to+1 < n && to < i+2 && !touched[to+1] {
					to++
				}
				edits = append(edits, lines(i+1, to+1, new))
				want[i] = new
				for ; to > i; to-- {
					want[to], touched[to] = "", true
				}
			}
			touched[i] = true
		}
		got, err := patch.Apply([]byte(strings.Join(in, "")), edits, 0)
		if err != nil || string(got) != strings.Join(want, "") {
			t.Fatalf("Apply(%+v) = %q, %v, want %q", edits, got, err, strings.Join(want, ""))
		}
		for i := range n {
			if touched[i] {
				_, err := patch.Apply([]byte(strings.Join(in, "")), append(slices.Clip(edits), lines(i+1, i+1, "again")), 0)
				if e, ok := errors.AsType[*patch.Error](err); !ok || e.Reason != patch.Touched {
					t.Fatalf("line %d edited twice after %+v: %v", i+1, edits, err)
				}
			}
		}
	})
}
