// Package encoding shows the bytes of a file as text, and takes edits of the text
// back to the bytes.
//
// The bytes are the truth. A [View] reads them in an encoding; what an edit does
// not touch keeps its bytes: the byte order mark, line ends, the missing line feed
// at the end, characters with two spellings, and bytes that are no characters at
// all. So a file need not be sound for a sound part of it to be edited.
//
// Reading and writing are strict: what cannot be read or written is an error that
// says where, never a replacement character. Everything here is a function of its
// arguments; an [Encoding] and a [View] are immutable and may be shared, as long
// as nobody changes the bytes a View was made of.
//
// Encodings in which the meaning of a byte depends on escape sequences before it
// (ISO-2022, HZ, UTF-7) are left out: a part of such a file cannot be edited by
// itself. Which encoding a file has is for the caller to say; nothing is guessed.
package encoding

import (
	"errors"
	"fmt"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/schema"
)

// ErrEncoding is what every [DecodeError] and [EncodeError] is, for errors.Is.
var ErrEncoding = errors.New("the text does not fit the encoding")

// Encoding is a way of reading bytes as text.
type Encoding struct {
	name   string
	marks  []mark // byte order marks it knows, and what follows them
	codec  codec  // for bytes without a mark
	begins string // the mark that a new file begins with
}

// mark is a byte order mark and the codec for what follows it.
type mark struct {
	bytes string
	codec codec
}

// codec reads and writes characters of one encoding.
type codec interface {
	// next appends the text of the first character of b to dst and returns its
	// length in b. If b does not begin with a character, ok is false, nothing is
	// appended, and n is how many bytes to pass over.
	next(dst, b []byte) (text []byte, n int, ok bool)
	// decode returns the text of b, if all of it is characters.
	decode(b []byte) (text string, ok bool)
	// encode returns the bytes of valid text, or the offset of the first character
	// that has none, and -1 if there is no such.
	encode(text string) (b []byte, bad int)
}

// Lookup returns the encoding of this name: its usual one, those of IANA, the web
// and Python, in any case, with -, _, space or nothing between the parts.
func Lookup(name string) (*Encoding, error) {
	if e, ok := table().byName[plain(name)]; ok {
		return e, nil
	}
	if near := schema.Nearest(name, Names()); near != "" {
		return nil, fmt.Errorf("%w: %q is not a known encoding; did you mean %s?", ErrEncoding, name, near)
	}
	return nil, fmt.Errorf("%w: %q is not a known encoding; utf-8, utf-16, latin-1, windows-1252, shift_jis, gb18030, big5 and euc-kr are some that are", ErrEncoding, name)
}

// Names returns the usual names of all encodings.
func Names() []string { return table().names }

// plain returns a name without what its spellings differ in.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '-' || r == '_' || r == ' ':
			return -1
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		default:
			return r
		}
	}, name)
}

// Name returns the usual name, such as utf-8.
func (e *Encoding) Name() string { return e.name }

// Decode returns the text of b without its byte order mark. The error is a
// *[DecodeError].
func (e *Encoding) Decode(b []byte) (string, error) { return e.View(b).Text() }

// Encode returns the bytes of text as a new file, with a byte order mark where the
// encoding asks for one. The error is an *[EncodeError].
func (e *Encoding) Encode(text string) ([]byte, error) { return e.View(nil).Encode(text) }

// DecodeError says that bytes are not text in an encoding.
type DecodeError struct {
	Encoding string
	Offset   int // of the first such byte, from the start of the file
	Line     int // counted from 1
	Byte     byte
	Hint     string // what the file looks like instead, or ""
}

func (e *DecodeError) Error() string {
	s := fmt.Sprintf("byte 0x%02x at offset %d (line %d) is not text in %s", e.Byte, e.Offset, e.Line, e.Encoding)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Is reports whether target is [ErrEncoding].
func (e *DecodeError) Is(target error) bool { return target == ErrEncoding }

const invalid rune = -1

// EncodeError says that a character cannot be written in an encoding.
type EncodeError struct {
	Encoding string
	Rune     rune // -1 if the text itself is not valid UTF-8
	Offset   int  // in the text, in bytes
	Line     int  // of the text, counted from 1
}

func (e *EncodeError) Error() string {
	if e.Rune == invalid {
		return fmt.Sprintf("the text is not valid at offset %d (line %d)", e.Offset, e.Line)
	}
	return fmt.Sprintf("%q (%U) on line %d cannot be written in %s", e.Rune, e.Rune, e.Line, e.Encoding)
}

// Is reports whether target is [ErrEncoding].
func (e *EncodeError) Is(target error) bool { return target == ErrEncoding }
