//go:build unix

package alias

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/policy"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shellast"
)

// oracle is a real bash whose programs do nothing but note that they were started
// and with which words.
type oracle struct {
	t           testing.TB
	bin, dir    string
	record      string
	book        *Book
	ran, denied int
}

const oracleAliases = `
alias ll='ls -l'
alias g='git'
alias gs='git status'
alias gl='git log --oneline | grep fix'
alias n='nice'
alias t='timeout 5 nice'
alias fn='q() { git "$@"; }; q'
alias one='q() { git log "$1"; }; q'
alias out='ls > /dev/null'
alias b='sh -c'
alias ev='eval'
alias e='env'
alias x='xargs'
alias f='find .'
alias two='ls; cat'
alias sub='cat $(git log)'
`

// The programs there are, and those that the rules allow.
const (
	programs = "ls git cat grep nice timeout sh env xargs find rm touch evil"
	allowed  = "ls git cat grep nice timeout sh env xargs find eval"
)

func newOracle(t testing.TB) *oracle {
	t.Helper()
	base := t.TempDir()
	o := &oracle{t: t, bin: filepath.Join(base, "bin"), dir: filepath.Join(base, "dir"), record: filepath.Join(base, "record")}
	for _, dir := range []string{o.bin, o.dir} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// One write each, since programs of a pipe run side by side.
	stub := "#!/bin/bash\nprintf '%s\\1' \"${0##*/}\" \"$@\" $'\\2' >>\"$RECORD\"\n"
	for name := range strings.FieldsSeq(programs) {
		if err := os.WriteFile(filepath.Join(o.bin, name), []byte(stub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"push", "a b", "-x", "evil"} { // what a glob could become
		write(t, filepath.Join(o.dir, name), "")
	}
	var allow []string
	for name := range strings.FieldsSeq(allowed) {
		allow = append(allow, "^"+name+`\b(?!\s+push)`)
	}
	o.book = bookOf(t, Settings{Allow: allow, Deny: []string{`^rm\b`}}, oracleAliases)
	for _, a := range o.book.All() {
		if !a.Safe {
			t.Fatalf("%s is not safe: %s", a.Name, a.Reason)
		}
	}
	return o
}

// try composes a command and, if the verdict lets it, has the shell run it: no
// program may be started, and no word be given to one, that the verdict did not
// know; and no file may come to be.
func (o *oracle) try(name, args string) {
	o.t.Helper()
	c, err := o.book.Compose(name, args)
	if err != nil {
		o.t.Fatal(err)
	}
	if !c.Safe {
		o.denied++
		return
	}
	o.ran++
	if err := os.WriteFile(o.record, nil, 0o600); err != nil {
		o.t.Fatal(err)
	}
	before := o.files()
	cmd := exec.Command("bash", "-c", c.Text)
	cmd.Dir = o.dir
	cmd.Env = []string{
		"PATH=" + o.bin, "HOME=/home/nobody", "RECORD=" + o.record, "EMPTY=", "EVIL=evil",
		"BASH_FUNC_command_not_found_handle%%=() { printf '%s\\1' \"$@\" $'\\2' >>\"$RECORD\"; }",
	}
	cmd.Stdin = nil
	_ = cmd.Run() // a command may fail; what ran is what counts
	if after := o.files(); !slices.Equal(before, after) {
		o.t.Fatalf("%s %q: the directory has %q, had %q", name, args, after, before)
	}
	raw, err := os.ReadFile(o.record)
	if err != nil {
		o.t.Fatal(err)
	}
	seen := make(map[string]bool)
	guess := false // a word that the shell replaces
	for _, k := range policy.See(c.Text).Commands {
		seen[strings.TrimSuffix(k.Text, " > /dev/null")] = true
		guess = guess || strings.ContainsAny(k.Text, "*?[~") || strings.Contains(k.Text, "${…}")
	}
	for line := range bytes.SplitSeq(raw, []byte("\x01\x02\x01")) {
		if len(line) == 0 {
			continue
		}
		var words []shellast.Word
		for word := range strings.SplitSeq(string(line), "\x01") {
			words = append(words, shellast.Word{Text: word})
		}
		program := words[0].Text
		if !slices.Contains(strings.Fields(allowed), program) {
			o.t.Fatalf("%s %q ran %s, which no rule allows", name, args, program)
		}
		if text := shellast.Normal(words); !guess && !seen[text] {
			o.t.Fatalf("%s %q ran %q; the verdict was about %v", name, args, text, seen)
		}
		if program == "git" && len(words) > 1 && words[1].Text == "push" {
			o.t.Fatalf("%s %q ran git push", name, args)
		}
	}
}

func (o *oracle) files() []string {
	entries, err := os.ReadDir(o.dir)
	if err != nil {
		o.t.Fatal(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// fragments are what attempts to get more out of an alias are made of.
var fragments = []string{
	"status", "push", "-l", "--", "-C", "-c", "a", "b c", "log", "'a b'", "\"x y\"", "'", "\"", "\\", "\\ ", "$", "$HOME", "$EVIL", "${EVIL}", "$(evil)", "`evil`", "<(evil)", "$((1))", "$'p\\x75sh'", "$'\\n'", "$\"x\"",
	";", "&", "&&", "||", "|", "|&", ">", ">>", "<", "<<<", "<<", ">&2", "2>", "&>", "out", "\n", "\r", "\t", "#", "(", ")", "{", "}", "{a,b}", "{push,x}", "{1..3}", "!", "!!", "=", "A=1", "A+=1", "alias.x=!evil", "core.pager=evil",
	"*", "?", "pus?", "./*", "[a]", "~", "~/x", "~root", "evil", "rm", "sh", "eval", "env", "exec", "xargs", "-exec", "{}", "+", "\\;", "';'", "'& evil'", "'$(evil)'", "'`evil`'", "'> out'", "\"$(evil)\"", "\"`evil`\"",
	"--pre", "-S", "-u", "é", "\u00a0", "\u2028", "\u3000", "…", "\x01", "\x7f", "\xff", "-n", "5", "/bin/ls", "./evil", "do", "done", "then", "fi", "function", "f()", "[[", "]]", "((", "))", "time", "coproc",
}

func attempt(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(5) {
		if b.Len() > 0 && r.IntN(3) > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(fragments[r.IntN(len(fragments))])
	}
	return b.String()
}

func TestNothingOutsideTheVerdictEverRuns(t *testing.T) {
	o := newOracle(t)
	names := o.book.All()
	for _, args := range fragments {
		for _, a := range names {
			if a.Name == "g" || a.Name == "ev" || a.Name == "fn" {
				o.try(a.Name, args)
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	count := 1500
	if os.Getenv("ACM_STRESS") != "" {
		count = 30_000
	}
	for range count {
		o.try(names[r.IntN(len(names))].Name, attempt(r))
	}
	t.Logf("%d ran, %d were refused", o.ran, o.denied)
	if o.ran < 100 || o.denied < 800 {
		t.Errorf("%d ran, %d were refused; the attempts show too little", o.ran, o.denied)
	}
}

func FuzzArguments(f *testing.F) {
	o := newOracle(f)
	for _, args := range fragments {
		f.Add("g", args)
		f.Add("ev", args)
	}
	r := rand.New(rand.NewPCG(3, 4))
	names := o.book.All()
	for range 50 {
		f.Add(names[r.IntN(len(names))].Name, attempt(r))
	}
	f.Fuzz(func(t *testing.T, name, args string) {
		if o.book.Lookup(name) == nil {
			return
		}
		o.t = t
		o.try(name, args)
	})
}

// Files of aliases are anybody's text: reading them ends, and what is safe parses.
func FuzzFile(f *testing.F) {
	f.Add("alias a='b' b=\"a c\"\nunalias a\nf() { a; }\nalias c='c c; d' d=$(x)")
	f.Add(oracleAliases)
	f.Fuzz(func(t *testing.T, text string) {
		defs, err := shellast.Definitions(text)
		r, _ := NewRules([]string{"."}, nil)
		b := gather([]*source{{path: "f", definitions: defs}}, true).book(r)
		for _, a := range b.All() {
			if !ValidName(a.Name) {
				t.Errorf("%q is a name (%v)", a.Name, err)
			}
			if _, err := shellast.Parse(a.base, shellast.Options{}); a.Safe && err != nil {
				t.Errorf("%q is safe and does not parse: %v", a.base, err)
			}
		}
	})
}
