package pattern

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/bmatcuk/doublestar/v4"
)

const (
	// maxGlob bounds the source of a glob. The time for one path grows with the
	// product of both lengths.
	maxGlob = 1024
	// maxAlternatives bounds what the braces of one glob may stand for.
	maxAlternatives = 1000
)

// Glob is a compiled path glob.
//
//   - ?        any characters, any one character, within a path element
//     [a-z] [!a]  one character of a set, or not of it; never a slash
//     **          standing alone between slashes: any number of elements
//     {a,b/c}     alternatives
//     \           takes * ? [ ] { } , - ! ^ and \ literally; nothing else
//
// A glob without a slash is about the last element, at any depth; a slash at the
// front keeps it at the top, one at the end changes nothing. dir/** is about dir
// itself, too. Names that begin with a dot are like any other.
//
// Paths are relative, clean and separated by slashes; "." is the top, which only
// ** is about.
type Glob struct {
	expr string
	alts []alternative
	fold bool
}

// alternative is a glob without braces.
type alternative struct {
	kind   kind
	base   bool     // about one element, at any depth
	segs   []string // the pattern, split at slashes
	plain  form
	folded form
}

// form is what an alternative compares paths with.
type form struct {
	text, tail string // what kind is about
	first      string // the first path element, where that is literal
	need       string // a literal path element, the longest
	full       string // the pattern, for the matcher
}

// kind is the shape of an alternative. Most are one of the simple ones, and these
// need no matcher.
type kind int

const (
	general kind = iota
	all          // **
	literal      // text
	tree         // text/**
	affix        // text*tail, in one element
)

// CompileGlob compiles expr. With fold, what a file system that ignores case may
// take for the same name matches as well. The error is a *[SyntaxError].
func CompileGlob(expr string, fold bool) (*Glob, error) {
	if len(expr) > maxGlob {
		return nil, tooLong(expr, maxGlob)
	}
	if err := checkGlob(expr); err != nil {
		return nil, err
	}
	texts, ok := expand(expr)
	if !ok {
		return nil, &SyntaxError{expr, strings.IndexByte(expr, '{'), fmt.Sprintf("its braces stand for more than %d paths", maxAlternatives), "use fewer, or split it into several"}
	}
	g := &Glob{expr: expr, fold: fold}
	for _, text := range texts {
		a, reason, advice := newAlternative(text)
		if reason != "" {
			return nil, &SyntaxError{expr, 0, reason, advice}
		}
		g.alts = append(g.alts, a)
	}
	return g, nil
}

// String returns the source of the glob.
func (g *Glob) String() string { return g.expr }

// Match reports whether the glob matches rel itself.
func (g *Glob) Match(rel string) bool { return g.holds((*alternative).match, rel) }

// Covers reports whether the glob matches rel or a directory that holds it.
func (g *Glob) Covers(rel string) bool { return g.holds((*alternative).covers, rel) }

func (g *Glob) holds(test func(*alternative, *form, string) bool, rel string) bool {
	for i := range g.alts {
		if a := &g.alts[i]; test(a, &a.plain, rel) {
			return true
		}
	}
	if !g.fold {
		return false
	}
	rel = Fold(rel)
	for i := range g.alts {
		if a := &g.alts[i]; test(a, &a.folded, rel) {
			return true
		}
	}
	return false
}

// Below reports whether the glob may cover something inside the directory dir.
// It may say so where in fact nothing is, never the other way round.
func (g *Glob) Below(dir string) bool {
	for i := range g.alts {
		if g.alts[i].below(dir, g.fold) {
			return true
		}
	}
	return false
}

func (a *alternative) match(f *form, rel string) bool {
	switch {
	case a.kind == all:
		return true
	case rel == ".":
		return false
	case a.base:
		return a.element(f, rel[strings.LastIndexByte(rel, '/')+1:])
	case a.kind == literal:
		return rel == f.text
	case a.kind == tree:
		return within(rel, f.text)
	default:
		return within(rel, f.first) && strings.Contains(rel, f.need) && doublestar.MatchUnvalidated(f.full, rel)
	}
}

func (a *alternative) covers(f *form, rel string) bool {
	switch {
	case a.kind == all:
		return true
	case rel == ".":
		return false
	case a.base:
		for rel != "" {
			var name string
			name, rel, _ = strings.Cut(rel, "/")
			if a.element(f, name) {
				return true
			}
		}
		return false
	case a.kind == literal || a.kind == tree:
		return within(rel, f.text)
	case !within(rel, f.first) || !strings.Contains(rel, f.need):
		return false
	}
	for end := 0; end < len(rel); {
		if next := strings.IndexByte(rel[end+1:], '/'); next >= 0 {
			end += 1 + next
		} else {
			end = len(rel)
		}
		if doublestar.MatchUnvalidated(f.full, rel[:end]) {
			return true
		}
	}
	return false
}

// element reports whether the alternative matches one path element.
func (a *alternative) element(f *form, name string) bool {
	switch a.kind {
	case literal:
		return name == f.text
	case affix:
		return len(name) >= len(f.text)+len(f.tail) && strings.HasPrefix(name, f.text) && strings.HasSuffix(name, f.tail)
	default:
		return doublestar.MatchUnvalidated(f.full, name)
	}
}

func (a *alternative) below(dir string, fold bool) bool {
	if a.base || dir == "." {
		return true
	}
	segs := a.segs
	for dir != "" && len(segs) > 0 && segs[0] != "**" {
		var name string
		name, dir, _ = strings.Cut(dir, "/")
		if !admits(segs[0], name, fold) {
			return false
		}
		segs = segs[1:]
	}
	return true
}

// admits reports whether the pattern of one element matches a name.
func admits(seg, name string, fold bool) bool {
	if doublestar.MatchUnvalidated(seg, name) {
		return true
	}
	if !fold {
		return false
	}
	name = Fold(name)
	return doublestar.MatchUnvalidated(foldCase(seg), name) || doublestar.MatchUnvalidated(Fold(seg), name)
}

// within reports whether rel is dir or inside it. "" stands for any dir.
func within(rel, dir string) bool {
	rest, ok := strings.CutPrefix(rel, dir)
	return ok && (dir == "" || rest == "" || rest[0] == '/')
}

// newAlternative takes a valid pattern without braces apart, or says what is
// wrong with it.
func newAlternative(text string) (a alternative, reason, advice string) {
	top := strings.HasPrefix(text, "/")
	text = strings.TrimSuffix(strings.TrimPrefix(text, "/"), "/")
	if text == "" {
		return a, "it is about no path", "name one, or write ** for everything"
	}
	a.segs = strings.Split(text, "/")
	for i, seg := range a.segs {
		switch {
		case seg == "":
			return a, "it has two slashes in a row", "write one"
		case seg == "." || seg == "..":
			return a, "it has the path element " + seg, "write it relative to the project, without . and .."
		case seg != "**" && strings.Contains(unescaped(seg), "**"):
			return a, "** stands beside other characters in a path element", "write **/*.x for any depth, *.x for one element"
		}
		a.segs[i] = noSlash(seg)
	}
	f := form{full: strings.Join(a.segs, "/")}
	a.base = len(a.segs) == 1 && !top && f.full != "**"
	a.kind, f.text, f.tail = shape(f.full, a.base)
	if !strings.ContainsAny(a.segs[0], meta) {
		f.first = a.segs[0]
	}
	for _, seg := range a.segs {
		if len(seg) > len(f.need) && !strings.ContainsAny(seg, meta) {
			f.need = seg
		}
	}
	a.plain = f
	a.folded = form{Fold(f.text), foldCase(f.tail), Fold(f.first), foldCase(f.need), foldCase(f.full)}
	if a.kind == affix {
		a.folded.text = foldCase(f.text) // it is the beginning of a name
	}
	return a, "", ""
}

// meta are the characters with which a pattern is not literal.
const meta = `*?[\`

// shape recognises the simple kinds.
func shape(full string, base bool) (k kind, text, tail string) {
	switch {
	case full == "**":
		return all, "", ""
	case !strings.ContainsAny(full, meta):
		return literal, full, ""
	case strings.HasSuffix(full, "/**") && !strings.ContainsAny(strings.TrimSuffix(full, "/**"), meta):
		return tree, strings.TrimSuffix(full, "/**"), ""
	case base:
		text, tail, _ = strings.Cut(full, "*")
		if !strings.ContainsAny(text+tail, meta) {
			return affix, text, tail
		}
	}
	return general, "", ""
}

// unescaped returns seg without escaped characters and sets.
func unescaped(seg string) string {
	var b strings.Builder
	for i := 0; i < len(seg); i++ {
		switch seg[i] {
		case '\\':
			i++
			b.WriteByte('x')
		case '[':
			i = closing(seg, i)
			b.WriteByte('x')
		default:
			b.WriteByte(seg[i])
		}
	}
	return b.String()
}

// noSlash makes negated sets leave out the slash, which the matcher would let
// through.
func noSlash(seg string) string {
	var b strings.Builder
	for i := 0; i < len(seg); i++ {
		b.WriteByte(seg[i])
		switch seg[i] {
		case '\\':
			i++
			b.WriteByte(seg[i])
		case '[':
			end := closing(seg, i)
			if set := seg[i+1 : end+1]; set[0] == '!' || set[0] == '^' {
				b.WriteString(set[:1] + "/" + set[1:])
			} else {
				b.WriteString(set)
			}
			i = end
		}
	}
	return b.String()
}

// closing returns where the set that opens at open ends. The set is valid.
func closing(s string, open int) int {
	i := open + 1
	if s[i] == '!' || s[i] == '^' {
		i++
	}
	for ; s[i] != ']'; i++ {
		if s[i] == '\\' {
			i++
		}
	}
	return i
}

// checkGlob finds what is wrong with the characters of a glob.
func checkGlob(expr string) error {
	fault := func(at int, reason, advice string) error { return &SyntaxError{expr, at, reason, advice} }
	if strings.HasPrefix(expr, "!") {
		return fault(0, "a glob cannot be turned around with !", `write \! for a name that begins with it`)
	}
	var braces []int
	for i := 0; i < len(expr); i++ {
		switch expr[i] {
		case 0:
			return fault(i, "it has a NUL character", "leave it out: no path has one")
		case '\\':
			if !escapes(expr, i) {
				return fault(i, "the backslash escapes nothing that needs it", `write / between path elements, \\ for the character`)
			}
			i++
		case '[':
			end, reason := checkSet(expr, i)
			if reason != "" {
				return fault(end, reason, `write [ and ] around the characters, or \[ for the character`)
			}
			i = end
		case '{':
			braces = append(braces, i)
		case '}':
			if len(braces) == 0 {
				return fault(i, "the } closes nothing", `open it with {, or write \} for the character`)
			}
			braces = braces[:len(braces)-1]
		}
	}
	if len(braces) > 0 {
		return fault(braces[0], "the { is not closed", `close it with }, or write \{ for the character`)
	}
	return nil
}

// checkSet returns where the set that opens at open ends, or what is wrong with
// it and where.
func checkSet(expr string, open int) (at int, reason string) {
	i := open + 1
	if i < len(expr) && (expr[i] == '!' || expr[i] == '^') {
		i++
	}
	for first := i; i < len(expr); i++ {
		switch expr[i] {
		case ']':
			if i == first {
				return open, "the set is empty"
			}
			return i, ""
		case '/':
			return i, "the set has a slash, which no path element has"
		case 0:
			return i, "it has a NUL character"
		case '\\':
			if !escapes(expr, i) {
				return i, "the backslash escapes nothing that needs it"
			}
			i++
		}
	}
	return open, "the [ is not closed"
}

// escapes reports whether the backslash at i stands before a character that has a
// meaning otherwise.
func escapes(expr string, i int) bool {
	return i+1 < len(expr) && strings.IndexByte(`*?[]{},-!^\`, expr[i+1]) >= 0
}

// expand returns what the braces of a valid glob stand for, unless it is too much.
func expand(expr string) (texts []string, ok bool) {
	todo := []string{expr}
	for len(todo) > 0 {
		text := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		open, parts, rest := firstBraces(text)
		if open < 0 {
			texts = append(texts, text)
		}
		for _, part := range slices.Backward(parts) {
			todo = append(todo, text[:open]+part+rest)
		}
		if len(texts)+len(todo) > maxAlternatives {
			return nil, false
		}
	}
	return texts, true
}

// firstBraces returns where the first braces of text open, what stands between
// them, split at commas, and what follows; open is -1 if there are none.
func firstBraces(text string) (open int, parts []string, rest string) {
	open = -1
	depth, from := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '[':
			i = closing(text, i)
		case '{':
			if depth == 0 {
				open, from = i, i+1
			}
			depth++
		case ',':
			if depth == 1 {
				parts = append(parts, text[from:i])
				from = i + 1
			}
		case '}':
			depth--
			if depth == 0 {
				return open, append(parts, text[from:i]), text[i+1:]
			}
		}
	}
	return -1, nil, ""
}

// Fold returns rel in the one spelling of all that a file system which ignores
// case may take for the same: in lower case, without the characters that HFS+
// ignores, and without what Windows drops at the end of a name.
func Fold(rel string) string {
	names := strings.Split(foldCase(rel), "/")
	for i, name := range names {
		short, _, _ := strings.Cut(name, ":")
		if short = strings.TrimRight(short, ". "); short != "" {
			names[i] = short
		}
	}
	return strings.Join(names, "/")
}

func foldCase(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		default:
			// By way of upper case, as ſ and K have one and are no lower case of it.
			return unicode.ToLower(unicode.ToUpper(r))
		}
	}, s)
}
