package history

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/history/archive"
)

// file is what is in memory about one file.
type file struct {
	key      archive.Key
	hash     string     // in the registry; "": not there
	seen     uint64     // when the registry last heard of it
	versions []*version // oldest first; more may be in the database
}

// version is one version in memory.
type version struct {
	Version
	file    *file
	seq     int64
	content *content  // nil: not kept
	handed  bool      // its hash was given to somebody
	last    time.Time // when that was, or else when it was made
	row     int64     // in the database; 0: not there
	written time.Time // due, as the database has it
	in      *queue    // nil: not in the store any more
	at      int       // index in it
}

// content is the bytes of one or more versions, either raw or packed.
type content struct {
	hash   string
	raw    []byte
	packed []byte
	refs   int // versions that have it
}

func (f *file) newest() *version {
	if f == nil || len(f.versions) == 0 {
		return nil
	}
	return f.versions[len(f.versions)-1]
}

// find returns the newest version with this hash.
func (f *file) find(hash string) *version {
	if f == nil {
		return nil
	}
	for _, v := range slices.Backward(f.versions) {
		if v.Hash == hash {
			return v
		}
	}
	return nil
}

// due returns from when on nothing holds the version: a day after its hash was
// handed out, or soon after it was made, since somebody is about to be given it.
func (v *version) due() time.Time {
	if v.handed {
		return v.last.Add(pinTime)
	}
	return v.last.Add(freshTime)
}

// bytesLocked returns the version with its content, which is raw or packed.
func (v *version) bytesLocked() (known Version, raw, packed []byte) {
	if v.content == nil {
		return v.Version, nil, nil
	}
	return v.Version, v.content.raw, v.content.packed
}

// bySeq sorts versions, the oldest first.
func bySeq(a, b *version) int { return cmp.Compare(a.seq, b.seq) }

// byUse sorts versions, the longest unused first.
func byUse(a, b *version) int { return cmp.Or(a.last.Compare(b.last), bySeq(a, b)) }

// queues hold versions by whether they are the newest of their file and whether
// they were handed out.
type queues [2][2]queue

// queue is a heap of versions, the longest unused on top.
type queue []*version

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	return byUse(q[i], q[j]) < 0
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

// Push is for package heap.
func (q *queue) Push(x any) {
	v := x.(*version)
	v.in, v.at = q, len(*q)
	*q = append(*q, v)
}

// Pop is for package heap.
func (q *queue) Pop() any {
	last := len(*q) - 1
	v := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	v.in = nil
	return v
}

// fileLocked returns the file, made if need be. Who makes one gives it a hash or
// a version before the lock is released.
func (s *Store) fileLocked(key archive.Key) *file {
	f := s.files[key]
	if f == nil {
		f = &file{key: key}
		s.files[key] = f
	}
	return f
}

// dropEmptyLocked forgets a file about which nothing is known any more.
func (s *Store) dropEmptyLocked(f *file) {
	if f.hash == "" && len(f.versions) == 0 && s.files[f.key] == f {
		delete(s.files, f.key)
	}
}

// addLocked makes v the newest version of f. It returns the content when it is
// new and has to be packed.
func (s *Store) addLocked(f *file, v Version, raw []byte) (fresh *content) {
	s.seq++
	v.ID, v.Former = s.seq, ""
	made := &version{Version: v, file: f, seq: s.seq, last: time.Now()}
	before := f.newest()
	f.versions = append(f.versions, made)
	s.bytes += versionCost
	if v.Keep {
		c := s.contents[v.Hash]
		if c == nil {
			c = &content{hash: v.Hash, raw: raw}
			s.contents[v.Hash] = c
			s.bytes += contentCost
			s.rawBytes += int64(len(raw))
			fresh = c
		}
		c.refs++
		made.content = c
	}
	if before != nil {
		s.placeLocked(before)
	}
	s.placeLocked(made)
	if s.writesVersionsLocked() {
		made.ID = 0 // until it has a row
		s.unwrittenLocked(made)
	}
	return fresh
}

// placeLocked puts v into the queue it belongs to, at its place.
func (s *Store) placeLocked(v *version) {
	_, unwritten := s.unwritten[v]
	q := &s.queues[index(unwritten)][index(v.file.newest() == v)][index(v.handed)]
	if v.in == q {
		heap.Fix(q, v.at)
		return
	}
	if v.in != nil {
		heap.Remove(v.in, v.at)
	}
	heap.Push(q, v)
}

// dropLocked removes v from memory.
func (s *Store) dropLocked(v *version) {
	heap.Remove(v.in, v.at)
	s.writtenLocked(v)
	s.bytes -= versionCost
	if c := v.content; c != nil {
		if c.refs--; c.refs == 0 {
			delete(s.contents, c.hash)
			s.bytes -= contentCost + int64(len(c.packed))
			s.rawBytes -= int64(len(c.raw))
			c.raw = nil
		}
	}
	f := v.file
	i := slices.Index(f.versions, v)
	f.versions = slices.Delete(f.versions, i, i+1)
	if n := f.newest(); n != nil {
		s.placeLocked(n)
	}
	s.dropEmptyLocked(f)
}

// evictLocked brings memory back within its bound. What the database has goes
// first, since only a copy goes; what it does not have yet may wait for it in
// some memory whatever the bound.
func (s *Store) evictLocked() {
	now := time.Now()
	for s.bytes > s.opts.MemoryBytes {
		v := s.queues[0].victim(now)
		if v == nil {
			break
		}
		s.dropLocked(v)
	}
	for s.bytes > s.unwrittenBound() {
		v := s.queues[1].victim(now)
		if v == nil {
			break
		}
		if v.row == 0 {
			s.lost++
		} else {
			s.moves = append(s.moves, archive.Move{From: v.file.key, Pin: v.Hash, Due: v.due()})
		}
		s.dropLocked(v)
	}
}

func (s *Store) unwrittenBound() int64 { return max(s.opts.MemoryBytes, minUnwritten) }

// victim returns the version that goes first: one that nothing holds, rather an
// older one than the newest of a file; then the same among the others.
func (q *queues) victim(now time.Time) *version {
	for _, held := range []bool{false, true} {
		for _, same := range q {
			var first *version
			for _, tops := range same {
				if len(tops) > 0 && (held || !tops[0].due().After(now)) && (first == nil || byUse(tops[0], first) < 0) {
					first = tops[0]
				}
			}
			if first != nil {
				return first
			}
		}
	}
	return nil
}

func (q *queues) len() int { return len(q[0][0]) + len(q[0][1]) + len(q[1][0]) + len(q[1][1]) }

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}

// pack compresses a content, off the lock.
func (s *Store) pack(c *content) {
	s.mu.Lock()
	raw, done := c.raw, c.packed != nil || c.refs == 0
	s.mu.Unlock()
	if !done {
		s.packed(c, s.codec.Pack(raw))
	}
}

// packed stores the compressed form of a content, unless it is too late.
func (s *Store) packed(c *content, packed []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.packed != nil || c.refs == 0 {
		return
	}
	s.rawBytes -= int64(len(c.raw))
	s.bytes += int64(len(packed))
	c.raw, c.packed = nil, packed
	s.evictLocked()
}
