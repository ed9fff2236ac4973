package catalog

import (
	"context"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// CommandIn is the input of exec.
type CommandIn struct {
	Command string `json:"command" jsonschema:"the shell command to execute" minLength:"1"`
	Timeout *int   `json:"timeout,omitempty" jsonschema:"timeout in seconds" usual:"300" minimum:"1"`
	WorkDir string `json:"work_dir,omitempty" jsonschema:"working directory in the project"`
}

// CommandOut is how a command ended.
type CommandOut struct {
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode *int   `json:"exit_code"`
	Status   string `json:"status" enum:"success,failed"`
	Timeout  bool   `json:"timeout"`
	Signal   string `json:"signal,omitempty"`
	OutputOut
	Hint           string               `json:"hint,omitempty"`
	Changed        *shell.Changes       `json:"files_changed,omitempty"`
	TimeoutApplied float64              `json:"timeout_applied,omitempty" jsonschema:"seconds in force, when others than asked for"`
	EnvStripped    []string             `json:"env_stripped,omitempty"`
	Sandbox        *shell.SandboxReport `json:"sandbox,omitempty"`

	job string // for the record of calls
}

// CommandError is the shape of an error of exec.
type CommandError struct {
	Status   string         `json:"status"`
	Code     fault.Code     `json:"error_code"`
	Message  string         `json:"message"`
	Stdout   string         `json:"stdout"`
	Stderr   string         `json:"stderr"`
	ExitCode *int           `json:"exit_code"`
	Timeout  bool           `json:"timeout"`
	Details  map[string]any `json:"details,omitempty"`
}

func commandError(e *fault.Error) any {
	out := CommandError{Status: "failed", Code: e.Code, Message: e.Text(), Timeout: e.Code == fault.CommandTimeout, Details: tool.Failure(e).Details}
	out.Stdout, _ = out.Details["stdout"].(string)
	out.Stderr, _ = out.Details["stderr"].(string)
	delete(out.Details, "stdout")
	delete(out.Details, "stderr")
	if out.Timeout {
		out.Details["next"] = "Raise timeout, or run it by async_exec with background: true and wait with async_wait."
	}
	return out
}

// RunCommand declares exec.
func RunCommand(engine *shell.Engine, shellName string) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "exec", Title: "Execute a command", Toolset: Command,
		Doc:    "Execute a " + shellName + " command in the project and wait for it. Commands that read, write or search files are refused; use the file tools.",
		Effect: tool.Destructive | tool.OpenWorld, Codes: append([]fault.Code{fault.CommandDenied}, execCodes...), Errors: commandError,
		Examples: []tool.Example{
			{Title: "A command", Args: `{"command": "git --version"}`, Status: tool.OK},
			{Title: "What another tool does", Args: `{"command": "cat /etc/passwd"}`, Status: tool.Error, Code: fault.CommandDenied},
		},
	}, func(ctx context.Context, in CommandIn) (CommandOut, error) {
		res, err := engine.Run(ctx, shell.Request{Door: shell.Command, Command: in.Command, Dir: in.WorkDir, Timeout: wholeSeconds(in.Timeout)})
		if err != nil {
			return CommandOut{}, err
		}
		if d := res.Denied; d != nil {
			return CommandOut{}, refused(fault.New(fault.CommandDenied, "%s", d.Reason), d)
		}
		if err := ended(res, fault.CommandTimeout); err != nil {
			return CommandOut{}, err
		}
		return commandOut(res), nil
	})
}

func commandOut(res shell.Result) CommandOut {
	n := res.JobNews
	out := CommandOut{
		Stdout: n.Output.Stdout.Text, Stderr: n.Output.Stderr.Text, ExitCode: n.Job.ExitCode, Status: "success", Signal: n.Job.Signal,
		OutputOut: outputOut(n), Hint: n.Hint, Changed: n.Changed, EnvStripped: res.Stripped, Sandbox: &res.Sandbox,
		TimeoutApplied: applied(res), job: n.Job.ID,
	}
	if n.Job.State != shell.Completed || n.Job.ExitCode == nil || *n.Job.ExitCode != 0 {
		out.Status = "failed"
	}
	return out
}
