package files

import (
	"context"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/encoding"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
)

// Fetched is a whole file: its text, or its bytes if they are none.
type Fetched struct {
	Path     string
	Text     string
	Bytes    []byte // nil: it is text
	Encoding string // of text
	Hash     string
	Redacted int // places a content rule hides
}

// Fetch returns a whole file under the rules of Read, whatever it holds.
func (e *Engine) Fetch(ctx context.Context, path string) (*Fetched, error) {
	return again(func() (*Fetched, error) {
		t, err := e.admitOne(ctx, access.Read, path)
		if err != nil {
			return nil, err
		}
		c, err := t.current(ctx)
		if err != nil {
			return nil, err
		}
		out := &Fetched{Path: t.path.String(), Hash: c.hash}
		if err := t.reveal(out, c.raw); err != nil {
			return nil, err
		}
		if size, limit := int64(max(len(out.Text), len(out.Bytes))), t.scope.Limits.MaxResult; limit > 0 && size > limit {
			return nil, fault.New(fault.FileTooLarge, "the file has %d bytes; a result has at most %d", size, limit).At(out.Path).
				With("next", "Read it in parts with async_read.")
		}
		t.served(c)
		return out, nil
	})
}

// current returns what the file holds, once nobody is changing it.
func (t *target) current(ctx context.Context) (content, error) {
	lease, err := t.hold(ctx, lock.Shared, minTTL, t)
	if err != nil {
		return content{}, err
	}
	defer lease.Release()
	return t.load()
}

// reveal fills in what the caller may see of raw.
func (t *target) reveal(out *Fetched, raw []byte) error {
	text, name, err := t.decode(raw)
	if err != nil {
		return err
	}
	if name == "" {
		if d := t.scope.Content.ScanBytes(raw); d != nil {
			return t.blocked(d)
		}
		out.Bytes = raw
		return nil
	}
	out.Encoding = name
	out.Text, out.Redacted, err = t.show(text, raw)
	return err
}

// decode reads raw as text in the encoding of the settings, or in the one that a
// byte order mark tells. The name is "" for what is no text.
func (t *target) decode(raw []byte) (text, name string, err error) {
	enc, err := t.encoding("")
	if err != nil {
		return "", "", err
	}
	if text, err := enc.Decode(raw); err == nil && strings.IndexByte(text, 0) < 0 {
		return text, enc.Name(), nil
	}
	if s := string(raw[:min(2, len(raw))]); s == "\xff\xfe" || s == "\xfe\xff" {
		if enc, err = encoding.Lookup("utf-16"); err != nil {
			return "", "", t.failed(err)
		}
		if text, err := enc.Decode(raw); err == nil && strings.IndexByte(text, 0) < 0 {
			return text, enc.Name(), nil
		}
	}
	return "", "", nil
}
