package search

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search/trigram"
	"github.com/async-crud-mcp/async-crud-mcp/internal/watch"
)

// index is what is known of one tree, so that a search of it need not read it
// all. Its state:
//
//	(none) ──search──▶ building ──▶ ready ⇄ uncertain    (notices were lost: looked at again)
//	   ▲───────────────────┴──────────┴─────────┘        (idle, too large, stopped: dropped)
//
// Only a ready one answers. Whatever the state, the answer is that of a scan: a
// search waits until everything that happened before it was told, lists
// directories that changed, and reads files that did.
type index struct {
	*Engine
	key      indexKey
	base     fsys.Path // the tree
	slot     uint32    // tells its files from those of other trees
	trigrams *trigram.Index
	turn     chan struct{} // of the one who looks at directories
	wake     chan struct{} // there is something to do
	used     atomic.Int64  // when it was last asked, in nanoseconds
	swept    atomic.Int64  // when all files were last looked at
	sweeping atomic.Int64  // how long that took

	mu     sync.Mutex
	state  indexState        // guarded by mu, like the rest
	doubts uint64            // counts losses of notices
	mirror *mirror           // nil: not begun, or dropped
	rules  *access.Rules     // of the last search: what they deny is not read ahead
	views  map[viewKey]*view // by what is asked for
}

// indexKey tells apart what searches with different settings see of one tree.
type indexKey struct {
	root          string
	respectIgnore bool
	fold          bool
	maxFile       int64
}

type indexState uint8

const (
	building indexState = iota
	ready
	uncertain
	dropped
)

// viewKey is what a view depends on.
type viewKey struct {
	start     string
	glob      string
	recursive bool
	rules     *access.Rules
}

const (
	// maxIndexed is how many trees are indexed at once.
	maxIndexed = 8
	// maxFiles is how many files of a tree are worth knowing.
	maxFiles = 400_000
	// maxViews is how many views are kept.
	maxViews = 16
	// barrierTime bounds the wait for the watcher. A search that would have to wait
	// longer scans.
	barrierTime = 250 * time.Millisecond
	// sweepEvery is how often all files are looked at while searches come: what is
	// written through shared memory, or by another name, raises no notice.
	sweepEvery = 5 * time.Second
	// sweepShare is how much longer than that takes the pause after it must be.
	sweepShare = 50
	// racy is how young a file's time may be and still stand for its content.
	racy = 20 * time.Millisecond
	// maxLinked is how many files with several names are looked at for a search.
	maxLinked = 10_000
	// tidyTime is how long after it was built an index has been tidied up.
	tidyTime = 2 * time.Second
	// slotBits are the upper bits of a number in the store of contents.
	slotBits = 4
)

// Run builds indexes of the trees that are searched, and keeps them, until ctx
// ends. Without it every search scans.
func (e *Engine) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case w := <-e.wanted:
			if x := e.admitIndex(w); x != nil {
				all.Go(func() { x.run(ctx) })
			}
		}
	}
}

// wish is a tree that was searched and has no index.
type wish struct {
	key   indexKey
	base  fsys.Path
	rules *access.Rules
	stat  bool // it may do without notices
}

// admitIndex makes room for another index, or returns nil.
func (e *Engine) admitIndex(w wish) *index {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.indexes[w.key] != nil || time.Now().Before(e.refused[w.key]) {
		return nil
	}
	left := e.opts.IndexBytes
	var oldest *index
	taken := [1 << slotBits]bool{}
	for _, x := range e.indexes {
		taken[x.slot] = true
		left -= x.trigrams.Stats().Bytes
		if oldest == nil || x.used.Load() < oldest.used.Load() {
			oldest = x
		}
	}
	if oldest != nil && (len(e.indexes) >= maxIndexed || left < e.opts.IndexBytes/4) {
		oldest.expire()
		return nil // the next search finds room
	}
	x := &index{
		Engine: e, key: w.key, base: w.base, rules: w.rules,
		slot:     uint32(slices.Index(taken[:], false)),
		trigrams: trigram.New(trigram.Options{MaxBytes: left, Idle: never}),
		turn:     make(chan struct{}, 1), wake: make(chan struct{}, 1),
		views: make(map[viewKey]*view),
	}
	x.used.Store(time.Now().UnixNano())
	e.indexes[w.key] = x
	return x
}

// never is longer than a process lives.
const never = 100 * 365 * 24 * time.Hour

// Noticed takes in what a watcher tells of the tree at root. It has to be called
// by what the watcher of Options.Tree runs, so that its barrier covers it.
func (e *Engine) Noticed(root string, changes []watch.Change) {
	e.mu.Lock()
	var of []*index
	for key, x := range e.indexes {
		if key.root == root {
			of = append(of, x)
		}
	}
	e.mu.Unlock()
	for _, x := range of {
		x.noticed(changes)
	}
}

func (x *index) noticed(changes []watch.Change) {
	x.mu.Lock()
	for _, c := range changes {
		if c.Kind == watch.Overflow || c.Rel == "." {
			x.doubts++
			if x.state == ready {
				x.state = uncertain
			}
		} else if x.mirror != nil {
			x.mirror.touch(c)
		}
	}
	x.mu.Unlock()
	x.nudge()
}

func (x *index) nudge() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// expire has the index dropped.
func (x *index) expire() {
	x.used.Store(0)
	x.nudge()
}

// run builds the index and keeps it until nobody asks any more.
func (x *index) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	var tidying sync.WaitGroup
	tidying.Go(func() { _ = x.trigrams.Run(ctx) }) // it ends with ctx
	defer x.drop()
	defer tidying.Wait()
	defer stop()
	began := time.Now()
	if !x.build(ctx) {
		x.refuse()
		return
	}
	x.opts.Logger.Info("a tree is indexed", "root", x.key.root, "took", time.Since(began), "files", x.trigrams.Stats().Files)
	timer, built := time.NewTimer(x.opts.Idle), time.NewTimer(tidyTime)
	defer timer.Stop()
	defer built.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-built.C:
			debug.FreeOSMemory() // building took several times what is kept
			continue
		case <-x.wake:
		case <-timer.C:
		}
		idle := time.Since(time.Unix(0, x.used.Load()))
		if idle >= x.opts.Idle || !x.tend(ctx) {
			return
		}
		timer.Reset(x.opts.Idle - idle)
	}
}

// refuse keeps a tree that cannot be indexed from being tried at every search.
func (x *index) refuse() {
	x.Engine.mu.Lock()
	defer x.Engine.mu.Unlock()
	if len(x.refused) >= maxRefused {
		clear(x.refused)
	}
	x.refused[x.key] = time.Now().Add(x.opts.Idle)
}

// maxRefused bounds how many such trees are remembered.
const maxRefused = 64

// drop gives everything back.
func (x *index) drop() {
	x.mu.Lock()
	x.state = dropped
	m := x.mirror
	x.mirror, x.views = nil, nil
	x.mu.Unlock()
	x.Engine.mu.Lock()
	if x.indexes[x.key] == x {
		delete(x.indexes, x.key)
	}
	x.Engine.mu.Unlock()
	x.trigrams.Drop()
	if m != nil {
		for id := range m.ids {
			x.contents.Remove(x.kept(id))
		}
	}
	debug.FreeOSMemory() // it may be much, and nobody was in a hurry
}

// kept is the number of a file in the store of contents, which all trees share.
func (x *index) kept(id trigram.ID) trigram.ID { return trigram.ID(x.slot)<<(32-slotBits) | id }

// watched returns the tree's watcher, if every change is told by it.
func (x *index) watched() *watch.Tree {
	if x.opts.Tree == nil {
		return nil
	}
	tree := x.opts.Tree(x.key.root)
	if tree == nil {
		return nil
	}
	if s := tree.Status(); s.Mode != watch.ModeInotify || s.Degraded != "" {
		return nil
	}
	return tree
}

// build lists the tree and reads all files.
func (x *index) build(ctx context.Context) bool {
	if tree := x.watched(); tree != nil {
		// Watch first, then list, then read.
		if err := tree.Sync(ctx); err != nil {
			return false
		}
	}
	x.mu.Lock()
	doubts := x.doubts
	x.mirror = newMirror(x.base, x.key.fold, &x.versions, func(e *entry) {
		x.trigrams.Remove(e.id)
		x.contents.Remove(x.kept(e.id))
	})
	x.mu.Unlock()
	if !x.settle(ctx.Done()) {
		return false
	}
	x.readPending(ctx)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.state = ready
	if x.doubts != doubts {
		x.state = uncertain
		x.nudge()
	}
	x.swept.Store(time.Now().UnixNano())
	return ctx.Err() == nil
}

// tend does what has become necessary.
func (x *index) tend(ctx context.Context) bool {
	x.mu.Lock()
	state := x.state
	x.mu.Unlock()
	if state == uncertain && !x.reassure(ctx) {
		return true // at the next wake
	}
	if x.sweepDue() {
		x.sweep(ctx.Done(), false, 1)
	}
	if !x.takeTurn(ctx.Done()) {
		return false
	}
	settled := x.settle(ctx.Done())
	<-x.turn
	x.readPending(ctx)
	return settled
}

// reassure looks at the whole tree after notices were lost.
func (x *index) reassure(ctx context.Context) bool {
	x.mu.Lock()
	doubts := x.doubts
	x.mu.Unlock()
	if tree := x.watched(); tree != nil {
		if err := tree.Sync(ctx); err != nil {
			return false
		}
	}
	if !x.sweep(ctx.Done(), true, 1) {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state == uncertain && x.doubts == doubts {
		x.state = ready
	}
	return true
}

func (x *index) takeTurn(over <-chan struct{}) bool {
	select {
	case x.turn <- struct{}{}:
		return true
	case <-over:
		return false
	}
}

// settle lists the directories that changed, until there are none. It takes a
// turn; false: over came first, or there is too much.
func (x *index) settle(over <-chan struct{}) bool {
	for {
		x.mu.Lock()
		if x.mirror == nil || x.mirror.files > maxFiles {
			x.mu.Unlock()
			return false
		}
		f := x.mirror.nextDirty()
		x.mu.Unlock()
		if f == nil {
			return true
		}
		l := list(f, x.key.respectIgnore)
		x.mu.Lock()
		if x.mirror != nil {
			x.mirror.apply(f, l)
		}
		x.mu.Unlock()
		select {
		case <-over:
			return false
		default:
		}
	}
}

// sweepDue reports whether it is time to look at all files.
func (x *index) sweepDue() bool {
	pause := max(sweepEvery, sweepShare*time.Duration(x.sweeping.Load()))
	swept := x.swept.Load()
	return x.used.Load() > swept && time.Now().UnixNano()-swept > int64(pause)
}

// sweep looks at every file whether it is the one that was read, and into every
// directory, too, if listed is set. False: it did not come to the end.
func (x *index) sweep(over <-chan struct{}, listed bool, workers int) bool {
	began := time.Now()
	if listed {
		if !x.takeTurn(over) {
			return false
		}
		defer func() { <-x.turn }()
	}
	x.mu.Lock()
	if x.mirror == nil {
		x.mu.Unlock()
		return false
	}
	folders := make([]*folder, 0, len(x.mirror.folders))
	for _, f := range x.mirror.folders {
		folders = append(folders, f)
	}
	x.mu.Unlock()
	var next atomic.Int64
	var cut atomic.Bool
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(folders) {
				return
			}
			select {
			case <-over:
				cut.Store(true)
				return
			default:
			}
			x.sweepFolder(folders[i], listed)
		}
	}
	var others sync.WaitGroup
	for range workers - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	if cut.Load() {
		return false
	}
	x.swept.Store(began.UnixNano())
	x.sweeping.Store(int64(time.Since(began)))
	return !listed || x.settle(over) // directories that are new
}

func (x *index) sweepFolder(f *folder, listed bool) {
	if listed {
		x.mu.Lock()
		if x.mirror != nil {
			delete(x.mirror.dirty, f) // before it is opened: another may come under its name
		}
		x.mu.Unlock()
	}
	d, err := f.path.OpenDir()
	if err == nil {
		defer d.Close()
	}
	if listed {
		l := listing{err: err}
		if err == nil {
			l = listIn(d, x.key.respectIgnore)
		}
		x.mu.Lock()
		if x.mirror != nil {
			x.mirror.apply(f, l)
		}
		x.mu.Unlock()
	}
	if err != nil {
		x.mu.Lock()
		if x.mirror != nil && !listed {
			x.mirror.soil(f)
		}
		x.mu.Unlock()
		return
	}
	type known struct {
		*entry
		stamp   fsys.Stamp
		version uint64
	}
	x.mu.Lock()
	files := make([]known, 0, len(f.files))
	for _, e := range f.files {
		files = append(files, known{e, e.stamp, e.version.Load()})
	}
	x.mu.Unlock()
	for _, k := range files {
		info, err := d.Stat(k.name())
		if err == nil && info.Stamp == k.stamp && info.Links <= 1 {
			continue
		}
		x.mu.Lock()
		if x.mirror == nil {
			x.mu.Unlock()
			return
		}
		switch {
		case k.gone:
		case err != nil || info.Kind != fsys.Regular:
			x.mirror.soil(f)
			x.mirror.loosen(k.entry)
		default:
			if info.Links > 1 {
				x.mirror.linked[k.entry] = struct{}{}
			}
			if info.Stamp != k.stamp && k.version == k.entry.version.Load() {
				x.mirror.loosen(k.entry)
			}
		}
		x.mu.Unlock()
	}
}

// readPending takes the files that changed into the index, with some workers.
func (x *index) readPending(ctx context.Context) {
	x.mu.Lock()
	var files []*entry
	if x.mirror != nil {
		for e := range x.mirror.pending {
			files = append(files, e)
		}
	}
	x.mu.Unlock()
	if len(files) == 0 {
		return
	}
	slices.SortFunc(files, func(a, b *entry) int { // one directory after the other
		if a.dir != b.dir {
			return strings.Compare(a.dir.rel, b.dir.rel)
		}
		return strings.Compare(a.rel, b.rel)
	})
	var next atomic.Int64
	const block = 64
	work := func() {
		select { // all trees share the workers that may be busy in the background
		case x.readers <- struct{}{}:
			defer func() { <-x.readers }()
		case <-ctx.Done():
			return
		}
		r := reader{index: x, buf: x.buffers.Get().(*[]byte)}
		defer r.close()
		for {
			from := int(next.Add(block)) - block
			if from >= len(files) {
				return
			}
			for _, e := range files[from:min(from+block, len(files))] {
				if ctx.Err() != nil {
					return
				}
				r.read(e)
			}
		}
	}
	var others sync.WaitGroup
	for range min(cap(x.readers), len(files)/block+1) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
}

// reader reads files for the index.
type reader struct {
	*index
	buf   *[]byte
	since uint64 // the last change before the directory was opened
	openDir
}

// open opens the directory of a file of that version. One that was opened before
// the file changed may be another than the one that has its name now.
func (r *reader) open(f *folder, version uint64) (*fsys.Dir, error) {
	if version > r.since {
		r.openDir.close()
	}
	if r.of != f {
		r.since = r.versions.Load()
	}
	return r.openDir.open(f)
}

func (r *reader) close() {
	r.openDir.close()
	r.buffers.Put(r.buf)
}

// openDir keeps the directory open in which the last file was.
type openDir struct {
	of  *folder
	dir *fsys.Dir
	err error
}

func (o *openDir) open(f *folder) (*fsys.Dir, error) {
	if o.of != f {
		o.close()
		o.of = f
		o.dir, o.err = f.path.OpenDir()
	}
	return o.dir, o.err
}

func (o *openDir) close() {
	if o.dir != nil {
		o.dir.Close()
	}
	*o = openDir{}
}

// read takes a file into the index.
func (r *reader) read(e *entry) {
	r.mu.Lock()
	if e.gone || r.mirror == nil || e.reading {
		r.mu.Unlock()
		return
	}
	e.reading = true
	version, rules := e.version.Load(), r.rules
	r.mu.Unlock()

	var what class
	var stamp fsys.Stamp
	var links uint64
	fits := true
	if rules.Check(access.Search, e.rel).Allowed {
		what, stamp, links, fits = r.take(e, version)
	} // else it stays unread: who may read it reads it

	r.mu.Lock()
	defer r.mu.Unlock()
	e.reading = false
	m := r.mirror
	switch {
	case m == nil:
	case e.gone:
		m.release(e)
	case e.version.Load() == version: // else it is read again
		delete(m.pending, e)
		if fits && what != unread {
			delete(m.loose, e)
		}
		e.stamp = stamp
		if e.class != what {
			e.class = what
			m.shape++
		}
		delete(m.linked, e)
		if links > 1 {
			m.linked[e] = struct{}{}
		}
	}
}

// take reads a file and keeps what it holds.
func (r *reader) take(e *entry, version uint64) (what class, stamp fsys.Stamp, links uint64, fits bool) {
	gone := func(err error) class {
		if isGone(err) {
			r.mu.Lock()
			if r.mirror != nil {
				r.mirror.soil(e.dir)
			}
			r.mu.Unlock()
			return unread
		}
		return barred
	}
	d, err := r.open(e.dir, version)
	if err != nil {
		return gone(err), stamp, 0, true
	}
	name := e.name()
	now := time.Now()
	info, err := d.Stat(name)
	switch {
	case err != nil:
		return gone(err), stamp, 0, true
	case info.Kind != fsys.Regular:
		return gone(fsys.ErrNotRegular), stamp, 0, true
	case info.Size > r.key.maxFile:
		r.trigrams.Remove(e.id)
		return large, trusted(info.Stamp, now), info.Links, true
	}
	data, stamp, err := d.ReadFile(name, *r.buf, r.key.maxFile)
	stamp = trusted(stamp, now)
	switch {
	case errors.Is(err, fsys.ErrTooLarge):
		r.trigrams.Remove(e.id)
		return large, stamp, info.Links, true
	case err != nil:
		return gone(err), fsys.Stamp{}, info.Links, true
	}
	if cap(data) > cap(*r.buf) && cap(data) <= smallFile {
		*r.buf = data[:0]
	}
	if isBinary(data) {
		r.trigrams.Remove(e.id)
		return binary, stamp, info.Links, true
	}
	if r.hasRoom(len(data)) {
		r.contents.Keep(r.kept(e.id), keptAs(version), data)
	} else {
		r.contents.Remove(r.kept(e.id))
	}
	return textual, stamp, info.Links, r.trigrams.Put(e.id, withoutMark(data))
}

// trusted returns a stamp that was taken after now, or none if it is so young
// that a change could leave it as it is.
func trusted(s fsys.Stamp, now time.Time) fsys.Stamp {
	for _, at := range []int64{s.Mtime, s.Ctime} {
		if age := time.Duration(now.UnixNano() - at); -racy < age && age < racy {
			return fsys.Stamp{}
		}
	}
	return s
}

// keptAs is what a version of a file is known by in the store of contents.
func keptAs(version uint64) trigram.Stamp { return trigram.Stamp{int64(version)} }

// hasRoom reports whether a text can be kept without another one going.
func (e *Engine) hasRoom(size int) bool {
	const slack = 1 << 20
	return e.contents.Bytes()+int64(size)+slack <= e.opts.ContentBytes
}

// Stats says what is kept in memory.
type Stats struct {
	Trees    int   // with an index, or on the way to one
	Ready    int   // of them, that answer by it
	Files    int   // in indexes
	Index    int64 // bytes
	Contents int64 // bytes
}

// Stats returns what is kept in memory.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Stats{Trees: len(e.indexes), Contents: e.contents.Bytes()}
	for _, x := range e.indexes {
		t := x.trigrams.Stats()
		s.Files += t.Files
		s.Index += t.Bytes
		x.mu.Lock()
		if x.state == ready {
			s.Ready++
		}
		x.mu.Unlock()
	}
	return s
}

// Unwatched is what a watcher of a tree that is searched may leave out, given the
// path below its root: what git keeps for itself, except where it says what to
// ignore.
func Unwatched(rel string, _ bool) bool {
	repository, inside := gitDirOf(rel)
	if !inside {
		return false
	}
	switch strings.TrimPrefix(rel, strings.TrimPrefix(repository+"/", "./")) {
	case gitDir, gitDir + "/info", gitDir + "/info/exclude":
		return false
	}
	return true
}

// OfGit reports whether a path below a root is git's own.
func OfGit(rel string) bool {
	_, inside := gitDirOf(rel)
	return inside
}
