// Package shell runs commands. A command is judged, started as a job under the
// sandbox, and waited for or not; every way in which a client can ask for one is
// a [Door] to the same [Engine.Run].
//
//	Run: judge ─▶ where, with what ─▶ start ─▶ wait ─▶ result
//	       │                                    └─▶ handed over: a background job
//	       └─▶ denied, nothing was started
//
// The engine has no goroutine and no state of its own: running commands belong
// to the job registry. It is safe for concurrent use.
package shell

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/policy"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/job"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/sandbox"
)

// Scope is what commands of one project may do. It is immutable.
type Scope struct {
	Project string // id
	Root    string // resolved
	Enabled bool
	Rules   *policy.Set
	Sandbox *sandbox.Sandbox

	Environ     []string // what commands inherit; nil: nothing
	Strip       []string // globs of variables that no command gets
	CwdOverride string   // where commands run that do not say; "": in Root
	Confined    bool     // the shell door keeps its working directory inside of Root
	Shell       string   // of the shell door, by name
	ShellPath   string   // where that is; "": it is looked up

	MaxCommand   int // characters
	Timeout      time.Duration
	MaxTimeout   time.Duration
	Foreground   time.Duration // after this a command is handed over; 0: never
	ShellTimeout time.Duration
	Jobs         job.Limits
}

// Options are what the engine works with.
type Options struct {
	Jobs  *job.Registry // nil: one of its own
	Scope func(context.Context) (*Scope, error)
	// Alias says what aliases may do for the caller; nil: there are none.
	Alias func(context.Context) (*AliasScope, error)
	// Changes begins to note which files below root change, and returns the
	// function that ends this and tells them; nil: nobody notes.
	Changes func(root string) func() *Changes
	Mark    string       // value of sandbox.MarkerEnv for our commands
	Logger  *slog.Logger // nil: silent
}

// Changes are the files of the project that changed while a command ran.
type Changes struct {
	Paths    []string `json:"paths"`
	Complete bool     `json:"complete"` // no change can have been missed
}

// Engine runs commands.
type Engine struct {
	opts Options
	find finder
}

// New returns an engine. It touches no disk.
func New(o Options) *Engine {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Jobs == nil {
		o.Jobs = job.New(job.Options{Logger: o.Logger})
	}
	if o.Changes == nil {
		o.Changes = func(string) func() *Changes { return func() *Changes { return nil } }
	}
	return &Engine{opts: o}
}

// Stop ends every command.
func (e *Engine) Stop(ctx context.Context) { e.opts.Jobs.Stop(ctx) }

// Unconfined is the sandbox that lets commands do everything.
func Unconfined() *sandbox.Sandbox {
	s, err := sandbox.New(sandbox.Options{Mode: sandbox.Off, System: new(sandbox.System)})
	if err != nil {
		panic(err) // the options are right
	}
	return s
}

// Request is a command to run.
type Request struct {
	Door       Door
	Command    string
	Dir        string            // "": the default
	Env        map[string]string // on top of what is inherited
	Timeout    *time.Duration    // nil: the door's default
	Background bool              // do not wait
	Detach     bool              // it outlives its session
	Wait       *time.Duration    // hand it over after this; nil: as the settings say
	Shell      string            // by name; "": the door's own
}

// Denial is why a command was not run.
type Denial struct {
	Rule   string // name or pattern of the rule
	Reason string // what the agent is told
	Use    string // tool to use instead, or ""
}

func denial(d policy.Decision) *Denial { return &Denial{d.Rule, d.Reason, d.Use} }

// Result is what came of a request.
type Result struct {
	Denied *Denial // not nil: nothing was started, and all but Level is empty
	JobNews
	Timeout  time.Duration // in force; 0: none
	Clamped  bool          // the caller asked for more, or for less than may be
	Fallback bool          // the shell of the settings is not installed
	Level    string
	Stripped []string // variables that were taken out
	Sandbox  sandbox.Report
}

// Note is what is known of a command beside its output once it has ended.
type Note struct {
	Shell   string   `json:"shell,omitempty"` // that ran it
	Changed *Changes `json:"files_changed,omitempty"`
}

// NoteOf reads the note of a finished job.
func NoteOf(s job.Snapshot) (n Note) {
	if s.Note != nil {
		_ = json.Unmarshal(s.Note, &n) // ours; without it nothing is told
	}
	return n
}

// Run judges a command and runs it.
func (e *Engine) Run(ctx context.Context, r Request) (Result, error) {
	scope, err := e.opts.Scope(ctx)
	if err != nil {
		return Result{}, err
	}
	if !scope.Enabled {
		return Result{}, fault.New(fault.ShellDisabled, "commands are switched off in this project")
	}
	if err := checkText(scope, r.Command); err != nil {
		return Result{}, err
	}
	sh, err := e.shellFor(r, scope)
	if err != nil {
		return Result{}, err
	}
	decision := r.Door.judge(scope.Rules, r.Command, sh.dialect)
	if decision.Denied {
		return Result{Denied: denial(decision), Level: decision.Level}, nil
	}
	dir, err := e.dir(r, scope)
	if err != nil {
		return Result{}, err
	}
	env, stripped, denied, err := e.environment(r, scope, dir)
	if err != nil || denied != nil {
		return Result{Denied: denied, Level: decision.Level}, err
	}
	return e.start(ctx, scope, r, started{
		shell: sh, dir: dir, env: env, result: Result{Level: decision.Level, Stripped: stripped},
	})
}

// started is a command that has been judged.
type started struct {
	shell  interpreter
	dir    string
	env    []string
	result Result
}

// start runs a command that was judged, and waits for it as it should be.
func (e *Engine) start(ctx context.Context, scope *Scope, r Request, s started) (Result, error) {
	out := s.result
	out.Shell, out.Fallback, out.Sandbox = s.shell.name, s.shell.fallback, scope.Sandbox.Brief()
	out.Timeout, out.Clamped = r.timeout(scope)
	argv, err := scope.Sandbox.Wrap(s.shell.argv(r.Command))
	if err != nil {
		return Result{}, fault.New(fault.ShellDisabled, "%w", err).
			With("next", "A person can install what is missing or set sandbox.require to false; 'async-crud-mcp sandbox probe' shows what this system offers.")
	}
	c := caller.From(ctx)
	spec := job.Spec{
		Command: r.Command, Argv: argv, Dir: s.dir, Env: s.env, Timeout: out.Timeout, Keeper: out.Sandbox.Backend == sandbox.Bwrap,
		Project: scope.Project, Session: c.Session, Caller: c.String(), Background: r.Background,
		// Only a client on stdio is known to have gone away for good.
		Detach: r.Detach || c.Transport != "stdio",
		Limits: &scope.Jobs,
	}
	end := e.opts.Changes(scope.Root)
	spec.Finish = func(snap *job.Snapshot, stderr string) {
		note, err := json.Marshal(Note{Shell: s.shell.name, Changed: end()})
		if err != nil {
			e.opts.Logger.Error("the note of a job cannot be written", "err", err)
		}
		snap.Note = note
		exitOf(s.shell.name, scope.Sandbox.ExitSignal, snap, stderr)
	}
	if out.Job, err = e.opts.Jobs.Start(spec); err != nil {
		end() // nobody else does
		return Result{}, err
	}
	if r.Background && out.Job.State != job.Failed {
		return out, nil
	}
	if err := e.attend(ctx, scope, r, &out); err != nil {
		return Result{}, err
	}
	news, err := e.whole(ctx, scope, out.Job)
	out.JobNews = news
	out.Shell = s.shell.name // also of a command that still runs
	return out, err
}

// attend waits for a foreground command. It ends with its caller.
func (e *Engine) attend(ctx context.Context, scope *Scope, r Request, out *Result) error {
	in := job.Scope{Project: scope.Project}
	patience := time.Duration(-1)
	if w := r.wait(scope); w > 0 {
		patience = w
	}
	all, err := e.opts.Jobs.Wait(ctx, in, []job.Watch{{ID: out.Job.ID}}, job.WaitOptions{
		Timeout: patience,
		Progress: func(elapsed time.Duration, line string) {
			caller.Progress(ctx, elapsed.Seconds(), out.Timeout.Seconds(), line)
		},
	})
	if err != nil {
		// Nobody waits for it any more; it must not go on unseen.
		_, endErr := e.opts.Jobs.Cancel(context.WithoutCancel(ctx), in, out.Job.ID, "its caller cancelled the call")
		if endErr != nil && fault.CodeOf(endErr) != fault.JobNotRunning {
			return errors.Join(err, endErr)
		}
		return cancelled(err, "the call was cancelled, and its command was ended").With("task_id", out.Job.ID)
	}
	if out.Job = all[0]; !out.Job.Done() {
		out.Job, err = e.opts.Jobs.HandOver(ctx, in, out.Job.ID)
	}
	return err
}

// cancelled says what came of a call whose caller waits no longer.
func cancelled(cause error, what string) *fault.Error {
	e := fault.New(fault.ServerError, "%s", what).With("next", "Call again if the answer is still wanted.")
	e.Err = cause
	return e
}

func checkText(scope *Scope, command string) error {
	switch n := utf8.RuneCountInString(command); {
	case strings.TrimSpace(command) == "":
		return fault.New(fault.ValidationError, "command is empty").With("field", "command")
	case strings.ContainsRune(command, 0):
		return fault.New(fault.ValidationError, "command holds a NUL character").With("field", "command")
	case n > scope.MaxCommand:
		return fault.New(fault.ValidationError, "command has %d characters, and %d is the limit (shell.max_command_length)", n, scope.MaxCommand).
			With("field", "command").With("next", "Write the long part into a file with async_write and run that.")
	}
	return nil
}

// dir settles where a command runs.
func (e *Engine) dir(r Request, scope *Scope) (string, error) {
	outside, missing := r.Door.dirCodes()
	asked, confined := r.Dir, true
	switch {
	case asked == "" && scope.CwdOverride != "":
		asked, confined = scope.CwdOverride, false // a person chose it
	case asked == "":
		return scope.Root, nil
	case r.Door == Shell:
		confined = scope.Confined
	}
	path := asked
	if !filepath.IsAbs(path) {
		path = filepath.Join(scope.Root, path)
	}
	if confined {
		// Whether a place outside exists is not told.
		if near, err := fsys.ResolveNearest(path); err != nil || !fsys.Within(scope.Root, near) {
			return "", fault.New(outside, "working directory '%s' is outside project root", asked).At(asked)
		}
	}
	dir, err := fsys.ResolveDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fault.New(missing, "working directory not found: %s", asked).At(asked)
	case errors.Is(err, syscall.ENOTDIR):
		return "", fault.New(missing, "working directory %s is a file", asked).At(asked)
	case err != nil:
		return "", fault.New(fault.AccessDenied, "working directory %s: %w", asked, err).At(asked)
	case confined && !fsys.Within(scope.Root, dir):
		return "", fault.New(outside, "working directory '%s' is outside project root", asked).At(asked)
	}
	return dir, nil
}

// alwaysStripped are variables by which a shell would run more than it was given.
var alwaysStripped = []string{"BASH_ENV", "ENV", "PROMPT_COMMAND"}

// environment settles what a command finds in its environment.
func (e *Engine) environment(r Request, scope *Scope, dir string) (env, stripped []string, denied *Denial, err error) {
	env, stripped, err = job.Environment(job.EnvOptions{
		Inherit: scope.Environ, Set: r.Env, Strip: slices.Concat(alwaysStripped, scope.Strip), Dir: dir,
		Refuse: func(name, value string) string {
			if d := scope.Rules.Env(name, value); d.Denied {
				denied = denial(d)
				return d.Reason
			}
			return ""
		},
	})
	if denied != nil {
		return nil, nil, denied, nil
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if e.opts.Mark != "" {
		env = append(env, sandbox.MarkerEnv+"="+e.opts.Mark)
	}
	return env, stripped, nil, nil
}
