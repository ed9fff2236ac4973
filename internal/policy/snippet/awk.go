package snippet

import (
	"strings"
)

// Effects are what a program of awk or sed does beside filtering its input.
type Effects struct {
	Files    []string // files it reads or writes, as written
	Commands []string // shell commands it runs
	Computed string   // a file or command that is not a literal: the construct
}

// Awk returns the effects of an awk program.
func Awk(code string) Effects {
	s := awkScan{toks: awkTokens(code)}
	s.run()
	return s.Effects
}

type awkToken struct {
	kind byte // w word, s string, r regex, p punctuation, n end of statement
	text string
}

// awkTokens cuts a program into tokens. A slash starts a regex where a value
// cannot be divided.
func awkTokens(code string) []awkToken {
	var toks []awkToken
	value := false // the last token can be divided
	for i := 0; i < len(code); {
		c := code[i]
		switch {
		case c == '#':
			if end := strings.IndexByte(code[i:], '\n'); end >= 0 {
				i += end
			} else {
				i = len(code)
			}
		case c == '"' || c == '/' && !value:
			end := closing(code, i+1, string(c))
			if end < 0 {
				end = len(code)
			}
			kind := byte('s')
			if c == '/' {
				kind = 'r'
			}
			toks = append(toks, awkToken{kind, code[i+1 : end]})
			i, value = min(end+1, len(code)), true
		case c == '\n' || c == ';' || c == '}' || c == '{':
			toks = append(toks, awkToken{'n', string(c)})
			i, value = i+1, false
		case c == ' ' || c == '\t' || c == '\r' || c == '\\':
			i++
		case wordByte(c):
			end := i
			for end < len(code) && (wordByte(code[end]) || code[end] == '.') {
				end++
			}
			toks = append(toks, awkToken{'w', code[i:end]})
			i, value = end, true
			switch toks[len(toks)-1].text {
			case "print", "printf", "return", "in", "else", "do", "getline":
				value = false
			}
		default:
			n := 1
			for _, op := range []string{">>", "|&", "||", ">=", "<=", "==", "!=", "&&"} {
				if strings.HasPrefix(code[i:], op) {
					n = 2
					break
				}
			}
			toks = append(toks, awkToken{'p', code[i : i+n]})
			value = c == ')' || c == ']'
			i += n
		}
	}
	return toks
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

type awkScan struct {
	Effects
	toks []awkToken
}

func (s *awkScan) at(i int) awkToken {
	if i < 0 || i >= len(s.toks) {
		return awkToken{'n', ""}
	}
	return s.toks[i]
}

func (s *awkScan) run() {
	printing, depth, start := false, 0, 0 // in the statement at hand
	for i, t := range s.toks {
		switch {
		case t.kind == 'n':
			printing, depth, start = false, 0, i+1
		case t.kind == 'w' && (t.text == "print" || t.text == "printf"):
			printing, depth = true, 0
		case t.kind == 'w' && t.text == "getline":
			// getline < file, and getline var < file
			for k := i + 1; k <= i+4 && s.at(k).kind != 'n'; k++ {
				if s.at(k).text == "<" && s.at(k).kind == 'p' {
					s.target(k+1, "getline <", false)
					break
				}
			}
		case t.kind == 'w' && t.text == "system" && s.at(i+1).text == "(":
			if s.at(i+2).kind == 's' && s.at(i+3).text == ")" {
				s.Commands = append(s.Commands, unquoteAwk(s.at(i+2).text))
			} else {
				s.Computed = "system("
			}
		case t.kind == 'w' && (t.text == "ARGV" || t.text == "ARGC") && assigns(s.toks[i+1:]):
			s.Computed = t.text
		case t.kind == 'p' && t.text == "@" && (s.at(i+1).text == "load" || s.at(i+1).text == "include"):
			s.Computed = "@" + s.at(i+1).text
		case t.kind == 'p' && (t.text == "(" || t.text == "["):
			depth++
		case t.kind == 'p' && (t.text == ")" || t.text == "]"):
			depth--
		case t.kind == 'p' && (t.text == "|" || t.text == "|&"):
			if s.at(i+1).text == "getline" {
				if s.at(i-1).kind == 's' && (i-1 == start || s.at(i-2).text == "(") {
					s.Commands = append(s.Commands, unquoteAwk(s.at(i-1).text))
				} else {
					s.Computed = "| getline"
				}
			} else if printing {
				s.target(i+1, "print |", true)
			}
		case t.kind == 'p' && (t.text == ">" || t.text == ">>") && printing && depth <= 0:
			s.target(i+1, "print >", false)
		}
	}
}

// assigns reports whether toks begin with an optional index and an assignment.
func assigns(toks []awkToken) bool {
	depth := 0
	for _, t := range toks {
		switch {
		case t.text == "[":
			depth++
		case t.text == "]":
			depth--
		case depth == 0:
			return t.kind == 'p' && (t.text == "=" || t.text == "+" || t.text == "-")
		}
	}
	return false
}

// target notes the file or command that the expression at i names.
func (s *awkScan) target(i int, what string, command bool) {
	t, next := s.at(i), s.at(i+1)
	literal := t.kind == 's' && (next.kind == 'n' || next.text == ")" || next.text == "," || next.text == "&&" || next.text == "||" || next.text == ">")
	switch {
	case !literal:
		s.Computed = what
	case command:
		s.Commands = append(s.Commands, unquoteAwk(t.text))
	default:
		s.Files = append(s.Files, unquoteAwk(t.text))
	}
}

func unquoteAwk(s string) string {
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n", `\t`, "\t", `\/`, "/").Replace(s)
}

// Sed returns the effects of a sed script.
func Sed(script string) Effects {
	s := sedScan{text: script}
	for s.i < len(s.text) && s.command() {
	}
	return s.Effects
}

type sedScan struct {
	Effects
	text string
	i    int
}

func (s *sedScan) skip(set string) {
	for s.i < len(s.text) && strings.IndexByte(set, s.text[s.i]) >= 0 {
		s.i++
	}
}

// until moves past the next byte of set, or to the end, and returns what was
// passed.
func (s *sedScan) until(set string) string {
	start := s.i
	for s.i < len(s.text) && strings.IndexByte(set, s.text[s.i]) < 0 {
		s.i++
	}
	return s.text[start:s.i]
}

// delimited moves past the next d that is not escaped or in brackets.
func (s *sedScan) delimited(d byte, class bool) bool {
	in := false
	for ; s.i < len(s.text); s.i++ {
		switch c := s.text[s.i]; {
		case c == '\\':
			s.i++
		case class && !in && c == '[':
			in = true
			if strings.HasPrefix(s.text[s.i+1:], "^") {
				s.i++
			}
			if strings.HasPrefix(s.text[s.i+1:], "]") {
				s.i++
			}
		case in && c == ']':
			in = false
		case !in && c == d:
			s.i++
			return true
		}
	}
	return false
}

func (s *sedScan) address() {
	for {
		s.skip(" \t0123456789$+~,")
		if s.i >= len(s.text) {
			return
		}
		switch c := s.text[s.i]; {
		case c == '/':
			s.i++
			s.delimited('/', true)
		case c == '\\' && s.i+1 < len(s.text):
			s.i += 2
			s.delimited(s.text[s.i-1], true)
		default:
			s.skip(" \t!")
			return
		}
		s.skip("IM")
	}
}

// command reads one command and reports whether the script can go on.
func (s *sedScan) command() bool {
	s.skip(" \t\n;}")
	s.address()
	s.skip(" \t{;\n")
	if s.i >= len(s.text) {
		return false
	}
	c := s.text[s.i]
	s.i++
	switch c {
	case 's', 'y':
		if s.i >= len(s.text) {
			return false
		}
		d := s.text[s.i]
		s.i++
		if !s.delimited(d, c == 's') || !s.delimited(d, false) {
			return false
		}
		if c == 's' {
			s.flags()
		}
	case 'a', 'i', 'c':
		for {
			line := s.until("\n")
			if !strings.HasSuffix(line, `\`) || s.i >= len(s.text) {
				break
			}
			s.i++
		}
	case 'r', 'R', 'w', 'W':
		s.skip(" \t")
		s.Files = append(s.Files, strings.TrimSpace(s.until("\n")))
	case 'e':
		s.skip(" \t")
		if cmd := strings.TrimSpace(s.until("\n")); cmd != "" {
			s.Commands = append(s.Commands, cmd)
		} else {
			s.Computed = "e"
		}
	case 'b', 't', 'T', ':':
		s.until("\n;}")
	case '#':
		s.until("\n")
	default:
		s.skip(" \t0123456789")
	}
	return true
}

// flags reads what follows s///.
func (s *sedScan) flags() {
	for s.i < len(s.text) {
		c := s.text[s.i]
		switch {
		case strings.IndexByte("gpiImM0123456789", c) >= 0:
			s.i++
		case c == 'e':
			s.i++
			s.Computed = "s///e"
		case c == 'w':
			s.i++
			s.skip(" \t")
			s.Files = append(s.Files, strings.TrimSpace(s.until("\n")))
		default:
			return
		}
	}
}
