package catalog

import (
	"context"
	"strconv"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// ListIn is the input of async_list.
type ListIn struct {
	Path          string `json:"path" jsonschema:"directory" minLength:"1"`
	Pattern       string `json:"pattern" jsonschema:"glob for names, such as *.py or src/**/*.go" default:"*" minLength:"1"`
	Recursive     bool   `json:"recursive" jsonschema:"into subdirectories; name is then the relative path" default:"false"`
	IncludeHashes bool   `json:"include_hashes" jsonschema:"hashes of files seen before" default:"false"`
}

// ListOut is the entries of a directory.
type ListOut struct {
	Status       string     `json:"status"`
	Path         string     `json:"path"`
	Entries      []EntryOut `json:"entries"`
	TotalEntries int        `json:"total_entries"`
	Pattern      string     `json:"pattern"`
	Recursive    bool       `json:"recursive"`
	Truncated    bool       `json:"truncated" jsonschema:"more entries match; narrow pattern or path"`
	Unreadable   int        `json:"unreadable_directories,omitempty"`
	Timestamp    string     `json:"timestamp"`
}

// EntryOut is one file or directory.
type EntryOut struct {
	Name      string      `json:"name"`
	Type      string      `json:"type" enum:"file,directory,other"`
	SizeBytes *int64      `json:"size_bytes,omitempty"`
	Modified  string      `json:"modified"`
	Hash      *textOrNull `json:"hash,omitempty" jsonschema:"with include_hashes; null: not known"`
}

// JSONSize implements tool.Appender.
func (o ListOut) JSONSize() int { return 120*len(o.Entries) + len(o.Path) + 400 }

// AppendJSON implements tool.Appender.
func (o ListOut) AppendJSON(b []byte) []byte {
	b = tool.AppendString(append(b, `{"status":`...), o.Status)
	b = tool.AppendString(append(b, `,"path":`...), o.Path)
	b = append(b, `,"entries":[`...)
	for i := range o.Entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = o.Entries[i].appendJSON(b)
	}
	b = strconv.AppendInt(append(b, `],"total_entries":`...), int64(o.TotalEntries), 10)
	b = tool.AppendString(append(b, `,"pattern":`...), o.Pattern)
	b = strconv.AppendBool(append(b, `,"recursive":`...), o.Recursive)
	b = strconv.AppendBool(append(b, `,"truncated":`...), o.Truncated)
	if o.Unreadable != 0 {
		b = strconv.AppendInt(append(b, `,"unreadable_directories":`...), int64(o.Unreadable), 10)
	}
	b = tool.AppendString(append(b, `,"timestamp":`...), o.Timestamp)
	return append(b, '}')
}

func (e *EntryOut) appendJSON(b []byte) []byte {
	b = tool.AppendString(append(b, `{"name":`...), e.Name)
	b = tool.AppendString(append(b, `,"type":`...), e.Type)
	if e.SizeBytes != nil {
		b = strconv.AppendInt(append(b, `,"size_bytes":`...), *e.SizeBytes, 10)
	}
	b = tool.AppendString(append(b, `,"modified":`...), e.Modified)
	if e.Hash != nil {
		b = append(b, `,"hash":`...)
		if *e.Hash == "" {
			b = append(b, "null"...)
		} else {
			b = tool.AppendString(b, *e.Hash)
		}
	}
	return append(b, '}')
}

// List declares async_list.
func List(engine *files.Engine) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "async_list", Title: "List a directory", Toolset: Files,
		Doc:    "List a directory, sorted, filtered by a glob; ** crosses directories.",
		Effect: tool.ReadOnly | tool.Idempotent,
		Codes:  fileCodes(),
		Examples: []tool.Example{
			{Title: "Python files below src", Args: `{"path": "src", "pattern": "*.py", "recursive": true}`, Status: tool.OK},
			{Title: "A directory that is not there", Args: `{"path": "nowhere"}`, Status: tool.Error, Code: fault.DirNotFound},
		},
	}, func(ctx context.Context, in ListIn) (ListOut, error) {
		l, err := engine.List(ctx, files.ListRequest(in))
		if err != nil {
			return ListOut{}, err
		}
		out := ListOut{
			Status: tool.OK, Path: l.Path, Entries: make([]EntryOut, 0, len(l.Entries)), TotalEntries: l.Total, Pattern: in.Pattern,
			Recursive: in.Recursive, Truncated: l.Truncated, Unreadable: l.Skipped, Timestamp: now(),
		}
		for _, e := range l.Entries {
			entry := EntryOut{Name: e.Name, Type: "file", Modified: stamp(e.Modified)}
			switch {
			case e.Dir:
				entry.Type = "directory"
			case e.Other:
				entry.Type = "other"
			default:
				entry.SizeBytes = &e.Size
				if in.IncludeHashes {
					entry.Hash = orNull(e.Hash)
				}
			}
			out.Entries = append(out.Entries, entry)
		}
		return out, nil
	})
}
