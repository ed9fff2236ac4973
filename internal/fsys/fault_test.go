package fsys_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/commit"
)

// fail makes the n-th step that is come to fail, and returns the names of those
// that were come to.
func fail(t *testing.T, n int, with error) *[]string {
	t.Helper()
	var mu sync.Mutex
	seen := new([]string)
	commit.Failpoint = func(step string) error {
		mu.Lock()
		defer mu.Unlock()
		*seen = append(*seen, step)
		if len(*seen) == n {
			return with
		}
		return nil
	}
	t.Cleanup(func() { commit.Failpoint = nil })
	return seen
}

// changes are one of every kind. Before each the tree is as grow makes it.
func changes(t *testing.T, b *fsys.Bases) map[string]func() error {
	p := func(name string) fsys.Path { return resolve(t, b, name) }
	old, x := fsys.ContentOf([]byte("old")), fsys.ContentOf([]byte("x"))
	dirs := fsys.WriteOptions{MakeDirs: true}
	return map[string]func() error{
		"create":         func() error { return p("new").Create([]byte("n"), fsys.WriteOptions{}) },
		"create, dirs":   func() error { return p("a/b/new").Create([]byte("n"), dirs) },
		"replace":        func() error { return p("f").Replace([]byte("n"), old, fsys.WriteOptions{}) },
		"append":         func() error { _, err := p("f").Append([]byte("n"), fsys.Sync{}); return err },
		"remove":         func() error { return p("f").Remove(nil, fsys.Sync{}) },
		"remove, if":     func() error { return p("f").Remove(&old, fsys.Sync{}) },
		"remove all":     func() error { return p("d").RemoveAll(t.Context(), nil, fsys.Sync{}) },
		"mkdir":          func() error { return p("a/b").Mkdir(true, fsys.Sync{}) },
		"copy":           func() error { return fsys.Copy(p("f"), p("a/copy"), fsys.RenameOptions{MakeDirs: true}) },
		"rename":         func() error { _, err := fsys.Rename(p("f"), p("a/g"), fsys.RenameOptions{MakeDirs: true}); return err },
		"rename dir":     func() error { _, err := fsys.Rename(p("d"), p("a/e"), fsys.RenameOptions{MakeDirs: true}); return err },
		"replace deeper": func() error { return p("d/sub/x").Replace([]byte("n"), x, fsys.WriteOptions{}) },
	}
}

func grow(t *testing.T) (*fsys.Bases, string) {
	root := tempDir(t)
	put(t, filepath.Join(root, "f"), "old")
	put(t, filepath.Join(root, "d/sub/x"), "x")
	return open(t, root), root
}

// snapshot is every name and every content.
func snapshot(t *testing.T, root string) string {
	t.Helper()
	all := strings.Fields(list(t, root))
	for i, name := range all {
		if info, err := os.Lstat(filepath.Join(root, name)); err == nil && info.Mode().IsRegular() {
			all[i] += "=" + text(t, filepath.Join(root, name))
		}
	}
	return strings.Join(all, " ")
}

// Whichever step fails, everything is as it was, with no temp file and no
// directory left.
func TestAnyFailureLeavesWhatWas(t *testing.T) {
	injected := fmt.Errorf("injected: %w", syscall.EIO)
	var reached []string
	_, plain := grow(t)
	before := snapshot(t, plain)
	for op := range changes(t, nil) {
		for n := 1; ; n++ {
			b, root := grow(t)
			seen := fail(t, n, injected)
			err := changes(t, b)[op]()
			if len(*seen) < n {
				must(t, err)
				break // it ran through
			}
			step := (*seen)[n-1]
			reached = append(reached, step)
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("%s failed at %s with %v, want the injected error", op, step, err)
			}
			if got := snapshot(t, root); got != before {
				t.Errorf("%s failed at %s and left\n%s\nwant\n%s", op, step, got, before)
			}
		}
	}
	for _, step := range commit.Steps {
		if !slices.Contains(reached, step) {
			t.Errorf("no operation came to step %s", step)
		}
	}
}

func TestAppendCutsBackOnlyItsOwn(t *testing.T) {
	b, root := grow(t)
	path := filepath.Join(root, "f")
	commit.Failpoint = func(step string) error {
		if step != "append.flush" {
			return nil
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		defer f.Close()
		_, err = f.WriteString("outside")
		must(t, err)
		return syscall.EIO
	}
	t.Cleanup(func() { commit.Failpoint = nil })
	if _, err := resolve(t, b, "f").Append([]byte("ours"), fsys.Sync{}); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if got := text(t, path); got != "oldoursoutside" {
		t.Errorf("the file holds %q: what somebody wrote behind ours was cut", got)
	}
}

func TestTempNamesFitHideAndAreRefused(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	for _, name := range []string{"f", strings.Repeat("n", 255), strings.Repeat("é", 127), "a\nb", "\xff\xfe", ".hidden", "a.b.c", "-x"} {
		var temp string
		commit.Failpoint = func(step string) error {
			if step == "create.flush" {
				temp = list(t, root)
				if got := walked(t, b); got != "" {
					t.Errorf("Walk shows %q", got)
				}
			}
			return nil
		}
		err := resolve(t, b, name).Create([]byte("x"), fsys.WriteOptions{})
		commit.Failpoint = nil
		must(t, err)
		if !fsys.IsTemp(temp) || len(temp) > 255 {
			t.Errorf("temp name %q of %d bytes", temp, len(temp))
		}
		for _, use := range []string{temp, "d/" + temp, temp + "/x"} {
			if _, err := b.Resolve(use); !errors.Is(err, fsys.ErrReserved) {
				t.Errorf("Resolve(%q) = %v, want ErrReserved", use, err)
			}
		}
		must(t, resolve(t, b, name).Replace([]byte("y"), fsys.ContentOf([]byte("x")), fsys.WriteOptions{}))
		must(t, resolve(t, b, name).Remove(nil, fsys.Sync{}))
		if got := list(t, root); got != "" {
			t.Errorf("left %q", got)
		}
	}
	for _, name := range []string{"x.acm-tmp", ".x.acm-tmp", ".f.a-b-c.acm-tmp", ".f.tmp", ".acm-tmp", ".f.aaaaaa-0-bbbbbb-ccccccccccccc-0-0.acm-tmp"} {
		if fsys.IsTemp(name) {
			t.Errorf("%s is taken for a temp file of ours", name)
		}
	}
}

func walked(t *testing.T, b *fsys.Bases) string {
	var all []string
	must(t, resolve(t, b, ".").Walk(t.Context(), fsys.WalkOptions{Recursive: true}, func(e *fsys.Entry) error {
		all = append(all, e.Rel)
		return nil
	}))
	return strings.Join(all, " ")
}
