package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"
)

// Every format becomes one tree of yaml.Node: it keeps order and lines, and of
// YAML the comments, so that reading, naming a place and editing need one code.

const (
	maxDepth = 64      // no setting nests deeper than five
	maxNodes = 100_000 // an alias in YAML can stand for a tree that has many
)

// badPlace is an error at a line of a document; line 0 is unknown.
type badPlace struct {
	line    int
	key     string
	message string
}

func (e *badPlace) Error() string {
	if e.key == "" {
		return e.message
	}
	return e.key + " " + e.message
}

func bad(n *yaml.Node, key, format string, args ...any) error {
	return &badPlace{line: n.Line, key: key, message: fmt.Sprintf(format, args...)}
}

// parse reads data in the format that the file name's ending says.
func parse(format string, data []byte) (doc *yaml.Node, err error) {
	defer func() {
		// The parsers are not ours and the bytes may be hostile: a file must
		// never end the server.
		if p := recover(); p != nil {
			doc, err = nil, fmt.Errorf("cannot be read as %s: %v", format, p)
		}
	}()
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(data) {
		return nil, errors.New("is not UTF-8")
	}
	switch format {
	case "json":
		doc, err = parseJSON(data)
	case "toml":
		doc, err = parseTOML(data)
	default:
		doc, err = parseYAML(data)
	}
	if err != nil {
		return nil, err
	}
	if root(doc).Kind != yaml.MappingNode {
		return nil, bad(root(doc), "", "the file must hold an object of sections, not %s", kindOf(root(doc)))
	}
	return doc, repeated(root(doc))
}

// repeated is an error when an object has one name twice.
func repeated(n *yaml.Node) error {
	seen := make(map[string]bool)
	for i, item := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if seen[item.Value] && item.Kind == yaml.ScalarNode {
				return bad(item, item.Value, "is given twice")
			}
			seen[item.Value] = true
		}
		if err := repeated(item); err != nil {
			return err
		}
	}
	return nil
}

// root returns the outermost value of a parsed document.
func root(doc *yaml.Node) *yaml.Node {
	if doc.Kind == yaml.DocumentNode {
		return doc.Content[0]
	}
	return doc
}

func parseJSON(data []byte) (*yaml.Node, error) {
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		line, hint := 0, ""
		if s, ok := errors.AsType[*json.SyntaxError](err); ok {
			at := min(max(int(s.Offset)-1, 0), len(data))
			line = 1 + bytes.Count(data[:at], []byte("\n"))
			if rest := data[at:]; bytes.HasPrefix(rest, []byte("/")) || bytes.HasPrefix(rest, []byte("#")) {
				hint = "; JSON has no comments: remove them, or write YAML or TOML instead"
			}
		}
		return nil, &badPlace{line: line, message: "is not valid JSON: " + err.Error() + hint}
	}
	p := &jsonParser{data: data, tokens: json.NewDecoder(bytes.NewReader(data)), line: 1}
	p.tokens.UseNumber()
	return p.value(0)
}

// jsonParser builds the tree of a valid JSON text.
type jsonParser struct {
	data   []byte
	tokens *json.Decoder
	at     int64 // how far lines have been counted
	line   int
}

func (p *jsonParser) next() (json.Token, int) {
	t, err := p.tokens.Token()
	if err != nil {
		panic(err) // the text is valid
	}
	end := p.tokens.InputOffset()
	p.line += bytes.Count(p.data[p.at:end], []byte("\n"))
	p.at = end
	return t, p.line
}

func (p *jsonParser) value(depth int) (*yaml.Node, error) {
	t, line := p.next()
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: line}
	switch t := t.(type) {
	case json.Delim:
		if depth > maxDepth {
			return nil, bad(n, "", "is nested too deep")
		}
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		if t == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for p.tokens.More() {
			item, err := p.value(depth + 1)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, item) // names and values in turn for an object
		}
		p.next() // the closing bracket
	case string:
		n.Tag, n.Value = "!!str", t
	case json.Number:
		n.Tag, n.Value = "!!int", t.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(t)
	default:
		n.Tag, n.Value = "!!null", "null"
	}
	return n, nil
}

func parseYAML(data []byte) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF): // nothing, or comments alone
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, nil
	case err != nil:
		return nil, fmt.Errorf("is not valid YAML: %w", err)
	}
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("holds more than one YAML document, or something that is none")
	}
	if root(&doc).ShortTag() == "!!null" {
		*root(&doc) = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	}
	return &doc, nil
}

func parseTOML(data []byte) (*yaml.Node, error) {
	var m map[string]any
	if err := toml.Unmarshal(data, &m); err != nil {
		if e, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, _ := e.Position()
			return nil, &badPlace{line: line, message: "is not valid TOML: " + e.Error()}
		}
		return nil, fmt.Errorf("is not valid TOML: %w", err)
	}
	return nodeOf(m), nil
}

// nodeOf returns the tree of a decoded value, names sorted.
func nodeOf(v any) *yaml.Node {
	scalar := func(tag, text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text} }
	switch v := v.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, scalar("!!str", name), nodeOf(v[name]))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, item := range v {
			n.Content = append(n.Content, nodeOf(item))
		}
		return n
	case bool:
		return scalar("!!bool", strconv.FormatBool(v))
	case int64:
		return scalar("!!int", strconv.FormatInt(v, 10))
	case float64:
		return scalar("!!float", strconv.FormatFloat(v, 'g', -1, 64))
	default:
		return scalar("!!str", fmt.Sprint(v)) // strings, and dates as they are written
	}
}

// encoder writes a tree as JSON, names in the spelling of a type's json tags.
type encoder struct {
	out   bytes.Buffer
	nodes int
}

// write appends n, which stands at the named key and is to fit typ.
func (e *encoder) write(n *yaml.Node, at string, typ reflect.Type, enum []string, depth int) error {
	if e.nodes++; e.nodes > maxNodes || depth > maxDepth {
		return bad(n, at, "is too large or nested too deep")
	}
	for typ != nil && typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch n.Kind {
	case yaml.AliasNode:
		return e.write(n.Alias, at, typ, enum, depth+1)
	case yaml.MappingNode:
		return e.object(n, at, typ, depth)
	case yaml.SequenceNode:
		var elem reflect.Type
		if typ != nil && typ.Kind() == reflect.Slice {
			elem = typ.Elem()
		}
		e.out.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				e.out.WriteByte(',')
			}
			if err := e.write(item, fmt.Sprintf("%s[%d]", at, i), elem, enum, depth+1); err != nil {
				return err
			}
		}
		e.out.WriteByte(']')
		return nil
	default:
		return e.scalar(n, at, enum)
	}
}

func (e *encoder) object(n *yaml.Node, at string, typ reflect.Type, depth int) error {
	fields := make(map[string]reflect.StructField)
	var names []string
	if typ != nil && typ.Kind() == reflect.Struct {
		for i := range typ.NumField() {
			f := typ.Field(i)
			fields[fold(jsonName(f))] = f
			names = append(names, jsonName(f))
		}
	}
	seen := make(map[string]bool)
	e.out.WriteByte('{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i].Value, n.Content[i+1]
		if isMeta(name) {
			continue
		}
		f, known := fields[fold(name)]
		switch {
		case typ == nil || typ.Kind() != reflect.Struct: // the schema will say what it wants instead
		case !known:
			// Leaving out a part of a rule would make it another rule.
			return bad(n.Content[i], at, "has the unknown key %q; known: %s", name, strings.Join(names, ", "))
		default:
			name = jsonName(f)
		}
		if seen[name] {
			return bad(n.Content[i], at+"."+name, "is given twice")
		}
		if len(seen) > 0 {
			e.out.WriteByte(',')
		}
		seen[name] = true
		e.out.Write(quote(name))
		e.out.WriteByte(':')
		if err := e.write(value, at+"."+name, f.Type, enumOf(f), depth+1); err != nil {
			return err
		}
	}
	e.out.WriteByte('}')
	return nil
}

func (e *encoder) scalar(n *yaml.Node, at string, enum []string) error {
	text, err := scalarJSON(n)
	if err != nil {
		return bad(n, at, "%v", err)
	}
	for _, word := range enum {
		if strings.EqualFold(word, n.Value) {
			text = quote(word)
		}
	}
	e.out.Write(text)
	return nil
}

// scalarJSON returns the JSON of a scalar.
func scalarJSON(n *yaml.Node) ([]byte, error) {
	plain := strings.ReplaceAll(n.Value, "_", "")
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp":
		return quote(n.Value), nil
	case "!!null":
		return []byte("null"), nil
	case "!!bool":
		return []byte(strings.ToLower(n.Value)), nil
	case "!!int":
		if i, err := strconv.ParseInt(plain, 0, 64); err == nil {
			return strconv.AppendInt(nil, i, 10), nil
		}
		if json.Valid([]byte(n.Value)) {
			return []byte(n.Value), nil // too large for us; the schema will say so
		}
		return nil, fmt.Errorf("is not a number that can be used: %s", clip(n.Value))
	case "!!float":
		f, err := strconv.ParseFloat(plain, 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return nil, fmt.Errorf("is not a number that can be used: %s", clip(n.Value))
		}
		return strconv.AppendFloat(nil, f, 'g', -1, 64), nil
	default:
		return nil, fmt.Errorf("has the tag %s, which means nothing here", clip(tag))
	}
}

// writeJSON appends the tree as indented JSON, names as they are.
func writeJSON(out *bytes.Buffer, n *yaml.Node, indent string) error {
	inner := indent + "  "
	switch {
	case n.Kind == yaml.MappingNode && len(n.Content) > 0:
		for i := 0; i < len(n.Content); i += 2 {
			out.WriteString([]string{"{\n", ",\n"}[min(i, 1)] + inner)
			out.Write(quote(n.Content[i].Value))
			out.WriteString(": ")
			if err := writeJSON(out, n.Content[i+1], inner); err != nil {
				return err
			}
		}
		out.WriteString("\n" + indent + "}")
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0:
		for i, item := range n.Content {
			out.WriteString([]string{"[\n", ",\n"}[min(i, 1)] + inner)
			if err := writeJSON(out, item, inner); err != nil {
				return err
			}
		}
		out.WriteString("\n" + indent + "]")
	case n.Kind == yaml.MappingNode:
		out.WriteString("{}")
	case n.Kind == yaml.SequenceNode:
		out.WriteString("[]")
	default:
		text, err := scalarJSON(n)
		if err != nil {
			return err
		}
		out.Write(text)
	}
	return nil
}

// isMeta reports whether a name is one that explains the file and sets nothing.
func isMeta(name string) bool {
	return name == "$schema" || name == "_version" || name == "_help" ||
		strings.HasPrefix(name, "_") && strings.HasSuffix(name, "_help")
}

func quote(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// kindOf names what a node holds, with an article.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	default:
		switch n.ShortTag() {
		case "!!null":
			return "null"
		case "!!bool":
			return "a boolean"
		case "!!int", "!!float":
			return "a number"
		default:
			return "a string"
		}
	}
}

// clip shortens s so that a message does not repeat a whole file.
func clip(s string) string {
	if len(s) <= 60 {
		return s
	}
	return strings.ToValidUTF8(s[:60], "") + "…"
}
