package pattern_test

import (
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/pattern"
)

func glob(t testing.TB, expr string, fold bool) *pattern.Glob {
	t.Helper()
	g, err := pattern.CompileGlob(expr, fold)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGlobMatches(t *testing.T) {
	tests := []struct {
		expr    string
		yes, no []string
	}{
		{`*.go`, []string{"a.go", "x/y/a.go", ".go"}, []string{"a.gox", "a.go/b", "."}},
		{`.env*`, []string{".env", ".env.local", "x/.env"}, []string{"env", "x.env"}},
		{`/*.go`, []string{"a.go"}, []string{"x/a.go"}},
		{`Makefile`, []string{"Makefile", "x/Makefile"}, []string{"makefile", "Makefile2"}},
		{`/Makefile`, []string{"Makefile"}, []string{"x/Makefile"}},
		{`src/*.go`, []string{"src/a.go"}, []string{"src/x/a.go", "a.go", "x/src/a.go"}},
		{`src/**`, []string{"src", "src/a", "src/a/b"}, []string{"srcs", "x/src", "."}},
		{`src/`, []string{"src", "x/src"}, []string{"src/a"}},
		{`src/**/*.go`, []string{"src/a.go", "src/x/y/a.go"}, []string{"src/a", "a.go"}},
		{`**/x`, []string{"x", "a/x", "a/b/x"}, []string{"x/a", "xx"}},
		{`**/.git/hooks/**`, []string{".git/hooks", "sub/.git/hooks/pre-commit"}, []string{".git", ".git/hooksy"}},
		{`**`, []string{".", "a", "a/b"}, nil},
		{`*`, []string{"a", "a/b", ".x"}, []string{"."}},
		{`{*.pem,keys/**,/id_rsa}`, []string{"a/b.pem", "keys", "keys/x", "id_rsa"}, []string{"a/id_rsa", "x/keys/a"}},
		{`a{b,{c,d}}e`, []string{"abe", "ace", "ade"}, []string{"ae", "abce"}},
		{`[!a]x`, []string{"bx"}, []string{"ax", "x"}},
		{`p[!a]x/y`, []string{"pbx/y"}, []string{"p/x/y", "pax/y"}},
		{`p[^a]x`, []string{"pbx", "q/pbx"}, []string{"p/x"}},
		{`[a-c]?`, []string{"a1", "cä"}, []string{"d1", "a"}},
		{`a\*b`, []string{"a*b"}, []string{"axb"}},
		{`a\\b`, []string{`a\b`}, []string{"ab"}},
		{`\!x`, []string{"!x"}, []string{"x"}},
		{`a,b`, []string{"a,b"}, []string{"a"}},
		{`[{]x[}]`, []string{"{x}"}, []string{"x"}},
		{`\{a,b\}`, []string{"{a,b}"}, []string{"a", "b"}},
	}
	for _, tt := range tests {
		g := glob(t, tt.expr, false)
		for _, rel := range tt.yes {
			if !g.Match(rel) || !g.Covers(rel) {
				t.Errorf("%s: Match(%q) = %v, Covers = %v, want true", tt.expr, rel, g.Match(rel), g.Covers(rel))
			}
		}
		for _, rel := range tt.no {
			if g.Match(rel) {
				t.Errorf("%s: Match(%q) = true", tt.expr, rel)
			}
		}
	}
}

func TestGlobCoversWhatIsInsideAMatch(t *testing.T) {
	tests := []struct {
		expr    string
		yes, no []string
	}{
		{`secrets`, []string{"secrets/a", "x/secrets/a/b"}, []string{"secrets2/a"}},
		{`.env*`, []string{".env.d/a"}, []string{"x/env"}},
		{`*.d`, []string{"conf.d/a/b"}, []string{"conf/a"}},
		{`src/*`, []string{"src/a/b/c"}, []string{"src", "lib/a"}},
		{`.git/config`, []string{".git/config"}, []string{".git", ".git/config2"}},
		{`**/x/y`, []string{"a/x/y/z"}, []string{"a/x/z/y"}},
	}
	for _, tt := range tests {
		g := glob(t, tt.expr, false)
		for _, rel := range tt.yes {
			if !g.Covers(rel) {
				t.Errorf("%s: Covers(%q) = false", tt.expr, rel)
			}
		}
		for _, rel := range tt.no {
			if g.Covers(rel) {
				t.Errorf("%s: Covers(%q) = true", tt.expr, rel)
			}
		}
	}
}

func TestGlobBelow(t *testing.T) {
	tests := []struct {
		expr, dir string
		want      bool
	}{
		{`.git/hooks/**`, ".", true},
		{`.git/hooks/**`, ".git", true},
		{`.git/hooks/**`, ".git/hooks", true},
		{`.git/hooks/**`, ".git/hooks/a", true},
		{`.git/hooks/**`, ".git/objects", false},
		{`.git/hooks/**`, "src", false},
		{`.git/config`, ".git", true},
		{`.git/config`, ".git/objects", false},
		{`*.pem`, "src", true},
		{`**/x`, "src/y", true},
		{`a/*/c`, "a/b", true},
		{`a/*/c`, "a/b/d", false},
		{`a/[b-c]/d`, "a/x", false},
	}
	for _, tt := range tests {
		if got := glob(t, tt.expr, false).Below(tt.dir); got != tt.want {
			t.Errorf("%s: Below(%q) = %v, want %v", tt.expr, tt.dir, got, tt.want)
		}
	}
}

func TestFoldedGlobSeesThroughSpellings(t *testing.T) {
	g := glob(t, `.git/hooks/**`, true)
	for _, rel := range []string{".git/hooks/x", ".GIT/Hooks/x", ".g\u200cit/hooks", ".git./hooks /x", ".git/hooks::$INDEX_ALLOCATION/x", ".git/hooKs/x", ".git/hookſ/x"} {
		if !g.Match(rel) || !g.Covers(rel) || !g.Below(path.Dir(rel)) {
			t.Errorf("Match(%q) = %v, Covers = %v, Below its directory = %v, want true", rel, g.Match(rel), g.Covers(rel), g.Below(path.Dir(rel)))
		}
	}
	if !glob(t, `[Z-a]x`, true).Match("_x") {
		t.Error("folding lost what matches as it is")
	}
	if !glob(t, `KEY[A-C]*`, true).Match("keybx") {
		t.Error("folding does not reach sets")
	}
	if glob(t, `.git/hooks/**`, false).Match(".GIT/hooks/x") {
		t.Error("case was folded without being asked")
	}
}

func TestGlobErrorsHavePositionAndAdvice(t *testing.T) {
	tests := []struct {
		expr   string
		offset int
		reason string
	}{
		{``, 0, "no path"},
		{`/`, 0, "no path"},
		{`{a,}`, 0, "no path"},
		{`a//b`, 0, "two slashes"},
		{`../x`, 0, ".."},
		{`./x`, 0, "element ."},
		{`a/**.go`, 0, "** stands beside"},
		{`a**`, 0, "** stands beside"},
		{`!x`, 0, "!"},
		{`ab[c`, 2, "[ is not closed"},
		{`ab[]`, 2, "empty"},
		{`ab[!]`, 2, "empty"},
		{`ab[x/y]`, 4, "slash"},
		{`[a\]`, 0, "not closed"},
		{`a{b`, 1, "{ is not closed"},
		{`ab}`, 2, "} closes nothing"},
		{`src\main`, 3, "backslash"},
		{`src\`, 3, "backslash"},
		{"a\x00", 1, "NUL"},
		{strings.Repeat("{a,b}", 20), 0, "more than 1000"},
		{strings.Repeat("a", 1025), 1024, "longer than"},
	}
	for _, tt := range tests {
		_, err := pattern.CompileGlob(tt.expr, false)
		e, ok := errors.AsType[*pattern.SyntaxError](err)
		if !ok || e.Offset != tt.offset || !strings.Contains(e.Reason, tt.reason) || e.Advice == "" {
			t.Errorf("CompileGlob(%.40q) = %v, want offset %d, %q", tt.expr, err, tt.offset, tt.reason)
		}
	}
}

func FuzzGlob(f *testing.F) {
	for _, expr := range []string{`*.go`, `src/**/{a,b}/[!c]?`, `**/.git/hooks/**`, `a\*[\]-z]`, `{a,b{c,d}}/`, `[!a]`} {
		f.Add(expr, "src/x/a/d1", false)
		f.Add(expr, ".GIT/hooks", true)
	}
	f.Fuzz(func(t *testing.T, expr, rel string, fold bool) {
		g, err := pattern.CompileGlob(expr, fold)
		if err != nil {
			if e, ok := errors.AsType[*pattern.SyntaxError](err); !ok || e.Offset < 0 || e.Offset > len(expr) {
				t.Fatalf("CompileGlob(%q) = %#v", expr, err)
			}
			return
		}
		if len(rel) > 100 {
			return
		}
		rel = strings.TrimPrefix(path.Clean("/"+rel), "/")
		if rel == "" {
			rel = "."
		}
		match, covers := g.Match(rel), g.Covers(rel)
		if match && !covers {
			t.Fatalf("%q matches %q and does not cover it", expr, rel)
		}
		for dir := path.Dir(rel); rel != "."; dir = path.Dir(dir) {
			if covers && !g.Below(dir) {
				t.Fatalf("%q covers %q and is not below %q", expr, rel, dir)
			}
			if g.Covers(dir) && !covers {
				t.Fatalf("%q covers %q and not %q in it", expr, dir, rel)
			}
			if dir == "." {
				break
			}
		}
	})
}

func BenchmarkGlobCovers(b *testing.B) {
	rel := "internal/files/encoding/encoding_test.go"
	for _, expr := range []string{`.git/hooks/**`, `*.pem`, `**/.git/hooks/**`, `src/**/*.go`} {
		b.Run(expr, func(b *testing.B) {
			g := glob(b, expr, false)
			b.ReportAllocs()
			for b.Loop() {
				g.Covers(rel)
			}
		})
	}
}
