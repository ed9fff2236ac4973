package fsys

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/opendir"
)

// What the system says about files.
type (
	// Info describes what stands under a name.
	Info = opendir.Info
	// Stamp tells one state of a file from another, without reading it.
	Stamp = opendir.Stamp
	// Kind is what stands under a name.
	Kind = opendir.Kind
)

// The kinds of Info and Entry.
const (
	Special   = opendir.Special
	Regular   = opendir.Regular
	Directory = opendir.Directory
	Link      = opendir.Link
)

// SizeError is an ErrTooLarge that knows how large.
type SizeError struct {
	Size  int64 // at least; a growing file is not read to its end
	Limit int64
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("%v: %d bytes, over %d", ErrTooLarge, e.Size, e.Limit)
}

// Is makes it an ErrTooLarge.
func (e *SizeError) Is(target error) bool { return target == ErrTooLarge }

// Stat looks at what stands at p. Only the path of ResolveLink can be a link.
func (p Path) Stat() (Info, error) {
	info, err := p.base.dir.Stat(p.Rel())
	return info, p.failed("stat", err)
}

// Readable is Stat for a regular file that can be read; anything else is an error.
func (p Path) Readable() (Info, error) {
	f, err := p.base.dir.Open(p.Rel())
	if err != nil {
		return Info{}, p.failed("read", err)
	}
	defer f.Close()
	info, err := f.Regular()
	return info, p.failed("read", err)
}

// Read returns the bytes of the regular file p, of at most limit bytes, and the
// stamp they were read under. A file that is being written in place is read
// again a few times until it held still; if it never does, the stamp is an old
// one and the bytes may be a mixture.
func (p Path) Read(limit int64) ([]byte, Stamp, error) {
	var data []byte
	stamp, err := p.read(func(f *opendir.File, size int64) (err error) {
		data, err = readWhole(f, nil, size, limit)
		return err
	})
	return data, stamp, err
}

// Hash returns the sha256 of the regular file p, of at most limit bytes, without
// holding it in memory. The stamp is as with Read.
func (p Path) Hash(limit int64) (sum [sha256.Size]byte, stamp Stamp, err error) {
	stamp, err = p.read(func(f *opendir.File, size int64) error {
		if size > limit {
			return &SizeError{Size: size, Limit: limit}
		}
		h := sha256.New()
		n, err := io.CopyBuffer(h, io.LimitReader(f, limit+1), make([]byte, max(min(size+1, 64<<10), 4<<10)))
		if err == nil && n > limit {
			err = &SizeError{Size: n, Limit: limit}
		}
		h.Sum(sum[:0])
		return err
	})
	return sum, stamp, err
}

// read opens p and hands it to use, again if it changed meanwhile.
func (p Path) read(use func(f *opendir.File, size int64) error) (Stamp, error) {
	f, err := p.base.dir.Open(p.Rel())
	if err != nil {
		return Stamp{}, p.failed("read", err)
	}
	defer f.Close()
	before, err := f.Regular()
	for tries := 0; err == nil; tries++ {
		if err = use(f, before.Size); err != nil {
			break
		}
		var after Info
		if after, err = f.Stat(); err != nil {
			break
		}
		if after.Stamp == before.Stamp || tries == 3 {
			return before.Stamp, nil
		}
		before = after
		_, err = f.Seek(0, io.SeekStart)
	}
	return Stamp{}, p.failed("read", err)
}

// readWhole reads to the end, into buf if it has room. A size of 0 means nothing:
// files of the kernel's own making say so and then have content.
func readWhole(f *opendir.File, buf []byte, size, limit int64) ([]byte, error) {
	if size > limit {
		return nil, &SizeError{Size: size, Limit: limit}
	}
	data := buf[:0]
	if int64(cap(data)) <= size {
		data = make([]byte, 0, max(size, 511)+1)
	}
	for {
		n, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > limit:
			return nil, &SizeError{Size: int64(len(data)), Limit: limit}
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, err
		case size > 0 && int64(len(data)) == size: // short of the room there was: the end
			return data, nil
		case len(data) == cap(data):
			data = append(data, 0)[:len(data)]
		}
	}
}
