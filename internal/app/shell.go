package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/catalog"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
	"github.com/async-crud-mcp/async-crud-mcp/internal/history/archive"
	"github.com/async-crud-mcp/async-crud-mcp/internal/localsock"
	"github.com/async-crud-mcp/async-crud-mcp/internal/policy"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/job"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/sandbox"
	"github.com/async-crud-mcp/async-crud-mcp/internal/watch"
)

// JobsFile holds the records of commands in the user's data directory.
const JobsFile = "jobs.db"

// newJobs maps the settings to a registry of commands.
func newJobs(a *App, dirs fsys.Dirs, c config.Config) *job.Registry {
	o := job.Options{Limits: jobLimits(c), SpoolDir: filepath.Join(dirs.Data, "spool"), Bus: &a.bus, Logger: a.Logger}
	if c.Persistence.Enabled {
		o.Store = archive.NewJobs(filepath.Join(dirs.Data, JobsFile))
	}
	return job.New(o)
}

// shellNames says which shells run commands, for the tools' texts.
func shellNames(c config.Config) catalog.Shells {
	names := catalog.Shells{Posix: "sh", Shell: c.Shell.Shell}
	if _, err := exec.LookPath("bash"); err == nil {
		names.Posix = "bash"
	}
	if c.Shell.ShellPath == nil {
		if _, err := exec.LookPath(c.Shell.Shell); err != nil {
			names.Shell = "sh, since " + c.Shell.Shell + " is not installed"
		}
	}
	return names
}

func jobLimits(c config.Config) job.Limits {
	l := job.Limits{
		Running: c.Shell.MaxConcurrentProcesses, PerMinute: c.Shell.MaxCommandsPerMinute,
		Completed: c.Shell.MaxCompletedJobs, CompletedTTL: seconds(c.Shell.CompletedJobTTLSecs),
	}
	// The registry takes 0 for its defaults.
	if l.PerMinute == 0 {
		l.PerMinute = -1
	}
	if l.Completed == 0 {
		l.Completed = -1
	}
	if l.CompletedTTL == 0 {
		l.CompletedTTL = -1
	}
	return l
}

// rulesOf compiles the rules about commands. It fails for settings that must not
// come into force.
func rulesOf(c config.Config) (*policy.Set, error) {
	o := policy.Options{Mode: policy.Mode(c.Shell.DenyPatternsMode)}
	for _, p := range c.Shell.DenyPatterns {
		o.Rules = append(o.Rules, policy.Rule{
			Name: p.Name, Pattern: p.Pattern, Scope: policy.Scope(p.Scope), Reason: p.Reason, Use: p.Use, Match: p.Match, NotMatch: p.NotMatch,
		})
	}
	set, err := policy.New(o)
	if err != nil {
		return nil, fmt.Errorf("shell.deny_patterns: %w", err)
	}
	return set, nil
}

// commands keeps what commands may do in each project, made anew when the settings
// differ.
type commands struct {
	mu    sync.Mutex
	byKey map[scopeKey]*commandScope // guarded by mu
}

type commandScope struct {
	shell.Scope
	settings *config.Snapshot
}

// of returns what commands of a call may do: with the environment of its client.
func (s *commandScope) of(ctx context.Context) *shell.Scope {
	scope := s.Scope
	if s.settings.Config.Shell.EnvInherit {
		if scope.Environ = caller.From(ctx).Environ; scope.Environ == nil {
			scope.Environ = os.Environ()
		}
	}
	return &scope
}

// commandScope says what commands of the project of a call may do.
func (a *App) commandScope(ctx context.Context) (*shell.Scope, error) {
	// It opens and watches the project, whose files commands change.
	files, err := a.scope(ctx)
	if err != nil {
		return nil, err
	}
	active, err := a.Projects.Current(ctx)
	if err != nil {
		return nil, err
	}
	settings, key := active.Settings(), scopeKey{store: active.Store(), root: active.Root}
	a.commands.mu.Lock()
	defer a.commands.mu.Unlock()
	if old := a.commands.byKey[key]; old != nil && old.settings == settings {
		return old.of(ctx), nil
	}
	made, err := a.newCommandScope(settings.Config, files.Root)
	if err != nil {
		return nil, err
	}
	made.Project = active.ID
	if len(a.commands.byKey) >= maxScopes {
		clear(a.commands.byKey)
	}
	if a.commands.byKey == nil {
		a.commands.byKey = make(map[scopeKey]*commandScope)
	}
	now := &commandScope{*made, settings}
	a.commands.byKey[key] = now
	return now.of(ctx), nil
}

func (a *App) newCommandScope(c config.Config, root string) (*shell.Scope, error) {
	s := &shell.Scope{
		Root: root, Enabled: c.Shell.Enabled,
		Strip: c.Shell.EnvStrip, Confined: c.Shell.RestrictToProject, Shell: c.Shell.Shell,
		MaxCommand: c.Shell.MaxCommandLength, Timeout: seconds(c.Shell.TimeoutDefault), MaxTimeout: seconds(c.Shell.TimeoutMax),
		Foreground: seconds(c.Shell.ForegroundLimit), ShellTimeout: seconds(c.Shell.DefaultTimeoutSecs), Jobs: jobLimits(c),
	}
	if c.Shell.CwdOverride != nil {
		s.CwdOverride = *c.Shell.CwdOverride
	}
	if c.Shell.ShellPath != nil {
		s.ShellPath = *c.Shell.ShellPath
	}
	var err error
	if s.Rules, err = rulesOf(c); err != nil {
		return nil, err
	}
	s.Sandbox, err = a.newSandbox(c, root)
	return s, err
}

// newSandbox maps the settings to what commands may touch. Where no command runs
// it does not even look at what the system offers.
func (a *App) newSandbox(c config.Config, root string) (*sandbox.Sandbox, error) {
	if !c.Shell.Enabled {
		return shell.Unconfined(), nil
	}
	return sandbox.New(a.sandboxOptions(c, root))
}

func (a *App) sandboxOptions(c config.Config, root string) sandbox.Options {
	return sandbox.Options{
		Mode: c.Sandbox.Mode, Network: c.Sandbox.Network, Backend: c.Sandbox.Backend, Require: c.Sandbox.Require,
		Root: root, Writable: c.Sandbox.Writable, BuildDirs: c.Sandbox.BuildDirs,
		Hidden: []string{filepath.Dir(localsock.Path(a.dirs.Data))},
		Protected: slices.Concat([]string{
			a.dirs.Config, a.dirs.Data, a.dirs.Log, filepath.Dir(a.historyFile), filepath.Dir(a.audit.File()), filepath.Dir(a.aliasAudit.File()),
		}, c.Aliases.AliasFiles),
	}
}

// sandboxReport says what holds for commands without a project of their own, or
// nil when there are none.
func (a *App) sandboxReport() *sandbox.Report {
	c := a.Settings.Current().Config
	if !c.Shell.Enabled {
		return nil
	}
	s, err := a.newSandbox(c, a.root)
	if err != nil {
		return nil // the settings were verified
	}
	r := s.Report()
	return &r
}

// reportSandbox adds to a report what commands may touch. What cannot be protected
// is told; only less than the settings ask for is a finding.
func (a *App) reportSandbox(r *health.Report) {
	s := a.sandboxReport()
	if s == nil {
		return
	}
	r.Sandbox = s.String()
	if len(s.Open) > 0 {
		r.Sandbox += "; not protected: " + strings.Join(s.Open, "; ")
	}
	s.Open = nil
	r.Findings = append(r.Findings, s.Findings()...)
}

// maxChanged is how many changed files of one command are told.
const maxChanged = 200

// changeLog notes what changes in watched projects while commands run.
type changeLog struct {
	mu   sync.Mutex
	open map[*recording]bool // guarded by mu
}

type recording struct {
	root  string
	paths map[string]bool // guarded by the log's mu
	more  bool            // guarded by the log's mu: something was missed
}

// note adds what the watcher of root saw.
func (l *changeLog) note(root string, changes []watch.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.open {
		if r.root == root {
			r.noteLocked(changes)
		}
	}
}

func (r *recording) noteLocked(changes []watch.Change) {
	for _, c := range changes {
		rel, err := filepath.Rel(r.root, c.Path)
		switch {
		case c.Kind == watch.Overflow:
			r.more = true
		case c.Dir || err != nil || fsys.IsTemp(filepath.Base(c.Path)) || strings.HasPrefix(rel, config.ProjectDir+string(filepath.Separator)):
		case len(r.paths) >= maxChanged && !r.paths[rel]:
			r.more = true
		default:
			r.paths[filepath.ToSlash(rel)] = true
		}
	}
}

// settleTime bounds how long the end of a command waits for the watcher.
const settleTime = 2 * time.Second

// changes begins to note what changes below root, and returns the function that
// ends this. Without a watcher nothing is known.
func (a *App) changes(root string) func() *shell.Changes {
	found, ok := a.trees.Load(root)
	if !ok {
		return func() *shell.Changes { return &shell.Changes{Paths: []string{}} }
	}
	tree := found.(*watch.Tree)
	// What happened before is not this command's.
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	before := tree.Sync(ctx)
	r := &recording{root: root, paths: make(map[string]bool)}
	l := &a.changed
	l.mu.Lock()
	if l.open == nil {
		l.open = make(map[*recording]bool)
	}
	l.open[r] = true
	l.mu.Unlock()
	return sync.OnceValue(func() *shell.Changes {
		ctx, cancel := context.WithTimeout(context.Background(), settleTime)
		defer cancel()
		err := tree.Sync(ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, r)
		out := &shell.Changes{Paths: []string{}, Complete: before == nil && err == nil && !r.more && tree.Status().Degraded == ""}
		for path := range r.paths {
			out.Paths = append(out.Paths, path)
		}
		slices.Sort(out.Paths)
		return out
	})
}

// announceTime bounds how long a client may take to accept a message.
const announceTime = 5 * time.Second

// announce tells clients of background commands that ended.
func (a *App) announce(ctx context.Context) error {
	sub := a.bus.Subscribe(256)
	defer sub.Close()
	var sending sync.WaitGroup
	defer sending.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-sub.C:
			j, ok := e.Data.(event.Job)
			if !ok || !j.Background || e.Session == "" {
				continue
			}
			sending.Go(func() { // a slow client holds up nobody else
				ctx, cancel := context.WithTimeout(ctx, announceTime)
				defer cancel()
				if err := a.Server.Announce(ctx, e.Session, "jobs", catalog.NewJobCompleted(j)); err != nil {
					a.Logger.Debug("a finished command could not be announced", "job", j.ID, "err", err)
				}
			})
		}
	}
}

// refuseCommands keeps commands of ours from being clients of ours: what they may
// not do themselves they could have done for them.
func (a *App) refuseCommands(c net.Conn) error {
	if a.Jobs.Running() == 0 {
		return nil
	}
	held, err := localsock.PeerHeldBy(c, InCommand)
	if err != nil && !errors.Is(err, localsock.ErrUnsupported) && !errors.Is(err, localsock.ErrNotLocal) {
		a.Logger.Debug("the process behind a connection is not known", "err", err)
	}
	if held {
		return errors.New("a command that an agent runs cannot use the server that runs it")
	}
	return nil
}
