package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
)

// A home directory as the project holds what belongs to the server.
func TestNoToolReachesTheServersOwnFiles(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ASYNC_CRUD_MCP_HOME", filepath.Join(home, "state-{1}", "own"))
	if err := os.Symlink(filepath.Join(home, "records"), filepath.Join(home, "link")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"state-{1}/own", "records"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	audit, _ := json.Marshal(filepath.Join(home, "link", "calls.jsonl"))
	history, _ := json.Marshal(filepath.Join(home, "past.db"))
	a, err := Load(Options{Mode: "call", Root: home, Quiet: true, Settings: config.Options{
		Env: []string{}, Set: []string{"audit.file=" + string(audit), "persistence.state_file=" + string(history)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	ctx := caller.With(t.Context(), &caller.Caller{Session: "s"})
	for path, reachable := range map[string]bool{
		"state-{1}/own/trust.json": false, "state-{1}/own/new/file": false, "state-{1}/own": false,
		"records/calls.jsonl": false, "records/calls.000001.jsonl": false, "records/calls.jsonl.lock": false, "link/calls.jsonl": false,
		"past.db": false, "past.db-wal": false,
		"state-{1}/other": true, "state-1/own": true, "records/callsXjsonl": true, "records/notes.jsonl": true, "sub/past.db": true,
	} {
		args, _ := json.Marshal(map[string]any{"path": path, "content": "x"})
		res := a.Tools().Call(ctx, a.Tools().Lookup("async_write"), args)
		if denied := res.Code == "ACCESS_DENIED"; denied == reachable || reachable && res.IsError {
			t.Errorf("%s: %s", path, res.Body)
		}
	}
	// The record itself shows the attempts.
	a.flushAudit()
	raw, err := os.ReadFile(a.AuditFile())
	if err != nil || strings.Count(string(raw), "ACCESS_DENIED") != 9 {
		t.Errorf("the record: %v\n%s", err, raw)
	}
}
