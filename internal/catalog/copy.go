package catalog

import (
	"context"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// CopyIn is the input of async_copy.
type CopyIn struct {
	From       string   `json:"from" jsonschema:"file to copy" minLength:"1"`
	To         string   `json:"to" jsonschema:"where to" minLength:"1"`
	Overwrite  bool     `json:"overwrite" jsonschema:"replace an existing file" default:"false"`
	CreateDirs bool     `json:"create_dirs" jsonschema:"make missing directories" default:"true"`
	Timeout    *float64 `json:"timeout,omitempty" jsonschema:"seconds to wait for the locks" usual:"30" minimum:"0"`
}

// CopyOut is what was copied.
type CopyOut struct {
	Status       string `json:"status"`
	From         string `json:"from"`
	To           string `json:"to"`
	Hash         string `json:"hash"`
	BytesWritten int64  `json:"bytes_written"`
	Timestamp    string `json:"timestamp"`
}

// Copy declares async_copy.
func Copy(engine *files.Engine) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "async_copy", Title: "Copy a file", Toolset: Files,
		Doc:    "Copy a file byte for byte, binary files too.",
		Effect: tool.Destructive | tool.Idempotent,
		Codes: fileCodes(fault.FileNotFound, fault.FileExists, fault.LockTimeout, fault.WriteError, fault.FileTooLarge,
			fault.IsADirectory, fault.NotARegularFile, fault.ContentBlocked),
		Examples: []tool.Example{
			{Title: "A copy", Args: `{"from": "greeting.txt", "to": "copy.txt"}`, Status: tool.OK},
			{Title: "Over an existing file", Args: `{"from": "greeting.txt", "to": "src/new.txt"}`, Status: tool.Error, Code: fault.FileExists},
		},
	}, func(ctx context.Context, in CopyIn) (CopyOut, error) {
		c, err := engine.Copy(ctx, files.CopyRequest{From: in.From, To: in.To, Overwrite: in.Overwrite, CreateDirs: in.CreateDirs, Timeout: duration(in.Timeout)})
		if err != nil {
			return CopyOut{}, err
		}
		return CopyOut{Status: tool.OK, From: c.From, To: c.To, Hash: c.Hash, BytesWritten: c.BytesWritten, Timestamp: now()}, nil
	})
}
