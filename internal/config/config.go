// Package config holds the settings: typed values laid over each other from
// defaults, the user's file, a project's file, the environment and the command
// line, each with its origin.
//
//	defaults ◀ user file ◀ project file ◀ environment ◀ --set and flags
//
// A file with a wrong value is refused whole and the last good one stays; an
// unknown key is a warning. A project's file may only do what the tag of each
// key allows, so that it is no way out of the user's policy. Files are watched
// by Run: a change is read once it is at rest, every part is asked to verify the
// new settings, and only then they are committed.
//
// A Store is safe for concurrent use. Readers get immutable snapshots and never
// wait; loads and reloads take turns. What a setting means is left to the parts
// that use it.
package config

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
	"github.com/async-crud-mcp/async-crud-mcp/internal/watch"
)

// ProjectDir is the folder of a project that holds its configuration.
const ProjectDir = ".async-crud-mcp"

// fileNames are the names of a settings file; the first that exists counts.
var fileNames = []string{"config.json", "config.yaml", "config.yml", "config.toml"}

const maxFile = 1 << 20 // bytes of a settings file

// Options say where settings come from. The zero value means the user's own
// directory, the environment of the process, and no trust.
type Options struct {
	UserFile string         // "": config.json, .yaml, .yml or .toml in the user's configuration directory
	Env      []string       // NAME=value; nil: the environment of the process
	Set      []string       // key=value, the value in JSON or plain text for strings
	Flags    map[string]any // key → value of named flags; they go before Set
	Dir      string         // what relative paths in Set and Flags start from; "": the current directory
	// Trusted tells whether a person vouches for the project at root with a
	// configuration file of this SHA-256 (hex; "" without a file). nil: for none.
	Trusted func(root, sha256 string) bool
	// Vouched tells whether a person ever vouched for the project at root, with
	// whatever file; it only words a warning. nil: unknown.
	Vouched func(root string) bool
	Bus     *event.Bus   // told of refused files
	Logger  *slog.Logger // nil: silent
}

// Store holds the settings and keeps them fresh.
type Store struct {
	opts     Options
	home     string
	defaults Config
	turn     chan struct{} // held by who reloads; commit hooks run inside
	base     atomic.Pointer[state]
	env      *layer // set by Load
	command  *layer // set by Load

	mu       sync.Mutex
	hooks    []hook              // guarded by mu
	projects map[string]*project // by root; guarded by mu
	files    *watch.Files        // while Run runs; guarded by mu
}

type hook struct {
	verify func(old, new *Snapshot) error
	commit func(old, new *Snapshot)
}

// state is what holds now for the user or for one project: a snapshot and the
// last good file behind it. It is immutable.
type state struct {
	snap    *Snapshot
	layer   *layer // of the last good file; nil: there is none
	file    string // path of the file last looked at; "" when there is none
	sum     string // hash of the bytes last looked at
	trusted bool   // of layer
	lost    bool   // the file was trusted once and has changed since
	refused error  // why the bytes last looked at do not hold; nil: they do
}

// project is a root that somebody has open.
type project struct {
	root  string
	state atomic.Pointer[state]
	users int // guarded by Store.mu
}

// Project is a handle on the settings of one project.
type Project struct {
	*project
	store *Store
	once  sync.Once
}

// New returns a store that holds the defaults. It touches no disk.
func New(o Options) *Store {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	if o.Trusted == nil {
		o.Trusted = func(string, string) bool { return false }
	}
	if o.Vouched == nil {
		o.Vouched = func(string) bool { return false }
	}
	st := &Store{opts: o, home: homeIn(o.Env), defaults: settings().defaults, turn: make(chan struct{}, 1), projects: make(map[string]*project)}
	for _, k := range settings().keys {
		if err := expand(k, &st.defaults, st.home); err != nil {
			panic(err) // no default is a relative path where an absolute one is needed
		}
	}
	st.base.Store(&state{snap: st.snapshot("", nil, nil, false)})
	return st
}

func homeIn(env []string) string {
	for _, name := range []string{"HOME=", "USERPROFILE="} {
		for _, entry := range env {
			if home, ok := strings.CutPrefix(entry, name); ok && home != "" {
				return home
			}
		}
	}
	return ""
}

// take waits for the turn to load and returns the function that ends it.
func (st *Store) take() (done func()) {
	st.turn <- struct{}{}
	return func() { <-st.turn }
}

// Load reads every source but project files, before anything else is done with
// the store. When one is refused the error, one *Error or several joined, says
// where and why, and the store holds what the others say.
func (st *Store) Load() error {
	defer st.take()()
	var errEnv, errCommand error
	st.env, errEnv = envLayer(st.opts.Env, st.home)
	st.command, errCommand = commandLayer(st.opts.Set, st.opts.Flags, st.opts.Dir, st.home)
	next := st.readUser(&state{})
	next.snap = st.snapshot("", next.layer, nil, false)
	st.base.Store(next)
	return errors.Join(errCommand, errEnv, next.refused)
}

// Current returns the settings in force without a project.
func (st *Store) Current() *Snapshot { return st.base.Load().snap }

// UserFile returns the path of the user's file; "" when there is none.
func (st *Store) UserFile() string { return st.base.Load().file }

// OnChange registers a part that uses settings. Before new settings hold, for
// the user or for an open project, verify may refuse them; commit is told when
// they do. Either may be nil. verify may run on several goroutines at once;
// commits come one at a time, and must not call Load, Reload or Update.
func (st *Store) OnChange(verify func(old, new *Snapshot) error, commit func(old, new *Snapshot)) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.hooks = append(st.hooks, hook{verify, commit})
}

// Project opens the settings of the project at root, a resolved directory. What
// its file says wrong shows in Status. Release ends the use.
func (st *Store) Project(root string) *Project {
	for {
		if p := st.join(root, nil, nil); p != nil {
			return p
		}
		base := st.base.Load()
		first := st.nextProject(root, &state{snap: base.snap}, base)
		if p := st.join(root, first, base); p != nil {
			if first.refused != nil {
				st.refuse(first.refused)
			}
			st.watch(projectFiles(root))
			return p
		}
	}
}

// join returns a handle on an open project, or opens it in the state first,
// which lies on base. It returns nil when it is not open and there is no such
// state, or when the base has changed meanwhile.
func (st *Store) join(root string, first, base *state) *Project {
	st.mu.Lock()
	defer st.mu.Unlock()
	p := st.projects[root]
	if p == nil {
		if first == nil || st.base.Load() != base {
			return nil
		}
		p = &project{root: root}
		p.state.Store(first)
		st.projects[root] = p
	}
	p.users++
	return &Project{project: p, store: st}
}

// Current returns the settings in force in the project.
func (p *Project) Current() *Snapshot { return p.state.Load().snap }

// Trusted reports whether a person vouches for the file behind the settings in
// force.
func (p *Project) Trusted() bool { return p.state.Load().trusted }

// File returns the path of the project's file; "" when there is none.
func (p *Project) File() string { return p.state.Load().file }

// Status lists what a person should know about the project's file.
func (p *Project) Status() []health.Finding {
	s := p.state.Load()
	var findings []health.Finding
	if s.refused != nil {
		findings = append(findings, finding(s.refused))
	}
	if s.layer != nil {
		for _, w := range s.snap.warnings {
			if strings.HasPrefix(string(w.Origin), "project file ") {
				findings = append(findings, health.Finding{Part: "settings", Detail: w.String()})
			}
		}
	}
	return findings
}

// Release ends the use of the project; the last user's release closes it. A
// second call does nothing.
func (p *Project) Release() {
	p.once.Do(func() {
		p.store.mu.Lock()
		defer p.store.mu.Unlock()
		if p.users--; p.users > 0 {
			return
		}
		delete(p.store.projects, p.root)
		if p.store.files != nil {
			for _, path := range projectFiles(p.root) {
				p.store.files.Remove(path)
			}
		}
	})
}

// Status lists what a person should look at: refused files and, for the user's
// own sources, what does not apply.
func (st *Store) Status() []health.Finding {
	base := st.base.Load()
	var findings []health.Finding
	if base.refused != nil {
		findings = append(findings, finding(base.refused))
	}
	for _, w := range base.snap.warnings {
		findings = append(findings, health.Finding{Part: "settings", Detail: w.String()})
	}
	for _, p := range st.open() {
		if err := p.state.Load().refused; err != nil {
			findings = append(findings, finding(err))
		}
	}
	return findings
}

func finding(err error) health.Finding {
	return health.Finding{
		Part: "settings", Detail: err.Error(),
		Cure: "correct the file; until then the last good settings stay in force",
	}
}

// open returns the open projects, by root.
func (st *Store) open() []*project {
	st.mu.Lock()
	defer st.mu.Unlock()
	var all []*project
	for _, p := range st.projects {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *project) int { return strings.Compare(a.root, b.root) })
	return all
}

// Preview returns the settings of the project at root if its file at path had
// these bytes, nil for no file, and a person vouched for them or not. A file that
// would be refused is an error. Nothing changes.
func (st *Store) Preview(root, path string, raw []byte, trusted bool) (*Snapshot, error) {
	var l *layer
	if raw != nil {
		var err error
		if l, err = fileLayer("project", path, raw, st.home); err != nil {
			return nil, err
		}
	}
	base := st.base.Load()
	next := st.snapshot(root, base.layer, l, trusted)
	return next, st.verify("project", path, base.snap, next)
}

// Run watches the user's file and those of open projects and reloads them until
// ctx ends.
func (st *Store) Run(ctx context.Context) error {
	daemon := st.Current().Config.Daemon
	return st.run(ctx, watch.Options{
		Debounce: seconds(daemon.ConfigDebounceSeconds), Poll: seconds(daemon.ConfigPollSeconds), Logger: st.opts.Logger,
	})
}

func (st *Store) run(ctx context.Context, o watch.Options) error {
	files, users := watch.NewFiles(o), st.userFiles()
	st.watchWith(files)
	defer st.watchWith(nil)
	st.watch(users)
	for _, p := range st.open() {
		st.watch(projectFiles(p.root))
	}
	return files.Run(ctx, func(path string) {
		defer st.take()()
		if slices.Contains(users, path) {
			st.reloadUser(false)
			return
		}
		for _, p := range st.open() {
			if slices.Contains(projectFiles(p.root), path) {
				st.reloadProject(p, false)
			}
		}
	})
}

func (st *Store) watchWith(files *watch.Files) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.files = files
}

// watch has paths watched while Run runs.
func (st *Store) watch(paths []string) {
	st.mu.Lock()
	files := st.files
	st.mu.Unlock()
	if files != nil {
		for _, path := range paths {
			files.Add(path)
		}
	}
}

// Reload reads the user's file and those of open projects now, and asks again
// whom to trust.
func (st *Store) Reload() {
	defer st.take()()
	st.reloadUser(true) // projects lie on it and follow
}

func (st *Store) reloadUser(force bool) {
	old := st.base.Load()
	next := st.readUser(old)
	if !force && next.sum == old.sum && next.file == old.file {
		return
	}
	next.snap = st.snapshot("", next.layer, nil, false)
	if next.refused == nil {
		next.refused = st.verify("user", next.file, old.snap, next.snap)
	}
	if next.refused != nil {
		if old.refused == nil || next.sum != old.sum {
			st.refuse(next.refused)
		}
		next.snap, next.layer = old.snap, old.layer
	}
	st.mu.Lock()
	st.base.Store(next) // no project is opened on the old one from here on
	st.mu.Unlock()
	st.commit(old.snap, next.snap)
	for _, p := range st.open() {
		st.reloadProject(p, true)
	}
}

func (st *Store) reloadProject(p *project, force bool) {
	old := p.state.Load()
	next := st.nextProject(p.root, old, st.base.Load())
	if !force && next.file == old.file && next.sum == old.sum {
		return
	}
	if next.refused != nil && (old.refused == nil || next.sum != old.sum) {
		st.refuse(next.refused)
	}
	p.state.Store(next)
	st.commit(old.snap, next.snap)
}

// nextProject reads the file of a project that was in state old and returns the
// state it is in then. When the file does not hold, the last good one stays;
// when that does not go together with the base any more, none does: a project
// must not hold up a change of the user's.
func (st *Store) nextProject(root string, old, base *state) *state {
	file, raw, err := ReadProjectFile(root)
	next := &state{file: file, sum: hashOf(raw)}
	if err == nil && raw != nil {
		if next.layer, err = fileLayer("project", file, raw, st.home); err == nil {
			next.layer.shadowed("project", file)
		}
	}
	if err == nil {
		next.trusted = st.opts.Trusted(root, next.sum)
		next.lost = next.layer != nil && !next.trusted && (old.trusted || old.lost || st.opts.Vouched(root))
		next.snap = st.snapshot(root, base.layer, next.layer, next.trusted)
		if err = st.verify("project", file, old.snap, next.snap); err == nil {
			if next.lost {
				next.snap.warnings = append(next.snap.warnings, Warning{
					Origin:  Origin("project file " + file),
					Message: "trust is lost: the file has changed since a person vouched for it; look at it and run 'async-crud-mcp trust' again",
				})
			}
			return next
		}
	}
	next.refused, next.layer, next.trusted = err, old.layer, old.trusted
	next.snap = st.snapshot(root, base.layer, next.layer, next.trusted)
	if st.verify("project", file, old.snap, next.snap) != nil {
		next.layer, next.trusted = nil, false
		next.snap = st.snapshot(root, base.layer, nil, false)
	}
	return next
}

// readUser reads the user's file: the state without a snapshot. When it is
// refused the layer is that of old.
func (st *Store) readUser(old *state) *state {
	next := &state{}
	var err error
	for _, path := range st.userFiles() {
		var raw []byte
		raw, err = fsys.ReadFile(path, maxFile)
		if errors.Is(err, fs.ErrNotExist) && st.opts.UserFile == "" {
			err = nil
			continue
		}
		next.file, next.sum = path, hashOf(raw)
		if err != nil {
			err = &Error{Origin: Origin("user file " + path), Message: err.Error(), Err: err}
			break
		}
		if next.layer, err = fileLayer("user", path, raw, st.home); err == nil && st.opts.UserFile == "" {
			next.layer.shadowed("user", path)
		}
		break
	}
	if err != nil {
		next.refused, next.layer = err, old.layer
	}
	return next
}

func (st *Store) userFiles() []string {
	if st.opts.UserFile != "" {
		if abs, err := filepath.Abs(st.opts.UserFile); err == nil {
			return []string{abs}
		}
		return []string{st.opts.UserFile}
	}
	dirs, err := fsys.UserDirs()
	if err != nil {
		return nil // a user without a directory has no file in it
	}
	var paths []string
	for _, name := range fileNames {
		paths = append(paths, filepath.Join(dirs.Config, name))
	}
	return paths
}

// ReadProjectFile returns the path and the bytes of a project's settings file;
// "" and nil when there is none. A link that leaves the project, anything but a
// regular file and more than 1 MiB are errors.
func ReadProjectFile(root string) (path string, raw []byte, err error) {
	for _, name := range fileNames {
		path := filepath.Join(root, ProjectDir, name)
		raw, err := fsys.ReadFileIn(root, filepath.Join(ProjectDir, name), maxFile)
		if errors.Is(err, fs.ErrNotExist) && !fsys.Exists(path) {
			continue
		}
		if err != nil {
			return path, nil, &Error{Origin: Origin("project file " + path), Message: err.Error(), Err: err}
		}
		return path, raw, nil
	}
	return "", nil, nil
}

// shadowed warns of other settings files beside the one that counts.
func (l *layer) shadowed(kind, path string) {
	for _, name := range fileNames {
		if other := filepath.Join(filepath.Dir(path), name); other != path && fsys.Exists(other) {
			l.warnings = append(l.warnings, Warning{
				Origin: Origin(kind + " file " + other), Message: "is ignored: " + filepath.Base(path) + " beside it counts",
			})
		}
	}
}

func projectFiles(root string) []string {
	var paths []string
	for _, name := range fileNames {
		paths = append(paths, filepath.Join(root, ProjectDir, name))
	}
	return paths
}

// hashOf returns the hash of a file's bytes; "" when there is none.
func hashOf(raw []byte) string {
	if raw == nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

func (st *Store) snapshot(root string, user, project *layer, trusted bool) *Snapshot {
	m := merge(st.defaults, user, project, trusted, st.env, st.command)
	return &Snapshot{Config: m.cfg, root: root, origins: m.origins, warnings: m.warnings}
}

// verify asks every part whether it can live with the new settings that a file
// of this kind brings.
func (st *Store) verify(kind, file string, old, next *Snapshot) error {
	if reflect.DeepEqual(old.Config, next.Config) {
		return nil
	}
	for _, h := range st.registered() {
		if h.verify != nil {
			if err := h.verify(old, next); err != nil {
				return &Error{Origin: Origin(kind + " file " + file), Message: err.Error(), Err: err}
			}
		}
	}
	return nil
}

// commit tells every part that the new settings hold.
func (st *Store) commit(old, next *Snapshot) {
	if reflect.DeepEqual(old.Config, next.Config) {
		return
	}
	st.opts.Logger.Info("settings changed", "project", next.root, "keys", Changed(old, next))
	for _, h := range st.registered() {
		if h.commit != nil {
			h.commit(old, next)
		}
	}
}

func (st *Store) registered() []hook {
	st.mu.Lock()
	defer st.mu.Unlock()
	return slices.Clone(st.hooks)
}

func (st *Store) refuse(err error) {
	st.opts.Logger.Warn("settings refused, the last good ones stay", "err", err)
	st.opts.Bus.Publish(event.Event{Kind: event.ConfigRefused, Data: err.Error()})
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// FileNames returns the names a settings file may have; the first that exists
// counts.
func FileNames() []string { return slices.Clone(fileNames) }
