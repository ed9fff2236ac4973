// Package policy judges shell commands before they run: command in, decision with
// reasons out.
//
// The policy guides agents to the file tools and away from commands that go around
// them. It judges what was typed, word by word after parsing, not what programs do
// later; it is no boundary, the sandbox is. The built-in rules are data with
// examples, and a set that does not agree with its own examples is refused. A
// person's rules are regular expressions on each simple command, or on the raw
// text.
//
// A [Set] is immutable and safe for concurrent use; replacing one is left to the
// caller, who keeps the last good set when [New] returns an error.
package policy

import (
	"fmt"
	"strings"
	"sync"

	"github.com/async-crud-mcp/async-crud-mcp/internal/pattern"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shellast"
)

// Mode says how a person's rules stand to the built-in ones.
type Mode string

// The modes.
const (
	Extend  Mode = "extend"  // built-in rules and the person's
	Replace Mode = "replace" // the person's alone
	Disable Mode = "disable" // none
)

// Dialect is the language of a text: that of the shell which will run it.
type Dialect string

// The dialects.
const (
	Bash       Dialect = "bash" // and every POSIX shell
	Nu         Dialect = "nu"
	PowerShell Dialect = "powershell"
	Unknown    Dialect = "unknown" // no grammar: regular expressions alone
)

// The levels of judgement.
const (
	LevelGrammar = "grammar"
	LevelRegex   = "regex"
)

// Scope says what a rule's pattern is matched against.
type Scope string

// The scopes.
const (
	EachCommand Scope = "command" // each simple command in normal form
	Raw         Scope = "raw"     // the text as typed
)

// Rule is a person's rule: what matches Pattern is denied.
type Rule struct {
	Name     string // shown when it fits; empty: the pattern
	Pattern  string
	Scope    Scope // empty: EachCommand
	Reason   string
	Use      string
	Match    []string // texts it must fit
	NotMatch []string // texts it must not fit
}

// Options say what a set consists of. The zero value is the built-in rules.
type Options struct {
	Mode  Mode // empty: Extend
	Rules []Rule
}

// Span is a part of the judged text: from byte Start up to byte End.
type Span struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// Decision is a judgement with its reasons.
type Decision struct {
	Denied bool   `json:"denied"`
	Rule   string `json:"rule"`   // name or regular expression of the rule that fits
	Reason string `json:"reason"` // what is wrong and what to do instead
	Use    string `json:"use"`    // the tool to use instead, if there is one
	Span   Span   `json:"span"`   // the part of the text that it is about
	Level  string `json:"level"`  // grammar or regex
}

// Set is a compiled set of rules.
type Set struct {
	mode Mode
	user []userRule
}

type userRule struct {
	Rule
	re *pattern.Regexp
}

// New compiles a set. The error names the rule whose pattern does not compile or
// whose examples do not agree with it.
func New(o Options) (*Set, error) {
	s := &Set{mode: o.Mode}
	switch o.Mode {
	case "":
		s.mode = Extend
	case Extend, Replace, Disable:
	default:
		return nil, fmt.Errorf("mode %q: want extend, replace or disable", o.Mode)
	}
	for i, r := range o.Rules {
		re, err := pattern.Compile(r.Pattern)
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
		if r.Name == "" {
			r.Name = r.Pattern
		}
		switch r.Scope {
		case "":
			r.Scope = EachCommand
		case EachCommand, Raw:
		default:
			return nil, fmt.Errorf("rule %q: scope %q: want command or raw", r.Name, r.Scope)
		}
		u := userRule{r, re}
		if err := u.check(); err != nil {
			return nil, err
		}
		s.user = append(s.user, u)
	}
	if err := checkBuiltin(); err != nil {
		return nil, err
	}
	return s, nil
}

// check holds a rule to its examples.
func (u userRule) check() error {
	only := &Set{mode: Replace, user: []userRule{u}}
	for _, text := range u.Match {
		if !only.Script(text, Bash).Denied {
			return fmt.Errorf("rule %q does not fit its example %q", u.Name, text)
		}
	}
	for _, text := range u.NotMatch {
		if only.Script(text, Bash).Denied {
			return fmt.Errorf("rule %q fits %q, which it says it does not", u.Name, text)
		}
	}
	return nil
}

// checkBuiltin holds the built-in rules to their examples, once.
var checkBuiltin = sync.OnceValue(func() error {
	s := &Set{mode: Extend}
	for _, r := range rules {
		for _, text := range r.match {
			if d := s.Script(text, Bash); !d.Denied || d.Rule != r.name {
				return fmt.Errorf("built-in rule %s does not fit its example %q: %q does", r.name, text, d.Rule)
			}
		}
		for _, text := range r.notMatch {
			if d := s.Script(text, Bash); d.Denied {
				return fmt.Errorf("built-in rule %s: its example %q is denied by %s", r.name, text, d.Rule)
			}
		}
	}
	return nil
})

// Script judges text in the language of the shell that will run it.
func (s *Set) Script(text string, d Dialect) Decision {
	level := LevelGrammar
	if d == Unknown {
		level = LevelRegex
	}
	allowed := Decision{Level: level}
	if s.mode == Disable {
		return allowed
	}
	if denied := s.raw(text, d == Unknown); denied != nil {
		denied.Level = level
		return *denied
	}
	j := &judge{set: s, quiet: s.mode == Replace}
	var denied *Decision
	switch d {
	case Nu:
		denied = j.nu(text)
	case PowerShell:
		denied = j.powershell(text, nil)
	case Unknown:
		denied = j.unknown(text)
	default:
		denied = j.script(text, shellast.Options{}, nil)
	}
	if denied == nil {
		return allowed
	}
	denied.Level = level
	return *denied
}

// raw matches a person's rules on the raw text. Without a grammar all of them are.
func (s *Set) raw(text string, all bool) *Decision {
	for _, u := range s.user {
		if u.Scope == Raw || all {
			if d := u.match(text, Span{0, len(text)}, text); d != nil {
				return d
			}
		}
	}
	return nil
}

// match judges text by a rule. In raw text the span is that of the match.
func (u userRule) match(text string, at Span, raw string) *Decision {
	found, err := u.re.Match(text)
	if err == nil && !found {
		return nil
	}
	d := &Decision{Denied: true, Rule: u.Name, Reason: u.Reason, Use: u.Use, Span: at}
	if err != nil {
		d.Reason = "the rule's pattern took too long on this command, so it counts as a match; write the command shorter"
		return d
	}
	if text == raw {
		if spans, err := u.re.FindAll(text, 1); err == nil && len(spans) > 0 {
			d.Span = Span{spans[0].Start, spans[0].End}
		}
	}
	if d.Reason == "" {
		d.Reason = "a rule of this project or its user denies it"
	}
	if d.Use != "" && !strings.Contains(d.Reason, d.Use) {
		d.Reason += "; use " + d.Use
	}
	return d
}

// Command is a simple command that a text contains.
type Command struct {
	Name string // last path component; empty if it is not known before running
	Text string // normal form
	Span Span
}

// Commands returns every simple command that the policy sees in a text, with
// those inside wrappers, nested shells and substitutions. The decision is not nil
// if the text cannot be read at all.
func Commands(text string) ([]Command, *Decision) {
	var all []Command
	j := &judge{set: &Set{mode: Replace}, quiet: true, saw: func(c Command) { all = append(all, c) }}
	j.script(text, shellast.Options{}, nil)
	if j.unreadable != nil {
		return nil, j.unreadable
	}
	return all, nil
}

// blocked are strings that the shell tool refuses whatever the settings are.
var blocked = []string{"rm -rf /", "rm -rf ~", "> /dev/sd", "dd if="}

// Blocked refuses the few strings that the shell tool never runs, in the text as
// typed and in the normal form of each command.
func Blocked(text string) Decision {
	for _, b := range blocked {
		if at := strings.Index(text, b); at >= 0 {
			return blockedBy(b, Span{at, at + len(b)})
		}
	}
	all, _ := Commands(text)
	for _, c := range all {
		for _, b := range blocked {
			if strings.Contains(c.Text, b) {
				return blockedBy(b, c.Span)
			}
		}
	}
	return Decision{Level: LevelRegex}
}

func blockedBy(b string, at Span) Decision {
	return Decision{
		Denied: true, Rule: b, Span: at, Level: LevelRegex,
		Reason: fmt.Sprintf("contains '%s'; remove project files with async_delete", b), Use: "async_delete",
	}
}
