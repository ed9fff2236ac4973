package alias

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/async-crud-mcp/async-crud-mcp/internal/pattern"
	"github.com/async-crud-mcp/async-crud-mcp/internal/policy"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shellast"
)

func itoa(n int) string { return strconv.Itoa(n) }

func quoted(s string) string { return strconv.Quote(s) }

// Where the patterns are set.
const (
	allowKey = "aliases.allow_patterns"
	denyKey  = "aliases.deny_patterns"
)

// Rules are compiled patterns. A command is allowed if one of the first fits it
// and none of the second.
type Rules struct {
	allow, deny []rule
	broken      error // a pattern does not compile: nothing is allowed
	warnings    []Warning

	mu       sync.Mutex
	verdicts map[string]Verdict // by what runs; guarded by mu
}

type rule struct {
	text     string
	readings []*pattern.Regexp
}

// NewRules compiles patterns. It returns rules also with an error: they allow
// nothing, and say why.
func NewRules(allow, deny []string) (*Rules, error) {
	r := &Rules{verdicts: make(map[string]Verdict)}
	for _, list := range []struct {
		key   string
		texts []string
		into  *[]rule
	}{{allowKey, allow, &r.allow}, {denyKey, deny, &r.deny}} {
		for _, text := range list.texts {
			one, err := newRule(text)
			if err != nil {
				err = fmt.Errorf("%s: %w", list.key, err)
				if r.broken == nil {
					r.broken = err
				}
				continue
			}
			if len(one.readings) > 1 {
				r.warnings = append(r.warnings, Warning{File: list.key, Text: "the pattern " + text + " is also read as " + one.readings[1].String() +
					", since in single quotes YAML keeps both backslashes"})
			}
			*list.into = append(*list.into, one)
		}
	}
	return r, r.broken
}

// newRule compiles a pattern. One that was escaped once too often, as it happens
// in YAML, would look for a backslash that no command has: it gets a second
// reading.
func newRule(text string) (rule, error) {
	one := rule{text: text}
	re, err := pattern.Compile(text)
	if err == nil {
		one.readings = append(one.readings, re)
	}
	if doubled(text) {
		if again, err := pattern.Compile(strings.ReplaceAll(text, `\\`, `\`)); err == nil {
			one.readings = append(one.readings, again)
		}
	}
	if len(one.readings) == 0 {
		return rule{}, err
	}
	return one, nil
}

// doubled reports whether text has a class with two backslashes.
func doubled(text string) bool {
	for rest := text; ; {
		_, after, ok := strings.Cut(rest, `\\`)
		if !ok {
			return false
		}
		if after != "" && strings.ContainsRune("bBdDsSwW", rune(after[0])) {
			return true
		}
		rest = after
	}
}

// fits reports whether the pattern fits. unsure is the answer when matching took
// too long.
func (r rule) fits(text string, unsure bool) bool {
	return slices.ContainsFunc(r.readings, func(re *pattern.Regexp) bool {
		found, err := re.Match(text)
		return found || err != nil && unsure
	})
}

// allows is fits for a pattern that allows. One that ends where a word of letters
// ends, as ^ls\b does, is about that command and not about ls-x.
func (r rule) allows(text string) bool {
	name, _, _ := strings.Cut(text, " ")
	plain := !strings.ContainsFunc(name, func(c rune) bool { return !wordRune(c) })
	return slices.ContainsFunc(r.readings, func(re *pattern.Regexp) bool {
		found, err := re.Match(text)
		if !found || err != nil || plain {
			return found && err == nil
		}
		spans, err := re.FindAll(text, -1)
		within := func(s pattern.Span) bool {
			return s.End < len(name) && wordRune(rune(text[s.End-1])) && !wordRune(rune(text[s.End]))
		}
		return err == nil && (len(spans) == 0 || slices.ContainsFunc(spans, func(s pattern.Span) bool { return !within(s) }))
	})
}

func wordRune(c rune) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func fitting(rules []rule, text string, unsure bool) (rule, bool) {
	for _, r := range rules {
		if r.fits(text, unsure) {
			return r, true
		}
	}
	return rule{}, false
}

// maxVerdicts bounds what is remembered for the next time files are read.
const maxVerdicts = 2 * maxAliases

// verdict judges an alias without arguments.
func (r *Rules) verdict(a *Alias) Verdict {
	if a.never != "" {
		return Verdict{Rule: "alias", Reason: a.never, Next: "Have a person change the alias in " + a.File + "."}
	}
	key := a.base
	if a.Function {
		key = "()" + key
	}
	r.mu.Lock()
	v, ok := r.verdicts[key]
	r.mu.Unlock()
	if ok {
		return v
	}
	v = r.judge(policy.See(a.base), a)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.verdicts) >= maxVerdicts {
		clear(r.verdicts)
	}
	r.verdicts[key] = v
	return v
}

// ownCode are rules about code that the person who wrote the alias answers for.
// What a caller adds of it is refused elsewhere.
var ownCode = []string{"one-liner", "filter-program"}

// judge applies the rules to what was seen in the text of a.
func (r *Rules) judge(sight policy.Sight, a *Alias) Verdict {
	text := a.base
	switch {
	case r.broken != nil:
		return Verdict{Rule: "aliases", Reason: "nothing is allowed while a pattern does not compile: " + r.broken.Error(), Next: "Have a person correct the pattern."}
	case sight.Unreadable != nil:
		return Verdict{Rule: sight.Unreadable.Rule, Reason: sight.Unreadable.Reason, Next: "Have a person correct the alias in " + a.File + "."}
	}
	for _, d := range sight.Unseen {
		if !slices.Contains(ownCode, d.Rule) {
			return Verdict{Rule: d.Rule, Reason: d.Reason, Next: "No pattern can allow this; have a person change the alias."}
		}
	}
	if a.Function {
		if _, ok := fitting(r.allow, a.Name+"()", false); !ok {
			suggest := "^" + regexp.QuoteMeta(a.Name) + `\(\)`
			return Verdict{
				Rule: suggest, Reason: "it is a function, and no pattern of " + allowKey + " fits " + quoted(a.Name+"()"),
				Next: "Run it as a dry run, or have a person add the pattern " + suggest + " to " + allowKey + ".",
			}
		}
	}
	own := functionCalls(text)
	found := false
	for _, c := range sight.Commands {
		if c.Text == "" || own[c.Text] {
			continue // words that are nothing; a function, and what that runs is seen, too
		}
		if v := r.command(c); !v.Safe {
			return v
		}
		found = true
	}
	if !found {
		return Verdict{Rule: "alias", Reason: "it runs nothing", Next: "Have a person change the alias."}
	}
	return Verdict{Safe: true}
}

// command judges one simple command in each form it can be written in.
func (r *Rules) command(c policy.Command) Verdict {
	for _, form := range forms(c) {
		if d, ok := fitting(r.deny, form, true); ok {
			return Verdict{
				Rule: d.text, Reason: "the pattern " + d.text + " of " + denyKey + " fits " + quoted(brief(form)),
				Next: "Run it as a dry run, or have a person take the pattern " + d.text + " out of " + denyKey + ".",
			}
		}
		if !slices.ContainsFunc(r.allow, func(a rule) bool { return a.allows(form) }) {
			name := c.Name
			if name == "" {
				name, _, _ = strings.Cut(form, " ")
			}
			suggest := "^" + regexp.QuoteMeta(name)
			if wordRune(rune(name[len(name)-1])) {
				suggest += `\b`
			}
			return Verdict{
				Rule: suggest, Reason: "no pattern of " + allowKey + " fits " + quoted(brief(form)),
				Next: "Run it as a dry run, or have a person add a pattern such as " + suggest + " to " + allowKey + ".",
			}
		}
	}
	return Verdict{Safe: true}
}

func brief(s string) string {
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:197], "") + "…"
	}
	return s
}

// forms are the ways to write a command that patterns are matched against: that of
// git also without the options before its subcommand, so that a pattern about
// "git push" is about "git -C dir push", too.
func forms(c policy.Command) []string {
	if c.Name != "git" || !strings.HasPrefix(c.Text, "git -") {
		return []string{c.Text}
	}
	words := wordsOf(c.Text)
	sub, _ := gitSubcommand(words)
	if sub == 0 || sub >= len(words) {
		return []string{c.Text}
	}
	return []string{c.Text, shellast.Normal(append(words[:1:1], words[sub:]...))}
}

// wordsOf reads the normal form of a command again.
func wordsOf(text string) []shellast.Word {
	s, err := shellast.Parse(strings.ReplaceAll(text, "${…}", string(shellast.Hole)), shellast.Options{})
	if err != nil || len(s.Calls) == 0 {
		return nil
	}
	return s.Calls[len(s.Calls)-1].Words
}

// gitSubcommand returns where the subcommand of git stands among its words, and
// where the options before it set something that git may run.
func gitSubcommand(words []shellast.Word) (at int, settings []int) {
	for i := 1; i < len(words); i++ {
		text := words[i].Text
		name, _, given := strings.Cut(text, "=")
		switch {
		case !strings.HasPrefix(text, "-"):
			return i, settings
		case name == "-c" || name == "--config-env" || name == "--exec-path":
			settings = append(settings, i)
		case strings.HasPrefix(text, "-c") && !strings.HasPrefix(text, "--"): // -ckey=value
			settings = append(settings, i)
		}
		switch name {
		case "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--attr-source":
			if !given || len(name) == 2 {
				i++ // its value
			}
		}
	}
	return len(words), settings
}

// functionCalls are the calls of functions that a text itself defines.
func functionCalls(text string) map[string]bool {
	if !strings.Contains(text, "()") && !strings.Contains(text, "( )") && !strings.Contains(text, "function") {
		return nil
	}
	s, err := shellast.Parse(text, shellast.Options{})
	if err != nil {
		return nil
	}
	calls := make(map[string]bool)
	for _, c := range s.Calls {
		if c.Function {
			calls[c.String()] = true
		}
	}
	return calls
}
