package history

import (
	"fmt"
	"time"
)

// The bounds that tests need to know.
const (
	VersionCost = versionCost
	ContentCost = contentCost
	MaxRaw      = maxRaw
	MaxTracked  = maxTracked
	MinUnwrit   = minUnwritten
	PinTime     = pinTime
	Patience    = patience
)

// Busy keeps everybody from writing to the database until the function it
// returns is called.
func (s *Store) Busy() (free func()) {
	s.turn <- struct{}{}
	return s.give
}

// Verify compares every count that is kept with what it counts.
func (s *Store) Verify() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var bytes, raw, size int64
	tracked := make(map[string]int)
	refs := make(map[string]int)
	versions := 0
	for key, f := range s.files {
		if f.key != key || f.hash == "" && len(f.versions) == 0 {
			return fmt.Errorf("file %v is wrong: %+v", key, f)
		}
		if f.hash != "" {
			tracked[key.Project]++
		}
		for i, v := range f.versions {
			versions++
			bytes += versionCost
			_, unwritten := s.unwritten[v]
			if unwritten {
				size += v.Size
			}
			want := &s.queues[index(unwritten)][index(i == len(f.versions)-1)][index(v.handed)]
			if v.in != want || (*want)[v.at] != v || v.file != f || v.Path != key.Path || i > 0 && f.versions[i-1].seq >= v.seq {
				return fmt.Errorf("version %+v of %v is in a wrong place", v, key)
			}
			if (v.content != nil) != v.Keep {
				return fmt.Errorf("version %+v has a wrong content", v)
			}
			if v.Keep {
				refs[v.Hash]++
			}
		}
	}
	for hash, c := range s.contents {
		if c.refs != refs[hash] || c.refs == 0 || c.hash != hash || (c.raw == nil) == (c.packed == nil) {
			return fmt.Errorf("content %s: %d refs, want %d; raw %v, packed %v", hash, c.refs, refs[hash], c.raw != nil, c.packed != nil)
		}
		bytes += contentCost + int64(len(c.packed))
		raw += int64(len(c.raw))
	}
	queued := s.queues[0].len() + s.queues[1].len()
	if bytes != s.bytes || raw != s.rawBytes || size != s.unwrittenSize || queued != versions || len(refs) != len(s.contents) {
		return fmt.Errorf("counted %d bytes, %d raw, %d unwritten, %d versions, %d contents; kept %d, %d, %d, %d, %d",
			bytes, raw, size, versions, len(refs), s.bytes, s.rawBytes, s.unwrittenSize, queued, len(s.contents))
	}
	if fmt.Sprint(tracked) != fmt.Sprint(s.tracked) {
		return fmt.Errorf("tracked %v, counted %v", s.tracked, tracked)
	}
	return nil
}

// Squeeze lowers the memory bound until one version less is there.
func (s *Store) Squeeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.MemoryBytes = s.bytes - 1
	s.evictLocked()
}

// Late reports whether something waits for the database, and until when.
func (s *Store) Late() (time.Duration, bool) { return s.timeToWrite() }
