package sandbox

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// plan is what one command may do to the disk, decided before any backend is
// asked. All paths are absolute and free of links.
//
//	everything          read-only
//	  areas             writable or read-only; of two, the deeper one counts
//	    protected       read-only, whatever else says so
//	    hidden          not there
type plan struct {
	areas     []area // by depth
	protected []string
	hidden    []string
	open      []string // what should be protected and is not, in words

	looked map[string]bool // directories seen to be no links, each looked at once
}

// area is a directory or file with all below it.
type area struct {
	path     string
	writable bool
}

// plan looks at the disk and decides.
func (s *Sandbox) plan() plan {
	p := plan{looked: make(map[string]bool)}
	mode := s.mode()
	if mode == Off { // the network alone
		p.areas = []area{{string(filepath.Separator), true}}
		return p
	}
	if mode == Strict && s.opts.Root != "" {
		p.areas = append(p.areas, area{s.opts.Root, false})
	}
	if mode != ReadOnly {
		if mode == WorkspaceWrite && s.opts.Root != "" {
			p.areas = append(p.areas, area{s.opts.Root, true})
		}
		for _, dir := range s.opts.TempDirs {
			if real, err := filepath.EvalSymlinks(dir); err == nil {
				p.allow(real)
			}
		}
		for _, dir := range s.userDirs() {
			p.follow(dir)
		}
		if mode == Strict && s.opts.Root != "" {
			for _, dir := range s.opts.BuildDirs {
				p.follow(filepath.Join(s.opts.Root, dir))
			}
		}
		if mode == WorkspaceWrite && s.opts.Root != "" {
			for _, dir := range worktreeDirs(s.opts.Root) {
				p.follow(dir)
			}
		}
		for _, c := range s.caches {
			for _, path := range slices.Concat(c.made, c.other) {
				p.follow(path)
			}
		}
	}
	for _, path := range s.opts.Protected {
		p.protect(path)
	}
	for _, root := range append(s.userDirs(), s.opts.Root) {
		if root != "" && (p.writableAt(root) || p.holdsWritable(root)) {
			p.protectProject(root)
		}
	}
	for _, path := range s.opts.Hidden {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			p.hidden = append(p.hidden, real)
		}
	}
	slices.Sort(p.protected)
	p.protected = slices.Compact(p.protected)
	return p
}

// userDirs are the further writable directories of the settings, short ones
// first, since what lies in one of them is not worth a look.
func (s *Sandbox) userDirs() []string {
	var dirs []string
	for _, dir := range s.opts.Writable {
		if dir == "~" || strings.HasPrefix(dir, "~/") {
			dir = filepath.Join(s.opts.Home, dir[1:])
		}
		if !filepath.IsAbs(dir) {
			if s.opts.Root == "" {
				continue
			}
			dir = filepath.Join(s.opts.Root, dir)
		}
		dirs = append(dirs, filepath.Clean(dir))
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	return dirs
}

// allow makes path, which is free of links, writable.
func (p *plan) allow(path string) {
	if p.writableAt(path) {
		return
	}
	p.areas = append(p.areas, area{path, true})
	slices.SortStableFunc(p.areas, func(a, b area) int { return cmp.Compare(len(a.path), len(b.path)) })
}

// follow makes path writable if it exists. Links on the way are followed unless
// a command could have made them: such a link would widen the sandbox of the
// next command.
func (p *plan) follow(path string) {
	if !exists(path) { // as most caches of most people
		return
	}
	if real, ok := p.resolve(path); ok {
		p.allow(real)
	}
}

// resolve returns path without links, and false when it does not exist or when a
// link on the way lies where commands may write.
func (p *plan) resolve(path string) (string, bool) {
	const most = 40 // links, as in the kernel
	done, rest := filepath.VolumeName(path)+string(filepath.Separator), path[len(filepath.VolumeName(path)):]
	for links := 0; ; {
		rest = strings.TrimLeft(rest, string(filepath.Separator))
		if rest == "" {
			return done, true
		}
		name, after, _ := strings.Cut(rest, string(filepath.Separator))
		next := filepath.Join(done, name)
		if p.looked[next] {
			done, rest = next, after
			continue
		}
		info, err := os.Lstat(next)
		if err != nil {
			return next, false
		}
		if info.Mode()&os.ModeSymlink == 0 {
			p.looked[next] = true
			done, rest = next, after
			continue
		}
		if links++; links > most || p.writableAt(done) {
			return next, false
		}
		target, err := os.Readlink(next)
		if err != nil {
			return next, false
		}
		if filepath.IsAbs(target) {
			done = filepath.VolumeName(target) + string(filepath.Separator)
			target = target[len(filepath.VolumeName(target)):]
		}
		rest = target + string(filepath.Separator) + after
	}
}

// writableAt reports whether the areas allow to write path.
func (p *plan) writableAt(path string) bool {
	for _, a := range slices.Backward(p.areas) {
		if inside(path, a.path) {
			return a.writable
		}
	}
	return false
}

// protect makes path read-only for good. What no area makes writable is so
// already; what cannot be protected is told.
func (p *plan) protect(path string) {
	path = filepath.Clean(path)
	real, ok := p.resolve(path)
	if !ok {
		if _, err := os.Lstat(real); err == nil { // a link where commands may write
			p.open = append(p.open, fmt.Sprintf("%s (%s is a link that a command may replace)", path, real))
			if real, err = filepath.EvalSymlinks(path); err != nil {
				return
			}
		} else {
			if p.writableAt(filepath.Dir(real)) {
				p.open = append(p.open, path+" (does not exist yet; a command may make it)")
			}
			return
		}
	}
	if p.writableAt(real) || p.holdsWritable(real) {
		p.protected = append(p.protected, real)
	}
}

// holdsWritable reports whether something below path is writable.
func (p *plan) holdsWritable(path string) bool {
	return slices.ContainsFunc(p.areas, func(a area) bool { return a.writable && inside(a.path, path) })
}

// pinned are the directories between a writable area and what is read-only in
// it. Renamed, they would take it along and leave its place free.
func (p *plan) pinned() []string {
	var dirs []string
	kept := slices.Clone(p.protected)
	for _, a := range p.areas {
		if !a.writable {
			kept = append(kept, a.path)
		}
	}
	for _, path := range kept {
		for dir := filepath.Dir(path); p.writableAt(dir) && !p.isArea(dir) && !insideAny(dir, p.protected); dir = filepath.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func (p *plan) isArea(path string) bool {
	return slices.ContainsFunc(p.areas, func(a area) bool { return a.path == path })
}

// landlock returns what to allow where nothing inside an allowed directory can
// be taken out again: a writable area with a read-only one in it, such as the
// temporary directory with the project in strict mode, is not allowed at all.
// Devices that every program may write are added.
func (p *plan) landlock() []string {
	paths := slices.Clone(devices)
	for _, a := range p.areas {
		if a.writable && !p.holdsReadOnly(a.path) && !insideAny(a.path, p.protected) {
			paths = append(paths, a.path)
		}
	}
	return paths
}

// holdsReadOnly reports whether an area below path is read-only.
func (p *plan) holdsReadOnly(path string) bool {
	return slices.ContainsFunc(p.areas, func(a area) bool { return !a.writable && inside(a.path, path) })
}

// devices that every program may write.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts"}

// tempDirs are the system's directories for temporary files.
func tempDirs() []string {
	dirs := []string{os.TempDir()}
	if runtime.GOOS != "windows" {
		dirs = append(dirs, "/tmp", "/var/tmp")
	}
	if runtime.GOOS == "linux" {
		dirs = append(dirs, "/dev/shm")
	}
	return dirs
}

// inside reports whether path is dir or below it.
func inside(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator)))
	return ok && (rest == "" || rest[0] == filepath.Separator)
}

// insideAny reports whether path is one of dirs or below one.
func insideAny(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return inside(path, dir) })
}
