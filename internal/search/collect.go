package search

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// collector keeps the first results by path, and counts all.
type collector struct {
	limit int

	bound     atomic.Pointer[string] // files behind this one are not among the first
	matches   atomic.Int64
	uncounted atomic.Bool // some files were left out, since they are behind the bound

	mu   sync.Mutex
	kept []found // guarded by mu
	size int     // matches in kept
}

// found is what one file gave.
type found struct {
	file    string
	matches []Match
}

// wants reports whether matches in file may be among the first.
func (c *collector) wants(file string) bool {
	bound := c.bound.Load()
	return bound == nil || file <= *bound
}

// wantsBelow is wants for everything in a directory.
func (c *collector) wantsBelow(dir string) bool {
	bound := c.bound.Load()
	return bound == nil || dir == "." || dir+"/" < *bound
}

// most is how many matches of one file can be of use: one more than may be
// returned tells that there are more.
func (c *collector) most() int { return c.limit + 1 }

// add takes what a file gave, which has count matches in all.
func (c *collector) add(f found, count int) {
	c.matches.Add(int64(count))
	if len(f.matches) == 0 || !c.wants(f.file) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(c.kept, f)
	c.size += len(f.matches)
	if c.size >= 2*c.most() || c.size >= c.most() && c.bound.Load() == nil {
		c.tightenLocked()
	}
}

// tightenLocked drops what is not among the first, and one more.
func (c *collector) tightenLocked() {
	c.sortLocked()
	c.size = 0
	for i := range c.kept {
		c.size += len(c.kept[i].matches)
		if c.size >= c.most() {
			clear(c.kept[i+1:])
			c.kept = c.kept[:i+1]
			bound := c.kept[i].file
			c.bound.Store(&bound)
			return
		}
	}
}

func (c *collector) sortLocked() {
	slices.SortFunc(c.kept, func(a, b found) int { return strings.Compare(a.file, b.file) })
}

func (c *collector) total() int { return int(c.matches.Load()) }

// cut returns the first results, their files named with prefix, and whether there
// are more.
func (c *collector) cut(prefix string, maxBytes int) (matches []Match, truncated bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sortLocked()
	bytes := 0
	for _, f := range c.kept {
		for _, m := range f.matches {
			m.File = prefix + f.file
			bytes += m.bytes()
			if len(matches) == c.limit || maxBytes > 0 && bytes > maxBytes && len(matches) > 0 {
				return matches, true
			}
			matches = append(matches, m)
		}
	}
	return matches, false
}

// bytes is about how much of a result a match takes.
func (m *Match) bytes() int {
	const around = 64 // names of the fields
	n := around + len(m.File) + len(m.Text)
	for _, line := range m.Before {
		n += len(line) + 3
	}
	for _, line := range m.After {
		n += len(line) + 3
	}
	return n
}

func slashed(path string) string { return strings.TrimSuffix(filepath.ToSlash(path), "/") }
