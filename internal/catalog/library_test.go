package catalog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/catalog"
	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/history"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// shelf is a world with its resources and prompts.
type shelf struct {
	*world
	bus event.Bus
	lib *tool.Library
}

func newShelf(t *testing.T, flags ...string) *shelf {
	t.Helper()
	s := &shelf{world: newWorld(t)}
	s.start(flags...)
	s.files = files.New(files.Options{
		Locks: files.LocalLocks(), History: history.New(history.Options{}), Scope: s.scope, Bus: &s.bus, JournalDir: filepath.Join(s.home, "journal"),
	})
	s.engines.Files = s.files
	resources, prompts := catalog.Library(s.engines)
	var err error
	if s.lib, err = tool.NewLibrary(resources, prompts, tool.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// read reads an address and holds the resource to its declared codes.
func (s *shelf) read(uri string) ([]tool.Content, error) {
	s.t.Helper()
	r, ref := s.lib.At(uri)
	if r == nil {
		s.t.Fatalf("nothing is at %s", uri)
	}
	contents, err := s.lib.Read(s.ctx, r, ref)
	if code := fault.CodeOf(err); err != nil && (!r.Declares(code) || code == fault.ServerError) {
		s.t.Errorf("%s: %v, which %s does not declare", uri, err, r.Name)
	}
	return contents, err
}

func TestEveryResourceAndPromptExampleRuns(t *testing.T) {
	s := newShelf(t, "--root")
	s.write(filepath.Join(s.root, "hello.txt"), []byte("hello\n"))
	s.write(filepath.Join(s.root, "a b.txt"), []byte("spaced\n"))
	for _, r := range s.lib.Resources() {
		if len(r.Examples) == 0 {
			t.Errorf("resource %s has no example", r.Name)
		}
		for _, e := range r.Examples {
			contents, err := s.read(strings.ReplaceAll(e.URI, "{{root}}", s.root))
			if fault.CodeOf(err) != e.Code || (err == nil) != (len(contents) > 0) {
				t.Errorf("%s, %s: %v, %v; want %s", r.Name, e.Title, contents, err, e.Code)
			}
		}
	}
	for _, p := range s.lib.Prompts() {
		if len(p.Examples) == 0 {
			t.Errorf("prompt %s has no example", p.Name)
		}
		for _, e := range p.Examples {
			messages, err := s.lib.Render(s.ctx, p, e.Args)
			if fault.CodeOf(err) != e.Code || (err == nil) != (len(messages) > 0) {
				t.Errorf("%s, %s: %v, %v; want %s", p.Name, e.Title, messages, err, e.Code)
			}
		}
	}
}

func TestEveryResourceAndPromptIsFitForEveryHost(t *testing.T) {
	s := newShelf(t)
	known := append(s.set.Toolsets(), "aliases") // which may have resources and no tool that is on
	text := func(what, name, title, doc, toolset string) {
		t.Helper()
		if n := len(strings.Fields(doc)); n > 100 || n == 0 {
			t.Errorf("%s %s: its text has %d words, want 1 to 100", what, name, n)
		}
		if title == "" || !slices.Contains(known, toolset) {
			t.Errorf("%s %s has title %q and toolset %q", what, name, title, toolset)
		}
	}
	for _, r := range s.lib.Resources() {
		text("resource", r.Name, r.Title, r.Doc, r.Toolset)
		if !strings.Contains(r.Address(), "://") {
			t.Errorf("resource %s stands at %s, which has no scheme", r.Name, r.Address())
		}
		if r.Beside != "" && s.set.Lookup(r.Beside) == nil {
			t.Errorf("resource %s stands beside %s, which is no tool", r.Name, r.Beside)
		}
		codesAreKnown(t, r.Name, r.Codes)
	}
	for _, p := range s.lib.Prompts() {
		text("prompt", p.Name, p.Title, p.Doc, p.Toolset)
		for _, a := range p.Arguments {
			if a.Doc == "" {
				t.Errorf("prompt %s: argument %s is not described", p.Name, a.Name)
			}
		}
		codesAreKnown(t, p.Name, p.Codes)
	}
}

func codesAreKnown(t *testing.T, name string, codes []fault.Code) {
	t.Helper()
	for _, c := range codes {
		if fault.Describe(c).Meaning == fault.Describe(fault.ServerError).Meaning {
			t.Errorf("%s declares %s, which is not in the table", name, c)
		}
	}
}

func TestResourcesAndPromptsAreAsPublished(t *testing.T) {
	s := newShelf(t)
	published := map[string]any{}
	for _, r := range s.lib.Resources() {
		published["resource "+r.Name] = map[string]any{
			"address": r.Address(), "title": r.Title, "description": r.Doc, "mime_type": r.MIME, "error_codes": r.Codes,
			"listed": r.List != nil, "completed": r.Complete != nil, "subscribed": r.Watch != nil,
		}
	}
	for _, p := range s.lib.Prompts() {
		arguments := []map[string]any{}
		for _, a := range p.Arguments {
			arguments = append(arguments, map[string]any{"name": a.Name, "description": a.Doc, "required": a.Required, "completed": a.Complete != nil})
		}
		published["prompt "+p.Name] = map[string]any{"title": p.Title, "description": p.Doc, "arguments": arguments, "error_codes": p.Codes}
	}
	got, err := json.MarshalIndent(published, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const golden = "testdata/library.json"
	if *update {
		s.write(golden, got)
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v; run the test with -update", err)
	}
	if string(want) != string(got) {
		t.Errorf("the contract changed; if that is meant, run with -update:\n%s", lineDiff(string(want), string(got)))
	}
}

func TestAFileIsReadByItsAddress(t *testing.T) {
	s := newShelf(t, "--root")
	s.content = []access.ContentRule{{Name: "key", Pattern: `SECRET\w+`, Action: "redact"}, {Name: "no", Pattern: "FORBIDDEN", Action: "deny"}}
	s.rules.Rules = []access.Rule{{Path: "locked/**", Action: "deny"}}
	for name, raw := range map[string]string{
		"main.go": "package <main>\n", "README": "read me\n", "empty.md": "", "ä b%#?.TS": "x", "logo.png": "\x89PNG\x00", "core": "\x00\x01",
		"utf16.txt": "\xff\xfeh\x00i\x00", "secret.txt": "k=SECRETabc\n", "locked/x": "x", "no.txt": "FORBIDDEN", "no.bin": "\x00SECRETabc",
		"big.txt": strings.Repeat("x", 1<<20+1), ".async-crud-mcp/config.json": "{}",
	} {
		s.write(filepath.Join(s.root, name), []byte(raw))
	}
	for _, tc := range []struct{ path, want string }{
		{"/main.go", `text/x-go "package <main>\n" utf-8`},
		{"/README", `text/plain "read me\n" utf-8`},
		{"/empty.md", `text/markdown "" utf-8`},
		{"/%C3%A4%20b%25%23%3F.TS", `text/x-typescript "x" utf-8`},
		{"/ä b%25#?.TS", `text/x-typescript "x" utf-8`},
		{"/logo.png", `image/png blob "\x89PNG\x00"`},
		{"/core", `application/octet-stream blob "\x00\x01"`},
		{"/utf16.txt", `text/plain "hi" utf-16`},
		{"/secret.txt", `text/plain "k=[[REDACTED:key]]\n" utf-8 redacted 1`},
		{"/sub/../main.go", `text/x-go "package <main>\n" utf-8`},
		{"/missing", "FILE_NOT_FOUND"},
		{"", "IS_A_DIRECTORY"},
		{"/../outside", "PATH_OUTSIDE_BASE"},
		{"/%2e%2e/outside", "PATH_OUTSIDE_BASE"},
		{"/a%00b", "VALIDATION_ERROR"},
		{"/locked/x", "ACCESS_DENIED"},
		{"/.async-crud-mcp/config.json", "ACCESS_DENIED"},
		{"/no.txt", "CONTENT_BLOCKED"},
		{"/no.bin", "CONTENT_BLOCKED"},
		{"/big.txt", "FILE_TOO_LARGE"},
	} {
		contents, err := s.read("file://" + s.root + tc.path)
		got := string(fault.CodeOf(err))
		if err == nil {
			c := contents[0]
			if c.Blob != nil {
				got = fmt.Sprintf("%s blob %q", c.MIME, c.Blob)
			} else {
				got = fmt.Sprintf("%s %q %v", c.MIME, c.Text, c.Meta["async-crud-mcp/encoding"])
			}
			if n := c.Meta["async-crud-mcp/redacted"]; n != nil {
				got += fmt.Sprint(" redacted ", n)
			}
			if hash, _ := c.Meta["async-crud-mcp/hash"].(string); len(hash) != 71 {
				t.Errorf("%s: hash %q", tc.path, hash)
			}
		}
		if got != tc.want {
			t.Errorf("read %s = %s (%v), want %s", tc.path, got, err, tc.want)
		}
	}
	if _, err := s.read("file:///etc/passwd"); fault.CodeOf(err) != fault.PathOutsideBase {
		t.Errorf("read /etc/passwd = %v", err)
	}
}

func TestAReadIsTold(t *testing.T) {
	s := newShelf(t, "--root")
	rec := &recorder{}
	resources, prompts := catalog.Library(s.engines)
	lib, err := tool.NewLibrary(resources, prompts, tool.SetOptions{Observers: []tool.Observer{rec}})
	if err != nil {
		t.Fatal(err)
	}
	s.write(filepath.Join(s.root, "hello.txt"), []byte("hello\n"))
	for _, name := range []string{"hello.txt", "missing.txt"} {
		r, ref := lib.At("file://" + s.root + "/" + name)
		_, _ = lib.Read(s.ctx, r, ref)
	}
	got, err := tool.Encode(rec.facts)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"outcome":"ok","path":"$ROOT/hello.txt","hash":"sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03","bytes":6},` +
		`{"outcome":"error","code":"FILE_NOT_FOUND","path":"$ROOT/missing.txt"}]`
	if string(got) != s.expand(want) {
		t.Errorf("told %s\nwant %s", got, s.expand(want))
	}
}

type recorder struct{ facts []tool.Facts }

func (r *recorder) ToolCalled(_ context.Context, o tool.Observation) {
	r.facts = append(r.facts, o.Facts)
}

func TestAnAddressWithoutAProjectSaysWhatToDo(t *testing.T) {
	s := newShelf(t)
	if _, err := s.read("file:///a"); fault.CodeOf(err) != fault.NoProjectActivated {
		t.Errorf("read = %v, want %s", err, fault.NoProjectActivated)
	}
}

func TestAPathIsCompleted(t *testing.T) {
	s := newShelf(t, "--root")
	s.rules.Rules = []access.Rule{{Path: "src/secret*", Operations: []string{"list"}, Action: "deny"}}
	for _, name := range []string{"src/main.go", "src/main_test.go", "src/mod/x", "src/secret", "other"} {
		s.write(filepath.Join(s.root, name), []byte("x"))
	}
	file := s.lib.Declared("file://{+path}")
	for value, want := range map[string]string{
		"":                      s.root + "/",
		s.root[:len(s.root)-2]:  s.root + "/",
		s.root:                  s.root + "/",
		s.root + "/":            s.root + "/other " + s.root + "/src/",
		s.root + "/src/m":       s.root + "/src/main.go " + s.root + "/src/main_test.go " + s.root + "/src/mod/",
		s.root + "/src/s":       "",
		s.root + "/src/main.go": s.root + "/src/main.go",
		"relative":              "",
	} {
		got, err := file.Complete(s.ctx, tool.Completion{Name: "path", Value: value})
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("complete %q = %v, %v; want %s", value, got, err, want)
		}
	}
	for _, value := range []string{"/etc/", s.root + "/missing/"} {
		if got, err := file.Complete(s.ctx, tool.Completion{Name: "path", Value: value}); err == nil || len(got) > 0 {
			t.Errorf("complete %q = %v, %v; want an error", value, got, err)
		}
	}
}

func TestAFileIsWatchedByItsAddress(t *testing.T) {
	s := newShelf(t, "--root")
	events := s.bus.Subscribe(100)
	defer events.Close()
	watch := func(name string) (tool.Watch, error) {
		r, ref := s.lib.At("file://" + s.root + "/" + name)
		return r.Watch(s.ctx, ref)
	}
	w, err := watch("later.txt") // it does not exist yet
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	other, err := watch("other.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := s.files.Write(s.ctx, files.WriteRequest{Path: "later.txt", Content: "x"}); err != nil {
		t.Fatal(err)
	}
	e := <-events.C
	if !w.Touched(e) || other.Touched(e) || !w.MayRead(s.ctx) {
		t.Errorf("%+v: touched %v, the other %v; may read %v", e, w.Touched(e), other.Touched(e), w.MayRead(s.ctx))
	}
	if w.Touched(event.Event{Kind: event.SessionEnded, Data: e.Data}) || w.Touched(event.Event{Kind: event.FileChanged}) {
		t.Error("touched by what is no change of a file")
	}
	s.rules.Rules = []access.Rule{{Path: "later.txt", Action: "deny"}}
	if w.MayRead(s.ctx) {
		t.Error("may read what a rule denies by now")
	}
	for name, want := range map[string]fault.Code{"later.txt": fault.AccessDenied, "../x": fault.PathOutsideBase, "": fault.IsADirectory} {
		if _, err := watch(name); fault.CodeOf(err) != want {
			t.Errorf("watch %q = %v, want %s", name, err, want)
		}
	}
}
