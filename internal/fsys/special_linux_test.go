package fsys_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/commit"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/opendir"
)

// elsewhere runs the test it is called from in a process of its own: with mounts
// of its own, or as nobody. It returns true there.
func elsewhere(t *testing.T, how syscall.SysProcAttr) bool {
	t.Helper()
	if os.Getenv("FSYS_TEST_ELSEWHERE") == t.Name() {
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := tempDir(t)
	for at := dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
		_ = os.Chmod(at, 0o777)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "FSYS_TEST_ELSEWHERE="+t.Name(), "TMPDIR="+dir, "GOCOVERDIR="+dir, "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &how
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	case bytes.Contains(out, []byte("--- SKIP")):
		t.Skipf("%s", out)
	}
	return false
}

var (
	ownMounts = syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	asNobody  = syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
)

func mount(t *testing.T, kind, at, options string) {
	t.Helper()
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(t, os.MkdirAll(at, 0o755))
	must(t, unix.Mount(kind, at, kind, 0, options))
	t.Cleanup(func() { must(t, unix.Unmount(at, unix.MNT_DETACH)) })
}

// foldingMount mounts a file system on which case does not matter, where the
// kernel has one.
func foldingMount(t *testing.T, at string) bool {
	t.Helper()
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(t, os.MkdirAll(at, 0o755))
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, "casefold"); err != nil {
		t.Logf("not shown: this kernel has no tmpfs that folds case: %v", err)
		return false
	}
	t.Cleanup(func() { must(t, unix.Unmount(at, unix.MNT_DETACH)) })
	return true
}

func TestSpecialFilesNeitherBlockNorGive(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	must(t, syscall.Mkfifo(filepath.Join(root, "pipe"), 0o666))
	l, err := net.Listen("unix", filepath.Join(root, "socket"))
	must(t, err)
	defer l.Close()
	names := []string{"pipe", "socket"}
	if unix.Mknod(filepath.Join(root, "device"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))) == nil {
		names = append(names, "device") // /dev/zero: it would never end
	}
	other := resolve(t, b, "other")
	for _, name := range names {
		p := resolve(t, b, name)
		put(t, other.String(), "other")
		for op, do := range map[string]func() error{
			"read":      func() error { _, _, err := p.Read(mega); return err },
			"hash":      func() error { _, _, err := p.Hash(mega); return err },
			"replace":   func() error { return p.Replace(nil, fsys.ContentOf(nil), fsys.WriteOptions{}) },
			"append":    func() error { _, err := p.Append([]byte("x"), fsys.Sync{}); return err },
			"copy":      func() error { return fsys.Copy(p, resolve(t, b, "copy"), fsys.RenameOptions{}) },
			"remove if": func() error { c := fsys.ContentOf(nil); return p.Remove(&c, fsys.Sync{}) },
		} {
			if err := do(); !errors.Is(err, fsys.ErrNotRegular) {
				t.Errorf("%s of a %s = %v, want ErrNotRegular", op, name, err)
			}
		}
		if info, err := p.Stat(); err != nil || info.Kind != fsys.Special {
			t.Errorf("Stat of a %s = %v, %v, want special", name, info.Kind, err)
		}
		must(t, p.Remove(nil, fsys.Sync{}))
	}
	if got := list(t, root); got != "other" {
		t.Errorf("left %s", got)
	}
}

func TestFilesOfTheKernel(t *testing.T) {
	b := open(t, "/proc/self")
	p := resolve(t, b, "status")
	if data, _, err := p.Read(mega); err != nil || !bytes.Contains(data, []byte("Name:")) {
		t.Errorf("Read = %d bytes, %v", len(data), err)
	}
	if _, _, err := p.Read(10); !errors.Is(err, fsys.ErrTooLarge) {
		t.Errorf("Read = %v, want ErrTooLarge", err)
	}
	// Links made by the kernel lead anywhere.
	for _, name := range []string{"root/etc/passwd", "cwd", "exe", "fd/0"} {
		if p, err := b.Resolve(name); err == nil {
			if _, _, err := p.Read(mega); err == nil {
				t.Errorf("%s was read", name)
			}
		}
	}
	// One whose reader waits for ever.
	if f, err := os.Open("/proc/kmsg"); err == nil {
		f.Close()
		if _, _, err := resolve(t, open(t, "/proc"), "kmsg").Read(1 << 40); err == nil {
			t.Error("/proc/kmsg was read to its end")
		}
	}
	if err := p.Replace([]byte("x"), fsys.ContentOf([]byte("y")), fsys.WriteOptions{}); err == nil {
		t.Error("replaced in /proc")
	}
}

func TestAFullDiskLeavesWhatWas(t *testing.T) {
	if !elsewhere(t, ownMounts) {
		return
	}
	root := filepath.Join(tempDir(t), "small")
	mount(t, "tmpfs", root, "size=64k,nr_inodes=20")
	b := open(t, root)
	old := bytes.Repeat([]byte("o"), 20<<10)
	put(t, filepath.Join(root, "f"), string(old))
	p := resolve(t, b, "f")
	big := make([]byte, 60<<10)
	for op, do := range map[string]func() error{
		"create":  func() error { return resolve(t, b, "a/b/new").Create(big, fsys.WriteOptions{MakeDirs: true}) },
		"replace": func() error { return p.Replace(big, fsys.ContentOf(old), fsys.WriteOptions{}) },
		"append":  func() error { _, err := p.Append(big, fsys.Sync{}); return err },
	} {
		if err := do(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s = %v, want ENOSPC", op, err)
		}
		if got := text(t, p.String()); got != string(old) || list(t, root) != "f" {
			t.Errorf("%s left %s, the file has %d bytes", op, list(t, root), len(got))
		}
	}
	put(t, filepath.Join(root, "g"), string(old))
	if err := fsys.Copy(p, resolve(t, b, "h"), fsys.RenameOptions{}); err == nil {
		err = fsys.Copy(p, resolve(t, b, "i"), fsys.RenameOptions{})
		if !errors.Is(err, syscall.ENOSPC) || list(t, root) != "f g h" {
			t.Errorf("copy = %v, left %s", err, list(t, root))
		}
	}
}

// The limit on file sizes strikes in the middle of a write.
func TestAWriteThatStopsHalfWayIsUndone(t *testing.T) {
	if !elsewhere(t, syscall.SysProcAttr{}) {
		return
	}
	root := tempDir(t)
	b := open(t, root)
	put(t, filepath.Join(root, "f"), "old")
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit))
	must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1000, Max: limit.Max}))
	t.Cleanup(func() { must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit)) })
	p, big := resolve(t, b, "f"), make([]byte, 2000)
	for op, do := range map[string]func() error{
		"create":  func() error { return resolve(t, b, "new").Create(big, fsys.WriteOptions{}) },
		"replace": func() error { return p.Replace(big, fsys.ContentOf([]byte("old")), fsys.WriteOptions{}) },
		"append":  func() error { _, err := p.Append(big, fsys.Sync{}); return err },
	} {
		if err := do(); !errors.Is(err, syscall.EFBIG) {
			t.Errorf("%s = %v, want EFBIG", op, err)
		}
		if got := text(t, p.String()); got != "old" || list(t, root) != "f" {
			t.Errorf("%s left %s, the file %d bytes", op, list(t, root), len(got))
		}
	}
}

func TestPermissionsAreRespected(t *testing.T) {
	if !elsewhere(t, asNobody) {
		return
	}
	root := tempDir(t)
	b := open(t, root)
	at := func(name string) string { return filepath.Join(root, name) }
	put(t, at("locked/f"), "old")
	put(t, at("readonly"), "old")
	put(t, at("secret"), "old")
	put(t, at("blind/f"), "old")
	must(t, os.Chmod(at("locked"), 0o555))
	must(t, os.Chmod(at("readonly"), 0o444))
	must(t, os.Chmod(at("secret"), 0o200))
	must(t, os.Chmod(at("blind"), 0o300)) // not listed, but open to who knows a name
	old := fsys.ContentOf([]byte("old"))
	p := func(name string) fsys.Path { return resolve(t, b, name) }
	for op, do := range map[string]func() error{
		"create in a locked directory":      func() error { return p("locked/new").Create(nil, fsys.WriteOptions{}) },
		"make a directory there":            func() error { return p("locked/a/b").Create(nil, fsys.WriteOptions{MakeDirs: true}) },
		"replace there":                     func() error { return p("locked/f").Replace(nil, old, fsys.WriteOptions{}) },
		"remove there":                      func() error { return p("locked/f").Remove(nil, fsys.Sync{}) },
		"rename from there":                 func() error { _, err := fsys.Rename(p("locked/f"), p("x"), fsys.RenameOptions{}); return err },
		"replace what is read-only":         func() error { return p("readonly").Replace(nil, old, fsys.WriteOptions{}) },
		"append to what is read-only":       func() error { _, err := p("readonly").Append([]byte("x"), fsys.Sync{}); return err },
		"read what cannot be read":          func() error { _, _, err := p("secret").Read(mega); return err },
		"list what cannot be listed":        func() error { return p("blind").Walk(t.Context(), fsys.WalkOptions{}, nil) },
		"remove with what cannot be listed": func() error { return p("blind").RemoveAll(t.Context(), nil, fsys.Sync{}) },
		"copy what cannot be read":          func() error { return fsys.Copy(p("secret"), p("a/b/c"), fsys.RenameOptions{MakeDirs: true}) },
	} {
		if err := do(); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v, want ErrPermission", op, err)
		}
	}
	if got := list(t, at("locked")); got != "f" || fsys.Exists(at("a")) {
		t.Errorf("left %s", got)
	}
	must(t, p("blind/f").Replace([]byte("new"), old, fsys.WriteOptions{}))
	must(t, p("blind/g").Create([]byte("new"), fsys.WriteOptions{}))
	var unreadable []string
	must(t, p(".").Walk(t.Context(), fsys.WalkOptions{Recursive: true, Unreadable: func(rel string, err error) {
		unreadable = append(unreadable, fmt.Sprint(rel, " ", errors.Is(err, fs.ErrPermission)))
	}}, func(*fsys.Entry) error { return nil }))
	if got := strings.Join(unreadable, " "); got != "blind true" {
		t.Errorf("unreadable: %s, want blind", got)
	}
	must(t, os.Chmod(at("blind"), 0o755))
	must(t, os.Chmod(at("locked"), 0o755))
	if got := list(t, at("blind")); got != "f g" {
		t.Errorf("the blind directory holds %s, want f g", got)
	}
}

func TestWhatCannotBeChangedIsLeftAlone(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	path := filepath.Join(root, "f")
	put(t, path, "old")
	if out, err := exec.CommandContext(t.Context(), "chattr", "+i", path).CombinedOutput(); err != nil {
		t.Skipf("files cannot be made immutable here: %v %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("chattr", "-i", path).Run() })
	p, old := resolve(t, b, "f"), fsys.ContentOf([]byte("old"))
	put(t, filepath.Join(root, "g"), "g")
	for op, do := range map[string]func() error{
		"replace":   func() error { return p.Replace([]byte("new"), old, fsys.WriteOptions{}) },
		"append":    func() error { _, err := p.Append([]byte("x"), fsys.Sync{}); return err },
		"remove":    func() error { return p.Remove(nil, fsys.Sync{}) },
		"remove if": func() error { return p.Remove(&old, fsys.Sync{}) },
		"rename":    func() error { _, err := fsys.Rename(p, resolve(t, b, "x"), fsys.RenameOptions{}); return err },
		"rename over": func() error {
			_, err := fsys.Rename(resolve(t, b, "g"), p, fsys.RenameOptions{Overwrite: true})
			return err
		},
		"copy over": func() error { return fsys.Copy(resolve(t, b, "g"), p, fsys.RenameOptions{Overwrite: true}) },
	} {
		if err := do(); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s = %v, want ErrPermission", op, err)
		}
		if got := text(t, path); got != "old" || list(t, root) != "f g" {
			t.Fatalf("%s left %s, the file holds %q", op, list(t, root), got)
		}
	}
}

// tree is a directory with one of everything a move has to carry.
func tree(t *testing.T, at string) {
	t.Helper()
	put(t, filepath.Join(at, "a"), "a")
	put(t, filepath.Join(at, "sub/b"), strings.Repeat("b", 100_000))
	must(t, os.Chmod(filepath.Join(at, "sub/b"), 0o640))
	must(t, os.Mkdir(filepath.Join(at, "empty"), 0o711))
	must(t, os.Symlink("../nowhere", filepath.Join(at, "link")))
	then := time.Unix(1_000_000_000, 123456789)
	must(t, os.Chtimes(filepath.Join(at, "sub/b"), then, then))
	must(t, os.Chtimes(filepath.Join(at, "empty"), then, then))
}

func TestRenameAcrossFileSystems(t *testing.T) {
	if !elsewhere(t, ownMounts) {
		return
	}
	root := tempDir(t)
	mount(t, "tmpfs", filepath.Join(root, "mnt"), "")
	b := open(t, root)
	at := func(name string) string { return filepath.Join(root, name) }
	p := func(name string) fsys.Path {
		p, err := b.ResolveLink(name)
		must(t, err)
		return p
	}
	tree(t, at("d"))
	put(t, at("f"), "file")
	before := snapshot(t, root)
	move := func(from, to string, o fsys.RenameOptions) error {
		cross, err := fsys.Rename(p(from), p(to), o)
		if err == nil && !cross {
			t.Errorf("%s to %s is said to be on one file system", from, to)
		}
		return err
	}

	// Whichever step fails, nothing has moved.
	for _, what := range []string{"f", "d"} {
		for n := 1; ; n++ {
			seen := fail(t, n, syscall.EIO)
			_, err := fsys.Rename(p(what), p("mnt/x/moved"), fsys.RenameOptions{MakeDirs: true})
			commit.Failpoint = nil
			if len(*seen) < n {
				must(t, err)
				break
			}
			step := (*seen)[n-1]
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("%s failed at %s with %v", what, step, err)
			}
			got := snapshot(t, root)
			if strings.HasPrefix(step, "remove.") {
				// The copy stands already; the original is there too.
				must(t, os.RemoveAll(at("mnt/x")))
				got = snapshot(t, root)
			}
			if got != before {
				t.Fatalf("%s failed at %s and left\n%s\nwant\n%s", what, step, got, before)
			}
		}
		must(t, move("mnt/x/moved", what, fsys.RenameOptions{}))
		must(t, os.RemoveAll(at("mnt/x")))
		if got := snapshot(t, root); got != before {
			t.Fatalf("there and back left\n%s\nwant\n%s", got, before)
		}
	}
	info, err := os.Stat(at("d/sub/b"))
	must(t, err)
	if info.Mode() != 0o640 || info.ModTime().UnixNano() != 1_000_000_000_123456789 {
		t.Errorf("after two moves: %v %v", info.Mode(), info.ModTime())
	}
	if info, _ = os.Stat(at("d/empty")); info.Mode().Perm() != 0o711 || info.ModTime().Unix() != 1_000_000_000 {
		t.Errorf("after two moves: %v %v", info.Mode(), info.ModTime())
	}
	must(t, move("d/link", "mnt/link", fsys.RenameOptions{}))
	if target, _ := os.Readlink(at("mnt/link")); target != "../nowhere" {
		t.Errorf("the link leads to %q", target)
	}

	put(t, at("mnt/there"), "there")
	must(t, os.Mkdir(at("mnt/dir"), 0o755))
	must(t, syscall.Mkfifo(at("d/pipe"), 0o600))
	before = snapshot(t, root)
	for _, c := range []struct {
		from, to string
		o        fsys.RenameOptions
		want     error
	}{
		{"f", "mnt/there", fsys.RenameOptions{}, fs.ErrExist},
		{"f", "mnt/dir", fsys.RenameOptions{Overwrite: true}, fsys.ErrIsDirectory},
		{"d", "mnt/dir", fsys.RenameOptions{}, fs.ErrExist},
		{"d", "mnt/new", fsys.RenameOptions{}, fsys.ErrNotRegular},
	} {
		if err := move(c.from, c.to, c.o); !errors.Is(err, c.want) {
			t.Errorf("%s to %s = %v, want %v", c.from, c.to, err, c.want)
		}
		if got := snapshot(t, root); got != before {
			t.Fatalf("%s to %s left\n%s\nwant\n%s", c.from, c.to, got, before)
		}
	}
	must(t, move("f", "mnt/there", fsys.RenameOptions{Overwrite: true}))
	if text(t, at("mnt/there")) != "file" || fsys.Exists(at("f")) {
		t.Errorf("left %s", snapshot(t, root))
	}
	must(t, fsys.Copy(p("mnt/there"), p("f"), fsys.RenameOptions{}))
	if text(t, at("f")) != "file" {
		t.Errorf("copied %q", text(t, at("f")))
	}

	// What changes after it was copied is not taken away.
	for name, meddle := range map[string]func(){
		"f": func() { put(t, at("f"), "changed") },
		"e": func() { put(t, at("e/new"), "new") },
	} {
		put(t, at("e/x"), "x")
		commit.Failpoint = func(step string) error {
			if step == "copy.sync" {
				meddle()
			}
			return nil
		}
		err := move(name, "mnt/n", fsys.RenameOptions{})
		commit.Failpoint = nil
		if !errors.Is(err, fsys.ErrChanged) || !fsys.Exists(at(name)) || fsys.Exists(at("mnt/n")) {
			t.Errorf("%s: %v, want ErrChanged; left %s", name, err, snapshot(t, root))
		}
	}
}

// Containers keep their files in layers: what lies in a lower one is copied up,
// with another number, when it is first touched, and its directories cannot be
// renamed.
func TestEverythingWorksOnLayers(t *testing.T) {
	if !elsewhere(t, ownMounts) {
		return
	}
	top := tempDir(t)
	at := func(name string) string { return filepath.Join(top, name) }
	mount(t, "tmpfs", at("one"), "")
	mount(t, "tmpfs", at("two"), "")
	for _, dir := range []string{"two/upper", "two/work"} {
		must(t, os.MkdirAll(at(dir), 0o755))
	}
	for _, name := range []string{"f", "g", "h", "i"} {
		put(t, at("one/"+name), "old")
	}
	tree(t, at("one/d"))
	tree(t, at("one/e"))
	mount(t, "overlay", at("merged"), fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", at("one"), at("two/upper"), at("two/work")))
	b := open(t, at("merged"))
	p := func(name string) fsys.Path { return resolve(t, b, name) }
	old := fsys.ContentOf([]byte("old"))
	must(t, p("f").Replace([]byte("new"), old, fsys.WriteOptions{}))
	must(t, p("f").Replace([]byte("newer"), fsys.ContentOf([]byte("new")), fsys.WriteOptions{}))
	if err := p("g").Replace(nil, fsys.ContentOf(nil), fsys.WriteOptions{}); !errors.Is(err, fsys.ErrChanged) {
		t.Errorf("Replace = %v, want ErrChanged", err)
	}
	must(t, p("g").Remove(&old, fsys.Sync{}))
	_, err := p("h").Append([]byte("er"), fsys.Sync{})
	must(t, err)
	_, err = fsys.Rename(p("i"), p("j"), fsys.RenameOptions{})
	must(t, err)
	_, err = fsys.Rename(p("d"), p("moved"), fsys.RenameOptions{})
	must(t, err)
	must(t, p("e").RemoveAll(t.Context(), nil, fsys.Sync{}))
	must(t, p("n/m").Create([]byte("x"), fsys.WriteOptions{MakeDirs: true}))
	got := strings.ReplaceAll(snapshot(t, at("merged")), strings.Repeat("b", 100_000), "b")
	if want := "f=newer h=older j=old moved moved/a=a moved/empty moved/link moved/sub moved/sub/b=b n n/m=x"; got != want {
		t.Errorf("left %s\nwant %s", got, want)
	}
}

func TestOneKeyPerFileWhereCaseDoesNotMatter(t *testing.T) {
	if !elsewhere(t, ownMounts) {
		return
	}
	mnt := filepath.Join(tempDir(t), "Mnt")
	if !foldingMount(t, mnt) {
		return
	}
	root := filepath.Join(mnt, "Base")
	must(t, os.Mkdir(root, 0o755))
	// Folding is switched on per directory, and inherited.
	d, err := os.Open(root)
	must(t, err)
	flags, err := unix.IoctlGetInt(int(d.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(d.Fd()), unix.FS_IOC_SETFLAGS, flags|0x40000000)
	}
	d.Close()
	if err != nil {
		t.Skipf("case cannot be folded here: %v", err)
	}
	put(t, filepath.Join(root, "Straße.txt"), "x")
	put(t, filepath.Join(root, "Sub/é"), "x")
	b := open(t, root)
	for _, names := range [][]string{
		{"Straße.txt", "STRASSE.TXT", "strasse.txt"},
		{"Sub/é", "sub/É", "SUB/e\u0301", "sub/E\u0301"},
		{"New", "new"},
	} {
		first := resolve(t, b, names[0])
		for _, name := range names[1:] {
			p := resolve(t, b, name)
			if p.Key() != first.Key() {
				t.Errorf("%s and %s have keys %q and %q", names[0], name, first.Key(), p.Key())
			}
			if _, err := first.Stat(); err == nil {
				if _, _, err := p.Read(mega); err != nil {
					t.Errorf("%s is another file than %s: %v", name, names[0], err)
				}
			}
		}
	}
	if a, b := resolve(t, b, "a"), resolve(t, b, "b"); a.Key() == b.Key() {
		t.Error("two files have one key")
	}
	// A new spelling of one name is a rename like any other.
	_, err = fsys.Rename(resolve(t, b, "Sub"), resolve(t, b, "SUB"), fsys.RenameOptions{})
	must(t, err)
	if got := list(t, root); got != "SUB SUB/é Straße.txt" {
		t.Errorf("left %s", got)
	}
	if p := resolve(t, open(t, tempDir(t)), "A"); p.Key() != p.String() {
		t.Errorf("elsewhere case matters, but the key of %s is %s", p, p.Key())
	}
}

// Neither success nor any failure leaves a descriptor open.
func TestNothingIsLeftOpen(t *testing.T) {
	descriptors := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(all)
	}
	for op := range changes(t, nil) {
		for n := 1; ; n++ {
			b, _ := grow(t)
			do := changes(t, b)[op]
			seen := fail(t, n, syscall.EIO)
			before := descriptors()
			err := do()
			if after := descriptors(); after != before {
				t.Errorf("%s, step %d, %v: %d descriptors open, %d before", op, n, err, after, before)
			}
			if len(*seen) < n {
				break
			}
		}
	}
}

// The whole is the same on systems without the newer calls.
func TestWithoutTheNewerCalls(t *testing.T) {
	t.Cleanup(opendir.PretendLacking(true, true, true))
	for name, test := range map[string]func(*testing.T){
		"resolve":    TestResolveFollowsLinksInsideAndRefusesTheWayOut,
		"later link": TestNothingIsDoneThroughALinkThatCameLater,
		"create":     TestCreateMakesFilesOnce,
		"winner":     TestConcurrentCreateHasOneWinner,
		"replace":    TestReplaceWantsTheBase,
		"mode":       TestReplaceKeepsTheModeAndTheLink,
		"remove":     TestRemoveTakesFilesOnlyAndOnlyWhatWasExpected,
		"remove all": TestRemoveAllShowsEverythingAndThenRemovesIt,
		"rename":     TestRenameMovesInOneStep,
		"special":    TestSpecialFilesNeitherBlockNorGive,
	} {
		t.Run(name, test)
	}
}
