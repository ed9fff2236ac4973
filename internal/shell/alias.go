package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/alias"
	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/job"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/sandbox"
)

// AliasScope is what aliases may do for one caller. It is immutable.
type AliasScope struct {
	Book    *alias.Book
	Project string // id; "": the caller has none
	Root    string // of the project

	Environ []string // all that an alias finds, NAME=value
	Home    string   // what ~ means in a working directory
	Dir     string   // where aliases run that do not say
	Roots   []string // directories that they may be told to run in

	Timeout    time.Duration
	MaxTimeout time.Duration
	MaxStdout  int // bytes handed out
	MaxStderr  int
	Jobs       job.Limits
	PerAlias   bool // there is a tool for each safe alias
	// Sandbox returns the sandbox of an alias that runs in dir.
	Sandbox func(dir string) (*sandbox.Sandbox, error)
}

// AliasRequest asks what an alias would run, or to run it.
type AliasRequest struct {
	Name      string
	Args      string
	Dir       string         // "": the default
	Timeout   *time.Duration // nil: the default
	Run       bool           // else nothing is run
	Confirmed bool           // else the person is asked before it runs
}

// AliasResult is what an alias would run, and what came of it if it was run.
type AliasResult struct {
	*alias.Command
	Dir     string
	Env     []string // names of variables
	Shell   string
	Timeout time.Duration
	Clamped bool // the caller asked for more
	Ran     bool
	JobNews // when it ran
	Sandbox sandbox.Report
}

// aliasShell is the only shell that aliases are written for. With -c it reads no
// profile, and nothing in the environment of an alias tells it to.
const aliasShell = "bash"

// Book returns the aliases of the caller.
func (e *Engine) Book(ctx context.Context) (*alias.Book, error) {
	scope, err := e.Aliases(ctx)
	if err != nil {
		return nil, err
	}
	return scope.Book, nil
}

// Aliases returns what aliases there are for the caller, and what they may do.
func (e *Engine) Aliases(ctx context.Context) (*AliasScope, error) {
	if e.opts.Alias == nil {
		return nil, fault.New(fault.AliasNotFound, "this server has no aliases")
	}
	return e.opts.Alias(ctx)
}

// Alias judges an alias with its arguments and, if it is asked to, runs it.
func (e *Engine) Alias(ctx context.Context, r AliasRequest) (AliasResult, error) {
	scope, err := e.Aliases(ctx)
	if err != nil {
		return AliasResult{}, err
	}
	plan, err := e.plan(scope, r)
	if err != nil || !r.Run {
		return plan, err
	}
	if err := plan.mayRun(); err != nil {
		return AliasResult{}, err
	}
	if !r.Confirmed {
		if err := plan.confirm(ctx); err != nil {
			return AliasResult{}, err
		}
		// The person took their time: what they saw must be what runs.
		shown := plan
		if scope, err = e.Aliases(ctx); err != nil {
			return AliasResult{}, err
		}
		if plan, err = e.plan(scope, r); err != nil {
			return AliasResult{}, err
		}
		if err := plan.mayRun(); err != nil {
			return AliasResult{}, err
		}
		if plan.Text != shown.Text || plan.Dir != shown.Dir {
			return AliasResult{}, fault.New(fault.ConfirmationRequired, "the alias %s changed while the person was asked", r.Name)
		}
	}
	return e.runAlias(ctx, scope, plan)
}

// plan settles everything about a run but whether it happens.
func (e *Engine) plan(scope *AliasScope, r AliasRequest) (AliasResult, error) {
	command, err := scope.Book.Compose(r.Name, r.Args)
	if err != nil {
		return AliasResult{}, err
	}
	p := AliasResult{Command: command, Shell: aliasShell, Timeout: scope.Timeout}
	if r.Timeout != nil {
		p.Timeout = *r.Timeout
	}
	if p.Timeout > scope.MaxTimeout {
		p.Timeout, p.Clamped = scope.MaxTimeout, r.Timeout != nil
	}
	for _, v := range e.aliasEnviron(scope) {
		name, _, _ := strings.Cut(v, "=")
		p.Env = append(p.Env, name)
	}
	p.Dir, err = scope.dir(r.Dir)
	return p, err
}

// aliasEnviron is the whole environment of an alias, sorted.
func (e *Engine) aliasEnviron(scope *AliasScope) []string {
	env := slices.Clone(scope.Environ)
	if e.opts.Mark != "" {
		env = append(env, sandbox.MarkerEnv+"="+e.opts.Mark)
	}
	slices.Sort(env)
	return env
}

// dir settles where an alias runs. What a caller names must lie in one of the
// roots; the default is a person's choice.
func (scope *AliasScope) dir(asked string) (string, error) {
	path := asked
	switch {
	case asked == "":
		path = scope.Dir
	case asked == "~" || strings.HasPrefix(asked, "~/"):
		path = filepath.Join(scope.Home, asked[1:])
	case !filepath.IsAbs(asked):
		path = filepath.Join(scope.Dir, asked)
	}
	if asked != "" {
		// Whether a place outside exists is not told.
		if near, err := fsys.ResolveNearest(path); err != nil || !scope.within(near) {
			return "", scope.outside(asked)
		}
	}
	dir, err := fsys.ResolveDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return "", fault.New(fault.DirNotFound, "there is no directory %s", path).At(path)
	case err != nil:
		return "", fault.New(fault.AccessDenied, "working directory %s: %w", path, err).At(path)
	case asked != "" && !scope.within(dir):
		return "", scope.outside(asked)
	}
	return dir, nil
}

func (scope *AliasScope) within(path string) bool {
	return slices.ContainsFunc(scope.Roots, func(root string) bool {
		resolved, err := fsys.ResolveDir(root)
		return err == nil && fsys.Within(resolved, path)
	})
}

func (scope *AliasScope) outside(asked string) error {
	return fault.New(fault.PathOutsideBase, "aliases may not run in %s: it lies in none of aliases.cwd_roots", asked).At(asked).
		With("field", "cwd").With("roots", scope.Roots).With("next", "Leave cwd out, name a directory below one of the roots, or have a person add one to aliases.cwd_roots.")
}

// mayRun refuses a command that is not safe.
func (p AliasResult) mayRun() error {
	if p.Safe {
		return nil
	}
	return fault.New(fault.AliasUnsafe, "the alias %s may not run: %s", p.Alias.Name, p.Reason).
		With("rule", p.Rule).With("command", p.Text).With("next", p.Next)
}

const runSchema = `{"type":"object","properties":{"run":{"type":"boolean","title":"Run it","description":"The command runs on this machine, with your rights."}},"required":["run"]}`

// confirm asks the person whether the command may run.
func (p AliasResult) confirm(ctx context.Context) error {
	refused := func(why string) *fault.Error {
		return fault.New(fault.ConfirmationRequired, "running the alias %s needs a confirmation%s", p.Alias.Name, why).With("command", p.Text).With("cwd", p.Dir).
			With("next", "Show the person the command and where it runs; when they agree, call again with dryRun: false and confirm: true.")
	}
	answer, err := caller.Elicit(ctx, caller.Question{
		Key:     "run",
		Message: fmt.Sprintf("%s asks to run the alias %s: %s\nin %s. Run it?", caller.From(ctx), p.Alias.Name, p.Text, p.Dir),
		Schema:  json.RawMessage(runSchema),
	})
	if need, ok := errors.AsType[*caller.NeedInput](err); ok {
		return need
	}
	var form struct {
		Run bool `json:"run"`
	}
	switch {
	case errors.Is(err, caller.ErrCannotAsk):
		return refused("")
	case err != nil:
		return refused(", and asking did not work: " + err.Error())
	case !answer.Accepted || json.Unmarshal(answer.Content, &form) != nil || !form.Run:
		return refused(", and the person did not give it").With("next", "Leave it at that; the person does not want this command to run.")
	}
	return nil
}

// runAlias starts what was planned and waits for it.
func (e *Engine) runAlias(ctx context.Context, scope *AliasScope, p AliasResult) (AliasResult, error) {
	sh, err := e.find.named(aliasShell, "")
	if err != nil {
		return AliasResult{}, err
	}
	box, err := scope.Sandbox(p.Dir)
	if err != nil {
		return AliasResult{}, err
	}
	in := &Scope{Project: scope.Project, Root: scope.Root, Sandbox: box, MaxTimeout: scope.MaxTimeout, Jobs: scope.Jobs}
	res, err := e.start(ctx, in, Request{Door: Alias, Command: p.Text, Timeout: &p.Timeout}, started{shell: sh, dir: p.Dir, env: e.aliasEnviron(scope)})
	if err != nil {
		return AliasResult{}, err
	}
	p.Ran, p.JobNews, p.Sandbox = true, res.JobNews, res.Sandbox
	if scope.Root == "" {
		p.Changed = nil // nobody looked
	}
	// Of each stream the beginning, as much as the settings say.
	for _, s := range []struct {
		limit int
		text  *job.Text
		of    func(job.Output) job.Text
	}{
		{scope.MaxStdout, &p.Output.Stdout, func(o job.Output) job.Text { return o.Stdout }},
		{scope.MaxStderr, &p.Output.Stderr, func(o job.Output) job.Text { return o.Stderr }},
	} {
		out, err := e.opts.Jobs.Output(ctx, job.Scope{Project: scope.Project}, p.Job.ID, job.Cursor{}, s.limit)
		if err != nil {
			return AliasResult{}, err
		}
		*s.text = s.of(out)
		if len(s.text.Text) > s.limit {
			s.text.Text, s.text.Truncated = strings.ToValidUTF8(s.text.Text[:s.limit], ""), true
		}
	}
	return p, nil
}
