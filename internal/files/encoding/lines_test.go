package encoding_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/async-crud-mcp/async-crud-mcp/internal/files/encoding"
)

func TestLines(t *testing.T) {
	tests := []struct {
		text          string
		total         int
		offset, limit int
		part          string
		lines         int
	}{
		{"", 0, 0, -1, "", 0},
		{"\n", 1, 0, -1, "\n", 1},
		{"a", 1, 0, -1, "a", 1},
		{"a\nb\n", 2, 0, -1, "a\nb\n", 2},
		{"a\nb", 2, 1, -1, "b", 1},
		{"a\nb\n", 2, 0, 1, "a\n", 1},
		{"a\nb\n", 2, 1, 5, "b\n", 1},
		{"a\nb\n", 2, 2, 5, "", 0},
		{"a\nb\n", 2, 9, 1, "", 0},
		{"a\nb\n", 2, 0, 0, "", 0},
		{"a\r\nb\r\n\r\n", 3, 1, 1, "b\r\n", 1},
		{"a\rb", 1, 0, -1, "a\rb", 1},
		{"a\u2028b\x0cc", 1, 0, -1, "a\u2028b\x0cc", 1},
		{"\n\na", 3, 1, 2, "\na", 2},
	}
	for _, tt := range tests {
		if got := encoding.CountLines(tt.text); got != tt.total {
			t.Errorf("CountLines(%q) = %d, want %d", tt.text, got, tt.total)
		}
		if part, lines := encoding.SliceLines(tt.text, tt.offset, tt.limit); part != tt.part || lines != tt.lines {
			t.Errorf("SliceLines(%q, %d, %d) = %q, %d; want %q, %d", tt.text, tt.offset, tt.limit, part, lines, tt.part, tt.lines)
		}
	}
	if got := encoding.LineAt("a\nb\nc", 2); got != 2 {
		t.Errorf("LineAt = %d, want 2", got)
	}
}

func TestFit(t *testing.T) {
	tests := []struct {
		name            string
		text, old, with string
		want            encoding.Fitted
	}{
		{"as it is", "a\nb\n", "a\nb", "c\nd", encoding.Fitted{Old: "a\nb", New: "c\nd"}},
		{"read as crlf", "x\r\na\r\nb\r\n", "a\nb\n", "a\nc\nb\n", encoding.Fitted{Old: "a\r\nb\r\n", New: "a\r\nc\r\nb\r\n", LineEnds: "crlf"}},
		{"carriage returns in old", "a\r\nb\r\n", "a\r\nb", "a\nb", encoding.Fitted{Old: "a\r\nb", New: "a\nb"}},
		{"carriage returns in the new text", "a\r\nb\r\n", "a\nb", "a\r\n\nb", encoding.Fitted{Old: "a\r\nb", New: "a\r\n\nb", LineEnds: "crlf"}},
		{"one line becomes two", "a\r\nb\r\n", "a", "a\nx", encoding.Fitted{Old: "a", New: "a\r\nx", LineEnds: "crlf"}},
		{"the last line goes by the one before", "a\r\nb", "b", "b\nc\n", encoding.Fitted{Old: "b", New: "b\r\nc\r\n", LineEnds: "crlf"}},
		{"the only line", "b", "b", "b\nc", encoding.Fitted{Old: "b", New: "b\nc"}},
		{"a line of a mixed file that ends in lf", "a\r\nb\nc\r\n", "b", "b\nx", encoding.Fitted{Old: "b", New: "b\nx"}},
		{"mixed ends stay", "a\r\nb\nc\r\nd\r\n", "a\nb\nc\n", "a\nb\nX\n", encoding.Fitted{Old: "a\r\nb\nc\r\n", New: "a\r\nb\nX\r\n", LineEnds: "crlf"}},
		{"mixed ends stay behind, too", "a\r\nb\nc\r\nd", "a\nb\nc\nd", "X\nb\nc\nd", encoding.Fitted{Old: "a\r\nb\nc\r\nd", New: "X\r\nb\nc\r\nd", LineEnds: "crlf"}},
		{"begins with a line end", "a\r\nb", "\nb", "\nc\nb", encoding.Fitted{Old: "\r\nb", New: "\r\nc\r\nb", LineEnds: "crlf"}},
		{"same text in other ends", "a\r\nb\r\n", "a\nb\n", "a\nb\n", encoding.Fitted{Old: "a\r\nb\r\n", New: "a\r\nb\r\n", LineEnds: "crlf"}},
		{"deletion", "a\r\nb\r\nc", "b\nc", "", encoding.Fitted{Old: "b\r\nc", New: "", LineEnds: "crlf"}},
		{"not there", "a\r\nb", "x\ny", "z", encoding.Fitted{Old: "x\ny", New: "z"}},
		{"not there, without line ends", "a\r\nb", "x", "z", encoding.Fitted{Old: "x", New: "z"}},
		{"twice in different ends", "a\r\nb\r\na\nb", "b\na", "c", encoding.Fitted{Old: "b\r\na", New: "c", LineEnds: "crlf"}},
		{"twice, no telling which", "x\r\ny\nz x\ny\r\nz", "x\ny\nz", "c", encoding.Fitted{Old: "x\ny\nz", New: "c"}},
		{"twice alike", "a\r\nb a\r\nb", "a\nb", "c", encoding.Fitted{Old: "a\r\nb", New: "c", LineEnds: "crlf"}},
		{"nothing", "a\r\n", "", "x\n", encoding.Fitted{New: "x\n"}},
	}
	for _, tt := range tests {
		if got := encoding.Fit(tt.text, tt.old, tt.with); got != tt.want {
			t.Errorf("%s: Fit(%q, %q, %q) = %+q, want %+q", tt.name, tt.text, tt.old, tt.with, got, tt.want)
		}
	}
}

// An edit through Fit of a CRLF file is what the edit of the LF file would be.
func TestFitMirrorsTheEditOfAPlainFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.StringOfN(rapid.SampledFrom([]rune("abc\n")), 0, 12, -1)
		text, old, with := line.Draw(t, "text"), line.Draw(t, "old"), line.Draw(t, "with")
		dos := strings.ReplaceAll(text, "\n", "\r\n")
		fit := encoding.Fit(dos, old, with)
		got := strings.ReplaceAll(strings.Replace(dos, fit.Old, fit.New, 1), "\r\n", "\n")
		if want := strings.Replace(text, old, with, 1); old != "" && got != want {
			t.Fatalf("%q with %q for %q became %q, want %q (%+q)", dos, with, old, got, want, fit)
		}
	})
}

func FuzzFit(f *testing.F) {
	f.Add("a\r\nb\nc", "a\nb", "x\n")
	f.Fuzz(func(t *testing.T, text, old, with string) {
		fit := encoding.Fit(text, old, with)
		if fit.Old != old && !strings.Contains(text, fit.Old) {
			t.Fatalf("Fit(%q, %q, %q) = %+q, which is not there", text, old, with, fit)
		}
		if plain := strings.ReplaceAll(fit.New, "\r\n", "\n"); plain != strings.ReplaceAll(with, "\r\n", "\n") {
			t.Fatalf("Fit(%q, %q, %q) = %+q: the new text differs by more than line ends", text, old, with, fit)
		}
	})
}
