// Package watch tells which files have changed and come to rest: a handful of
// single files (Files), or everything below a directory (Tree). Reading them, and
// knowing who changed them, is left to others; nothing that must be right may
// depend on a notice.
//
// For Files, directories are watched through the operating system where it can, so that a
// file may be replaced by rename, deleted, or not exist yet; beside that, every
// file is looked at in an interval, so that a change is seen late rather than
// never. What the change was is left to whoever reads the file: a notice may
// come without one.
//
//	Add, Remove ──▶ set of files ◀── loop of Run ──▶ settled(path), one at a time
//	                                  ▲   ▲
//	              operating system ───┘   └─── poll interval
//
// A Tree has the kernel's exact account of what happened where there is one
// (Linux), and with it a barrier: after Sync everything that happened before is
// told. Elsewhere, and past the system's limits, it looks for itself. What a
// kernel does not say stays unsaid: a write through a mapping, or through a hard
// link's other name.
//
// Both are safe for concurrent use. Run owns all goroutines.
package watch

import (
	"context"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Options tune a Files. Zero values mean the defaults.
type Options struct {
	Debounce time.Duration // how long a file must be at rest; default 1 s
	Poll     time.Duration // how often files are looked at anyway; default 3 s
	PollOnly bool          // do not ask the operating system for notices
	Logger   *slog.Logger  // nil: silent
}

// Files watches a set of single files.
type Files struct {
	opts Options
	wake chan struct{} // the set differs from what the loop has armed

	mu    sync.Mutex
	files map[string]*file // by cleaned path; guarded by mu
}

// file is what is known about one watched path.
type file struct {
	seen  fs.FileInfo // at the last look; nil: it was not there
	due   time.Time   // when it will have been at rest long enough; zero: at rest
	armed bool        // the loop knows it
}

// NewFiles returns an empty set. It starts nothing.
func NewFiles(o Options) *Files {
	if o.Debounce == 0 {
		o.Debounce = time.Second
	}
	if o.Poll == 0 {
		o.Poll = 3 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Files{opts: o, wake: make(chan struct{}, 1), files: make(map[string]*file)}
}

// Add begins to watch the absolute path, which need not exist. Who reads the
// file after Add misses nothing, also not what happens before Run: a notice
// follows once the loop has taken the file up, change or no change.
func (f *Files) Add(path string) {
	path = filepath.Clean(path)
	seen := look(path)
	f.mu.Lock()
	if f.files[path] == nil {
		f.files[path] = &file{seen: seen}
	}
	f.mu.Unlock()
	f.rearm()
}

// Remove stops watching path. A notice on its way may still arrive.
func (f *Files) Remove(path string) {
	f.mu.Lock()
	delete(f.files, filepath.Clean(path))
	f.mu.Unlock()
	f.rearm()
}

func (f *Files) rearm() {
	select {
	case f.wake <- struct{}{}:
	default: // the loop has it coming already
	}
}

// Run calls settled for each file that changed and came to rest, one call at a
// time, until ctx ends. It may run once.
func (f *Files) Run(ctx context.Context, settled func(path string)) error {
	notices := f.open()
	defer notices.close()
	poll := time.NewTicker(f.opts.Poll)
	defer poll.Stop()
	rest := time.NewTimer(f.opts.Debounce) // fires when the next file may have come to rest
	defer rest.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.wake:
			notices.arm(f.paths())
			f.takeUp()
			f.compare()
		case e := <-notices.events:
			if f.touched(e.Name) {
				notices.arm(f.paths()) // the directory itself may have come or gone
				f.compare()
			}
		case err := <-notices.errors:
			// An overflow, most likely: some notices are lost, the files are not.
			f.opts.Logger.Debug("notices of the operating system were lost", "error", err)
			f.compare()
		case <-poll.C:
			notices.arm(f.paths())
			f.compare()
		case <-rest.C:
			for _, path := range f.rested() {
				settled(path)
			}
		}
		if d, ok := f.nextRest(); ok {
			rest.Reset(d)
		}
	}
}

func (f *Files) paths() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.files))
}

// takeUp starts the rest of files that are new to the loop. What was written
// before the directory was armed gave no notice, and within one tick of the file
// system's clock it may look the same as before.
func (f *Files) takeUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, file := range f.files {
		if !file.armed {
			file.armed = true
			file.due = time.Now().Add(f.opts.Debounce)
		}
	}
}

// touched starts the rest of every file at or below the name of a notice, and
// reports whether there was one. The notice counts even when the file looks the
// same.
func (f *Files) touched(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := false
	for path, file := range f.files {
		if path == name || strings.HasPrefix(path, name+string(filepath.Separator)) {
			file.due = time.Now().Add(f.opts.Debounce)
			found = true
		}
	}
	return found
}

// compare looks at every file and starts the rest of those that differ from the
// last look.
func (f *Files) compare() {
	now := make(map[string]fs.FileInfo)
	for _, path := range f.paths() {
		now[path] = look(path)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for path, info := range now {
		if file := f.files[path]; file != nil && !same(file.seen, info) {
			file.seen = info
			file.due = time.Now().Add(f.opts.Debounce)
		}
	}
}

// rested returns the files whose rest is over.
func (f *Files) rested() []string {
	f.compare() // a file still being written starts over
	f.mu.Lock()
	defer f.mu.Unlock()
	var paths []string
	for path, file := range f.files {
		if !file.due.IsZero() && !file.due.After(time.Now()) {
			file.due = time.Time{}
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

func (f *Files) nextRest() (time.Duration, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var next time.Time
	for _, file := range f.files {
		if !file.due.IsZero() && (next.IsZero() || file.due.Before(next)) {
			next = file.due
		}
	}
	return time.Until(next), !next.IsZero()
}

func look(path string) fs.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}

// notices is the operating system's side: the directories it watches for us.
// Without a watcher its channels are nil and nothing ever comes from them.
type notices struct {
	watcher *fsnotify.Watcher
	events  <-chan fsnotify.Event
	errors  <-chan error
	armed   map[string]bool
	log     *slog.Logger
}

func (f *Files) open() *notices {
	n := &notices{armed: make(map[string]bool), log: f.opts.Logger}
	if f.opts.PollOnly {
		return n
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		n.log.Warn("the operating system gives no notices of changed files; polling instead", "error", err)
		return n
	}
	n.watcher, n.events, n.errors = w, w.Events, w.Errors
	return n
}

func (n *notices) close() {
	if n.watcher != nil {
		_ = n.watcher.Close() // nothing can be done about it, and nothing depends on it
	}
}

// arm watches for each path the deepest directory above it that exists. A
// directory that cannot be watched is left to polling.
func (n *notices) arm(paths []string) {
	if n.watcher == nil {
		return
	}
	want := make(map[string]bool)
	for _, path := range paths {
		dir := filepath.Dir(path)
		for !isDir(dir) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir)
		}
		want[dir] = true
	}
	for dir := range n.armed {
		if !want[dir] {
			_ = n.watcher.Remove(dir) // it may be gone already
			delete(n.armed, dir)
		}
	}
	for dir := range want {
		// Again also when armed: the directory may have been replaced.
		if err := n.watcher.Add(dir); err != nil {
			n.log.Debug("a directory gives no notices; polling instead", "path", dir, "error", err)
			continue
		}
		n.armed[dir] = true
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
