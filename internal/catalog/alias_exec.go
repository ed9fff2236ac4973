package catalog

import (
	"context"
	"errors"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/alias"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// AliasExecIn is the input of alias_exec.
type AliasExecIn struct {
	Name string `json:"name" jsonschema:"the alias, as alias_catalog lists it" minLength:"1"`
	AliasRunIn
}

// AliasRunIn is what every run of an alias takes.
type AliasRunIn struct {
	Args           string `json:"args,omitempty" jsonschema:"words to put behind the alias, quoted as for bash; no operators, redirections or variables"`
	Cwd            string `json:"cwd,omitempty" jsonschema:"working directory; ~ is the home directory"`
	DryRun         bool   `json:"dryRun" jsonschema:"only show what would run" default:"true"`
	Confirm        bool   `json:"confirm" jsonschema:"the person has agreed to this very command" default:"false"`
	TimeoutSeconds *int   `json:"timeoutSeconds,omitempty" jsonschema:"end it after this" usual:"20" minimum:"1"`
}

// AliasExecOut is what an alias would run, or how it ended.
type AliasExecOut struct {
	Status         string               `json:"status" enum:"ok"`
	Command        string               `json:"command" jsonschema:"what bash gets"`
	ExitCode       *int                 `json:"exitCode" jsonschema:"null: nothing was run, or it took too long"`
	Stdout         string               `json:"stdout"`
	Stderr         string               `json:"stderr"`
	Truncated      AliasTruncated       `json:"truncated"`
	TimedOut       bool                 `json:"timedOut"`
	DryRun         bool                 `json:"dryRun"`
	Safe           bool                 `json:"safe" jsonschema:"it may run once it is confirmed"`
	Rule           string               `json:"rule,omitempty" jsonschema:"what would have to change for it to be safe"`
	Reason         string               `json:"reason,omitempty" jsonschema:"why it is not safe"`
	Next           string               `json:"next,omitempty"`
	Cwd            string               `json:"cwd"`
	Environment    []string             `json:"environment" jsonschema:"names of all variables the command finds"`
	Shell          string               `json:"shell"`
	SourceFile     string               `json:"sourceFile"`
	TimeoutSeconds float64              `json:"timeoutSeconds" jsonschema:"in force"`
	TimeoutApplied float64              `json:"timeout_applied,omitempty" jsonschema:"seconds in force, when fewer than asked for"`
	Signal         string               `json:"signal,omitempty" jsonschema:"that ended it"`
	DurationMS     float64              `json:"durationMs,omitempty"`
	Repaired       bool                 `json:"invalid_utf8,omitempty" jsonschema:"bytes that are no text are shown as U+FFFD"`
	Hint           string               `json:"hint,omitempty"`
	Changed        *shell.Changes       `json:"files_changed,omitempty" jsonschema:"files of the project that changed meanwhile"`
	TaskID         string               `json:"task_id,omitempty" jsonschema:"async_wait with it and cursor 0.0 pages through all output"`
	Sandbox        *shell.SandboxReport `json:"sandbox,omitempty"`

	job   string // for the record of calls
	alias string
}

// AliasTruncated says which output is not all there.
type AliasTruncated struct {
	Stdout bool `json:"stdout"`
	Stderr bool `json:"stderr"`
}

var aliasCodes = []fault.Code{
	fault.AliasNotFound, fault.AliasUnsafe, fault.ConfirmationRequired, fault.NoProjectActivated, fault.PathOutsideBase, fault.DirNotFound, fault.AccessDenied,
	fault.ShellNotInstalled, fault.ShellDisabled, fault.TooManyJobs, fault.RateLimited,
}

// AliasExec declares alias_exec.
func AliasExec(engine *shell.Engine) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "alias_exec", Title: "Run an alias", Toolset: Aliases, Other: []string{"alias.exec"},
		Doc: "Run one of the person's shell aliases with optional arguments. A dry run, the default, shows what would run, where and with which environment. " +
			"To run it, show the person the command, then set dryRun: false and confirm: true. An alias that is not safe can only be a dry run; rule and next say what a person would have to change.",
		Effect: tool.Destructive | tool.OpenWorld, Codes: aliasCodes,
		Examples: []tool.Example{
			{Title: "What an alias would run", Args: `{"name": "gs"}`, Status: tool.OK},
			{Title: "With an argument", Args: `{"name": "gs", "args": "--short"}`, Status: tool.OK},
			{Title: "Run it", Args: `{"name": "hello", "dryRun": false, "confirm": true}`, Status: tool.OK},
			{Title: "One that is not safe", Args: `{"name": "nuke", "dryRun": false, "confirm": true}`, Status: tool.Error, Code: fault.AliasUnsafe},
			{Title: "Without a confirmation", Args: `{"name": "hello", "dryRun": false}`, Status: tool.Error, Code: fault.ConfirmationRequired},
			{Title: "An alias that is not there", Args: `{"name": "gx"}`, Status: tool.Error, Code: fault.AliasNotFound},
		},
	}, func(ctx context.Context, in AliasExecIn) (AliasExecOut, error) {
		return runAlias(ctx, engine, in.Name, in.AliasRunIn)
	})
}

func runAlias(ctx context.Context, engine *shell.Engine, name string, in AliasRunIn) (AliasExecOut, error) {
	res, err := engine.Alias(ctx, shell.AliasRequest{
		Name: name, Args: in.Args, Dir: in.Cwd, Timeout: wholeSeconds(in.TimeoutSeconds), Run: !in.DryRun, Confirmed: in.Confirm,
	})
	if err == nil && res.Ran {
		switch s := res.Job; s.State {
		case shell.Failed:
			err = fault.New(fault.ServerError, "the alias could not be started: %s", s.Error)
		case shell.Cancelled, shell.Lost:
			err = fault.New(fault.ServerError, "the alias did not end by itself: %s", s.Error)
		case shell.Running, shell.Completed, shell.TimedOut:
		}
	}
	if e, ok := errors.AsType[*fault.Error](err); ok && alias.ValidName(name) {
		return AliasExecOut{}, e.With("alias", name)
	}
	if err != nil {
		return AliasExecOut{}, err
	}
	return aliasOut(res), nil
}

func aliasOut(res shell.AliasResult) AliasExecOut {
	out := AliasExecOut{
		Status: tool.OK, Command: res.Text, DryRun: !res.Ran, Safe: res.Safe, Rule: res.Rule, Reason: res.Reason, Next: res.Next,
		Cwd: res.Dir, Environment: res.Env, Shell: res.Shell, SourceFile: res.Command.Alias.File, TimeoutSeconds: res.Timeout.Seconds(), alias: res.Command.Alias.Name,
	}
	if res.Clamped {
		out.TimeoutApplied = res.Timeout.Seconds()
	}
	if !res.Ran {
		return out
	}
	n := res.JobNews
	out.Stdout, out.Stderr, out.Signal, out.DurationMS = n.Output.Stdout.Text, n.Output.Stderr.Text, n.Job.Signal, milliseconds(n.Job.Duration().Round(time.Microsecond))
	out.Truncated = AliasTruncated{n.Output.Stdout.Truncated, n.Output.Stderr.Truncated}
	out.Repaired, out.Hint, out.Changed, out.Sandbox, out.job = n.Output.Stdout.Repaired || n.Output.Stderr.Repaired, n.Hint, n.Changed, &res.Sandbox, n.Job.ID
	if out.TimedOut = n.Job.State == shell.TimedOut; !out.TimedOut {
		out.ExitCode = n.Job.ExitCode
	}
	if n.Job.Project != "" && truncated(n.Output) {
		out.TaskID = n.Job.ID
	}
	return out
}
