// Package ignore reads ignore files as git does: .gitignore in every directory,
// nearer ones first, and .git/info/exclude behind them all.
//
// It is values in, values out: finding and reading the files is left to whoever
// walks the tree. A File and a Rules are immutable and safe for concurrent use.
// Bytes are compared, not characters, as git does.
package ignore

import (
	"bytes"
	"strings"
)

// Verdict is what an ignore file says of a name.
type Verdict uint8

// The verdicts.
const (
	Undecided Verdict = iota // no pattern fits
	Ignored
	Kept // the last pattern that fits begins with !
)

// File is a parsed ignore file. Most patterns are a plain name, a plain path or
// "*.ext"; these are looked up, and only the others are tried one by one.
type File struct {
	fold bool
	size int // patterns

	names map[string]spots // the last component is this
	tails map[string]spots // the last component ends in this, from its last dot on
	paths map[string]spots // the path from the file's directory is this
	other []pattern        // the rest, in order
}

// spots are where a plain pattern stands in the file, last one first, counted
// from 1, for directories only and for everything; negative: it begins with !.
type spots struct{ dir, any int }

// pattern is one that has to be tried.
type pattern struct {
	place    int // from 1
	negated  bool
	dirOnly  bool
	baseOnly bool   // about the last component
	prefix   string // plain text before the first special character
	rest     glob   // what follows it
}

// Parse reads the text of an ignore file. With fold, letters are the same in
// upper and lower case, as on file systems that ignore case.
func Parse(text []byte, fold bool) *File {
	f := &File{fold: fold}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if end := bytes.IndexByte(line, 0); end >= 0 {
			line = line[:end]
		}
		if len(line) > 0 && line[0] != '#' {
			f.add(trimSpaces(string(line)))
		}
	}
	return f
}

// trimSpaces cuts off blanks at the end, unless they are escaped.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			if i++; i == len(line) {
				return line
			}
		}
		end = i + 1
	}
	return line[:end]
}

func (f *File) add(line string) {
	p := pattern{place: f.size + 1}
	line, p.negated = strings.CutPrefix(line, "!")
	plainEnd := strings.IndexAny(line, special)
	if plainEnd < 0 {
		plainEnd = len(line)
	}
	line, p.dirOnly = strings.CutSuffix(line, "/")
	p.baseOnly = strings.IndexByte(line, '/') < 0
	plainEnd = min(plainEnd, len(line))
	if !p.baseOnly && line[0] == '/' {
		line = line[1:]
		plainEnd--
	}
	if line == "" {
		return // it is about nothing
	}
	plain := line // in the case that names are compared in
	if f.fold {
		plain = lower(line)
	}
	f.size++
	switch tail, isTail := strings.CutPrefix(line, "*."); {
	case plainEnd == len(line) && p.baseOnly:
		f.names = keep(f.names, plain, p)
	case plainEnd == len(line):
		f.paths = keep(f.paths, plain, p)
	case p.baseOnly && isTail && !strings.ContainsAny(tail, special+"."):
		f.tails = keep(f.tails, plain[1:], p)
	default:
		p.prefix = plain[:plainEnd]
		var ok bool
		if p.rest, ok = parseGlob(line[plainEnd:], !p.baseOnly, f.fold); ok {
			f.other = append(f.other, p)
		}
	}
}

// special are the characters that are not taken as they are.
const special = `*?[\`

// keep notes where a plain pattern stands; a later one takes its place.
func keep(m map[string]spots, text string, p pattern) map[string]spots {
	if m == nil {
		m = make(map[string]spots)
	}
	at := m[text]
	place := p.place
	if p.negated {
		place = -place
	}
	if p.dirOnly {
		at.dir = place
	} else {
		at.any = place
	}
	m[text] = at
	return m
}

// Empty reports whether the file says nothing about any name.
func (f *File) Empty() bool { return f == nil || f.size == 0 }

// Match says what the file has to say about rel, a path from the directory the
// file stands in (or is about), clean and with slashes. The last pattern that
// fits decides. The directories on the way to rel are not looked at: who is in an
// ignored directory is ignored.
func (f *File) Match(rel string, dir bool) Verdict {
	if f.Empty() {
		return Undecided
	}
	if f.fold {
		rel = lower(rel)
	}
	name := rel[strings.LastIndexByte(rel, '/')+1:]
	best := 0 // place of the last pattern that fits, negative if it is negated
	consider := func(at spots) {
		best = later(best, at.any)
		if dir {
			best = later(best, at.dir)
		}
	}
	if f.names != nil {
		consider(f.names[name])
	}
	if f.paths != nil {
		consider(f.paths[rel])
	}
	if f.tails != nil {
		if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
			consider(f.tails[name[dot:]])
		}
	}
	for i := len(f.other) - 1; i >= 0 && f.other[i].place > max(best, -best); i-- {
		p := &f.other[i]
		if p.dirOnly && !dir {
			continue
		}
		text := rel
		if p.baseOnly {
			text = name
		}
		if rest, ok := strings.CutPrefix(text, p.prefix); ok && p.rest.match(rest) {
			best = p.place
			if p.negated {
				best = -best
			}
			break
		}
	}
	switch {
	case best > 0:
		return Ignored
	case best < 0:
		return Kept
	default:
		return Undecided
	}
}

func later(a, b int) int {
	if max(b, -b) > max(a, -a) {
		return b
	}
	return a
}

// lower is strings.ToLower for ASCII alone: other bytes may be no text.
func lower(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				b[i] = lowerByte(b[i])
			}
			return string(b)
		}
	}
	return s
}

func lowerByte(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c |= 0x20
	}
	return c
}

// Rules are the ignore files that hold at some place of a tree, nearest first.
// nil holds none.
type Rules struct {
	file  *File
	skip  int // bytes of a path up to the directory that file is about
	outer *Rules
}

// With returns the rules inside the directory dir, in which file was found; "."
// is the top of the tree.
func (r *Rules) With(file *File, dir string) *Rules {
	if file.Empty() {
		return r
	}
	skip := 0
	if dir != "." {
		skip = len(dir) + 1
	}
	return &Rules{file: file, skip: skip, outer: r}
}

// Ignored reports whether rel, a path from the top of the tree, is ignored. It
// must lie below the directories of all the rules, and none of the directories it
// lies in is ignored.
func (r *Rules) Ignored(rel string, dir bool) bool {
	for ; r != nil; r = r.outer {
		if v := r.file.Match(rel[r.skip:], dir); v != Undecided {
			return v == Ignored
		}
	}
	return false
}
