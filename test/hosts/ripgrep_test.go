package hosts

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/pattern"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search"
)

// queries are of the kinds that agents send.
var queries = []search.Request{
	{Pattern: `ErrNoProgress`},
	{Pattern: `use of closed network connection`, Mode: search.Content, ContextLines: 2},
	{Pattern: `fmt\.Errorf\(`, Mode: search.Count},
	{Pattern: `\bonce\b`, Mode: search.Count},
	{Pattern: `^func New\w*\(`, Mode: search.Content},
	{Pattern: `panic\(|log\.Fatal`, Mode: search.Count},
	{Pattern: `race condition`, CaseInsensitive: true},
	{Pattern: `qqxj_absent_token_4410`},
	{Pattern: `^import \($`},
	{Pattern: `[a-f0-9]{16,}`, Mode: search.Count},
	{Pattern: `é`, Mode: search.Content},
	{Pattern: `json:"[a-z]+,omitempty"`, Glob: "*.go", Mode: search.Count},

	{Pattern: `TODO|FIXME`, Mode: search.Content, ContextLines: 1, Glob: "*.{go,s}"},
	{Pattern: `straße|naïve`, CaseInsensitive: true, Mode: search.Content},
	{Pattern: `^$`, Mode: search.Count},
	{Pattern: `[α-ωа-я日]`, Mode: search.Count},
	{Pattern: `\.$`, Mode: search.Count},
	{Pattern: `if`, Mode: search.Count},
}

// TestSearchFindsWhatRipgrepFinds holds the scan to rg --hidden, on the Go tree
// and on one with ignore files, hidden, binary and odd files.
//
// Differences that are meant, and kept out of the trees or the comparison:
//   - \w, \d, \s and \b are about ASCII here and about Unicode there; rg is asked
//     with these in ASCII.
//   - A byte that is no UTF-8 is matched by a dot here, not there.
//   - UTF-16 with a byte order mark is read there, and counts as binary here.
//   - A file with a NUL behind its first 64 KiB is searched here to the end, there
//     up to the NUL.
//   - A glob that is asked for brings ignored files back there, not here.
//   - .ignore, .rgignore and ignore files of the user or above the project hold
//     there alone; a repository is not needed here for .gitignore to hold.
func TestSearchFindsWhatRipgrepFinds(t *testing.T) {
	rg := native(t, installed(t, "ripgrep"), "@vscode/ripgrep-*/bin/rg")
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	files := 1500
	if os.Getenv("ACM_STRESS") != "" {
		files = 30_000
	}
	for name, root := range map[string]string{
		"go": filepath.Join(strings.TrimSpace(string(goroot)), "src"), "generated": generateTree(t, files),
	} {
		t.Run(name, func(t *testing.T) {
			root, err := fsys.ResolveDir(root)
			if err != nil {
				t.Fatal(err)
			}
			engine := scanner(t, root)
			for _, q := range queries {
				q.Recursive, q.MaxResults = true, 1<<30
				if q.Mode == "" {
					q.Mode = search.Files
				}
				r, err := engine.Search(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				if r.Truncated || r.TimedOut || !r.Exact || r.Skipped.Unreadable > 0 {
					t.Errorf("%s: %+v", q.Pattern, r)
				}
				compare(t, q, shown(r, q), byRipgrep(t, rg, root, q))
			}
		})
	}
}

func scanner(t *testing.T, root string) *search.Engine {
	t.Helper()
	bases, err := fsys.OpenBases(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bases.Close)
	rules, err := access.New(access.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return search.New(search.Options{CountFor: time.Hour, Scope: func(context.Context) (*search.Scope, error) {
		return &search.Scope{Root: root, Bases: bases, Rules: rules, Limits: search.Limits{
			MaxResults: 1 << 30, MaxFileSize: 10 << 20, Timeout: time.Hour, RespectIgnore: true,
		}}, nil
	}})
}

// lines are what a search shows, by file and line: the text, with a mark whether
// it matches. Without lines, by file alone.
type lines map[string]string

func key(file string, line int) string { return fmt.Sprintf("%s:%d", file, line) }

func shown(r *search.Result, q search.Request) lines {
	all := make(lines)
	for _, m := range r.Matches {
		switch q.Mode {
		case search.Files:
			all[m.File] = "found"
			continue
		case search.Count:
			all[m.File] = fmt.Sprint(m.Count)
			continue
		case search.Content:
		}
		for i, text := range m.Before {
			around(all, key(m.File, m.Line-len(m.Before)+i), text)
		}
		for i, text := range m.After {
			around(all, key(m.File, m.Line+1+i), text)
		}
		all[key(m.File, m.Line)] = ":" + comparable(m.Text)
	}
	return all
}

// around adds a line beside a match, unless it is one itself.
func around(all lines, at, text string) {
	if all[at] == "" {
		all[at] = "-" + comparable(text)
	}
}

// comparable is a line as far as both show it alike: long ones are cut here.
func comparable(text string) string {
	text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	if len(text) > 400 {
		return "(a long line)"
	}
	if !utf8.ValidString(text) {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	return text
}

// ascii makes rg take the classes that Perl named for ASCII.
var ascii = strings.NewReplacer(`\w`, `[0-9A-Za-z_]`, `\b`, `(?-u:\b)`)

func byRipgrep(t *testing.T, rg, root string, q search.Request) lines {
	t.Helper()
	args := []string{
		"--no-config", "--hidden", "--no-require-git", "--no-ignore-global", "--no-ignore-parent", "--no-ignore-dot", "--max-filesize=10M",
		"--no-messages", "--color=never", "--glob=!.git",
	}
	if q.CaseInsensitive {
		args = append(args, "--ignore-case")
	}
	switch q.Mode {
	case search.Files:
		args = append(args, "--files-with-matches", "--null")
	case search.Count:
		args = append(args, "--count", "--null", "--with-filename")
	case search.Content:
		args = append(args, "--json", fmt.Sprintf("--context=%d", q.ContextLines))
	}
	cmd := exec.Command(rg, append(args, "-e", ascii.Replace(q.Pattern), "./")...)
	cmd.Dir = root
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) { // 1: nothing found
		t.Fatalf("rg %v: %v\n%s", args, err, errOut.Bytes())
	}
	all := make(lines)
	switch q.Mode {
	case search.Files:
		for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			if name != "" {
				all[strings.TrimPrefix(name, "./")] = "found"
			}
		}
	case search.Count:
		for line := range strings.Lines(string(out)) {
			name, count, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\x00")
			all[strings.TrimPrefix(name, "./")] = count
		}
	case search.Content:
		for line := range bytes.Lines(out) {
			fromJSON(t, all, line)
		}
	}
	if q.Glob != "" { // rg would search ignored files that it matches
		glob, err := pattern.CompileGlob(q.Glob, false)
		if err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(all, func(at, _ string) bool {
			if i := strings.LastIndexByte(at, ':'); q.Mode == search.Content && i >= 0 {
				at = at[:i]
			}
			return !glob.Match(at)
		})
	}
	return all
}

// fromJSON adds what a line of rg's output shows.
func fromJSON(t *testing.T, all lines, line []byte) {
	t.Helper()
	type text struct{ Text, Bytes string }
	var m struct {
		Type string
		Data struct {
			Path, Lines text
			Number      int `json:"line_number"`
		}
	}
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatal(err)
	}
	read := func(x text) string {
		if x.Bytes != "" {
			raw, err := base64.StdEncoding.DecodeString(x.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			return string(raw)
		}
		return x.Text
	}
	at := key(strings.TrimPrefix(read(m.Data.Path), "./"), m.Data.Number)
	shown := comparable(read(m.Data.Lines))
	switch m.Type {
	case "match":
		all[at] = ":" + shown
	case "context":
		around(all, at, read(m.Data.Lines))
	}
}

func compare(t *testing.T, q search.Request, got, want lines) {
	t.Helper()
	said := 0
	for at := range merged(got, want) {
		if got[at] != want[at] && said < 5 {
			t.Errorf("%s in %s: %q, rg %q", q.Pattern, at, got[at], want[at])
			said++
		}
	}
	t.Logf("%-40s %6d lines or files", q.Pattern, len(want))
}

func merged(a, b lines) lines {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// generateTree makes a repository with what is hard about searching one.
func generateTree(t *testing.T, files int) string {
	t.Helper()
	root := t.TempDir()
	rng := rand.New(rand.NewPCG(7, 7))
	words := strings.Fields(`func return if err != nil { } package import ( ) var const type struct string int once panic( log.Fatal fmt.Errorf("x")
		// TODO FIXME ErrNoProgress race condition Race Condition json:"name,omitempty" deadbeefdeadbeef01 é straße STRASSE naïve 日本 NewReader NewX
		use of closed network connection end. ; = := 0x10 "text"`)
	write := func(name string, data []byte) {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	text := func() []byte {
		var b bytes.Buffer
		end := "\n"
		if rng.IntN(10) == 0 {
			end = "\r\n"
		}
		if rng.IntN(30) == 0 {
			b.WriteString("\xef\xbb\xbf")
		}
		for range rng.IntN(120) {
			n := rng.IntN(9)
			if rng.IntN(300) == 0 {
				n = 300
			}
			for i := range n {
				if i > 0 {
					b.WriteByte(' ')
				}
				b.WriteString(words[rng.IntN(len(words))])
			}
			b.WriteString(end)
		}
		if rng.IntN(8) == 0 {
			b.WriteString("import (") // no line end
		}
		return b.Bytes()
	}
	dirs := []string{""}
	for len(dirs) < 1+files/8 {
		parent := dirs[rng.IntN(len(dirs))]
		if strings.Count(parent, "/") < 7 {
			dirs = append(dirs, parent+[]string{"pkg", "src", "vendor", ".hidden", "build", "Ünï", "a b", "x"}[rng.IntN(8)]+fmt.Sprint(rng.IntN(30))+"/")
		}
	}
	slices.Sort(dirs)
	dirs = slices.Compact(dirs)
	ending := []string{".go", ".go", ".txt", ".md", ".s", ".log", ".json", "", ".min.js", "~"}
	for i := range files {
		name := dirs[rng.IntN(len(dirs))] + fmt.Sprintf("f%d", i) + ending[rng.IntN(len(ending))]
		data := text()
		switch rng.IntN(40) {
		case 0:
			data = append([]byte("ErrNoProgress\x00"), data...)
		case 1:
			data = nil
		}
		write(name, data)
	}
	for _, dir := range dirs {
		if dir == "" || rng.IntN(12) == 0 {
			var b strings.Builder
			for range 1 + rng.IntN(4) {
				b.WriteString([]string{"*.log\n", "build*/\n", "/vendor1\n", "*~\n", "!f1*.log\n", "**/x2/**\n", "*.min.js\n", "f[0-3]?.txt\n", "# none\n"}[rng.IntN(9)])
			}
			write(dir+".gitignore", []byte(b.String()))
		}
	}
	write(".git/HEAD", []byte("ErrNoProgress\n"))
	write(".git/info/exclude", []byte("*.s\n"))
	return root
}
