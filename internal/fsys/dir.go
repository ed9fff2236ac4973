package fsys

import (
	"path/filepath"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/commit"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/opendir"
)

// Dir is an opened directory, for those who go through a tree by themselves and
// want it fast: what is in it is reached without its path, and links are met, not
// followed. It belongs to one goroutine, which closes it.
type Dir struct {
	path Path
	dir  *opendir.Dir
}

// DirEntry is a name in a directory, and what stands there, as the directory says.
type DirEntry = opendir.Entry

// OpenDir opens the directory p.
func (p Path) OpenDir() (*Dir, error) {
	d, err := p.base.dir.Dir(p.Rel())
	if err != nil {
		return nil, p.failed("open", err)
	}
	return &Dir{path: p, dir: d}, nil
}

// In returns the path of a name in the directory p.
func (p Path) In(name string) Path {
	return Path{base: p.base, abs: filepath.Join(p.abs, name)}
}

// Close closes the directory.
func (d *Dir) Close() { d.dir.Close() }

// Path returns the path of a name that Entries gave.
func (d *Dir) Path(name string) Path {
	return d.path.In(name)
}

// Stat looks at a name in the directory. A link is told as such.
func (d *Dir) Stat(name string) (Info, error) {
	info, err := d.dir.Stat(name)
	if err != nil {
		return Info{}, d.Path(name).failed("stat", err)
	}
	return info, nil
}

// Entries returns what is in the directory, in no order, without temp files of
// ours.
func (d *Dir) Entries() ([]DirEntry, error) {
	all, err := d.dir.Read()
	kept := all[:0]
	for _, e := range all {
		if !commit.IsTemp(e.Name) {
			kept = append(kept, e)
		}
	}
	return kept, d.path.failed("list", err)
}

// ReadFile returns the bytes of the regular file name, of at most limit bytes, in
// buf if there is room, and the stamp it had before. Who writes it in place
// meanwhile may cause a mixture.
func (d *Dir) ReadFile(name string, buf []byte, limit int64) ([]byte, Stamp, error) {
	f, err := d.dir.Open(name)
	if err != nil {
		return nil, Stamp{}, d.Path(name).failed("read", err)
	}
	defer f.Close()
	info, err := f.Regular()
	var data []byte
	if err == nil {
		data, err = readWhole(f, buf, info.Size, limit)
	}
	if err != nil {
		return nil, Stamp{}, d.Path(name).failed("read", err)
	}
	return data, info.Stamp, nil
}
