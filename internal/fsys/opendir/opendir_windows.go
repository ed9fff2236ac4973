package opendir

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// Base is an opened directory below which names are looked up.
type Base struct{ root *os.Root }

// OpenBase opens the directory at path, following links in it.
func OpenBase(path string) (*Base, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &Base{root: root}, nil
}

// Close ends the use of the base.
func (b *Base) Close() { b.root.Close() }

// Dir opens the directory rel, "." being the base itself.
func (b *Base) Dir(rel string) (*Dir, error) {
	root, err := b.root.OpenRoot(filepath.FromSlash(rel))
	if err != nil {
		return nil, named("open directory", err)
	}
	return &Dir{base: b, root: root, rel: rel}, nil
}

// Open opens rel for reading.
func (b *Base) Open(rel string) (*File, error) {
	f, err := b.root.Open(filepath.FromSlash(rel))
	if err != nil {
		return nil, named("open", err)
	}
	return &File{f}, nil
}

// Stat looks at rel, not following a link as its last component.
func (b *Base) Stat(rel string) (Info, error) {
	info, err := b.root.Lstat(filepath.FromSlash(rel))
	if err != nil {
		return Info{}, named("stat", err)
	}
	return infoOf(info), nil
}

// Dir is an opened directory. Its methods take names directly inside it.
type Dir struct {
	base *Base
	root *os.Root
	rel  string
}

// Close closes the directory.
func (d *Dir) Close() { d.root.Close() }

// Dir opens the directory name in d.
func (d *Dir) Dir(name string) (*Dir, error) {
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, named("open directory", err)
	}
	return &Dir{base: d.base, root: root, rel: path.Join(d.rel, name)}, nil
}

// Again returns a second, independent opening of d.
func (d *Dir) Again() (*Dir, error) {
	root, err := d.root.OpenRoot(".")
	if err != nil {
		return nil, named("open directory", err)
	}
	return &Dir{base: d.base, root: root, rel: d.rel}, nil
}

// Open opens name for reading.
func (d *Dir) Open(name string) (*File, error) { return d.open("open", name, os.O_RDONLY, 0) }

// OpenAppend opens an existing name for writing at its end.
func (d *Dir) OpenAppend(name string) (*File, error) {
	return d.open("open", name, os.O_WRONLY|os.O_APPEND, 0)
}

// Create makes a new file for writing. A name that exists is fs.ErrExist.
func (d *Dir) Create(name string, perm fs.FileMode) (*File, error) {
	return d.open("create", name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
}

func (d *Dir) open(op, name string, flags int, perm fs.FileMode) (*File, error) {
	f, err := d.root.OpenFile(name, flags, perm)
	if err != nil {
		return nil, named(op, err)
	}
	return &File{f}, nil
}

// Stat looks at name, not following a link.
func (d *Dir) Stat(name string) (Info, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return Info{}, named("stat", err)
	}
	return infoOf(info), nil
}

// Pin opens nothing: files have no numbers here, and an open one is not renamed.
func (d *Dir) Pin(string) (*File, error) { return &File{}, nil }

// ID returns nothing: directories need no flushing here, so nobody has to tell
// them apart.
func (d *Dir) ID() (Stamp, error) { return Stamp{}, nil }

// Writable returns the error the system has for who wants to write to name.
func (d *Dir) Writable(name string) error {
	info, err := d.root.Lstat(name)
	if err == nil && info.Mode().Perm()&0o200 == 0 {
		err = syscall.ERROR_ACCESS_DENIED
	}
	return named("write", err)
}

// Read returns the names in d, in no order.
func (d *Dir) Read() ([]Entry, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, named("open directory", err)
	}
	defer f.Close()
	list, err := f.ReadDir(-1)
	all := make([]Entry, len(list))
	for i, e := range list {
		all[i] = Entry{Name: e.Name(), Kind: kind(e.Type())}
	}
	return all, err
}

// Mkdir makes the directory name.
func (d *Dir) Mkdir(name string, perm fs.FileMode) error {
	return named("mkdir", d.root.Mkdir(name, perm.Perm()))
}

// Remove removes name, which is no directory.
func (d *Dir) Remove(name string) error { return named("remove", d.root.Remove(name)) }

// RemoveDir removes the empty directory name.
func (d *Dir) RemoveDir(name string) error { return named("remove directory", d.root.Remove(name)) }

// Readlink returns where the link name points.
func (d *Dir) Readlink(name string) (string, error) {
	target, err := d.root.Readlink(name)
	return target, named("read link", err)
}

// Symlink makes name a link to target.
func (d *Dir) Symlink(target, name string) error {
	return named("link", d.root.Symlink(target, name))
}

// Chtime sets the time of the last change of name; that of a link stays.
func (d *Dir) Chtime(name string, modified time.Time) error {
	if info, err := d.root.Lstat(name); err != nil || info.Mode()&fs.ModeSymlink != 0 {
		return named("set time", err)
	}
	return named("set time", d.root.Chtimes(name, modified, modified))
}

// Rename moves name to toName in another opened directory, over whatever file
// stands there. Between two bases it is a move across file systems.
func (d *Dir) Rename(name string, to *Dir, toName string) error {
	if d.base != to.base {
		return named("rename", syscall.EXDEV)
	}
	from, target := filepath.Join(d.rel, name), filepath.Join(to.rel, toName)
	var err error
	// Scanners and indexers hold files open for a moment; others wait for them too.
	for _, pause := range []time.Duration{50, 100, 200, 0} {
		err = d.base.root.Rename(from, target)
		if !errors.Is(err, windows.ERROR_SHARING_VIOLATION) && !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
			break
		}
		time.Sleep(pause * time.Millisecond)
	}
	return named("rename", err)
}

// RenameNew is Rename that finds fs.ErrExist when something stands at toName; in
// the same step for files on file systems with hard links.
func (d *Dir) RenameNew(name string, to *Dir, toName string) error {
	if d.base != to.base {
		return named("rename", syscall.EXDEV)
	}
	err := d.base.root.Link(filepath.Join(d.rel, name), filepath.Join(to.rel, toName))
	if err == nil {
		if err = d.Remove(name); err != nil {
			_ = to.Remove(toName)
		}
		return err
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return named("link", err)
	}
	if _, err := to.Stat(toName); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = named("rename", syscall.ERROR_ALREADY_EXISTS)
		}
		return err
	}
	return d.Rename(name, to, toName)
}

// Exchange is not to be had here.
func (d *Dir) Exchange(string, string) error { return errors.ErrUnsupported }

// Sync has nothing to do: directories cannot be flushed here, and the file
// system journals what happens to names.
func (d *Dir) Sync() error { return nil }

// File is an opened file.
type File struct{ *os.File }

// Close closes a file that was read. Closing it again does nothing.
func (f *File) Close() {
	if f.File != nil {
		f.File.Close()
	}
}

// Finish closes a file that was written, and returns what went wrong with that
// only now.
func (f *File) Finish() error { return named("close", f.File.Close()) }

// Stat looks at the opened file.
func (f *File) Stat() (Info, error) {
	if f.File == nil {
		return Info{}, nil
	}
	info, err := f.File.Stat()
	if err != nil {
		return Info{}, named("stat", err)
	}
	return infoOf(info), nil
}

// Resemble gives f the permissions of old, which it is about to replace; access
// lists are inherited from the directory.
func (f *File) Resemble(old *File) error {
	info, err := old.File.Stat()
	if err != nil {
		return named("stat", err)
	}
	return named("chmod", f.Chmod(info.Mode().Perm()))
}

// Lease is not to be had here: whoever writes usually locks others out.
func (f *File) Lease() (bool, error) { return false, errors.ErrUnsupported }

// Leased reports what Lease gives: nothing.
func (f *File) Leased() bool { return false }

// Release has nothing to undo.
func (f *File) Release() {}

// CopyFrom writes what src holds from its position on.
func (f *File) CopyFrom(src *File) (int64, error) { return f.ReadFrom(src.File) }

func named(op string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	}
	return os.NewSyscallError(op, err)
}

func infoOf(info fs.FileInfo) Info {
	i := Info{
		Kind: kind(info.Mode()), Size: info.Size(), ModTime: info.ModTime(), Mode: info.Mode(),
		Stamp: Stamp{Size: info.Size(), Mtime: info.ModTime().UnixNano()},
	}
	if data, ok := info.Sys().(*syscall.Win32FileAttributeData); ok {
		i.Stamp.Ctime = data.CreationTime.Nanoseconds()
	}
	return i
}
