package catalog

import (
	"context"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// RenameIn is the input of async_rename.
type RenameIn struct {
	OldPath      string   `json:"old_path" jsonschema:"what to move" minLength:"1"`
	NewPath      string   `json:"new_path" jsonschema:"where to" minLength:"1"`
	ExpectedHash string   `json:"expected_hash,omitempty" jsonschema:"move only this version"`
	Overwrite    bool     `json:"overwrite" jsonschema:"replace an existing file" default:"false"`
	CreateDirs   bool     `json:"create_dirs" jsonschema:"make missing directories" default:"true"`
	Recursive    bool     `json:"recursive" jsonschema:"move a directory with everything in it" default:"false"`
	Timeout      *float64 `json:"timeout,omitempty" jsonschema:"seconds to wait for the locks" usual:"30" minimum:"0"`
	DiffFormat   string   `json:"diff_format" jsonschema:"form of the diff on contention" default:"json" enum:"json,unified"`
}

// RenameOut is what was moved, or the news for a late caller.
type RenameOut struct {
	Status          string `json:"status" enum:"ok,contention"`
	Path            string `json:"path,omitempty" jsonschema:"on contention: the file that changed"`
	OldPath         string `json:"old_path,omitempty"`
	NewPath         string `json:"new_path,omitempty"`
	Hash            string `json:"hash,omitempty"`
	CrossFilesystem bool   `json:"cross_filesystem,omitempty" jsonschema:"copied and deleted, so not in one step"`
	*LateOut
	Timestamp string `json:"timestamp"`
}

// ResultStatus implements tool.Statused.
func (o RenameOut) ResultStatus() string { return o.Status }

// Rename declares async_rename.
func Rename(engine *files.Engine) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "async_rename", Title: "Move a file", Toolset: Files,
		Doc:    "Rename or move a file, or with recursive a directory, in one step. An existing target answers FILE_EXISTS unless overwrite; a changed source answers contention when expected_hash is given.",
		Effect: tool.Destructive,
		Codes:  fileCodes(fault.FileNotFound, fault.FileExists, fault.LockTimeout, fault.RenameError, fault.IsADirectory, fault.NotARegularFile, fault.FileTooLarge),
		Examples: []tool.Example{
			{Title: "A new name", Args: `{"old_path": "hello.txt", "new_path": "greeting.txt"}`, Status: tool.OK},
			{Title: "A name that is taken", Args: `{"old_path": "greeting.txt", "new_path": "src/new.txt"}`, Status: tool.Error, Code: fault.FileExists},
		},
	}, func(ctx context.Context, in RenameIn) (RenameOut, error) {
		o, err := engine.Rename(ctx, files.RenameRequest{
			OldPath: in.OldPath, NewPath: in.NewPath, ExpectedHash: in.ExpectedHash, Overwrite: in.Overwrite,
			CreateDirs: in.CreateDirs, Recursive: in.Recursive, Timeout: duration(in.Timeout), DiffFormat: in.DiffFormat,
		})
		if err != nil {
			return RenameOut{}, err
		}
		if c := o.Contention; c != nil {
			return RenameOut{Status: tool.Contention, Path: c.Path, LateOut: late(c), Timestamp: now()}, nil
		}
		d := o.Done
		return RenameOut{
			Status: tool.OK, OldPath: d.OldPath, NewPath: d.NewPath, Hash: d.Hash, CrossFilesystem: d.CrossFilesystem, Timestamp: now(),
		}, nil
	})
}
