package linematch

import "bytes"

// sweep looks at all lines of the next n bytes or more and leaves a place in each
// that matches in hits[0].
func (s *Scanner) sweep(n int) {
	a := s.automaton()
	from, to := s.at, len(s.text)
	if n < to-from {
		if i := bytes.IndexByte(s.text[from+n:], '\n'); i >= 0 {
			to = from + n + i + 1
		}
	}
	s.ahead, s.hit = to, 0
	for i := range s.hits {
		s.hits[i] = s.hits[i][:0]
	}
	if !a.tired {
		s.quarters(from, to)
		a.read += to - from
	}
	if !a.tired {
		s.hits[0] = append(append(append(s.hits[0], s.hits[1]...), s.hits[2]...), s.hits[3]...)
		return
	}
	s.hits[0] = s.hits[0][:0]
	for from < to && s.err == nil {
		end := to
		if i := bytes.IndexByte(s.text[from:to], '\n'); i >= 0 {
			end = from + i
		}
		if s.threaded(s.text[from:end]) {
			s.hits[0] = append(s.hits[0], from)
		}
		from = end + 1
	}
}

func (s *Scanner) automaton() *automaton {
	if s.a == nil {
		s.a = newAutomaton(s.m.prog, s.m.limit)
	}
	return s.a
}

// worthCutting is the size of a block from which on it is read in quarters.
const worthCutting = 1 << 10

// quarters reads a block in four places at once: a step of the automaton waits
// for the one before, and lines do not depend on each other. It is no use where
// most of each line is jumped over.
func (s *Scanner) quarters(from, to int) {
	if to-from < worthCutting || s.m.jumps {
		s.run(from, to, 0, s.a.start)
		return
	}
	// Each quarter begins where a line does.
	cut := [5]int{from, from, from, from, to}
	for i := 3; i > 0; i-- {
		near := from + i*(to-from)/4
		cut[i] = from + bytes.LastIndexByte(s.text[from:near], '\n') + 1
	}
	at := s.four(cut)
	for i := range 4 {
		if s.a.tired {
			return
		}
		s.run(cut[i]+at, cut[i+1], i, s.a.held[i])
	}
}

// four reads the quarters side by side up to the end of the shortest. It returns
// how far it came, and the states there are those held.
func (s *Scanner) four(cut [5]int) (at int) {
	a := s.a
	q0, q1, q2, q3 := s.text[cut[0]:cut[1]], s.text[cut[1]:cut[2]], s.text[cut[2]:cut[3]], s.text[cut[3]:cut[4]]
	n := min(len(q0), len(q1), len(q2), len(q3))
	q0, q1, q2, q3 = q0[:n], q1[:n], q2[:n], q3[:n]
	a.held = [4]int32{a.start, a.start, a.start, a.start}
	read := a.read
	for i := 0; i < n; i++ {
		table := a.table
		s0, s1, s2, s3 := a.held[0], a.held[1], a.held[2], a.held[3]
		for ; i < n; i++ {
			n0 := table[int(s0)|int(q0[i])]
			n1 := table[int(s1)|int(q1[i])]
			n2 := table[int(s2)|int(q2[i])]
			n3 := table[int(s3)|int(q3[i])]
			if n0|n1|n2|n3 < 0 {
				break
			}
			s0, s1, s2, s3 = n0, n1, n2, n3
		}
		a.held = [4]int32{s0, s1, s2, s3}
		if i == n {
			break
		}
		// At least one of them has news.
		a.read = read + 4*i
		for j := range a.held {
			p := cut[j] + i
			next := a.way(a.held[j], s.text[p], len(a.held))
			if next == matched {
				s.hits[j] = append(s.hits[j], p)
				next = a.behind(s.text[p])
			}
			a.held[j] = next
		}
		if a.tired {
			break
		}
	}
	a.read = read
	return n
}

// run reads from from to to, where the state is st, and adds the lines that match
// to hits[j].
func (s *Scanner) run(from, to, j int, st int32) {
	a := s.a
	read := a.read
	text := s.text[:to]
	table, skip := a.table, a.skip
	for p := from; p < len(text); p++ {
		next := table[int(st)|int(text[p])]
		if next < 0 {
			a.read = read + p - from
			if next = a.way(st, text[p], len(a.held)); next == matched {
				s.hits[j] = append(s.hits[j], p)
				next = a.behind(text[p])
			}
			if a.tired {
				break
			}
			table, skip = a.table, a.skip
		}
		st = next
		if st == skip {
			i := bytes.IndexByte(text[p+1:], '\n')
			if i < 0 {
				break
			}
			p += i
		}
	}
	if len(text) > 0 && text[len(text)-1] != '\n' && !a.tired && st != a.skip {
		if a.way(st, '\n', len(a.held)) == matched {
			s.hits[j] = append(s.hits[j], len(text))
		}
	}
	a.read = read
}

// way returns where b leads from state id. The first n of held outlive it.
func (a *automaton) way(id int32, b byte, n int) int32 {
	if next := a.table[int(id)|int(b)]; next != unknown {
		return next
	}
	return a.follow(id, b, n)
}

// behind returns the state after a match that was seen at b.
func (a *automaton) behind(b byte) int32 {
	if b == '\n' {
		return a.start
	}
	return a.skip
}

// matches reports whether the line matches.
func (s *Scanner) matches(line []byte) bool {
	a := s.automaton()
	if a.tired {
		return s.threaded(line)
	}
	st, table := a.start, a.table
	for i, b := range line {
		next := table[int(st)|int(b)]
		if next < 0 {
			a.read += i
			next = a.way(st, b, 0)
			a.read -= i
			if next == matched {
				a.read += len(line)
				return true
			}
			if a.tired {
				return s.threaded(line)
			}
			table = a.table
		}
		st = next
		if st == a.skip {
			a.read += len(line)
			return false
		}
	}
	a.read += len(line)
	return a.way(st, '\n', 0) == matched
}

// threaded reports whether the line matches, without keeping states.
func (s *Scanner) threaded(line []byte) bool {
	a := s.a
	a.rewind()
	for _, b := range line {
		if a.advance(b) {
			return true
		}
		if a.work > 100_000 {
			a.work = 0
			if s.stopped() {
				return false
			}
		}
	}
	return a.advance('\n')
}
