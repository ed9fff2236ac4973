package linematch

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// shares says about how many of 100,000 bytes of text are this one: counted in
// source code and documents of eleven kinds, most of it Go, and rounded. The
// parentheses and the carriage return were put higher than counted. Bytes from
// 0x80 on are taken to be as rare as they are in English. A wrong share costs
// time, never a match.
var shares = [utf8.RuneSelf]int32{
	'\t': 1600, '\n': 3050, '\r': 100,
	' ': 17900, '!': 97, '"': 1520, '#': 290, '$': 240, '%': 44, '&': 130, '\'': 310,
	'(': 1200, ')': 1200, '*': 210, '+': 130, ',': 1780, '-': 880, '.': 1180, '/': 920,
	'0': 1560, '1': 920, '2': 710, '3': 480, '4': 490, '5': 380, '6': 440, '7': 300, '8': 390, '9': 320,
	':': 1160, ';': 280, '<': 130, '=': 660, '>': 140, '?': 53, '@': 25,
	'A': 500, 'B': 290, 'C': 410, 'D': 350, 'E': 540, 'F': 240, 'G': 200, 'H': 140, 'I': 380, 'J': 29,
	'K': 66, 'L': 320, 'M': 280, 'N': 310, 'O': 410, 'P': 310, 'Q': 62, 'R': 490, 'S': 580, 'T': 550,
	'U': 160, 'V': 220, 'W': 100, 'X': 150, 'Y': 90, 'Z': 39,
	'[': 250, '\\': 140, ']': 250, '^': 37, '_': 720, '`': 180,
	'a': 3230, 'b': 810, 'c': 2120, 'd': 1820, 'e': 5780, 'f': 1400, 'g': 1190, 'h': 1220, 'i': 3360, 'j': 76,
	'k': 420, 'l': 2290, 'm': 1300, 'n': 3420, 'o': 3200, 'p': 1390, 'q': 90, 'r': 3300, 's': 3200, 't': 4530,
	'u': 1680, 'v': 570, 'w': 410, 'x': 870, 'y': 690, 'z': 100,
	'{': 430, '|': 210, '}': 430, '~': 28,
}

// share returns about how often one of the bytes of a text is b, or b in the other
// case.
func share(b byte, fold bool) float64 {
	n := int32(15)
	if b < utf8.RuneSelf {
		n = max(5, shares[b])
		if fold && isLetter(b) {
			n += shares[b^0x20]
		}
	}
	return float64(n) / 100_000
}

// share returns about how often the literal begins at a byte of a text.
func (l Literal) share() float64 {
	each := make([]float64, len(l.Text))
	for i := range l.Text {
		each[i] = share(l.Text[i], l.Fold)
	}
	slices.Sort(each)
	p := each[0]
	for _, s := range each[1:] {
		p *= min(1, 5*s) // letters of a word go together
	}
	for _, e := range []Edge{l.Left, l.Right} {
		switch e {
		case LineEdge:
			p /= 10
		case NonWord:
			p /= 2
		default:
		}
	}
	return p
}

func shareOf(set []Literal) (sum float64) {
	for _, l := range set {
		sum += l.share()
	}
	return sum
}

func byShare(a, b []Literal) int { return cmp.Compare(shareOf(a), shareOf(b)) }

func rarest(clauses [][]Literal) []Literal {
	if len(clauses) == 0 {
		return nil
	}
	return slices.MinFunc(clauses, byShare)
}

// inCommon returns what all literals begin with, or end with if that is rarer. It
// has no edges.
func inCommon(set []Literal) (l Literal, atEnd bool) {
	head, tail := set[0].Text, set[0].Text
	fold := false
	for _, o := range set {
		fold = fold || o.Fold
		n := 0
		for n < min(len(head), len(o.Text)) && head[n] == o.Text[n] {
			n++
		}
		head = head[:n]
		n = 0
		for n < min(len(tail), len(o.Text)) && tail[len(tail)-1-n] == o.Text[len(o.Text)-1-n] {
			n++
		}
		tail = tail[len(tail)-n:]
	}
	if fold {
		head, tail = lowerASCII(head), lowerASCII(tail)
	}
	begin, end := Literal{Text: head, Fold: fold}, Literal{Text: tail, Fold: fold}
	if head == "" || tail != "" && end.share() < begin.share() {
		return end, true
	}
	return begin, false
}

// needle finds a literal in a text.
type needle struct {
	text        []byte
	fold        bool
	masks       []byte // by byte: the bit that does not matter
	left, right Edge

	// Its two rarest bytes are looked for.
	at1, at2 int
	rare     bool // so much so that the first alone is worth looking for
	word1    uint64
	word2    uint64
	mask1    uint64
	mask2    uint64
}

// rareByte is the share up to which looking for one byte with the processor's
// own means and checking each is faster than looking for two at once, as measured
// on Go code on one machine.
const rareByte = 0.01

func newNeedle(l Literal) *needle {
	n := &needle{text: []byte(l.Text), fold: l.Fold, left: l.Left, right: l.Right}
	n.masks = make([]byte, len(n.text))
	for i, b := range n.text {
		if n.fold && isLetter(b) {
			n.masks[i] = 0x20
		}
	}
	order := make([]int, len(n.text))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Compare(share(n.text[i], n.fold), share(n.text[j], n.fold))
	})
	n.at1, n.at2 = order[0], order[0]
	for _, i := range order[1:] {
		if n.text[i] != n.text[n.at1] {
			n.at2 = i
			break
		}
	}
	n.rare = n.masks[n.at1] == 0 && share(n.text[n.at1], false) <= rareByte
	const each = 0x0101010101010101
	n.word1, n.mask1 = each*uint64(n.text[n.at1]), each*uint64(n.masks[n.at1])
	n.word2, n.mask2 = each*uint64(n.text[n.at2]), each*uint64(n.masks[n.at2])
	return n
}

// cost estimates the nanoseconds that looking for the needle takes per byte.
func (n *needle) cost() float64 {
	if n.rare || len(n.text) == 1 && n.masks[0] == 0 {
		return 0.05 + 6*share(n.text[n.at1], false)
	}
	return 0.35
}

// find returns where the needle next begins in text, from on, or -1.
func (n *needle) find(text []byte, from int) int {
	if n.rare || len(n.text) == 1 && n.masks[0] == 0 {
		return n.findRare(text, from)
	}
	return n.findPair(text, from)
}

func (n *needle) findRare(text []byte, from int) int {
	b1, b2 := n.text[n.at1], n.text[n.at2]
	last := len(text) - len(n.text) // where it may begin
	misses := 0
	for p := from; p <= last; p++ {
		i := bytes.IndexByte(text[p+n.at1:last+n.at1+1], b1)
		if i < 0 {
			return -1
		}
		p += i
		if text[p+n.at2]|n.masks[n.at2] == b2 && n.matches(text, p) {
			return p
		}
		if misses++; misses > 64 && misses*32 > p-from && n.at1 != n.at2 {
			return n.findPair(text, p+1) // not so rare here
		}
	}
	return -1
}

// findPair looks at eight places at once: where both bytes fit, the words have a
// byte that is zero.
func (n *needle) findPair(text []byte, from int) int {
	last := len(text) - len(n.text) // where it may begin
	p := from
	w1, w2, m1, m2 := n.word1, n.word2, n.mask1, n.mask2
	for ; p+31 <= last; p += 32 {
		a := (*[32]byte)(text[p+n.at1:])
		b := (*[32]byte)(text[p+n.at2:])
		z0 := zeros(((load(a[0:]) | m1) ^ w1) | ((load(b[0:]) | m2) ^ w2))
		z1 := zeros(((load(a[8:]) | m1) ^ w1) | ((load(b[8:]) | m2) ^ w2))
		z2 := zeros(((load(a[16:]) | m1) ^ w1) | ((load(b[16:]) | m2) ^ w2))
		z3 := zeros(((load(a[24:]) | m1) ^ w1) | ((load(b[24:]) | m2) ^ w2))
		if (z0|z1|z2|z3)&high == 0 {
			continue
		}
		for i, z := range [...]uint64{z0, z1, z2, z3} {
			for z &= high; z != 0; z &= z - 1 {
				if at := p + 8*i + bits.TrailingZeros64(z)/8; n.matches(text, at) {
					return at
				}
			}
		}
	}
	for ; p <= last; p++ {
		if text[p+n.at1]|byte(m1) == byte(w1) && n.matches(text, p) {
			return p
		}
	}
	return -1
}

func load(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

const (
	low  = 0x0101010101010101
	high = 0x8080808080808080
)

// zeros has the high bit of each byte set that is zero in x, and perhaps of some
// above such a byte. The other bits mean nothing.
func zeros(x uint64) uint64 { return (x - low) &^ x }

// matches reports whether the needle stands at p, between its edges.
func (n *needle) matches(text []byte, p int) bool {
	at := text[p : p+len(n.text)]
	if n.fold {
		for i, b := range at {
			if b|n.masks[i] != n.text[i] {
				return false
			}
		}
	} else if !bytes.Equal(at, n.text) {
		return false
	}
	return (n.left == Anything || p == 0 || fits(n.left, text[p-1])) &&
		(n.right == Anything || p+len(at) == len(text) || fits(n.right, text[p+len(at)]))
}

// fits reports whether b may stand at an edge.
func fits(e Edge, b byte) bool { return b == '\n' || e == NonWord && !isWord(b) }
