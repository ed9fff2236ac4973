package ignore

import (
	"slices"
	"strings"
)

// glob is a pattern from its first special character on. It is run as a set of
// places in it, byte by byte, so that no pattern takes more time than its length
// times that of the text.
type glob []step

// step is one thing that a pattern asks of the text.
type step struct {
	kind stepKind
	char byte
	set  *set
}

type stepKind uint8

const (
	literal stepKind = iota // this byte
	oneOf                   // a byte of the set
	run                     // any bytes but slashes
	deepRun                 // any bytes
	maybe                   // the next step, or the one behind it
	dirs                    // any bytes, the last one a slash
)

// parseGlob reads a pattern. As a path, a slash is met by a slash alone, and **
// between slashes by any directories or none. With fold the text it will be held
// against is in lower case. It fails for what no name can meet.
func parseGlob(text string, path, fold bool) (g glob, ok bool) {
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case '?':
			all := set{}.not()
			g = append(g, step{kind: oneOf, set: all.in(path)})
			i++
		case '[':
			chars, length := parseSet(text[i:], fold)
			if length == 0 {
				return nil, false
			}
			g = append(g, step{kind: oneOf, set: chars.in(path)})
			i += length
		case '*':
			end := i
			for end < len(text) && text[end] == '*' {
				end++
			}
			if kind := stars(text, i, end, path); kind == dirs {
				g = append(g, step{kind: maybe}, step{kind: dirs})
				i = end + 1
			} else {
				g = append(g, step{kind: kind})
				i = end
			}
		case '\\':
			if i++; i == len(text) {
				return nil, false
			}
			c = text[i]
			fallthrough
		default:
			if fold {
				c = lowerByte(c)
			}
			g = append(g, step{kind: literal, char: c})
			i++
		}
	}
	return g, true
}

// stars says what the asterisks from i up to end mean. Those of dirs have the
// slash behind them.
func stars(text string, i, end int, path bool) stepKind {
	rest := text[end:]
	switch {
	case !path:
		return deepRun
	case end-i < 2 || i > 0 && text[i-1] != '/':
		return run
	case rest == "" || strings.HasPrefix(rest, `\/`):
		return deepRun
	case rest[0] == '/':
		return dirs
	default:
		return run
	}
}

func (s *step) meets(c byte) bool {
	switch s.kind {
	case literal:
		return s.char == c
	case oneOf:
		return s.set.has(c)
	case run:
		return c != '/'
	default:
		return true
	}
}

// match reports whether the whole text meets the pattern.
func (g glob) match(text string) bool {
	if len(g) > 0 && (g[0].kind == run || g[0].kind == deepRun) && g.plainFrom(1) {
		return g.endsIn(text) // the common shape
	}
	now, next := make(places, 0, 16), make(places, 0, 16)
	now = g.enter(now, 0)
	for i := 0; i < len(text) && len(now) > 0; i++ {
		next = next[:0]
		for _, p := range now {
			switch {
			case p == len(g) || !g[p].meets(text[i]):
			case g[p].kind == run || g[p].kind == deepRun:
				next = g.enter(next, p)
			case g[p].kind == dirs:
				next = g.enter(next, p)
				if text[i] == '/' {
					next = g.enter(next, p+1)
				}
			default:
				next = g.enter(next, p+1)
			}
		}
		now, next = next, now
	}
	return slices.Contains(now, len(g))
}

// places are places in a pattern, each once, with all that is reached from them
// without a byte.
type places []int

func (g glob) enter(s places, p int) places {
	if slices.Contains(s, p) {
		return s
	}
	if p < len(g) && g[p].kind == maybe {
		return g.enter(g.enter(s, p+1), p+2)
	}
	s = append(s, p)
	if p < len(g) && (g[p].kind == run || g[p].kind == deepRun) {
		return g.enter(s, p+1)
	}
	return s
}

func (g glob) plainFrom(i int) bool {
	for ; i < len(g); i++ {
		if g[i].kind != literal {
			return false
		}
	}
	return true
}

// endsIn is match for a star with plain text behind it.
func (g glob) endsIn(text string) bool {
	at := len(text) - (len(g) - 1)
	if at < 0 {
		return false
	}
	for i := range text[at:] {
		if g[1+i].char != text[at+i] {
			return false
		}
	}
	return g[0].kind == deepRun || strings.IndexByte(text[:at], '/') < 0
}

// set is a set of bytes.
type set [4]uint64

func (s *set) has(c byte) bool { return s[c/64]&(1<<(c%64)) != 0 }
func (s *set) add(c byte)      { s[c/64] |= 1 << (c % 64) }

func (s set) not() *set { return &set{^s[0], ^s[1], ^s[2], ^s[3]} }

// in takes the slash out of a set in a path.
func (s *set) in(path bool) *set {
	if path {
		s['/'/64] &^= 1 << ('/' % 64)
	}
	return s
}

// parseSet reads the set at the beginning of text and returns how long it is; 0
// if it is none, and nothing can meet it.
func parseSet(text string, fold bool) (*set, int) {
	i := 1
	negated := i < len(text) && (text[i] == '!' || text[i] == '^')
	if negated {
		i++
	}
	s := new(set)
	before := byte(0) // what a range can begin with
	for first := true; ; first = false {
		switch {
		case i >= len(text):
			return nil, 0
		case text[i] == ']' && !first:
			if negated {
				s = s.not()
			}
			return s, i + 1
		case text[i] == '-' && before != 0 && i+1 < len(text) && text[i+1] != ']':
			if i++; text[i] == '\\' {
				if i++; i == len(text) {
					return nil, 0
				}
			}
			s.addRange(before, text[i], fold)
			before = 0
		case strings.HasPrefix(text[i:], "[:"):
			end := strings.IndexByte(text[i+2:], ']')
			if end < 0 {
				return nil, 0
			}
			name, closed := strings.CutSuffix(text[i+2:i+2+end], ":")
			if !closed {
				s.add('[')
				before = '['
				break
			}
			if !s.addClass(name, fold) {
				return nil, 0
			}
			i += 2 + end
			before = 0
		case text[i] == '\\':
			if i++; i == len(text) {
				return nil, 0
			}
			fallthrough
		default:
			s.add(text[i])
			before = text[i]
		}
		i++
	}
}

func (s *set) addRange(from, to byte, fold bool) {
	for c := int(from); c <= int(to); c++ {
		s.add(byte(c))
		if fold {
			s.add(lowerByte(byte(c)))
		}
	}
}

// addClass adds a class of characters by its name, if there is one.
func (s *set) addClass(name string, fold bool) bool {
	class := classes[name]
	if class == nil {
		return false
	}
	for c := range 128 {
		if c := byte(c); class(c) {
			s.add(c)
			if fold && name == "upper" {
				s.add(lowerByte(c))
			}
		}
	}
	return true
}

var classes = map[string]func(c byte) bool{
	"alnum":  func(c byte) bool { return isLetter(c) || isDigit(c) },
	"alpha":  isLetter,
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < ' ' || c == 127 },
	"digit":  isDigit,
	"graph":  isGraph,
	"lower":  func(c byte) bool { return 'a' <= c && c <= 'z' },
	"print":  func(c byte) bool { return c == ' ' || isGraph(c) },
	"punct":  func(c byte) bool { return isGraph(c) && !isLetter(c) && !isDigit(c) },
	"space":  func(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' },
	"upper":  func(c byte) bool { return 'A' <= c && c <= 'Z' },
	"xdigit": func(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' },
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isGraph(c byte) bool  { return ' ' < c && c < 127 }
