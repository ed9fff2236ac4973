package watch

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"time"
)

// node is a directory of the tree with what is known to be in it. Its path never
// changes: a directory that moves is forgotten and found anew.
type node struct {
	rel    string
	parent *node
	dirs   map[string]*node
	files  map[string]stamp // everything else
	watch  int32            // the kernel's number; 0: polled
	dev    uint64           // of its file system
	inode  uint64           // in it
	remote string           // that file system's name, if it is a remote one

	listed     bool // what it holds is known
	queued     bool // waits to be looked at
	gone       bool // was forgotten
	unreadable bool
	twin       bool // the same directory is watched under another name
}

// stamp is a hash of what changes with a file: times, size, mode, identity.
type stamp uint64

// unknown is the stamp of a file that was not looked at: it may differ.
const unknown stamp = 0

// racy is how young a file's time may be and still stand for the file: within
// one tick of the file system's clock a file can change and look the same.
const racy = 20 * time.Millisecond

func stampOf(info fs.FileInfo) stamp {
	dev, inode, changed := identity(info)
	modified, now := info.ModTime().UnixNano(), time.Now().UnixNano()
	for _, at := range [...]int64{modified, changed} {
		if age := time.Duration(now - at); -racy < age && age < racy {
			return unknown
		}
	}
	h := uint64(14695981039346656037)
	for _, v := range [...]uint64{uint64(modified), uint64(changed), uint64(info.Size()), uint64(info.Mode()), dev, inode} {
		h = (h ^ v) * 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	return stamp(max(h, 1))
}

// apply takes in one notice. Notices come in order, but what they speak of may
// have been found by looking before they arrive: every case holds when its end is
// known already.
func (l *loop) apply(e notice) {
	if e.what == lost {
		l.overflows++
		l.lose()
		return
	}
	n := l.watched[e.watch]
	switch {
	case n == nil: // of a watch that was given up
	case e.what == stirred:
		l.queue(n)
	case e.what == ended:
		l.bereft(n)
	case e.name == "":
		if n == l.root {
			l.checkRoot()
		}
	case l.skips(n, e.name, e.dir):
	case e.what == vanished:
		// Two names that are exchanged are told one after the other, the last word
		// on one of them being that it went. So look.
		l.lookAgain(n, e.name)
	case e.what == touched && e.dir: // a directory's attributes are nobody's concern
	case e.what == touched && !n.holds(e.name):
		l.lookAgain(n, e.name) // the last write to a file can be told after its name has gone
	case e.dir:
		if child := n.dirs[e.name]; child != nil && (child.queued || child.watch != 0) {
			l.queue(child) // found by looking, most likely; a visit shows whether it is another one
		} else {
			l.foundDir(n, e.name)
		}
	default:
		l.foundFile(n, e.name, unknown)
	}
}

// lookAgain takes in what a name holds now, and that it held something else.
func (l *loop) lookAgain(n *node, name string) {
	info, err := os.Lstat(l.tree.path(n.join(name)))
	switch {
	case err != nil:
		l.lostName(n, name)
	case l.skips(n, name, info.IsDir()):
	case info.IsDir():
		l.foundDir(n, name)
	default:
		l.foundFile(n, name, unknown)
	}
}

// bereft deals with a directory whose watch ended by itself: it was deleted, as
// its parent will be told too, or its file system was unmounted.
func (l *loop) bereft(n *node) {
	l.unwatch(n)
	if n == l.root {
		l.forget(n)
		l.root = nil
		l.checkRoot()
		return
	}
	l.lookAgain(n.parent, path.Base(n.rel))
}

// foundFile takes in that a file is there, new or changed.
func (l *loop) foundFile(n *node, name string, s stamp) {
	if child := n.dirs[name]; child != nil {
		l.forget(child)
	}
	was := nothing
	if n.holds(name) {
		was = aFile
	}
	if n.files == nil {
		n.files = make(map[string]stamp)
	}
	n.files[name] = s
	l.note(n, name, was, aFile)
}

// note has it told what became of a file.
func (l *loop) note(n *node, name string, was, is presence) {
	if !l.settle.lost { // and its path would be made for nothing
		l.settle.note(n.join(name), was, is, l.now)
	}
}

// foundDir takes in that a directory is there, in the place of what was.
func (l *loop) foundDir(n *node, name string) {
	l.lostName(n, name)
	child := l.newNode(n, n.join(name))
	if n.dirs == nil {
		n.dirs = make(map[string]*node)
	}
	n.dirs[name] = child
	l.settle.note(child.rel, nothing, aDir, l.now)
	l.queue(child)
}

// lostName takes in that a name is gone, whatever it was.
func (l *loop) lostName(n *node, name string) {
	if child := n.dirs[name]; child != nil {
		l.forget(child)
	}
	if n.holds(name) {
		delete(n.files, name)
		l.note(n, name, aFile, nothing)
	}
}

// forget takes a directory out of the tree with everything below it.
func (l *loop) forget(n *node) {
	l.empty(n)
	l.unwatch(n)
	delete(l.unwatched, n)
	l.setRemote(n, "")
	l.setUnreadable(n, false)
	n.gone = true
	if n.parent != nil {
		delete(n.parent.dirs, path.Base(n.rel))
	}
	l.settle.note(n.rel, aDir, nothing, l.now)
}

func (l *loop) empty(n *node) {
	for name := range n.files {
		l.note(n, name, aFile, nothing)
	}
	clear(n.files)
	n.listed = false
	for _, child := range n.dirs {
		l.forget(child)
	}
}

// visit looks into a directory: it is watched first, then listed, so that
// nothing falls between the two.
func (l *loop) visit(n *node) {
	dir, info, err := l.openDir(n)
	l.setUnreadable(n, errors.Is(err, fs.ErrPermission))
	if err != nil {
		l.unwatch(n)
		return // its parent is told that it is gone, or the next poll tries again
	}
	defer dir.Close()
	l.place(n, info)
	before := n.watch
	l.arm(n)
	if before != 0 && n.watch != 0 && n.watch != before {
		l.empty(n) // another directory has its name
	}
	// Names are enough where notices told the rest since the last listing.
	closely := n.watch == 0 || !l.kernel.exact() || n.listed && n.watch != before
	if entries, err := dir.ReadDir(-1); err == nil {
		l.compare(n, entries, closely)
		n.listed = true
	}
}

func (l *loop) openDir(n *node) (*os.File, fs.FileInfo, error) {
	flags := openFlags
	if n == l.root {
		flags = os.O_RDONLY // the root may be a link
	}
	dir, err := os.OpenFile(l.tree.path(n.rel), flags, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := dir.Stat()
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if err != nil {
		dir.Close()
		return nil, nil, err
	}
	return dir, info, nil
}

// place finds out on which file system a directory is, and whether watching it
// there is any use.
func (l *loop) place(n *node, info fs.FileInfo) {
	dev, inode, _ := identity(info)
	n.twin = n.twin && dev == n.dev && inode == n.inode
	n.dev, n.inode = dev, inode
	if n.parent != nil && n.parent.dev == n.dev {
		l.setRemote(n, n.parent.remote)
	} else {
		l.setRemote(n, l.tree.remote(l.tree.path(n.rel)))
	}
}

// arm has the kernel watch a directory. What it cannot watch is polled. It is
// asked again for what it watches already: another directory may have come under
// this name while notices were lost.
func (l *loop) arm(n *node) {
	if l.kernel == nil || n.twin || n.remote != "" || l.barred && n.watch == 0 {
		return
	}
	number, err := l.kernel.add(l.tree.path(n.rel), n == l.root)
	if err != nil {
		l.unwatch(n)
		if full, ok := errors.AsType[*fullError](err); ok {
			l.full, l.barred = full.reason, true
		} else {
			l.tree.opts.Logger.Debug("a directory cannot be watched", "error", err)
		}
		return
	}
	if number == n.watch {
		return
	}
	l.unwatch(n)
	if other := l.watched[number]; other != nil {
		// One directory under two names: it was renamed, and the old name will be
		// forgotten in a moment; or it is mounted twice, and one of them is polled.
		other.watch, other.twin = 0, true
		l.unwatched[other] = struct{}{}
	}
	n.watch = number
	l.watched[number] = n
	delete(l.unwatched, n)
}

func (l *loop) unwatch(n *node) {
	if n.watch != 0 {
		delete(l.watched, n.watch)
		if l.kernel != nil {
			l.kernel.remove(n.watch)
		}
		n.watch = 0
		l.unwatched[n] = struct{}{}
	}
}

// compare takes in a listing; closely: with a look at each entry.
func (l *loop) compare(n *node, entries []fs.DirEntry, closely bool) {
	files, dirs := len(n.files), len(n.dirs)
	for _, e := range entries {
		name := e.Name()
		switch {
		case e.IsDir() && n.dirs[name] != nil:
			dirs--
			if closely && replaced(n.dirs[name], e) {
				l.foundDir(n, name)
			}
		case e.IsDir():
			if !l.skips(n, name, true) {
				l.foundDir(n, name)
			}
		case n.holds(name):
			if closely && !l.restamp(n, e) {
				continue
			}
			files--
		case !l.skips(n, name, false):
			s := unknown
			if closely {
				s = l.stamp(e)
			}
			l.foundFile(n, name, s)
		}
	}
	if files == 0 && dirs == 0 {
		return // all that was known is there
	}
	there := make(map[string]bool, len(entries))
	for _, e := range entries {
		there[e.Name()] = true
	}
	for name := range n.files {
		if !there[name] {
			l.lostName(n, name)
		}
	}
	for name := range n.dirs {
		if !there[name] {
			l.lostName(n, name)
		}
	}
}

// replaced reports whether another directory is there than the known one.
func replaced(n *node, e fs.DirEntry) bool {
	if !n.listed {
		return false // it will be looked at anyway
	}
	info, err := e.Info()
	if err != nil {
		return false
	}
	dev, inode, _ := identity(info)
	return dev != n.dev || inode != n.inode
}

// restamp compares a known file with its last stamp. It reports false for one
// that has gone since it was listed.
func (l *loop) restamp(n *node, e fs.DirEntry) bool {
	info, err := e.Info()
	if err != nil {
		return false
	}
	s := stampOf(info)
	if before := n.files[e.Name()]; s != before || s == unknown {
		l.foundFile(n, e.Name(), s)
	}
	return true
}

func (l *loop) stamp(e fs.DirEntry) stamp {
	info, err := e.Info()
	if err != nil {
		return unknown // gone already; the next look finds out
	}
	return stampOf(info)
}

func (l *loop) newNode(parent *node, rel string) *node {
	n := &node{rel: rel, parent: parent}
	l.unwatched[n] = struct{}{}
	return n
}

// queue has the loop look at a directory.
func (l *loop) queue(n *node) {
	if !n.queued {
		n.queued = true
		l.work = append(l.work, n)
	}
}

// queueAll queues every directory, those near the root first.
func (l *loop) queueAll() {
	if l.root == nil {
		return
	}
	level := []*node{l.root}
	for len(level) > 0 {
		var below []*node
		for _, n := range level {
			l.queue(n)
			for _, child := range n.dirs {
				below = append(below, child)
			}
		}
		level = below
	}
}

func (l *loop) queueUnwatched() {
	for n := range l.unwatched {
		l.queue(n)
	}
}

func (l *loop) skips(n *node, name string, dir bool) bool {
	return l.tree.opts.Skip != nil && l.tree.opts.Skip(n.join(name), dir)
}

func (l *loop) setRemote(n *node, name string) {
	if n.remote != "" {
		l.remote--
	}
	if name != "" {
		l.remote++
		l.afar = name
	}
	n.remote = name
}

func (l *loop) setUnreadable(n *node, is bool) {
	if n.unreadable {
		l.unreadable--
	}
	if is {
		l.unreadable++
	}
	n.unreadable = is
}

func (n *node) holds(name string) bool {
	_, known := n.files[name]
	return known
}

func (n *node) join(name string) string {
	if n.parent == nil {
		return name
	}
	return n.rel + "/" + name
}
