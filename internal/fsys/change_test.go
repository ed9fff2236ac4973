package fsys_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

var full fsys.WriteOptions

func TestReadGivesBytesAndAStampThatMovesWithThem(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	big := strings.Repeat("0123456789", 100_000)
	for name, want := range map[string]string{"empty": "", "small": "text\r\n\xff\x00", "big": big} {
		put(t, filepath.Join(root, name), want)
		p := resolve(t, b, name)
		got, stamp, err := p.Read(int64(len(want)))
		if err != nil || string(got) != want {
			t.Fatalf("Read(%s) = %d bytes, %v, want %d", name, len(got), err, len(want))
		}
		sum, hashed, err := p.Hash(int64(len(want)))
		if err != nil || sum != sha256.Sum256([]byte(want)) || hashed != stamp {
			t.Errorf("Hash(%s) = %x, %v, %v", name, sum, hashed, err)
		}
		if len(want) > 0 {
			_, _, err := p.Read(int64(len(want)) - 1)
			size, ok := errors.AsType[*fsys.SizeError](err)
			if !errors.Is(err, fsys.ErrTooLarge) || !ok || size.Size != int64(len(want)) {
				t.Errorf("Read over the bound = %v, want ErrTooLarge with the size", err)
			}
			if _, _, err := p.Hash(int64(len(want)) - 1); !errors.Is(err, fsys.ErrTooLarge) {
				t.Errorf("Hash over the bound = %v, want ErrTooLarge", err)
			}
		}
		must(t, p.Replace([]byte("other"), fsys.ContentOf([]byte(want)), full))
		if _, now, err := p.Read(mega); err != nil || now == stamp {
			t.Errorf("%s: the stamp did not move: %v, %v", name, now, err)
		}
	}
	if _, _, err := resolve(t, b, "none").Read(1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read of nothing = %v, want ErrNotExist", err)
	}
	if _, _, err := resolve(t, b, ".").Read(1); !errors.Is(err, fsys.ErrIsDirectory) {
		t.Errorf("Read of a directory = %v, want ErrIsDirectory", err)
	}
}

func TestCreateMakesFilesOnce(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	p := resolve(t, b, "a/b/f")
	if err := p.Create([]byte("x"), full); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without its directory: %v, want ErrNotExist", err)
	}
	must(t, p.Create([]byte("one"), fsys.WriteOptions{MakeDirs: true}))
	if err := p.Create([]byte("two"), full); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second time: %v, want ErrExist", err)
	}
	if got := text(t, p.String()); got != "one" {
		t.Errorf("holds %q, want one", got)
	}
	must(t, resolve(t, b, "private").Create(nil, fsys.WriteOptions{Perm: 0o640}))
	if runtime.GOOS != "windows" {
		plain, err := os.Create(filepath.Join(root, "plain"))
		must(t, err)
		plain.Close()
		want, _ := os.Stat(plain.Name())
		got, _ := os.Stat(p.String())
		private, _ := os.Stat(filepath.Join(root, "private"))
		if got.Mode() != want.Mode() || private.Mode() != 0o640 {
			t.Errorf("modes %v and %v, want %v and 0640", got.Mode(), private.Mode(), want.Mode())
		}
	}
	for name, want := range map[string]error{".": fsys.ErrBase, "a": fs.ErrExist, "a/b/f/x": syscall.ENOTDIR} {
		p, err := b.Resolve(name)
		if err == nil {
			err = p.Create(nil, fsys.WriteOptions{MakeDirs: true})
		}
		if !errors.Is(err, want) {
			t.Errorf("Create(%s) = %v, want %v", name, err, want)
		}
	}
	if got := list(t, root); got != "a a/b a/b/f plain private" {
		t.Errorf("the directory holds %s", got)
	}
}

func TestConcurrentCreateHasOneWinner(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	for round := range 20 {
		p := resolve(t, b, fmt.Sprintf("d%d/e/f", round))
		var all sync.WaitGroup
		var winner atomic.Pointer[string]
		for i := range 8 {
			all.Go(func() {
				mine := fmt.Sprintf("content of %d", i)
				switch err := p.Create([]byte(mine), fsys.WriteOptions{MakeDirs: true}); {
				case err == nil:
					if !winner.CompareAndSwap(nil, &mine) {
						t.Errorf("a second winner: %s", mine)
					}
				case !errors.Is(err, fs.ErrExist):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if w := winner.Load(); w == nil || text(t, p.String()) != *w {
			t.Fatalf("winner %v, the file holds %q", w, text(t, p.String()))
		}
		if got, want := list(t, filepath.Join(root, fmt.Sprintf("d%d", round))), "e e/f"; got != want {
			t.Fatalf("left %q, want %q", got, want)
		}
	}
}

func TestReplaceWantsTheBase(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	put(t, filepath.Join(root, "f"), "base")
	p := resolve(t, b, "f")
	sumOnly := fsys.Content{Sum: sha256.Sum256([]byte("base"))}
	for _, wrong := range []fsys.Content{
		fsys.ContentOf([]byte("other")),
		fsys.ContentOf([]byte("bas")),
		fsys.ContentOf([]byte("base+")),
		fsys.ContentOf(nil),
		fsys.ContentOf([]byte{}),
		{Sum: sha256.Sum256([]byte("other"))},
	} {
		if err := p.Replace([]byte("new"), wrong, full); !errors.Is(err, fsys.ErrChanged) {
			t.Errorf("Replace = %v, want ErrChanged", err)
		}
		if got := text(t, p.String()); got != "base" || list(t, root) != "f" {
			t.Fatalf("holds %q, the directory %s", got, list(t, root))
		}
	}
	must(t, p.Replace([]byte("new"), sumOnly, full))
	must(t, p.Replace(nil, fsys.ContentOf([]byte("new")), full))
	must(t, p.Replace([]byte("again"), fsys.ContentOf([]byte{}), full))
	big := bytes.Repeat([]byte("x"), 3*mega)
	must(t, p.Replace(big, fsys.ContentOf([]byte("again")), full))
	must(t, p.Replace([]byte("end"), fsys.ContentOf(big), full))
	if got := text(t, p.String()); got != "end" || list(t, root) != "f" {
		t.Errorf("holds %q, the directory %s", got, list(t, root))
	}
	must(t, os.Mkdir(filepath.Join(root, "d"), 0o755))
	if err := resolve(t, b, "d").Replace(nil, fsys.ContentOf(nil), full); !errors.Is(err, fsys.ErrIsDirectory) {
		t.Errorf("a directory: %v, want ErrIsDirectory", err)
	}
	if err := resolve(t, b, "none").Replace(nil, fsys.ContentOf(nil), full); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing: %v, want ErrNotExist", err)
	}
}

func TestReplaceKeepsTheModeAndTheLink(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	put(t, filepath.Join(root, "f"), "base")
	must(t, os.Chmod(filepath.Join(root, "f"), 0o751))
	link(t, "f", filepath.Join(root, "l"))
	must(t, resolve(t, b, "l").Replace([]byte("new"), fsys.ContentOf([]byte("base")), full))
	info, err := os.Lstat(filepath.Join(root, "l"))
	must(t, err)
	if info.Mode()&fs.ModeSymlink == 0 || text(t, filepath.Join(root, "f")) != "new" {
		t.Errorf("the link is %v, its target holds %q", info.Mode(), text(t, filepath.Join(root, "f")))
	}
	if info, _ := os.Stat(filepath.Join(root, "f")); runtime.GOOS != "windows" && info.Mode() != 0o751 {
		t.Errorf("mode %v, want 0751", info.Mode())
	}
	must(t, resolve(t, b, "f").Replace([]byte("x"), fsys.ContentOf([]byte("new")), fsys.WriteOptions{Perm: 0o600}))
	if info, _ := os.Stat(filepath.Join(root, "f")); runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("mode %v, want 0600 as asked for", info.Mode())
	}
}

func TestAppendWritesAtTheEnd(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	put(t, filepath.Join(root, "log"), "one\n")
	p := resolve(t, b, "log")
	before, _ := os.Stat(p.String())
	end, err := p.Append([]byte("two\n"), fsys.Sync{})
	if err != nil || end != 8 || text(t, p.String()) != "one\ntwo\n" {
		t.Errorf("Append = %d, %v, the file holds %q", end, err, text(t, p.String()))
	}
	if after, _ := os.Stat(p.String()); !os.SameFile(before, after) {
		t.Error("the file was replaced, not appended to")
	}
	if end, err := p.Append(nil, fsys.Sync{Off: true}); err != nil {
		t.Errorf("Append of nothing = %d, %v", end, err)
	}
	for name, want := range map[string]error{"none": fs.ErrNotExist, ".": fsys.ErrBase} {
		if _, err := resolve(t, b, name).Append([]byte("x"), fsys.Sync{}); !errors.Is(err, want) {
			t.Errorf("Append(%s) = %v, want %v", name, err, want)
		}
	}
	must(t, os.Mkdir(filepath.Join(root, "d"), 0o755))
	if _, err := resolve(t, b, "d").Append([]byte("x"), fsys.Sync{}); !errors.Is(err, fsys.ErrIsDirectory) {
		t.Errorf("Append to a directory = %v, want ErrIsDirectory", err)
	}
}

func TestRemoveTakesFilesOnlyAndOnlyWhatWasExpected(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	put(t, filepath.Join(root, "f"), "base")
	put(t, filepath.Join(root, "d/x"), "x")
	p := resolve(t, b, "f")
	other, base := fsys.ContentOf([]byte("other")), fsys.ContentOf([]byte("base"))
	if err := p.Remove(&other, fsys.Sync{}); !errors.Is(err, fsys.ErrChanged) || text(t, p.String()) != "base" {
		t.Errorf("Remove = %v, want ErrChanged; the file holds %q", err, text(t, p.String()))
	}
	must(t, p.Remove(&base, fsys.Sync{}))
	if err := p.Remove(nil, fsys.Sync{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Remove of nothing = %v, want ErrNotExist", err)
	}
	if err := resolve(t, b, "d").Remove(nil, fsys.Sync{}); !errors.Is(err, fsys.ErrIsDirectory) {
		t.Errorf("Remove of a directory = %v, want ErrIsDirectory", err)
	}
	must(t, resolve(t, b, "d/x").Remove(nil, fsys.Sync{}))
	if err := resolve(t, b, ".").Remove(nil, fsys.Sync{}); !errors.Is(err, fsys.ErrBase) {
		t.Errorf("Remove of the base = %v, want ErrBase", err)
	}
	if got := list(t, root); got != "d" {
		t.Errorf("left %q, want d", got)
	}
}

func TestRemoveAllShowsEverythingAndThenRemovesIt(t *testing.T) {
	root, outside := tempDir(t), tempDir(t)
	b := open(t, root)
	put(t, filepath.Join(outside, "keep"), "kept")
	grow := func() {
		put(t, filepath.Join(root, "d/a"), "a")
		put(t, filepath.Join(root, "d/sub/b"), "b")
		if !fsys.Exists(filepath.Join(root, "d/out")) {
			link(t, outside, filepath.Join(root, "d/out"))
		}
	}
	grow()
	p := resolve(t, b, "d")
	var shown []string
	visit := func(p fsys.Path, info fsys.Info) error {
		shown = append(shown, fmt.Sprintf("%s:%d", p.Rel(), info.Kind))
		if info.Kind == fsys.Regular {
			_, _, err := p.Read(mega)
			return err
		}
		return nil
	}
	// An error from visit leaves everything.
	stop := errors.New("stop")
	if err := p.RemoveAll(t.Context(), func(p fsys.Path, _ fsys.Info) error {
		if p.Rel() == "d/sub/b" {
			return stop
		}
		return nil
	}, fsys.Sync{}); !errors.Is(err, stop) || list(t, root) != "d d/a d/out d/sub d/sub/b" {
		t.Errorf("RemoveAll = %v, left %s", err, list(t, root))
	}
	// So does something that came, or changed, after it was shown.
	for name, meddle := range map[string]func(){
		"came":    func() { put(t, filepath.Join(root, "d/a2"), "unseen") },
		"changed": func() { put(t, filepath.Join(root, "d/a"), "changed") },
	} {
		grow()
		err := p.RemoveAll(t.Context(), func(p fsys.Path, _ fsys.Info) error {
			if p.Rel() == "d/sub/b" {
				meddle()
			}
			return nil
		}, fsys.Sync{})
		if !errors.Is(err, fsys.ErrChanged) || text(t, filepath.Join(root, "d/sub/b")) != "b" {
			t.Errorf("%s: RemoveAll = %v, want ErrChanged; left %s", name, err, list(t, root))
		}
	}
	must(t, os.Remove(filepath.Join(root, "d/a2")))
	must(t, p.RemoveAll(t.Context(), visit, fsys.Sync{}))
	want := fmt.Sprintf("d/a:%d d/out:%d d/sub:%d d/sub/b:%d", fsys.Regular, fsys.Link, fsys.Directory, fsys.Regular)
	if got := strings.Join(shown, " "); got != want {
		t.Errorf("shown %s, want %s", got, want)
	}
	if list(t, root) != "" || text(t, filepath.Join(outside, "keep")) != "kept" {
		t.Errorf("left %q, outside %s", list(t, root), list(t, outside))
	}
	put(t, filepath.Join(root, "f"), "")
	for name, want := range map[string]error{"f": syscall.ENOTDIR, "none": fs.ErrNotExist, ".": fsys.ErrBase} {
		if err := resolve(t, b, name).RemoveAll(t.Context(), nil, fsys.Sync{}); !errors.Is(err, want) {
			t.Errorf("RemoveAll(%s) = %v, want %v", name, err, want)
		}
	}
}

func TestMkdir(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	put(t, filepath.Join(root, "f"), "")
	if err := resolve(t, b, "a/b").Mkdir(false, fsys.Sync{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without parents: %v, want ErrNotExist", err)
	}
	must(t, resolve(t, b, "a/b").Mkdir(true, fsys.Sync{}))
	for _, name := range []string{"a", "a/b", "f", "."} {
		if err := resolve(t, b, name).Mkdir(true, fsys.Sync{}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Mkdir(%s) = %v, want ErrExist", name, err)
		}
	}
	if got := list(t, root); got != "a a/b f" {
		t.Errorf("made %s", got)
	}
}

func TestRenameMovesInOneStep(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	at := func(name string) string { return filepath.Join(root, name) }
	put(t, at("a"), "a")
	put(t, at("b"), "b")
	put(t, at("dir/x"), "x")
	put(t, at("full/y"), "y")
	move := func(from, to string, o fsys.RenameOptions) error {
		p, err := b.ResolveLink(from)
		must(t, err)
		q, err := b.ResolveLink(to)
		must(t, err)
		_, err = fsys.Rename(p, q, o)
		return err
	}
	for _, c := range []struct {
		from, to string
		o        fsys.RenameOptions
		want     error
	}{
		{"none", "n", fsys.RenameOptions{}, fs.ErrNotExist},
		{"none", "made/n", fsys.RenameOptions{MakeDirs: true}, fs.ErrNotExist},
		{"a", "b", fsys.RenameOptions{}, fs.ErrExist},
		{"a", "a", fsys.RenameOptions{Overwrite: true}, fs.ErrExist},
		{"a", "dir", fsys.RenameOptions{Overwrite: true}, fsys.ErrIsDirectory},
		{"a", "no/dir", fsys.RenameOptions{}, fs.ErrNotExist},
		{"dir", "full", fsys.RenameOptions{}, fs.ErrExist},
		{"dir", "full", fsys.RenameOptions{Overwrite: true}, fsys.ErrIsDirectory},
		{"dir", "dir/sub/x", fsys.RenameOptions{MakeDirs: true}, syscall.EINVAL},
		{".", "x", fsys.RenameOptions{}, fsys.ErrBase},
		{"a", ".", fsys.RenameOptions{Overwrite: true}, fsys.ErrBase},
	} {
		if err := move(c.from, c.to, c.o); !errors.Is(err, c.want) {
			t.Errorf("Rename(%s, %s, %+v) = %v, want %v", c.from, c.to, c.o, err, c.want)
		}
	}
	if got := list(t, root); got != "a b dir dir/x full full/y" {
		t.Fatalf("failures left %s", got)
	}
	must(t, move("a", "new/sub/a", fsys.RenameOptions{MakeDirs: true}))
	must(t, move("new/sub/a", "b", fsys.RenameOptions{Overwrite: true}))
	must(t, move("dir", "moved", fsys.RenameOptions{}))
	if got := list(t, root) + text(t, at("b")); got != "b full full/y moved moved/x new new/suba" {
		t.Errorf("left %s", got)
	}
	link(t, "b", at("l"))
	must(t, move("l", "l2", fsys.RenameOptions{}))
	if target, err := os.Readlink(at("l2")); err != nil || target != "b" {
		t.Errorf("the link moved to %q, %v", target, err)
	}
	if err := os.Link(at("b"), at("hard")); err == nil {
		must(t, move("b", "hard", fsys.RenameOptions{Overwrite: true}))
		if fsys.Exists(at("b")) || text(t, at("hard")) != "a" {
			t.Errorf("two names of one file: %s", list(t, root))
		}
	}
}

func TestCopyIsExactAndWhole(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	at := func(name string) string { return filepath.Join(root, name) }
	binary := strings.Repeat("\x00\xff\r\n", 50_000)
	put(t, at("a"), binary)
	must(t, os.Chmod(at("a"), 0o754))
	put(t, at("b"), "b")
	must(t, os.Mkdir(at("d"), 0o755))
	cp := func(from, to string, o fsys.RenameOptions) error {
		return fsys.Copy(resolve(t, b, from), resolve(t, b, to), o)
	}
	must(t, cp("a", "new/copy", fsys.RenameOptions{MakeDirs: true}))
	info, _ := os.Stat(at("new/copy"))
	if text(t, at("new/copy")) != binary || runtime.GOOS != "windows" && info.Mode() != 0o754 {
		t.Errorf("the copy has %d bytes, mode %v", info.Size(), info.Mode())
	}
	for _, c := range []struct {
		from, to string
		o        fsys.RenameOptions
		want     error
	}{
		{"a", "b", fsys.RenameOptions{}, fs.ErrExist},
		{"a", "a", fsys.RenameOptions{Overwrite: true}, fs.ErrExist},
		{"d", "x", fsys.RenameOptions{}, fsys.ErrIsDirectory},
		{".", "x", fsys.RenameOptions{}, fsys.ErrIsDirectory},
		{"a", "d", fsys.RenameOptions{Overwrite: true}, fsys.ErrIsDirectory},
		{"none", "y/z", fsys.RenameOptions{MakeDirs: true}, fs.ErrNotExist},
	} {
		if err := cp(c.from, c.to, c.o); !errors.Is(err, c.want) {
			t.Errorf("Copy(%s, %s, %+v) = %v, want %v", c.from, c.to, c.o, err, c.want)
		}
	}
	must(t, cp("a", "b", fsys.RenameOptions{Overwrite: true}))
	if got := list(t, root); text(t, at("b")) != binary || got != "a b d new new/copy" {
		t.Errorf("left %s", got)
	}
}

func TestABatchFlushesEachDirectoryOnce(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	var later fsys.DirSync
	o := fsys.WriteOptions{MakeDirs: true, Sync: fsys.Sync{Defer: &later}}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			p := resolve(t, b, fmt.Sprintf("d%d/f%d", i%2, i))
			if err := p.Create([]byte("x"), o); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	must(t, later.Flush())
	must(t, later.Flush()) // nothing is left to do
	if n := len(strings.Fields(list(t, root))); n != 22 {
		t.Errorf("%d names, want 22", n)
	}
}

func TestWalkIsSortedFollowsNoDirectoryLinkAndHidesTemps(t *testing.T) {
	b, root, _, _ := farm(t)
	put(t, filepath.Join(root, ".f.aaaaaa-zz-bbbbbb-ccccccccccccc-0-0.acm-tmp"), "")
	put(t, filepath.Join(root, ".hidden"), "h")
	walk := func(name string, o fsys.WalkOptions) string {
		var all []string
		must(t, resolve(t, b, name).Walk(t.Context(), o, func(e *fsys.Entry) error {
			info, err := e.Info()
			must(t, err)
			if info.Kind != e.Kind {
				t.Errorf("%s: entry says %d, info %d", e.Rel, e.Kind, info.Kind)
			}
			mark := map[fsys.Kind]string{fsys.Regular: "", fsys.Directory: "/", fsys.Link: "@", fsys.Special: "?"}[e.Kind]
			if e.IsLink {
				mark += ">"
			}
			all = append(all, e.Rel+mark)
			return nil
		}))
		return strings.Join(all, " ")
	}
	top := ".hidden file l-abs/> l-chain/> l-dang-dir@> l-dang-out@> l-dangling@> l-file> l-loop@> l-loop2@> l-out@> l-out-rel@> l-second/> l-self/> l-sub/> l-up@> l-via> sub/"
	if got := walk(".", fsys.WalkOptions{}); got != top {
		t.Errorf("Walk = %s\nwant   %s", got, top)
	}
	if got, want := walk(".", fsys.WalkOptions{Recursive: true}), top+" sub/deep/ sub/deep/file sub/l-back> sub/l-leave@>"; got != want {
		t.Errorf("Walk = %s\nwant   %s", got, want)
	}
	if got, want := walk("l-sub", fsys.WalkOptions{Recursive: true}), "deep/ deep/file l-back> l-leave@>"; got != want {
		t.Errorf("Walk = %s\nwant   %s", got, want)
	}
	for name, want := range map[string]error{"file": syscall.ENOTDIR, "none": fs.ErrNotExist} {
		if err := resolve(t, b, name).Walk(t.Context(), fsys.WalkOptions{}, nil); !errors.Is(err, want) {
			t.Errorf("Walk(%s) = %v, want %v", name, err, want)
		}
	}
}

func TestWalkCanSkipStopAndBeCancelled(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	for _, name := range []string{"a/1", "a/2", "b/1", "c"} {
		put(t, filepath.Join(root, name), "")
	}
	walk := func(ctx context.Context, at string, with error) (string, error) {
		var all []string
		err := resolve(t, b, ".").Walk(ctx, fsys.WalkOptions{Recursive: true}, func(e *fsys.Entry) error {
			all = append(all, e.Rel)
			if e.Path().Rel() == at {
				return with
			}
			return nil
		})
		return strings.Join(all, " "), err
	}
	for _, c := range []struct {
		at   string
		with error
		want string
	}{
		{"", nil, "a a/1 a/2 b b/1 c"},
		{"a", fs.SkipDir, "a b b/1 c"},
		{"a/1", fs.SkipDir, "a a/1 b b/1 c"},
		{"c", fs.SkipDir, "a a/1 a/2 b b/1 c"},
		{"a/1", fs.SkipAll, "a a/1"},
	} {
		if got, err := walk(t.Context(), c.at, c.with); err != nil || got != c.want {
			t.Errorf("%v at %s: %s, %v, want %s", c.with, c.at, got, err, c.want)
		}
	}
	stop := errors.New("stop")
	if _, err := walk(t.Context(), "b", stop); !errors.Is(err, stop) {
		t.Errorf("Walk = %v, want the error of the function", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if got, err := walk(ctx, "", nil); !errors.Is(err, stop) || got != "" {
		t.Errorf("Walk = %q, %v, want the cause of the cancellation", got, err)
	}
}

// Names come and go, and directories become files, while they are listed.
func TestWalkToleratesATreeThatChanges(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	for i := range 20 {
		put(t, filepath.Join(root, fmt.Sprintf("d%02d/f", i)), "")
	}
	var seen []string
	must(t, resolve(t, b, ".").Walk(t.Context(), fsys.WalkOptions{Recursive: true}, func(e *fsys.Entry) error {
		seen = append(seen, e.Rel)
		if e.Rel == "d00" {
			for i := 1; i < 20; i++ {
				dir := filepath.Join(root, fmt.Sprintf("d%02d", i))
				must(t, os.RemoveAll(dir))
				switch i % 3 {
				case 1:
					put(t, dir, "now a file")
				case 2:
					link(t, tempDir(t), dir)
				}
			}
		}
		return nil
	}))
	if !slices.Contains(seen, "d00/f") || !slices.Contains(seen, "d19") {
		t.Errorf("seen %v", seen)
	}
}

func TestReadGivesNoMixtureOfAFileThatIsReplaced(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	p := resolve(t, b, "f")
	texts := [][]byte{bytes.Repeat([]byte("a"), 300_000), bytes.Repeat([]byte("b"), 200_000)}
	must(t, p.Create(texts[0], full))
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := p.Replace(texts[(i+1)%2], fsys.ContentOf(texts[i%2]), fsys.WriteOptions{Sync: fsys.Sync{Off: true}}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for until := time.Now().Add(300 * time.Millisecond); time.Now().Before(until); {
		got, _, err := p.Read(mega)
		if err != nil || !bytes.Equal(got, texts[0]) && !bytes.Equal(got, texts[1]) {
			t.Errorf("read %d bytes of a mixture, %v", len(got), err)
			break
		}
	}
	close(stop)
	writer.Wait()
}
