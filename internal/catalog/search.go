package catalog

import (
	"cmp"
	"context"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// SearchIn is the input of async_search.
type SearchIn struct {
	Pattern         string `json:"pattern" jsonschema:"RE2, line by line" minLength:"1"`
	Path            string `json:"path,omitempty" jsonschema:"file or directory"`
	Glob            string `json:"glob" jsonschema:"such as src/**/*.go" default:"*" minLength:"1"`
	Recursive       bool   `json:"recursive" jsonschema:"descend" default:"true"`
	CaseInsensitive bool   `json:"case_insensitive" jsonschema:"ignore case" default:"false"`
	MaxResults      int    `json:"max_results" jsonschema:"most matches" default:"100" maximum:"1000"`
	ContextLines    int    `json:"context_lines" jsonschema:"around a match" default:"0" maximum:"10"`
	OutputMode      string `json:"output_mode" jsonschema:"what to list" default:"files_with_matches" enum:"files_with_matches,content,count"`
}

// SearchOut is what was found.
type SearchOut struct {
	Status        string           `json:"status"`
	Pattern       string           `json:"pattern"`
	Root          string           `json:"root" jsonschema:"what files are relative to"`
	Matches       []SearchMatchOut `json:"matches"`
	TotalMatches  int              `json:"total_matches" jsonschema:"matching lines, with files_with_matches files"`
	TotalIsExact  bool             `json:"total_is_exact" jsonschema:"false: there may be more than total_matches"`
	FilesSearched int              `json:"files_searched"`
	OutputMode    string           `json:"output_mode"`
	Truncated     bool             `json:"truncated" jsonschema:"there are more matches; narrow path, glob or pattern, or raise max_results"`
	TimedOut      bool             `json:"timed_out" jsonschema:"the time limit came first; not every file was searched"`
	Skipped       SkippedOut       `json:"skipped" jsonschema:"files that were not searched"`
	Source        string           `json:"source" jsonschema:"where the text was taken from"`
	SlowPattern   bool             `json:"slow_pattern,omitempty" jsonschema:"the pattern looks around or back, which takes more time"`
	Timestamp     string           `json:"timestamp"`
}

// SearchMatchOut is a line, or a file where no lines are asked for.
type SearchMatchOut struct {
	File          string    `json:"file"`
	LineNumber    int       `json:"line_number,omitempty"`
	LineContent   *string   `json:"line_content,omitempty"`
	LineTruncated bool      `json:"line_truncated,omitempty" jsonschema:"a part of a long line, around the match"`
	ContextBefore *[]string `json:"context_before,omitempty"`
	ContextAfter  *[]string `json:"context_after,omitempty"`
	Count         int       `json:"count,omitempty" jsonschema:"matching lines in the file"`
}

// SkippedOut counts files.
type SkippedOut struct {
	Binary     int `json:"binary"`
	TooLarge   int `json:"too_large"`
	Denied     int `json:"denied" jsonschema:"by access or content rules"`
	Unreadable int `json:"unreadable"`
	TooSlow    int `json:"too_slow,omitempty" jsonschema:"the pattern took too long on a line"`
}

// check holds the bounds that the schema leaves unsaid, since nobody crosses them
// and every byte of it is paid for.
func (in SearchIn) check() error {
	switch {
	case in.MaxResults < 1:
		return fault.New(fault.ValidationError, "max_results must be at least 1, not %d", in.MaxResults).With("field", "max_results")
	case in.ContextLines < 0:
		return fault.New(fault.ValidationError, "context_lines must be at least 0, not %d", in.ContextLines).With("field", "context_lines")
	default:
		return nil
	}
}

// Tell implements tool.Teller.
func (in SearchIn) Tell(f *tool.Facts) { f.Path = cmp.Or(in.Path, ".") }

// Tell implements tool.Teller.
func (o SearchOut) Tell(f *tool.Facts) { f.Root, f.Entries = o.Root, &o.TotalMatches }

// SearchContents declares async_search.
func SearchContents(engine *search.Engine) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "async_search", Title: "Search file contents", Toolset: Search,
		Doc:    "Search files for a regex, sorted by path; .gitignore holds.",
		Effect: tool.ReadOnly | tool.Idempotent,
		Codes: []fault.Code{
			fault.SearchDisabled, fault.InvalidPattern, fault.NoProjectActivated, fault.PathOutsideBase, fault.AccessDenied,
			fault.FileNotFound, fault.NotARegularFile,
		},
		Examples: []tool.Example{
			{Title: "Python files that define main", Args: `{"pattern": "def main", "glob": "*.py"}`, Status: tool.OK},
			{Title: "Lines with two lines around each", Args: `{"pattern": "TODO", "output_mode": "content", "context_lines": 2}`, Status: tool.OK},
			{Title: "How often, in which file", Args: `{"pattern": "hello|old", "output_mode": "count", "case_insensitive": true}`, Status: tool.OK},
			{Title: "A pattern that is not closed", Args: `{"pattern": "main("}`, Status: tool.Error, Code: fault.InvalidPattern},
			{Title: "A directory of somebody else", Args: `{"pattern": "x", "path": "/"}`, Status: tool.Error, Code: fault.PathOutsideBase},
		},
	}, func(ctx context.Context, in SearchIn) (SearchOut, error) {
		if err := in.check(); err != nil {
			return SearchOut{}, err
		}
		r, err := engine.Search(ctx, search.Request{
			Pattern: in.Pattern, Path: in.Path, Glob: in.Glob, Recursive: in.Recursive, CaseInsensitive: in.CaseInsensitive,
			MaxResults: in.MaxResults, ContextLines: in.ContextLines, Mode: search.Mode(in.OutputMode),
		})
		if err != nil {
			return SearchOut{}, err
		}
		return searchOut(in, r), nil
	})
}

func searchOut(in SearchIn, r *search.Result) SearchOut {
	out := SearchOut{
		Status: tool.OK, Pattern: in.Pattern, Root: r.Root, Matches: []SearchMatchOut{}, TotalMatches: r.Total, TotalIsExact: r.Exact,
		FilesSearched: r.FilesSearched, OutputMode: in.OutputMode, Truncated: r.Truncated, TimedOut: r.TimedOut,
		Skipped: SkippedOut(r.Skipped), Source: r.Source, SlowPattern: r.Slow, Timestamp: now(),
	}
	for i := range r.Matches {
		m := &r.Matches[i]
		match := SearchMatchOut{File: m.File, LineNumber: m.Line, LineTruncated: m.Cut, Count: m.Count}
		if m.Line > 0 {
			match.LineContent = &m.Text
		}
		if m.Before != nil {
			match.ContextBefore, match.ContextAfter = &m.Before, &m.After
		}
		out.Matches = append(out.Matches, match)
	}
	return out
}
