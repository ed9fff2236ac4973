package catalog

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// WaitIn is the input of async_wait.
type WaitIn struct {
	Seconds float64 `json:"seconds" jsonschema:"at most" default:"120"`
	TaskID  taskIDs `json:"task_id,omitempty" jsonschema:"task to wait for, or a list"`
	Cursor  string  `json:"cursor,omitempty" jsonschema:"of the last answer: return on new output too"`
}

// taskIDs is one id or several.
type taskIDs []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *taskIDs) UnmarshalJSON(raw []byte) error {
	var one string
	if err := json.Unmarshal(raw, &one); err == nil {
		if strings.HasPrefix(strings.TrimSpace(one), "[") {
			return json.Unmarshal([]byte(one), (*[]string)(t)) // a list, as some hosts send it
		}
		*t = taskIDs{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(t))
}

// JSONTypes implements schema.Typed. Some hosts know only one type for a
// parameter, so the list is not published as one.
func (taskIDs) JSONTypes() []string { return []string{"string"} }

// WaitOut is how a wait ended.
type WaitOut struct {
	Status        string    `json:"status"`
	WaitedSeconds float64   `json:"waited_seconds"`
	Reason        string    `json:"reason" enum:"timeout,task_completed,task_failed,output"`
	TaskResult    *TaskOut  `json:"task_result"`
	Tasks         []TaskOut `json:"tasks,omitempty"`
	Cursor        string    `json:"cursor,omitempty" jsonschema:"give it back to see only what is new"`
	Timestamp     string    `json:"timestamp"`
}

// TaskOut is one task.
type TaskOut struct {
	Status  string `json:"status" enum:"ok,background,error"`
	TaskID  string `json:"task_id"`
	State   string `json:"state" enum:"running,completed,failed,timed_out,cancelled,lost"`
	Command string `json:"command"`
	*RanOut
	Error     string `json:"error,omitempty"`
	Timestamp string `json:"timestamp"`
}

// maxWait is the longest wait, in seconds.
const maxWait = 600

// Wait declares async_wait.
func Wait(engine *shell.Engine) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "async_wait", Title: "Wait", Toolset: Exec,
		Doc:    "Wait for background tasks, returning as soon as one ends, or just for seconds. Pass cursor back to follow the output.",
		Effect: tool.ReadOnly,
		Codes:  []fault.Code{fault.NoProjectActivated, fault.TaskNotFound},
		Examples: []tool.Example{
			{Title: "A pause", Args: `{"seconds": 0.1}`, Status: tool.OK},
			{Title: "A task that is not there", Args: `{"task_id": "job_none"}`, Status: tool.Error, Code: fault.TaskNotFound},
		},
	}, func(ctx context.Context, in WaitIn) (WaitOut, error) {
		// Too short and too long are brought within bounds, as with every timeout.
		seconds := min(max(in.Seconds, 0.1), maxWait)
		w, err := engine.Wait(ctx, shell.WaitRequest{IDs: in.TaskID, Timeout: time.Duration(seconds * float64(time.Second)), Cursor: in.Cursor})
		if err != nil {
			return WaitOut{}, err
		}
		return waitOut(w), nil
	})
}

func waitOut(w shell.Waited) WaitOut {
	out := WaitOut{Status: tool.OK, WaitedSeconds: w.Took.Round(time.Millisecond).Seconds(), Reason: "timeout", Cursor: w.Cursor, Timestamp: now()}
	for _, n := range w.Jobs {
		out.Tasks = append(out.Tasks, taskOut(n))
	}
	// An end that was told before is an answer only when there is no other.
	over := !slices.ContainsFunc(w.Jobs, func(n shell.JobNews) bool { return !n.Job.Done() })
	for i := range out.Tasks {
		t := &out.Tasks[i]
		switch {
		case w.Jobs[i].Job.Done() && (over || !w.Jobs[i].Known):
			if out.TaskResult == nil {
				out.TaskResult = t
			}
			// One that failed is worth more words than those that did not.
			if t.failed() {
				out.Reason, out.TaskResult = "task_failed", t
				return out.brief()
			}
			out.Reason = "task_completed"
		case out.Reason == "timeout" && w.News:
			out.Reason = "output"
		}
	}
	return out.brief()
}

// brief leaves out the list of tasks where it says nothing more.
func (o WaitOut) brief() WaitOut {
	if len(o.Tasks) == 1 && o.TaskResult != nil {
		o.Tasks = nil
	}
	return o
}

func (t *TaskOut) failed() bool {
	return t.Status == tool.Error || t.ExitCode != nil && *t.ExitCode != 0
}

func taskOut(n shell.JobNews) TaskOut {
	t := TaskOut{Status: tool.OK, TaskID: n.Job.ID, State: string(n.Job.State), Command: n.Job.Command, RanOut: ranOut(n), Error: n.Job.Error, Timestamp: now()}
	switch n.Job.State {
	case shell.Running:
		t.Status = tool.Background
	case shell.Completed:
	default:
		t.Status = tool.Error
	}
	return t
}
