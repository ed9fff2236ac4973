//go:build unix

package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
)

// linkedPlace is a place with links to a file, to a directory with a file in it,
// to nothing and to the outside.
func linkedPlace(t *testing.T) *place {
	t.Helper()
	p := fresh(t)
	in := func(name string) string { return filepath.Join(p.root, name) }
	if err := errors.Join(
		os.WriteFile(in("dir/source.txt"), []byte("the only copy\n"), 0o644),
		os.Symlink("a.txt", in("tofile")), os.Symlink(in("dir"), in("todir")),
		os.Symlink("missing", in("tonothing")), os.Symlink("/etc/passwd", in("tooutside")),
	); err != nil {
		t.Fatal(err)
	}
	return p
}

// kept fails if what the links lead to is not as it was.
func (p *place) kept(t *testing.T) {
	t.Helper()
	for name, want := range map[string]string{"a.txt": "one\ntwo\n", "dir/source.txt": "the only copy\n"} {
		if raw, err := os.ReadFile(filepath.Join(p.root, name)); string(raw) != want {
			t.Errorf("%s holds %q, %v", name, raw, err)
		}
	}
}

func TestDeletingALinkLeavesWhatItLeadsTo(t *testing.T) {
	p := linkedPlace(t)
	for _, r := range []files.DeleteRequest{
		{Path: "tofile", ExpectedHash: p.hash(t, "a.txt")}, {Path: "todir", Recursive: true}, {Path: "tonothing"},
	} {
		out, err := p.Delete(t.Context(), r)
		if err != nil || out.Done == nil || !out.Done.Link || out.Done.Path != filepath.Join(p.root, r.Path) {
			t.Errorf("%s: %+v, %v", r.Path, out.Done, err)
		}
		if _, err := os.Lstat(filepath.Join(p.root, r.Path)); !os.IsNotExist(err) {
			t.Errorf("the link %s is still there: %v", r.Path, err)
		}
	}
	p.kept(t)
	if _, err := p.Delete(t.Context(), files.DeleteRequest{Path: "tooutside"}); fault.CodeOf(err) != fault.PathOutsideBase {
		t.Errorf("a link that leaves the project: %v", err)
	}
}

// TestALinkStaysWhenItsFileIsNotTheOneExpected asks for versions that are not there.
func TestALinkStaysWhenItsFileIsNotTheOneExpected(t *testing.T) {
	p, ctx := linkedPlace(t), t.Context()
	stale := "sha256:00"
	deleted, err := p.Delete(ctx, files.DeleteRequest{Path: "tofile", ExpectedHash: stale})
	if err != nil || deleted.Contention == nil || deleted.Contention.CurrentHash != p.hash(t, "a.txt") {
		t.Errorf("delete: %+v, %v", deleted, err)
	}
	for name, want := range map[string]fault.Code{"todir": fault.ValidationError, "tonothing": fault.FileNotFound} {
		if _, err := p.Delete(ctx, files.DeleteRequest{Path: name, ExpectedHash: stale}); fault.CodeOf(err) != want {
			t.Errorf("delete %s: %v, want %s", name, err, want)
		}
	}
	if err := os.Symlink("dir", filepath.Join(p.root, "locked")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"locked", "dir/../locked"} {
		if _, err := p.Delete(ctx, files.DeleteRequest{Path: name, Recursive: true}); fault.CodeOf(err) != fault.AccessDenied {
			t.Errorf("a link that a rule protects: %v", err)
		}
	}
	for _, name := range []string{"tofile", "todir", "tonothing", "locked"} {
		if _, err := os.Readlink(filepath.Join(p.root, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.kept(t)
}
