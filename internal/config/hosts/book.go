package hosts

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/config/splice"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// The files of a Book in its directory.
const (
	BookFile = "hosts.json"
	lockFile = "hosts.lock"
)

// Own is the name under which our own settings file stands in a Book.
const Own = "settings"

const bookHelp = "What async-crud-mcp changed in the files of MCP hosts. Written by quick-install and setup, read by uninstall, which takes it back."

// ErrMoved is returned for a file that changed between the plan and the change.
var ErrMoved = errors.New("it has changed meanwhile; nothing was done to it, run the command again")

// Book remembers what was changed in files of others, in one file of a directory
// of ours. It is read anew for every question, and processes take turns. It is
// safe for concurrent use.
type Book struct{ dir string }

// NewBook returns the book in a directory, which need not exist.
func NewBook(dir string) *Book { return &Book{dir: dir} }

// Record is what was done to one file.
type Record struct {
	Host    string    `json:"host"`
	Path    string    `json:"path"`
	Existed bool      `json:"existed"`
	Dirs    []string  `json:"dirs,omitempty"`   // that were made for it
	Backup  string    `json:"backup,omitempty"` // the bytes it had before
	After   string    `json:"after"`            // hash of the bytes it was given
	Whole   bool      `json:"whole"`            // nobody else had changed it in between
	Edits   []Edit    `json:"edits,omitempty"`  // none: the whole file is ours
	At      time.Time `json:"at"`
}

type bookFile struct {
	Comment string   `json:"_help"`
	Files   []Record `json:"files"`
}

// Records returns what was done, in the order it was.
func (b *Book) Records() ([]Record, error) {
	path := filepath.Join(b.dir, BookFile)
	raw, err := fsys.ReadFile(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var f bookFile
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return f.Files, nil
}

func (b *Book) write(records []Record) error {
	if len(records) == 0 {
		err := fsys.RemoveFile(filepath.Join(b.dir, BookFile))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	raw, err := encode(bookFile{bookHelp, records})
	if err != nil {
		return err
	}
	return fsys.WriteFile(filepath.Join(b.dir, BookFile), raw, 0o600)
}

// locked runs do while no other process changes the book, and leaves no trace
// when the book is empty afterwards.
func (b *Book) locked(do func() error) error {
	if err := fsys.MkdirPrivate(b.dir); err != nil {
		return err
	}
	lock := filepath.Join(b.dir, lockFile)
	err := fsys.Locked(lock, func() error {
		err := do()
		if !fsys.Exists(filepath.Join(b.dir, BookFile)) {
			_ = os.Remove(lock) // who waits for it finds the book as it is
		}
		return err
	})
	_ = os.Remove(b.dir) // only when nothing is left in it
	return err
}

// Apply makes one change: a copy of the old bytes beside the file, the record,
// then the file, in one step and with its old permissions. It returns the path
// of the copy, "" when there was nothing to copy.
func (b *Book) Apply(c Change, perm fs.FileMode) (backup string, err error) {
	ours := missing(b.dir)
	err = b.locked(func() error {
		records, err := b.Records()
		if err != nil {
			return err
		}
		now, err := read(c.Path)
		switch {
		case err != nil:
			return err
		case (now == nil) != (c.Before == nil) || string(now) != string(c.Before):
			return fmt.Errorf("%s: %w", c.Path, ErrMoved)
		}
		if info, err := os.Stat(c.Path); err == nil {
			perm = info.Mode().Perm()
		}
		r := Record{Host: c.Host, Path: c.Path, Existed: c.Before != nil, Whole: true, Edits: c.Edits, After: sum(c.After), At: time.Now().UTC().Truncate(time.Second)}
		i := slices.IndexFunc(records, func(old Record) bool { return old.Path == c.Path })
		if i >= 0 {
			r = again(records[i], r, sum(c.Before))
			records[i] = r
		} else {
			if r.Dirs, err = mkdirs(filepath.Dir(c.Path), perm); err != nil {
				return err
			}
			if r.Existed {
				if r.Backup, err = keep(c.Path, c.Before, perm); err != nil {
					return err
				}
			}
			if len(ours) > 0 {
				r.Dirs = append(r.Dirs, ours[1:]...) // the book's own directory goes with the book
			}
			records = append(records, r)
		}
		backup = r.Backup
		if err := b.write(records); err != nil {
			return err
		}
		return fsys.WriteFile(c.Path, c.After, perm)
	})
	return backup, err
}

// again is the record of a file that was changed before: what it was before the
// first time counts.
func again(old, next Record, before string) Record {
	next.Existed, next.Dirs, next.Backup = old.Existed, old.Dirs, old.Backup
	next.Whole = old.Whole && old.After == before
	edits := slices.Clone(old.Edits)
	for _, e := range next.Edits {
		i := slices.IndexFunc(edits, func(o Edit) bool { return o.Kind == e.Kind && slices.Equal(o.Path, e.Path) })
		switch {
		case i < 0:
			edits = append(edits, e)
		case e.Kind == kindItems:
			edits[i].Items = append(edits[i].Items, e.Items...)
			edits[i].Made += e.Made
		case e.Made > 0: // somebody had taken it out
			edits[i].Made, edits[i].Previous = e.Made, nil
		}
	}
	next.Edits = edits
	return next
}

// keep copies the old bytes beside the file under a name that is free.
func keep(path string, data []byte, perm fs.FileMode) (string, error) {
	for n := 0; ; n++ {
		name := path + "." + ServerName + ".bak"
		if n > 0 {
			name += fmt.Sprint(n)
		}
		if fsys.Exists(name) {
			continue
		}
		return name, fsys.WriteFile(name, data, perm)
	}
}

// mkdirs makes a directory and says which ones were missing, the innermost
// first.
func mkdirs(dir string, file fs.FileMode) ([]string, error) {
	made := missing(dir)
	perm := fs.FileMode(0o700)
	if file&0o044 != 0 {
		perm = 0o755
	}
	return made, os.MkdirAll(dir, perm)
}

// missing returns the directories on the way to dir that do not exist, the
// innermost first.
func missing(dir string) []string {
	var list []string
	for ; !fsys.Exists(dir); dir = filepath.Dir(dir) {
		list = append(list, dir)
	}
	return list
}

// Undo returns the changes that take back what was done for hosts, for all of
// them when none is named. A change whose After is nil removes a file that did
// not exist before.
func (b *Book) Undo(names ...string) ([]Change, error) {
	records, err := b.Records()
	if err != nil {
		return nil, err
	}
	var changes []Change
	for _, r := range slices.Backward(records) {
		if len(names) > 0 && !slices.Contains(names, r.Host) {
			continue
		}
		c, err := r.undo()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Path, err)
		}
		changes = append(changes, c)
	}
	return changes, nil
}

func (r Record) undo() (Change, error) {
	c := Change{Host: r.Host, Path: r.Path}
	var err error
	if c.Before, err = read(r.Path); err != nil {
		return c, err
	}
	c.After = c.Before
	if c.Before == nil {
		c.Note = "it is gone already"
		return c, nil
	}
	if r.Whole && sum(c.Before) == r.After { // nobody has touched it since
		if !r.Existed {
			c.After = nil
			return c, nil
		}
		if old, err := read(r.Backup); err == nil && old != nil {
			c.After = old
			return c, nil
		}
	}
	if len(r.Edits) == 0 {
		c.Note = "it has been edited since and stays"
		return c, nil
	}
	format := "json"
	if strings.HasSuffix(r.Path, ".toml") {
		format = "toml"
	}
	for _, e := range slices.Backward(r.Edits) {
		if c.After, err = e.undo(format, c.After); err != nil {
			return c, err
		}
	}
	if !r.Existed && splice.Empty(format, c.After) {
		c.After = nil
	}
	return c, nil
}

// TakeBack makes a change of Undo's and forgets it: the copy of the old bytes and
// the directories that were made go too.
func (b *Book) TakeBack(c Change) error {
	var dirs []string
	err := b.locked(func() error {
		records, err := b.Records()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(records, func(r Record) bool { return r.Path == c.Path })
		if i < 0 {
			return nil // somebody was faster
		}
		now, err := read(c.Path)
		switch {
		case err != nil:
			return err
		case (now == nil) != (c.Before == nil) || string(now) != string(c.Before):
			return fmt.Errorf("%s: %w", c.Path, ErrMoved)
		case c.After == nil && c.Before != nil:
			err = fsys.RemoveFile(c.Path)
		case string(c.After) != string(c.Before):
			var info fs.FileInfo
			if info, err = os.Stat(c.Path); err == nil {
				err = fsys.WriteFile(c.Path, c.After, info.Mode().Perm())
			}
		}
		if err != nil {
			return err
		}
		r := records[i]
		if err := b.write(slices.Delete(records, i, i+1)); err != nil {
			return err
		}
		if r.Backup != "" {
			if err := fsys.RemoveFile(r.Backup); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		dirs = r.Dirs
		return nil
	})
	for _, dir := range dirs {
		_ = os.Remove(dir) // only when nothing is left in it
	}
	return err
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// encode returns v as indented JSON.
func encode(v any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return []byte(b.String()), err
}
