package app

import (
	"context"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search"
	"github.com/async-crud-mcp/async-crud-mcp/internal/watch"
)

// newSearch returns the engine that searches, which learns of changes by the
// watchers of the projects.
func newSearch(a *App) *search.Engine {
	return search.New(search.Options{Scope: a.searchScope, Logger: a.Logger, Tree: func(root string) *watch.Tree {
		if tree, ok := a.trees.Load(root); ok {
			return tree.(*watch.Tree)
		}
		return nil
	}})
}

// searchScope says what a search may reach, and which limits hold there.
func (a *App) searchScope(ctx context.Context) (*search.Scope, error) {
	s, err := a.current(ctx)
	if err != nil {
		return nil, err
	}
	return searchIn(s.Scope, s.settings.Config.Search), nil
}

func searchIn(s *files.Scope, c config.Search) *search.Scope {
	return &search.Scope{
		Root: s.Root, Bases: s.Bases, Rules: s.Rules, Content: s.Content, Redacts: s.Redacts, Fold: foldsCase,
		Limits: search.Limits{
			Disabled: !c.Enabled, MaxResults: c.MaxResults, MaxFileSize: c.MaxFileSizeBytes, MaxBytes: c.MaxResultBytes,
			Timeout: seconds(c.TimeoutDefault), RespectIgnore: c.RespectGitignore, VerifyStat: c.Verify == "stat",
		},
	}
}

// SearchFor searches the project at root for a person: by its rules, and without
// the limits that keep an agent's answer short. Ignored files are searched if
// ignored is set.
func (a *App) SearchFor(ctx context.Context, root string, ignored bool, r search.Request) (*search.Result, error) {
	settings := a.Settings.Project(root)
	defer settings.Release()
	c := settings.Current().Config
	s, err := scopeOf(c)
	if err != nil {
		return nil, err
	}
	s.Root = root
	if s.Bases, err = fsys.OpenBases(root, nil); err != nil {
		return nil, err
	}
	defer s.Bases.Close()
	scope := searchIn(s, c.Search)
	scope.Limits.MaxResults, scope.Limits.MaxBytes, scope.Limits.Timeout = r.MaxResults, 0, forever
	scope.Limits.RespectIgnore = scope.Limits.RespectIgnore && !ignored
	engine := search.New(search.Options{Logger: a.Logger, CountFor: forever, Scope: func(context.Context) (*search.Scope, error) { return scope, nil }})
	return engine.Search(ctx, r)
}

// forever is how long a person may wait, who can end it.
const forever = 365 * 24 * time.Hour
