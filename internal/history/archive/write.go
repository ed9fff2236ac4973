package archive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Batch is what goes to the database in one transaction: first the moves, in
// order, then everything under the names it has after them.
type Batch struct {
	Moves    []Move
	Drafts   []*Draft            // oldest first
	Registry map[Key]string      // hash last seen; "": not in the registry any more
	Pending  map[string]*Pending // by id; nil: waits no longer
}

// Move is a change that has to be made in order: a file or a tree that came
// under another name, or a hash handed out for a version that is in the database
// already.
type Move struct {
	From, To Key
	Tree     bool      // everything below From
	Pin      string    // the hash; then From is the file
	Due      time.Time // from when on the pin is over
}

// Renamed returns the name that a file named to had before the move, and false
// when the move was not about it.
func (m Move) Renamed(to Key) (from Key, ok bool) {
	switch {
	case m.Pin != "" || to.Project != m.To.Project:
		return Key{}, false
	case m.Tree && Below(m.To.Path, to.Path):
		return Key{m.From.Project, m.From.Path + strings.TrimPrefix(to.Path, m.To.Path)}, true
	default:
		return m.From, !m.Tree && to == m.To
	}
}

// Draft is a version on its way to the database.
type Draft struct {
	Version
	Due    time.Time // from when on nothing holds it
	Packed []byte    // its content, when it is kept and not in the database
	Row    int64     // where it is; 0: not there. Set by Write
	Known  *Version  // set by Write when the database had it already, by this author
}

const separator = string(filepath.Separator)

// Below reports whether path lies below the directory dir.
func Below(dir, path string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(dir, separator)+separator)
}

// span returns the bounds between which every path below dir sorts.
func span(dir string) (low, high string) {
	low = strings.TrimSuffix(dir, separator) + separator
	return low, low[:len(low)-1] + string(rune(filepath.Separator+1))
}

// statements are those of every batch.
type statements struct {
	addFile, fileID, renameFile, dropFile, setHash *sql.Stmt
	newest, addVersion, pin, pinHash, former       *sql.Stmt
	moveVersions, addContent, weigh                *sql.Stmt
	addPending, dropPending                        *sql.Stmt
}

func (s *statements) prepare(ctx context.Context, db *sql.DB) error {
	for _, p := range []struct {
		stmt  **sql.Stmt
		query string
	}{
		{&s.addFile, `INSERT INTO file (project, path) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET path = ?2 RETURNING id`},
		{&s.fileID, `SELECT id FROM file WHERE project = ? AND path = ?`},
		{&s.renameFile, `UPDATE file SET path = ?2 WHERE id = ?1`},
		{&s.dropFile, `DELETE FROM file WHERE id = ?1 AND hash IS NULL AND NOT EXISTS (SELECT 1 FROM version WHERE file = ?1)`},
		{&s.setHash, `UPDATE file SET hash = nullif(?2, '') WHERE id = ?1`},
		{&s.newest, `SELECT ` + versionColumns + ` FROM version v JOIN file f ON f.id = v.file WHERE v.file = ? ORDER BY v.id DESC LIMIT 1`},
		{&s.addVersion, `INSERT INTO version (file, hash, size, kept, op, client, agent, session, tool, external, at, due, former)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, ''))`},
		{&s.pin, `UPDATE version SET due = max(due, ?2) WHERE id = ?1`},
		{&s.pinHash, `UPDATE version SET due = max(due, ?3) WHERE id = (SELECT max(id) FROM version WHERE file = ?1 AND hash = ?2)`},
		{&s.former, `UPDATE version SET former = ?2 WHERE file = ?1 AND former IS NULL`},
		{&s.moveVersions, `UPDATE version SET file = ?2 WHERE file = ?1`},
		{&s.addContent, `INSERT INTO content (hash, packed) VALUES (?, ?) ON CONFLICT DO NOTHING`},
		{&s.weigh, `SELECT length(packed), (SELECT count(*) FROM version WHERE hash = ?1 AND kept) FROM content WHERE hash = ?1`},
		{&s.addPending, `INSERT OR REPLACE INTO pending (id, project, path, op, queued_at, expires, pid) VALUES (?, ?, ?, ?, ?, ?, ?)`},
		{&s.dropPending, `DELETE FROM pending WHERE id = ?`},
	} {
		var err error
		if *p.stmt, err = db.PrepareContext(ctx, p.query); err != nil {
			return fmt.Errorf("prepare %q: %w", p.query, err)
		}
	}
	return nil
}

// txn is one transaction; after an error the rest does nothing.
type txn struct {
	ctx context.Context //nolint:containedctx // it lives for one call of transact
	tx  *sql.Tx
	err error
}

// transact runs fn in a transaction, in whole or not at all.
func (d *DB) transact(ctx context.Context, fn func(t *txn)) error {
	tx, err := d.w.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	t := &txn{ctx: ctx, tx: tx}
	if fn(t); t.err != nil {
		return errors.Join(t.err, tx.Rollback())
	}
	return tx.Commit()
}

// exec returns the id of the row that was inserted last.
func (t *txn) exec(stmt *sql.Stmt, args ...any) int64 {
	if t.err != nil {
		return 0
	}
	var r sql.Result
	if r, t.err = t.tx.StmtContext(t.ctx, stmt).ExecContext(t.ctx, args...); t.err != nil {
		return 0
	}
	id, _ := r.LastInsertId() // SQLite has one
	return id
}

// run is exec for what is not worth preparing.
func (t *txn) run(query string, args ...any) {
	if t.err == nil {
		_, t.err = t.tx.ExecContext(t.ctx, query, args...)
	}
}

// scan reads the first row into what to points at; without a row it stays as it
// is.
func (t *txn) scan(stmt *sql.Stmt, args []any, to ...any) {
	if t.err != nil {
		return
	}
	t.err = t.tx.StmtContext(t.ctx, stmt).QueryRowContext(t.ctx, args...).Scan(to...)
	if errors.Is(t.err, sql.ErrNoRows) {
		t.err = nil
	}
}

// id returns the only column of the first row, 0 when there is none.
func (t *txn) id(stmt *sql.Stmt, args ...any) (id int64) {
	t.scan(stmt, args, &id)
	return id
}

// each calls fn for every row of the result.
func (t *txn) each(fn func(scan scanFunc) error, query string, args ...any) {
	if t.err == nil {
		t.err = each(t.ctx, t.tx, fn, query, args...)
	}
}

// Write puts a batch into the database, which makes room for it within its
// limits. The drafts learn where they are.
func (d *DB) Write(ctx context.Context, b *Batch, l Limits) error {
	var incoming int64
	for _, v := range b.Drafts {
		incoming += int64(len(v.Packed)) + rowCost
	}
	tooLarge := false
	err := d.transact(ctx, func(t *txn) {
		for _, m := range b.Moves {
			d.move(t, m)
		}
		tooLarge = d.makeRoom(t, l, incoming)
		for _, v := range b.Drafts {
			d.save(t, v)
		}
		for key, hash := range b.Registry {
			d.track(t, key, hash)
		}
		for id, p := range b.Pending {
			if p == nil {
				t.exec(d.stmt.dropPending, id)
				continue
			}
			t.exec(d.stmt.addPending, id, p.Project, p.Path, p.Op, p.QueuedAt.UnixMicro(), p.QueuedAt.Add(p.TTL).UnixMicro(), os.Getpid())
		}
	})
	if err == nil && tooLarge {
		err = d.shrink(ctx, l.Bytes)
	}
	return err
}

func (d *DB) track(t *txn, key Key, hash string) {
	if hash != "" {
		t.exec(d.stmt.setHash, t.id(d.stmt.addFile, key.Project, key.Path), hash)
		return
	}
	if id := t.id(d.stmt.fileID, key.Project, key.Path); id != 0 {
		t.exec(d.stmt.setHash, id, "")
		t.exec(d.stmt.dropFile, id)
	}
}

// save inserts a version, or notes the one that says the same already: written
// before a restart, or by another process.
func (d *DB) save(t *txn, v *Draft) {
	if v.Row != 0 {
		t.exec(d.stmt.pin, v.Row, v.Due.UnixMicro())
		return
	}
	file := t.id(d.stmt.addFile, v.Project, v.Path)
	var n Version
	t.err = n.scan(func(to ...any) error {
		t.scan(d.stmt.newest, []any{file}, to...)
		return t.err
	})
	if n.Hash != "" && v.Continues(n) {
		v.Row, v.Known = n.ID, &n
		t.exec(d.stmt.pin, v.Row, v.Due.UnixMicro())
		return
	}
	if v.Keep {
		t.exec(d.stmt.addContent, v.Hash, v.Packed)
	}
	v.Row = t.exec(d.stmt.addVersion, file, v.Hash, v.Size, v.Keep, v.Op, v.By.Client, v.By.Agent, v.By.Session, v.By.Tool,
		v.By.External, v.By.Time.UnixMicro(), v.Due.UnixMicro(), v.Former)
}

// move renames files, or pins a version.
func (d *DB) move(t *txn, m Move) {
	switch {
	case m.Pin != "":
		t.exec(d.stmt.pinHash, t.id(d.stmt.fileID, m.From.Project, m.From.Path), m.Pin, m.Due.UnixMicro())
	case !m.Tree:
		d.rename(t, m.From, m.To)
	default:
		var paths []string
		low, high := span(m.From.Path)
		t.each(func(scan scanFunc) error {
			var path string
			err := scan(&path)
			paths = append(paths, path)
			return err
		}, `SELECT path FROM file WHERE project = ? AND path > ? AND path < ? ORDER BY path`, m.From.Project, low, high)
		for _, path := range paths {
			d.rename(t, Key{m.From.Project, path}, Key{m.To.Project, m.To.Path + strings.TrimPrefix(path, m.From.Path)})
		}
	}
}

func (d *DB) rename(t *txn, from, to Key) {
	id := t.id(d.stmt.fileID, from.Project, from.Path)
	if id == 0 {
		return
	}
	t.exec(d.stmt.former, id, from.Path)
	if there := t.id(d.stmt.fileID, to.Project, to.Path); there != 0 {
		t.exec(d.stmt.moveVersions, there, id)
		t.exec(d.stmt.setHash, there, "")
		t.exec(d.stmt.dropFile, there)
	}
	t.exec(d.stmt.renameFile, id, to.Path)
}
