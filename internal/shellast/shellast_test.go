package shellast

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func parse(t *testing.T, text string) *Script {
	t.Helper()
	s, err := Parse(text, Options{})
	if err != nil {
		t.Fatalf("Parse(%q) = %v", text, err)
	}
	return s
}

// lines returns the commands of a script in normal form, assignments left out.
func lines(s *Script) []string {
	var all []string
	for _, c := range s.Calls {
		if len(c.Words) > 0 || len(c.Redirs) > 0 {
			all = append(all, c.String())
		}
	}
	return all
}

func TestParseFindsEverySimpleCommand(t *testing.T) {
	for text, want := range map[string][]string{
		"a; b && c || d | e & f":                   {"a", "b", "c", "d", "e", "f"},
		"echo $(a `b` <(c)) \"$(d)\"":              {"b", "c", "a ${…} ${…}", "d", "echo ${…} ${…}"},
		"if a; then b; elif c; then d; else e; fi": {"a", "b", "c", "d", "e"},
		"while a; do b; done; until c; do d; done": {"a", "b", "c", "d"},
		"case $(a) in $(b)) c;; *) d;; esac":       {"a", "b", "c", "d"},
		"( a ); { b; }; ! c; time d; coproc e":     {"a", "b", "c", "d", "e"},
		"[[ $(a) == b ]]; (( $(c) )); let x=$(d)":  {"a", "c", "d"},
		"cat <<EOF\n$(a)\nEOF":                     {"a", "cat"},
		"cat <<'EOF'\n$(a)\nEOF":                   {"cat"},
		"x=$(a) export y=$(b)":                     {"a", "b", "x=${…} export y=${…}"},
		"a=($(b)); echo ${x:-$(c)}":                {"b", "c", "echo ${…}"},
		"trap 'a b' EXIT; eval 'c; d' e":           {"trap 'a b' EXIT", "a b", "eval 'c; d' e", "c", "d e"},
		"a > b 2>&1 < c":                           {"a > b 2>&1 < c"},
		"> f":                                      {"> f"},
		"/usr/bin/env -i 'a b'":                    {"env -i 'a b'"},
		"time -p a; time -f %e b":                  {"a", "time -f %e b"},
	} {
		if got := lines(parse(t, text)); !slices.Equal(got, want) {
			t.Errorf("%q\n got %q\nwant %q", text, got, want)
		}
	}
}

func TestWordsAreUnquoted(t *testing.T) {
	for text, want := range map[string]string{
		`c"a"t`: "cat", `'c'at`: "cat", `\cat`: "cat", `c\at`: "cat", "ca\\\nt": "cat", `$'\x63\141\u0074'`: "cat", `$"cat"`: "cat",
		`"a\$b\"c\d"`: `a$b"c\d`, `'a\b'`: `a\b`, `$'a\tb\'c\\'`: "a\tb'c\\", `''`: "", `a\ b`: "a b", `~/x`: "~/x",
		`$'\cA'`: "\x01", `$'\e'`: "\x1b", `$'\q'`: `\q`, `$'\x'`: `\x`, `"a` + "\\\n" + `b"`: "ab",
	} {
		s := parse(t, "x "+text)
		if len(s.Calls[0].Words) != 2 || s.Calls[0].Words[1].Text != want {
			t.Errorf("%s: got %+v, want %q", text, s.Calls[0].Words, want)
		}
	}
}

func TestWordsAreExpandedAsTheShellDoes(t *testing.T) {
	for text, want := range map[string][]string{
		"x {a,b}{1,2}":                    {"x a1 a2 b1 b2"},
		"{cat,f}":                         {"cat f"},
		"x {3..1} {a..e..2} {x} {1..":     {"x 3 2 1 a c e {x} {1.."},
		"x {01..03}":                      {"x 1 2 3"},
		"c='a b'; $c d":                   {"a b d"},
		`c='a b'; "$c" d`:                 {"'a b' d"},
		"c=; $c d":                        {"d"},
		`c=; "$c" d`:                      {"'' d"},
		"c=ca; ${c}t f":                   {"cat f"},
		`a=(x 'y z'); "${a[@]}"`:          {"x 'y z'"},
		"a=(x y); ${a[1]} ${a[0]} $a":     {"y x x"},
		"a=(); x \"${a[@]}\"":             {"x"},
		"x $(echo a b) $(which go)":       {"echo a b", "which go", "x 'a b' ${…}/go"},
		"for c in a b; do $c; done":       {"a", "b"},
		"c=a; c=b; $c $c":                 {"a a", "b b"},
		"while $c; do c=a; done":          {"a"},
		"x=a; y=$x; x=$y; $x":             {"a"},
		"x=go; x+=fmt; $x":                {"go", "gofmt"},
		`f() { "$@"; }; f a b`:            {"f a b", "a b"},
		"f() { $1; g; }; g() { h; }; f a": {"f a", "a", "g", "h"},
		"f() { a; }":                      {"a"},
		"f() { shift; $1; }; f a b":       {"f a b", "shift", "${…}"},
		"f() { f; a; }; f":                {"f", "f", "f", "a", "a"},
		"IFS=x; c=axb; $c":                {"${…}"},
		"IFS=, read a <<< x; c='d e'; $c": {"IFS=, read a <<< x", "d e"},
		"read c; $c; printf -v d x; $d":   {"read c", "${…}", "printf -v d x", "${…}"},
		"${x:=a}; $x ${#y} ${z/a/b}":      {"${…}", "${…} ${…} ${…}"},
		"declare -n r=c; c=a; $c; $r":     {"declare -n r=c", "a", "${…}", "c"},
		`eval 'c=a'; $c`:                  {"eval c=a", "a"},
		"echo $((1+1))":                   {"echo ${…}"},
		"a*b 'c*d' [ e ]":                 {"a*b 'c*d' [ e ]"},
	} {
		got := lines(parse(t, text))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q\n got %q\nwant %q", text, got, want)
		}
	}
}

func TestNameIsKnownWhenItsLastComponentIs(t *testing.T) {
	for text, want := range map[string]string{
		"/bin/cat": "cat", "$(a)/bin/b": "b", `"$X"/y`: "y", "./x.sh": "x.sh", "[": "[",
		"$x": "", "c$x": "", "/bin/c?t": "", "/bin/c[a]t": "", "/*/cat": "cat", "a/$x": "", "c@(a)t": "",
	} {
		s := parse(t, text+" f")
		got, ok := s.Calls[len(s.Calls)-1].Name()
		if ok != (want != "") || ok && got != want {
			t.Errorf("%s: got %q, %v; want %q", text, got, ok, want)
		}
	}
}

func TestStandardInputIsFollowed(t *testing.T) {
	input := func(text, name string) *Input {
		t.Helper()
		for _, c := range parse(t, text).Calls {
			if n, _ := c.Name(); n == name {
				return c.Stdin
			}
		}
		t.Fatalf("%q has no %s", text, name)
		return nil
	}
	for text, want := range map[string]InputKind{
		"x": Inherited, "a | x": Pipe, "a |& x": Pipe, "x < f": File, "x <<< a": Text, "x <<E\nE": Text, "x < <(a)": Process,
		"a | { x; }": Pipe, "{ x; } < f": File, "a | while b; do x; done": Pipe, "a | (b; x)": Pipe, "a | x < f": File, "x 3< f": Inherited,
		"f() { x; }; a | f": Pipe, "b > >(x)": Pipe, "a | b; x": Inherited, "(x) <<< a": Text,
	} {
		if got := input(text, "x").Kind; got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	if in := input("echo a b | x", "x"); in.From == nil || in.From.String() != "echo a b" {
		t.Errorf("the command before a pipe: %+v", in.From)
	}
	if in := input("{ a; b; } | x", "x"); in.From != nil {
		t.Errorf("a group before a pipe has no one command: %+v", in.From)
	}
	if in := input("y=1; x <<E\na $y $z \\$w\nE", "x"); in.Text != "a 1 "+hole+" $w\n" {
		t.Errorf("here-document = %q", in.Text)
	}
}

func TestRedirectionsTellFilesFromDescriptors(t *testing.T) {
	for text, want := range map[string]string{
		"a > f": "w", "a >> f": "w", "a >| f": "w", "a &> f": "w", "a &>> f": "w", "a >& f": "w", "a <> f": "rw", "a < f": "r",
		"a 2>&1": "", "a >&2": "", "a >&-": "", "a <&3": "", "a 2>&$x": "w", "a <<< b": "", "a {x}> f": "w", "a 1>&2-": "",
	} {
		r := parse(t, text).Calls[0].Redirs[0]
		got := ""
		if r.Reads() {
			got += "r"
		}
		if r.Writes() {
			got += "w"
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestAssignmentsAreReported(t *testing.T) {
	for text, want := range map[string]string{
		"A=1 B=$x c": "A=1 B=" + hole, "export A=b": "A=b", "declare -x A='b c'": "A=b c", "A=1": "A=1", "local A=1": "A=1", `export "A=b"`: "A=b", "A=(b c)": "A=b c",
	} {
		var got []string
		for _, a := range parse(t, text).Calls[0].Assigns {
			got = append(got, a.Name+"="+a.Value)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestContextAndSpanSayWhereACommandStands(t *testing.T) {
	text := "f() { a; }; b $(c) <(d) & eval 'e'; trap 'g' EXIT"
	want := map[string]struct {
		context Context
		text    string
	}{
		"a": {InFunction, "a;"}, "b": {InBackground, "b $(c) <(d) &"}, "c": {InBackground | InSubstitution, "c"},
		"d": {InBackground | InProcess, "d"}, "e": {InEval, "eval 'e';"}, "g": {InTrap, "trap 'g' EXIT"},
	}
	found := 0
	for _, c := range parse(t, text).Calls {
		name, _ := c.Name()
		w, ok := want[name]
		if !ok {
			continue
		}
		found++
		if got := text[c.Span.Start:c.Span.End]; c.Context != w.context || got != w.text {
			t.Errorf("%s: context %b, span %q; want %b, %q", name, c.Context, got, w.context, w.text)
		}
	}
	if found != len(want) {
		t.Errorf("found %d of %d commands", found, len(want))
	}
}

func TestArgumentsOfAShellAreItsParameters(t *testing.T) {
	args := []Word{{Text: "zero"}, {Text: "one"}, {Text: "two three"}}
	for text, want := range map[string]string{
		`"$@"`: "one 'two three'", "$0 $2 $3": "zero two three", `$1 "$*"`: "one 'one two three'", "set -- a; $1": "set -- a\n${…}",
	} {
		s, err := Parse(text, Options{Args: args, Known: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(lines(s), "\n"); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestLimitsHold(t *testing.T) {
	for name, text := range map[string]string{
		"brackets":   strings.Repeat("(", 5000),
		"commands":   strings.Repeat("a;", 2000),
		"words":      "x " + strings.Repeat("{1..60} ", 100),
		"eval":       strings.Repeat("eval ", 20) + "a",
		"length":     strings.Repeat("a", MaxText+1),
		"functions":  "a(){ b; b; };b(){ c; c; };c(){ d; d; };d(){ e; e; };e(){ f; f; };f(){ g; g; };g(){ h; h; };h(){ i; i; };i(){ j; j; };a",
		"eval bytes": "x='" + strings.Repeat("a ", 2000) + "'; " + strings.Repeat(`eval "$x";`, 40),
	} {
		_, err := Parse(text, Options{})
		if _, ok := errors.AsType[*LimitError](err); !ok {
			t.Errorf("%s: got %v, want a limit", name, err)
		}
	}
	for name, text := range map[string]string{
		"brace product": "echo " + strings.Repeat("{a,b}", 24),
		"sequence":      "echo {1..9999999} {a..z}{1..99}",
		"doubling":      "a=x;" + strings.Repeat("a=$a$a;", 28) + "echo $a",
		"values":        "for x in {1..50}; do echo $x; done",
	} {
		s := parse(t, text)
		last := s.Calls[len(s.Calls)-1]
		if !last.Words[1].Computed() {
			t.Errorf("%s: got %q, want a value that is not known", name, last.String())
		}
	}
}

func TestSyntaxErrorsHaveTheirPlace(t *testing.T) {
	_, err := Parse("echo a\necho 'b", Options{})
	e, ok := errors.AsType[*SyntaxError](err)
	if !ok || e.Line != 2 || e.Col != 6 || e.Offset != 12 {
		t.Errorf("got %v %+v", err, e)
	}
}

func TestDefinitionsReadAliasFiles(t *testing.T) {
	text := `# a comment
alias a='git status' b="git log --oneline"
alias c=ls \
  d='x $HOME'
alias
alias a
unalias a
unalias -a
if true; then alias e=f; fi
[ -x y ] && alias g=h
function i { j; }
k() ( l )
{ alias m=n; }
o=$(alias p=q)
alias r="$HOME/bin/s"
`
	defs, err := Definitions(text)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range defs {
		one := []string{"alias", "unalias", "function"}[d.Kind] + " " + d.Name
		if d.Kind != Unalias {
			one += "=" + d.Text
		}
		if d.Conditional {
			one += " ?"
		}
		if d.Computed {
			one += " $"
		}
		got = append(got, one)
	}
	want := []string{
		"alias a=git status", "alias b=git log --oneline", "alias c=ls", "alias d=x $HOME", "unalias a", "unalias -a", "alias e=f ?", "alias g=h ?",
		"function i={ j; }", "function k=( l )", "alias m=n", "alias r=" + hole + "/bin/s $",
	}
	if !slices.Equal(got, want) {
		t.Errorf(" got %q\nwant %q", got, want)
	}
	if defs[2].Line != 3 || defs[3].Line != 4 || text[defs[0].Span.Start:defs[0].Span.End] != "a='git status'" {
		t.Errorf("places: %+v", defs[:4])
	}

	defs, err = Definitions("alias a=b\nalias c='d\n")
	if e, ok := errors.AsType[*SyntaxError](err); !ok || e.Line != 2 || len(defs) != 1 {
		t.Errorf("a broken file: %v, %+v", err, defs)
	}
}

func TestArgumentsAreWordsAlone(t *testing.T) {
	words, err := Arguments(`-m 'a b' --x=y *.go "c d" $HOME`)
	if err != nil {
		t.Fatal(err)
	}
	if got := Normal(words); got != `-m 'a b' --x=y *.go 'c d' ${…}` {
		t.Errorf("got %s", got)
	}
	if words[1].Span != (Span{3, 8}) {
		t.Errorf("span %+v", words[1].Span)
	}
	if words, err := Arguments(""); err != nil || len(words) != 0 {
		t.Errorf("nothing: %v %v", words, err)
	}
	for text, want := range map[string]string{
		"a; b": "another command", "a;": "ends the command", "a &": "ends the command", "a && b": "joins", "a | b": "joins", "a > f": "redirection", "a < f": "redirection",
		"$(a)": "substitution", "`a`": "substitution", "<(a)": "substitution", "$((1))": "substitution", "${a:-b}": "expansion", "a\nb": "end of the line", "a # b": "comment",
		"'a": "quote", "a <<< b": "redirection", "a 2>&1": "redirection", "${!a}": "expansion", ") b": "",
	} {
		_, err := Arguments(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	_, err = Arguments("abc; d")
	if e, ok := errors.AsType[*SyntaxError](err); !ok || e.Offset != 5 || e.Col != 6 {
		t.Errorf("place: %+v", e)
	}
}

func TestOtherShellsAreReadByTheirGrammar(t *testing.T) {
	for text, want := range map[string]string{
		"open f | lines | first 3":         "open f; |lines; |first 3",
		"^cat f; git status":               "^cat f; git status",
		"let x = (ls | length); echo $x":   "let x; ls; |length; " + hole + "; echo " + hole,
		"if true { rm x } else { mv a b }": "rm x; if true " + hole + "; mv a b; " + hole,
		"ls | each {|f| rm $f.name }":      "ls; |f; |rm " + hole + ".name; |each " + hole,
		"echo 'rm x' \"a (ls)\" # cat f":   "echo rm x a (ls)",
		`echo $"a (rm x) b"`:               "rm x; echo " + hole + "a " + hole + " b",
		"[ls rm] | length":                 "[ls rm]; |length",
		"git log out> f":                   "git log > f",
		"git log o+e>> f":                  "git log >> f",
		"echo a > b":                       "echo a > b",
	} {
		check(t, text, want, ParseNu)
	}
	for text, want := range map[string]string{
		"Get-Content f | Select-Object -First 3": "Get-Content f; |Select-Object -First 3",
		"git status; if ($x) { rm x }":           "git status; " + hole + "; rm x; if " + hole + " " + hole,
		"$x = Get-Content f":                     hole + "; Get-Content f",
		"& $cmd f":                               "& " + hole + " f",
		"& 'cat' f":                              "& cat f",
		"echo \"a $(rm x) $y `\"q`\"\" 'it''s'":  "rm x; echo a " + hole + " " + hole + ` "q" it's`,
		"git log > f":                            "git log > f",
		"git log 2>$null":                        "git log > $null",
		"npm test && rm x || ls":                 "npm test; rm x; ls",
		"echo a <# rm x #> b # c":                "echo a b",
		"echo @'\na rm\n'@":                      "echo a rm",
	} {
		check(t, text, want, ParsePowerShell)
	}
	for _, text := range []string{"echo 'a", "(ls", "ls)", "{", `"a`, "[a"} {
		if s, err := ParseNu(text); err == nil {
			t.Errorf("%q: got %q, want an error", text, lines(s))
		}
	}
}

func check(t *testing.T, text, want string, parse func(string) (*Script, error)) {
	t.Helper()
	s, err := parse(text)
	if err != nil {
		t.Errorf("%q: %v", text, err)
		return
	}
	var all []string
	for _, c := range s.Calls {
		one := ""
		if c.Stdin.Kind == Pipe {
			one = "|"
		}
		for i, w := range c.Words {
			if i > 0 {
				one += " "
			}
			one += w.Text
		}
		for _, r := range c.Redirs {
			one += " " + r.Op + " " + r.Target.Text
		}
		all = append(all, one)
	}
	if got := strings.Join(all, "; "); got != want {
		t.Errorf("%q\n got %q\nwant %q", text, got, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"a | b > c", "for x in {1..3}; do $x; done", "f() { \"$@\"; }; f a", "cat <<E\n$(a)\nE", "a=(1 2); ${a[1]}", "eval 'x=y'; $x", "{a,b}{c..d}", "$'\\x41\\u00e9'",
		"alias a='b c'", "if a; then b; fi", "[[ a =~ b ]]", "let x = (ls)", "& { Get-Content f }", "time -f x y",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := Parse(text, Options{}); err == nil {
			for _, c := range s.Calls {
				if c.Span.Start < 0 || c.Span.End > len(text) || c.Span.Start > c.Span.End || c.Stdin == nil {
					t.Errorf("%q: call %+v", text, c)
				}
				_ = c.String()
			}
		}
		_, _ = Definitions(text)
		_, _ = Arguments(text)
		_, _ = ParseNu(text)
		_, _ = ParsePowerShell(text)
	})
}
