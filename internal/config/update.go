package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/config/document"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// Change is what Update did to a project's file.
type Change struct {
	File         string   // path of the file
	Keys         []string // keys whose effective values differ
	Content      []byte   // the bytes the file has now; nil when there is none
	OldSum       string   // hash of the bytes it had; "" when there was none
	WasTrusted   bool     // a person vouched for those
	CommentsLost bool     // the format has no editor that keeps comments
}

// LooserError is an update that would loosen the policy, or that would not apply
// because the project is not trusted.
type LooserError struct {
	Keys    []string
	Trusted bool // the project is trusted: a confirmation would do
	Reason  string
}

func (e *LooserError) Error() string {
	return "this update would loosen the policy: " + e.Reason
}

// Update sets keys in the file of the project at root, making
// .async-crud-mcp/config.json when there is no file; null takes a key out. The
// file keeps its format, its other keys and, but in TOML, its comments. It is
// written only when it is valid as a whole and every part accepts it.
//
// An update may only tighten, else the error is a *LooserError; with loosen, a
// person's confirmation, it may also loosen a project that is trusted. It
// tightens when the file lets no more through than before, whatever the user's
// other settings are and will be: a value that a trusted file adds goes before
// the user's own and takes a confirmation, unless it is the strictest there is.
// Changed bytes are no longer trusted: who vouches for them does so after
// Update, and then Reload makes them effective at once.
func (st *Store) Update(root string, set map[string]json.RawMessage, loosen bool) (*Change, error) {
	defer st.take()()
	path, raw, err := ReadProjectFile(root)
	if err != nil {
		return nil, err
	}
	text := raw
	if path == "" {
		path, text = filepath.Join(root, ProjectDir, fileNames[0]), []byte("{}\n")
	}
	format := document.Format(path)
	before, err := fileLayer("project", path, text, st.home)
	if err != nil {
		return nil, err
	}
	content, err := edit(format, text, set)
	if err != nil {
		return nil, err
	}
	after, err := fileLayer("project", path, content, st.home)
	if err != nil {
		return nil, err
	}
	trusted := st.opts.Trusted(root, hashOf(raw))
	base := st.base.Load()
	old, next := st.snapshot(root, base.layer, before, trusted), st.snapshot(root, base.layer, after, trusted)
	if err := mayUpdate(next, set, trusted); err != nil {
		return nil, err
	}
	if keys := looserFile(before, after, trusted); len(keys) > 0 && !(loosen && trusted) {
		return nil, &LooserError{Keys: keys, Trusted: trusted, Reason: whyLooser(keys, old, next)}
	}
	if err := st.verify("project", path, old, next); err != nil {
		return nil, err
	}
	c := &Change{File: path, Keys: Changed(old, next), Content: content, OldSum: hashOf(raw), WasTrusted: trusted, CommentsLost: format == "toml"}
	if bytes.Equal(text, content) {
		c.Content, c.CommentsLost = raw, false
		return c, nil
	}
	return c, fsys.WriteFileIn(root, filepath.Join(ProjectDir, filepath.Base(path)), content, 0o644)
}

// mayUpdate refuses an update that would have no effect.
func mayUpdate(next *Snapshot, set map[string]json.RawMessage, trusted bool) error {
	asked := make(map[string]bool)
	for name, value := range set {
		k := settings().find(name)
		if k.mark == process && string(bytes.TrimSpace(value)) != "null" {
			return fmt.Errorf("%s belongs to the server process; no project file can set it", k.name)
		}
		asked[k.name] = true
	}
	for _, w := range next.warnings {
		if asked[w.Key] {
			return &LooserError{Keys: []string{w.Key}, Trusted: trusted, Reason: w.Key + " " + w.Message}
		}
	}
	return nil
}

// whyLooser says what is wrong with keys, which a file would loosen.
func whyLooser(keys []string, old, next *Snapshot) string {
	names := strings.Join(keys, ", ")
	if len(looser(&old.Config, &next.Config)) > 0 {
		return names + " would be less strict than now"
	}
	return names + " in the project's file could go before a stricter value of the user's own, or no longer hold back a looser one"
}

// edit returns the text of a settings file with keys set.
func edit(format string, raw []byte, set map[string]json.RawMessage) ([]byte, error) {
	doc, err := document.Parse(format, raw)
	if err != nil {
		return nil, err
	}
	seen := make(map[*key]bool)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		k := settings().find(name)
		switch {
		case k == nil:
			return nil, fmt.Errorf("%s %s", name, unknown(name))
		case seen[k]:
			return nil, fmt.Errorf("%s is given twice, in two spellings", k.name)
		}
		seen[k] = true
		value, err := document.ParseJSON(set[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		if err := put(document.Root(doc), k, value); err != nil {
			return nil, err
		}
	}
	return document.Render(format, doc)
}

// put sets k in the tree of a file where it stands already, else in its section.
// A null value takes it out.
func put(top *document.Node, k *key, value *document.Node) error {
	remove := document.IsNull(value)
	var parent *document.Node
	var at int
	err := walk(top, func(found *key, n *document.Node, i int) error {
		if found == k {
			parent, at = n, i
		}
		return nil
	}, func(string, *document.Node) {})
	switch {
	case err != nil:
		return err
	case parent != nil && remove:
		parent.Content = slices.Delete(parent.Content, at, at+2)
		return nil
	case parent != nil:
		old := parent.Content[at+1]
		value.HeadComment, value.LineComment, value.FootComment = old.HeadComment, old.LineComment, old.FootComment
		parent.Content[at+1] = value
		return nil
	case remove:
		return nil
	}
	if aliases := settings().byFold["aliases"]; isFlatAliases(top, aliases) {
		if k.section != aliases.name {
			return fmt.Errorf("the file has settings of aliases at its top; move them under %q before setting %s", aliases.name, k.name)
		}
		top.Content = append(top.Content, document.Of(k.leaf), value)
		return nil
	}
	var sec *document.Node
	for i := 0; i+1 < len(top.Content); i += 2 {
		if document.Fold(top.Content[i].Value) == document.Fold(k.section) {
			if sec = document.Follow(top.Content[i+1]); !document.IsObject(sec) {
				sec = document.Object() // it was null
				top.Content[i+1] = sec
			}
		}
	}
	if sec == nil {
		sec = document.Object()
		top.Content = append(top.Content, document.Of(k.section), sec)
	}
	sec.Style = 0
	sec.Content = append(sec.Content, document.Of(k.leaf), value)
	return nil
}
