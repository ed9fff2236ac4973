package search

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search/ignore"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search/trigram"
	"github.com/async-crud-mcp/async-crud-mcp/internal/watch"
)

// mirror is what a tree holds, as far as a search cares: directories with the
// ignore rules that hold in them, and files that are not ignored. It is plain
// data: its index guards it, and does what touches the disk.
//
// A directory that may hold something else than is known is dirty, and is listed
// again; a file that may is loose: nobody vouches for what is known of it. Both
// are marked before the disk is looked at, and what happens meanwhile marks them
// again, so that nothing is missed.
type mirror struct {
	fold   bool
	forget func(*entry) // what else is kept of a file that is gone

	root    *folder
	folders map[string]*folder // by path below the base
	dirty   map[*folder]struct{}
	loose   map[*entry]struct{}
	pending map[*entry]struct{} // loose, and to be read
	linked  map[*entry]struct{} // with other names, by which they may be written unseen
	free    []trigram.ID        // not in use
	ids     trigram.ID          // there were so many
	files   int
	changes *atomic.Uint64 // number of the last change in any tree
	shape   uint64         // counts changes of which files there are, and of what class
}

// folder is a directory.
type folder struct {
	path       fsys.Path
	rel        string
	parent     *folder
	ignoring   ignoring
	above      *ignore.Rules // in the parent, when it was listed
	rules      *ignore.Rules // that hold in it
	dirs       map[string]*folder
	files      map[string]*entry
	order      []fsys.DirEntry // of both, by path
	unreadable bool
	gone       bool
}

// entry is a file.
type entry struct {
	dir     *folder
	rel     string
	id      trigram.ID
	version atomic.Uint64 // number of the last change; no other file ever has it
	stamp   fsys.Stamp    // it was read under; zero: none that can be relied on
	class   class
	reading bool
	gone    bool
}

func (e *entry) name() string { return lastOf(e.rel) }

func lastOf(rel string) string { return rel[strings.LastIndexByte(rel, '/')+1:] }

// class is what is known of a file's content.
type class uint8

const (
	unread class = iota
	textual
	binary
	large
	barred // it cannot be read
	classes
)

func newMirror(root fsys.Path, fold bool, changes *atomic.Uint64, forget func(*entry)) *mirror {
	m := &mirror{
		fold: fold, changes: changes, forget: forget,
		folders: make(map[string]*folder), dirty: make(map[*folder]struct{}),
		loose: make(map[*entry]struct{}), pending: make(map[*entry]struct{}), linked: make(map[*entry]struct{}),
	}
	m.root = m.addFolder(nil, root, ".")
	return m
}

func (m *mirror) addFolder(parent *folder, path fsys.Path, rel string) *folder {
	f := &folder{path: path, rel: rel, parent: parent}
	m.folders[rel] = f
	m.dirty[f] = struct{}{}
	return f
}

func (m *mirror) addFile(f *folder, name string) {
	e := &entry{dir: f, rel: join(f.rel, name), id: m.ids}
	if n := len(m.free); n > 0 {
		e.id, m.free = m.free[n-1], m.free[:n-1]
	} else {
		m.ids++
	}
	if f.files == nil {
		f.files = make(map[string]*entry)
	}
	f.files[name] = e
	m.files++
	m.loosen(e)
}

// loosen takes in that a file may hold something else now.
func (m *mirror) loosen(e *entry) {
	if e.gone {
		return
	}
	e.version.Store(m.changes.Add(1))
	m.loose[e] = struct{}{}
	m.pending[e] = struct{}{}
}

func (m *mirror) dropFile(e *entry) {
	delete(e.dir.files, e.name())
	delete(m.loose, e)
	delete(m.pending, e)
	delete(m.linked, e)
	m.files--
	e.gone = true
	if !e.reading {
		m.release(e)
	}
}

// release gives the number of a file that is gone to the next one.
func (m *mirror) release(e *entry) {
	m.forget(e)
	m.free = append(m.free, e.id)
}

func (m *mirror) dropFolder(f *folder) {
	m.empty(f)
	f.gone = true
	delete(m.folders, f.rel)
	delete(m.dirty, f)
	if f.parent != nil {
		delete(f.parent.dirs, lastOf(f.rel))
	}
}

func (m *mirror) empty(f *folder) {
	for _, e := range f.files {
		m.dropFile(e)
	}
	for _, child := range f.dirs {
		m.dropFolder(child)
	}
	f.order = nil
	m.shape++
}

// touch takes in a change that the watcher tells of.
func (m *mirror) touch(c watch.Change) {
	dir, name := ".", c.Rel
	if i := strings.LastIndexByte(c.Rel, '/'); i >= 0 {
		dir, name = c.Rel[:i], c.Rel[i+1:]
	}
	if repository, inside := gitDirOf(c.Rel); inside {
		m.soil(m.folders[repository])
		return
	}
	f := m.folders[dir]
	if f == nil || fsys.IsTemp(name) {
		return
	}
	e := f.files[name]
	if e != nil {
		m.loosen(e)
	}
	if c.Kind != watch.Modified || c.Dir || e == nil || name == ignoreFile {
		m.soil(f)
	}
}

// gitDirOf reports whether rel is git's own, and of which directory.
func gitDirOf(rel string) (repository string, inside bool) {
	switch i := strings.Index("/"+rel+"/", "/"+gitDir+"/"); {
	case i < 0:
		return "", false
	case i == 0:
		return ".", true
	default:
		return rel[:i-1], true
	}
}

func (m *mirror) soil(f *folder) {
	if f != nil && !f.gone {
		m.dirty[f] = struct{}{}
	}
}

// nextDirty takes a directory that is to be listed, or nil.
func (m *mirror) nextDirty() *folder {
	for f := range m.dirty {
		delete(m.dirty, f)
		return f
	}
	return nil
}

// listing is what a directory holds.
type listing struct {
	entries  []fsys.DirEntry
	ignoring ignoring
	err      error
}

// list looks into a directory.
func list(f *folder, respect bool) (l listing) {
	d, err := f.path.OpenDir()
	if err != nil {
		return listing{err: err}
	}
	defer d.Close()
	return listIn(d, respect)
}

func listIn(d *fsys.Dir, respect bool) (l listing) {
	l.entries, l.err = d.Entries()
	if respect {
		l.ignoring = readIgnoring(d, l.entries)
	}
	return l
}

// apply takes in what a directory holds.
func (m *mirror) apply(f *folder, l listing) {
	if f.gone {
		return
	}
	if l.err != nil && isGone(l.err) && f.parent != nil {
		m.dropFolder(f)
		f.parent.order = slices.DeleteFunc(f.parent.order, func(e fsys.DirEntry) bool { return e.Name == lastOf(f.rel) })
		m.soil(f.parent)
		return
	}
	changed := false
	if unreadable := l.err != nil; unreadable != f.unreadable {
		f.unreadable, changed = unreadable, true
	}
	var above *ignore.Rules
	if f.parent != nil {
		above = f.parent.rules
	}
	if l.ignoring != f.ignoring || above != f.above || f.rules == nil {
		f.ignoring, f.above = l.ignoring, above
		f.rules = l.ignoring.rules(above, f.rel, m.fold)
	}
	there := make([]fsys.DirEntry, 0, len(l.entries))
	for _, e := range l.entries {
		isDir := e.Kind == fsys.Directory
		if !isDir && e.Kind != fsys.Regular || e.Name == gitDir || f.rules.Ignored(join(f.rel, e.Name), isDir) {
			continue
		}
		there = append(there, e)
	}
	slices.SortFunc(there, byPath)
	if !slices.Equal(there, f.order) {
		m.replace(f, there)
		changed = true
	}
	for _, child := range f.dirs {
		if child.above != f.rules {
			m.soil(child)
		}
	}
	if changed {
		m.shape++
	}
}

// replace makes what is known to be in a directory what is there.
func (m *mirror) replace(f *folder, there []fsys.DirEntry) {
	now := make(map[string]fsys.Kind, len(there))
	for _, e := range there {
		now[e.Name] = e.Kind
	}
	for name, e := range f.files {
		if now[name] != fsys.Regular {
			m.dropFile(e)
		}
	}
	for name, child := range f.dirs {
		if now[name] != fsys.Directory {
			m.dropFolder(child)
		}
	}
	for _, e := range there {
		switch {
		case e.Kind == fsys.Regular && f.files[e.Name] == nil:
			m.addFile(f, e.Name)
		case e.Kind == fsys.Directory && f.dirs[e.Name] == nil:
			if f.dirs == nil {
				f.dirs = make(map[string]*folder)
			}
			f.dirs[e.Name] = m.addFolder(f, f.path.In(e.Name), join(f.rel, e.Name))
		}
	}
	f.order = there
}

// view is what one kind of search sees of a mirror. It does not change.
type view struct {
	shape      uint64
	files      []*entry // by path
	ids        []trigram.ID
	class      []class
	at         []int32 // by ID: place in files, or -1
	counts     [classes]int
	denied     int
	unreadable int // directories
}

// viewOf returns what a search sees below f.
func (m *mirror) viewOf(s *search, f *folder) *view {
	v := &view{shape: m.shape, at: make([]int32, m.ids)}
	for i := range v.at {
		v.at[i] = -1
	}
	v.add(s, f)
	return v
}

// add goes through a directory as a worker does who scans it.
func (v *view) add(s *search, f *folder) {
	if f.unreadable {
		v.unreadable++
	}
	checked := s.scope.Rules.Below(access.Search, f.rel)
	for _, child := range f.order {
		isDir := child.Kind == fsys.Directory
		if isDir {
			sub := f.dirs[child.Name]
			if s.req.Recursive && s.judge(sub.rel, true, checked) == taken {
				v.add(s, sub)
			}
			continue
		}
		e := f.files[child.Name]
		switch s.judge(e.rel, false, checked) {
		case denied:
			v.denied++
		case taken:
			v.at[e.id] = int32(len(v.files))
			v.files = append(v.files, e)
			v.ids = append(v.ids, e.id)
			v.class = append(v.class, e.class)
			v.counts[e.class]++
		case passed:
		}
	}
}
