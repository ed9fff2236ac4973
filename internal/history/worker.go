package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
	"github.com/async-crud-mcp/async-crud-mcp/internal/history/archive"
)

// Open opens the database, if there is to be one, and takes over what an earlier
// run left: the registry, and pending requests, which are dropped. A database
// that cannot be used leaves the store in memory, which Status tells; an error
// means that ctx ended.
func (s *Store) Open(ctx context.Context) error {
	if s.opts.File == "" {
		return nil
	}
	db, left, err := archive.Open(ctx, s.opts.File, maxTracked)
	if archive.Damaged(err) {
		db, err = s.replace(ctx, err)
	}
	if ctx.Err() != nil {
		if err == nil {
			_ = db.Close() // nobody has used it
		}
		return context.Cause(ctx)
	}
	if err != nil {
		s.memoryOnly("the database cannot be opened", err)
		return nil
	}
	for _, p := range left.Dropped {
		s.log.Info("dropped a pending request of an earlier run", "path", p.Path, "op", p.Op, "queued_at", p.QueuedAt)
	}
	if left.Expired > 0 {
		s.log.Info("purged expired pending requests of an earlier run", "count", left.Expired)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, hash := range left.Tracked {
		s.setHashLocked(s.fileLocked(key), hash)
	}
	s.recovery = Recovery{Expired: left.Expired, Dropped: len(left.Dropped), Tracked: len(left.Tracked)}
	s.db = db // from here on changes are written
	return nil
}

// Run packs contents, writes to the database and keeps it within its bounds
// until ctx ends; then it writes what is left and closes the database.
func (s *Store) Run(ctx context.Context) error {
	s.setRunning(true)
	defer s.setRunning(false)
	hourly := time.NewTicker(time.Hour)
	defer hourly.Stop()
	write := time.NewTimer(0) // fires when something has to be written
	defer write.Stop()
	s.retain(ctx)
	for {
		select {
		case <-ctx.Done():
			return s.Close(context.WithoutCancel(ctx))
		case <-hourly.C:
			s.retain(ctx)
		case <-write.C:
		case <-s.wake:
		}
		s.packWaiting()
		if in, late := s.timeToWrite(); late && in <= 0 {
			_ = s.Flush(context.WithoutCancel(ctx)) // reported, and tried again
		}
		if in, late := s.timeToWrite(); late {
			write.Reset(in)
		}
	}
}

func (s *Store) setRunning(running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = running
}

// packWaiting packs what waits, until there is nothing or it is time to write.
func (s *Store) packWaiting() {
	for {
		s.mu.Lock()
		if len(s.waiting) == 0 || !s.writeBy.IsZero() && !s.writeBy.After(time.Now()) {
			s.mu.Unlock()
			return
		}
		c := s.waiting[0]
		s.waiting[0] = nil
		s.waiting = s.waiting[1:]
		s.mu.Unlock()
		s.pack(c)
	}
}

// timeToWrite returns how long what waits for the database may go on waiting.
func (s *Store) timeToWrite() (in time.Duration, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.writeBy), !s.writeBy.IsZero()
}

// lateLocked notes that the database lacks something from now on.
func (s *Store) lateLocked() {
	now := time.Now()
	switch {
	case s.failures > 0 && !s.writeBy.IsZero():
		return // it will be tried again in a while
	case s.unwrittenSize > s.opts.MemoryBytes/2:
		s.writeBy = now
	case s.writeBy.IsZero():
		s.writeBy = now.Add(s.opts.WriteDebounce)
	default:
		return
	}
	s.signal()
}

// writesVersionsLocked reports whether versions go to the database.
func (s *Store) writesVersionsLocked() bool { return s.db != nil && s.opts.DiskBytes > 0 }

// unwrittenLocked notes that the database does not have v as it is.
func (s *Store) unwrittenLocked(v *version) {
	if _, ok := s.unwritten[v]; !ok {
		s.unwritten[v] = struct{}{}
		s.unwrittenSize += v.Size
		s.placeLocked(v)
	}
	s.lateLocked()
}

// writtenLocked takes v from what waits for the database.
func (s *Store) writtenLocked(v *version) {
	if _, ok := s.unwritten[v]; ok {
		delete(s.unwritten, v)
		s.unwrittenSize -= v.Size
	}
}

// Flush writes everything that was noted before the call to the database.
// Without one there is nothing to do.
func (s *Store) Flush(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.give()
	return s.flush(ctx)
}

// take waits for the turn to write to the database.
func (s *Store) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Store) give() { <-s.turn }

// flush needs the turn. Who asked for it may stop waiting; the write goes on.
func (s *Store) flush(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	db, b := s.batch()
	if b == nil {
		return nil
	}
	err := s.suspected()
	if err == nil {
		s.packBatch(b)
		err = db.Write(ctx, b.Batch, s.limits())
	}
	switch {
	case err == nil:
		s.settle(b)
		return nil
	case !archive.Damaged(err):
		s.failed(b, err)
		return err
	}
	s.putBack(b)
	fresh, err := s.replace(ctx, err)
	if err != nil {
		s.memoryOnly("the database cannot be opened", err)
		return err
	}
	s.startOver(fresh)
	return s.flush(ctx)
}

// suspected returns what a reader met since the last write.
func (s *Store) suspected() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.suspicion
	s.suspicion = nil
	return err
}

func (s *Store) limits() archive.Limits {
	return archive.Limits{Bytes: s.opts.DiskBytes, Age: s.opts.MaxAge, Versions: s.opts.MinVersions}
}

// batch is what goes to the database, and the versions in memory that its drafts
// were made of.
type batch struct {
	*archive.Batch
	versions []*version
}

// batch takes what the database lacks; nil when it lacks nothing.
func (s *Store) batch() (*archive.DB, *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil || s.writeBy.IsZero() {
		return nil, nil
	}
	b := &batch{
		Batch:    &archive.Batch{Moves: s.moves, Registry: s.registry, Pending: s.pending},
		versions: slices.SortedFunc(maps.Keys(s.unwritten), bySeq),
	}
	for _, v := range b.versions {
		b.Drafts = append(b.Drafts, &archive.Draft{Version: v.Version, Due: v.due(), Row: v.row})
	}
	s.registry, s.pending = make(map[archive.Key]string), make(map[string]*Pending)
	s.writeBy = time.Time{}
	return s.db, b
}

// packBatch gives every draft its packed content. One that the worker has under
// way may be packed twice.
func (s *Store) packBatch(b *batch) {
	for i, v := range b.versions {
		if v.content == nil || b.Drafts[i].Row != 0 {
			continue
		}
		s.mu.Lock()
		raw, packed := v.content.raw, v.content.packed
		s.mu.Unlock()
		if packed == nil {
			packed = s.codec.Pack(raw)
			s.packed(v.content, packed)
		}
		b.Drafts[i].Packed = packed
	}
}

// settle notes that a batch is in the database.
func (s *Store) settle(b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moves = slices.Clone(s.moves[len(b.Moves):])
	s.failures = 0
	delete(s.troubles, cannotWrite)
	for i, v := range b.versions {
		if v.in == nil {
			continue // it was evicted or purged meanwhile
		}
		d := b.Drafts[i]
		v.ID, v.row, v.written = d.Row, d.Row, d.Due
		if d.Known != nil {
			v.By, v.Op = d.Known.By, d.Known.Op
		}
		if v.due().Sub(v.written) > pinSlack {
			s.lateLocked()
			continue
		}
		s.writtenLocked(v)
		s.placeLocked(v)
	}
	s.evictLocked()
	s.wroteLocked()
}

// putBack makes a batch wait again, unless something newer does.
func (s *Store) putBack(b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(b.Registry, s.registry)
	maps.Copy(b.Pending, s.pending)
	s.registry, s.pending = b.Registry, b.Pending
}

// failed makes a batch wait for another attempt in a while; when too much waits
// already there is none.
func (s *Store) failed(b *batch, err error) {
	s.putBack(b)
	s.mu.Lock()
	backlog := len(s.moves) + len(s.registry) + len(s.pending)
	backoff := min(time.Second<<min(s.failures, 10), maxBackoff)
	s.failures++
	s.writeBy = time.Now().Add(backoff)
	s.wroteLocked()
	s.mu.Unlock()
	if backlog > maxBacklog {
		s.memoryOnly("the database cannot be written", err)
		return
	}
	s.log.Warn("history cannot be written; it will be tried again", "file", s.opts.File, "err", err, "in", backoff)
	s.report(cannotWrite, health.Finding{
		Part:   "history",
		Detail: fmt.Sprintf("history is kept in memory only for now: %s cannot be written: %v", s.opts.File, err),
		Cure:   "Free space on that disk or make it writable; writing resumes by itself.",
	})
}

// wroteLocked wakes who waits for the disk.
func (s *Store) wroteLocked() {
	close(s.wrote)
	s.wrote = make(chan struct{})
}

// startOver makes an empty database the store's. Everything in memory is to be
// written to it.
func (s *Store) startOver(db *archive.DB) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db, s.moves, s.failures = db, nil, 0
	for key, f := range s.files {
		if f.hash != "" {
			s.registry[key] = f.hash
		}
		for _, v := range f.versions {
			v.row, v.written = 0, time.Time{}
			if s.writesVersionsLocked() {
				v.ID = 0
				s.unwrittenLocked(v)
			}
		}
	}
	s.writeBy = time.Now()
}

// memoryOnly goes on without a database.
func (s *Store) memoryOnly(why string, err error) {
	s.log.Warn("history is kept in memory only", "reason", why, "file", s.opts.File, "err", err)
	s.report(cannotOpen, health.Finding{
		Part:   "history",
		Detail: fmt.Sprintf("history is kept in memory only: %s: %s: %v", why, s.opts.File, err),
		Cure:   "Make persistence.state_file a file that can be written, then restart the server.",
	})
	_ = s.forgetDatabase() // what it says about closing is not worth a second report
}

// forgetDatabase makes the store one that works in memory.
func (s *Store) forgetDatabase() error {
	s.mu.Lock()
	db := s.db
	s.db, s.moves, s.writeBy = nil, nil, time.Time{}
	clear(s.registry)
	clear(s.pending)
	for _, f := range s.files {
		for _, v := range f.versions {
			v.ID, v.row = v.seq, 0
			s.writtenLocked(v)
			s.placeLocked(v)
		}
	}
	s.evictLocked()
	delete(s.troubles, cannotWrite)
	s.wroteLocked()
	s.mu.Unlock()
	if db == nil {
		return nil
	}
	return db.Close()
}

// retain removes from the database what is too old or too much.
func (s *Store) retain(ctx context.Context) {
	if s.take(ctx) != nil {
		return
	}
	defer s.give()
	s.mu.Lock()
	db := s.db
	s.mu.Unlock()
	if db == nil {
		return
	}
	if err := db.Retain(context.WithoutCancel(ctx), s.limits()); err != nil {
		s.suspect(db, err)
	}
}

// Close writes what is left and closes the database; what is in memory stays
// readable. Run calls it when it ends.
func (s *Store) Close(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.give()
	return errors.Join(s.flush(ctx), s.forgetDatabase())
}
