package diff

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func numberText(a, b string) *pair {
	return number([]byte(a), []byte(b),
		lineStarts([]byte(a), countLines([]byte(a))), lineStarts([]byte(b), countLines([]byte(b))))
}

// partners returns the lines of both texts that are left when those without
// partner are taken out.
func (p *pair) partners() (a, b []int32) {
	for i, id := range p.a {
		if !p.aOut[i] {
			a = append(a, id)
		}
	}
	for i, id := range p.b {
		if !p.bOut[i] {
			b = append(b, id)
		}
	}
	return a, b
}

// longest is the length of the longest common subsequence, the plain way.
func longest(a, b []int32) int {
	row := make([]int, len(b)+1)
	for _, x := range a {
		diagonal := 0
		for j, y := range b {
			above := row[j+1]
			if x == y {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			diagonal = above
		}
	}
	return row[len(b)]
}

func TestSearchFindsTheMostPartners(t *testing.T) {
	lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "d\n"}), 0, 40)
	rapid.Check(t, func(t *rapid.T) {
		p := numberText(strings.Join(lines.Draw(t, "a"), ""), strings.Join(lines.Draw(t, "b"), ""))
		p.search(maxSteps)
		a, b := p.partners()
		if !slices.Equal(a, b) {
			t.Fatalf("partners differ: %v and %v", a, b)
		}
		if want := longest(p.a, p.b); len(a) != want {
			t.Fatalf("%d partners, want %d", len(a), want)
		}
	})
}

func TestSearchIsRightHoweverFewStepsItHas(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	text := func(n, kinds int) string {
		var b strings.Builder
		for range n {
			b.WriteString(string(rune('a' + r.IntN(kinds))))
			b.WriteByte('\n')
		}
		return b.String()
	}
	for _, steps := range []int{0, 1, 10, 1000, 100_000, 1_000_000} {
		for _, kinds := range []int{2, 10} {
			p := numberText(text(2000, kinds), text(1500, kinds))
			p.search(steps)
			a, b := p.partners()
			if !slices.Equal(a, b) {
				t.Errorf("steps=%d kinds=%d: partners differ", steps, kinds)
			}
			t.Logf("steps=%d kinds=%d: %d partners", steps, kinds, len(a))
			if steps == 1_000_000 && len(a) < 500 {
				t.Errorf("kinds=%d: only %d partners", kinds, len(a))
			}
		}
	}
}
