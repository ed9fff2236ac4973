package files

import (
	"context"
	"errors"
	"io/fs"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// Restore gives a file this content, whatever it holds now, and makes it if it is
// gone. What it held is kept.
func (e *Engine) Restore(ctx context.Context, scope *Scope, path string, raw []byte) error {
	t, err := e.admit(scope, access.Update, path)
	if err != nil {
		return err
	}
	lease, err := t.hold(ctx, lock.Exclusive, scope.timeout(nil), t)
	if err != nil {
		return err
	}
	defer lease.Release()
	for range outsideTries {
		current, err := t.load()
		if errors.Is(err, fs.ErrNotExist) {
			_, err = t.create(ctx, lease, raw, fsys.WriteOptions{MakeDirs: true, Sync: scope.Limits.Sync})
			return err
		}
		if err != nil {
			return err
		}
		if _, err = t.replace(ctx, lease, current, raw, scope.Limits.Sync); !errors.Is(err, fsys.ErrChanged) {
			return err
		}
	}
	return t.failed(fsys.ErrChanged)
}
