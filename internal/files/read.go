package files

import (
	"context"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/encoding"
)

// Read returns a file's text, or some of its lines.
func (e *Engine) Read(ctx context.Context, r ReadRequest) (*Read, error) {
	return again(func() (*Read, error) {
		t, err := e.admitOne(ctx, access.Read, r.Path)
		if err != nil {
			return nil, err
		}
		return t.read(ctx, r)
	})
}

func (t *target) read(ctx context.Context, r ReadRequest) (*Read, error) {
	c, err := t.current(ctx)
	if err != nil {
		return nil, err
	}
	enc, err := t.encoding(r.Encoding)
	if err != nil {
		return nil, err
	}
	text, err := enc.Decode(c.raw)
	if err != nil {
		return nil, t.failed(err)
	}
	shown, hidden, err := t.show(text, c.raw)
	if err != nil {
		return nil, err
	}
	t.served(c)
	limit := -1
	if r.Limit != nil {
		limit = *r.Limit
	}
	part, _ := encoding.SliceLines(shown, r.Offset, limit)
	out := &Read{Path: t.path.String(), Encoding: enc.Name(), Hash: c.hash, TotalLines: encoding.CountLines(shown), Redacted: hidden}
	out.Content, out.Truncated = clip(part, t.scope.Limits.MaxResult)
	out.LinesReturned = encoding.CountLines(out.Content)
	return out, nil
}
