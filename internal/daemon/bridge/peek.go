package bridge

import (
	"bytes"
	"strconv"
)

// message is what a reconnect needs to know of a JSON-RPC message.
type message struct {
	id     string // raw JSON, or "" without one
	method string // "" for a response
	params []byte // raw JSON
	failed bool   // a response with an error
}

// peek reads the top of one message and skips everything else. Of a line that is
// no JSON object it knows nothing; whether it is right is for the daemon to say.
func peek(line []byte) (m message) {
	eachMember(line, func(key, value []byte) bool {
		switch string(key) {
		case "id":
			m.id = string(value)
		case "method":
			m.method = text(value)
		case "params":
			m.params = value
		case "error":
			m.failed = true
		}
		return true
	})
	if m.id == "null" {
		m.id = ""
	}
	return m
}

// member returns a text in an object, or "".
func member(object []byte, name string) (found string) {
	eachMember(object, func(key, value []byte) bool {
		if string(key) == name {
			found = text(value)
		}
		return found == ""
	})
	return found
}

// text returns what a JSON string says, or "" when it is none.
func text(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	s, err := strconv.Unquote(string(raw)) // good enough for names; what it cannot read is none of ours
	if err != nil {
		return ""
	}
	return s
}

// eachMember calls visit with every member of a JSON object, keys without their
// quotes, until it returns false or the text makes no sense.
func eachMember(object []byte, visit func(key, value []byte) bool) {
	i := space(object, 0)
	if i >= len(object) || object[i] != '{' {
		return
	}
	for i++; ; i++ {
		i = space(object, i)
		end := skip(object, i)
		if end < 0 || object[i] != '"' {
			return
		}
		key := object[i+1 : end-1]
		if i = space(object, end); i >= len(object) || object[i] != ':' {
			return
		}
		i = space(object, i+1)
		if end = skip(object, i); end < 0 {
			return
		}
		if !visit(key, object[i:end]) {
			return
		}
		if i = space(object, end); i >= len(object) || object[i] != ',' {
			return
		}
	}
}

// elements returns the values of a JSON array; nil for anything else.
func elements(array []byte) (all [][]byte) {
	i := space(array, 0)
	if i >= len(array) || array[i] != '[' {
		return nil
	}
	for i++; ; i++ {
		i = space(array, i)
		end := skip(array, i)
		if end < 0 {
			return all
		}
		all = append(all, array[i:end])
		if i = space(array, end); i >= len(array) || array[i] != ',' {
			return all
		}
	}
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skip returns where the value that begins at i ends, or -1.
func skip(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		depth := 0
		for i < len(b) {
			switch b[i] {
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			case '"':
				if i = skipString(b, i); i < 0 {
					return -1
				}
				continue
			}
			i++
		}
		return -1
	case ',', ':', '}', ']':
		return -1
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] != ' ' && b[i] != '\n' && b[i] != '\r' && b[i] != '\t' {
		i++
	}
	return i
}

// skipString returns where the string that begins at i ends, or -1.
func skipString(b []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		slashes := 0
		for b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

// The beginning of every answer as the daemon writes it.
var (
	answerHead = []byte(`{"jsonrpc":"2.0","id":`)
	resultHead = []byte(`,"result":`)
)

// peekAnswer is peek for what the daemon sends. The result of an answer may be
// long and is not looked at.
func peekAnswer(line []byte) message {
	if rest, ok := bytes.CutPrefix(line, answerHead); ok {
		if end := skip(rest, 0); end > 0 && bytes.HasPrefix(rest[end:], resultHead) {
			return message{id: string(rest[:end])}
		}
	}
	return peek(line)
}
