package pattern

import (
	"regexp/syntax"
	"slices"
	"sync"
	"unicode/utf8"
)

// worthNarrowing is the length from which on a text is narrowed down before the
// standard engine sees it.
const worthNarrowing = 256

// finder narrows a long text down to the parts that hold matches of one pattern.
//
// The standard engine follows a set of threads through the text, rune by rune,
// and takes 50 to 100 ns for each. All that is wanted of most texts is that
// nothing is in them. So the sets are made into states of an automaton, each when
// it is first met, and following a state costs a table lookup. It knows that
// there was a match, not where it began; the standard engine then looks at the
// lines in question.
//
// A part begins and ends after a line feed where no thread is under way, so that
// no match reaches over its edge.
type finder struct {
	prog  *syntax.Prog
	looks bool // has conditions on what stands around a place: ^ $ \b
	whole bool // has \A or \z: a part would pass for the text
	pool  sync.Pool
}

func newFinder(expr string) *finder {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		panic("pattern: what compiled does not parse: " + err.Error())
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		panic("pattern: what compiled does not compile: " + err.Error())
	}
	f := &finder{prog: prog}
	for _, in := range prog.Inst {
		if in.Op == syntax.InstEmptyWidth {
			f.looks = true
			f.whole = f.whole || syntax.EmptyOp(in.Arg)&(syntax.EmptyBeginText|syntax.EmptyEndText) != 0
		}
	}
	f.pool.New = func() any {
		d := &automaton{finder: f, seen: make([]uint32, len(prog.Inst))}
		d.forget()
		return d
	}
	return f
}

// parts calls found with each part of text that holds a match, and where the part
// begins, until it returns false.
func (f *finder) parts(text string, found func(part string, at int) bool) {
	d := f.pool.Get().(*automaton)
	defer f.pool.Put(d)
	d.flushes = 0
	from, hit := 0, false
	st := d.state(nil, begin, false)
	for i := 0; i < len(text); {
		var next *state
		if c := text[i]; c < utf8.RuneSelf {
			i++
			if next = st.ascii[c]; next == nil {
				next = d.step(st, rune(c))
				st.ascii[c] = next
				if d.tired(i) {
					found(text[from:], from)
					return
				}
			}
		} else {
			r, n := utf8.DecodeRuneInString(text[i:])
			i += n
			if next = st.wide[r]; next == nil {
				next = d.step(st, r)
				st.keep(r, next)
				d.wide++
				if d.tired(i) {
					found(text[from:], from)
					return
				}
			}
		}
		st = next
		if !st.tells {
			continue
		}
		hit = hit || st.match
		if st.idle && !f.whole {
			if hit && !found(text[from:i], from) {
				return
			}
			from, hit = i, false
		}
	}
	if hit || d.step(st, end).match {
		found(text[from:], from)
	}
}

const (
	begin rune = -1 // what stands before the text
	end   rune = -1 // and behind it

	maxStates = 1000
	maxWide   = 50_000 // ways from one state to another that are not ASCII
)

// automaton is the states of a finder met so far. One caller uses it at a time.
type automaton struct {
	*finder
	states  map[string]*state
	wide    int
	flushes int

	// For step.
	seen  []uint32 // round in which an instruction was met
	round uint32
	stack []uint32
	next  []uint32
	key   []byte
}

// state is a set of threads at a place in the text.
type state struct {
	ascii [utf8.RuneSelf]*state
	wide  map[rune]*state

	threads []uint32 // instructions to go on with, sorted
	before  rune     // one like the character before this place
	match   bool     // a match ended before the character that led here
	idle    bool     // after a line feed, without threads
	tells   bool     // match or idle
}

func (s *state) keep(r rune, next *state) {
	if s.wide == nil {
		s.wide = make(map[rune]*state)
	}
	s.wide[r] = next
}

func (d *automaton) forget() {
	d.states, d.wide = make(map[string]*state), 0
	d.flushes++
}

// tired reports whether keeping states does not pay off after so many bytes,
// since there are ever new ones.
func (d *automaton) tired(read int) bool { return read < 10*maxStates*d.flushes }

// step returns the state after reading r in st.
func (d *automaton) step(st *state, r rune) *state {
	flags := syntax.EmptyOpContext(st.before, r)
	d.round++
	if d.round == 0 { // came around
		clear(d.seen)
		d.round = 1
	}
	match := false
	d.next = d.next[:0]
	d.stack = append(append(d.stack[:0], uint32(d.prog.Start)), st.threads...)
	for len(d.stack) > 0 {
		pc := d.stack[len(d.stack)-1]
		d.stack = d.stack[:len(d.stack)-1]
		if d.seen[pc] == d.round {
			continue
		}
		d.seen[pc] = d.round
		in := &d.prog.Inst[pc]
		switch in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			d.stack = append(d.stack, in.Out, in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			d.stack = append(d.stack, in.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(in.Arg)&^flags == 0 {
				d.stack = append(d.stack, in.Out)
			}
		case syntax.InstMatch:
			match = true
		case syntax.InstFail:
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if r != end && reads(in, r) {
				d.next = append(d.next, in.Out)
			}
		}
	}
	slices.Sort(d.next)
	return d.state(slices.Compact(d.next), like(r), match)
}

func reads(in *syntax.Inst, r rune) bool {
	switch in.Op {
	case syntax.InstRuneAny:
		return true
	case syntax.InstRuneAnyNotNL:
		return r != '\n'
	default:
		return in.MatchRune(r)
	}
}

// like returns the one character that stands for all that look alike from the
// other side of a place.
func like(r rune) rune {
	switch {
	case r == '\n' || r == begin:
		return r
	case syntax.IsWordChar(r):
		return 'w'
	default:
		return ' '
	}
}

// state returns the state of these threads, the one met before if there is one.
func (d *automaton) state(threads []uint32, before rune, match bool) *state {
	idle := before == '\n' && len(threads) == 0
	if !d.looks && !idle {
		before = ' '
	}
	d.key = append(d.key[:0], byte(before))
	if match {
		d.key = append(d.key, '+')
	}
	for _, pc := range threads {
		d.key = append(d.key, byte(pc), byte(pc>>8), byte(pc>>16), byte(pc>>24))
	}
	if st, ok := d.states[string(d.key)]; ok {
		return st
	}
	if len(d.states) >= maxStates || d.wide >= maxWide {
		d.forget()
	}
	st := &state{threads: slices.Clone(threads), before: before, match: match, idle: idle, tells: match || idle}
	d.states[string(d.key)] = st
	return st
}
