package watch

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// exchange swaps two names, as a careful writer does to see what it replaced.
func exchange(a, b string) {
	_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

func TestTreeTellsExchangedNames(t *testing.T) {
	inEveryMode(t, func(t *testing.T, r *rig) {
		r.write("f", "f")
		r.write("g", "gg")
		r.mkdir("a/in")
		r.mkdir("b")
		r.write("a/in/x", "x")
		r.write("b/y", "y")
		r.rest()
		exchange(r.path("f"), r.path("g"))
		wantTold(t, r.check(), "modified f", "modified g")
		r.rest()
		exchange(r.path("a"), r.path("b"))
		got := slices.DeleteFunc(r.check(), func(c Change) bool { return c.Kind == Modified }) // a/ and b/; polling cannot know
		wantTold(t, got, "deleted b/y", "deleted a/in/x", "deleted a/in/", "created a/y", "created b/in/", "created b/in/x")
		r.rest()
		r.write("a/y", "watched under its new name")
		r.write("b/in/x", "this too")
		wantTold(t, r.check(), "modified a/y", "modified b/in/x")
		r.rest()
		exchange(r.path("f"), r.path("b"))
		r.check()
		r.rest()
		r.write("f/in/z", "in a directory that was a file")
		wantTold(t, r.check(), "created f/in/z")
		r.rest()
		// A commit that looks at what it replaced, and takes it back.
		r.write("t", "new bytes")
		exchange(r.path("t"), r.path("g"))
		exchange(r.path("t"), r.path("g"))
		r.remove("t")
		wantTold(t, r.check(), "modified g")
	})
}

// held keeps the loop from reading the kernel's queue.
type held struct {
	*inotify
	closed atomic.Bool
}

func (h *held) ready() <-chan struct{} {
	if h.closed.Load() {
		return nil
	}
	return h.inotify.ready()
}

func (h *held) read(each func(notice)) error {
	if h.closed.Load() {
		return nil
	}
	return h.inotify.read(each)
}

func TestTreeRecoversWhenTheKernelsQueueRunsOver(t *testing.T) {
	most := sysctl("max_queued_events")
	if most == 0 || most > 1<<17 {
		t.Skipf("the kernel queues %d notices", most)
	}
	var h *held
	tree := NewTree(t.TempDir(), TreeOptions{Poll: time.Hour})
	tree.open = func(o kernelOptions) (kernel, error) {
		k, err := openInotify(o)
		h = &held{inotify: k}
		return h, err
	}
	r := newRig(t, tree)
	r.mkdir("d")
	r.mkdir("old/below")
	r.rest()
	for round := range 2 {
		h.closed.Store(true)
		r.sync()
		for i := range most/2 + 1 { // one for its creation, one for its end
			f, err := os.Create(r.path(fmt.Sprintf("d/f%d.%d", round, i%5000)))
			r.do(err)
			r.do(f.Close())
		}
		// Nobody hears of these.
		r.mkdir(fmt.Sprintf("new%d/below", round))
		r.rename("old", fmt.Sprintf("renamed%d", round))
		r.mkdir("old/below")
		r.write("old/below/f", "in another directory of the same name")
		h.closed.Store(false)
		got := r.check()
		if told(got)[0] != "overflow ./" {
			t.Errorf("told %v first, want an overflow", told(got)[0])
		}
		r.rest()
		r.write(fmt.Sprintf("new%d/below/f", round), "watched since")
		r.write(fmt.Sprintf("renamed%d/below/f", round), "here too")
		r.write("old/below/f", "and here")
		r.check()
		r.rest()
		if s := tree.Status(); s.Overflows != round+1 || s.Polled != 0 {
			t.Errorf("Status = %+v", s)
		}
	}
}

// lossy drops what it read every now and then, and says so.
type lossy struct {
	*inotify
	rnd *rand.Rand
}

func (k *lossy) read(each func(notice)) error {
	if k.rnd.IntN(8) > 0 {
		return k.inotify.read(each)
	}
	dropped := false
	err := k.inotify.read(func(notice) { dropped = true })
	if dropped {
		each(notice{what: lost})
	}
	return err
}

func TestTreeMissesNothingWhenNoticesAreLost(t *testing.T) {
	tree := NewTree(t.TempDir(), TreeOptions{Poll: time.Hour})
	tree.open = func(o kernelOptions) (kernel, error) {
		k, err := openInotify(o)
		return &lossy{k, rand.New(rand.NewPCG(1, rand.Uint64()))}, err
	}
	newRig(t, tree).stir(60)
	if s := tree.Status(); s.Overflows == 0 {
		t.Error("nothing was lost")
	}
}

func TestTreeMissesNothingWithLittleMemory(t *testing.T) {
	tree := NewTree(t.TempDir(), TreeOptions{Poll: time.Hour})
	tree.most = 20
	newRig(t, tree).stir(60)
}

func TestTreeEmptiesTheQueueWhileItsConsumerIsBusy(t *testing.T) {
	most := sysctl("max_queued_events")
	if most == 0 || most > 1<<17 {
		t.Skipf("the kernel queues %d notices", most)
	}
	var k *inotify
	tree := NewTree(t.TempDir(), TreeOptions{Poll: time.Hour})
	tree.open = func(o kernelOptions) (kernel, error) {
		var err error
		k, err = openInotify(o)
		return k, err
	}
	r := newRig(t, tree)
	r.mkdir("d")
	r.rest()
	r.gate.Lock()
	r.write("first", "x")
	synced := make(chan error, 1)
	go func() { synced <- r.tree.Sync(t.Context()) }()
	for i := range most/2 + 1 {
		f, err := os.Create(r.path(fmt.Sprintf("d/f%d", i%1000)))
		r.do(err)
		r.do(f.Close())
		for i%1000 == 0 && k.queued() > 0 {
			runtime.Gosched() // until the loop has read them
		}
	}
	select {
	case err := <-synced:
		t.Errorf("Sync = %v before the consumer was told", err)
	default:
	}
	r.gate.Unlock()
	if err := <-synced; err != nil {
		t.Errorf("Sync = %v", err)
	}
	r.check()
	if s := r.tree.Status(); s.Overflows != 0 {
		t.Errorf("%d overflows", s.Overflows)
	}
}

func TestTreeWatchesNoMoreThanItMay(t *testing.T) {
	r := newRig(t, NewTree(t.TempDir(), TreeOptions{Poll: time.Hour, MaxWatches: 5}))
	for i := range 9 {
		r.mkdir(fmt.Sprintf("d%d", i))
	}
	r.rest()
	s := r.tree.Status()
	if s.Mode != ModeInotify || s.Watches != 5 || s.Polled != 5 ||
		!strings.Contains(s.Degraded, "5 of 10 directories") || !strings.Contains(s.Degraded, "sysctl fs.inotify.max_user_watches=") {
		t.Errorf("Status = %+v", s)
	}
	for i := range 9 {
		r.write(fmt.Sprintf("d%d/f", i), "x")
	}
	r.check()
}

// elsewhere runs the calling test again in a child with its own credentials or
// namespaces, and reports whether this is that child. attr is for the child.
func elsewhere(t *testing.T, attr *syscall.SysProcAttr) bool {
	t.Helper()
	const mark = "WATCH_TEST_ELSEWHERE"
	if os.Getenv(mark) == t.Name() {
		return true
	}
	dir, err := os.MkdirTemp("", "watch")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self := filepath.Join(dir, "watch.test") // where every user may run it
	text, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(self, text, 0o755)
	}
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=1m")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), mark+"="+t.Name(), "TMPDIR="+dir, "HOME="+dir, "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil && len(out) == 0:
		t.Skipf("no child of that kind here: %v", err)
	case err != nil:
		t.Errorf("in the child: %v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("in the child:\n%s", out)
	}
	return false
}

// ownNamespace is a user of its own, who may mount and set limits.
func ownNamespace() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}

func setLimit(t *testing.T, name, value string) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/user/"+name, []byte(value), 0); err != nil {
		t.Skip(err)
	}
}

func TestTreePollsTheRestAtTheSystemsLimit(t *testing.T) {
	if !elsewhere(t, ownNamespace()) {
		return
	}
	setLimit(t, "max_inotify_watches", "4")
	r := newRig(t, NewTree(t.TempDir(), TreeOptions{Poll: 50 * time.Millisecond}))
	for i := range 9 {
		r.mkdir(fmt.Sprintf("d%d", i))
	}
	r.rest()
	s := r.tree.Status()
	if s.Mode != ModeInotify || s.Watches != 4 || s.Polled != 6 || !strings.Contains(s.Degraded, "sysctl fs.inotify.max_user_watches=") {
		t.Errorf("Status = %+v", s)
	}
	for i := range 9 {
		r.write(fmt.Sprintf("d%d/f", i), "x")
	}
	r.check()
	setLimit(t, "max_inotify_watches", "100")
	for s.Degraded != "" { // until the next poll
		r.sync()
		s = r.tree.Status()
	}
	if s.Watches != 10 || s.Polled != 0 {
		t.Errorf("Status = %+v after the limit was raised", s)
	}
	for i := range 9 {
		r.write(fmt.Sprintf("d%d/f", i), "watched")
	}
	r.check()
}

func TestTreePollsWhenNoInstanceIsLeft(t *testing.T) {
	if !elsewhere(t, ownNamespace()) {
		return
	}
	setLimit(t, "max_inotify_instances", "0")
	r := newRig(t, NewTree(t.TempDir(), TreeOptions{Poll: time.Hour}))
	r.mkdir("d")
	r.write("d/f", "x")
	r.check()
	if s := r.tree.Status(); s.Mode != ModePolling || !strings.Contains(s.Degraded, "sysctl fs.inotify.max_user_instances=") {
		t.Errorf("Status = %+v", s)
	}
}

func TestTreeNoticesMountsThatGoAndRemoteOnesBelow(t *testing.T) {
	if !elsewhere(t, ownNamespace()) {
		return
	}
	root := t.TempDir()
	mount := func(name string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(path, "hidden"), "under the mount")
		if err := unix.Mount("none", path, "tmpfs", 0, ""); err != nil {
			t.Skip(err)
		}
		write(t, filepath.Join(path, "hidden"), "in the mount")
		write(t, filepath.Join(path, "more"), "in the mount")
	}
	mount("local")
	mount("remote")
	tree := NewTree(root, TreeOptions{Poll: time.Hour})
	tree.remote = func(dir string) string {
		if filepath.Base(dir) == "remote" {
			return "NFS"
		}
		return ""
	}
	r := newRig(t, tree)
	r.mkdir("remote/below")
	r.mkdir("local/below")
	r.rest()
	if s := tree.Status(); s.Mode != ModeInotify || s.Watches != 3 || s.Polled != 2 || !strings.Contains(s.Degraded, "NFS") {
		t.Errorf("Status = %+v", s)
	}
	r.write("remote/below/f", "x")
	r.write("local/below/f", "x")
	wantTold(t, r.check(), "created local/below/f", "created remote/below/f")
	for _, name := range []string{"local", "remote"} {
		if err := unix.Unmount(r.path(name), 0); err != nil {
			t.Fatal(err)
		}
	}
	r.check()
	r.rest()
	if s := tree.Status(); s.Watches+s.Polled != 3 {
		t.Errorf("Status = %+v", s)
	}
	r.write("local/f", "watched again")
	wantTold(t, r.check(), "created local/f")
}

func TestTreeWatchesADirectoryThatIsMountedTwice(t *testing.T) {
	if !elsewhere(t, ownNamespace()) {
		return
	}
	root := t.TempDir()
	for _, dir := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount(filepath.Join(root, "a"), filepath.Join(root, "b"), "", unix.MS_BIND, ""); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(filepath.Join(root, "b"), unix.MNT_DETACH) })
	r := newRig(t, NewTree(root, TreeOptions{Poll: time.Hour}))
	r.check()
	for i := range 3 {
		r.write("a/f", strings.Repeat("x", i+1))
		r.check()
		r.rest()
		r.write("b/g", strings.Repeat("x", i+1))
		r.check()
		r.rest()
	}
}

func TestTreeBearsWhatItMayNotRead(t *testing.T) {
	if os.Getuid() == 0 && !elsewhere(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}) {
		return
	}
	inEveryMode(t, func(t *testing.T, r *rig) {
		r.do(os.Mkdir(r.path("closed"), 0))
		r.mkdir("open")
		t.Cleanup(func() { os.Chmod(r.path("closed"), 0o755) })
		r.rest()
		if s := r.tree.Status(); s.Unreadable != 1 {
			t.Errorf("Status = %+v, want one unreadable directory", s)
		}
		r.write("open/f", "x")
		wantTold(t, r.sync(), "created open/f")
		r.do(os.Chmod(r.path("closed"), 0o755))
		r.mkdir("closed/below")
		r.write("closed/below/f", "x")
		r.check()
		if s := r.tree.Status(); s.Unreadable != 0 {
			t.Errorf("Status = %+v, want none unreadable", s)
		}
		r.do(os.Chmod(r.path("closed"), 0))
		r.sync()
		r.do(os.Chmod(r.path("closed"), 0o755))
		r.check()
	})
}

func TestNetworkFileSystemsAreKnownByTheirNumbers(t *testing.T) {
	if name := remoteName("/proc"); name != "" {
		t.Errorf("/proc is on %q", name)
	}
	for number, want := range map[int64]string{unix.NFS_SUPER_MAGIC: "NFS", unix.FUSE_SUPER_MAGIC: "FUSE", unix.V9FS_MAGIC: "9P", unix.CIFS_SUPER_MAGIC: "CIFS", unix.OVERLAYFS_SUPER_MAGIC: ""} {
		if got := remoteTypes[uint32(number)]; got != want {
			t.Errorf("%#x is %q, want %q", number, got, want)
		}
	}
}
