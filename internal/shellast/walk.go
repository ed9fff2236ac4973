package shellast

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// walker goes through the statements of one text.
//
// A text that assigns or defines something is walked twice: quietly, to gather
// what each variable may hold and which functions are called, and then for good.
// So a loop that assigns at its end is understood at its beginning. A variable
// keeps every value it was given anywhere.
type walker struct {
	text    string
	script  *Script
	vars    map[string][]value
	funcs   map[string][]*syntax.Stmt
	called  map[string]bool
	choice  map[string]int // which value a variable has in the reading at hand
	within  *Span          // of the word whose text is being walked, for eval and trap
	quiet   bool
	shallow bool // words are expanded for only
	split   bool // IFS is assigned: unquoted values split in unknown places
	count   int  // of calls
	parsed  int  // bytes
	depth   int  // of eval
	err     error
}

// value is what a variable may hold: one text, or the elements of an array.
type value struct {
	items []string
	array bool
}

// frame is what surrounds a statement.
type frame struct {
	stdin   *Input
	context Context
	args    []Word   // positional parameters from $0 on
	known   bool     // args are known
	stack   []string // functions being walked
}

func (f frame) in(c Context) frame {
	f.context |= c
	return f
}

func span(n syntax.Node) Span {
	return Span{int(n.Pos().Offset()), int(n.End().Offset())}
}

func (w *walker) span(n syntax.Node) Span {
	if w.within != nil {
		return *w.within
	}
	return span(n)
}

// remembers reports whether there is anything to gather before the commands are
// judged.
func (w *walker) remembers(stmts []*syntax.Stmt) bool {
	found := false
	for _, s := range stmts {
		syntax.Walk(s, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.Assign, *syntax.FuncDecl, *syntax.ForClause:
				found = true
			case *syntax.CallExpr:
				if len(n.Args) > 0 {
					switch n.Args[0].Lit() {
					case "", "eval", "export", "builtin", "command":
						found = true
					}
				}
			}
			return !found
		})
	}
	return found
}

func (w *walker) stmts(stmts []*syntax.Stmt, f frame) {
	for _, s := range stmts {
		w.stmt(s, f)
	}
}

// stmt walks one statement and returns its call if it is one simple command with
// one reading.
func (w *walker) stmt(s *syntax.Stmt, f frame) *Call {
	if w.err != nil || s == nil {
		return nil
	}
	if s.Background {
		f = f.in(InBackground)
	}
	redirs, f := w.redirs(s.Redirs, f)
	if c, ok := s.Cmd.(*syntax.CallExpr); ok {
		return w.call(c, redirs, w.span(s), f)
	}
	if d, ok := s.Cmd.(*syntax.DeclClause); ok {
		return w.decl(d, redirs, w.span(s), f)
	}
	if len(redirs) > 0 || s.Cmd == nil {
		w.add(&Call{Redirs: redirs, Stdin: f.stdin, Compound: compound(s.Cmd), Context: f.context, Span: w.span(s)})
	}
	return w.command(s.Cmd, f)
}

func compound(c syntax.Command) string {
	switch c := c.(type) {
	case nil:
		return ""
	case *syntax.WhileClause:
		if c.Until {
			return "until"
		}
		return "while"
	case *syntax.ForClause:
		return "for"
	case *syntax.IfClause:
		return "if"
	case *syntax.CaseClause:
		return "case"
	case *syntax.Block:
		return "{"
	case *syntax.Subshell:
		return "("
	case *syntax.TestClause:
		return "[["
	case *syntax.FuncDecl:
		return "function"
	default:
		return "("
	}
}

func (w *walker) command(cmd syntax.Command, f frame) *Call {
	switch c := cmd.(type) {
	case *syntax.BinaryCmd:
		return w.binary(c, f)
	case *syntax.Block:
		w.stmts(c.Stmts, f)
	case *syntax.Subshell:
		w.stmts(c.Stmts, f)
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			w.stmts(c.Cond, f)
			w.stmts(c.Then, f)
		}
	case *syntax.WhileClause:
		w.stmts(c.Cond, f)
		w.stmts(c.Do, f)
	case *syntax.ForClause:
		w.loop(c, f)
	case *syntax.CaseClause:
		w.inside(c.Word, f)
		for _, item := range c.Items {
			for _, p := range item.Patterns {
				w.inside(p, f)
			}
			w.stmts(item.Stmts, f)
		}
	case *syntax.FuncDecl:
		w.function(c, f)
	case *syntax.TimeClause:
		return w.stmt(timed(c), f)
	case *syntax.CoprocClause:
		w.inside(c.Name, f)
		w.stmt(c.Stmt, f)
	case *syntax.ArithmCmd:
		w.inside(c, f)
	case *syntax.LetClause, *syntax.TestClause:
		w.inside(c, f)
		w.quoted(c, f)
	case *syntax.TestDecl:
		w.stmt(c.Body, f)
	}
	return nil
}

// timed returns what time runs. Shells without that keyword call the program,
// whose options bash would take for a command.
func timed(c *syntax.TimeClause) *syntax.Stmt {
	if c.Stmt == nil {
		return nil
	}
	call, ok := c.Stmt.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 || !strings.HasPrefix(call.Args[0].Lit(), "-") {
		return c.Stmt
	}
	end := syntax.NewPos(c.Time.Offset()+4, c.Time.Line(), c.Time.Col()+4)
	word := &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{ValuePos: c.Time, ValueEnd: end, Value: "time"}}}
	s, whole := *c.Stmt, *call
	whole.Args = append([]*syntax.Word{word}, call.Args...)
	s.Cmd = &whole
	return &s
}

func (w *walker) binary(c *syntax.BinaryCmd, f frame) *Call {
	left := w.stmt(c.X, f)
	if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
		f.stdin = &Input{Kind: Pipe, From: left}
		return w.stmt(c.Y, f)
	}
	w.stmt(c.Y, f)
	return nil
}

func (w *walker) loop(c *syntax.ForClause, f frame) {
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		for _, item := range l.Items {
			w.inside(item, f)
		}
		if w.quiet {
			items := w.words(l.Items, f)
			if !l.InPos.IsValid() {
				items = w.parameters(f)
			}
			if len(items) > maxValues || c.Select {
				w.assign(l.Name.Value, value{items: []string{hole}})
				break
			}
			for _, item := range items {
				text := item.Text
				if item.Glob {
					text = hole
				}
				w.assign(l.Name.Value, value{items: []string{text}})
			}
		}
	case *syntax.CStyleLoop:
		w.inside(l, f)
	}
	w.stmts(c.Do, f)
}

// function walks the body of a function nobody calls, so that it counts; one that
// is called is walked at its calls, where its arguments are known.
func (w *walker) function(c *syntax.FuncDecl, f frame) {
	if c.Name == nil {
		return
	}
	name := c.Name.Value
	if w.quiet {
		if w.funcs == nil {
			w.funcs, w.called = map[string][]*syntax.Stmt{}, map[string]bool{}
		}
		if !slices.Contains(w.funcs[name], c.Body) {
			w.funcs[name] = append(w.funcs[name], c.Body)
		}
	}
	if w.quiet || !w.called[name] {
		f.args, f.known = nil, false
		f.stdin = &Input{Kind: Pipe}
		w.stmt(c.Body, f.in(InFunction))
	}
}

// call walks a simple command: what stands in its words, then each reading of
// them.
func (w *walker) call(c *syntax.CallExpr, redirs []Redir, at Span, f frame) *Call {
	assigns := w.assigns(c.Assigns, f, len(c.Args) > 0)
	for _, word := range c.Args {
		w.inside(word, f)
	}
	if len(c.Args) == 0 {
		return w.add(&Call{Assigns: assigns, Redirs: redirs, Stdin: f.stdin, Context: f.context, Span: at})
	}
	var last *Call
	readings := w.readings(c.Args)
	for i := range readings {
		w.choice = readings[i]
		words := w.words(c.Args, f)
		w.choice = nil
		last = w.reading(&Call{Words: words, Assigns: assigns, Redirs: redirs, Stdin: f.stdin, Context: f.context, Span: at}, f)
	}
	if len(readings) > 1 {
		return nil
	}
	return last
}

// reading adds one reading of a simple command, and walks what it runs in this
// shell.
func (w *walker) reading(c *Call, f frame) *Call {
	if len(c.Words) == 0 { // all words expanded to nothing
		return w.add(c)
	}
	name, args := c.Words[0].Text, c.Words[1:]
	for (name == "builtin" || name == "command") && len(args) > 0 && !strings.HasPrefix(args[0].Text, "-") {
		name, args = args[0].Text, args[1:]
	}
	bodies := w.funcs[name]
	c.Function = len(bodies) > 0 && name == c.Words[0].Text
	w.add(c)
	switch {
	case c.Function:
		w.inline(name, bodies, c, f)
	case name == "eval":
		w.again(args, c, f.in(InEval))
	case name == "trap":
		if len(args) > 0 && args[0].Text == "--" {
			args = args[1:]
		}
		if len(args) > 1 && !strings.HasPrefix(args[0].Text, "-") {
			w.again(args[:1], c, f.in(InTrap))
		}
	default:
		if w.quiet {
			w.builtin(name, args)
		}
		for _, a := range variables(name, args) {
			w.subscript(a.Text, c, f)
		}
	}
	return c
}

// variables returns the operands that a builtin takes for names of variables,
// maybe with a subscript.
func variables(name string, args []Word) []Word {
	switch name {
	case "let", "read", "mapfile", "readarray", "getopts", "unset":
		return args
	case "export", "declare", "typeset", "local", "readonly":
		return slices.DeleteFunc(slices.Clone(args), func(a Word) bool {
			name, _, ok := strings.Cut(a.Text, "=")
			return ok && !strings.Contains(name, "[") // what is assigned is not expanded again
		})
	case "printf", "test", "[", "wait":
		if i := slices.IndexFunc(args, func(a Word) bool { return a.Text == "-v" || name == "wait" && a.Text == "-p" }); i >= 0 && i+1 < len(args) {
			return args[i+1 : i+2]
		}
	}
	return nil
}

// subscript walks the substitutions in a name that has a subscript, which the
// shell expands although the word was quoted.
func (w *walker) subscript(text string, c *Call, f frame) {
	_, index, ok := strings.Cut(text, "[")
	if ok && substitutes(index) {
		w.again([]Word{{Text: `: "` + index + `"`}}, c, f.in(InSubstitution))
	}
}

func substitutes(text string) bool {
	return strings.Contains(text, "$(") || strings.Contains(text, "`")
}

// inline walks the bodies of a function that is called.
func (w *walker) inline(name string, bodies []*syntax.Stmt, c *Call, f frame) {
	w.called[name] = true
	again := 0
	for _, outer := range f.stack {
		if outer == name {
			again++
		}
	}
	if again > 1 {
		return // it calls itself
	}
	if len(f.stack) > maxInlined {
		w.fail(&LimitError{"functions call each other too deep"})
		return
	}
	f.stack = append(slices.Clip(f.stack), name)
	for _, body := range bodies {
		g := f.in(InFunction)
		g.args, g.known = c.Words, true
		if shifts([]*syntax.Stmt{body}) {
			g.args, g.known = nil, false
		}
		w.stmt(body, g)
	}
}

// again walks words as text of this shell, as eval does.
func (w *walker) again(words []Word, c *Call, f frame) {
	var texts []string
	for _, word := range words {
		texts = append(texts, word.Text)
	}
	text := strings.Join(texts, " ")
	if strings.Trim(text, hole+" ") == "" {
		return // nothing of it is known; whoever judges eval sees that
	}
	if w.depth >= maxParsed {
		w.fail(&LimitError{"eval is nested too deep"})
		return
	}
	stmts, err := w.parse(text)
	if err != nil {
		w.fail(err)
		return
	}
	within := w.within
	if within == nil {
		w.within = &c.Span
	}
	w.depth++
	w.stmts(stmts, f)
	w.depth--
	w.within = within
}

// builtin notes what a builtin assigns.
func (w *walker) builtin(name string, args []Word) {
	switch name {
	case "export", "declare", "typeset", "local", "readonly":
		for _, a := range args {
			if n, v, ok := strings.Cut(a.Text, "="); ok && syntax.ValidName(n) {
				w.assign(n, value{items: []string{v}})
			}
		}
	case "read", "mapfile", "readarray", "getopts", "printf", "let", "unset", "wait":
		for _, a := range args {
			if syntax.ValidName(a.Text) && (name != "printf" || args[0].Text == "-v") {
				w.assign(a.Text, value{items: []string{hole}})
			}
		}
	}
}

// decl walks export, declare, local and the like.
func (w *walker) decl(d *syntax.DeclClause, redirs []Redir, at Span, f frame) *Call {
	call := &Call{Words: []Word{{Text: d.Variant.Value, Span: w.span(d.Variant)}}, Redirs: redirs, Stdin: f.stdin, Context: f.context, Span: at}
	for _, a := range d.Args {
		word := Word{Span: w.span(a)}
		switch {
		case a.Name == nil:
			w.inside(a.Value, f)
			word.Text = w.joined(a.Value)
			if name, v, ok := strings.Cut(word.Text, "="); ok {
				call.Assigns = append(call.Assigns, Assign{name, v, word.Span})
			}
		case a.Naked:
			word.Text = a.Name.Value
		default:
			one := w.assigns([]*syntax.Assign{a}, f, false)
			call.Assigns = append(call.Assigns, one...)
			word.Text = a.Name.Value + "=" + one[0].Value
		}
		call.Words = append(call.Words, word)
	}
	for _, a := range variables("declare", call.Words[1:]) {
		w.subscript(a.Text, call, f)
	}
	if w.quiet && flagged(call.Words[1:], "lucCi") {
		for _, a := range call.Assigns { // the value becomes another one
			w.assign(a.Name, value{items: []string{hole}})
		}
	}
	if w.quiet && flagged(call.Words[1:], "n") {
		for name := range w.vars { // a reference may give any variable any value
			w.assign(name, value{items: []string{hole}})
		}
	}
	return w.add(call)
}

// flagged reports whether one of the options has one of the letters.
func flagged(words []Word, letters string) bool {
	return slices.ContainsFunc(words, func(a Word) bool { return strings.HasPrefix(a.Text, "-") && strings.ContainsAny(a.Text, letters) })
}

// assigns walks assignments. Those before a command last as long as it does.
func (w *walker) assigns(list []*syntax.Assign, f frame, passing bool) []Assign {
	var out []Assign
	for _, a := range list {
		v := value{items: []string{""}}
		if a.Value != nil {
			w.inside(a.Value, f)
			v.items[0] = w.joined(a.Value)
		}
		if a.Array != nil {
			for _, e := range a.Array.Elems {
				w.inside(e, f)
			}
			v = w.array(a.Array, f)
		}
		if a.Index != nil {
			w.inside(a.Index, f)
		}
		out = append(out, Assign{a.Name.Value, strings.Join(v.items, " "), w.span(a)})
		if !w.quiet {
			continue
		}
		if a.Name.Value == "IFS" && !passing {
			w.split = true
		}
		switch {
		case a.Index != nil, a.Append && v.array:
			v = value{items: []string{hole}, array: true}
		case a.Append:
			before := hole
			if all := w.vars[a.Name.Value]; len(all) == 1 && !all[0].array {
				before = all[0].items[0]
			}
			v.items[0] = before + v.items[0]
		}
		w.assign(a.Name.Value, v)
	}
	return out
}

func (w *walker) array(a *syntax.ArrayExpr, f frame) value {
	v := value{array: true}
	for _, e := range a.Elems {
		if e.Index != nil || e.Value == nil {
			return value{items: []string{hole}, array: true}
		}
		for _, word := range w.words([]*syntax.Word{e.Value}, f) {
			text := word.Text
			if word.Glob {
				text = hole
			}
			v.items = append(v.items, text)
		}
	}
	return v
}

// assign adds a value a variable may have. Too many or too long ones become
// unknown.
func (w *walker) assign(name string, v value) {
	size := 0
	for _, item := range v.items {
		size += len(item)
	}
	if size > maxValue || len(v.items) > maxBraces {
		v = value{items: []string{hole}, array: v.array}
	}
	if w.vars == nil {
		w.vars = map[string][]value{}
	}
	all := w.vars[name]
	if slices.ContainsFunc(all, func(o value) bool { return o.array == v.array && slices.Equal(o.items, v.items) }) {
		return
	}
	if len(all) >= maxValues {
		w.vars[name] = []value{{items: []string{hole}}}
		return
	}
	w.vars[name] = append(all, v)
}

// redirs walks redirections and returns them with the frame that has the
// standard input they leave.
func (w *walker) redirs(list []*syntax.Redirect, f frame) ([]Redir, frame) {
	if len(list) == 0 {
		return nil, f
	}
	out := make([]Redir, 0, len(list))
	outer := f
	for _, r := range list {
		w.inside(r.Word, outer)
		one := Redir{Op: r.Op.String(), Span: w.span(r)}
		if r.N != nil {
			one.Fd = r.N.Value
		}
		if r.Hdoc != nil {
			w.inside(r.Hdoc, outer)
			one.Text = w.document(r.Hdoc, quotedDelimiter(r.Word))
			one.Target.Span = w.span(r.Word)
			if w.within == nil {
				one.Span.End = int(r.Word.End().Offset())
			}
		} else {
			one.Target = w.target(r.Word)
			one.Text = one.Target.Text + "\n"
		}
		out = append(out, one)
		if one.Fd != "" && one.Fd != "0" {
			continue
		}
		switch one.Op {
		case "<", "<>":
			f.stdin = &Input{Kind: File, File: one.Target}
			if one.Target.Process {
				f.stdin = &Input{Kind: Process, From: one.Target.From}
			}
		case "<<", "<<-", "<<<":
			f.stdin = &Input{Kind: Text, Text: one.Text}
		case "<&":
			f.stdin = &Input{Kind: Pipe} // some other descriptor
		}
	}
	return out, f
}

func quotedDelimiter(w *syntax.Word) bool {
	return slices.ContainsFunc(w.Parts, func(p syntax.WordPart) bool {
		lit, ok := p.(*syntax.Lit)
		return !ok || strings.Contains(lit.Value, `\`)
	})
}

// inside walks the commands that stand inside a word or expression, and notes
// what it assigns.
func (w *walker) inside(n syntax.Node, f frame) {
	if w.err != nil || n == nil {
		return
	}
	switch n := n.(type) {
	case *syntax.Word:
		if n == nil {
			return
		}
		if len(n.Parts) == 1 {
			if _, ok := n.Parts[0].(*syntax.Lit); ok {
				return
			}
		}
	}
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			w.stmts(n.Stmts, f.in(InSubstitution))
			return false
		case *syntax.ProcSubst:
			g := f.in(InProcess)
			if n.Op != syntax.CmdIn {
				g.stdin = &Input{Kind: Pipe}
			}
			w.stmts(n.Stmts, g)
			return false
		case *syntax.ParamExp:
			w.prompt(n, f)
			if w.quiet && n.Param != nil && n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
				w.assign(n.Param.Value, value{items: []string{hole}})
			}
		}
		return true
	})
}

// quoted walks the substitutions in the subscripts of quoted words, which [[ and
// let expand where they stand for variables.
func (w *walker) quoted(n syntax.Node, f frame) {
	at := &Call{Stdin: f.stdin, Span: w.span(n)}
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.UnaryTest:
			if n.Op != syntax.TsVarSet {
				return false
			}
		case *syntax.BinaryTest:
			switch n.Op {
			case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr, syntax.AndTest, syntax.OrTest:
			default:
				return false
			}
		case *syntax.SglQuoted:
			w.subscript(n.Value, at, f)
		}
		return true
	})
}

// prompt reports ${x@P}, which runs what the value substitutes.
func (w *walker) prompt(n *syntax.ParamExp, f frame) {
	if n.Exp == nil || n.Exp.Op != syntax.OtherParamOps || n.Exp.Word.Lit() != "P" {
		return
	}
	values := w.vars[n.Param.Value]
	if len(values) > 0 && !slices.ContainsFunc(values, func(v value) bool {
		return slices.ContainsFunc(v.items, func(text string) bool { return substitutes(text) || strings.Contains(text, hole) })
	}) {
		return
	}
	w.add(&Call{Words: []Word{{Text: "eval"}, {Text: hole}}, Stdin: f.stdin, Context: f.context | InEval, Span: w.span(n)})
}

// add reports a call.
func (w *walker) add(c *Call) *Call {
	if w.count++; w.count > MaxCalls {
		w.fail(&LimitError{"it has too many commands"})
	}
	if !w.quiet && w.err == nil {
		w.script.Calls = append(w.script.Calls, c)
	}
	return c
}

func (w *walker) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}
