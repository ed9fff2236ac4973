package files_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
)

// TestAnAtomicBatchThatFailsInTheMiddleLeavesNothing fails where no look
// beforehand could tell: one item stands where another needs a directory.
func TestAnAtomicBatchThatFailsInTheMiddleLeavesNothing(t *testing.T) {
	p := fresh(t)
	items, applied, err := p.BatchWrite(t.Context(), []files.WriteRequest{
		{Path: "dir/own/x", Content: "1", CreateDirs: true},
		{Path: "new/deep/a", Content: "1", CreateDirs: true},
		{Path: "new/deep/b", Content: "2", CreateDirs: true},
		{Path: "new/deep/a/c", Content: "3", CreateDirs: true},
	}, true)
	if err != nil || applied {
		t.Fatalf("applied: %v, %v", applied, err)
	}
	for i, want := range []fault.Code{fault.WriteError, fault.WriteError, fault.WriteError, fault.DirNotFound} {
		if items[i].Err == nil || items[i].Err.Code != want {
			t.Errorf("item %d: %v, want %s", i, items[i].Err, want)
		}
	}
	for _, gone := range []string{"new", "dir/own"} {
		if _, err := os.Lstat(filepath.Join(p.root, gone)); !os.IsNotExist(err) {
			t.Errorf("%s was left behind: %v", gone, err)
		}
	}
	if _, err := os.Stat(filepath.Join(p.root, "dir")); err != nil {
		t.Errorf("a directory that was there before is gone: %v", err)
	}
	if left, _ := os.ReadDir(filepath.Join(p.root, "..", "journal")); len(left) > 0 {
		t.Errorf("the journal was left behind: %v", left)
	}
}
