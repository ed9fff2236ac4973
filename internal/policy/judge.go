package policy

import (
	"errors"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/shellast"
)

// judge goes through one text and the texts inside it.
//
//	script ─▶ call ─▶ simple ─▶ wrapper, shell, interpreter: the command inside, again
//	           │         └────▶ the rules about that command
//	           └▶ assignments, redirections
type judge struct {
	set        *Set
	quiet      bool // the built-in rules are off
	saw        func(Command)
	unseen     func(Decision) // told of what runs without being seen, when quiet
	depth      int            // texts within texts, wrappers within wrappers
	parsed     int            // bytes of texts within texts
	unreadable *Decision
}

const (
	maxDepth  = 12
	maxParsed = 128 << 10
)

// command is a simple command as it is judged: of a call, or inside a wrapper.
type command struct {
	words []shellast.Word
	name  string // canonical
	call  *shellast.Call
	stdin *shellast.Input
	at    Span
}

func (c *command) args() []shellast.Word { return c.words[1:] }

// deny makes a decision by a built-in rule. what takes the place of {} in its
// reason.
func (j *judge) deny(name, what string, at Span) *Decision {
	if j.quiet && (j.unseen == nil || !has(unseen, name)) {
		return nil
	}
	r := byName()[name]
	d := &Decision{Denied: true, Rule: name, Reason: strings.ReplaceAll(r.reason, "{}", brief(what)), Use: r.use, Span: at}
	if j.quiet {
		j.unseen(*d)
		return nil
	}
	return d
}

// brief keeps reasons short.
func brief(s string) string {
	s = strings.ReplaceAll(strings.Join(strings.Fields(s), " "), string(shellast.Hole), "${…}")
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:57], "") + "…"
	}
	return s
}

// script judges a text of bash. Inside another text, within is the span of what
// holds it there.
func (j *judge) script(text string, o shellast.Options, within *Span) *Decision {
	at := Span{0, len(text)}
	if within != nil {
		at = *within
	}
	if j.parsed += len(text); j.parsed > maxParsed || j.depth > maxDepth {
		return j.unjudged("too-complex", "commands are nested too deep in each other", at)
	}
	s, err := shellast.Parse(text, o)
	if err != nil {
		if e, ok := errors.AsType[*shellast.LimitError](err); ok {
			return j.unjudged("too-complex", e.What, at)
		}
		if e, ok := errors.AsType[*shellast.SyntaxError](err); ok && within == nil {
			at = Span{min(e.Offset, len(text)), len(text)}
		}
		return j.unjudged("unparsable", err.Error(), at)
	}
	j.depth++
	defer func() { j.depth-- }()
	for _, c := range s.Calls {
		if d := j.call(c, within); d != nil {
			return d
		}
	}
	return nil
}

// unjudged denies what cannot be read. A person's rules see its raw text.
func (j *judge) unjudged(name, what string, at Span) *Decision {
	r := byName()[name]
	d := &Decision{Denied: true, Rule: name, Reason: strings.ReplaceAll(r.reason, "{}", what), Span: at}
	if j.unreadable == nil {
		j.unreadable = d
	}
	if j.quiet {
		return nil
	}
	return d
}

func (j *judge) call(c *shellast.Call, within *Span) *Decision {
	at := Span(c.Span)
	if within != nil {
		at = *within
	}
	place := func(s shellast.Span) Span {
		if within != nil {
			return *within
		}
		return Span(s)
	}
	for _, a := range c.Assigns {
		if d := j.variable(a.Name, a.Value, place(a.Span)); d != nil {
			return d
		}
	}
	if d := j.seeCall(c, at); d != nil {
		return d
	}
	for _, r := range c.Redirs {
		var d *Decision
		switch {
		case r.Writes() && (r.Target.Text == "-" || !stream(r.Target)):
			d = j.deny("redirect-write", r.Op+" "+r.Target.Text, place(r.Span))
		case r.Reads() && len(c.Words) == 0 && !stream(r.Target):
			d = j.deny("redirect-read", r.Op+" "+r.Target.Text, place(r.Span))
		}
		if d != nil {
			return d
		}
	}
	if len(c.Words) == 0 || c.Function {
		return nil
	}
	return j.simple(&command{words: c.Words, call: c, stdin: c.Stdin, at: at})
}

// seeCall is see for a whole call.
func (j *judge) seeCall(c *shellast.Call, at Span) *Decision {
	if j.saw == nil && len(j.set.user) == 0 {
		return nil
	}
	name, known := c.Name()
	if !known {
		name = ""
	}
	return j.see(c.String(), name, at)
}

// see reports a simple command, and judges it by a person's rules.
func (j *judge) see(text, name string, at Span) *Decision {
	if j.saw != nil {
		j.saw(Command{Name: name, Text: text, Span: at})
	}
	for _, u := range j.set.user {
		if u.Scope == EachCommand {
			if d := u.match(text, at, ""); d != nil {
				return d
			}
		}
	}
	return nil
}

// inner judges words as a command that c runs.
func (j *judge) inner(c *command, words []shellast.Word) *Decision {
	if len(words) == 0 {
		return nil
	}
	return j.simple(&command{words: words, call: c.call, stdin: c.stdin, at: c.at})
}

// simple judges a simple command.
func (j *judge) simple(c *command) *Decision {
	if j.depth++; j.depth > maxDepth {
		j.depth--
		return j.unjudged("too-complex", "commands are nested too deep in each other", c.at)
	}
	defer func() { j.depth-- }()

	first := c.words[0]
	name, known := first.Base()
	if &c.words[0] != &c.call.Words[0] { // it is inside a wrapper
		inside := shellast.Call{Words: c.words}
		if d := j.seeCall(&inside, c.at); d != nil {
			return d
		}
	}
	if !known {
		if name == "" && !first.Computed() {
			return nil // there is no such command
		}
		return j.deny("computed-name", first.Text, c.at)
	}
	if first.Vanish && len(c.words) > 1 { // the next word may turn out to be the command
		if d := j.inner(c, c.words[1:]); d != nil {
			return d
		}
	}
	c.name = canonical(name)
	if args := c.args(); len(args) == 1 && (args[0].Text == "--help" || args[0].Text == "--version") {
		return nil
	}
	if d := j.readsFile(c); d != nil {
		return d
	}
	if h, ok := handler(c.name); ok {
		return h(j, c)
	}
	if w, ok := wrappers()[c.name]; ok {
		return j.wrapper(c, w)
	}
	if l, ok := interpreter(c.name); ok {
		return j.interpreted(c, l)
	}
	if loader(c.name) {
		return j.wrapper(c, &wrapper{spec: spec{values: "library-path preload argv0 audit inhibit-rpath", first: true}})
	}
	return j.ruled(c)
}

// ruled judges a command by the rules that name it.
func (j *judge) ruled(c *command) *Decision {
	r, ok := byCommand()[c.name]
	if !ok {
		return nil
	}
	if r.when == always {
		return j.deny(r.name, c.name, c.at)
	}
	s := syntaxOf(c.name)
	a := s.read(c.args())
	if d := j.fileOptions(c, s, a, r.name); d != nil {
		return d
	}
	files := j.files(s, a)
	for _, f := range files {
		if !stream(f) {
			return j.deny(r.name, c.name+" "+f.Text, c.at)
		}
	}
	if r.when == searching && len(files) == 0 && !has(pipeOnly, sameOr(c.name)) && c.stdin.Kind == shellast.Inherited {
		return j.deny(r.name, c.name, c.at)
	}
	return nil
}

// pipeOnly are search programs that read standard input unless told otherwise;
// the others search the directory when nothing is piped into them.
const pipeOnly = "grep"

func sameOr(name string) string {
	if same, ok := sameAs()[name]; ok {
		return same
	}
	return name
}

// fileOptions judges options that read, write, or ask for files.
func (j *judge) fileOptions(c *command, s *spec, a arguments, name string) *Decision {
	if o, ok := a.find(s.refuse); ok {
		return j.deny(name, c.name+" "+dashed(o.name), c.at)
	}
	for _, v := range a.all(s.reads) {
		if !stream(v) {
			return j.deny(name, c.name+" "+v.Text, c.at)
		}
	}
	for _, v := range a.all(s.writes) {
		if !stream(v) {
			return j.deny("edit-file", c.name, c.at)
		}
	}
	return nil
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// files returns the operands that name files.
func (j *judge) files(s *spec, a arguments) []shellast.Word {
	if _, ok := a.find(s.plain); ok {
		return nil
	}
	lead := s.lead
	if _, ok := a.find(s.given); ok {
		lead = 0
	}
	return a.operands[min(lead, len(a.operands)):]
}

// readsFile judges < file of a filter or builtin.
func (j *judge) readsFile(c *command) *Decision {
	rule := "redirect-read"
	switch r, ok := byCommand()[c.name]; {
	case ok:
		rule = r.name
	case has(readers, c.name), c.name == "sed", sameOr(c.name) == "awk":
	default:
		return nil
	}
	for _, r := range c.call.Redirs {
		if r.Reads() && !stream(r.Target) {
			return j.deny(rule, c.name+" < "+r.Target.Text, c.at)
		}
	}
	if c.stdin.Kind == shellast.File && !stream(c.stdin.File) {
		return j.deny(rule, c.name+" < "+c.stdin.File.Text, c.at)
	}
	return nil
}

// readers are builtins and wrappers that read standard input, or leave a
// descriptor open for what follows.
const readers = `read mapfile readarray exec source . echo printf test [ : true false export set cd wait eval xargs parallel let declare local typeset unset
	shift return trap gsed ssed`

// text returns what a command writes to standard output, if that is known.
func literalOutput(c *shellast.Call) (string, bool) {
	if c == nil || c.Function || len(c.Words) == 0 {
		return "", false
	}
	name, _ := c.Name()
	args := c.Words[1:]
	switch name {
	case "echo":
		escapes := false
		for len(args) > 0 && len(args[0].Text) > 1 && args[0].Text[0] == '-' && strings.Trim(args[0].Text[1:], "neE") == "" {
			escapes = escapes || strings.Contains(args[0].Text, "e")
			args = args[1:]
		}
		text := joined(args)
		if escapes {
			text = shellast.Unescape(text)
		}
		return text, true
	case "printf":
		if len(args) == 0 {
			return "", false
		}
		format := args[0].Text
		switch {
		case strings.Count(format, "%") == 0:
			return shellast.Unescape(format), true
		case strings.TrimSuffix(format, `\n`) == "%s" || strings.TrimSuffix(format, `\n`) == "%b":
			var lines []string
			for _, a := range args[1:] {
				lines = append(lines, shellast.Unescape(a.Text))
			}
			return strings.Join(lines, "\n"), true
		}
	case "cat":
		if len(args) == 0 && c.Stdin.Kind == shellast.Text {
			return c.Stdin.Text, true
		}
	}
	return "", false
}

func joined(words []shellast.Word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.Text
	}
	return strings.Join(texts, " ")
}

// blank reports whether nothing of a text is known.
func blank(s string) bool {
	return strings.ContainsRune(s, shellast.Hole) && strings.Trim(s, string(shellast.Hole)+" \n\t;") == ""
}

var unknownWord = shellast.Word{Text: string(shellast.Hole)}

// innerScript judges a word as text of a shell that c starts.
func (j *judge) innerScript(c *command, text string, o shellast.Options) *Decision {
	if blank(text) {
		return j.deny("computed-script", c.name, c.at)
	}
	if o.Stdin == nil {
		o.Stdin = c.stdin
	}
	return j.script(text, o, &c.at)
}
