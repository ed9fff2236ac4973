package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/async-crud-mcp/async-crud-mcp/internal/config/document"
	"github.com/async-crud-mcp/async-crud-mcp/internal/schema"
)

// key is one setting: its name, its place in Config, and its rules.
type key struct {
	name     string // "shell.timeout_max"
	section  string
	leaf     string
	index    []int
	typ      reflect.Type
	enum     []string
	nullable bool
	path     string // tag path
	secret   bool   // tag secret
	mark     mark
	rule     string   // of a tighten mark: "lower", "append", …
	order    []string // of rule "order", loosest first
}

// mark says what a project file may do with a key.
type mark int

const (
	never   mark = iota // only when trusted
	free                // always
	tighten             // only stricter, unless trusted
	process             // not even when trusted
)

func (k *key) in(c *Config) reflect.Value { return reflect.ValueOf(c).Elem().FieldByIndex(k.index) }

// table is everything derived from the tags of Config, made once.
type table struct {
	schema   *schema.Schema
	defaults Config
	keys     []*key
	sections []*section
	byFold   map[string]*section
}

type section struct {
	name   string
	keys   []*key
	byFold map[string]*key
}

// settings returns the table.
var settings = sync.OnceValue(newTable)

// newTable reads the tags. A wrong one is a mistake in this program.
func newTable() *table {
	s, err := schema.Of[Config]()
	if err != nil {
		panic(err)
	}
	t := &table{schema: s, byFold: make(map[string]*section)}
	if err := s.Decode(json.RawMessage("{}"), &t.defaults); err != nil {
		panic(err)
	}
	top := reflect.TypeFor[Config]()
	for i := range top.NumField() {
		sec := &section{name: document.JSONName(top.Field(i)), byFold: make(map[string]*key)}
		for j := range top.Field(i).Type.NumField() {
			k := newKey(sec.name, top.Field(i).Type.Field(j), []int{i, j})
			sec.keys = append(sec.keys, k)
			sec.byFold[document.Fold(k.leaf)] = k
			t.keys = append(t.keys, k)
		}
		t.sections = append(t.sections, sec)
		t.byFold[document.Fold(sec.name)] = sec
	}
	return t
}

func newKey(section string, f reflect.StructField, index []int) *key {
	leaf := document.JSONName(f)
	k := &key{
		name: section + "." + leaf, section: section, leaf: leaf, index: index, typ: f.Type,
		enum: document.Enum(f), path: f.Tag.Get("path"), secret: f.Tag.Get("secret") != "",
	}
	_, hasDefault := f.Tag.Lookup("default")
	k.nullable = f.Type.Kind() == reflect.Pointer || !hasDefault
	tag, rest, _ := strings.Cut(f.Tag.Get("project"), ":")
	switch tag {
	case "":
	case "free":
		k.mark = free
	case "process":
		k.mark = process
	case "tighten":
		var order string
		k.mark = tighten
		if k.rule, order, _ = strings.Cut(rest, ":"); order != "" {
			k.order = strings.Split(order, ",")
		}
	default:
		panic(fmt.Sprintf("config: %s has the unknown mark %q", k.name, tag))
	}
	return k
}

// flat are the keys that may also stand at the top of a file.
var flat = map[string]string{
	"shellenabled":          "shell.enabled",
	"shelldenypatterns":     "shell.deny_patterns",
	"shelldenypatternsmode": "shell.deny_patterns_mode",
}

// find returns the key of a dotted or flat name in any spelling, or nil.
func (t *table) find(name string) *key {
	if full, ok := flat[document.Fold(name)]; ok {
		name = full
	}
	name = strings.TrimPrefix(name, "tools.")
	sec, leaf, _ := strings.Cut(name, ".")
	if s := t.byFold[document.Fold(sec)]; s != nil {
		return s.byFold[document.Fold(leaf)]
	}
	return nil
}

// suggest returns the key or section that an unknown name most likely means, or
// "".
func (t *table) suggest(name string) string {
	var full, sections []string
	for _, k := range t.keys {
		full = append(full, k.name)
	}
	if near := schema.Nearest(name, full); near != "" {
		return near
	}
	leaf := document.Fold(name[strings.LastIndexByte(name, '.')+1:])
	for _, k := range t.keys {
		if document.Fold(k.leaf) == leaf {
			return k.name // the right leaf in the wrong section
		}
	}
	for _, s := range t.sections {
		sections = append(sections, s.name)
	}
	return schema.Nearest(name, sections)
}

// KeyName returns the full name of a setting that is spelled in some way, or "".
func KeyName(name string) string {
	if k := settings().find(strings.TrimSpace(name)); k != nil {
		return k.name
	}
	return ""
}

// SectionNames lists the sections in order.
func SectionNames() []string {
	var names []string
	for _, s := range settings().sections {
		names = append(names, s.name)
	}
	return names
}
