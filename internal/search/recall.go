package search

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search/trigram"
)

// recall searches a directory by its index: what the index rules out is not
// looked at, what it does not vouch for is read. It reports false when there is
// no index that could answer, and then has done nothing.
func (s *search) recall(ctx context.Context, start fsys.Stamp) bool {
	x := s.indexOf()
	if x == nil {
		return false
	}
	x.used.Store(time.Now().UnixNano())
	jobs, ok := x.plan(ctx, s, start)
	if !ok {
		return false
	}
	s.index = x
	s.many = len(jobs) > manyJobs
	active := s.active.Add(1)
	defer s.active.Add(-1)
	var next atomic.Int64
	work := func() {
		w := s.worker()
		defer w.close()
		var dir openDir
		defer dir.close()
		for {
			from := int(next.Add(jobBlock)) - jobBlock
			if from >= len(jobs) || s.stopped() {
				return
			}
			for i := range jobs[from:min(from+jobBlock, len(jobs))] {
				w.job(&jobs[from+i], &dir)
			}
		}
	}
	var others sync.WaitGroup
	for range min(s.opts.Workers/int(active), len(jobs)/jobBlock) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	if x.sweepDue() {
		x.nudge()
	}
	return true
}

const (
	// jobBlock is how many files a worker takes at a time.
	jobBlock = 16
	// manyJobs are too many for their texts to be kept at the cost of others.
	manyJobs = 256
)

// indexOf returns the index of the tree, or nil; then one is wished for.
func (s *search) indexOf() *index {
	l := s.scope.Limits
	key := indexKey{root: s.start.Base(), respectIgnore: l.RespectIgnore, fold: s.scope.Fold, maxFile: l.MaxFileSize}
	s.mu.Lock()
	x := s.indexes[key]
	s.mu.Unlock()
	if x != nil {
		return x
	}
	s.wish = &wish{key: key, rules: s.scope.Rules, stat: l.VerifyStat}
	return nil
}

// wishFor asks for an index, for the searches that come after this one.
func (s *search) wishFor(w *wish) {
	if !w.stat && (&index{Engine: s.Engine, key: w.key}).watched() == nil {
		return // nobody would tell of changes
	}
	var err error
	if w.base, err = s.scope.Bases.Resolve(w.key.root); err != nil {
		return
	}
	select {
	case s.wanted <- *w:
	default: // so many are wished for that another search will have to ask again
	}
}

// job is a file that a search has to look at.
type job struct {
	*entry
	as    uint64          // the version that is known; 0: none, it has to be read
	parts []trigram.Chunk // where in that version; none: anywhere
}

// plan brings the index up to date and returns the files to look at, by path.
func (x *index) plan(ctx context.Context, s *search, start fsys.Stamp) ([]job, bool) {
	if !x.barrier(ctx, s) {
		return nil, false
	}
	x.mu.Lock()
	if x.state != ready {
		x.mu.Unlock()
		return nil, false
	}
	at := x.mirror.folders[s.start.Rel()]
	linked := make([]*entry, 0, len(x.mirror.linked))
	for e := range x.mirror.linked {
		linked = append(linked, e)
	}
	x.mu.Unlock()
	if at == nil || len(linked) > maxLinked {
		return nil, false // ignored, and asked for by name
	}
	if info, err := at.path.Stat(); err != nil || !info.Stamp.SameFile(start) && start.Ino != 0 {
		x.expire() // the index is of another directory of this name
		return nil, false
	}
	var dir openDir
	for _, e := range linked {
		x.compare(e, &dir)
	}
	dir.close()
	var query trigram.Query
	if !s.scope.Redacts { // what is shown in place of hidden text is in no index
		query = trigram.NewQuery(s.query.Required())
	}

	x.mu.Lock()
	if x.state != ready || at.gone {
		x.mu.Unlock()
		return nil, false
	}
	x.obeyLocked(s.scope.Rules)
	v := x.viewLocked(s, at)
	latest := x.versions.Load()
	counts := v.counts
	loose := make([]uint64, len(v.files)/64+1)
	for e := range x.mirror.loose {
		if int(e.id) >= len(v.at) {
			continue
		}
		if p := v.at[e.id]; p >= 0 && v.files[p] == e {
			loose[p/64] |= 1 << (p % 64)
			counts[v.class[p]]--
		}
	}
	x.mu.Unlock()

	// Asked after it was noted which files are loose: the others are in the index.
	var found trigram.Result
	var where []int32 // by ID: place among candidates, from 1
	if query.Narrows() {
		found = x.trigrams.Candidates(query)
		where = make([]int32, len(v.at))
		for i, c := range found.Files {
			if int(c.ID) < len(where) {
				where[c.ID] = int32(i + 1)
			}
		}
	}
	var jobs []job
	for p, id := range v.ids {
		if loose[p/64]&(1<<(p%64)) != 0 {
			jobs = append(jobs, job{entry: v.files[p]})
			continue
		}
		if v.class[p] != textual {
			continue
		}
		var j job
		if where != nil && found.Indexed(id) {
			if where[id] == 0 {
				continue
			}
			j.parts = found.Files[where[id]-1].Chunks
		}
		j.entry = v.files[p]
		if j.as = j.version.Load(); j.as > latest {
			j.as, j.parts = 0, nil // it has changed since, and what is known may be of either version
		}
		jobs = append(jobs, j)
		counts[textual]-- // it is counted when it is looked at
	}
	s.files.Add(int64(counts[textual]))
	s.skipped.binary.Add(int64(counts[binary]))
	s.skipped.tooLarge.Add(int64(counts[large]))
	s.skipped.unreadable.Add(int64(counts[barred] + v.unreadable))
	s.skipped.denied.Add(int64(v.denied))
	return jobs, true
}

// barrier waits until everything that happened before is known.
func (x *index) barrier(ctx context.Context, s *search) bool {
	tree := x.watched()
	verify := s.scope.Limits.VerifyStat
	if tree == nil && !verify {
		return false
	}
	x.mu.Lock()
	state := x.state
	x.mu.Unlock()
	if state != ready {
		return false
	}
	if tree != nil {
		ctx, cancel := context.WithTimeout(ctx, barrierTime)
		err := tree.Sync(ctx)
		cancel()
		if err != nil {
			return false
		}
	}
	if verify && !x.sweep(s.over, true, s.opts.Workers) {
		return false
	}
	if !x.takeTurn(s.over) {
		return false
	}
	defer func() { <-x.turn }()
	return x.settle(s.over)
}

// viewLocked returns what the search sees below a directory.
func (x *index) viewLocked(s *search, at *folder) *view {
	key := viewKey{start: at.rel, glob: s.req.Glob, recursive: s.req.Recursive, rules: s.scope.Rules}
	if v := x.views[key]; v != nil && v.shape == x.mirror.shape {
		return v
	}
	if len(x.views) >= maxViews {
		clear(x.views)
	}
	v := x.mirror.viewOf(s, at)
	x.views[key] = v
	return v
}

// obeyLocked has files read ahead that the rules of this search allow.
func (x *index) obeyLocked(rules *access.Rules) {
	if x.rules == rules {
		return
	}
	x.rules = rules
	for e := range x.mirror.loose {
		if e.class == unread {
			x.mirror.pending[e] = struct{}{}
		}
	}
	x.nudge()
}

// compare loosens a file that is not the one that was read.
func (x *index) compare(e *entry, dir *openDir) (same bool) {
	version := e.version.Load()
	var info fsys.Info
	d, err := dir.open(e.dir)
	if err == nil {
		info, err = d.Stat(e.name())
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err == nil && info.Stamp == e.stamp && version == e.version.Load() {
		return true
	}
	if x.mirror != nil && version == e.version.Load() {
		x.mirror.loosen(e)
		x.nudge()
	}
	return false
}

// job looks at a file, in memory if its text is kept there.
func (w *worker) job(j *job, dir *openDir) {
	wanted := w.out.wants(j.rel)
	if !wanted && w.counted() {
		w.out.uncounted.Store(true)
		return
	}
	if x := w.index; j.as > 0 {
		if v, ok := x.contents.Get(x.kept(j.id), keptAs(j.as)); ok {
			o := w.look(j.rel, v.Text, j.parts, wanted)
			v.Release()
			// What is shown is what the file holds now, told or not.
			if o.count == 0 || !wanted || x.compare(j.entry, dir) {
				w.remembered.Store(true)
				w.take(o)
				return
			}
		}
	}
	w.reread.Store(true)
	d, err := dir.open(j.dir)
	if err == nil {
		w.keep = j
		err = w.file(d, j.name(), j.rel)
		w.keep = nil
	}
	if err != nil {
		w.missed(err)
	}
}

// keepText keeps a text that was read because it was not kept.
func (w *worker) keepText(j *job, data []byte, stamp fsys.Stamp) {
	x := w.index
	if j.as == 0 || w.many && !x.hasRoom(len(data)) || isBinary(data) {
		return
	}
	x.mu.Lock()
	same := j.stamp == stamp && j.version.Load() == j.as && !j.gone && x.mirror != nil
	x.mu.Unlock()
	if same {
		x.contents.Keep(x.kept(j.id), keptAs(j.as), data)
	}
}
