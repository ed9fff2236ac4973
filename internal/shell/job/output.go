package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
)

const (
	headBytes = 64 << 10 // of a stream's beginning, in memory
	tailBytes = 64 << 10 // of its end
	lineRunes = 200      // of the last line, for people who wait
)

// Cursor is a place in the output of a job: bytes of each stream.
type Cursor struct{ Stdout, Stderr int64 }

// String returns the cursor as clients get it.
func (c Cursor) String() string { return fmt.Sprintf("%d.%d", c.Stdout, c.Stderr) }

// ParseCursor reads what String wrote; "" is the beginning.
func ParseCursor(s string) (Cursor, error) {
	if s == "" {
		return Cursor{}, nil
	}
	a, b, _ := strings.Cut(s, ".")
	out, err1 := strconv.ParseUint(a, 10, 63)
	errs, err2 := strconv.ParseUint(b, 10, 63)
	if err1 != nil || err2 != nil {
		return Cursor{}, fault.New(fault.ValidationError, "cursor %q is none of ours; use the one that an earlier answer gave", s)
	}
	return Cursor{int64(out), int64(errs)}, nil
}

// Text is a part of one stream, as valid UTF-8.
type Text struct {
	Text      string
	Total     int64 // bytes of the whole stream so far
	Omitted   int64 // bytes that Text leaves out inside of what it covers
	Truncated bool  // Text is not the whole stream, or the rest of it
	Repaired  bool  // bytes that are not UTF-8 were replaced
	Lost      int64 // bytes of the stream that are kept nowhere
}

// Output is a part of both streams of a job.
type Output struct {
	Stdout, Stderr Text
	Next           Cursor // where to go on
}

// Output returns what a job printed from a place on, up to limit bytes of each
// stream, and where to go on. Bytes that are kept nowhere are left out.
func (r *Registry) Output(ctx context.Context, in Scope, id string, from Cursor, limit int) (Output, error) {
	j, err := r.lookup(ctx, in, id)
	if err != nil {
		return Output{}, err
	}
	var o Output
	o.Stdout, o.Next.Stdout = j.stdout.page(from.Stdout, limit)
	o.Stderr, o.Next.Stderr = j.stderr.page(from.Stderr, limit)
	return o, nil
}

// Result returns what a job printed so far: all of it, or the beginning and the
// end of what is longer than limit bytes.
func (r *Registry) Result(ctx context.Context, in Scope, id string, limit int) (Output, error) {
	j, err := r.lookup(ctx, in, id)
	if err != nil {
		return Output{}, err
	}
	var o Output
	o.Stdout, o.Next.Stdout = j.stdout.whole(limit)
	o.Stderr, o.Next.Stderr = j.stderr.whole(limit)
	return o, nil
}

// stream takes what a process prints. It has one writer and any number of
// readers.
//
//	0 ── head ──▶ headBytes ── file ──▶ up to cap   …   ── tail ──▶ total
type stream struct {
	notify func()                   // there is more
	create func() (*os.File, error) // makes the file
	cap    int64                    // of the file

	// The writer's alone.
	file  *os.File
	stuck bool // the file takes no more

	mu      sync.Mutex // guards all below
	head    []byte
	spooled int64    // bytes in the file
	read    *os.File // the file, once something is in it
	ring    []byte   // the end, of what is not in head; circular when full
	at      int      // where the next byte goes in a full ring
	total   int64
	closed  bool
}

// Write takes more output. It never fails.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	n := min(len(p), headBytes-len(s.head))
	s.head = append(s.head, p[:n]...)
	s.total += int64(n)
	s.mu.Unlock()
	if rest := p[n:]; len(rest) > 0 {
		written := s.toFile(rest) // without the lock: readers need not wait for a disk
		s.mu.Lock()
		s.read = s.file
		s.spooled += written
		s.push(rest)
		s.total += int64(len(rest))
		s.mu.Unlock()
	}
	s.notify()
	return len(p), nil
}

// toFile appends to the file, within its cap, and returns how much it took. A
// file that cannot be written takes nothing any more.
func (s *stream) toFile(p []byte) int64 {
	if s.stuck || s.cap <= 0 {
		return 0
	}
	if s.file == nil {
		var err error
		if s.file, err = s.create(); err != nil || s.file == nil {
			s.stuck = true
			return 0
		}
	}
	if room := s.cap - s.spooled; int64(len(p)) >= room {
		p, s.stuck = p[:room], true
	}
	n, err := s.file.WriteAt(p, s.spooled)
	s.stuck = s.stuck || err != nil
	return int64(n)
}

// push puts bytes into the ring.
func (s *stream) push(p []byte) {
	if len(p) >= tailBytes {
		s.ring = append(s.ring[:0], p[len(p)-tailBytes:]...)
		s.at = 0
		return
	}
	n := min(len(p), tailBytes-len(s.ring))
	s.ring = append(s.ring, p[:n]...)
	for p = p[n:]; len(p) > 0; p = p[n:] {
		n = copy(s.ring[s.at:], p)
		s.at = (s.at + n) % tailBytes
	}
}

// tail returns a copy of the end.
func (s *stream) tail() []byte {
	if len(s.ring) < tailBytes {
		return bytes.Clone(s.ring)
	}
	return append(bytes.Clone(s.ring[s.at:]), s.ring[:s.at]...)
}

// close says that no more output comes.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// remove forgets the file.
func (s *stream) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read != nil {
		_ = s.read.Close()           // nothing is lost that is wanted
		_ = os.Remove(s.read.Name()) // the sweep finds what is left
		s.read, s.spooled = nil, 0
	}
}

func (s *stream) size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// view is a stream as it was at one moment.
type view struct {
	head, tail []byte
	file       *os.File
	spooled    int64
	total      int64
	closed     bool
}

func (s *stream) view() view {
	s.mu.Lock()
	defer s.mu.Unlock()
	// What is in head stays as it is: more is only appended.
	return view{s.head, s.tail(), s.read, s.spooled, s.total, s.closed}
}

// lost returns how many bytes are kept nowhere.
func (v view) lost() int64 {
	return max(0, v.total-int64(len(v.tail))-v.spooled-int64(len(v.head)))
}

// slice returns up to n bytes from a place on, and where they really begin: past
// what is kept nowhere.
func (v view) slice(from int64, n int) (b []byte, at int64) {
	head := int64(len(v.head))
	tail := v.total - int64(len(v.tail)) // where the tail begins
	from = min(max(from, 0), v.total)
	for at = from; len(b) < n && from < v.total; {
		var part []byte
		switch {
		case from < head:
			part = v.head[from:]
		case from >= tail:
			part = v.tail[from-tail:]
		case from < head+v.spooled:
			part = make([]byte, min(int64(n-len(b)), head+v.spooled-from, tail-from))
			got, err := v.file.ReadAt(part, from-head)
			if part = part[:got]; err != nil && got == 0 {
				v.spooled = from - head // the file is gone: go on behind it
				continue
			}
		case len(b) > 0:
			return b, at // up to the gap
		default:
			from, at = tail, tail
			continue
		}
		part = part[:min(len(part), n-len(b))]
		b = append(b, part...)
		from += int64(len(part))
	}
	return b, at
}

// page returns text from a place on and where to go on. A character is not split.
func (s *stream) page(from int64, limit int) (t Text, next int64) {
	v := s.view()
	t.Total, t.Lost = v.total, v.lost()
	b, at := v.slice(from, max(limit, utf8.UTFMax))
	next = at + int64(len(b))
	rest := v.total - next
	if rest > 0 || !v.closed {
		whole := wholeRunes(b)
		next -= int64(len(b) - len(whole)) // what is left of it comes
		b = whole
	}
	if skipped := at - max(from, 0); skipped > 0 {
		t.Omitted = skipped
		b = afterRune(b)
	}
	t.Truncated = t.Omitted > 0 || rest > 0
	t.Text, t.Repaired = repair(b)
	return t, next
}

// whole returns the stream, or its beginning and end when it is longer, and where
// that ends: before a character of which the rest is still to come.
func (s *stream) whole(limit int) (t Text, next int64) {
	limit = max(limit, 2*utf8.UTFMax)
	v := s.view()
	t.Total, t.Lost = v.total, v.lost()
	if v.total <= int64(limit) && t.Lost == 0 {
		b, _ := v.slice(0, limit)
		b = v.settled(b)
		t.Text, t.Repaired = repair(b)
		return t, int64(len(b))
	}
	first, _ := v.slice(0, limit/2)
	first = wholeRunes(first)
	last, _ := v.slice(max(v.total-int64(limit/2), int64(len(first))), limit/2)
	cut := len(last)
	last = v.settled(last)
	next = v.total - int64(cut-len(last))
	last = afterRune(last)
	t.Omitted = next - int64(len(first)) - int64(len(last))
	t.Truncated = true
	a, bad1 := repair(first)
	z, bad2 := repair(last)
	t.Text = fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", a, t.Omitted, z)
	t.Repaired = bad1 || bad2
	return t, next
}

// settled cuts off a character at the end of a stream that is still written, if
// the rest of it may come.
func (v view) settled(b []byte) []byte {
	if v.closed {
		return b
	}
	return wholeRunes(b)
}

// lastLine returns the last line that says something, for people who wait.
func (s *stream) lastLine() string {
	const enough = 4 * lineRunes * utf8.UTFMax
	v := s.view()
	b, _ := v.slice(v.total-enough, enough)
	text, _ := repair(afterRune(b))
	text = strings.TrimRightFunc(text, unicode.IsSpace)
	if i := strings.LastIndexAny(text, "\r\n"); i >= 0 {
		text = text[i+1:]
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
	if r := []rune(text); len(r) > lineRunes {
		text = string(r[:lineRunes]) + "…"
	}
	return text
}

// wholeRunes cuts off a character that b ends within.
func wholeRunes(b []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax-1, len(b)); i++ {
		c := b[len(b)-i]
		if utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// afterRune cuts off the rest of a character that b begins within.
func afterRune(b []byte) []byte {
	for i := range min(utf8.UTFMax-1, len(b)) {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

// repair makes valid UTF-8 of b, and reports whether it was not.
func repair(b []byte) (string, bool) {
	if utf8.Valid(b) {
		return string(b), false
	}
	return string(bytes.ToValidUTF8(b, []byte(string(utf8.RuneError)))), true
}

// spool makes a file for the output of a job, for the owner alone.
func (r *Registry) spool(name string) (*os.File, error) {
	if r.opts.SpoolDir == "" {
		return nil, errors.New("no place to spool to")
	}
	f, err := openSpool(r.opts.SpoolDir, r.owner, name)
	if err != nil {
		r.log.Warn("output is kept in memory alone", "file", name, "error", err)
	}
	return f, err
}
