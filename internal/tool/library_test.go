package tool_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

func reading(name, uri, template, toolset string) *tool.Resource {
	return tool.NewResource(tool.ResourceSpec{
		Name: name, URI: uri, Template: template, Toolset: toolset, Codes: []fault.Code{fault.FileNotFound},
		Read: func(ctx context.Context, ref tool.Ref) ([]tool.Content, error) {
			tool.InProject(ctx, "p1", "/root")
			switch {
			case strings.HasSuffix(ref.URI, "panic"):
				panic("the shelf")
			case strings.HasSuffix(ref.URI, "missing"):
				return nil, fault.New(fault.FileNotFound, "not there").At("/abs")
			case strings.HasSuffix(ref.URI, "plain"):
				return nil, errors.New("password hunter2")
			case strings.HasSuffix(ref.URI, "ask"):
				return nil, fmt.Errorf("wrapped: %w", &caller.NeedInput{Question: caller.Question{Key: "k"}})
			}
			return []tool.Content{{Text: name + " " + ref.Vars["x"]}}, nil
		},
		Tell: func(f *tool.Facts, ref tool.Ref, contents []tool.Content) {
			f.Path = ref.Vars["x"]
			if contents != nil {
				f.Hash = contents[0].Text
			}
		},
	})
}

func asking(name string, other ...string) *tool.Prompt {
	return tool.NewPrompt(tool.PromptSpec{
		Name: name, Doc: "Ask.", Toolset: "talk", Other: other,
		Arguments: []tool.Argument{{Name: "name", Required: true}, {Name: "args"}},
		Render: func(_ context.Context, args map[string]string) ([]tool.Message, error) {
			return []tool.Message{{Text: args["name"] + args["args"]}}, nil
		},
	})
}

func newLibrary(t *testing.T, opts tool.SetOptions, resources []*tool.Resource, prompts ...*tool.Prompt) *tool.Library {
	t.Helper()
	l, err := tool.NewLibrary(resources, prompts, opts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAnAddressIsTakenApart(t *testing.T) {
	l := newLibrary(t, tool.SetOptions{}, []*tool.Resource{
		reading("named", "", "alias://{x}", "a"), reading("catalog", "alias://catalog", "", "a"),
		reading("file", "", "file://{+x}", "f"), reading("output", "", "job://{x}/output", "j"),
	})
	for _, tc := range []struct{ uri, name, x string }{
		{"alias://catalog", "catalog", ""}, // one address comes before any template
		{"alias://gs", "named", "gs"},
		{"alias://g%2Fs", "named", "g/s"},
		{"alias://g/s", "", ""},
		{"alias://", "named", ""},
		{"file:///a/b.txt", "file", "/a/b.txt"},
		{"file:///a%20b", "file", "/a b"},
		{"file:///a b", "file", "/a b"},
		{"file:///ä", "file", "/ä"},
		{"file:///%C3%A4", "file", "/ä"},
		{"file:///100%", "file", "/100%"},
		{"file:///100%25", "file", "/100%"},
		{"file:///a%00b", "file", "/a\x00b"},
		{"file:///a?b#c", "file", "/a?b#c"},
		{`file:///a"<>\^{|}b`, "file", `/a"<>\^{|}b`},
		{"job://7/output", "output", "7"},
		{"job://7/input", "", ""},
		{"FILE:///a", "", ""},
		{"", "", ""},
		{"file://" + strings.Repeat("/a", 10000), "", ""},
	} {
		r, ref := l.At(tc.uri)
		name := ""
		if r != nil {
			name = r.Name
		}
		if name != tc.name || ref.Vars["x"] != tc.x || r != nil && ref.URI != tc.uri {
			t.Errorf("At(%.60q) = %q %+v, want %q %q", tc.uri, name, ref, tc.name, tc.x)
		}
	}
	if l.Declared("file://{+x}").Name != "file" || l.Declared("alias://catalog").Name != "catalog" || l.Declared("file:///a") != nil {
		t.Error("Declared does not go by declared addresses")
	}
}

func FuzzAddress(f *testing.F) {
	l, err := tool.NewLibrary([]*tool.Resource{reading("file", "", "file://{+x}", "f")}, nil, tool.SetOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("/a b%zz\xff")
	f.Fuzz(func(t *testing.T, path string) {
		if len(path) > 500 || strings.Contains(path, "%") {
			return
		}
		r, ref := l.At("file://" + path)
		if r == nil || ref.Vars["x"] != path {
			t.Errorf("At(file://%q) = %v %q", path, r, ref.Vars["x"])
		}
	})
}

func TestReadEndsInContentsOrAFault(t *testing.T) {
	var log bytes.Buffer
	rec := &recorder{}
	l := newLibrary(t, tool.SetOptions{Observers: []tool.Observer{rec}, Logger: slog.New(slog.NewTextHandler(&log, nil))},
		[]*tool.Resource{reading("file", "", "file://{+x}", "f")})
	for _, tc := range []struct {
		uri, text string
		code      fault.Code
		facts     string
	}{
		{"file:///a", "file /a", "", `{"outcome":"ok","project":"p1","root":"/root","path":"/a","hash":"file /a"}`},
		{"file:///missing", "", fault.FileNotFound, `{"outcome":"error","code":"FILE_NOT_FOUND","project":"p1","root":"/root","path":"/abs"}`},
		{"file:///plain", "", fault.ServerError, `{"outcome":"error","code":"SERVER_ERROR","project":"p1","root":"/root","path":"/plain"}`},
		{"file:///panic", "", fault.ServerError, `{"outcome":"error","code":"SERVER_ERROR","project":"p1","root":"/root"}`},
	} {
		rec.calls = nil
		r, ref := l.At(tc.uri)
		contents, err := l.Read(t.Context(), r, ref)
		text := ""
		if len(contents) > 0 {
			text = contents[0].Text
		}
		if text != tc.text || fault.CodeOf(err) != tc.code {
			t.Errorf("Read(%s) = %q, %v; want %q %s", tc.uri, text, err, tc.text, tc.code)
		}
		if _, ok := errors.AsType[*fault.Error](err); err != nil && !ok {
			t.Errorf("Read(%s): %T is no fault", tc.uri, err)
		}
		if len(rec.calls) != 1 || rec.calls[0].Tool.Name != "resource_file" || rec.calls[0].Tool.Toolset != "f" || rec.calls[0].Result.Code != tc.code {
			t.Fatalf("%s: observed %+v", tc.uri, rec.calls)
		}
		if facts, _ := tool.Encode(rec.calls[0].Facts); string(facts) != tc.facts {
			t.Errorf("%s: facts %s, want %s", tc.uri, facts, tc.facts)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the client is told %v", tc.uri, err)
		}
	}
	if !strings.Contains(log.String(), "hunter2") || !strings.Contains(log.String(), "library_test.go") {
		t.Errorf("the log lacks a cause or a stack: %s", log.String())
	}
	rec.calls = nil
	r, ref := l.At("file:///ask")
	_, err := l.Read(t.Context(), r, ref)
	if need, ok := errors.AsType[*caller.NeedInput](err); !ok || need.Question.Key != "k" || len(rec.calls) != 0 {
		t.Errorf("a question is not passed on: %v, observed %d", err, len(rec.calls))
	}
}

func TestAPromptGetsItsArgumentsChecked(t *testing.T) {
	rec := &recorder{}
	l := newLibrary(t, tool.SetOptions{Observers: []tool.Observer{rec}}, nil, asking("alias_suggest", "prompt.alias.suggest"))
	p := l.Prompt("prompt.alias.suggest")
	if p == nil || p != l.Prompt("alias_suggest") || l.Prompt("alias_sugest") != nil {
		t.Fatal("the spellings do not lead to the prompt")
	}
	messages, err := l.Render(t.Context(), p, map[string]string{"name": "gs", "args": "-s"})
	if err != nil || len(messages) != 1 || messages[0].Text != "gs-s" {
		t.Errorf("Render = %+v, %v", messages, err)
	}
	for want, args := range map[string]map[string]string{
		"name is required": {"args": "x"},
		`nam is not a known argument; did you mean "name"?`: {"name": "x", "nam": "y"},
		"quite other is not a known argument":               {"name": "x", "quite other": "y"},
	} {
		if _, err := l.Render(t.Context(), p, args); fault.CodeOf(err) != fault.ValidationError || fault.From(err).Text() != want {
			t.Errorf("Render(%v) = %v, want %q", args, err, want)
		}
	}
	if len(rec.calls) != 4 || rec.calls[0].Tool.Name != "prompt_alias_suggest" || rec.calls[1].Result.Code != fault.ValidationError {
		t.Errorf("observed %+v", rec.calls)
	}
}

func TestNewLibraryRefusesClashes(t *testing.T) {
	for _, tc := range []struct {
		resources []*tool.Resource
		prompts   []*tool.Prompt
	}{
		{resources: []*tool.Resource{reading("a", "x://1", "", ""), reading("a", "x://2", "", "")}},
		{resources: []*tool.Resource{reading("a", "x://1", "", ""), reading("b", "x://1", "", "")}},
		{resources: []*tool.Resource{reading("a", "", "x://{x}", ""), reading("b", "", "x://{x}", "")}},
		{prompts: []*tool.Prompt{asking("a"), asking("a")}},
		{prompts: []*tool.Prompt{asking("a", "c"), asking("b", "c")}},
		{prompts: []*tool.Prompt{asking("a", "b"), asking("b")}},
	} {
		if _, err := tool.NewLibrary(tc.resources, tc.prompts, tool.SetOptions{}); err == nil {
			t.Errorf("NewLibrary(%v, %v) succeeded, want an error", tc.resources, tc.prompts)
		}
	}
}

func TestALibraryIsSelectedByToolset(t *testing.T) {
	l := newLibrary(t, tool.SetOptions{}, []*tool.Resource{reading("a", "x://1", "", "files"), reading("b", "x://2", "", "shell")}, asking("p"))
	for want, toolsets := range map[string][]string{"a": nil, "b p": {"shell", "talk"}, "a b p": {"all"}, "": {}} {
		got, err := l.Select(toolsets, []string{"files"})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range got.Resources() {
			names = append(names, r.Name)
		}
		for _, p := range got.Prompts() {
			names = append(names, p.Name)
		}
		if strings.Join(names, " ") != want {
			t.Errorf("Select(%v) = %v, want %s", toolsets, names, want)
		}
	}
}

func TestWrongDeclarationsPanic(t *testing.T) {
	read := func(context.Context, tool.Ref) ([]tool.Content, error) { return nil, nil }
	for name, declare := range map[string]func(){
		"no address":    func() { tool.NewResource(tool.ResourceSpec{Name: "a", Read: read}) },
		"two addresses": func() { tool.NewResource(tool.ResourceSpec{Name: "a", URI: "a:b", Template: "a:{b}", Read: read}) },
		"no read":       func() { tool.NewResource(tool.ResourceSpec{Name: "a", URI: "a:b"}) },
		"bad template":  func() { tool.NewResource(tool.ResourceSpec{Name: "a", Template: "a:{", Read: read}) },
		"two in one":    func() { tool.NewResource(tool.ResourceSpec{Name: "a", Template: "a:{b,c}", Read: read}) },
		"bad name":      func() { tool.NewResource(tool.ResourceSpec{Name: "A.b", URI: "a:b", Read: read}) },
		"no text":       func() { tool.NewPrompt(tool.PromptSpec{Name: "a"}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			declare()
		}()
	}
}
