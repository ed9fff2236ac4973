package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/audit"
	"github.com/async-crud-mcp/async-crud-mcp/internal/schema"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// recorded has every call of the world recorded. The returned function gives the
// record so far, as it is on disk.
func (w *world) recorded() (record func() string) {
	w.t.Helper()
	log := audit.New(audit.Options{File: filepath.Join(w.home, "audit.jsonl"), MaxFiles: 10})
	var err error
	if w.set, err = tool.NewSet(w.set.Tools(), tool.SetOptions{Observers: []tool.Observer{log}}); err != nil {
		w.t.Fatal(err)
	}
	return func() string {
		ended, cancel := context.WithCancel(w.ctx)
		cancel()
		if err := log.Run(ended); err != nil {
			w.t.Fatal(err)
		}
		raw, err := os.ReadFile(log.File())
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // there may be no call yet
			w.t.Fatal(err)
		}
		return string(raw)
	}
}

// canary is in what must not get into the record.
const canary = "CaNaRy7391"

func TestNoContentGetsIntoTheRecord(t *testing.T) {
	w := newWorld(t)
	w.content = []access.ContentRule{{Name: "blocked", Pattern: "forbidden", Action: "deny"}, {Name: "hidden", Pattern: "hide-[a-z]+", Action: "redact"}}
	w.start("--root")
	record := w.recorded()
	for name, text := range map[string]string{
		"a.txt": "one " + canary + "\ntwo\n", "b.txt": canary + "\n" + canary + "\n", "c.txt": canary + " forbidden", "d.txt": canary + " hide-me",
	} {
		w.write(filepath.Join(w.root, name), []byte(text))
	}
	const stale = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	told := 0 // results that hold the canary: else nothing was put to the test
	for _, c := range []struct{ tool, args string }{
		{"async_read", `{"path": "a.txt"}`},
		{"async_read", `{"path": "c.txt"}`},
		{"async_read", `{"path": "d.txt"}`},
		{"async_read", `{"path": "a.txt", "encoding": "` + canary + `"}`},
		{"async_batch_read", `{"files": [{"path": "a.txt"}, {"path": "missing"}, {"path": "c.txt"}]}`},
		{"async_write", `{"path": "n1.txt", "content": "` + canary + `"}`},
		{"async_write", `{"path": "a.txt", "content": "` + canary + `"}`},
		{"async_write", `{"path": "n2.txt", "content": "forbidden ` + canary + `"}`},
		{"async_write", `{"path": "n2.txt", "content": "[[REDACTED:hidden]] ` + canary + `"}`},
		{"async_batch_write", `{"files": [{"path": "n3.txt", "content": "` + canary + `"}, {"path": "a.txt", "content": "` + canary + `"}]}`},
		{"async_update", `{"path": "a.txt", "expected_hash": "` + w.hash("a.txt") + `", "patches": [{"old_string": "no ` + canary + `", "new_string": "` + canary + `"}]}`},
		{"async_update", `{"path": "b.txt", "expected_hash": "` + w.hash("b.txt") + `", "patches": [{"old_string": "` + canary + `", "new_string": "x"}]}`},
		{"async_update", `{"path": "a.txt", "expected_hash": "` + canary + `", "content": "` + canary + `"}`},
		{"async_update", `{"path": "a.txt", "expected_hash": "` + stale + `", "patches": [{"old_string": "one ` + canary + `", "new_string": "` + canary + `"}], "diff_format": "unified"}`},
		{"async_update", `{"path": "a.txt", "expected_hash": "` + w.hash("a.txt") + `", "patches": [{"old_string": "two", "new_string": "` + canary + `"}]}`},
		{"async_update", `{"path": "a.txt", "expected_hash": "` + w.hash("a.txt") + `", "content": "` + canary + `"}`},
		{"async_batch_update", `{"files": [{"path": "b.txt", "expected_hash": "` + stale + `", "content": "` + canary + `"}, {"path": "a.txt", "expected_hash": "` + stale + `", "patches": [{"start_line": 1, "end_line": 1, "new_string": "` + canary + `", "expected": "` + canary + `"}]}]}`},
		{"async_append", `{"path": "b.txt", "content": "` + canary + `", "separator": "` + canary + `"}`},
		{"async_list", `{"path": ".", "pattern": "` + canary + `*"}`},
		{"async_delete", `{"path": "b.txt", "expected_hash": "` + stale + `"}`},
		{"async_rename", `{"old_path": "b.txt", "new_path": "e.txt", "expected_hash": "` + canary + `"}`},
		{"async_copy", `{"from": "a.txt", "to": "f.txt"}`},
		{"async_delete", `{"path": "f.txt"}`},
		{"crud_update_config", `{"set": {"crud.max_timeout": "` + canary + `", "` + canary + ` " : 1, "daemon.token": "` + canary + `"}}`},
		{"async_write", `{"path": "x", "content": "y", "` + canary + `": 1}`},
		{"async_write", `{"path": "x", "content": "` + canary + `"`},
		{"async_write", `"` + canary + `"`},
		{"async_write", `{"path": {"` + canary + `": 1}, "content": "x"}`},
	} {
		res := w.set.Call(w.ctx, w.set.Lookup(c.tool), json.RawMessage(c.args))
		if strings.Contains(string(res.Body), canary) {
			told++
		}
		if res.Code == "SERVER_ERROR" {
			t.Errorf("%s %s: %v", c.tool, c.args, res.Err)
		}
	}
	if told < 8 {
		t.Errorf("only %d results hold what must not be recorded", told)
	}
	got := record()
	for line := range strings.Lines(got) {
		if strings.Contains(line, canary) {
			t.Errorf("content is in the record: %s", line)
		}
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	for _, want := range []string{`"tool":"async_read"`, `"code":"CONTENT_BLOCKED","rule":"blocked"`, `"outcome":"contention"`, `"bytes":`, `"settings":["crud.max_timeout","daemon.token"]`, `"field":"path"`} {
		if !strings.Contains(got, want) {
			t.Errorf("the record lacks %s:\n%s", want, got)
		}
	}
}

// kept are the arguments whose text may be in the record: names of things, and
// commands, which are redacted. Any other text a caller sends stays out, and a new
// argument is decided on here.
var kept = []string{
	"path", "old_path", "new_path", "from", "to", "command", "cwd", "working_dir", "work_dir", "task_id", "job_id",
	"name", "args", // of aliases; arguments are redacted as commands are
	"env", // its names, not its values, as the test of async_exec shows
}

func TestNoTextOfAnArgumentGetsIntoTheRecordUnlessItIsAName(t *testing.T) {
	w := newWorld(t)
	w.start("--root")
	record := w.recorded()
	calls := 0
	for _, one := range w.set.Tools() {
		for _, f := range one.Input.Fields() {
			args, err := json.Marshal(arguments(one.Input.Fields(), f.Name))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(args), canary) {
				continue
			}
			w.set.Call(w.ctx, one, args)
			calls++
			if got := record(); strings.Contains(got, canary) {
				t.Fatalf("%s %s is in the record; keep it out in facts.go, or say above that it is a name:\n%s", one.Name, f.Name, got)
			}
		}
	}
	if calls < 15 {
		t.Errorf("%d arguments were tried; there are more", calls)
	}
}

// arguments makes arguments that fit the fields, with the canary in the texts of
// one of them.
func arguments(fields []schema.Field, in string) map[string]any {
	args := map[string]any{}
	for _, f := range fields {
		text := "x"
		if f.Name == in && !slices.Contains(kept, f.Name) {
			text = canary
		}
		switch {
		case len(f.Fields) > 0:
			item := map[string]any{}
			for _, sub := range f.Fields {
				if f.Name == in {
					maps.Copy(item, arguments([]schema.Field{sub}, sub.Name))
				}
			}
			if f.Name == in || f.Required {
				args[f.Name] = []any{item}
			}
		case !f.Required && f.Name != in:
		case len(f.Enum) > 0:
			args[f.Name] = f.Enum[0]
		case strings.HasPrefix(f.Type, "string"):
			args[f.Name] = text
		case strings.HasPrefix(f.Type, "integer"), strings.HasPrefix(f.Type, "number"):
			args[f.Name] = 1
		case strings.HasPrefix(f.Type, "boolean"):
			args[f.Name] = true
		default:
			args[f.Name] = map[string]any{text: text}
		}
	}
	return args
}

func TestEveryToolTellsWhatItsCallsAreAbout(t *testing.T) {
	w := newWorld(t)
	w.start("--root", "shell.enabled=true")
	record := w.recorded()
	silent := []string{"health", "async_wait", "alias_catalog"} // of the server, of time, of everything
	for _, one := range w.set.Tools() {
		w.write(filepath.Join(w.root, "hello.txt"), []byte("hello\n"))
		w.write(filepath.Join(w.root, "old.txt"), []byte("old\n"))
		for _, e := range one.Examples {
			args := strings.NewReplacer("{{root}}", w.root, "{{hash}}", w.hash("hello.txt")).Replace(e.Args)
			before := len(record())
			w.call(one.Name, args)
			line := record()[before:]
			var r audit.Record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("%s: %q: %v", one.Name, line, err)
			}
			about := r.Path != "" || len(r.Items) > 0 || len(r.Settings) > 0 || r.Command != "" || r.Alias != "" || len(r.Jobs) > 0
			if !about && args != "{}" && !slices.Contains(silent, one.Name) {
				t.Errorf("%s %s tells nothing: %s", one.Name, args, line)
			}
			if r.Tool != one.Name || r.Outcome != e.Status || r.Code != e.Code || r.Caller.Session != "s1" {
				t.Errorf("%s %s: recorded as %s", one.Name, args, line)
			}
			for i, item := range r.Items {
				if item.Outcome == "" || item.Path == "" {
					t.Errorf("%s: item %d is %+v", one.Name, i, item)
				}
			}
		}
	}
}
