package fsys_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/commit"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/opendir"
)

// long is how long a race runs: FSYS_TEST_RACE=5s for longer.
func long(t *testing.T, usual time.Duration) time.Duration {
	if s := os.Getenv("FSYS_TEST_RACE"); s != "" {
		d, err := time.ParseDuration(s)
		must(t, err)
		return d
	}
	if testing.Short() {
		return usual / 10
	}
	return usual
}

// A directory, or a file, changes places with a link that leads out as fast as
// it can, while everything is done to names below it.
func TestNothingEscapesWhileLinksFlip(t *testing.T) {
	for _, system := range []string{"new", "old"} {
		for _, flips := range []string{"directory", "file"} {
			t.Run(system+" calls, "+flips, func(t *testing.T) {
				if system == "old" {
					t.Cleanup(opendir.PretendLacking(true, true, true))
				}
				race(t, flips)
			})
		}
	}
}

func race(t *testing.T, flips string) {
	root, outside := tempDir(t), tempDir(t)
	b := open(t, root)
	names := []string{"naive", "read", "write", "append", "remove", "rename", "copy", "copyto", "mkdir", "walk", "removeall", "sweep"}
	must(t, os.Mkdir(filepath.Join(root, "d"), 0o755))
	for _, name := range names {
		put(t, filepath.Join(root, "d", name), "inside")
		put(t, filepath.Join(outside, name), "secret "+name)
		put(t, filepath.Join(outside, "outer", name), "secret "+name)
	}
	hold := filepath.Join(root, "hold")
	must(t, os.Symlink(outside, hold))
	for _, name := range names {
		must(t, os.Symlink(filepath.Join(outside, name), filepath.Join(root, "d", name+".hold")))
	}
	// flip changes what name leads through until it is stopped.
	flip := func(name string, stop *atomic.Bool) (flipped int) {
		a, b := filepath.Join(root, "d"), hold
		if flips == "file" {
			a, b = filepath.Join(a, name), filepath.Join(a, name+".hold")
		}
		for !stop.Load() {
			// What is not there, because it was moved, is not flipped.
			if unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) == nil {
				flipped++
			}
		}
		return flipped
	}
	before := snapshot(t, outside)
	noSync := fsys.Sync{Off: true}
	write := fsys.WriteOptions{Sync: noSync}
	secret := func(data []byte) {
		if bytes.Contains(data, []byte("secret")) {
			t.Errorf("read %q", data)
		}
	}
	ops := map[string]func(p, q fsys.Path) error{
		// Who looks at the name and then uses it is led out, which shows that the
		// flips come at the right moments.
		"naive": func(p, _ fsys.Path) error {
			if data, _ := os.ReadFile(p.String()); !bytes.Contains(data, []byte("secret")) {
				return errors.New("not this time")
			}
			return nil
		},
		"read": func(p, _ fsys.Path) error { data, _, err := p.Read(mega); secret(data); return err },
		"write": func(p, _ fsys.Path) error {
			data, _, err := p.Read(mega)
			if err == nil {
				return p.Replace([]byte("inside"), fsys.ContentOf(data), write)
			}
			_ = p.Replace([]byte("x"), fsys.ContentOf([]byte("secret write")), write)
			return p.Create([]byte("inside"), write)
		},
		"append": func(p, _ fsys.Path) error { _, err := p.Append([]byte("x"), noSync); return err },
		"remove": func(p, _ fsys.Path) error {
			content := fsys.ContentOf([]byte("secret remove"))
			_ = p.Remove(&content, noSync)
			_ = p.Create([]byte("inside"), write)
			return p.Remove(nil, noSync)
		},
		"rename": func(p, q fsys.Path) error {
			_, err := fsys.Rename(p, q, fsys.RenameOptions{Overwrite: true, Sync: noSync})
			if err == nil {
				data, _, _ := q.Read(mega)
				secret(data)
				_, err = fsys.Rename(q, p, fsys.RenameOptions{Overwrite: true, Sync: noSync})
			}
			_ = p.Create([]byte("inside"), write)
			return err
		},
		"copy": func(p, q fsys.Path) error {
			err := fsys.Copy(p, q, fsys.RenameOptions{Overwrite: true, Sync: noSync})
			data, _, _ := q.Read(mega)
			secret(data)
			return err
		},
		"copyto": func(p, q fsys.Path) error {
			_ = q.Create([]byte("copied"), write)
			return fsys.Copy(q, p, fsys.RenameOptions{Overwrite: true, Sync: noSync})
		},
		"mkdir": func(p, _ fsys.Path) error {
			_ = p.Remove(nil, noSync)
			err := p.Mkdir(true, noSync)
			_ = p.RemoveAll(context.Background(), nil, noSync)
			_ = p.Create([]byte("inside"), write)
			return err
		},
		"walk": func(fsys.Path, fsys.Path) error {
			p, err := b.Resolve("d")
			if err != nil {
				return err
			}
			return p.Walk(context.Background(), fsys.WalkOptions{Recursive: true}, func(e *fsys.Entry) error {
				if info, err := e.Info(); err == nil && info.Kind == fsys.Regular && info.Size == int64(len("secret walk")) && e.Rel == "walk" {
					t.Errorf("saw the size of %s outside", e.Rel)
				}
				if strings.HasPrefix(e.Rel, "outer") {
					t.Errorf("listed %s, which is outside", e.Rel)
				}
				return nil
			})
		},
		"removeall": func(fsys.Path, fsys.Path) error {
			p, err := b.Resolve("d/tree")
			if err != nil {
				return err
			}
			_ = p.Mkdir(true, noSync)
			return p.RemoveAll(context.Background(), nil, noSync)
		},
		"sweep": func(fsys.Path, fsys.Path) error { _, err := b.Sweep(context.Background()); return err },
	}
	allFlips := 0
	for _, name := range names {
		var stop atomic.Bool
		var flipping sync.WaitGroup
		var flipped, tried, done int
		flipping.Go(func() { flipped = flip(name, &stop) })
		for until := time.Now().Add(long(t, 100*time.Millisecond)); time.Now().Before(until); tried++ {
			p, err := b.Resolve("d/" + name)
			if err != nil {
				continue
			}
			q, err := b.ResolveLink("q-" + name) // what was moved there may be a link
			must(t, err)
			if ops[name](p, q) == nil {
				done++
			}
		}
		stop.Store(true)
		flipping.Wait()
		t.Logf("%-9s worked %d of %d times, %d flips", name, done, tried, flipped)
		allFlips += flipped
	}
	if allFlips < 100 {
		t.Errorf("only %d flips: nothing was proven", allFlips)
	}
	if after := snapshot(t, outside); after != before {
		t.Errorf("outside was\n%s\nis\n%s", before, after)
	}
	if info, err := os.Lstat(filepath.Join(root, "q-copy")); err == nil && !info.Mode().IsRegular() {
		t.Errorf("a copy is %v", info.Mode())
	}
}

// editor saves without asking, in one of the ways editors do.
type editor struct {
	path  string
	save  func(path, text string) error
	saved atomic.Int64 // the last version that is surely there
}

func byRename(path, text string) error {
	if err := os.WriteFile(path+".swp", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".swp", path)
}

func inPlace(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	for _, part := range []string{text[:len(text)/2], text[len(text)/2:]} {
		if _, err := f.WriteString(part); err != nil {
			f.Close()
			return err
		}
	}
	return f.Close()
}

// edits lets both sides work on one file. Every text begins with the version
// the editor saved, and ours goes on from what it read: if a version is gone
// that was there before we read, we overwrote it unseen.
func edits(t *testing.T, save func(path, text string) error, durable fsys.Sync, long time.Duration) (saves, commits, refused, lost int) {
	root := tempDir(t)
	b := open(t, root)
	p := resolve(t, b, "f")
	put(t, p.String(), "version 0 ")
	e := editor{path: p.String(), save: save}
	var stop atomic.Bool
	var editing sync.WaitGroup
	editing.Go(func() {
		for v := int64(1); !stop.Load(); v++ {
			if err := e.save(e.path, fmt.Sprintf("version %d %s", v, strings.Repeat("e", int(v%3000)))); err != nil {
				t.Error(err)
				return
			}
			e.saved.Store(v)
			saves++
			time.Sleep(time.Duration(v*7919%700) * time.Microsecond)
		}
	})
	version := func(data []byte) (v int64) {
		if n, _ := fmt.Sscanf(string(data), "version %d ", &v); n == 0 {
			return -1
		}
		return v
	}
	for until := time.Now().Add(long); time.Now().Before(until); {
		data, _, err := p.Read(mega)
		if err != nil {
			t.Error(err)
			break
		}
		if version(data) < 0 {
			continue // in the middle of a save
		}
		err = p.Replace(append(bytes.Clone(data), '.'), fsys.ContentOf(data), fsys.WriteOptions{Sync: durable})
		switch {
		case err == nil:
			commits++
		case errors.Is(err, fsys.ErrChanged):
			refused++
		default:
			t.Errorf("Replace = %v", err)
		}
		least := e.saved.Load()
		now, _, err := p.Read(mega)
		if err != nil {
			t.Error(err)
		}
		if v := version(now); v >= 0 && v < least {
			lost++
			e.saved.Store(v) // counted once
		}
	}
	stop.Store(true)
	editing.Wait()
	if got := list(t, root); got != "f" && got != "f f.swp" {
		t.Errorf("left %s", got)
	}
	return saves, commits, refused, lost
}

func TestASaveByRenameIsNeverOverwrittenUnseen(t *testing.T) {
	saves, commits, refused, lost := edits(t, byRename, fsys.Sync{Off: true}, long(t, time.Second))
	t.Logf("%d saves, %d commits, %d refused, %d lost", saves, commits, refused, lost)
	if lost > 0 || commits == 0 || refused == 0 {
		t.Errorf("%d saves: %d commits, %d refused, %d lost, want none lost", saves, commits, refused, lost)
	}
}

// What cannot be closed: the moment between finding a file by its name and
// opening it, if the name goes to the new file in between and the flush of the
// directory is over before the opening goes on.
func TestASaveInPlaceIsSeen(t *testing.T) {
	saves, commits, refused, lost := edits(t, inPlace, fsys.Sync{}, long(t, time.Second))
	t.Logf("with leases: %d saves, %d commits, %d refused, %d lost", saves, commits, refused, lost)
	if lost > 1+saves/10_000 || commits == 0 {
		t.Errorf("%d saves: %d commits, %d refused, %d lost", saves, commits, refused, lost)
	}
	t.Cleanup(opendir.PretendLacking(false, false, true))
	saves, commits, refused, lost = edits(t, inPlace, fsys.Sync{}, long(t, time.Second))
	t.Logf("without: %d saves, %d commits, %d refused, %d lost", saves, commits, refused, lost)
}

// A process that opens the old file for writing while the two change places has
// to wait, and finds it back under its name.
func TestAWriterInTheMiddleIsHeldUpAndGoesFirst(t *testing.T) {
	for _, step := range []string{"replace.exchange", "replace.check", "replace.sync"} {
		root := tempDir(t)
		b := open(t, root)
		p := resolve(t, b, "f")
		put(t, p.String(), "old")
		// Another name of the old file stands for a lookup that was made before.
		must(t, os.Link(p.String(), filepath.Join(root, "g")))
		written := make(chan error, 1)
		at(t, step, func() {
			go func() { written <- os.WriteFile(filepath.Join(root, "g"), []byte("outside"), 0o644) }()
			time.Sleep(20 * time.Millisecond) // it knocks
		})
		err := p.Replace([]byte("new"), fsys.ContentOf([]byte("old")), fsys.WriteOptions{})
		commit.Failpoint = nil
		must(t, <-written)
		if got := text(t, p.String()); !errors.Is(err, fsys.ErrChanged) || got != "outside" || list(t, root) != "f g" {
			t.Errorf("at %s: Replace = %v, the file holds %q, want outside; left %s", step, err, got, list(t, root))
		}
	}
}

// at does something before a step is made, once.
func at(t *testing.T, where string, do func()) {
	var once sync.Once
	commit.Failpoint = func(step string) error {
		if step == where {
			once.Do(do)
		}
		return nil
	}
	t.Cleanup(func() { commit.Failpoint = nil })
}

// Every moment at which somebody else can save, and what has to stand then.
func TestOutsideSavesAtEveryMoment(t *testing.T) {
	for _, c := range []struct {
		name string
		step string
		save func(t *testing.T, path string)
		want string
		err  error
	}{
		{"by rename, before the exchange", "replace.exchange", rename("outside"), "outside", fsys.ErrChanged},
		{"by rename, after the exchange", "replace.check", rename("outside"), "outside", nil},
		{"by rename, at the very end", "replace.unlink", rename("outside"), "outside", nil},
		{"the same bytes by rename", "replace.exchange", rename("old"), "new", nil},
		{"in place, before the look", "replace.flush", write("outside"), "outside", fsys.ErrChanged},
		{"in place, after the exchange", "replace.check", write("outside"), "outside", nil},
		{"removed before the exchange", "replace.exchange", remove, "(no such file or directory)", fs.ErrNotExist},
		{"removed after the exchange", "replace.check", remove, "(no such file or directory)", nil},
		{"a directory now", "replace.exchange", directory, "(is a directory)", fsys.ErrChanged},
		{"a link now", "replace.exchange", toLink, "elsewhere", fsys.ErrChanged},
		{"a pipe now", "replace.exchange", pipe, "(pipe)", fsys.ErrChanged},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := tempDir(t)
			b := open(t, root)
			p := resolve(t, b, "f")
			put(t, p.String(), "old")
			at(t, c.step, func() { c.save(t, p.String()) })
			err := p.Replace([]byte("new"), fsys.ContentOf([]byte("old")), fsys.WriteOptions{})
			if !errors.Is(err, c.err) {
				t.Errorf("Replace = %v, want %v", err, c.err)
			}
			got := ""
			if info, err := os.Lstat(p.String()); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
				got = "(pipe)"
			} else {
				got = text(t, p.String())
			}
			if got != c.want {
				t.Errorf("the file holds %q, want %q", got, c.want)
			}
			if left := strings.Trim(list(t, root), "f "); left != "" && left != "elsewhere" {
				t.Errorf("left %s", list(t, root))
			}
		})
	}
}

func rename(text string) func(*testing.T, string) {
	return func(t *testing.T, path string) { must(t, byRename(path, text)) }
}

func write(text string) func(*testing.T, string) {
	return func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte(text), 0o644)) }
}

func remove(t *testing.T, path string) { must(t, os.Remove(path)) }

func directory(t *testing.T, path string) {
	must(t, os.Remove(path))
	must(t, os.Mkdir(path, 0o755))
}

func toLink(t *testing.T, path string) {
	must(t, os.Remove(path))
	must(t, os.WriteFile(filepath.Join(filepath.Dir(path), "elsewhere"), []byte("elsewhere"), 0o644))
	must(t, os.Symlink("elsewhere", path))
}

func pipe(t *testing.T, path string) {
	must(t, os.Remove(path))
	must(t, syscall.Mkfifo(path, 0o600))
}

// Somebody saves, we swap and see it, and before we can swap back somebody saves
// again, and again.
func TestTheNewestOfManySavesStands(t *testing.T) {
	for _, again := range []int{1, 2, 5} {
		root := tempDir(t)
		b := open(t, root)
		p := resolve(t, b, "f")
		put(t, p.String(), "old")
		n := 0
		commit.Failpoint = func(step string) error {
			switch step {
			case "replace.exchange":
				return byRename(p.String(), "save 0")
			case "replace.check": // from here on it is given back
				for ; n < again; n++ {
					must(t, byRename(p.String(), fmt.Sprint("save ", n+1)))
				}
			}
			return nil
		}
		err := p.Replace([]byte("new"), fsys.ContentOf([]byte("old")), fsys.WriteOptions{})
		commit.Failpoint = nil
		if want := fmt.Sprint("save ", again); !errors.Is(err, fsys.ErrChanged) || text(t, p.String()) != want || list(t, root) != "f" {
			t.Errorf("Replace = %v, the file holds %q, want %q; left %s", err, text(t, p.String()), want, list(t, root))
		}
	}
}

func TestWhatCannotBePutBackIsKeptInSight(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	p := resolve(t, b, "f")
	put(t, p.String(), "old")
	commit.Failpoint = func(step string) error {
		switch step {
		case "replace.exchange":
			return byRename(p.String(), "outside")
		case "replace.check": // a file system that changes its mind
			t.Cleanup(opendir.PretendLacking(false, true, false))
		}
		return nil
	}
	err := p.Replace([]byte("new"), fsys.ContentOf([]byte("old")), fsys.WriteOptions{})
	commit.Failpoint = nil
	kept := strings.TrimPrefix(list(t, root), "f ")
	if !errors.Is(err, fsys.ErrChanged) || !strings.Contains(err.Error(), kept) || text(t, filepath.Join(root, kept)) != "outside" {
		t.Errorf("Replace = %v, left %s", err, snapshot(t, root))
	}
}

// Somebody removes the new file before it is taken back.
func TestARemovalInTheMiddleKeepsTheOutsideSave(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	p := resolve(t, b, "f")
	put(t, p.String(), "old")
	commit.Failpoint = func(step string) error {
		switch step {
		case "replace.exchange":
			return byRename(p.String(), "outside")
		case "replace.check":
			return os.Remove(p.String())
		}
		return nil
	}
	err := p.Replace([]byte("new"), fsys.ContentOf([]byte("old")), fsys.WriteOptions{})
	commit.Failpoint = nil
	if !errors.Is(err, fsys.ErrChanged) || snapshot(t, root) != "f=outside" {
		t.Errorf("Replace = %v, left %s", err, snapshot(t, root))
	}
}

// A directory that was made anew while the old one was about to go.
func TestRemoveAllKeepsBothOfTwoDirectories(t *testing.T) {
	root := tempDir(t)
	b := open(t, root)
	put(t, filepath.Join(root, "d/x"), "x")
	commit.Failpoint = func(step string) error {
		switch step {
		case "remove.aside":
			put(t, filepath.Join(root, "d/unseen"), "unseen")
		case "remove.check":
			put(t, filepath.Join(root, "d/y"), "y")
		}
		return nil
	}
	err := resolve(t, b, "d").RemoveAll(t.Context(), nil, fsys.Sync{})
	commit.Failpoint = nil
	got := snapshot(t, root)
	if !errors.Is(err, fsys.ErrChanged) || !strings.Contains(got, "d/y=y") || !strings.Contains(got, "/unseen=unseen") || strings.Contains(got, "acm-tmp") {
		t.Errorf("RemoveAll = %v, left %s", err, got)
	}
}

func TestRemoveIfSeesOutsideSaves(t *testing.T) {
	for _, c := range []struct {
		name, step string
		save       func(*testing.T, string)
		want       string
		err        error
	}{
		{"before", "remove.aside", rename("outside"), "outside", fsys.ErrChanged},
		{"after", "remove.check", rename("outside"), "outside", nil},
		{"in place", "remove.aside", func(t *testing.T, path string) {
			// It is held up until the removal gave way.
			go func() { _ = os.WriteFile(path, []byte("outside"), 0o644) }()
			time.Sleep(20 * time.Millisecond)
		}, "outside", fsys.ErrChanged},
	} {
		root := tempDir(t)
		b := open(t, root)
		p, old := resolve(t, b, "f"), fsys.ContentOf([]byte("old"))
		put(t, p.String(), "old")
		at(t, c.step, func() { c.save(t, p.String()) })
		err := p.Remove(&old, fsys.Sync{})
		commit.Failpoint = nil
		if !errors.Is(err, c.err) {
			t.Errorf("%s: Remove = %v, want %v", c.name, err, c.err)
		}
		for range 1000 {
			if text(t, p.String()) == c.want {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if got := text(t, p.String()); got != c.want || list(t, root) != "f" {
			t.Errorf("%s: the file holds %q, want %q; left %s", c.name, got, c.want, list(t, root))
		}
	}
}
