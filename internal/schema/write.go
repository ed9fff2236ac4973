package schema

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Schemas are written straight from the plan: every start of the server writes
// those of all its tools before it can answer tools/list, and a general encoder
// takes many times as long.

// style says how much of a plan is written.
type style uint8

const (
	full    style = iota // everything
	compact              // without closed objects and without lengths
	brief                // types and required names
)

// BriefEither is the brief schema of an object that is either a's or b's: it
// requires what both require, and admits for each property what either admits.
func BriefEither(a, b *Schema) json.RawMessage {
	w := &writer{style: brief}
	w.open()
	w.key("type").text("object")
	w.key("properties").open()
	var required []string
	for _, p := range a.object.props {
		w.key(p.name)
		q := b.object.find(p.name)
		if q == nil {
			w.value(p.value, nil)
			continue
		}
		w.either(p.value, q.value)
		if p.required && q.required {
			required = append(required, p.name)
		}
	}
	for _, p := range b.object.props {
		if a.object.find(p.name) == nil {
			w.key(p.name).value(p.value, nil)
		}
	}
	w.close()
	w.required(required)
	w.close()
	return w.out
}

// write returns o in one style.
func (o *object) write(s style) json.RawMessage {
	w := &writer{style: s}
	w.value(&value{typ: structType, object: o}, nil)
	return w.out
}

var structType = reflect.TypeFor[struct{}]()

// writer writes JSON. The caller brings keys and values in the right order.
type writer struct {
	style style
	out   []byte
}

func (w *writer) open()  { w.out = append(w.out, '{') }
func (w *writer) close() { w.out = append(w.out, '}') }

// key begins a member of the object that is open.
func (w *writer) key(name string) *writer {
	if w.out[len(w.out)-1] != '{' {
		w.out = append(w.out, ',')
	}
	w.text(name)
	w.out = append(w.out, ':')
	return w
}

// text writes a string without HTML escapes.
func (w *writer) text(s string) {
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r >= 0x7f }) < 0 {
		w.out = append(append(append(w.out, '"'), s...), '"')
		return
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always has an encoding
	w.out = append(w.out, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

func (w *writer) texts(list []string) {
	for i, s := range list {
		w.out = append(w.out, "[,"[min(i, 1)])
		w.text(s)
	}
	w.out = append(w.out, ']')
}

func (w *writer) whole(key string, n *int) {
	if n != nil {
		w.key(key)
		w.out = strconv.AppendInt(w.out, int64(*n), 10)
	}
}

func (w *writer) number(key string, f *float64) {
	if f != nil {
		w.key(key)
		w.out = strconv.AppendFloat(w.out, *f, 'f', -1, 64)
	}
}

func (w *writer) types(list []string) {
	switch len(list) {
	case 0: // anything
	case 1:
		w.key("type").text(list[0])
	default:
		w.key("type").texts(list)
	}
}

func (w *writer) required(names []string) {
	if len(names) > 0 {
		w.key("required").texts(names)
	}
}

// value writes the schema of v, as the value of p when that is not nil. What
// admits anything and says nothing is written as true.
func (w *writer) value(v *value, p *property) {
	begin := len(w.out)
	w.open()
	types := v.jsonTypes()
	base := v // below the pointers
	for base.typ.Kind() == reflect.Pointer {
		base = base.elem
	}
	w.types(types)
	if base.object != nil {
		w.key("properties").open()
		for _, p := range base.object.props {
			w.key(p.name).value(p.value, p)
		}
		w.close()
	}
	if base.typ.Kind() == reflect.Slice && base.elem != nil {
		w.key("items").value(base.elem, nil)
	}
	if w.style != brief {
		if p != nil && p.description != "" {
			w.key("description").text(p.description)
		}
		if p != nil && len(p.defJSON) > 0 {
			w.key("default").raw(p.defJSON)
		}
		if base.enum != nil {
			w.key("enum").texts(base.enum)
			if slices.Contains(types, "null") {
				w.out = append(w.out[:len(w.out)-1], ",null]"...)
			}
		}
		w.number("minimum", base.minimum)
		w.number("maximum", base.maximum)
	}
	if w.style == full {
		w.whole("minLength", base.minLength)
		w.whole("maxLength", base.maxLength)
		w.whole("minItems", base.minItems)
		w.whole("maxItems", base.maxItems)
	}
	switch {
	case base.object != nil:
		var required []string
		for _, p := range base.object.props {
			if p.required {
				required = append(required, p.name)
			}
		}
		w.required(required)
		if w.style == full {
			w.key("additionalProperties")
			w.out = append(w.out, "false"...)
		}
	case base.typ.Kind() == reflect.Map && base.elem != nil:
		w.key("additionalProperties").value(base.elem, nil)
	}
	w.close()
	if len(w.out) == begin+len("{}") {
		w.out = append(w.out[:begin], "true"...)
	}
}

// raw writes JSON without its white space.
func (w *writer) raw(text json.RawMessage) {
	b := bytes.NewBuffer(w.out)
	_ = json.Compact(b, text) // it was decoded when the plan was made
	w.out = b.Bytes()
}

// either writes a schema that admits what a and what b admits, by type alone
// where they differ.
func (w *writer) either(a, b *value) {
	begin := len(w.out)
	w.value(a, nil)
	middle := len(w.out)
	w.value(b, nil)
	if bytes.Equal(w.out[begin:middle], w.out[middle:]) {
		w.out = w.out[:middle]
		return
	}
	w.out = w.out[:begin]
	all, more := slices.Clone(a.jsonTypes()), b.jsonTypes()
	if len(all) == 0 || len(more) == 0 {
		w.out = append(w.out, "true"...) // one of them admits anything
		return
	}
	for _, t := range more {
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	w.open()
	w.types(all)
	w.close()
}

// jsonTypes lists the JSON types that v admits; none: anything.
func (v *value) jsonTypes() []string {
	switch {
	case v.typ.Kind() == reflect.Pointer:
		types := v.elem.jsonTypes()
		if v.nullable && len(types) == 1 {
			return []string{types[0], "null"}
		}
		return types
	case v.types != nil:
		return v.types
	case v.kind() == "":
		return nil
	default:
		return []string{v.kind()}
	}
}
