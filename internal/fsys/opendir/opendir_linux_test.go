package opendir

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// base opens a fresh directory holding file (content "text"), sub/deep/file, and
// links: to-file, to-sub, and sub/out that leads out.
func base(t *testing.T) (*Base, string) {
	t.Helper()
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "sub/deep"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "file"), []byte("text"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "sub/deep/file"), []byte("deep"), 0o644))
	must(t, os.Symlink("file", filepath.Join(root, "to-file")))
	must(t, os.Symlink("sub", filepath.Join(root, "to-sub")))
	must(t, os.Symlink(t.TempDir(), filepath.Join(root, "sub/out")))
	b, err := OpenBase(root)
	must(t, err)
	t.Cleanup(b.Close)
	return b, root
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// both runs a test with all system calls and with those that every system has.
func both(t *testing.T, test func(t *testing.T)) {
	t.Run("new", test)
	t.Run("old", func(t *testing.T) {
		t.Cleanup(PretendLacking(true, true, true))
		test(t)
	})
}

func TestNamesWithLinksAreRefusedNotFollowed(t *testing.T) {
	both(t, func(t *testing.T) {
		b, _ := base(t)
		for _, c := range []struct {
			rel  string
			want error // nil: works
		}{
			{"file", nil},
			{"sub/deep/file", nil},
			{"to-file", ErrLink},
			{"to-sub/deep/file", ErrLink},
			{"sub/out/x", ErrLink},
			{"missing", fs.ErrNotExist},
			{"sub/missing/file", fs.ErrNotExist},
			{"file/x", syscall.ENOTDIR},
		} {
			f, err := b.Open(c.rel)
			if !errors.Is(err, c.want) {
				t.Errorf("Open(%s) = %v, want %v", c.rel, err, c.want)
			}
			if err == nil {
				f.Close()
			}
		}
		for _, c := range []struct {
			rel  string
			want error
		}{
			{".", nil},
			{"sub/deep", nil},
			{"to-sub", ErrLink},
			{"to-sub/deep", ErrLink},
			{"file", syscall.ENOTDIR},
			{"missing", fs.ErrNotExist},
		} {
			d, err := b.Dir(c.rel)
			if !errors.Is(err, c.want) {
				t.Errorf("Dir(%s) = %v, want %v", c.rel, err, c.want)
			}
			if err == nil {
				d.Close()
			}
		}
		for _, c := range []struct {
			rel  string
			kind Kind
			want error
		}{
			{".", Directory, nil},
			{"file", Regular, nil},
			{"to-file", Link, nil},
			{"to-sub/deep", 0, ErrLink},
			{"sub/out", Link, nil},
			{"missing/x", 0, fs.ErrNotExist},
		} {
			info, err := b.Stat(c.rel)
			if !errors.Is(err, c.want) || info.Kind != c.kind {
				t.Errorf("Stat(%s) = %v, %v, want %v, %v", c.rel, info.Kind, err, c.kind, c.want)
			}
		}
	})
}

func TestDirTakesSingleNamesOnly(t *testing.T) {
	b, _ := base(t)
	d, err := b.Dir("sub")
	must(t, err)
	defer d.Close()
	for _, name := range []string{"", ".", "..", "../file", "deep/file", "/etc/passwd"} {
		if _, err := d.Open(name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Open(%q) = %v, want ErrInvalid", name, err)
		}
		if err := d.Rename("deep", d, name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Rename to %q = %v, want ErrInvalid", name, err)
		}
	}
	if _, err := d.Open("out"); !errors.Is(err, ErrLink) {
		t.Errorf("Open of a link = %v, want ErrLink", err)
	}
}

func TestRenameNewNeverOverwrites(t *testing.T) {
	both(t, func(t *testing.T) {
		b, root := base(t)
		d, err := b.Dir(".")
		must(t, err)
		defer d.Close()
		must(t, os.WriteFile(filepath.Join(root, "other"), []byte("other"), 0o644))
		must(t, os.Mkdir(filepath.Join(root, "dir"), 0o755))
		for _, name := range []string{"file", "to-file", "sub"} {
			if err := d.RenameNew("other", d, name); !errors.Is(err, fs.ErrExist) {
				t.Errorf("RenameNew(other, %s) = %v, want ErrExist", name, err)
			}
		}
		if err := d.RenameNew("dir", d, "sub"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("RenameNew(dir, sub) = %v, want ErrExist", err)
		}
		must(t, d.RenameNew("other", d, "new"))
		must(t, d.RenameNew("dir", d, "newdir"))
		if _, err := d.Stat("other"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the old name is still there: %v", err)
		}
		if err := d.RenameNew("other", d, "x"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("RenameNew of nothing = %v, want ErrNotExist", err)
		}
	})
}

func TestExchangeSwapsOrSaysItCannot(t *testing.T) {
	b, root := base(t)
	d, err := b.Dir(".")
	must(t, err)
	defer d.Close()
	must(t, os.WriteFile(filepath.Join(root, "other"), []byte("other"), 0o644))
	must(t, d.Exchange("file", "other"))
	if got, _ := os.ReadFile(filepath.Join(root, "file")); string(got) != "other" {
		t.Errorf("file holds %q, want other", got)
	}
	if err := d.Exchange("file", "missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Exchange with nothing = %v, want ErrNotExist", err)
	}
	defer PretendLacking(false, true, false)()
	if err := d.Exchange("file", "other"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Exchange = %v, want ErrUnsupported", err)
	}
}

func TestLeaseHoldsUpWriters(t *testing.T) {
	b, root := base(t)
	path := filepath.Join(root, "file")
	f, err := b.Open("file")
	must(t, err)
	defer f.Close()
	writer, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	if ok, err := f.Lease(); ok || err != nil {
		t.Fatalf("Lease beside a writer = %v, %v, want false", ok, err)
	}
	writer.Close()
	if ok, err := f.Lease(); !ok || err != nil {
		t.Skipf("no leases here: %v, %v", ok, err)
	}
	if !f.Leased() {
		t.Error("not leased although nobody came")
	}
	opened := make(chan error, 1)
	go func() {
		w, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
		if err == nil {
			w.Close()
		}
		opened <- err
	}()
	for f.Leased() { // until the writer knocks
		time.Sleep(time.Millisecond)
	}
	select {
	case <-opened:
		t.Error("the writer got in under the lease")
	default:
	}
	if got, _ := os.ReadFile(path); string(got) != "text" {
		t.Errorf("the file holds %q under the lease", got)
	}
	f.Release()
	must(t, <-opened)
}

func TestResembleTakesModeOwnerAndAttributes(t *testing.T) {
	b, root := base(t)
	d, err := b.Dir(".")
	must(t, err)
	defer d.Close()
	old := filepath.Join(root, "file")
	must(t, os.Chmod(old, 0o751|fs.ModeSetgid))
	if os.Geteuid() == 0 {
		must(t, os.Chown(old, 12, 34))
		must(t, os.Chmod(old, 0o751|fs.ModeSetgid))
	}
	hasAttributes := unix.Setxattr(old, "user.note", []byte("kept"), 0) == nil
	// A list from the directory that the old file does not have.
	acl := []byte{2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 4, 0, 5, 0, 255, 255, 255, 255, 8, 0, 7, 0, 99, 0, 0, 0, 16, 0, 7, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255}
	hasLists := unix.Setxattr(root, "system.posix_acl_default", acl, 0) == nil
	src, err := d.Open("file")
	must(t, err)
	defer src.Close()
	dst, err := d.Create("copy", 0o600)
	must(t, err)
	must(t, dst.Resemble(src))
	must(t, dst.Finish())
	want, _ := os.Stat(old)
	got, _ := os.Stat(filepath.Join(root, "copy"))
	if got.Mode() != want.Mode() {
		t.Errorf("mode %v, want %v", got.Mode(), want.Mode())
	}
	g, w := got.Sys().(*syscall.Stat_t), want.Sys().(*syscall.Stat_t)
	if g.Uid != w.Uid || g.Gid != w.Gid {
		t.Errorf("owner %d:%d, want %d:%d", g.Uid, g.Gid, w.Uid, w.Gid)
	}
	value := make([]byte, 100)
	if n, err := unix.Getxattr(filepath.Join(root, "copy"), "user.note", value); hasAttributes && (err != nil || string(value[:n]) != "kept") {
		t.Errorf("attribute %q, %v, want kept", value[:max(n, 0)], err)
	}
	if _, err := unix.Getxattr(filepath.Join(root, "copy"), "system.posix_acl_access", value); hasLists && err == nil {
		t.Error("it has an access list that the old file had not")
	}
}

func TestCopyFromTakesEveryByte(t *testing.T) {
	b, root := base(t)
	d, err := b.Dir(".")
	must(t, err)
	defer d.Close()
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	must(t, os.WriteFile(filepath.Join(root, "big"), big, 0o644))
	must(t, os.WriteFile(filepath.Join(root, "empty"), nil, 0o644))
	for name, want := range map[string][]byte{"big": big, "empty": nil, "file": []byte("text")} {
		src, err := d.Open(name)
		must(t, err)
		dst, err := d.Create(name+".copy", 0o600)
		must(t, err)
		n, err := dst.CopyFrom(src)
		must(t, errors.Join(err, dst.Finish()))
		src.Close()
		got, _ := os.ReadFile(filepath.Join(root, name+".copy"))
		if n != int64(len(want)) || !bytes.Equal(got, want) {
			t.Errorf("%s: copied %d bytes, the copy has %d, want %d", name, n, len(got), len(want))
		}
	}
	// The kernel's own files say they are empty.
	proc, err := OpenBase("/proc/self")
	must(t, err)
	defer proc.Close()
	src, err := proc.Open("status")
	must(t, err)
	defer src.Close()
	dst, err := d.Create("status", 0o600)
	must(t, err)
	n, err := dst.CopyFrom(src)
	must(t, errors.Join(err, dst.Finish()))
	if n == 0 {
		t.Error("nothing was copied from /proc/self/status")
	}
}

func TestReadListsEveryNameWithItsKind(t *testing.T) {
	b, root := base(t)
	must(t, syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600))
	must(t, os.WriteFile(filepath.Join(root, "a\nb\xff"), nil, 0o600))
	d, err := b.Dir(".")
	must(t, err)
	defer d.Close()
	for range 2 { // a second time it starts over
		entries, err := d.Read()
		must(t, err)
		slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
		want := []Entry{{"a\nb\xff", Regular}, {"file", Regular}, {"pipe", Special}, {"sub", Directory}, {"to-file", Link}, {"to-sub", Link}}
		if !slices.Equal(entries, want) {
			t.Errorf("Read = %v, want %v", entries, want)
		}
	}
}

func TestAClosedBaseRefusesAndANumberIsClosedOnce(t *testing.T) {
	b, _ := base(t)
	f, err := b.Open("file")
	must(t, err)
	f.Close()
	f.Close()
	must(t, f.Finish())
	if _, err := f.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read of a closed file: %v", err)
	}
	b.Close()
	if _, err := b.Open("file"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Open = %v, want ErrClosed", err)
	}
	if _, err := b.Dir("."); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Dir = %v, want ErrClosed", err)
	}
	if _, err := b.Stat("."); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Stat = %v, want ErrClosed", err)
	}
}

func TestADirectoryThatCannotBeReadCanStillBeUsed(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Log("not shown: root may read everything")
		return
	}
	b, root := base(t)
	must(t, os.Chmod(filepath.Join(root, "sub"), 0o300))
	t.Cleanup(func() { os.Chmod(filepath.Join(root, "sub"), 0o755) })
	d, err := b.Dir("sub")
	must(t, err)
	defer d.Close()
	f, err := d.Create("new", 0o600)
	must(t, err)
	f.Close()
	must(t, d.Sync())
	if _, err := d.Read(); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Read = %v, want ErrPermission", err)
	}
}
