package audit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// file is lines that are only added to, in a file that is set aside when it is
// full: audit.jsonl becomes audit.000001.jsonl, the next audit.000002.jsonl. The
// names stay, so a reader is never led to another file by one it knows. Every
// step happens under a lock that all processes take, so the file ends with a
// whole line whenever it is free.
type file struct {
	path     string
	maxSize  int64
	maxFiles int
	out      *os.File                            // nil: closed
	write    func(*os.File, []byte) (int, error) // (*os.File).Write
}

func newFile(path string, maxSize int64, maxFiles int) file {
	return file{path: path, maxSize: maxSize, maxFiles: maxFiles, write: (*os.File).Write}
}

// append adds lines, all of them or none.
func (f *file) append(lines []byte) error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	return fsys.Locked(f.path+".lock", func() error {
		size, err := f.open()
		if err != nil {
			return err
		}
		torn, err := f.repair(size)
		if err != nil {
			return fmt.Errorf("repair %s: %w", f.path, err)
		}
		size -= torn
		if size > 0 && size+int64(len(lines)) > f.maxSize {
			// Some systems move no file that somebody reads: that can wait a while.
			if err := f.rotate(); err != nil && size > 2*f.maxSize {
				return fmt.Errorf("rotate %s: %w", f.path, err)
			}
			if size, err = f.open(); err != nil {
				return err
			}
		}
		if torn > 0 {
			note, _ := tool.Encode(&Record{Time: time.Now().UTC(), Event: EventTorn, Lost: int(torn)})
			lines = slices.Concat(note, []byte("\n"), lines)
		}
		if _, err := f.write(f.out, lines); err != nil {
			return errors.Join(err, f.out.Truncate(size))
		}
		return nil
	})
}

// open sees to it that out is the file at path, and returns its size: another
// process may have set aside the one that out was.
func (f *file) open() (int64, error) {
	if f.out != nil {
		now, err := os.Stat(f.path)
		if info, outErr := f.out.Stat(); err == nil && outErr == nil && os.SameFile(now, info) {
			return info.Size(), nil
		}
		f.close()
	}
	if info, err := os.Lstat(f.path); err == nil && !info.Mode().IsRegular() {
		return 0, &fs.PathError{Op: "open", Path: f.path, Err: fsys.ErrNotRegular}
	}
	out, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	info, err := out.Stat()
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = out.Chmod(0o600)
	}
	if err != nil {
		return 0, errors.Join(err, out.Close())
	}
	f.out = out
	return info.Size(), nil
}

func (f *file) close() {
	if f.out != nil {
		_ = f.out.Sync()
		_ = f.out.Close()
		f.out = nil
	}
}

// repair takes out what a crash left of a last line, and returns how many bytes
// that were.
func (f *file) repair(size int64) (int64, error) {
	end := size // of what is whole
	buf := make([]byte, 1)
	for end > 0 {
		n := min(int64(len(buf)), end)
		if _, err := f.out.ReadAt(buf[:n], end-n); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			end += int64(i+1) - n
			break
		}
		end -= n
		if len(buf) == 1 { // the last byte was not what it should be
			buf = make([]byte, 64<<10)
		}
	}
	if end == size {
		return 0, nil
	}
	return size - end, f.out.Truncate(end)
}

// rotate sets the file aside and deletes the oldest ones that are too many.
func (f *file) rotate() error {
	f.close() // some systems move no file that is open
	old, err := setAside(f.path)
	if err != nil {
		return err
	}
	next := 1
	if len(old) > 0 {
		next = old[len(old)-1].number + 1
	}
	moved := asideName(f.path, next)
	if err := os.Rename(f.path, moved); err != nil {
		return err
	}
	old = append(old, aside{moved, next})
	for _, o := range old[:max(0, len(old)-f.maxFiles)] {
		if err := os.Remove(o.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// aside is a full file.
type aside struct {
	path   string
	number int
}

func asideName(path string, number int) string {
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s.%06d%s", strings.TrimSuffix(path, ext), number, ext)
}

// setAside lists the full files of the one at path, the oldest first.
func setAside(path string) ([]aside, error) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	ext := filepath.Ext(base)
	stem := strings.TrimSuffix(base, ext) + "."
	var old []aside
	for _, e := range entries {
		digits, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ext), stem)
		if !ok || !strings.HasSuffix(e.Name(), ext) || !e.Type().IsRegular() || strings.Trim(digits, "0123456789") != "" {
			continue
		}
		if n, err := strconv.Atoi(digits); err == nil && n > 0 {
			old = append(old, aside{filepath.Join(dir, e.Name()), n})
		}
	}
	slices.SortFunc(old, func(a, b aside) int { return cmp.Compare(a.number, b.number) })
	return old, nil
}
