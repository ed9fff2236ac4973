package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func checkout(t *testing.T, log string, notes map[string]string) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "changelog", "unreleased")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{filepath.Join(root, "CHANGELOG.md"): log}
	for name, text := range notes {
		files[filepath.Join(dir, name)] = text
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const released = "# Changes\n\n## Unreleased\n\n- old text\n\n## 0.1.0\n\n### Added\n\n- first\n"

func TestNotesBecomeTheUnreleasedSection(t *testing.T) {
	root := checkout(t, released, map[string]string{
		"002-b.md": "fixed: a crash.\n",
		"001-a.md": "added: a tool\n  that reads.\n",
		"003-c.md": "added: another.\n",
	})
	if err := run(root, true); err == nil {
		t.Error("check accepts a stale change log")
	}
	if err := run(root, false); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := "# Changes\n\n## Unreleased\n\n### Added\n\n- A tool that reads.\n- Another.\n\n### Fixed\n\n- A crash.\n\n## 0.1.0\n\n### Added\n\n- first\n"
	if string(got) != want {
		t.Errorf("CHANGELOG.md =\n%s\nwant\n%s", got, want)
	}
	if err := run(root, true); err != nil {
		t.Errorf("check refuses a current change log: %v", err)
	}
}

func TestBadNotesAreNamed(t *testing.T) {
	for name, text := range map[string]string{
		"1-short.md":   "added: x",
		"001-kind.md":  "removed: x",
		"001-empty.md": "added: \n",
		"001-none.md":  "just text",
	} {
		err := run(checkout(t, released, map[string]string{name: text}), false)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: run = %v, want an error that names it", name, err)
		}
	}
}

func TestChangeLogOfThisRepositoryIsCurrent(t *testing.T) {
	if err := run("../..", true); err != nil {
		t.Error(err)
	}
}
