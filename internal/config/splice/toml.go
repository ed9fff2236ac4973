package splice

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/config/document"
)

func decodeTOML(text []byte) (map[string]any, error) {
	doc, err := document.Parse("toml", text)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	return out, document.Root(doc).Decode(&out)
}

// table is one table of a TOML text: its header and what stands below it, up to
// the next header.
type table struct {
	name       []string // nil: what stands before the first header
	start, end int      // of the header's line, of the last statement
	lines      []line   // below the header
}

// line is a statement, which may span several lines.
type line struct {
	start, end int // with its line end
	key        []string
}

// tables splits a valid TOML text.
func tables(text []byte) []table {
	all := []table{{}}
	for at := 0; at < len(text); {
		end := statementEnd(text, at)
		words := bytes.TrimLeft(text[at:end], " \t\r\n")
		last := &all[len(all)-1]
		switch {
		case len(words) == 0 || words[0] == '#': // it may belong to what follows
		case words[0] == '[':
			name, _ := keyOf(bytes.TrimLeft(words, "[ \t"))
			all = append(all, table{name: name, start: at, end: end})
			if bytes.HasPrefix(words, []byte("[[")) {
				all[len(all)-1].name = append(name, "[]") // never one of ours
			}
		default:
			key, _ := keyOf(words)
			last.lines = append(last.lines, line{start: at, end: end, key: key})
			last.end = end
		}
		at = end
	}
	return all
}

// statementEnd returns the end of the statement that begins at a place: the line
// end outside of strings and brackets.
func statementEnd(text []byte, at int) int {
	header := bytes.HasPrefix(bytes.TrimLeft(text[at:], " \t"), []byte("["))
	depth := 0
	for at < len(text) {
		switch c := text[at]; {
		case c == '\n' && (depth <= 0 || header):
			return at + 1
		case c == '#':
			for at < len(text) && text[at] != '\n' {
				at++
			}
			continue
		case c == '"' || c == '\'':
			at = stringEnd(text, at)
			continue
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		}
		at++
	}
	return len(text)
}

func stringEnd(text []byte, at int) int {
	mark := text[at : at+1]
	if long := bytes.Repeat(mark, 3); bytes.HasPrefix(text[at:], long) {
		mark = long
	}
	for at += len(mark); at < len(text); at++ {
		switch {
		case text[at] == '\\' && mark[0] == '"':
			at++
		case bytes.HasPrefix(text[at:], mark):
			for len(mark) == 3 && at+3 < len(text) && text[at+3] == mark[0] {
				at++ // quotes at the end of a long string belong to it
			}
			return at + len(mark)
		}
	}
	return len(text)
}

// keyOf reads a dotted key and returns what follows it.
func keyOf(text []byte) (key []string, rest []byte) {
	for {
		text = bytes.TrimLeft(text, " \t")
		if len(text) == 0 {
			return key, nil
		}
		end := 0
		switch text[0] {
		case '"', '\'':
			end = stringEnd(text, 0)
			name := string(bytes.Trim(text[:end], string(text[:1])))
			if text[0] == '"' && json.Unmarshal(text[:end], &name) != nil {
				name = string(text[:end]) // an escape that JSON lacks: no name of ours
			}
			key = append(key, name)
		default:
			for end < len(text) && isBare(text[end]) {
				end++
			}
			key = append(key, string(text[:end]))
		}
		text = bytes.TrimLeft(text[end:], " \t")
		if len(text) == 0 || text[0] != '.' {
			return key, text
		}
		text = text[1:]
	}
}

func isBare(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

func tomlKey(path []string) string {
	var parts []string
	for _, name := range path {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r > 127 || !isBare(byte(r)) }) {
			name = quote(name)
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, ".")
}

func within(path, name []string) bool {
	return len(name) >= len(path) && slices.Equal(name[:len(path)], path)
}

// setTOML writes an object as a table, anything else as a line of its table.
func setTOML(text, value []byte, path []string) ([]byte, error) {
	newline := "\n"
	if bytes.Contains(text, []byte("\r\n")) {
		newline = "\r\n"
	}
	all := tables(text)
	if value[0] == '{' {
		body, err := tableText(value, path)
		if err != nil {
			return nil, err
		}
		body = strings.ReplaceAll(body, "\n", newline)
		for i, t := range all {
			if within(path, t.name) {
				text = cutTables(text, all[i+1:], path)
				return slices.Concat(text[:t.start], []byte(body), text[t.end:]), nil
			}
		}
		return appendTable(text, body, newline), nil
	}
	scalar, err := tomlValue(value)
	if err != nil {
		return nil, err
	}
	parent, name := path[:len(path)-1], path[len(path)-1]
	entry := tomlKey([]string{name}) + " = " + scalar + newline
	for i, t := range all {
		if i == 0 && len(parent) > 0 || !slices.Equal(t.name, parent) {
			continue
		}
		for _, l := range t.lines {
			if slices.Equal(l.key, []string{name}) {
				return slices.Concat(text[:l.start], []byte(entry), text[l.end:]), nil
			}
		}
		before := text[:t.end]
		if len(before) > 0 && before[len(before)-1] != '\n' {
			entry = newline + entry
		}
		return slices.Concat(before, []byte(entry), text[t.end:]), nil
	}
	return appendTable(text, "["+tomlKey(parent)+"]"+newline+entry, newline), nil
}

// appendTable puts a table behind everything else, with an empty line between.
func appendTable(text []byte, body, newline string) []byte {
	between := ""
	if len(bytes.TrimSpace(text)) > 0 {
		between = newline
		if text[len(text)-1] != '\n' {
			between += newline
		}
	}
	return slices.Concat(text, []byte(between+body))
}

// tableText writes an object as a table and those below it.
func tableText(value []byte, path []string) (string, error) {
	var b, below strings.Builder
	fmt.Fprintf(&b, "[%s]\n", tomlKey(path))
	d := json.NewDecoder(bytes.NewReader(value))
	if _, err := d.Token(); err != nil {
		return "", err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return "", err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return "", err
		}
		key := name.(string) // the names of an object are strings
		if raw[0] == '{' {
			text, err := tableText(raw, append(slices.Clone(path), key))
			if err != nil {
				return "", err
			}
			below.WriteString("\n" + text)
			continue
		}
		text, err := tomlValue(raw)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s = %s\n", tomlKey([]string{key}), text)
	}
	return b.String() + below.String(), nil
}

// tomlValue writes a string, a number, a truth value or a list of strings.
func tomlValue(value []byte) (string, error) {
	var decoded any
	if err := json.Unmarshal(value, &decoded); err != nil {
		return "", err
	}
	switch v := decoded.(type) {
	case string:
		return quote(v), nil
	case bool, float64:
		return string(value), nil
	case []any:
		var parts []string
		for _, item := range v {
			s, ok := item.(string)
			if !ok {
				return "", errors.New("only lists of strings can be written as TOML")
			}
			parts = append(parts, quote(s))
		}
		return "[" + strings.Join(parts, ", ") + "]", nil
	default:
		return "", fmt.Errorf("%T cannot be written as TOML", v)
	}
}

// removeTOML takes out the tables at and below path, and the line that path
// names in its table.
func removeTOML(text []byte, path, cut []string) ([]byte, error) {
	all := tables(text)
	parent, name := path[:len(path)-1], path[len(path)-1]
	for i, t := range all {
		if i == 0 && len(parent) > 0 || !slices.Equal(t.name, parent) {
			continue
		}
		for _, l := range t.lines {
			if slices.Equal(l.key, []string{name}) {
				text = slices.Concat(text[:l.start], text[l.end:])
				all = tables(text)
			}
		}
	}
	// A table that was written in several places is one: each goes.
	whole := path
	if len(cut) < len(path) {
		whole = cut
	}
	return cutTables(text, all, whole), nil
}

// cutTables takes out the tables at and below path, each with the empty line
// before it.
func cutTables(text []byte, all []table, path []string) []byte {
	for _, t := range slices.Backward(all) {
		if !within(path, t.name) {
			continue
		}
		start := t.start
		for _, newline := range []string{"\r\n", "\n"} {
			if before, ok := bytes.CutSuffix(text[:start], []byte(newline)); ok && (len(before) == 0 || before[len(before)-1] == '\n') {
				start = len(before)
				break
			}
		}
		text = slices.Concat(text[:start], text[t.end:])
	}
	return text
}
