package encoding

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	xencoding "golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/transform"
)

// utf8Codec is UTF-8, where bytes and text are the same.
type utf8Codec struct{}

func (utf8Codec) next(dst, b []byte) ([]byte, int, bool) {
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError && n == 1 {
		return dst, 1, false
	}
	return append(dst, b[:n]...), n, true
}

func (utf8Codec) decode(b []byte) (string, bool) {
	if !utf8.Valid(b) {
		return "", false
	}
	return string(b), true
}

func (utf8Codec) encode(text string) ([]byte, int) { return []byte(text), -1 }

// byteCodec has one byte for each character, the first 128 as in ASCII.
type byteCodec struct {
	runes [256]rune // utf8.RuneError where there is none
	bytes map[rune]byte
}

func newByteCodec(m *charmap.Charmap) *byteCodec {
	c := &byteCodec{bytes: make(map[rune]byte)}
	for i := range 256 {
		r := rune(i)
		if i >= utf8.RuneSelf {
			r = utf8.RuneError
			if m != nil {
				r = m.DecodeByte(byte(i))
			}
		}
		c.runes[i] = r
		if r != utf8.RuneError {
			c.bytes[r] = byte(i)
		}
	}
	return c
}

func (c *byteCodec) next(dst, b []byte) ([]byte, int, bool) {
	r := c.runes[b[0]]
	if r == utf8.RuneError {
		return dst, 1, false
	}
	return utf8.AppendRune(dst, r), 1, true
}

func (c *byteCodec) decode(b []byte) (string, bool) {
	out := make([]byte, 0, len(b)+len(b)/8)
	for _, x := range b {
		if x < utf8.RuneSelf {
			out = append(out, x)
			continue
		}
		r := c.runes[x]
		if r == utf8.RuneError {
			return "", false
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out), true
}

func (c *byteCodec) encode(text string) ([]byte, int) {
	out := make([]byte, 0, len(text))
	for i, r := range text {
		if r < utf8.RuneSelf {
			out = append(out, byte(r))
			continue
		}
		x, ok := c.bytes[r]
		if !ok {
			return nil, i
		}
		out = append(out, x)
	}
	return out, -1
}

// utf16Codec is UTF-16 in one byte order.
type utf16Codec struct{ order byteOrder }

type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

func (c utf16Codec) next(dst, b []byte) ([]byte, int, bool) {
	if len(b) < 2 {
		return dst, len(b), false
	}
	r := rune(c.order.Uint16(b))
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(dst, r), 2, true
	}
	if len(b) >= 4 {
		if r = utf16.DecodeRune(r, rune(c.order.Uint16(b[2:]))); r != utf8.RuneError {
			return utf8.AppendRune(dst, r), 4, true
		}
	}
	return dst, 2, false
}

func (c utf16Codec) decode(b []byte) (string, bool) {
	out := make([]byte, 0, len(b)/2+len(b)/8)
	for len(b) > 0 {
		text, n, ok := c.next(out, b)
		if !ok {
			return "", false
		}
		out, b = text, b[n:]
	}
	return string(out), true
}

func (c utf16Codec) encode(text string) ([]byte, int) {
	out := make([]byte, 0, 2*len(text))
	for _, r := range text {
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			out = c.order.AppendUint16(out, uint16(high))
			r = low
		}
		out = c.order.AppendUint16(out, uint16(r))
	}
	return out, -1
}

// wideCodec has one to four bytes for each character, one for those of ASCII. The
// work is done by x/text, whose decoders and encoders of this kind keep no state.
type wideCodec struct {
	enc xencoding.Encoding
	dec *xencoding.Decoder
	// The bytes of U+FFFD where it has some: decoders also use it for what is no
	// character.
	fffd []byte
}

var fffd = []byte("\ufffd")

func newWideCodec(enc xencoding.Encoding) *wideCodec {
	c := &wideCodec{enc: enc, dec: enc.NewDecoder()}
	if b, err := enc.NewEncoder().Bytes(fffd); err == nil {
		c.fffd = b
	}
	return c
}

func (c *wideCodec) next(dst, b []byte) ([]byte, int, bool) {
	if b[0] < utf8.RuneSelf {
		return append(dst, b[0]), 1, true
	}
	if len(c.fffd) > 0 && bytes.HasPrefix(b, c.fffd) {
		return append(dst, fffd...), len(c.fffd), true
	}
	dst = slices.Grow(dst, 4*utf8.UTFMax)
	spare := dst[len(dst):cap(dst)]
	for n := 1; n <= min(4, len(b)); n++ {
		out, in, err := c.dec.Transform(spare, b[:n], false)
		if err != nil || in == 0 {
			continue // it wants more
		}
		if in != n || bytes.Contains(spare[:out], fffd) {
			break
		}
		return dst[:len(dst)+out], n, true
	}
	return dst, 1, false
}

func (c *wideCodec) decode(b []byte) (string, bool) {
	text, err := c.dec.Bytes(b)
	if err != nil {
		return "", false
	}
	s := string(text)
	if !bytes.Contains(text, fffd) {
		return s, true
	}
	for len(b) > 0 {
		_, n, ok := c.next(text[:0], b)
		if !ok {
			return "", false
		}
		b = b[n:]
	}
	return s, true
}

func (c *wideCodec) encode(text string) ([]byte, int) {
	s, n, err := transform.String(c.enc.NewEncoder(), text)
	if err != nil {
		return nil, n
	}
	// Some characters are written as one that only looks alike.
	if back, _ := c.decode([]byte(s)); back != text {
		return nil, differ(back, text)
	}
	return []byte(s), -1
}

// differ returns where the first character of text is that is not so in back.
func differ(back, text string) int {
	n := 0
	for n < len(text)-1 && n < len(back) && back[n] == text[n] {
		n++
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}
