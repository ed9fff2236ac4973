package snippet

import (
	"fmt"
	"strings"
	"testing"
)

func TestFindNamesWhatReachesFiles(t *testing.T) {
	for _, c := range []struct {
		lang Lang
		code string
		want string // part of the finding; "" for none
	}{
		{Python, "print(open('f').read())", "open"},
		{Python, "print('open (the) file', \"# no comment\")", ""},
		{Python, "x = 1 # open('f')", ""},
		{Python, "print(f'{open(\"f\").read()} open')", "open"},
		{Python, "print(f'port open {p}')", ""},
		{Python, "'''open('f')'''; print(1)", ""},
		{Python, "import os.path, subprocess", "subprocess"},
		{Python, "import json\ncode = 1", ""},
		{Python, "from app import glob_view", ""},
		{Python, "import sys; sys.stdin.read(); open(0).read()", ""},
		{Python, "import os; os.environ['x']", ""},
		{Python, "import os; os . remove('x')", "remove"},
		{Python, "urlopen('http://x')", ""},
		{Python, "urlopen('file:///x')", "file:"},
		{Python, "model.eval(); re.compile('x')", ""},
		{Python, "e = eval", "eval"},
		{Node, "console.log('fs')", ""},
		{Node, "fs.readFileSync('x')", "fs"},
		{Node, "require('fs').readFileSync(0)", ""},
		{Node, "require(`child_process`)", "child_process"},
		{Node, "require('./x.json')", ""},
		{Node, "require(x)", "computed"},
		{Node, "require('a' + 'b')", "computed"},
		{Node, "const r = require; r('x')", "computed"},
		{Node, "import('./x.mjs')", ""},
		{Node, "`${fs.rmSync('x')}`", "fs"},
		{Node, "/a/.exec('b')", ""},
		{Perl, "s/open/close/", ""},
		{Perl, "open(F, 'x')", "open"},
		{Perl, "print <STDIN>", ""},
		{Perl, "print <*.c>", "*.c"},
		{Perl, "eval { die }", ""},
		{Ruby, "puts \"#{File.read('x')}\"", "File.read"},
		{Ruby, "puts 'File.read'", ""},
		{Ruby, "puts File.basename('x')", ""},
		{PHP, "echo strlen('file(x)');", ""},
		{PHP, "$f('x');", "$f"},
		{Lua, "io.write(1)", ""},
		{Lua, "io.open('x')", "io.open"},
		{R, "sessionInfo()", ""},
		{R, "readLines('x')", "readLines"},
		{Julia, "println(1)", ""},
		{Julia, "rm(\"x\")", "rm"},
		{Tcl, "puts 1", ""},
		{Tcl, "puts [open f]", "open"},
		{Lisp, "(+ 1 2)", ""},
		{Lisp, "(slurp \"f\")", "slurp"},
		{JVM, "println 1", ""},
		{JVM, "new File('x')", "File"},
		{BEAM, "IO.puts 1", ""},
		{BEAM, "File.read!(\"x\")", "File"},
		{SQL, "select 1", ""},
		{SQL, ".shell ls", "shell"},
		{SQL, "select readfile('x')", "readfile"},
		{SQL, `\! ls`, "!"},
		{"", "open('x')", ""},
	} {
		got := Find(c.lang, c.code)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s %q: got %q, want %q", c.lang, c.code, got, c.want)
		}
	}
}

func TestFindKeepsFindingsShort(t *testing.T) {
	if got := Find(Python, "os."+"exec"+strings.Repeat("x", 500)); len(got) > 60 {
		t.Errorf("got %d bytes", len(got))
	}
}

func TestAwkEffects(t *testing.T) {
	for code, want := range map[string]string{
		`{print $1}`: "", `$3 > 5`: "", `{ if ($1 > 2) print }`: "", `{print ($1 > 2)}`: "", `/a>b/ {print}`: "", `{print "a > b"}`: "", `{ x = $1 / 2; print x }`: "",
		`{print > "f"}`: "file f", `{print >> "f"}`: "file f", `{printf "%s", $0 > "f"}`: "file f", `{print > $1}`: "computed print >", `{print > ("f" NR)}`: "computed print >",
		`{print | "sort -u"}`: "run sort -u", `{print | cmd}`: "computed print |", `BEGIN{while((getline l < "f")>0) print l}`: "file f", `{getline < $1}`: "computed getline <",
		`BEGIN{"date" | getline d}`: "run date", `BEGIN{c="x"; c | getline}`: "computed | getline", `{getline; print}`: "", `BEGIN{system("ls")}`: "run ls",
		`BEGIN{system("ls " x)}`: "computed system(", `BEGIN{ARGV[1]="f"; ARGC=2}`: "computed ARGC", `{print ARGV[1]}`: "", `@include "x"`: "computed @include",
		`# print > "f"`: "", `{print "a" # > "f"
}`: "", `a == b || c`: "", `{print > "/dev/stderr"}`: "file /dev/stderr", `{ print $1 | "tee \"f\"" }`: `run tee "f"`,
	} {
		if got := show(Awk(code)); got != want {
			t.Errorf("%s: got %q, want %q", code, got, want)
		}
	}
}

func TestSedEffects(t *testing.T) {
	for script, want := range map[string]string{
		"s/a/b/": "", "s/w/r/g;p": "", "/x/,/y/!d": "", "1,5p": "", "$!N;P;D": "", "y/abc/wre/": "", ":a;N;$!ba;s/x/y/": "", "s#a/w b#c#": "", `s/[/w]x/y/`: "",
		"a\\\nw f": "", "i hello w f": "", "{p;p}": "", "/a/{s/b/c/;d}": "", "=": "", "5q": "",
		"w f": "file f", "/x/w f": "file f", "s/a/b/w f": "file f", "s/a/b/gw f": "file f", "r f": "file f", "R f": "file f", "W f": "file f", "p;w f": "file f",
		"1e ls": "run ls", "e": "computed e", "s/a/b/e": "computed s///e", "s/a/b/;1e cat f": "run cat f", `\,x,w f`: "file f", "1~2w f": "file f", "/a/I,+3w f": "file f",
		"s/a": "", "s": "", "": "",
	} {
		if got := show(Sed(script)); got != want {
			t.Errorf("%q: got %q, want %q", script, got, want)
		}
	}
}

func show(e Effects) string {
	switch {
	case e.Computed != "":
		return "computed " + e.Computed
	case len(e.Files) > 0:
		return "file " + e.Files[0]
	case len(e.Commands) > 0:
		return "run " + e.Commands[0]
	}
	return ""
}

func FuzzSnippet(f *testing.F) {
	f.Add("print(open('f'))")
	f.Add("s/a/b/w f")
	f.Add(`{print > "f"; getline x < "y"; "c" | getline}`)
	f.Fuzz(func(_ *testing.T, code string) {
		for lang := range languages() {
			_ = Find(lang, code)
		}
		_ = fmt.Sprint(Awk(code), Sed(code))
	})
}
