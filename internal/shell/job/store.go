package job

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/proc"
)

// saveEvery is how late the output of a running job may be in its record.
const saveEvery = 5 * time.Second

// stopTime is how long jobs may take to end with the server; then they are
// killed.
const stopTime = proc.Grace + 500*time.Millisecond

// record is what the store keeps of a job.
type record struct {
	Snapshot Snapshot
	Process  proc.Identity
	Stdout   kept
	Stderr   kept
}

// kept is what a record has of a stream.
type kept struct {
	Head, Tail []byte
	Total      int64
}

// Run takes over the jobs of earlier runs, forgets those that are too old, saves
// records, and when ctx ends stops what runs. With a Store, looking at jobs
// waits until Run has begun.
func (r *Registry) Run(ctx context.Context) error {
	r.sweepSpool()
	if r.opts.Store != nil {
		if err := r.load(ctx); err != nil {
			r.log.Error("jobs of earlier runs cannot be read", "error", err)
		}
		close(r.loaded)
	}
	lasting := context.WithoutCancel(ctx)
	expire := time.NewTimer(0)
	defer expire.Stop()
	output := time.NewTicker(saveEvery)
	defer output.Stop()
	for {
		select {
		case <-ctx.Done():
			stopping, cancel := context.WithTimeout(lasting, stopTime)
			defer cancel()
			r.Stop(stopping)
			r.save(lasting)
			return nil
		case <-expire.C:
		case <-output.C:
			r.noticeOutput()
		case <-r.wake:
		}
		now := time.Now()
		r.discard(r.prune(now))
		expire.Reset(r.nextExpiry(now))
		r.save(lasting)
	}
}

// changed asks for the job's record to be saved.
func (r *Registry) changed(j *job) {
	r.mu.Lock()
	r.dirtyLocked(j.snap.ID)
	r.mu.Unlock()
	poke(r.wake)
}

func (r *Registry) dirtyLocked(id string) {
	if r.opts.Store != nil {
		r.dirty[id] = true
	}
}

// noticeOutput finds running jobs that have printed since they were saved.
func (r *Registry) noticeOutput() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, j := range r.jobs {
		if !j.snap.Done() && j.saved != (Cursor{j.stdout.size(), j.stderr.size()}) {
			r.dirtyLocked(id)
		}
	}
}

// save brings the store up to date. What cannot be saved is told and dropped: a
// record is a help after a crash, and jobs go on without.
func (r *Registry) save(ctx context.Context) {
	r.mu.Lock()
	var gone []string
	var jobs []*job
	for id := range r.dirty {
		if j := r.jobs[id]; j != nil {
			jobs = append(jobs, j)
		} else {
			gone = append(gone, id)
		}
	}
	clear(r.dirty)
	r.mu.Unlock()
	var errs []error
	if len(gone) > 0 {
		errs = append(errs, r.opts.Store.DeleteJobs(ctx, gone))
	}
	for _, j := range jobs {
		id, data, err := r.record(j)
		if err == nil {
			err = r.opts.Store.SaveJob(ctx, id, r.owner, data)
		}
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	if err != nil && !r.unsaved {
		r.log.Warn("records of jobs cannot be saved", "error", err)
	}
	if len(errs) > 0 {
		r.unsaved = err != nil
	}
}

func (r *Registry) record(j *job) (id string, data []byte, err error) {
	r.mu.Lock()
	rec := record{Snapshot: j.snapLocked()}
	j.saved = rec.Snapshot.Output
	if j.proc != nil {
		rec.Process = j.proc.ID()
	}
	r.mu.Unlock()
	rec.Stdout, rec.Stderr = j.stdout.keep(), j.stderr.keep()
	data, err = json.Marshal(rec)
	return rec.Snapshot.ID, data, err
}

// recordBytes is how much of the beginning and of the end of a stream a record
// has.
const recordBytes = 16 << 10

func (s *stream) keep() kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := kept{Head: slices.Clone(s.head), Tail: s.tail(), Total: s.total}
	if len(k.Head)+len(k.Tail) > 2*recordBytes {
		if len(k.Tail) == 0 {
			k.Tail = k.Head
		}
		k.Head = k.Head[:min(len(k.Head), recordBytes)]
		k.Tail = k.Tail[max(0, len(k.Tail)-recordBytes):]
	}
	return k
}

// load takes over the jobs of servers that are gone.
func (r *Registry) load(ctx context.Context) error {
	all, err := r.opts.Store.LoadJobs(ctx, r.owner, fsys.Gone)
	if err != nil {
		return err
	}
	for id, data := range all {
		var rec record
		if err := json.Unmarshal(data, &rec); err != nil || rec.Snapshot.ID != id {
			r.log.Warn("a record of a job is not readable", "job", id, "error", err)
			r.mu.Lock()
			r.dirtyLocked(id) // without a job: to be deleted
			r.mu.Unlock()
			continue
		}
		r.takeOver(rec)
	}
	return nil
}

// takeOver makes a job of a record. A process that lives is found again; of one
// that does not nobody knows how it ended, and it is not run again.
func (r *Registry) takeOver(rec record) {
	s := rec.Snapshot
	s.Found = true
	j := &job{
		spec: Spec{Project: s.Project, Session: s.Session}, snap: s, done: make(chan struct{}), gone: make(chan struct{}),
		stdout: rec.Stdout.stream(), stderr: rec.Stderr.stream(), waiters: make(map[chan struct{}]bool),
	}
	var p process
	found := false
	if !s.Done() {
		p, found = r.find(rec.Process)
	}
	r.mu.Lock()
	if found {
		j.proc = p
		r.live.Add(1)
	}
	r.jobs[s.ID] = j
	r.dirtyLocked(s.ID)
	r.mu.Unlock()
	switch {
	case s.Done():
		close(j.done)
		close(j.gone)
	case found:
		left := s.Timeout
		if left > 0 {
			left = max(time.Until(s.Started.Add(s.Timeout)), 1) // 0 would be no timeout
		}
		go func() {
			defer r.live.Done()
			r.supervise(j, p, left)
		}()
	default:
		close(j.gone)
		proc.KillTree(rec.Process)
		r.finish(j, func(s *Snapshot) {
			s.State, s.Error = Lost, "the server died while it ran; it is not run again"
		})
	}
}

// stream returns a stream that holds what a record kept.
func (k kept) stream() *stream {
	return &stream{notify: func() {}, stuck: true, head: k.Head, ring: k.Tail, total: k.Total}
}

// openSpool makes a file in the folder of a server, both for the owner alone.
func openSpool(dir, owner, name string) (*os.File, error) {
	dir = filepath.Join(dir, owner)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// sweepSpool removes what servers that are gone have spooled.
func (r *Registry) sweepSpool() {
	if r.opts.SpoolDir == "" {
		return
	}
	entries, err := os.ReadDir(r.opts.SpoolDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.log.Warn("the spool cannot be swept", "dir", r.opts.SpoolDir, "error", err)
	}
	for _, e := range entries {
		if e.IsDir() && fsys.Gone(e.Name()) {
			if err := os.RemoveAll(filepath.Join(r.opts.SpoolDir, e.Name())); err != nil {
				r.log.Warn("the spool cannot be swept", "dir", e.Name(), "error", err)
			}
		}
	}
}

// removeSpool removes what this server has spooled. Nothing runs any more.
func (r *Registry) removeSpool() {
	r.mu.Lock()
	var jobs []*job
	for _, j := range r.jobs {
		jobs = append(jobs, j)
	}
	r.mu.Unlock()
	for _, j := range jobs {
		j.stdout.remove()
		j.stderr.remove()
	}
	if r.opts.SpoolDir != "" {
		_ = os.Remove(filepath.Join(r.opts.SpoolDir, r.owner)) // it may never have been made
	}
}
