package fsys_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

const mega = 1 << 20

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tempDir is t.TempDir with links resolved.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := fsys.ResolveDir(t.TempDir())
	must(t, err)
	return dir
}

func open(t testing.TB, root string, others ...string) *fsys.Bases {
	t.Helper()
	b, err := fsys.OpenBases(root, others)
	must(t, err)
	t.Cleanup(b.Close)
	return b
}

func resolve(t testing.TB, b *fsys.Bases, name string) fsys.Path {
	t.Helper()
	p, err := b.Resolve(name)
	must(t, err)
	return p
}

func put(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

func link(t testing.TB, target, path string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	if err := os.Symlink(target, path); err != nil {
		t.Skipf("links cannot be made here: %v", err)
	}
}

func text(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		return "(" + errors.Unwrap(err).Error() + ")"
	}
	return string(data)
}

// list returns everything below dir, hidden files too.
func list(t testing.TB, dir string) string {
	t.Helper()
	var all []string
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			all = append(all, filepath.ToSlash(rel))
		}
		return err
	}))
	return strings.Join(all, " ")
}

// farm makes a base with links of every kind, a second base, and a place outside
// whose name begins like the base's.
func farm(t testing.TB) (b *fsys.Bases, root, second, outside string) {
	t.Helper()
	top := tempDir(t)
	root, second, outside = filepath.Join(top, "base"), filepath.Join(top, "second"), filepath.Join(top, "base-evil")
	put(t, filepath.Join(root, "file"), "file")
	put(t, filepath.Join(root, "sub/deep/file"), "deep")
	put(t, filepath.Join(second, "file"), "second")
	put(t, filepath.Join(outside, "secret"), "secret")
	for name, target := range map[string]string{
		"l-file":      "file",
		"l-sub":       "sub",
		"l-abs":       filepath.Join(root, "sub"),
		"l-chain":     "l-abs",
		"l-second":    second,
		"l-out":       outside,
		"l-out-rel":   "../base-evil",
		"l-up":        "..",
		"l-dangling":  "sub/new",
		"l-dang-dir":  "sub/newdir/x",
		"l-dang-out":  filepath.Join(outside, "new"),
		"l-loop":      "l-loop2",
		"l-loop2":     "l-loop",
		"l-self":      ".",
		"sub/l-back":  "../file",
		"sub/l-leave": "../../base-evil/secret",
		"l-via":       filepath.Join(outside, "back"),
	} {
		link(t, target, filepath.Join(root, name))
	}
	link(t, filepath.Join(root, "file"), filepath.Join(outside, "back"))
	link(t, root, filepath.Join(top, "alias"))
	return open(t, root, second), root, second, outside
}

func TestResolveFollowsLinksInsideAndRefusesTheWayOut(t *testing.T) {
	b, root, second, outside := farm(t)
	top := filepath.Dir(root)
	in := func(rel string) string { return filepath.Join(root, rel) }
	for _, c := range []struct {
		name string
		want string // absolute; "" for an error
		err  error
	}{
		{"file", in("file"), nil},
		{"./sub//deep/./file", in("sub/deep/file"), nil},
		{".", root, nil},
		{root, root, nil},
		{root + "/", root, nil},
		{in("file"), in("file"), nil},
		{"new", in("new"), nil},
		{"a/b/c/new", in("a/b/c/new"), nil},
		{"a/../new", in("new"), nil},
		{"sub/../file", in("file"), nil},
		{"sub/deep/../../file", in("file"), nil},
		{filepath.Join(second, "file"), filepath.Join(second, "file"), nil},
		{second, second, nil},
		{"../second/file", filepath.Join(second, "file"), nil},
		// links that stay
		{"l-file", in("file"), nil},
		{"l-sub/deep/file", in("sub/deep/file"), nil},
		{"l-abs/deep/new", in("sub/deep/new"), nil},
		{"l-chain/deep/file", in("sub/deep/file"), nil},
		{"l-chain/a/b", in("sub/a/b"), nil},
		{"sub/l-back", in("file"), nil},
		{"l-sub/l-back", in("file"), nil},
		{"l-self/l-self/file", in("file"), nil},
		{"l-second/file", filepath.Join(second, "file"), nil},
		{"l-dangling", in("sub/new"), nil},
		{"l-dang-dir", in("sub/newdir/x"), nil},
		{"l-sub/..", root, nil}, // as the system: the parent of what the link leads to
		{"l-chain/deep/../../file", in("file"), nil},
		{"l-via", in("file"), nil}, // leaves and comes back
		{filepath.Join(top, "alias/file"), in("file"), nil},
		{filepath.Join(top, "alias/new/x"), in("new/x"), nil},
		{"l-up/base/file", in("file"), nil},
		// the way out
		{"..", "", fsys.ErrOutside},
		{"../x", "", fsys.ErrOutside},
		{"../base-evil/secret", "", fsys.ErrOutside},
		{"sub/../../base-evil/secret", "", fsys.ErrOutside},
		{outside, "", fsys.ErrOutside},
		{filepath.Join(outside, "secret"), "", fsys.ErrOutside},
		{root + "-evil/secret", "", fsys.ErrOutside},
		{root + "/../base-evil/secret", "", fsys.ErrOutside},
		{"l-out", "", fsys.ErrOutside},
		{"l-out/secret", "", fsys.ErrOutside},
		{"l-out/missing", "", fsys.ErrOutside},
		{"l-out/secret/below-a-file", "", fsys.ErrOutside},
		{"l-out-rel/secret", "", fsys.ErrOutside},
		{"l-out-rel/new/x", "", fsys.ErrOutside},
		{"l-up/x", "", fsys.ErrOutside},
		{"l-dang-out", "", fsys.ErrOutside},
		{"sub/l-leave", "", fsys.ErrOutside},
		{"l-sub/l-leave", "", fsys.ErrOutside},
		{"l-sub/../..", "", fsys.ErrOutside},
		{"a/b/../../../x", "", fsys.ErrOutside},
		{"/", "", fsys.ErrOutside},
		{"/etc/passwd", "", fsys.ErrOutside},
		{"/no/such/place", "", fsys.ErrOutside},
		// no names at all
		{"", "", fsys.ErrInvalidName},
		{"a\x00b", "", fsys.ErrInvalidName},
		{"file\x00/../../x", "", fsys.ErrInvalidName},
		{strings.Repeat("n", 256), "", syscall.ENAMETOOLONG},
		{"new/" + strings.Repeat("n", 256), "", syscall.ENAMETOOLONG},
		{strings.Repeat("d/", 3000), "", syscall.ENAMETOOLONG},
		{"file/x", "", syscall.ENOTDIR},
		{"l-loop", "", syscall.ELOOP},
		{"l-loop/x", "", syscall.ELOOP},
		// nothing is decoded, nothing is special
		{"%2e%2e/x", in("%2e%2e/x"), nil},
		{"-rf", in("-rf"), nil},
		{"~", in("~"), nil},
		{"$HOME", in("$HOME"), nil},
		{"...", in("..."), nil},
		{"..x", in("..x"), nil},
		{"a\nb", in("a\nb"), nil},
		{"\xff\xfe", in("\xff\xfe"), nil},
		{strings.Repeat("n", 255), in(strings.Repeat("n", 255)), nil},
	} {
		got, err := b.Resolve(filepath.FromSlash(c.name))
		if c.want == "" {
			if !errors.Is(err, c.err) {
				t.Errorf("Resolve(%.60q) = %v, %v, want %v", c.name, got, err, c.err)
			}
			continue
		}
		if err != nil || got.String() != c.want {
			t.Errorf("Resolve(%.60q) = %v, %v, want %s", c.name, got, err, c.want)
		}
	}
}

func TestResolveLinkMeansTheLink(t *testing.T) {
	b, root, _, outside := farm(t)
	for name, want := range map[string]string{
		"l-file":         "l-file",
		"l-out":          "l-out",
		"l-dang-out":     "l-dang-out",
		"l-sub/l-leave":  "sub/l-leave",
		"l-loop":         "l-loop",
		"sub/deep/file":  "sub/deep/file",
		"l-chain/l-back": "sub/l-back",
	} {
		got, err := b.ResolveLink(name)
		if err != nil || got.Rel() != want {
			t.Errorf("ResolveLink(%s) = %v, %v, want %s", name, got, err, want)
		}
	}
	if _, err := b.ResolveLink("l-out/secret"); !errors.Is(err, fsys.ErrOutside) {
		t.Errorf("through a link out: %v, want ErrOutside", err)
	}
	p, err := b.ResolveLink("l-out")
	must(t, err)
	if info, err := p.Stat(); err != nil || info.Kind != fsys.Link {
		t.Errorf("Stat = %v, %v, want a link", info.Kind, err)
	}
	if _, _, err := p.Read(mega); !errors.Is(err, fsys.ErrMoved) {
		t.Errorf("Read = %v, want ErrMoved", err)
	}
	must(t, p.RemoveLink(fsys.Sync{}))
	if list(t, outside) != "back secret" || fsys.Exists(filepath.Join(root, "l-out")) {
		t.Errorf("removing a link left %q outside", list(t, outside))
	}
	before := list(t, filepath.Join(root, "sub"))
	for _, name := range []string{"sub/deep/file", "sub/deep", "sub"} {
		if err := resolve(t, b, name).RemoveLink(fsys.Sync{}); !errors.Is(err, fsys.ErrMoved) {
			t.Errorf("RemoveLink of %s, which is none: %v, want ErrMoved", name, err)
		}
	}
	if after := list(t, filepath.Join(root, "sub")); after != before {
		t.Errorf("was %q, is %q", before, after)
	}
}

func TestPathSaysWhereItIs(t *testing.T) {
	b, root, second, _ := farm(t)
	p := resolve(t, b, "l-sub/deep/file")
	if p.Base() != root || p.Rel() != "sub/deep/file" || p.Key() != p.String() && runtime.GOOS == "linux" {
		t.Errorf("base %s, rel %s, key %s", p.Base(), p.Rel(), p.Key())
	}
	if p := resolve(t, b, "."); p.Rel() != "." {
		t.Errorf("the base is %q relative to itself", p.Rel())
	}
	if p := resolve(t, b, second+"/x"); p.Base() != second || p.Rel() != "x" {
		t.Errorf("base %s, rel %s", p.Base(), p.Rel())
	}
	// One file, one key, whichever base it is reached through.
	inner := open(t, filepath.Join(root, "sub"))
	if a, b := resolve(t, inner, "deep/file"), resolve(t, b, "sub/deep/file"); a.Key() != b.Key() {
		t.Errorf("keys %q and %q of one file", a.Key(), b.Key())
	}
	whole := open(t, "/")
	if p := resolve(t, whole, filepath.Join(root, "file")); p.Rel() != filepath.ToSlash(root[1:]+"/file") && runtime.GOOS != "windows" {
		t.Errorf("below the root of all: %s", p.Rel())
	}
}

func TestOpenBasesWantsDirectories(t *testing.T) {
	dir := tempDir(t)
	put(t, filepath.Join(dir, "file"), "")
	if _, err := fsys.OpenBases(dir, []string{filepath.Join(dir, "none")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing base: %v, want ErrNotExist", err)
	}
	if _, err := fsys.OpenBases(filepath.Join(dir, "file"), nil); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a file: %v, want ENOTDIR", err)
	}
	b := open(t, dir)
	p := resolve(t, b, "file")
	b.Close()
	if _, _, err := p.Read(1); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
	if _, err := b.Resolve("file"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
}

// What was a file or directory when it was resolved is a link when it is used.
func TestNothingIsDoneThroughALinkThatCameLater(t *testing.T) {
	for _, where := range []string{"the file", "its directory"} {
		root, outside := tempDir(t), tempDir(t)
		put(t, filepath.Join(root, "d/f"), "inside")
		put(t, filepath.Join(outside, "f"), "secret")
		b := open(t, root)
		p, other := resolve(t, b, "d/f"), resolve(t, b, "other")
		put(t, other.String(), "other")
		if where == "the file" {
			must(t, os.Remove(filepath.Join(root, "d/f")))
			link(t, filepath.Join(outside, "f"), filepath.Join(root, "d/f"))
		} else {
			must(t, os.RemoveAll(filepath.Join(root, "d")))
			link(t, outside, filepath.Join(root, "d"))
		}
		for op, do := range operations(t, p, other) {
			err := do()
			if where == "its directory" && !errors.Is(err, fsys.ErrMoved) {
				t.Errorf("%s, %s is a link: %v, want ErrMoved", op, where, err)
			}
			if got := text(t, filepath.Join(outside, "f")); got != "secret" || list(t, outside) != "f" {
				t.Fatalf("%s, %s is a link: outside holds %s: %q", op, where, list(t, outside), got)
			}
		}
	}
}

// operations is everything that can be done to p, with another file at hand.
func operations(t testing.TB, p, other fsys.Path) map[string]func() error {
	return map[string]func() error{
		"stat": func() error { _, err := p.Stat(); return err },
		"read": func() error {
			data, _, err := p.Read(mega)
			if strings.Contains(string(data), "secret") {
				t.Errorf("read gave %q", data)
			}
			return err
		},
		"hash":    func() error { _, _, err := p.Hash(mega); return err },
		"create":  func() error { return p.Create([]byte("new"), fsys.WriteOptions{MakeDirs: true}) },
		"replace": func() error { return p.Replace([]byte("new"), fsys.ContentOf([]byte("inside")), fsys.WriteOptions{}) },
		"replace what is outside": func() error {
			return p.Replace([]byte("new"), fsys.ContentOf([]byte("secret")), fsys.WriteOptions{})
		},
		"append": func() error { _, err := p.Append([]byte("new"), fsys.Sync{}); return err },
		"copy to": func() error {
			return fsys.Copy(other, p, fsys.RenameOptions{Overwrite: true, MakeDirs: true})
		},
		"rename to": func() error {
			_, err := fsys.Rename(other, p, fsys.RenameOptions{Overwrite: true, MakeDirs: true})
			return err
		},
		"copy from": func() error {
			err := fsys.Copy(p, other, fsys.RenameOptions{Overwrite: true})
			if strings.Contains(text(t, other.String()), "secret") {
				t.Error("copy brought what is outside")
			}
			return err
		},
		"mkdir":      func() error { return p.Mkdir(true, fsys.Sync{}) },
		"walk":       func() error { return p.Walk(t.Context(), fsys.WalkOptions{}, func(*fsys.Entry) error { return nil }) },
		"remove all": func() error { return p.RemoveAll(t.Context(), nil, fsys.Sync{}) },
	}
}

func FuzzResolve(f *testing.F) {
	b, root, second, _ := farm(f)
	for _, seed := range []string{
		"file", "../x", "l-out/secret", "l-up/base-evil", "a/../../b", "l-via/../secret", "//", "l-loop", "..", "l-second/../base-evil/x",
		root + "/../base-evil", "/etc", "sub/l-leave/..", "l-self/../..", "\x00", "l-dangling/..", "l-chain/../../..", "file/..",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, resolve := range []func(string) (fsys.Path, error){b.Resolve, b.ResolveLink} {
			p, err := resolve(name)
			if err != nil {
				continue
			}
			if !fsys.Within(root, p.String()) && !fsys.Within(second, p.String()) {
				t.Errorf("Resolve(%q) left the bases: %s", name, p)
			}
			if p.String() != filepath.Clean(p.String()) {
				t.Errorf("Resolve(%q) is not clean: %s", name, p)
			}
			// What it means by itself is what the system makes of it.
			if real, err := filepath.EvalSymlinks(filepath.Dir(p.String())); err == nil && real != filepath.Dir(p.String()) {
				t.Errorf("Resolve(%q) = %s has links left: %s", name, p, real)
			}
			if data, _, err := p.Read(mega); err == nil && string(data) == "secret" {
				t.Errorf("Resolve(%q) reads what is outside", name)
			}
			again, err := resolve(p.String())
			if err != nil || again.String() != p.String() {
				t.Errorf("Resolve(%q) = %s, and again %s, %v", name, p, again, err)
			}
		}
	})
}
