package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// Kind is what happened to a path.
type Kind uint8

// The kinds of change.
const (
	// Created: the path was not there when last told of, and is now.
	Created Kind = iota + 1
	// Modified: content or attributes of the file may differ. What was deleted and
	// made again within the rest (by an editor saving by rename) is modified. It may
	// be told without a change, never the other way round.
	Modified
	// Deleted: the path was there and no longer is.
	Deleted
	// Overflow: everything may differ; look at the whole tree. It is told once
	// everything is watched, so whoever looks then misses nothing: at the start,
	// after notices were lost, and when another directory became the root.
	Overflow
	// Passed: the path came and went since it was last told of. It is told only on
	// request: to those who keep what they see when they look by themselves.
	Passed
)

// String names the kind as it appears in logs.
func (k Kind) String() string {
	switch k {
	case Created:
		return "created"
	case Modified:
		return "modified"
	case Deleted:
		return "deleted"
	case Overflow:
		return "overflow"
	case Passed:
		return "passed"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Change is one path that differs from what was told of it before.
//
// With a directory every path below it is told as well, one by one: who keeps
// files alone may pass over changes with Dir set. A directory is modified only by
// being gone for a moment; its entries and attributes do not count.
type Change struct {
	Path string // absolute
	Rel  string // below the root, with slashes; "." is the root itself
	Kind Kind
	Dir  bool
}

// TreeOptions tune a Tree. Zero values mean the defaults.
type TreeOptions struct {
	Debounce time.Duration // how long a path must be at rest before it is told; default 100 ms, negative: no wait
	// Poll is how often directories that the system does not watch are looked at,
	// and the root itself; default 3 s. A tree that takes long is looked at less
	// often, so that looking takes a twentieth of one core at most.
	Poll       time.Duration
	Passing    bool                            // tell what Passed, too
	PollOnly   bool                            // do not ask the operating system for notices
	MaxWatches int                             // directories the system may watch; default half of what the user may have
	Skip       func(rel string, dir bool) bool // what is neither watched nor told; called by Run when a name appears, with slashes; nil: nothing
	Logger     *slog.Logger                    // nil: silent
}

// How a Tree learns of changes: Status.Mode.
const (
	ModeInotify  = "inotify"  // from the kernel, exactly
	ModeFsnotify = "fsnotify" // from the kernel where to look
	ModePolling  = "polling"  // by looking in an interval
	ModeOff      = "off"      // Run is not running
)

// Status is how well a Tree is watched.
type Status struct {
	Mode       string
	Watches    int    // directories the operating system watches
	Polled     int    // directories looked at in an interval instead
	Unreadable int    // directories nobody may look into
	Overflows  int    // how often notices were lost and the whole tree was looked at again
	Degraded   string // why something is polled, and the cure; empty: as good as it gets
}

// Tree watches one directory with everything below it. Symbolic links below the
// root are not followed.
type Tree struct {
	root   string
	below  string // the root with a separator behind it
	opts   TreeOptions
	syncs  chan chan error // from Sync to the loop
	over   chan struct{}   // closed when Run has ended
	state  atomic.Pointer[facts]
	open   func(opts kernelOptions) (kernel, error)
	remote func(dir string) string
	most   int // paths kept until they are told; more are an overflow
}

// ErrStopped is returned by Sync once Run has ended.
var ErrStopped = errors.New("the watcher has stopped")

// longestRest is how many rests a path that never rests waits at most.
const longestRest = 10

// mostPending bounds the memory for what has not been told yet, to about 8 MB.
const mostPending = 1 << 15

// NewTree returns a watcher for the directory root, an absolute path that need
// not exist. It starts nothing.
func NewTree(root string, o TreeOptions) *Tree {
	if o.Debounce == 0 {
		o.Debounce = 100 * time.Millisecond
	}
	o.Debounce = max(o.Debounce, 0)
	if o.Poll == 0 {
		o.Poll = 3 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Tree{
		root: filepath.Clean(root), opts: o,
		syncs: make(chan chan error), over: make(chan struct{}),
		open: openKernel, remote: remoteName, most: mostPending,
	}
	t.below = strings.TrimSuffix(t.root, string(filepath.Separator)) + string(filepath.Separator)
	t.state.Store(&facts{mode: ModeOff})
	return t
}

// Run watches until ctx ends and hands what changed to notify, one call at a
// time: deletions first, files before their directory; then the rest,
// directories before what they hold. However long notify takes, the kernel's
// queue is emptied meanwhile and changes to one path become one. The first call
// is an Overflow, when everything is watched. Run may run once.
func (t *Tree) Run(ctx context.Context, notify func([]Change)) error {
	defer close(t.over)
	l := newLoop(t)
	defer l.stop()
	l.start(notify)
	return l.run(ctx)
}

// Sync returns when notify has returned from everything that happened in the
// tree before the call, at rest or not; at the start it waits until everything
// is watched. What is polled is looked at, which takes its time: bound it by
// ctx. It fails with errors.ErrUnsupported where notices come at their leisure
// (ModeFsnotify). It must not be called by notify.
func (t *Tree) Sync(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case t.syncs <- done:
	case <-t.over:
		return ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("wait for the watcher: %w", context.Cause(ctx))
	}
	select {
	case err := <-done:
		return err
	case <-t.over:
		return ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("wait for the watcher: %w", context.Cause(ctx))
	}
}

// Status tells how the tree is watched at this moment.
func (t *Tree) Status() Status { return t.state.Load().status() }

// path is the absolute path of rel, which is clean by its making.
func (t *Tree) path(rel string) string {
	if rel == "." {
		return t.root
	}
	return t.below + filepath.FromSlash(rel)
}

// facts are what a Status is made of. They are comparable, so that the loop
// publishes them only when they changed.
type facts struct {
	mode                                   string
	watches, polled, unreadable, overflows int
	reasons
}

// reasons are why a tree is not watched as it could be; empty where it is.
type reasons struct {
	rootless   string // why there is no root
	kernelless string // why the system gives no notices
	full       string // why it watches no more directories
	remote     string // name of a file system that hides changes made elsewhere
}

func (f *facts) status() Status {
	var why []string
	for _, reason := range []string{f.rootless, f.kernelless, f.full} {
		if reason != "" {
			why = append(why, reason)
		}
	}
	if f.remote != "" {
		why = append(why, "changes that others make to files on "+f.remote+" raise no notices here")
	}
	degraded := strings.Join(why, "; ")
	if degraded != "" && f.polled > 0 {
		degraded = fmt.Sprintf("%d of %d directories are polled: %s", f.polled, f.polled+f.watches, degraded)
	}
	return Status{
		Mode: f.mode, Watches: f.watches, Polled: f.polled, Unreadable: f.unreadable,
		Overflows: f.overflows, Degraded: degraded,
	}
}
