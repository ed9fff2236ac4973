package catalog

import (
	"context"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// MkdirIn is the input of async_mkdir.
type MkdirIn struct {
	Path    string `json:"path" jsonschema:"directory to make" minLength:"1"`
	Parents bool   `json:"parents" jsonschema:"make missing parents" default:"true"`
}

// MkdirOut is a directory that exists now.
type MkdirOut struct {
	Status    string `json:"status"`
	Path      string `json:"path"`
	Created   bool   `json:"created" jsonschema:"false: it was there"`
	Timestamp string `json:"timestamp"`
}

// Mkdir declares async_mkdir.
func Mkdir(engine *files.Engine) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "async_mkdir", Title: "Make a directory", Toolset: Files,
		Doc:    "Make a directory. One that exists is fine.",
		Effect: tool.Additive | tool.Idempotent,
		Codes:  fileCodes(fault.FileExists, fault.WriteError, fault.FileNotFound),
		Examples: []tool.Example{
			{Title: "With its parents", Args: `{"path": "build/out"}`, Status: tool.OK},
		},
	}, func(ctx context.Context, in MkdirIn) (MkdirOut, error) {
		m, err := engine.Mkdir(ctx, files.MkdirRequest(in))
		if err != nil {
			return MkdirOut{}, err
		}
		return MkdirOut{Status: tool.OK, Path: m.Path, Created: m.Created, Timestamp: now()}, nil
	})
}
