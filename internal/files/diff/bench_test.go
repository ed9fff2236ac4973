package diff_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/files/diff"
)

// source returns n lines that look like code: many different ones, some often.
func source(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		switch i % 7 {
		case 0:
			lines[i] = fmt.Sprintf("func name%d(x int) error {\n", i)
		case 5:
			lines[i] = "}\n"
		case 6:
			lines[i] = "\n"
		default:
			lines[i] = fmt.Sprintf("\tvalue%d := compute(x, %d)\n", i%100, i)
		}
	}
	return lines
}

// changed returns lines with about one in every of them changed.
func changed(lines []string, every int) []string {
	r := rand.New(rand.NewPCG(3, 4))
	lines = slices.Clone(lines)
	for i := range lines {
		if r.IntN(every) == 0 {
			lines[i] = fmt.Sprintf("changed %d\n", i)
		}
	}
	return lines
}

// letters returns n lines of so many kinds, at random.
func letters(n, kinds int, seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, 6))
	lines := make([]string, n)
	for i := range lines {
		lines[i] = string(rune('a'+r.IntN(kinds))) + "\n"
	}
	return lines
}

func periodic(n, period int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprint(i%period, "\n")
	}
	return lines
}

func reversed(lines []string) []string {
	lines = slices.Clone(lines)
	slices.Reverse(lines)
	return lines
}

// hard are pairs of texts on which a careless search takes for ever.
func hard(n int) map[string][2][]string {
	return map[string][2][]string{
		"two letters":      {letters(n, 2, 1), letters(n, 2, 2)},
		"twenty letters":   {letters(n, 20, 1), letters(n, 20, 2)},
		"reversed":         {numbered(1, n), reversed(numbered(1, n))},
		"shuffled periods": {periodic(n, 97), periodic(n, 101)},
		"halves swapped":   {slices.Concat(letters(n/2, 2, 1), letters(n/2, 3, 2)), slices.Concat(letters(n/2, 3, 2), letters(n/2, 2, 1))},
		"one side short":   {letters(n, 2, 1), letters(n/100, 2, 2)},
		"runs":             {slices.Concat(slices.Repeat([]string{"a\n"}, n/2), slices.Repeat([]string{"b\n"}, n/2)), slices.Repeat([]string{"a\n", "b\n"}, n/2)},
	}
}

func BenchmarkLines(b *testing.B) {
	run := func(name string, old, new []string) {
		x, y := join(old), join(new)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				diff.Lines(x, y)
			}
		})
	}
	run("one/lines=1k", source(1000), slices.Replace(source(1000), 500, 501, "x\n"))
	run("one/lines=30k", source(30000), slices.Replace(source(30000), 15000, 15001, "x\n"))
	run("5pct/lines=1k", source(1000), changed(source(1000), 20))
	run("5pct/lines=20k", source(20000), changed(source(20000), 20))
	run("half/lines=20k", source(20000), changed(source(20000), 2))
	run("other/lines=20k", source(20000), letters(20000, 20, 1))
	for name, p := range hard(30000) {
		run("hostile/"+strings.ReplaceAll(name, " ", "-")+"/lines=30k", p[0], p[1])
	}
	run("hostile/two-letters/lines=1M", letters(1_000_000, 2, 1), letters(1_000_000, 2, 2))
	run("hostile/newlines/lines=10M", slices.Repeat([]string{"\n"}, 10_000_000), slices.Repeat([]string{"\r\n"}, 5_000_000))
}

func BenchmarkRender(b *testing.B) {
	d := diff.Lines(join(source(20000)), join(changed(source(20000), 20)))
	b.Run("changes/lines=20k", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d.Changes(3)
		}
	})
	b.Run("unified/lines=20k", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d.Unified("expected", "current", 3)
		}
	})
}

func BenchmarkMerge(b *testing.B) {
	for _, n := range []int{1000, 20000} {
		base := source(n)
		theirs, yours := slices.Clone(base), slices.Clone(base)
		for i := 0; i+10 < n; i += 20 {
			theirs[i], yours[i+10] = "theirs\n", "yours\n"
		}
		x, y, z := join(base), join(theirs), join(yours)
		b.Run(fmt.Sprintf("lines=%dk", n/1000), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, conflicts := diff.Merge(x, y, z); conflicts != nil {
					b.Fatal(conflicts)
				}
			}
		})
	}
}
