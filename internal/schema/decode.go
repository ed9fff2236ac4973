package schema

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Problem is a value that does not fit, with its place.
type Problem struct {
	Field   string // "patches[1].old_string"; "" for the whole object
	Message string
}

func (p *Problem) Error() string {
	if p.Field == "" {
		return p.Message
	}
	return p.Field + " " + p.Message
}

func problem(field, format string, args ...any) *Problem {
	return &Problem{Field: field, Message: fmt.Sprintf(format, args...)}
}

// Decode reads raw into the struct that into points to, which must be of the
// schema's type. It refuses unknown, repeated and case-variant keys, text that
// JSON would have to change to hold it, and values out of bounds; numbers keep
// every digit; absent fields get their defaults. A list or object may also
// arrive as a string of JSON, and null counts as absent. The error is a
// *Problem.
func (s *Schema) Decode(raw json.RawMessage, into any) error {
	dst := reflect.ValueOf(into)
	if dst.Kind() != reflect.Pointer || dst.Elem().Type() != s.typ {
		panic(fmt.Sprintf("schema: decode into %T, want *%s", into, s.typ))
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	if !utf8.Valid(raw) {
		return problem("", "arguments are not valid UTF-8")
	}
	if !json.Valid(raw) {
		return problem("", "arguments are not valid JSON")
	}
	return s.object.decode(raw, dst.Elem(), "")
}

func (o *object) decode(raw json.RawMessage, dst reflect.Value, at string) error {
	raw = unwrap(raw, '{')
	if raw[0] != '{' {
		return problem(at, "must be an object, not %s", kindOf(raw))
	}
	seen := make(map[*property]bool, len(o.props))
	err := members(raw, func(name string, val json.RawMessage) error {
		p := o.find(name)
		if p == nil {
			return o.unknown(join(at, name))
		}
		if seen[p] {
			return problem(join(at, name), "is given twice")
		}
		if string(val) == "null" && !p.value.nullable {
			if p.required {
				return problem(join(at, name), "is required and must not be null")
			}
			return nil // null counts as absent
		}
		seen[p] = true
		return p.value.decode(val, dst.FieldByIndex(p.index), join(at, name))
	})
	if err != nil {
		return err
	}
	for _, p := range o.props {
		switch {
		case seen[p]:
		case p.required:
			return problem(join(at, p.name), "is required")
		case p.hasDefault:
			dst.FieldByIndex(p.index).Set(p.def)
		}
	}
	return nil
}

func (o *object) unknown(field string) error {
	names := make([]string, len(o.props))
	for i, p := range o.props {
		names[i] = p.name
	}
	last := field[strings.LastIndexByte(field, '.')+1:]
	if near := Nearest(last, names); near != "" {
		return problem(field, "is not a known argument; did you mean %q?", near)
	}
	if len(names) == 0 {
		return problem(field, "is not a known argument; there are none")
	}
	return problem(field, "is not a known argument; known: %s", strings.Join(names, ", "))
}

func (v *value) decode(raw json.RawMessage, dst reflect.Value, at string) error {
	if v.typ.Kind() == reflect.Pointer {
		if string(raw) == "null" {
			return nil
		}
		dst.Set(reflect.New(v.typ.Elem()))
		return v.elem.decode(raw, dst.Elem(), at)
	}
	if v.object != nil {
		return v.object.decode(raw, dst, at)
	}
	if u, ok := reflect.TypeAssert[json.Unmarshaler](dst.Addr()); ok && v.types != nil {
		if err := u.UnmarshalJSON(raw); err != nil {
			return problem(at, "must be %s, not %s", strings.Join(v.types, " or "), kindOf(raw))
		}
		return nil
	}
	switch v.kind() {
	case "":
		if v.typ == rawMessageType {
			dst.SetBytes(bytes.Clone(raw))
			return nil
		}
		return v.decodeAny(raw, dst, at)
	case "string":
		return v.decodeString(raw, dst, at)
	case "boolean":
		if raw[0] != 't' && raw[0] != 'f' {
			return problem(at, "must be true or false, not %s", kindOf(raw))
		}
		dst.SetBool(raw[0] == 't')
		return nil
	case "number":
		return v.decodeFloat(raw, dst, at)
	case "integer":
		return v.decodeInt(raw, dst, at)
	case "array":
		return v.decodeList(raw, dst, at)
	default:
		return v.decodeMap(raw, dst, at)
	}
}

func (v *value) decodeAny(raw json.RawMessage, dst reflect.Value, at string) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var x any
	if err := d.Decode(&x); err != nil {
		return problem(at, "is not valid JSON: %v", err)
	}
	if x == nil {
		dst.SetZero()
	} else {
		dst.Set(reflect.ValueOf(x))
	}
	return nil
}

func (v *value) decodeString(raw json.RawMessage, dst reflect.Value, at string) error {
	if raw[0] != '"' {
		return problem(at, "must be a string, not %s", kindOf(raw))
	}
	s, ok := unquote(raw)
	if !ok {
		return problem(at, "holds half of a surrogate pair, which is not a character")
	}
	if t, ok := reflect.TypeAssert[encoding.TextUnmarshaler](dst.Addr()); ok {
		if err := t.UnmarshalText([]byte(s)); err != nil {
			return problem(at, "%v", err)
		}
		return nil
	}
	if v.minLength != nil || v.maxLength != nil {
		n := utf8.RuneCountInString(s)
		if v.minLength != nil && n < *v.minLength {
			if n == 0 {
				return problem(at, "must not be empty")
			}
			return problem(at, "must have at least %d characters, not %d", *v.minLength, n)
		}
		if v.maxLength != nil && n > *v.maxLength {
			return problem(at, "must have at most %d characters, not %d", *v.maxLength, n)
		}
	}
	if v.enum != nil && !slices.Contains(v.enum, s) {
		return problem(at, "must be one of %s, not %q", strings.Join(v.enum, ", "), clip(s))
	}
	dst.SetString(s)
	return nil
}

func (v *value) decodeFloat(raw json.RawMessage, dst reflect.Value, at string) error {
	if !isNumber(raw) {
		return problem(at, "must be a number, not %s", kindOf(raw))
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsInf(f, 0) {
		return problem(at, "is too large a number")
	}
	if err := v.inRange(f, at); err != nil {
		return err
	}
	dst.SetFloat(f)
	return nil
}

func (v *value) decodeInt(raw json.RawMessage, dst reflect.Value, at string) error {
	if !isNumber(raw) {
		return problem(at, "must be a whole number, not %s", kindOf(raw))
	}
	if dst.CanUint() {
		n, err := strconv.ParseUint(string(raw), 10, 64)
		if err != nil || dst.OverflowUint(n) {
			return problem(at, "must be a whole number from 0 up that fits %d bits", dst.Type().Bits())
		}
		if err := v.inRange(float64(n), at); err != nil {
			return err
		}
		dst.SetUint(n)
		return nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		// 5.0 and 1e3 are whole numbers too, as long as float64 holds them exactly.
		f, ferr := strconv.ParseFloat(string(raw), 64)
		if ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 || !strings.ContainsAny(string(raw), ".eE") {
			return problem(at, "must be a whole number, not %s", clip(string(raw)))
		}
		n = int64(f)
	}
	if dst.OverflowInt(n) {
		return problem(at, "does not fit %d bits", dst.Type().Bits())
	}
	if err := v.inRange(float64(n), at); err != nil {
		return err
	}
	dst.SetInt(n)
	return nil
}

func (v *value) inRange(f float64, at string) error {
	format := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	if v.minimum != nil && f < *v.minimum {
		return problem(at, "must be at least %s, not %s", format(*v.minimum), format(f))
	}
	if v.maximum != nil && f > *v.maximum {
		return problem(at, "must be at most %s, not %s", format(*v.maximum), format(f))
	}
	return nil
}

func (v *value) decodeList(raw json.RawMessage, dst reflect.Value, at string) error {
	raw = unwrap(raw, '[')
	if raw[0] != '[' {
		return problem(at, "must be a list, not %s", kindOf(raw))
	}
	list := reflect.MakeSlice(v.typ, 0, 0)
	err := elements(raw, func(i int, val json.RawMessage) error {
		item := reflect.New(v.typ.Elem()).Elem()
		if err := v.elem.decode(val, item, fmt.Sprintf("%s[%d]", at, i)); err != nil {
			return err
		}
		list = reflect.Append(list, item)
		return nil
	})
	if err != nil {
		return err
	}
	if v.minItems != nil && list.Len() < *v.minItems {
		return problem(at, "must have at least %d items, not %d", *v.minItems, list.Len())
	}
	if v.maxItems != nil && list.Len() > *v.maxItems {
		return problem(at, "must have at most %d items, not %d", *v.maxItems, list.Len())
	}
	dst.Set(list)
	return nil
}

func (v *value) decodeMap(raw json.RawMessage, dst reflect.Value, at string) error {
	raw = unwrap(raw, '{')
	if raw[0] != '{' {
		return problem(at, "must be an object, not %s", kindOf(raw))
	}
	m := reflect.MakeMap(v.typ)
	err := members(raw, func(name string, val json.RawMessage) error {
		k := reflect.ValueOf(name).Convert(v.typ.Key())
		if m.MapIndex(k).IsValid() {
			return problem(join(at, name), "is given twice")
		}
		item := reflect.New(v.typ.Elem()).Elem()
		if err := v.elem.decode(val, item, join(at, name)); err != nil {
			return err
		}
		m.SetMapIndex(k, item)
		return nil
	})
	if err != nil {
		return err
	}
	dst.Set(m)
	return nil
}

// unwrap returns the JSON inside a JSON string when it begins as wanted, since
// some hosts hand lists and objects over as text; else raw itself.
func unwrap(raw json.RawMessage, want byte) json.RawMessage {
	if raw[0] != '"' {
		return raw
	}
	s, ok := unquote(raw)
	if !ok {
		return raw
	}
	inner := bytes.TrimSpace([]byte(s))
	if len(inner) > 0 && inner[0] == want && json.Valid(inner) {
		return inner
	}
	return raw
}

// unquote decodes a string of valid JSON in one pass. ok is false for half a
// surrogate pair, which the standard decoder would silently replace.
func unquote(raw json.RawMessage) (s string, ok bool) {
	in := raw[1 : len(raw)-1]
	i := bytes.IndexByte(in, '\\')
	if i < 0 {
		return string(in), true
	}
	out := make([]byte, 0, len(in))
	for ; i >= 0; i = bytes.IndexByte(in, '\\') {
		out = append(out, in[:i]...)
		escape := in[i+1]
		in = in[i+2:]
		if escape != 'u' {
			out = append(out, unescaped(escape))
			continue
		}
		r := hex4(in)
		in = in[4:]
		if utf16.IsSurrogate(r) {
			if len(in) < 6 || in[0] != '\\' || in[1] != 'u' {
				return "", false
			}
			if r = utf16.DecodeRune(r, hex4(in[2:])); r == utf8.RuneError {
				return "", false
			}
			in = in[6:]
		}
		out = utf8.AppendRune(out, r)
	}
	return string(append(out, in...)), true
}

func unescaped(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'r':
		return '\r'
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	default: // quote, backslash, slash
		return c
	}
}

func hex4(b []byte) rune {
	n, _ := strconv.ParseUint(string(b[:4]), 16, 32)
	return rune(n)
}

// members calls f for each member of a valid JSON object.
func members(raw json.RawMessage, f func(name string, val json.RawMessage) error) error {
	for i := skipSpace(raw, 1); raw[i] != '}'; {
		end := skipValue(raw, i)
		name, ok := unquote(raw[i:end])
		if !ok {
			return problem("", "an argument name holds half of a surrogate pair")
		}
		i = skipSpace(raw, skipSpace(raw, end)+1) // over the colon
		end = skipValue(raw, i)
		if err := f(name, raw[i:end]); err != nil {
			return err
		}
		if i = skipSpace(raw, end); raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return nil
}

// elements calls f for each element of a valid JSON array.
func elements(raw json.RawMessage, f func(i int, val json.RawMessage) error) error {
	for n, i := 0, skipSpace(raw, 1); raw[i] != ']'; n++ {
		end := skipValue(raw, i)
		if err := f(n, raw[i:end]); err != nil {
			return err
		}
		if i = skipSpace(raw, end); raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return nil
}

func skipSpace(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\n' || raw[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the end of the value that starts at i of valid JSON.
func skipValue(raw []byte, i int) int {
	switch raw[i] {
	case '"':
		return skipString(raw, i)
	case '{', '[':
		for depth := 0; ; {
			switch raw[i] {
			case '"':
				i = skipString(raw, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			if i++; depth == 0 {
				return i
			}
		}
	default:
		if n := bytes.IndexAny(raw[i:], ",]} \t\r\n"); n >= 0 {
			return i + n
		}
		return len(raw)
	}
}

func skipString(raw []byte, i int) int {
	for i++; raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++ // over the escaped character
		}
	}
	return i + 1
}

func isNumber(raw json.RawMessage) bool { return raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' }

// kindOf names the JSON type of raw with an article, for messages.
func kindOf(raw json.RawMessage) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// clip shortens s so that a message does not repeat a whole file.
func clip(s string) string {
	if len(s) <= 60 {
		return s
	}
	return strings.ToValidUTF8(s[:60], "") + "…"
}
