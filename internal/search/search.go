// Package search is the engine behind async_search: a pattern in, the lines or
// files that match out, in the order of their paths.
//
//	admit     resolve the path, ask the rules, compile the pattern
//	produce   go through the tree, in parallel, and hand out files
//	judge     ignore files, access rules, glob; binary and too large are counted
//	match     lines of what a reader may see: content rules come before the pattern
//	collect   keep the first max_results in order, count the rest
//
// What is found does not depend on how many workers there are, nor on the order
// in which they come by: what is kept is cut by path. A search ends at its time
// limit with what it has, and says so. Only its results hold memory in proportion
// to what it finds, and those are bounded.
//
// While Run runs, trees that are searched get an index, which stands in for
// reading all of them: see index. The answer is the same with and without it.
//
// An Engine is safe for concurrent use; a call's goroutines end with it, those of
// indexes with Run. How a pattern is matched is linematch's work, which names are
// ignored ignore's, what an index holds trigram's, that changes are told watch's,
// and that no link leads out fsys's.
package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/pattern"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search/linematch"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search/trigram"
	"github.com/async-crud-mcp/async-crud-mcp/internal/watch"
)

// Options wire an Engine.
type Options struct {
	// Scope says what a call may reach and which limits hold there.
	Scope  func(ctx context.Context) (*Scope, error)
	Logger *slog.Logger
	// Workers is how many cores a search may use; default all.
	Workers int
	// CountFor is how long a search that has all the results it may return goes on
	// to count the others; default 50 ms.
	CountFor time.Duration
	// Tree returns the watcher of the directory at root, whose changes are handed to
	// Noticed, those that passed included; nil: it has none.
	Tree func(root string) *watch.Tree
	// IndexBytes bound the memory of all indexes; default 128 MB.
	IndexBytes int64
	// ContentBytes bound the memory of the texts kept beside them; default 128 MB,
	// less than 0: none are kept.
	ContentBytes int64
	// Idle is how long an index that nobody asks is kept; default 30 minutes.
	Idle time.Duration
}

// Scope is a project as a call sees it.
type Scope struct {
	Root    string
	Bases   *fsys.Bases
	Rules   *access.Rules
	Content *access.Content
	Redacts bool // there are content rules
	Fold    bool // names are the same in upper and lower case
	Limits  Limits
}

// Limits bound what a call may do.
type Limits struct {
	Disabled      bool
	MaxResults    int
	MaxFileSize   int64
	MaxBytes      int // of the results; 0: no limit
	Timeout       time.Duration
	RespectIgnore bool
	VerifyStat    bool // look at every file whether it is as the index knows it
}

// Mode is what a search returns.
type Mode string

// The modes.
const (
	Files   Mode = "files_with_matches"
	Content Mode = "content"
	Count   Mode = "count"
)

// Request is a search.
type Request struct {
	Pattern         string
	Path            string // file or directory; "": the project
	Glob            string // of files to search, below Path; "": all
	Recursive       bool
	CaseInsensitive bool
	MaxResults      int
	ContextLines    int
	Mode            Mode
}

// Result is what a search found.
type Result struct {
	Root          string // what the names of files are relative to
	Matches       []Match
	Total         int  // matches, in Files mode files; more than Matches if Truncated
	Exact         bool // Total is all there are
	FilesSearched int
	Truncated     bool // there is more than Matches
	TimedOut      bool // the time limit came first; not everything was searched
	Skipped       Skipped
	Source        string // where the text was taken from
	Slow          bool   // the pattern needs the backtracking engine
}

// Match is a line that matches; in the other modes a file.
type Match struct {
	File          string // relative to Root, with slashes; absolute if it is elsewhere
	Line          int    // from 1
	Text          string
	Cut           bool // Text is a part of a long line
	Before, After []string
	Count         int // matching lines, in Count mode
}

// Skipped counts files that were not searched.
type Skipped struct {
	Binary, TooLarge int
	Denied           int // by access or content rules
	Unreadable       int // files and directories
	TooSlow          int // the pattern took too long on a line
}

// Where the text was taken from: Result.Source.
const (
	FromScan   = "scan"   // all files were read
	FromIndex  = "index"  // the files that may match were read
	FromMemory = "memory" // no file was read
)

// Engine searches.
type Engine struct {
	opts    Options
	active  atomic.Int32  // searches under way
	large   chan struct{} // a place for each large file that may be in memory
	buffers sync.Pool     // of *[]byte

	wanted   chan wish         // to Run
	readers  chan struct{}     // a place for each worker in the background
	contents *trigram.Contents // of all trees
	versions atomic.Uint64     // number of the last change of a file

	mu      sync.Mutex
	indexes map[indexKey]*index    // guarded by mu
	refused map[indexKey]time.Time // until when; guarded by mu
}

const (
	// smallFile is what a worker has memory for at hand.
	smallFile = 1 << 20
	// smallBuffer is what it begins with.
	smallBuffer = 128 << 10
)

// New returns an engine.
func New(o Options) *Engine {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.CountFor == 0 {
		o.CountFor = 50 * time.Millisecond
	}
	o.IndexBytes, o.ContentBytes = cmp.Or(o.IndexBytes, 128<<20), cmp.Or(o.ContentBytes, 128<<20)
	o.Idle = cmp.Or(o.Idle, 30*time.Minute)
	return &Engine{
		opts: o, large: make(chan struct{}, 2*o.Workers),
		wanted: make(chan wish, 16), readers: make(chan struct{}, max(o.Workers/2, 1)), contents: trigram.NewContents(o.ContentBytes),
		indexes: make(map[indexKey]*index), refused: make(map[indexKey]time.Time),
		buffers: sync.Pool{New: func() any {
			buf := make([]byte, 0, smallBuffer)
			return &buf
		}},
	}
}

var errTimeLimit = errors.New("the time limit of the search is over")

// Search finds what matches.
func (e *Engine) Search(ctx context.Context, r Request) (*Result, error) {
	scope, err := e.opts.Scope(ctx)
	if err != nil {
		return nil, err
	}
	s, err := e.admit(scope, r)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, scope.Limits.Timeout, errTimeLimit)
	defer cancel()
	s.over, s.countUntil = limited.Done(), began.Add(e.opts.CountFor)

	if err := s.run(limited); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("search: %w", context.Cause(ctx))
	}
	return s.result(), nil
}

// admit judges a request, before anything is read.
func (e *Engine) admit(scope *Scope, r Request) (*search, error) {
	if scope.Limits.Disabled {
		return nil, fault.New(fault.SearchDisabled, "searching is switched off in this project")
	}
	s := &search{Engine: e, scope: scope, req: r}
	var err error
	if s.query, err = linematch.Compile(r.Pattern, linematch.Options{FoldCase: r.CaseInsensitive}); err != nil {
		return nil, badPattern(fault.InvalidPattern, "pattern", err)
	}
	if r.Glob != "" && r.Glob != "*" && r.Glob != "**" {
		if s.glob, err = pattern.CompileGlob(r.Glob, scope.Fold); err != nil {
			return nil, badPattern(fault.ValidationError, "glob", err)
		}
	}
	name := r.Path
	if name == "" {
		name = "."
	}
	if s.start, err = scope.Bases.Resolve(name); err != nil {
		return nil, coded(name, err)
	}
	rel := s.start.Rel()
	if d := scope.Rules.Check(access.Search, rel); !d.Allowed {
		return nil, fault.New(fault.AccessDenied, "%s", d.Reason).At(s.start.String()).With("rule", d.Rule)
	}
	for part := range strings.SplitSeq(rel, "/") {
		if part == gitDir {
			return nil, fault.New(fault.AccessDenied, "%s belongs to git, which is never searched", s.start).At(s.start.String())
		}
	}
	s.out.limit = max(min(r.MaxResults, scope.Limits.MaxResults), 1)
	return s, nil
}

// badPattern says what is wrong, where, and what to write instead.
func badPattern(code fault.Code, field string, err error) error {
	e := fault.New(code, "%v", err).With("field", field)
	if syntax, ok := errors.AsType[*pattern.SyntaxError](err); ok {
		e.With("position", syntax.Offset).With("reason", syntax.Reason).With("next", syntax.Advice)
	}
	return e
}

// coded gives a cause its protocol code.
func coded(path string, err error) error {
	e := &fault.Error{Code: fault.ServerError, Op: "search", Path: path, Err: err}
	switch {
	case errors.Is(err, fsys.ErrOutside):
		e.Code, e.Message = fault.PathOutsideBase, path+" is not inside a base directory of this session"
	case errors.Is(err, fsys.ErrInvalidName), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP):
		e.Code, e.Message = fault.ValidationError, "no file can have this name: "+err.Error()
	case errors.Is(err, fsys.ErrReserved):
		e.Code, e.Message = fault.AccessDenied, err.Error()
	case errors.Is(err, fsys.ErrMoved):
		e.Code, e.Message = fault.AccessDenied, "a link was put in the way while this ran"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		e.Code, e.Message = fault.FileNotFound, "File or directory does not exist: "+path
	case errors.Is(err, fs.ErrPermission):
		e.Code, e.Message = fault.AccessDenied, "the operating system refuses access to "+path
	}
	return e
}

// search is one search under way.
type search struct {
	*Engine
	scope *Scope
	req   Request
	query *linematch.Matcher
	glob  *pattern.Glob // nil: every file
	start fsys.Path

	over       <-chan struct{} // closed when its time is over
	countUntil time.Time

	queue queue
	out   collector

	index      *index      // that answers; nil: none
	wish       *wish       // for one
	many       bool        // files are looked at
	remembered atomic.Bool // a text was taken from memory
	reread     atomic.Bool // a file was read

	cut     atomic.Bool // something was left out because the time was over
	files   atomic.Int64
	skipped struct{ binary, tooLarge, denied, unreadable, tooSlow atomic.Int64 }
}

// stopped reports whether the time is over, and notes that something is left out
// then.
func (s *search) stopped() bool {
	select {
	case <-s.over:
		s.cut.Store(true)
		return true
	default:
		return false
	}
}

// run searches the file or the tree.
func (s *search) run(ctx context.Context) error {
	info, err := s.start.Stat()
	switch {
	case err != nil:
		return coded(s.start.String(), err)
	case info.Kind == fsys.Regular:
		w := s.worker()
		defer w.close()
		return w.only(s.start)
	case info.Kind != fsys.Directory:
		return fault.New(fault.NotARegularFile, "%s is neither a file nor a directory", s.start).At(s.start.String())
	}
	if s.recall(ctx, info.Stamp) {
		return nil
	}
	first, err := s.firstTask()
	if err != nil {
		return coded(s.start.String(), err)
	}
	s.queue.push(first)
	// Others that search at the same time share the cores.
	active := s.active.Add(1)
	defer s.active.Add(-1)
	var others sync.WaitGroup
	for range max(s.opts.Workers/int(active), 1) - 1 {
		others.Go(s.work)
	}
	s.work()
	others.Wait()
	if s.wish != nil {
		s.wishFor(s.wish)
	}
	return nil
}

func (s *search) result() *Result {
	r := &Result{
		Root: s.scope.Root, Exact: !s.cut.Load() && !s.out.uncounted.Load() && s.skipped.tooSlow.Load() == 0, TimedOut: s.cut.Load(),
		FilesSearched: int(s.files.Load()), Source: FromScan, Slow: s.query.Slow(),
		Skipped: Skipped{
			Binary: int(s.skipped.binary.Load()), TooLarge: int(s.skipped.tooLarge.Load()), Denied: int(s.skipped.denied.Load()),
			Unreadable: int(s.skipped.unreadable.Load()), TooSlow: int(s.skipped.tooSlow.Load()),
		},
	}
	if s.index != nil {
		r.Source = FromIndex
		if s.remembered.Load() && !s.reread.Load() {
			r.Source = FromMemory
		}
	}
	prefix := ""
	if s.start.Base() != s.scope.Root {
		prefix = slashed(s.start.Base()) + "/"
	}
	r.Matches, r.Truncated = s.out.cut(prefix, s.scope.Limits.MaxBytes)
	r.Total = s.out.total()
	return r
}
