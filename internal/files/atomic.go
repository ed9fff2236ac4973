package files

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// step is one file of an atomic batch: what it holds and what it shall hold.
type step struct {
	t         *target
	old, next content // old.hash is "" for a file that is created
	makeDirs  bool
	madeDirs  int // how many had to be made
	merge     *Merge
}

func (s *step) creates() bool { return s.old.hash == "" }

// do makes the change of one step.
func (s *step) do(sync fsys.Sync) error {
	if s.creates() {
		return s.t.path.Create(s.next.raw, fsys.WriteOptions{MakeDirs: s.makeDirs, Made: &s.madeDirs, Sync: sync})
	}
	return s.t.path.Replace(s.next.raw, s.old.onDisk(), fsys.WriteOptions{Sync: sync})
}

// undo takes it back, unless somebody has changed the file since.
func (s *step) undo(sync fsys.Sync) error {
	next := s.next.onDisk()
	if s.creates() {
		err := s.t.path.Remove(&next, sync)
		if err == nil {
			_ = s.t.path.RemoveParents(s.madeDirs) // others may have put something there
		}
		return err
	}
	return s.t.path.Replace(s.old.raw, next, fsys.WriteOptions{Sync: sync})
}

// together makes all changes or none: under all locks, with a journal that tells
// the next start what to do if this process dies in the middle. failed is the
// index of the step that stood in the way, -1 if none did.
func (e *Engine) together(ctx context.Context, scope *Scope, lease lock.Lease, steps []*step) (failed int, err error) {
	journal, err := e.openJournal(scope, steps)
	if err != nil {
		return 0, &fault.Error{Code: fault.WriteError, Op: "batch", Message: "the journal of the batch could not be written: " + err.Error(), Err: err}
	}
	dirs, sync := scope.batchSync()
	failed = -1
	all := func() error {
		for i, s := range steps {
			if err := s.do(sync); err != nil {
				failed = i
				for _, done := range slices.Backward(steps[:i]) {
					err = errors.Join(err, done.undo(sync))
				}
				return err
			}
		}
		return e.flush(dirs)
	}
	err = e.making(func() error { return lease.Commit(all) })
	if failed >= 0 {
		_ = e.flush(dirs) // the first error is the one that explains
	}
	if closing := journal.close(); closing != nil {
		e.opts.Logger.Error("the journal of a finished batch stays behind", "err", closing)
	}
	if err != nil {
		return max(failed, 0), err
	}
	for _, s := range steps {
		if !s.creates() {
			s.t.served(s.old)
		}
		s.t.remember(ctx, s.next)
	}
	return -1, nil
}

// holdAll admits nothing and locks everything; a file that stands twice in a batch
// cannot be changed as a whole.
func (e *Engine) holdAll(ctx context.Context, scope *Scope, targets []*target, timeout *time.Duration) (lock.Lease, error) {
	seen := make(map[string]bool, len(targets))
	for _, t := range targets {
		if seen[t.path.Key()] {
			return lock.Lease{}, fault.New(fault.ValidationError, "%s stands twice in an atomic batch", t.path).At(t.path.String()).With("field", "files")
		}
		seen[t.path.Key()] = true
	}
	return e.hold(ctx, lock.Exclusive, scope.timeout(timeout), targets...)
}

// notApplied is the result of an item that nothing was wrong with, in an atomic
// batch that was not made.
func notApplied(path string, because int) *fault.Error {
	return fault.New(fault.WriteError, "not applied: item %d of the atomic batch stood in the way, so nothing was changed", because).
		At(path).With("next", "Mend that item and send the batch again.")
}

// journal is the file that makes an atomic batch whole after a crash.
type journal struct {
	path string
}

// journalFile is what stands in it: enough to go forward and to go back.
type journalFile struct {
	Process string         `json:"process"`
	Bases   []string       `json:"bases"`
	Steps   []journalEntry `json:"steps"`
}

type journalEntry struct {
	Path   string `json:"path"`
	Create bool   `json:"create"`
	Dirs   bool   `json:"dirs"`
	Old    []byte `json:"old"`
	New    []byte `json:"new"`
}

func (e *Engine) openJournal(scope *Scope, steps []*step) (*journal, error) {
	f := journalFile{Process: fsys.Process(), Bases: scope.Bases.Paths()}
	for _, s := range steps {
		f.Steps = append(f.Steps, journalEntry{Path: s.t.path.String(), Create: s.creates(), Dirs: s.makeDirs, Old: s.old.raw, New: s.next.raw})
	}
	raw, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	if err := fsys.MkdirPrivate(e.opts.JournalDir); err != nil {
		return nil, err
	}
	j := &journal{path: filepath.Join(e.opts.JournalDir, rand.Text()+".json")}
	return j, fsys.WriteFile(j.path, raw, 0o600)
}

func (j *journal) close() error { return fsys.RemoveFile(j.path) }

// maxJournal bounds a journal that is read back.
const maxJournal = 1 << 30

// Recover finishes atomic batches that a process which has died left half-done:
// forward, or back where somebody has changed one of their files since. It is to
// run before the engine serves.
func (e *Engine) Recover() error {
	paths, err := fsys.Files(e.opts.JournalDir)
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range paths {
		if strings.HasPrefix(filepath.Base(path), ".") {
			_ = fsys.RemoveFile(path) // a journal that was never finished: its batch never began
			continue
		}
		if err := e.recoverOne(path); err != nil {
			errs = append(errs, err)
			e.opts.Logger.Error("a half-done batch could not be finished", "journal", path, "err", err)
		}
	}
	return errors.Join(errs...)
}

func (e *Engine) recoverOne(path string) error {
	raw, err := fsys.ReadFile(path, maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process was faster
	}
	if err != nil {
		return err
	}
	var f journalFile
	if err := json.Unmarshal(raw, &f); err != nil || len(f.Bases) == 0 {
		return errors.Join(errors.New("the journal is damaged"), err)
	}
	if !fsys.Gone(f.Process) {
		return nil // its owner is at it
	}
	bases, err := fsys.OpenBases(f.Bases[0], f.Bases[1:])
	if err != nil {
		return err
	}
	defer bases.Close()
	steps := make([]*step, len(f.Steps))
	forward := true
	for i, in := range f.Steps {
		p, err := bases.Resolve(in.Path)
		if err != nil {
			return err
		}
		s := &step{t: &target{Engine: e, path: p}, next: contentOf(in.New), makeDirs: in.Dirs}
		if !in.Create {
			s.old = contentOf(in.Old)
		}
		steps[i] = s
		forward = forward && (s.isDone() || s.isUndone())
	}
	for _, s := range steps {
		switch {
		case forward && !s.isDone():
			err = errors.Join(err, s.do(fsys.Sync{}))
		case !forward && s.isDone():
			err = errors.Join(err, s.undo(fsys.Sync{}))
		}
	}
	if err != nil {
		return err
	}
	e.opts.Logger.Warn("finished a batch that a dead process left half-done", "forward", forward, "files", len(steps))
	return fsys.RemoveFile(path)
}

// isDone and isUndone look at what the file holds now.
func (s *step) isDone() bool { return s.holds(s.next.hash) }

func (s *step) isUndone() bool {
	if s.creates() {
		_, err := s.t.path.Stat()
		return errors.Is(err, fs.ErrNotExist)
	}
	return s.holds(s.old.hash)
}

func (s *step) holds(hash string) bool {
	sum, _, err := s.t.path.Hash(maxJournal)
	return err == nil && hashOf(sum) == hash
}
