package patch

import (
	"bytes"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/async-crud-mcp/async-crud-mcp/internal/files/diff"
)

const (
	searchBudget = 32 << 20 // steps of all searches of a call together
	maxWanted    = 1 << 10  // bytes of the wanted text that are looked for
	maxPlaces    = 5        // places that are compared with it
	minAlike     = 0.5      // the least similarity worth telling
	maxShown     = 400      // bytes of a match that are shown
	maxShownRows = 10       // lines of a match that are shown
)

// Match is a part of a text that is like what was looked for.
type Match struct {
	Line, EndLine int     // in the text before the edits
	Text          string  // these lines, or some of them
	Truncated     bool    // there is more to them
	Similarity    float64 // from 0, nothing in common, to 1, equal
}

// nearest returns the lines of the text that are most like what is wanted; hint,
// unless empty, is a part in which they may well be. It returns nil when nothing
// is much like it, and when the budget is used up.
func (ed *editor) nearest(wanted string, hint span, budget *int) *Match {
	wanted = wanted[:min(len(wanted), maxWanted)]
	if *budget -= len(ed.text); *budget < 0 {
		return nil
	}
	var best span
	alike := 0.0
	for _, p := range candidates(ed.text, scan(ed.text, wanted), hint, wanted) {
		if *budget -= p.len() * len(wanted) / 2; *budget < 0 {
			break
		}
		if a := similarity([]byte(wanted), ed.text[p.from:p.to]); a > alike {
			best, alike = p, a
		}
	}
	if alike < minAlike {
		return nil
	}
	lines := wholeLinesOf(ed.text, best)
	m := &Match{Line: ed.lineAt(lines.from), EndLine: ed.lineAt(lines.to - 1), Similarity: alike}
	if best.from-lines.from > maxShown {
		lines.from = best.from
		m.Truncated = true
	}
	shown := excerpt(ed.text[lines.from:lines.to])
	m.Truncated = m.Truncated || len(shown) < lines.len()
	m.Text = strings.TrimSuffix(string(shown), "\n")
	return m
}

// candidates returns the parts of the text that are worth a comparison with what
// is wanted: the places themselves, and as many lines as it has around each.
func candidates(text []byte, places []span, hint span, wanted string) []span {
	if hint.len() > 0 {
		places = append(places, hint)
	}
	rows := strings.Count(strings.TrimSuffix(wanted, "\n"), "\n") + 1
	var out []span
	add := func(s span) {
		if s.len() > 0 && s.len() <= 2*len(wanted)+maxShown && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	for _, p := range places {
		add(p)
		from := wholeLinesOf(text, p).from
		from = bytes.LastIndexByte(text[:max(from-1, 0)], '\n') + 1
		for range 4 {
			to := from
			for range rows {
				to = lineEnd(text, to)
			}
			add(span{from, to})
			from = lineEnd(text, from)
		}
	}
	return out
}

// wholeLinesOf widens a part of the text to the lines it is in.
func wholeLinesOf(text []byte, s span) span {
	return span{bytes.LastIndexByte(text[:s.from], '\n') + 1, lineEnd(text, max(s.to-1, s.from))}
}

// excerpt returns the beginning of text, without half a character at the ends.
func excerpt(text []byte) []byte {
	for i := 0; i < utf8.UTFMax && i < len(text); i++ {
		if utf8.RuneStart(text[i]) {
			text = text[i:]
			break
		}
	}
	end := 0
	for range maxShownRows {
		end = lineEnd(text, end)
	}
	if end > maxShown {
		for end = maxShown; end > maxShown-utf8.UTFMax && !utf8.RuneStart(text[end]); {
			end--
		}
	}
	return text[:end]
}

// scan returns parts of the text that are about as long as what is wanted and
// have most groups of three letters in common with it, spaces aside. It looks at
// every byte once.
func scan(text []byte, wanted string) []span {
	letters := strings.Join(strings.Fields(wanted), "")
	size := len(letters) - 2 // of the window, in groups
	if size < 1 {
		return nil
	}
	var set [1 << 10]uint64 // of the groups in wanted, by hash
	for i := range size {
		h := group(uint32(letters[i])<<16 | uint32(letters[i+1])<<8 | uint32(letters[i+2]))
		set[h/64] |= 1 << (h % 64)
	}
	// The window is a ring: whether a group is wanted, and where it begins.
	var hit [maxWanted]bool
	var from [maxWanted]int
	var last uint32 // three letters
	var at [3]int   // where they stand
	var best top
	letter, n, hits := 0, 0, 0
	for i, c := range text {
		if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
			continue
		}
		last = last<<8&0xffffff | uint32(c)
		at = [3]int{at[1], at[2], i}
		if letter++; letter < len(at) {
			continue
		}
		slot := n % size
		if n >= size && hit[slot] {
			hits--
		}
		h := group(last)
		hit[slot], from[slot] = set[h/64]&(1<<(h%64)) != 0, at[0]
		if hit[slot] {
			hits++
		}
		n++
		oldest := 0
		if n > size {
			oldest = n % size
		}
		best.see(n/size, hits, span{from[oldest], i + 1})
	}
	return best.places()
}

// group hashes three letters to 16 bits.
func group(letters uint32) uint32 { return letters * 0x9e3779b1 >> 16 }

// top keeps the best windows, at most one of each block of the text.
type top struct {
	list  []window // by falling hits, without the current block
	block int
	best  window // of the current block
}

type window struct {
	hits int
	span
}

func (t *top) see(block, hits int, s span) {
	if block != t.block {
		t.keep()
		t.block, t.best = block, window{}
	}
	if hits > t.best.hits {
		t.best = window{hits, s}
	}
}

func (t *top) keep() {
	if t.best.hits == 0 || len(t.list) == maxPlaces && t.list[maxPlaces-1].hits >= t.best.hits {
		return
	}
	i := sort.Search(len(t.list), func(i int) bool { return t.list[i].hits < t.best.hits })
	t.list = slices.Insert(t.list, i, t.best)
	t.list = t.list[:min(len(t.list), maxPlaces)]
}

func (t *top) places() []span {
	t.keep()
	var out []span
	for _, w := range t.list {
		out = append(out, w.span)
	}
	return out
}

// similarity is the share of the two texts that they have in common.
func similarity(a, b []byte) float64 {
	common, at := 0, 0
	for _, h := range diff.Lines(a, b).Hunks() {
		common += h.Old.Byte - at + subsequence(h.Old.Of(a), h.New.Of(b))
		at = h.Old.ByteEnd
	}
	common += len(a) - at
	return 2 * float64(common) / float64(len(a)+len(b))
}

// subsequence is the length of the longest common subsequence.
func subsequence(a, b []byte) int {
	row := make([]int32, len(b)+1)
	for _, x := range a {
		diagonal := int32(0)
		for j, y := range b {
			above := row[j+1]
			if x == y {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	return int(row[len(b)])
}
