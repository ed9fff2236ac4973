package files_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/history"
)

// place is a directory with an engine for it.
type place struct {
	*files.Engine
	root    string
	locks   files.Locker
	history *history.Store
	bus     *event.Bus
	scope   *files.Scope
}

func newPlace(t *testing.T, root string) *place {
	t.Helper()
	bases, err := fsys.OpenBases(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bases.Close)
	rules, err := access.New(access.Options{Rules: []access.Rule{{Path: "locked/**", Action: "deny"}}})
	if err != nil {
		t.Fatal(err)
	}
	content, err := access.NewContent(nil)
	if err != nil {
		t.Fatal(err)
	}
	scope := &files.Scope{
		Project: "p", Root: root, Bases: bases, Rules: rules, Content: content,
		Limits: files.Limits{
			MaxFileSize: 1000, MaxEntries: 100, DefaultTimeout: 30 * time.Second, MaxTimeout: 300 * time.Second,
			Encoding: "utf-8", ContextLines: 3, OnContention: "fail",
		},
	}
	p := &place{root: root, locks: files.LocalLocks(), history: history.New(history.Options{}), bus: new(event.Bus), scope: scope}
	p.Engine = files.New(files.Options{
		Locks: p.locks, History: p.history, Bus: p.bus, JournalDir: filepath.Join(root, "..", "journal"),
		Scope: func(context.Context) (*files.Scope, error) { return scope, nil },
	})
	return p
}

// fresh returns a place with a.txt in it.
func fresh(t *testing.T) *place {
	t.Helper()
	root := filepath.Join(t.TempDir(), "project")
	p := filepath.Join(root, "a.txt")
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "dir"), 0o755), os.WriteFile(p, []byte("one\ntwo\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	return newPlace(t, root)
}

func (p *place) hash(t *testing.T, name string) string {
	t.Helper()
	s, err := p.Status(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return s.Hash
}
