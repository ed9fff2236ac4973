package shell

import (
	"context"
	"strings"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/job"
)

// WaitRequest asks for news of jobs.
type WaitRequest struct {
	IDs     []string // none: only time passes
	Timeout time.Duration
	Cursor  string // from an earlier answer; "": output is no news
}

// Waited is how a wait ended.
type Waited struct {
	Took time.Duration
	Jobs []JobNews // in the order they were named
	// Cursor goes into the next request; it is valid for the same jobs.
	Cursor string
	News   bool // a job printed something past the cursor that was given
}

// JobNews is a job with what it printed since the cursor, or, once it has ended,
// all of it.
type JobNews struct {
	Job    job.Snapshot
	Output job.Output
	Hint   string
	Note
}

// outputLimit is how much of each stream of a finished job an answer carries; the
// rest is read by cursor.
const outputLimit = 48 << 10

// pageLimit is how much new output of a running job one answer carries.
const pageLimit = 16 << 10

// Wait returns when a job has ended or printed something new, or when the time is
// over.
func (e *Engine) Wait(ctx context.Context, r WaitRequest) (Waited, error) {
	scope, err := e.opts.Scope(ctx)
	if err != nil {
		return Waited{}, err
	}
	in := job.Scope{Project: scope.Project}
	cursors, err := parseCursors(r.Cursor)
	if err != nil {
		return Waited{}, err
	}
	watches := make([]job.Watch, len(r.IDs))
	for i, id := range r.IDs {
		watches[i] = job.Watch{ID: id}
		if c, ok := cursors[id]; ok {
			watches[i].After = &c
		}
	}
	begin := time.Now()
	all, err := e.opts.Jobs.Wait(ctx, in, watches, job.WaitOptions{
		Timeout: r.Timeout,
		Progress: func(elapsed time.Duration, line string) {
			caller.Progress(ctx, time.Since(begin).Seconds(), r.Timeout.Seconds(), line)
		},
	})
	if err != nil {
		return Waited{}, taskNotFound(err)
	}
	out := Waited{Took: time.Since(begin)}
	var next []string
	for _, s := range all {
		news, at, err := e.news(ctx, scope, s, cursors[s.ID])
		if err != nil {
			return Waited{}, taskNotFound(err)
		}
		out.Jobs = append(out.Jobs, news)
		if from, ok := cursors[s.ID]; ok && at != from {
			out.News = true
		}
		next = append(next, s.ID+":"+at.String())
	}
	out.Cursor = strings.Join(next, ",")
	return out, nil
}

// news returns a job with its output since a place, and the place where that ends.
func (e *Engine) news(ctx context.Context, scope *Scope, s job.Snapshot, from job.Cursor) (JobNews, job.Cursor, error) {
	if s.Done() && from == (job.Cursor{}) {
		n, err := e.whole(ctx, scope, s)
		return n, n.Output.Next, err
	}
	out, err := e.opts.Jobs.Output(ctx, job.Scope{Project: scope.Project}, s.ID, from, pageLimit)
	if err != nil {
		return JobNews{}, job.Cursor{}, err
	}
	return scope.explain(s, out), out.Next, nil
}

// whole returns a job with all it has printed, the middle left out when that is
// much.
func (e *Engine) whole(ctx context.Context, scope *Scope, s job.Snapshot) (JobNews, error) {
	out, err := e.opts.Jobs.Result(ctx, job.Scope{Project: scope.Project}, s.ID, outputLimit)
	if err != nil {
		return JobNews{}, err
	}
	return scope.explain(s, out), nil
}

// explain adds to a job what its end means.
func (scope *Scope) explain(s job.Snapshot, out job.Output) JobNews {
	n := JobNews{Job: s, Output: out}
	if !s.Done() {
		return n
	}
	n.Note = NoteOf(s)
	n.Job = exitOf(n.Shell, scope.Sandbox.ExitSignal, s, out.Stderr.Text)
	if code := n.Job.ExitCode; code != nil {
		n.Hint = scope.Sandbox.Hint(*code, out.Stderr.Text, s.Dir)
	}
	return n
}

// taskNotFound gives an unknown job the code of the tool that asks.
func taskNotFound(err error) error {
	if fault.CodeOf(err) != fault.JobNotFound {
		return err
	}
	return fault.New(fault.TaskNotFound, "%s", fault.From(err).Text())
}

// Jobs lists the jobs of the project that were started in the background, or were
// handed over to it.
func (e *Engine) Jobs(ctx context.Context) ([]job.Snapshot, error) {
	scope, err := e.opts.Scope(ctx)
	if err != nil {
		return nil, err
	}
	all, err := e.opts.Jobs.List(ctx, job.Scope{Project: scope.Project})
	if err != nil {
		return nil, err
	}
	var background []job.Snapshot
	for _, s := range all {
		if s.Background {
			background = append(background, s)
		}
	}
	return background, nil
}

// Job returns one job of the project with its output.
func (e *Engine) Job(ctx context.Context, id string) (JobNews, error) {
	scope, err := e.opts.Scope(ctx)
	if err != nil {
		return JobNews{}, err
	}
	s, err := e.opts.Jobs.Get(ctx, job.Scope{Project: scope.Project}, id)
	if err != nil {
		return JobNews{}, err
	}
	return e.whole(ctx, scope, s)
}

// Cancel ends a running job of the project.
func (e *Engine) Cancel(ctx context.Context, id string) (job.Snapshot, error) {
	scope, err := e.opts.Scope(ctx)
	if err != nil {
		return job.Snapshot{}, err
	}
	return e.opts.Jobs.Cancel(ctx, job.Scope{Project: scope.Project}, id, "it was cancelled by "+caller.From(ctx).String())
}

// parseCursors reads "id:place,id:place".
func parseCursors(text string) (map[string]job.Cursor, error) {
	all := make(map[string]job.Cursor)
	if text == "" {
		return all, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		id, at, ok := strings.Cut(part, ":")
		c, err := job.ParseCursor(at)
		if !ok || err != nil {
			return nil, fault.New(fault.ValidationError, "cursor is none of ours; use the one that an earlier answer gave, or leave it out").With("field", "cursor")
		}
		all[id] = c
	}
	return all, nil
}
