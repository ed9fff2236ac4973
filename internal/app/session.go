package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/project"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/sandbox"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// SharedMode is the Mode of a server that many client processes share.
const SharedMode = "daemon"

// Start is what a client process that joins was started with. It holds for that
// client alone.
type Start struct {
	Root         string // --root as given, or ""
	Dir          string // its current directory
	TrustProject bool
	Environ      []string
	UserFile     string         // --config, or ""
	Set          []string       // --set
	Flags        map[string]any // settings by named flags
}

// Refusal is why a client process cannot join.
type Refusal struct {
	Code    string // "settings", "root" or "config"
	Message string
	Cure    string
	// Restart is set when a server that is started anew with what this client
	// needs could serve it.
	Restart bool
}

func (r *Refusal) Error() string { return r.Message }

// Session is a client process that has joined.
type Session struct {
	app     *App
	caller  caller.Caller
	profile *profile // nil: the settings of the process
}

// profile is a set of settings that some client processes share.
type profile struct {
	key   string
	store *config.Store
	users int // guarded by profiles.mu
	stop  context.CancelFunc
	done  chan struct{} // closed when nothing of it runs any more
}

// profiles are those that are in use.
type profiles struct {
	mu    sync.Mutex
	byKey map[string]*profile // guarded by mu
}

// Join admits a client process with its own directories, settings and
// environment, or refuses it with a *Refusal. Leave must be called at its end.
func (a *App) Join(ctx context.Context, s Start) (*Session, error) {
	launch := &project.Launch{TrustLaunched: s.TrustProject, Settings: a.Settings}
	var err error
	switch {
	case s.Root != "":
		root := s.Root
		if !filepath.IsAbs(root) {
			root = filepath.Join(s.Dir, root)
		}
		if launch.Root, err = fsys.ResolveDir(root); err != nil {
			return nil, &Refusal{Code: "root", Message: fmt.Sprintf("--root: %v", err), Cure: "name an existing directory with --root"}
		}
	case s.Dir != "" && project.LooksLikeProject(s.Dir):
		if launch.Cwd, err = fsys.ResolveDir(s.Dir); err != nil {
			return nil, &Refusal{Code: "root", Message: fmt.Sprintf("current directory: %v", err), Cure: "start from a directory that exists"}
		}
	}
	if file := absolute(s.UserFile, s.Dir); file != absolute(a.opts.Settings.UserFile, "") {
		return nil, &Refusal{
			Code: "config", Restart: true,
			Message: fmt.Sprintf("the daemon has another settings file (%s) than --config asks for", orDefault(a.opts.Settings.UserFile)),
			Cure:    "use one settings file for all, end the daemon with '" + Name + " daemon stop', or add --standalone",
		}
	}
	joined := &Session{app: a, caller: caller.Caller{Launch: launch, Environ: s.Environ}}
	if joined.profile, err = a.profileOf(ctx, s, *launch); err != nil {
		return nil, err
	}
	if joined.profile != nil {
		launch.Settings = joined.profile.store
	} else {
		a.plain.Add(1)
	}
	joined.caller.Allows = a.allows(launch.Settings)
	return joined, nil
}

func orDefault(file string) string {
	if file == "" {
		return "the user's own"
	}
	return file
}

func absolute(path, dir string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	if dir == "" {
		abs, err := filepath.Abs(path)
		if err != nil {
			return path
		}
		return abs
	}
	return filepath.Join(dir, path)
}

// profileOf returns the settings of a client process; nil when they are those of
// this one.
func (a *App) profileOf(ctx context.Context, s Start, launch project.Launch) (*profile, error) {
	env := settingsIn(s.Environ)
	if len(env)+len(s.Set)+len(s.Flags) == 0 && !s.TrustProject && !a.Settings.Asks() {
		return nil, nil
	}
	o := config.Options{
		UserFile: a.opts.Settings.UserFile, Env: env, Set: s.Set, Flags: s.Flags, Dir: s.Dir,
		Trusted: func(root, sum string) bool { return launch.Trusts(a.trust, root, sum) },
		Vouched: project.Options{Trust: a.trust}.Vouched, Bus: &a.bus, Logger: a.Logger,
	}
	trusted := []string{}
	if s.TrustProject {
		trusted = append(trusted, launch.Root, launch.Cwd)
	}
	raw, err := json.Marshal([]any{env, s.Set, s.Flags, s.Dir, trusted})
	if err != nil {
		return nil, fmt.Errorf("settings of the session: %w", err)
	}
	key := string(raw)
	if p := a.profiles.join(key, nil); p != nil {
		return p, nil
	}
	store := config.New(o)
	if err := store.Load(); err != nil {
		return nil, &Refusal{Code: "settings", Message: err.Error(), Cure: "correct it, then check with '" + Name + " config validate'"}
	}
	if err := a.verify(nil, store.Current()); err != nil {
		return nil, &Refusal{Code: "settings", Message: err.Error(), Cure: "correct it, then check with '" + Name + " config validate'"}
	}
	if differ, looser := store.Beyond(a.Settings.Current()); len(differ)+len(looser) > 0 {
		return nil, beyond(differ, looser)
	}
	store.OnChange(a.verify, func(_, next *config.Snapshot) {
		if next.Root() == "" {
			a.Server.OfferChanged()
		}
	})
	fresh := &profile{key: key, store: store, done: make(chan struct{})}
	joined := a.profiles.join(key, fresh)
	if joined == fresh {
		running, stop := context.WithCancel(context.WithoutCancel(ctx)) // it is for others too
		fresh.stop = stop
		go func() {
			defer close(fresh.done)
			if err := store.Run(running); err != nil {
				a.Logger.Warn("settings of a session are not watched", "err", err)
			}
		}()
	}
	return joined, nil
}

func beyond(differ, looser []string) *Refusal {
	var parts []string
	if len(differ) > 0 {
		parts = append(parts, strings.Join(differ, ", ")+" differs from what the daemon runs with, and holds for the whole process")
	}
	if len(looser) > 0 {
		parts = append(parts, strings.Join(looser, ", ")+" would allow more than the daemon does; a session may only be stricter")
	}
	return &Refusal{
		Code: "settings", Restart: true, Message: strings.Join(parts, "; "),
		Cure: "put it into the user's settings file ('" + Name + " config set'), or end the daemon with '" + Name + " daemon stop' so that one starts with it, or add --standalone",
	}
}

// settingsIn returns the variables of an environment that are about settings.
func settingsIn(environ []string) []string {
	env := []string{}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "ASYNC_CRUD_MCP_") && strings.Contains(name, "__") {
			env = append(env, entry)
		}
	}
	slices.Sort(env)
	return env
}

// join counts a client process in and returns the profile of that key; fresh
// becomes it when there is none. With fresh nil the result may be nil.
func (ps *profiles) join(key string, fresh *profile) *profile {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byKey[key]
	if p == nil {
		if p = fresh; p == nil {
			return nil
		}
		if ps.byKey == nil {
			ps.byKey = make(map[string]*profile)
		}
		ps.byKey[key] = p
	}
	p.users++
	return p
}

// leave counts one out and reports whether it was the last.
func (ps *profiles) leave(p *profile) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p.users--; p.users > 0 {
		return false
	}
	delete(ps.byKey, p.key)
	return true
}

// Leave ends the session's use of its settings.
func (s *Session) Leave() {
	p := s.profile
	if p == nil {
		s.app.plain.Add(-1)
		return
	}
	if !s.app.profiles.leave(p) {
		return
	}
	s.app.Projects.Forget(p.store)
	p.stop()
	<-p.done
}

// Stdio serves the client on a pair of streams until it leaves or ctx ends.
func (s *Session) Stdio(ctx context.Context, in io.Reader, out io.Writer) error {
	return s.app.Server.ServeStdio(caller.With(ctx, &s.caller), in, out)
}

// HTTP serves clients on ln, all with the settings of this session, until ctx
// ends.
func (s *Session) HTTP(ctx context.Context, ln net.Listener) error {
	return s.app.serve(caller.With(ctx, &s.caller), ln)
}

// Listen opens the HTTP port that the settings of the session name.
func (s *Session) Listen(ctx context.Context) (net.Listener, error) {
	l := s.caller.Launch.(*project.Launch)
	return listenFor(ctx, l.Settings.Current().Config.Daemon)
}

// allows returns the question whether a session with these settings may use a
// tool, answered by the settings of the moment.
func (a *App) allows(store *config.Store) func(toolset, name string) bool {
	type offered struct {
		settings *config.Snapshot
		aliases  uint64
		tools    *tool.Set
		toolsets []string
	}
	var last atomic.Pointer[offered]
	return func(toolset, name string) bool {
		now, settings, aliases := last.Load(), store.Current(), a.aliases.turn.Load()
		if now == nil || now.settings != settings || now.aliases != aliases {
			on, _, err := a.selectOffer(settings.Config)
			if err != nil {
				return false // the settings were verified, so this is a mistake of ours
			}
			now = &offered{settings, aliases, on, settings.Config.Daemon.Toolsets}
			if now.toolsets == nil {
				now.toolsets = a.defaultToolsets(settings.Config)
			}
			last.Store(now)
		}
		if name == "" {
			return slices.Contains(now.toolsets, toolset) || slices.Contains(now.toolsets, "all")
		}
		return now.tools.Lookup(name) != nil
	}
}

// Repeatable lists the tools whose calls change nothing, so that a client may
// send one again when it does not know whether it was served.
func (a *App) Repeatable() []string {
	var names []string
	for _, t := range a.all.Tools() {
		if !t.Effect.Changes() {
			names = append(names, t.Name)
		}
	}
	return names
}

// InCommand reports whether a process was started by a command of ours, however
// indirectly, as far as the system can tell.
func InCommand(pid int) bool {
	in, err := sandbox.InJob(pid)
	return err == nil && in
}

// Busy reports whether a client is there or a command runs.
func (a *App) Busy() bool { return a.Server.Sessions() > 0 || a.Jobs.Running() > 0 }
