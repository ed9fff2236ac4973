package fsys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/commit"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/opendir"
)

var (
	// ErrOutside is returned for a name that leads out of every base, by itself
	// or through a link.
	ErrOutside = errors.New("outside of the base directories")
	// ErrInvalidName is returned for a name that no file can have.
	ErrInvalidName = errors.New("not a file name")
	// ErrReserved is returned for the name of a temp file of ours.
	ErrReserved = errors.New("a name kept for temporary files of this program")
	// ErrMoved is returned when a link stands where Resolve saw a file or a
	// directory: resolve the name again.
	ErrMoved = opendir.ErrLink
	// ErrIsDirectory is returned for a directory where a file is needed.
	ErrIsDirectory = opendir.ErrIsDirectory
	// ErrBase is the ErrIsDirectory for what would write, move or remove a base
	// itself.
	ErrBase = fmt.Errorf("%w: a base, which stays what it is", ErrIsDirectory)
)

const (
	longestPath = 4095 // bytes
	mostLinks   = 40   // as the kernel
)

const sep = string(filepath.Separator)

// Bases are the directories somebody may reach, opened once. Immutable and safe
// for concurrent use.
type Bases struct {
	all []*base
}

type base struct {
	of         *Bases
	dir        *opendir.Base
	path       string
	info       fs.FileInfo
	folds      bool // upper and lower case name one file
	normalises bool // composed and decomposed letters name one file
}

// OpenBases opens the directory root, from which relative names start, and the
// others. One that lies in an earlier one is covered by it.
func OpenBases(root string, others []string) (*Bases, error) {
	b := new(Bases)
	for _, name := range append([]string{root}, others...) {
		if err := b.open(name); err != nil {
			b.Close()
			return nil, fmt.Errorf("open base %s: %w", name, err)
		}
	}
	return b, nil
}

func (b *Bases) open(name string) error {
	path, err := ResolveDir(name)
	if err != nil {
		return err
	}
	if covering, _ := b.holding(path); covering != nil {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	dir, err := opendir.OpenBase(path)
	if err != nil {
		return err
	}
	folds := foldsCase(path)
	b.all = append(b.all, &base{
		of: b, dir: dir, path: path, info: info,
		folds: folds, normalises: folds || runtime.GOOS == "darwin",
	})
	return nil
}

// Close closes the directories. Calls under way finish; later ones get
// fs.ErrClosed.
func (b *Bases) Close() {
	for _, base := range b.all {
		base.dir.Close()
	}
}

// Path is a name that Resolve judged: below a base and free of links when it was
// looked at. Nothing is done through it that would follow a link put there later;
// such a call ends with ErrMoved.
type Path struct {
	base *base
	abs  string
}

// String returns the absolute path.
func (p Path) String() string { return p.abs }

// Base returns the base directory that p lies in.
func (p Path) Base() string { return p.base.path }

// Rel returns p relative to its base, with slashes; "." is the base.
func (p Path) Rel() string {
	if p.abs == p.base.path {
		return "."
	}
	return filepath.ToSlash(strings.TrimPrefix(p.abs[len(p.base.path):], sep))
}

// Key returns one string per file, however it is spelled where spelling does not
// matter. Whether it matters is asked once per base, not per directory below it.
// Hard links are different files: each has its own key.
func (p Path) Key() string {
	switch {
	case p.base.folds:
		return norm.NFC.String(cases.Fold().String(norm.NFD.String(p.abs)))
	case p.base.normalises:
		return norm.NFC.String(p.abs)
	default:
		return p.abs
	}
}

// split returns the directory that p stands in, relative to the base, and p's
// name there.
func (p Path) split() (dir, name string, err error) {
	rel := p.Rel()
	if rel == "." {
		return "", "", ErrBase
	}
	if i := strings.LastIndexByte(rel, '/'); i >= 0 {
		return rel[:i], rel[i+1:], nil
	}
	return ".", rel, nil
}

// failed says what was done to which file, and names causes that the caller can
// tell apart on every system.
func (p Path) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	switch {
	case errors.Is(err, syscall.EISDIR):
		err = fmt.Errorf("%w: %w", ErrIsDirectory, err)
	case errors.Is(err, syscall.ENXIO): // a socket, or a pipe without its other end
		err = fmt.Errorf("%w: %w", ErrNotRegular, err)
	}
	return fmt.Errorf("%s %s: %w", op, p, err)
}

// Resolve says which file name means: relative to the first base or absolute,
// existing or not, with missing directories on the way too. Links are followed
// as long as what they lead to lies in a base, an absent file included; a name
// that leads out is ErrOutside, whatever is or is not there. The way up ("..")
// is taken as the system takes it, after links.
func (b *Bases) Resolve(name string) (Path, error) { return b.resolve(name, true) }

// ResolveLink is Resolve, but a link as the last component is itself what is
// meant, not what it leads to: to remove it or to move it.
func (b *Bases) ResolveLink(name string) (Path, error) { return b.resolve(name, false) }

func (b *Bases) resolve(name string, follow bool) (Path, error) {
	fail := func(err error) (Path, error) {
		return Path{}, &fs.PathError{Op: "resolve", Path: name, Err: err}
	}
	if name == "" || strings.IndexByte(name, 0) >= 0 {
		return fail(ErrInvalidName)
	}
	if len(name) > longestPath {
		return fail(syscall.ENAMETOOLONG)
	}
	abs := name
	if !filepath.IsAbs(name) {
		if filepath.VolumeName(name) != "" || os.IsPathSeparator(name[0]) {
			return fail(ErrOutside) // another drive's current directory
		}
		abs = b.all[0].path + sep + name
	}
	abs = filepath.FromSlash(abs)

	// Most names hold no link and no way up. One call says so.
	if !goesUp(abs) {
		if p, ok := b.pathOf(filepath.Clean(abs)); ok {
			if err := p.usable(); err != nil {
				return fail(err)
			}
			settled, err := p.settled(follow)
			if err != nil {
				return fail(err)
			}
			if settled {
				return p, nil
			}
		}
	}
	for range 10 {
		at, err := b.walk(abs, follow)
		if err != nil {
			return fail(err)
		}
		p, ok := b.pathOf(at)
		if !ok {
			return fail(ErrOutside)
		}
		if err := p.usable(); err != nil {
			return fail(err)
		}
		settled, err := p.settled(follow)
		if err != nil {
			return fail(err)
		}
		if settled {
			return p, nil
		} // the tree moved under us: once more
	}
	return fail(ErrMoved)
}

// cause takes off the path that the system's error is about.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// settled reports whether no link is left to follow in p.
func (p Path) settled(follow bool) (bool, error) {
	info, err := p.base.dir.Stat(p.Rel())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil // looked up in order: no link stood before what is missing
	case errors.Is(err, opendir.ErrLink):
		return false, nil
	case err != nil:
		return false, err
	default:
		return info.Kind != opendir.Link || !follow, nil
	}
}

// usable refuses names that could not be made, or that are ours.
func (p Path) usable() error {
	for name := range strings.SplitSeq(p.Rel(), "/") {
		switch {
		case len(name) > opendir.LongestName:
			return syscall.ENAMETOOLONG
		case commit.IsTemp(name):
			return ErrReserved
		case runtime.GOOS == "windows" && name != "." && (strings.Contains(name, ":") || !filepath.IsLocal(name)):
			return ErrInvalidName // a stream of a file, or a device
		}
	}
	return nil
}

// walk follows abs by name, as the system would, and returns where it ends. What
// goes wrong outside of the bases is ErrOutside: nobody is to learn there what
// exists.
func (b *Bases) walk(abs string, follow bool) (string, error) {
	at, todo := b.start(abs)
	links, missing := 0, 0 // missing counts the last components of at that do not exist
	for todo != "" {
		var name string
		name, todo, _ = strings.Cut(todo, sep)
		switch name {
		case "", ".":
			continue
		case "..":
			at, missing = filepath.Dir(at), max(missing-1, 0)
			continue
		}
		at = filepath.Join(at, name)
		if missing > 0 {
			missing++
			continue
		}
		info, err := os.Lstat(at)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 && (follow || strings.Trim(todo, sep) != "") {
			var target string
			if links++; links > mostLinks {
				err = syscall.ELOOP
			} else if target, err = os.Readlink(at); err == nil {
				if filepath.IsAbs(target) {
					at, target = b.start(target)
				} else {
					at = filepath.Dir(at)
				}
				todo = target + sep + todo
			} else if errors.Is(err, syscall.EINVAL) {
				err = nil // no link any more; settled has the last word
			}
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing++
		case err != nil:
			if in, _ := b.holding(at); in == nil {
				return "", ErrOutside
			}
			return "", cause(err)
		}
	}
	return at, nil
}

// start splits an absolute path into a directory known to be free of links and
// what is left to follow.
func (b *Bases) start(abs string) (at, todo string) {
	if base, rest := b.holding(abs); base != nil {
		return base.path, rest
	}
	volume := filepath.VolumeName(abs)
	return volume + sep, abs[len(volume):]
}

// pathOf makes the path of an absolute name without links, if a base holds it.
func (b *Bases) pathOf(abs string) (Path, bool) {
	if base, _ := b.holding(abs); base != nil {
		return Path{base: base, abs: abs}, true
	}
	// The same directory may have another spelling.
	rest := ""
	for dir := abs; ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			for _, base := range b.all {
				if os.SameFile(info, base.info) {
					return Path{base: base, abs: filepath.Join(base.path, rest)}, true
				}
			}
		}
		if dir == filepath.Dir(dir) {
			return Path{}, false
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// holding returns the first base whose path abs begins with, and the rest.
func (b *Bases) holding(abs string) (*base, string) {
	for _, base := range b.all {
		rest, ok := strings.CutPrefix(abs, base.path)
		if ok && (rest == "" || os.IsPathSeparator(rest[0]) || strings.HasSuffix(base.path, sep)) {
			return base, rest
		}
	}
	return nil, ""
}

func goesUp(path string) bool {
	if !strings.Contains(path, "..") {
		return false
	}
	for name := range strings.SplitSeq(path, sep) {
		if name == ".." {
			return true
		}
	}
	return false
}

// foldsCase asks, without writing, whether the names in a directory are one in
// upper and lower case: some entry under its other spelling, else the directory
// itself under its own.
func foldsCase(path string) bool {
	var candidates []string
	if d, err := os.Open(path); err == nil {
		names, _ := d.Readdirnames(100)
		d.Close()
		for _, name := range names {
			candidates = append(candidates, filepath.Join(path, name))
		}
	}
	for _, candidate := range append(candidates, path) {
		dir, name := filepath.Split(candidate)
		other := swapCase(name)
		if other == name {
			continue
		}
		info, err := os.Lstat(candidate)
		if err != nil {
			continue
		}
		same, err := os.Lstat(dir + other)
		return err == nil && os.SameFile(info, same)
	}
	return runtime.GOOS == "darwin" || runtime.GOOS == "windows"
}

func swapCase(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r > unicode.MaxASCII:
			return r
		case unicode.IsUpper(r):
			return unicode.ToLower(r)
		default:
			return unicode.ToUpper(r)
		}
	}, name)
}
