package catalog

import (
	"context"
	"strconv"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// ReadIn is the input of async_read.
type ReadIn struct {
	Path     string `json:"path" jsonschema:"file, absolute or relative to the project" minLength:"1"`
	Offset   int    `json:"offset" jsonschema:"first line, counted from 0" default:"0" minimum:"0"`
	Limit    *int   `json:"limit,omitempty" jsonschema:"lines at most; all if left out" minimum:"0"`
	Encoding string `json:"encoding,omitempty" jsonschema:"file encoding" usual:"utf-8"`
}

// ReadOut is a file's text.
type ReadOut struct {
	Status        string `json:"status"`
	Path          string `json:"path"`
	Content       string `json:"content"`
	Encoding      string `json:"encoding"`
	Hash          string `json:"hash" jsonschema:"of the whole file; hand it back as expected_hash"`
	TotalLines    int    `json:"total_lines"`
	Offset        int    `json:"offset"`
	Limit         *int   `json:"limit"`
	LinesReturned int    `json:"lines_returned"`
	Redacted      int    `json:"redacted,omitempty" jsonschema:"places a rule hides behind markers; never write those back"`
	Truncated     bool   `json:"truncated,omitempty" jsonschema:"cut at the result limit; go on with offset"`
	Timestamp     string `json:"timestamp"`
}

// JSONSize implements tool.Appender.
func (o ReadOut) JSONSize() int { return len(o.Content) + len(o.Content)/8 + len(o.Path) + 400 }

// AppendJSON implements tool.Appender.
func (o ReadOut) AppendJSON(b []byte) []byte {
	b = tool.AppendString(append(b, `{"status":`...), o.Status)
	b = tool.AppendString(append(b, `,"path":`...), o.Path)
	b = tool.AppendString(append(b, `,"content":`...), o.Content)
	b = tool.AppendString(append(b, `,"encoding":`...), o.Encoding)
	b = tool.AppendString(append(b, `,"hash":`...), o.Hash)
	b = strconv.AppendInt(append(b, `,"total_lines":`...), int64(o.TotalLines), 10)
	b = strconv.AppendInt(append(b, `,"offset":`...), int64(o.Offset), 10)
	b = append(b, `,"limit":`...)
	if o.Limit != nil {
		b = strconv.AppendInt(b, int64(*o.Limit), 10)
	} else {
		b = append(b, "null"...)
	}
	b = strconv.AppendInt(append(b, `,"lines_returned":`...), int64(o.LinesReturned), 10)
	if o.Redacted != 0 {
		b = strconv.AppendInt(append(b, `,"redacted":`...), int64(o.Redacted), 10)
	}
	if o.Truncated {
		b = append(b, `,"truncated":true`...)
	}
	b = tool.AppendString(append(b, `,"timestamp":`...), o.Timestamp)
	return append(b, '}')
}

// Read declares async_read.
func Read(engine *files.Engine) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "async_read", Title: "Read a file", Toolset: Files,
		Doc:    "Read a text file, whole or some lines. Keep the hash: async_update, async_delete and async_rename take it as expected_hash to notice changes by others.",
		Effect: tool.ReadOnly | tool.Idempotent,
		Codes:  fileCodes(fault.FileNotFound, fault.EncodingError, fault.FileTooLarge, fault.IsADirectory, fault.NotARegularFile, fault.ContentBlocked, fault.LockTimeout),
		Examples: []tool.Example{
			{Title: "A whole file", Args: `{"path": "hello.txt"}`, Status: tool.OK},
			{Title: "Ten lines from the 21st on", Args: `{"path": "hello.txt", "offset": 20, "limit": 10}`, Status: tool.OK},
			{Title: "A file that is not there", Args: `{"path": "missing.txt"}`, Status: tool.Error, Code: fault.FileNotFound},
		},
	}, func(ctx context.Context, in ReadIn) (ReadOut, error) {
		r, err := engine.Read(ctx, files.ReadRequest{Path: in.Path, Offset: in.Offset, Limit: in.Limit, Encoding: in.Encoding})
		if err != nil {
			return ReadOut{}, err
		}
		return readOut(r, in.Offset, in.Limit), nil
	})
}

func readOut(r *files.Read, offset int, limit *int) ReadOut {
	return ReadOut{
		Status: tool.OK, Path: r.Path, Content: r.Content, Encoding: r.Encoding, Hash: r.Hash, TotalLines: r.TotalLines,
		Offset: offset, Limit: limit, LinesReturned: r.LinesReturned, Redacted: r.Redacted, Truncated: r.Truncated, Timestamp: now(),
	}
}
