// Package shellast turns shell text into the simple commands it contains: their
// words after unquoting, what is computed when the text runs, redirections,
// assignments, and where each command gets its standard input.
//
// [Parse] reads bash and POSIX sh, [ParseNu] and [ParsePowerShell] the parts of
// those languages that decide which commands run. It follows what can be known
// without running anything: variables and arrays that are assigned literally,
// functions with their arguments, brace expansion, eval and trap of literal text.
// What cannot be known is a [Hole] in a word. A command whose words have several
// possible readings is reported once for each.
//
// Everything is bounded: see the limits below. Functions are pure and safe for
// concurrent use. What a command means, and so what wrappers such as env or xargs
// run, is left to policy. This package is the only door to the shell parser.
package shellast

import (
	"fmt"
	"slices"
	"strings"
)

// Hole stands in a word's text for a part that is not known before running.
const Hole = '\uFFFC'

const hole = string(Hole)

// Limits on what a text may ask for. Beyond a limit Parse answers a [LimitError],
// or holds the value for unknown where that is enough.
const (
	MaxCalls   = 500      // simple commands of one text
	MaxNesting = 100      // brackets within brackets
	MaxText    = 64 << 10 // bytes parsed, with what eval and trap parse again

	maxBraces   = 64      // words out of one word
	maxWords    = 2000    // words out of one command
	maxValue    = 4 << 10 // bytes of a variable
	maxValues   = 16      // values of a variable
	maxReadings = 16      // readings of one command
	maxInlined  = 20      // functions within functions
	maxParsed   = 5       // eval within eval
)

// Script is what a text contains.
type Script struct {
	Calls []*Call // in the order of the text
}

// Call is one simple command, or the redirections of a compound one.
type Call struct {
	Words    []Word // the command and its arguments; none for assignments and redirections alone
	Assigns  []Assign
	Redirs   []Redir
	Stdin    *Input
	Compound string  // while, for, if, {, ( and so on: Redirs are those of that compound command
	Function bool    // the command is a function of this text, whose body is reported too
	Context  Context // what it stands in
	Span     Span
}

// Word is one argument after expansion.
type Word struct {
	Text    string // unquoted; a Hole where it is computed
	Glob    bool   // the shell may replace it by file names
	Process bool   // a process substitution
	Vanish  bool   // an unquoted substitution: without output there is no such word
	From    *Call  // the one simple command whose output the whole word is, if so
	Span    Span
}

// Computed reports whether a part of the word is not known before running.
func (w Word) Computed() bool { return strings.ContainsRune(w.Text, Hole) }

// Assign is NAME=value, before a command, alone, or as an argument of export and
// its like.
type Assign struct {
	Name  string
	Value string // with a Hole where it is computed
	Span  Span
}

// Redir is one redirection.
type Redir struct {
	Fd     string // as written: digits, {name}, or nothing
	Op     string // > >> >| < <> >& <& &> &>> << <<- <<<
	Target Word   // file, descriptor, or here-string
	Text   string // of a here-document or here-string
	Span   Span
}

// Reads reports whether the redirection opens a file for reading.
func (r Redir) Reads() bool { return r.Op == "<" || r.Op == "<>" }

// Writes reports whether it opens a file for writing. >&word does, unless word is
// a descriptor.
func (r Redir) Writes() bool {
	switch r.Op {
	case ">", ">>", ">|", "&>", "&>>", "<>":
		return true
	case ">&":
		return !descriptor(r.Target.Text)
	}
	return false
}

func descriptor(s string) bool {
	s = strings.TrimSuffix(s, "-")
	return strings.Trim(s, "0123456789") == ""
}

// InputKind says where standard input comes from.
type InputKind uint8

// The sources of standard input.
const (
	Inherited InputKind = iota // from whoever runs the text
	Pipe                       // from the command before it
	File                       // from a file
	Text                       // from a here-document or here-string
	Process                    // from a process substitution
)

// Input is the standard input of a command.
type Input struct {
	Kind InputKind
	From *Call  // Pipe: the one simple command that writes to it, if it is one
	Text string // Text
	File Word   // File
}

// Context says what a command stands in.
type Context uint8

// The contexts, which may be combined.
const (
	InSubstitution Context = 1 << iota // $( ), backquotes
	InProcess                          // <( ) and >( )
	InFunction                         // body of a function
	InEval                             // text of eval
	InTrap                             // text of trap
	InBackground                       // before &
)

// Span is a part of the text: from byte Start up to byte End. What stands inside
// the text of eval or trap has the span of that word.
type Span struct{ Start, End int }

// SyntaxError says why a text does not parse, and where.
type SyntaxError struct {
	Reason    string
	Offset    int
	Line, Col int // from 1
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Col, e.Reason)
}

// LimitError says which limit a text exceeds.
type LimitError struct{ What string }

func (e *LimitError) Error() string { return e.What }

// Name returns the last path component of the command, and whether it is known.
func (c *Call) Name() (string, bool) {
	if len(c.Words) == 0 {
		return "", false
	}
	return c.Words[0].Base()
}

// Base returns the last path component of the word, and whether it is literal.
func (w Word) Base() (string, bool) {
	base := w.Text[strings.LastIndexByte(w.Text, '/')+1:]
	known := base != "" && !strings.ContainsRune(base, Hole) && !w.Process
	if w.Glob && globs(base) {
		known = false
	}
	return base, known
}

// globs reports whether s has a pattern that file names may take the place of.
func globs(s string) bool {
	if strings.ContainsAny(s, "*?") {
		return true
	}
	_, after, ok := strings.Cut(s, "[")
	return ok && strings.Contains(after, "]")
}

// String returns the command in a normal form: the command by its last path
// component if that is known, words quoted where they must be, redirections last.
func (c *Call) String() string {
	var parts []string
	for _, a := range c.Assigns {
		if len(c.Words) == 0 || !slices.ContainsFunc(c.Words, func(w Word) bool { return w.Span == a.Span }) {
			parts = append(parts, a.Name+"="+quoted(a.Value))
		}
	}
	if len(c.Words) > 0 {
		parts = append(parts, Normal(c.Words))
	}
	for _, r := range c.Redirs {
		if r.Op == "<<" || r.Op == "<<-" {
			continue
		}
		sep := " "
		if strings.HasSuffix(r.Op, "&") {
			sep = ""
		}
		parts = append(parts, r.Fd+r.Op+sep+quoted(r.Target.Text))
	}
	return strings.ReplaceAll(strings.Join(parts, " "), hole, "${…}")
}

// Normal returns words as one line: the first by its last path component if that
// is known, each quoted where it must be.
func Normal(words []Word) string {
	parts := make([]string, len(words))
	for i, w := range words {
		text := w.Text
		if base, ok := w.Base(); i == 0 && ok {
			text = base
		}
		parts[i] = text
		if !w.Glob {
			parts[i] = quoted(text)
		}
	}
	return strings.ReplaceAll(strings.Join(parts, " "), hole, "${…}")
}

func quoted(s string) string {
	plain := func(r rune) bool {
		return r > 0x7f || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("%+,-./:=@_^~{}[]!#", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
