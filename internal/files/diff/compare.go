package diff

import (
	"bytes"
	"math"
)

const (
	// maxLines is how many lines of a text are compared one by one. What is
	// longer, after equal beginnings and ends, is one hunk.
	maxLines = 1 << 20
	// maxSteps bounds the search for common lines.
	maxSteps = 1 << 26
)

// compare returns the hunks between two texts.
func compare(old, new []byte) []Hunk {
	head := commonHead(old, new)
	tail := commonTail(old[head:], new[head:])
	if head == len(old) && head == len(new) {
		return nil
	}
	// Some lines around the differences are needed to place them well.
	head -= len(lastLines(old[:head], maxSlide))
	tail -= len(firstLines(old[len(old)-tail:], maxSlide))
	a, b := old[head:len(old)-tail], new[head:len(new)-tail]
	line := bytes.Count(old[:head], newline)
	na, nb := countLines(a), countLines(b)
	if max(na, nb) > maxLines || max(len(a), len(b)) > math.MaxInt32 {
		return []Hunk{{Span{line, line + na, head, head + len(a)}, Span{line, line + nb, head, head + len(b)}}}
	}
	as, bs := lineStarts(a, na), lineStarts(b, nb)
	p := number(a, b, as, bs)
	p.search(maxSteps)
	edits := p.edits()
	hunks := make([]Hunk, len(edits))
	for i, e := range edits {
		hunks[i] = Hunk{
			Span{line + e.a0, line + e.a1, head + int(as[e.a0]), head + int(as[e.a1])},
			Span{line + e.b0, line + e.b1, head + int(bs[e.b0]), head + int(bs[e.b1])},
		}
	}
	return hunks
}

var newline = []byte{'\n'}

// block is how many bytes are compared at once.
const block = 1 << 12

// commonHead is the length of the lines that both texts begin with.
func commonHead(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for i+block <= n && bytes.Equal(a[i:i+block], b[i:i+block]) {
		i += block
	}
	for i < n && a[i] == b[i] {
		i++
	}
	if i == len(a) && i == len(b) {
		return i
	}
	return bytes.LastIndexByte(a[:i], '\n') + 1
}

// commonTail is the length of the lines that both texts end with.
func commonTail(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for i+block <= n && bytes.Equal(a[len(a)-i-block:len(a)-i], b[len(b)-i-block:len(b)-i]) {
		i += block
	}
	for i < n && a[len(a)-i-1] == b[len(b)-i-1] {
		i++
	}
	if startsLine(a, len(a)-i) && startsLine(b, len(b)-i) {
		return i
	}
	return len(a) - lineEnd(a, len(a)-i)
}

func startsLine(text []byte, i int) bool { return i == 0 || text[i-1] == '\n' }

func countLines(text []byte) int {
	n := bytes.Count(text, newline)
	if !startsLine(text, len(text)) {
		n++
	}
	return n
}

// lineStarts returns where each of the n lines begins, and the end of the text.
func lineStarts(text []byte, n int) []int32 {
	starts := make([]int32, 1, n+1)
	for i := 0; i < len(text); {
		i = lineEnd(text, i)
		starts = append(starts, int32(i))
	}
	return starts
}

// pair is the lines of two texts as numbers: equal lines have equal numbers.
type pair struct {
	a, b       []int32
	aOut, bOut []bool // lines that have no partner in the other text
	looks      []look // by number
}

// number gives every line its number.
func number(a, b []byte, as, bs []int32) *pair {
	p := &pair{
		a: make([]int32, len(as)-1), b: make([]int32, len(bs)-1),
		aOut: make([]bool, len(as)-1), bOut: make([]bool, len(bs)-1),
	}
	numbers := make(map[string]int32)
	give := func(ids []int32, text string, starts []int32) {
		for i := range ids {
			line := text[starts[i]:starts[i+1]]
			id, ok := numbers[line]
			if !ok {
				id = int32(len(numbers))
				numbers[line] = id
				p.looks = append(p.looks, lookOf(line))
			}
			ids[i] = id
		}
	}
	give(p.a, string(a), as)
	give(p.b, string(b), bs)
	return p
}
