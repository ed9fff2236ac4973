package files

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// Noticed looks again at a file that somebody may have changed, if it is one the
// server has shown or written, and keeps what is known of it fresh. Nothing
// depends on it: every change is judged by what is on disk.
func (e *Engine) Noticed(ctx context.Context, scope *Scope, path string) {
	if _, tracked := e.opts.History.Tracked(scope.Project, path); !tracked {
		return
	}
	p, err := scope.Bases.Resolve(path)
	if err != nil || p.String() != path {
		return
	}
	t := &target{Engine: e, scope: scope, op: access.Status, path: p}
	lease, err := t.hold(ctx, lock.Shared, minTTL, t) // a change of our own is finished first
	if err != nil {
		return
	}
	defer lease.Release()
	was, tracked := e.opts.History.Tracked(scope.Project, path)
	if !tracked {
		return
	}
	sum, _, err := p.Hash(scope.Limits.MaxFileSize)
	changed := event.File{Path: path, External: true}
	switch {
	case err == nil && hashOf(sum) == was:
		return // it was us
	case err == nil:
		changed.Hash = hashOf(sum)
		e.opts.History.Track(scope.Project, path, changed.Hash)
	case errors.Is(err, fs.ErrNotExist):
		e.opts.History.Untrack(scope.Project, path)
	case errors.Is(err, fsys.ErrTooLarge):
		e.opts.History.Untrack(scope.Project, path)
	default:
		return // it cannot be read now; the next call sees for itself
	}
	e.opts.Logger.Debug("changed outside", "path", path)
	e.opts.Bus.Publish(event.Event{Kind: event.FileChanged, Project: scope.Project, Data: changed})
}

// NoticedAll looks again at every file of the project the server has shown or
// written, after notices were lost.
func (e *Engine) NoticedAll(ctx context.Context, scope *Scope) {
	for _, path := range e.opts.History.Paths(scope.Project) {
		if ctx.Err() != nil {
			return
		}
		e.Noticed(ctx, scope, path)
	}
}

// HashFile returns the hash of a file by its path, to compare with what was known
// before a restart; no call of a client comes this way.
func HashFile(path string, limit int64) (string, error) {
	raw, err := fsys.ReadFile(path, limit)
	if err != nil {
		return "", err
	}
	return hashOf(sha256.Sum256(raw)), nil
}
