package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell"
)

// aliasApp is a server with an alias file in a home of its own.
func aliasApp(t *testing.T, root, file string, set ...string) (a *App, home string) {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("ASYNC_CRUD_MCP_HOME", filepath.Join(home, "state"))
	if file != "" {
		if err := os.WriteFile(filepath.Join(home, "aliases"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		set = append(set, `aliases.alias_files=["~/aliases"]`)
	}
	a, err = Load(Options{Mode: "call", Root: root, Quiet: true, Settings: config.Options{Env: []string{"HOME=" + home}, Set: set}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a, home
}

func callTool(t *testing.T, a *App, name, args string) map[string]any {
	t.Helper()
	ctx := caller.With(t.Context(), &caller.Caller{Session: "s"})
	one := a.Tools().Lookup(name)
	if one == nil {
		t.Fatalf("no tool answers to %s", name)
	}
	var out map[string]any
	if err := json.Unmarshal(a.Tools().Call(ctx, one, json.RawMessage(args)).Body, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAliasesAreOnWhenThereAreFilesOfThem(t *testing.T) {
	a, _ := aliasApp(t, "", "")
	if a.Tools().Lookup("alias_exec") != nil || len(a.aliasFindings()) > 0 {
		t.Error("they are on without a file")
	}
	a, _ = aliasApp(t, "", "alias hi='echo hi'\n")
	if a.Tools().Lookup("alias_exec") == nil || a.Tools().Lookup("alias.catalog") == nil || a.Tools().Lookup("async_read") == nil || a.Tools().Lookup("alias_run_hi") != nil {
		t.Error("they are off with a file")
	}
	a, _ = aliasApp(t, "", "alias hi='echo hi'\n", `daemon.toolsets=["files"]`)
	if a.Tools().Lookup("alias_exec") != nil {
		t.Error("they are on though the settings name other toolsets")
	}
	a, _ = aliasApp(t, "", "alias hi='echo hi'\n", `daemon.read_only=true`)
	if a.Tools().Lookup("alias_exec") != nil || a.Tools().Lookup("alias_catalog") == nil {
		t.Error("a server that only reads runs aliases, or does not list them")
	}
}

func TestAnAliasRunsWithoutAProject(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "hunter2")
	t.Setenv("LC_TIME", "C")
	a, home := aliasApp(t, "", "alias hi='echo hi'\nalias show='printenv'\n", `aliases.allow_patterns=["^(echo|printenv)\\b"]`)
	if got := callTool(t, a, "alias_exec", `{"name": "hi", "dryRun": false, "confirm": true}`); got["stdout"] != "hi\n" || got["cwd"] != home {
		t.Errorf("%v", got)
	}
	got := callTool(t, a, "alias_exec", `{"name": "show", "dryRun": false, "confirm": true}`)
	text := fmt.Sprint(got["stdout"])
	if strings.Contains(text, "hunter2") || !strings.Contains(text, "PATH=/usr/bin:/bin\n") || !strings.Contains(text, "LC_TIME=C\n") || !strings.Contains(text, "HOME="+home+"\n") {
		t.Errorf("its environment is %q", text)
	}
	var names []string
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(line, "=")
		if !slices.Contains([]string{"PWD", "SHLVL", "_"}, name) { // bash's own
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if told := fmt.Sprint(got["environment"]); told != fmt.Sprint(names) {
		t.Errorf("told %s, found %v", told, names)
	}
}

func TestMinimalEnvironment(t *testing.T) {
	environ := []string{"HOME=/h", "LANG=de", "LC_ALL=C", "PATH=/evil", "TOKEN=x", "LD_PRELOAD=x", "BASH_ENV=x", "BASH_FUNC_ls%%=() { evil; }", "SystemRoot=C:\\Windows"}
	if got := minimalEnviron(environ, "linux"); !slices.Equal(got, []string{"PATH=/usr/bin:/bin", "HOME=/h", "LANG=de", "LC_ALL=C"}) {
		t.Errorf("%q", got)
	}
	if got := minimalEnviron(environ, "windows"); !slices.Equal(got, []string{"HOME=/h", "LANG=de", "LC_ALL=C", "PATH=/evil", "SystemRoot=C:\\Windows"}) {
		t.Errorf("%q", got)
	}
}

func TestAliasesMayWriteWhereTheyWork(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"repo/.git", "repo/sub", "plain/sub", "project/sub"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := &shell.AliasScope{Home: home, Root: filepath.Join(home, "project")}
	for dir, want := range map[string]string{
		"repo/sub": "repo", "repo": "repo", "plain/sub": "plain/sub", "project/sub": "project", ".": "", "..": "",
	} {
		if want != "" {
			want = filepath.Join(home, want)
		}
		if got := workspace(filepath.Join(home, dir), s); got != want {
			t.Errorf("in %s: %q, want %q", dir, got, want)
		}
	}
}

func TestAPatternThatDoesNotCompileShowsInHealth(t *testing.T) {
	a, _ := aliasApp(t, "", "alias hi='echo hi'\n", `aliases.allow_patterns=["^echo\\b", "("]`)
	if got := callTool(t, a, "alias_exec", `{"name": "hi", "dryRun": false, "confirm": true}`); got["error_code"] != "ALIAS_UNSAFE" {
		t.Errorf("%v", got)
	}
	findings := a.aliasFindings()
	if len(findings) == 0 || !strings.Contains(findings[0].Detail, "aliases.allow_patterns") {
		t.Errorf("%v", findings)
	}
	next := *a.Settings.Current()
	if err := a.verify(nil, &next); err == nil {
		t.Error("such settings are verified on reload")
	}
}

// A project's file tightens what holds there; it loosens only when it is trusted.
func TestAProjectHasItsOwnPolicy(t *testing.T) {
	for name, c := range map[string]struct {
		file         string
		trusted      bool
		hi, date, ls string
	}{
		"none":              {"", false, "ok", "ALIAS_UNSAFE", "ok"},
		"denies more":       {`{"aliases": {"deny_patterns": ["^echo"]}}`, false, "ALIAS_UNSAFE", "ALIAS_UNSAFE", "ok"},
		"allows less":       {`{"aliases": {"allow_patterns": ["^ls"]}}`, false, "ALIAS_UNSAFE", "ALIAS_UNSAFE", "ok"},
		"would allow more":  {`{"aliases": {"allow_patterns": ["^echo", "^ls", "^date"]}}`, false, "ok", "ALIAS_UNSAFE", "ok"},
		"may allow more":    {`{"aliases": {"allow_patterns": ["^echo", "^ls", "^date"]}}`, true, "ok", "ok", "ok"},
		"would bring files": {`{"aliases": {"alias_files": ["/etc/hostname"]}}`, false, "ok", "ALIAS_UNSAFE", "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if c.file != "" {
				if err := os.Mkdir(filepath.Join(root, ".async-crud-mcp"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, ".async-crud-mcp/config.json"), []byte(c.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			home := t.TempDir()
			t.Setenv("HOME", home)
			t.Setenv("ASYNC_CRUD_MCP_HOME", filepath.Join(home, "state"))
			if err := os.WriteFile(filepath.Join(home, "aliases"), []byte("alias hi='echo hi'\nalias now='date'\nalias l='ls'\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			user := filepath.Join(home, "user.json")
			if err := os.WriteFile(user, []byte(`{"aliases": {"alias_files": ["~/aliases"], "allow_patterns": ["^echo", "^ls"]}, "sandbox": {"mode": "off"}}`), 0o600); err != nil {
				t.Fatal(err)
			}
			a, err := Load(Options{Mode: "call", Root: root, Quiet: true, TrustProject: c.trusted, Settings: config.Options{Env: []string{"HOME=" + home}, UserFile: user}})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			for alias, want := range map[string]string{"hi": c.hi, "now": c.date, "l": c.ls} {
				got := callTool(t, a, "alias_exec", `{"name": "`+alias+`", "dryRun": false, "confirm": true}`)
				if got["status"] != want && got["error_code"] != want {
					t.Errorf("%s: %v, want %s", alias, got, want)
				}
			}
		})
	}
}

func TestToolsOfAliasesFollowTheirFiles(t *testing.T) {
	a, home := aliasApp(t, "", "alias hi='echo hi'\nalias HI='echo HI'\nalias bad='rm x'\n",
		`aliases.allow_patterns=["^echo\\b"]`, "aliases.tool_per_alias=true", `daemon.exclude_tools=["alias_run_gone"]`)
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		if err := a.aliases.store.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer done.Wait()
	defer stop()
	if a.Tools().Lookup("alias_run_hi") == nil || a.Tools().Lookup("alias_run_hi_2") == nil || a.Tools().Lookup("alias_run_bad") != nil {
		t.Error("the tools are not those of the safe aliases")
	}
	if got := fmt.Sprint(callTool(t, a, "alias_catalog", `{}`)["aliases"]); !strings.Contains(got, "name:hi safe:true") || !strings.Contains(got, "tool:alias_run_hi_2") {
		t.Errorf("the catalogue does not name the tools: %s", got)
	}
	if f := a.aliasFindings(); len(f) > 0 {
		t.Errorf("%v", f)
	}
	if got := callTool(t, a, "alias.hi", `{"dryRun": false, "confirm": true}`); got["stdout"] != "hi\n" {
		t.Errorf("%v", got)
	}
	sub := a.bus.Subscribe(10)
	defer sub.Close()
	if err := os.WriteFile(filepath.Join(home, "aliases"), []byte("alias new='echo new'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for late := time.After(time.Minute); ; {
		select {
		case e := <-sub.C:
			if e.Kind != "aliases_changed" {
				continue
			}
			if a.Tools().Lookup("alias_run_new") == nil || a.Tools().Lookup("alias_run_hi") != nil {
				t.Errorf("the tools stayed as they were")
			}
			return
		case <-late:
			t.Fatal("nobody was told")
		}
	}
}

func TestCommandsCannotWriteAliasFiles(t *testing.T) {
	a, home := aliasApp(t, "", "alias hi='echo hi'\n")
	o := a.sandboxOptions(a.Settings.Current().Config, home)
	if !slices.Contains(o.Protected, filepath.Join(home, "aliases")) || !slices.Contains(o.Protected, filepath.Dir(a.aliasAudit.File())) {
		t.Errorf("protected: %q", o.Protected)
	}
}

func TestTheWorkingDirectoryIsJudgedWhereItLeads(t *testing.T) {
	a, home := aliasApp(t, "", "alias hi='echo hi'\n", `aliases.allow_patterns=["^echo"]`, `aliases.default_cwd="~/in"`, `aliases.cwd_roots=["~/in"]`)
	outside := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, "in", "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"out": outside, "in": filepath.Join(home, "in", "sub")} {
		if err := os.Symlink(to, filepath.Join(home, "in", name)); err != nil {
			t.Fatal(err)
		}
	}
	for cwd, want := range map[string]string{
		"": "in", "sub": "in/sub", "~/in/sub": "in/sub", "in": "in/sub", home + "/in": "in",
		"out": "", "out/x": "", "..": "", "~": "", "~/in/../x": "", "/": "", outside: "", "sub/../../..": "",
	} {
		raw, _ := json.Marshal(map[string]string{"name": "hi", "cwd": cwd})
		got := callTool(t, a, "alias_exec", string(raw))
		if want != "" && got["cwd"] != filepath.Join(home, want) || want == "" && got["error_code"] != "PATH_OUTSIDE_BASE" {
			t.Errorf("%q: %v, want %q", cwd, got, want)
		}
	}
}
