package fsys_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

func TestDirReadsFilesIntoGivenMemory(t *testing.T) {
	root := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(outside, []byte("secret"), 0o644))
	must(t, os.Mkdir(filepath.Join(root, "sub"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "sub/a"), []byte("short"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "sub/b"), bytes.Repeat([]byte("x"), 5000), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "sub/empty"), nil, 0o644))
	must(t, os.Symlink(outside, filepath.Join(root, "sub/link")))
	bases, err := fsys.OpenBases(root, nil)
	must(t, err)
	defer bases.Close()
	p, err := bases.Resolve("sub")
	must(t, err)
	d, err := p.OpenDir()
	must(t, err)
	defer d.Close()

	entries, err := d.Entries()
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
		if want := map[bool]fsys.Kind{true: fsys.Link, false: fsys.Regular}[e.Name == "link"]; e.Kind != want {
			t.Errorf("%s is of kind %v, want %v", e.Name, e.Kind, want)
		}
	}
	slices.Sort(names)
	if want := []string{"a", "b", "empty", "link"}; !slices.Equal(names, want) {
		t.Errorf("entries %v, want %v", names, want)
	}
	buf := make([]byte, 0, 100)
	data, stamp, err := d.ReadFile("a", buf, 1000)
	if string(data) != "short" || err != nil || &data[0] != &buf[:1][0] {
		t.Errorf("a = %q, %v, in the given memory: %v", data, err, &data[0] == &buf[:1][0])
	}
	if info, err := d.Path("a").Stat(); err != nil || info.Stamp != stamp {
		t.Errorf("the stamp is %v, %v; want that of a", stamp, err)
	}
	if data, _, err := d.ReadFile("b", buf, 5000); len(data) != 5000 || err != nil {
		t.Errorf("b has %d bytes, %v, want 5000", len(data), err)
	}
	if data, _, err := d.ReadFile("empty", buf, 0); len(data) != 0 || err != nil {
		t.Errorf("empty has %d bytes, %v", len(data), err)
	}
	if _, _, err := d.ReadFile("b", buf, 4999); !errors.Is(err, fsys.ErrTooLarge) {
		t.Errorf("over the limit: %v, want ErrTooLarge", err)
	}
	if data, _, err := d.ReadFile("link", buf, 1000); err == nil {
		t.Errorf("a link out = %q, want an error", data)
	}
	for _, name := range []string{"..", ".", "", "../sub/a", "/etc/passwd"} {
		if data, _, err := d.ReadFile(name, buf, 1000); err == nil {
			t.Errorf("%q = %q, want an error", name, data)
		}
	}
}
