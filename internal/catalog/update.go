package catalog

import (
	"context"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// PatchIn is one edit.
type PatchIn struct {
	OldString  *string `json:"old_string,omitempty" jsonschema:"text that occurs exactly once"`
	NewString  string  `json:"new_string" jsonschema:"what replaces it, literally"`
	ReplaceAll bool    `json:"replace_all,omitempty" jsonschema:"replace every occurrence"`
	StartLine  *int    `json:"start_line,omitempty" jsonschema:"instead of old_string: first line, from 1" minimum:"1"`
	EndLine    *int    `json:"end_line,omitempty" jsonschema:"last line, inclusive" minimum:"0"`
	Expected   *string `json:"expected,omitempty" jsonschema:"text those lines must have"`
}

// UpdateIn is the input of async_update.
type UpdateIn struct {
	Path         string    `json:"path" jsonschema:"file to change" minLength:"1"`
	ExpectedHash string    `json:"expected_hash" jsonschema:"hash of the version you know" minLength:"1"`
	Content      *string   `json:"content,omitempty" jsonschema:"whole new text; or patches"`
	Patches      []PatchIn `json:"patches,omitempty" jsonschema:"edits, applied in order; or content"`
	Encoding     string    `json:"encoding,omitempty" jsonschema:"file encoding" usual:"utf-8"`
	Timeout      *float64  `json:"timeout,omitempty" jsonschema:"seconds to wait for the lock" usual:"30" minimum:"0"`
	DiffFormat   string    `json:"diff_format" jsonschema:"form of the diff on contention" default:"json" enum:"json,unified"`
	OnContention string    `json:"on_contention,omitempty" jsonschema:"merge: land anyway where the edits of others allow it" usual:"fail" enum:"fail,merge"`
}

// UpdateOut is a change that was made, or the news for a late caller.
type UpdateOut struct {
	Status       string `json:"status" enum:"ok,contention"`
	Path         string `json:"path"`
	PreviousHash string `json:"previous_hash,omitempty"`
	Hash         string `json:"hash,omitempty"`
	BytesWritten *int64 `json:"bytes_written,omitempty"`
	Merged       bool   `json:"merged,omitempty" jsonschema:"others had changed the file; diff shows what"`
	*LateOut
	Timestamp string `json:"timestamp"`
}

// ResultStatus implements tool.Statused.
func (o UpdateOut) ResultStatus() string { return o.Status }

var updateCodes = []fault.Code{
	fault.FileNotFound, fault.LockTimeout, fault.InvalidPatch, fault.ContentOrPatchesRequired, fault.WriteError,
	fault.EncodingError, fault.FileTooLarge, fault.IsADirectory, fault.NotARegularFile, fault.ContentBlocked, fault.RedactionMarkersPresent,
}

// Update declares async_update.
func Update(engine *files.Engine) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "async_update", Title: "Change a file", Toolset: Files,
		Doc: "Change an existing file by patches or whole content. If others changed it since expected_hash, nothing is written and " +
			"status is contention: diff shows what they changed, patch_verdicts which of your patches still fit. Adjust and send again with current_hash, or set on_contention: merge.",
		Effect: tool.Destructive,
		Codes:  fileCodes(updateCodes...),
		Examples: []tool.Example{
			{Title: "One edit", Args: `{"path": "hello.txt", "expected_hash": "{{hash}}", "patches": [{"old_string": "hello", "new_string": "goodbye"}]}`, Status: tool.OK},
			{Title: "A version others have changed", Args: `{"path": "hello.txt", "expected_hash": "sha256:00", "content": "x"}`, Status: tool.Contention},
		},
	}, func(ctx context.Context, in UpdateIn) (UpdateOut, error) {
		r, err := updateRequest(in)
		if err != nil {
			return UpdateOut{}, err
		}
		o, err := engine.Update(ctx, r)
		if err != nil {
			return UpdateOut{}, err
		}
		return updateOut(o), nil
	})
}

func updateRequest(in UpdateIn) (files.UpdateRequest, error) {
	r := files.UpdateRequest{
		Path: in.Path, ExpectedHash: in.ExpectedHash, Content: in.Content, Encoding: in.Encoding,
		Timeout: duration(in.Timeout), DiffFormat: in.DiffFormat, OnContention: in.OnContention,
	}
	if in.Patches == nil {
		return r, nil
	}
	r.Patches = make([]files.Patch, len(in.Patches))
	for i, p := range in.Patches {
		patch := files.Patch{NewString: p.NewString, ReplaceAll: p.ReplaceAll, Expected: p.Expected}
		switch {
		case p.OldString != nil && (p.StartLine != nil || p.EndLine != nil || p.Expected != nil):
			return r, badPatch(i, "has both old_string and lines")
		case p.OldString != nil:
			patch.OldString = *p.OldString
		case p.StartLine != nil && p.EndLine != nil:
			patch.StartLine, patch.EndLine = *p.StartLine, *p.EndLine
		default:
			return r, badPatch(i, "needs old_string, or start_line and end_line")
		}
		r.Patches[i] = patch
	}
	return r, nil
}

func badPatch(i int, what string) error {
	return fault.New(fault.ValidationError, "patches[%d] %s", i, what).With("field", "patches")
}

func updateOut(o files.Outcome[files.Written]) UpdateOut {
	if c := o.Contention; c != nil {
		return UpdateOut{Status: tool.Contention, Path: c.Path, LateOut: late(c), Timestamp: now()}
	}
	w := o.Done
	out := UpdateOut{
		Status: tool.OK, Path: w.Path, PreviousHash: w.PreviousHash, Hash: w.Hash, BytesWritten: &w.BytesWritten, Timestamp: now(),
	}
	if m := w.Merge; m != nil {
		out.Merged = true
		out.LateOut = &LateOut{ExpectedHash: m.ExpectedHash, Diff: diffOut(m.Diff), BaseAvailable: m.Diff != nil, ChangedBy: authorOut(m.ChangedBy)}
	}
	return out
}
