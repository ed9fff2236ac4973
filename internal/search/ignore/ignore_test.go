package ignore_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/search/ignore"
)

func TestMatch(t *testing.T) {
	const dir, file = true, false
	tests := []struct {
		text string
		rel  string
		dir  bool
		want ignore.Verdict
	}{
		{"foo", "foo", file, ignore.Ignored},
		{"foo", "a/b/foo", dir, ignore.Ignored},
		{"foo", "food", file, ignore.Undecided},
		{"foo/", "foo", file, ignore.Undecided},
		{"foo/", "a/foo", dir, ignore.Ignored},
		{"/foo", "a/foo", file, ignore.Undecided},
		{"/foo", "foo", file, ignore.Ignored},
		{"a/b", "a/b", file, ignore.Ignored},
		{"a/b", "x/a/b", file, ignore.Undecided},
		{"*.go\n!main.go", "main.go", file, ignore.Kept},
		{"*.go\n!main.go", "other.go", file, ignore.Ignored},
		{"!main.go\n*.go", "main.go", file, ignore.Ignored},
		{"*.tar.gz", "x.tar.gz", file, ignore.Ignored},
		{"*.gz", "x.tar.gz", file, ignore.Ignored},
		{"**/x/y", "a/b/x/y", file, ignore.Ignored},
		{"**/x/y", "x/y", file, ignore.Ignored},
		{"a/**/b", "a/b", file, ignore.Ignored},
		{"a/**/b", "a/x/y/b", file, ignore.Ignored},
		{"a/**", "a/x", dir, ignore.Ignored},
		{"a/**", "a", dir, ignore.Undecided},
		{"a/*", "a/x/y", file, ignore.Undecided},
		{"/a*/b", "ax/b", file, ignore.Ignored},
		{"a?c", "abc", file, ignore.Ignored},
		{"/a?c", "a/c", file, ignore.Undecided},
		{"[a-c]x", "bx", file, ignore.Ignored},
		{"[!a-c]x", "bx", file, ignore.Undecided},
		{"[[:digit:]]", "7", file, ignore.Ignored},
		{"[]a]", "]", file, ignore.Ignored},
		{"[a", "[a", file, ignore.Undecided},
		{`\#x`, "#x", file, ignore.Ignored},
		{`#x`, "#x", file, ignore.Undecided},
		{`\!x`, "!x", file, ignore.Ignored},
		{"x   ", "x", file, ignore.Ignored},
		{`x\ `, "x ", file, ignore.Ignored},
		{`x\ `, "x", file, ignore.Undecided},
		{`x\`, "x", file, ignore.Undecided},
		{"x\r\n", "x", file, ignore.Ignored},
		{"x\r", "x", file, ignore.Ignored},
		{"\xef\xbb\xbfx", "x", file, ignore.Ignored},
		{"X", "x", file, ignore.Undecided},
		{"/", "x", dir, ignore.Undecided},
		{"\n\n", "x", file, ignore.Undecided},
	}
	for _, tt := range tests {
		if got := ignore.Parse([]byte(tt.text), false).Match(tt.rel, tt.dir); got != tt.want {
			t.Errorf("%q on %q (directory: %v) = %d, want %d", tt.text, tt.rel, tt.dir, got, tt.want)
		}
	}
}

func TestNearerFilesDecide(t *testing.T) {
	var r *ignore.Rules
	if r.Ignored("x", false) {
		t.Error("no rules ignore x")
	}
	r = r.With(ignore.Parse([]byte("*.log\n/build\nkeep\n"), false), ".")
	below := r.With(ignore.Parse([]byte("!a.log\n/x\n"), false), "sub").With(ignore.Parse(nil, false), "sub/deep")
	for _, tt := range []struct {
		rules *ignore.Rules
		rel   string
		want  bool
	}{
		{r, "a.log", true},
		{below, "sub/a.log", false},
		{below, "sub/b.log", true},
		{below, "sub/x", true},
		{below, "sub/build", false},
		{below, "sub/deep/keep", true},
		{below, "sub/deep/x", false},
	} {
		if got := tt.rules.Ignored(tt.rel, false); got != tt.want {
			t.Errorf("%s: ignored %v, want %v", tt.rel, got, tt.want)
		}
	}
}

func TestSlowPatternsAreNotSlow(t *testing.T) {
	f := ignore.Parse([]byte(strings.Repeat("*a", 500)+"b\n"+strings.Repeat("**/", 300)+"x\n"), false)
	rel := strings.Repeat("a", 250) + strings.Repeat("/"+strings.Repeat("a", 250), 15)
	if f.Match(rel, false) != ignore.Undecided { // it would not return
		t.Error("a name is ignored that fits nothing")
	}
}

// TestSameAsGit makes random trees with random ignore files and asks git.
func TestSameAsGit(t *testing.T) {
	trees := 30
	if os.Getenv("ACM_STRESS") != "" {
		trees = 400
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatalf("git is needed to compare with: %v", err)
	}
	for seed := range trees {
		fold := seed%8 == 7
		root := t.TempDir()
		g := generator{t: t, rng: rand.New(rand.NewPCG(uint64(seed), 5)), root: root}
		g.tree()
		want := byGit(t, root, fold)
		got := byWalking(t, root, fold)
		if !slices.Equal(got, want) {
			for _, name := range got {
				if !slices.Contains(want, name) {
					t.Errorf("tree %d: %q is kept here and ignored by git", seed, name)
				}
			}
			for _, name := range want {
				if !slices.Contains(got, name) {
					t.Errorf("tree %d: %q is ignored here and kept by git", seed, name)
				}
			}
			g.show()
			return
		}
	}
}

// byGit returns what git would add, sorted.
func byGit(t *testing.T, root string, fold bool) []string {
	t.Helper()
	git := func(args ...string) []byte {
		cmd := exec.Command("git", append([]string{
			"-C", root, "-c", "core.excludesFile=/dev/null", "-c", fmt.Sprintf("core.ignoreCase=%v", fold), "-c", "core.quotePath=false",
		}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(root))
		var errOut bytes.Buffer
		cmd.Stderr = &errOut
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, errOut.Bytes())
		}
		return out
	}
	git("init", "-q", "--template=")
	if text, err := os.ReadFile(filepath.Join(root, "exclude")); err == nil {
		if err := os.MkdirAll(filepath.Join(root, ".git/info"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, ".git/info/exclude"), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	names := strings.FieldsFunc(string(git("ls-files", "-o", "-z", "--exclude-standard")), func(r rune) bool { return r == 0 })
	slices.Sort(names)
	return names
}

// byWalking returns the same by our rules.
func byWalking(t *testing.T, root string, fold bool) []string {
	t.Helper()
	var names []string
	read := func(name string) *ignore.File {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil
		}
		return ignore.Parse(text, fold)
	}
	var walk func(dir string, rules *ignore.Rules)
	walk = func(dir string, rules *ignore.Rules) {
		rules = rules.With(read(path.Join(dir, ".gitignore")), dir)
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			rel := path.Join(dir, e.Name())
			if e.Name() == ".git" || rules.Ignored(rel, e.IsDir()) {
				continue
			}
			if e.IsDir() {
				walk(rel, rules)
			} else {
				names = append(names, rel)
			}
		}
	}
	var rules *ignore.Rules
	walk(".", rules.With(read(".git/info/exclude"), "."))
	slices.Sort(names)
	return names
}

// generator makes trees out of few names, so that patterns hit.
type generator struct {
	t    *testing.T
	rng  *rand.Rand
	root string
}

var atoms = []string{"a", "b", "ab", "abc", "foo", "bar", "x.go", "y.txt", "A", ".h", "a b", "#c", "!d", "e ", "z[1]", "b.tar.gz", "é", "q\\r", "-", "foo.x"}

func pick[T any](g *generator, all []T) T { return all[g.rng.IntN(len(all))] }

func (g *generator) tree() {
	g.dir(".", 0)
	if g.rng.IntN(2) == 0 {
		g.write("exclude", g.ignoreFile())
	}
}

func (g *generator) dir(dir string, depth int) {
	if err := os.MkdirAll(filepath.Join(g.root, dir), 0o755); err != nil {
		g.t.Fatal(err)
	}
	for range 3 + g.rng.IntN(5) {
		name := pick(g, atoms)
		if g.rng.IntN(3) == 0 {
			name += pick(g, atoms)
		}
		rel := path.Join(dir, name)
		if _, err := os.Lstat(filepath.Join(g.root, rel)); err == nil {
			continue
		}
		if depth < 3 && g.rng.IntN(2) == 0 {
			g.dir(rel, depth+1)
		} else {
			g.write(rel, "x")
		}
	}
	if depth == 0 || g.rng.IntN(4) == 0 {
		g.write(path.Join(dir, ".gitignore"), g.ignoreFile())
	}
}

func (g *generator) write(rel, text string) {
	if err := os.WriteFile(filepath.Join(g.root, rel), []byte(text), 0o644); err != nil {
		g.t.Fatal(err)
	}
}

func (g *generator) ignoreFile() string {
	var b strings.Builder
	if g.rng.IntN(10) == 0 {
		b.WriteString("\xef\xbb\xbf")
	}
	for range 1 + g.rng.IntN(7) {
		b.WriteString(g.line() + pick(g, []string{"\n", "\n", "\n", "\n", "\r\n", " \n", "\t\n", "  \n", "\n\n"}))
	}
	if g.rng.IntN(4) == 0 {
		return strings.TrimRight(b.String(), "\n")
	}
	return b.String()
}

func (g *generator) line() string {
	line := ""
	if g.rng.IntN(4) == 0 {
		line += "!"
	}
	if g.rng.IntN(4) == 0 {
		line += "/"
	}
	for i := range 1 + g.rng.IntN(3) {
		if i > 0 {
			line += "/"
		}
		line += g.segment()
	}
	if g.rng.IntN(4) == 0 {
		line += "/"
	}
	if g.rng.IntN(15) == 0 {
		line = "#" + line
	}
	return line
}

func (g *generator) segment() string {
	if g.rng.IntN(3) == 0 {
		return escape(pick(g, atoms))
	}
	parts := []string{
		"*", "**", "***", "?", "*", "**", "[a-c]", "[!a]", "[^b]", "[[:alpha:]]", "[]a]", "[a-", "[a\\]b]", "[[:nope:]]", "[[:x]", "[z-a]", "[A-Z]", "[A]",
		"[[:upper:]]", "[[:punct:]]", "[!-a]", "\\", "\\*", "\\a", "a", "b", "foo", ".", "x", "[", "]", "{a,b}", " ", "*.go", "*.gz", "[\\\\-a]", "[a-\\c]", "\\/",
	}
	s := ""
	for range 1 + g.rng.IntN(3) {
		s += pick(g, parts)
	}
	return s
}

func escape(name string) string {
	return strings.NewReplacer(`\`, `\\`, "[", `\[`, "#", `\#`, "!", `\!`, "e ", `e\ `).Replace(name)
}

func (g *generator) show() {
	_ = filepath.WalkDir(g.root, func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && (e.Name() == ".gitignore" || e.Name() == "exclude") {
			text, _ := os.ReadFile(name)
			g.t.Logf("%s: %q", name, text)
		}
		return nil
	})
}

func FuzzMatch(f *testing.F) {
	f.Add("a/**/b\n!*.x\n[[:alpha:]", "a/x/b", true)
	f.Add("**\\/a", "b/a", false)
	f.Fuzz(func(t *testing.T, text, rel string, dir bool) {
		if len(text) > 300 || len(rel) > 300 {
			return
		}
		for _, fold := range []bool{false, true} {
			ignore.Parse([]byte(text), fold).Match(rel, dir)
		}
	})
}

func BenchmarkIgnored(b *testing.B) {
	text := "*.o\n*.a\n*.so\n/bin\n/vendor/\nnode_modules/\n.DS_Store\n*~\n*.swp\ncore.*\n/docs/**/*.html\n!keep.o\nbuild/\ndist\n.idea/\n_output*\n"
	var r *ignore.Rules
	r = r.With(ignore.Parse([]byte(text), false), ".")
	b.ReportAllocs()
	for b.Loop() {
		if r.Ignored("staging/src/k8s.io/api/core/v1/types.go", false) {
			b.Fatal("ignored")
		}
	}
}
