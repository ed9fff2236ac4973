package alias

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/async-crud-mcp/async-crud-mcp/internal/policy"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shellast"
)

// Command is an alias with arguments, as it would run.
type Command struct {
	Alias *Alias
	Text  string // for bash
	Verdict
}

// Limits on what a caller may add.
const (
	maxArgs  = 8 << 10 // bytes
	maxWords = 256
)

// Compose puts arguments behind an alias and judges what would run. The error is
// ALIAS_NOT_FOUND; a command that must not run is a verdict.
func (b *Book) Compose(name, args string) (*Command, error) {
	a, err := b.Find(name)
	if err != nil {
		return nil, err
	}
	c := &Command{Alias: a, Text: a.base, Verdict: a.Verdict}
	if a.never != "" {
		c.Text = a.Expansion
	}
	args = strings.Trim(args, " \t")
	if args == "" {
		return c, nil
	}
	c.Text += " " + args
	if a.never != "" {
		return c, nil // no argument makes a difference
	}
	c.Verdict = b.rules.composed(a, args, c.Text)
	return c, nil
}

// composed judges text, which is the alias with args behind it.
func (r *Rules) composed(a *Alias, args, text string) Verdict {
	words, err := plainWords(args)
	if err != nil {
		return refused(err)
	}
	x, err := extend(a, text, words)
	if err == nil {
		err = x.check()
	}
	if err != nil {
		return refused(err)
	}
	return r.judge(x.now, &Alias{Name: a.Name, File: a.File, Function: a.Function, base: text})
}

// refused is the verdict on arguments that no rule can allow.
func refused(err error) Verdict {
	return Verdict{Rule: "arguments", Reason: "in the arguments: " + err.Error(), Next: "Give plain words, quoted where they must be; no pattern allows anything else."}
}

// plainWords reads arguments and refuses whatever is not a word that is known now.
func plainWords(args string) ([]shellast.Word, error) {
	switch {
	case len(args) > maxArgs:
		return nil, fmt.Errorf("there are %d bytes, and %d is the limit", len(args), maxArgs)
	case !utf8.ValidString(args):
		return nil, errors.New("there is something that is not UTF-8")
	case strings.ContainsFunc(args, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }):
		return nil, errors.New("there is a line end or another control character")
	}
	words, err := shellast.Arguments(args)
	if err != nil {
		return nil, err
	}
	if len(words) > maxWords {
		return nil, fmt.Errorf("there are %d words, and %d is the limit", len(words), maxWords)
	}
	for _, w := range words {
		raw := args[max(w.Span.Start, 0):min(w.Span.End, len(args))]
		switch {
		case w.Computed() || w.Process:
			return nil, fmt.Errorf("%s is computed when it runs; write what it stands for", quoted(raw))
		case w.Text == "" && strings.Contains(raw, "{"):
			return nil, fmt.Errorf("%s becomes no word at all", quoted(raw)) // the shell drops it
		case strings.ContainsFunc(w.Text, unicode.IsControl):
			return nil, fmt.Errorf("%s stands for a line end or another control character", quoted(raw))
		case assigns(raw):
			return nil, fmt.Errorf("%s is written as an assignment; quote it if it is text", quoted(raw))
		case w.Glob && !strings.Contains(w.Text[:strings.IndexAny(w.Text+"*", "*?[")], "/"):
			// A file could be named as an option or a subcommand.
			return nil, fmt.Errorf("%s can become any word; write a path before it, such as ./%s", quoted(raw), raw)
		}
	}
	return words, nil
}

// assigns reports whether text reads NAME=, NAME+= or NAME[…]=.
func assigns(text string) bool {
	name, _, ok := strings.Cut(text, "=")
	if !ok {
		return false
	}
	name = strings.TrimSuffix(name, "+")
	if i := strings.IndexByte(name, '['); i > 0 && strings.HasSuffix(name, "]") {
		name = name[:i]
	}
	for i, r := range name {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// extension is an alias with words put behind it.
type extension struct {
	alias       *Alias
	calls       []*shellast.Call
	call        *shellast.Call // the one that the words belong to
	own         int            // how many words of call are the alias's own
	added       []shellast.Word
	before, now policy.Sight
}

// extend finds the one command of text that the added words belong to: the last of
// the alias, with nothing else changed.
func extend(a *Alias, text string, added []shellast.Word) (*extension, error) {
	own, err := shellast.Parse(a.base, shellast.Options{})
	if err != nil {
		return nil, fmt.Errorf("nothing can be added, since the alias itself does not parse: %w", err)
	}
	all, err := shellast.Parse(text, shellast.Options{})
	if err != nil {
		return nil, err
	}
	x := &extension{alias: a, calls: all.Calls, added: added}
	for _, c := range all.Calls {
		x.own = len(c.Words) - len(added)
		if x.own < 1 || c.Span.End < len(text) || !slices.EqualFunc(c.Words[x.own:], added, sameWord) {
			continue
		}
		for _, o := range own.Calls {
			if o.Span.Start == c.Span.Start && o.Context == c.Context && len(o.Redirs) == len(c.Redirs) && len(o.Assigns) == len(c.Assigns) &&
				slices.EqualFunc(c.Words[:x.own], o.Words, sameWord) {
				x.call, x.before, x.now = c, policy.See(a.base), policy.See(text)
				if x.now.Unreadable != nil {
					return nil, errors.New(x.now.Unreadable.Reason)
				}
				return x, nil
			}
		}
	}
	return nil, errors.New("there are words that no command of the alias gets; call it without arguments")
}

func sameWord(a, b shellast.Word) bool { return a.Text == b.Text && a.Glob == b.Glob }

// check refuses words that do more than the words of a command do.
func (x *extension) check() error {
	for _, d := range x.now.Unseen {
		if !slices.ContainsFunc(x.before.Unseen, func(o policy.Decision) bool { return o.Rule == d.Rule && o.Reason == d.Reason }) {
			return fmt.Errorf("there is something that would run unseen: %s", d.Reason)
		}
	}
	if err := x.checkAssignments(); err != nil {
		return err
	}
	if err := x.checkGit(); err != nil {
		return err
	}
	return x.checkRuns()
}

// assigning are programs and builtins that take NAME=value among their arguments
// for an assignment.
const assigning = ` env sudo doas export declare typeset local readonly cross-env cross-env-shell systemd-run dotenv `

func (x *extension) checkAssignments() error {
	for _, c := range x.now.Commands {
		if !strings.Contains(assigning, " "+c.Name+" ") {
			continue
		}
		for _, w := range x.added {
			if assigns(w.Text) {
				return fmt.Errorf("%s would be an assignment for %s", quoted(w.Text), c.Name)
			}
		}
	}
	return nil
}

// checkGit refuses settings of git, which can make it run anything.
func (x *extension) checkGit() error {
	for at, w := range x.call.Words {
		if base, ok := w.Base(); !ok || base != "git" {
			continue
		}
		_, settings := gitSubcommand(x.call.Words[at:])
		for _, i := range settings {
			if at+i >= x.own {
				return fmt.Errorf("%s sets something that git may run; it belongs into the alias", quoted(x.call.Words[at+i].Text))
			}
		}
		for _, w := range x.added {
			key, value, _ := strings.Cut(strings.ToLower(w.Text), "=")
			if strings.HasPrefix(strings.TrimPrefix(key, "-c"), "alias.") && strings.HasPrefix(strings.TrimSpace(value), "!") {
				return fmt.Errorf("%s gives a command to git", quoted(w.Text))
			}
		}
	}
	return nil
}

// checkRuns refuses words that become commands in any other way than as the tail
// of a command line: text that a shell reads again, the value of an option.
func (x *extension) checkRuns() error {
	known := make(map[string]int)
	for _, c := range x.before.Commands {
		known[c.Text]++
	}
	tails, bodies := x.tails(), x.bodies()
	positional := usesParameters(x.alias.base)
	for _, c := range x.now.Commands {
		if positional && strings.Contains(c.Text, "${…}") {
			return fmt.Errorf("there are words that cannot be followed through the alias to %s", quoted(brief(c.Text)))
		}
		if known[c.Text] > 0 {
			known[c.Text]--
			continue
		}
		at, tail := tails[c.Text]
		switch {
		case tail && at >= x.own && strings.Contains(x.call.Words[at].Text, "/"):
			return fmt.Errorf("%s names a command by its path; name it alone", quoted(x.call.Words[at].Text))
		case !tail && !bodies[c.Text]:
			return fmt.Errorf("there is something that would run as a command of its own: %s", quoted(brief(c.Text)))
		}
	}
	return nil
}

// tails are the ends of the command line as commands, each with where it begins:
// what a wrapper such as nice or xargs runs.
func (x *extension) tails() map[string]int {
	tails := map[string]int{x.call.String(): 0}
	for i := range x.call.Words {
		words := x.call.Words[i:]
		for _, text := range []string{shellast.Normal(words), shellast.Normal(append(slices.Clip(words), shellast.Word{Text: string(shellast.Hole)}))} {
			if _, ok := tails[text]; !ok {
				tails[text] = i
			}
		}
	}
	return tails
}

// bodies are the commands of functions of the alias, with what they make of the
// words; text that is read again is not among them.
func (x *extension) bodies() map[string]bool {
	bodies := make(map[string]bool)
	for _, c := range x.calls {
		if c.Context&shellast.InFunction == 0 || c.Context&(shellast.InEval|shellast.InTrap) != 0 {
			continue
		}
		if len(c.Words) == 0 || !strings.Contains(c.Words[0].Text, "/") || strings.Contains(x.alias.base, c.Words[0].Text) {
			bodies[c.String()] = true
		}
	}
	return bodies
}

// usesParameters reports whether text has $1, $@ or another parameter that the
// words may arrive in.
func usesParameters(text string) bool {
	for rest := text; ; {
		_, after, ok := strings.Cut(rest, "$")
		if !ok {
			return false
		}
		rest = after
		if after = strings.TrimLeft(strings.TrimPrefix(after, "{"), "!#"); after != "" && strings.ContainsRune("@*0123456789", rune(after[0])) {
			return true
		}
	}
}
