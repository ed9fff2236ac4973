package patch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/files/patch"
)

// source returns n lines, each of which occurs once.
func source(n int) []byte {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "\tvalue%d := compute(x, %d)\n", i, i)
	}
	return []byte(b.String())
}

func BenchmarkApply(b *testing.B) {
	for _, c := range []struct {
		name  string
		lines int
		edits []patch.Edit
	}{
		{"one/lines=30", 30, []patch.Edit{text("value17 :=", "other17 :=")}},
		{"one/lines=30k", 30_000, []patch.Edit{text("value17000 :=", "other17000 :=")}},
		{"lines/lines=30k", 30_000, []patch.Edit{lines(17_000, 17_003, "x")}},
		{"all/lines=30k", 30_000, []patch.Edit{all("compute", "calculate")}},
		{"hundred/lines=30k", 30_000, hundred()},
	} {
		in := source(c.lines)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := patch.Apply(in, c.edits, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func hundred() []patch.Edit {
	var edits []patch.Edit
	for i := range 100 {
		edits = append(edits, text(fmt.Sprintf("value%d :=", i*200), "x :="))
	}
	return edits
}

func BenchmarkRebase(b *testing.B) {
	base := source(30_000)
	current := []byte(strings.Replace(string(base), "value20000 :=", "other :=", 1))
	for name, edits := range map[string][]patch.Edit{
		"applies":   {text("value17000 :=", "x :=")},
		"conflicts": {text("value20000 :=", "x :=")},
		"hundred":   hundred(),
	} {
		b.Run(name+"/lines=30k", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				patch.Rebase(edits, base, current, 0)
			}
		})
	}
	for name, c := range hostile(10 << 20) {
		edits := make([]patch.Edit, 20)
		for i := range edits {
			edits[i] = text(c[1], "x")
		}
		b.Run("hostile/"+strings.ReplaceAll(name, " ", "-")+"/bytes=10M/edits=20", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				patch.Check(edits, nil, []byte(c[0]), 0)
			}
		})
	}
}
