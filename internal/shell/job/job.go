// Package job keeps every command that was started: its state, its output, who
// waits for it and when it ends.
//
//	Start ─▶ running ─┬─▶ completed   it exited, with whatever code or signal
//	                  ├─▶ failed      it could not be started
//	                  ├─▶ timed_out   it took too long
//	                  ├─▶ cancelled   somebody ended it: a caller, its session, the server
//	                  └─▶ lost        the server died, and nobody saw how it ended
//
// A foreground command is a job that somebody waits for. A job ends once; its
// state, its result and the end of its output are seen together by everyone, and
// waiters are woken after that. Output is kept in bounded memory: the beginning
// and the end of each stream, and what lies between in a file up to a cap. Ending
// a job ends its whole tree (package proc).
//
// Methods are safe for concurrent use. Each running job has one goroutine, which
// Stop waits for. What may be run, and with which environment, is decided by the
// caller; jobs are shown within their project only.
package job

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/proc"
)

// State is where a job is in its life.
type State string

// The states.
const (
	Running   State = "running"
	Completed State = "completed"
	Failed    State = "failed"
	TimedOut  State = "timed_out"
	Cancelled State = "cancelled"
	Lost      State = "lost"
)

// Options tune a Registry. Zero values mean the defaults.
type Options struct {
	Limits     Limits
	SpoolDir   string       // where long output goes, in a folder of this process; "": nowhere
	SpoolBytes int64        // most of one stream in a file; default 64 MiB, negative: none
	Store      Store        // keeps records over restarts; nil: nothing does
	Bus        *event.Bus   // hears of finished jobs; nil: nobody
	Logger     *slog.Logger // nil: silent
}

// Limits bound jobs. Zero values mean the defaults.
type Limits struct {
	Running      int           // jobs at once; default 10
	PerMinute    int           // starts of one session in a minute; default 600, negative: no limit
	Completed    int           // finished jobs kept; default 100, negative: none
	CompletedTTL time.Duration // how long they are kept; default 5 min, negative: not at all
}

// Store keeps records of jobs over a restart. Several servers may share one: a
// record belongs to the server that owner names.
type Store interface {
	SaveJob(ctx context.Context, id, owner string, record []byte) error
	// LoadJobs makes owner the owner of every record whose own one is gone, and
	// returns these.
	LoadJobs(ctx context.Context, owner string, gone func(owner string) bool) (map[string][]byte, error)
	DeleteJobs(ctx context.Context, ids []string) error
}

// Spec is a command to run as a job.
type Spec struct {
	Command string   // as the caller wrote it; shown to people, not run
	Argv    []string // what runs
	Dir     string
	Env     []string      // see [Environment]
	Timeout time.Duration // 0: none

	// Files and Prepare are for the sandbox: see [proc.Spec].
	Files   []*os.File
	Prepare func(*exec.Cmd) error
	Keeper  bool

	Project    string // key of the project that sees the job
	Session    string // session that started it; "": none
	Caller     string // who that is, for people
	Background bool   // nobody waits: the job's completion is to be announced
	Detach     bool   // it outlives its session

	// Limits are those of the project, where it has tighter ones: they count
	// the project's own jobs. Nil: none.
	Limits *Limits
	// Finish is called once when the process has ended, before anybody is told,
	// with what it printed as errors. It may say what the end means: what it
	// makes of ExitCode, Signal, SignalNo and Note is what everybody sees. Nil:
	// they stay.
	Finish func(s *Snapshot, stderr string)
}

// Snapshot is a job as it was at one moment.
type Snapshot struct {
	ID         string
	Command    string
	Dir        string
	Project    string
	Session    string
	Caller     string
	Background bool
	Detach     bool
	Timeout    time.Duration // 0: none
	State      State
	Started    time.Time
	Ended      time.Time       // zero while it runs
	ExitCode   *int            // nil: it runs, a signal ended it, or nobody knows
	Signal     string          // name of the signal that ended it, or ""
	SignalNo   int             // its number, or 0
	Error      string          // why it failed, was cancelled or is lost
	Incomplete bool            // some output is missing: another process still held the pipe
	Strays     int             // processes that outlived the command, and were ended
	Output     Cursor          // how much output there is
	Note       json.RawMessage `json:",omitempty"` // what Spec.Finish added
	Found      bool            // it was started by an earlier run of the server
}

// Done reports whether the job has ended.
func (s Snapshot) Done() bool { return s.State != Running }

// Duration is how long the job ran, or has been running.
func (s Snapshot) Duration() time.Duration {
	if s.Ended.IsZero() {
		return time.Since(s.Started)
	}
	return s.Ended.Sub(s.Started)
}

// Scope is what a caller may see: the jobs of one project, or all of them.
type Scope struct {
	Project string
	All     bool // for people who run the server
}

// Registry is every job of this server. New makes one.
type Registry struct {
	opts  Options
	log   *slog.Logger
	owner string // names this server in records and in the spool
	start func(proc.Spec) (process, error)
	find  func(proc.Identity) (process, bool)

	unsaved bool // Run's alone: the last record could not be saved

	loaded chan struct{} // closed when earlier jobs are known
	wake   chan struct{} // records wait to be saved
	live   sync.WaitGroup

	mu     sync.Mutex // guards all below
	limits Limits
	jobs   map[string]*job
	starts map[string][]time.Time // of the last minute, by session
	dirty  map[string]bool        // ids whose record is to be saved, or deleted
	closed bool
}

// process is a started command, as package proc has it.
type process interface {
	ID() proc.Identity
	Done() <-chan struct{}
	Gone() <-chan struct{}
	Exit() proc.Exit
	End(grace time.Duration)
}

// job is one command. What is not said to be guarded is set once.
type job struct {
	spec   Spec
	stdout *stream
	stderr *stream
	done   chan struct{} // closed when it has ended and everybody can see that
	gone   chan struct{} // closed when nothing of it is alive

	// Guarded by the registry's mu.
	proc    process // nil: it is being started, or never ran here
	snap    Snapshot
	why     State // what End was called for; "": nothing
	reason  string
	waiters map[chan struct{}]bool
	saved   Cursor // output that is in the record
}

// New returns a registry without jobs. It touches no disk.
func New(o Options) *Registry {
	o.SpoolBytes = cmp.Or(o.SpoolBytes, 64<<20)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{
		opts: o, log: o.Logger, owner: fsys.Process(), limits: o.Limits.withDefaults(),
		start: func(s proc.Spec) (process, error) {
			p, err := proc.Start(s)
			if err != nil {
				return nil, err // not a nil *proc.Process in an interface
			}
			return p, nil
		},
		find: func(id proc.Identity) (process, bool) {
			p, ok := proc.Find(id)
			return p, ok
		},
		loaded: make(chan struct{}), wake: make(chan struct{}, 1),
		jobs: make(map[string]*job), starts: make(map[string][]time.Time), dirty: make(map[string]bool),
	}
	if o.Store == nil {
		close(r.loaded)
	}
	return r
}

// Start runs a command and returns the job at once. A command that cannot be
// started is a job too, and Failed. An error says that no job was made:
// TOO_MANY_JOBS, RATE_LIMITED, or the server is stopping.
func (r *Registry) Start(s Spec) (Snapshot, error) {
	j, err := r.admit(s)
	if err != nil {
		closeFiles(s.Files)
		return Snapshot{}, err
	}
	p, err := r.start(proc.Spec{
		Argv: s.Argv, Dir: s.Dir, Env: s.Env, Files: s.Files, Prepare: s.Prepare, Keeper: s.Keeper,
		Stdout: j.stdout, Stderr: j.stderr,
	})
	if err != nil {
		close(j.gone)
		r.finish(j, func(snap *Snapshot) { snap.State, snap.Error = Failed, err.Error() })
		r.live.Done()
		return r.snapshot(j), nil
	}
	r.mu.Lock()
	j.proc = p
	over := j.why != "" // ended by somebody before it had begun
	r.mu.Unlock()
	if over {
		p.End(proc.Grace)
	}
	go func() {
		defer r.live.Done()
		r.supervise(j, p, s.Timeout)
	}()
	r.changed(j)
	return r.snapshot(j), nil
}

// admit makes a job, if the limits allow one more.
func (r *Registry) admit(s Spec) (*job, error) {
	now := time.Now()
	gone := r.prune(now)
	defer r.discard(gone)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fault.New(fault.ServerError, "the server is stopping; no command is started any more")
	}
	if err := r.roomLocked(s, now); err != nil {
		return nil, err
	}
	id := "job_" + strings.ToLower(ulid.Make().String())
	j := &job{
		spec: s, done: make(chan struct{}), gone: make(chan struct{}), waiters: make(map[chan struct{}]bool),
		snap: Snapshot{
			ID: id, Command: s.Command, Dir: s.Dir, Project: s.Project, Session: s.Session, Caller: s.Caller,
			Background: s.Background, Detach: s.Detach, Timeout: s.Timeout, State: Running, Started: now,
		},
	}
	j.stdout = &stream{notify: func() { r.output(j) }, create: func() (*os.File, error) { return r.spool(id + ".stdout") }, cap: r.opts.SpoolBytes}
	j.stderr = &stream{notify: func() { r.output(j) }, create: func() (*os.File, error) { return r.spool(id + ".stderr") }, cap: r.opts.SpoolBytes}
	r.jobs[id] = j
	r.live.Add(1)
	return j, nil
}

// supervise follows a job to its end.
func (r *Registry) supervise(j *job, p process, timeout time.Duration) {
	defer close(j.gone)
	var late <-chan time.Time
	if timeout != 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-p.Done():
	case <-late:
		r.end(j, TimedOut, "")
		<-p.Done()
	}
	r.finish(j, func(s *Snapshot) { j.judgeLocked(s, p.Exit()) })
	<-p.Gone()
}

// judgeLocked says how a job has ended.
func (j *job) judgeLocked(s *Snapshot, e proc.Exit) {
	s.Signal, s.SignalNo, s.Incomplete, s.Strays = e.Signal, e.Number, e.Incomplete, e.Strays
	if e.Signal == "" && !e.Unknown {
		s.ExitCode = &e.Code
	}
	switch {
	case j.why != "":
		s.State, s.Error = j.why, j.reason
	case e.Unknown:
		s.State, s.Error = Lost, "it ended after the server was restarted, and nobody saw how"
	default:
		s.State = Completed
	}
}

// finish ends a job for everybody.
func (r *Registry) finish(j *job, judge func(*Snapshot)) {
	j.stdout.close()
	j.stderr.close()
	r.mu.Lock()
	s := j.snapLocked()
	judge(&s)
	r.mu.Unlock()
	s.Ended = time.Now()
	if j.spec.Finish != nil {
		errors, _ := j.stderr.whole(eventOutput)
		j.spec.Finish(&s, errors.Text)
	}
	r.mu.Lock()
	s.Background = j.snap.Background // it may have been handed over meanwhile
	j.snap = s
	close(j.done)
	for w := range j.waiters {
		poke(w)
	}
	r.mu.Unlock()
	r.changed(j)
	r.announce(j, s)
	r.discard(r.prune(time.Now()))
}

// end asks the tree of a running job to end, and remembers why.
func (r *Registry) end(j *job, why State, reason string) {
	r.mu.Lock()
	if j.why == "" && !j.snap.Done() {
		j.why, j.reason = why, reason
	}
	p := j.proc
	r.mu.Unlock()
	if p != nil {
		p.End(proc.Grace)
	}
}

// HandOver makes a job whose caller waits no longer a background job, and
// returns it: it may have ended just now, and is then not announced.
func (r *Registry) HandOver(ctx context.Context, in Scope, id string) (Snapshot, error) {
	j, err := r.lookup(ctx, in, id)
	if err != nil {
		return Snapshot{}, err
	}
	r.mu.Lock()
	if !j.snap.Done() {
		j.snap.Background = true
	}
	r.mu.Unlock()
	r.changed(j)
	return r.snapshot(j), nil
}

// Get returns a job, or JOB_NOT_FOUND.
func (r *Registry) Get(ctx context.Context, in Scope, id string) (Snapshot, error) {
	j, err := r.lookup(ctx, in, id)
	if err != nil {
		return Snapshot{}, err
	}
	return r.snapshot(j), nil
}

// List returns the jobs that are in scope, the oldest first.
func (r *Registry) List(ctx context.Context, in Scope) ([]Snapshot, error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	r.discard(r.prune(time.Now()))
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Snapshot
	for _, j := range r.jobs {
		if in.sees(j) {
			all = append(all, j.snapLocked())
		}
	}
	slices.SortFunc(all, func(a, b Snapshot) int {
		return cmp.Or(a.Started.Compare(b.Started), strings.Compare(a.ID, b.ID))
	})
	return all, nil
}

// Cancel ends a running job and returns it when nothing of it is alive any more,
// or when ctx ends; the end is under way then. JOB_NOT_FOUND, JOB_NOT_RUNNING.
func (r *Registry) Cancel(ctx context.Context, in Scope, id, reason string) (Snapshot, error) {
	j, err := r.lookup(ctx, in, id)
	if err != nil {
		return Snapshot{}, err
	}
	if s := r.snapshot(j); s.Done() {
		return s, fault.New(fault.JobNotRunning, "job %s is not running: it is %s", id, s.State)
	}
	r.end(j, Cancelled, reason)
	select {
	case <-j.gone:
	case <-ctx.Done():
	}
	return r.snapshot(j), nil
}

// EndSession ends the running jobs of a session that is over, but for those that
// were detached from it, and returns when they are gone or ctx ends.
func (r *Registry) EndSession(ctx context.Context, session string) {
	r.mu.Lock()
	delete(r.starts, session)
	r.mu.Unlock()
	r.endAll(ctx, "its client went away", func(s Snapshot) bool {
		return session != "" && s.Session == session && !s.Detach
	})
}

// Stop refuses new jobs and ends all that run: TERM, and KILL after five
// seconds or when ctx ends, whatever comes first. It returns when they are gone.
func (r *Registry) Stop(ctx context.Context) {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.endAll(ctx, "the server is stopping", func(Snapshot) bool { return true })
	for _, j := range r.running(func(Snapshot) bool { return true }) {
		r.kill(j)
	}
	r.live.Wait()
	r.removeSpool()
}

// kill ends the tree of a job at once.
func (r *Registry) kill(j *job) {
	r.mu.Lock()
	p := j.proc
	r.mu.Unlock()
	if p != nil {
		p.End(0)
	}
}

// endAll ends the running jobs that pick selects and waits for them.
func (r *Registry) endAll(ctx context.Context, reason string, pick func(Snapshot) bool) {
	jobs := r.running(pick)
	for _, j := range jobs {
		r.end(j, Cancelled, reason)
	}
	for _, j := range jobs {
		select {
		case <-j.gone:
		case <-ctx.Done():
			return
		}
	}
}

// running returns the jobs that are not gone yet and that pick selects.
func (r *Registry) running(pick func(Snapshot) bool) (jobs []*job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.jobs {
		select {
		case <-j.gone:
		default:
			if pick(j.snap) {
				jobs = append(jobs, j)
			}
		}
	}
	return jobs
}

// Running returns how many jobs have not ended.
func (r *Registry) Running() int { return len(r.running(func(Snapshot) bool { return true })) }

// ready waits until the jobs of earlier runs are known.
func (r *Registry) ready(ctx context.Context) error {
	select {
	case <-r.loaded:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *Registry) lookup(ctx context.Context, in Scope, id string) (*job, error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	r.discard(r.prune(time.Now()))
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.jobs[strings.ToLower(id)]; j != nil && in.sees(j) {
		return j, nil
	}
	return nil, fault.New(fault.JobNotFound, "no job %q in this project; finished jobs are kept for a limited time", id)
}

func (in Scope) sees(j *job) bool { return in.All || in.Project == j.spec.Project }

func (r *Registry) snapshot(j *job) Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return j.snapLocked()
}

func (j *job) snapLocked() Snapshot {
	s := j.snap
	s.Output = Cursor{j.stdout.size(), j.stderr.size()}
	return s
}

// eventOutput is how much of each stream an announcement carries.
const eventOutput = 16 << 10

// announce tells the bus that a job has ended.
func (r *Registry) announce(j *job, s Snapshot) {
	if r.opts.Bus == nil {
		return
	}
	stdout, _ := j.stdout.whole(eventOutput)
	stderr, _ := j.stderr.whole(eventOutput)
	r.opts.Bus.Publish(event.Event{
		Kind: event.JobCompleted, Time: s.Ended, Session: s.Session, Project: s.Project,
		Data: event.Job{
			ID: s.ID, Command: s.Command, Background: s.Background,
			Result: event.JobResult{
				Status: string(s.State), ExitCode: s.ExitCode, Signal: s.Signal, Error: s.Error, Duration: s.Duration(),
				Stdout: stdout.Text, Stderr: stderr.Text,
			},
		},
	})
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // nothing was started with them
	}
}

// poke wakes a waiter that is not awake yet.
func poke(w chan struct{}) {
	select {
	case w <- struct{}{}:
	default:
	}
}
