// Command changelog assembles the Unreleased section of CHANGELOG.md from the
// notes in changelog/unreleased, one file per change that users can see.
//
// A note is named NNN-slug.md. Its first line is "added: ", "changed: " or
// "fixed: " and a sentence; further lines, if any, continue it. With -check
// nothing is written and a stale section is an error.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	check := flag.Bool("check", false, "only report whether CHANGELOG.md is current")
	flag.Parse()
	if err := run(".", *check); err != nil {
		fmt.Fprintln(os.Stderr, "changelog:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	notes, err := readNotes(filepath.Join(root, "changelog", "unreleased"))
	if err != nil {
		return err
	}
	name := filepath.Join(root, "CHANGELOG.md")
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	text, err := assemble(string(old), notes)
	if err != nil || text == string(old) {
		return err
	}
	if check {
		return errors.New("CHANGELOG.md does not hold the notes of changelog/unreleased: run make docs and commit it")
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

type note struct {
	name, kind, text string
}

var (
	noteName = regexp.MustCompile(`^\d{3}-[a-z0-9-]+\.md$`)
	kinds    = []string{"added", "changed", "fixed"}
)

func readNotes(dir string) ([]note, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var notes []note
	for _, f := range files {
		if !noteName.MatchString(f.Name()) {
			return nil, fmt.Errorf("%s: a note is named NNN-slug.md", f.Name())
		}
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		kind, text, ok := strings.Cut(string(b), ": ")
		text = strings.Join(strings.Fields(text), " ")
		if !ok || !slices.Contains(kinds, kind) || text == "" {
			return nil, fmt.Errorf("%s: the first line is added:, changed: or fixed: and a sentence", f.Name())
		}
		notes = append(notes, note{f.Name(), kind, strings.ToUpper(text[:1]) + text[1:]})
	}
	slices.SortFunc(notes, func(a, b note) int { return cmp.Compare(a.name, b.name) })
	return notes, nil
}

const heading = "## Unreleased\n"

// assemble returns the change log with its Unreleased section made of notes.
func assemble(text string, notes []note) (string, error) {
	before, rest, ok := strings.Cut(text, heading)
	if !ok {
		return "", errors.New("CHANGELOG.md has no Unreleased section")
	}
	var b strings.Builder
	b.WriteString(before + heading)
	for _, kind := range kinds {
		title := "\n### " + strings.ToUpper(kind[:1]) + kind[1:] + "\n\n"
		for _, n := range notes {
			if n.kind == kind {
				b.WriteString(title + "- " + n.text + "\n")
				title = ""
			}
		}
	}
	if i := strings.Index(rest, "\n## "); i >= 0 {
		b.WriteString(rest[i:])
	}
	return b.String(), nil
}
