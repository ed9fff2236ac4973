package archive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// Jobs keeps records of started commands in a database of its own, so that a
// restarted server can tell what became of them. Several servers may use it: a
// record belongs to the one that owner names. It is opened at its first use; a
// damaged one is set aside then, and a new one begun. Safe for concurrent use.
type Jobs struct {
	file string
	open func() (*sql.DB, error) // once
	used atomic.Bool             // open was called
}

// The table of records. What is in them is theirs who save them.
const (
	jobsID     = 0x41434d4a // "ACMJ"
	jobsSchema = `
CREATE TABLE job (
	id     TEXT PRIMARY KEY,
	owner  TEXT NOT NULL, -- the server whose job it is
	record BLOB NOT NULL
) WITHOUT ROWID;`
)

// NewJobs returns the records in a file, for its owner alone. It touches no disk.
func NewJobs(file string) *Jobs {
	j := &Jobs{file: file}
	j.open = sync.OnceValues(func() (*sql.DB, error) {
		j.used.Store(true)
		db, err := openJobs(file)
		if !Damaged(err) {
			return db, err
		}
		if _, aside := SetAside(file); aside != nil {
			return nil, errors.Join(err, aside)
		}
		return openJobs(file)
	})
	return j
}

func openJobs(file string) (*sql.DB, error) {
	if err := private(file); err != nil {
		return nil, err
	}
	db, err := dial(file, "_journal_mode=WAL", "_synchronous=NORMAL", "_txlock=immediate", "_pragma=journal_size_limit(1048576)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if err := createJobs(db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// createJobs makes the table in an empty database, and refuses one that is
// another's.
func createJobs(db *sql.DB) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	var app, tables int
	var verdict string
	err = tx.QueryRow(`SELECT (SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_schema)`).Scan(&app, &tables)
	if err == nil {
		err = tx.QueryRow(`PRAGMA quick_check(1)`).Scan(&verdict) // up to one finding
	}
	switch {
	case err != nil:
		return err
	case verdict != "ok":
		return fmt.Errorf("%w: %s", errDamaged, verdict)
	case app == jobsID:
		return nil
	case app != 0 || tables != 0:
		return fmt.Errorf("%w: it belongs to another program", ErrForeign)
	}
	if _, err := tx.Exec(fmt.Sprintf("%s PRAGMA application_id = %d", jobsSchema, jobsID)); err != nil {
		return err
	}
	return tx.Commit()
}

// SaveJob keeps the newest record of a job.
func (j *Jobs) SaveJob(ctx context.Context, id, owner string, record []byte) error {
	db, err := j.open()
	if err != nil {
		return fmt.Errorf("open %s: %w", j.file, err)
	}
	_, err = db.ExecContext(ctx, `INSERT OR REPLACE INTO job (id, owner, record) VALUES (?, ?, ?)`, id, owner, record)
	return err
}

// LoadJobs hands every record whose owner is gone to a new owner, who gets them
// by id. Of two servers that ask at once, one gets a record.
func (j *Jobs) LoadJobs(ctx context.Context, owner string, gone func(owner string) bool) (map[string][]byte, error) {
	db, err := j.open()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", j.file, err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	taken := make(map[string][]byte)
	judged := make(map[string]bool)
	err = each(ctx, tx, func(scan scanFunc) error {
		var id, whose string
		var record []byte
		if err := scan(&id, &whose, &record); err != nil {
			return err
		}
		if _, ok := judged[whose]; !ok {
			judged[whose] = gone(whose)
		}
		if judged[whose] {
			taken[id] = record
		}
		return nil
	}, `SELECT id, owner, record FROM job WHERE owner <> ?`, owner)
	if err != nil {
		return nil, err
	}
	for id := range taken {
		if _, err := tx.ExecContext(ctx, `UPDATE job SET owner = ? WHERE id = ?`, owner, id); err != nil {
			return nil, err
		}
	}
	return taken, tx.Commit()
}

// DeleteJobs forgets jobs.
func (j *Jobs) DeleteJobs(ctx context.Context, ids []string) error {
	db, err := j.open()
	if err != nil {
		return fmt.Errorf("open %s: %w", j.file, err)
	}
	_, err = db.ExecContext(ctx, `DELETE FROM job WHERE id IN (SELECT value FROM json_each(?))`, list(ids))
	return err
}

// Close ends all use of the database.
func (j *Jobs) Close() error {
	if !j.used.Load() {
		return nil
	}
	db, err := j.open()
	if err != nil {
		return nil //nolint:nilerr // who used it was told
	}
	return db.Close()
}
