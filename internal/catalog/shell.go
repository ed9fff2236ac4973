package catalog

import (
	"context"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// ShellIn is the input of shell.
type ShellIn struct {
	Command     string `json:"command" jsonschema:"the command to execute" minLength:"1"`
	WorkingDir  string `json:"working_dir,omitempty" jsonschema:"relative to the project root"`
	TimeoutSecs *int   `json:"timeout_secs,omitempty" jsonschema:"timeout in seconds" usual:"30" minimum:"1"`
	Background  bool   `json:"background" jsonschema:"return a job id at once" default:"false"`
	Shell       string `json:"shell,omitempty" jsonschema:"insist on this shell" enum:"nu,bash,sh"`
}

// ShellOut is a command that ended, or a job that runs.
type ShellOut struct {
	JobID   string `json:"job_id,omitempty"`
	Status  string `json:"status,omitempty" enum:"running"`
	Message string `json:"message,omitempty"`
	*ShellRanOut
	TimeoutApplied float64              `json:"timeout_applied,omitempty" jsonschema:"seconds in force, when others than asked for"`
	ShellUsed      string               `json:"shell_used"`
	Fallback       bool                 `json:"fallback,omitempty" jsonschema:"the configured shell is not installed"`
	PolicyLevel    string               `json:"policy_level,omitempty" jsonschema:"regex: judged without a grammar"`
	EnvStripped    []string             `json:"env_stripped,omitempty"`
	Sandbox        *shell.SandboxReport `json:"sandbox,omitempty"`

	job string // for the record of calls
}

// ResultStatus implements tool.Statused.
func (o ShellOut) ResultStatus() string {
	if o.ShellRanOut == nil {
		return tool.Background
	}
	return tool.OK
}

// ShellRanOut is how a command of the shell tool ended.
type ShellRanOut struct {
	ExitCode     *int    `json:"exit_code"`
	Stdout       string  `json:"stdout"`
	Stderr       string  `json:"stderr"`
	TimedOut     bool    `json:"timed_out"`
	DurationSecs float64 `json:"duration_secs"`
	Signal       string  `json:"signal,omitempty"`
	OutputOut
	Hint    string         `json:"hint,omitempty"`
	Changed *shell.Changes `json:"files_changed,omitempty"`
}

// ShellError is the shape of an error of the shell tools.
type ShellError struct {
	Error   fault.Code     `json:"error"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
}

func shellError(e *fault.Error) any {
	return ShellError{Error: e.Code, Message: e.Text(), Details: tool.Failure(e).Details}
}

var shellCodes = []fault.Code{
	fault.NoProjectActivated, fault.ShellDisabled, fault.ShellNotInstalled, fault.BlockedCommand, fault.WorkingDirEscape,
	fault.WorkingDirNotFound, fault.AccessDenied, fault.TooManyJobs, fault.RateLimited,
}

// RunShell declares shell.
func RunShell(engine *shell.Engine, shellName string) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "shell", Title: "Run a shell command", Toolset: Shell,
		Doc: "Execute a command in the project with " + shellName + ". Commands that read, write or search files are refused; use the file tools. " +
			"With background a job id comes back at once: see shell_job_status.",
		Effect: tool.Destructive | tool.OpenWorld, Codes: shellCodes, Errors: shellError,
		Examples: []tool.Example{
			{Title: "A command", Args: `{"command": "git --version", "shell": "sh"}`, Status: tool.OK},
			{Title: "A blocked command", Args: `{"command": "rm -rf /", "shell": "sh"}`, Status: tool.Error, Code: fault.BlockedCommand},
		},
	}, func(ctx context.Context, in ShellIn) (ShellOut, error) {
		res, err := engine.Run(ctx, shell.Request{
			Door: shell.Shell, Command: in.Command, Dir: in.WorkingDir, Timeout: wholeSeconds(in.TimeoutSecs), Background: in.Background, Shell: in.Shell,
		})
		if err != nil {
			return ShellOut{}, err
		}
		if d := res.Denied; d != nil {
			return ShellOut{}, refused(fault.New(fault.BlockedCommand, "Command blocked: %s", d.Reason).With("reason", d.Reason), d)
		}
		return shellOut(in.Command, res)
	})
}

// refused adds to an error which rule denied the command, and what to use
// instead.
func refused(e *fault.Error, d *shell.Denial) *fault.Error {
	if d.Use != "" {
		e = e.With("use", d.Use)
	}
	return e.With("matched_pattern", d.Rule)
}

func shellOut(command string, res shell.Result) (ShellOut, error) {
	if res.Job.State == shell.Failed {
		return ShellOut{}, ended(res, fault.ServerError)
	}
	out := ShellOut{
		ShellUsed: res.Shell, Fallback: res.Fallback, PolicyLevel: levelOut(res.Level), EnvStripped: res.Stripped, Sandbox: &res.Sandbox,
		TimeoutApplied: applied(res), job: res.Job.ID,
	}
	if !res.Job.Done() {
		out.JobID, out.Status = res.Job.ID, "running"
		out.Message = "Command '" + clip(command, 200) + "' started in background"
		return out, nil
	}
	n := res.JobNews
	out.ShellRanOut = &ShellRanOut{
		ExitCode: n.Job.ExitCode, Stdout: n.Output.Stdout.Text, Stderr: n.Output.Stderr.Text, TimedOut: n.Job.State == shell.TimedOut,
		DurationSecs: n.Job.Duration().Seconds(), Signal: n.Job.Signal, OutputOut: outputOut(n), Hint: n.Hint, Changed: n.Changed,
	}
	return out, nil
}

// clip shortens text for a message.
func clip(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

func wholeSeconds(n *int) *time.Duration {
	if n == nil {
		return nil
	}
	d := time.Duration(min(*n, 1<<30)) * time.Second
	return &d
}

// JobIn names a job.
type JobIn struct {
	JobID string `json:"job_id" jsonschema:"the job" minLength:"1"`
}

// JobOut is a background job.
type JobOut struct {
	ID          string       `json:"id"`
	Command     string       `json:"command"`
	WorkingDir  string       `json:"working_dir"`
	TimeoutSecs int64        `json:"timeout_secs" jsonschema:"0: none"`
	Status      JobStatusOut `json:"status"`
}

// JobStatusOut is the state of a job; which fields are there depends on it.
type JobStatusOut struct {
	Status        string   `json:"status" enum:"running,completed,failed,timed_out,cancelled,lost"`
	StartedAtUnix int64    `json:"started_at_unix,omitempty"`
	ExitCode      *int     `json:"exit_code,omitempty"`
	Stdout        *string  `json:"stdout,omitempty"`
	Stderr        *string  `json:"stderr,omitempty"`
	Error         string   `json:"error,omitempty"`
	DurationSecs  *float64 `json:"duration_secs,omitempty"`
	Signal        string   `json:"signal,omitempty"`
	OutputOut
	Hint    string         `json:"hint,omitempty"`
	Changed *shell.Changes `json:"files_changed,omitempty"`
}

func jobOut(n shell.JobNews) JobOut {
	return JobOut{
		ID: n.Job.ID, Command: n.Job.Command, WorkingDir: n.Job.Dir, TimeoutSecs: int64(n.Job.Timeout.Seconds()), Status: jobStatusOut(n),
	}
}

func jobStatusOut(n shell.JobNews) JobStatusOut {
	s := JobStatusOut{Status: string(n.Job.State), StartedAtUnix: n.Job.Started.Unix(), Error: n.Job.Error}
	if n.Job.State != shell.Failed {
		s.Stdout, s.Stderr, s.OutputOut = &n.Output.Stdout.Text, &n.Output.Stderr.Text, outputOut(n)
	}
	if n.Job.Done() {
		took := n.Job.Duration().Seconds()
		s.DurationSecs, s.ExitCode, s.Signal, s.Hint, s.Changed = &took, n.Job.ExitCode, n.Job.Signal, n.Hint, n.Changed
	}
	return s
}

// ShellJobStatus declares shell_job_status.
func ShellJobStatus(engine *shell.Engine) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "shell_job_status", Title: "Look at a job", Toolset: Shell,
		Doc:    "Check the status of a background job, with what it has printed.",
		Effect: tool.ReadOnly, Codes: []fault.Code{fault.NoProjectActivated, fault.JobNotFound}, Errors: shellError,
		Examples: []tool.Example{{Title: "A job that is not there", Args: `{"job_id": "job_none"}`, Status: tool.Error, Code: fault.JobNotFound}},
	}, func(ctx context.Context, in JobIn) (JobOut, error) {
		n, err := engine.Job(ctx, in.JobID)
		if err != nil {
			return JobOut{}, err
		}
		return jobOut(n), nil
	})
}

// JobsOut lists jobs.
type JobsOut struct {
	Jobs []JobSummary `json:"jobs"`
}

// JobSummary is a job in a list.
type JobSummary struct {
	ID            string `json:"id"`
	Command       string `json:"command"`
	Status        string `json:"status"`
	StartedAtUnix int64  `json:"started_at_unix"`
}

// ShellJobs declares shell_jobs.
func ShellJobs(engine *shell.Engine) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "shell_jobs", Title: "List jobs", Toolset: Shell,
		Doc:    "List the background jobs of the project.",
		Effect: tool.ReadOnly, Codes: []fault.Code{fault.NoProjectActivated}, Errors: shellError,
		Examples: []tool.Example{{Title: "All jobs", Args: `{}`, Status: tool.OK}},
	}, func(ctx context.Context, _ struct{}) (JobsOut, error) {
		jobs, err := engine.Jobs(ctx)
		if err != nil {
			return JobsOut{}, err
		}
		out := JobsOut{Jobs: []JobSummary{}}
		for _, s := range jobs {
			out.Jobs = append(out.Jobs, JobSummary{ID: s.ID, Command: s.Command, Status: string(s.State), StartedAtUnix: s.Started.Unix()})
		}
		return out, nil
	})
}

// CancelOut is a job that was cancelled.
type CancelOut struct {
	JobID  string `json:"job_id"`
	Status string `json:"status"`
}

// ShellJobCancel declares shell_job_cancel.
func ShellJobCancel(engine *shell.Engine) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "shell_job_cancel", Title: "Cancel a job", Toolset: Shell,
		Doc:    "Cancel a running background job: it is asked to end, and killed five seconds later.",
		Effect: tool.Destructive | tool.Idempotent, Codes: []fault.Code{fault.NoProjectActivated, fault.JobNotFound, fault.JobNotRunning}, Errors: shellError,
		Examples: []tool.Example{{Title: "A job that is not there", Args: `{"job_id": "job_none"}`, Status: tool.Error, Code: fault.JobNotFound}},
	}, func(ctx context.Context, in JobIn) (CancelOut, error) {
		s, err := engine.Cancel(ctx, in.JobID)
		if err != nil {
			return CancelOut{}, err
		}
		return CancelOut{JobID: s.ID, Status: string(s.State)}, nil
	})
}
