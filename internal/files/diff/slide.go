package diff

import "strings"

// maxSlide is how many lines a hunk is moved at most to a better place.
const maxSlide = 100

// edit replaces lines a0 to a1 of one text by lines b0 to b1 of the other.
type edit struct{ a0, a1, b0, b1 int }

// edits returns the lines without partner as edits. Where added or removed lines
// could as well be said to stand some lines higher or lower, the place is chosen
// that people would choose; edits that come to touch become one.
func (p *pair) edits() []edit {
	raw := p.rawEdits()
	var placed []edit
	for n, e := range raw {
		for len(placed) > 0 && placed[len(placed)-1].touches(e) {
			e.a0, e.b0 = placed[len(placed)-1].a0, placed[len(placed)-1].b0
			placed = placed[:len(placed)-1]
		}
		before, after := edit{}, edit{a0: len(p.a), b0: len(p.b)}
		if len(placed) > 0 {
			before = placed[len(placed)-1]
		}
		if n+1 < len(raw) {
			after = raw[n+1]
		}
		by := 0
		switch {
		case e.a0 == e.a1:
			by = p.place(p.b, e.b0, e.b1, before.b1, after.b0, len(placed) > 0, n+1 < len(raw))
		case e.b0 == e.b1:
			by = p.place(p.a, e.a0, e.a1, before.a1, after.a0, len(placed) > 0, n+1 < len(raw))
		}
		e = edit{e.a0 + by, e.a1 + by, e.b0 + by, e.b1 + by}
		if len(placed) > 0 && before.touches(e) {
			placed[len(placed)-1].a1, placed[len(placed)-1].b1 = e.a1, e.b1
			continue
		}
		placed = append(placed, e)
	}
	return placed
}

func (p *pair) rawEdits() []edit {
	var edits []edit
	i, j := 0, 0
	for {
		for i < len(p.a) && j < len(p.b) && !p.aOut[i] && !p.bOut[j] {
			i, j = i+1, j+1
		}
		e := edit{a0: i, b0: j}
		for i < len(p.a) && p.aOut[i] {
			i++
		}
		for j < len(p.b) && p.bOut[j] {
			j++
		}
		if e.a1, e.b1 = i, j; e.a0 == e.a1 && e.b0 == e.b1 {
			return edits
		}
		edits = append(edits, e)
	}
}

// touches reports whether no line stands between e and the edit after it.
func (e edit) touches(next edit) bool { return e.a1 == next.a0 && e.b1 == next.b0 }

// place returns by how many lines to move the block of lines from to to, which
// only one text has, without leaving floor to ceiling. Meeting an edit at either
// end is best; else what looks best, and of that the lowest.
func (p *pair) place(text []int32, from, to, floor, ceiling int, editBefore, editAfter bool) int {
	up, down := 0, 0
	for up < maxSlide && from-up > floor && text[from-up-1] == text[to-up-1] {
		up++
	}
	for down < maxSlide && to+down < ceiling && text[from+down] == text[to+down] {
		down++
	}
	switch {
	case editAfter && to+down == ceiling:
		return down
	case editBefore && from-up == floor:
		return -up
	}
	best, least := 0, int(^uint(0)>>1)
	for by := -up; by <= down; by++ {
		if c := p.looks[text[from+by]].cost(); c <= least {
			best, least = by, c
		}
	}
	return best
}

// look is what a line looks like at its beginning.
type look struct {
	indent uint8
	blank  bool
	closer bool // ends a block that began above
}

func lookOf(line string) look {
	text := strings.TrimLeft(line, " \t")
	l := look{blank: strings.TrimRight(text, "\r\n") == ""}
	for _, c := range []byte(line[:min(len(line)-len(text), 50)]) {
		if l.indent++; c == '\t' {
			l.indent += 3
		}
	}
	if !l.blank {
		l.closer = strings.IndexByte(")]}", text[0]) >= 0 || strings.TrimRight(text, " \r\n") == "end"
	}
	return l
}

// cost is how unlikely it is that somebody adds or removes a block of lines that
// begins with this one.
func (l look) cost() int {
	switch {
	case l.blank:
		return 1
	case l.closer:
		return 2*int(l.indent) + 3
	default:
		return 2 * int(l.indent)
	}
}
