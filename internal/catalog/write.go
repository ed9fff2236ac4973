package catalog

import (
	"context"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// WriteIn is the input of async_write.
type WriteIn struct {
	Path       string   `json:"path" jsonschema:"file to create" minLength:"1"`
	Content    string   `json:"content" jsonschema:"its text"`
	Encoding   string   `json:"encoding,omitempty" jsonschema:"file encoding" usual:"utf-8"`
	CreateDirs bool     `json:"create_dirs" jsonschema:"make missing directories" default:"true"`
	Timeout    *float64 `json:"timeout,omitempty" jsonschema:"seconds to wait for the lock" usual:"30" minimum:"0"`
}

// WriteOut is a file that was made.
type WriteOut struct {
	Status       string `json:"status"`
	Path         string `json:"path"`
	Hash         string `json:"hash"`
	BytesWritten int64  `json:"bytes_written"`
	Timestamp    string `json:"timestamp"`
}

var writeCodes = []fault.Code{
	fault.FileExists, fault.LockTimeout, fault.WriteError, fault.EncodingError, fault.FileTooLarge,
	fault.IsADirectory, fault.NotARegularFile, fault.ContentBlocked, fault.RedactionMarkersPresent,
}

// Write declares async_write.
func Write(engine *files.Engine) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "async_write", Title: "Create a file", Toolset: Files,
		Doc:    "Create a new text file. An existing file answers FILE_EXISTS: change it with async_update.",
		Effect: tool.Additive,
		Codes:  fileCodes(writeCodes...),
		Examples: []tool.Example{
			{Title: "A new file in a new directory", Args: `{"path": "src/new.txt", "content": "hello\n"}`, Status: tool.OK},
			{Title: "A file that exists", Args: `{"path": "hello.txt", "content": "x"}`, Status: tool.Error, Code: fault.FileExists},
		},
	}, func(ctx context.Context, in WriteIn) (WriteOut, error) {
		w, err := engine.Write(ctx, files.WriteRequest{
			Path: in.Path, Content: in.Content, Encoding: in.Encoding, CreateDirs: in.CreateDirs, Timeout: duration(in.Timeout),
		})
		if err != nil {
			return WriteOut{}, err
		}
		return writeOut(w), nil
	})
}

func writeOut(w *files.Written) WriteOut {
	return WriteOut{Status: tool.OK, Path: w.Path, Hash: w.Hash, BytesWritten: w.BytesWritten, Timestamp: now()}
}
