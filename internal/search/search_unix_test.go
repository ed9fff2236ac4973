//go:build unix

package search_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search"
)

func TestAPipeHoldsNobodyUp(t *testing.T) {
	tr := newTree(t, map[string]string{"a": "hit\n"})
	if err := syscall.Mkfifo(filepath.Join(tr.root, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	equal(t, "files", tr.files("hit"), []string{"a"})
	if _, err := tr.try(search.Request{Pattern: "hit", Path: "pipe"}); code(err) != fault.NotARegularFile {
		t.Errorf("search in a pipe = %v, want NOT_A_REGULAR_FILE", err)
	}
}
