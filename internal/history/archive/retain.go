package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Limits are what the database is kept within.
type Limits struct {
	Bytes    int64         // of the file
	Age      time.Duration // of versions, since nothing holds them
	Versions int           // newest ones of each file that go after the rest
}

// rowCost is about what a version takes beside its packed content.
const rowCost = 512

// makeRoom removes versions when the database would grow past its bound. It
// reports whether the file is larger than that already.
func (d *DB) makeRoom(t *txn, l Limits, incoming int64) (tooLarge bool) {
	number := func(pragma string) (n int64) {
		t.each(func(scan scanFunc) error { return scan(&n) }, "PRAGMA "+pragma)
		return n
	}
	size := number("page_size")
	pages := number("page_count")
	used := (pages - number("freelist_count")) * size
	if used+incoming > l.Bytes {
		// A tenth more, so that not every batch has to look for what goes.
		d.evict(t, used+incoming-l.Bytes+l.Bytes/10, l.Versions)
	}
	return pages*size > l.Bytes
}

// evict removes versions worth so many bytes. First go those that nothing holds:
// of them those beyond the number that each file is to keep, then older ones,
// then the newest of a file; and then the others the same way. Among equals the
// longest unused goes first.
func (d *DB) evict(t *txn, bytes int64, versions int) {
	var ids []int64
	gone := make(map[string]int64) // versions that go, by their content
	errEnough := errors.New("enough")
	t.each(func(scan scanFunc) error {
		if bytes <= 0 {
			return errEnough
		}
		var id, length, refs int64
		var hash string
		if err := scan(&id, &hash); err != nil {
			return err
		}
		ids = append(ids, id)
		bytes -= rowCost
		if hash == "" {
			return nil
		}
		t.scan(d.stmt.weigh, []any{hash}, &length, &refs)
		if gone[hash]++; gone[hash] == refs {
			bytes -= length
		}
		return t.err
	}, `SELECT id, iif(kept, hash, '') FROM (SELECT *, row_number() OVER (PARTITION BY file ORDER BY id DESC) AS age FROM version)
		ORDER BY due > ?1, CASE WHEN age = 1 THEN 2 WHEN age > ?2 THEN 0 ELSE 1 END, due, id`, time.Now().UnixMicro(), versions)
	if errors.Is(t.err, errEnough) {
		t.err = nil
	}
	t.remove(`id IN (SELECT value FROM json_each(?))`, list(ids))
}

// remove deletes versions with the contents and files that none needs any more,
// and returns how many versions those were.
func (t *txn) remove(where string, args ...any) (n int) {
	hashes, files := make(map[string]bool), make(map[int64]bool)
	t.each(func(scan scanFunc) error {
		var hash string
		var file int64
		err := scan(&hash, &file)
		hashes[hash], files[file] = true, true
		n++
		return err
	}, `DELETE FROM version WHERE `+where+` RETURNING hash, file`, args...)
	t.run(`DELETE FROM content WHERE hash IN (SELECT value FROM json_each(?))
		AND NOT EXISTS (SELECT 1 FROM version v WHERE v.hash = content.hash AND v.kept)`, list(slices.Collect(maps.Keys(hashes))))
	t.run(`DELETE FROM file WHERE id IN (SELECT value FROM json_each(?)) AND hash IS NULL
		AND NOT EXISTS (SELECT 1 FROM version v WHERE v.file = file.id)`, list(slices.Collect(maps.Keys(files))))
	return n
}

// list is how many values travel in one parameter.
func list[T int64 | string](values []T) string {
	b, err := json.Marshal(values)
	if err != nil {
		panic(err) // numbers and strings
	}
	return string(b)
}

// Retain removes versions that nothing has held for longer than their age, and
// brings the file within its bound.
func (d *DB) Retain(ctx context.Context, l Limits) error {
	err := d.transact(ctx, func(t *txn) {
		t.remove(`due < ?`, time.Now().Add(-l.Age).UnixMicro())
		d.makeRoom(t, l, 0)
	})
	if err != nil {
		return err
	}
	return d.shrink(ctx, l.Bytes)
}

// shrink gives pages that are not in use back to the file system, down to the
// bound.
func (d *DB) shrink(ctx context.Context, bound int64) error {
	var surplus int64
	err := d.w.QueryRowContext(ctx, `SELECT page_count - ? / page_size FROM pragma_page_count, pragma_page_size`, bound).Scan(&surplus)
	if err != nil || surplus <= 0 {
		return err
	}
	_, err = d.w.ExecContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", surplus))
	return err
}

// Purge removes what the filter selects, overwrites it, and returns how many
// versions that were.
func (d *DB) Purge(ctx context.Context, f Filter) (n int, err error) {
	if _, err := d.w.ExecContext(ctx, "PRAGMA secure_delete = ON"); err != nil {
		return 0, err
	}
	defer func() {
		_, off := d.w.ExecContext(context.WithoutCancel(ctx), "PRAGMA secure_delete = OFF")
		err = errors.Join(err, off)
	}()
	where, args := f.where()
	err = d.transact(ctx, func(t *txn) {
		n = t.remove(`id IN (SELECT v.id FROM version v JOIN file f ON f.id = v.file `+where+`)`, args...)
	})
	if err != nil {
		return 0, err
	}
	// The log holds copies too, until it is written back and cut.
	for _, p := range []string{"incremental_vacuum", "wal_checkpoint(TRUNCATE)"} {
		if _, err := d.w.ExecContext(ctx, "PRAGMA "+p); err != nil {
			return n, err
		}
	}
	return n, nil
}
