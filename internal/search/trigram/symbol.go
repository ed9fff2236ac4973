package trigram

import (
	"bytes"
	"sync"
)

const (
	symbols = 64
	triples = symbols * symbols * symbols
	mask    = triples - 1

	blank    = 37
	punct    = 38 // the first of the punctuation
	nonASCII = 60 // the first of four
)

// groups are the punctuation that is told apart.
var groups = [nonASCII - punct]string{
	".", ",", "(", ")", `"`, "=", ":", "/", "-", ";", "{", "}", "[", "]", "*", "&", "<", ">",
	"'`", "!?", "#$%@", `+|\^~`,
}

// symbolOf is the symbol of each byte.
var symbolOf = func() (of [256]uint8) {
	for b := range of {
		switch c := byte(b); {
		case c >= 'a' && c <= 'z':
			of[b] = c - 'a'
		case c >= 'A' && c <= 'Z':
			of[b] = c - 'A'
		case c >= '0' && c <= '9':
			of[b] = 26 + c - '0'
		case c == '_':
			of[b] = 36
		case c >= 0xE0:
			of[b] = nonASCII + 3
		case c >= 0xC0:
			of[b] = nonASCII + 2
		case c >= 0xA0:
			of[b] = nonASCII + 1
		case c >= 0x80:
			of[b] = nonASCII
		default:
			of[b] = blank
		}
	}
	for i, group := range groups {
		for _, c := range []byte(group) {
			of[c] = punct + uint8(i)
		}
	}
	return of
}()

// chunkSize is about how long a chunk is.
const chunkSize = 64 << 10

// split cuts a text into units and finds their triples.
func split(text []byte) (units []*fresh) {
	line := 0
	for start := 0; start < len(text); {
		end := len(text)
		if end-start > chunkSize {
			if i := bytes.LastIndexByte(text[start:start+chunkSize], '\n'); i >= 0 {
				end = start + i + 1
			} else if i := bytes.IndexByte(text[start+chunkSize:], '\n'); i >= 0 {
				end = start + chunkSize + i + 1
			}
		}
		chunk := text[start:end]
		units = append(units, &fresh{
			unit:    unit{start: uint32(start), end: uint32(end), line: uint32(line)},
			triples: triplesOf(chunk),
		})
		if end < len(text) {
			line += bytes.Count(chunk, []byte{'\n'})
		}
		start = end
	}
	return units
}

// seen is where triplesOf notes what it met.
type seen struct {
	bits [triples / 64]uint64
	list []uint32
}

var seenPool = sync.Pool{New: func() any { return new(seen) }}

// triplesOf returns the triples of symbols in a chunk, each once.
func triplesOf(chunk []byte) []uint32 {
	s := seenPool.Get().(*seen)
	defer seenPool.Put(s)
	list := s.list[:0]
	t := uint32(blank)
	n := 1 // symbols in t
	for i := 0; i <= len(chunk); i++ {
		c := uint32(blank)
		if i < len(chunk) {
			c = uint32(symbolOf[chunk[i]])
		}
		if c == blank && t%symbols == blank {
			continue
		}
		t = (t<<6 | c) & mask
		if n++; n < 3 {
			continue
		}
		if word, bit := &s.bits[t/64], uint64(1)<<(t%64); *word&bit == 0 {
			*word |= bit
			list = append(list, t)
		}
	}
	out := make([]uint32, len(list))
	copy(out, list)
	for _, t := range list {
		s.bits[t/64] = 0
	}
	s.list = list
	return out
}
