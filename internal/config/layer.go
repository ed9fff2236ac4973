package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"unicode"

	"github.com/async-crud-mcp/async-crud-mcp/internal/config/document"
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
	Line    int    // of the file; 0 when unknown
	Key     string // "" when it is about the source as a whole
	Message string // what follows the key in a sentence
}

func (w Warning) String() string {
	text := strings.TrimPrefix(w.Key+" "+w.Message, " ")
	return (&Error{Origin: w.Origin, Line: w.Line, Message: text}).Error()
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
	value *document.Node
	place place
}

// maxStrays is how many unknown names of one file are told: looking for what was
// meant takes a while, and a hostile file could have a hundred thousand.
const maxStrays = 20

// fileLayer reads the bytes of a settings file.
func fileLayer(kind, path string, data []byte, home string) (*layer, error) {
	origin := Origin(kind + " file " + path)
	doc, err := document.Parse(document.Format(path), data)
	if err != nil {
		return nil, refused(origin, err)
	}
	var pairs []pair
	var warnings []Warning
	strays := 0
	err = walk(document.Root(doc), func(k *key, parent *document.Node, i int) error {
		pairs = append(pairs, pair{k, parent.Content[i+1], place{origin, parent.Content[i].Line}})
		return nil
	}, func(name string, n *document.Node) {
		if strays++; strays <= maxStrays {
			warnings = append(warnings, Warning{Origin: origin, Line: n.Line, Key: plain(name), Message: unknown(name)})
		}
	})
	if strays > maxStrays {
		warnings = append(warnings, Warning{Origin: origin, Message: fmt.Sprintf("%d more names are no settings", strays-maxStrays)})
	}
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

func refused(origin Origin, err error) error {
	e := &Error{Origin: origin, Message: plain(err.Error()), Err: err}
	if b, ok := errors.AsType[*document.Problem](err); ok {
		e.Line, e.Err = b.Line, nil
	}
	if strings.HasPrefix(string(origin), "environment ") {
		e.Message, _, _ = strings.Cut(e.Message, ", not ") // values of the environment are not repeated
	}
	return e
}

// plain makes text of a file fit for a terminal and for an agent: short, and
// without control characters.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == ' ' {
			return r
		}
		return unicode.ReplacementChar
	}, strings.ReplaceAll(strings.TrimSpace(s), "\n", " "))
	if len(s) > 500 {
		s = strings.ToValidUTF8(s[:500], "") + "…"
	}
	return s
}

func unknown(name string) string {
	if k := settings().find(name); k != nil { // in a file, where a name has no dots
		return fmt.Sprintf("is not a setting with a dot in its name; write %s inside %s", k.leaf, k.section)
	}
	if near := settings().suggest(name); near != "" {
		return fmt.Sprintf("is not a setting; did you mean %s?", near)
	}
	return "is not a setting"
}

// walk calls visit for every setting in the tree of a file, whose name and value
// are items i and i+1 of parent, and stray for every name that is none.
func walk(top *document.Node, visit func(k *key, parent *document.Node, i int) error, stray func(name string, n *document.Node)) error {
	t := settings()
	if aliases := t.byFold["aliases"]; isFlatAliases(top, aliases) {
		return walkSection(top, aliases, visit, stray)
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(top.Content); i += 2 {
		name, value := top.Content[i], document.Follow(top.Content[i+1])
		sec := t.byFold[document.Fold(name.Value)]
		switch {
		case document.IsMeta(name.Value):
			continue
		case flat[document.Fold(name.Value)] != "":
			if err := visit(t.find(name.Value), top, i); err != nil {
				return err
			}
			continue
		case name.Value == "tools" && document.IsObject(value):
			if err := walkTools(value, t.byFold["shell"], visit, stray); err != nil {
				return err
			}
			continue
		case sec == nil:
			stray(name.Value, name)
			continue
		case seen[sec.name]:
			return document.Bad(name, name.Value, "is given twice")
		}
		seen[sec.name] = true
		switch {
		case document.IsObject(value):
			if err := walkSection(value, sec, visit, stray); err != nil {
				return err
			}
		case !document.IsNull(value): // an empty section says nothing
			return document.Bad(name, name.Value, "must be an object, not %s", document.Kind(value))
		}
	}
	return nil
}

// walkTools takes the form [tools.shell] for the section shell.
func walkTools(n *document.Node, shell *section, visit func(*key, *document.Node, int) error, stray func(string, *document.Node)) error {
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], document.Follow(n.Content[i+1])
		if name.Value != "shell" || !document.IsObject(value) {
			stray("tools."+name.Value, name)
			continue
		}
		if err := walkSection(value, shell, visit, stray); err != nil {
			return err
		}
	}
	return nil
}

func walkSection(n *document.Node, sec *section, visit func(*key, *document.Node, int) error, stray func(string, *document.Node)) error {
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		k := sec.byFold[document.Fold(name.Value)]
		switch {
		case document.IsMeta(name.Value):
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
func isFlatAliases(top *document.Node, aliases *section) bool {
	found := false
	for i := 0; i+1 < len(top.Content); i += 2 {
		name := top.Content[i].Value
		if document.IsMeta(name) {
			continue
		}
		if aliases.byFold[document.Fold(name)] == nil {
			return false
		}
		found = true
	}
	return found
}

// typed turns pairs into a layer, or says which one is wrong.
func typed(pairs []pair, home string) (*layer, error) {
	l := &layer{has: make(map[*key]place)}
	sections := make(map[string]map[string]json.RawMessage)
	for _, p := range pairs {
		if _, twice := l.has[p.key]; twice {
			return nil, refused(p.place.origin, &document.Problem{Line: p.place.line, Key: p.key.name, Message: "is given twice"})
		}
		if document.IsNull(document.Follow(p.value)) && !p.key.nullable {
			continue // null counts as absent
		}
		raw, err := document.JSON(p.value, p.key.name, p.key.typ, p.key.enum)
		if err != nil {
			return nil, refused(p.place.origin, err)
		}
		l.has[p.key] = p.place
		if sections[p.key.section] == nil {
			sections[p.key.section] = make(map[string]json.RawMessage)
		}
		sections[p.key.section][p.key.leaf] = raw
	}
	whole, err := json.Marshal(sections)
	if err != nil {
		return nil, err
	}
	if err := settings().schema.Decode(whole, &l.cfg); err != nil {
		return nil, l.blame(err)
	}
	for _, k := range settings().keys {
		if p, ok := l.has[k]; ok {
			if err := expand(k, &l.cfg, home); err != nil {
				return nil, refused(p.origin, &document.Problem{Line: p.line, Key: k.name, Message: err.Error()})
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
			return refused(at.origin, &document.Problem{Line: at.line, Key: p.Field, Message: p.Message})
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
		return fmt.Errorf("must be an absolute path or begin with ~/, not %q", document.Clip(path))
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
			w := Warning{Origin: origin, Message: "is not a setting; a setting is " + envPrefix + "SECTION__KEY"}
			if k != nil {
				w.Message = "is not a setting; did you mean " + EnvName(k.name) + "?"
			}
			warnings = append(warnings, w)
			continue
		}
		value, err := textNode(k, text)
		if err != nil {
			return nil, refused(origin, &document.Problem{Key: k.name, Message: err.Error()})
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
func textNode(k *key, text string) (*document.Node, error) {
	typ := k.typ
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	trimmed := strings.TrimSpace(text)
	if k.nullable && trimmed == "null" {
		return document.ParseJSON([]byte(trimmed))
	}
	switch {
	case typ.Kind() == reflect.String && !(strings.HasPrefix(trimmed, `"`) && json.Valid([]byte(trimmed))):
		return document.Of(text), nil
	case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.String && !strings.HasPrefix(trimmed, "["):
		var words []any
		for word := range strings.SplitSeq(text, ",") {
			if word = strings.TrimSpace(word); word != "" {
				words = append(words, word)
			}
		}
		return document.Of(words), nil
	case typ.Kind() == reflect.Bool:
		switch strings.ToLower(trimmed) {
		case "true", "1", "yes", "on":
			return document.Of(true), nil
		case "false", "0", "no", "off":
			return document.Of(false), nil
		}
		return nil, errors.New("must be true or false")
	}
	n, err := document.ParseJSON([]byte(trimmed))
	if err != nil {
		return nil, errors.New("is not a JSON value")
	}
	return n, nil
}

// commandLayer reads --set and the named flags, which go before --set.
func commandLayer(set []string, flags map[string]any, dir, home string) (*layer, error) {
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
			return nil, refused(FromSet, &document.Problem{Key: k.name, Message: err.Error()})
		}
		values[k] = pair{k, fromHere(k, n, dir), place{origin: FromSet}}
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
		n, err := document.ParseJSON(raw)
		if err != nil {
			return nil, refused(FromFlag, err)
		}
		values[k] = pair{k, fromHere(k, n, dir), place{origin: FromFlag}}
	}
	var pairs []pair
	for _, k := range settings().keys {
		if p, ok := values[k]; ok {
			pairs = append(pairs, p)
		}
	}
	return typed(pairs, home)
}

// fromHere makes relative paths of the command line absolute: who types them
// means the current directory, or the one they typed it in.
func fromHere(k *key, n *document.Node, dir string) *document.Node {
	if k.path != "absolute" {
		return n
	}
	for _, item := range append([]*document.Node{n}, n.Content...) {
		if item.Tag != "!!str" || item.Value == "" || item.Value[0] == '~' || item.Value[0] == '$' {
			continue
		}
		if !filepath.IsAbs(item.Value) {
			item.Value = filepath.Join(dir, item.Value)
		}
		if abs, err := filepath.Abs(item.Value); err == nil {
			item.Value = abs
		}
	}
	return n
}
