// Package trigram keeps an index of texts by the triples of symbols they hold,
// and keeps texts themselves, so that a search looks only where its literals may
// be.
//
// The 256 bytes are 64 symbols: letters in one case, digits, the underscore,
// groups of punctuation, one for all blanks, four for what is not ASCII. A triple
// then has 18 bits, and one index serves exact and case-blind search. A run of
// blanks is one, lines begin and end with one, so that ends of lines and of words
// narrow a search, too. The unit of the index is a chunk: whole lines, about 64 KB
// of a file.
//
//	Put ─▶ fresh units ─(enough)─▶ shard ─┐
//	       shard, shard ─────(Run)────────┴─▶ larger shard, without what is gone
//
// An answer names too many chunks, never too few ([Index.Candidates]); which of
// them match is left to linematch. How files are found, read and known to have
// changed is left to the caller, who names them by small numbers.
//
// [Index] and [Contents] are bounded in memory and safe for concurrent use. Put
// and Candidates work on the caller's goroutine and share a lock for moments.
// [Index.Run] does what can wait, and drops everything when nobody asks any more.
package trigram

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// ID names a file. The caller chooses it; there is a table as long as the largest.
type ID uint32

// Options of an index. The zero value means the defaults.
type Options struct {
	MaxBytes int64         // of the index; 128 MB. Files past it are refused.
	Idle     time.Duration // without a question after which the index is dropped; 30 minutes
	Dropped  func()        // called by Run when it was, if not nil
}

const (
	defaultBytes = 128 << 20
	defaultIdle  = 30 * time.Minute

	// sealAt is how many triples of fresh units make a shard.
	sealAt = 1 << 20
	// fewUnits are left fresh when all else is tidied up.
	fewUnits = 64
	// restAfter is how long nothing has to be put for tidying up to be thorough.
	restAfter = 200 * time.Millisecond
)

// Index is an index of texts.
type Index struct {
	max     int64
	idle    time.Duration
	dropped func()
	wake    chan struct{} // there may be something to tidy up

	mu      sync.Mutex
	seq     uint32    // number of the last change
	files   []file    // by ID
	present []uint64  // bit by ID: whether it is in the index
	fresh   []*fresh  // the newest units
	triples int       // in fresh
	sealing []*fresh  // on their way into a shard
	shards  []*shard  // replaced as a whole, never changed
	bytes   int64     // of all these
	live    int       // units of files as they are
	units   int       // all units
	used    time.Time // last question, or first file
	changed time.Time // last change
}

// file is what is known of an ID.
type file struct {
	seq   uint32 // change that made it so
	units int32
}

// fresh is a unit that is in no shard yet.
type fresh struct {
	unit
	triples []uint32
}

func (f *fresh) size() int64 { return int64(4*len(f.triples)) + 64 }

// New returns an empty index.
func New(o Options) *Index {
	return &Index{
		max:     cmp.Or(o.MaxBytes, defaultBytes),
		idle:    cmp.Or(o.Idle, defaultIdle),
		dropped: o.Dropped,
		wake:    make(chan struct{}, 1),
	}
}

// Put takes a file's text into the index, in place of what it held before. It
// returns false, and the file is not in the index, when there is no room.
func (x *Index) Put(id ID, text []byte) bool {
	units := split(text)
	x.mu.Lock()
	x.removeLocked(id)
	size := int64(0)
	for _, u := range units {
		size += u.size()
	}
	if x.bytes+size > x.max {
		x.mu.Unlock()
		return false
	}
	for int(id) >= len(x.files) {
		x.files = append(x.files, file{})
	}
	for int(id)/64 >= len(x.present) {
		x.present = append(x.present, 0)
	}
	if x.used.IsZero() {
		x.used = time.Now()
	}
	x.files[id] = file{seq: x.seq, units: int32(len(units))}
	x.present[id/64] |= 1 << (id % 64)
	for _, u := range units {
		u.id, u.seq = id, x.seq
		x.triples += len(u.triples)
	}
	x.fresh = append(x.fresh, units...)
	x.live += len(units)
	x.units += len(units)
	x.bytes += size
	var full []*fresh
	if x.triples >= sealAt {
		full = x.takeFreshLocked()
	}
	x.mu.Unlock()
	if full != nil {
		x.seal(full)
	}
	x.nudge()
	return true
}

// Remove takes a file out of the index.
func (x *Index) Remove(id ID) {
	x.mu.Lock()
	x.removeLocked(id)
	x.mu.Unlock()
	x.nudge()
}

// removeLocked leaves the units of id where they are: they are out of date by
// their seq.
func (x *Index) removeLocked(id ID) {
	x.seq++
	x.changed = time.Now()
	if int(id) >= len(x.files) || x.present[id/64]&(1<<(id%64)) == 0 {
		return
	}
	x.live -= int(x.files[id].units)
	x.files[id] = file{seq: x.seq}
	x.present[id/64] &^= 1 << (id % 64)
}

// Drop forgets all files.
func (x *Index) Drop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seq++
	for i := range x.files { // numbers go on: a question under way sees the change
		x.files[i] = file{seq: x.seq}
	}
	clear(x.present)
	x.fresh, x.triples, x.sealing, x.shards = nil, 0, nil, nil
	x.bytes, x.live, x.units = 0, 0, 0
	x.used = time.Time{}
}

// takeFreshLocked takes the fresh units on their way into a shard. They are still
// seen by questions.
func (x *Index) takeFreshLocked() []*fresh {
	full := x.fresh
	x.sealing = slices.Concat(x.sealing, full)
	x.fresh, x.triples = nil, 0
	return full
}

// seal makes a shard of units that takeFreshLocked returned.
func (x *Index) seal(full []*fresh) {
	s := newShard(full)
	x.mu.Lock()
	defer x.mu.Unlock()
	if !slices.Contains(x.sealing, full[0]) {
		return // dropped meanwhile
	}
	taken := make(map[*fresh]bool, len(full))
	for _, f := range full {
		taken[f] = true
		x.bytes -= f.size()
	}
	x.sealing = slices.DeleteFunc(slices.Clone(x.sealing), func(f *fresh) bool { return taken[f] })
	x.shards = append(slices.Clip(x.shards), s)
	x.bytes += s.size()
}

// Candidate is a file that may match.
type Candidate struct {
	ID     ID
	Chunks []Chunk // where in it; none: anywhere, it has just changed
}

// Chunk is a part of a file: whole lines.
type Chunk struct {
	Start, End int // bytes
	Line       int // lines before it
}

// Result is the answer to a question.
type Result struct {
	Files   []Candidate // by ID
	indexed []uint64
}

// Indexed reports whether the index had the file when it was asked: one that it
// had and that is not in Files does not match.
func (r Result) Indexed(id ID) bool {
	return int(id)/64 < len(r.indexed) && r.indexed[id/64]&(1<<(id%64)) != 0
}

// Candidates returns the files that may have a line with what q asks for.
func (x *Index) Candidates(q Query) Result {
	x.mu.Lock()
	if !x.used.IsZero() {
		x.used = time.Now()
	}
	seq := x.seq
	indexed := slices.Clone(x.present)
	shards, sealing, recent := x.shards, x.sealing, x.fresh
	x.mu.Unlock()

	var found []unit
	for _, s := range shards {
		found = s.search(q, found)
	}
	found = searchFresh(q, sealing, found)
	found = searchFresh(q, recent, found)

	found, moved := x.upToDate(found, seq)
	slices.Sort(moved)
	return Result{Files: grouped(byFile(found), slices.Compact(moved)), indexed: indexed}
}

// byFile sorts units by ID. Those of a file are in order already.
func byFile(found []unit) []unit {
	compare := func(a, b unit) int { return cmp.Compare(a.id, b.id) }
	if slices.IsSortedFunc(found, compare) {
		return found
	}
	most := slices.MaxFunc(found, compare).id
	if len(found) < int(most)/16 {
		slices.SortStableFunc(found, compare)
		return found
	}
	// There are about as many as IDs: count them.
	at := make([]int32, most+2)
	for _, u := range found {
		at[u.id+1]++
	}
	for i := range most + 1 {
		at[i+1] += at[i]
	}
	sorted := make([]unit, len(found))
	for _, u := range found {
		sorted[at[u.id]] = u
		at[u.id]++
	}
	return sorted
}

// upToDate keeps the units of files as they are. Moved are those that changed
// after seq: they had what was asked for, and may have it again.
func (x *Index) upToDate(found []unit, seq uint32) (kept []unit, moved []ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	kept = found[:0]
	for _, u := range found {
		switch now := x.files[u.id].seq; {
		case now == u.seq:
			kept = append(kept, u)
		case now > seq:
			moved = append(moved, u.id)
		}
	}
	return kept, moved
}

// grouped makes one candidate of each file's units, sorted.
func grouped(found []unit, moved []ID) []Candidate {
	files := make([]Candidate, 0, len(moved)+len(found))
	chunks := make([]Chunk, 0, len(found))
	for len(found) > 0 || len(moved) > 0 {
		if len(found) == 0 || len(moved) > 0 && moved[0] <= found[0].id {
			files = append(files, Candidate{ID: moved[0]})
			for len(found) > 0 && found[0].id == moved[0] {
				found = found[1:]
			}
			moved = moved[1:]
			continue
		}
		id, from := found[0].id, len(chunks)
		for len(found) > 0 && found[0].id == id {
			u := found[0]
			chunks = append(chunks, Chunk{Start: int(u.start), End: int(u.end), Line: int(u.line)})
			found = found[1:]
		}
		files = append(files, Candidate{ID: id, Chunks: chunks[from:len(chunks):len(chunks)]})
	}
	return files
}

// Stats says what an index holds.
type Stats struct {
	Files  int
	Units  int   // chunks of these files
	Gone   int   // chunks of files that changed, not yet cleared away
	Shards int   // parts that a question goes through
	Bytes  int64 // memory
}

// Stats returns what the index holds.
func (x *Index) Stats() Stats {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := 0
	for _, w := range x.present {
		n += ones(w)
	}
	return Stats{Files: n, Units: x.live, Gone: x.units - x.live, Shards: len(x.shards), Bytes: x.bytes + int64(16*len(x.files))}
}

func (x *Index) nudge() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// Run tidies up until ctx ends: it joins shards, clears away what is gone, and
// drops the index when nobody has asked for a while.
func (x *Index) Run(ctx context.Context) error {
	timer := time.NewTimer(x.idle)
	defer timer.Stop()
	soon := false // the timer is set to tidy up
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-x.wake:
			if !soon {
				timer.Reset(restAfter)
				soon = true
			}
			continue
		case <-timer.C:
		}
		resting := x.resting()
		for ctx.Err() == nil && x.tidy(resting) {
			continue
		}
		x.dropIdle()
		soon = !resting
		if soon {
			timer.Reset(restAfter)
		} else {
			timer.Reset(x.untilIdle())
		}
	}
}

// resting reports whether nothing has changed for a while.
func (x *Index) resting() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return time.Since(x.changed) >= restAfter
}

// untilIdle returns how long it takes for the index to be idle.
func (x *Index) untilIdle() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.used.IsZero() {
		return x.idle
	}
	return max(time.Until(x.used.Add(x.idle)), restAfter)
}

func (x *Index) dropIdle() {
	x.mu.Lock()
	idle := !x.used.IsZero() && time.Since(x.used) >= x.idle
	x.mu.Unlock()
	if !idle {
		return
	}
	x.Drop()
	if x.dropped != nil {
		x.dropped()
	}
}

// tidy joins some shards, if that is worth it, and reports whether it was. It is
// thorough when files have stopped coming.
func (x *Index) tidy(resting bool) bool {
	x.mu.Lock()
	var full []*fresh
	if resting && len(x.fresh) >= fewUnits {
		full = x.takeFreshLocked()
	}
	x.mu.Unlock()
	if full != nil {
		x.seal(full)
	}

	x.mu.Lock()
	parts := x.worthJoiningLocked(resting)
	keep := make([][]bool, len(parts))
	for i, s := range parts {
		keep[i] = make([]bool, len(s.units))
		for j, u := range s.units {
			keep[i][j] = x.files[u.id].seq == u.seq
		}
	}
	x.mu.Unlock()
	if len(parts) == 0 {
		return false
	}
	joined := join(parts, keep)

	x.mu.Lock()
	defer x.mu.Unlock()
	if !slices.Contains(x.shards, parts[0]) {
		return false // dropped meanwhile
	}
	x.shards = slices.DeleteFunc(slices.Clone(x.shards), func(s *shard) bool { return slices.Contains(parts, s) })
	for _, s := range parts {
		x.bytes -= s.size()
		x.units -= len(s.units)
	}
	if len(joined.units) > 0 {
		x.shards = append(x.shards, joined)
		x.bytes += joined.size()
		x.units += len(joined.units)
	}
	return true
}

const (
	maxUnits  = 1 << 16 // of a joined shard
	manyParts = 16      // that are joined while files still come
)

// worthJoiningLocked returns shards of similar size, or one of which much is gone.
func (x *Index) worthJoiningLocked(resting bool) []*shard {
	if !resting && len(x.shards) < manyParts {
		return nil
	}
	type part struct {
		*shard
		live int
	}
	var parts []part
	for _, s := range x.shards {
		p := part{shard: s}
		for _, u := range s.units {
			if x.files[u.id].seq == u.seq {
				p.live++
			}
		}
		if len(s.units)-p.live > len(s.units)/4 && resting {
			return []*shard{s}
		}
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.live, b.live) })
	var join []*shard
	sum := 0
	for _, p := range parts {
		if len(join) > 0 && (p.live > 3*sum || sum+p.live > maxUnits) {
			break
		}
		join = append(join, p.shard)
		sum += p.live
	}
	if len(join) < 2 {
		return nil
	}
	return join
}
