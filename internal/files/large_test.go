package files_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
)

// large makes a file over the size limit and returns its hash.
func (p *place) large(t *testing.T, name string) string {
	t.Helper()
	raw := bytes.Repeat([]byte("0123456789"), 500)
	if err := os.WriteFile(filepath.Join(p.root, name), raw, 0o644); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(raw))
}

func TestAFileOverTheSizeLimitCanBeMoved(t *testing.T) {
	p := fresh(t)
	hash := p.large(t, "big")
	out, err := p.Rename(t.Context(), files.RenameRequest{OldPath: "big", NewPath: "moved", ExpectedHash: hash})
	if err != nil || out.Done == nil || out.Done.Hash != hash {
		t.Fatalf("Rename = %+v, %v; want it done, with %s", out, err, hash)
	}
	if info, err := os.Stat(filepath.Join(p.root, "moved")); err != nil || info.Size() != 5000 {
		t.Errorf("moved: %v, %v", info, err)
	}
	if _, err := p.Read(t.Context(), files.ReadRequest{Path: "moved"}); fault.CodeOf(err) != fault.FileTooLarge {
		t.Errorf("Read = %v, want %s still", err, fault.FileTooLarge)
	}
}

func TestALateCallerLearnsTheHashOfAFileOverTheSizeLimit(t *testing.T) {
	for _, verb := range []string{"rename", "delete"} {
		p := fresh(t)
		known := p.hash(t, "a.txt")
		if _, err := p.Read(t.Context(), files.ReadRequest{Path: "a.txt"}); err != nil {
			t.Fatal(err)
		}
		hash := p.large(t, "a.txt")
		var late *files.Contention
		if verb == "rename" {
			out, err := p.Rename(t.Context(), files.RenameRequest{OldPath: "a.txt", NewPath: "b.txt", ExpectedHash: known})
			if err != nil {
				t.Fatalf("Rename: %v", err)
			}
			late = out.Contention
		} else {
			out, err := p.Delete(t.Context(), files.DeleteRequest{Path: "a.txt", ExpectedHash: known})
			if err != nil {
				t.Fatalf("Delete: %v", err)
			}
			late = out.Contention
		}
		if late == nil || late.CurrentHash != hash || late.Diff != nil || late.Note == "" {
			t.Errorf("%s: contention = %+v, want %s, no diff and a note", verb, late, hash)
		}
	}
}

func TestHistorySkipsWhatIsOverTheSizeLimit(t *testing.T) {
	p := fresh(t)
	hash := p.large(t, "big")
	p.large(t, "old")
	if _, err := p.Rename(t.Context(), files.RenameRequest{OldPath: "big", NewPath: "old", Overwrite: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Delete(t.Context(), files.DeleteRequest{Path: "old"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"big", "old"} {
		if raw, v, ok := p.history.Get("p", filepath.Join(p.root, name), hash); ok {
			t.Errorf("history has %d bytes of %s: %+v", len(raw), name, v)
		}
	}
	all, err := p.history.Versions(t.Context(), "p", filepath.Join(p.root, "old"))
	if err != nil || len(all) == 0 {
		t.Fatalf("Versions = %v, %v", all, err)
	}
	for _, v := range all {
		if v.Keep || v.Size != 5000 {
			t.Errorf("version %+v, want one of 5000 bytes that is not kept", v)
		}
	}
}
