package archive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// ErrUnknown is returned by Show when there is no such version.
var ErrUnknown = errors.New("no version has this id")

// Filter selects versions. Its zero value selects all.
type Filter struct {
	Project string    // "": any
	Path    string    // a file, or a directory with all below it, by today's name or a former one; "": any
	Hash    string    // or its beginning, with "sha256:" or without
	Before  time.Time // made before; zero: any time
	Limit   int       // List: at most so many, the newest; 0: all
}

// Selects reports whether the filter selects v, whatever the limit.
func (f Filter) Selects(v Version) bool {
	return (f.Project == "" || v.Project == f.Project) &&
		(f.Path == "" || v.Path == f.Path || v.Former == f.Path || Below(f.Path, v.Path) || Below(f.Path, v.Former)) &&
		strings.HasPrefix(v.Hash, f.hash()) &&
		(f.Before.IsZero() || v.By.Time.Before(f.Before))
}

// where returns the same as a condition on version v and file f.
func (f Filter) where() (condition string, args []any) {
	condition = "WHERE 1"
	and := func(c string, a ...any) {
		condition += " AND " + c
		args = append(args, a...)
	}
	if f.Project != "" {
		and("f.project = ?", f.Project)
	}
	if f.Path != "" {
		low, high := span(f.Path)
		and("(f.path = ? OR v.former = ? OR f.path > ? AND f.path < ? OR v.former > ? AND v.former < ?)",
			f.Path, f.Path, low, high, low, high)
	}
	if f.Hash != "" {
		and("substr(v.hash, 1, length(?)) = ?", f.hash(), f.hash())
	}
	if !f.Before.IsZero() {
		and("v.at < ?", f.Before.UnixMicro())
	}
	return condition, args
}

// hashPrefix begins every hash.
const hashPrefix = "sha256:"

func (f Filter) hash() string {
	if f.Hash == "" || strings.HasPrefix(f.Hash, hashPrefix) {
		return f.Hash
	}
	return hashPrefix + f.Hash
}

// Reader reads a database, which a server may be writing to.
type Reader struct {
	file  string
	r     *sql.DB
	codec Codec
}

// View opens an existing database for a look from outside. It is fs.ErrNotExist
// when there is none, and ErrForeign when it is not ours.
func View(ctx context.Context, file string) (*Reader, error) {
	if _, err := os.Stat(file); err != nil {
		return nil, err
	}
	if err := inspect(ctx, file); err != nil {
		return nil, fmt.Errorf("open %s: %w", file, err)
	}
	r := &Reader{}
	return r, r.open(file)
}

func (r *Reader) open(file string) (err error) {
	r.file, r.codec = file, NewCodec()
	if r.r, err = dial(file, "mode=ro"); err == nil {
		r.r.SetMaxOpenConns(2)
		r.r.SetMaxIdleConns(2)
	}
	return err
}

// Close ends the look.
func (r *Reader) Close() error {
	if r.r == nil {
		return nil
	}
	return r.r.Close()
}

type scanFunc func(to ...any) error

// each calls fn for every row of the result.
func (r *Reader) each(ctx context.Context, fn func(scan scanFunc) error, query string, args ...any) error {
	return each(ctx, r.r, fn, query, args...)
}

func each(ctx context.Context, q interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}, fn func(scan scanFunc) error, query string, args ...any,
) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	for err == nil && rows.Next() {
		err = fn(rows.Scan)
	}
	return errors.Join(err, rows.Err(), rows.Close())
}

// versionColumns are those that Version.scan reads.
const versionColumns = `v.id, f.project, f.path, coalesce(v.former, ''), v.hash, v.size, v.kept, v.op, v.client, v.agent, v.session, v.tool, v.external, v.at`

func (v *Version) scan(scan scanFunc, more ...any) error {
	var at int64
	to := []any{
		&v.ID, &v.Project, &v.Path, &v.Former, &v.Hash, &v.Size, &v.Keep, &v.Op,
		&v.By.Client, &v.By.Agent, &v.By.Session, &v.By.Tool, &v.By.External, &at,
	}
	err := scan(append(to, more...)...)
	v.By.Time = time.UnixMicro(at)
	return err
}

// Find returns the newest version with this hash of the file that has one of
// these names, the first that has one counts. Its content is nil when it is not
// kept; ErrUnknown means that there is none.
func (r *Reader) Find(ctx context.Context, names []Key, hash string) ([]byte, Version, error) {
	for _, n := range names {
		content, v, err := r.one(ctx, `WHERE f.project = ? AND f.path = ? AND v.hash = ? ORDER BY v.id DESC LIMIT 1`, n.Project, n.Path, hash)
		if !errors.Is(err, ErrUnknown) {
			return content, v, err
		}
	}
	return nil, Version{}, ErrUnknown
}

// Show returns one version by its id, and its content, nil when that is not
// kept.
func (r *Reader) Show(ctx context.Context, id int64) ([]byte, Version, error) {
	return r.one(ctx, `WHERE v.id = ?`, id)
}

func (r *Reader) one(ctx context.Context, where string, args ...any) ([]byte, Version, error) {
	var v Version
	var packed []byte
	err := r.each(ctx, func(scan scanFunc) error { return v.scan(scan, &packed) },
		`SELECT `+versionColumns+`, c.packed FROM version v JOIN file f ON f.id = v.file
		LEFT JOIN content c ON v.kept AND c.hash = v.hash `+where, args...)
	switch {
	case err != nil:
		return nil, v, err
	case v.ID == 0:
		return nil, v, ErrUnknown
	case !v.Keep:
		return nil, v, nil
	}
	content, err := r.codec.verified(packed, v)
	if err != nil {
		return nil, v, &BadContent{Version: v, Err: err}
	}
	return content, v, nil
}

// BadContent is a content that is not what it was.
type BadContent struct {
	Version Version
	Err     error
}

func (e *BadContent) Error() string {
	return fmt.Sprintf("the content %s of %s is damaged: %v", e.Version.Hash, e.Version.Path, e.Err)
}

func (e *BadContent) Unwrap() error { return e.Err }

// Maker returns who made the newest version with this hash of the file that has
// one of these names; with current only when it is the newest of all.
func (r *Reader) Maker(ctx context.Context, names []Key, hash string, current bool) (by Author, ok bool, err error) {
	for _, n := range names {
		err = r.each(ctx, func(scan scanFunc) error {
			var v Version
			err := v.scan(scan)
			by, ok = v.By, v.Hash == hash
			return err
		}, `SELECT `+versionColumns+` FROM version v JOIN file f ON f.id = v.file
			WHERE f.project = ?1 AND f.path = ?2 AND (?4 OR v.hash = ?3) ORDER BY v.id DESC LIMIT 1`, n.Project, n.Path, hash, current)
		if ok || err != nil {
			break
		}
	}
	return by, ok, err
}

// tracked returns the registry, at most so many of the files added last.
func (r *Reader) tracked(ctx context.Context, files int) (map[Key]string, error) {
	all := make(map[Key]string)
	err := r.each(ctx, func(scan scanFunc) error {
		var key Key
		var hash string
		err := scan(&key.Project, &key.Path, &hash)
		all[key] = hash
		return err
	}, `SELECT project, path, hash FROM file WHERE hash IS NOT NULL ORDER BY id DESC LIMIT ?`, files)
	return all, err
}

// List returns the versions that the filter selects, the newest first.
func (r *Reader) List(ctx context.Context, f Filter) ([]Version, error) {
	where, args := f.where()
	limit := -1
	if f.Limit > 0 {
		limit = f.Limit
	}
	var all []Version
	err := r.each(ctx, func(scan scanFunc) error {
		var v Version
		err := v.scan(scan)
		all = append(all, v)
		return err
	}, `SELECT `+versionColumns+` FROM version v JOIN file f ON f.id = v.file `+where+` ORDER BY v.id DESC LIMIT ?`,
		append(slices.Clip(args), limit)...)
	return all, err
}

// Purge forgets the versions that the filter selects and returns how many those
// were. A running server may have some of them in memory still: ask it instead.
func (r *Reader) Purge(ctx context.Context, f Filter) (int, error) {
	d, err := open(ctx, r.file)
	if err != nil {
		return 0, err
	}
	n, err := d.Purge(ctx, f)
	return n, errors.Join(err, d.Close())
}
