package shell

import (
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/job"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/sandbox"
)

// What answers show of the parts below.
type (
	Snapshot      = job.Snapshot
	Output        = job.Output
	SandboxReport = sandbox.Report
	Sandbox       = sandbox.Sandbox
)

// The states of a job.
const (
	Running   = job.Running
	Completed = job.Completed
	Failed    = job.Failed
	TimedOut  = job.TimedOut
	Cancelled = job.Cancelled
	Lost      = job.Lost
)
