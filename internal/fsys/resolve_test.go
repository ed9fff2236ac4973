package fsys_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

func TestResolveNearestFollowsWhatExists(t *testing.T) {
	base, err := fsys.ResolveDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	inside, outside := filepath.Join(base, "in"), filepath.Join(base, "out")
	for _, d := range []string{inside, outside} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(inside, name)); err != nil {
			t.Skipf("links cannot be made here: %v", err)
		}
	}
	link(outside, "leaves")
	link("nowhere", "dangling")
	for in, want := range map[string]string{
		inside:                             inside,
		inside + "/a/b":                    inside + "/a/b",
		inside + "/../out":                 outside,
		inside + "/leaves":                 outside,
		inside + "/leaves/not/there":       outside + "/not/there",
		inside + "/not/../leaves/x":        outside + "/x",
		inside + "/dangling":               "",
		inside + "/dangling/not/there/yet": "",
	} {
		got, err := fsys.ResolveNearest(filepath.FromSlash(in))
		if want == "" {
			if err == nil {
				t.Errorf("ResolveNearest(%s) = %s, want an error", in, got)
			}
		} else if err != nil || got != filepath.FromSlash(want) {
			t.Errorf("ResolveNearest(%s) = %s, %v; want %s", in, got, err, want)
		}
	}
}

func TestExistsSeesDanglingLinks(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("nowhere", filepath.Join(dir, "l")); err != nil {
		t.Skipf("links cannot be made here: %v", err)
	}
	if !fsys.Exists(filepath.Join(dir, "l")) || fsys.Exists(filepath.Join(dir, "m")) {
		t.Error("Exists is wrong")
	}
}
