package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/async-crud-mcp/async-crud-mcp/internal/schema"
)

// Origin says where a value comes from: "default", "user file PATH", "project
// file PATH", "environment NAME", "--set" or "flag".
type Origin string

// The origins that have no name of their own behind them.
const (
	FromDefault Origin = "default"
	FromSet     Origin = "--set"
	FromFlag    Origin = "flag"
)

// Error is a source of settings that was refused, with the place.
type Error struct {
	Origin  Origin
	Line    int    // of the file; 0 when unknown
	Message string // names the key, what was found and what is wanted
	Err     error  // the cause, when it is one of the system
}

func (e *Error) Error() string {
	s := string(e.Origin)
	if e.Line > 0 {
		s += fmt.Sprintf(", line %d", e.Line)
	}
	return s + ": " + e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// Warning is something in a source of settings that does not apply.
type Warning struct {
	Origin  Origin
	Line    int // of the file; 0 when unknown
	Key     string
	Message string
}

func (w Warning) String() string {
	return (&Error{Origin: w.Origin, Line: w.Line, Message: w.Key + " " + w.Message}).Error()
}

// layer is what one source says: for each key it has, a typed value and its
// place.
type layer struct {
	cfg      Config
	has      map[*key]place
	warnings []Warning
}

type place struct {
	origin Origin
	line   int
}

// pair is a key with its value before it is typed.
type pair struct {
	key   *key
	value *yaml.Node
	place place
}

// fileLayer reads the bytes of a settings file.
func fileLayer(kind, path string, data []byte, home string) (*layer, error) {
	origin := Origin(kind + " file " + path)
	doc, err := parse(formatOf(path), data)
	if err != nil {
		return nil, refused(origin, err)
	}
	var pairs []pair
	var warnings []Warning
	err = walk(root(doc), func(k *key, parent *yaml.Node, i int) error {
		pairs = append(pairs, pair{k, parent.Content[i+1], place{origin, parent.Content[i].Line}})
		return nil
	}, func(name string, n *yaml.Node) {
		warnings = append(warnings, Warning{Origin: origin, Line: n.Line, Key: name, Message: unknown(name)})
	})
	if err != nil {
		return nil, refused(origin, err)
	}
	l, err := typed(pairs, home)
	if err != nil {
		return nil, err
	}
	l.warnings = warnings
	return l, nil
}

func formatOf(path string) string {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".json":
		return "json"
	case ".toml":
		return "toml"
	default:
		return "yaml"
	}
}

func refused(origin Origin, err error) error {
	e := &Error{Origin: origin, Message: err.Error(), Err: err}
	if b, ok := errors.AsType[*badPlace](err); ok {
		e.Line, e.Err = b.line, nil
	}
	if strings.HasPrefix(string(origin), "environment ") {
		e.Message, _, _ = strings.Cut(e.Message, ", not ") // values of the environment are not repeated
	}
	return e
}

func unknown(name string) string {
	if near := settings().suggest(name); near != "" {
		return fmt.Sprintf("is not a setting; did you mean %s?", near)
	}
	return "is not a setting"
}

// walk calls visit for every setting in the tree of a file, whose name and value
// are items i and i+1 of parent, and stray for every name that is none.
func walk(top *yaml.Node, visit func(k *key, parent *yaml.Node, i int) error, stray func(name string, n *yaml.Node)) error {
	t := settings()
	if aliases := t.byFold["aliases"]; isFlatAliases(top, aliases) {
		return walkSection(top, aliases, visit, stray)
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(top.Content); i += 2 {
		name, value := top.Content[i], follow(top.Content[i+1])
		sec := t.byFold[fold(name.Value)]
		switch {
		case isMeta(name.Value):
			continue
		case flat[fold(name.Value)] != "":
			if err := visit(t.find(name.Value), top, i); err != nil {
				return err
			}
			continue
		case name.Value == "tools" && value.Kind == yaml.MappingNode:
			if err := walkTools(value, t.byFold["shell"], visit, stray); err != nil {
				return err
			}
			continue
		case sec == nil:
			stray(name.Value, name)
			continue
		case seen[sec.name]:
			return bad(name, name.Value, "is given twice")
		}
		seen[sec.name] = true
		switch {
		case value.Kind == yaml.MappingNode:
			if err := walkSection(value, sec, visit, stray); err != nil {
				return err
			}
		case value.ShortTag() != "!!null": // an empty section says nothing
			return bad(name, name.Value, "must be an object, not %s", kindOf(value))
		}
	}
	return nil
}

// walkTools takes the form [tools.shell] for the section shell.
func walkTools(n *yaml.Node, shell *section, visit func(*key, *yaml.Node, int) error, stray func(string, *yaml.Node)) error {
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], follow(n.Content[i+1])
		if name.Value != "shell" || value.Kind != yaml.MappingNode {
			stray("tools."+name.Value, name)
			continue
		}
		if err := walkSection(value, shell, visit, stray); err != nil {
			return err
		}
	}
	return nil
}

func walkSection(n *yaml.Node, sec *section, visit func(*key, *yaml.Node, int) error, stray func(string, *yaml.Node)) error {
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		k := sec.byFold[fold(name.Value)]
		switch {
		case isMeta(name.Value):
		case k == nil:
			stray(sec.name+"."+name.Value, name)
		default:
			if err := visit(k, n, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// isFlatAliases reports whether a file has nothing but settings of the section
// aliases at its top, as a server for aliases alone would have it.
func isFlatAliases(top *yaml.Node, aliases *section) bool {
	found := false
	for i := 0; i+1 < len(top.Content); i += 2 {
		name := top.Content[i].Value
		if isMeta(name) {
			continue
		}
		if aliases.byFold[fold(name)] == nil {
			return false
		}
		found = true
	}
	return found
}

// follow returns what an alias of YAML stands for.
func follow(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// typed turns pairs into a layer, or says which one is wrong.
func typed(pairs []pair, home string) (*layer, error) {
	l := &layer{has: make(map[*key]place)}
	var e encoder
	bySection := make(map[string][]pair)
	for _, p := range pairs {
		if _, twice := l.has[p.key]; twice {
			return nil, refused(p.place.origin, &badPlace{p.place.line, p.key.name, "is given twice"})
		}
		if follow(p.value).ShortTag() == "!!null" && !p.key.nullable {
			continue // null counts as absent
		}
		l.has[p.key] = p.place
		bySection[p.key.section] = append(bySection[p.key.section], p)
	}
	e.out.WriteByte('{')
	for _, sec := range settings().sections {
		for i, p := range bySection[sec.name] {
			if i > 0 {
				e.out.WriteByte(',')
			} else {
				if e.out.Len() > 1 {
					e.out.WriteByte(',')
				}
				e.out.Write(quote(sec.name))
				e.out.WriteString(":{")
			}
			e.out.Write(quote(p.key.leaf))
			e.out.WriteByte(':')
			if err := e.write(p.value, p.key.name, p.key.typ, p.key.enum, 0); err != nil {
				return nil, refused(p.place.origin, err)
			}
		}
		if len(bySection[sec.name]) > 0 {
			e.out.WriteByte('}')
		}
	}
	e.out.WriteByte('}')
	if err := settings().schema.Decode(e.out.Bytes(), &l.cfg); err != nil {
		return nil, l.blame(err)
	}
	for _, k := range settings().keys {
		if p, ok := l.has[k]; ok {
			if err := expand(k, &l.cfg, home); err != nil {
				return nil, refused(p.origin, &badPlace{p.line, k.name, err.Error()})
			}
		}
	}
	return l, nil
}

// blame finds the source of a value that does not fit.
func (l *layer) blame(err error) error {
	p, ok := errors.AsType[*schema.Problem](err)
	if !ok {
		return err
	}
	for k, at := range l.has {
		if rest, ok := strings.CutPrefix(p.Field, k.name); ok && (rest == "" || rest[0] == '[' || rest[0] == '.') {
			return refused(at.origin, &badPlace{at.line, p.Field, p.Message})
		}
	}
	return err
}

// expand resolves ~ in a path and checks that it is absolute where it must be.
func expand(k *key, c *Config, home string) error {
	if k.path == "" {
		return nil
	}
	v := k.in(c)
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if v.Kind() == reflect.String {
		return expandOne(k, v, home)
	}
	list := reflect.MakeSlice(v.Type(), v.Len(), v.Len()) // the old one may be shared
	reflect.Copy(list, v)
	for i := range list.Len() {
		if err := expandOne(k, list.Index(i), home); err != nil {
			return err
		}
	}
	v.Set(list)
	return nil
}

func expandOne(k *key, v reflect.Value, home string) error {
	path := v.String()
	for _, prefix := range []string{"~", "$HOME"} {
		rest, ok := strings.CutPrefix(path, prefix)
		if ok && home != "" && (rest == "" || rest[0] == '/' || rest[0] == filepath.Separator) {
			path = filepath.Join(home, rest)
			break
		}
	}
	if k.path == "absolute" && !filepath.IsAbs(path) {
		return fmt.Errorf("must be an absolute path or begin with ~/, not %q", clip(path))
	}
	v.SetString(path)
	return nil
}

const envPrefix = "ASYNC_CRUD_MCP_"

// envLayer reads the environment.
func envLayer(env []string, home string) (*layer, error) {
	var pairs []pair
	var warnings []Warning
	for _, entry := range env {
		name, text, _ := strings.Cut(entry, "=")
		rest, ok := strings.CutPrefix(name, envPrefix)
		if !ok || rest == "HOME" || text == "" {
			continue
		}
		origin := Origin("environment " + name)
		sec, leaf, ok := strings.Cut(rest, "__")
		k := settings().find(sec + "." + leaf)
		if !ok || k == nil {
			k := settings().find(settings().suggest(strings.TrimSuffix(sec+"."+leaf, ".")))
			w := Warning{Origin: origin, Key: "it", Message: "is not a setting; a setting is " + envPrefix + "SECTION__KEY"}
			if k != nil {
				w.Message = "is not a setting; did you mean " + EnvName(k.name) + "?"
			}
			warnings = append(warnings, w)
			continue
		}
		value, err := textNode(k, text)
		if err != nil {
			return nil, refused(origin, &badPlace{key: k.name, message: err.Error()})
		}
		pairs = append(pairs, pair{k, value, place{origin: origin}})
	}
	l, err := typed(pairs, home)
	if err != nil {
		return nil, err
	}
	l.warnings = warnings
	return l, nil
}

// EnvName returns the environment variable of a key.
func EnvName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "__"))
}

// textNode reads a value that was typed rather than written into a file: JSON,
// or plain text for a string, or words with commas between them for a list.
func textNode(k *key, text string) (*yaml.Node, error) {
	typ := k.typ
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	trimmed := strings.TrimSpace(text)
	if k.nullable && trimmed == "null" {
		return parseJSON([]byte(trimmed))
	}
	switch {
	case typ.Kind() == reflect.String && !(strings.HasPrefix(trimmed, `"`) && json.Valid([]byte(trimmed))):
		return nodeOf(text), nil
	case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.String && !strings.HasPrefix(trimmed, "["):
		var words []any
		for word := range strings.SplitSeq(text, ",") {
			if word = strings.TrimSpace(word); word != "" {
				words = append(words, word)
			}
		}
		return nodeOf(words), nil
	case typ.Kind() == reflect.Bool:
		switch strings.ToLower(trimmed) {
		case "true", "1", "yes", "on":
			return nodeOf(true), nil
		case "false", "0", "no", "off":
			return nodeOf(false), nil
		}
		return nil, errors.New("must be true or false")
	}
	n, err := parseJSON([]byte(trimmed))
	if err != nil {
		return nil, errors.New("is not a JSON value")
	}
	return n, nil
}

// commandLayer reads --set and the named flags, which go before --set.
func commandLayer(set []string, flags map[string]any, home string) (*layer, error) {
	values := make(map[*key]pair)
	for _, entry := range set {
		name, text, ok := strings.Cut(entry, "=")
		k := settings().find(strings.TrimSpace(name))
		switch {
		case k == nil:
			return nil, &Error{Origin: FromSet, Message: name + " " + unknown(name)}
		case !ok:
			return nil, &Error{Origin: FromSet, Message: k.name + " needs a value: " + k.name + "=VALUE"}
		}
		n, err := textNode(k, text)
		if err != nil {
			return nil, refused(FromSet, &badPlace{key: k.name, message: err.Error()})
		}
		values[k] = pair{k, n, place{origin: FromSet}}
	}
	for name, value := range flags {
		k := settings().find(name)
		if k == nil {
			return nil, &Error{Origin: FromFlag, Message: name + " " + unknown(name)}
		}
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, refused(FromFlag, err)
		}
		n, err := parseJSON(raw)
		if err != nil {
			return nil, refused(FromFlag, err)
		}
		values[k] = pair{k, n, place{origin: FromFlag}}
	}
	var pairs []pair
	for _, k := range settings().keys {
		if p, ok := values[k]; ok {
			pairs = append(pairs, p)
		}
	}
	return typed(pairs, home)
}
