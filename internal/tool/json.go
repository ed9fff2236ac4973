package tool

import (
	"encoding/json"
	"math/bits"
	"unicode/utf8"
)

// Appender is implemented by results that may be large, to write themselves: the
// same as their fields and tags say, in a fraction of the time.
type Appender interface {
	// AppendJSON appends the result to b, as one JSON object.
	AppendJSON(b []byte) []byte
	// JSONSize is about how many bytes that are.
	JSONSize() int
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string without escaping what JSON does not
// ask for. Bytes that are no text become replacement characters.
func AppendString[T ~string | ~[]byte](b []byte, s T) []byte {
	if !validText(s) {
		quoted, _ := json.Marshal(string(s)) // a string always has an encoding
		return append(b, quoted...)
	}
	b = append(b, '"')
	for {
		n := plain(s)
		b = append(b, s[:n]...)
		if n == len(s) {
			return append(b, '"')
		}
		switch c := s[n]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		s = s[n+1:]
	}
}

func validText[T ~string | ~[]byte](s T) bool {
	switch s := any(s).(type) {
	case string:
		return utf8.ValidString(s)
	case []byte:
		return utf8.Valid(s)
	default:
		return utf8.ValidString(string(s.(T)))
	}
}

// plain is how many bytes at the beginning of s stand for themselves in a JSON
// string. It looks at eight of them at once.
func plain[T ~string | ~[]byte](s T) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		quote, slash := w^ones*'"', w^ones*'\\'
		// The lowest byte whose top bit is set here is below a space, a quote or a
		// backslash; those above it may be set by its borrow.
		found := ((w-ones*' ')&^w | (quote-ones)&^quote | (slash-ones)&^slash) & tops
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			break
		}
	}
	return i
}
