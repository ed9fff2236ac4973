package trigram

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// unit is a chunk of a file, as it was by a change.
type unit struct {
	id         ID
	seq        uint32
	start, end uint32
	line       uint32
}

// shard is units and, by triple, which of them hold it. It does not change.
//
// A list of units is their distances, or a bitmap where that is shorter: then it
// is exactly as long as a bitmap is.
type shard struct {
	units []unit
	has   [triples / 64]uint64 // triples that occur
	rank  [triples / 64]uint32 // number of those before each word
	ends  []uint32             // by number: where its list ends
	lists []byte
}

func (s *shard) size() int64 {
	return int64(20*cap(s.units) + 12*len(s.has) + 4*cap(s.ends) + cap(s.lists))
}

func (s *shard) bitmapLen() int { return (len(s.units) + 7) / 8 }

// list returns the list of a triple.
func (s *shard) list(t uint32) []byte {
	word, bit := s.has[t/64], uint64(1)<<(t%64)
	if word&bit == 0 {
		return nil
	}
	n := s.rank[t/64] + uint32(ones(word&(bit-1)))
	from := uint32(0)
	if n > 0 {
		from = s.ends[n-1]
	}
	return s.lists[from:s.ends[n]]
}

// newShard makes a shard of fresh units.
func newShard(units []*fresh) *shard {
	w := newWriter(len(units))
	counts := make([]uint32, triples+1)
	total := 0
	for _, u := range units {
		w.units = append(w.units, u.unit)
		total += len(u.triples)
		for _, t := range u.triples {
			counts[t+1]++
		}
	}
	for t := range triples {
		counts[t+1] += counts[t]
	}
	// Units sorted by triple: those of t end at counts[t] when all are placed.
	placed := make([]uint32, total)
	for i, u := range units {
		for _, t := range u.triples {
			placed[counts[t]] = uint32(i)
			counts[t]++
		}
	}
	from := uint32(0)
	for t := range uint32(triples) {
		if to := counts[t]; to > from {
			w.add(t, placed[from:to])
			from = to
		}
	}
	return w.done()
}

// join makes one shard of the units of several that are to be kept.
func join(parts []*shard, keep [][]bool) *shard {
	total := 0
	number := make([][]int32, len(parts)) // of units in the new shard, or -1
	for i, s := range parts {
		number[i] = make([]int32, len(s.units))
		for j := range s.units {
			number[i][j] = -1
			if keep[i][j] {
				number[i][j] = int32(total)
				total++
			}
		}
	}
	w := newWriter(total)
	for i, s := range parts {
		for j, u := range s.units {
			if keep[i][j] {
				w.units = append(w.units, u)
			}
		}
	}
	var all []uint32
	for at := range uint32(triples / 64) {
		word := uint64(0)
		for _, s := range parts {
			word |= s.has[at]
		}
		for ; word != 0; word &= word - 1 {
			t := at*64 + uint32(bits.TrailingZeros64(word))
			all = all[:0]
			for i, s := range parts {
				s.each(t, func(u uint32) {
					if n := number[i][u]; n >= 0 {
						all = append(all, uint32(n))
					}
				})
			}
			if len(all) > 0 {
				w.add(t, all)
			}
		}
	}
	return w.done()
}

// each calls do with the units that hold t, in order.
func (s *shard) each(t uint32, do func(u uint32)) {
	list := s.list(t)
	if len(list) == s.bitmapLen() {
		for i, b := range list {
			for ; b != 0; b &= b - 1 {
				do(uint32(8*i + bits.TrailingZeros8(b)))
			}
		}
		return
	}
	for u := uint32(0); len(list) > 0; u++ {
		d, n := binary.Uvarint(list)
		u += uint32(d)
		do(u)
		list = list[n:]
	}
}

// writer builds a shard from lists in the order of their triples.
type writer struct {
	*shard
	size int // units
}

func newWriter(size int) *writer {
	return &writer{shard: &shard{units: make([]unit, 0, size)}, size: size}
}

func (w *writer) add(t uint32, units []uint32) {
	w.has[t/64] |= 1 << (t % 64)
	limit := (w.size + 7) / 8
	from := len(w.lists)
	next := uint32(0)
	for _, u := range units {
		if len(w.lists)-from >= limit {
			break
		}
		w.lists = binary.AppendUvarint(w.lists, uint64(u-next))
		next = u + 1
	}
	if len(w.lists)-from >= limit {
		w.lists = append(w.lists[:from], make([]byte, limit)...)
		bitmap := w.lists[from:]
		for _, u := range units {
			bitmap[u/8] |= 1 << (u % 8)
		}
	}
	w.ends = append(w.ends, uint32(len(w.lists)))
}

func (w *writer) done() *shard {
	n := uint32(0)
	for i, word := range w.has {
		w.rank[i] = n
		n += uint32(ones(word))
	}
	w.lists, w.ends = slices.Clip(slices.Clone(w.lists)), slices.Clip(slices.Clone(w.ends))
	return w.shard
}

func ones(w uint64) int { return bits.OnesCount64(w) }

// search appends the units that may hold what q asks for.
func (s *shard) search(q Query, found []unit) []unit {
	f := filter{shard: s}
	// What has no alternative narrows at once, the shortest list first.
	var must term
	var either [][]term
	for _, clause := range q.clauses {
		if len(clause) == 1 {
			must = append(must, clause[0]...)
		} else {
			either = append(either, clause)
		}
	}
	set := f.all()
	f.narrow(set, must)
	for _, clause := range either {
		if isEmpty(set) {
			break
		}
		union := make([]uint64, len(set))
		for _, t := range clause {
			part := slices.Clone(set)
			f.narrow(part, t)
			for i, w := range part {
				union[i] |= w
			}
		}
		set = union
	}
	for i, w := range set {
		for ; w != 0; w &= w - 1 {
			found = append(found, s.units[64*i+bits.TrailingZeros64(w)])
		}
	}
	return found
}

// filter works on sets of a shard's units.
type filter struct {
	*shard
	tmp []uint64
}

func (f *filter) all() []uint64 {
	set := make([]uint64, (len(f.units)+63)/64)
	for i := range set {
		set[i] = ^uint64(0)
	}
	if n := len(f.units) % 64; n > 0 {
		set[len(set)-1] = 1<<n - 1
	}
	return set
}

// narrow takes the units out of set that lack an atom.
func (f *filter) narrow(set []uint64, t term) {
	type sized struct {
		atom
		bytes int
	}
	order := make([]sized, len(t))
	for i, a := range t {
		order[i].atom = a
		for _, triple := range a {
			order[i].bytes += len(f.list(triple))
		}
	}
	slices.SortFunc(order, func(a, b sized) int { return a.bytes - b.bytes })
	for _, a := range order {
		if isEmpty(set) {
			return
		}
		f.tmp = append(f.tmp[:0], make([]uint64, len(set))...)
		for _, triple := range a.atom {
			f.mark(f.tmp, triple)
		}
		for i := range set {
			set[i] &= f.tmp[i]
		}
	}
}

// mark puts the units that hold t into set.
func (f *filter) mark(set []uint64, t uint32) {
	list := f.list(t)
	if len(list) != f.bitmapLen() {
		for u := uint32(0); len(list) > 0; u++ {
			d, n := uint64(list[0]), 1
			if d >= 0x80 {
				d, n = binary.Uvarint(list)
			}
			u += uint32(d)
			set[u/64] |= 1 << (u % 64)
			list = list[n:]
		}
		return
	}
	for i := range set {
		if len(list) < 8 {
			for j, b := range list {
				set[i] |= uint64(b) << (8 * j)
			}
			return
		}
		set[i] |= binary.LittleEndian.Uint64(list)
		list = list[8:]
	}
}

func isEmpty(set []uint64) bool {
	for _, w := range set {
		if w != 0 {
			return false
		}
	}
	return true
}

// searchFresh appends the fresh units that may hold what q asks for.
func searchFresh(q Query, units []*fresh, found []unit) []unit {
	if len(units) == 0 {
		return found
	}
	wanted := new([triples / 64]uint64)
	for _, clause := range q.clauses {
		for _, t := range clause {
			for _, a := range t {
				for _, triple := range a {
					wanted[triple/64] |= 1 << (triple % 64)
				}
			}
		}
	}
	has := make(map[uint32]bool)
	for _, u := range units {
		clear(has)
		for _, t := range u.triples {
			if wanted[t/64]&(1<<(t%64)) != 0 {
				has[t] = true
			}
		}
		if q.holds(has) {
			found = append(found, u.unit)
		}
	}
	return found
}

// holds reports whether a unit with these triples may hold what is asked for.
func (q Query) holds(has map[uint32]bool) bool {
	in := func(triple uint32) bool { return has[triple] }
	atomHolds := func(a atom) bool { return slices.ContainsFunc(a, in) }
	termHolds := func(t term) bool { return !slices.ContainsFunc(t, func(a atom) bool { return !atomHolds(a) }) }
	return !slices.ContainsFunc(q.clauses, func(c []term) bool { return !slices.ContainsFunc(c, termHolds) })
}
