package alias

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
)

// write makes a file of aliases.
func write(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// book reads texts as files with the patterns of the seed's sample.
func book(t testing.TB, texts ...string) *Book {
	t.Helper()
	return bookOf(t, Settings{Allow: sampleAllow, Deny: sampleDeny}, texts...)
}

func bookOf(t testing.TB, set Settings, texts ...string) *Book {
	t.Helper()
	dir := t.TempDir()
	for i, text := range texts {
		set.Files = append(set.Files, write(t, filepath.Join(dir, "file"+itoa(i+1)), text))
	}
	return NewStore(Options{}).Book(set)
}

// The patterns of the specification's sample, as YAML in single quotes gives them.
var (
	sampleAllow = []string{`^ls\\b`, `^cat\\b`, `^git\\b(?!\\s+(push|reset|rebase|clean))`, `^grep\\b`, `^rg\\b`}
	sampleDeny  = []string{`^rm\\b`, `^dd\\b`, `^shutdown\\b`, `^reboot\\b`, `^sudo\\b`}
)

func warnings(b *Book) string {
	var texts []string
	for _, w := range b.warnings {
		texts = append(texts, filepath.Base(w.File)+":"+itoa(w.Line)+": "+w.Text)
	}
	return strings.Join(texts, "\n")
}

func TestFilesAreReadByTheGrammarOfTheShell(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"single quotes":          {"alias gs='git status'", "gs=git status"},
		"double quotes":          {`alias gs="git status"`, "gs=git status"},
		"no quotes":              {`alias g=git`, "g=git"},
		"escapes":                {`alias a=ls\ -l b="say \"hi\""`, `a=ls -l; b=say "hi"`},
		"a quote in quotes":      {`alias k='it'\''s'`, "k=it's"},
		"ANSI quotes":            {`alias k=$'a\'b'`, "k=a'b"},
		"mixed quotes":           {`alias k='a '"b "c`, "k=a b c"},
		"several on a line":      {`alias a='1' b="2" c=3; alias d=4`, "a=1; b=2; c=3; d=4"},
		"comments":               {"# alias no='x'\nalias a='1' # alias b='2'\n  alias c='#3'", "a=1; c=#3"},
		"white space":            {"\t alias   a='  ls  '  \r\nalias b=2\r\n", "a=ls; b=2"},
		"continuation":           {"alias a=\\\n'1' \\\n  b=2", "a=1; b=2"},
		"lines in quotes":        {"alias a='ls\npwd'", "a=ls\npwd"},
		"unalias":                {"alias a=1 b=2 c=3\nunalias a c", "b=2"},
		"unalias all":            {"alias a=1 b=2\nunalias -a\nalias c=3", "c=3"},
		"later lines win":        {"alias a=1\nalias a=2", "a=2"},
		"questions define none":  {"alias\nalias -p\nalias a", ""},
		"after --":               {"alias -- -='cd -' ..='cd ..'", "-=cd -; ..=cd .."},
		"conditions are skipped": {"if [ -x /usr/bin/dircolors ]; then\n  alias ls='ls --color=auto'\nfi", "ls=ls --color=auto"},
		"other text":             {"export PATH=$PATH:x\nPS1='\\u$ '\nf() { alias x=1; }\nalias a=1", "a=1"},
		"computed":               {`alias a="ls $HOME"`, "a=ls ${…}"},
	} {
		b := book(t, c.file)
		var got []string
		for _, a := range b.All() {
			got = append(got, a.Name+"="+a.Expansion)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: got %q, want %q", name, strings.Join(got, "; "), c.want)
		}
	}
}

func TestLaterFilesOverrideEarlierWithAWarning(t *testing.T) {
	b := book(t, "alias ll='ls -l'\nalias only='ls'\n", "\nalias ll='ls -la'\n")
	ll := b.Lookup("ll")
	if ll.Expansion != "ls -la" || filepath.Base(ll.File) != "file2" || ll.Line != 2 {
		t.Errorf("ll is %+v", ll)
	}
	if got := warnings(b); !strings.HasPrefix(got, `file2:2: "ll" takes the place of that in `) || !strings.HasSuffix(got, "file1:1") {
		t.Errorf("warnings %q", got)
	}
	if only := b.Lookup("only"); filepath.Base(only.File) != "file1" || only.Line != 2 {
		t.Errorf("provenance of only: %+v", only)
	}
}

func TestBadNamesAreRejectedByName(t *testing.T) {
	b := book(t, `alias 'a b'=ls 'x;y'=ls 'c$d'=ls 'e/f'=ls 'g|h'=ls '*'=ls ok=ls '\i'=ls`)
	if b.Len() != 1 || b.Lookup("ok") == nil {
		t.Errorf("%d aliases", b.Len())
	}
	for _, name := range []string{`"a b"`, `"x;y"`, `"c$d"`, `"e/f"`, `"g|h"`, `"*"`, `"\\i"`} {
		if !strings.Contains(warnings(b), "file1:1: the name "+name+" is left out") {
			t.Errorf("no warning about %s:\n%s", name, warnings(b))
		}
	}
}

func TestAFileThatIsMissingOrBrokenIsAWarning(t *testing.T) {
	dir := t.TempDir()
	broken := write(t, filepath.Join(dir, "broken"), "alias a='ls'\nalias b='git\n")
	b := NewStore(Options{}).Book(Settings{Files: []string{filepath.Join(dir, "none"), broken, dir}, Allow: sampleAllow})
	if b.Lookup("a") == nil || b.Len() != 1 {
		t.Errorf("aliases: %v", b.All())
	}
	got := warnings(b)
	for _, want := range []string{"none:0: there is no such file", "broken:2: it does not parse: line 2", "aliases before that place count", "it cannot be read"} {
		if !strings.Contains(got, want) {
			t.Errorf("warnings lack %q:\n%s", want, got)
		}
	}
}

func TestNestedAliasesAreResolvedAsTheShellDoes(t *testing.T) {
	b := book(t, `
alias ls='ls --color=auto'
alias ll='ls -l'
alias lll='ll -a | ll'
alias g='git '
alias st='status'
alias gst='g st'
alias quoted='\ll; "ll"'
alias arg='cat ll'
alias inner='cat $(ll)'
alias a='b x'
alias b='c y'
alias c='a z'
alias grow='grow2; grow2'
`)
	for name, want := range map[string]string{
		"ls": "ls --color=auto", "ll": "ls --color=auto -l", "lll": "ls --color=auto -l -a | ls --color=auto -l",
		"gst": "git  status", "quoted": `\ll; "ll"`, "arg": "cat ll", "inner": "cat $(ls --color=auto -l)",
		"a": "a z y x", "b": "b x z y", "c": "c y x z",
	} {
		if a := b.Lookup(name); a.Resolved != want {
			t.Errorf("%s stands for %q, want %q", name, a.Resolved, want)
		}
	}
	if a := b.Lookup("lll"); !slices.Equal(a.Uses, []string{"ll", "ls"}) || a.Expansion != "ll -a | ll" || !a.Safe {
		t.Errorf("lll: %+v", a)
	}
	if a := b.Lookup("ls"); !a.Safe || a.Uses != nil {
		t.Errorf("ls: %+v", a)
	}
}

func TestAliasesThatGrowWithoutEndAreUnsafe(t *testing.T) {
	text := "alias a0='ls'\n"
	for i := range 30 {
		text += "alias a" + itoa(i+1) + "='a" + itoa(i) + "; a" + itoa(i) + "; a" + itoa(i) + "'\n"
	}
	b := book(t, text)
	if a := b.Lookup("a30"); a.Safe || a.Rule != "alias" {
		t.Errorf("a30: %+v", a.Verdict)
	}
	if a := b.Lookup("a3"); !a.Safe {
		t.Errorf("a3: %+v", a.Verdict)
	}
}

func TestFunctionsAreBehindTheirOwnSwitch(t *testing.T) {
	const file = "deploy () {\n  git \"$@\"\n}\nalias gs='git status'\nfunction two { git log; }\n"
	if b := book(t, file); b.Len() != 1 {
		t.Errorf("functions are there without the switch: %v", b.All())
	}
	b := bookOf(t, Settings{Functions: true, Allow: sampleAllow, Deny: sampleDeny}, file)
	f := b.Lookup("deploy")
	if f == nil || !f.Function || f.Safe || f.Rule != `^deploy\(\)` || !strings.Contains(f.Next, `add the pattern ^deploy\(\)`) || b.Lookup("two") == nil {
		t.Fatalf("deploy: %+v", f)
	}
	b = bookOf(t, Settings{Functions: true, Allow: append([]string{`^deploy\(\)`}, sampleAllow...), Deny: sampleDeny}, file)
	for args, want := range map[string]bool{"status": true, "push": false, "-C . push": false, "status; rm x": false, "log --oneline": true} {
		c, err := b.Compose("deploy", args)
		if err != nil || c.Safe != want {
			t.Errorf("deploy %s: %+v, %v; want safe %t", args, c, err, want)
		}
	}
	if c, _ := b.Compose("deploy", "status"); c.Text != "deploy () {\n  git \"$@\"\n}\ndeploy status" {
		t.Errorf("runs %q", c.Text)
	}
	if c, _ := b.Compose("two", ""); c.Safe {
		t.Error("two is safe without a pattern for it")
	}
}

func TestUnknownAliasesAreToldWithTheNearest(t *testing.T) {
	b := book(t, "alias status='git status'")
	_, err := b.Compose("statsu", "")
	if fault.CodeOf(err) != fault.AliasNotFound || !strings.Contains(err.Error(), `did you mean "status"`) {
		t.Error(err)
	}
	if _, err := book(t, "").Compose("x", ""); fault.CodeOf(err) != fault.AliasNotFound || !strings.Contains(err.Error(), "aliases.alias_files") {
		t.Error(err)
	}
}
