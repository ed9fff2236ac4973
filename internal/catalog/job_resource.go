package catalog

import (
	"context"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// JobResource declares job://{id}: a command, its state and its output.
func JobResource(engine *shell.Engine) *tool.Resource {
	return tool.NewResource(tool.ResourceSpec{
		Name: "job", Template: "job://{id}", Title: "Job", MIME: "application/json", Toolset: Exec,
		Doc:   "A command that was started in this project: its state and what it printed. Subscribe to hear when it ends.",
		Codes: []fault.Code{fault.NoProjectActivated, fault.JobNotFound},
		Examples: []tool.ResourceExample{
			{Title: "A job that is not there", URI: "job://job_none", Code: fault.JobNotFound},
		},
		Read: func(ctx context.Context, ref tool.Ref) ([]tool.Content, error) {
			n, err := engine.Job(ctx, ref.Vars["id"])
			if err != nil {
				return nil, err
			}
			body, err := tool.Encode(jobOut(n))
			if err != nil {
				return nil, err
			}
			return []tool.Content{{Text: string(body)}}, nil
		},
		Tell: func(f *tool.Facts, ref tool.Ref, _ []tool.Content) { f.Jobs = []string{ref.Vars["id"]} },
		List: func(ctx context.Context) ([]tool.Listed, error) {
			jobs, err := engine.Jobs(ctx)
			if err != nil {
				return nil, err
			}
			var all []tool.Listed
			for _, s := range jobs {
				all = append(all, tool.Listed{URI: "job://" + s.ID, Name: s.ID, Title: clip(s.Command, 80), Doc: string(s.State)})
			}
			return all, nil
		},
		Complete: func(ctx context.Context, c tool.Completion) ([]string, error) {
			jobs, err := engine.Jobs(ctx)
			if err != nil {
				return nil, err
			}
			var ids []string
			for _, s := range jobs {
				if strings.HasPrefix(s.ID, c.Value) {
					ids = append(ids, s.ID)
				}
			}
			return ids, nil
		},
		Watch: func(ctx context.Context, ref tool.Ref) (tool.Watch, error) {
			id := strings.ToLower(ref.Vars["id"])
			if _, err := engine.Job(ctx, id); err != nil {
				return tool.Watch{}, err
			}
			return tool.Watch{
				Touched: func(e event.Event) bool {
					j, ok := e.Data.(event.Job)
					return ok && j.ID == id
				},
				MayRead: func(ctx context.Context) bool {
					_, err := engine.Job(ctx, id)
					return err == nil
				},
			}, nil
		},
	})
}

// JobCompleted is the message that announces the end of a background job.
type JobCompleted struct {
	EventType string           `json:"event_type"`
	Data      JobCompletedData `json:"data"`
}

// JobCompletedData is the job that ended.
type JobCompletedData struct {
	JobID   string       `json:"job_id"`
	Command string       `json:"command"`
	Result  JobStatusOut `json:"result"`
}

// NewJobCompleted returns the message for a job.
func NewJobCompleted(j event.Job) JobCompleted {
	took := j.Result.Duration.Seconds()
	return JobCompleted{EventType: string(event.JobCompleted), Data: JobCompletedData{
		JobID: j.ID, Command: j.Command,
		Result: JobStatusOut{
			Status: j.Result.Status, ExitCode: j.Result.ExitCode, Stdout: &j.Result.Stdout, Stderr: &j.Result.Stderr,
			DurationSecs: &took, Signal: j.Result.Signal, Error: j.Result.Error,
		},
	}}
}
