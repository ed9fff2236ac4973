package splice

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	bom      = "\xef\xbb\xbf"
	maxDepth = 200
)

// node is a value of a JSON text and where it stands.
type node struct {
	kind       byte // '{', '[' or 0 for the rest
	start, end int
	members    []member // of an object or a list
}

// member is one entry of an object, or one item of a list.
type member struct {
	name  string // of an entry
	start int    // of its name, or of the item
	value *node
	comma int // the place of the comma behind it; -1: there is none
}

// reader reads JSON with comments and trailing commas.
type reader struct {
	text []byte
	at   int
	gaps [][2]int // comments and trailing commas
}

func parseJSON(text []byte) (*node, *reader, error) {
	r := &reader{text: text}
	if bytes.HasPrefix(text, []byte(bom)) {
		r.at = len(bom)
		r.gaps = append(r.gaps, [2]int{0, len(bom)})
	}
	if !utf8.Valid(text) {
		return nil, nil, errors.New("is not UTF-8")
	}
	if err := r.space(); err != nil {
		return nil, nil, err
	}
	top, err := r.value(0)
	if err == nil {
		err = r.space()
	}
	if err == nil && r.at < len(text) {
		err = r.bad("something follows the end of the object")
	}
	if err == nil && top.kind != '{' {
		err = errors.New("does not hold an object")
	}
	return top, r, err
}

func (r *reader) bad(what string) error {
	return fmt.Errorf("is not valid JSON: line %d: %s", 1+bytes.Count(r.text[:min(r.at, len(r.text))], []byte("\n")), what)
}

// space skips white space and comments.
func (r *reader) space() error {
	for r.at < len(r.text) {
		rest := r.text[r.at:]
		var length int
		switch {
		case strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			r.at++
			continue
		case bytes.HasPrefix(rest, []byte("//")):
			if length = bytes.IndexByte(rest, '\n'); length < 0 {
				length = len(rest)
			}
		case bytes.HasPrefix(rest, []byte("/*")):
			end := bytes.Index(rest[2:], []byte("*/"))
			if end < 0 {
				return r.bad("a comment has no end")
			}
			length = end + 4
		default:
			return nil
		}
		r.gaps = append(r.gaps, [2]int{r.at, r.at + length})
		r.at += length
	}
	return nil
}

func (r *reader) value(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, r.bad("it is nested too deep")
	}
	if r.at >= len(r.text) {
		return nil, r.bad("it ends too early")
	}
	n := &node{start: r.at}
	switch c := r.text[r.at]; c {
	case '{', '[':
		n.kind = c
		r.at++
		if err := r.members(n, depth); err != nil {
			return nil, err
		}
	case '"':
		if _, err := r.str(); err != nil {
			return nil, err
		}
	default:
		for r.at < len(r.text) && strings.IndexByte(" \t\r\n,]}:/\"", r.text[r.at]) < 0 {
			r.at++
		}
		if !json.Valid(r.text[n.start:r.at]) {
			return nil, r.bad("a value is expected")
		}
	}
	n.end = r.at
	return n, nil
}

// members reads the inside of an object or a list, and its closing bracket.
func (r *reader) members(n *node, depth int) error {
	closing := byte(']')
	if n.kind == '{' {
		closing = '}'
	}
	seen := make(map[string]bool)
	for {
		if err := r.space(); err != nil {
			return err
		}
		if r.at < len(r.text) && r.text[r.at] == closing {
			if last := len(n.members) - 1; last >= 0 { // a trailing comma
				r.gaps = append(r.gaps, [2]int{n.members[last].comma, n.members[last].comma + 1})
			}
			r.at++
			return nil
		}
		m := member{start: r.at, comma: -1}
		if n.kind == '{' {
			if err := r.name(&m); err != nil {
				return err
			}
			if seen[m.name] {
				return r.bad(quote(m.name) + " is given twice")
			}
			seen[m.name] = true
		}
		var err error
		if m.value, err = r.value(depth + 1); err != nil {
			return err
		}
		if err := r.space(); err != nil {
			return err
		}
		switch {
		case r.at < len(r.text) && r.text[r.at] == ',':
			m.comma = r.at
			r.at++
			n.members = append(n.members, m)
		case r.at < len(r.text) && r.text[r.at] == closing:
			n.members = append(n.members, m)
			r.at++
			return nil
		default:
			return r.bad("a comma or a closing bracket is expected")
		}
	}
}

func (r *reader) name(m *member) (err error) {
	if r.at >= len(r.text) || r.text[r.at] != '"' {
		return r.bad("a name is expected")
	}
	if m.name, err = r.str(); err != nil {
		return err
	}
	if err := r.space(); err != nil {
		return err
	}
	if r.at >= len(r.text) || r.text[r.at] != ':' {
		return r.bad("a colon is expected")
	}
	r.at++
	return r.space()
}

func (r *reader) str() (string, error) {
	start := r.at
	for r.at++; r.at < len(r.text); r.at++ {
		switch r.text[r.at] {
		case '\\':
			r.at++
		case '"':
			r.at++
			var s string
			if err := json.Unmarshal(r.text[start:r.at], &s); err != nil {
				return "", r.bad("a string is not valid")
			}
			return s, nil
		}
	}
	r.at = start
	return "", r.bad("a string has no end")
}

func decodeJSON(text []byte) (map[string]any, error) {
	if Empty("json", text) {
		return map[string]any{}, nil
	}
	_, r, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	bare := bytes.Clone(text)
	for _, gap := range r.gaps {
		for i := gap[0]; i < gap[1]; i++ {
			bare[i] = ' '
		}
	}
	d := json.NewDecoder(bytes.NewReader(bare))
	d.UseNumber()
	out := map[string]any{}
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("is not valid JSON: %w", err)
	}
	return out, nil
}

func (n *node) find(name string) int {
	return slices.IndexFunc(n.members, func(m member) bool { return m.name == name })
}

// walk follows path as far as it leads and returns the chain of objects, the top
// first.
func (n *node) walk(path []string) []*node {
	chain := []*node{n}
	for _, name := range path {
		last := chain[len(chain)-1]
		i := last.find(name)
		if last.kind != '{' || i < 0 {
			return chain
		}
		chain = append(chain, last.members[i].value)
	}
	return chain
}

func setJSON(text, value []byte, path []string) ([]byte, error) {
	if Empty("json", text) {
		text = []byte("{\n}\n")
	}
	top, _, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	s := styleOf(text, top)
	chain := top.walk(path)
	if len(chain) == len(path)+1 { // it is there
		old := chain[len(path)]
		return s.replace(old.start, old.end, s.render(value, s.indentAt(old.start), s.inline(old))), nil
	}
	for i := len(path) - 1; i >= len(chain); i-- { // what is missing, from the inside
		value = slices.Concat([]byte("{"+quote(path[i])+":"), value, []byte("}"))
	}
	return s.insert(chain[len(chain)-1], quote(path[len(chain)-1])+": ", value), nil
}

func removeJSON(text []byte, path []string) ([]byte, error) {
	top, _, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	chain := top.walk(path[:len(path)-1])
	n := chain[len(chain)-1]
	return styleOf(text, top).remove(n, n.find(path[len(path)-1])), nil
}

func addJSON(format string, text []byte, items, path []string) ([]byte, error) {
	for _, item := range items {
		n, s, err := listAt(format, text, path)
		if err != nil {
			return nil, err
		}
		text = s.insert(n, "", []byte(quote(item)))
	}
	return text, nil
}

func dropJSON(format string, text []byte, items, path []string) ([]byte, error) {
	for {
		n, s, err := listAt(format, text, path)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(n.members, func(m member) bool {
			var name string
			return json.Unmarshal(text[m.value.start:m.value.end], &name) == nil && slices.Contains(items, name) && text[m.value.start] == '"'
		})
		if i < 0 {
			return text, nil
		}
		text = s.remove(n, i)
	}
}

func listAt(format string, text []byte, path []string) (*node, *style, error) {
	if format == "toml" {
		return nil, nil, fmt.Errorf("a list of TOML %w", ErrShape)
	}
	top, _, err := parseJSON(text)
	if err != nil {
		return nil, nil, err
	}
	chain := top.walk(path)
	return chain[len(chain)-1], styleOf(text, top), nil
}

// style is how a text is laid out.
type style struct {
	text    []byte
	newline string
	unit    string // of indentation
	flat    bool   // the whole is on one line
}

func styleOf(text []byte, top *node) *style {
	s := &style{text: text, newline: "\n", unit: "  "}
	if bytes.Contains(text, []byte("\r\n")) {
		s.newline = "\r\n"
	}
	if len(top.members) > 0 {
		s.flat = s.inline(top)
		if in := s.indentAt(top.members[0].start); in != "" && !s.flat {
			s.unit = in
		}
	}
	return s
}

// inline reports whether the members of n stand on the line of its bracket.
func (s *style) inline(n *node) bool {
	if n.kind == 0 || len(n.members) == 0 {
		return s.flat
	}
	return !bytes.Contains(s.text[n.start:n.members[0].start], []byte("\n"))
}

// indentAt returns the white space at the beginning of the line of a place.
func (s *style) indentAt(at int) string {
	line := s.text[bytes.LastIndexByte(s.text[:at], '\n')+1 : at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// render writes a value: on one line, or on several of which the first begins
// behind indent.
func (s *style) render(value []byte, indent string, inline bool) string {
	if inline {
		return string(value)
	}
	var out bytes.Buffer
	_ = json.Indent(&out, value, indent, s.unit) // it is valid
	return strings.ReplaceAll(out.String(), "\n", s.newline)
}

// insert puts a member behind the last one of n.
func (s *style) insert(n *node, label string, value []byte) []byte {
	inline := s.inline(n)
	if len(n.members) == 0 {
		outer := s.indentAt(n.start)
		end := n.end - 1 // the bracket
		if inline {
			return s.replace(end, end, label+s.render(value, "", true))
		}
		start := n.start + len(bytes.TrimRight(s.text[n.start:end], " \t\r\n")) // comments inside stay
		return s.replace(start, end, s.newline+outer+s.unit+label+s.render(value, outer+s.unit, false)+s.newline+outer)
	}
	last := n.members[len(n.members)-1]
	indent := s.indentAt(last.start)
	between := " "
	if !inline {
		between = s.newline + indent
	}
	entry := between + label + s.render(value, indent, inline)
	at := last.value.end
	if last.comma >= 0 { // a trailing comma is how it is done here
		at = s.pastComment(last.comma + 1)
		return s.replace(at, at, entry+",")
	}
	behind := at
	if !inline {
		behind = s.pastComment(at)
	}
	return slices.Concat(s.text[:at], []byte(","), s.text[at:behind], []byte(entry), s.text[behind:])
}

// pastComment returns the place behind a comment that follows on the same line.
func (s *style) pastComment(at int) int {
	line := s.text[at:]
	if end := bytes.IndexByte(line, '\n'); end >= 0 {
		line = line[:end]
	}
	line = bytes.TrimRight(line, "\r")
	rest := bytes.TrimLeft(line, " \t")
	if bytes.HasPrefix(rest, []byte("//")) || bytes.HasPrefix(rest, []byte("/*")) && bytes.Index(rest, []byte("*/")) == len(rest)-2 {
		return at + len(line)
	}
	return at
}

// remove takes out the member i of n.
func (s *style) remove(n *node, i int) []byte {
	m := n.members[i]
	end := m.value.end
	start := m.start - len(s.text[:m.start]) + len(bytes.TrimRight(s.text[:m.start], " \t"))
	if start > 0 && s.text[start-1] == '\n' {
		start--
		if start > 0 && s.text[start-1] == '\r' {
			start--
		}
	} else if i == 0 {
		start = m.start // inline: what stands before the first stays
	}
	switch {
	case m.comma >= 0:
		end = m.comma + 1
		if i == 0 && start == m.start {
			end += len(s.text[end:]) - len(bytes.TrimLeft(s.text[end:], " \t"))
		}
		return s.replace(start, end, "")
	case i > 0: // the last one: the comma before it goes too
		comma := n.members[i-1].comma
		return slices.Concat(s.text[:comma], s.text[comma+1:start], s.text[end:])
	}
	if rest := bytes.TrimSpace(slices.Concat(s.text[n.start+1:start], s.text[end:n.end-1])); len(rest) == 0 {
		start, end = n.start+1, n.end-1 // nothing is left inside
	}
	return s.replace(start, end, "")
}

func (s *style) replace(start, end int, with string) []byte {
	return slices.Concat(s.text[:start], []byte(with), s.text[end:])
}
