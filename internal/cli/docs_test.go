package cli

import (
	"os"
	"path/filepath"
	"testing"
)

func TestGeneratedDocumentsAreCurrent(t *testing.T) {
	pages, err := documentation(newRoot(&terminal{}))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join("../../docs", name))
		if err != nil {
			t.Error(err)
		} else if string(got) != want {
			t.Errorf("docs/%s is stale; run make docs", name)
		}
	}
}
