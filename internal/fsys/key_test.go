package fsys

import (
	"os"
	"path/filepath"
	"testing"
)

func TestKeysFoldWhatTheFileSystemFolds(t *testing.T) {
	keys := func(b base, names ...string) map[string]bool {
		all := make(map[string]bool)
		for _, name := range names {
			all[Path{base: &b, abs: name}.Key()] = true
		}
		return all
	}
	spellings := []string{"/b/Stra\u00dfe/\u00c9", "/b/STRASSE/e\u0301", "/B/strasse/E\u0301"}
	for _, c := range []struct {
		name string
		base base
		want int
	}{
		{"neither", base{}, 3},
		{"letters", base{normalises: true}, 3},
		{"letters and case", base{folds: true, normalises: true}, 1},
	} {
		if got := keys(c.base, spellings...); len(got) != c.want {
			t.Errorf("%s: keys %v, want %d", c.name, got, c.want)
		}
	}
	if got := keys(base{normalises: true}, "/b/\u00e9", "/b/e\u0301"); len(got) != 1 {
		t.Errorf("composed and decomposed letters have keys %v, want one", got)
	}
}

func TestFoldsCaseAsksWithoutWriting(t *testing.T) {
	dir := t.TempDir()
	here := foldsCase(dir) // empty: asks about the directory's own name
	write(t, filepath.Join(dir, "Name"), "")
	if got := foldsCase(dir); got != here {
		t.Errorf("foldsCase = %v with a file, %v without", got, here)
	}
	if here {
		t.Skip("case does not matter here")
	}
	// Two names of one file look like one name.
	if err := os.Link(filepath.Join(dir, "Name"), filepath.Join(dir, "nAME")); err != nil {
		t.Skip("no hard links here:", err)
	}
	if !foldsCase(dir) {
		t.Error("foldsCase did not find the other spelling")
	}
	if n := names(t, dir); n != "Name nAME" {
		t.Errorf("left %s", n)
	}
}
