package config

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/async-crud-mcp/async-crud-mcp/internal/config/document"
)

// What the code does with a key follows from its tags: they must be sound.
func TestEveryKeyIsDescribedAndUnambiguous(t *testing.T) {
	seen := make(map[string]string)
	for _, s := range settings().schema.Fields() {
		if s.Description == "" {
			t.Errorf("%s has no description", s.Name)
		}
		for _, f := range s.Fields {
			k := settings().find(s.Name + "." + f.Name)
			if k == nil {
				t.Fatalf("%s.%s is not found", s.Name, f.Name)
			}
			if f.Description == "" || f.Required {
				t.Errorf("%s has no description or no default", k.name)
			}
			spelled := document.Fold(s.Name) + "." + document.Fold(f.Name)
			if other := seen[spelled]; other != "" {
				t.Errorf("%s and %s are spelled alike", other, k.name)
			}
			seen[spelled] = k.name
			if k.mark == tighten && k.rule != "patterns" {
				v := k.in(&settings().defaults)
				if !k.tightens(v, v) {
					t.Errorf("%s: a value is not as strict as itself", k.name)
				}
			}
			if k.rule == "order" && !slices.Equal(slices.Sorted(slices.Values(k.order)), slices.Sorted(slices.Values(k.enum))) {
				t.Errorf("%s: order %v is not one of %v", k.name, k.order, k.enum)
			}
			if k.inProject() == "" {
				t.Errorf("%s: rule %q has no words", k.name, k.rule)
			}
			for _, g := range f.Fields {
				if g.Description == "" {
					t.Errorf("%s.%s has no description", k.name, g.Name)
				}
			}
		}
	}
	for folded, name := range flat {
		if settings().find(name) == nil || document.Fold(strings.ReplaceAll(name, ".", "_")) != folded {
			t.Errorf("flat key %s is wrong", name)
		}
	}
}

func TestPublishedSchemaTakesWhatTheServerTakes(t *testing.T) {
	var s jsonschema.Schema
	if err := json.Unmarshal(JSONSchema(), &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var starter strings.Builder
	if err := Init("json", &starter); err != nil {
		t.Fatal(err)
	}
	for text, ok := range map[string]bool{
		starter.String(): true,
		`{"$schema": "x", "_version": "1.0", "_help": "y", "daemon": {"port": null, "_port_help": "z", "toolsets": null}, "shell_enabled": true}`: true,
		`{"shell": {"enabled": "x"}}`:          false,
		`{"shell": {"enabld": true}}`:          false,
		`{"crud": {"access_rules": [{}]}}`:     false,
		`{"sandbox": {"mode": "loose"}}`:       false,
		`{"shell_deny_patterns_mode": "more"}`: false,
	} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if err := r.Validate(v); (err == nil) != ok {
			t.Errorf("%.100s: %v, want it to be accepted: %v", text, err, ok)
		}
		if _, err := fromFile(t, "config.json", text); ok && err != nil {
			t.Errorf("%.100s: the server refuses it: %v", text, err)
		}
	}
}

func TestMarkdownNamesEveryKey(t *testing.T) {
	text := Markdown()
	for _, k := range settings().keys {
		if !strings.Contains(text, "\n| `"+k.leaf+"` | ") {
			t.Errorf("%s is missing", k.name)
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") && strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") < 3 {
			t.Errorf("not a row: %s", line)
		}
	}
}

func BenchmarkLoadWithoutFiles(b *testing.B) {
	b.Setenv("ASYNC_CRUD_MCP_HOME", b.TempDir())
	b.ReportAllocs()
	for b.Loop() {
		if err := New(Options{}).Load(); err != nil {
			b.Fatal(err)
		}
	}
}

// The first load of a process also reads the tags.
func BenchmarkTags(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		newTable()
	}
}

func BenchmarkLoadStarterFile(b *testing.B) {
	var starter strings.Builder
	if err := Init("json", io.Writer(&starter)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fileLayer("user", "config.json", []byte(starter.String()), "/home/u"); err != nil {
			b.Fatal(err)
		}
	}
}
