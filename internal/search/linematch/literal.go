package linematch

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Literal is a piece of text that a line has to hold.
type Literal struct {
	Text string
	// Fold says that the case of ASCII letters does not matter; they are lower
	// case in Text. Other characters stand for themselves.
	Fold bool
	// Left and Right say what stands beside it.
	Left, Right Edge
}

// Edge is what stands beside a literal.
type Edge uint8

// The edges that are told apart.
const (
	Anything Edge = iota
	LineEdge      // the line begins or ends there
	NonWord       // the line begins or ends there, or a byte that is no ASCII letter, digit or _

	// Conditions of an empty literal, which are settled when text is joined.
	lineBegins
	lineEnds
	wordBoundary
)

const (
	maxSet    = 32  // literals kept of the beginnings or the ends
	maxClause = 64  // literals in an OR
	maxMust   = 16  // ORs in the AND
	maxExact  = 256 // bytes of a literal that is all of a match
	maxPart   = 32  // bytes of one that is a part
	maxClass  = 8   // characters of a class that are tried one by one
)

// literals is what is known about the text of every match of an expression.
type literals struct {
	// exact is all that a match can be, if finite; nil: not known.
	exact []Literal
	lossy bool // of exact: not all of it matches

	// Every match begins with one of first and ends with one of last.
	first, last []Literal
	// must is an AND of ORs: every match holds one literal of each.
	must [][]Literal
}

func anyText() literals {
	return literals{first: []Literal{{}}, last: []Literal{{}}}
}

func exactly(set ...Literal) literals {
	return literals{exact: set, first: set, last: set}
}

// literalsOf expects what withinLine and Simplify return.
func literalsOf(re *syntax.Regexp) literals {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return exactly(Literal{})
	case syntax.OpBeginLine, syntax.OpBeginText:
		return exactly(Literal{Left: lineBegins})
	case syntax.OpEndLine, syntax.OpEndText:
		return exactly(Literal{Left: lineEnds})
	case syntax.OpWordBoundary:
		return exactly(Literal{Left: wordBoundary})
	case syntax.OpNoWordBoundary:
		l := exactly(Literal{})
		l.lossy = true
		return l
	case syntax.OpLiteral:
		return ofRunes(re.Rune, re.Flags&syntax.FoldCase != 0)
	case syntax.OpCharClass:
		return ofClass(re.Rune)
	case syntax.OpCapture:
		return literalsOf(re.Sub[0])
	case syntax.OpConcat:
		l := exactly(Literal{})
		for _, sub := range re.Sub {
			l = l.then(literalsOf(sub))
		}
		return l
	case syntax.OpAlternate:
		l := literalsOf(re.Sub[0])
		for _, sub := range re.Sub[1:] {
			l = l.or(literalsOf(sub))
		}
		return l
	case syntax.OpQuest:
		return literalsOf(re.Sub[0]).or(exactly(Literal{}))
	case syntax.OpPlus:
		l := literalsOf(re.Sub[0])
		l.must = l.clauses()
		l.exact = nil
		return l
	default: // any character, any number of times, what cannot match
		return anyText()
	}
}

func ofRunes(runes []rune, fold bool) literals {
	all := exactly(Literal{})
	for len(runes) > 0 {
		// What has one form goes in one piece.
		n := 0
		for n < len(runes) && n < maxPart && simple(runes[n], fold) {
			n++
		}
		if n > 0 {
			text := string(runes[:n])
			folded := fold && hasLetter(text)
			if folded {
				text = lowerASCII(text)
			}
			all = all.then(exactly(Literal{Text: text, Fold: folded}))
			runes = runes[n:]
			continue
		}
		all = all.then(ofClass(variants(runes[0], fold)))
		runes = runes[1:]
	}
	return all
}

// simple reports whether r has one form, or is a letter of ASCII that only has
// another case: k and s have a third form.
func simple(r rune, fold bool) bool {
	if r == utf8.RuneError || !utf8.ValidRune(r) {
		return false
	}
	f := unicode.SimpleFold(r)
	return !fold || f == r || r < utf8.RuneSelf && f < utf8.RuneSelf && unicode.SimpleFold(f) == r
}

// variants returns as a class what r stands for.
func variants(r rune, fold bool) []rune {
	class := []rune{r, r}
	for f := unicode.SimpleFold(r); fold && f != r; f = unicode.SimpleFold(f) {
		class = append(class, f, f)
	}
	return class
}

func ofClass(ranges []rune) literals {
	n := 0
	for i := 0; i < len(ranges); i += 2 {
		n += int(ranges[i+1]-ranges[i]) + 1
		if ranges[i] <= utf8.RuneError && utf8.RuneError <= ranges[i+1] {
			return anyText() // U+FFFD is every byte that is no UTF-8, too
		}
	}
	if n > maxClass {
		return leads(ranges)
	}
	var set []Literal
	for i := 0; i < len(ranges); i += 2 {
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			low := r | 0x20
			switch {
			case r >= 0xD800 && r <= 0xDFFF: // no text has it
			case low < 'a' || low > 'z' || r >= utf8.RuneSelf || !contains(ranges, r^0x20):
				set = append(set, Literal{Text: string(r)})
			case r == low:
				set = append(set, Literal{Text: string(r), Fold: true})
			}
		}
	}
	if len(set) == 0 {
		return anyText()
	}
	return exactly(set...)
}

// leads is what is known of a class that is too large to be tried one by one: the
// first bytes of its characters, if they are few and none is ASCII.
func leads(ranges []rune) literals {
	l := anyText()
	l.first = nil
	for i := 0; i < len(ranges); i += 2 {
		least, most := ranges[i], ranges[i+1]
		if !utf8.ValidRune(least) {
			least = 0xE000 // behind those that no text has
		}
		if !utf8.ValidRune(most) {
			most = 0xD7FF
		}
		if least > most {
			continue
		}
		lo, hi := string(least)[0], string(most)[0]
		if lo < utf8.RuneSelf || int(hi-lo) >= maxClass {
			return anyText()
		}
		for b := int(lo); b <= int(hi); b++ {
			l.first = append(l.first, Literal{Text: string([]byte{byte(b)})})
		}
	}
	l.first = distinct(l.first)
	if len(l.first) > maxClass || len(l.first) == 0 {
		return anyText()
	}
	l.demand(l.first)
	return l
}

// then is what is known when b follows a.
func (a literals) then(b literals) literals {
	if a.exact != nil && b.exact != nil && len(a.exact)*len(b.exact) <= maxSet {
		set, lossy := cross(a.exact, b.exact)
		if longest(set) <= maxExact {
			l := exactly(set...)
			l.lossy = lossy || a.lossy || b.lossy
			return l
		}
	}
	var l literals
	l.first, l.last = a.first, b.last
	if a.exact != nil && len(a.exact)*len(b.first) <= maxSet {
		l.first, _ = cross(a.exact, b.first)
	}
	if b.exact != nil && len(a.last)*len(b.exact) <= maxSet {
		l.last, _ = cross(a.last, b.exact)
	}
	l.must = slices.Concat(a.must, b.must)
	if len(a.last)*len(b.first) <= maxSet {
		middle, _ := cross(a.last, b.first)
		l.demand(middle)
	} else {
		l.demand(a.last)
		l.demand(b.first)
	}
	l.first, l.last = heads(l.first), tails(l.last)
	return l
}

// or is what is known when it is a or b.
func (a literals) or(b literals) literals {
	var l literals
	if a.exact != nil && b.exact != nil && len(a.exact)+len(b.exact) <= maxClause {
		l = exactly(distinct(slices.Concat(a.exact, b.exact))...)
		l.lossy = a.lossy || b.lossy
		return l
	}
	l.first = heads(slices.Concat(a.first, b.first))
	l.last = tails(slices.Concat(a.last, b.last))
	x, y := rarest(a.clauses()), rarest(b.clauses())
	if x != nil && y != nil {
		l.demand(slices.Concat(x, y))
	}
	return l
}

// clauses returns what every match holds.
func (a literals) clauses() [][]Literal {
	if a.exact != nil {
		var l literals
		l.demand(a.exact)
		return l.must
	}
	return a.must
}

// demand adds an OR, unless it says nothing.
func (a *literals) demand(set []Literal) {
	set = distinct(set)
	if len(set) > maxClause || slices.ContainsFunc(set, func(l Literal) bool { return l.Text == "" }) {
		return
	}
	a.must = append(slices.Clip(a.must), set)
	if len(a.must) > maxMust {
		slices.SortStableFunc(a.must, byShare)
		a.must = a.must[:maxMust]
	}
}

func cross(a, b []Literal) (set []Literal, lossy bool) {
	for _, x := range a {
		for _, y := range b {
			l, lost := join(x, y)
			set = append(set, l)
			lossy = lossy || lost
		}
	}
	return distinct(set), lossy
}

// join returns a literal for x followed by y, and whether it holds more often.
func join(x, y Literal) (l Literal, lossy bool) {
	switch {
	case x.Text == "" && y.Text == "":
		l.Left, lossy = both(x.Left, y.Left)
		return l, lossy
	case x.Text == "":
		left, lost := settle(x.Left, lineBegins, y.Text[0])
		y.Left, lossy = both(left, y.Left)
		return y, lossy || lost
	case y.Text == "":
		right, lost := settle(y.Left, lineEnds, x.Text[len(x.Text)-1])
		x.Right, lossy = both(x.Right, right)
		return x, lossy || lost
	}
	l = Literal{Text: x.Text + y.Text, Fold: x.Fold || y.Fold, Left: x.Left, Right: y.Right}
	lossy = x.Right != Anything || y.Left != Anything
	if l.Fold {
		l.Text = lowerASCII(l.Text)
		lossy = lossy || !x.Fold && hasLetter(x.Text) || !y.Fold && hasLetter(y.Text)
	}
	return l, lossy
}

// settle turns the condition of an empty literal into an edge of text that has
// the byte b beside it. Here is the condition that fits that side.
func settle(e, here Edge, b byte) (edge Edge, lossy bool) {
	switch {
	case e == Anything:
		return Anything, false
	case e == here:
		return LineEdge, false
	case e == wordBoundary && isWord(b):
		return NonWord, false
	default:
		return Anything, true
	}
}

// both returns an edge for two conditions at the same place.
func both(a, b Edge) (e Edge, lossy bool) {
	switch {
	case a == b || b == Anything:
		return a, false
	case a == Anything:
		return b, false
	case a == LineEdge && b == NonWord || a == NonWord && b == LineEdge:
		return LineEdge, false
	default:
		return a, true
	}
}

// heads shortens literals to their beginnings, tails to their ends.
func heads(set []Literal) []Literal {
	return shorten(set, func(l Literal) Literal {
		if len(l.Text) > maxPart {
			l.Text, l.Right = l.Text[:maxPart], Anything
		}
		return l
	})
}

func tails(set []Literal) []Literal {
	return shorten(set, func(l Literal) Literal {
		if len(l.Text) > maxPart {
			l.Text, l.Left = l.Text[len(l.Text)-maxPart:], Anything
		}
		return l
	})
}

func shorten(set []Literal, short func(Literal) Literal) []Literal {
	if len(set) > maxSet {
		return []Literal{{}}
	}
	out := make([]Literal, len(set))
	for i, l := range set {
		out[i] = short(l)
	}
	return distinct(out)
}

func distinct(set []Literal) []Literal {
	out := make([]Literal, 0, len(set))
	for _, l := range set {
		if !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return out
}

// required returns the AND of ORs in its final form: no literal that holds
// whenever another of its OR does, no OR that holds whenever another does, and
// the rarest first.
func (a literals) required() [][]Literal {
	var all [][]Literal
	for _, set := range a.clauses() {
		var kept []Literal
		for i, l := range set {
			if !slices.ContainsFunc(set[:i], l.implies) && !slices.ContainsFunc(set[i+1:], l.implies) {
				kept = append(kept, l)
			}
		}
		all = append(all, kept)
	}
	slices.SortStableFunc(all, byShare)
	var out [][]Literal
	for _, set := range all {
		implied := func(by []Literal) bool {
			return !slices.ContainsFunc(by, func(l Literal) bool { return !slices.ContainsFunc(set, l.implies) })
		}
		if !slices.ContainsFunc(out, implied) {
			out = append(out, set)
		}
	}
	return out
}

// implies reports whether text that holds l is sure to hold m.
func (l Literal) implies(m Literal) bool {
	if l == m {
		return true
	}
	if l.Fold && !m.Fold && hasLetter(m.Text) {
		return false
	}
	text := l.Text
	if m.Fold {
		text = lowerASCII(text)
	}
	at := strings.Index(text, m.Text)
	if at < 0 {
		return false
	}
	left := m.Left == Anything || at == 0 && (m.Left == l.Left || m.Left == NonWord && l.Left == LineEdge)
	end := at + len(m.Text)
	right := m.Right == Anything || end == len(text) && (m.Right == l.Right || m.Right == NonWord && l.Right == LineEdge)
	return left && right
}

func longest(set []Literal) (n int) {
	for _, l := range set {
		n = max(n, len(l.Text))
	}
	return n
}

func isWord(b byte) bool {
	return b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '0' && b <= '9' || b == '_'
}

func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' && b < utf8.RuneSelf }

func hasLetter(s string) bool {
	for i := range len(s) {
		if isLetter(s[i]) {
			return true
		}
	}
	return false
}

func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
	return string(b)
}
