package catalog

import (
	"context"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// ExecIn is the input of async_exec.
type ExecIn struct {
	Command     string            `json:"command" jsonschema:"what to run" minLength:"1"`
	Timeout     *float64          `json:"timeout,omitempty" jsonschema:"seconds; none in the background" usual:"120"`
	Cwd         string            `json:"cwd,omitempty" jsonschema:"working directory in the project"`
	Env         map[string]string `json:"env,omitempty" jsonschema:"further variables"`
	Background  bool              `json:"background" jsonschema:"return a task_id for async_wait at once" default:"false"`
	WaitSeconds *float64          `json:"wait_seconds,omitempty" jsonschema:"go on in the background after this" minimum:"0"`
	Detach      bool              `json:"detach,omitempty" jsonschema:"let it outlive this session"`
}

// ExecOut is a command that ended, was denied, or goes on.
type ExecOut struct {
	Status  string `json:"status" enum:"ok,denied,background"`
	TaskID  string `json:"task_id,omitempty" jsonschema:"for async_wait"`
	Command string `json:"command"`
	Pattern string `json:"matched_pattern,omitempty" jsonschema:"rule that denied it"`
	Reason  string `json:"reason,omitempty" jsonschema:"why, and what to do instead"`
	Use     string `json:"use,omitempty" jsonschema:"tool to use instead"`
	*RanOut
	TimeoutApplied float64              `json:"timeout_applied,omitempty" jsonschema:"seconds in force, when others than asked for"`
	Shell          string               `json:"shell_used,omitempty"`
	EnvStripped    []string             `json:"env_stripped,omitempty" jsonschema:"variables the command did not get"`
	Sandbox        *shell.SandboxReport `json:"sandbox,omitempty"`
	PolicyLevel    string               `json:"policy_level,omitempty" jsonschema:"regex: judged without a grammar"`
	Timestamp      string               `json:"timestamp"`

	job string // for the record of calls
}

// ResultStatus implements tool.Statused.
func (o ExecOut) ResultStatus() string { return o.Status }

// RanOut is how a command ended and what it printed.
type RanOut struct {
	Stdout     string  `json:"stdout"`
	Stderr     string  `json:"stderr"`
	ExitCode   *int    `json:"exit_code" jsonschema:"128 + number for a signal; null: it runs"`
	Signal     string  `json:"signal,omitempty" jsonschema:"that ended it"`
	DurationMS float64 `json:"duration_ms"`
	OutputOut
	Hint    string         `json:"hint,omitempty"`
	Changed *shell.Changes `json:"files_changed,omitempty" jsonschema:"files of the project that changed meanwhile"`
}

// OutputOut says what is special about the output.
type OutputOut struct {
	Truncated  bool `json:"truncated,omitempty" jsonschema:"the middle is left out; async_wait with task_id and cursor 0.0 pages through it"`
	Repaired   bool `json:"invalid_utf8,omitempty" jsonschema:"bytes that are no text are shown as U+FFFD"`
	Incomplete bool `json:"output_incomplete,omitempty" jsonschema:"another process still held the output"`
}

var execCodes = []fault.Code{
	fault.NoProjectActivated, fault.ShellDisabled, fault.CommandTimeout, fault.PathOutsideBase, fault.DirNotFound, fault.AccessDenied,
	fault.TooManyJobs, fault.RateLimited, fault.ShellNotInstalled,
}

// RunExec declares async_exec.
func RunExec(engine *shell.Engine, shellName string) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "async_exec", Title: "Run a command", Toolset: Exec,
		Doc:    "Run a " + shellName + " command: builds, tests, git. Commands that read, write or search files are denied; reason names the tool to use instead.",
		Effect: tool.Destructive | tool.OpenWorld,
		Codes:  execCodes,
		Examples: []tool.Example{
			{Title: "A command", Args: `{"command": "git --version"}`, Status: tool.OK},
			{Title: "In the background", Args: `{"command": "sleep 0.1", "background": true}`, Status: tool.Background},
			{Title: "What another tool does", Args: `{"command": "cat /etc/passwd"}`, Status: tool.Denied},
		},
	}, func(ctx context.Context, in ExecIn) (ExecOut, error) {
		res, err := engine.Run(ctx, shell.Request{
			Door: shell.Exec, Command: in.Command, Dir: in.Cwd, Env: in.Env, Timeout: duration(in.Timeout),
			Background: in.Background, Detach: in.Detach, Wait: duration(in.WaitSeconds),
		})
		if err != nil {
			return ExecOut{}, err
		}
		return execOut(in.Command, res)
	})
}

func execOut(command string, res shell.Result) (ExecOut, error) {
	out := ExecOut{Status: tool.OK, Command: command, Timestamp: now(), PolicyLevel: levelOut(res.Level)}
	if d := res.Denied; d != nil {
		out.Status, out.Pattern, out.Reason, out.Use = tool.Denied, d.Rule, d.Reason, d.Use
		return out, nil
	}
	if err := ended(res, fault.CommandTimeout); err != nil {
		return ExecOut{}, err
	}
	out.Shell, out.EnvStripped, out.Sandbox, out.job = res.Shell, res.Stripped, &res.Sandbox, res.Job.ID
	out.TimeoutApplied = applied(res)
	if !res.Job.Done() {
		out.Status, out.TaskID = tool.Background, res.Job.ID
		return out, nil
	}
	out.RanOut = ranOut(res.JobNews)
	if out.Truncated {
		out.TaskID = res.Job.ID
	}
	return out, nil
}

// applied is the timeout in seconds where it is not the one that was asked for.
func applied(res shell.Result) float64 {
	if !res.Clamped {
		return 0
	}
	return res.Timeout.Seconds()
}

// levelOut names the level of judgement where it is not the usual one.
func levelOut(level string) string {
	if level == "grammar" {
		return ""
	}
	return level
}

// ended returns the error of a job that did not run to its end.
func ended(res shell.Result, late fault.Code) error {
	var e *fault.Error
	n := res.JobNews
	switch s := n.Job; s.State {
	case shell.TimedOut:
		e = fault.New(late, "the command was ended after %s; what it printed until then comes with this", s.Timeout.Round(time.Millisecond))
	case shell.Failed:
		return fault.New(fault.ServerError, "the command could not be started: %s", s.Error)
	case shell.Cancelled, shell.Lost:
		e = fault.New(fault.ServerError, "the command did not end by itself: %s", s.Error)
	default:
		return nil
	}
	if seconds := applied(res); seconds > 0 {
		e = e.With("timeout_applied", seconds)
	}
	return e.With("stdout", n.Output.Stdout.Text).With("stderr", n.Output.Stderr.Text).
		With("duration_ms", milliseconds(n.Job.Duration())).With("truncated", truncated(n.Output)).With("task_id", n.Job.ID)
}

func ranOut(n shell.JobNews) *RanOut {
	return &RanOut{
		Stdout: n.Output.Stdout.Text, Stderr: n.Output.Stderr.Text, ExitCode: n.Job.ExitCode, Signal: n.Job.Signal, DurationMS: milliseconds(n.Job.Duration()),
		OutputOut: outputOut(n),
		Hint:      n.Hint,
		Changed:   n.Changed,
	}
}

func outputOut(n shell.JobNews) OutputOut {
	return OutputOut{
		Truncated: truncated(n.Output), Repaired: n.Output.Stdout.Repaired || n.Output.Stderr.Repaired, Incomplete: n.Job.Incomplete,
	}
}

func truncated(o shell.Output) bool { return o.Stdout.Truncated || o.Stderr.Truncated }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
