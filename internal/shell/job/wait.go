package job

import (
	"context"
	"time"
)

// progressEvery is how often a waiting caller is told that it still waits.
const progressEvery = time.Second

// Watch is a job that somebody waits for.
type Watch struct {
	ID string
	// After makes output past this place a reason to return. Nil: only the end
	// of the job is one.
	After *Cursor
	// Ended says that the caller knows of the end: only output is a reason.
	Ended bool
}

// WaitOptions say how long to wait, and whom to tell meanwhile.
type WaitOptions struct {
	Timeout time.Duration // negative: until something happens or ctx ends
	// Progress is called about once a second while the caller waits, with how
	// long the first job that runs has been running and the last line it
	// printed. Nil: nobody is told.
	Progress func(elapsed time.Duration, lastLine string)
}

// Wait returns the jobs as they are once one of them has ended (or has printed
// more, where the watch says so), when nothing can happen any more since all have
// ended, or when the timeout is over; the jobs tell which. Without any job it waits for the timeout. An error says that a job is
// not known (JOB_NOT_FOUND), or is the cause that ended ctx.
func (r *Registry) Wait(ctx context.Context, in Scope, watches []Watch, o WaitOptions) ([]Snapshot, error) {
	wake := make(chan struct{}, 1)
	var jobs []*job
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, j := range jobs {
			delete(j.waiters, wake)
		}
	}()
	for _, w := range watches {
		j, err := r.lookup(ctx, in, w.ID)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
		r.mu.Lock()
		j.waiters[wake] = j.waiters[wake] || w.After != nil
		r.mu.Unlock()
	}
	var timeout <-chan time.Time
	if o.Timeout >= 0 {
		t := time.NewTimer(o.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	var tick <-chan time.Time
	if o.Progress != nil {
		t := time.NewTicker(progressEvery)
		defer t.Stop()
		tick = t.C
	}
	for {
		all := make([]Snapshot, len(jobs))
		happened, running := false, 0
		for i, j := range jobs {
			all[i] = r.snapshot(j)
			happened = happened || all[i].Done() && !watches[i].Ended || watches[i].passed(all[i].Output)
			if !all[i].Done() {
				running++
			}
		}
		if happened || len(jobs) > 0 && running == 0 {
			return all, nil
		}
		select {
		case <-wake:
		case <-tick:
			for i, j := range jobs {
				if !all[i].Done() {
					o.Progress(all[i].Duration(), j.lastLine())
					break
				}
			}
			if len(jobs) == 0 {
				o.Progress(0, "")
			}
		case <-timeout:
			return all, nil
		case <-ctx.Done():
			return all, context.Cause(ctx)
		}
	}
}

// passed reports whether there is output that the watch waits for.
func (w Watch) passed(now Cursor) bool {
	return w.After != nil && (now.Stdout > w.After.Stdout || now.Stderr > w.After.Stderr)
}

// output tells those who wait for output that there is more.
func (r *Registry) output(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w, wanted := range j.waiters {
		if wanted {
			poke(w)
		}
	}
}

// lastLine returns what the job printed last: of its errors only when there is
// nothing else.
func (j *job) lastLine() string {
	if line := j.stdout.lastLine(); line != "" {
		return line
	}
	return j.stderr.lastLine()
}
