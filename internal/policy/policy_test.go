package policy

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func builtin(t testing.TB) *Set {
	t.Helper()
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type labelled struct {
	ID, Cmd, Expect, Class, Why, Prefer string
}

func corpus(t testing.TB, file string) []labelled {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []labelled
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var l labelled
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v in %s", file, err, lines.Text())
		}
		all = append(all, l)
	}
	return all
}

func TestCorpusIsJudgedAsLabelled(t *testing.T) {
	s := builtin(t)
	for _, file := range []string{"testdata/sample.jsonl", "testdata/corpus.jsonl"} {
		for _, l := range corpus(t, file) {
			d := s.Script(l.Cmd, Bash)
			want := l.Expect
			if want == "either" {
				want = l.Prefer
			}
			if want == "" {
				continue
			}
			if got := map[bool]string{true: "deny", false: "allow"}[d.Denied]; got != want {
				t.Errorf("%s %q: got %s (%s: %s), want %s: %s", l.ID, l.Cmd, got, d.Rule, d.Reason, want, l.Why)
			}
		}
	}
}

// The corpus has enough of both kinds to mean something.
func TestCorpusIsLargeEnough(t *testing.T) {
	n := map[string]int{}
	seen := map[string]bool{}
	for _, l := range corpus(t, "testdata/corpus.jsonl") {
		n[l.Expect]++
		if seen[l.Cmd] {
			t.Errorf("%s repeats %q", l.ID, l.Cmd)
		}
		seen[l.Cmd] = true
	}
	if n["allow"] < 300 || n["deny"] < 300 {
		t.Errorf("got %v", n)
	}
}

func TestDecisionSaysWhatWhereAndWhatInstead(t *testing.T) {
	s := builtin(t)
	for text, want := range map[string]Decision{
		"go test && cat README.md | wc -l": {Rule: "read-file", Use: "async_read", Span: Span{11, 24}},
		"echo a > f":                       {Rule: "redirect-write", Use: "async_write", Span: Span{7, 10}},
		"bash -c 'cd x && ls'":             {Rule: "list-files", Use: "async_list", Span: Span{0, 20}},
		"grep -r x .":                      {Rule: "search-files", Use: "async_search", Span: Span{0, 11}},
		"sed -i s/a/b/ f":                  {Rule: "edit-file", Use: "async_update", Span: Span{0, 15}},
		"rm x":                             {Rule: "delete-file", Use: "async_delete", Span: Span{0, 4}},
		"echo 'a":                          {Rule: "unparsable", Span: Span{5, 7}},
		"LD_PRELOAD=x go test":             {Rule: "environment", Span: Span{0, 12}},
		"$x y":                             {Rule: "computed-name", Span: Span{0, 4}},
	} {
		d := s.Script(text, Bash)
		if !d.Denied || d.Rule != want.Rule || d.Use != want.Use || d.Span != want.Span || d.Level != LevelGrammar {
			t.Errorf("%q: got %+v, want %+v", text, d, want)
		}
		if d.Use != "" && !strings.Contains(d.Reason, d.Use) {
			t.Errorf("%q: the reason %q does not name %s", text, d.Reason, d.Use)
		}
		if len(d.Reason) > 220 {
			t.Errorf("%q: the reason is long: %q", text, d.Reason)
		}
	}
	if d := s.Script("go test ./...", Bash); d != (Decision{Level: LevelGrammar}) {
		t.Errorf("allowed: got %+v", d)
	}
}

func TestUserRulesSeeEachCommandOrTheRawText(t *testing.T) {
	s, err := New(Options{Rules: []Rule{
		{Name: "no-push", Pattern: `^git push\b`, Reason: "ask first", Use: "a person", Match: []string{"git push", "x && sudo git push -f"}, NotMatch: []string{"echo git push"}},
		{Pattern: `TODO`, Scope: Raw},
		{Pattern: `^npm (?!test)`, Reason: "only tests"},
		{Pattern: `> out`, Reason: "no"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"git push origin":                   "no-push",
		"/usr/bin/git push":                 "no-push",
		"true; env A=1 bash -c 'git  push'": "no-push",
		"echo git push":                     "",
		"go test # TODO":                    "TODO",
		"npm run x":                         `^npm (?!test)`,
		"npm test":                          "",
		"make > out":                        "> out",
		"cat f":                             "read-file",
	} {
		if d := s.Script(text, Bash); d.Rule != want {
			t.Errorf("%q: got %+v, want %q", text, d, want)
		}
	}
	d := s.Script("true; git push", Bash)
	if d.Reason != "ask first; use a person" || d.Span != (Span{6, 14}) {
		t.Errorf("got %+v", d)
	}
	if d := s.Script("go build # TODO x", Bash); d.Span != (Span{11, 15}) {
		t.Errorf("raw span: got %+v", d)
	}
}

func TestModesActOnTheWholeSet(t *testing.T) {
	rules := []Rule{{Pattern: "^make"}}
	for mode, want := range map[Mode][3]bool{Extend: {true, true, false}, "": {true, true, false}, Replace: {false, true, false}, Disable: {false, false, false}} {
		s, err := New(Options{Mode: mode, Rules: rules})
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range []string{"cat f", "bash -c 'make x'", "go test"} {
			if d := s.Script(text, Bash); d.Denied != want[i] {
				t.Errorf("%s %q: got %+v, want %v", mode, text, d, want[i])
			}
		}
	}
	s, _ := New(Options{Mode: Replace, Rules: rules})
	if d := s.Script("make 'x", Bash); d.Denied {
		t.Errorf("what does not parse is for the built-in rules to refuse: %+v", d)
	}
}

func TestNewRefusesWhatDoesNotHold(t *testing.T) {
	for name, o := range map[string]Options{
		"pattern": {Rules: []Rule{{Pattern: "("}}}, "mode": {Mode: "off"}, "scope": {Rules: []Rule{{Pattern: "a", Scope: "x"}}},
		"match":     {Rules: []Rule{{Pattern: "^a", Match: []string{"b"}}}},
		"not_match": {Rules: []Rule{{Pattern: "a", NotMatch: []string{"a"}}}},
	} {
		if s, err := New(o); err == nil {
			t.Errorf("%s: got %+v, want an error", name, s)
		}
	}
}

func TestRulesAgreeWithTheirExamples(t *testing.T) {
	if err := checkBuiltin(); err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		if len(r.match) == 0 && r.name != "too-complex" {
			t.Errorf("%s has no example", r.name)
		}
		if r.commands != "" && r.when == elsewhere || r.reason == "" {
			t.Errorf("%s is incomplete", r.name)
		}
	}
	for name := range filters() {
		if byCommand()[name] == nil && name != "sed" && name != "awk" {
			t.Errorf("nothing judges %s, whose command line is known", name)
		}
	}
	for name, same := range sameAs() {
		if filters()[same] == nil {
			t.Errorf("%s is read as %s, which is not known", name, same)
		}
	}
}

func TestSlowPatternDeniesWhenItTakesTooLong(t *testing.T) {
	s, err := New(Options{Mode: Replace, Rules: []Rule{{Pattern: `^(a+)+(?=$)b`}}})
	if err != nil {
		t.Fatal(err)
	}
	d := s.Script(strings.Repeat("a", 60)+"c", Bash)
	if !d.Denied || !strings.Contains(d.Reason, "too long") {
		t.Errorf("got %+v", d)
	}
}

func TestBlockedStringsAreAlwaysRefused(t *testing.T) {
	for text, want := range map[string]string{
		"rm -rf /": "rm -rf /", "rm -rf ~/x": "rm -rf ~", "rm  -rf   /": "rm -rf /", "echo x > /dev/sda": "> /dev/sd", "echo x >/dev/sda": "> /dev/sd", "dd if=x of=y": "dd if=",
		"rm -rf build": "", "echo hi": "",
	} {
		if d := Blocked(text); d.Rule != want || d.Denied != (want != "") {
			t.Errorf("%q: got %+v, want %q", text, d, want)
		}
	}
}

func TestEnvironmentOfACallerIsJudged(t *testing.T) {
	s := builtin(t)
	off, _ := New(Options{Mode: Disable})
	for _, c := range []struct {
		name, value string
		on, off     bool
	}{
		{"LD_PRELOAD", "x.so", true, true},
		{"LD_LIBRARY_PATH", "lib", true, true},
		{"DYLD_INSERT_LIBRARIES", "x", true, true},
		{"BASH_ENV", "x.sh", true, false},
		{"GIT_PAGER", "cat f", true, false},
		{"GIT_PAGER", "cat", false, false},
		{"NODE_ENV", "test", false, false},
		{"PATH", "/bin", false, false},
		{"ENV", "production", false, false},
		{"PROMPT_COMMAND", "rm x", true, false},
	} {
		if d := s.Env(c.name, c.value); d.Denied != c.on || d.Denied && d.Reason == "" {
			t.Errorf("%s=%s: got %+v, want denied %v", c.name, c.value, d, c.on)
		}
		if d := off.Env(c.name, c.value); d.Denied != c.off {
			t.Errorf("disabled, %s=%s: got %+v, want denied %v", c.name, c.value, d, c.off)
		}
	}
}

func TestOtherShellsAreJudgedByTheirGrammar(t *testing.T) {
	s := builtin(t)
	for _, c := range []struct {
		dialect Dialect
		text    string
		want    string
	}{
		{Nu, "git status | lines | first 3", ""},
		{Nu, "open f", "read-file"},
		{Nu, "http get x | save f", "write-file"},
		{Nu, "ls | where size > 1kb", "list-files"},
		{Nu, "[1 2] | each {|x| rm $x }", "delete-file"},
		{Nu, "git log | find fix | sort | uniq", ""},
		{Nu, "^cat f", "read-file"},
		{Nu, "^find .", "list-files"},
		{Nu, "cat f", "read-file"},
		{Nu, "git log out> f", "redirect-write"},
		{Nu, "git log out> /dev/null", ""},
		{Nu, "echo a > b", ""},
		{Nu, "bash -c 'cat f'", "read-file"},
		{Nu, "let x = (open f)", "read-file"},
		{Nu, "do { rm x }", "delete-file"},
		{Nu, "^$cmd f", "computed-name"},
		{Nu, "if true { git status } else { rm x }", "delete-file"},
		{Nu, "rm x =", "delete-file"},
		{Nu, "run-external 'cat' 'f'", "read-file"},
		{Nu, "'rm x'", ""},
		{Nu, "(", "unparsable"},
		{PowerShell, "git status", ""},
		{PowerShell, "Get-Content f", "read-file"},
		{PowerShell, "gc f | Select-Object -First 3", "read-file"},
		{PowerShell, "git log | Select-String fix", ""},
		{PowerShell, "Select-String fix *.cs", "search-files"},
		{PowerShell, "'a' | Out-File f", "write-file"},
		{PowerShell, "npm test > out.txt", "redirect-write"},
		{PowerShell, "npm test 2>$null", ""},
		{PowerShell, "Remove-Item -Recurse x", "delete-file"},
		{PowerShell, "if ($true) { del x }", "delete-file"},
		{PowerShell, "& $x y", "computed-name"},
		{PowerShell, "iex $x", "computed-script"},
		{PowerShell, "[IO.File]::ReadAllText('f')", "one-liner"},
		{PowerShell, `C:\Git\bin\cat.exe f`, "read-file"},
		{PowerShell, "bash -c 'rm x'", "delete-file"},
		{PowerShell, "Get-Process | Sort-Object CPU | Select -First 3", ""},
		{PowerShell, "dotnet build; npm test", ""},
		{Unknown, "cat f", "read-file"},
		{Unknown, "git log | head", ""},
		{Unknown, "git status", ""},
		{Unknown, "git log > f", "redirect-write"},
		{Unknown, "git log > /dev/null", ""},
		{Unknown, "a; rm x", "delete-file"},
	} {
		d := s.Script(c.text, c.dialect)
		level := LevelGrammar
		if c.dialect == Unknown {
			level = LevelRegex
		}
		if d.Rule != c.want || d.Denied != (c.want != "") || d.Level != level {
			t.Errorf("%s %q: got %+v, want %q", c.dialect, c.text, d, c.want)
		}
	}
	user, err := New(Options{Rules: []Rule{{Pattern: "^git push"}, {Pattern: "^open"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"git push", "^git push", "do { git push }", "open f"} {
		if d := user.Script(text, Nu); !strings.HasPrefix(d.Rule, "^") {
			t.Errorf("%q: got %+v", text, d)
		}
	}
}

func TestCommandsListsEverythingSeen(t *testing.T) {
	all, unreadable := Commands(`sudo env A=1 bash -c 'go test | tail -3' && xargs rm < f; $X`)
	if unreadable != nil {
		t.Fatal(unreadable)
	}
	var got []string
	for _, c := range all {
		got = append(got, c.Text)
	}
	want := "sudo env A=1 bash -c 'go test | tail -3'; env A=1 bash -c 'go test | tail -3'; bash -c 'go test | tail -3'; go test; tail -3; xargs rm < f; rm ${…}; ${…}"
	if strings.Join(got, "; ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), want)
	}
	if _, unreadable := Commands("echo 'a"); unreadable == nil {
		t.Error("a text that does not parse has no commands")
	}
}

// Texts that are made to cost much are answered, and mostly refused; the time is
// measured by BenchmarkHostile.
func TestHostileTextsAreAnswered(t *testing.T) {
	s := builtin(t)
	for name, text := range hostile() {
		if d := s.Script(text, Bash); d.Span.End > len(text) || d.Denied && d.Reason == "" {
			t.Errorf("%s: got %+v", name, d)
		}
	}
	for _, name := range []string{"parens", "substitution", "curly", "semicolons", "dollar", "quotes"} {
		s.Script(hostile()[name], Nu)
		s.Script(hostile()[name], PowerShell)
	}
	for _, text := range []string{strings.Repeat("(", 5000), strings.Repeat("a;", 2000), strings.Repeat("env ", 100) + "a"} {
		if d := s.Script(text, Bash); d.Rule != "too-complex" {
			t.Errorf("%.20q…: got %+v", text, d)
		}
	}
}

func FuzzScript(f *testing.F) {
	for _, l := range corpus(f, "testdata/sample.jsonl") {
		f.Add(l.Cmd)
	}
	s := builtin(f)
	user, err := New(Options{Mode: Replace, Rules: []Rule{{Pattern: "^a b$"}, {Pattern: "q(?=x)", Scope: Raw}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, d := range []Dialect{Bash, Nu, PowerShell, Unknown} {
			got := s.Script(text, d)
			if got.Denied != (got.Rule != "") || got.Denied && got.Reason == "" || got.Span.Start < 0 || got.Span.Start > got.Span.End || got.Span.End > len(text) {
				t.Errorf("%s %q: %+v", d, text, got)
			}
			user.Script(text, d)
		}
		Blocked(text)
		s.Env("PAGER", text)
	})
}
