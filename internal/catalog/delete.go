package catalog

import (
	"context"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// DeleteIn is the input of async_delete.
type DeleteIn struct {
	Path         string   `json:"path" jsonschema:"file or directory" minLength:"1"`
	ExpectedHash string   `json:"expected_hash,omitempty" jsonschema:"delete only this version"`
	Recursive    bool     `json:"recursive" jsonschema:"delete a directory with everything in it" default:"false"`
	Timeout      *float64 `json:"timeout,omitempty" jsonschema:"seconds to wait for the lock" usual:"30" minimum:"0"`
	DiffFormat   string   `json:"diff_format" jsonschema:"form of the diff on contention" default:"json" enum:"json,unified"`
}

// DeleteOut is what was deleted, or the news for a late caller.
type DeleteOut struct {
	Status         string `json:"status" enum:"ok,contention"`
	Path           string `json:"path"`
	DeletedHash    string `json:"deleted_hash,omitempty"`
	DeletedEntries int    `json:"deleted_entries,omitempty" jsonschema:"of a directory"`
	Link           bool   `json:"link,omitempty" jsonschema:"it was a link; what it led to stays"`
	*LateOut
	Timestamp string `json:"timestamp"`
}

// ResultStatus implements tool.Statused.
func (o DeleteOut) ResultStatus() string { return o.Status }

// Delete declares async_delete.
func Delete(engine *files.Engine) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "async_delete", Title: "Delete a file", Toolset: Files,
		Doc:    "Delete a file, a link (not what it leads to), or with recursive a directory. With expected_hash only that version is deleted; a changed file answers contention with a diff.",
		Effect: tool.Destructive | tool.Idempotent,
		Codes:  fileCodes(fault.FileNotFound, fault.LockTimeout, fault.DeleteError, fault.IsADirectory, fault.NotARegularFile, fault.FileTooLarge),
		Examples: []tool.Example{
			{Title: "Only the version that was read", Args: `{"path": "old.txt", "expected_hash": "sha256:00"}`, Status: tool.Contention},
			{Title: "Whatever it holds", Args: `{"path": "old.txt"}`, Status: tool.OK},
		},
	}, func(ctx context.Context, in DeleteIn) (DeleteOut, error) {
		o, err := engine.Delete(ctx, files.DeleteRequest{
			Path: in.Path, ExpectedHash: in.ExpectedHash, Recursive: in.Recursive, Timeout: duration(in.Timeout), DiffFormat: in.DiffFormat,
		})
		if err != nil {
			return DeleteOut{}, err
		}
		if c := o.Contention; c != nil {
			return DeleteOut{Status: tool.Contention, Path: c.Path, LateOut: late(c), Timestamp: now()}, nil
		}
		out := DeleteOut{Status: tool.OK, Path: o.Done.Path, DeletedHash: o.Done.DeletedHash, Link: o.Done.Link, Timestamp: now()}
		if o.Done.DeletedHash == "" {
			out.DeletedEntries = o.Done.Entries
		}
		return out, nil
	})
}
