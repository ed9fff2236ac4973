package app

import (
	"context"

	"github.com/async-crud-mcp/async-crud-mcp/internal/search"
)

// searchScope says what a search may reach, and which limits hold there.
func (a *App) searchScope(ctx context.Context) (*search.Scope, error) {
	s, err := a.current(ctx)
	if err != nil {
		return nil, err
	}
	c := s.settings.Config.Search
	return &search.Scope{
		Root: s.Root, Bases: s.Bases, Rules: s.Rules, Content: s.Content, Redacts: s.Redacts, Fold: foldsCase,
		Limits: search.Limits{
			Disabled: !c.Enabled, MaxResults: c.MaxResults, MaxFileSize: c.MaxFileSizeBytes, MaxBytes: c.MaxResultBytes,
			Timeout: seconds(c.TimeoutDefault), RespectIgnore: c.RespectGitignore,
		},
	}, nil
}
