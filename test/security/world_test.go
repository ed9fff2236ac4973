// Package security_test holds the file tools to the border of a project: no path,
// link, race or rule leads out of it, and nothing that is hidden comes to light.
package security_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/catalog"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
	"github.com/async-crud-mcp/async-crud-mcp/internal/history"
	"github.com/async-crud-mcp/async-crud-mcp/internal/project"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// secret is what stands in every file that nobody may see.
const secret = "s3cr3t-hunter2"

const outsideBase, invalid, denied = "PATH_OUTSIDE_BASE", "VALIDATION_ERROR", "ACCESS_DENIED"

// world is a project with a directory outside of it, and the tools.
type world struct {
	t             *testing.T
	root, outside string
	set           *tool.Set
	history       *history.Store
	ctx           context.Context
}

// settings are what a test may change.
type settings struct {
	rules   []access.Rule
	secrets []string
	content []access.ContentRule
	limit   int64
	merge   bool
}

func newWorld(t *testing.T, s settings) *world {
	t.Helper()
	top, err := fsys.ResolveDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, root: filepath.Join(top, "project"), outside: filepath.Join(top, "outside"), history: history.New(history.Options{})}
	w.put("../outside/secret.txt", secret+"\n")
	w.put("../outside/dir/deep.txt", secret+"\n")
	w.put("../project-sibling/secret.txt", secret+"\n")
	w.put("in.txt", "inside\n")
	w.put("sub/in.txt", "inside\n")
	bases, err := fsys.OpenBases(w.root, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bases.Close)
	rules, err := access.New(access.Options{
		Rules: s.rules, Secret: s.secrets,
		Protected: []string{".async-crud-mcp/**", ".git/hooks/**", ".git/config", "**/.git/hooks/**", "**/.git/config"},
	})
	if err != nil {
		t.Fatal(err)
	}
	content, err := access.NewContent(s.content)
	if err != nil {
		t.Fatal(err)
	}
	if s.limit == 0 {
		s.limit = 1 << 20
	}
	mode := "fail"
	if s.merge {
		mode = "merge"
	}
	scope := &files.Scope{
		Project: "p", Root: w.root, Bases: bases, Rules: rules, Content: content, Redacts: len(s.content) > 0,
		Limits: files.Limits{
			MaxFileSize: s.limit, MaxEntries: 1000, DefaultTimeout: 30 * time.Second, MaxTimeout: 300 * time.Second,
			Encoding: "utf-8", ContextLines: 3, OnContention: mode, Sync: fsys.Sync{Off: true},
		},
	}
	engine := files.New(files.Options{
		Locks: files.LocalLocks(), History: w.history, JournalDir: filepath.Join(top, "journal"),
		Scope: func(context.Context) (*files.Scope, error) { return scope, nil },
	})
	set := config.New(config.Options{Env: []string{}, UserFile: w.put("../home/config.json", "{}")})
	if err := set.Load(); err != nil {
		t.Fatal(err)
	}
	w.set, err = tool.NewSet(catalog.All(catalog.Engines{
		Projects: project.New(project.Options{Launch: project.Launch{Root: w.root, Settings: set}, Trust: project.NewTrust(filepath.Join(top, "home/trust.json"))}),
		Files:    engine, Health: func() health.Report { return health.Report{} },
	}), tool.SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.ctx = caller.With(t.Context(), &caller.Caller{Client: "test", Session: "s1"})
	return w
}

// put makes a file of the project, and its directories.
func (w *world) put(rel, content string) string {
	w.t.Helper()
	path := filepath.Join(w.root, rel)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// link makes a symbolic link in the project.
func (w *world) link(target, rel string) {
	w.t.Helper()
	if err := os.Symlink(target, filepath.Join(w.root, rel)); err != nil {
		w.t.Fatal(err)
	}
}

// args are the arguments of a call.
type args map[string]any

// answer is a result, that of the one item in a batch included.
type answer struct {
	status, code string
	body         string
	fields       map[string]any
}

// patience is how long a call may take before it counts as hanging.
const patience = 20 * time.Second

// call runs a tool and fails the test when it hangs, breaks inside, or answers
// with a code it does not declare.
func (w *world) call(name string, in args) answer {
	w.t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		w.t.Fatal(err)
	}
	one := w.set.Lookup(name)
	if one == nil {
		w.t.Fatalf("there is no tool %s", name)
	}
	done := make(chan tool.Result, 1)
	go func() { done <- w.set.Call(w.ctx, one, raw) }()
	var res tool.Result
	select {
	case res = <-done:
	case <-time.After(patience):
		w.t.Fatalf("%s %s hangs", name, raw)
	}
	a := answer{body: string(res.Body)}
	if err := json.Unmarshal(res.Body, &a.fields); err != nil {
		w.t.Fatal(err)
	}
	if res.IsError && !one.Declares(res.Code) {
		w.t.Errorf("%s %s answers %s, which it does not declare", name, raw, res.Code)
	}
	if items, ok := a.fields["results"].([]any); ok && len(items) == 1 {
		a.fields = items[0].(map[string]any)
	}
	a.status, _ = a.fields["status"].(string)
	a.code, _ = a.fields["error_code"].(string)
	if a.code == string(fault.ServerError) {
		w.t.Errorf("%s %s fails inside: %s", name, raw, a.body)
	}
	return a
}

// use is a way to hand a path to a tool.
type use struct {
	name string
	tool string
	args func(path string) args
}

// uses are all ways in which a path can be handed to a tool. in.txt and
// sub/in.txt exist, other.txt does not.
var uses = []use{
	{"read", "async_read", func(p string) args { return args{"path": p} }},
	{"write", "async_write", func(p string) args { return args{"path": p, "content": "pwned"} }},
	{"update", "async_update", func(p string) args { return args{"path": p, "expected_hash": "sha256:00", "content": "pwned"} }},
	{"merge", "async_update", func(p string) args {
		return args{"path": p, "expected_hash": "sha256:00", "on_contention": "merge", "patches": []any{args{"start_line": 1, "end_line": 0, "new_string": "pwned\n"}}}
	}},
	{"append", "async_append", func(p string) args { return args{"path": p, "content": "pwned", "create_if_missing": true} }},
	{"delete", "async_delete", func(p string) args { return args{"path": p} }},
	{"delete a tree", "async_delete", func(p string) args { return args{"path": p, "recursive": true} }},
	{"rename from", "async_rename", func(p string) args { return args{"old_path": p, "new_path": "other.txt", "recursive": true} }},
	{"rename to", "async_rename", func(p string) args { return args{"old_path": "in.txt", "new_path": p} }},
	{"rename over", "async_rename", func(p string) args { return args{"old_path": "in.txt", "new_path": p, "overwrite": true} }},
	{"copy from", "async_copy", func(p string) args { return args{"from": p, "to": "other.txt"} }},
	{"copy to", "async_copy", func(p string) args { return args{"from": "in.txt", "to": p} }},
	{"copy over", "async_copy", func(p string) args { return args{"from": "in.txt", "to": p, "overwrite": true} }},
	{"mkdir", "async_mkdir", func(p string) args { return args{"path": p} }},
	{"list", "async_list", func(p string) args { return args{"path": p, "recursive": true, "include_hashes": true} }},
	{"status", "async_status", func(p string) args { return args{"path": p} }},
	{"batch read", "async_batch_read", func(p string) args { return args{"files": []any{args{"path": p}}} }},
	{"batch write", "async_batch_write", func(p string) args { return args{"files": []any{args{"path": p, "content": "pwned"}}} }},
	{"atomic write", "async_batch_write", func(p string) args {
		return args{"files": []any{args{"path": p, "content": "pwned"}}, "atomic": true}
	}},
	{"batch update", "async_batch_update", func(p string) args {
		return args{"files": []any{args{"path": p, "expected_hash": "sha256:00", "content": "pwned"}}}
	}},
	{"atomic update", "async_batch_update", func(p string) args {
		return args{"files": []any{args{"path": p, "expected_hash": "sha256:00", "content": "pwned"}}, "atomic": true}
	}},
}

// state describes everything below a directory, so that a change is seen.
func state(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		fmt.Fprintf(&b, "%q %s", rel, d.Type())
		switch {
		case d.Type().IsRegular():
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", raw)
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " -> %q", to)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
