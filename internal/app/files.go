package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
	"github.com/async-crud-mcp/async-crud-mcp/internal/history"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
	"github.com/async-crud-mcp/async-crud-mcp/internal/watch"
)

// newHistory maps the settings to a store of past contents.
func newHistory(a *App, dirs fsys.Dirs, c config.Config) *history.Store {
	o := history.Options{
		MemoryBytes: int64(c.Persistence.HistoryMemoryMB) << 20, DiskBytes: int64(c.Persistence.HistoryDiskMB) << 20,
		MaxContent: c.Crud.MaxFileSizeBytes, MaxAge: time.Duration(c.Persistence.HistoryDays) * 24 * time.Hour,
		WriteDebounce: seconds(c.Persistence.WriteDebounceSeconds), Logger: a.Logger,
	}
	for _, bytes := range []*int64{&o.MemoryBytes, &o.DiskBytes} {
		if *bytes == 0 {
			*bytes = -1 // the store takes 0 for its default
		}
	}
	if o.WriteDebounce == 0 {
		o.WriteDebounce = -1
	}
	a.historyFile = filepath.Join(dirs.Data, HistoryFile)
	if c.Persistence.StateFile != nil {
		a.historyFile = *c.Persistence.StateFile
	}
	if c.Persistence.Enabled {
		o.File = a.historyFile
	}
	return history.New(o)
}

// HistoryFile is where past contents are kept when they are kept on disk.
func (a *App) HistoryFile() string { return a.historyFile }

// Restore gives a file this content, as a change like any other: under its lock,
// in one step, and remembered. The directory that holds it counts as allowed,
// since a person asks.
func (a *App) Restore(ctx context.Context, projectID, path string, content []byte) error {
	s, err := scopeOf(a.Settings.Current().Config)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	s.Project, s.Root = projectID, dir
	if s.Bases, err = fsys.OpenBases(dir, nil); err != nil {
		return err
	}
	defer s.Bases.Close()
	if err := a.History.Open(ctx); err != nil {
		return err
	}
	err = a.Files.Restore(ctx, s, path, content)
	return errors.Join(err, a.History.Close(ctx)) // what the file held is kept
}

// scopes keeps what the file tools need of each project: opened directories and
// compiled rules. An entry is made anew when the settings or the directories
// differ.
type scopes struct {
	mu     sync.Mutex
	byKey  map[scopeKey]*scope // guarded by mu
	opened chan *files.Scope   // to be swept and watched
}

// scopeKey tells apart what sessions with different settings or directories see
// of one project.
type scopeKey struct {
	store       *config.Store
	root, bases string
}

// at returns a scope of the project at root, or nil; pick chooses among several.
func (s *scopes) at(root string, pick func(*scope) bool) *scope {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, found := range s.byKey {
		if key.root == root && pick(found) {
			return found
		}
	}
	return nil
}

type scope struct {
	*files.Scope
	settings *config.Snapshot
}

// maxScopes bounds the projects whose directories stay open; the garbage
// collector closes what is dropped once no call uses it any more.
const maxScopes = 128

func newScopes() *scopes {
	return &scopes{byKey: make(map[scopeKey]*scope), opened: make(chan *files.Scope, 16)}
}

// scope says what a call may reach, and which limits hold there.
func (a *App) scope(ctx context.Context) (*files.Scope, error) {
	s, err := a.current(ctx)
	if err != nil {
		return nil, err
	}
	return s.Scope, nil
}

// current returns the scope of a call with the settings it was made of.
func (a *App) current(ctx context.Context) (*scope, error) {
	active, err := a.Projects.Current(ctx)
	if err != nil {
		return nil, err
	}
	tool.InProject(ctx, active.ID, active.Root)
	if err := a.claims.take(caller.From(ctx).Session, active.Bases); err != nil {
		return nil, err
	}
	settings := active.Settings()
	s := a.scopes
	key := scopeKey{active.Store(), active.Root, strings.Join(active.Bases, "\x00")}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.byKey[key]
	if old != nil && old.settings == settings {
		return old, nil
	}
	inForce := settings.Config
	inForce.Crud.ProtectedPaths = slices.Concat(inForce.Crud.ProtectedPaths, a.ownGlobs(active.Bases))
	made, err := scopeOf(inForce)
	if err != nil {
		return nil, err // the settings were verified, so this is a mistake of ours
	}
	made.Project, made.Root = active.ID, active.Root
	if old != nil {
		made.Bases = old.Bases
	} else {
		if made.Bases, err = fsys.OpenBases(active.Root, active.Bases[1:]); err != nil {
			return nil, fmt.Errorf("open project: %w", err)
		}
		select {
		case s.opened <- made:
		default: // too many at once: it is swept at the next start
		}
	}
	if len(s.byKey) >= maxScopes {
		clear(s.byKey)
	}
	now := &scope{Scope: made, settings: settings}
	s.byKey[key] = now
	return now, nil
}

// scopeOf maps settings to rules and limits. It fails for settings that must not
// come into force.
func scopeOf(c config.Config) (*files.Scope, error) {
	rules := access.Options{Protected: c.Crud.ProtectedPaths, Secret: c.Crud.SecretFiles, Fold: foldsCase}
	for _, r := range c.Crud.AccessRules {
		rules.Rules = append(rules.Rules, access.Rule(r))
	}
	var content []access.ContentRule
	for _, r := range c.Crud.ContentRules {
		content = append(content, access.ContentRule(r))
	}
	s := &files.Scope{
		Redacts: len(content) > 0,
		Limits: files.Limits{
			MaxFileSize: c.Crud.MaxFileSizeBytes, MaxResult: c.Crud.MaxResultBytes, MaxEntries: c.Crud.MaxListEntries,
			DefaultTimeout: seconds(c.Crud.DefaultTimeout), MaxTimeout: seconds(c.Crud.MaxTimeout),
			Encoding: c.Crud.DefaultEncoding, ContextLines: c.Crud.DiffContextLines, OnContention: c.Crud.OnContention,
			Sync: fsys.Sync{Off: c.Crud.Durability == "rename"},
		},
	}
	var err error
	if s.Rules, err = access.New(rules); err != nil {
		return nil, fmt.Errorf("crud.access_rules: %w", err)
	}
	if s.Content, err = access.NewContent(content); err != nil {
		return nil, fmt.Errorf("crud.content_rules: %w", err)
	}
	return s, nil
}

// care looks after directories that were just opened: it removes what dead
// processes left there, and notices what others change.
func (a *App) care(ctx context.Context) error {
	var trees sync.WaitGroup
	defer trees.Wait()
	watched := make(map[string]bool)
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-a.scopes.opened:
			if n, err := s.Bases.Sweep(ctx); err != nil && ctx.Err() == nil {
				a.Logger.Warn("temp files could not be swept", "root", s.Root, "err", err)
			} else if n > 0 {
				a.Logger.Info("swept temp files of processes that died", "root", s.Root, "files", n)
			}
			if w := a.Settings.Current().Config.Watcher; w.Enabled && !watched[s.Root] && len(watched) < maxTrees {
				watched[s.Root] = true
				rest := time.Duration(w.DebounceMS) * time.Millisecond
				if rest == 0 {
					rest = -1 // the watcher takes 0 for its default
				}
				tree := watch.NewTree(s.Root, watch.TreeOptions{Debounce: rest, Skip: search.Unwatched, Passing: true, Logger: a.Logger})
				a.trees.Store(s.Root, tree)
				trees.Go(func() { a.watchTree(ctx, s.Root, tree) })
			}
		}
	}
}

// maxTrees bounds the projects that are watched at once; the others are still
// right, since every change is judged by what is on disk.
const maxTrees = 16

func (a *App) watchTree(ctx context.Context, root string, tree *watch.Tree) {
	err := tree.Run(ctx, func(changes []watch.Change) {
		a.Search.Noticed(root, changes)
		changes = slices.DeleteFunc(changes, func(c watch.Change) bool { return c.Kind == watch.Passed || search.OfGit(c.Rel) })
		a.changed.note(root, changes)
		s := a.scopes.at(root, func(*scope) bool { return true })
		if s == nil {
			return
		}
		for _, c := range changes {
			switch {
			case c.Kind == watch.Overflow:
				a.Files.NoticedAll(ctx, s.Scope)
			case !c.Dir:
				a.Files.Noticed(ctx, s.Scope, c.Path)
			}
		}
	})
	if err != nil {
		a.Logger.Warn("a project is no longer watched", "root", root, "err", err)
	}
}

// watchFindings says where changes by others are noticed late.
func (a *App) watchFindings() []health.Finding {
	var findings []health.Finding
	a.trees.Range(func(root, tree any) bool {
		if why := tree.(*watch.Tree).Status().Degraded; why != "" {
			findings = append(findings, health.Finding{Part: "watcher", Detail: fmt.Sprintf("%s: %s", root, why)})
		}
		return true
	})
	return findings
}

// revalidate compares what an earlier run knew of files with what they hold now.
func (a *App) revalidate(ctx context.Context) error {
	limit := a.Settings.Current().Config.Crud.MaxFileSizeBytes
	_, err := a.History.Revalidate(ctx, func(_, path string) (string, error) { return files.HashFile(path, limit) })
	if ctx.Err() != nil {
		return nil
	}
	return err
}
