package shellast

import (
	"maps"
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// words expands words into the arguments they become.
func (w *walker) words(list []*syntax.Word, f frame) []Word {
	out := make([]Word, 0, len(list))
	for _, word := range list {
		at := w.span(word)
		spread := w.braces(word)
		for _, one := range spread {
			if len(spread) > 1 && void(one) {
				continue
			}
			e := expander{w: w, f: f, at: at}
			e.word(one)
			out = append(out, e.out...)
			if len(out) > maxWords {
				w.fail(&LimitError{"a command has too many words"})
				return out
			}
		}
	}
	return out
}

// void reports whether nothing is left of a word, not even quotes: the shell drops
// it, and what follows may become the command.
func void(word *syntax.Word) bool {
	for _, p := range word.Parts {
		if lit, ok := p.(*syntax.Lit); !ok || lit.Value != "" {
			return false
		}
	}
	return true
}

// joined expands a word that stays one, as in assignments.
func (w *walker) joined(word *syntax.Word) string {
	e := expander{w: w, whole: true}
	e.word(word)
	return e.cur.String()
}

// target expands the word of a redirection.
func (w *walker) target(word *syntax.Word) Word {
	e := expander{w: w, whole: true, at: w.span(word)}
	e.word(word)
	e.end()
	if len(e.out) == 0 {
		return Word{Span: e.at}
	}
	return e.out[0]
}

// document returns the text of a here-document.
func (w *walker) document(body *syntax.Word, literal bool) string {
	var b strings.Builder
	for _, p := range body.Parts {
		lit, ok := p.(*syntax.Lit)
		switch {
		case ok && literal:
			b.WriteString(lit.Value)
		case ok:
			b.WriteString(unescape(lit.Value, "$`\\"))
		default:
			e := expander{w: w, whole: true}
			e.part(p, true)
			b.WriteString(e.cur.String())
		}
	}
	return b.String()
}

// braces returns the words a word with braces stands for; one with a hole if they
// are too many.
func (w *walker) braces(word *syntax.Word) []*syntax.Word {
	if len(word.Parts) == 1 {
		if lit, ok := word.Parts[0].(*syntax.Lit); ok && !strings.Contains(lit.Value, "{") {
			return []*syntax.Word{word}
		}
	}
	split := &syntax.Word{Parts: word.Parts}
	if !syntax.SplitBraces(split) {
		return []*syntax.Word{word}
	}
	n := product(split)
	if n == 1 {
		return []*syntax.Word{split}
	}
	if n > maxBraces {
		return []*syntax.Word{{Parts: []syntax.WordPart{&syntax.Lit{Value: hole, ValuePos: word.Pos(), ValueEnd: word.End()}}}}
	}
	return spread(split.Parts)
}

// product counts the words that braces make, up to a little over the limit.
func product(word *syntax.Word) int {
	n := 1
	for _, p := range word.Parts {
		b, ok := p.(*syntax.BraceExp)
		if !ok {
			continue
		}
		sum := 0
		if b.Sequence {
			sum = len(sequence(b))
		} else {
			for _, e := range b.Elems {
				sum += product(e)
				if sum > maxBraces {
					break
				}
			}
		}
		if n *= sum; n > maxBraces {
			return maxBraces + 1
		}
	}
	return n
}

// sequence returns the elements of {x..y..step}, and no more than one over the
// limit.
func sequence(b *syntax.BraceExp) []string {
	from, err := strconv.ParseInt(b.Elems[0].Lit(), 10, 64)
	to, err2 := strconv.ParseInt(b.Elems[1].Lit(), 10, 64)
	chars := err != nil || err2 != nil
	if chars {
		from, to = int64(b.Elems[0].Lit()[0]), int64(b.Elems[1].Lit()[0])
	}
	step := int64(1)
	if len(b.Elems) > 2 {
		if n, err := strconv.ParseInt(b.Elems[2].Lit(), 10, 64); err == nil && n != 0 {
			step = max(n, -n)
		}
	}
	var out []string
	for n, i := from, 0; i <= maxBraces && step > 0; i++ {
		if chars {
			out = append(out, string(rune(n)))
		} else {
			out = append(out, strconv.FormatInt(n, 10))
		}
		next := n + step
		if from > to {
			next = n - step
		}
		if from <= to && (next > to || next < n) || from > to && (next < to || next > n) {
			break
		}
		n = next
	}
	return out
}

// spread expands the braces among parts.
func spread(parts []syntax.WordPart) []*syntax.Word {
	for i, p := range parts {
		b, ok := p.(*syntax.BraceExp)
		if !ok {
			continue
		}
		var middles [][]syntax.WordPart
		if b.Sequence {
			for _, s := range sequence(b) {
				middles = append(middles, []syntax.WordPart{&syntax.Lit{Value: s}})
			}
		} else {
			for _, e := range b.Elems {
				middles = append(middles, e.Parts)
			}
		}
		var out []*syntax.Word
		for _, m := range middles {
			joined := make([]syntax.WordPart, 0, len(parts)+len(m))
			joined = append(append(append(joined, parts[:i]...), m...), parts[i+1:]...)
			out = append(out, spread(joined)...)
		}
		return out
	}
	return []*syntax.Word{{Parts: parts}}
}

// readings returns the choices of values for the variables in words: one map for
// each reading of the command. A variable that has one value needs no choice.
func (w *walker) readings(list []*syntax.Word) []map[string]int {
	out := []map[string]int{nil}
	if len(w.vars) == 0 {
		return out
	}
	seen := map[string]bool{}
	for _, word := range list {
		syntax.Walk(word, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.CmdSubst, *syntax.ProcSubst:
				return false
			case *syntax.ParamExp:
				if n.Param == nil || seen[n.Param.Value] {
					return true
				}
				seen[n.Param.Value] = true
				all := w.vars[n.Param.Value]
				if len(all) < 2 || len(all)*len(out) > maxReadings {
					return true
				}
				var more []map[string]int
				for _, m := range out {
					for i := range all {
						c := map[string]int{n.Param.Value: i}
						maps.Copy(c, m)
						more = append(more, c)
					}
				}
				out = more
			}
			return true
		})
	}
	return out
}

// expander builds the arguments that one word becomes.
type expander struct {
	w     *walker
	f     frame
	at    Span
	whole bool // nothing splits it

	out     []Word
	cur     strings.Builder
	started bool // there is a current argument, be it empty
	glob    bool
	process bool
	from    *Call
	vanish  bool
	parts   int
}

func (e *expander) word(word *syntax.Word) {
	for _, p := range word.Parts {
		e.part(p, false)
	}
	if !e.whole {
		e.end()
	}
}

// end finishes the current argument.
func (e *expander) end() {
	if e.started {
		word := Word{Text: e.cur.String(), Glob: e.glob, Process: e.process, Span: e.at}
		if e.parts == 1 {
			word.From, word.Vanish = e.from, e.vanish
		}
		e.out = append(e.out, word)
	}
	e.cur.Reset()
	e.started, e.glob = false, false
}

func (e *expander) part(p syntax.WordPart, quoted bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		e.parts++
		e.started = true
		if quoted {
			e.cur.WriteString(unescape(p.Value, "$`\"\\"))
		} else {
			e.literal(p.Value)
		}
	case *syntax.SglQuoted:
		e.parts++
		e.started = true
		if p.Dollar {
			e.cur.WriteString(ansi(p.Value))
		} else {
			e.cur.WriteString(p.Value)
		}
	case *syntax.DblQuoted:
		if !(len(p.Parts) == 1 && emptyList(p.Parts[0], e)) {
			e.started = true
		}
		for _, inner := range p.Parts {
			e.part(inner, true)
		}
	case *syntax.ParamExp:
		e.parts++
		e.param(p, quoted)
	case *syntax.CmdSubst:
		e.parts++
		e.started = true
		e.from, e.vanish = e.w.only(p.Stmts), !quoted
		e.cur.WriteString(output(e.from))
	case *syntax.ProcSubst:
		e.parts++
		e.started, e.process = true, true
		e.from = e.w.only(p.Stmts)
		e.cur.WriteRune(Hole)
	case *syntax.ExtGlob:
		e.parts++
		e.started, e.glob = true, true
		e.cur.WriteString(hole)
	default: // arithmetic
		e.parts++
		e.started = true
		e.cur.WriteRune(Hole)
	}
}

// emptyList reports whether p is "$@" or "${a[@]}" without elements, which
// vanishes even in quotes.
func emptyList(p syntax.WordPart, e *expander) bool {
	param, ok := p.(*syntax.ParamExp)
	if !ok {
		return false
	}
	items, list := e.lookup(param)
	return list && len(items) == 0
}

// literal adds unquoted text.
func (e *expander) literal(s string) {
	if strings.IndexByte(s, '\\') < 0 {
		e.glob = e.glob || globs(s)
		e.cur.WriteString(s)
		return
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] != '\n' {
				e.cur.WriteByte(s[i])
			}
		case c == '*' || c == '?' || c == '[':
			e.glob = true
			e.cur.WriteByte(c)
		default:
			e.cur.WriteByte(c)
		}
	}
}

// param adds the value of a parameter, split if it is not quoted.
func (e *expander) param(p *syntax.ParamExp, quoted bool) {
	items, list := e.lookup(p)
	if quoted || e.whole {
		sep := " "
		for i, item := range items {
			if i > 0 {
				if !list || e.whole {
					e.cur.WriteString(sep)
				} else {
					e.end()
				}
			}
			if quoted || item != "" {
				e.started = true
			}
			e.cur.WriteString(item)
		}
		return
	}
	for i, item := range items {
		if i > 0 {
			e.end()
		}
		e.fields(item)
	}
}

// fields adds an unquoted value, which the shell splits at white space.
func (e *expander) fields(item string) {
	if e.w.split && item != "" {
		item = hole
	}
	for item != "" {
		if i := strings.IndexAny(item, " \t\n"); i == 0 {
			e.end()
			item = strings.TrimLeft(item, " \t\n")
			continue
		} else if i > 0 {
			e.field(item[:i])
			item = item[i:]
			continue
		}
		e.field(item)
		return
	}
}

func (e *expander) field(s string) {
	e.started = true
	e.glob = e.glob || globs(s)
	e.cur.WriteString(s)
}

// lookup returns what a parameter holds: its elements, and whether they stay
// apart in quotes.
func (e *expander) lookup(p *syntax.ParamExp) (items []string, list bool) {
	unknown := []string{hole}
	if p.Param == nil || p.Excl || p.Length || p.Width || p.Slice != nil || p.Repl != nil || p.Exp != nil || p.Names != 0 || len(p.Modifiers) > 0 || p.Flags != nil {
		return unknown, false
	}
	name := p.Param.Value
	switch {
	case name == "@" || name == "*":
		if !e.f.known {
			return unknown, name == "@"
		}
		for i, a := range e.f.args {
			if i > 0 {
				items = append(items, a.Text)
			}
		}
		return items, name == "@"
	case len(name) > 0 && name[0] >= '0' && name[0] <= '9':
		n, err := strconv.Atoi(name)
		if err != nil || !e.f.known || n == 0 && e.f.context&InFunction != 0 {
			return unknown, false
		}
		if n < len(e.f.args) {
			return []string{e.f.args[n].Text}, false
		}
		return []string{""}, false
	}
	all := e.w.vars[name]
	if len(all) == 0 {
		return unknown, false
	}
	v := all[0]
	if i, ok := e.w.choice[name]; ok {
		v = all[i]
	} else if len(all) > 1 {
		return unknown, false
	}
	if p.Index == nil {
		if len(v.items) == 0 {
			return []string{""}, false
		}
		return v.items[:1], false
	}
	index := ""
	if word, ok := p.Index.(*syntax.Word); ok {
		index = word.Lit()
	}
	if index == "@" || index == "*" {
		return v.items, index == "@"
	}
	if n, err := strconv.Atoi(index); err == nil && n >= 0 && n < len(v.items) && v.array && v.items[0] != hole {
		return v.items[n : n+1], false
	}
	return unknown, false
}

// parameters returns the positional parameters as words.
func (w *walker) parameters(f frame) []Word {
	if !f.known || len(f.args) == 0 {
		return []Word{{Text: hole}}
	}
	return f.args[1:]
}

// only returns the call that stmts are, if they are one simple command.
func (w *walker) only(stmts []*syntax.Stmt) *Call {
	if len(stmts) != 1 || stmts[0].Negated || stmts[0].Background || w.shallow {
		return nil // within another one: nobody looks that deep
	}
	w.shallow = true
	defer func() { w.shallow = false }()
	c, ok := stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(c.Args) == 0 {
		return nil
	}
	words := w.words(c.Args, frame{stdin: &Input{}})
	if len(words) == 0 {
		return nil
	}
	redirs, f := w.quietly(stmts[0].Redirs)
	return &Call{Words: words, Redirs: redirs, Stdin: f.stdin, Span: w.span(c)}
}

// quietly returns redirections without walking what stands in them, which has
// been done.
func (w *walker) quietly(list []*syntax.Redirect) ([]Redir, frame) {
	f := frame{stdin: &Input{}}
	var out []Redir
	for _, r := range list {
		if r.Hdoc == nil {
			out = append(out, Redir{Op: r.Op.String(), Target: w.target(r.Word), Span: w.span(r)})
		} else {
			f.stdin = &Input{Kind: Text, Text: w.document(r.Hdoc, quotedDelimiter(r.Word))}
		}
	}
	return out, f
}

// output returns what is known of the output of a command: all of it for echo,
// the last path component for which and its like.
func output(c *Call) string {
	if c == nil || len(c.Redirs) > 0 {
		return hole
	}
	words := c.Words
	switch name, _ := c.Name(); {
	case name == "echo" && len(words) > 1 && !strings.HasPrefix(words[1].Text, "-"):
		var texts []string
		for _, a := range words[1:] {
			if a.Glob || strings.ContainsRune(a.Text, '\\') {
				return hole
			}
			texts = append(texts, a.Text)
		}
		return strings.Join(texts, " ")
	case name == "which" && len(words) == 2, (name == "command" || name == "type") && len(words) == 3 && strings.HasPrefix(words[1].Text, "-"):
		if base, ok := words[len(words)-1].Base(); ok {
			return hole + "/" + base
		}
	}
	return hole
}

// unescape removes backslashes before the bytes in special, and escaped line
// ends.
func unescape(s, special string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			if s[i+1] == '\n' {
				i++
				continue
			}
			if strings.IndexByte(special, s[i+1]) >= 0 {
				i++
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Unescape decodes the backslash escapes of $'…', echo -e and printf.
func Unescape(s string) string { return ansi(s) }

func ansi(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		c := s[i]
		if at := strings.IndexByte("abeEfnrtv", c); at >= 0 {
			b.WriteByte("\a\b\x1b\x1b\f\n\r\t\v"[at])
			continue
		}
		switch {
		case c == 'x':
			i = number(&b, s, i+1, 16, 2, false)
		case c == 'u':
			i = number(&b, s, i+1, 16, 4, true)
		case c == 'U':
			i = number(&b, s, i+1, 16, 8, true)
		case c >= '0' && c <= '7':
			i = number(&b, s, i, 8, 3, false)
		case c == 'c' && i+1 < len(s):
			i++
			b.WriteByte(s[i] & 0x1f)
		case strings.IndexByte(`\'"?`, c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String()
}

// number decodes up to most digits from i on and returns the last place it used.
func number(b *strings.Builder, s string, i, base, most int, rune_ bool) int {
	end := i
	for end < len(s) && end < i+most {
		if _, err := strconv.ParseUint(s[end:end+1], base, 8); err != nil {
			break
		}
		end++
	}
	n, err := strconv.ParseUint(s[i:end], base, 32)
	switch {
	case err != nil:
		b.WriteByte('\\')
		if i > 0 {
			b.WriteByte(s[i-1])
		}
	case rune_ && n <= utf8.MaxRune:
		b.WriteRune(rune(n))
	default:
		b.WriteByte(byte(n))
	}
	return end - 1
}
