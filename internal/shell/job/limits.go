package job

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
)

// rateWindow is what Limits.PerMinute counts in.
const rateWindow = time.Minute

// moment is how long a finished job is kept in any case, so that who waited for
// it can read its output.
const moment = 5 * time.Second

func (l Limits) withDefaults() Limits {
	l.Running = cmp.Or(l.Running, 10)
	l.PerMinute = cmp.Or(l.PerMinute, 600)
	l.Completed = max(0, cmp.Or(l.Completed, 100))
	l.CompletedTTL = max(0, cmp.Or(l.CompletedTTL, 5*time.Minute))
	return l
}

// SetLimits puts new limits in force. Jobs that run go on.
func (r *Registry) SetLimits(l Limits) {
	r.mu.Lock()
	r.limits = l.withDefaults()
	r.mu.Unlock()
	r.discard(r.prune(time.Now()))
}

// roomLocked says whether one more job may start, and counts it if so.
func (r *Registry) roomLocked(s Spec, now time.Time) error {
	running, ours := 0, 0
	for _, j := range r.jobs {
		if !j.snap.Done() {
			running++
			if j.spec.Project == s.Project {
				ours++
			}
		}
	}
	rate := r.limits.PerMinute
	if running >= r.limits.Running {
		return tooMany(r.limits.Running)
	}
	if s.Limits != nil {
		l := s.Limits.withDefaults()
		if ours >= l.Running {
			return tooMany(l.Running)
		}
		if l.PerMinute >= 0 && (rate < 0 || l.PerMinute < rate) {
			rate = l.PerMinute
		}
	}
	return r.paceLocked(s, rate, now)
}

func tooMany(limit int) error {
	return fault.New(fault.TooManyJobs, "%d commands are running, which is the limit; wait for one with async_wait, or cancel it", limit).
		With("max_concurrent_processes", limit)
}

// paceLocked counts the starts of a session in the last minute. Callers without
// a session count together, by project.
func (r *Registry) paceLocked(s Spec, rate int, now time.Time) error {
	who := cmp.Or(s.Session, "project "+s.Project)
	starts := slices.DeleteFunc(r.starts[who], func(t time.Time) bool { return now.Sub(t) >= rateWindow })
	if rate >= 0 && len(starts) >= rate {
		r.starts[who] = starts
		wait := rateWindow - now.Sub(starts[len(starts)-rate])
		seconds := math.Ceil(wait.Seconds()*10) / 10
		return fault.New(fault.RateLimited, "%d commands were started within a minute, which is the limit; try again in %g s", rate, seconds).
			With("retry_after_seconds", seconds)
	}
	r.starts[who] = append(starts, now)
	return nil
}

// prune forgets finished jobs that are too old or too many, and starts that are
// past. Foreground jobs, whose result somebody was given, go before others.
func (r *Registry) prune(now time.Time) (gone []*job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for who, starts := range r.starts {
		if now.Sub(starts[len(starts)-1]) >= rateWindow {
			delete(r.starts, who)
		}
	}
	var done []*job
	for _, j := range r.jobs {
		if j.snap.Done() {
			done = append(done, j)
		}
	}
	slices.SortFunc(done, func(a, b *job) int {
		if a.snap.Background != b.snap.Background {
			if b.snap.Background {
				return -1
			}
			return 1
		}
		return a.snap.Ended.Compare(b.snap.Ended)
	})
	projects := make(map[string]int) // finished jobs by project
	for _, j := range done {
		projects[j.spec.Project]++
	}
	left := len(done)
	for _, j := range done {
		most, ttl := math.MaxInt, r.limits.CompletedTTL
		if l := j.spec.Limits; l != nil {
			own := l.withDefaults()
			most, ttl = own.Completed, min(ttl, own.CompletedTTL)
		}
		if now.Sub(j.snap.Ended) < moment {
			continue
		}
		if left > r.limits.Completed || projects[j.spec.Project] > most || now.Sub(j.snap.Ended) >= ttl {
			delete(r.jobs, j.snap.ID)
			r.dirtyLocked(j.snap.ID)
			gone = append(gone, j)
			left--
			projects[j.spec.Project]--
		}
	}
	return gone
}

// nextExpiry returns when the next job is to be forgotten, at most in an hour.
func (r *Registry) nextExpiry(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := time.Hour
	for _, j := range r.jobs {
		if j.snap.Done() {
			next = min(next, j.snap.Ended.Add(r.limits.CompletedTTL).Sub(now))
		}
	}
	return max(next, moment)
}

// discard removes the files of jobs that were forgotten.
func (r *Registry) discard(gone []*job) {
	for _, j := range gone {
		j.stdout.remove()
		j.stderr.remove()
	}
	if len(gone) > 0 {
		poke(r.wake)
	}
}
