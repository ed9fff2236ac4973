package files

import (
	"context"
	"errors"
	"io/fs"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// Write creates a file that does not exist yet.
func (e *Engine) Write(ctx context.Context, r WriteRequest) (*Written, error) {
	return again(func() (*Written, error) {
		t, err := e.admitOne(ctx, access.Write, r.Path)
		if err != nil {
			return nil, err
		}
		return t.write(ctx, r, t.scope.Limits.Sync)
	})
}

func (t *target) write(ctx context.Context, r WriteRequest, sync fsys.Sync) (*Written, error) {
	if _, err := t.path.Stat(); err == nil {
		return nil, t.exists() // no need to wait for that
	}
	raw, err := t.encode(r.Encoding, r.Content)
	if err != nil {
		return nil, err
	}
	lease, err := t.hold(ctx, lock.Exclusive, t.scope.timeout(r.Timeout), t)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	return t.create(ctx, lease, raw, fsys.WriteOptions{MakeDirs: r.CreateDirs, Sync: sync})
}

// create commits a new file under its lock.
func (t *target) create(ctx context.Context, lease lock.Lease, raw []byte, o fsys.WriteOptions) (*Written, error) {
	next := hashing(raw)
	err := t.making(func() error {
		return lease.Commit(func() error { return t.path.Create(raw, o) })
	})
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, t.exists()
	case errors.Is(err, fs.ErrNotExist):
		return nil, t.noDir()
	case err != nil:
		return nil, t.failed(err)
	}
	c := next()
	t.remember(ctx, c)
	return &Written{Path: t.path.String(), Hash: c.hash, BytesWritten: int64(len(raw))}, nil
}

func (t *target) exists() *fault.Error {
	return fault.New(fault.FileExists, "File already exists: %s", t.path).At(t.path.String())
}

// Append adds to the end of a file, in place.
func (e *Engine) Append(ctx context.Context, r AppendRequest) (*Appended, error) {
	return again(func() (*Appended, error) {
		t, err := e.admitOne(ctx, access.Append, r.Path)
		if err != nil {
			return nil, err
		}
		return t.append(ctx, r)
	})
}

func (t *target) append(ctx context.Context, r AppendRequest) (*Appended, error) {
	raw, err := t.encode(r.Encoding, r.Separator+r.Content)
	if err != nil {
		return nil, err
	}
	if _, err := t.path.Stat(); errors.Is(err, fs.ErrNotExist) && !r.CreateIfMissing {
		return nil, t.failed(fs.ErrNotExist) // no need to wait for that
	}
	lease, err := t.hold(ctx, lock.Exclusive, t.scope.timeout(r.Timeout), t)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	info, err := t.path.Readable() // else nobody could be told the hash afterwards
	switch {
	case errors.Is(err, fs.ErrNotExist) && r.CreateIfMissing:
		w, err := t.create(ctx, lease, raw, fsys.WriteOptions{MakeDirs: r.CreateDirs, Sync: t.scope.Limits.Sync})
		if err != nil {
			return nil, err
		}
		return &Appended{Path: w.Path, Hash: w.Hash, BytesAppended: w.BytesWritten, TotalSizeBytes: w.BytesWritten}, nil
	case err != nil:
		return nil, t.failed(err)
	}
	if raw, err = t.behind(r, raw); err != nil {
		return nil, err
	}
	if err := t.fits(int(info.Size) + len(raw)); err != nil {
		return nil, err
	}
	if err := lease.Commit(func() error {
		_, err := t.path.Append(raw, t.scope.Limits.Sync)
		return err
	}); err != nil {
		return nil, t.failed(err)
	}
	c, err := t.loadAny() // somebody outside may have made it larger still
	if err != nil {
		return nil, err
	}
	t.remember(ctx, c)
	return &Appended{Path: t.path.String(), Hash: c.hash, BytesAppended: int64(len(raw)), TotalSizeBytes: max(int64(len(c.raw)), c.large)}, nil
}

// behind returns what is appended as it stands behind what the file holds: in its
// byte order, and without the mark that a new file would begin with. Together they
// must not make what a content rule denies.
func (t *target) behind(r AppendRequest, raw []byte) ([]byte, error) {
	enc, err := t.encoding(r.Encoding)
	if err != nil || enc.Name() == "utf-8" && !t.scope.Redacts {
		return raw, err
	}
	current, err := t.load()
	if err != nil {
		return nil, err
	}
	v := enc.View(current.raw)
	if err := t.mayJoin(v.Loose(), r.Separator+r.Content); err != nil || enc.Name() == "utf-8" {
		return raw, err
	}
	if raw, err = v.Encode(r.Separator + r.Content); err != nil {
		return nil, t.failed(err)
	}
	return raw, nil
}

// mayJoin applies the content rules to text that comes behind other text. What a
// rule denies in the other text already is not the fault of who adds to it.
func (t *target) mayJoin(before, text string) error {
	if !t.scope.Redacts || t.scope.Content.Scan(before).Denied != nil {
		return nil
	}
	if access.AddsMarkers(before, before+text) {
		return t.markers()
	}
	return t.mayHold([]byte(before + text))
}
