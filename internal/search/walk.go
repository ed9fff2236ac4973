package search

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search/ignore"
)

const (
	gitDir     = ".git"
	ignoreFile = ".gitignore"
	// mostIgnore bounds an ignore file; a larger one is left unread.
	mostIgnore = 1 << 20
	// mostTogether is how many files of one directory a worker takes at a time.
	mostTogether = 256
)

// task is a directory to search, or some of its files.
type task struct {
	dir   fsys.Path
	rules *ignore.Rules // that hold above the directory; in it, if names are given
	names []string      // nil: all that is in it
}

// queue holds what is left to do, the first by path on top.
//
// A search is over when it is empty and nobody is at work that could add to it.
type queue struct {
	mu    sync.Mutex
	more  sync.Cond // something was added, or the last worker has finished
	tasks []task    // guarded by mu
	busy  int       // workers with a task; guarded by mu
}

func (q *queue) push(tasks ...task) {
	if len(tasks) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tasks = append(q.tasks, tasks...)
	if q.more.L != nil {
		q.more.Broadcast()
	}
}

// next waits for a task; false: there will be none. The one before is finished.
func (q *queue) next(first bool) (task, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !first {
		q.busy--
	}
	for len(q.tasks) == 0 {
		if q.busy == 0 {
			q.more.Broadcast()
			return task{}, false
		}
		q.more.Wait()
	}
	last := len(q.tasks) - 1
	t := q.tasks[last]
	q.tasks[last] = task{}
	q.tasks = q.tasks[:last]
	q.busy++
	return t, true
}

// firstTask is the directory the search starts in, with the ignore files above
// it. Who asks for a directory that is ignored means it: then those do not hold.
func (s *search) firstTask() (task, error) {
	s.queue.more.L = &s.queue.mu
	t := task{dir: s.start}
	rel := s.start.Rel()
	if !s.scope.Limits.RespectIgnore || rel == "." {
		return t, nil
	}
	at, err := s.scope.Bases.Resolve(s.start.Base())
	if err != nil {
		return t, err
	}
	for end := 0; end < len(rel); {
		d, err := at.OpenDir()
		if err != nil {
			return t, err
		}
		entries, err := d.Entries()
		if err == nil || errors.Is(err, fs.ErrPermission) { // it may still be open to those who know a name in it
			t.rules = readIgnoring(d, entries).rules(t.rules, at.Rel(), s.scope.Fold)
		}
		name, _, _ := strings.Cut(rel[end:], "/")
		at = d.Path(name)
		d.Close()
		if t.rules.Ignored(at.Rel(), true) {
			t.rules = nil
			return t, nil
		}
		end += len(name) + 1
	}
	return t, nil
}

// ignoring is what the ignore files of one directory say.
type ignoring struct {
	repository    bool // it is one, and has only rules of its own
	exclude, file string
}

// readIgnoring reads the ignore files of the directory d, which holds entries.
func readIgnoring(d *fsys.Dir, entries []fsys.DirEntry) (g ignoring) {
	file := false
	for i := range entries {
		switch e := &entries[i]; {
		case e.Name == ignoreFile:
			file = e.Kind == fsys.Regular
		case e.Name == gitDir:
			g.repository = true
		}
	}
	if g.repository {
		if text, err := readBelow(d, gitDir, "info", "exclude"); err == nil {
			g.exclude = string(text)
		}
	}
	if file {
		if text, _, err := d.ReadFile(ignoreFile, nil, mostIgnore); err == nil {
			g.file = string(text)
		}
	}
	return g
}

// rules adds what the ignore files of the directory rel say to the rules above it.
func (g ignoring) rules(above *ignore.Rules, rel string, fold bool) *ignore.Rules {
	if g.repository {
		above = nil
	}
	for _, text := range []string{g.exclude, g.file} {
		if text != "" {
			above = above.With(ignore.Parse([]byte(text), fold), rel)
		}
	}
	return above
}

func readBelow(d *fsys.Dir, dirs ...string) ([]byte, error) {
	name := dirs[len(dirs)-1]
	at := d
	for _, dir := range dirs[:len(dirs)-1] {
		next, err := at.Path(dir).OpenDir()
		if err != nil {
			return nil, err
		}
		defer next.Close()
		at = next
	}
	text, _, err := at.ReadFile(name, nil, mostIgnore)
	return text, err
}

// work takes tasks until there are none.
func (s *search) work() {
	w := s.worker()
	defer w.close()
	for first := true; ; first = false {
		t, ok := s.queue.next(first)
		if !ok {
			return
		}
		switch {
		case s.stopped():
		case !s.out.wantsBelow(t.dir.Rel()) && s.counted():
			s.out.uncounted.Store(true)
		default:
			w.directory(t)
		}
	}
}

// counted reports whether enough time went into counting what is not returned.
func (s *search) counted() bool { return time.Now().After(s.countUntil) }

// directory searches the files in a directory and leaves its directories to the
// next who has time.
func (w *worker) directory(t task) {
	d, err := t.dir.OpenDir()
	if err != nil {
		w.missed(err)
		return
	}
	defer d.Close()
	rel := t.dir.Rel()
	if t.names != nil {
		w.filesIn(d, rel, t.names)
		return
	}
	entries, err := d.Entries()
	if err != nil {
		w.missed(err)
	}
	rules := t.rules
	if w.scope.Limits.RespectIgnore {
		rules = readIgnoring(d, entries).rules(rules, rel, w.scope.Fold)
	}
	slices.SortFunc(entries, byPath)
	checked := w.scope.Rules.Below(access.Search, rel)
	var names []string
	var dirs []task
	for i := range entries {
		e := &entries[i]
		if e.Kind != fsys.Regular && e.Kind != fsys.Directory || e.Name == gitDir {
			continue
		}
		isDir := e.Kind == fsys.Directory
		if isDir && !w.req.Recursive {
			continue
		}
		path := join(rel, e.Name)
		if rules.Ignored(path, isDir) {
			continue
		}
		switch verdict := w.judge(path, isDir, checked); {
		case verdict == denied && !isDir:
			w.skipped.denied.Add(1)
		case verdict != taken:
		case isDir:
			dirs = append(dirs, task{dir: d.Path(e.Name), rules: rules})
		default:
			names = append(names, e.Name)
		}
	}
	slices.Reverse(dirs)
	w.queue.push(dirs...)
	if len(names) > mostTogether {
		var rest []task
		for chunk := range slices.Chunk(names[mostTogether:], mostTogether) {
			rest = append(rest, task{dir: t.dir, names: chunk})
		}
		slices.Reverse(rest)
		w.queue.push(rest...)
		names = names[:mostTogether]
	}
	w.filesIn(d, rel, names)
}

// verdict is what becomes of a name.
type verdict uint8

const (
	passed verdict = iota // nobody asked for it
	denied
	taken
)

// judge decides about a file, or a directory with what is in it; checked: access
// rules may be about it.
func (s *search) judge(path string, isDir, checked bool) verdict {
	switch {
	case s.glob != nil && !isDir && !s.glob.Match(s.fromStart(path)):
		return passed
	case s.glob != nil && isDir && !s.glob.Below(s.fromStart(path)):
		return passed
	case checked && !s.scope.Rules.Check(access.Search, path).Allowed:
		return denied
	}
	return taken
}

// filesIn searches files of one directory.
func (w *worker) filesIn(d *fsys.Dir, rel string, names []string) {
	for _, name := range names {
		if w.stopped() {
			return
		}
		if err := w.file(d, name, join(rel, name)); err != nil {
			w.missed(err)
		}
	}
}

// missed counts what could not be read. What is too large is counted already.
func (w *worker) missed(err error) {
	if !isGone(err) && !errors.Is(err, fsys.ErrTooLarge) {
		w.skipped.unreadable.Add(1)
	}
}

// isGone reports whether what was listed is no longer there, or is something else
// now.
func isGone(err error) bool {
	for _, gone := range []error{fs.ErrNotExist, fsys.ErrMoved, syscall.ENOTDIR, fsys.ErrNotRegular, fsys.ErrIsDirectory} {
		if errors.Is(err, gone) {
			return true
		}
	}
	return false
}

// fromStart returns a path below the base as it is from where the search starts.
func (s *search) fromStart(rel string) string {
	if start := s.start.Rel(); start != "." {
		return rel[len(start)+1:]
	}
	return rel
}

// byPath sorts the names of a directory as the paths below it are sorted.
func byPath(a, b fsys.DirEntry) int {
	n := min(len(a.Name), len(b.Name))
	if c := strings.Compare(a.Name[:n], b.Name[:n]); c != 0 {
		return c
	}
	return int(byteAfter(a, n)) - int(byteAfter(b, n))
}

// byteAfter is what stands behind the first n bytes of a name in a path.
func byteAfter(e fsys.DirEntry, n int) byte {
	switch {
	case n < len(e.Name):
		return e.Name[n]
	case e.Kind == fsys.Directory:
		return '/'
	default:
		return 0
	}
}

func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// only searches the one file that was asked for, ignored or not.
func (w *worker) only(p fsys.Path) error {
	dir, err := w.scope.Bases.Resolve(filepath.Dir(p.String()))
	if err != nil {
		return coded(p.String(), err)
	}
	d, err := dir.OpenDir()
	if err != nil {
		return coded(p.String(), err)
	}
	defer d.Close()
	name := filepath.Base(p.String())
	if w.glob != nil && !w.glob.Match(name) {
		return nil
	}
	err = w.file(d, name, p.Rel())
	if errors.Is(err, fsys.ErrTooLarge) {
		return nil // counted, as in a tree
	}
	if err != nil {
		return coded(p.String(), err)
	}
	return nil
}
