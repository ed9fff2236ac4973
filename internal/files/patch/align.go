package patch

import (
	"cmp"
	"slices"
	"sort"

	"github.com/async-crud-mcp/async-crud-mcp/internal/files/diff"
)

// run is a piece of text that both sides have: n bytes from at[base] in the base
// and from at[current] in the current text.
type run struct {
	at [2]int
	n  int
}

// The sides of a run.
const (
	base = iota
	current
)

func (r run) end(side int) int { return r.at[side] + r.n }

// runs says how two texts belong together: what they have in common, in order.
// Between two runs something differs.
type runs struct {
	list []run
	size [2]int // of the texts
}

func align(old, new []byte) runs {
	a := runs{size: [2]int{len(old), len(new)}}
	var at [2]int
	for _, h := range diff.Lines(old, new).Hunks() {
		a.list = appendRun(a.list, run{at, h.Old.Byte - at[base]})
		at = [2]int{h.Old.ByteEnd, h.New.ByteEnd}
	}
	a.list = appendRun(a.list, run{at, len(old) - at[base]})
	return a
}

// appendRun adds a run behind the others, as part of the last if it goes on with
// that.
func appendRun(list []run, r run) []run {
	if r.n <= 0 {
		return list
	}
	if k := len(list) - 1; k >= 0 && list[k].end(base) == r.at[base] && list[k].end(current) == r.at[current] {
		list[k].n += r.n
		return list
	}
	return append(list, r)
}

// find returns where a part of the base is in the current text, if all of it is
// there in one piece.
func (a *runs) find(s span) (span, bool) {
	i := sort.Search(len(a.list), func(i int) bool { return a.list[i].end(base) >= s.to })
	if i == len(a.list) || a.list[i].at[base] > s.from {
		return span{}, false
	}
	shift := a.list[i].at[current] - a.list[i].at[base]
	return span{s.from + shift, s.to + shift}, true
}

// before returns the last run that begins before a place in the base, after the
// first that ends behind it. The ends of the texts count as runs.
func (a *runs) before(at int) run {
	i := sort.Search(len(a.list), func(i int) bool { return a.list[i].at[base] >= at })
	if i == 0 {
		return run{}
	}
	return a.list[i-1]
}

func (a *runs) after(at int) run {
	i := sort.Search(len(a.list), func(i int) bool { return a.list[i].end(base) > at })
	if i == len(a.list) {
		return run{at: a.size}
	}
	return a.list[i]
}

// point returns the place in the current text that a place in the base is, if
// what stands before or behind it is still there and nothing was put in between.
func (a *runs) point(at int) (int, bool) {
	b, n := a.before(at), a.after(at)
	first, last := b.end(base) >= at, n.at[base] <= at
	shift := n.at[current] - n.at[base]
	switch {
	case first && last:
		return at + shift, b.at[current]-b.at[base] == shift
	case first:
		return b.end(current), true
	case last:
		return n.at[current], true
	}
	return 0, false
}

// around returns what surely stands for a part of the base in the current text:
// all between the runs that enclose the part. Lines that were put next to it are
// within. It returns the part of the base between these runs as well.
func (a *runs) around(s span) (inBase, inCurrent span) {
	b, n := a.before(s.from), a.after(s.to)
	inBase = span{min(b.end(base), s.from), max(n.at[base], s.to)}
	inCurrent = span{b.at[current] + inBase.from - b.at[base], n.at[current] + inBase.to - n.at[base]}
	return inBase, inCurrent
}

// cut takes the ranges, which become n bytes long each, out of the runs of one
// side.
func (a *runs) cut(side int, ranges []span, n int) {
	var list []run
	shift, covered := 0, 0
	rest := ranges
	for _, r := range a.list {
		at, end := max(r.at[side], covered), r.end(side)
		for len(rest) > 0 && rest[0].from < end {
			list = keep(list, r, side, at, rest[0].from, shift)
			at = max(at, rest[0].to)
			shift += n - rest[0].len()
			rest = rest[1:]
		}
		list = keep(list, r, side, at, end, shift)
		covered = at
	}
	for _, r := range ranges {
		a.size[side] += n - r.len()
	}
	a.list = list
}

// keep adds the part of r from from to to, which is that much further now.
func keep(list []run, r run, side, from, to, shift int) []run {
	if from >= to {
		return list
	}
	skip := from - r.at[side]
	r.at[base], r.at[current], r.n = r.at[base]+skip, r.at[current]+skip, to-from
	r.at[side] += shift
	return appendRun(list, r)
}

// add takes in more runs. One that is at odds with the one before it is left out.
func (a *runs) add(more []run) {
	if len(more) == 0 {
		return
	}
	sorted := append(a.list, more...)
	slices.SortStableFunc(sorted, func(x, y run) int { return cmp.Compare(x.at[base], y.at[base]) })
	list := make([]run, 0, len(sorted))
	for _, r := range sorted {
		if k := len(list) - 1; k < 0 || list[k].end(base) <= r.at[base] && list[k].end(current) <= r.at[current] {
			list = appendRun(list, r)
		}
	}
	a.list = list
}
