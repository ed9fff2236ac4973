package policy

import (
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/shellast"
)

// spec is the part of a program's command line that must be known to tell its
// operands from the values of its options. Lists are separated by spaces; an
// option of one letter stands for itself, a longer one for --name.
type spec struct {
	values string // options that take a value
	final  string // options after whose value everything belongs to what is run
	lead   int    // operands before the first that names a file
	given  string // options that take the place of the lead
	reads  string // options whose value is a file that is read
	writes string // options whose value is a file that is written
	refuse string // options that make it a file operation
	plain  string // options with which operands name no files
	plus   bool   // +N is an option
	first  bool   // options end at the first operand
}

type option struct {
	name  string // without dashes
	value shellast.Word
	has   bool
}

type arguments struct {
	opts     []option
	operands []shellast.Word
}

func has(list, name string) bool {
	for w := range strings.FieldsSeq(list) {
		if w == name {
			return true
		}
	}
	return false
}

// hasLong is has for a long option, which may be shortened.
func hasLong(list, name string) bool {
	for w := range strings.FieldsSeq(list) {
		if w == name || len(w) > 1 && len(name) >= 3 && strings.HasPrefix(w, name) {
			return true
		}
	}
	return false
}

// read takes a command line apart.
func (s *spec) read(args []shellast.Word) arguments {
	var a arguments
	for i := 0; i < len(args); i++ {
		text := args[i].Text
		switch {
		case args[i].Process || text == "-" || !strings.HasPrefix(text, "-") && !(s.plus && plusNumber(text)):
			if s.first {
				a.operands = append(a.operands, args[i:]...)
				return a
			}
			a.operands = append(a.operands, args[i])
		case text == "--":
			a.operands = append(a.operands, args[i+1:]...)
			return a
		case strings.HasPrefix(text, "--"):
			name, value, ok := strings.Cut(text[2:], "=")
			o := option{name: name, has: ok, value: shellast.Word{Text: value, Span: args[i].Span, From: args[i].From}}
			if !ok && hasLong(s.values, name) && i+1 < len(args) {
				i++
				o.value, o.has = args[i], true
			}
			a.opts = append(a.opts, o)
			if o.has && has(s.final, name) {
				a.operands = append(a.operands, args[i+1:]...)
				return a
			}
		default:
			i = s.cluster(args, i, &a)
			if last := a.opts[len(a.opts)-1]; last.has && has(s.final, last.name) {
				a.operands = append(a.operands, args[i+1:]...)
				return a
			}
		}
	}
	return a
}

func plusNumber(s string) bool {
	return len(s) > 1 && s[0] == '+' && s[1] >= '0' && s[1] <= '9'
}

// cluster reads -abc at i and returns the last place it used.
func (s *spec) cluster(args []shellast.Word, i int, a *arguments) int {
	text := args[i].Text[1:]
	for k, r := range text {
		o := option{name: string(r)}
		if !has(s.values, o.name) {
			a.opts = append(a.opts, o)
			continue
		}
		o.has = true
		if rest := text[k+len(o.name):]; rest != "" {
			o.value = shellast.Word{Text: rest, Span: args[i].Span}
		} else if i+1 < len(args) {
			i++
			o.value = args[i]
		} else {
			o.has = false
		}
		a.opts = append(a.opts, o)
		return i
	}
	return i
}

// find returns the first option of the list.
func (a arguments) find(list string) (option, bool) {
	for _, o := range a.opts {
		if len(o.name) == 1 && has(list, o.name) || len(o.name) > 1 && hasLong(list, o.name) {
			return o, true
		}
	}
	return option{}, false
}

// all returns the values of the options of the list.
func (a arguments) all(list string) []shellast.Word {
	var out []shellast.Word
	for _, o := range a.opts {
		if o.has && (len(o.name) == 1 && has(list, o.name) || len(o.name) > 1 && hasLong(list, o.name)) {
			out = append(out, o.value)
		}
	}
	return out
}

// stream reports whether a word names no file of a project: standard streams,
// devices that make or swallow bytes, process substitutions.
func stream(w shellast.Word) bool {
	if w.Process || w.Text == "-" {
		return true
	}
	rest, ok := strings.CutPrefix(w.Text, "/dev/")
	if !ok {
		rest, ok = strings.CutPrefix(w.Text, "/proc/self/")
		if !ok || !strings.HasPrefix(rest, "fd/") {
			return false
		}
	}
	switch rest {
	case "null", "stdin", "stdout", "stderr", "tty", "zero", "full", "random", "urandom":
		return true
	}
	for _, dir := range []string{"fd/", "pts/"} {
		if n, ok := strings.CutPrefix(rest, dir); ok {
			return n != "" && strings.Trim(n, "0123456789") == ""
		}
	}
	return false
}
