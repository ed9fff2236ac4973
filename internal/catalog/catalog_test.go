package catalog_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/alias"
	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/catalog"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
	"github.com/async-crud-mcp/async-crud-mcp/internal/history"
	"github.com/async-crud-mcp/async-crud-mcp/internal/policy"
	"github.com/async-crud-mcp/async-crud-mcp/internal/project"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// world is a project, a user and the tools, with real engines.
type world struct {
	t          *testing.T
	base       string
	root, home string
	ctx        context.Context
	engines    catalog.Engines
	set        *tool.Set
	projects   *project.Registry
	trust      *project.Trust
	answer     func(caller.Question) (caller.Answer, error) // of the person; nil: cannot be asked
	files      *files.Engine
	commands   *shell.Engine
	aliases    *alias.Store
	history    *history.Store
	bases      *fsys.Bases
	rules      access.Options
	content    []access.ContentRule
}

// scope is the project with everything allowed, unless a test says otherwise.
func (w *world) scope(ctx context.Context) (*files.Scope, error) {
	a, err := w.projects.Current(ctx)
	if err != nil {
		return nil, err
	}
	if w.bases == nil {
		if w.bases, err = fsys.OpenBases(a.Root, a.Bases[1:]); err != nil {
			return nil, err
		}
		w.t.Cleanup(w.bases.Close)
	}
	w.rules.Protected = []string{".async-crud-mcp/**", ".git/hooks/**", ".git/config"}
	rules, err := access.New(w.rules)
	if err != nil {
		return nil, err
	}
	content, err := access.NewContent(w.content)
	if err != nil {
		return nil, err
	}
	return &files.Scope{
		Project: a.ID, Root: a.Root, Bases: w.bases, Rules: rules, Content: content, Redacts: len(w.content) > 0,
		Limits: files.Limits{
			MaxFileSize: 1 << 20, MaxEntries: 1000, DefaultTimeout: 30 * time.Second, MaxTimeout: 300 * time.Second,
			Encoding: "utf-8", ContextLines: 3, OnContention: "fail",
		},
	}, nil
}

// searchScope is that project for searches.
func (w *world) searchScope(ctx context.Context) (*search.Scope, error) {
	s, err := w.scope(ctx)
	if err != nil {
		return nil, err
	}
	a, err := w.projects.Current(ctx)
	if err != nil {
		return nil, err
	}
	c := a.Settings().Config.Search
	return &search.Scope{
		Root: s.Root, Bases: s.Bases, Rules: s.Rules, Content: s.Content, Redacts: s.Redacts,
		Limits: search.Limits{
			Disabled: !c.Enabled, MaxResults: c.MaxResults, MaxFileSize: c.MaxFileSizeBytes, MaxBytes: c.MaxResultBytes,
			Timeout: time.Minute, RespectIgnore: c.RespectGitignore,
		},
	}, nil
}

// shellScope is that project for commands, without a sandbox.
func (w *world) shellScope(ctx context.Context) (*shell.Scope, error) {
	a, err := w.projects.Current(ctx)
	if err != nil {
		return nil, err
	}
	c := a.Settings().Config.Shell
	rules := policy.Options{Mode: policy.Mode(c.DenyPatternsMode)}
	for _, p := range c.DenyPatterns {
		rules.Rules = append(rules.Rules, policy.Rule{Name: p.Name, Pattern: p.Pattern, Reason: p.Reason})
	}
	set, err := policy.New(rules)
	if err != nil {
		return nil, err
	}
	s := &shell.Scope{
		Project: a.ID, Root: a.Root, Enabled: c.Enabled, Rules: set, Sandbox: shell.Unconfined(), Environ: []string{"PATH=" + os.Getenv("PATH"), "CLAUDECODE=1"},
		Strip: c.EnvStrip, Confined: true, Shell: c.Shell, MaxCommand: c.MaxCommandLength,
		Timeout: time.Minute, MaxTimeout: 10 * time.Minute, ShellTimeout: time.Minute,
	}
	if c.CwdOverride != nil {
		s.CwdOverride = *c.CwdOverride
	}
	return s, nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	base, err := fsys.ResolveDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, base: base, root: filepath.Join(base, "project"), home: filepath.Join(base, "home")}
	for _, d := range []string{w.root, w.home} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// start builds the tools. The flags are --root, --trust-project and key=value
// settings.
func (w *world) start(flags ...string) {
	w.t.Helper()
	w.trust = project.NewTrust(filepath.Join(w.home, "trust.json"))
	opts := project.Options{Trust: w.trust}
	settings := config.Options{Env: []string{}, UserFile: w.userFile()}
	for _, f := range flags {
		switch f {
		case "--root":
			opts.Root = w.root
		case "--trust-project":
			opts.TrustLaunched = true
		default:
			settings.Set = append(settings.Set, w.expand(f))
		}
	}
	settings.Trusted = opts.Trusts
	opts.Settings = config.New(settings)
	if err := opts.Settings.Load(); err != nil {
		w.t.Fatal(err)
	}
	w.projects = project.New(opts)
	w.history = history.New(history.Options{})
	w.files = files.New(files.Options{Locks: files.LocalLocks(), History: w.history, Scope: w.scope, JournalDir: filepath.Join(w.home, "journal")})
	w.commands = shell.New(shell.Options{Scope: w.shellScope, Alias: w.aliasScope})
	w.t.Cleanup(func() { w.commands.Stop(context.Background()) })
	var err error
	w.engines = catalog.Engines{
		Projects: w.projects, Files: w.files,
		Search: search.New(search.Options{Scope: w.searchScope}),
		Shell:  w.commands, Shells: catalog.Shells{Posix: "bash", Shell: "nu"},
		Health: func() health.Report {
			return health.Report{Status: health.Healthy, Version: "0.0.0", Mode: "test"}
		},
	}
	w.set, err = tool.NewSet(catalog.All(w.engines), tool.SetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.ctx = caller.With(w.t.Context(), &caller.Caller{Client: "test", Session: "s1", Ask: caller.Ask{
		Elicit: func(_ context.Context, q caller.Question) (caller.Answer, error) {
			if w.answer == nil {
				return caller.Answer{}, caller.ErrCannotAsk
			}
			return w.answer(q)
		},
	}})
}

func (w *world) userFile() string {
	for _, name := range []string{"config.json", "config.yaml", "config.toml"} {
		if path := filepath.Join(w.home, name); fsys.Exists(path) {
			return path
		}
	}
	empty := filepath.Join(w.home, "config.json")
	w.write(empty, []byte("{}"))
	return empty
}

type naming struct{ name, value string }

func (w *world) names() []naming {
	return []naming{{"$ROOT", w.root}, {"$HOME", w.home}, {"$BASE", w.base}, {"$ID", project.ID(w.root)}}
}

// call runs a tool by name and holds it to its declared codes.
func (w *world) call(name, args string) tool.Result {
	w.t.Helper()
	return w.callAs(w.ctx, name, args)
}

func (w *world) callAs(ctx context.Context, name, args string) tool.Result {
	w.t.Helper()
	one := w.set.Lookup(name)
	if one == nil {
		w.t.Fatalf("no tool answers to %q", name)
	}
	res := w.set.Call(ctx, one, json.RawMessage(args))
	var instance map[string]any
	if err := json.Unmarshal(res.Body, &instance); err != nil {
		w.t.Fatalf("%s answered what is no JSON object: %v", one.Name, err)
	}
	if err := resolve(w.t, one).Validate(instance); err != nil {
		w.t.Errorf("%s answered what its schema does not describe: %v\n%s", one.Name, err, res.Body)
	}
	if res.IsError && !one.Declares(res.Code) {
		w.t.Errorf("%s answered %s, which it does not declare", one.Name, res.Code)
	}
	if res.IsError && res.Code == fault.ServerError {
		w.t.Errorf("%s failed inside: %v", one.Name, res.Err)
	}
	return res
}

// resolve returns the published result schema of a tool, ready to validate.
func resolve(t *testing.T, one *tool.Tool) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(one.ResultSchema(), &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEveryExampleRuns(t *testing.T) {
	w := newWorld(t)
	w.start("--root", "shell.enabled=true")
	w.write(filepath.Join(w.root, "hello.txt"), []byte("hello\n"))
	w.write(filepath.Join(w.root, "old.txt"), []byte("old\n"))
	for _, one := range w.set.Tools() {
		if len(one.Examples) == 0 {
			t.Errorf("%s has no example", one.Name)
		}
		for _, e := range one.Examples {
			args := strings.NewReplacer("{{root}}", w.root, "{{hash}}", "sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03").Replace(e.Args)
			res := w.call(one.Name, args)
			if res.Status != e.Status || res.Code != e.Code {
				t.Errorf("%s, %s: got %s %s, want %s %s\n%s", one.Name, e.Title, res.Status, res.Code, e.Status, e.Code, res.Body)
			}
		}
	}
}

func TestSchemasAreAsPublished(t *testing.T) {
	w := newWorld(t)
	w.start()
	for _, one := range w.set.Tools() {
		golden := filepath.Join("testdata/schemas", one.Name+".json")
		got, err := json.MarshalIndent(map[string]any{
			"title": one.Title, "description": one.Doc, "effect": one.Effect.String(), "error_codes": one.AllCodes(),
			"input": one.Input.Compact(), "output": one.Output.JSON(),
		}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatalf("%v; run the test with -update", err)
		}
		if string(want) != string(got) {
			t.Errorf("the contract of %s changed; if that is meant, run with -update:\n%s", one.Name, lineDiff(string(want), string(got)))
		}
	}
}

func TestEveryToolIsFitForEveryHost(t *testing.T) {
	w := newWorld(t)
	w.start()
	budget := 0
	on, err := w.set.Select(tool.Filter{}, catalog.DefaultToolsets())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range on.Tools() {
		budget += len(one.Name) + len(one.Doc) + len(one.Input.Compact())
	}
	for _, one := range w.set.Tools() {
		var in, out map[string]json.RawMessage
		if err := json.Unmarshal(one.Input.Compact(), &in); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(one.ResultSchema(), &out); err != nil {
			t.Fatal(err)
		}
		for _, s := range []map[string]json.RawMessage{in, out} {
			if string(s["type"]) != `"object"` {
				t.Errorf("%s: a schema is of type %s, want object", one.Name, s["type"])
			}
			for _, word := range []string{"anyOf", "oneOf", "allOf", "$ref", "not"} {
				if s[word] != nil {
					t.Errorf("%s: a schema has %s at its top, which some hosts refuse", one.Name, word)
				}
			}
		}
		if n := len(strings.Fields(one.Doc)); n > 100 || n == 0 {
			t.Errorf("%s: its text has %d words, want 1 to 100", one.Name, n)
		}
		if one.Title == "" || one.Toolset == "" {
			t.Errorf("%s lacks a title or a toolset", one.Name)
		}
		for _, f := range one.Input.Fields() {
			if f.Description == "" {
				t.Errorf("%s: parameter %s is not described", one.Name, f.Name)
			}
		}
		for _, c := range one.Codes {
			if fault.Describe(c).Code != c || fault.Describe(c).Meaning == fault.Describe(fault.ServerError).Meaning {
				t.Errorf("%s declares %s, which is not in the table", one.Name, c)
			}
		}
	}
	t.Logf("names, texts and input schemas of the default set: %d bytes", budget)
	if budget >= 12000 {
		t.Errorf("the default set takes %d bytes, want less than 12 KB", budget)
	}
}

func TestInstructionsAreShort(t *testing.T) {
	if n := len(strings.Fields(catalog.Instructions)); n >= 150 {
		t.Errorf("the instructions have %d words, want fewer than 150", n)
	}
}
