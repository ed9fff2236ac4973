package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// replica is what a consumer knows: every path it was told of, with the bytes it
// found there then. Directories end in a slash.
type replica map[string]string

func scan(t testing.TB, root string) replica {
	t.Helper()
	r := make(replica)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone, or nobody may look
		}
		rel, _ := filepath.Rel(root, path)
		if rel = filepath.ToSlash(rel); d.IsDir() {
			r[rel+"/"] = ""
		} else {
			r[rel] = content(path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return r
}

func content(path string) string {
	if target, err := os.Readlink(path); err == nil {
		return "link to " + target
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "(gone)"
	}
	return string(text)
}

func key(c Change) string {
	if c.Dir {
		return c.Rel + "/"
	}
	return c.Rel
}

func (r replica) apply(t testing.TB, root string, c Change, strict bool) {
	key := key(c)
	_, known := r[key]
	if want := filepath.Join(root, filepath.FromSlash(c.Rel)); c.Path != want {
		t.Errorf("path of %s is %s, want %s", c.Rel, c.Path, want)
	}
	if strict && known == (c.Kind == Created) {
		t.Errorf("%s %s, but known before: %v", c.Kind, key, known)
	}
	switch c.Kind {
	case Deleted, Passed:
		delete(r, key)
	case Created, Modified:
		r[key] = ""
		if !c.Dir {
			r[key] = content(c.Path)
		}
	case Overflow:
		clear(r)
		maps.Copy(r, scan(t, root))
	}
}

// rig is a running Tree with a consumer that believes what it is told.
type rig struct {
	*testing.T
	tree *Tree
	root string
	gate sync.Mutex // held: the consumer is busy

	mu     sync.Mutex
	known  replica
	seen   map[string]bool // known by looking after an Overflow, and not by telling, until the next barrier
	strict bool            // what is told must fit what is known; not so after an Overflow, until the next barrier
	fresh  []Change
	kick   chan struct{} // receives after something was told
}

func newRig(t *testing.T, tree *Tree) *rig {
	t.Helper()
	r := &rig{T: t, tree: tree, root: tree.root, known: make(replica), kick: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- tree.Run(ctx, r.notify) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		if s := tree.Status(); s.Mode != ModeOff {
			t.Errorf("mode after Run is %q", s.Mode)
		}
		if err := tree.Sync(context.Background()); !errors.Is(err, ErrStopped) { // t.Context has ended
			t.Errorf("Sync after Run = %v, want ErrStopped", err)
		}
	})
	return r
}

func (r *rig) notify(changes []Change) {
	r.gate.Lock()
	defer r.gate.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range changes {
		r.strict = r.strict && c.Kind != Overflow
		r.known.apply(r.T, r.root, c, r.strict)
		delete(r.seen, key(c))
		if c.Kind == Overflow {
			r.seen = make(map[string]bool)
			for path := range r.known {
				r.seen[path] = true
			}
		}
	}
	r.fresh = append(r.fresh, changes...)
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// sync waits for the barrier and returns what was told since the last call.
func (r *rig) sync() []Change {
	r.Helper()
	if err := r.tree.Sync(r.Context()); err != nil {
		r.Fatalf("Sync = %v", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.strict = true
	fresh := r.fresh
	r.fresh = nil
	return fresh
}

// rest syncs until nothing more is told: a file polled right after it was written
// is told again.
func (r *rig) rest() {
	r.Helper()
	for len(r.sync()) > 0 {
	}
}

// check compares what the consumer knows after a barrier with what is there.
func (r *rig) check() []Change {
	r.Helper()
	fresh := r.sync()
	want := scan(r.T, r.root)
	r.mu.Lock()
	defer r.mu.Unlock()
	var wrong []string
	for path, text := range want {
		if got, known := r.known[path]; !known {
			wrong = append(wrong, "missed: "+path)
		} else if got != text {
			wrong = append(wrong, fmt.Sprintf("stale: %s: %q, want %q", path, got, text))
		}
	}
	for path := range r.known {
		_, there := want[path]
		switch {
		case there:
		case r.seen[path]: // it came and went, and nobody else knew
			delete(r.known, path)
		default:
			wrong = append(wrong, "left over: "+path)
		}
	}
	r.seen = nil
	if len(wrong) > 0 {
		slices.Sort(wrong)
		r.Fatalf("%d wrong:\n\t%s", len(wrong), strings.Join(wrong[:min(len(wrong), 20)], "\n\t"))
	}
	return fresh
}

func (r *rig) path(rel string) string { return filepath.Join(r.root, filepath.FromSlash(rel)) }

func (r *rig) write(rel, text string) {
	r.Helper()
	write(r.T, r.path(rel), text)
}

func (r *rig) do(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) mkdir(rel string)       { r.Helper(); r.do(os.MkdirAll(r.path(rel), 0o755)) }
func (r *rig) remove(rel string)      { r.Helper(); r.do(os.RemoveAll(r.path(rel))) }
func (r *rig) rename(old, new string) { r.Helper(); r.do(os.Rename(r.path(old), r.path(new))) }

// modes are the ways a tree is watched; one suite holds for all with a barrier.
var modes = map[string]TreeOptions{
	"system":            {Poll: time.Hour},
	"polling":           {Poll: time.Hour, PollOnly: true},
	"system, 3 watches": {Poll: time.Hour, MaxWatches: 3},
}

func inEveryMode(t *testing.T, f func(t *testing.T, r *rig)) {
	for name, o := range modes {
		t.Run(name, func(t *testing.T) {
			tree := NewTree(t.TempDir(), o)
			if k, err := tree.open(kernelOptions{}); err == nil {
				exact := k.exact()
				k.close()
				if !exact && !o.PollOnly {
					t.Skip("the system's notices have no barrier")
				}
			}
			f(t, newRig(t, tree))
		})
	}
}

func TestTreeTellsEditorsAndToolsAsWhatTheyMean(t *testing.T) {
	inEveryMode(t, func(t *testing.T, r *rig) {
		for _, c := range []struct {
			name string
			do   func()
			want []string
		}{
			{"written in place", func() { r.write("d/f", "longer text") }, []string{"modified d/f"}},
			{"truncated, then written (VS Code)", func() {
				r.do(os.Truncate(r.path("d/f"), 0))
				r.write("d/f", "from the editor")
			}, []string{"modified d/f"}},
			{"appended", func() {
				f, err := os.OpenFile(r.path("d/f"), os.O_APPEND|os.O_WRONLY, 0)
				r.do(err)
				_, err = f.WriteString("more")
				r.do(err)
				r.do(f.Close())
			}, []string{"modified d/f"}},
			{"probe, backup, new file (vim)", func() {
				r.write("d/4913", "")
				r.remove("d/4913")
				r.rename("d/f", "d/f~")
				r.write("d/f", "from vim")
				r.remove("d/f~")
			}, []string{"modified d/f"}},
			{"backup by copy (vim, backupcopy)", func() {
				r.write("d/f~", "old bytes")
				r.write("d/f", "from vim, in place")
				r.remove("d/f~")
			}, []string{"modified d/f"}},
			{"temporary file renamed over it (sed -i)", func() {
				r.write("d/sedAbCdEf", "from sed")
				r.rename("d/sedAbCdEf", "d/f")
			}, []string{"modified d/f"}},
			{"temporary file elsewhere renamed over it", func() {
				r.write("tmp", "from elsewhere")
				r.rename("tmp", "d/f")
			}, []string{"modified d/f"}},
			{"deleted and made again", func() {
				r.remove("d/f")
				r.write("d/f", "once more")
			}, []string{"modified d/f"}},
			{"new file through a temporary one", func() {
				r.write("d/tmp", "new")
				r.rename("d/tmp", "d/g")
			}, []string{"created d/g"}},
			{"came and went", func() {
				r.write("d/t", "x")
				r.remove("d/t")
			}, nil},
			{"attributes", func() { r.do(os.Chmod(r.path("d/f"), 0o600)) }, []string{"modified d/f"}},
			{"renamed", func() { r.rename("d/g", "d/h") }, []string{"deleted d/g", "created d/h"}},
			{"renamed over another", func() { r.rename("d/h", "d/f") }, []string{"deleted d/h", "modified d/f"}},
			{"deleted", func() { r.remove("d/f") }, []string{"deleted d/f"}},
			{"file became a directory", func() {
				r.write("x", "file")
				r.rest()
				r.remove("x")
				r.mkdir("x")
				r.write("x/y", "in it")
			}, []string{"deleted x", "created x/", "created x/y"}},
			{"directory became a file", func() {
				r.remove("x")
				r.write("x", "file again")
			}, []string{"deleted x/y", "deleted x/", "created x"}},
			{"link to a directory is not followed", func() {
				r.do(os.Symlink(r.path("d"), r.path("link")))
				r.write("d/behind", "x")
			}, []string{"created d/behind", "created link"}},
		} {
			r.mkdir("d")
			if _, err := os.Stat(r.path("d/f")); err != nil {
				r.write("d/f", "text")
			}
			r.rest()
			c.do()
			wantTold(t, r.check(), c.want...)
			if t.Failed() {
				t.Fatal("the case: " + c.name)
			}
		}
	})
}

func TestTreeTellsDirectoriesWithWhatTheyHold(t *testing.T) {
	inEveryMode(t, func(t *testing.T, r *rig) {
		r.mkdir("a/b")
		r.write("a/f", "1")
		r.write("a/b/g", "2")
		r.check()
		r.rest()

		r.rename("a", "z")
		wantTold(t, r.check(), "deleted a/f", "deleted a/b/g", "deleted a/b/", "deleted a/",
			"created z/", "created z/b/", "created z/b/g", "created z/f")

		r.rest()
		r.write("z/b/g", "watched under its new name")
		wantTold(t, r.check(), "modified z/b/g")

		r.rest()
		outside := filepath.Join(t.TempDir(), "out")
		r.do(os.Rename(r.path("z"), outside))
		wantTold(t, r.check(), "deleted z/f", "deleted z/b/g", "deleted z/b/", "deleted z/")

		r.rest()
		write(t, filepath.Join(outside, "f"), "changed out of sight")
		wantTold(t, r.check())
		r.do(os.Rename(outside, r.path("z")))
		r.check()
		r.rest()
		r.write("z/f", "watched again")
		wantTold(t, r.check(), "modified z/f")

		r.rest()
		r.rename("z", "y")
		r.rename("y", "z") // and back before anyone noticed
		wantTold(t, slices.DeleteFunc(r.check(), func(c Change) bool { return c.Kind == Modified }))

		r.rest()
		r.remove("z")
		wantTold(t, r.check(), "deleted z/f", "deleted z/b/g", "deleted z/b/", "deleted z/")
	})
}

func TestTreeSeesFilesInDirectoriesMadeInABurst(t *testing.T) {
	inEveryMode(t, func(t *testing.T, r *rig) {
		r.sync()
		for i := range 20 {
			deep := fmt.Sprintf("n%d/%s", i, strings.TrimSuffix(strings.Repeat("d/", 10), "/"))
			r.mkdir(deep)
			r.write(deep+"/f", "x")
			if got := len(r.check()); got < 12 {
				t.Fatalf("%d changes, want at least 11 directories and a file", got)
			}
			r.write(deep+"/f", "written once its directory was known")
			r.check()
		}
	})
}

// The consumer ends up with every path and every byte, whatever happened
// meanwhile and in which order.
func TestTreeMissesNothing(t *testing.T) {
	inEveryMode(t, func(t *testing.T, r *rig) { r.stir(60) })
}

// stir lets three hands loose on the tree, over and over, and compares.
func (r *rig) stir(rounds int) {
	r.Helper()
	if testing.Short() {
		rounds /= 5
	}
	seed := rand.Uint64()
	r.Log("seed", seed)
	r.check()
	for round := range rounds {
		var hands sync.WaitGroup
		for hand := range 3 {
			rnd := rand.New(rand.NewPCG(seed, uint64(round*10+hand)))
			hands.Go(func() {
				for range 5 + rnd.IntN(40) {
					mischief(r.root, rnd)
				}
			})
		}
		for range round % 4 { // barriers while things happen must not disturb
			_ = r.tree.Sync(r.Context())
		}
		hands.Wait()
		r.check()
		r.rest()
	}
}

// mischief does something to the tree; most of what can go wrong may go wrong.
func mischief(root string, rnd *rand.Rand) {
	pick := func() string {
		depth, path := 1+rnd.IntN(4), root
		for range depth {
			path = filepath.Join(path, string(rune('a'+rnd.IntN(4))))
		}
		return path
	}
	a, b := pick(), pick()
	text := fmt.Sprint(rnd.Uint64())[:1+rnd.IntN(10)]
	switch rnd.IntN(13) {
	case 0, 1, 2:
		_ = os.MkdirAll(a, 0o755)
	case 3, 4, 5:
		_ = os.WriteFile(a, []byte(text), 0o644)
	case 6:
		_ = os.WriteFile(a+".tmp", []byte(text), 0o644)
		_ = os.Rename(a+".tmp", a)
	case 7:
		_ = os.Remove(a)
	case 8:
		_ = os.RemoveAll(a)
	case 9, 10:
		_ = os.Rename(a, b)
	case 11:
		_ = os.Symlink(b, a)
	case 12:
		exchange(a, b)
	}
}

func TestTreeKeepsUpWithManyFiles(t *testing.T) {
	files, dirs := 5000, 50
	if testing.Short() {
		files = 500
	}
	inEveryMode(t, func(t *testing.T, r *rig) {
		r.sync()
		var hands sync.WaitGroup
		for hand := range 2 {
			hands.Go(func() {
				for i := hand; i < files; i += 2 {
					dir := r.path(fmt.Sprintf("d%d", i%dirs))
					_ = os.MkdirAll(dir, 0o755)
					_ = os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d", i)), []byte(fmt.Sprint(i)), 0o644)
				}
			})
		}
		hands.Wait()
		r.check()
		if n := len(r.known); n != files+dirs+1 {
			t.Errorf("%d paths are known, want %d", n, files+dirs+1)
		}
		r.rest()
		for i := range files {
			path := r.path(fmt.Sprintf("d%d/f%d", i%dirs, i))
			switch i % 3 {
			case 0:
				r.do(os.Remove(path))
			case 1:
				write(t, path, "changed "+fmt.Sprint(i))
			}
		}
		r.check()
	})
}

func TestTreeSurvivesItsRoot(t *testing.T) {
	for name, o := range modes {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			root := filepath.Join(parent, "root")
			r := newRig(t, NewTree(root, o))
			wantTold(t, r.sync())
			if s := r.tree.Status(); !strings.Contains(s.Degraded, root) {
				t.Errorf("degraded %q does not name the missing root", s.Degraded)
			}
			for range 3 {
				r.mkdir("d")
				r.write("d/f", "1")
				if got := r.check(); got[0].Kind != Overflow {
					t.Errorf("a new root was told as %v", told(got))
				}
				r.rest()
				r.write("d/f", "22")
				wantTold(t, r.check(), "modified d/f")
				r.rest()
				r.remove(".")
				wantTold(t, r.sync(), "deleted d/f", "deleted d/", "deleted ./")
			}
			// Another directory in its place, and the old one forgotten.
			r.mkdir("old")
			r.check()
			r.rest()
			aside := filepath.Join(parent, "aside")
			r.do(os.Rename(root, aside))
			r.mkdir("new")
			if got := r.check(); got[0].Kind != Overflow {
				t.Errorf("another root was told as %v", told(got))
			}
			r.rest()
			write(t, filepath.Join(aside, "old", "f"), "nobody's business")
			wantTold(t, r.check())
			r.remove(".")
			write(t, root, "a file")
			r.sync()
			if s := r.tree.Status(); !strings.Contains(s.Degraded, "not a directory") {
				t.Errorf("degraded is %q", s.Degraded)
			}
		})
	}
}

func TestTreeFollowsALinkOnlyAsItsRoot(t *testing.T) {
	inEveryMode(t, func(t *testing.T, r *rig) {
		link := filepath.Join(t.TempDir(), "link")
		r.do(os.Symlink(r.root, link))
		s := newRig(t, NewTree(link, r.tree.opts))
		s.sync()
		s.write("f", "x")
		wantTold(t, s.sync(), "created f")
	})
}

func TestTreeSkipsWhatItIsTold(t *testing.T) {
	for name, o := range modes {
		t.Run(name, func(t *testing.T) {
			var asked sync.Map
			o.Skip = func(rel string, dir bool) bool {
				asked.Store(rel, dir)
				return dir && strings.HasSuffix(rel, "/objects") || strings.HasSuffix(rel, ".tmp")
			}
			r := newRig(t, NewTree(t.TempDir(), o))
			r.mkdir("git/objects/aa")
			r.mkdir("git/refs")
			r.write("git/x.tmp", "x")
			r.sync()
			r.rest()
			r.write("git/objects/aa/f", "x")
			r.mkdir("git/objects/bb")
			r.write("git/y.tmp", "x")
			r.rename("git/y.tmp", "git/refs/main")
			r.mkdir("late/objects/cc")
			wantTold(t, r.sync(), "created git/refs/main", "created late/")
			if _, below := asked.Load("git/objects/aa"); below {
				t.Error("it looked into a skipped directory")
			}
		})
	}
}

func TestTreeSaysWhenThereIsTooMuchToTell(t *testing.T) {
	inEveryMode(t, func(t *testing.T, r *rig) {
		tree := NewTree(t.TempDir(), r.tree.opts)
		tree.most = 100
		r = newRig(t, tree)
		r.rest()
		r.gate.Lock() // however slowly they come, nothing is told meanwhile
		for i := range 500 {
			r.write(fmt.Sprintf("f%d", i), "x")
		}
		r.gate.Unlock()
		got := r.check()
		overflows := 0
		for _, c := range got {
			if c.Kind == Overflow {
				overflows++
			}
		}
		if overflows == 0 {
			t.Errorf("500 files with room for 100 were told as %d changes without an overflow", len(got))
		}
		r.rest()
		r.write("f1", "xyz")
		wantTold(t, r.check(), "modified f1")
	})
}

func TestSyncEndsWithItsContext(t *testing.T) {
	tree := NewTree(t.TempDir(), TreeOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tree.Sync(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Sync before Run = %v, want the context's end", err)
	}
	r := newRig(t, tree)
	r.gate.Lock()
	defer r.gate.Unlock()
	ctx, cancel = context.WithCancel(t.Context())
	synced := make(chan error)
	go func() { synced <- tree.Sync(ctx) }()
	cancel()
	if err := <-synced; !errors.Is(err, context.Canceled) {
		t.Errorf("Sync with a busy consumer = %v, want the context's end", err)
	}
}

func TestStatusBeforeRun(t *testing.T) {
	if s := NewTree(t.TempDir(), TreeOptions{}).Status(); s != (Status{Mode: ModeOff}) {
		t.Errorf("Status = %+v", s)
	}
}

func TestRemoteFileSystemsArePolled(t *testing.T) {
	tree := NewTree(t.TempDir(), TreeOptions{Poll: time.Hour})
	tree.remote = func(string) string { return "NFS" }
	r := newRig(t, tree)
	r.mkdir("d")
	r.rest()
	s := tree.Status()
	if s.Mode != ModePolling || s.Watches != 0 || s.Polled != 2 || !strings.Contains(s.Degraded, "NFS") {
		t.Errorf("Status = %+v", s)
	}
	r.write("d/f", "x")
	wantTold(t, r.check(), "created d/f")
}

// fakeKernel says what a test has it say.
type fakeKernel struct {
	fill    chan struct{}
	numbers map[string]int32
	full    atomic.Bool

	mu     sync.Mutex
	queued []notice
	err    error
}

func newFakeKernel() *fakeKernel {
	return &fakeKernel{fill: make(chan struct{}, 1), numbers: make(map[string]int32)}
}

func (k *fakeKernel) mode() string           { return "fake" }
func (k *fakeKernel) exact() bool            { return true }
func (k *fakeKernel) remove(int32)           {}
func (k *fakeKernel) ready() <-chan struct{} { return k.fill }
func (k *fakeKernel) close()                 {}

func (k *fakeKernel) add(dir string, _ bool) (int32, error) {
	if k.numbers[dir] == 0 {
		if k.full.Load() {
			return 0, &fullError{"no more watches: raise the limit"}
		}
		k.numbers[dir] = int32(len(k.numbers) + 1)
	}
	return k.numbers[dir], nil
}

func (k *fakeKernel) read(each func(notice)) error {
	k.mu.Lock()
	queued, err := k.queued, k.err
	k.queued = nil
	k.mu.Unlock()
	for _, n := range queued {
		each(n)
	}
	return err
}

func (k *fakeKernel) say(notices ...notice) {
	k.mu.Lock()
	k.queued = append(k.queued, notices...)
	k.mu.Unlock()
	select {
	case k.fill <- struct{}{}:
	default:
	}
}

func (k *fakeKernel) fail(err error) {
	k.mu.Lock()
	k.err = err
	k.mu.Unlock()
	k.say()
}

// fakeRig runs a Tree on a fake kernel in a synctest bubble.
func fakeRig(t *testing.T, root string, o TreeOptions) (*rig, *fakeKernel) {
	k, tree := newFakeKernel(), NewTree(root, o)
	tree.open = func(kernelOptions) (kernel, error) { return k, nil }
	return newRig(t, tree), k
}

// now returns what has been told by now, without a barrier.
func (r *rig) now() []Change {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh := r.fresh
	r.fresh = nil
	return fresh
}

func TestTreeTellsExactlyWhenAPathIsAtRest(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), "x")
	synctest.Test(t, func(t *testing.T) {
		r, k := fakeRig(t, dir, TreeOptions{})
		touch := notice{watch: 1, what: touched, name: "f"}
		wantTold(t, r.now(), "overflow ./") // without waiting
		k.say(touch)
		time.Sleep(99 * time.Millisecond)
		wantTold(t, r.now())
		k.say(touch)
		time.Sleep(99 * time.Millisecond)
		wantTold(t, r.now())
		time.Sleep(time.Millisecond)
		wantTold(t, r.now(), "modified f")
		time.Sleep(time.Minute)
		wantTold(t, r.now())

		for range 19 { // never at rest
			k.say(touch)
			time.Sleep(50 * time.Millisecond)
			wantTold(t, r.now())
		}
		k.say(touch)
		time.Sleep(50 * time.Millisecond)
		wantTold(t, r.now(), "modified f")

		k.say(touch)
		wantTold(t, r.sync(), "modified f") // who asks does not wait for the rest
	})
}

func TestTreeTellsAtOnceWithoutDebounce(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), "x")
	synctest.Test(t, func(t *testing.T) {
		r, k := fakeRig(t, dir, TreeOptions{Debounce: -1})
		wantTold(t, r.now(), "overflow ./")
		k.say(notice{watch: 1, what: touched, name: "f"})
		wantTold(t, r.now(), "modified f")
	})
}

func TestTreeLooksAtEverythingAgainWhenNoticesWereLost(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r, k := fakeRig(t, dir, TreeOptions{})
		r.rest()
		r.mkdir("d")
		r.write("d/f", "unheard of")
		k.say(notice{what: lost}, notice{what: lost})
		time.Sleep(99 * time.Millisecond)
		wantTold(t, r.now()) // more may be lost
		time.Sleep(time.Millisecond)
		wantTold(t, r.now(), "overflow ./")
		if s := r.tree.Status(); s.Overflows != 2 || s.Watches != 2 {
			t.Errorf("Status = %+v, want 2 overflows and 2 watches", s)
		}
		k.say(notice{watch: 2, what: touched, name: "f"})
		time.Sleep(100 * time.Millisecond)
		wantTold(t, r.now(), "modified d/f")
		k.say(notice{what: lost})
		wantTold(t, r.check(), "overflow ./") // who asks does not wait
	})
}

func TestTreePollsWhatCannotBeWatchedUntilItCan(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		log := slog.New(slog.NewTextHandler(&logged, nil))
		r, k := fakeRig(t, dir, TreeOptions{Poll: 3 * time.Second, Logger: log})
		r.rest()
		k.full.Store(true)
		r.mkdir("d")
		r.write("d/f", "x")
		k.say(notice{watch: 1, what: appeared, dir: true, name: "d"})
		wantTold(t, r.check(), "created d/", "created d/f")
		s := r.tree.Status()
		if s.Mode != "fake" || s.Watches != 1 || s.Polled != 1 || s.Degraded != "1 of 2 directories are polled: no more watches: raise the limit" {
			t.Errorf("Status = %+v", s)
		}
		r.write("d/f", "unheard of")
		time.Sleep(3*time.Second + 100*time.Millisecond)
		wantTold(t, r.now(), "modified d/f")
		k.full.Store(false)
		r.write("d/f", "seen when it is watched again")
		time.Sleep(3*time.Second + 100*time.Millisecond)
		wantTold(t, r.now(), "modified d/f")
		if s := r.tree.Status(); s != (Status{Mode: "fake", Watches: 2}) {
			t.Errorf("Status = %+v, want everything watched", s)
		}
		synctest.Wait()
		if text := logged.String(); strings.Count(text, "level=WARN") != 1 || strings.Count(text, "level=INFO") != 1 {
			t.Errorf("logged %s, want one warning and its end", text)
		}
	})
}

func TestTreePollsEverythingWhenTheKernelFails(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r, k := fakeRig(t, dir, TreeOptions{Poll: 3 * time.Second})
		r.mkdir("d")
		r.rest()
		k.fail(errors.New("out of order"))
		time.Sleep(100 * time.Millisecond)
		wantTold(t, r.now(), "overflow ./")
		if s := r.tree.Status(); s.Mode != ModePolling || s.Polled != 2 || !strings.Contains(s.Degraded, "out of order") {
			t.Errorf("Status = %+v", s)
		}
		r.write("d/f", "x")
		time.Sleep(3*time.Second + 100*time.Millisecond)
		wantTold(t, r.now(), "created d/f")
	})
}

func TestTreePollsWhenTheSystemHasNoNoticesAtAll(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		tree := NewTree(dir, TreeOptions{})
		tree.open = func(kernelOptions) (kernel, error) { return nil, errors.New("none left") }
		r := newRig(t, tree)
		wantTold(t, r.now(), "overflow ./")
		if s := r.tree.Status(); s.Mode != ModePolling || !strings.Contains(s.Degraded, "none left") {
			t.Errorf("Status = %+v", s)
		}
		r.write("f", "x")
		time.Sleep(3*time.Second + 100*time.Millisecond)
		wantTold(t, r.now(), "created f")
	})
}

// The suite for notices that only say where to look: there is no barrier, so a
// test waits for what must come.
func TestTreeByHints(t *testing.T) {
	tree := NewTree(t.TempDir(), TreeOptions{Debounce: 5 * time.Millisecond, Poll: time.Hour})
	tree.open = func(o kernelOptions) (kernel, error) { return openHints(o) }
	r := newRig(t, tree)
	r.mkdir("d")
	r.write("d/f", "x")
	settled := func(do func()) {
		t.Helper()
		do()
		for want := scan(t, r.root); ; {
			r.mu.Lock()
			same := maps.Equal(want, r.known)
			r.mu.Unlock()
			if same {
				return
			}
			<-r.kick
		}
	}
	settled(func() {})
	if err := tree.Sync(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Sync = %v, want ErrUnsupported", err)
	}
	settled(func() { r.write("d/f", "changed") })
	settled(func() { r.write("d/g", "new") })
	settled(func() { r.remove("d/f") })
	settled(func() { r.mkdir("a/b/c/d"); r.write("a/b/c/d/e", "deep") })
	settled(func() { r.rename("a", "z") })
	settled(func() { r.write("z/b/c/d/e", "under its new name") })
	settled(func() { r.remove("z") })
	settled(func() {
		for i := range 500 {
			r.write(fmt.Sprintf("d/f%d", i), fmt.Sprint(i))
		}
	})
	if s := tree.Status(); s.Mode != ModeFsnotify || s.Watches != 2 || s.Degraded != "" {
		t.Errorf("Status = %+v", s)
	}
}

func TestHintsKeepWithinTheirDescriptors(t *testing.T) {
	tree := NewTree(t.TempDir(), TreeOptions{Debounce: time.Millisecond, Poll: time.Hour, MaxWatches: 10})
	tree.open = func(o kernelOptions) (kernel, error) { return openHints(o) }
	for _, dir := range []string{"a", "b", "c"} {
		if err := os.Mkdir(filepath.Join(tree.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			write(t, filepath.Join(tree.root, dir, fmt.Sprint(i)), "x")
		}
	}
	told := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- tree.Run(ctx, func([]Change) { told <- struct{}{} }) }()
	<-told
	// The root costs 1+3, each directory 1+4.
	if s := tree.Status(); s.Watches != 2 || s.Polled != 2 || !strings.Contains(s.Degraded, "10 files open") {
		t.Errorf("Status = %+v", s)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
}
