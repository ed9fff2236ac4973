package catalog

import (
	"context"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// AppendIn is the input of async_append.
type AppendIn struct {
	Path            string   `json:"path" jsonschema:"file to add to" minLength:"1"`
	Content         string   `json:"content" jsonschema:"text to add"`
	Encoding        string   `json:"encoding,omitempty" jsonschema:"file encoding" usual:"utf-8"`
	CreateIfMissing bool     `json:"create_if_missing" jsonschema:"create the file if it is not there" default:"false"`
	CreateDirs      bool     `json:"create_dirs" jsonschema:"make missing directories then" default:"true"`
	Separator       string   `json:"separator" jsonschema:"put before the text" default:""`
	Timeout         *float64 `json:"timeout,omitempty" jsonschema:"seconds to wait for the lock" usual:"30" minimum:"0"`
}

// AppendOut is what was added.
type AppendOut struct {
	Status         string `json:"status"`
	Path           string `json:"path"`
	Hash           string `json:"hash"`
	BytesAppended  int64  `json:"bytes_appended"`
	TotalSizeBytes int64  `json:"total_size_bytes"`
	Timestamp      string `json:"timestamp"`
}

// Append declares async_append.
func Append(engine *files.Engine) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "async_append", Title: "Append to a file", Toolset: Files,
		Doc:    "Add text to the end of a file without reading it first, for logs and collected output. Appends of several agents never mix.",
		Effect: tool.Additive,
		Codes: fileCodes(fault.FileNotFound, fault.FileExists, fault.LockTimeout, fault.WriteError, fault.FileTooLarge, fault.EncodingError,
			fault.IsADirectory, fault.NotARegularFile, fault.ContentBlocked, fault.RedactionMarkersPresent),
		Examples: []tool.Example{
			{Title: "A line of a log", Args: `{"path": "run.log", "content": "done\n", "create_if_missing": true}`, Status: tool.OK},
			{Title: "A file that is not there", Args: `{"path": "missing.log", "content": "x"}`, Status: tool.Error, Code: fault.FileNotFound},
		},
	}, func(ctx context.Context, in AppendIn) (AppendOut, error) {
		a, err := engine.Append(ctx, files.AppendRequest{
			Path: in.Path, Content: in.Content, Separator: in.Separator, Encoding: in.Encoding,
			CreateIfMissing: in.CreateIfMissing, CreateDirs: in.CreateDirs, Timeout: duration(in.Timeout),
		})
		if err != nil {
			return AppendOut{}, err
		}
		return AppendOut{
			Status: tool.OK, Path: a.Path, Hash: a.Hash, BytesAppended: a.BytesAppended, TotalSizeBytes: a.TotalSizeBytes, Timestamp: now(),
		}, nil
	})
}
