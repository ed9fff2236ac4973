package fsys_test

import (
	"path/filepath"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

func TestHoldIsForOneAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	release, held, err := fsys.Hold(path)
	if err != nil || !held {
		t.Fatalf("Hold = %v, %v", held, err)
	}
	if _, held, err := fsys.Hold(path); err != nil || held {
		t.Errorf("while it is held: %v, %v", held, err)
	}
	release()
	release, held, err = fsys.Hold(path)
	if err != nil || !held {
		t.Fatalf("after it was let go: %v, %v", held, err)
	}
	release()
	if _, _, err := fsys.Hold(filepath.Join(path, "below")); err == nil {
		t.Error("no error where there can be no lock file")
	}
}
