package shellast

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// Options are what is known about a text beside itself.
type Options struct {
	// Args are $0, $1 and so on, if Known is set; else they are not known.
	Args  []Word
	Known bool
	// Stdin is the standard input of the whole text; nil is Inherited.
	Stdin *Input
}

// Parse reads bash. The error is a *[SyntaxError] or a *[LimitError].
func Parse(text string, o Options) (*Script, error) {
	w := &walker{text: text, script: &Script{}}
	stmts, err := w.parse(text)
	if err != nil {
		return nil, err
	}
	f := frame{stdin: o.Stdin}
	if f.stdin == nil {
		f.stdin = &Input{}
	}
	if o.Known && !shifts(stmts) {
		f.args, f.known = o.Args, true
	}
	if w.remembers(stmts) {
		w.quiet = true // first everything that is assigned anywhere, then the commands
		w.stmts(stmts, f)
		w.quiet, w.count, w.parsed = false, 0, len(text)
	}
	w.stmts(stmts, f)
	if w.err != nil {
		return nil, w.err
	}
	return w.script, nil
}

// parsers are used again: each has a buffer of its own.
var parsers = sync.Pool{New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }}

// parse reads text into statements.
func (w *walker) parse(text string) ([]*syntax.Stmt, error) {
	if w.parsed += len(text); w.parsed > MaxText {
		return nil, &LimitError{"it is too long"}
	}
	if nested(text) > MaxNesting {
		return nil, &LimitError{"it is nested too deep"}
	}
	p := parsers.Get().(*syntax.Parser)
	file, err := p.Parse(strings.NewReader(text), "")
	parsers.Put(p)
	if err != nil {
		return nil, syntaxError(err)
	}
	return file.Stmts, nil
}

func syntaxError(err error) *SyntaxError {
	if e, ok := errors.AsType[syntax.ParseError](err); ok {
		return &SyntaxError{e.Text, int(e.Pos.Offset()), int(e.Pos.Line()), int(e.Pos.Col())}
	}
	if e, ok := errors.AsType[syntax.LangError](err); ok {
		reason := e.Feature + " is not bash"
		return &SyntaxError{reason, int(e.Pos.Offset()), int(e.Pos.Line()), int(e.Pos.Col())}
	}
	return &SyntaxError{Reason: err.Error(), Line: 1, Col: 1}
}

// nested returns how deep brackets and words that open something are nested at
// most, quotes or not: the parser's cost grows with it, and so does its stack.
func nested(text string) int {
	depth, most := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '(', '{', '[':
			depth++
			most = max(most, depth)
		case ')', '}', ']':
			depth = max(0, depth-1)
		}
	}
	return most
}

// shifts reports whether the text changes its positional parameters, so that
// their names no longer tell which they are.
func shifts(stmts []*syntax.Stmt) bool {
	found := false
	for _, s := range stmts {
		syntax.Walk(s, func(n syntax.Node) bool {
			if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
				name := c.Args[0].Lit()
				found = found || name == "shift" || name == "set" || name == "eval"
			}
			return !found
		})
	}
	return found
}

// Definition is an alias, a removal of aliases, or a function, as a file of
// definitions has it.
type Definition struct {
	Kind        DefinitionKind
	Name        string // of an Unalias also "-a": all
	Text        string // what the alias stands for, or the body of the function with its braces
	Computed    bool   // Text has parts that are not known before running
	Conditional bool   // it stands inside an if, a loop, a list or the like
	Line        int
	Span        Span
}

// DefinitionKind is what a Definition is.
type DefinitionKind uint8

// The kinds of definitions.
const (
	Alias DefinitionKind = iota
	Unalias
	Function
)

// Definitions returns what a file of shell definitions defines, in its order. On
// an error, a *[SyntaxError] or a *[LimitError], those before it are returned too.
func Definitions(text string) ([]Definition, error) {
	if nested(text) > MaxNesting {
		return nil, &LimitError{"it is nested too deep"}
	}
	d := &definer{text: text}
	p := syntax.NewParser(syntax.Variant(syntax.LangBash))
	var broken error
	for s, err := range p.StmtsSeq(strings.NewReader(text)) {
		switch {
		case broken != nil: // the parser goes on after some errors, and must not be left then
		case err != nil:
			broken = syntaxError(err)
		default:
			d.stmt(s, false)
		}
	}
	return d.all, broken
}

type definer struct {
	text string
	all  []Definition
}

func (d *definer) stmt(s *syntax.Stmt, conditional bool) {
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		d.call(c, conditional)
	case *syntax.FuncDecl:
		if c.Name != nil {
			at := span(c)
			body := d.text[c.Body.Pos().Offset():c.Body.End().Offset()]
			d.all = append(d.all, Definition{Kind: Function, Name: c.Name.Value, Text: body, Conditional: conditional, Line: int(c.Pos().Line()), Span: at})
		}
	case *syntax.Block:
		for _, s := range c.Stmts {
			d.stmt(s, conditional)
		}
	case nil:
	default:
		syntax.Walk(c, func(n syntax.Node) bool {
			if inner, ok := n.(*syntax.Stmt); ok {
				d.stmt(inner, true)
				return false
			}
			return true
		})
	}
}

func (d *definer) call(c *syntax.CallExpr, conditional bool) {
	if len(c.Args) < 2 {
		return
	}
	kind, ok := map[string]DefinitionKind{"alias": Alias, "unalias": Unalias}[c.Args[0].Lit()]
	if !ok {
		return
	}
	w := &walker{text: d.text, script: &Script{}}
	for _, arg := range c.Args[1:] {
		word := w.joined(arg)
		def := Definition{Kind: kind, Name: word, Conditional: conditional, Line: int(arg.Pos().Line()), Span: span(arg)}
		if kind == Alias {
			var defines bool
			if def.Name, def.Text, defines = strings.Cut(word, "="); !defines {
				continue // asks for it
			}
		}
		def.Computed = strings.ContainsRune(word, Hole)
		d.all = append(d.all, def)
	}
}

// Arguments reads text as arguments that follow a command. Anything but words is
// refused, with its place: separators, line ends, redirections, substitutions,
// background. Variables are Holes; the caller decides about them.
func Arguments(text string) ([]Word, error) {
	const head = "x "
	w := &walker{text: head + text, script: &Script{}}
	stmts, err := w.parse(w.text)
	if err != nil {
		if e, ok := errors.AsType[*SyntaxError](err); ok {
			e.Offset = max(0, e.Offset-len(head))
			if e.Line == 1 {
				e.Col = max(1, e.Col-len(head))
			}
		}
		return nil, err
	}
	refuse := func(what string, at int) error {
		at = max(0, at-len(head))
		before := text[:min(at, len(text))]
		return &SyntaxError{what, at, 1 + strings.Count(before, "\n"), at - strings.LastIndexByte(before, '\n')}
	}
	if i := strings.IndexAny(text, "\n\r"); i >= 0 {
		return nil, refuse("arguments end at the end of the line", i+len(head))
	}
	if len(stmts) != 1 {
		return nil, refuse("a separator starts another command", int(stmts[1].Pos().Offset()))
	}
	s := stmts[0]
	call, ok := s.Cmd.(*syntax.CallExpr)
	switch {
	case !ok:
		return nil, refuse("an operator joins it with another command", len(head))
	case s.Background || s.Coprocess || s.Semicolon.IsValid():
		return nil, refuse("a separator ends the command", int(s.Semicolon.Offset()))
	case len(s.Redirs) > 0:
		return nil, refuse("a redirection is no argument", int(s.Redirs[0].Pos().Offset()))
	}
	var bad error
	syntax.Walk(call, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.ArithmExp:
			bad = refuse("a substitution is no argument", int(n.Pos().Offset()))
		case *syntax.ParamExp:
			if n.Exp != nil || n.Index != nil || n.Slice != nil || n.Repl != nil || n.Excl {
				bad = refuse("a computed expansion is no argument", int(n.Pos().Offset()))
			}
		}
		return bad == nil
	})
	if bad != nil {
		return nil, bad
	}
	if end := int(call.End().Offset()); strings.TrimSpace(w.text[end:]) != "" {
		return nil, refuse("a comment is no argument", end)
	}
	for _, word := range call.Args {
		if spread := w.braces(word); len(spread) > 1 && slices.ContainsFunc(spread, void) {
			return nil, refuse("an empty word of braces is no argument", int(word.Pos().Offset()))
		}
	}
	words := w.words(call.Args, frame{stdin: &Input{}})[1:]
	for i := range words {
		words[i].Span.Start -= len(head)
		words[i].Span.End -= len(head)
	}
	return words, w.err
}
