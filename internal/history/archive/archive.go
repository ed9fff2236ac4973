// Package archive is the database of past contents: one SQLite file that holds
// who made which version of which file, the contents by their hash, the hash
// last seen of each file, and requests that wait for a lock. Beside it stands
// Jobs, a database of its own for records of started commands.
//
//	DB:     one writer, a few readers      Write(batch), Retain, Purge
//	Reader: a look from outside            List, Show, Purge
//
// Every batch is in the file in whole or not at all, and once Write has returned
// it survives a killed process; only a failing machine may take the last ones.
// The file is its owner's alone. Several processes may use it at once: what one
// has written, the next one finds. Methods are safe for concurrent use; who wants
// batches in order hands them over one at a time.
//
// When to write, what to keep in memory and what to do about a damaged file is
// left to package history.
package archive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Key names a file of a project. The path is absolute and resolved.
type Key struct{ Project, Path string }

// Author says who made a version.
type Author struct {
	Client   string
	Agent    string
	Session  string
	Tool     string
	External bool      // made by somebody outside of the server
	Time     time.Time // when
}

// OpDelete marks the version that a deletion removed. Other values of
// Version.Op are only ever shown.
const OpDelete = "delete"

// Version is one content that a file had.
type Version struct {
	ID      int64  // names it to people; 0 while it waits for the database
	Project string // project id
	Path    string // absolute and resolved
	Former  string // the path it was made at, when the file was renamed since
	Hash    string // "sha256:" and the hex digest of the bytes
	Size    int64  // in bytes
	Op      string // what made it: "read", "update", …
	By      Author
	Keep    bool // whether the content itself may be kept; in answers: whether it is
}

// Continues reports whether v, coming right after n, says nothing new.
func (v Version) Continues(n Version) bool {
	return n.Hash == v.Hash && (n.Op == OpDelete) == (v.Op == OpDelete) && (n.Keep || !v.Keep)
}

// Pending is a request that waits for a lock. It is kept to say, after a
// restart, what was cut off.
type Pending struct {
	ID       string
	Project  string
	Path     string
	Op       string
	QueuedAt time.Time
	TTL      time.Duration // past it the entry means nothing
}

// The tables. Times are microseconds since 1970, in UTC. A file keeps its row
// when it is renamed, so that its versions follow. A content belongs to the
// versions with its hash that are kept; without any it goes.
const (
	applicationID = 0x41434d48 // "ACMH"
	schemaVersion = 1
	schema        = `
CREATE TABLE file (
	id      INTEGER PRIMARY KEY,
	project TEXT NOT NULL,
	path    TEXT NOT NULL,
	hash    TEXT,              -- last seen; NULL: not in the registry
	UNIQUE (project, path)
);
CREATE TABLE version (
	id       INTEGER PRIMARY KEY AUTOINCREMENT,
	file     INTEGER NOT NULL REFERENCES file,
	hash     TEXT NOT NULL,
	size     INTEGER NOT NULL,
	kept     INTEGER NOT NULL, -- whether this version has its content
	op       TEXT NOT NULL,
	client   TEXT NOT NULL,
	agent    TEXT NOT NULL,
	session  TEXT NOT NULL,
	tool     TEXT NOT NULL,
	external INTEGER NOT NULL,
	at       INTEGER NOT NULL, -- when it was made
	due      INTEGER NOT NULL, -- from when on nothing holds it
	former   TEXT              -- path it was made at, when renamed since
);
CREATE INDEX version_file ON version (file);
CREATE INDEX version_hash ON version (hash);
CREATE TABLE content (
	id     INTEGER PRIMARY KEY,
	hash   TEXT NOT NULL UNIQUE,
	packed BLOB NOT NULL       -- zstd
);
CREATE TABLE pending (
	id        TEXT PRIMARY KEY,
	project   TEXT NOT NULL,
	path      TEXT NOT NULL,
	op        TEXT NOT NULL,
	queued_at INTEGER NOT NULL,
	expires   INTEGER NOT NULL,
	pid       INTEGER NOT NULL -- of the server it waits in
);`
)

var (
	// ErrForeign is returned for a database that belongs to another program, or
	// to a newer version of this one. It is not touched.
	ErrForeign = errors.New("not a history database of this version")
	// errDamaged is a database whose structure is broken.
	errDamaged = errors.New("the database is damaged")
)

// Damaged reports whether err says that the file itself is broken, as opposed to
// busy, full, not writable or somebody else's.
func Damaged(err error) bool {
	code := primary(err)
	return errors.Is(err, errDamaged) || code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

// primary returns SQLite's result code inside err, 0 for other errors.
func primary(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// suffixes name the database and the files that SQLite keeps beside it.
var suffixes = []string{"", "-wal", "-shm"}

// SetAside renames a damaged database, which nobody may have open, and returns
// its new name.
func SetAside(file string) (aside string, err error) {
	aside = file + ".damaged-" + time.Now().UTC().Format("20060102T150405.000000Z")
	for _, suffix := range suffixes {
		// With its log, so that what can be rescued is together.
		if err := os.Rename(file+suffix, aside+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("set %s aside: %w", file+suffix, err)
		}
	}
	return aside, nil
}

// DB is an open database.
type DB struct {
	Reader
	w    *sql.DB
	stmt statements
}

// Leftover is what an earlier run left behind.
type Leftover struct {
	Tracked map[Key]string // the hash last seen of each file
	Dropped []Pending      // requests whose clients are gone
	Expired int            // requests whose time was over
}

// Open opens or creates the database, readable by its owner alone, looks whether
// it is sound, and takes over what an earlier run left. Of the registry it takes
// at most so many files.
func Open(ctx context.Context, file string, files int) (*DB, Leftover, error) {
	if err := private(file); err != nil {
		return nil, Leftover{}, err
	}
	if err := inspect(ctx, file); err != nil {
		return nil, Leftover{}, err
	}
	d, err := open(ctx, file)
	if err != nil {
		return nil, Leftover{}, err
	}
	var left Leftover
	err = d.check(ctx)
	if err == nil {
		left, err = d.takeOver(ctx, files)
	}
	if err != nil {
		_ = d.Close() // the first error is the one that explains
		return nil, Leftover{}, err
	}
	return d, left, nil
}

// private makes sure of a regular file that nobody else can read. SQLite gives
// the files beside it the same permissions.
func private(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		return f.Close()
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, suffix := range suffixes {
		// By name: a file that is opened and closed here loses SQLite's locks.
		info, err := os.Stat(file + suffix)
		switch {
		case suffix != "" && errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return &fs.PathError{Op: "open", Path: file + suffix, Err: errors.New("not a regular file")}
		case info.Mode().Perm()&0o077 != 0:
			if err := os.Chmod(file+suffix, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// inspect looks whether the file is a database of ours, without changing it.
func inspect(ctx context.Context, file string) error {
	db, err := dial(file, "mode=ro")
	if err != nil {
		return err
	}
	_, err = schemaOf(ctx, db)
	return errors.Join(err, db.Close())
}

// schemaOf returns the schema version; 0 means an empty database.
func schemaOf(ctx context.Context, q interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
},
) (int, error) {
	var app, version, tables int
	err := q.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)`).Scan(&app, &version, &tables)
	switch {
	case err != nil:
		return 0, err
	case app == 0 && version == 0 && tables == 0:
		return 0, nil
	case app != applicationID:
		return 0, fmt.Errorf("%w: it belongs to another program", ErrForeign)
	case version != schemaVersion:
		return 0, fmt.Errorf("%w: it has schema %d, and this program knows %d", ErrForeign, version, schemaVersion)
	}
	return version, nil
}

// dial returns a handle with the settings that every connection has.
func dial(file string, settings ...string) (*sql.DB, error) {
	abs, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	path := filepath.ToSlash(abs)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/…
	}
	settings = append(settings, "_busy_timeout=5000", "_defensive=1", "_dqs=0", "_error_rc=1",
		"_pragma=trusted_schema(0)", "_pragma=cell_size_check(1)")
	name := url.URL{Scheme: "file", Path: path, RawQuery: strings.Join(settings, "&")}
	c, err := sqlite.NewConnector(name.String())
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

// open opens a database that is known to be empty or ours.
func open(ctx context.Context, file string) (*DB, error) {
	w, err := dial(file, "_auto_vacuum=INCREMENTAL", "_journal_mode=WAL", "_synchronous=NORMAL", "_txlock=immediate",
		"_pragma=journal_size_limit(4194304)")
	if err != nil {
		return nil, err
	}
	w.SetMaxOpenConns(1) // one writer
	d := &DB{w: w}
	err = d.create(ctx)
	if err == nil {
		err = d.stmt.prepare(ctx, w)
	}
	if err == nil {
		err = d.Reader.open(file)
	}
	if err != nil {
		_ = d.Close() // the first error is the one that explains
		return nil, err
	}
	return d, nil
}

// create makes the tables in a database that has none. Another process may be
// about to do the same.
func (d *DB) create(ctx context.Context) error {
	return d.transact(ctx, func(t *txn) {
		v, err := schemaOf(ctx, t.tx)
		if t.err = err; v == schemaVersion {
			return
		}
		t.run(fmt.Sprintf("%s; PRAGMA application_id = %d; PRAGMA user_version = %d", schema, applicationID, schemaVersion))
	})
}

// Close ends all use of the database.
func (d *DB) Close() error { return errors.Join(d.Reader.Close(), d.w.Close()) }

// check looks at the structure of the tables, the small ones first, for as long
// as a start may take. What it does not get to is found out in use.
func (d *DB) check(ctx context.Context) error {
	const enough = 250 * time.Millisecond
	limited, cancel := context.WithTimeout(ctx, enough)
	defer cancel()
	for _, table := range []string{"pending", "file", "version", "content"} {
		var verdict string
		err := d.w.QueryRowContext(limited, "PRAGMA quick_check("+table+")").Scan(&verdict)
		switch {
		case limited.Err() != nil || primary(err) == sqlite3.SQLITE_INTERRUPT:
			return context.Cause(ctx)
		case err != nil:
			return err
		case verdict != "ok":
			return fmt.Errorf("%w: table %s: %s", errDamaged, table, verdict)
		}
	}
	return nil
}

// takeOver reads what an earlier run left, and removes its requests. Those of a
// process that lives stay.
func (d *DB) takeOver(ctx context.Context, files int) (left Leftover, err error) {
	if left.Tracked, err = d.tracked(ctx, files); err != nil {
		return left, err
	}
	now := time.Now()
	var gone []string
	err = d.each(ctx, func(scan scanFunc) error {
		var p Pending
		var queued, expires int64
		var pid int
		if err := scan(&p.ID, &p.Project, &p.Path, &p.Op, &queued, &expires, &pid); err != nil {
			return err
		}
		p.QueuedAt = time.UnixMicro(queued)
		p.TTL = time.UnixMicro(expires).Sub(p.QueuedAt)
		switch {
		case expires <= now.UnixMicro():
			left.Expired++
		case pid != os.Getpid() && alive(pid):
			return nil
		default:
			left.Dropped = append(left.Dropped, p)
		}
		gone = append(gone, p.ID)
		return nil
	}, `SELECT id, project, path, op, queued_at, expires, pid FROM pending ORDER BY queued_at`)
	if err != nil || len(gone) == 0 {
		return left, err
	}
	return left, d.transact(ctx, func(t *txn) {
		for _, id := range gone {
			t.exec(d.stmt.dropPending, id)
		}
	})
}

// alive reports whether a process with this id runs.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	if runtime.GOOS == "windows" {
		return true
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, fs.ErrPermission)
}
