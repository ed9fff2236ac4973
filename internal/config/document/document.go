// Package document is the text of a settings file as one tree, whatever its
// format: JSON, YAML or TOML. The tree keeps order and lines, and of YAML the
// comments, so that reading a file, naming a place in it and editing it need one
// code.
//
// The text may be hostile: nothing here panics, recurses or grows beyond a
// bound. Functions are pure. What the names in a file mean is left to package
// config.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"
)

// Node is one value of the tree, or one name. The content of an object is names
// and values in turn.
type Node = yaml.Node

const (
	maxDepth = 64      // no setting nests deeper than five
	maxNodes = 100_000 // an alias in YAML can stand for a tree that has many
	maxItems = 1000    // in one list
)

// Problem is something wrong at a place of a document.
type Problem struct {
	Line    int    // 0: unknown
	Key     string // "": the whole
	Message string
}

func (e *Problem) Error() string {
	if e.Key == "" {
		return e.Message
	}
	return e.Key + " " + e.Message
}

// Bad returns a Problem at n.
func Bad(n *Node, key, format string, args ...any) error {
	return &Problem{Line: n.Line, Key: key, Message: fmt.Sprintf(format, args...)}
}

// Format returns the format of a file by the ending of its name: json, toml or
// else yaml.
func Format(path string) string {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".json":
		return "json"
	case ".toml":
		return "toml"
	default:
		return "yaml"
	}
}

// Parse reads the text of a settings file, which must be an object in which no
// name stands twice.
func Parse(format string, data []byte) (doc *Node, err error) {
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
		doc, err = ParseJSON(data)
	case "toml":
		doc, err = parseTOML(data)
	default:
		doc, err = parseYAML(data)
	}
	if err != nil {
		return nil, err
	}
	if Root(doc).Kind != yaml.MappingNode {
		return nil, Bad(Root(doc), "", "the file must hold an object of sections, not %s", Kind(Root(doc)))
	}
	return doc, repeated(Root(doc))
}

// repeated is an error when an object has one name twice.
func repeated(n *Node) error {
	seen := make(map[string]bool)
	for i, item := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if seen[item.Value] && item.Kind == yaml.ScalarNode {
				return Bad(item, item.Value, "is given twice")
			}
			seen[item.Value] = true
		}
		if err := repeated(item); err != nil {
			return err
		}
	}
	return nil
}

// Root returns the outermost value of a parsed document.
func Root(doc *Node) *Node {
	if doc.Kind == yaml.DocumentNode {
		return doc.Content[0]
	}
	return doc
}

// ParseJSON reads any JSON value.
func ParseJSON(data []byte) (*Node, error) {
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
		return nil, &Problem{Line: line, Message: "is not valid JSON: " + err.Error() + hint}
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

func (p *jsonParser) value(depth int) (*Node, error) {
	t, line := p.next()
	n := &Node{Kind: yaml.ScalarNode, Line: line}
	switch t := t.(type) {
	case json.Delim:
		if depth > maxDepth {
			return nil, Bad(n, "", "is nested too deep")
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

func parseYAML(data []byte) (*Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF): // nothing, or comments alone
		return Object(), nil
	case err != nil:
		return nil, fmt.Errorf("is not valid YAML: %w", err)
	}
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("holds more than one YAML document, or something that is none")
	}
	if Root(&doc).ShortTag() == "!!null" {
		*Root(&doc) = *Object()
	}
	return &doc, nil
}

func parseTOML(data []byte) (*Node, error) {
	var m map[string]any
	if err := toml.Unmarshal(data, &m); err != nil {
		if e, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, _ := e.Position()
			return nil, &Problem{Line: line, Message: "is not valid TOML: " + e.Error()}
		}
		return nil, fmt.Errorf("is not valid TOML: %w", err)
	}
	return Of(m), nil
}

// Of returns the tree of a decoded value, names sorted.
func Of(v any) *Node {
	scalar := func(tag, text string) *Node { return &Node{Kind: yaml.ScalarNode, Tag: tag, Value: text} }
	switch v := v.(type) {
	case map[string]any:
		n := Object()
		for _, name := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, scalar("!!str", name), Of(v[name]))
		}
		return n
	case []any:
		n := &Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, item := range v {
			n.Content = append(n.Content, Of(item))
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

// JSON returns n as JSON with names in the spelling of the json tags of typ,
// which n is meant to fit, and words in the spelling of enum. Whether it fits is
// for a schema to say; only an unknown name in an object that typ knows is an
// error, since leaving out a part of a rule would make it another rule. at names
// n in messages.
func JSON(n *Node, at string, typ reflect.Type, enum []string) ([]byte, error) {
	var e encoder
	if err := e.write(n, at, typ, enum, 0); err != nil {
		return nil, err
	}
	return e.out.Bytes(), nil
}

type encoder struct {
	out   bytes.Buffer
	nodes int
}

func (e *encoder) write(n *Node, at string, typ reflect.Type, enum []string, depth int) error {
	if e.nodes++; e.nodes > maxNodes || depth > maxDepth {
		return Bad(n, at, "is too large or nested too deep")
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
		if len(n.Content) > maxItems {
			return Bad(n, at, "has more than %d items", maxItems)
		}
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

func (e *encoder) object(n *Node, at string, typ reflect.Type, depth int) error {
	fields := make(map[string]reflect.StructField)
	var names []string
	if typ != nil && typ.Kind() == reflect.Struct {
		for f := range typ.Fields() {
			fields[Fold(JSONName(f))] = f
			names = append(names, JSONName(f))
		}
	}
	seen := make(map[string]bool)
	e.out.WriteByte('{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i].Value, n.Content[i+1]
		if IsMeta(name) {
			continue
		}
		f, known := fields[Fold(name)]
		switch {
		case typ == nil || typ.Kind() != reflect.Struct: // the schema will say what it wants instead
		case !known:
			return Bad(n.Content[i], at, "has the unknown key %q; known: %s", Clip(name), strings.Join(names, ", "))
		default:
			name = JSONName(f)
		}
		if seen[name] {
			return Bad(n.Content[i], at+"."+name, "is given twice")
		}
		if len(seen) > 0 {
			e.out.WriteByte(',')
		}
		seen[name] = true
		e.out.Write(Quote(name))
		e.out.WriteByte(':')
		if err := e.write(value, at+"."+name, f.Type, Enum(f), depth+1); err != nil {
			return err
		}
	}
	e.out.WriteByte('}')
	return nil
}

func (e *encoder) scalar(n *Node, at string, enum []string) error {
	text, err := scalarJSON(n)
	if err != nil {
		return Bad(n, at, "%v", err)
	}
	for _, word := range enum {
		if strings.EqualFold(word, n.Value) {
			text = Quote(word)
		}
	}
	e.out.Write(text)
	return nil
}

// scalarJSON returns the JSON of a scalar.
func scalarJSON(n *Node) ([]byte, error) {
	plain := strings.ReplaceAll(n.Value, "_", "")
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp":
		return Quote(n.Value), nil
	case "!!null":
		return []byte("null"), nil
	case "!!bool":
		if text := strings.ToLower(n.Value); text == "true" || text == "false" {
			return []byte(text), nil
		}
		return nil, fmt.Errorf("must be true or false, not %q", Clip(n.Value))
	case "!!int":
		if i, err := strconv.ParseInt(plain, 0, 64); err == nil {
			return strconv.AppendInt(nil, i, 10), nil
		}
		if digits := strings.TrimPrefix(n.Value, "-"); strings.Trim(digits, "0123456789") == "" && json.Valid([]byte(n.Value)) {
			return []byte(n.Value), nil // too large for us; the schema will say so
		}
		return nil, fmt.Errorf("is not a number that can be used: %q", Clip(n.Value))
	case "!!float":
		f, err := strconv.ParseFloat(plain, 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return nil, fmt.Errorf("is not a number that can be used: %q", Clip(n.Value))
		}
		return strconv.AppendFloat(nil, f, 'g', -1, 64), nil
	default:
		return nil, fmt.Errorf("has the tag %q, which means nothing here", Clip(tag))
	}
}

// Render returns the text of a document in a format. Comments stay in YAML
// alone.
func Render(format string, doc *Node) ([]byte, error) {
	var out bytes.Buffer
	switch format {
	case "json":
		if err := writeJSON(&out, Root(doc), ""); err != nil {
			return nil, err
		}
		out.WriteByte('\n')
	case "toml":
		var m map[string]any
		if err := Root(doc).Decode(&m); err != nil {
			return nil, err
		}
		return toml.Marshal(m)
	default:
		enc := yaml.NewEncoder(&out)
		enc.SetIndent(2)
		if err := enc.Encode(doc); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// writeJSON appends the tree as indented JSON, names as they are.
func writeJSON(out *bytes.Buffer, n *Node, indent string) error {
	inner := indent + "  "
	switch {
	case n.Kind == yaml.MappingNode && len(n.Content) > 0:
		for i := 0; i < len(n.Content); i += 2 {
			out.WriteString([]string{"{\n", ",\n"}[min(i, 1)] + inner)
			out.Write(Quote(n.Content[i].Value))
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

// Object returns an empty object.
func Object() *Node { return &Node{Kind: yaml.MappingNode, Tag: "!!map"} }

// IsObject reports whether n is an object.
func IsObject(n *Node) bool { return n.Kind == yaml.MappingNode }

// IsNull reports whether n is null.
func IsNull(n *Node) bool { return n.ShortTag() == "!!null" }

// Follow returns what an alias of YAML stands for.
func Follow(n *Node) *Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// Fold makes snake_case, camelCase and kebab-case spellings of a name equal.
func Fold(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// JSONName returns the name of a field in its json tag.
func JSONName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// Enum returns the words of a field's enum tag.
func Enum(f reflect.StructField) []string {
	if e := f.Tag.Get("enum"); e != "" {
		return strings.Split(e, ",")
	}
	return nil
}

// IsMeta reports whether a name is one that explains the file and sets nothing.
func IsMeta(name string) bool {
	return name == "$schema" || name == "_version" || name == "_help" ||
		strings.HasPrefix(name, "_") && strings.HasSuffix(name, "_help")
}

// Quote returns s as JSON.
func Quote(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Kind names what a node holds, with an article.
func Kind(n *Node) string {
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

// Clip shortens s so that a message does not repeat a whole file.
func Clip(s string) string {
	if len(s) <= 60 {
		return s
	}
	return strings.ToValidUTF8(s[:60], "") + "…"
}
