package access

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/async-crud-mcp/async-crud-mcp/internal/pattern"
)

// A marker stands in a text for hidden content: [[REDACTED:name]] with the name of
// the rule, or what of it is letters, digits and ._-. Each line that loses content
// has one, and no line is lost, so that lines have the same numbers in the file and
// in what a reader sees.
const (
	markerBegin = "[[REDACTED:"
	markerEnd   = "]]"
)

// maxMarkers bounds the places and lines that are redacted in one text. A text
// with more is denied: it is all secrets, or made to exhaust us.
const maxMarkers = 50_000

// ContentRule denies or redacts text that a pattern matches.
type ContentRule struct {
	Name     string
	Pattern  string
	Action   string // "deny" or "redact"
	Priority int
}

// Content decides about text.
type Content struct {
	rules []contentRule // in the order in which they decide
}

type contentRule struct {
	name     string
	marker   string
	re       *pattern.Regexp
	deny     bool
	priority int
}

// Verdict is what Content says of a text.
type Verdict struct {
	// Denied says that the text must not be shown or written; nil if it may.
	Denied *Denial
	// Text is the text with markers in place of what is hidden; "" if denied.
	Text string
	// Hidden are the parts of the text as it was given that markers stand for,
	// sorted and apart. An edit that touches one changes what its author cannot
	// see, and whether it fits tells what is there; see Touches.
	Hidden []Hidden
}

// Denial says why. It holds no content.
type Denial struct {
	Rule   string
	Line   int // of the first hit, counted from 1; 0 if there is no saying
	Reason string
}

// Hidden is a part of a text that is not shown.
type Hidden struct {
	Start, End int // in bytes
	Rule       string
	Line       int // where it begins, counted from 1
	Lines      int // how many lines it is on
}

// Touches reports whether the bytes from start up to end have a part in what is
// hidden. An empty part touches only what it lies inside of.
func (v Verdict) Touches(start, end int) bool {
	i, _ := slices.BinarySearchFunc(v.Hidden, start, func(h Hidden, at int) int {
		if h.End <= at {
			return -1
		}
		return 1
	})
	if i == len(v.Hidden) {
		return false
	}
	h := v.Hidden[i]
	return h.Start < end || h.Start < start
}

// HasMarkers reports whether text holds what looks like a marker.
func HasMarkers(text string) bool { return strings.Contains(text, markerBegin) }

// AddsMarkers reports whether after holds more markers than before: text that a
// reader got with markers in it would be written back over what they stand for.
func AddsMarkers(before, after string) bool {
	return strings.Count(after, markerBegin) > strings.Count(before, markerBegin)
}

// NewContent compiles the rules. The error names every rule that does not hold.
func NewContent(rules []ContentRule) (*Content, error) {
	c := &Content{}
	var errs []error
	for i, in := range rules {
		name := cmp.Or(in.Name, fmt.Sprintf("rule-%d", i+1))
		re, err := pattern.Compile(in.Pattern)
		switch {
		case err != nil:
		case in.Action != "deny" && in.Action != "redact":
			err = fmt.Errorf("%q is not an action; it is deny or redact", in.Action)
		default:
			if empty, timeout := re.Match(""); empty || timeout != nil {
				err = fmt.Errorf("pattern %q fits the empty text, and so every text; make it ask for at least one character", in.Pattern)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("content rule %d (%s): %w", i+1, name, err))
			continue
		}
		c.rules = append(c.rules, contentRule{name, marker(name), re, in.Action == "deny", in.Priority})
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	slices.SortStableFunc(c.rules, func(a, b contentRule) int {
		if d := cmp.Compare(b.priority, a.priority); d != 0 || a.deny == b.deny {
			return d
		}
		if a.deny {
			return -1
		}
		return 1
	})
	return c, nil
}

func marker(name string) string {
	safe := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (r == '.' || r == '_' || r == '-' || r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z') {
			return r
		}
		return '-'
	}, name)
	return markerBegin + safe[:min(len(safe), 64)] + markerEnd
}

// Scan judges text. Rules go by priority, and among equals those that deny come
// first. A rule that denies does so if it fits anywhere but inside what a rule
// before it hides. A pattern that takes too long denies, whatever its action.
func (c *Content) Scan(text string) Verdict {
	v, _ := c.scan(text)
	return v
}

// ScanAs judges text that was read out of raw in some encoding. In the wrong
// encoding a secret looks like something else, and could be turned back by its
// reader. So a rule that fits in the bytes as they are, or without the NULs of
// UTF-16, in more places than in the text, denies.
func (c *Content) ScanAs(text string, raw []byte) Verdict {
	v, hits := c.scan(text)
	if v.Denied != nil || len(c.rules) == 0 {
		return v
	}
	for _, other := range views(text, raw) {
		for i := range c.rules {
			r := &c.rules[i]
			found, err := r.re.FindAll(other, maxMarkers+1)
			if err != nil {
				return denied(r, 0, tooLong)
			}
			if len(found) > hits[i] {
				return denied(r, 0, "covers content that this encoding shows in another form; read the file in its own encoding")
			}
		}
	}
	return v
}

// ScanBytes judges bytes that are handed out as they are, such as a binary file.
// Nothing can be redacted there, so every rule that fits denies.
func (c *Content) ScanBytes(raw []byte) *Denial {
	if len(c.rules) == 0 {
		return nil
	}
	plain := string(raw)
	for _, view := range append(views(plain, raw), plain) {
		for i := range c.rules {
			r := &c.rules[i]
			found, err := r.re.FindAll(view, 1)
			if err != nil {
				return denied(r, 0, tooLong).Denied
			}
			if len(found) > 0 {
				return denied(r, 0, "covers content of these bytes").Denied
			}
		}
	}
	return nil
}

// views returns other readings of raw than text: as it is, as Latin-1 if it is not
// UTF-8, and without NULs, which is how UTF-16 and UTF-32 write plain letters.
func views(text string, raw []byte) []string {
	plain := string(raw)
	var all []string
	if len(plain)-len(text) > 3 || !strings.HasSuffix(plain, text) { // more than a byte order mark
		all = append(all, plain)
	}
	if !utf8.ValidString(plain) {
		runes := make([]byte, 0, len(raw)+len(raw)/2)
		for _, b := range raw {
			runes = utf8.AppendRune(runes, rune(b))
		}
		if latin := string(runes); latin != text {
			all = append(all, latin)
		}
	}
	if strings.IndexByte(plain, 0) >= 0 {
		all = append(all, strings.ReplaceAll(plain, "\x00", ""))
	}
	return all
}

const (
	tooLong = "took too long on this content, which is refused to be safe"
	tooMuch = "hides too much of this content to show the rest"
)

func denied(r *contentRule, line int, why string) Verdict {
	reason := fmt.Sprintf("the content rule %s %s", r.name, why)
	if line > 0 {
		reason = fmt.Sprintf("%s (line %d)", reason, line)
	}
	return Verdict{Denied: &Denial{r.name, line, reason}}
}

// scan returns the verdict and in how many places each rule fits, as far as it
// was asked.
func (c *Content) scan(text string) (Verdict, []int) {
	var spans []hiding
	hits := make([]int, len(c.rules))
	for i := range c.rules {
		r := &c.rules[i]
		limit := maxMarkers + 1
		if r.deny && len(spans) == 0 {
			limit = 1 // the first hit decides
		}
		found, err := r.re.FindAll(text, limit)
		if err != nil {
			return denied(r, 0, tooLong), nil
		}
		hits[i] = len(found)
		if r.deny {
			for _, h := range found {
				if !covered(spans, h) {
					return denied(r, lineAt(text, h.Start), "forbids this content"), nil
				}
			}
		}
		if len(found) > maxMarkers {
			return denied(r, 0, tooMuch), nil
		}
		if !r.deny {
			spans = hide(spans, found, i)
		}
	}
	if len(spans) == 0 {
		return Verdict{Text: text}, hits
	}
	return c.redact(text, spans), hits
}

// hiding is a part of a text that a rule hides.
type hiding struct {
	pattern.Span
	rule int
}

// hide adds the finds of a rule to what the rules before it hide. Parts that
// overlap become one, under the name of the first rule.
func hide(spans []hiding, found []pattern.Span, rule int) []hiding {
	for _, f := range found {
		spans = append(spans, hiding{f, rule})
	}
	slices.SortStableFunc(spans, func(a, b hiding) int { return cmp.Compare(a.Start, b.Start) })
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 {
			last := &out[n-1]
			if s.Start < last.End || s.Start == last.End && s.rule == last.rule {
				last.End, last.rule = max(last.End, s.End), min(last.rule, s.rule)
				continue
			}
		}
		out = append(out, s)
	}
	return out
}

// covered reports whether all of f is hidden.
func covered(spans []hiding, f pattern.Span) bool {
	at := f.Start
	i, _ := slices.BinarySearchFunc(spans, at, func(s hiding, at int) int {
		if s.End <= at {
			return -1
		}
		return 1
	})
	for ; i < len(spans) && spans[i].Start <= at && at < f.End; i++ {
		at = spans[i].End
	}
	return at >= f.End
}

// redact puts markers in place of spans.
func (c *Content) redact(text string, spans []hiding) Verdict {
	var v Verdict
	var b strings.Builder
	from, line, markers := 0, 1, 0
	for _, s := range spans {
		r := &c.rules[s.rule]
		line += strings.Count(text[from:s.Start], "\n")
		b.WriteString(text[from:s.Start])
		lines := 0
		for part := range strings.Lines(text[s.Start:s.End]) {
			lines++
			end := lineEnd(part)
			if end != part {
				b.WriteString(r.marker)
				markers++
			}
			b.WriteString(end)
		}
		if markers > maxMarkers {
			return denied(r, 0, tooMuch)
		}
		v.Hidden = append(v.Hidden, Hidden{s.Start, s.End, r.name, line, lines})
		line += strings.Count(text[s.Start:s.End], "\n")
		from = s.End
	}
	b.WriteString(text[from:])
	v.Text = b.String()
	return v
}

// lineEnd returns the line end of a line.
func lineEnd(line string) string {
	return line[len(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")):]
}

func lineAt(text string, offset int) int { return 1 + strings.Count(text[:offset], "\n") }
