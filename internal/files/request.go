package files

import (
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
)

// ReadRequest asks for a file's text, or some of its lines.
type ReadRequest struct {
	Path     string
	Offset   int  // first line, counted from 0
	Limit    *int // lines at most; nil: all
	Encoding string
}

// Read is a file's text.
type Read struct {
	Path          string
	Content       string
	Encoding      string
	Hash          string // of the whole file's bytes
	TotalLines    int
	LinesReturned int
	Redacted      int  // places a content rule hides
	Truncated     bool // cut at the limit on results
}

// WriteRequest creates a file.
type WriteRequest struct {
	Path       string
	Content    string
	Encoding   string
	CreateDirs bool
	Timeout    *time.Duration
}

// Written is a change that was made.
type Written struct {
	Path         string
	PreviousHash string
	Hash         string
	BytesWritten int64
	Merge        *Merge // the change was merged with those of others
}

// Merge says what others had changed when a change was merged with theirs.
type Merge struct {
	ExpectedHash string // what the caller knew
	CurrentHash  string // what the change was merged into
	Diff         *Diff
	ChangedBy    *Author
}

// Patch is one edit: a piece of text that occurs once, or a range of lines.
type Patch struct {
	OldString  string
	NewString  string
	ReplaceAll bool

	StartLine int // 1-based; 0: not by lines
	EndLine   int // inclusive
	Expected  *string
}

// UpdateRequest changes an existing file.
type UpdateRequest struct {
	Path         string
	ExpectedHash string
	Content      *string
	Patches      []Patch // nil: none given
	Encoding     string
	Timeout      *time.Duration
	DiffFormat   string // "json" or "unified"
	OnContention string // "fail", "merge", or "" for the setting
}

// Outcome is what became of a change: it was made, or others were faster.
// Exactly one field is set.
type Outcome[T any] struct {
	Done       *T
	Contention *Contention
}

// Contention tells a late caller what happened since its version.
type Contention struct {
	Path          string
	ExpectedHash  string
	CurrentHash   string
	Diff          *Diff // nil: there is none to show
	BaseAvailable bool  // the caller's version is still known
	Note          string
	ChangedBy     *Author
	Patches       []PatchVerdict // when the change was by patches
	Applicable    bool           // sending the same patches again would do what was meant
}

// Author says who made a version.
type Author struct {
	Client, Agent, Session, Tool string
	External                     bool
	Time                         time.Time // zero: unknown
}

// PatchVerdict says whether a patch still fits.
type PatchVerdict struct {
	Verdict string // applies, already_applied, moved, ambiguous, conflicts
	Reason  string // of a conflict, in the words of the specification
	Line    int    // where it belongs now; 0: unknown
	Lines   []int  // ambiguous: where the text occurs
	Nearest *Nearest
}

// Nearest is the place in the current text most like what a patch looks for.
type Nearest struct {
	Line       int
	Text       string
	Similarity float64
}

// Diff is what changed between two versions, in one of two forms.
type Diff struct {
	Format  string
	Changes []Region // of "json"
	Unified string   // of "unified"
	Summary DiffSummary
	Lossy   bool // bytes that are no text were replaced to show it
}

// Region is one changed run of lines.
type Region struct {
	Type                        string // added, removed, modified
	StartLine, EndLine          int    // in the version that has the lines: the caller's, of what was added the current one
	NewStartLine, NewEndLine    int    // in the current one
	OldContent, NewContent      string
	OldNoNewline, NewNoNewline  bool // the last line has no line end
	ContextBefore, ContextAfter string
}

// DiffSummary counts.
type DiffSummary struct {
	LinesAdded, LinesRemoved, LinesModified, RegionsChanged int
}

// DeleteRequest removes a file, a link, or with Recursive a directory.
type DeleteRequest struct {
	Path         string
	ExpectedHash string // "": whatever it is
	Recursive    bool
	Timeout      *time.Duration
	DiffFormat   string
}

// Deleted is what was removed.
type Deleted struct {
	Path        string
	DeletedHash string // of a file
	Entries     int    // of a directory, itself included
	Link        bool   // a link; what it led to stays
}

// RenameRequest moves a file, or with Recursive a directory.
type RenameRequest struct {
	OldPath, NewPath string
	ExpectedHash     string
	Overwrite        bool
	CreateDirs       bool
	Recursive        bool
	Timeout          *time.Duration
	DiffFormat       string
}

// Renamed is what was moved.
type Renamed struct {
	OldPath, NewPath string
	Hash             string // of a file
	CrossFilesystem  bool
}

// AppendRequest adds to the end of a file.
type AppendRequest struct {
	Path            string
	Content         string
	Separator       string
	Encoding        string
	CreateIfMissing bool
	CreateDirs      bool
	Timeout         *time.Duration
}

// Appended is what was added.
type Appended struct {
	Path           string
	Hash           string
	BytesAppended  int64
	TotalSizeBytes int64
}

// CopyRequest copies a file byte for byte.
type CopyRequest struct {
	From, To   string
	Overwrite  bool
	CreateDirs bool
	Timeout    *time.Duration
}

// Copied is what was copied.
type Copied struct {
	From, To     string
	Hash         string
	BytesWritten int64
}

// MkdirRequest makes a directory.
type MkdirRequest struct {
	Path    string
	Parents bool
}

// Made is a directory that exists now.
type Made struct {
	Path    string
	Created bool // false: it was there
}

// ListRequest asks for the entries of a directory.
type ListRequest struct {
	Path          string
	Pattern       string
	Recursive     bool
	IncludeHashes bool
}

// List is the entries of a directory.
type List struct {
	Path      string
	Entries   []Entry
	Total     int // entries that match
	Truncated bool
	Skipped   int // directories that could not be read
}

// Entry is one file or directory.
type Entry struct {
	Name     string
	Dir      bool
	Other    bool // neither a file nor a directory
	Size     int64
	Modified time.Time
	Hash     string // "" when not asked for or not known
}

// Item is the result of one item of a batch.
type Item[T any] struct {
	Result T
	Err    *fault.Error
}
