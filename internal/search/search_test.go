package search_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search"
)

func TestMain(m *testing.M) {
	// The backtracking engine keeps a clock running for a moment.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/dlclark/regexp2/v2.runClock"))
}

// tree is a project and what may be done in it.
type tree struct {
	t       testing.TB
	root    string
	engine  *search.Engine
	options search.Options
	access  access.Options
	content []access.ContentRule
	limits  search.Limits
	fold    bool
	bases   *fsys.Bases
}

func newTree(t testing.TB, files map[string]string) *tree {
	t.Helper()
	root, err := fsys.ResolveDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tr := &tree{
		t: t, root: root, options: search.Options{Workers: 4, CountFor: time.Hour},
		limits: search.Limits{MaxResults: 1000, MaxFileSize: 2 << 20, Timeout: time.Minute, RespectIgnore: true},
	}
	for name, text := range files {
		tr.write(name, text)
	}
	if tr.bases, err = fsys.OpenBases(root, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.bases.Close)
	return tr
}

func (tr *tree) write(name, text string) {
	tr.t.Helper()
	path := filepath.Join(tr.root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tr.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *tree) scope(context.Context) (*search.Scope, error) {
	rules, err := access.New(tr.access)
	if err != nil {
		return nil, err
	}
	content, err := access.NewContent(tr.content)
	if err != nil {
		return nil, err
	}
	return &search.Scope{
		Root: tr.root, Bases: tr.bases, Rules: rules, Content: content, Redacts: len(tr.content) > 0, Fold: tr.fold, Limits: tr.limits,
	}, nil
}

// try searches with the defaults of the tool where r says nothing.
func (tr *tree) try(r search.Request) (*search.Result, error) {
	if tr.engine == nil {
		tr.options.Scope = tr.scope
		tr.engine = search.New(tr.options)
	}
	r.MaxResults = cmp.Or(r.MaxResults, 100)
	r.Mode = cmp.Or(r.Mode, search.Files)
	return tr.engine.Search(tr.t.Context(), r)
}

func (tr *tree) search(r search.Request) *search.Result {
	tr.t.Helper()
	res, err := tr.try(r)
	if err != nil {
		tr.t.Fatalf("Search(%+v): %v", r, err)
	}
	return res
}

// files returns the names of what a search for pattern finds.
func (tr *tree) files(pattern string) []string {
	tr.t.Helper()
	return names(tr.search(search.Request{Pattern: pattern, Recursive: true}))
}

func names(r *search.Result) []string {
	all := []string{}
	for _, m := range r.Matches {
		all = append(all, m.File)
	}
	return all
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s = %+v, want %+v", what, got, want)
	}
}

func code(err error) fault.Code {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e.Code
	}
	return ""
}

func TestEachModeReturnsWhatItSays(t *testing.T) {
	tr := newTree(t, map[string]string{"b.go": "x foo\nbar\nfoo\n", "a/c.go": "nothing\nfoo", "a.go": "foo foo\n", "z": "bar\n"})
	r := tr.search(search.Request{Pattern: "foo", Recursive: true})
	equal(t, "files", r.Matches, []search.Match{{File: "a.go"}, {File: "a/c.go"}, {File: "b.go"}})
	equal(t, "total of files", r.Total, 3)
	equal(t, "files searched", r.FilesSearched, 4)

	r = tr.search(search.Request{Pattern: "foo", Recursive: true, Mode: search.Content})
	equal(t, "lines", r.Matches, []search.Match{
		{File: "a.go", Line: 1, Text: "foo foo"},
		{File: "a/c.go", Line: 2, Text: "foo"},
		{File: "b.go", Line: 1, Text: "x foo"},
		{File: "b.go", Line: 3, Text: "foo"},
	})
	equal(t, "total of lines", r.Total, 4)
	if r.Truncated || r.TimedOut || !r.Exact || r.Slow || r.Source != search.FromScan || r.Root != tr.root {
		t.Errorf("the result says %+v", r)
	}

	r = tr.search(search.Request{Pattern: "foo", Recursive: true, Mode: search.Count})
	equal(t, "counts", r.Matches, []search.Match{{File: "a.go", Count: 1}, {File: "a/c.go", Count: 1}, {File: "b.go", Count: 2}})
	equal(t, "total of counts", r.Total, 4)

	r = tr.search(search.Request{Pattern: "FOO", CaseInsensitive: true})
	equal(t, "files of one directory", names(r), []string{"a.go", "b.go"})
}

func TestPathIsAFileOrADirectory(t *testing.T) {
	tr := newTree(t, map[string]string{".gitignore": "*.log\n", "a/x.go": "hit\n", "a/b/y.go": "hit\n", "c/z.go": "hit\n", "a/run.log": "hit\n"})
	for _, tt := range []struct {
		path string
		want []string
	}{
		{"", []string{"a/b/y.go", "a/x.go", "c/z.go"}},
		{".", []string{"a/b/y.go", "a/x.go", "c/z.go"}},
		{"a", []string{"a/b/y.go", "a/x.go"}},
		{"a/b/..", []string{"a/b/y.go", "a/x.go"}},
		{"a/x.go", []string{"a/x.go"}},
		{tr.root + "/c", []string{"c/z.go"}},
		{"a/run.log", []string{"a/run.log"}}, // asked for by name
	} {
		equal(t, tt.path, names(tr.search(search.Request{Pattern: "hit", Path: tt.path, Recursive: true})), tt.want)
	}
}

func TestGlobNarrowsBelowThePath(t *testing.T) {
	tr := newTree(t, map[string]string{"a.py": "hit", "a.go": "hit", "src/b.py": "hit", "src/deep/c.py": "hit", "src/deep/c.go": "hit", "lib/d.py": "hit"})
	for _, tt := range []struct {
		path, glob string
		want       []string
	}{
		{"", "*.py", []string{"a.py", "lib/d.py", "src/b.py", "src/deep/c.py"}},
		{"src", "*.py", []string{"src/b.py", "src/deep/c.py"}},
		{"", "src/**/*.py", []string{"src/b.py", "src/deep/c.py"}},
		{"src", "deep/*", []string{"src/deep/c.go", "src/deep/c.py"}},
		{"", "/*.py", []string{"a.py"}},
		{"", "*.{py,go}", []string{"a.go", "a.py", "lib/d.py", "src/b.py", "src/deep/c.go", "src/deep/c.py"}},
		{"a.go", "*.py", []string{}},
		{"a.py", "*.py", []string{"a.py"}},
	} {
		equal(t, tt.path+" "+tt.glob, names(tr.search(search.Request{Pattern: "hit", Path: tt.path, Glob: tt.glob, Recursive: true})), tt.want)
	}
	equal(t, "not recursive", names(tr.search(search.Request{Pattern: "hit", Path: "src"})), []string{"src/b.py"})
	if _, err := tr.try(search.Request{Pattern: "x", Glob: "[a"}); code(err) != fault.ValidationError {
		t.Errorf("a broken glob = %v, want VALIDATION_ERROR", err)
	}
}

func TestContextIsWhatStandsAroundALine(t *testing.T) {
	tr := newTree(t, map[string]string{"f": "1\n2 hit\n3\n4 hit\n5 hit\n6\n\n8\r\n9 hit"})
	r := tr.search(search.Request{Pattern: "hit", Recursive: true, Mode: search.Content, ContextLines: 2})
	equal(t, "context", r.Matches, []search.Match{
		{File: "f", Line: 2, Text: "2 hit", Before: []string{"1"}, After: []string{"3", "4 hit"}},
		{File: "f", Line: 4, Text: "4 hit", Before: []string{"2 hit", "3"}, After: []string{"5 hit", "6"}},
		{File: "f", Line: 5, Text: "5 hit", Before: []string{"3", "4 hit"}, After: []string{"6", ""}},
		{File: "f", Line: 9, Text: "9 hit", Before: []string{"", "8"}, After: []string{}},
	})
}

func TestLinesAreShownAsText(t *testing.T) {
	long := strings.Repeat("é", 1000)
	tr := newTree(t, map[string]string{
		"a-bom":     "\xef\xbb\xbfhit at the start\n",
		"b-crlf":    "one\r\nhit two\r\n",
		"c-latin":   "caf\xe9 hit\n",
		"d-long":    long + "hit" + long + "\n",
		"e-nothing": "",
		"f-end":     long + "hit",
		"g-begin":   "hit" + long,
	})
	r := tr.search(search.Request{Pattern: "^hit|hit", Recursive: true, Mode: search.Content})
	equal(t, "files", names(r), []string{"a-bom", "b-crlf", "c-latin", "d-long", "f-end", "g-begin"})
	equal(t, "byte order mark", r.Matches[0].Text, "hit at the start")
	equal(t, "line end", r.Matches[1].Text, "hit two")
	equal(t, "no UTF-8", r.Matches[2].Text, "caf\uFFFD hit")
	for _, m := range r.Matches[3:] {
		if !m.Cut || !strings.Contains(m.Text, "hit") || len(m.Text) > 510 || !utf8.ValidString(m.Text) || strings.Contains(m.Text, "\uFFFD") {
			t.Errorf("%s is shown as %q (cut: %v)", m.File, m.Text, m.Cut)
		}
		before, after := strings.HasPrefix(m.Text, "…"), strings.HasSuffix(m.Text, "…")
		if before != (m.File != "g-begin") || after != (m.File != "f-end") {
			t.Errorf("%s is cut before: %v, after: %v", m.File, before, after)
		}
	}
	equal(t, "anchored behind a mark", tr.files("^hit at"), []string{"a-bom"})
	equal(t, "files searched", r.FilesSearched, 7)
}

func TestWhatIsNotSearchedIsCounted(t *testing.T) {
	tr := newTree(t, map[string]string{
		"a.txt": "hit\n", "image.png": "hit\x00hit\n", "big.log": strings.Repeat("hit\n", 1<<19+1),
		"medium.log": strings.Repeat("x", 1<<20+10) + "\nhit\n", "late": strings.Repeat("x", 70_000) + "\nhit\x00\n",
	})
	r := tr.search(search.Request{Pattern: "hit", Recursive: true})
	equal(t, "files", names(r), []string{"a.txt", "late", "medium.log"})
	equal(t, "skipped", r.Skipped, search.Skipped{Binary: 1, TooLarge: 1})
	equal(t, "files searched", r.FilesSearched, 3)
	r = tr.search(search.Request{Pattern: "hit", Path: "big.log"})
	equal(t, "one file", r.Skipped, search.Skipped{TooLarge: 1})

	tr.limits.MaxFileSize = 3
	r = tr.search(search.Request{Pattern: "hit", Recursive: true})
	equal(t, "under a small limit", r.Skipped, search.Skipped{TooLarge: 5})
}

func TestIgnoredFilesAreLeftOut(t *testing.T) {
	tr := newTree(t, map[string]string{
		".gitignore": "*.log\nbuild/\n", ".git/info/exclude": "local\n", ".git/HEAD": "hit\n",
		"a.go": "hit\n", ".hidden": "hit\n", ".config/x": "hit\n", "a.log": "hit\n", "build/out": "hit\n", "local": "hit\n",
		"sub/.gitignore": "!keep.log\n/own\n", "sub/keep.log": "hit\n", "sub/other.log": "hit\n", "sub/own": "hit\n", "sub/deep/own": "hit\n",
		"nested/.git/HEAD": "hit\n", "nested/a.log": "hit\n", "nested/local": "hit\n", "worktree/.git": "gitdir: hit\n", "worktree/b.log": "hit\n",
		"build/inner/.gitignore": "x\n", "build/inner/x": "hit\n", "build/inner/y.log": "hit\n",
	})
	equal(t, "files", tr.files("hit"), []string{".config/x", ".hidden", "a.go", "nested/a.log", "nested/local", "sub/deep/own", "sub/keep.log", "worktree/b.log"})
	below := func(path string) []string {
		return names(tr.search(search.Request{Pattern: "hit", Path: path, Recursive: true}))
	}
	equal(t, "rules from above", below("sub"), []string{"sub/deep/own", "sub/keep.log"})
	equal(t, "rules from further above", below("sub/deep"), []string{"sub/deep/own"})
	equal(t, "an ignored directory that is asked for", below("build"), []string{"build/inner/y.log", "build/out"})
	for _, path := range []string{".git", "nested/.git", ".git/HEAD", "worktree/.git"} {
		if _, err := tr.try(search.Request{Pattern: "hit", Path: path}); code(err) != fault.AccessDenied {
			t.Errorf("search in %s = %v, want ACCESS_DENIED", path, err)
		}
	}
	tr.limits.RespectIgnore = false
	equal(t, "all files", len(tr.files("hit")), 15)
}

func TestRulesHoldInEveryMode(t *testing.T) {
	files := map[string]string{"open.txt": "token=abc\n", "secret/a.txt": "token=abc\n", "sub/private.txt": "token=abc\n", "no-search.txt": "token=abc\n", ".async-crud-mcp/config.json": "token=abc\n"}
	for _, mode := range []search.Mode{search.Files, search.Content, search.Count} {
		tr := newTree(t, files)
		tr.access = access.Options{Protected: []string{".async-crud-mcp/**"}, Rules: []access.Rule{
			{Path: "secret/**", Operations: []string{"read"}, Action: "deny"},
			{Path: "private.txt", Action: "deny"},
			{Path: "no-search.txt", Operations: []string{"search"}, Action: "deny"},
		}}
		r := tr.search(search.Request{Pattern: "token", Recursive: true, Mode: mode})
		equal(t, string(mode), names(r), []string{"open.txt"})
		equal(t, "denied", r.Skipped.Denied, 2)
		for _, path := range []string{"secret", "secret/a.txt", "sub/private.txt", "no-search.txt", ".async-crud-mcp"} {
			if r, err := tr.try(search.Request{Pattern: "token", Path: path, Mode: mode}); code(err) != fault.AccessDenied {
				t.Errorf("search in %s = %+v, %v, want ACCESS_DENIED", path, r, err)
			}
		}
		// A change of the rules holds for the next call.
		tr.access.Rules = nil
		equal(t, string(mode)+" without rules", names(tr.search(search.Request{Pattern: "token", Recursive: true, Mode: mode})),
			[]string{"no-search.txt", "open.txt", "secret/a.txt", "sub/private.txt"})
	}
}

func TestHiddenContentIsNotFound(t *testing.T) {
	tr := newTree(t, map[string]string{"a.env": "user=me\npassword=hunter2\nend\n", "b.env": "PRIVATE KEY\npassword=x\n", "c.env": "password ask\n"})
	tr.content = []access.ContentRule{
		{Name: "password", Pattern: `password=\S+`, Action: "redact"},
		{Name: "key", Pattern: `PRIVATE KEY`, Action: "deny"},
	}
	r := tr.search(search.Request{Pattern: ".", Recursive: true, Mode: search.Content, ContextLines: 1})
	equal(t, "lines", r.Matches, []search.Match{
		{File: "a.env", Line: 1, Text: "user=me", Before: []string{}, After: []string{"[[REDACTED:password]]"}},
		{File: "a.env", Line: 2, Text: "[[REDACTED:password]]", Before: []string{"user=me"}, After: []string{"end"}},
		{File: "a.env", Line: 3, Text: "end", Before: []string{"[[REDACTED:password]]"}, After: []string{}},
		{File: "c.env", Line: 1, Text: "password ask", Before: []string{}, After: []string{}},
	})
	equal(t, "skipped", r.Skipped, search.Skipped{Denied: 1})
	for _, mode := range []search.Mode{search.Files, search.Content, search.Count} {
		// What a pattern says of hidden text must not show: neither by being found,
		// nor by making something else found.
		for _, pattern := range []string{"hunter2", "password=h", "^password=", "PRIVATE", "(?=hunter)h"} {
			if r := tr.search(search.Request{Pattern: pattern, Recursive: true, Mode: mode}); len(r.Matches) != 0 || r.Total != 0 {
				t.Errorf("%s finds %+v in mode %s", pattern, r.Matches, mode)
			}
		}
		for _, pattern := range []string{`REDACTED|password=h`, `REDACTED|password=z`} {
			equal(t, pattern, names(tr.search(search.Request{Pattern: pattern, Recursive: true, Mode: mode})), []string{"a.env"})
		}
	}
	if r := tr.search(search.Request{Pattern: "hunter2", Path: "a.env"}); len(r.Matches) != 0 {
		t.Errorf("the file by itself gives %+v", r.Matches)
	}
}

func TestLimitCutsByPath(t *testing.T) {
	files := make(map[string]string)
	for i := range 50 {
		files[fmt.Sprintf("d%d/f%02d", i%7, i)] = strings.Repeat("hit\n", 3)
	}
	tr := newTree(t, files)
	r := tr.search(search.Request{Pattern: "hit", Recursive: true, Mode: search.Content, MaxResults: 10})
	equal(t, "matches", len(r.Matches), 10)
	equal(t, "files", slices.Compact(names(r)), []string{"d0/f00", "d0/f07", "d0/f14", "d0/f21"})
	if r.Total != 150 || !r.Exact || !r.Truncated {
		t.Errorf("total %d, exact %v, truncated %v; want 150, true, true", r.Total, r.Exact, r.Truncated)
	}
	for _, n := range []int{150, 151} {
		if r := tr.search(search.Request{Pattern: "hit", Recursive: true, Mode: search.Content, MaxResults: n}); r.Truncated || len(r.Matches) != 150 {
			t.Errorf("with a limit of %d: %d matches, truncated %v", n, len(r.Matches), r.Truncated)
		}
	}
	tr.limits.MaxResults = 5
	if r := tr.search(search.Request{Pattern: "hit", Recursive: true}); len(r.Matches) != 5 || !r.Truncated || r.Total != 50 {
		t.Errorf("over the project's limit: %d matches of %d, truncated %v", len(r.Matches), r.Total, r.Truncated)
	}
	tr.limits.MaxResults, tr.limits.MaxBytes = 1000, 400
	if r := tr.search(search.Request{Pattern: "hit", Recursive: true, Mode: search.Content}); len(r.Matches) > 6 || len(r.Matches) < 2 || !r.Truncated || r.Total != 150 {
		t.Errorf("over the size: %d matches of %d, truncated %v", len(r.Matches), r.Total, r.Truncated)
	}
}

// A search that counts no further leaves out files, never results.
func TestEndingEarlyChangesNoResult(t *testing.T) {
	files := make(map[string]string)
	for i := range 400 {
		files[fmt.Sprintf("d%d/e%d/f%03d", i%3, i%11, i)] = "hit\nhit\n"
	}
	tr := newTree(t, files)
	full := tr.search(search.Request{Pattern: "hit", Recursive: true, Mode: search.Content, MaxResults: 7})
	for _, workers := range []int{1, 2, 8} {
		tr.engine = search.New(search.Options{Scope: tr.scope, Workers: workers, CountFor: -1})
		r := tr.search(search.Request{Pattern: "hit", Recursive: true, Mode: search.Content, MaxResults: 7})
		equal(t, "matches", r.Matches, full.Matches)
		if r.Exact || !r.Truncated || r.Total >= 800 || r.FilesSearched >= 400 {
			t.Errorf("%d workers: exact %v, truncated %v, total %d, files %d", workers, r.Exact, r.Truncated, r.Total, r.FilesSearched)
		}
	}
}

func TestAFlatDirectoryIsShared(t *testing.T) {
	files := make(map[string]string)
	for i := range 1000 {
		files[fmt.Sprintf("f%04d", i)] = fmt.Sprintf("hit %d\n", i)
	}
	tr := newTree(t, files)
	r := tr.search(search.Request{Pattern: "hit", Recursive: true, MaxResults: 1000})
	if len(r.Matches) != 1000 || !slices.IsSorted(names(r)) || r.FilesSearched != 1000 {
		t.Errorf("%d matches in %d files, sorted %v", len(r.Matches), r.FilesSearched, slices.IsSorted(names(r)))
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	tr := newTree(t, map[string]string{"a": "x"})
	outside := t.TempDir()
	for _, tt := range []struct {
		r    search.Request
		want fault.Code
	}{
		{search.Request{Pattern: "a(b"}, fault.InvalidPattern},
		{search.Request{Pattern: "a\nb"}, fault.InvalidPattern},
		{search.Request{Pattern: "x", Path: outside}, fault.PathOutsideBase},
		{search.Request{Pattern: "x", Path: "../x"}, fault.PathOutsideBase},
		{search.Request{Pattern: "x", Path: "nowhere"}, fault.FileNotFound},
		{search.Request{Pattern: "x", Path: "a/b"}, fault.FileNotFound},
		{search.Request{Pattern: "x", Path: "a\x00"}, fault.ValidationError},
	} {
		if _, err := tr.try(tt.r); code(err) != tt.want {
			t.Errorf("%+v = %v, want %s", tt.r, err, tt.want)
		}
	}
	_, err := tr.try(search.Request{Pattern: "a(b", CaseInsensitive: true})
	if e, ok := errors.AsType[*fault.Error](err); !ok || e.Details["position"] != 1 || e.Details["next"] == nil {
		t.Errorf("the pattern's fault is told as %+v", err)
	}
	tr.limits.Disabled = true
	if _, err := tr.try(search.Request{Pattern: "x"}); code(err) != fault.SearchDisabled {
		t.Errorf("switched off = %v, want SEARCH_DISABLED", err)
	}
}

func TestLinksAreNotFollowed(t *testing.T) {
	tr := newTree(t, map[string]string{"real/a.txt": "hit\n"})
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "b.txt"), []byte("hit\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"file": filepath.Join(outside, "b.txt"), "dir": outside, "inside": "real", "loop": ".", "real/up": "..", "to-file": "real/a.txt",
	} {
		if err := os.Symlink(target, filepath.Join(tr.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "files", tr.files("hit"), []string{"real/a.txt"})
	equal(t, "a link asked for", names(tr.search(search.Request{Pattern: "hit", Path: "inside", Recursive: true})), []string{"real/a.txt"})
	equal(t, "a link to a file", names(tr.search(search.Request{Pattern: "hit", Path: "to-file"})), []string{"real/a.txt"})
	for _, path := range []string{"dir", "file", "dir/b.txt"} {
		if _, err := tr.try(search.Request{Pattern: "hit", Path: path}); code(err) != fault.PathOutsideBase {
			t.Errorf("search in %s = %v, want PATH_OUTSIDE_BASE", path, err)
		}
	}
}

// A directory that becomes a link while a search is under way leads nobody out.
func TestARaceWithLinksLeadsNowhere(t *testing.T) {
	files := make(map[string]string)
	for i := range 200 {
		files[fmt.Sprintf("d/e%d/f", i)] = "inside\n"
	}
	tr := newTree(t, files)
	outside := t.TempDir()
	for i := range 200 {
		dir := filepath.Join(outside, fmt.Sprintf("e%d", i))
		if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "f"), []byte("inside secret\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var swapping sync.WaitGroup
	swapping.Go(func() {
		d, away := filepath.Join(tr.root, "d"), filepath.Join(tr.root, "away")
		for ctx.Err() == nil {
			_ = os.Rename(d, away)
			_ = os.Symlink(outside, d)
			_ = os.Remove(d)
			_ = os.Rename(away, d)
		}
	})
	for range 15 {
		r, err := tr.try(search.Request{Pattern: "inside", Recursive: true, Mode: search.Content, MaxResults: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range r.Matches {
			if strings.Contains(m.Text, "secret") {
				t.Errorf("found outside: %+v", m)
			}
		}
	}
	stop()
	swapping.Wait()
}

func TestTimeLimitReturnsWhatIsThere(t *testing.T) {
	files := map[string]string{"a": "other\n"}
	for i := range 20 {
		files[fmt.Sprintf("b%02d", i)] = strings.Repeat(strings.Repeat("a", 40)+"!hit\n", 500)
	}
	tr := newTree(t, files)
	tr.limits.Timeout = 300 * time.Millisecond
	r := tr.search(search.Request{Pattern: `^(a|aa)+(?<!a)!hit`, Recursive: true})
	if !r.Slow || r.Exact || !r.TimedOut && r.Skipped.TooSlow == 0 {
		t.Errorf("slow %v, exact %v, timed out %v, skipped %+v", r.Slow, r.Exact, r.TimedOut, r.Skipped)
	}
	if r := tr.search(search.Request{Pattern: "other", Recursive: true}); len(r.Matches) != 1 || r.TimedOut {
		t.Errorf("a call after a slow one: %+v", r)
	}
}

func TestACallerThatLeavesEndsTheSearch(t *testing.T) {
	tr := newTree(t, map[string]string{"a": strings.Repeat(strings.Repeat("a", 40)+"!\n", 20000)})
	tr.options.Scope = tr.scope
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client has gone")
	cancel(gone)
	if r, err := search.New(tr.options).Search(ctx, search.Request{Pattern: "x", Mode: search.Files, MaxResults: 1}); !errors.Is(err, gone) {
		t.Errorf("Search = %+v, %v, want the cause", r, err)
	}
}

func TestManySearchesAtOnce(t *testing.T) {
	files := make(map[string]string)
	for i := range 60 {
		files[fmt.Sprintf("d%d/f%d", i%5, i)] = strings.Repeat("some hit here\n", 1+i)
	}
	files["large"] = strings.Repeat(strings.Repeat("x", 1000)+"\n", 1500) + "another hit\n"
	tr := newTree(t, files)
	want := tr.search(search.Request{Pattern: "hit", Recursive: true, Mode: search.Count})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			r, err := tr.try(search.Request{Pattern: "hit", Recursive: true, Mode: search.Count})
			if err != nil {
				t.Error(err)
				return
			}
			equal(t, "result", r, want)
		})
	}
	all.Wait()
}

// TestSameAsReadingEveryFile compares with what one loop and the standard engine
// find, for random trees, patterns and requests, with any number of workers.
func TestSameAsReadingEveryFile(t *testing.T) {
	rounds := 60
	if os.Getenv("ACM_STRESS") != "" {
		rounds = 5000
	}
	words := []string{"foo", "bar", "Foo", "baz", " ", "\n", "\n", "\r\n", "é", "x1", "(", "\xff", "\n\n"}
	patterns := []string{"foo", "ba[rz]", "^foo", "bar$", `\bfoo\b`, "foo.*bar", "é", "[^a-z]+$", "^$", "qqq", "x1|Foo", `f(?=oo)`, "."}
	for seed := range rounds {
		rng := rand.New(rand.NewPCG(uint64(seed), 11))
		files := make(map[string]string)
		for range rng.IntN(30) {
			name := strings.Repeat("d"+fmt.Sprint(rng.IntN(3))+"/", rng.IntN(4)) + fmt.Sprint("f", rng.IntN(40), []string{"", ".go", ".a"}[rng.IntN(3)])
			var b strings.Builder
			for range rng.IntN(60) {
				b.WriteString(words[rng.IntN(len(words))])
			}
			files[name] = b.String()
		}
		tr := newTree(t, files)
		tr.engine = search.New(search.Options{Scope: tr.scope, Workers: 1 + rng.IntN(4), CountFor: time.Hour})
		r := search.Request{
			Pattern: patterns[rng.IntN(len(patterns))], Recursive: true, CaseInsensitive: rng.IntN(3) == 0, MaxResults: 1 + rng.IntN(30),
			ContextLines: rng.IntN(3), Mode: []search.Mode{search.Files, search.Content, search.Count}[rng.IntN(3)],
		}
		got := tr.search(r)
		want, total := plainly(files, r)
		truncated := len(want) > r.MaxResults
		if truncated {
			want = want[:r.MaxResults]
		}
		if len(got.Matches)+len(want) > 0 && !reflect.DeepEqual(got.Matches, want) || got.Total != total || got.Truncated != truncated || got.FilesSearched != len(files) {
			t.Fatalf("seed %d, %+v:\ngot  %+v (%d of %d, %v)\nwant %+v (%d of %d, %v)", seed, r,
				got.Matches, got.Total, got.FilesSearched, got.Truncated, want, total, len(files), truncated)
		}
	}
}

// plainly is a search in the simplest way.
func plainly(files map[string]string, r search.Request) (matches []search.Match, total int) {
	expr := strings.ReplaceAll(r.Pattern, "f(?=oo)", "foo") // the standard engine cannot look ahead
	if r.CaseInsensitive {
		expr = "(?i)" + expr
	}
	re := regexp.MustCompile(expr)
	var all []string
	for name := range files {
		all = append(all, name)
	}
	slices.Sort(all)
	shown := func(line string) string {
		return strings.ToValidUTF8(strings.TrimSuffix(line, "\r"), "\uFFFD")
	}
	for _, name := range all {
		var lines []string
		for line := range strings.Lines(files[name]) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
		count := 0
		for i, line := range lines {
			if !re.MatchString(line) {
				continue
			}
			count++
			if r.Mode != search.Content {
				continue
			}
			m := search.Match{File: name, Line: i + 1, Text: shown(line)}
			if r.ContextLines > 0 {
				m.Before, m.After = []string{}, []string{}
				for _, l := range lines[max(0, i-r.ContextLines):i] {
					m.Before = append(m.Before, shown(l))
				}
				for _, l := range lines[i+1 : min(len(lines), i+1+r.ContextLines)] {
					m.After = append(m.After, shown(l))
				}
			}
			matches = append(matches, m)
		}
		if count == 0 {
			continue
		}
		switch r.Mode {
		case search.Files:
			matches = append(matches, search.Match{File: name})
			total++
		case search.Count:
			matches = append(matches, search.Match{File: name, Count: count})
			total += count
		case search.Content:
			total += count
		}
	}
	return matches, total
}

func BenchmarkSearch(b *testing.B) {
	files := make(map[string]string)
	text := bytes.Repeat([]byte("func work(ctx context.Context) error { return nil } // a line like many\n"), 150)
	for i := range 10_000 {
		files[fmt.Sprintf("d%d/e%d/f%d.go", i%10, i%100, i)] = string(text)
	}
	files["d1/e1/rare.go"] = "the needle\n"
	tr := newTree(b, files)
	for _, expr := range []string{"needle", "absent", `[a-z]{9,}\(`} {
		b.Run("files=10k/"+expr, func(b *testing.B) {
			b.SetBytes(int64(len(text)) * 10_000)
			b.ReportAllocs()
			for b.Loop() {
				tr.search(search.Request{Pattern: expr, Recursive: true})
			}
		})
	}
}
