package linematch

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

// program is a pattern as threads that read characters, and the characters sorted
// into classes that it does not tell apart.
//
// A byte that is no UTF-8 is read as U+FFFD, one byte at a time, as the standard
// engine does.
type program struct {
	insts []inst
	start uint32

	sets  [][]bool // of each set of characters, by class: whether it is in
	words []bool   // by class: whether \b takes it for a part of a word
	bad   int32    // class of U+FFFD

	ascii [utf8.RuneSelf]int32 // class
	lead  [128]int32           // for a byte from 0x80 on: what it begins
	nodes []node
}

// inst is an instruction of syntax.Prog. One that reads a character has op
// InstRune and the number of its set in arg.
type inst struct {
	op  syntax.InstOp
	out uint32
	arg uint32
}

// node is a place inside of a character of several bytes: what the next byte,
// from 0x80 to 0xBF, makes of it. Places from which everything goes on alike are
// one node.
type node struct {
	read int // bytes that led here
	next [64]int32
}

// What follows a byte is a node's number, no character (broken), or the class of
// the finished character.
const broken int32 = -1

func finished(class int32) int32 { return -2 - class }

// asFinished is the inverse of finished.
func asFinished(next int32) (class int32, ok bool) { return -2 - next, next <= -2 }

func newProgram(re *syntax.Regexp) (*program, error) {
	prog, err := syntax.Compile(re)
	if err != nil {
		return nil, err
	}
	p := &program{start: uint32(prog.Start)}
	var sets [][]rune // ranges
	known := make(map[string]uint32)
	var key []byte
	boundaries := false
	for i := range prog.Inst {
		in := &prog.Inst[i]
		out := inst{op: in.Op, out: in.Out, arg: in.Arg}
		switch in.Op {
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			ranges := rangesOf(in)
			key = key[:0]
			for _, r := range ranges {
				key = binary.LittleEndian.AppendUint32(key, uint32(r))
			}
			n, ok := known[string(key)]
			if !ok {
				n = uint32(len(sets))
				known[string(key)] = n
				sets = append(sets, ranges)
			}
			out.op, out.arg = syntax.InstRune, n
		case syntax.InstEmptyWidth:
			boundaries = boundaries || syntax.EmptyOp(in.Arg)&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0
		case syntax.InstAltMatch:
			out.op = syntax.InstAlt
		case syntax.InstAlt, syntax.InstCapture, syntax.InstMatch, syntax.InstFail, syntax.InstNop:
		}
		p.insts = append(p.insts, out)
	}
	wordSet := -1
	if boundaries {
		wordSet = len(sets)
		sets = append(sets, []rune{'0', '9', 'A', 'Z', '_', '_', 'a', 'z'})
	}
	classes := classify(sets)
	p.sets = make([][]bool, len(sets))
	for i := range sets {
		p.sets[i] = make([]bool, len(classes.members))
		for c, m := range classes.members {
			p.sets[i][c] = m[i]
		}
	}
	p.words = make([]bool, len(classes.members))
	if boundaries {
		p.words = p.sets[wordSet]
	}
	p.bad = classes.of(utf8.RuneError)
	for r := range p.ascii {
		p.ascii[r] = classes.of(rune(r))
	}
	b := encoder{classes: classes, known: make(map[node]int32), alike: make(map[[3]int32]int32)}
	for i := range p.lead {
		p.lead[i] = b.lead(byte(0x80 + i))
	}
	p.nodes = b.nodes
	return p, nil
}

// rangesOf returns the characters that in reads, without the line feed.
func rangesOf(in *syntax.Inst) []rune {
	switch {
	case in.Op == syntax.InstRuneAny || in.Op == syntax.InstRuneAnyNotNL:
		return []rune{0, '\n' - 1, '\n' + 1, unicode.MaxRune}
	case len(in.Rune) != 1:
		return in.Rune
	}
	r := in.Rune[0]
	ranges := []rune{r, r}
	if syntax.Flags(in.Arg)&syntax.FoldCase != 0 {
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			ranges = append(ranges, f, f)
		}
	}
	return ranges
}

// partition is all characters in classes: those from starts[i] up to the next
// start are in class ids[i].
type partition struct {
	starts  []rune
	ids     []int32
	members [][]bool // by class: which sets have it
}

// classify puts characters into one class that are in the same sets.
func classify(sets [][]rune) partition {
	p := partition{starts: []rune{0}}
	for _, ranges := range sets {
		for i := 0; i < len(ranges); i += 2 {
			p.starts = append(p.starts, ranges[i], ranges[i+1]+1)
		}
	}
	slices.Sort(p.starts)
	p.starts = slices.Compact(p.starts)
	known := make(map[string]int32)
	signature := make([]byte, len(sets))
	for _, r := range p.starts {
		for i, ranges := range sets {
			signature[i] = '-'
			if contains(ranges, r) {
				signature[i] = '+'
			}
		}
		id, ok := known[string(signature)]
		if !ok {
			id = int32(len(p.members))
			known[string(signature)] = id
			member := make([]bool, len(sets))
			for i := range sets {
				member[i] = signature[i] == '+'
			}
			p.members = append(p.members, member)
		}
		p.ids = append(p.ids, id)
	}
	return p
}

// contains reports whether r is in one of the ranges, sorted or few.
func contains(ranges []rune, r rune) bool {
	if len(ranges) <= 16 {
		for i := 0; i < len(ranges); i += 2 {
			if ranges[i] <= r && r <= ranges[i+1] {
				return true
			}
		}
		return false
	}
	lo, hi := 0, len(ranges)/2
	for lo < hi {
		m := (lo + hi) / 2
		switch {
		case r < ranges[2*m]:
			hi = m
		case r > ranges[2*m+1]:
			lo = m + 1
		default:
			return true
		}
	}
	return false
}

// find returns which part of the partition r is in.
func (p partition) find(r rune) int {
	i, ok := slices.BinarySearch(p.starts, r)
	if !ok {
		i--
	}
	return i
}

func (p partition) of(r rune) int32 { return p.ids[p.find(r)] }

// one returns the class that all characters from lo to hi are in, if there is one.
func (p partition) one(lo, hi rune) (int32, bool) {
	i := p.find(lo)
	for j := i + 1; j < len(p.starts) && p.starts[j] <= hi; j++ {
		if p.ids[j] != p.ids[i] {
			return 0, false
		}
	}
	return p.ids[i], true
}

// encoder makes the nodes of a partition's characters.
type encoder struct {
	classes partition
	nodes   []node
	known   map[node]int32
	alike   map[[3]int32]int32 // class, bytes read, bytes to come → node
}

// lead returns what the first byte of a character leads to.
func (e *encoder) lead(b byte) int32 {
	switch {
	case b < 0xC2 || b > 0xF4:
		return broken
	case b < 0xE0:
		return e.node(rune(b&0x1F)<<6, 1, 1)
	case b < 0xF0:
		return e.node(rune(b&0x0F)<<12, 1, 2)
	default:
		return e.node(rune(b&0x07)<<18, 1, 3)
	}
}

// node returns the place after read bytes where the characters from lo on may
// follow, with rest bytes to come.
func (e *encoder) node(lo rune, read, rest int32) int32 {
	each := rune(1) << (6 * (rest - 1)) // characters behind each next byte
	hi := lo + 64*each - 1
	least := [...]rune{0, 0, utf8.RuneSelf, 0x800, 0x10000}[read+rest]
	whole := lo >= least && hi <= unicode.MaxRune && (hi < 0xD800 || lo > 0xDFFF)
	class, same := e.classes.one(lo, hi)
	key := [3]int32{class, read, rest}
	if id, ok := e.alike[key]; ok && same && whole {
		return id
	}
	n := node{read: int(read)}
	part := e.classes.find(lo)
	for i := range n.next {
		switch at := lo + rune(i)*each; {
		case at < least || at > unicode.MaxRune || at >= 0xD800 && at <= 0xDFFF:
			n.next[i] = broken
		case rest == 1:
			for part+1 < len(e.classes.starts) && e.classes.starts[part+1] <= at {
				part++
			}
			n.next[i] = finished(e.classes.ids[part])
		default:
			n.next[i] = e.node(at, read+1, rest-1)
		}
	}
	id, ok := e.known[n]
	if !ok {
		id = int32(len(e.nodes))
		e.nodes = append(e.nodes, n)
		e.known[n] = id
	}
	if same && whole {
		e.alike[key] = id
	}
	return id
}
