package schema_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/async-crud-mcp/async-crud-mcp/internal/schema"
)

type patch struct {
	Old string  `json:"old_string"`
	New *string `json:"new_string"`
}

type order struct {
	Path    string            `json:"path" jsonschema:"file to change" minLength:"1"`
	Limit   *int              `json:"limit" minimum:"0"`
	ID      int64             `json:"id,omitempty"`
	Timeout float64           `json:"timeout" default:"30" minimum:"0.1" maximum:"300"`
	Format  string            `json:"format" default:"json" enum:"json,unified"`
	Patches []patch           `json:"patches,omitempty" maxItems:"3"`
	Env     map[string]string `json:"env,omitempty"`
	Deep    bool              `json:"deep,omitempty"`
	Raw     json.RawMessage   `json:"raw,omitempty"`
	Free    any               `json:"free,omitempty"`
}

func mustOf[T any](t testing.TB) *schema.Schema {
	t.Helper()
	s, err := schema.Of[T]()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSchemaIsFlatOrderedAndExact(t *testing.T) {
	const want = `{"type":"object","properties":{` +
		`"path":{"type":"string","description":"file to change","minLength":1},` +
		`"limit":{"type":["integer","null"],"minimum":0},` +
		`"id":{"type":"integer"},` +
		`"timeout":{"type":"number","default":30,"minimum":0.1,"maximum":300},` +
		`"format":{"type":"string","default":"json","enum":["json","unified"]},` +
		`"patches":{"type":"array","maxItems":3,"items":{"type":"object","properties":{"old_string":{"type":"string"},"new_string":{"type":["string","null"]}},"required":["old_string"],"additionalProperties":false}},` +
		`"env":{"type":"object","additionalProperties":{"type":"string"}},` +
		`"deep":{"type":"boolean"},"raw":true,"free":true},` +
		`"required":["path"],"additionalProperties":false}`
	got := string(mustOf[order](t).JSON())
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("schema:\n got %s\nwant %s", got, want)
	}
	if strings.Index(got, `"path"`) > strings.Index(got, `"limit"`) {
		t.Errorf("properties are not in declaration order: %s", got)
	}
}

func TestCompactKeepsWhatAModelNeeds(t *testing.T) {
	got := string(mustOf[order](t).Compact())
	for _, gone := range []string{"additionalProperties\":false", "minLength", "maxItems"} {
		if strings.Contains(got, gone) {
			t.Errorf("compact schema still holds %s: %s", gone, got)
		}
	}
	for _, kept := range []string{"file to change", `"default":30`, `"enum":["json","unified"]`, `"minimum":0.1`, `"required":["path"]`} {
		if !strings.Contains(got, kept) {
			t.Errorf("compact schema lacks %s: %s", kept, got)
		}
	}
}

func TestBriefDropsDescriptionsAndOpensObjects(t *testing.T) {
	got := string(mustOf[order](t).Brief())
	for _, gone := range []string{"description", "additionalProperties\":false", "minimum", "default"} {
		if strings.Contains(got, gone) {
			t.Errorf("brief schema still holds %s: %s", gone, got)
		}
	}
}

func TestDecodeAccepts(t *testing.T) {
	s := mustOf[order](t)
	five, text := 5, "x"
	base := func(change func(*order)) order {
		o := order{Path: "a", Timeout: 30, Format: "json"}
		change(&o)
		return o
	}
	for _, tc := range []struct {
		name, in string
		want     order
	}{
		{"defaults", `{"path":"a"}`, base(func(*order) {})},
		{"null is absent", `{"path":"a","timeout":null,"patches":null,"limit":null}`, base(func(*order) {})},
		{"white space", " {\n\t\"path\" : \"a\" ,\r\n \"deep\" : true } ", base(func(o *order) { o.Deep = true })},
		{"pointer", `{"path":"a","limit":5}`, base(func(o *order) { o.Limit = &five })},
		{"whole float", `{"path":"a","limit":5.0}`, base(func(o *order) { o.Limit = &five })},
		{"every digit", `{"path":"a","id":1763164800123456789}`, base(func(o *order) { o.ID = 1763164800123456789 })},
		{"smallest", `{"path":"a","id":-9223372036854775808}`, base(func(o *order) { o.ID = math.MinInt64 })},
		{"list", `{"path":"a","patches":[{"old_string":"b","new_string":"x"}]}`, base(func(o *order) { o.Patches = []patch{{"b", &text}} })},
		{"list as text", `{"path":"a","patches":"[{\"old_string\":\"b\"}]"}`, base(func(o *order) { o.Patches = []patch{{Old: "b"}} })},
		{"object as text", `{"path":"a","env":"{\"K\":\"v\"}"}`, base(func(o *order) { o.Env = map[string]string{"K": "v"} })},
		{"item as text", `{"path":"a","patches":["{\"old_string\":\"b\"}"]}`, base(func(o *order) { o.Patches = []patch{{Old: "b"}} })},
		{"escapes", `{"path":"\u0061\n\ud83d\ude00<&>"}`, base(func(o *order) { o.Path = "a\n😀<&>" })},
		{"raw stays raw", `{"path":"a","raw":{"n": 12345678901234567890}}`, base(func(o *order) { o.Raw = json.RawMessage(`{"n": 12345678901234567890}`) })},
		{"any keeps digits", `{"path":"a","free":12345678901234567890}`, base(func(o *order) { o.Free = json.Number("12345678901234567890") })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got order
			if err := s.Decode(json.RawMessage(tc.in), &got); err != nil {
				t.Fatalf("Decode: %v", err)
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestDecodeRefusesWithPlaceAndAdvice(t *testing.T) {
	s := mustOf[order](t)
	for _, tc := range []struct{ name, in, field, says string }{
		{"missing", `{}`, "path", "is required"},
		{"nothing", ``, "path", "is required"},
		{"null required", `{"path":null}`, "path", "must not be null"},
		{"empty", `{"path":""}`, "path", "must not be empty"},
		{"not an object", `[1]`, "", "must be an object, not a list"},
		{"broken", `{"path":`, "", "not valid JSON"},
		{"bad bytes", "{\"path\":\"\xff\"}", "", "not valid UTF-8"},
		{"case variant", `{"PATH":"a"}`, "PATH", `did you mean "path"?`},
		{"unicode case variant", `{"path":"a","patcheſ":[]}`, "patcheſ", `did you mean "patches"?`},
		{"unknown", `{"path":"a","zzzzzzzz":1}`, "zzzzzzzz", "known: path, limit"},
		{"twice", `{"path":"a","path":"b"}`, "path", "given twice"},
		{"nested unknown", `{"path":"a","patches":[{"old_string":"x","newString":"y"}]}`, "patches[0].newString", `"new_string"`},
		{"map twice", `{"path":"a","env":{"K":"1","K":"2"}}`, "env.K", "given twice"},
		{"number as text", `{"path":"a","limit":"5"}`, "limit", "must be a whole number, not a string"},
		{"bool as text", `{"path":"a","deep":"true"}`, "deep", "must be true or false"},
		{"half", `{"path":"a","limit":1.5}`, "limit", "must be a whole number, not 1.5"},
		{"too long a number", `{"path":"a","id":9223372036854775808}`, "id", "must be a whole number"},
		{"below", `{"path":"a","timeout":0}`, "timeout", "at least 0.1, not 0"},
		{"above", `{"path":"a","timeout":301}`, "timeout", "at most 300, not 301"},
		{"infinite", `{"path":"a","timeout":1e999}`, "timeout", "too large"},
		{"enum", `{"path":"a","format":"yaml"}`, "format", `must be one of json, unified, not "yaml"`},
		{"too many", `{"path":"a","patches":[{"old_string":"1"},{"old_string":"2"},{"old_string":"3"},{"old_string":"4"}]}`, "patches", "at most 3 items"},
		{"text that is no list", `{"path":"a","patches":"[oops"}`, "patches", "must be a list, not a string"},
		{"lone surrogate", `{"path":"\ud800"}`, "path", "surrogate"},
		{"swapped surrogates", `{"path":"\ude00\ud83d"}`, "path", "surrogate"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got order
			err := s.Decode(json.RawMessage(tc.in), &got)
			p, ok := errors.AsType[*schema.Problem](err)
			if !ok {
				t.Fatalf("Decode = %v, want a *Problem", err)
			}
			if p.Field != tc.field || !strings.Contains(p.Message, tc.says) {
				t.Errorf("got %q %q, want field %q and a text with %q", p.Field, p.Message, tc.field, tc.says)
			}
		})
	}
}

func TestNearest(t *testing.T) {
	known := []string{"path", "expected_hash", "timeout"}
	for in, want := range map[string]string{
		"Path": "path", "expectedHash": "expected_hash", "time-out": "timeout", "pth": "path",
		"content": "", "": "", strings.Repeat("x", 10000): "",
	} {
		if got := schema.Nearest(in, known); got != want {
			t.Errorf("Nearest(%.20q) = %q, want %q", in, got, want)
		}
	}
}

func TestWrongDeclarationsAreErrors(t *testing.T) {
	type loop struct {
		Next []any `json:"next"`
	}
	type noName struct{ A string }
	type badDefault struct {
		A int `json:"a" default:"x"`
	}
	type badEnum struct {
		A int `json:"a" enum:"1,2"`
	}
	type badBound struct {
		A int `json:"a" minimum:"low"`
	}
	type badKind struct {
		A chan int `json:"a"`
	}
	type badKey struct {
		A map[int]string `json:"a"`
	}
	if _, err := schema.Of[loop](); err != nil {
		t.Errorf("a list of anything is fine, got %v", err)
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[noName](), reflect.TypeFor[badDefault](), reflect.TypeFor[badEnum](), reflect.TypeFor[badBound](),
		reflect.TypeFor[badKind](), reflect.TypeFor[badKey](), reflect.TypeFor[int](),
	} {
		if _, err := schema.For(typ); err == nil {
			t.Errorf("For(%s) succeeded, want an error", typ)
		}
	}
}

func TestFieldsDescribeForPeople(t *testing.T) {
	fields := mustOf[order](t).Fields()
	byName := make(map[string]schema.Field)
	for _, f := range fields {
		byName[f.Name] = f
	}
	if f := byName["path"]; !f.Required || f.Type != "string" || f.Description != "file to change" {
		t.Errorf("path = %+v", f)
	}
	if f := byName["limit"]; f.Required || f.Type != "integer or null" {
		t.Errorf("limit = %+v", f)
	}
	if f := byName["format"]; f.Default != `"json"` || len(f.Enum) != 2 {
		t.Errorf("format = %+v", f)
	}
	if f := byName["patches"]; f.Type != "list of object" || len(f.Fields) != 2 {
		t.Errorf("patches = %+v", f)
	}
}

// FuzzDecode holds Decode to the published schema: what decodes must be valid
// by it (as an independent validator sees it), and nothing may panic.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"path":"a"}`, `{"path":"a","limit":5,"timeout":1e2}`, `{"path":"a","patches":[{"old_string":"\u00e9"}]}`,
		`{"path":"\ud800"}`, `{"Path":"a"}`, `{"path":"a","path":"a"}`, `{"path":"a","env":{"":""}}`, `[]`, `"{}"`, `{"path":"a","raw":[[[]]]}`,
		`{"path":"a","patches":"[]"}`, "{\"path\":\"\xc3\"}", `{"path":"\\u0061\\"}`, `{"path":"a","free":{"a":[1,{"b":null}]}}`,
	} {
		f.Add([]byte(seed))
	}
	s := mustOf[order](f)
	var published jsonschema.Schema
	if err := json.Unmarshal(s.JSON(), &published); err != nil {
		f.Fatal(err)
	}
	resolved, err := published.Resolve(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var got order
		if err := s.Decode(in, &got); err != nil {
			return
		}
		if !utf8.ValidString(got.Path) || got.Path == "" || got.Timeout < 0.1 || got.Timeout > 300 {
			t.Fatalf("decoded out of bounds: %+v", got)
		}
		out, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var again order
		if err := s.Decode(out, &again); err != nil {
			t.Fatalf("what was decoded from %q does not decode again: %v", in, err)
		}
		var instance map[string]any
		if err := json.Unmarshal(out, &instance); err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(instance); err != nil {
			t.Fatalf("decoded %q breaks the published schema: %v", in, err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	s := mustOf[order](b)
	raw := json.RawMessage(`{"path":"internal/schema/schema.go","limit":100,"timeout":12.5,"patches":[{"old_string":"a\nb","new_string":"c"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		var o order
		if err := s.Decode(raw, &o); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeLargeText(b *testing.B) {
	s := mustOf[order](b)
	text, _ := json.Marshal(strings.Repeat("line of text\n", 8000))
	raw := json.RawMessage(`{"path":` + string(text) + `}`)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		var o order
		if err := s.Decode(raw, &o); err != nil {
			b.Fatal(err)
		}
	}
}

func TestBriefEitherAdmitsBoth(t *testing.T) {
	type left struct {
		Status string   `json:"status"`
		Path   string   `json:"path"`
		N      int      `json:"n"`
		Items  []string `json:"items"`
		Any    any      `json:"any"`
	}
	type right struct {
		Status string  `json:"status"`
		Code   string  `json:"code"`
		Path   *string `json:"path"`
		Items  []int   `json:"items"`
		Any    bool    `json:"any"`
	}
	got := string(schema.BriefEither(mustOf[left](t), mustOf[right](t)))
	const want = `{"type":"object","properties":{"status":{"type":"string"},"path":{"type":["string","null"]},"n":{"type":"integer"},` +
		`"items":{"type":"array"},"any":true,"code":{"type":"string"}},"required":["status","items","any"]}`
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestUsualValueIsShownAndNotSet(t *testing.T) {
	type in struct {
		Timeout *float64 `json:"timeout" usual:"30"`
	}
	s := mustOf[in](t)
	if got := string(s.JSON()); !strings.Contains(got, `"default":30`) {
		t.Errorf("the schema does not show it: %s", got)
	}
	var got in
	if err := s.Decode(json.RawMessage(`{}`), &got); err != nil || got.Timeout != nil {
		t.Errorf("Decode = %+v, %v; want nothing set", got, err)
	}
}

func TestPointerIsNullOnlyWhereItIsNotLeftOut(t *testing.T) {
	type in struct {
		Absent *int `json:"absent,omitempty"`
		Null   *int `json:"null"`
	}
	s := mustOf[in](t)
	const want = `{"type":"object","properties":{"absent":{"type":"integer"},"null":{"type":["integer","null"]}},"additionalProperties":false}`
	if got := string(s.JSON()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var got in
	if err := s.Decode(json.RawMessage(`{"absent":null,"null":null}`), &got); err != nil || got != (in{}) {
		t.Errorf("Decode = %+v, %v; null counts as absent everywhere", got, err)
	}
}

type orNothing string

func (orNothing) JSONTypes() []string { return []string{"string", "null"} }

func TestTypeMaySayWhatItIsOnTheWire(t *testing.T) {
	type out struct {
		Hash *orNothing `json:"hash,omitempty"`
	}
	s := mustOf[out](t)
	if got := string(s.Brief()); got != `{"type":"object","properties":{"hash":{"type":["string","null"]}}}` {
		t.Errorf("got %s", got)
	}
	if got := s.Fields()[0].Type; got != "string or null" {
		t.Errorf("type in words = %q", got)
	}
}
