package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/async-crud-mcp/async-crud-mcp/internal/alias"
	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/catalog"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
	"github.com/async-crud-mcp/async-crud-mcp/internal/project"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/sandbox"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// aliases is what the process knows about aliases: their files, and the tools
// that are one alias each.
type aliases struct {
	store *alias.Store
	turn  atomic.Uint64 // counts changes of tools

	mu    sync.Mutex
	tools []*tool.Tool // guarded by mu
}

// aliasSettings maps settings to what a catalogue is made of.
func aliasSettings(c config.Aliases) alias.Settings {
	return alias.Settings{Files: c.AliasFiles, Functions: c.Functions, Allow: c.AllowPatterns, Deny: c.DenyPatterns, Watch: c.EnableHotReload}
}

// aliasConfig is the section that the tools on offer go by: that of the project
// the server was started for, else the user's.
func (a *App) aliasConfig() config.Aliases {
	if a.launched != nil {
		return a.launched.Current().Config.Aliases
	}
	return a.Settings.Current().Config.Aliases
}

// verifyAliases refuses patterns that do not compile.
func (a *App) verifyAliases(c config.Config) error {
	if len(c.Aliases.AliasFiles) == 0 {
		return nil
	}
	return a.aliases.store.Verify(aliasSettings(c.Aliases))
}

// defaultToolsets are those that are on when the settings name none.
func (a *App) defaultToolsets(c config.Config) []string {
	on := catalog.DefaultToolsets()
	if len(c.Aliases.AliasFiles) > 0 || len(a.aliasConfig().AliasFiles) > 0 {
		on = append(on, catalog.Aliases)
	}
	return on
}

// everyTool returns all tools there are now, those of single aliases included.
func (a *App) everyTool() (*tool.Set, error) {
	a.aliases.mu.Lock()
	more := a.aliases.tools
	a.aliases.mu.Unlock()
	if len(more) == 0 {
		return a.all, nil
	}
	return tool.NewSet(append(a.all.Tools(), more...), a.observed)
}

// makeAliasTools declares a tool for each safe alias anew, if the settings say so.
func (a *App) makeAliasTools(c config.Aliases) {
	var tools []*tool.Tool
	var notes []string
	if c.ToolPerAlias && len(c.AliasFiles) > 0 {
		tools, notes = catalog.AliasTools(a.Shell, a.aliases.store.Book(aliasSettings(c)))
	}
	for _, note := range notes {
		a.Logger.Warn("a tool of an alias is numbered", "note", note)
	}
	a.aliases.mu.Lock()
	defer a.aliases.mu.Unlock()
	a.aliases.tools = tools
	a.aliases.turn.Add(1)
}

// knownExclusions leaves out tools of aliases that are gone: their files change
// without the settings.
func knownExclusions(all *tool.Set, names []string) []string {
	var known []string
	for _, name := range names {
		ofAlias := strings.HasPrefix(name, catalog.AliasToolPrefix) || strings.HasPrefix(name, "alias.")
		if all.Lookup(name) != nil || !ofAlias {
			known = append(known, name)
		}
	}
	return known
}

// aliasesChanged is told of alias files that changed.
func (a *App) aliasesChanged(names []string) {
	if a.aliasConfig().ToolPerAlias {
		a.offer(a.Settings.Current().Config, a.aliasConfig())
	}
	a.bus.Publish(event.Event{Kind: event.AliasesChanged, Data: event.Aliases{Names: names}})
	a.Server.ResourceListChanged()
}

// aliasScope says what aliases may do for the caller of ctx: by the settings of its
// project, or without one by the user's own.
func (a *App) aliasScope(ctx context.Context) (*shell.AliasScope, error) {
	who := caller.From(ctx)
	s := &shell.AliasScope{}
	settings := a.Settings.Current()
	if l, ok := who.Launch.(*project.Launch); ok && l.Settings != nil {
		settings = l.Settings.Current()
	}
	active, err := a.Projects.Current(ctx)
	switch {
	case err == nil:
		settings, s.Project, s.Root = active.Settings(), active.ID, active.Root
		tool.InProject(ctx, active.ID, active.Root)
	case fault.CodeOf(err) != fault.NoProjectActivated || who.Project != "":
		return nil, err
	}
	c := settings.Config
	s.Book = a.aliases.store.Book(aliasSettings(c.Aliases))
	environ := who.Environ
	if environ == nil {
		environ = os.Environ()
	}
	s.Environ = minimalEnviron(environ, runtime.GOOS)
	if s.Home, err = os.UserHomeDir(); err != nil {
		return nil, fmt.Errorf("home directory: %w", err)
	}
	s.Dir, s.Roots = c.Aliases.DefaultCwd, c.Aliases.CwdRoots
	s.MaxTimeout = seconds(c.Shell.TimeoutMax)
	s.Timeout = min(seconds(c.Aliases.DefaultTimeoutSeconds), s.MaxTimeout)
	s.MaxStdout, s.MaxStderr, s.Jobs = c.Aliases.MaxStdoutBytes, c.Aliases.MaxStderrBytes, jobLimits(c)
	s.PerAlias = c.Aliases.ToolPerAlias
	s.Sandbox = func(dir string) (*sandbox.Sandbox, error) { return sandbox.New(a.sandboxOptions(c, workspace(dir, s))) }
	return s, nil
}

// minimalPath is where aliases find programs.
const minimalPath = "/usr/bin:/bin"

// minimalEnviron is all that an alias gets of an environment.
func minimalEnviron(environ []string, system string) []string {
	var env []string
	if system != "windows" {
		env = append(env, "PATH="+minimalPath)
	}
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		switch {
		case name == "HOME" || name == "LANG" || strings.HasPrefix(name, "LC_"):
			env = append(env, v)
		case system == "windows" && slices.Contains([]string{"PATH", "SYSTEMROOT", "TEMP", "TMP", "USERPROFILE"}, strings.ToUpper(name)):
			env = append(env, v) // without these, nothing starts there
		}
	}
	return env
}

// workspace is what an alias that runs in dir may write beside temporary files and
// caches: the project it is in, or else the directory itself. A home directory is
// not a workspace.
func workspace(dir string, s *shell.AliasScope) string {
	if s.Root != "" && fsys.Within(s.Root, dir) {
		return s.Root
	}
	home, err := fsys.ResolveDir(s.Home)
	if err != nil {
		home = s.Home
	}
	for at := dir; !fsys.Within(at, home); at = filepath.Dir(at) {
		if project.LooksLikeProject(at) {
			return at
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if fsys.Within(dir, home) {
		return ""
	}
	return dir
}

// aliasFindings says what is wrong with alias files and patterns.
func (a *App) aliasFindings() []health.Finding {
	c := a.aliasConfig()
	if len(c.AliasFiles) == 0 {
		return nil
	}
	var findings []health.Finding
	add := func(detail, cure string) {
		if len(findings) < 20 {
			findings = append(findings, health.Finding{Part: "aliases", Detail: detail, Cure: cure})
		}
	}
	if err := a.aliases.store.Verify(aliasSettings(c)); err != nil {
		add("no alias may run: "+err.Error(), "correct the pattern")
	}
	for _, w := range a.aliases.store.Book(aliasSettings(c)).Warnings() {
		if w.Serious {
			add(w.String(), "correct it there, or take the file out of aliases.alias_files")
		}
	}
	return findings
}

// Aliases returns the aliases for the project of ctx, for people.
func (a *App) Aliases(ctx context.Context) (*shell.AliasScope, error) { return a.Shell.Aliases(ctx) }
