package splice

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

type entry struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env,omitempty"`
}

var ours = entry{Command: "/bin/x & <y>", Args: []string{"stdio"}}

// What is set can be taken out again, and then every byte is as it was.
func TestSetKeepsEveryOtherByteAndRemoveUndoesIt(t *testing.T) {
	for _, c := range []struct{ name, format, before, after string }{
		{"among others", "json", `{
  "z": 1,
  "servers": {
    "other": {"command": "a"}
  },
  "a": 1.10e5
}
`, `{
  "z": 1,
  "servers": {
    "other": {"command": "a"},
    "us": {
      "command": "/bin/x & <y>",
      "args": [
        "stdio"
      ]
    }
  },
  "a": 1.10e5
}
`},
		{"with tabs and a missing parent", "json", "{\n\t\"a\": 1\n}", "{\n\t\"a\": 1,\n\t\"servers\": {\n\t\t\"us\": {\n\t\t\t\"command\": \"/bin/x & <y>\",\n\t\t\t\"args\": [\n\t\t\t\t\"stdio\"\n\t\t\t]\n\t\t}\n\t}\n}"},
		{"on one line", "json", `{"a":1,"servers":{"b":{}}}`, `{"a":1,"servers":{"b":{}, "us": {"command":"/bin/x & <y>","args":["stdio"]}}}`},
		{"with comments and trailing commas", "json", `// top
{
  "servers": {
    // the first
    "other": {"command": "a"}, // and why
    /* end */
  },
}
`, `// top
{
  "servers": {
    // the first
    "other": {"command": "a"}, // and why
    "us": {
      "command": "/bin/x & <y>",
      "args": [
        "stdio"
      ]
    },
    /* end */
  },
}
`},
		{"behind a comment", "json", "{\n  \"servers\": {\n    \"other\": 1 // one\n  }\n}\n", "{\n  \"servers\": {\n    \"other\": 1, // one\n    \"us\": {\n      \"command\": \"/bin/x & <y>\",\n      \"args\": [\n        \"stdio\"\n      ]\n    }\n  }\n}\n"},
		{"with line ends of Windows and a mark", "json", "\xef\xbb\xbf{\r\n  \"a\": {}\r\n}\r\n", "\xef\xbb\xbf{\r\n  \"a\": {},\r\n  \"servers\": {\r\n    \"us\": {\r\n      \"command\": \"/bin/x & <y>\",\r\n      \"args\": [\r\n        \"stdio\"\r\n      ]\r\n    }\r\n  }\r\n}\r\n"},
		{"an empty object inside", "json", "{\n  \"servers\": {}\n}\n", "{\n  \"servers\": {\n    \"us\": {\n      \"command\": \"/bin/x & <y>\",\n      \"args\": [\n        \"stdio\"\n      ]\n    }\n  }\n}\n"},
		{"a table among others", "toml", `# mine
model = "m" # why
[servers.other]
command = "a"
note = """
[servers.us]
"""

# about the last
[last]
list = [
  "[x]", # ]
]
`, `# mine
model = "m" # why
[servers.other]
command = "a"
note = """
[servers.us]
"""

# about the last
[last]
list = [
  "[x]", # ]
]

[servers.us]
command = "/bin/x & <y>"
args = ["stdio"]
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, made, err := Set(c.format, []byte(c.before), ours, "servers", "us")
			if err != nil || string(got) != c.after {
				t.Fatalf("Set = %v\n%s\nwant\n%s", err, got, c.after)
			}
			again, _, err := Set(c.format, got, ours, "servers", "us")
			if err != nil || string(again) != c.after {
				t.Errorf("a second Set = %v\n%s\nwant no change", err, again)
			}
			back, err := Remove(c.format, got, made, "servers", "us")
			if err != nil || string(back) != c.before {
				t.Errorf("Remove = %v\n%q\nwant\n%q", err, back, c.before)
			}
		})
	}
}

func TestSetReplacesWhatIsThere(t *testing.T) {
	for _, c := range []struct{ name, format, before, after string }{
		{"json", "json", "{\n  \"servers\": {\n    \"us\": {\"command\": \"old\", \"x\": [1]}, // keep\n    \"b\": 2\n  }\n}\n", "{\n  \"servers\": {\n    \"us\": {\"command\":\"/bin/x & <y>\",\"args\":[\"stdio\"]}, // keep\n    \"b\": 2\n  }\n}\n"},
		{"toml", "toml", "[servers.us]\ncommand = 'old'\n[servers.us.env]\nA = 'b'\n\n# next\n[b]\nc = 1\n", "[servers.us]\ncommand = \"/bin/x & <y>\"\nargs = [\"stdio\"]\n\n# next\n[b]\nc = 1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, made, err := Set(c.format, []byte(c.before), ours, "servers", "us")
			if err != nil || made != 0 || string(got) != c.after {
				t.Errorf("Set = %d, %v\n%s\nwant\n%s", made, err, got, c.after)
			}
		})
	}
}

func TestAnEmptyTextBecomesOneWithTheEntryAlone(t *testing.T) {
	for format, want := range map[string]string{
		"json": "{\n  \"servers\": {\n    \"us\": {\n      \"command\": \"a\",\n      \"args\": null,\n      \"env\": {\n        \"K\": \"v\"\n      }\n    }\n  }\n}\n",
	} {
		for _, before := range []string{"", "{}", " {\n}\n"} {
			got, made, err := Set(format, []byte(before), entry{Command: "a", Env: map[string]string{"K": "v"}}, "servers", "us")
			if err != nil || strings.TrimSpace(string(got)) != strings.TrimSpace(want) {
				t.Errorf("Set in %q = %v\n%s", before, err, got)
			}
			back, err := Remove(format, got, made, "servers", "us")
			if err != nil || !Empty(format, back) {
				t.Errorf("Remove = %v, %q, want nothing left", err, back)
			}
		}
	}
	got, _, err := Set("toml", nil, entry{Command: "a", Args: []string{}, Env: map[string]string{"K y": "v"}}, "servers", "us")
	if want := "[servers.us]\ncommand = \"a\"\nargs = []\n\n[servers.us.env]\n\"K y\" = \"v\"\n"; err != nil || string(got) != want {
		t.Fatalf("Set = %v\n%s\nwant\n%s", err, got, want)
	}
	back, err := Remove("toml", got, 1, "servers", "us")
	if err != nil || !Empty("toml", back) {
		t.Errorf("Remove = %v, %q, want nothing left", err, back)
	}
}

func TestRemoveLeavesWhatOthersAddedSince(t *testing.T) {
	for _, c := range []struct{ name, format, before, after string }{
		{"first", "json", `{"s": {"us": {}, "b": 1}}`, `{"s": {"b": 1}}`},
		{"first of lines", "json", "{\n  \"s\": {\n    \"us\": {},\n    \"b\": 1\n  }\n}", "{\n  \"s\": {\n    \"b\": 1\n  }\n}"},
		{"middle", "json", "{\n  \"s\": {\n    \"a\": 1,\n\n    \"us\": {},\n    \"b\": 1\n  }\n}", "{\n  \"s\": {\n    \"a\": 1,\n\n    \"b\": 1\n  }\n}"},
		{"last", "json", "{\n  \"s\": {\n    \"a\": 1,\n    \"us\": {}\n  }\n}", "{\n  \"s\": {\n    \"a\": 1\n  }\n}"},
		{"the only one", "json", "{\n  \"s\": {\n    \"us\": {}\n  },\n  \"b\": 2\n}", "{\n  \"b\": 2\n}"},
		{"beside a comment", "json", "{\n  \"s\": {\n    // mine\n    \"us\": {}\n  }\n, \"b\": 1}", "{ \"b\": 1}"},
		{"a table with others around", "toml", "[s.a]\nb = 1\n\n[s.us]\ncommand = 'x'\n[s.us.env]\nA = 'b'\n\n# mine\n[t]\nc = 2\n", "[s.a]\nb = 1\n\n# mine\n[t]\nc = 2\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Remove(c.format, []byte(c.before), 1, "s", "us")
			if err != nil || string(got) != c.after {
				t.Errorf("Remove = %v\n%s\nwant\n%s", err, got, c.after)
			}
		})
	}
}

func TestAddAndDropKeepTheOthersOfAList(t *testing.T) {
	const before = "{\n  \"p\": {\n    \"deny\": [\n      \"Web\", // never\n      \"Bash\"\n    ]\n  }\n}\n"
	got, added, made, err := Add("json", []byte(before), []string{"Bash", "Edit", "Write"}, "p", "deny")
	const after = "{\n  \"p\": {\n    \"deny\": [\n      \"Web\", // never\n      \"Bash\",\n      \"Edit\",\n      \"Write\"\n    ]\n  }\n}\n"
	if err != nil || made != 0 || string(got) != after || !reflect.DeepEqual(added, []string{"Edit", "Write"}) {
		t.Fatalf("Add = %v %d %v\n%s", added, made, err, got)
	}
	if back, err := Drop("json", got, added, made, "p", "deny"); err != nil || string(back) != before {
		t.Errorf("Drop = %v\n%s", err, back)
	}
	got, added, made, err = Add("json", []byte("{\n  \"a\": 1\n}\n"), []string{"Bash"}, "p", "deny")
	if err != nil || made != 2 || len(added) != 1 {
		t.Fatalf("Add = %v %d %v\n%s", added, made, err, got)
	}
	if back, err := Drop("json", got, added, made, "p", "deny"); err != nil || string(back) != "{\n  \"a\": 1\n}\n" {
		t.Errorf("Drop = %v\n%s", err, back)
	}
	if _, _, _, err := Add("json", []byte(`{"p": {"deny": "Bash"}}`), []string{"Edit"}, "p", "deny"); err == nil {
		t.Error("Add to a string worked")
	}
}

func TestAValueInATableOfTOML(t *testing.T) {
	for _, c := range []struct {
		name, before, after string
		made                int
	}{
		{"new", "a = 1\n", "a = 1\n\n[features]\nshell = false\n", 1},
		{"in a table", "[features]\nb = true # yes\n\n# c\n[c]\n", "[features]\nb = true # yes\nshell = false\n\n# c\n[c]\n", 0},
		{"in the place of another", "[features]\nshell = true\nb = true\n", "[features]\nshell = false\nb = true\n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, made, err := Set("toml", []byte(c.before), false, "features", "shell")
			if err != nil || made != c.made || string(got) != c.after {
				t.Fatalf("Set = %d, %v\n%s\nwant\n%s", made, err, got, c.after)
			}
			if strings.Contains(c.before, "shell") {
				return
			}
			if back, err := Remove("toml", got, made, "features", "shell"); err != nil || string(back) != c.before {
				t.Errorf("Remove = %v\n%s", err, back)
			}
		})
	}
}

func TestWhatCannotBeChangedIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, format, text string
		shape              bool
	}{
		{"an inline table", "toml", "servers = { us = { command = 'x' } }\n", true},
		{"dotted keys", "toml", "servers.us.command = 'x'\n", true},
		{"broken TOML", "toml", "a = \n", false},
		{"broken JSON", "json", `{"a": }`, false},
		{"a list", "json", `[]`, false},
		{"a name given twice", "json", `{"a": 1, "a": 2}`, false},
		{"no object on the way", "json", `{"servers": []}`, false},
		{"bytes that are no text", "json", "{\"a\": \"\xff\"}", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := Set(c.format, []byte(c.text), ours, "servers", "us")
			if err == nil || errors.Is(err, ErrShape) != c.shape {
				t.Errorf("Set = %q, %v; ErrShape wanted: %t", got, err, c.shape)
			}
		})
	}
}

// Whatever the text, a change says what it should or is refused, and taking it
// back leaves what was said before.
func FuzzSetThenRemove(f *testing.F) {
	for _, text := range []string{"{}", `{"a":[1,{"b":null}],"s":{"x":1}}`, "// c\n{\n\t\"s\": { /* d */ },\n}", "a = 1\n[s]\nb = '''\n[c]\n'''\n", "[[s]]\nq=1\n[s.us]\nx=1", `"s".us = 1`} {
		f.Add("json", text)
		f.Add("toml", text)
	}
	f.Fuzz(func(t *testing.T, format, text string) {
		if format != "toml" {
			format = "json"
		}
		before, err := decode(format, []byte(text))
		if err != nil {
			return
		}
		if _, there, _ := Get(format, []byte(text), "s", "us"); there {
			return
		}
		got, made, err := Set(format, []byte(text), ours, "s", "us")
		if err != nil {
			return
		}
		back, err := Remove(format, got, made, "s", "us")
		if err != nil {
			t.Fatalf("what was set cannot be removed: %v\n%q\n%q", err, text, got)
		}
		if after, err := decode(format, back); err != nil || !reflect.DeepEqual(after, before) {
			t.Errorf("%q became %q (%v)", text, back, err)
		}
	})
}

func TestWhatCannotBeTakenOutIsRefused(t *testing.T) {
	for _, text := range []string{"servers.us.command = 'x'\n", "servers = { us = { command = 'x' } }\n", "[servers]\nus.command = 'x'\n"} {
		if got, err := Remove("toml", []byte(text), 0, "servers", "us"); !errors.Is(err, ErrShape) {
			t.Errorf("Remove from %q = %q, %v, want ErrShape", text, got, err)
		}
	}
}
