package shellast

import (
	"strings"
)

// ParseNu reads Nushell: pipelines, blocks, subexpressions, strings and its
// redirections. Commands keep the ^ that calls a program by name.
func ParseNu(text string) (*Script, error) {
	return readForeign(text, nuGrammar)
}

// ParsePowerShell reads PowerShell: pipelines, script blocks, subexpressions,
// strings and redirections. Commands keep the & and . that call what an
// expression names, as a word of their own.
func ParsePowerShell(text string) (*Script, error) {
	return readForeign(text, psGrammar)
}

// grammar is what the reader must know to find commands in a language.
type grammar struct {
	escape  byte   // escapes the next byte outside of single quotes
	doubled bool   // a quote is escaped by doubling it
	raw     string // quotes whose inside is literal
	inner   string // what opens code inside a double-quoted string
	joins   string // operators between commands, beside | ; and line ends, separated by spaces
	redirs  func(word string) (op string, ok bool)
	starts  string // words after which another command begins
	comment string // block comment opens with this, and closes with it reversed
}

var nuGrammar = &grammar{
	escape: '\\', raw: "'`", inner: "(", starts: "= else do try return",
	redirs: func(w string) (string, bool) {
		op := strings.TrimLeft(w, "outer+")
		if op == w || op != ">" && op != ">>" {
			return "", false
		}
		return op, true
	},
}

var psGrammar = &grammar{
	escape: '`', doubled: true, raw: "'", inner: "$(", joins: "&& ||", starts: "= += else do try finally return", comment: "<#",
	redirs: func(w string) (string, bool) {
		op := strings.TrimLeft(w, "123456*")
		if op != ">" && op != ">>" {
			return "", false
		}
		return op, true
	},
}

type foreign struct {
	*grammar
	text  string
	out   *Script
	depth int
	err   error
}

func readForeign(text string, g *grammar) (*Script, error) {
	if len(text) > MaxText {
		return nil, &LimitError{"it is too long"}
	}
	if nested(text) > MaxNesting {
		return nil, &LimitError{"it is nested too deep"}
	}
	r := &foreign{grammar: g, text: text, out: &Script{}}
	if end := r.block(0, 0); r.err == nil && end < len(text) {
		r.fail("nothing is open here", end)
	}
	if r.err != nil {
		return nil, r.err
	}
	return r.out, nil
}

func (r *foreign) fail(what string, at int) {
	if r.err == nil {
		before := r.text[:min(at, len(r.text))]
		r.err = &SyntaxError{what, at, 1 + strings.Count(before, "\n"), at - strings.LastIndexByte(before, '\n')}
	}
}

// block reads commands from i up to the bracket close, or to the end of the text,
// and returns where it stopped.
func (r *foreign) block(i int, close byte) int {
	var words []Word
	var redirs []Redir
	start, piped := i, false
	end := func(next bool, at int) {
		if len(words)+len(redirs) > 0 {
			stdin := &Input{}
			if piped {
				stdin.Kind = Pipe
			}
			if len(r.out.Calls) >= MaxCalls {
				r.err = &LimitError{"it has too many commands"}
			}
			r.out.Calls = append(r.out.Calls, &Call{Words: words, Redirs: redirs, Stdin: stdin, Span: Span{start, at}})
		}
		words, redirs, piped = nil, nil, next
	}
	var pending *Redir
	for i < len(r.text) && r.err == nil {
		c := r.text[i]
		rest := r.text[i:]
		switch {
		case c == close && close != 0:
			end(false, i)
			return i
		case c == ')' || c == '}':
			end(false, i)
			return i
		case r.comment != "" && strings.HasPrefix(rest, r.comment):
			stop := strings.Index(rest, "#>")
			if stop < 0 {
				r.fail("the comment is not closed", i)
				return i
			}
			i += stop + 2
		case c == '#':
			for i < len(r.text) && r.text[i] != '\n' {
				i++
			}
		case c == '\n' || c == ';':
			end(false, i)
			i++
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case c == '|' && !strings.HasPrefix(rest, "||"):
			end(true, i)
			i++
		default:
			if len(words)+len(redirs) == 0 {
				start = i
			}
			from := i
			var word Word
			word, i = r.word(i)
			word.Span = Span{from, i}
			text := word.Text
			switch op, redirects := r.redirs(text); {
			case has(r.joins, r.text[from:i]):
				end(false, from)
			case pending != nil:
				pending.Target, pending.Span.End = word, i
				redirs = append(redirs, *pending)
				pending = nil
			case redirects && r.text[from:i] == text:
				pending = &Redir{Op: op, Span: Span{from, i}}
			case has(r.starts, text) && r.text[from:i] == text:
				end(false, from)
			default:
				words = append(words, word)
			}
		}
	}
	end(false, i)
	if close != 0 {
		r.fail("a bracket is not closed", i)
	}
	return i
}

func has(list, word string) bool {
	for w := range strings.FieldsSeq(list) {
		if w == word {
			return true
		}
	}
	return false
}

// word reads one word, and the commands inside it.
func (r *foreign) word(i int) (Word, int) {
	var b strings.Builder
	computed := false
	for i < len(r.text) && r.err == nil {
		c := r.text[i]
		switch {
		case strings.IndexByte(" \t\r\n;|)}", c) >= 0 && !strings.HasPrefix(r.text[i:], "||"), c == ',' && b.Len() > 0 && r.doubled:
			return Word{Text: b.String()}, i
		case strings.IndexByte(r.raw, c) >= 0:
			i = r.literal(i, &b)
		case c == '"':
			i = r.double(i, &b)
		case c == '(' || c == '{':
			if !computed {
				b.WriteRune(Hole)
				computed = true
			}
			i = r.inside(i)
		case c == '[':
			i = r.list(i, &b)
		case c == r.escape && i+1 < len(r.text):
			b.WriteByte(r.text[i+1])
			i += 2
		case c == '$':
			// $"…" interpolates; $name is not known
			i++
			if i < len(r.text) && (r.text[i] == '"' || r.text[i] == '\'') {
				b.WriteRune(Hole)
				i = r.double(i, &b)
				continue
			}
			from := i
			for i < len(r.text) && (wordByte(r.text[i]) || r.text[i] == ':') {
				i++
			}
			if strings.EqualFold(r.text[from:i], "null") {
				b.WriteString("$null") // not a file
			} else {
				b.WriteRune(Hole)
			}
		case c == '@' && i+1 < len(r.text) && strings.IndexByte("'\"", r.text[i+1]) >= 0:
			quote := r.text[i+1]
			stop := strings.Index(r.text[i+2:], "\n"+string(quote)+"@")
			if stop < 0 {
				r.fail("the here-string is not closed", i)
				return Word{}, len(r.text)
			}
			b.WriteString(strings.TrimPrefix(r.text[i+2:i+2+stop], "\n"))
			i += 2 + stop + 3
		case strings.HasPrefix(r.text[i:], "||") || strings.HasPrefix(r.text[i:], "&&"):
			if b.Len() > 0 {
				return Word{Text: b.String()}, i
			}
			b.WriteString(r.text[i : i+2])
			return Word{Text: b.String()}, i + 2
		case c == ',':
			i++
		default:
			b.WriteByte(c)
			i++
			if r.doubled && b.Len() == 1 && c == '&' {
				return Word{Text: "&"}, i
			}
			if r.doubled && c == '>' && (i >= len(r.text) || r.text[i] != '>') && strings.Trim(b.String(), "123456*>") == "" && !strings.HasPrefix(r.text[i:], "&") {
				return Word{Text: b.String()}, i
			}
		}
	}
	return Word{Text: b.String()}, i
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

func (r *foreign) literal(i int, b *strings.Builder) int {
	quote := r.text[i]
	for i++; i < len(r.text); i++ {
		if r.text[i] == quote {
			if r.doubled && i+1 < len(r.text) && r.text[i+1] == quote {
				i++
			} else {
				return i + 1
			}
		}
		b.WriteByte(r.text[i])
	}
	r.fail("the quote is not closed", i)
	return i
}

// double reads a string in which something may be computed.
func (r *foreign) double(i int, b *strings.Builder) int {
	quote := r.text[i]
	plain := i == 0 || r.text[i-1] != '$' // in Nu only $"…" computes
	for i++; i < len(r.text) && r.err == nil; {
		rest := r.text[i:]
		switch {
		case rest[0] == quote:
			if r.doubled && strings.HasPrefix(rest[1:], string(quote)) {
				b.WriteByte(quote)
				i += 2
				continue
			}
			return i + 1
		case rest[0] == r.escape && len(rest) > 1 && quote == '"':
			if r.escape == '\\' {
				b.WriteString(ansi(rest[:2]))
			} else {
				b.WriteByte(rest[1])
			}
			i += 2
		case strings.HasPrefix(rest, r.inner) && (r.doubled || !plain):
			b.WriteRune(Hole)
			i = r.inside(i + len(r.inner) - 1)
		case r.doubled && rest[0] == '$' && len(rest) > 1 && wordByte(rest[1]):
			b.WriteRune(Hole)
			for i++; i < len(r.text) && wordByte(r.text[i]); i++ {
			}
		default:
			b.WriteByte(rest[0])
			i++
		}
	}
	r.fail("the quote is not closed", i)
	return i
}

// inside reads the commands in brackets that open at i.
func (r *foreign) inside(i int) int {
	closing := byte(')')
	if r.text[i] == '{' {
		closing = '}'
	}
	if r.depth++; r.depth > MaxNesting {
		r.err = &LimitError{"it is nested too deep"}
		return len(r.text)
	}
	end := r.block(i+1, closing)
	r.depth--
	if r.err != nil || end >= len(r.text) || r.text[end] != closing {
		r.fail("a bracket is not closed", end)
		return len(r.text)
	}
	return end + 1
}

// list reads [ … ]: values, in which only brackets hold commands.
func (r *foreign) list(i int, b *strings.Builder) int {
	start := i
	for i++; i < len(r.text) && r.err == nil; {
		switch c := r.text[i]; {
		case c == ']':
			b.WriteString(r.text[start : i+1])
			return i + 1
		case c == '[':
			i = r.list(i, &strings.Builder{})
		case c == '(' || c == '{':
			i = r.inside(i)
		case c == '"':
			i = r.double(i, &strings.Builder{})
		case strings.IndexByte(r.raw, c) >= 0:
			i = r.literal(i, &strings.Builder{})
		default:
			i++
		}
	}
	r.fail("a [ is not closed", start)
	return i
}
