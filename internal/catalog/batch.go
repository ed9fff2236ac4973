package catalog

import (
	"context"
	"encoding/json"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// BatchOut is the results of a batch, in the order of its items; each is what
// the tool for one file would have answered.
type BatchOut struct {
	Status    string       `json:"status"`
	Results   []itemResult `json:"results"`
	Summary   BatchSummary `json:"summary"`
	Atomic    bool         `json:"atomic,omitempty"`
	Applied   *bool        `json:"applied,omitempty" jsonschema:"of an atomic batch: all of it, or nothing"`
	Timestamp string       `json:"timestamp"`
}

// itemResult is one result, an object of the tool for one file.
type itemResult struct {
	json.RawMessage
	of any // what it was made of, for observers
}

// JSONTypes implements schema.Typed.
func (itemResult) JSONTypes() []string { return []string{"object"} }

// BatchSummary counts the results.
type BatchSummary struct {
	Total      int  `json:"total"`
	Succeeded  int  `json:"succeeded"`
	Contention *int `json:"contention,omitempty"`
	Failed     int  `json:"failed"`
}

// batchOut renders the items, an error in the envelope of errors.
func batchOut[R any](items []files.Item[R], render func(int, R) any) (BatchOut, error) {
	out := BatchOut{Status: tool.OK, Results: make([]itemResult, len(items)), Summary: BatchSummary{Total: len(items)}, Timestamp: now()}
	for i, item := range items {
		var result any
		if item.Err != nil {
			out.Summary.Failed++
			result = tool.Failure(item.Err)
		} else {
			result = render(i, item.Result)
			if s, ok := result.(tool.Statused); ok && s.ResultStatus() == tool.Contention {
				if out.Summary.Contention == nil {
					out.Summary.Contention = new(int)
				}
				*out.Summary.Contention++
			} else {
				out.Summary.Succeeded++
			}
		}
		raw, err := tool.Encode(result)
		if err != nil {
			return BatchOut{}, err
		}
		out.Results[i] = itemResult{raw, result}
	}
	return out, nil
}

// BatchReadItem is one file to read, as ReadIn.
type BatchReadItem struct {
	Path     string `json:"path" minLength:"1"`
	Offset   int    `json:"offset" default:"0" minimum:"0"`
	Limit    *int   `json:"limit,omitempty" minimum:"0"`
	Encoding string `json:"encoding,omitempty" usual:"utf-8"`
}

// BatchReadIn is the input of async_batch_read.
type BatchReadIn struct {
	Files []BatchReadItem `json:"files" jsonschema:"as async_read" minItems:"1" maxItems:"1000"`
}

// BatchRead declares async_batch_read.
func BatchRead(engine *files.Engine) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "async_batch_read", Title: "Read files", Toolset: Files,
		Doc:    "Read several files in one call. Each result is as of async_read; one that fails does not stop the others.",
		Effect: tool.ReadOnly | tool.Idempotent,
		Codes:  fileCodes(),
		Examples: []tool.Example{
			{Title: "Two files, one of them missing", Args: `{"files": [{"path": "hello.txt"}, {"path": "missing.txt"}]}`, Status: tool.OK},
		},
	}, func(ctx context.Context, in BatchReadIn) (BatchOut, error) {
		rs := make([]files.ReadRequest, len(in.Files))
		for i, f := range in.Files {
			rs[i] = files.ReadRequest{Path: f.Path, Offset: f.Offset, Limit: f.Limit, Encoding: f.Encoding}
		}
		items, err := engine.BatchRead(ctx, rs)
		if err != nil {
			return BatchOut{}, err
		}
		return batchOut(items, func(i int, r *files.Read) any { return readOut(r, in.Files[i].Offset, in.Files[i].Limit) })
	})
}

// BatchWriteItem is one file to create.
type BatchWriteItem struct {
	Path       string `json:"path" minLength:"1"`
	Content    string `json:"content"`
	Encoding   string `json:"encoding,omitempty" usual:"utf-8"`
	CreateDirs bool   `json:"create_dirs" default:"true"`
}

// BatchWriteIn is the input of async_batch_write.
type BatchWriteIn struct {
	Files   []BatchWriteItem `json:"files" jsonschema:"as async_write" minItems:"1" maxItems:"1000"`
	Timeout *float64         `json:"timeout,omitempty" jsonschema:"seconds to wait for each lock" usual:"30" minimum:"0"`
	Atomic  bool             `json:"atomic" jsonschema:"all or nothing" default:"false"`
}

// BatchWrite declares async_batch_write.
func BatchWrite(engine *files.Engine) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "async_batch_write", Title: "Create files", Toolset: Files,
		Doc:    "Create several files in one call, each by itself, or all or none with atomic.",
		Effect: tool.Additive,
		Codes:  fileCodes(writeCodes...),
		Examples: []tool.Example{
			{Title: "Two files", Args: `{"files": [{"path": "a.txt", "content": "a"}, {"path": "b.txt", "content": "b"}]}`, Status: tool.OK},
		},
	}, func(ctx context.Context, in BatchWriteIn) (BatchOut, error) {
		rs := make([]files.WriteRequest, len(in.Files))
		for i, f := range in.Files {
			rs[i] = files.WriteRequest{Path: f.Path, Content: f.Content, Encoding: f.Encoding, CreateDirs: f.CreateDirs, Timeout: duration(in.Timeout)}
		}
		items, applied, err := engine.BatchWrite(ctx, rs, in.Atomic)
		if err != nil {
			return BatchOut{}, err
		}
		out, err := batchOut(items, func(_ int, w *files.Written) any { return writeOut(w) })
		return out.atomic(in.Atomic, applied), err
	})
}

func (o BatchOut) atomic(asked, applied bool) BatchOut {
	if asked {
		o.Atomic, o.Applied = true, &applied
	}
	return o
}

// BatchUpdateItem is one file to change, as UpdateIn.
type BatchUpdateItem struct {
	Path         string       `json:"path" minLength:"1"`
	ExpectedHash string       `json:"expected_hash" minLength:"1"`
	Content      *string      `json:"content,omitempty"`
	Patches      []BatchPatch `json:"patches,omitempty"`
	Encoding     string       `json:"encoding,omitempty" usual:"utf-8"`
}

// BatchPatch is one edit, as PatchIn.
type BatchPatch struct {
	OldString  *string `json:"old_string,omitempty"`
	NewString  string  `json:"new_string"`
	ReplaceAll bool    `json:"replace_all,omitempty"`
	StartLine  *int    `json:"start_line,omitempty" minimum:"1"`
	EndLine    *int    `json:"end_line,omitempty" minimum:"0"`
	Expected   *string `json:"expected,omitempty"`
}

func patchesOf(in []BatchPatch) []PatchIn {
	if in == nil {
		return nil
	}
	out := make([]PatchIn, len(in))
	for i, p := range in {
		out[i] = PatchIn(p)
	}
	return out
}

// BatchUpdateIn is the input of async_batch_update.
type BatchUpdateIn struct {
	Files        []BatchUpdateItem `json:"files" jsonschema:"as async_update" minItems:"1" maxItems:"1000"`
	Timeout      *float64          `json:"timeout,omitempty" jsonschema:"seconds to wait for each lock" usual:"30" minimum:"0"`
	DiffFormat   string            `json:"diff_format" jsonschema:"form of diffs" default:"json" enum:"json,unified"`
	OnContention string            `json:"on_contention,omitempty" jsonschema:"as async_update" usual:"fail" enum:"fail,merge"`
	Atomic       bool              `json:"atomic" jsonschema:"all or nothing" default:"false"`
}

// BatchUpdate declares async_batch_update.
func BatchUpdate(engine *files.Engine) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "async_batch_update", Title: "Change files", Toolset: Files,
		Doc:    "Change several files in one call, each by itself, or all or none with atomic. Each result is as of async_update.",
		Effect: tool.Destructive,
		Codes:  fileCodes(updateCodes...),
		Examples: []tool.Example{
			{Title: "A version others have changed", Args: `{"files": [{"path": "hello.txt", "expected_hash": "sha256:00", "content": "x"}]}`, Status: tool.OK},
		},
	}, func(ctx context.Context, in BatchUpdateIn) (BatchOut, error) {
		rs := make([]files.UpdateRequest, len(in.Files))
		for i, f := range in.Files {
			var err error
			rs[i], err = updateRequest(UpdateIn{
				Path: f.Path, ExpectedHash: f.ExpectedHash, Content: f.Content, Patches: patchesOf(f.Patches), Encoding: f.Encoding,
				Timeout: in.Timeout, DiffFormat: in.DiffFormat, OnContention: in.OnContention,
			})
			if err != nil {
				return BatchOut{}, fault.New(fault.ValidationError, "files[%d].%s", i, fault.From(err).Text()).With("field", "files")
			}
		}
		items, applied, err := engine.BatchUpdate(ctx, rs, in.Atomic)
		if err != nil {
			return BatchOut{}, err
		}
		out, err := batchOut(items, func(_ int, o files.Outcome[files.Written]) any { return updateOut(o) })
		if out.Summary.Contention == nil {
			out.Summary.Contention = new(int)
		}
		return out.atomic(in.Atomic, applied), err
	})
}
