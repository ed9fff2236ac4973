package history

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/history/archive"
)

// Track notes the hash of the file as the server saw it last. The registry is
// bounded: files it has not heard of for long are forgotten.
func (s *Store) Track(project, path, hash string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setHashLocked(s.fileLocked(archive.Key{Project: project, Path: path}), hash)
}

// Untrack takes the file out of the registry. Its history stays.
func (s *Store) Untrack(project, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[archive.Key{Project: project, Path: path}]; f != nil {
		s.setHashLocked(f, "")
	}
}

// Tracked returns the hash the server saw last.
func (s *Store) Tracked(project, path string) (hash string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[archive.Key{Project: project, Path: path}]
	if f == nil || f.hash == "" {
		return "", false
	}
	return f.hash, true
}

// Count returns how many files of the project are in the registry; of all
// projects for "".
func (s *Store) Count(project string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if project == "" {
		return s.trackedLocked()
	}
	return s.tracked[project]
}

// Paths returns the files of the project that are in the registry, sorted.
func (s *Store) Paths(project string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var paths []string
	for key, f := range s.files {
		if key.Project == project && f.hash != "" {
			paths = append(paths, key.Path)
		}
	}
	slices.Sort(paths)
	return paths
}

func (s *Store) trackedLocked() int {
	n := 0
	for _, files := range s.tracked {
		n += files
	}
	return n
}

// setHashLocked changes the registry; "" takes the file out.
func (s *Store) setHashLocked(f *file, hash string) {
	s.uses++
	f.seen = s.uses
	if f.hash == hash {
		return
	}
	switch {
	case f.hash == "":
		s.tracked[f.key.Project]++
	case hash == "":
		s.countDownLocked(f.key.Project)
	}
	f.hash = hash
	if s.db != nil {
		s.registry[f.key] = hash
		s.lateLocked()
	}
	if hash == "" {
		s.dropEmptyLocked(f)
	} else if s.trackedLocked() > maxTracked {
		s.untrackOldLocked()
	}
}

func (s *Store) countDownLocked(project string) {
	if s.tracked[project]--; s.tracked[project] == 0 {
		delete(s.tracked, project)
	}
}

// untrackOldLocked forgets a file that was not heard of for long: the oldest of
// a few, whichever the map gives.
func (s *Store) untrackOldLocked() {
	const sample = 16
	var oldest *file
	n := 0
	for _, f := range s.files {
		if f.hash == "" {
			continue
		}
		if oldest == nil || f.seen < oldest.seen {
			oldest = f
		}
		if n++; n == sample {
			break
		}
	}
	s.setHashLocked(oldest, "")
}

// Rename carries what is known about a file over to its new path, history
// included. What was known about another file there becomes older history.
func (s *Store) Rename(project, from, to string) {
	s.rename(archive.Move{From: archive.Key{Project: project, Path: from}, To: archive.Key{Project: project, Path: to}})
}

// RenameTree is Rename for every file below a directory.
func (s *Store) RenameTree(project, from, to string) {
	s.rename(archive.Move{From: archive.Key{Project: project, Path: from}, To: archive.Key{Project: project, Path: to}, Tree: true})
}

func (s *Store) rename(m archive.Move) {
	if m.From == m.To {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db != nil {
		s.moves = append(s.moves, m)
		s.lateLocked()
	}
	if !m.Tree {
		s.renameLocked(m.From, m.To)
		return
	}
	for _, from := range s.belowLocked(m.From) {
		to := m.To
		to.Path += strings.TrimPrefix(from.Path, m.From.Path)
		s.renameLocked(from, to)
	}
}

// belowLocked returns the files below a directory, sorted.
func (s *Store) belowLocked(dir archive.Key) []archive.Key {
	var keys []archive.Key
	for key := range s.files {
		if key.Project == dir.Project && archive.Below(dir.Path, key.Path) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b archive.Key) int { return cmp.Compare(a.Path, b.Path) })
	return keys
}

func (s *Store) renameLocked(from, to archive.Key) {
	f, there := s.files[from], s.files[to]
	if f == nil {
		if there != nil {
			s.setHashLocked(there, "") // what was there is not there any more
		}
		return
	}
	for _, v := range f.versions {
		v.Former = cmp.Or(v.Former, from.Path)
		v.Path = to.Path
	}
	if there != nil {
		if there.hash != "" {
			s.countDownLocked(to.Project)
		}
		for _, v := range there.versions {
			v.file = f
		}
		f.versions = append(f.versions, there.versions...)
		slices.SortFunc(f.versions, bySeq)
	}
	delete(s.files, from)
	s.files[to], f.key = f, to
	for _, v := range f.versions {
		s.placeLocked(v) // another one may be the newest now
	}
	if s.db != nil {
		s.registry[from], s.registry[to] = "", f.hash
	}
}

// namesInDatabaseLocked returns the names under which the database may have what
// is now known as key: it learns of a rename later.
func (s *Store) namesInDatabaseLocked(key archive.Key) []archive.Key {
	names := []archive.Key{key}
	for _, m := range slices.Backward(s.moves) {
		for _, n := range names {
			if from, ok := m.Renamed(n); ok {
				names = append(names, from)
			}
		}
	}
	return names
}

// AddPending notes a request that begins to wait. Without a database it is not
// noted.
func (s *Store) AddPending(p Pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db != nil {
		s.pending[p.ID] = &p
		s.lateLocked()
	}
}

// RemovePending notes that a request waits no longer.
func (s *Store) RemovePending(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.db == nil:
	case s.pending[id] != nil:
		delete(s.pending, id) // the database never heard of it
	default:
		s.pending[id] = nil
		s.lateLocked()
	}
}

// Recovery is what a start found of an earlier run.
type Recovery struct {
	Expired  int // pending requests whose time was over
	Dropped  int // pending requests whose clients are gone
	Tracked  int // files in the registry
	Checked  int // of them compared with the disk so far
	Modified int // of them changed meanwhile
	Missing  int // of them gone, or not readable any more
}

// Revalidate compares the registry with the files and brings it up to date; hash
// reads the file at a path. A discrepancy is logged. It runs on the caller's
// goroutine until all files were looked at, or ctx ends.
func (s *Store) Revalidate(ctx context.Context, hash func(project, path string) (string, error)) (Recovery, error) {
	const logged = 100 // discrepancies named one by one
	s.mu.Lock()
	known := make(map[archive.Key]string, len(s.files))
	for key, f := range s.files {
		if f.hash != "" {
			known[key] = f.hash
		}
	}
	s.mu.Unlock()
	for key, was := range known {
		if ctx.Err() != nil {
			return s.Status().Recovery, context.Cause(ctx)
		}
		now, err := hash(key.Project, key.Path)
		if n := s.compare(key, was, now, err); n <= logged && (err != nil || now != was) {
			s.log.Info("file changed while the server was away", "path", key.Path, "was", was, "is", now,
				"missing", errors.Is(err, fs.ErrNotExist))
		}
	}
	r := s.Status().Recovery
	if r.Modified+r.Missing > 0 {
		s.log.Info("files changed while the server was away", "modified", r.Modified, "missing", r.Missing, "checked", r.Checked)
	}
	return r, nil
}

// compare updates the registry for one file and returns how many discrepancies
// there are so far. What was tracked since counts more than what was read.
func (s *Store) compare(key archive.Key, was, now string, err error) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recovery.Checked++
	switch {
	case err != nil:
		s.recovery.Missing++
		now = ""
	case now != was:
		s.recovery.Modified++
	}
	if f := s.files[key]; f != nil && f.hash == was {
		s.setHashLocked(f, now)
	}
	return s.recovery.Modified + s.recovery.Missing
}
