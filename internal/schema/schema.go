// Package schema turns a Go struct into a JSON Schema and decodes JSON into
// that struct by the same rules, so that what is published and what is enforced
// cannot drift apart. Tools and configuration both use it.
//
// Struct tags:
//
//	json:"name,omitempty"     name on the wire; a field with omitempty, a default or
//	                          a pointer type is optional; a pointer without omitempty
//	                          is null when it is nil
//	jsonschema:"text"         description
//	default:"30"              value when absent (JSON, or plain text for strings)
//	usual:"30"                like default, but only shown: the value when absent depends
//	                          on settings, and the field is left empty
//	enum:"json,unified"       allowed strings
//	minimum:"0" maximum:"10"  bounds of a number, inclusive
//	minLength:"1" maxLength:"10"
//	                          bounds of a string in characters
//	minItems:"1" maxItems:"9" bounds of a list
//
// A Schema is immutable and safe for concurrent use.
package schema

import (
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// Schema describes one struct type.
type Schema struct {
	typ    reflect.Type
	object *object

	full, compact, brief func() json.RawMessage // made when first asked for
}

// Of returns the schema of T. It fails when a tag of T makes no sense.
func Of[T any]() (*Schema, error) { return For(reflect.TypeFor[T]()) }

// For returns the schema of a struct type.
func For(t reflect.Type) (*Schema, error) {
	obj, err := objectOf(t, nil)
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", t, err)
	}
	s := &Schema{typ: t, object: obj}
	s.full = sync.OnceValue(func() json.RawMessage { return obj.write(full) })
	s.compact = sync.OnceValue(func() json.RawMessage { return obj.write(compact) })
	s.brief = sync.OnceValue(func() json.RawMessage { return obj.write(brief) })
	return s, nil
}

// JSON is the schema with descriptions.
func (s *Schema) JSON() json.RawMessage { return s.full() }

// Brief is the schema without descriptions and bounds, for places where every
// byte is paid for; objects are open, so that results may grow fields.
func (s *Schema) Brief() json.RawMessage { return s.brief() }

// Compact is the schema as a model should read it: descriptions, defaults,
// choices and bounds of numbers, without what is enforced anyway and only costs
// bytes.
func (s *Schema) Compact() json.RawMessage { return s.compact() }

// Field is one property as documentation shows it.
type Field struct {
	Name        string
	Type        string
	Required    bool
	Default     string // JSON, or "" when there is none
	Description string
	Enum        []string
	Fields      []Field // of a nested object or of list items
}

// Fields lists the properties in declaration order.
func (s *Schema) Fields() []Field { return s.object.fields() }

// object is the plan for one struct type: its properties in order.
type object struct{ props []*property }

// find returns the property of that name, or nil. There are few enough to look
// through.
func (o *object) find(name string) *property {
	for _, p := range o.props {
		if p.name == name {
			return p
		}
	}
	return nil
}

type property struct {
	name        string
	index       []int
	description string
	required    bool
	hasDefault  bool
	def         reflect.Value
	defJSON     json.RawMessage
	value       *value
}

// value is the plan for one value: its kind, bounds and parts.
type value struct {
	typ                  reflect.Type
	nullable             bool
	types                []string // of a Typed
	enum                 []string
	minimum, maximum     *float64
	minLength, maxLength *int
	minItems, maxItems   *int
	object               *object // struct
	elem                 *value  // slice, array, map, pointer
}

// Typed is implemented by types that write themselves, and read themselves if
// they are part of an input, and say as what.
type Typed interface {
	JSONTypes() []string // such as "string", "null"
}

var (
	typedType      = reflect.TypeFor[Typed]()
	rawMessageType = reflect.TypeFor[json.RawMessage]()
	textType       = reflect.TypeFor[interface{ UnmarshalText([]byte) error }]()
)

// plans keeps the plan of every struct type that was asked for: results share
// most of theirs.
var plans sync.Map // reflect.Type → *object

func objectOf(t reflect.Type, seen []reflect.Type) (*object, error) {
	if o, ok := plans.Load(t); ok {
		return o.(*object), nil
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s is not a struct", t)
	}
	if slices.Contains(seen, t) {
		return nil, fmt.Errorf("%s contains itself", t)
	}
	seen = append(seen, t)
	o := new(object)
	var room [8]tag
	for f := range fieldsOf(t) {
		tags := tagsOf(room[:0], f.Tag)
		name, opts, _ := strings.Cut(tags.get("json"), ",")
		if f.Anonymous && name == "" {
			continue // its fields are visited by themselves
		}
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			return nil, fmt.Errorf("field %s has no json name", f.Name)
		}
		v, err := valueOf(f.Type, seen)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", name, err)
		}
		if strings.Contains(opts, "omit") {
			v.nullable = false // it is absent instead
		}
		if err := v.bounds(tags); err != nil {
			return nil, fmt.Errorf("field %s: %w", name, err)
		}
		p := &property{
			name: name, index: f.Index, description: tags.get("jsonschema"), value: v,
			required: !strings.Contains(opts, "omit") && f.Type.Kind() != reflect.Pointer,
		}
		if d, ok := tags.lookup("default"); ok {
			if err := p.setDefault(d, f.Type); err != nil {
				return nil, fmt.Errorf("field %s: default: %w", name, err)
			}
		} else if d, ok := tags.lookup("usual"); ok {
			if err := p.setDefault(d, f.Type); err != nil {
				return nil, fmt.Errorf("field %s: usual: %w", name, err)
			}
			p.hasDefault = false
		}
		if o.find(name) != nil {
			return nil, fmt.Errorf("two fields are named %s", name)
		}
		o.props = append(o.props, p)
	}
	plans.Store(t, o)
	return o, nil
}

// fieldsOf yields the fields of t, those of embedded structs too.
func fieldsOf(t reflect.Type) iter.Seq[reflect.StructField] {
	for f := range t.Fields() {
		if f.Anonymous {
			return slices.Values(reflect.VisibleFields(t))
		}
	}
	return t.Fields()
}

// tags are the tags of a field, read once: most fields have few of the many
// that are looked for.
type tags []tag

type tag struct{ key, value string }

func tagsOf(list tags, raw reflect.StructTag) tags {
	for rest := string(raw); ; {
		key, after, _ := strings.Cut(rest, ":")
		quoted, err := strconv.QuotedPrefix(after)
		if err != nil {
			return list // the end, or what go vet complains of
		}
		value, _ := strconv.Unquote(quoted) // it is well quoted
		list = append(list, tag{strings.TrimSpace(key), value})
		rest = after[len(quoted):]
	}
}

func (t tags) lookup(key string) (string, bool) {
	for i := range t {
		if t[i].key == key {
			return t[i].value, true
		}
	}
	return "", false
}

func (t tags) get(key string) string {
	value, _ := t.lookup(key)
	return value
}

func (p *property) setDefault(text string, t reflect.Type) error {
	raw := json.RawMessage(text)
	base := t
	for base.Kind() == reflect.Pointer {
		base = base.Elem()
	}
	if base.Kind() == reflect.String && text != "null" && !strings.HasPrefix(text, `"`) {
		raw, _ = json.Marshal(text)
	}
	dst := reflect.New(t).Elem()
	if err := p.value.decode(raw, dst, p.name); err != nil {
		return err
	}
	p.required, p.hasDefault, p.def, p.defJSON = false, true, dst, raw
	return nil
}

func valueOf(t reflect.Type, seen []reflect.Type) (*value, error) {
	v := &value{typ: t}
	var err error
	switch {
	case t.Kind() != reflect.Pointer && t.Implements(typedType):
		v.types = reflect.Zero(t).Interface().(Typed).JSONTypes()
		return v, nil
	case t == rawMessageType || t.Kind() == reflect.Interface:
		return v, nil
	case reflect.PointerTo(t).Implements(textType):
		return v, nil // a string on the wire
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
	case reflect.Pointer:
		v.nullable = true
		v.elem, err = valueOf(t.Elem(), seen)
	case reflect.Slice:
		v.elem, err = valueOf(t.Elem(), seen)
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return nil, fmt.Errorf("map key of %s is not a string", t)
		}
		v.elem, err = valueOf(t.Elem(), seen)
	case reflect.Struct:
		v.object, err = objectOf(t, seen)
	default:
		err = fmt.Errorf("cannot describe %s", t)
	}
	return v, err
}

// bounds reads the limiting tags onto the value they limit: the pointee for a
// pointer, the items for an enum on a list of strings.
func (v *value) bounds(tags tags) error {
	base := v
	for base.typ.Kind() == reflect.Pointer {
		base = base.elem
	}
	var firstErr error
	number := func(key string) *float64 {
		s, ok := tags.lookup(key)
		if !ok {
			return nil
		}
		f, err := strconv.ParseFloat(s, 64)
		if err != nil && firstErr == nil {
			firstErr = fmt.Errorf("tag %s: %w", key, err)
		}
		return &f
	}
	whole := func(key string) *int {
		if f := number(key); f != nil {
			n := int(*f)
			return &n
		}
		return nil
	}
	base.minimum, base.maximum = number("minimum"), number("maximum")
	base.minLength, base.maxLength = whole("minLength"), whole("maxLength")
	base.minItems, base.maxItems = whole("minItems"), whole("maxItems")
	if e, ok := tags.lookup("enum"); ok {
		target := base
		if base.typ.Kind() == reflect.Slice {
			target = base.elem
		}
		if target.typ.Kind() != reflect.String {
			return fmt.Errorf("enum on %s", target.typ)
		}
		target.enum = strings.Split(e, ",")
	}
	return firstErr
}

// kind is the JSON type name of v, or "" when anything goes.
func (v *value) kind() string {
	switch {
	case v.typ == rawMessageType || v.typ.Kind() == reflect.Interface:
		return ""
	case reflect.PointerTo(v.typ).Implements(textType):
		return "string"
	}
	switch v.typ.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "array"
	case reflect.Map, reflect.Struct:
		return "object"
	case reflect.Pointer:
		return v.elem.kind()
	default:
		return "integer"
	}
}

func (o *object) fields() []Field {
	out := make([]Field, 0, len(o.props))
	for _, p := range o.props {
		f := Field{
			Name: p.name, Type: p.value.typeName(), Required: p.required,
			Default: string(p.defJSON), Description: p.description,
		}
		for v := p.value; v != nil; v = v.elem {
			if v.enum != nil {
				f.Enum = v.enum
			}
			if v.object != nil {
				f.Fields = v.object.fields()
			}
		}
		out = append(out, f)
	}
	return out
}

func (v *value) typeName() string {
	switch {
	case v.typ.Kind() == reflect.Pointer && !v.nullable:
		return v.elem.typeName()
	case v.typ.Kind() == reflect.Pointer:
		return v.elem.typeName() + " or null"
	case v.types != nil:
		return strings.Join(v.types, " or ")
	case v.kind() == "":
		return "any"
	case v.kind() == "array":
		return "list of " + v.elem.typeName()
	case v.typ.Kind() == reflect.Map:
		return "map of " + v.elem.typeName()
	default:
		return v.kind()
	}
}

// Nearest returns the candidate closest to name when it is close enough to be
// what was meant, else "". Case and separators do not count.
func Nearest(name string, candidates []string) string {
	best, bestDistance := "", 1+min(max(1, len(name)/3), 4)
	plain := fold(name)
	for _, c := range candidates {
		if d := distance(plain, fold(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || r == ' ' {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}

// distance is the number of single-rune edits between a and b.
func distance(a, b string) int {
	ar, br := []rune(a), []rune(b)
	if len(ar) > 64 || len(br) > 64 {
		return 65 // no name is that long; do not spend time on hostile input
	}
	row := make([]int, len(br)+1)
	for j := range row {
		row[j] = j
	}
	for i := range ar {
		diagonal := row[0]
		row[0] = i + 1
		for j := range br {
			cost := diagonal
			if ar[i] != br[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(br)]
}
