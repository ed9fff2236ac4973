package search

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/pattern"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search/linematch"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search/trigram"
)

const (
	// longLine is how many bytes of a line are shown.
	longLine = 500
	// beforeHit is how many of them stand before a hit that is further behind.
	beforeHit = 120
	// binaryHead is how far a file is looked at for a NUL, which text has not.
	binaryHead = 64 << 10
)

// worker searches files, one after the other, with memory of its own.
type worker struct {
	*search
	lines *linematch.Scanner
	buf   *[]byte
	keep  *job // the file that is read, if its text is worth keeping
}

func (s *search) worker() *worker {
	return &worker{search: s, lines: s.query.Scanner(), buf: s.buffers.Get().(*[]byte)}
}

func (w *worker) close() {
	w.lines.Close()
	w.buffers.Put(w.buf)
}

// file searches one file that the rules allow.
func (w *worker) file(d *fsys.Dir, name, rel string) error {
	wanted := w.out.wants(rel)
	if !wanted && w.counted() {
		w.out.uncounted.Store(true)
		return nil
	}
	data, stamp, err := d.ReadFile(name, *w.buf, min(smallFile, w.scope.Limits.MaxFileSize))
	if errors.Is(err, fsys.ErrTooLarge) && w.scope.Limits.MaxFileSize > smallFile {
		select { // the memory that large files take is bounded for all searches together
		case w.large <- struct{}{}:
			defer func() { <-w.large }()
		case <-w.over:
			w.cut.Store(true)
			return nil
		}
		data, stamp, err = d.ReadFile(name, nil, w.scope.Limits.MaxFileSize)
	} else if err == nil && cap(data) > cap(*w.buf) {
		*w.buf = data[:0]
	}
	if err != nil {
		if errors.Is(err, fsys.ErrTooLarge) {
			w.skipped.tooLarge.Add(1)
		}
		return err
	}
	if w.keep != nil {
		w.keepText(w.keep, data, stamp)
	}
	w.text(rel, data, wanted)
	return nil
}

// outcome is what the text of one file gave.
type outcome struct {
	found
	count     int
	skip      *atomic.Int64 // counts why it was not searched; nil: it was
	slow, cut bool          // not all of it was, since the pattern took too long, or the time was over
}

// text searches what a file holds.
func (w *worker) text(rel string, data []byte, wanted bool) {
	if isBinary(data) {
		w.skipped.binary.Add(1)
		return
	}
	w.take(w.look(rel, data, nil, wanted))
}

// look searches a text as far as a reader may see it; of one that nothing is
// hidden of, only the given parts, if any are given.
func (w *worker) look(rel string, data []byte, parts []trigram.Chunk, wanted bool) (o outcome) {
	o.file = rel
	if w.scope.Redacts {
		// What is hidden must not be found either: that a pattern fits tells of it.
		v := w.scope.Content.ScanAs(string(data), data)
		if v.Denied != nil {
			o.skip = &w.skipped.denied
			return o
		}
		if len(v.Hidden) > 0 {
			data = []byte(v.Text)
		}
		parts = nil
	}
	var err error
	o.count, err = w.matches(&o.found, withoutMark(data), parts, wanted)
	o.slow, o.cut = errors.Is(err, pattern.ErrTimeout), errors.Is(err, linematch.ErrStopped)
	if o.count > 0 {
		switch w.req.Mode {
		case Files:
			o.matches = []Match{{}}
		case Count:
			o.matches = []Match{{Count: o.count}}
		case Content: // they are there
		}
	}
	return o
}

// take adds what a file gave to the result.
func (w *worker) take(o outcome) {
	if o.skip != nil {
		o.skip.Add(1)
		return
	}
	w.files.Add(1)
	if o.slow {
		w.skipped.tooSlow.Add(1)
	}
	if o.cut {
		w.cut.Store(true)
	}
	if o.count > 0 {
		w.out.add(o.found, o.count)
	}
}

// withoutMark returns a text without its byte order mark.
func withoutMark(data []byte) []byte { return bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) }

func isBinary(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), binaryHead)], 0) >= 0
}

// matches goes through the lines of parts of a text, or all of it, that match,
// keeps those that are wanted, and counts all; where only files are asked for, the
// first is enough.
func (w *worker) matches(f *found, text []byte, parts []trigram.Chunk, wanted bool) (count int, err error) {
	if parts == nil {
		return w.matchesIn(f, text, trigram.Chunk{End: len(text)}, wanted)
	}
	for _, part := range parts {
		n, err := w.matchesIn(f, text, part, wanted)
		count += n
		if err != nil || w.req.Mode == Files && n > 0 {
			return count, err
		}
	}
	return count, nil
}

func (w *worker) matchesIn(f *found, text []byte, part trigram.Chunk, wanted bool) (count int, err error) {
	lines := text[part.Start:part.End]
	w.lines.Reset(lines, w.over)
	if w.req.Mode == Files {
		if _, ok := w.lines.Next(); ok {
			return 1, nil
		}
		return 0, w.lines.Err()
	}
	before := len(f.matches)
	if wanted && w.req.Mode == Content {
		number, numbered := part.Line+1, 0 // the line that begins at numbered
		for len(f.matches) < w.out.most() {
			line, ok := w.lines.Next()
			if !ok {
				return len(f.matches) - before, w.lines.Err()
			}
			number += bytes.Count(lines[numbered:line.Start], newline)
			numbered = line.Start
			at := linematch.Span{Start: part.Start + line.Start, End: part.Start + line.End}
			f.matches = append(f.matches, w.match(text, at, number))
		}
	}
	return len(f.matches) - before + w.lines.Count(), w.lines.Err()
}

var newline = []byte("\n")

// match shows a line, with the lines around it.
func (w *worker) match(text []byte, at linematch.Span, number int) Match {
	m := Match{Line: number}
	m.Text, m.Cut = w.show(bytes.TrimSuffix(text[at.Start:at.End], []byte("\r")))
	if w.req.ContextLines == 0 {
		return m
	}
	m.Before, m.After = []string{}, []string{}
	for end := at.Start - 1; end >= 0 && len(m.Before) < w.req.ContextLines; {
		start := bytes.LastIndexByte(text[:end], '\n') + 1
		m.Before = append(m.Before, shorten(text[start:end]))
		end = start - 1
	}
	slices.Reverse(m.Before)
	for start := at.End + 1; start < len(text) && len(m.After) < w.req.ContextLines; {
		line, _, _ := bytes.Cut(text[start:], newline)
		m.After = append(m.After, shorten(line))
		start += len(line) + 1
	}
	return m
}

// show returns a line, or of a long one the part around the first hit.
func (w *worker) show(line []byte) (text string, cut bool) {
	if len(line) <= longLine {
		return valid(line), false
	}
	from := 0
	if w.stopped() {
		return window(line, 0, longLine), true
	}
	if hit, err := w.lines.Spans(line, 1); err == nil && len(hit) > 0 {
		from = min(max(0, hit[0].Start-beforeHit), len(line)-longLine)
	}
	return window(line, from, from+longLine), true
}

// shorten is show for a line without a hit.
func shorten(line []byte) string {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) <= longLine {
		return valid(line)
	}
	return window(line, 0, longLine)
}

// window returns the characters of line between two places, and marks where it is
// cut.
func window(line []byte, from, to int) string {
	for from > 0 && from < to && !utf8.RuneStart(line[from]) {
		from++
	}
	for to > from && to < len(line) && !utf8.RuneStart(line[to]) {
		to--
	}
	text := valid(line[from:to])
	if from > 0 {
		text = "…" + text
	}
	if to < len(line) {
		text += "…"
	}
	return text
}

// valid returns bytes as text; what is no UTF-8 is shown as U+FFFD.
func valid(line []byte) string { return strings.ToValidUTF8(string(line), "\uFFFD") }
