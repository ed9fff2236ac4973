package diff

// search finds which lines have a partner: a common subsequence, the longest one
// unless that takes about more than the given steps. It marks the lines that are
// left over.
//
// The method is that of Myers (An O(ND) difference algorithm and its variations,
// 1986) in linear space: two searches from opposite corners meet in the middle,
// and both halves are done in the same way. The searches give up after a number
// of differences that depends on the size of the texts; then the half that got
// further is taken for good.
func (p *pair) search(steps int) {
	s := searcher{aOut: p.aOut, bOut: p.bOut}
	s.a, s.aAt = shared(p.a, p.b, p.aOut, len(p.looks))
	s.b, s.bAt = shared(p.b, p.a, p.bOut, len(p.looks))
	n, m := len(s.a), len(s.b)
	// Either search needs one more diagonal than there are on each side.
	reach := make([]int32, 2*(n+m+3))
	s.fore, s.back = reach[:n+m+3], reach[n+m+3:]
	s.mid = m + 1
	s.limit = max(steps/(n+m+1)/4, 32)
	s.steps = steps
	s.between(0, n, 0, m)
}

// shared returns the lines of a that b has as well, and where they stand in a.
// The others are out: they cannot have a partner.
func shared(a, b []int32, out []bool, count int) (ids, at []int32) {
	in := make([]bool, count)
	for _, id := range b {
		in[id] = true
	}
	ids, at = make([]int32, 0, len(a)), make([]int32, 0, len(a))
	for i, id := range a {
		if !in[id] {
			out[i] = true
			continue
		}
		ids, at = append(ids, id), append(at, int32(i))
	}
	return ids, at
}

type searcher struct {
	a, b       []int32 // numbers of the lines that both texts have
	aAt, bAt   []int32 // where they stand
	aOut, bOut []bool  // by where they stand

	// How far the searches got on each diagonal x-y, at index x-y+mid.
	fore, back []int32
	mid        int

	limit int // differences after which a search gives up
	steps int // left for all searches
}

// between compares lines a0 to a1 with lines b0 to b1.
func (s *searcher) between(a0, a1, b0, b1 int) {
	for {
		for a0 < a1 && b0 < b1 && s.a[a0] == s.b[b0] {
			a0, b0 = a0+1, b0+1
		}
		for a0 < a1 && b0 < b1 && s.a[a1-1] == s.b[b1-1] {
			a1, b1 = a1-1, b1-1
		}
		if a0 == a1 || b0 == b1 || s.steps <= 0 {
			break
		}
		x, y := s.meet(a0, a1, b0, b1)
		s.between(a0, x, b0, y)
		a0, b0 = x, y
	}
	for ; a0 < a1; a0++ {
		s.aOut[s.aAt[a0]] = true
	}
	for ; b0 < b1; b0++ {
		s.bOut[s.bAt[b0]] = true
	}
}

// meet returns a point through which a shortest way from (a0, b0) to (a1, b1)
// leads, or the furthest one that was found when the search gave up.
func (s *searcher) meet(a0, a1, b0, b1 int) (x, y int) {
	// No way leaves the box, so these are the diagonals there are.
	lowest, highest := a0-b1, a1-b0
	start, end := a0-b0, a1-b1 // where the searches begin
	odd := (start-end)&1 != 0
	fLo, fHi, bLo, bHi := start, start, end, end
	fore, back, mid := s.fore, s.back, s.mid
	fore[start+mid], back[end+mid] = int32(a0), int32(a1)
	for d := 1; ; d++ {
		fLo, fHi = widen(fore, mid, fLo, fHi, lowest, highest, -1)
		for k := fHi; k >= fLo; k -= 2 {
			x := max(int(fore[k-1+mid])+1, int(fore[k+1+mid]))
			from := x
			for y := x - k; x < a1 && y < b1 && s.a[x] == s.b[y]; y++ {
				x++
			}
			fore[k+mid] = int32(x)
			s.steps -= x - from + 1
			if odd && bLo <= k && k <= bHi && int(back[k+mid]) <= x {
				return x, x - k
			}
		}
		bLo, bHi = widen(back, mid, bLo, bHi, lowest, highest, int32(a1)+1)
		for k := bHi; k >= bLo; k -= 2 {
			x := min(int(back[k-1+mid]), int(back[k+1+mid])-1)
			from := x
			for y := x - k; x > a0 && y > b0 && s.a[x-1] == s.b[y-1]; y-- {
				x--
			}
			back[k+mid] = int32(x)
			s.steps -= from - x + 1
			if !odd && fLo <= k && k <= fHi && x <= int(fore[k+mid]) {
				return x, x - k
			}
		}
		if d >= s.limit || s.steps <= 0 {
			break
		}
	}
	return s.furthest(a0, a1, b0, b1, fLo, fHi, bLo, bHi)
}

// widen takes in one more diagonal on each side, or one less where the box ends,
// and puts outside next to the outermost ones.
func widen(reach []int32, mid, lo, hi, lowest, highest int, outside int32) (int, int) {
	if lo > lowest {
		lo--
		reach[lo-1+mid] = outside
	} else {
		lo++
	}
	if hi < highest {
		hi++
		reach[hi+1+mid] = outside
	} else {
		hi--
	}
	return lo, hi
}

// furthest returns the point at which either search is furthest from where it
// began.
func (s *searcher) furthest(a0, a1, b0, b1, fLo, fHi, bLo, bHi int) (x, y int) {
	x, y = a0, b0
	for k := fLo; k <= fHi; k += 2 {
		px := min(int(s.fore[k+s.mid]), a1, b1+k)
		if 2*px-k > x+y {
			x, y = px, px-k
		}
	}
	u, v := a1, b1
	for k := bLo; k <= bHi; k += 2 {
		px := max(int(s.back[k+s.mid]), a0, b0+k)
		if 2*px-k < u+v {
			u, v = px, px-k
		}
	}
	if a1+b1-u-v > x+y-a0-b0 {
		return u, v
	}
	return x, y
}
