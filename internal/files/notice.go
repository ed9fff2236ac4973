package files

import (
	"context"
	"crypto/sha256"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// Noticed looks again at a file that somebody may have changed, if it is one the
// server has shown or written or that somebody follows, and keeps what is known
// of it fresh. Nothing depends on it: every change is judged by what is on disk.
func (e *Engine) Noticed(ctx context.Context, scope *Scope, path string) {
	if _, _, known := e.known(scope, path); !known {
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
	was, tracked, known := e.known(scope, path)
	if !known {
		return
	}
	now, err := t.state()
	if err != nil || now == was {
		return // it was us; or it cannot be read now, and the next call sees for itself
	}
	changed := event.File{Path: path, External: true}
	switch {
	case now != "" && now != tooLarge:
		changed.Hash = now
		if tracked {
			e.opts.History.Track(scope.Project, path, now)
		}
	case tracked:
		e.opts.History.Untrack(scope.Project, path)
	}
	e.followed.note(path, now)
	e.opts.Logger.Debug("changed outside", "path", path)
	e.opts.Bus.Publish(event.Event{Kind: event.FileChanged, Project: scope.Project, Data: changed})
}

// known returns what the file is known to hold, as target.state has it. tracked
// says that this is history's account.
func (e *Engine) known(scope *Scope, path string) (state string, tracked, known bool) {
	state, tracked = e.opts.History.Tracked(scope.Project, path)
	if tracked {
		return state, true, true
	}
	state, known = e.followed.known(path)
	return state, false, known
}

// NoticedAll looks again at every file of the project the server has shown or
// written or that somebody follows, after notices were lost.
func (e *Engine) NoticedAll(ctx context.Context, scope *Scope) {
	for _, path := range append(e.opts.History.Paths(scope.Project), e.followed.paths()...) {
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
