package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/async-crud-mcp/async-crud-mcp/internal/config/splice"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

const maxFile = 64 << 20 // bytes; Claude Code keeps much in its file

// Server is how a host starts us, or where it finds us.
type Server struct {
	Command string
	Args    []string
	Env     map[string]string

	Transport string // HTTP or SSE: the host connects to URL and starts nothing
	URL       string
}

// Want is what a host is to be told.
type Want struct {
	Server     Server
	Project    string // a directory: say it in the project's own files, not in the user's
	DenyNative bool
}

// Change is what becomes of one file.
type Change struct {
	Host   string
	Path   string // with links resolved
	Before []byte // nil: there is no such file
	After  []byte // nil: it goes
	Edits  []Edit
	// Note says what else there is to know; "": nothing.
	Note string
}

// Edit is one entry of ours in a file.
type Edit struct {
	Kind     string   `json:"kind"` // entry, value or items
	Path     []string `json:"path"`
	Value    any      `json:"value,omitempty"`    // of a value, which goes only while it is ours
	Items    []string `json:"items,omitempty"`    // that were not there before
	Previous any      `json:"previous,omitempty"` // what stood there before
	Made     int      `json:"made,omitempty"`     // objects and lists around it that are ours too
}

const (
	kindEntry = "entry" // of a server
	kindValue = "value"
	kindItems = "items" // of a list
)

// Plan returns what has to change for a host to have what is wanted; nothing
// when it has it already.
func (m Machine) Plan(h *Host, w Want) ([]Change, error) {
	if w.Project != "" {
		if !h.InProject() {
			return nil, fmt.Errorf("%s reads no servers from a project", h.Title)
		}
		if h.root != "" && w.Server.URL == "" {
			w.Server.Args = append(slices.Clone(w.Server.Args), "--root", h.root)
		}
	}
	if w.Server.URL != "" && !h.Connects(w.Server.Transport) {
		return nil, fmt.Errorf("%s cannot connect to a server over %s", h.Title, w.Server.Transport)
	}
	servers, denials := m.paths(h, w.Project)
	first, err := load(h, servers)
	if err != nil {
		return nil, err
	}
	if err := first.register(h, w.Server); err != nil {
		return nil, fmt.Errorf("%s: %w", first.Path, err)
	}
	changes := []*Change{first}
	if w.DenyNative && h.deny != nil {
		at := first
		if denials != servers {
			if at, err = load(h, denials); err != nil {
				return nil, err
			}
			changes = append(changes, at)
		}
		if err := at.denyTools(h); err != nil {
			return nil, fmt.Errorf("%s: %w", at.Path, err)
		}
	}
	var real []Change
	for _, c := range changes {
		if len(c.Edits) > 0 {
			real = append(real, *c)
		}
	}
	return real, nil
}

// paths returns the file in which a host looks for servers, and the one in which
// its own tools can be denied.
func (m Machine) paths(h *Host, project string) (servers, denials string) {
	servers = h.files(m)[0]
	if project != "" {
		servers = filepath.Join(project, h.within)
	}
	denials = servers
	if h.deny != nil && h.deny.file != nil {
		denials = h.deny.file(m)
		if project != "" {
			denials = filepath.Join(project, h.deny.within)
		}
	}
	return servers, denials
}

// load begins a change of the file at path.
func load(h *Host, path string) (*Change, error) {
	real, err := fsys.ResolveNearest(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	text, err := read(real)
	if err != nil {
		return nil, err
	}
	return &Change{Host: h.Name, Path: real, Before: text, After: text}, nil
}

// read returns the bytes of a file; nil when there is none.
func read(path string) ([]byte, error) {
	text, err := fsys.ReadFile(path, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case text == nil:
		return []byte{}, nil
	}
	return text, nil
}

// register puts the entry of our server into the file.
func (c *Change) register(h *Host, s Server) error {
	path := []string{h.section, ServerName}
	have, there, err := splice.Get(h.format, c.After, path...)
	if err != nil {
		return err
	}
	var want any = entryOf(h, s)
	if old, ok := have.(map[string]any); ok {
		want = merged(old, h, s)
		if same(have, want) {
			return nil
		}
	}
	text, made, err := splice.Set(h.format, c.After, want, path...)
	if err != nil {
		return err
	}
	e := Edit{Kind: kindEntry, Path: path, Made: made}
	if there {
		e.Previous = have
	}
	c.After, c.Edits = text, append(c.Edits, e)
	return nil
}

// entry is how a server is written down, in the order people know.
type entry struct {
	Type    string            `json:"type,omitempty"`
	URL     string            `json:"url,omitempty"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

func entryOf(h *Host, s Server) entry {
	if s.URL != "" {
		e := entry{URL: s.URL}
		if h.named {
			e.Type = s.Transport
		}
		return e
	}
	e := entry{Command: s.Command, Args: s.Args, Env: s.Env}
	if h.typed {
		e.Type = "stdio"
	}
	return e
}

// merged is the entry with what a person added to it: time limits, trust,
// variables.
func merged(old map[string]any, h *Host, s Server) map[string]any {
	out := maps.Clone(old)
	stale := []string{"type", "url", "httpUrl", "headers", "http_headers", "bearer_token_env_var"}
	if s.URL != "" {
		stale = []string{"type", "httpUrl", "command", "args", "env", "cwd"}
	}
	for _, name := range stale { // of another transport
		delete(out, name)
	}
	e := entryOf(h, s)
	set := func(name string, value any, is bool) {
		if is {
			out[name] = value
		}
	}
	set("type", e.Type, e.Type != "")
	set("url", e.URL, e.URL != "")
	set("command", e.Command, e.Command != "")
	set("args", e.Args, e.URL == "")
	if env, _ := old["env"].(map[string]any); len(e.Env) > 0 {
		all := maps.Clone(env)
		if all == nil {
			all = map[string]any{}
		}
		for name, value := range e.Env {
			all[name] = value
		}
		out["env"] = all
	}
	return out
}

// denyTools tells the host to leave its own tools alone.
func (c *Change) denyTools(h *Host) error {
	d := h.deny
	if len(d.tools) > 0 {
		text, added, made, err := splice.Add(h.format, c.After, d.tools, d.path...)
		if err != nil {
			return err
		}
		if len(added) > 0 {
			c.After, c.Edits = text, append(c.Edits, Edit{Kind: kindItems, Path: d.path, Items: added, Made: made})
		}
		return nil
	}
	have, there, err := splice.Get(h.format, c.After, d.path...)
	if err != nil || have == false {
		return err
	}
	text, made, err := splice.Set(h.format, c.After, false, d.path...)
	if err != nil {
		return err
	}
	e := Edit{Kind: kindValue, Path: d.path, Value: false, Made: made}
	if there {
		e.Previous = have
	}
	c.After, c.Edits = text, append(c.Edits, e)
	return nil
}

// undo takes an edit out of text.
func (e Edit) undo(format string, text []byte) ([]byte, error) {
	switch e.Kind {
	case kindItems:
		return splice.Drop(format, text, e.Items, e.Made, e.Path...)
	case kindValue:
		if have, _, err := splice.Get(format, text, e.Path...); err != nil || !same(have, e.Value) {
			return text, err // a person has decided otherwise since
		}
	}
	if e.Previous == nil {
		return splice.Remove(format, text, e.Made, e.Path...)
	}
	if _, there, err := splice.Get(format, text, e.Path...); err != nil || !there {
		return text, err // a person has taken it out
	}
	out, _, err := splice.Set(format, text, e.Previous, e.Path...)
	return out, err
}

// Registration is how a host would start us.
type Registration struct {
	Path    string // of the file that says so
	Found   bool
	Command string
	Args    []string
	URL     string // it connects to a running server instead
	Denied  bool   // its own tools are denied, as far as it can be told that
}

// Registered reads how we are registered with a host: by its user, or in the
// files of a project.
func (m Machine) Registered(h *Host, project string) (Registration, error) {
	path, denials := m.paths(h, project)
	r := Registration{Path: path}
	text, err := read(path)
	if err != nil {
		return r, err
	}
	have, found, err := splice.Get(h.format, text, h.section, ServerName)
	if err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	r.Found = found
	if object, ok := have.(map[string]any); ok {
		r.Command, _ = object["command"].(string)
		for _, name := range []string{"url", "httpUrl"} {
			if url, ok := object[name].(string); ok {
				r.URL = url
			}
		}
		args, _ := object["args"].([]any)
		for _, arg := range args {
			r.Args = append(r.Args, fmt.Sprint(arg))
		}
	}
	if h.deny != nil {
		c, err := load(h, denials)
		if err == nil {
			err = c.denyTools(h)
		}
		if err != nil {
			return r, err
		}
		r.Denied = len(c.Edits) == 0
	}
	return r, nil
}

// same reports whether two values say the same.
func same(a, b any) bool {
	x, errX := encode(a)
	y, errY := encode(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
