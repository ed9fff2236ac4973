package document

import (
	"reflect"
	"strings"
	"testing"
)

func TestRenderSaysWhatParseRead(t *testing.T) {
	for _, c := range []struct{ format, text, want string }{
		{"json", `{"b":{"x":[1,2.50,-3,"<&>",null,true,[],{}]},"a":12345678901234567}`, "{\n  \"b\": {\n    \"x\": [\n      1,\n      2.5,\n      -3,\n      \"<&>\",\n      null,\n      true,\n      [],\n      {}\n    ]\n  },\n  \"a\": 12345678901234567\n}\n"},
		{"yaml", "# top\nb:\n  x: 1 # one\n  # two\n  y: [a, 'off']\na: ~\n", "# top\nb:\n  x: 1 # one\n  # two\n  y: [a, 'off']\na: ~\n"},
		{"toml", "a = 1\n[b]\nx = 'y'\nd = 2020-01-02\n[[c]]\nz = 1.5\n", "a = 1\n\n[b]\nd = '2020-01-02'\nx = 'y'\n\n[[c]]\nz = 1.5\n"},
	} {
		doc, err := Parse(c.format, []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.format, err)
			continue
		}
		got, err := Render(c.format, doc)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.format, err, got, c.want)
		}
	}
}

func TestLinesAreThoseOfTheFile(t *testing.T) {
	for format, text := range map[string]string{
		"json": "{\n\"a\": 1,\n\n\"b\": {\n\"c\": [\n2]}}",
		"yaml": "\na: 1\n\nb:\n  c:\n   - 2\n",
	} {
		doc, err := Parse(format, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		top := Root(doc)
		c := top.Content[3].Content[0]
		if top.Content[0].Line != 2 || top.Content[2].Line != 4 || c.Line != 5 || top.Content[3].Content[1].Content[0].Line != 6 {
			t.Errorf("%s: lines %d %d %d", format, top.Content[0].Line, top.Content[2].Line, c.Line)
		}
	}
}

func TestNumbersOfYAMLBecomeJSON(t *testing.T) {
	for text, want := range map[string]string{
		"0x10": "16", "0o17": "15", "1_000": "1000", "+5": "5", "1e3": "1000", ".5": "0.5",
		"true": "true", "True": "true", "off": `"off"`, "yes": `"yes"`, "2020-01-02": `"2020-01-02"`, "~": "null", "": "null",
	} {
		doc, err := Parse("yaml", []byte("a: "+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := JSON(Root(doc).Content[1], "a", nil, nil)
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
}

func TestJSONSpellsNamesAndWordsAsTheTypeDoes(t *testing.T) {
	type item struct {
		OldName string `json:"old_name"`
		Kind    string `json:"kind" enum:"Big,small"`
	}
	doc, err := Parse("json", []byte(`{"x": [{"oldName": "BIG", "KIND": "BIG", "_help": 1}]}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := JSON(Root(doc).Content[1], "x", reflect.TypeFor[*[]item](), nil)
	if want := `[{"old_name":"BIG","kind":"Big"}]`; err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

// A tag says what a scalar is; it does not turn its text into JSON.
func TestTagsDoNotSmuggleJSON(t *testing.T) {
	for _, text := range []string{
		`!!bool "\"deny\",\"priority\":99"`, `!!bool "yes"`, `!!bool ""`,
		`!!int "\"deny\""`, `!!int "[1]"`, `!!int "{\"a\":1}"`, `!!int "1e3"`, `!!int "-"`, `!!int ""`,
		`!!float "\"x\""`, `!!float "nan"`, `!!binary "x"`, `!mine 1`,
	} {
		doc, err := Parse("yaml", []byte("x: "+text+"\n"))
		if err != nil {
			continue
		}
		if got, err := JSON(Root(doc).Content[1], "x", nil, nil); err == nil {
			t.Errorf("%s became %s", text, got)
		}
		if got, err := Render("json", doc); err == nil {
			t.Errorf("%s was written as %s", text, got)
		}
	}
	for text, want := range map[string]string{
		`!!bool "True"`: "true", `false`: "false", `!!int "7"`: "7", `-0x10`: "-16", `18446744073709551615`: "18446744073709551615",
		`!!float "1.5"`: "1.5", `!!str true`: `"true"`, `!!null ""`: "null",
	} {
		doc, err := Parse("yaml", []byte("x: "+text+"\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := JSON(Root(doc).Content[1], "x", nil, nil); err != nil || string(got) != want {
			t.Errorf("%s = %s, %v, want %s", text, got, err, want)
		}
	}
}

// FuzzParse: no bytes make a parser panic or the tree unreadable.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"{}", `{"a": [1, {"b": "\ud800"}]}`, "a: &x [*x]\n", "? {a: b}\n: c\n", "[a]\nb = 1e9\n", "a: !!binary x\n", "\xef\xbb\xbf{}", strings.Repeat("[", 300)} {
		for format := range uint8(3) {
			f.Add([]byte(text), format)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, format uint8) {
		name := []string{"json", "yaml", "toml"}[format%3]
		doc, err := Parse(name, data)
		if err != nil {
			return
		}
		_, _ = JSON(Root(doc), "", nil, nil)
		text, err := Render(name, doc)
		if err != nil || name == "yaml" { // whose writer does not promise to be read again
			return
		}
		if _, err := Parse(name, text); err != nil {
			t.Fatalf("%s was written so that it cannot be read: %v\n%s", name, err, text)
		}
	})
}
