package linematch

import "bytes"

// Scanner finds the matching lines of one text after the other.
type Scanner struct {
	m    *Matcher
	text []byte
	stop <-chan struct{}
	err  error

	at int // beginning of the first line not handed out or passed over

	// The automaton works ahead, block by block.
	ahead int      // end of the block
	hits  [4][]int // a place in each matching line of the block; first by quarters, then all in one
	hit   int      // how many were handed out
	block int      // how large the next is to be

	next   []int // by needle: where it is next, behind at; len(text): nowhere
	checks int   // lines with a needle that were looked at in vain
	since  int   // place from which on checks are counted

	a *automaton // made when first used
}

func newScanner(m *Matcher) *Scanner {
	return &Scanner{m: m, next: make([]int, len(m.needles))}
}

// Close gives the scanner back. It must not be used after.
func (s *Scanner) Close() {
	s.Reset(nil, nil)
	s.m.pool.Put(s)
}

const (
	firstBlock = 4 << 10
	lastBlock  = 128 << 10
)

// Reset begins another text, which must begin at the beginning of a line and not
// change while it is scanned. When stop is closed, the scan ends; nil never is.
func (s *Scanner) Reset(text []byte, stop <-chan struct{}) {
	s.text, s.stop, s.err = text, stop, nil
	s.at, s.ahead, s.hit, s.block = 0, 0, 0, firstBlock
	s.checks, s.since = 0, 0
	for i := range s.hits {
		s.hits[i] = s.hits[i][:0]
	}
	for i := range s.next {
		s.next[i] = -1
	}
	if s.a != nil {
		s.a.fresh()
	}
}

// Err returns why the scan ended early: [ErrStopped] or [pattern.ErrTimeout].
func (s *Scanner) Err() error { return s.err }

// Next returns the next line that matches, without its line feed.
func (s *Scanner) Next() (line Span, ok bool) {
	for {
		line, ok = s.candidate()
		if !ok || !s.m.Slow() {
			return line, ok
		}
		if s.stopped() {
			return Span{}, false
		}
		matches, err := s.backtrack(string(s.text[line.Start:line.End]))
		if err != nil {
			s.end(err)
			return Span{}, false
		}
		if matches {
			return line, true
		}
	}
}

// backtrack matches a line with a slow pattern. The limit is one of the clock, and
// a busy machine may take long over nothing, so a line has several tries.
func (s *Scanner) backtrack(line string) (matches bool, err error) {
	for range 3 {
		if matches, err = s.m.full.Match(line); err == nil {
			break
		}
	}
	return matches, err
}

// Count returns how many lines match from here on.
func (s *Scanner) Count() (n int) {
	for {
		if _, ok := s.Next(); !ok {
			return n
		}
		n++
	}
}

// Spans returns where the pattern matches in a line, from left to right, at most
// limit times (all if it is negative). Empty matches are left out. The only error
// is [pattern.ErrTimeout], of slow patterns.
func (s *Scanner) Spans(line []byte, limit int) ([]Span, error) {
	return s.m.full.FindAll(string(line), limit)
}

// end ends the scan.
func (s *Scanner) end(err error) {
	s.err = err
	s.at = len(s.text)
	s.hits[0], s.hit = s.hits[0][:0], 0
}

// stopped reports whether somebody wants the scan to end, and ends it.
func (s *Scanner) stopped() bool {
	select {
	case <-s.stop:
		s.end(ErrStopped)
		return true
	default:
		return false
	}
}

// candidate returns the next line that matches the linear pattern.
func (s *Scanner) candidate() (Span, bool) {
	switch s.m.way {
	case none:
		return Span{}, false
	case every:
		if s.at >= len(s.text) {
			return Span{}, false
		}
		return s.take(s.at), true
	case byLiterals:
		p := s.needle()
		if p < 0 {
			return Span{}, false
		}
		return s.take(p), true
	case byCandidates:
		return s.checked()
	default:
		return s.swept()
	}
}

// take returns the line that p is in, or that the line feed at p ends, and goes on
// behind it.
func (s *Scanner) take(p int) Span {
	l := Span{Start: s.at + bytes.LastIndexByte(s.text[s.at:p], '\n') + 1, End: len(s.text)}
	if i := bytes.IndexByte(s.text[p:], '\n'); i >= 0 {
		l.End = p + i
	}
	s.at = l.End + 1
	return l
}

// needle returns where one of the needles is next, or -1.
func (s *Scanner) needle() int {
	if s.m.shared != nil {
		return s.sharing()
	}
	first := len(s.text)
	for i, n := range s.m.needles {
		if s.next[i] < s.at {
			s.next[i] = len(s.text)
			if s.at < len(s.text) {
				if p := n.find(s.text, s.at); p >= 0 {
					s.next[i] = p
				}
			}
		}
		first = min(first, s.next[i])
	}
	if first == len(s.text) {
		return -1
	}
	return first
}

// sharing is needle where they have a part in common.
func (s *Scanner) sharing() int {
	for from := s.at; from < len(s.text); from++ {
		p := s.m.shared.find(s.text, from)
		if p < 0 {
			break
		}
		for _, n := range s.m.needles {
			at := p
			if s.m.atEnd {
				at += len(s.m.shared.text) - len(n.text)
			}
			if at >= 0 && at+len(n.text) <= len(s.text) && n.matches(s.text, at) {
				return at
			}
		}
		from = p
	}
	return -1
}

// checked returns the next matching line among those that hold a needle. Where
// too many hold one in vain, a part of the text is swept instead.
func (s *Scanner) checked() (Span, bool) {
	for {
		if line, ok := s.found(); ok {
			return line, true
		}
		if s.checks >= 16 && s.checks*checkBytes > s.at-s.since {
			if s.at >= len(s.text) || s.stopped() {
				return Span{}, false
			}
			s.sweep(lastBlock)
			s.checks, s.since = 0, s.ahead
			continue
		}
		p := s.needle()
		if p < 0 {
			return Span{}, false
		}
		line := s.take(p)
		if s.matches(s.text[line.Start:line.End]) {
			return line, true
		}
		if s.err != nil {
			return Span{}, false
		}
		s.checks++
	}
}

// checkBytes is how much text can be swept in the time that a check takes.
const checkBytes = 100

// swept returns the next matching line, found by the automaton alone.
func (s *Scanner) swept() (Span, bool) {
	for {
		if line, ok := s.found(); ok {
			return line, true
		}
		if s.at >= len(s.text) || s.stopped() {
			return Span{}, false
		}
		s.sweep(s.block)
		s.block = min(4*s.block, lastBlock)
	}
}

// found returns the next matching line of the block that was swept.
func (s *Scanner) found() (Span, bool) {
	if s.hit < len(s.hits[0]) {
		s.hit++
		return s.take(s.hits[0][s.hit-1]), true
	}
	s.at = max(s.at, s.ahead)
	return Span{}, false
}
