package search_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search"
	"github.com/async-crud-mcp/async-crud-mcp/internal/watch"
)

// indexed is a tree whose engine may index it, beside one that scans.
type indexed struct {
	*tree
	scan  *search.Engine
	watch *watch.Tree
	deaf  atomic.Bool // notices are lost
	stop  func()      // ends the engine and the watcher
}

// newIndexed starts an engine that is told of changes; stat: that looks at every
// file instead.
func newIndexed(t testing.TB, files map[string]string, o search.Options, stat bool) *indexed {
	t.Helper()
	x := &indexed{tree: newTree(t, files)}
	x.scan = search.New(search.Options{Scope: x.scope, Workers: 2, CountFor: time.Hour})
	o.Scope, o.CountFor, x.limits.VerifyStat = x.scope, time.Hour, stat
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	if !stat {
		x.watch = watch.NewTree(x.root, watch.TreeOptions{Skip: search.Unwatched, Passing: true})
		o.Tree = func(root string) *watch.Tree {
			if root != x.root {
				t.Errorf("asked for the watcher of %s", root)
			}
			return x.watch
		}
	}
	x.engine = search.New(o)
	running.Go(func() {
		if err := x.engine.Run(ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	if x.watch != nil {
		running.Go(func() {
			if err := x.watch.Run(ctx, func(c []watch.Change) {
				if !x.deaf.Load() {
					x.engine.Noticed(x.root, c)
				}
			}); err != nil {
				t.Errorf("the watcher: %v", err)
			}
		})
		if err := x.watch.Sync(ctx); err != nil {
			t.Fatal(err)
		}
	}
	x.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(x.stop)
	return x
}

// until searches until the answer comes from one of these sources.
func (x *indexed) until(r search.Request, sources ...string) *search.Result {
	x.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		res := x.search(r)
		if slices.Contains(sources, res.Source) {
			return res
		}
		if time.Now().After(deadline) {
			x.t.Fatalf("after a minute a search still comes from %s, want %v", res.Source, sources)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// same compares what the engine finds with a scan, and returns the source.
func (x *indexed) same(what string, r search.Request) string {
	x.t.Helper()
	r.Mode, r.MaxResults = orMode(r.Mode), max(r.MaxResults, 1)
	got := x.search(r)
	want, err := x.scan.Search(x.t.Context(), r)
	if err != nil {
		x.t.Fatal(err)
	}
	source := got.Source
	got.Source = want.Source
	equal(x.t, fmt.Sprintf("%s: %+v from %s", what, r, source), got, want)
	return source
}

func orMode(m search.Mode) search.Mode {
	if m == "" {
		return search.Files
	}
	return m
}

const fromIndex, fromMemory = search.FromIndex, search.FromMemory

func sampleFiles() map[string]string {
	files := map[string]string{
		".gitignore": "*.log\nbuild/\n", "a.log": "needle\n", "build/x": "needle\n", "bin": "needle\x00\n",
		"mark": "\xef\xbb\xbfneedle after a mark\n", "big": strings.Repeat("x", 3<<20) + "needle",
		"long": strings.Repeat(strings.Repeat("some words ", 10)+"\n", 3000) + "the needle\n" + strings.Repeat("more\n", 50000) + "needle again\n",
	}
	for i := range 120 {
		files[fmt.Sprintf("d%d/e%d/f%03d.go", i%4, i%9, i)] = fmt.Sprintf("package p%d\n\nfunc Work%d() {\n\t// needle %d\n}\n\nfoo bar\r\n", i, i, i)
	}
	return files
}

var sampleQueries = []search.Request{
	{Pattern: "needle", Recursive: true, MaxResults: 1000},
	{Pattern: "needle", Recursive: true, MaxResults: 1000, Mode: search.Content, ContextLines: 2},
	{Pattern: "needle", Recursive: true, MaxResults: 7, Mode: search.Content},
	{Pattern: "needle", Recursive: true, MaxResults: 1000, Mode: search.Count},
	{Pattern: "absent text", Recursive: true, MaxResults: 1000},
	{Pattern: "NEEDLE 1[0-9]", Recursive: true, CaseInsensitive: true, MaxResults: 1000, Mode: search.Content},
	{Pattern: "^func Work", Recursive: true, MaxResults: 20, Mode: search.Content, Glob: "**/f00*.go"},
	{Pattern: "^$", Recursive: true, MaxResults: 1000, Mode: search.Count},
	{Pattern: ".", Recursive: true, MaxResults: 30, Mode: search.Content},
	{Pattern: `needle(?= 11)`, Recursive: true, MaxResults: 1000, Mode: search.Content},
	{Pattern: "needle", Path: "d1", Recursive: true, MaxResults: 1000},
	{Pattern: "needle", Path: "d1/e1", MaxResults: 1000},
	{Pattern: "needle", Path: "build", Recursive: true, MaxResults: 1000},
	{Pattern: "needle", Path: "long", MaxResults: 1000, Mode: search.Content},
	{Pattern: "needle", MaxResults: 1000},
}

func TestEveryStateGivesTheSameAnswer(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    search.Options
		stat bool
		want []string // sources of the first query, in the end
	}{
		{"memory", search.Options{Workers: 4}, false, []string{fromMemory}},
		{"one worker", search.Options{Workers: 1}, false, []string{fromMemory}},
		{"no contents", search.Options{Workers: 4, ContentBytes: -1}, false, []string{fromIndex}},
		{"little room", search.Options{Workers: 2, ContentBytes: 3 << 20, IndexBytes: 40 << 10}, false, []string{fromIndex, fromMemory}},
		{"by looking", search.Options{Workers: 2}, true, []string{fromMemory}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !tt.stat && !toldOfChanges {
				return
			}
			x := newIndexed(t, sampleFiles(), tt.o, tt.stat)
			for _, r := range sampleQueries { // before there is an index, or while it is built
				x.same("at first", r)
			}
			x.until(sampleQueries[0], tt.want...)
			for _, r := range sampleQueries {
				source := x.same("indexed", r)
				if scans := r.Path == "build" || r.Path == "long"; scans != (source == search.FromScan) {
					t.Errorf("%+v comes from %s", r, source)
				}
			}
			if x.watch == nil {
				return
			}
			x.engine.Noticed(x.root, []watch.Change{{Rel: ".", Kind: watch.Overflow, Dir: true}})
			for _, r := range sampleQueries {
				x.same("uncertain", r)
			}
			x.until(sampleQueries[0], tt.want...)
		})
	}
}

func TestRulesHoldForTheNextSearch(t *testing.T) {
	if !toldOfChanges {
		return
	}
	x := newIndexed(t, map[string]string{"open": "token\n", "secret/a": "token\n", "env": "user\npassword=token\nend\n", "key": "PRIVATE KEY token\n"}, search.Options{}, false)
	all := search.Request{Pattern: "token", Recursive: true, Mode: search.Content, MaxResults: 100, ContextLines: 1}
	x.until(all, fromMemory)
	for range 2 {
		x.access.Rules = []access.Rule{{Path: "secret", Operations: []string{"search"}, Action: "deny"}}
		equal(t, "files by the rules", names(x.search(all)), []string{"env", "key", "open"})
		x.same("with access rules", all)
		x.content = []access.ContentRule{{Name: "password", Pattern: `password=\S+`, Action: "redact"}, {Name: "key", Pattern: "PRIVATE KEY", Action: "deny"}}
		equal(t, "files by what may be shown", names(x.search(all)), []string{"open"})
		for _, pattern := range []string{"token", "REDACTED", "password", "user|PRIVATE", "^password=t"} {
			r := all
			r.Pattern = pattern
			if source := x.same("with content rules", r); source != fromMemory {
				t.Errorf("with content rules %s comes from %s", pattern, source)
			}
		}
		x.access.Rules, x.content = nil, nil
		equal(t, "files without rules", names(x.search(all)), []string{"env", "key", "open", "secret/a"})
	}
}

func TestSettingsHaveAnIndexOfTheirOwn(t *testing.T) {
	if !toldOfChanges {
		return
	}
	x := newIndexed(t, sampleFiles(), search.Options{}, false)
	for range 2 {
		for _, change := range []func(){
			func() { x.limits.RespectIgnore = false },
			func() { x.limits.MaxFileSize = 10 << 20 },
			func() { x.limits.RespectIgnore, x.limits.MaxFileSize = true, 2<<20 },
		} {
			change()
			x.same("at once", sampleQueries[0])
			x.until(sampleQueries[0], fromMemory)
			x.same("indexed", sampleQueries[0])
		}
	}
}

// A write through a name outside the tree raises no notice.
func TestAWriteByAnotherNameIsSeen(t *testing.T) {
	if !toldOfChanges {
		return
	}
	x := newIndexed(t, map[string]string{"a": "one\n", "b": "one\n"}, search.Options{}, false)
	outside := filepath.Join(t.TempDir(), "a")
	if err := os.Link(filepath.Join(x.root, "a"), outside); err != nil {
		t.Fatal(err)
	}
	r := search.Request{Pattern: "one", Recursive: true, MaxResults: 10}
	x.until(r, fromMemory)
	if err := os.WriteFile(outside, []byte("two\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.Pattern = "two"
	equal(t, "what is new", names(x.search(r)), []string{"a"})
	r.Pattern = "one"
	equal(t, "what is gone", names(x.search(r)), []string{"b"})
}

func TestAnIdleIndexIsDropped(t *testing.T) {
	if !toldOfChanges {
		return
	}
	x := newIndexed(t, sampleFiles(), search.Options{Idle: 50 * time.Millisecond}, false)
	x.until(sampleQueries[0], fromIndex, fromMemory)
	deadline := time.Now().Add(time.Minute)
	for x.engine.Stats() != (search.Stats{}) {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute there is still %+v", x.engine.Stats())
		}
		time.Sleep(5 * time.Millisecond)
	}
	x.same("after it was dropped", sampleQueries[0])
	x.until(sampleQueries[0], fromIndex, fromMemory)
	x.stop()
	equal(t, "what is left when it has stopped", x.engine.Stats(), search.Stats{})
	x.same("when it has stopped", sampleQueries[0])
}

func TestAnotherDirectoryOfThatNameIsNotTheIndexedOne(t *testing.T) {
	if !toldOfChanges {
		return
	}
	x := newIndexed(t, map[string]string{"sub/a": "one\n"}, search.Options{}, false)
	r := search.Request{Pattern: "one", Recursive: true, MaxResults: 10}
	x.until(r, fromMemory)
	if err := errors.Join(os.Rename(filepath.Join(x.root, "sub"), filepath.Join(x.root, "old")), os.Mkdir(filepath.Join(x.root, "sub"), 0o755)); err != nil {
		t.Fatal(err)
	}
	equal(t, "files", names(x.search(r)), []string{"old/a"})
	r.Path = "sub"
	equal(t, "files in the new one", names(x.search(r)), []string{})
}

// TestChangeThenSearchIsAFreshScan changes a tree in every way there is, and
// searches it at once.
func TestChangeThenSearchIsAFreshScan(t *testing.T) {
	rounds := 60
	if os.Getenv("ACM_STRESS") != "" {
		rounds = 500
	}
	for _, tt := range []struct {
		name  string
		o     search.Options
		stat  bool
		share int // of the rounds, one in so many
	}{
		{"watched", search.Options{Workers: 2}, false, 1},
		{"little room", search.Options{Workers: 3, ContentBytes: 3 << 20, IndexBytes: 200 << 10}, false, 3},
		{"looked at", search.Options{Workers: 2}, true, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !tt.stat && !toldOfChanges {
				return
			}
			campaign(t, tt.o, tt.stat, rounds/tt.share)
		})
	}
}

func campaign(t *testing.T, o search.Options, stat bool, rounds int) {
	x := newIndexed(t, sampleFiles(), o, stat)
	rng := rand.New(rand.NewPCG(3, 4))
	c := &changer{indexed: x, rng: rng, outside: t.TempDir()}
	defer c.close()
	x.until(sampleQueries[0], fromIndex, fromMemory)
	patterns := []string{"needle", "fresh", "absent text", "fresh [0-9]*7", "^func", "x+y", "^$", "foo|fresh"}
	sources := make(map[string]int)
	for round := range rounds {
		what := c.change()
		if rng.IntN(5) > 0 && round%7 != 6 {
			r := search.Request{
				Pattern: patterns[rng.IntN(len(patterns))], Recursive: rng.IntN(8) > 0, MaxResults: 1 + rng.IntN(400),
				Mode: []search.Mode{search.Files, search.Content, search.Count}[rng.IntN(3)], ContextLines: rng.IntN(2),
			}
			sources[x.same(fmt.Sprintf("round %d, %s", round, what), r)]++
		} else {
			for _, r := range []search.Request{sampleQueries[0], sampleQueries[8], sampleQueries[6]} {
				sources[x.same(fmt.Sprintf("round %d, %s", round, what), r)]++
			}
		}
		if t.Failed() {
			return
		}
		if rng.IntN(4) == 0 { // sometimes everything is in the index before the next change
			x.until(sampleQueries[0], fromIndex, fromMemory)
		}
	}
	if sources[fromIndex]+sources[fromMemory] < rounds/2 {
		t.Errorf("answers came from %v", sources)
	}
	t.Logf("%d rounds, answers from %v", rounds, sources)
}

// changer changes a tree.
type changer struct {
	*indexed
	rng     *rand.Rand
	outside string
	open    *os.File
	n       int
}

func (c *changer) close() {
	if c.open != nil {
		c.open.Close()
	}
}

func (c *changer) path(rel string) string { return filepath.Join(c.root, filepath.FromSlash(rel)) }

func (c *changer) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// all returns what there is.
func (c *changer) all() (files, dirs []string) {
	c.must(filepath.WalkDir(c.root, func(path string, d os.DirEntry, err error) error {
		rel, relErr := filepath.Rel(c.root, path)
		switch {
		case err != nil || relErr != nil:
			return errors.Join(err, relErr)
		case d.Name() == ".git":
			return filepath.SkipDir
		case d.IsDir() && rel != ".":
			dirs = append(dirs, rel)
		case d.Type().IsRegular() && d.Name() != "big":
			files = append(files, rel)
		}
		return nil
	}))
	return files, dirs
}

// fresh is a text that was not there.
func (c *changer) fresh() string {
	c.n++
	return fmt.Sprintf("fresh %d\nneedle\n", c.n)
}

func (c *changer) change() string {
	files, dirs := c.all()
	if len(files) > 300 || len(dirs) < 4 {
		for _, e := range dirs {
			c.must(os.RemoveAll(c.path(e)))
		}
		for name, text := range sampleFiles() {
			c.write(name, text)
		}
		return "everything anew"
	}
	dir := func() string { return dirs[c.rng.IntN(len(dirs))] }
	file := files[c.rng.IntN(len(files))]
	switch kind := c.rng.IntN(19); kind {
	case 0:
		f, err := os.OpenFile(c.path(file), os.O_APPEND|os.O_WRONLY, 0)
		c.must(err)
		_, err = f.WriteString(c.fresh())
		c.must(errors.Join(err, f.Close()))
		return "append to " + file
	case 1: // of the same size
		old, err := os.ReadFile(c.path(file))
		c.must(err)
		f, err := os.OpenFile(c.path(file), os.O_WRONLY, 0)
		c.must(err)
		_, err = f.WriteAt([]byte(strings.Replace(string(old), "needle", "noodle", 1)), 0)
		c.must(errors.Join(err, f.Close()))
		return "write in place " + file
	case 2:
		c.must(os.WriteFile(c.path(file)+".tmp", []byte(c.fresh()), 0o644))
		c.must(os.Rename(c.path(file)+".tmp", c.path(file)))
		return "replace " + file
	case 3:
		c.must(os.Remove(c.path(file)))
		return "delete " + file
	case 4:
		from := dir()
		c.n++
		to := fmt.Sprintf("moved%d", c.n)
		c.must(os.Rename(c.path(from), c.path(to)))
		return "rename " + from + " to " + to
	case 5:
		c.write(fmt.Sprintf("new%d/a/b/c/f", c.n), c.fresh())
		return "directories in one another"
	case 6:
		out, err := exec.Command("sh", "-c", `echo "fresh by another" >> "$1"; mkdir -p "$2/by"; echo "fresh in it" > "$2/by/another"`, "sh", c.path(file), c.path(dir())).CombinedOutput()
		if err != nil {
			c.t.Fatalf("%v: %s", err, out)
		}
		return "another process"
	case 7:
		for i := range 60 {
			c.write(fmt.Sprintf("burst/%d/f%d", c.n, i), c.fresh())
		}
		return "a burst"
	case 8:
		c.close()
		var err error
		c.open, err = os.OpenFile(c.path(file), os.O_APPEND|os.O_WRONLY, 0)
		c.must(err)
		_, err = c.open.WriteString(c.fresh())
		c.must(err)
		return "an open handle on " + file
	case 9:
		if c.open != nil {
			_, err := c.open.WriteString(c.fresh())
			c.must(err)
		}
		return "another write by the open handle"
	case 10:
		names := []string{"*.log\nbuild/\n", "*.log\nbuild/\nd1/\n", "*.go\n!f00*.go\n", "moved*\n", "", "/d2\n*.log\n"}
		c.write(".gitignore", names[c.rng.IntN(len(names))])
		return "ignore file"
	case 11:
		in := dir()
		c.write(in+"/.gitignore", []string{"f*\n", "e1\n", "!*.log\n", "by/\n"}[c.rng.IntN(4)])
		return "ignore file in " + in
	case 12:
		in := dir()
		if _, err := os.Stat(c.path(in + "/.git")); err == nil {
			c.must(os.RemoveAll(c.path(in + "/.git")))
			return "no repository in " + in
		}
		c.write(in+"/.git/info/exclude", "f0*\n")
		return "a repository in " + in
	case 13:
		c.write(".git/info/exclude", []string{"e2\n", "", "f*\n!f1*\n"}[c.rng.IntN(3)])
		return "exclude file"
	case 14:
		c.must(os.Remove(c.path(file)))
		c.must(os.Symlink(c.path("mark"), c.path(file)))
		c.must(os.Rename(c.path(file), c.path(file)+".link"))
		c.write(file, c.fresh())
		return "a link beside " + file
	case 15:
		c.must(os.Remove(c.path(file)))
		c.write(file+"/in", c.fresh())
		return "a directory in the place of " + file
	case 16:
		c.write(file, "binary\x00"+c.fresh())
		return "binary " + file
	case 17:
		link := filepath.Join(c.outside, fmt.Sprint("l", c.n))
		c.n++
		c.must(os.Link(c.path(file), link))
		c.same("linked", sampleQueries[0]) // its other name is known
		c.until(sampleQueries[0], fromIndex, fromMemory)
		return "another name of " + file
	default:
		c.deaf.Store(true)
		c.must(os.WriteFile(c.path(file), []byte(c.fresh()), 0o644))
		c.must(os.WriteFile(c.path(dir()+"/lost"), []byte(c.fresh()), 0o644))
		c.must(os.RemoveAll(c.path(dir())))
		if c.watch != nil {
			c.must(c.watch.Sync(c.t.Context()))
			c.deaf.Store(false)
			c.engine.Noticed(c.root, []watch.Change{{Rel: ".", Kind: watch.Overflow, Dir: true}})
		}
		_, dirs = c.all()
		a, b := dir(), c.path("exchange")
		if err := os.Rename(c.path(a), b); err == nil {
			c.must(os.MkdirAll(c.path(a), 0o755))
			c.must(os.Rename(b, filepath.Join(c.path(a), fmt.Sprint("was", c.n))))
		}
		c.n++
		return "overflow, and a directory put into itself"
	}
}
