// Package history remembers what files contained: past contents by file and
// hash, who made them, and the hash the server last saw of each file.
//
//	Put ──▶ memory, raw ──▶ worker: zstd ──▶ memory, packed ──▶ archive, in batches
//	                                             │ bound               │ bound, age
//	                                             ▼                     ▼
//	                                          evicted               evicted
//	Get ◀── memory, else archive
//
// The promises, under any concurrency:
//
//   - A content is there for Get as soon as Put has returned. Put waits for no
//     disk, unless it outruns that disk by the whole memory bound, and then for a
//     moment only; a caller that outruns the worker packs its own content.
//   - A content is given only for the project and the path it was put for, or
//     that it came to by Rename. Equal contents are stored once all the same.
//   - What is kept stays within its bounds. First go contents whose hash nobody
//     was given within the last day, then the others; among both, older versions
//     go before the newest of a file, and the longest unused goes first.
//   - With a database, what was put is in it at the latest one WriteDebounce
//     later and then survives a killed process. A damaged one is set aside; a
//     full or read-only disk leaves a store that works in memory. Status tells.
//
// Calls about one file are to come in the order of what happened to it: under
// its lock. Who may read a file, and which contents must not be kept, is decided
// by the caller. Several processes may share one database.
package history

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
	"github.com/async-crud-mcp/async-crud-mcp/internal/history/archive"
)

// Options tune a Store. Zero values mean the defaults.
type Options struct {
	MemoryBytes   int64         // bound of packed contents in memory; default 32 MiB, negative: none
	MaxContent    int64         // larger contents are not kept; default 10 MiB
	File          string        // database; "": memory only
	DiskBytes     int64         // bound of the database; default 512 MiB, negative: no contents in it
	MaxAge        time.Duration // contents unused for longer leave the database; default 30 days
	MinVersions   int           // newest versions of a file that leave the database after the rest; default 20
	WriteDebounce time.Duration // how late the database may be; default 1 s, negative: written at once
	Logger        *slog.Logger  // nil: silent
}

// The vocabulary that the database shares.
type (
	// Version is one content that a file had.
	Version = archive.Version
	// Author says who made a version.
	Author = archive.Author
	// Filter selects versions.
	Filter = archive.Filter
	// Pending is a request that waits for a lock.
	Pending = archive.Pending
)

// OpDelete marks the version that a deletion removed.
const OpDelete = archive.OpDelete

const (
	pinTime      = 24 * time.Hour   // a hash that was given to somebody may come back
	pinSlack     = time.Minute      // how much of that a crash may take
	freshTime    = time.Minute      // somebody is about to be given the hash of a new content
	maxRaw       = 16 << 20         // bytes that wait for the worker; past it callers pack
	minUnwritten = 16 << 20         // bytes that may wait for the database whatever the bound
	patience     = time.Second      // how long Put waits for a slow disk
	maxBackoff   = 30 * time.Second // between attempts to write
	maxBacklog   = 100_000          // changes that may wait for a failing disk
	maxTracked   = 1 << 16          // files in the registry
	versionCost  = 512              // bytes in memory for a version, without its content
	contentCost  = 256              // bytes in memory for a content, beside its packed bytes
)

// Store remembers. Its worker is Run; without it contents stay unpacked up to a
// bound, and only Flush and Close write to the database.
type Store struct {
	opts  Options
	log   *slog.Logger
	codec archive.Codec
	wake  chan struct{} // there is work, or less time for it
	turn  chan struct{} // holds a value while somebody writes to the database

	mu       sync.Mutex // guards all below
	files    map[archive.Key]*file
	contents map[string]*content // by hash
	queues   [2]queues           // versions by whether the database lacks them
	waiting  []*content          // to be packed, in order of arrival
	bytes    int64               // packed contents and the cost of keeping them
	rawBytes int64               // contents not yet packed
	lost     int64               // versions evicted before they were written
	seq      int64               // number of the last version
	tracked  map[string]int      // files in the registry by project
	uses     uint64              // counts up with every use of the registry
	recovery Recovery
	troubles map[trouble]health.Finding

	db            *archive.DB            // nil: memory only
	running       bool                   // the worker runs
	failures      int                    // writes that failed since the last good one
	suspicion     error                  // what made a reader think that the database is damaged
	writeBy       time.Time              // when what follows is to be in the database; zero: there is nothing
	moves         []archive.Move         // in order
	unwritten     map[*version]struct{}  //
	unwrittenSize int64                  // of their contents, unpacked
	registry      map[archive.Key]string // hashes; "": removed
	pending       map[string]*Pending    // by id; nil: removed
	wrote         chan struct{}          // closed when a write has ended
}

// New returns a store that remembers nothing yet. It touches no disk.
func New(o Options) *Store {
	setDefault(&o.MemoryBytes, 32<<20)
	setDefault(&o.MaxContent, 10<<20)
	setDefault(&o.DiskBytes, 512<<20)
	setDefault(&o.MaxAge, 30*24*time.Hour)
	setDefault(&o.MinVersions, 20)
	setDefault(&o.WriteDebounce, time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Store{
		opts: o, log: o.Logger, codec: archive.NewCodec(),
		wake: make(chan struct{}, 1), turn: make(chan struct{}, 1), wrote: make(chan struct{}),
		files: make(map[archive.Key]*file), contents: make(map[string]*content),
		tracked: make(map[string]int), troubles: make(map[trouble]health.Finding),
		unwritten: make(map[*version]struct{}), registry: make(map[archive.Key]string),
		pending: make(map[string]*Pending),
	}
}

// setDefault replaces zero by the default, and what stands for none by zero.
func setDefault[T ~int | ~int64](v *T, to T) {
	switch {
	case *v == 0:
		*v = to
	case *v < 0:
		*v = 0
	}
}

// Put remembers that the file has this content now, who made it so, and that the
// server saw it (see Track). It changes nothing when that is the newest version
// already: its author stays. The bytes are not copied, so nobody may change them
// afterwards. Without Keep they may be nil; then Size counts.
func (s *Store) Put(v Version, bytes []byte) {
	if v.Keep {
		v.Size = int64(len(bytes))
		v.Keep = v.Size <= s.opts.MaxContent
	}
	key := archive.Key{Project: v.Project, Path: v.Path}
	s.mu.Lock()
	f := s.fileLocked(key)
	if v.Op == OpDelete {
		s.setHashLocked(f, "")
	} else {
		s.setHashLocked(f, v.Hash)
	}
	if n := f.newest(); n != nil && v.Continues(n.Version) {
		s.mu.Unlock()
		return
	}
	s.waitForDiskLocked()
	f = s.fileLocked(key) // it may have gone while this waited
	if n := f.newest(); n != nil && n.Hash == v.Hash && n.Op != OpDelete && v.Op != OpDelete {
		v.By, v.Op = n.By, n.Op // known, but its content was not kept
	}
	fresh := s.addLocked(f, v, bytes)
	packNow := fresh != nil && s.rawBytes > maxRaw
	if fresh != nil && !packNow {
		s.waiting = append(s.waiting, fresh)
	}
	s.evictLocked()
	s.mu.Unlock()
	if packNow {
		s.pack(fresh)
	} else {
		s.signal()
	}
}

// waitForDiskLocked gives a disk that is slower than its callers a moment, when
// otherwise a version would have to go before it was written.
func (s *Store) waitForDiskLocked() {
	if !s.writesVersionsLocked() || !s.running || s.failures > 0 || s.queues[0].len() > 0 || s.bytes+s.rawBytes < s.unwrittenBound()/2 {
		return
	}
	s.writeBy = time.Now()
	wrote := s.wrote
	s.mu.Unlock()
	s.signal()
	t := time.NewTimer(patience)
	select {
	case <-wrote:
	case <-t.C:
	}
	t.Stop()
	s.mu.Lock()
}

// Get returns the content that the file had under this hash, and what is known
// about it. It is false when the content is not there, or was never put for this
// file. Nobody may change the bytes.
func (s *Store) Get(project, path, hash string) ([]byte, Version, bool) {
	key := archive.Key{Project: project, Path: path}
	s.mu.Lock()
	if v := s.files[key].find(hash); v != nil {
		known, raw, packed := v.bytesLocked()
		s.mu.Unlock()
		bytes, ok := s.unpack(known, raw, packed)
		return bytes, known, ok
	}
	db, names := s.db, s.namesInDatabaseLocked(key)
	s.mu.Unlock()
	if db == nil {
		return nil, Version{}, false
	}
	bytes, v, err := db.Find(context.Background(), names, hash)
	if err != nil {
		s.suspect(db, err)
		return nil, Version{}, false
	}
	v.Path = path // the database may not know the name yet
	return bytes, v, v.Keep
}

// unpack returns the content of a version in memory.
func (s *Store) unpack(v Version, raw, packed []byte) ([]byte, bool) {
	if packed == nil {
		return raw, v.Keep
	}
	bytes, err := s.codec.Unpack(packed, v.Size)
	if err != nil {
		s.log.Error("a content in memory cannot be unpacked", "path", v.Path, "hash", v.Hash, "err", err)
		return nil, false
	}
	return bytes, true
}

// HandedOut notes that somebody was given this hash now: it may come back as the
// base of a change, so its content goes last for a day.
func (s *Store) HandedOut(project, path, hash string) {
	key := archive.Key{Project: project, Path: path}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.files[key].find(hash)
	if v == nil {
		if s.writesVersionsLocked() {
			s.moves = append(s.moves, archive.Move{From: key, Pin: hash, Due: now.Add(pinTime)})
			s.lateLocked()
		}
		return
	}
	v.handed, v.last = true, now
	s.placeLocked(v)
	if s.writesVersionsLocked() && v.due().Sub(v.written) > pinSlack {
		s.unwrittenLocked(v)
	}
}

// ChangedBy returns who made the version that has this hash now, and false, with
// an external author, when it is not known here.
func (s *Store) ChangedBy(project, path, hash string) (Author, bool) {
	key := archive.Key{Project: project, Path: path}
	s.mu.Lock()
	v := s.files[key].find(hash)
	by := Author{External: true}
	if v != nil {
		by = v.By
	}
	// What looks foreign may have been written by this server before it was
	// restarted, or by another one: then it is the newest that the database has.
	foreign := v != nil && by.External && v.row == 0
	db, names := s.db, s.namesInDatabaseLocked(key)
	s.mu.Unlock()
	if db != nil && (v == nil || foreign) {
		was, ok, err := db.Maker(context.Background(), names, hash, foreign)
		if err != nil {
			s.suspect(db, err)
		} else if ok {
			return was, true
		}
	}
	return by, v != nil
}

// Status is how the store is at one moment.
type Status struct {
	File      string // the database in use; "": memory only
	FileBytes int64  // its size
	Files     int    // files in the registry
	Versions  int    // versions in memory
	Bytes     int64  // packed contents in memory and what keeping them costs
	Waiting   int64  // bytes that wait to be packed
	Unwritten int    // versions that wait for the database
	Lost      int64  // versions that had to go before they were written
	Recovery  Recovery
	Findings  []health.Finding
}

// Status returns how the store is.
func (s *Store) Status() Status {
	s.mu.Lock()
	st := Status{
		Files: s.trackedLocked(), Versions: s.queues[0].len() + s.queues[1].len(), Bytes: s.bytes, Waiting: s.rawBytes,
		Unwritten: len(s.unwritten), Lost: s.lost, Recovery: s.recovery,
	}
	for _, t := range slices.Sorted(maps.Keys(s.troubles)) {
		st.Findings = append(st.Findings, s.troubles[t])
	}
	if s.db != nil {
		st.File = s.opts.File
	}
	s.mu.Unlock()
	// By name: a file that is opened and closed here loses SQLite's locks.
	if info, err := os.Stat(st.File); err == nil {
		st.FileBytes = info.Size()
	}
	return st
}

// signal tells the worker that there is something to do.
func (s *Store) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // it has it coming already
	}
}
