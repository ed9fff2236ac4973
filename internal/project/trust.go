package project

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// Trust is the list of project directories whose configuration a person has
// looked at and vouched for, each with the hash of what they saw. It lives in
// one owner-only file of the user's configuration directory and is read anew
// for every question, so that several processes agree; a lock file beside it
// lets them change it one at a time. It is safe for concurrent use.
type Trust struct{ path string }

// TrustEntry is one vouched-for project.
type TrustEntry struct {
	Root      string    `json:"root"`
	SHA256    string    `json:"sha256"` // of the configuration file's bytes; "" when there was none
	TrustedAt time.Time `json:"trusted_at"`
}

type trustFile struct {
	Comment  string       `json:"_help"`
	Projects []TrustEntry `json:"projects"`
}

const (
	trustHelp    = "Projects whose .async-crud-mcp configuration may loosen the policy. Written by 'async-crud-mcp trust'; changed configuration bytes lose trust."
	maxTrustFile = 1 << 20
)

// NewTrust returns the list kept in the file at path.
func NewTrust(path string) *Trust { return &Trust{path: path} }

// Path returns the file the list is kept in.
func (t *Trust) Path() string { return t.path }

// List returns the entries, sorted by root.
func (t *Trust) List() ([]TrustEntry, error) {
	raw, err := fsys.ReadFile(t.path, maxTrustFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read trust list: %w", err)
	}
	var f trustFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("read trust list %s: %w; mend it or delete it and trust again", t.path, err)
	}
	return f.Projects, nil
}

// Lookup returns the entry of root.
func (t *Trust) Lookup(root string) (TrustEntry, bool) {
	entries, err := t.List()
	if err != nil {
		return TrustEntry{}, false // an unreadable list vouches for nothing
	}
	for _, e := range entries {
		if e.Root == root {
			return e, true
		}
	}
	return TrustEntry{}, false
}

// Holds reports whether root is vouched for with just these configuration bytes.
func (t *Trust) Holds(root, sum string) bool {
	e, ok := t.Lookup(root)
	return ok && e.SHA256 == sum
}

// Add vouches for root with a configuration of exactly these bytes, those a
// person was shown; nil means it has none.
func (t *Trust) Add(root string, raw []byte) (TrustEntry, error) {
	root, err := fsys.ResolveDir(root)
	if err != nil {
		return TrustEntry{}, err
	}
	e := entryOf(root, raw)
	return e, t.change(func(entries []TrustEntry) []TrustEntry {
		return append(without(entries, root), e)
	})
}

// renew vouches for root with other bytes if it is still vouched for with those
// of the hash was: a person may have changed their mind meanwhile.
func (t *Trust) renew(root, was string, raw []byte) error {
	return t.change(func(entries []TrustEntry) []TrustEntry {
		for i, e := range entries {
			if e.Root == root && e.SHA256 == was {
				entries[i] = entryOf(root, raw)
			}
		}
		return entries
	})
}

func entryOf(root string, raw []byte) TrustEntry {
	return TrustEntry{Root: root, SHA256: Sum(raw), TrustedAt: time.Now().UTC().Truncate(time.Second)}
}

// Remove takes root off the list and reports whether it was on it. The
// directory need not exist any more.
func (t *Trust) Remove(root string) (bool, error) {
	if resolved, err := fsys.ResolveDir(root); err == nil {
		root = resolved
	} else if root, err = filepath.Abs(root); err != nil {
		return false, err
	}
	found := false
	err := t.change(func(entries []TrustEntry) []TrustEntry {
		left := without(entries, root)
		found = len(left) < len(entries)
		return left
	})
	return found, err
}

func without(entries []TrustEntry, root string) []TrustEntry {
	return slices.DeleteFunc(entries, func(e TrustEntry) bool { return e.Root == root })
}

// change edits the list. Nothing is written when it stays the same.
func (t *Trust) change(edit func([]TrustEntry) []TrustEntry) error {
	if err := fsys.MkdirPrivate(filepath.Dir(t.path)); err != nil {
		return err
	}
	return fsys.Locked(t.path+".lock", func() error {
		entries, err := t.List()
		if err != nil {
			return err
		}
		edited := edit(slices.Clone(entries))
		slices.SortFunc(edited, func(a, b TrustEntry) int { return strings.Compare(a.Root, b.Root) })
		if slices.Equal(entries, edited) {
			return nil
		}
		raw, err := json.MarshalIndent(trustFile{Comment: trustHelp, Projects: edited}, "", "  ")
		if err != nil {
			return err
		}
		return fsys.WriteFile(t.path, append(raw, '\n'), 0o600)
	})
}

// Sum is the hash of configuration bytes; "" for none.
func Sum(raw []byte) string {
	if raw == nil {
		return ""
	}
	h := sha256.Sum256(raw)
	return hex.EncodeToString(h[:])
}
