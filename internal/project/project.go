// Package project is the engine that knows which project a session works in:
// what may be activated, what is active, whom to trust, and which settings hold
// there.
//
// Activation belongs to a session, never to the process. A call finds its
// project in this order: the one the request names, the one its session
// activated, --root, the first of the client's roots, the current directory
// when it looks like a project. What a session was started with is its Launch;
// sessions that bring none have that of the process. Registry is safe for concurrent use; it runs
// nothing of its own. Reading and merging settings is config's work.
package project

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
)

// Options wire a Registry.
type Options struct {
	Launch // of sessions that have none of their own
	Trust  *Trust
	Bus    *event.Bus
	Logger *slog.Logger
}

// Launch is what a person started a session with.
type Launch struct {
	Root     string        // --root, absolute and resolved; "" when not given
	Cwd      string        // the current directory when it looks like a project, else ""
	Settings *config.Store // where settings come from
	// TrustLaunched trusts the configuration of the project the session was
	// started for (Root or Cwd), as the person who started it asked.
	TrustLaunched bool
}

// Registry knows the projects and which session has which.
type Registry struct {
	opts Options

	mu       sync.Mutex
	sessions map[string]*Project // activated by session; guarded by mu
	projects map[place]*Project  // guarded by mu
	uses     uint64              // counts up with every use of a project; guarded by mu
}

// maxOpen bounds how many projects stay open without a session that has
// activated them.
const maxOpen = 64

// place is a directory under the settings of some sessions.
type place struct {
	store *config.Store
	root  string
}

// Project is a directory with its settings. It is shared by every session that
// has it active and was started with the same settings.
type Project struct {
	ID       string
	Root     string
	store    *config.Store
	settings *config.Project
	lastUse  uint64 // guarded by the registry's mu
}

// Settings returns the settings in force in the project now.
func (p *Project) Settings() *config.Snapshot { return p.settings.Current() }

// Store returns where the project's settings come from.
func (p *Project) Store() *config.Store { return p.store }

// Trusted reports whether a person vouches for the project's configuration.
func (p *Project) Trusted() bool { return p.settings.Trusted() }

// Findings lists what is wrong with the project's configuration.
func (p *Project) Findings() []health.Finding { return p.settings.Status() }

// Warnings says what of the project's configuration and of the user's own does
// not apply in the project, and why; a file that is refused comes first.
func (p *Project) Warnings() []string {
	texts := []string{}
	for _, w := range p.Settings().Warnings() {
		texts = append(texts, w.String())
	}
	for _, f := range p.Findings() {
		if !slices.Contains(texts, f.Detail) {
			texts = slices.Insert(texts, 0, f.Detail+"; "+f.Cure)
		}
	}
	return texts
}

// Via says how a call came to its project.
type Via string

// The ways, in the order they are tried.
const (
	ViaRequest    Via = "request"
	ViaActivation Via = "activation"
	ViaRoot       Via = "--root"
	ViaRoots      Via = "client roots"
	ViaCwd        Via = "current directory"
)

// Active is a project as one call sees it.
type Active struct {
	*Project
	Via   Via
	Bases []string // directories whose files the call may reach, the project first
}

// New returns a registry without any project.
func New(opts Options) *Registry {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Registry{opts: opts, sessions: make(map[string]*Project), projects: make(map[place]*Project)}
}

// ID returns the stable id of the project at a resolved root.
func ID(root string) string {
	h := sha256.Sum256([]byte(root))
	return "p" + hex.EncodeToString(h[:6])
}

// LooksLikeProject reports whether dir holds a repository or our own folder.
func LooksLikeProject(dir string) bool {
	for _, mark := range []string{".git", config.ProjectDir} {
		if fsys.Exists(filepath.Join(dir, mark)) {
			return true
		}
	}
	return false
}

// Trusts is the question config asks before it lets a project file loosen
// anything: is this file, with these bytes, vouched for?
func (o Options) Trusts(root, sum string) bool { return o.Launch.Trusts(o.Trust, root, sum) }

// Trusts is the same of sessions with this launch.
func (l Launch) Trusts(t *Trust, root, sum string) bool {
	return l.launched(root) || t != nil && t.Holds(root, sum)
}

// launched reports whether root is trusted because the session was started so.
func (l Launch) launched(root string) bool {
	return l.TrustLaunched && (root == l.Root || root == l.Cwd)
}

// Vouched reports whether a person ever vouched for root, whatever its
// configuration is now.
func (o Options) Vouched(root string) bool {
	if o.Trust == nil {
		return false
	}
	_, ok := o.Trust.Lookup(root)
	return ok
}

// launch returns what the session of a call was started with.
func (r *Registry) launch(ctx context.Context) *Launch {
	if l, ok := caller.From(ctx).Launch.(*Launch); ok {
		return l
	}
	return &r.opts.Launch
}

// Forget closes the projects of settings that no session has any more.
func (r *Registry) Forget(store *config.Store) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, p := range r.projects {
		if at.store == store {
			delete(r.projects, at)
			p.settings.Release()
		}
	}
}

// Activate makes the project at path the session's. Without a session it only
// checks and returns the project, whose id later requests may name.
func (r *Registry) Activate(ctx context.Context, path string) (*Active, error) {
	c := caller.From(ctx)
	path, err := r.absolute(ctx, path)
	if err != nil {
		return nil, err
	}
	p, err := r.open(ctx, path)
	if err != nil {
		return nil, err
	}
	if c.Session != "" {
		r.mu.Lock()
		r.sessions[c.Session] = p
		r.mu.Unlock()
	}
	r.opts.Bus.Publish(event.Event{Kind: event.ProjectActivated, Session: c.Session, Project: p.ID})
	r.opts.Logger.Info("project activated", "project", p.ID, "root", p.Root, "session", c.Session, "caller", c.String())
	return r.active(ctx, p, ViaActivation, nil), nil
}

// Current returns the project of the call in ctx, or NO_PROJECT_ACTIVATED.
func (r *Registry) Current(ctx context.Context) (*Active, error) {
	c := caller.From(ctx)
	if c.Project != "" {
		p, err := r.named(ctx, c.Project)
		if err != nil {
			return nil, err
		}
		return r.active(ctx, p, ViaRequest, nil), nil
	}
	if p := r.activated(c.Session); p != nil {
		// What was allowed when it was activated may be withdrawn since.
		if err := r.mayActivate(ctx, p.Root, p.Root); err != nil {
			return nil, err
		}
		return r.active(ctx, p, ViaActivation, nil), nil
	}
	l := r.launch(ctx)
	if l.Root != "" {
		return r.active(ctx, r.project(l.Settings, l.Root), ViaRoot, nil), nil
	}
	roots, err := clientRoots(ctx)
	if err != nil {
		return nil, err
	}
	if len(roots) > 0 {
		return r.active(ctx, r.project(l.Settings, roots[0]), ViaRoots, roots), nil
	}
	if l.Cwd != "" {
		return r.active(ctx, r.project(l.Settings, l.Cwd), ViaCwd, nil), nil
	}
	return nil, r.noProject(ctx)
}

// SessionEnded forgets what the session had.
func (r *Registry) SessionEnded(session string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sessions, session)
}

func (r *Registry) activated(session string) *Project {
	if session == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sessions[session]
}

// project returns the project at a resolved root that has been allowed.
func (r *Registry) project(store *config.Store, root string) *Project {
	at := place{store, root}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.projects[at]
	if p == nil {
		r.mu.Unlock() // opening reads files
		opened := &Project{ID: ID(root), Root: root, store: store, settings: store.Project(root)}
		r.mu.Lock()
		if p = r.projects[at]; p == nil {
			p = opened
			r.projects[at] = p
			r.closeOldestLocked()
		} else {
			opened.settings.Release() // somebody else was faster
		}
	}
	r.uses++
	p.lastUse = r.uses
	return p
}

// closeOldestLocked makes room for a project that was just opened: a client may
// name any number of directories.
func (r *Registry) closeOldestLocked() {
	if len(r.projects) <= maxOpen+len(r.sessions) {
		return
	}
	inUse := make(map[*Project]bool)
	for _, p := range r.sessions {
		inUse[p] = true
	}
	var oldest *Project
	for _, p := range r.projects {
		if p.lastUse > 0 && !inUse[p] && (oldest == nil || p.lastUse < oldest.lastUse) {
			oldest = p
		}
	}
	if oldest != nil {
		delete(r.projects, place{oldest.store, oldest.Root})
		oldest.settings.Release()
	}
}

// named returns the project a request names by id or by path.
func (r *Registry) named(ctx context.Context, name string) (*Project, error) {
	if filepath.IsAbs(name) {
		return r.open(ctx, name)
	}
	store := r.launch(ctx).Settings
	var dirs []string
	r.mu.Lock()
	for at := range r.projects {
		if at.store == store {
			dirs = append(dirs, at.root)
		}
	}
	r.mu.Unlock()
	// An id from before a restart is found again among what may be activated.
	for _, dir := range append(dirs, r.allowed(ctx)...) {
		if ID(dir) != name {
			continue
		}
		// An id is no secret: it opens only what its path would.
		if err := r.mayActivate(ctx, dir, name); err != nil {
			return nil, err
		}
		return r.project(store, dir), nil
	}
	return nil, fault.New(fault.NoProjectActivated, "no project has the id %q here; call crud_activate_project and use the id it returns", name)
}

// active pairs p with the directories a call may reach from it.
func (r *Registry) active(ctx context.Context, p *Project, via Via, roots []string) *Active {
	a := &Active{Project: p, Via: via, Bases: []string{p.Root}}
	add := func(dirs ...string) {
		for _, d := range dirs {
			if d != "" && !slices.Contains(a.Bases, d) {
				a.Bases = append(a.Bases, d)
			}
		}
	}
	l := r.launch(ctx)
	add(l.Root)
	add(l.configured()...)
	add(roots...)
	return a
}

const nextDir = "Give the path of a directory that exists."

// open returns the project at path when it lies in a directory that may be
// activated. Whether a path outside exists is not told.
func (r *Registry) open(ctx context.Context, path string) (*Project, error) {
	target, err := fsys.ResolveNearest(path)
	if err != nil {
		return nil, r.outside(ctx, path)
	}
	if err := r.mayActivate(ctx, target, path); err != nil {
		return nil, err
	}
	root, err := fsys.ResolveDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New(fault.DirNotFound, "there is no directory %s", path).At(path).With("next", nextDir)
	case errors.Is(err, syscall.ENOTDIR):
		return nil, fault.New(fault.DirNotFound, "%s is a file, not a directory", path).At(path).With("next", nextDir)
	case errors.Is(err, fs.ErrPermission):
		return nil, fault.New(fault.AccessDenied, "the operating system refuses access to %s", path).At(path)
	case err != nil:
		return nil, &fault.Error{Code: fault.ServerError, Op: "activate", Path: path, Err: err}
	case root != target: // it was moved while we looked
		return nil, r.outside(ctx, path)
	}
	return r.project(r.launch(ctx).Settings, root), nil
}

// mayActivate refuses a resolved directory that this caller has no right to; shown
// is how the caller calls it. What is cheap to know is asked first.
func (r *Registry) mayActivate(ctx context.Context, dir, shown string) error {
	l := r.launch(ctx)
	if within([]string{l.Root, l.Cwd}, dir) || within(l.configured(), dir) || within(r.trusted(), dir) {
		return nil
	}
	roots, err := clientRoots(ctx) // asking may cost a round trip
	if err != nil {
		return err
	}
	if !within(roots, dir) {
		return r.outside(ctx, shown)
	}
	return nil
}

// allowed lists the directories that may be activated with anything below,
// without those of the client.
func (r *Registry) allowed(ctx context.Context) []string {
	l := r.launch(ctx)
	dirs := l.configured()
	for _, d := range []string{l.Root, l.Cwd} {
		if d != "" {
			dirs = append(dirs, d)
		}
	}
	return append(dirs, r.trusted()...)
}

// trusted returns the projects a person vouches for.
func (r *Registry) trusted() []string {
	if r.opts.Trust == nil {
		return nil
	}
	entries, err := r.opts.Trust.List()
	if err != nil {
		r.opts.Logger.Warn("trust list ignored", "err", err)
	}
	var dirs []string
	for _, e := range entries {
		dirs = append(dirs, e.Root)
	}
	return dirs
}

// configured returns crud.base_directories, resolved; those that do not exist
// are left out until they do.
func (l *Launch) configured() []string {
	var dirs []string
	for _, d := range l.Settings.Current().Config.Crud.BaseDirectories {
		if resolved, err := fsys.ResolveDir(d); err == nil {
			dirs = append(dirs, resolved)
		}
	}
	return dirs
}

// clientRoots returns the directories the client offers. A protocol without
// sessions offers none: every request would have to ask again.
func clientRoots(ctx context.Context) ([]string, error) {
	if caller.From(ctx).Session == "" {
		return nil, nil
	}
	offered, err := caller.Roots(ctx)
	if need, ok := errors.AsType[*caller.NeedInput](err); ok {
		return nil, need
	}
	var dirs []string
	for _, d := range offered {
		if resolved, err := fsys.ResolveDir(d); err == nil {
			dirs = append(dirs, resolved)
		}
	}
	return dirs, nil
}

func (r *Registry) absolute(ctx context.Context, path string) (string, error) {
	if path == "~" || strings.HasPrefix(path, "~/") {
		home, err := fsys.Home()
		if err == nil {
			return filepath.Join(home, path[1:]), nil
		}
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	cur, err := r.Current(ctx)
	if need, ok := errors.AsType[*caller.NeedInput](err); ok {
		return "", need
	}
	if err != nil {
		return "", fault.New(fault.ValidationError, "path must be absolute while no project is active, not %q", path).With("field", "path")
	}
	return filepath.Join(cur.Root, path), nil
}

func within(dirs []string, path string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return d != "" && fsys.Within(d, path) })
}

func (r *Registry) noProject(ctx context.Context) error {
	e := fault.New(fault.NoProjectActivated,
		`no project is active in this session; call crud_activate_project {"path": "/absolute/path"} with a directory that may be activated`)
	return e.With("may_be_activated", nonNil(r.allowed(ctx)))
}

func (r *Registry) outside(ctx context.Context, path string) error {
	return fault.New(fault.PathOutsideBase, "%s is not inside a directory that may be activated", path).At(path).
		With("may_be_activated", nonNil(r.allowed(ctx))).
		With("next", "Activate one of the directories listed. A person can allow more: start the server with --root DIR, add it to crud.base_directories, or run async-crud-mcp trust DIR.")
}

func nonNil(dirs []string) []string {
	if dirs == nil {
		return []string{}
	}
	return dirs
}

// Settings returns the settings that hold for the call in ctx: those of its
// project, or the user's own when it has none. active is nil then.
func (r *Registry) Settings(ctx context.Context) (settings *config.Snapshot, active *Active, err error) {
	active, err = r.Current(ctx)
	switch {
	case err == nil:
		return active.Settings(), active, nil
	case fault.CodeOf(err) == fault.NoProjectActivated && caller.From(ctx).Project == "":
		return r.launch(ctx).Settings.Current(), nil, nil
	default:
		return nil, nil, err
	}
}
