// Package app builds the whole server from one set of options: settings, logs,
// engines, tools and surfaces, and maps settings to each part's own options.
//
// An App holds the only list of what runs: Run starts it, waits for it and ends
// it in order. Everything else in the program is built here and nowhere else.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/alias"
	"github.com/async-crud-mcp/async-crud-mcp/internal/audit"
	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/catalog"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
	"github.com/async-crud-mcp/async-crud-mcp/internal/history"
	"github.com/async-crud-mcp/async-crud-mcp/internal/mcpserver"
	"github.com/async-crud-mcp/async-crud-mcp/internal/metrics"
	"github.com/async-crud-mcp/async-crud-mcp/internal/project"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/job"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/sandbox"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
	"github.com/async-crud-mcp/async-crud-mcp/internal/watch"
)

// Name is the one name of the product, used everywhere.
const Name = "async-crud-mcp"

// TrustFile is the list of trusted projects in the user's configuration
// directory.
const TrustFile = "trust.json"

// HistoryFile is the database of past contents in the user's data directory.
const HistoryFile = "history.db"

// foldsCase is for file systems that ignore case, where a protected path must not
// be reached by another spelling.
const foldsCase = runtime.GOOS == "windows" || runtime.GOOS == "darwin"

// Options are what the command line decides.
type Options struct {
	Version      string
	Mode         string // "stdio", "serve" or "call": shown in health
	Shared       bool   // client processes may join, each with its own settings
	Root         string // --root as given, or ""
	TrustProject bool
	Settings     config.Options // without Trusted, which is filled here
	Terminal     io.Writer      // readable log lines go here too; nil: only to the file
	Quiet        bool           // no log file: a short command
}

// App is the assembled server.
type App struct {
	Settings *config.Store
	Projects *project.Registry
	Files    *files.Engine
	Search   *search.Engine
	Shell    *shell.Engine
	Jobs     *job.Registry
	History  *history.Store
	Server   *mcpserver.Server
	Logger   *slog.Logger

	opts        Options
	started     *config.Snapshot // the settings at the start
	logs        *logs
	bus         event.Bus
	metrics     *metrics.Metrics
	audit       *audit.Log
	aliasAudit  *audit.Log
	trust       *project.Trust
	token       string
	root        string
	all         *tool.Set     // every tool but those of single aliases; what is on is selected from it
	library     *tool.Library // the same of resources and prompts
	start       time.Time
	address     atomic.Pointer[string] // of the HTTP listener, once there is one
	on          atomic.Pointer[tool.Set]
	offering    sync.Mutex      // held while what is on offer changes
	observed    tool.SetOptions // of every set of tools
	launched    *config.Project // settings of the project the server was started for; nil: there is none
	aliases     aliases
	scopes      *scopes
	commands    commands
	changed     changeLog
	dirs        fsys.Dirs
	historyFile string
	claims      *claims
	profiles    profiles
	plain       atomic.Int64 // client processes and listeners with the settings of the process
	trees       sync.Map     // root → *watch.Tree, of the projects that are watched
}

// Load reads the settings and builds the server. It starts nothing.
func Load(o Options) (*App, error) {
	dirs, err := fsys.UserDirs()
	if err != nil {
		return nil, err
	}
	a := &App{opts: o, dirs: dirs, start: time.Now(), trust: project.NewTrust(filepath.Join(dirs.Config, TrustFile))}
	projects := project.Options{Launch: project.Launch{TrustLaunched: o.TrustProject}, Bus: &a.bus, Trust: a.trust}
	if o.Root != "" {
		if projects.Root, err = fsys.ResolveDir(o.Root); err != nil {
			return nil, fmt.Errorf("--root: %w", err)
		}
	} else if cwd, err := os.Getwd(); err == nil && project.LooksLikeProject(cwd) {
		if projects.Cwd, err = fsys.ResolveDir(cwd); err != nil {
			return nil, fmt.Errorf("current directory: %w", err)
		}
	}

	a.root = projects.Root

	o.Settings.Trusted, o.Settings.Vouched, o.Settings.Bus = projects.Trusts, projects.Vouched, &a.bus
	late := new(lateHandler)
	o.Settings.Logger = slog.New(late)
	a.Settings = config.New(o.Settings)
	if err := a.Settings.Load(); err != nil {
		return nil, err
	}
	a.started = a.Settings.Current()
	current := a.started.Config

	a.logs = newLogs(a.logFile(dirs, current), o.Terminal)
	a.logs.setLevel(current.Daemon.LogLevel)
	a.Logger = a.logs.logger
	late.to.Store(a.Logger)
	for _, w := range a.Settings.Current().Warnings() {
		a.Logger.Warn("setting ignored", "warning", w.String())
	}

	as := "standalone " + o.Mode
	if o.Shared {
		as = SharedMode
	}
	a.claims = newClaims(filepath.Join(dirs.Data, claimsFile), as, a.Logger)
	projects.Settings, projects.Logger = a.Settings, a.Logger
	a.Projects = project.New(projects)
	for _, dir := range []string{projects.Root, projects.Cwd} {
		if dir != "" {
			a.launched = a.Settings.Project(dir) // what is wrong with its file shows in health from the start
		}
	}
	a.aliases.store = alias.NewStore(alias.Options{Changed: a.aliasesChanged, Logger: a.Logger})
	a.scopes = newScopes()
	if _, err := scopeOf(current); err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	a.History = newHistory(a, dirs, current)
	a.Files = files.New(files.Options{
		Locks: files.LocalLocks(), History: a.History, Scope: a.scope, Bus: &a.bus, Logger: a.Logger,
		JournalDir: filepath.Join(dirs.Data, "journal"), TTLMultiplier: current.Persistence.TTLMultiplier,
	})
	a.audit, a.aliasAudit = newAudit(a, dirs, current)
	a.Search = newSearch(a)
	a.Jobs = newJobs(a, dirs, current)
	a.Shell = shell.New(shell.Options{Jobs: a.Jobs, Scope: a.commandScope, Alias: a.aliasScope, Changes: a.changes, Mark: fsys.Process(), Logger: a.Logger})
	a.metrics = metrics.New(metrics.Options{Version: o.Version, Sessions: func() int { return a.Server.Sessions() }})
	engines := catalog.Engines{Projects: a.Projects, Files: a.Files, Search: a.Search, Shell: a.Shell, Shells: shellNames(current), Health: a.Health}
	a.observed = tool.SetOptions{Observers: []tool.Observer{a.metrics, a.audit, a.aliasAudit}, Logger: a.Logger}
	if a.all, err = tool.NewSet(catalog.All(engines), a.observed); err != nil {
		return nil, err
	}
	resources, prompts := catalog.Library(engines)
	if a.library, err = tool.NewLibrary(resources, prompts, a.observed); err != nil {
		return nil, err
	}
	a.makeAliasTools(a.aliasConfig())
	on, library, err := a.selectOffer(current)
	if err != nil {
		return nil, err
	}
	if a.token, err = readToken(current); err != nil {
		return nil, err
	}
	served, shelf := on, library
	if o.Shared {
		// Each session takes from it what its settings say.
		if served, err = a.everyTool(); err != nil {
			return nil, err
		}
		shelf = a.library
	}
	a.Server, err = mcpserver.New(mcpserver.Options{
		Name: Name, Title: Name, Version: o.Version, Instructions: catalog.Instructions,
		Tools: served, Library: shelf, Logger: a.Logger, Bus: &a.bus,
		Health: a.Health, Metrics: a.metrics.Handler(),
		SessionTimeout: seconds(current.Daemon.SessionTimeoutSeconds),
		Token:          a.token, SameUser: true, Refuse: a.refuseCommands, AllowedHosts: hostNames(current.Daemon.Host),
		SessionEnded: a.sessionEnded,
	})
	if err != nil {
		return nil, err
	}
	a.on.Store(on)
	a.Settings.OnChange(a.verify, a.commit)
	return a, nil
}

func (a *App) logFile(dirs fsys.Dirs, c config.Config) string {
	switch {
	case a.opts.Quiet:
		return ""
	case c.Daemon.LogFile != nil:
		return *c.Daemon.LogFile
	default:
		return filepath.Join(dirs.Log, "server.log")
	}
}

// selectOffer narrows tools, resources and prompts to those the settings have on.
func (a *App) selectOffer(c config.Config) (*tool.Set, *tool.Library, error) {
	all, err := a.everyTool()
	if err != nil {
		return nil, nil, err
	}
	on, err := all.Select(tool.Filter{
		Toolsets: c.Daemon.Toolsets, Exclude: knownExclusions(all, c.Daemon.ExcludeTools), ReadOnly: c.Daemon.ReadOnly,
	}, a.defaultToolsets(c))
	if err != nil {
		return nil, nil, fmt.Errorf("settings: %w", err)
	}
	library, err := a.library.Select(c.Daemon.Toolsets, a.defaultToolsets(c))
	if err != nil {
		return nil, nil, fmt.Errorf("settings: %w", err)
	}
	return on, library, nil
}

// verify refuses new settings that a part cannot live with.
func (a *App) verify(_, next *config.Snapshot) error {
	if _, _, err := a.selectOffer(next.Config); err != nil {
		return err
	}
	if _, err := scopeOf(next.Config); err != nil {
		return err
	}
	if _, err := rulesOf(next.Config); err != nil {
		return err
	}
	if err := a.verifyAliases(next.Config); err != nil {
		return err
	}
	_, err := readToken(next.Config)
	return err
}

// commit puts verified settings into force.
func (a *App) commit(_, next *config.Snapshot) {
	if next.Root() != "" {
		// A project's own settings change nothing of the process but, where it was
		// started for the project, which aliases there are.
		if a.launched != nil && next.Root() == a.launched.Current().Root() {
			a.offer(a.Settings.Current().Config, next.Config.Aliases)
		}
		return
	}
	a.Jobs.SetLimits(jobLimits(next.Config))
	a.logs.setLevel(next.Config.Daemon.LogLevel)
	a.bus.Publish(event.Event{Kind: event.ConfigReloaded})
	a.Logger.Info("settings reloaded")
	aliases := next.Config.Aliases
	if a.launched != nil {
		aliases = a.launched.Current().Config.Aliases
	}
	a.offer(next.Config, aliases)
	if token, err := readToken(next.Config); err == nil { // it was verified a moment ago
		a.Server.SetToken(token)
	}
	a.Server.SetSessionTimeout(seconds(next.Config.Daemon.SessionTimeoutSeconds))
}

// offer puts in place what clients are offered.
func (a *App) offer(c config.Config, aliases config.Aliases) {
	a.offering.Lock()
	defer a.offering.Unlock()
	a.makeAliasTools(aliases)
	on, library, err := a.selectOffer(c)
	if err != nil {
		a.Logger.Error("verified settings failed", "err", err)
		return
	}
	a.on.Store(on)
	if !a.opts.Shared {
		a.Server.SetTools(on)
		a.Server.SetLibrary(library)
		return
	}
	if all, err := a.everyTool(); err != nil {
		a.Logger.Error("the tools of aliases are not on offer", "err", err)
	} else {
		a.Server.SetTools(all)
	}
	if a.plain.Load() > 0 { // who has settings of its own hears of its own
		a.Server.OfferChanged()
	}
}

// atStart are the settings that only the next start takes up.
var atStart = []string{
	"daemon.host", "daemon.port", "daemon.log_file", "daemon.config_poll_seconds", "daemon.config_debounce_seconds",
	"persistence.enabled", "persistence.state_file", "persistence.write_debounce_seconds", "persistence.ttl_multiplier",
	"persistence.history_memory_mb", "persistence.history_disk_mb", "persistence.history_days", "watcher.enabled", "watcher.debounce_ms",
	"audit.file", "audit.max_size_mb", "audit.max_files", "aliases.audit_log_path",
}

// restartFindings names settings that have changed and wait for the next start.
func (a *App) restartFindings() []health.Finding {
	var findings []health.Finding
	for _, key := range config.Changed(a.started, a.Settings.Current()) {
		if slices.Contains(atStart, key) {
			findings = append(findings, health.Finding{Part: "settings", Detail: key + " has changed", Cure: "restart the server: this setting is read at its start"})
		}
	}
	return findings
}

// Health reports how the server is.
func (a *App) Health() health.Report {
	r := health.Report{
		Status: health.Healthy, Version: a.opts.Version, UptimeSeconds: int64(time.Since(a.start).Seconds()),
		Mode: a.opts.Mode, Coordination: a.coordination(),
		Sessions: a.Server.Sessions(), Tools: a.on.Load().Len(), ReadOnly: a.Settings.Current().Config.Daemon.ReadOnly,
		Findings: a.Settings.Status(),
	}
	r.Persistence = "disabled"
	if h := a.History.Status(); h.File != "" || len(h.Findings) > 0 {
		r.Persistence = "enabled"
		r.Findings = append(r.Findings, h.Findings...)
	}
	r.Findings = append(r.Findings, a.audit.Findings()...)
	r.Findings = append(r.Findings, a.aliasAudit.Findings()...)
	r.Findings = append(r.Findings, a.watchFindings()...)
	r.Findings = append(r.Findings, a.aliasFindings()...)
	a.reportSandbox(&r)
	r.Findings = append(r.Findings, a.restartFindings()...)
	if addr := a.address.Load(); addr != nil {
		r.PortListening, r.Address = true, *addr
	}
	if len(r.Findings) > 0 {
		r.Status = health.Degraded
	}
	return r
}

// coordination says with whom this process shares its locks.
func (a *App) coordination() string {
	if !a.opts.Shared {
		return "standalone: coordinates with nobody; other processes are kept out of its directories"
	}
	if n := a.Server.Sessions(); n != 1 {
		return fmt.Sprintf("daemon: shared by %d sessions", n)
	}
	return "daemon: shared by 1 session"
}

// Tools returns the tools that are on.
func (a *App) Tools() *tool.Set { return a.on.Load() }

// AllTools returns every tool there is.
func (a *App) AllTools() *tool.Set {
	if all, err := a.everyTool(); err == nil {
		return all
	}
	return a.all
}

// Token returns the bearer token of the settings, or "".
func (a *App) Token() string { return a.token }

// LogFile is where this process writes its log; "" when it writes none.
func (a *App) LogFile() string { return a.logFile(a.dirs, a.started.Config) }

// Root returns the project of --root, resolved, or "".
func (a *App) Root() string { return a.root }

// Stdio serves one client on in and out until it leaves or ctx ends.
func (a *App) Stdio(ctx context.Context, in io.Reader, out io.Writer) error {
	return a.Run(ctx, func(ctx context.Context) error { return a.Server.ServeStdio(ctx, in, out) })
}

// Serve serves HTTP clients on ln until ctx ends, with the settings of the
// process. It is a surface for Run.
func (a *App) Serve(ctx context.Context, ln net.Listener) error {
	a.plain.Add(1)
	defer a.plain.Add(-1)
	return a.serve(caller.With(ctx, &caller.Caller{Allows: a.allows(a.Settings)}), ln)
}

func (a *App) serve(ctx context.Context, ln net.Listener) error {
	addr := ln.Addr().String()
	a.address.Store(&addr)
	defer a.address.CompareAndSwap(&addr, nil)
	return a.Server.Serve(ctx, ln)
}

// Run runs everything that lives long beside the surface, and ends it after the
// surface has ended.
func (a *App) Run(ctx context.Context, surface func(context.Context) error) error {
	a.Logger.Info("started", "version", a.opts.Version, "mode", a.opts.Mode, "pid", os.Getpid())
	defer a.Logger.Info("stopped")
	if err := a.Files.Recover(); err != nil {
		a.Logger.Error("half-done batches remain; their journals are kept", "err", err)
	}
	if err := a.History.Open(ctx); err != nil {
		return fmt.Errorf("open history: %w", err)
	}
	if err := sandbox.Mark(); err != nil {
		a.Logger.Warn("commands are known by their environment alone", "err", err)
	}
	below, stop := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	start := func(name string, run func(context.Context) error) {
		parts.Go(func() {
			if err := run(below); err != nil {
				a.Logger.Error("a part ended early", "part", name, "err", err)
			}
		})
	}
	start("settings", a.Settings.Run)
	start("trust", a.watchTrust)
	start("aliases", a.aliases.store.Run)
	start("history", a.History.Run)
	start("audit", a.audit.Run)
	start("alias audit", a.aliasAudit.Run)
	start("revalidation", a.revalidate)
	start("projects", a.care)
	start("search", a.Search.Run)
	start("jobs", a.Jobs.Run)
	start("announcements", a.announce)
	_, err := a.scope(ctx) // a project that is there from the start is opened now
	if !errors.Is(err, errInUse) {
		err = surface(ctx)
	}
	stop()
	parts.Wait()
	return err
}

// sessionEnded forgets a session, and ends the commands that belong to it.
func (a *App) sessionEnded(session string) {
	a.Projects.SessionEnded(session)
	defer a.claims.drop(session)
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	a.Jobs.EndSession(ctx, session)
}

// endTime bounds the wait for commands whose session is over; ending them goes on
// after it.
const endTime = 6 * time.Second

// watchTrust asks again whom to trust when the list of trusted projects changes.
func (a *App) watchTrust(ctx context.Context) error {
	files := watch.NewFiles(watch.Options{Logger: a.Logger})
	files.Add(a.trust.Path())
	return files.Run(ctx, func(string) { a.Settings.Reload() })
}

// Close flushes the record of calls and the log, and lets go of the directories
// of this process.
func (a *App) Close() {
	a.claims.close()
	a.flushAudit()
	if err := a.logs.Close(); err != nil && a.opts.Terminal != nil {
		_, _ = fmt.Fprintln(a.opts.Terminal, "closing the log:", err)
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// readToken reads the bearer token from its file, which only its owner may be
// able to read.
func readToken(c config.Config) (string, error) {
	if c.Daemon.Token == nil {
		return "", nil
	}
	raw, err := fsys.ReadPrivateFile(*c.Daemon.Token, 4096)
	if err != nil {
		return "", fmt.Errorf("daemon.token: %w", err)
	}
	token := strings.TrimSpace(string(raw))
	if len(token) < 16 {
		return "", errors.New("daemon.token: the file must hold at least 16 characters")
	}
	return token, nil
}
