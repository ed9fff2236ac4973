package alias

import (
	"strings"
	"testing"
)

// The specification's sample configuration, its doubled backslashes included.
func TestTheSampleConfigurationBehaves(t *testing.T) {
	b := book(t, `
alias ll='ls -lhF --color=auto'
alias gs='git status'
alias gp='git push'
alias gpc='git -C . push'
alias nuke='rm -rf /tmp/x'
alias up='sudo apt update'
alias dk='docker ps'
alias gl='git log | head'
alias chain='ls && rm x'
alias sub='ls $(rm x)'
alias sneak='ls; $X'
alias env1='LD_PRELOAD=x ls'
alias shell='bash -c "rm x"'
alias wrapped='nice ls'
alias empty=''
alias bad='ls "'
alias xalias='git -c alias.x=!rm x'
`)
	if b.rules.broken != nil || len(b.Warnings()) != len(sampleAllow)+len(sampleDeny) {
		t.Errorf("%v, %v", b.rules.broken, b.Warnings())
	}
	for name, rule := range map[string]string{
		"ll": "", "gs": "", "gp": `^git\b`, "gpc": `^git\b`, "nuke": `^rm\\b`, "up": `^sudo\\b`, "dk": `^docker\b`, "gl": `^head\b`,
		"chain": `^rm\\b`, "sub": `^rm\\b`, "sneak": "computed-name", "env1": "environment", "shell": `^bash\b`, "wrapped": `^nice\b`,
		"empty": "alias", "bad": "unparsable", "xalias": "git-command",
	} {
		a := b.Lookup(name)
		if a.Safe != (rule == "") || a.Rule != rule || (a.Reason == "") != a.Safe || (a.Next == "") != a.Safe {
			t.Errorf("%s: %+v, want rule %q", name, a.Verdict, rule)
		}
	}
	if a := b.Lookup("nuke"); !strings.Contains(a.Next, `take the pattern ^rm\\b out of aliases.deny_patterns`) {
		t.Error(a.Next)
	}
	if a := b.Lookup("dk"); !strings.Contains(a.Next, `dry run, or have a person add a pattern such as ^docker\b to aliases.allow_patterns`) {
		t.Error(a.Next)
	}
}

func TestAPatternThatDoesNotCompileAllowsNothing(t *testing.T) {
	for _, set := range []Settings{{Allow: []string{`^ls\b`, `(`}}, {Allow: []string{`^ls\b`}, Deny: []string{`^rm(`}}} {
		b := bookOf(t, set, "alias ll='ls -l'")
		a := b.Lookup("ll")
		if a.Safe || !strings.Contains(a.Reason, "does not compile") || !strings.Contains(a.Reason, "_patterns") {
			t.Errorf("%+v: %+v", set, a.Verdict)
		}
		if c, err := b.Compose("ll", "-a"); err != nil || c.Safe {
			t.Errorf("%+v, %v", c, err)
		}
		if err := NewStore(Options{}).Verify(set); err == nil {
			t.Error("verified")
		}
	}
	if err := NewStore(Options{}).Verify(Settings{Allow: sampleAllow, Deny: sampleDeny}); err != nil {
		t.Error(err)
	}
}

// A pattern about a command is not about others whose names begin with it.
func TestAWordBoundaryEndsACommand(t *testing.T) {
	b := bookOf(t, Settings{Allow: []string{`^ls\b`, `^kube`, `^docker`, `^./x\b`}}, `
alias a='ls -l' b='ls-evil' c='ls.sh x' d='kubectl get' e='docker ps' f='docker-compose ps' g='/opt/ls x' h='ls~'
`)
	for name, want := range map[string]bool{"a": true, "b": false, "c": false, "d": true, "e": true, "f": false, "g": true, "h": false} {
		if got := b.Lookup(name); got.Safe != want {
			t.Errorf("%s: %+v, want %t", got.Expansion, got.Verdict, want)
		}
	}
}

func TestWithoutPatternsNothingIsAllowed(t *testing.T) {
	if a := bookOf(t, Settings{}, "alias ll='ls -l'").Lookup("ll"); a.Safe {
		t.Error("safe")
	}
}

// A pattern that takes too long counts as a denial and never as an allowance.
func TestAPatternThatTakesTooLongFailsClosed(t *testing.T) {
	const slow = `^(?!z)(a+)+$`
	text := "alias x='" + strings.Repeat("a", 60) + "c'"
	for _, set := range []Settings{{Allow: []string{slow}}, {Allow: []string{"."}, Deny: []string{slow}}} {
		if a := bookOf(t, set, text).Lookup("x"); a.Safe || len(set.Deny) > 0 && a.Rule != slow {
			t.Errorf("%+v: %+v", set, a.Verdict)
		}
	}
}

// What a caller adds is plain words, whatever the patterns say.
func TestArgumentsAreWordsAndNothingElse(t *testing.T) {
	b := bookOf(t, Settings{Allow: []string{"."}}, `
alias ll='ls -l'
alias g='git'
alias gs='git status'
alias out='ls > /dev/null'
alias n='nice'
alias e='env'
alias b='bash -c'
alias ev='eval'
alias x='xargs'
alias f='find .'
alias fn='q() { git "$@"; }; q'
alias run='q() { "$@"; }; q'
alias fns='q() { shift; git "$@"; }; q'
alias fne='q() { eval "$1"; }; q'
alias end='ls;'
alias bg='ls &'
alias hash='ls #'
alias back='ls \'
alias group='(ls)'
alias loop='for i in 1; do ls; done'
alias set='A=1'
alias exp='export'
alias rgs='rg'
alias a='awk'
alias py='python3 -c'
alias w='watch'
alias shp='sh -c "git \$1" --'
`)
	for _, c := range []struct {
		name, args string
		safe       bool
	}{
		{"ll", "", true},
		{"ll", " -a  src ", true},
		{"ll", "~/projects", true},
		{"ll", "'a b' \"c d\" e\\ f", true},
		{"ll", "{a,b}", true},
		{"ll", "'$HOME' '`x`' '; rm x' '>' '&'", true},
		{"ll", "./*.go src/**", true},
		{"ll", "$'a\\tb'", false},
		{"ll", "'A=1' -x=1 --y=2", true},
		{"ll", "*.go", false},
		{"ll", "pus?", false},
		{"ll", "[a-z]", false},
		{"ll", "; rm x", false},
		{"ll", "a;b", false},
		{"ll", "a && b", false},
		{"ll", "a || b", false},
		{"ll", "| cat", false},
		{"ll", "a |& b", false},
		{"ll", "&", false},
		{"ll", "a & b", false},
		{"ll", "a\nrm x", false},
		{"ll", "'a\nb'", false},
		{"ll", "a\rb", false},
		{"ll", "$'a\\nb'", false},
		{"ll", "a\x00b", false},
		{"ll", "> f", false},
		{"ll", ">> f", false},
		{"ll", "2> f", false},
		{"ll", "< f", false},
		{"ll", "<<< f", false},
		{"ll", "&> f", false},
		{"ll", ">&2", false},
		{"ll", "<< EOF", false},
		{"ll", "2>&1", false},
		{"ll", "$(rm x)", false},
		{"ll", "`rm x`", false},
		{"ll", "\"$(rm x)\"", false},
		{"ll", "<(rm x)", false},
		{"ll", ">(rm x)", false},
		{"ll", "$((1))", false},
		{"ll", "${X:-$(rm x)}", false},
		{"ll", "$HOME", false},
		{"ll", "\"$HOME\"", false},
		{"ll", "${X}", false},
		{"ll", "$1", false},
		{"ll", "$@", false},
		{"ll", "$IFS", false},
		{"ll", "A=1", false},
		{"ll", "-a A+=1", false},
		{"ll", "A[0]=1", false},
		{"ll", "# x", false},
		{"ll", "a)", false},
		{"ll", "(a)", false},
		{"ll", "'a", false},
		{"ll", "\"", false},
		{"ll", "\\", true},
		{"out", "-a", true},
		{"out", "> x", false},
		{"g", "log", true},
		{"g", "-C sub log", true},
		{"g", "-c core.pager=x log", false},
		{"g", "-c alias.x='!rm x' x", false},
		{"g", "-c alias.x=push x", false},
		{"g", "--config-env=a=b log", false},
		{"g", "--exec-path=/tmp log", false},
		{"g", "-ccore.pager=x log", false},
		{"g", "switch -c topic", true},
		{"g", "config alias.x '!rm y'", false},
		{"g", "bisect run rm x", true},
		{"g", "rebase --exec 'rm x'", false},
		{"g", "submodule foreach 'rm x'", false},
		{"g", "grep -O'rm' x", false},
		{"g", "diff --output=f", false},
		{"g", "clone 'ext::sh -c x'", false},
		{"gs", "-c alias.x='!rm x'", false},
		{"gs", "-s", true},
		{"n", "ls -l", true},
		{"n", "/tmp/ls", false},
		{"n", "./ls", false},
		{"n", "-n 5 ls", true},
		{"e", "ls", true},
		{"e", "A=1 ls", false},
		{"e", "'A=1' ls", false},
		{"e", "-S 'ls; rm x'", false},
		{"exp", "'A=1'", false},
		{"exp", "A", true},
		{"b", "'ls; rm x'", false},
		{"b", "'ls > x'", false},
		{"b", "ls", true},
		{"b", "'ls -l'", false},
		{"b", "'A=1 ls'", false},
		{"b", "'ls &'", false},
		{"ev", "ls -l", true},
		{"ev", "ls '&'", false},
		{"ev", "ls ';' rm x", false},
		{"ev", "ls '>' x", false},
		{"ev", "'$X'", false},
		{"ev", "ls '$(rm x)'", false},
		{"x", "ls -l", true},
		{"x", "-I{} rm {}", false},
		{"f", "-name x", true},
		{"f", "-exec rm x ';'", false},
		{"fn", "status", true},
		{"fn", "'a; b'", true},
		{"fns", "a push", false},
		{"run", "ls -l", true},
		{"run", "/tmp/ls", false},
		{"run", "A=1 ls", false},
		{"end", "x", false},
		{"bg", "x", false},
		{"hash", "x", false},
		{"back", "x", false},
		{"group", "x", false},
		{"loop", "x", false},
		{"set", "ls", false},
		{"end", "", true},
		{"hash", "", true},
		{"group", "", true},
		{"loop", "", true},
		{"bg", "", true},
		{"rgs", "foo src", true},
		{"rgs", "'a=b'", true},
		{"rgs", "--pre rm x", false},
		{"rgs", "--pre=rm x", false},
		{"a", "'{print $1}'", true},
		{"a", `'BEGIN{system("rm x")}'`, false},
		{"a", `'{print > "f"}'`, false},
		{"py", `"print(1)"`, true},
		{"py", `"import os; os.remove('x')"`, false},
		{"w", "ls", true},
		{"w", "'ls; rm x'", false},
		{"shp", "push", false},
	} {
		got, err := b.Compose(c.name, c.args)
		if err != nil {
			t.Fatal(err)
		}
		if got.Safe != c.safe {
			t.Errorf("%s %q: safe %t (%s: %s), want %t", c.name, c.args, got.Safe, got.Rule, got.Reason, c.safe)
		}
		if !got.Safe && (got.Rule != "arguments" || !strings.HasPrefix(got.Reason, "in the arguments: ") || !strings.Contains(got.Next, "no pattern allows")) {
			t.Errorf("%s %q: %+v", c.name, c.args, got.Verdict)
		}
		if !strings.HasPrefix(got.Text, got.Alias.Resolved) || !strings.HasSuffix(got.Text, strings.Trim(c.args, " ")) {
			t.Errorf("%s %q runs %q", c.name, c.args, got.Text)
		}
	}
	if got, _ := b.Compose("ll", strings.Repeat("x ", 5000)); got.Safe {
		t.Error("any number of bytes is taken")
	}
	if got, _ := b.Compose("ll", strings.Repeat("x ", 300)); got.Safe {
		t.Error("any number of words is taken")
	}
	if got, _ := b.Compose("ll", "\xff"); got.Safe {
		t.Error("what is not UTF-8 is taken")
	}
}

// The patterns hold for what the arguments make of an alias.
func TestRulesJudgeTheComposedCommand(t *testing.T) {
	b := bookOf(t, Settings{Allow: append([]string{`^nice\b`, `^timeout\b`}, sampleAllow...), Deny: sampleDeny}, "alias g='git'\nalias n='nice'\nalias t='timeout 5'\n")
	for _, c := range []struct{ name, args, rule string }{
		{"g", "status", ""},
		{"g", "push", `^git\b`},
		{"g", "-C . push", `^git\b`},
		{"g", "--no-pager -C x reset --hard", `^git\b`},
		{"g", "'push'", `^git\b`},
		{"g", `p\ush`, `^git\b`},
		{"g", "{push,x}", `^git\b`},
		{"g", "$'\\x70ush'", `^git\b`},
		{"g", "{,} push", "arguments"},
		{"g", `{,"x"} push`, "arguments"},
		{"g", "'' push", ""},
		{"g", "log push", ""},
		{"n", "ls", ""},
		{"n", "rm x", `^rm\\b`},
		{"n", "sudo ls", `^sudo\\b`},
		{"t", "nice git push", `^git\b`},
		{"t", "curl x", `^curl\b`},
		{"t", "nice ls -l", ""},
	} {
		got, err := b.Compose(c.name, c.args)
		if err != nil || got.Rule != c.rule || got.Safe != (c.rule == "") {
			t.Errorf("%s %s: %+v, %v; want rule %q", c.name, c.args, got.Verdict, err, c.rule)
		}
	}
}
