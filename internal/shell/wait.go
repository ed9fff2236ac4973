package shell

import (
	"context"
	"slices"
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
	// Cursor is from an earlier answer, or for one job a place in its output:
	// "0.0" is the beginning. "": output is no news.
	Cursor string
}

// Waited is how a wait ended.
type Waited struct {
	Took time.Duration
	Jobs []JobNews // in the order they were named
	// Cursor goes into the next request; it is valid for the same jobs.
	Cursor string
	News   bool // a job printed something past the cursor that was given
}

// JobNews is a job with what it printed since the cursor, or without one all of
// it, the middle left out when that is much.
type JobNews struct {
	Job    job.Snapshot
	Output job.Output
	Known  bool // the cursor says that its end was told before
	Hint   string
	Note
}

// How much of each stream an answer carries, of a job that has ended and of one
// that runs; the rest is read by cursor.
const (
	endedLimit   = 48 << 10
	runningLimit = 16 << 10
)

func outputLimit(s job.Snapshot) int {
	if s.Done() {
		return endedLimit
	}
	return runningLimit
}

// Wait returns when a job has ended or printed something new, or when the time is
// over.
func (e *Engine) Wait(ctx context.Context, r WaitRequest) (Waited, error) {
	scope, err := e.opts.Scope(ctx)
	if err != nil {
		return Waited{}, err
	}
	in := job.Scope{Project: scope.Project}
	ids := distinct(r.IDs)
	cursors, err := parseCursors(r.Cursor, ids)
	if err != nil {
		return Waited{}, err
	}
	watches := make([]job.Watch, len(ids))
	for i, id := range ids {
		watches[i] = job.Watch{ID: id}
		if c, ok := cursors[id]; ok {
			watches[i].After, watches[i].Ended = &c.at, c.ended
		}
	}
	begin := time.Now()
	all, err := e.opts.Jobs.Wait(ctx, in, watches, job.WaitOptions{
		Timeout: r.Timeout,
		Progress: func(elapsed time.Duration, line string) {
			caller.Progress(ctx, time.Since(begin).Seconds(), r.Timeout.Seconds(), line)
		},
	})
	if err != nil && ctx.Err() != nil {
		return Waited{}, cancelled(err, "the call was cancelled while it waited")
	}
	if err != nil {
		return Waited{}, taskNotFound(err)
	}
	out := Waited{Took: time.Since(begin)}
	var next []string
	for _, s := range all {
		from, follows := cursors[s.ID]
		news, err := e.news(ctx, scope, s, from, follows)
		if err != nil {
			return Waited{}, taskNotFound(err)
		}
		out.Jobs = append(out.Jobs, news)
		out.News = out.News || follows && news.Output.Next != from.at
		next = append(next, cursor{news.Output.Next, s.Done()}.of(s.ID))
	}
	out.Cursor = strings.Join(next, ",")
	return out, nil
}

// news returns a job with its output: since a place if its caller follows it, or
// else all.
func (e *Engine) news(ctx context.Context, scope *Scope, s job.Snapshot, from cursor, follows bool) (JobNews, error) {
	if !follows {
		return e.whole(ctx, scope, s)
	}
	out, err := e.opts.Jobs.Output(ctx, job.Scope{Project: scope.Project}, s.ID, from.at, outputLimit(s))
	if err != nil {
		return JobNews{}, err
	}
	n := scope.explain(s, out)
	n.Known = from.ended
	return n, nil
}

// whole returns a job with all it has printed, the middle left out when that is
// much.
func (e *Engine) whole(ctx context.Context, scope *Scope, s job.Snapshot) (JobNews, error) {
	out, err := e.opts.Jobs.Result(ctx, job.Scope{Project: scope.Project}, s.ID, outputLimit(s))
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

// cursor is how much its caller knows of a job.
type cursor struct {
	at    job.Cursor
	ended bool // its end was told
}

// ended is what a cursor has behind it once the end of the job was told.
const ended = ":end"

// of returns the cursor as clients get it.
func (c cursor) of(id string) string {
	text := id + ":" + c.at.String()
	if c.ended {
		text += ended
	}
	return text
}

// parseCursors reads "id:place,id:place". With one job its id may be left out.
func parseCursors(text string, ids []string) (map[string]cursor, error) {
	all := make(map[string]cursor)
	if text == "" {
		return all, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		var c cursor
		part, c.ended = strings.CutSuffix(part, ended)
		id, at, ok := strings.Cut(part, ":")
		if !ok && len(ids) == 1 {
			id, at, ok = ids[0], part, true
		}
		place, err := job.ParseCursor(at)
		if !ok || at == "" || err != nil {
			return nil, fault.New(fault.ValidationError, "cursor is none of ours; use the one that an earlier answer gave, 0.0 for the beginning of one task, or leave it out").With("field", "cursor")
		}
		c.at = place
		all[strings.ToLower(id)] = c
	}
	return all, nil
}

// distinct returns the ids, each once, as the registry writes them.
func distinct(ids []string) (out []string) {
	for _, id := range ids {
		if id = strings.ToLower(id); !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}
