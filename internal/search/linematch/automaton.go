package linematch

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
)

// automaton is a program's sets of threads made into states, each when it is
// first met, so that reading a byte is a table lookup. It is about whole lines: a
// line feed ends one line and begins the next.
//
//	text ─▶ table ──(a way seen before)──▶ next state
//	          └─(unknown)─▶ read: threads, byte by byte ─▶ intern ─▶ next state
//
// States are kept up to a limit of memory and then forgotten. A text that makes
// ever new ones is not worth them (tired); reading on without keeping any is
// slower, and linear all the same.
//
// One goroutine uses an automaton at a time.
type automaton struct {
	*program
	limit int // bytes of states kept

	table  []int32 // by state, 256 ways each: the next state, unknown or matched
	states []state
	ids    map[string]int32
	size   int
	start  int32    // at the beginning of a line
	skip   int32    // wants nothing of the rest of the line
	held   [4]int32 // states in use, which outlive forgetting

	read    int  // bytes of the text read so far, about
	made    int  // states made for it
	flushes int  // times they were forgotten
	tired   bool // keeping states does not pay off for this text

	// The place between two bytes that advance moves on: what is there is what
	// a state keeps.
	threads []uint32
	before  context
	inside  int32

	// For advance.
	now, next set
	stack     []uint32
	key       []byte
	work      int
}

// state is a place between two bytes. Its number is its index times 256.
type state struct {
	threads []uint32 // instructions that read or look around
	before  context
	inside  int32 // node, if it is inside a character
}

// context is what stands before a place, as far as a pattern can ask.
type context uint8

const (
	other context = iota
	word
	lineStart
)

// Kinds of place that are not inside a character.
const (
	between int32 = -1 // between characters
	skipped int32 = -2 // behind all that matters of a line
)

// Ways that lead to no state.
const (
	unknown int32 = -1
	matched int32 = -2
)

const edge int32 = -1 // in place of a class: the line ends

func newAutomaton(p *program, limit int) *automaton {
	a := &automaton{program: p, limit: limit}
	a.now.init(len(p.insts))
	a.next.init(len(p.insts))
	a.forget(0)
	return a
}

// about reports whether the pattern matches at every line's beginning, and
// whether it matches at no other place.
func (a *automaton) about() (every, anchored bool) {
	a.next.clear()
	a.before = lineStart
	every = a.enter(a.program.start)
	a.next.clear()
	a.before = other
	a.enter(a.program.start)
	a.collect()
	return every, len(a.threads) == 0
}

// fresh prepares for another text.
func (a *automaton) fresh() {
	a.read, a.made, a.flushes, a.tired = 0, 0, 0, false
}

// follow returns where byte b leads from state id, whose way is unknown. The
// first n of held stay what they are, under new numbers.
func (a *automaton) follow(id int32, b byte, n int) int32 {
	from := &a.states[id>>8]
	a.threads = append(a.threads[:0], from.threads...)
	a.before, a.inside = from.before, from.inside
	next := matched
	if !a.advance(b) {
		var forgot bool
		if next, forgot = a.intern(n); forgot {
			return next
		}
	}
	a.table[int(id)|int(b)] = next
	return next
}

// advance moves the place on by b and reports whether the line matches.
func (a *automaton) advance(b byte) bool {
	if a.inside == skipped {
		if b == '\n' {
			a.rewind()
		}
		return false
	}
	if a.inside >= 0 {
		at := &a.nodes[a.inside]
		next := broken
		if b&0xC0 == 0x80 {
			next = at.next[b&0x3F]
		}
		if class, ok := asFinished(next); ok {
			a.inside = between
			return a.step(class)
		}
		if next != broken {
			a.inside = next
			return false
		}
		a.inside = between
		for range at.read {
			if a.step(a.bad) {
				return true
			}
		}
	}
	switch {
	case b == '\n':
		if a.step(edge) {
			return true
		}
		a.rewind()
		return false
	case b < 0x80:
		return a.step(a.ascii[b])
	case a.lead[b-0x80] == broken:
		return a.step(a.bad)
	default:
		a.inside = a.lead[b-0x80]
		return false
	}
}

// rewind puts the place to the beginning of a line.
func (a *automaton) rewind() {
	a.next.clear()
	a.before, a.inside = lineStart, between
	a.enter(a.program.start)
	a.collect()
}

// collect takes over the threads in next.
func (a *automaton) collect() {
	a.threads = a.threads[:0]
	for _, pc := range a.next.list {
		if op := a.insts[pc].op; op == syntax.InstRune || op == syntax.InstEmptyWidth {
			a.threads = append(a.threads, pc)
		}
	}
}

// step moves all threads over a character of class c, or to the line's end, and
// begins a new one behind it. It reports whether one of them matches.
func (a *automaton) step(c int32) bool {
	after := other
	if c != edge && a.words[c] {
		after = word
	}
	flags := gap(a.before, after, c == edge)
	a.before = after
	a.now.clear()
	a.next.clear()
	a.stack = append(a.stack[:0], a.threads...)
	a.work += len(a.threads) + 1
	for len(a.stack) > 0 {
		pc := a.stack[len(a.stack)-1]
		a.stack = a.stack[:len(a.stack)-1]
		if !a.now.add(pc) {
			continue
		}
		switch in := &a.insts[pc]; in.op {
		case syntax.InstAlt:
			a.stack = append(a.stack, in.out, in.arg)
		case syntax.InstCapture, syntax.InstNop:
			a.stack = append(a.stack, in.out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(in.arg)&^flags == 0 {
				a.stack = append(a.stack, in.out)
			}
		case syntax.InstMatch:
			return true
		case syntax.InstRune:
			if c != edge && a.sets[in.arg][c] && a.enter(in.out) {
				return true
			}
		default: // InstFail
		}
	}
	if c != edge && a.enter(a.program.start) {
		return true
	}
	a.collect()
	return false
}

// gap says which conditions hold between two characters.
func gap(before, after context, end bool) syntax.EmptyOp {
	flags := syntax.EmptyNoWordBoundary
	if (before == word) != (after == word) {
		flags = syntax.EmptyWordBoundary
	}
	if before == lineStart {
		flags |= syntax.EmptyBeginLine | syntax.EmptyBeginText
	}
	if end {
		flags |= syntax.EmptyEndLine | syntax.EmptyEndText
	}
	return flags
}

// enter puts into next what a thread at pc may do at a place of which only what
// stands before it is known, and reports whether it matches there.
func (a *automaton) enter(pc uint32) bool {
	base := len(a.stack)
	a.stack = append(a.stack, pc)
	for len(a.stack) > base {
		pc := a.stack[len(a.stack)-1]
		a.stack = a.stack[:len(a.stack)-1]
		if !a.next.add(pc) {
			continue
		}
		a.work++
		switch in := &a.insts[pc]; in.op {
		case syntax.InstAlt:
			a.stack = append(a.stack, in.out, in.arg)
		case syntax.InstCapture, syntax.InstNop:
			a.stack = append(a.stack, in.out)
		case syntax.InstMatch:
			return true
		case syntax.InstEmptyWidth:
			const begin = syntax.EmptyBeginLine | syntax.EmptyBeginText
			if syntax.EmptyOp(in.arg)&begin != 0 { // settled already
				a.next.drop()
				if a.before == lineStart {
					a.stack = append(a.stack, in.out)
				}
			}
		default: // InstRune, InstFail
		}
	}
	return false
}

// intern returns the state of the place, and whether others were forgotten for
// it. The first n of held are kept.
func (a *automaton) intern(n int) (id int32, forgot bool) {
	if len(a.threads) == 0 {
		a.inside = skipped // nor will there be any, since one begins after each character
	}
	looks := false
	for _, pc := range a.threads {
		looks = looks || a.insts[pc].op == syntax.InstEmptyWidth
	}
	if !looks {
		a.before = other
	}
	slices.Sort(a.threads)
	a.key = append(a.key[:0], byte(a.before), byte(a.inside), byte(a.inside>>8), byte(a.inside>>16))
	for _, pc := range a.threads {
		a.key = binary.LittleEndian.AppendUint32(a.key, pc)
	}
	if id, ok := a.ids[string(a.key)]; ok {
		return id, false
	}
	cost := 4*256 + 2*len(a.key) + 128
	if a.size+cost > a.limit && len(a.states) > 8 {
		keep := state{slices.Clone(a.threads), a.before, a.inside}
		a.forget(n)
		a.threads, a.before, a.inside = keep.threads, keep.before, keep.inside
		id, _ = a.intern(0)
		return id, true
	}
	id = int32(len(a.states) << 8)
	a.states = append(a.states, state{slices.Clone(a.threads), a.before, a.inside})
	a.table = append(a.table, unknowns[:]...)
	a.ids[string(a.key)] = id
	a.size += cost
	a.made++
	return id, false
}

var unknowns = func() (row [256]int32) {
	for i := range row {
		row[i] = unknown
	}
	return row
}()

// forget drops all states but the first n of held and where every line begins.
func (a *automaton) forget(n int) {
	var keep [len(a.held)]state
	for i := range n {
		keep[i] = a.states[a.held[i]>>8]
	}
	if a.states != nil {
		a.flushes++
		a.tired = a.flushes > 8 && a.read < 8*a.made
	}
	a.table, a.states, a.size = a.table[:0], a.states[:0], 0
	a.ids = make(map[string]int32)
	a.threads, a.before, a.inside = a.threads[:0], other, skipped
	a.skip, _ = a.intern(0)
	a.rewind()
	a.start, _ = a.intern(0)
	for i := range n {
		a.threads = append(a.threads[:0], keep[i].threads...)
		a.before, a.inside = keep[i].before, keep[i].inside
		a.held[i], _ = a.intern(0)
	}
}

// set is a set of instructions that is cleared in no time.
type set struct {
	list []uint32
	at   []uint32
}

func (s *set) init(n int) { s.at = make([]uint32, n) }

func (s *set) clear() { s.list = s.list[:0] }

// add reports whether pc was not in.
func (s *set) add(pc uint32) bool {
	if i := s.at[pc]; int(i) < len(s.list) && s.list[i] == pc {
		return false
	}
	s.at[pc] = uint32(len(s.list))
	s.list = append(s.list, pc)
	return true
}

// drop takes out what was added last.
func (s *set) drop() { s.list = s.list[:len(s.list)-1] }
