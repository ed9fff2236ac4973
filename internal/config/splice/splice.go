// Package splice changes single entries of settings files that belong to others,
// and keeps every other byte: comments, order, indentation, line ends. It reads
// JSON, also with comments and trailing commas, and TOML.
//
// A place is a path of names from the top. Every change is checked before it is
// given out: the new text must say what the old one said and the change, nothing
// else; otherwise there is an error and no text. Functions are pure and may be
// called with any bytes.
package splice

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrShape is returned for a text that says what it says in a way that cannot be
// changed here, such as a table of TOML that is written on one line.
var ErrShape = errors.New("is written in a way that only an editor can change")

// Get returns the value at path, as encoding/json decodes it with json.Number
// for numbers.
func Get(format string, text []byte, path ...string) (value any, ok bool, err error) {
	top, err := decode(format, text)
	if err != nil {
		return nil, false, err
	}
	value = top
	for _, name := range path {
		object, isObject := value.(map[string]any)
		if !isObject {
			return nil, false, nil
		}
		if value, ok = object[name]; !ok {
			return nil, false, nil
		}
	}
	return value, true, nil
}

// Set puts value at path, in the place of what stands there. Objects that are
// missing on the way are made; made says how many.
func Set(format string, text []byte, value any, path ...string) (out []byte, made int, err error) {
	raw, decoded, err := plain(value)
	if err != nil {
		return nil, 0, err
	}
	want, err := decode(format, text)
	if err != nil {
		return nil, 0, err
	}
	if made, err = put(want, path, decoded); err != nil {
		return nil, 0, err
	}
	if format == "toml" {
		out, err = setTOML(text, raw, path)
	} else {
		out, err = setJSON(text, raw, path)
	}
	if err != nil {
		return nil, 0, err
	}
	return out, made, check(format, out, want)
}

// Remove takes out what stands at path and, of the objects around it, the
// innermost made ones that are empty then. A path that leads nowhere changes
// nothing.
func Remove(format string, text []byte, made int, path ...string) ([]byte, error) {
	if _, ok, err := Get(format, text, path...); err != nil || !ok {
		return text, err
	}
	want, err := decode(format, text)
	if err != nil {
		return nil, err
	}
	cut := take(want, path, made)
	var out []byte
	if format == "toml" {
		out, err = removeTOML(text, path, cut)
	} else {
		out, err = removeJSON(text, cut)
	}
	if err != nil {
		return nil, err
	}
	return out, check(format, out, want)
}

// Add puts the strings that are not there yet at the end of the list at path,
// and says which. A missing list is made, and counts in made. Only JSON has
// lists here.
func Add(format string, text []byte, items []string, path ...string) (out []byte, added []string, made int, err error) {
	have, ok, err := Get(format, text, path...)
	if err != nil {
		return nil, nil, 0, err
	}
	list, isList := have.([]any)
	if ok && !isList {
		return nil, nil, 0, fmt.Errorf("%s is not a list", strings.Join(path, "."))
	}
	for _, item := range items {
		if !slices.Contains(list, any(item)) && !slices.Contains(added, item) {
			added = append(added, item)
		}
	}
	if len(added) == 0 {
		return text, nil, 0, nil
	}
	if !ok {
		out, made, err = Set(format, text, added, path...)
		return out, added, made + 1, err
	}
	want, err := decode(format, text)
	if err != nil {
		return nil, nil, 0, err
	}
	for _, item := range added {
		list = append(list, item)
	}
	if _, err := put(want, path, list); err != nil {
		return nil, nil, 0, err
	}
	if out, err = addJSON(format, text, added, path); err != nil {
		return nil, nil, 0, err
	}
	return out, added, 0, check(format, out, want)
}

// Drop takes strings out of the list at path, and the list and the objects
// around it as Remove does, when they are empty then.
func Drop(format string, text []byte, items []string, made int, path ...string) ([]byte, error) {
	have, _, err := Get(format, text, path...)
	if err != nil {
		return nil, err
	}
	list, _ := have.([]any)
	var left []any
	for _, item := range list {
		if name, ok := item.(string); !ok || !slices.Contains(items, name) {
			left = append(left, item)
		}
	}
	switch {
	case len(left) == len(list):
		return text, nil
	case len(left) == 0 && made > 0:
		return Remove(format, text, made-1, path...)
	}
	want, err := decode(format, text)
	if err != nil {
		return nil, err
	}
	if left == nil {
		left = []any{}
	}
	if _, err := put(want, path, left); err != nil {
		return nil, err
	}
	out, err := dropJSON(format, text, items, path)
	if err != nil {
		return nil, err
	}
	return out, check(format, out, want)
}

// Empty reports whether a text says nothing: there is no entry, and no comment
// either.
func Empty(format string, text []byte) bool {
	if format == "toml" {
		return len(bytes.TrimSpace(text)) == 0
	}
	rest := bytes.TrimSpace(bytes.TrimPrefix(text, []byte(bom)))
	return len(rest) == 0 || len(bytes.Trim(rest, "{} \t\r\n")) == 0
}

// put sets value at path in a decoded text and says how many objects it made.
func put(top map[string]any, path []string, value any) (made int, err error) {
	at := top
	for i, name := range path[:len(path)-1] {
		next, ok := at[name]
		if !ok {
			made++
			next = map[string]any{}
			at[name] = next
		}
		object, ok := next.(map[string]any)
		if !ok {
			return 0, fmt.Errorf("%s is not an object", strings.Join(path[:i+1], "."))
		}
		at = object
	}
	at[path[len(path)-1]] = value
	return made, nil
}

// take removes path from a decoded text, then up to made parents that are empty,
// and returns the path of the outermost thing that went.
func take(top map[string]any, path []string, made int) []string {
	for {
		at := top
		for _, name := range path[:len(path)-1] {
			at = at[name].(map[string]any)
		}
		delete(at, path[len(path)-1])
		if made == 0 || len(at) > 0 || len(path) == 1 {
			return path
		}
		made--
		path = path[:len(path)-1]
	}
}

// check is an error unless text says want.
func check(format string, text []byte, want map[string]any) error {
	got, err := decode(format, text)
	if err != nil {
		return fmt.Errorf("%w: the change would not be readable: %w", ErrShape, err)
	}
	said, errSaid := json.Marshal(got)
	meant, errMeant := json.Marshal(want)
	if err := errors.Join(errSaid, errMeant); err != nil {
		return fmt.Errorf("the file %w: %w", ErrShape, err)
	}
	if !bytes.Equal(said, meant) {
		return fmt.Errorf("the file %w", ErrShape)
	}
	return nil
}

// decode returns what a text says; one without anything says nothing.
func decode(format string, text []byte) (map[string]any, error) {
	if format == "toml" {
		return decodeTOML(text)
	}
	return decodeJSON(text)
}

// plain returns v as JSON, with its own order of names, and as encoding/json
// decodes that.
func plain(v any) (raw []byte, decoded any, err error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, nil, err
	}
	raw = bytes.TrimSpace(b.Bytes())
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&decoded)
	return raw, decoded, err
}

// quote returns s as a string of JSON, which TOML reads the same way.
func quote(s string) string {
	raw, _, _ := plain(s) // a string always encodes
	return strings.ReplaceAll(string(raw), "\x7f", `\u007f`)
}
