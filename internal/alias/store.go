package alias

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shellast"
	"github.com/async-crud-mcp/async-crud-mcp/internal/watch"
)

// Settings are what a book is made of.
type Settings struct {
	Files     []string // absolute paths, later ones over earlier ones
	Functions bool     // take functions, too
	Allow     []string
	Deny      []string
	Watch     bool // read the files again when they change
}

// key tells groups of settings apart.
func (s Settings) key() string {
	return fmt.Sprintf("%t %t %q %q %q", s.Functions, s.Watch, s.Files, s.Allow, s.Deny)
}

// Options tune a Store.
type Options struct {
	Debounce time.Duration // how long a file must be at rest; default 250 ms
	// Changed is called after files have changed and every book has been
	// exchanged, with the names of aliases that differ; nil: nobody is told.
	Changed func(names []string)
	Logger  *slog.Logger // nil: silent
}

// Store keeps books up to date.
//
//	Book ─▶ reads files on first use ─▶ book by settings ◀─ exchanged whole ◀─ Run: a file changed
type Store struct {
	opts   Options
	files  *watch.Files
	wanted chan struct{} // closed when there is a file to watch

	mu      sync.Mutex
	sources map[string]*source // by path; guarded by mu
	rules   map[string]*Rules  // by patterns; guarded by mu
	books   map[string]*entry  // by settings; guarded by mu
	turn    uint64             // counts changes of sources; guarded by mu
}

type entry struct {
	settings Settings
	book     *Book
}

// source is one file as it was read. It is immutable.
type source struct {
	path        string
	real        string // where a link leads
	sum         [sha256.Size]byte
	definitions []shellast.Definition
	problem     string
	line        int // of the problem
	broken      bool
}

const (
	maxFile  = 4 << 20
	maxBooks = 64
)

// NewStore returns an empty store. It reads nothing.
func NewStore(o Options) *Store {
	if o.Debounce == 0 {
		o.Debounce = 250 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Store{
		opts: o, files: watch.NewFiles(watch.Options{Debounce: o.Debounce, Logger: o.Logger}), wanted: make(chan struct{}),
		sources: make(map[string]*source), rules: make(map[string]*Rules), books: make(map[string]*entry),
	}
}

// Book returns the book of some settings as it is now.
func (s *Store) Book(set Settings) *Book {
	key := set.key()
	s.mu.Lock()
	e := s.books[key]
	s.mu.Unlock()
	if e != nil {
		return e.book
	}
	if set.Watch {
		s.watch(set.Files)
	}
	for {
		sources, rules, turn := s.read(set)
		book := gather(sources, set.Functions).book(rules)
		s.mu.Lock()
		if s.turn == turn {
			if len(s.books) >= maxBooks {
				clear(s.books)
			}
			s.books[key] = &entry{set, book}
			s.mu.Unlock()
			return book
		}
		s.mu.Unlock() // a file has changed meanwhile
	}
}

// Verify refuses patterns that do not compile.
func (s *Store) Verify(set Settings) error { return s.rulesOf(set).broken }

func (s *Store) rulesOf(set Settings) *Rules {
	key := fmt.Sprintf("%q %q", set.Allow, set.Deny)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rules[key]
	if r == nil {
		if len(s.rules) >= maxBooks {
			clear(s.rules)
		}
		r, _ = NewRules(set.Allow, set.Deny) // they say themselves what is wrong
		s.rules[key] = r
	}
	return r
}

// read returns the files of some settings, reading those that are new, and the
// rules.
func (s *Store) read(set Settings) ([]*source, *Rules, uint64) {
	rules := s.rulesOf(set)
	sources := make([]*source, 0, len(set.Files))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, path := range set.Files {
		src := s.sources[path]
		if src == nil {
			s.mu.Unlock()
			fresh := readSource(path, nil)
			s.mu.Lock()
			if src = s.sources[path]; src == nil {
				src = fresh
				s.sources[path] = src
			}
		}
		sources = append(sources, src)
	}
	return sources, rules, s.turn
}

// readSource reads a file. When it no longer parses, what it last said stays.
func readSource(path string, before *source) *source {
	src := &source{path: path, real: path}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		src.real = real
	}
	raw, err := fsys.ReadFile(path, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		src.problem = "there is no such file"
		return src
	case err != nil:
		src.problem = "it cannot be read: " + err.Error()
		return src
	}
	src.sum = sha256.Sum256(raw)
	if before != nil && before.sum == src.sum && before.real == src.real && (before.problem == "" || before.broken) {
		return before
	}
	text := strings.ReplaceAll(string(raw), "\r\n", "\n")
	src.definitions, err = shellast.Definitions(text)
	if err != nil {
		src.problem, src.broken = "it does not parse: "+err.Error()+"; aliases before that place count", true
		if e, ok := errors.AsType[*shellast.SyntaxError](err); ok {
			src.line = e.Line
		}
		if before != nil && len(before.definitions) > 0 {
			src.definitions = before.definitions
			src.problem = "it does not parse: " + err.Error() + "; the aliases it had before stay"
		}
	}
	return src
}

// watch begins to watch files, and what links among them lead to.
func (s *Store) watch(paths []string) {
	for _, path := range paths {
		s.files.Add(path)
		if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
			s.files.Add(real)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.wanted:
	default:
		if len(paths) > 0 {
			close(s.wanted)
		}
	}
}

// Run reads files again when they have changed, until ctx ends. It may run once.
func (s *Store) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.wanted:
	}
	return s.files.Run(ctx, s.Reload)
}

// Reload reads a file again. When its content differs, every book that has it is
// made anew and exchanged.
func (s *Store) Reload(path string) {
	s.mu.Lock()
	var stale []*source
	for _, src := range s.sources {
		if src.path == path || src.real == path {
			stale = append(stale, src)
		}
	}
	s.mu.Unlock()
	fresh := make(map[string]*source)
	for _, old := range stale {
		if now := readSource(old.path, old); now != old && !old.same(now) {
			fresh[old.path] = now
		}
	}
	if len(fresh) == 0 {
		return
	}
	s.mu.Lock()
	maps.Copy(s.sources, fresh)
	s.turn++
	s.mu.Unlock()
	s.rebuild(fresh)
}

// same reports whether two readings of a file say the same.
func (src *source) same(o *source) bool {
	return src.sum == o.sum && src.problem == o.problem && src.real == o.real
}

// rebuild makes anew the books that hold one of the files, and puts them all in
// place at once.
func (s *Store) rebuild(fresh map[string]*source) {
	for {
		s.mu.Lock()
		turn := s.turn
		var work []*entry
		for _, e := range s.books {
			if e.settings.Watch && slices.ContainsFunc(e.settings.Files, func(f string) bool { return fresh[f] != nil }) {
				work = append(work, e)
			}
		}
		s.mu.Unlock()
		var names []string
		made := make(map[string]*entry, len(work))
		for _, e := range work {
			sources, rules, _ := s.read(e.settings)
			book := gather(sources, e.settings.Functions).book(rules)
			names = append(names, Changed(e.book, book)...)
			made[e.settings.key()] = &entry{e.settings, book}
			for _, w := range book.warnings {
				s.opts.Logger.Warn("an alias file has a problem", "file", w.File, "line", w.Line, "problem", w.Text)
			}
		}
		s.mu.Lock()
		if s.turn != turn {
			s.mu.Unlock()
			continue
		}
		maps.Copy(s.books, made)
		s.mu.Unlock()
		slices.Sort(names)
		names = slices.Compact(names)
		s.opts.Logger.Info("alias files reloaded", "changed", len(names))
		if s.opts.Changed != nil {
			s.opts.Changed(names)
		}
		return
	}
}
