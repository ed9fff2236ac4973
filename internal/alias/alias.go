// Package alias turns files of shell aliases into a catalogue with a verdict on
// each alias, and composes the command of a call.
//
//	files ─▶ definitions ─▶ aliases, the ones they use put in their place ─┐
//	allow and deny patterns ─▶ Rules ──────────────────────────────────────┴▶ Book
//	Book.Compose(name, arguments) ─▶ the command, and whether it may run
//
// Files are read by the grammar of the shell and never run. The verdict is on the
// composed command: every simple command in it must fit an allow pattern and no
// deny pattern, and what a caller adds is plain words, whatever the patterns say.
//
// A [Book] and its [Rules] are immutable and safe for concurrent use; so is the
// [Store], which keeps a book for each group of settings, reads files again when
// they change and exchanges whole books. Running what a book composed, asking a
// person, and the working directory are left to others.
package alias

import (
	"cmp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/schema"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shellast"
)

// Alias is one shortcut, with the verdict on it as it stands, without arguments.
type Alias struct {
	Name        string
	Expansion   string   // as its file has it; of a function, the body
	Resolved    string   // with the aliases it uses in their place
	Uses        []string // those aliases
	File        string
	Line        int
	Function    bool
	Conditional bool // its file defines it under a condition, which is not looked at
	Verdict

	text  string // what it stands for, untrimmed
	base  string // what runs, when arguments are put behind it
	never string // why no rule can allow it, or ""
}

// Verdict says whether a command may run.
type Verdict struct {
	Safe   bool
	Rule   string // pattern or rule that decides, when it is not safe
	Reason string // what is wrong
	Next   string // what would have to change
}

// Warning is something in the files that people should know.
type Warning struct {
	File    string
	Line    int // 0: the whole file
	Text    string
	Serious bool // a file could not be read as it is
}

func (w Warning) String() string {
	if w.Line == 0 {
		return w.File + ": " + w.Text
	}
	return w.File + ":" + itoa(w.Line) + ": " + w.Text
}

// Book is a catalogue at one moment.
type Book struct {
	aliases  []*Alias // by name
	byName   map[string]*Alias
	rules    *Rules
	warnings []Warning
}

// All returns the aliases in the order of their names.
func (b *Book) All() []*Alias { return slices.Clone(b.aliases) }

// Len returns how many aliases there are.
func (b *Book) Len() int { return len(b.aliases) }

// Lookup returns the alias of a name, or nil.
func (b *Book) Lookup(name string) *Alias { return b.byName[name] }

// Warnings says what of the files and patterns does not apply as written.
func (b *Book) Warnings() []Warning { return slices.Concat(b.rules.warnings, b.warnings) }

// Find returns the alias of a name. The error is ALIAS_NOT_FOUND.
func (b *Book) Find(name string) (*Alias, error) {
	if a := b.byName[name]; a != nil {
		return a, nil
	}
	if len(b.aliases) == 0 {
		return nil, fault.New(fault.AliasNotFound, "there is no alias: no file in aliases.alias_files defines one").
			With("next", "Have a person name files of aliases in aliases.alias_files.")
	}
	names := make([]string, len(b.aliases))
	for i, a := range b.aliases {
		names[i] = a.Name
	}
	if near := schema.Nearest(name, names); near != "" {
		return nil, fault.New(fault.AliasNotFound, "no alias is named %q; did you mean %q?", name, near)
	}
	return nil, fault.New(fault.AliasNotFound, "no alias is named %q", name)
}

// Changed lists the names of aliases that differ between two books.
func Changed(before, after *Book) []string {
	var names []string
	for _, a := range after.aliases {
		if old := before.byName[a.Name]; old == nil || !old.equal(a) {
			names = append(names, a.Name)
		}
	}
	for _, a := range before.aliases {
		if after.byName[a.Name] == nil {
			names = append(names, a.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (a *Alias) equal(b *Alias) bool {
	return a.Expansion == b.Expansion && a.Resolved == b.Resolved && a.File == b.File && a.Line == b.Line &&
		a.Function == b.Function && a.Conditional == b.Conditional && a.Verdict == b.Verdict
}

// ValidName reports whether name can be that of an alias here: letters, digits
// and a few signs that mean nothing to a shell.
func ValidName(name string) bool {
	other := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-.:+@%,", r)
	}
	return name != "" && len(name) <= maxName && strings.IndexFunc(name, other) < 0
}

const (
	maxName     = 128
	maxText     = 16 << 10 // bytes that an alias may stand for, once resolved
	maxUses     = 100      // aliases within aliases
	maxAliases  = 10_000
	maxWarnings = 200
)

// table is what the files define, before verdicts.
type table struct {
	byName   map[string]*Alias
	warnings []Warning
}

// gather goes through the definitions of all files in order. What comes later
// takes the place of what came before.
func gather(sources []*source, functions bool) *table {
	t := &table{byName: make(map[string]*Alias)}
	for _, s := range sources {
		if s.problem != "" {
			t.warnings = append(t.warnings, Warning{s.path, s.line, s.problem, true})
		}
		for _, d := range s.definitions {
			t.define(s.path, d, functions)
		}
	}
	return t
}

func (t *table) warn(file string, line int, text string) {
	if len(t.warnings) < maxWarnings {
		t.warnings = append(t.warnings, Warning{file, line, text, false})
	}
}

func (t *table) define(file string, d shellast.Definition, functions bool) {
	switch {
	case d.Kind == shellast.Unalias && d.Name == "-a":
		for name, a := range t.byName {
			if !a.Function {
				delete(t.byName, name)
			}
		}
		return
	case d.Kind == shellast.Unalias:
		if a := t.byName[d.Name]; a != nil && !a.Function {
			delete(t.byName, d.Name)
		}
		return
	case d.Kind == shellast.Function && !functions:
		return
	case !ValidName(d.Name):
		t.warn(file, d.Line, "the name "+quoted(shown(d.Name))+" is left out: a name is letters, digits and _ - . : + @ % ,")
		return
	case len(t.byName) >= maxAliases:
		t.warn(file, d.Line, "there are too many aliases; "+quoted(d.Name)+" is left out")
		return
	}
	a := &Alias{
		Name: d.Name, Expansion: strings.TrimSpace(shown(d.Text)), File: file, Line: d.Line,
		Function: d.Kind == shellast.Function, Conditional: d.Conditional, text: d.Text, base: strings.TrimSpace(d.Text),
	}
	if old := t.byName[d.Name]; old != nil && old.File != file {
		t.warn(file, d.Line, quoted(d.Name)+" takes the place of that in "+old.File+":"+itoa(old.Line))
	}
	switch {
	case d.Computed:
		a.never = "its text is computed when its file is read; write it in single quotes"
	case len(d.Text) > maxText:
		a.never = "it is too long"
	case a.Function:
		// The name stands for itself, so that the body gets the arguments.
		a.base = d.Name + " () " + strings.TrimSpace(d.Text) + "\n" + d.Name
	}
	t.byName[d.Name] = a
}

// shown is text with what is not known made visible.
func shown(text string) string { return strings.ReplaceAll(text, string(shellast.Hole), "${…}") }

// book gives every alias its verdict.
func (t *table) book(r *Rules) *Book {
	b := &Book{byName: t.byName, rules: r, warnings: t.warnings}
	for _, a := range t.byName {
		t.resolve(a)
	}
	for _, a := range t.byName {
		b.aliases = append(b.aliases, a)
	}
	var judges sync.WaitGroup
	for part := range slices.Chunk(b.aliases, max(64, len(b.aliases)/runtime.GOMAXPROCS(0)+1)) {
		judges.Go(func() {
			for _, a := range part {
				a.Verdict = r.verdict(a)
			}
		})
	}
	judges.Wait()
	slices.SortFunc(b.aliases, func(a, b *Alias) int { return cmp.Compare(a.Name, b.Name) })
	return b
}

// resolve puts the aliases that a uses in their place, as the shell would.
func (t *table) resolve(a *Alias) {
	a.Resolved = a.Expansion
	if a.Function || a.never != "" {
		return
	}
	e := &expansion{table: t}
	text := strings.TrimSpace(e.expand(a.text, []string{a.Name}))
	if len(e.used) == 0 && e.failed == "" {
		return
	}
	slices.Sort(e.used)
	a.Uses = slices.Compact(e.used)
	if a.never = e.failed; a.never == "" {
		a.base, a.Resolved = text, text
	}
}

// expansion is the work on one alias.
type expansion struct {
	table  *table
	used   []string
	failed string
}

// expand replaces names of aliases in command position. An alias is not expanded
// inside itself, so it ends.
func (e *expansion) expand(text string, within []string) string {
	if e.failed != "" || !e.mentions(text, within) {
		return text
	}
	script, err := shellast.Parse(text, shellast.Options{})
	if err != nil {
		return text // the verdict says so
	}
	type edit struct {
		at   shellast.Span
		text string
	}
	var edits []edit
	done := make(map[int]bool)
	for _, c := range script.Calls {
		if c.Context&(shellast.InEval|shellast.InTrap) != 0 {
			continue // expanded when it is read, which the spans do not tell
		}
		for _, w := range c.Words {
			name := w.Text
			literal := w.Span.End <= len(text) && text[w.Span.Start:w.Span.End] == name
			if !literal || e.alias(name) == nil || slices.Contains(within, name) {
				break
			}
			if !done[w.Span.Start] {
				done[w.Span.Start] = true
				edits = append(edits, edit{w.Span, e.inner(name, within)})
			}
			if last := e.table.byName[name].text; !strings.HasSuffix(last, " ") && !strings.HasSuffix(last, "\t") {
				break // else the next word may be an alias, too
			}
		}
	}
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(b.at.Start, a.at.Start) })
	for _, d := range edits {
		text = text[:d.at.Start] + d.text + text[d.at.End:]
	}
	if len(text) > maxText {
		e.failed = "the aliases it uses make it too long"
	}
	return text
}

func (e *expansion) inner(name string, within []string) string {
	a := e.alias(name)
	switch {
	case a.never != "" && len(a.Uses) == 0: // of its own text
		e.failed = "it uses " + quoted(name) + ": " + a.never
	case len(e.used) >= maxUses:
		e.failed = "it uses aliases too many times"
	}
	e.used = append(e.used, name)
	return e.expand(e.table.byName[name].text, append(slices.Clip(within), name))
}

// alias returns the alias of a name; functions are found when they are called.
func (e *expansion) alias(name string) *Alias {
	if a := e.table.byName[name]; a != nil && !a.Function {
		return a
	}
	return nil
}

// mentions reports whether a word of text is the name of an alias, so that most
// texts need not be parsed.
func (e *expansion) mentions(text string, within []string) bool {
	other := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-.:+@%,", r)
	}
	for word := range strings.FieldsFuncSeq(text, other) {
		if e.alias(word) != nil && !slices.Contains(within, word) {
			return true
		}
	}
	return false
}
