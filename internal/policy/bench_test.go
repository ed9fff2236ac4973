package policy

import (
	"strings"
	"testing"
)

// BenchmarkScript is the cost of judging one command; a hundred microseconds is
// the promise for ordinary ones.
func BenchmarkScript(b *testing.B) {
	s := builtin(b)
	for name, text := range map[string]string{
		"plain":   "git status --short",
		"pipe":    "go test ./... 2>&1 | grep -E '^(---|FAIL)' | tail -50",
		"wrapper": "timeout 60 bash -c 'npm ci && npm run lint' 2>&1 | tail -5",
		"heredoc": "git commit -m \"$(cat <<'EOF'\nfix: the thing\n\nMore about it.\nEOF\n)\"",
		"python":  `curl -s x | python3 -c "import sys,json; print(json.load(sys.stdin)['a'])"`,
		"loop":    "for t in build test lint; do npm run $t || exit 1; done",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Script(text, Bash)
			}
		})
	}
}

// hostile are texts of about 10,000 bytes that are made to cost much.
func hostile() map[string]string {
	fill := func(unit string) string { return strings.Repeat(unit, 10_000/len(unit)) }
	return map[string]string{
		"parens":       fill("("),
		"subshells":    strings.Repeat("(", 90) + fill("a;") + strings.Repeat(")", 90),
		"braces":       "echo " + fill("{a,b}"),
		"brace words":  fill("{a,b}{c,d}{e,f} "),
		"sequence":     fill("{1..9999999} "),
		"doubling":     "a=x;" + fill("a=$a$a;"),
		"appending":    fill("a+=aaaaaaaaaaaaaaaaaaaaaaaa;"),
		"statements":   fill("a;"),
		"filters":      fill("a|cat|"),
		"words":        fill("a "),
		"long word":    fill("a"),
		"quotes":       fill(`"'"'`),
		"substitution": strings.Repeat("$(", 90) + fill("a ") + strings.Repeat(")", 90),
		"backquotes":   fill("`a`"),
		"functions":    "a(){ b; b; };b(){ c; c; };c(){ d; d; };d(){ e; e; };e(){ f; f; };f(){ g; g; };g(){ h; h; };h(){ a; a; };" + fill("a;"),
		"readings":     "for x in 1 2 3 4; do for y in 1 2 3 4; do " + fill("$x $y; ") + " done; done",
		"eval":         strings.Repeat("eval ", 1990) + "a",
		"nested eval":  fill(`eval "eval 'a b c d e f g'"; `),
		"env":          fill("env "),
		"xargs":        fill("xargs sh -c "),
		"sh -c":        fill("sh -c 'a'; "),
		"code":         "python -c '" + fill("a.b(c) ") + "'",
		"python":       fill("python -c 'f(x)'; "),
		"perl":         "perl -e '" + fill("open opne system ") + "'",
		"node":         "node -e '" + fill("require require( ") + "'",
		"awk":          "x | awk '" + fill("{print $1}") + "'",
		"sed":          "x | sed '" + fill("s/a/b/;") + "'",
		"assigns":      fill("a=1 b=2 c=3 "),
		"redirects":    "a " + fill("2>&1 "),
		"heredocs":     fill("cat <<E\nE\n"),
		"arithmetic":   "echo $((" + fill("1+") + "1))",
		"arith open":   fill("$(("),
		"tests":        "[[ " + fill("a && ") + "b ]]",
		"negations":    fill("! "),
		"ifs":          fill("if a; then "),
		"cases":        fill("case a in a) "),
		"dollar":       fill("$"),
		"params":       fill("${a:-"),
		"curly":        fill("{ "),
		"globs":        "echo " + fill("* "),
		"extglob":      "echo " + fill("@(a|"),
		"backslash":    fill(`\`),
		"newlines":     fill("\n"),
		"semicolons":   fill("; "),
		"ampersands":   fill("a&"),
		"pipes":        fill("a|"),
		"unicode":      fill("é"),
		"nul":          fill("\x00"),
		"arrays":       "a=(" + fill("b ") + "); " + `"${a[@]}"`,
		"trap":         fill("trap 'a b' EXIT;"),
	}
}

func BenchmarkHostile(b *testing.B) {
	s := builtin(b)
	for name, text := range hostile() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s.Script(text, Bash)
			}
		})
	}
}
