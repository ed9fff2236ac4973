package files_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// step is a file of a batch as its journal has it.
type step struct {
	Path   string `json:"path"`
	Create bool   `json:"create"`
	Dirs   bool   `json:"dirs"`
	Old    []byte `json:"old"`
	New    []byte `json:"new"`
}

// journal leaves the journal of a batch that process began.
func (p *place) journal(t *testing.T, name, process string, steps ...step) string {
	t.Helper()
	for i := range steps {
		steps[i].Path = filepath.Join(p.root, steps[i].Path)
	}
	raw, err := json.Marshal(map[string]any{"process": process, "bases": []string{p.root}, "steps": steps})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(p.root, "..", "journal", name)
	plant(t, path, string(raw))
	return path
}

func plant(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAHalfDoneBatchIsFinishedOrTakenBack starts after a process died at each
// point of a batch of three files.
func TestAHalfDoneBatchIsFinishedOrTakenBack(t *testing.T) {
	const gone = "no process ever had this name"
	old := map[string]string{"a": "a old", "b": "b old"}
	done := map[string]string{"a": "a new", "b": "b new", "new/c": "c new"}
	with := func(base map[string]string, name, text string) map[string]string {
		out := maps.Clone(base)
		if out[name] = text; text == "" {
			delete(out, name)
		}
		return out
	}
	for _, c := range []struct {
		name         string
		before, want map[string]string
	}{
		{"nothing was done", old, done},
		{"one file was done", with(old, "a", "a new"), done},
		{"all but the new file", with(done, "new/c", ""), done},
		{"everything was done", done, done},
		{"somebody changed one that was done", with(done, "a", "a other"), map[string]string{"a": "a other", "b": "b old"}},
		{"somebody changed one that was not", with(with(old, "a", "a new"), "b", "b other"), map[string]string{"a": "a old", "b": "b other"}},
		{"somebody deleted one", with(done, "b", ""), map[string]string{"a": "a old"}},
		{"somebody made the new file", with(with(old, "a", "a new"), "new/c", "c other"), with(old, "new/c", "c other")},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := fresh(t)
			for name, text := range c.before {
				plant(t, filepath.Join(p.root, name), text)
			}
			left := p.journal(t, "j.json", gone,
				step{Path: "a", Old: []byte("a old"), New: []byte("a new")},
				step{Path: "b", Old: []byte("b old"), New: []byte("b new")},
				step{Path: "new/c", Create: true, Dirs: true, New: []byte("c new")})
			if err := p.Recover(); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"a", "b", "new/c"} {
				raw, _ := os.ReadFile(filepath.Join(p.root, name))
				if got := string(raw); got != c.want[name] {
					t.Errorf("%s holds %q, want %q", name, got, c.want[name])
				}
			}
			if fsys.Exists(left) {
				t.Error("the journal is still there")
			}
		})
	}
}

// TestOnlyJournalsOfTheDeadAreActedOn leaves alone what a living process is at,
// keeps what cannot be read, and goes on with the rest.
func TestOnlyJournalsOfTheDeadAreActedOn(t *testing.T) {
	p := fresh(t)
	change := step{Path: "a.txt", Old: []byte("one\ntwo\n"), New: []byte("new\n")}
	living := p.journal(t, "2.json", fsys.Process(), change)
	dir := filepath.Dir(living)
	damaged, unfinished := filepath.Join(dir, "1.json"), filepath.Join(dir, ".3.json.tmp")
	plant(t, damaged, `{"process": "x", "ba`)
	plant(t, unfinished, "{")
	made := p.journal(t, "4.json", "gone", step{Path: "made", Create: true, New: []byte("x")})
	if err := p.Recover(); err == nil {
		t.Error("nobody was told of the damaged journal")
	}
	if raw, _ := os.ReadFile(filepath.Join(p.root, "a.txt")); string(raw) != "one\ntwo\n" {
		t.Errorf("the file of a living process holds %q", raw)
	}
	if raw, _ := os.ReadFile(filepath.Join(p.root, "made")); string(raw) != "x" {
		t.Errorf("the batch of the dead one was not finished: %q", raw)
	}
	for path, want := range map[string]bool{living: true, damaged: true, unfinished: false, made: false} {
		if fsys.Exists(path) != want {
			t.Errorf("%s exists: %v, want %v", filepath.Base(path), !want, want)
		}
	}
}
