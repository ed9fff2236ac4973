package history

import (
	"context"
	"errors"
	"slices"

	"github.com/async-crud-mcp/async-crud-mcp/internal/history/archive"
)

// ErrUnknown is returned by Show when there is no such version.
var ErrUnknown = archive.ErrUnknown

// Versions returns what is known of the file's past, the newest first.
func (s *Store) Versions(ctx context.Context, project, path string) ([]Version, error) {
	all, err := s.List(ctx, Filter{Project: project, Path: path})
	return slices.DeleteFunc(all, func(v Version) bool { return v.Path != path }), err
}

// List returns the versions that the filter selects, the newest first.
func (s *Store) List(ctx context.Context, f Filter) ([]Version, error) {
	// What cannot be written is listed from memory.
	if err := s.Flush(ctx); err != nil && ctx.Err() != nil {
		return nil, err
	}
	s.mu.Lock()
	db := s.db
	var all []Version
	for _, v := range s.selectLocked(f, s.writesVersionsLocked()) {
		all = append(all, v.Version)
	}
	s.mu.Unlock()
	if db != nil {
		written, err := db.List(ctx, f)
		if err != nil {
			s.suspect(db, err)
			return nil, err
		}
		all = append(all, written...)
	}
	if f.Limit > 0 && len(all) > f.Limit {
		all = all[:f.Limit]
	}
	return all, nil
}

// selectLocked returns the versions in memory that the filter selects, the newest
// first; with unwritten only those that the database does not have.
func (s *Store) selectLocked(f Filter, unwritten bool) []*version {
	var all []*version
	for _, file := range s.files {
		for _, v := range file.versions {
			if f.Selects(v.Version) && (!unwritten || v.row == 0) {
				all = append(all, v)
			}
		}
	}
	slices.SortFunc(all, func(a, b *version) int { return bySeq(b, a) })
	return all
}

// Show returns one version by its id, and its content, nil when that is not
// kept.
func (s *Store) Show(ctx context.Context, id int64) ([]byte, Version, error) {
	s.mu.Lock()
	db := s.db
	if v := s.numberedLocked(id); v != nil {
		known, raw, packed := v.bytesLocked()
		s.mu.Unlock()
		bytes, _ := s.unpack(known, raw, packed)
		return bytes, known, nil
	}
	s.mu.Unlock()
	if db == nil {
		return nil, Version{}, ErrUnknown
	}
	bytes, v, err := db.Show(ctx, id)
	if err != nil {
		s.suspect(db, err)
	}
	return bytes, v, err
}

func (s *Store) numberedLocked(id int64) *version {
	for _, f := range s.files {
		for _, v := range f.versions {
			if v.ID == id && id != 0 {
				return v
			}
		}
	}
	return nil
}

// Purge forgets the versions that the filter selects, in memory and in the
// database, and returns how many those were. The registry stays.
func (s *Store) Purge(ctx context.Context, f Filter) (int, error) {
	if err := s.take(ctx); err != nil {
		return 0, err
	}
	defer s.give()
	notWritten := s.flush(ctx)
	s.mu.Lock()
	db := s.db
	n := len(s.selectLocked(f, s.writesVersionsLocked()))
	for _, v := range s.selectLocked(f, false) {
		s.dropLocked(v)
	}
	s.mu.Unlock()
	if db == nil {
		return n, nil
	}
	written, err := db.Purge(ctx, f)
	if err != nil {
		s.suspect(db, err)
		return n, errors.Join(notWritten, err)
	}
	return n + written, nil
}
