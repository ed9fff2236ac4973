package commit

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/opendir"
)

// Content is what a file is expected to hold. Bytes may be nil; if they are
// there they are compared, which is faster than hashing what the file holds. Sum
// is needed in both cases: it tells contents apart after a crash.
type Content struct {
	Sum   [sha256.Size]byte
	Bytes []byte
}

// ContentOf returns the content that data is.
func ContentOf(data []byte) Content { return Content{Sum: sha256.Sum256(data), Bytes: data} }

// is reports whether f holds it now.
func (c Content) is(f *opendir.File) (bool, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	if c.Bytes == nil {
		h := sha256.New()
		_, err := io.CopyBuffer(h, struct{ io.Reader }{f}, make([]byte, 64<<10))
		return err == nil && bytes.Equal(h.Sum(nil), c.Sum[:]), err
	}
	rest := c.Bytes
	buf := make([]byte, min(len(rest)+1, 64<<10))
	for {
		n, err := f.Read(buf)
		if errors.Is(err, io.EOF) {
			return len(rest) == 0, nil
		}
		if err != nil {
			return false, err
		}
		if n > len(rest) || !bytes.Equal(buf[:n], rest[:n]) {
			return false, nil
		}
		rest = rest[n:]
	}
}
