package trigram

import (
	"cmp"
	"slices"
	"sync"
)

// Stamp is what a caller knows a version of a file by, such as its times, size
// and number.
type Stamp [4]int64

// Contents keeps texts of files in memory that the collector does not look at,
// within a limit. Those that nobody asked for go first.
//
// Texts are put one behind the other into slabs. When there is no room, the
// oldest slab goes; what was asked for since it was made moves on to the newest.
type Contents struct {
	max int64

	mu    sync.Mutex
	used  int64 // bytes of all slabs, those waiting for readers included
	kept  map[ID]*kept
	slabs []*slab // oldest first; texts go into the last
}

// kept is where a text is.
type kept struct {
	id    ID
	stamp Stamp
	slab  *slab
	text  []byte
	asked bool // since it was put where it is
}

// slab is a piece of memory.
type slab struct {
	mem   []byte
	fill  int
	texts []*kept // some may be gone
	live  int     // those that are not
	users int     // readers, and one while it is among slabs
}

const slabSize = 1 << 20

// NewContents returns an empty store of at most limit bytes; 0 means 128 MB, and
// less than 0 that nothing is kept.
func NewContents(limit int64) *Contents {
	return &Contents{max: cmp.Or(limit, defaultBytes), kept: make(map[ID]*kept)}
}

// View is a text that is kept. It stays until Release.
type View struct {
	Text []byte
	slab *slab
	c    *Contents
}

// Release ends the use of Text. It is called once.
func (v View) Release() {
	v.c.mu.Lock()
	defer v.c.mu.Unlock()
	v.c.leaveLocked(v.slab)
}

// Get returns the text of a file if that version of it is kept.
func (c *Contents) Get(id ID, stamp Stamp) (View, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kept[id]
	if k == nil || k.stamp != stamp {
		return View{}, false
	}
	k.asked = true
	k.slab.users++
	return View{Text: k.text, slab: k.slab, c: c}, true
}

// Keep copies the text of a file, in place of any other version, and reports
// whether there was room.
func (c *Contents) Keep(id ID, stamp Stamp, text []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked(id)
	return c.putLocked(id, stamp, text)
}

// Remove forgets a file.
func (c *Contents) Remove(id ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked(id)
}

// Drop forgets all files.
func (c *Contents) Drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.slabs {
		c.leaveLocked(s)
	}
	c.slabs = nil
	clear(c.kept)
}

// Bytes returns how much memory the texts take.
func (c *Contents) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

func (c *Contents) putLocked(id ID, stamp Stamp, text []byte) bool {
	s := c.roomLocked(len(text))
	if s == nil {
		return false
	}
	from := s.fill
	s.fill += copy(s.mem[from:], text)
	k := &kept{id: id, stamp: stamp, slab: s, text: s.mem[from:s.fill:s.fill]}
	s.texts = append(s.texts, k)
	s.live++
	c.kept[id] = k
	return true
}

// roomLocked returns a slab with room for n bytes, or nil.
func (c *Contents) roomLocked(n int) *slab {
	if len(c.slabs) > 0 {
		if s := c.slabs[len(c.slabs)-1]; len(s.mem)-s.fill >= n {
			return s
		}
	}
	size := max(n, slabSize)
	if int64(size) > c.max/2 {
		return nil
	}
	var saved []*kept
	for c.used+int64(size) > c.max {
		if len(c.slabs) == 0 {
			return nil // the rest is in use by readers
		}
		saved = c.evictLocked(saved)
	}
	mem, err := allocate(size)
	if err != nil {
		return nil
	}
	s := &slab{mem: mem, users: 1}
	c.slabs = append(c.slabs, s)
	c.used += int64(size)
	for _, k := range saved {
		if len(s.mem)-s.fill-n >= len(k.text) {
			c.putLocked(k.id, k.stamp, k.text)
		}
	}
	return s
}

// maxSaved is how much of what goes may move on: less than it makes room for.
const maxSaved = slabSize / 2

// evictLocked gives the oldest slab up and adds copies of what was asked for in
// it to saved.
func (c *Contents) evictLocked(saved []*kept) []*kept {
	size := 0
	for _, k := range saved {
		size += len(k.text)
	}
	s := c.slabs[0]
	c.slabs = c.slabs[1:]
	for _, k := range s.texts {
		if c.kept[k.id] != k {
			continue
		}
		delete(c.kept, k.id)
		if k.asked && size+len(k.text) <= maxSaved {
			size += len(k.text)
			saved = append(saved, &kept{id: k.id, stamp: k.stamp, text: slices.Clone(k.text)})
		}
	}
	c.leaveLocked(s)
	return saved
}

// forgetLocked takes a file out. A slab without any goes, too.
func (c *Contents) forgetLocked(id ID) {
	k := c.kept[id]
	if k == nil {
		return
	}
	delete(c.kept, id)
	if k.slab.live--; k.slab.live == 0 {
		c.slabs = slices.DeleteFunc(c.slabs, func(s *slab) bool { return s == k.slab })
		c.leaveLocked(k.slab)
	}
}

// leaveLocked is one user less of a slab. The last one frees it.
func (c *Contents) leaveLocked(s *slab) {
	if s.users--; s.users == 0 {
		c.used -= int64(len(s.mem))
		free(s.mem)
		s.mem = nil
	}
}
