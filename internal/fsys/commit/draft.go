package commit

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys/opendir"
)

// draft is a temp file on its way to a name beside it.
type draft struct {
	dir  *opendir.Dir
	name string
	pin  pinned // the written file
	kept bool   // the temp name holds what is not ours to remove
}

// drafted writes a temp file in dir for target. old, if not nil, is the file it
// is to resemble.
func drafted(op string, dir *opendir.Dir, target string, data []byte, expected *Content, old *opendir.File, perm fs.FileMode, s Sync) (_ *draft, err error) {
	t := &draft{dir: dir, name: tempName(target, oldTag(expected), newTag(data))}
	var f *opendir.File
	err = step(op+".temp", func() (err error) {
		if old == nil && perm == 0 {
			f, err = dir.Create(t.name, 0o666)
		} else {
			f, err = dir.Create(t.name, 0o600) // nobody looks in before it has what it is to have
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	err = step(op+".write", func() error {
		_, err := f.Write(data)
		return err
	})
	if err == nil && old != nil {
		err = step(op+".resemble", func() error { return f.Resemble(old) })
	}
	if err == nil && perm != 0 {
		err = f.Chmod(perm)
	}
	if err == nil {
		err = step(op+".flush", func() error { return s.file(f) })
	}
	if closing := f.Finish(); err == nil {
		err = closing
	}
	if err == nil {
		t.pin, err = pin(dir, t.name)
	}
	if err != nil {
		t.drop()
		return nil, err
	}
	return t, nil
}

// drop removes the draft.
func (t *draft) drop() {
	if !t.kept {
		_ = t.dir.Remove(t.name) // the first error is the one that explains
	}
	t.done()
}

// done ends the use of a draft that is in its place.
func (t *draft) done() { t.pin.close() }

// pinned is a file that can be told from all others as long as it is held.
type pinned struct {
	file  *opendir.File
	stamp opendir.Stamp
}

func pin(dir *opendir.Dir, name string) (pinned, error) {
	f, err := dir.Pin(name)
	if err != nil {
		return pinned{}, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return pinned{}, err
	}
	return pinned{file: f, stamp: info.Stamp}, nil
}

func (p pinned) close() {
	if p.file != nil {
		p.file.Close()
	}
}

// retract removes what was just put there, if it still is what stands there.
func (p pinned) retract(dir *opendir.Dir, name string) {
	if now, err := dir.Stat(name); err == nil && now.Stamp.SameFile(p.stamp) {
		_ = RemoveTree(dir, name)
	}
}

// swap changes places with the file under name, and changes back if that is not
// the one watched. On success the old file is gone; on failure the draft is back.
func (t *draft) swap(name string, w *watched, s Sync) error {
	err := w.check(t.dir, name) // nobody is to see the new bytes for nothing
	if err == nil {
		err = step("replace.exchange", func() error { return t.dir.Exchange(t.name, name) })
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return errNoExchange
	}
	if err != nil {
		return err
	}
	err = step("replace.check", func() error { return w.check(t.dir, t.name) })
	if err == nil {
		err = step("replace.sync", func() error { return s.dir(t.dir) })
	}
	if err == nil && w.disturbed() {
		err = errOpened
	}
	if err == nil {
		err = step("replace.unlink", func() error { return t.dir.Remove(t.name) })
	}
	if err == nil {
		return nil
	}
	if back := t.giveBack(name); back != nil {
		t.kept = true
		err = errors.Join(err, back)
	}
	return err
}

// giveBack undoes the exchange. If somebody saved under name meanwhile, that
// comes out instead of the draft: it is the newest and goes back at once, and so
// on until what comes out is what was put there last. Only that may go.
func (t *draft) giveBack(name string) error {
	put := t.pin
	for range 1000 {
		next, err := pin(t.dir, t.name)
		if err != nil {
			return err
		}
		defer next.close() // few: it takes somebody who saves within microseconds
		err = t.dir.Exchange(t.name, name)
		if errors.Is(err, fs.ErrNotExist) {
			err = t.dir.RenameNew(t.name, t.dir, name)
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			if err == nil {
				return nil // somebody removed the draft: better too much than too little
			}
		}
		if err != nil {
			return rescue(t.dir, t.name, name, err)
		}
		out, err := t.dir.Stat(t.name)
		if err != nil {
			return err
		}
		if out.Stamp.SameFile(put.stamp) {
			return nil
		}
		put = next
	}
	return rescue(t.dir, t.name, name, ErrChanged)
}

// rescue makes visible what cannot be put back.
func rescue(dir *opendir.Dir, temp, name string, err error) error {
	name = strings.ToValidUTF8(name[:min(len(name), 200)], "_") + "." + strings.ToLower(rand.Text()[:6]) + ".saved"
	if moved := dir.RenameNew(temp, dir, name); moved != nil {
		return fmt.Errorf("%w; what stood there is in %s: %w", err, temp, moved)
	}
	return fmt.Errorf("%w; what stood there is in %s", err, name)
}

// cover is swap for systems that cannot exchange: look, then rename.
func (t *draft) cover(name string, base Content, s Sync) error {
	now, err := t.dir.Open(name)
	if err != nil {
		return err
	}
	same, err := base.is(now)
	now.Close()
	if err == nil && !same {
		err = ErrChanged
	}
	if err == nil {
		err = step("replace.sync", func() error { return t.dir.Rename(t.name, t.dir, name) })
	}
	if err != nil {
		return err
	}
	return s.dir(t.dir)
}

var (
	// errOpened means that somebody opened the file for writing in the middle.
	errOpened = errors.New("opened for writing meanwhile")
	// errNoExchange means that nothing was done, because it cannot be done so.
	errNoExchange = errors.New("files cannot change places here")
)

// changed is what it means to the caller.
func changed(err error) error {
	if errors.Is(err, errOpened) {
		return fmt.Errorf("%w: %w", ErrChanged, err)
	}
	return err
}

// watched is a file that is about to lose its name and must not be written to
// unseen.
type watched struct {
	file   *opendir.File // nil if any content will do
	stamp  opendir.Stamp
	want   *Content
	leased bool
}

// lease holds up who wants to write from now on. It waits a moment for who is
// writing.
func (w *watched) lease() {
	for range 50 {
		ok, err := w.file.Lease()
		if ok || err != nil {
			w.leased = ok
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (w *watched) release() {
	if w.leased {
		w.file.Release()
		w.leased = false
	}
}

// disturbed reports whether somebody is being held up.
func (w *watched) disturbed() bool { return w.leased && !w.file.Leased() }

// check judges what stands under name now.
func (w *watched) check(dir *opendir.Dir, name string) error {
	if w.file == nil {
		return nil
	}
	now, err := dir.Stat(name)
	if err != nil {
		return err
	}
	f := w.file
	if !now.Stamp.SameFile(w.stamp) {
		// Somebody else's file, or ours with a new number, as some file systems
		// give when it is first touched. Its bytes tell.
		if f, err = dir.Open(name); err != nil {
			return fmt.Errorf("%w: %w", ErrChanged, err)
		}
		defer f.Close()
		if _, err := f.Regular(); err != nil {
			return fmt.Errorf("%w: %w", ErrChanged, err)
		}
	}
	same, err := w.want.is(f)
	switch {
	case err != nil:
		return err
	case !same:
		return ErrChanged
	case w.disturbed():
		return errOpened
	default:
		return nil
	}
}

// aside takes name out of sight in one step and then removes it for good. If
// check objects to what was taken, or anything else fails, it comes back.
func aside(dir *opendir.Dir, name, temp string, s Sync, check, remove func(temp string) error) error {
	err := step("remove.aside", func() error { return dir.RenameNew(name, dir, temp) })
	if err != nil {
		return err
	}
	err = step("remove.check", func() error { return check(temp) })
	if err == nil {
		err = step("remove.sync", func() error { return s.dir(dir) })
	}
	if err == nil {
		err = step("remove.unlink", func() error { return remove(temp) })
	}
	if err == nil {
		return nil
	}
	back := dir.RenameNew(temp, dir, name)
	if errors.Is(back, fs.ErrExist) {
		// Somebody saved there again. Of a file that is the newer state; of a
		// directory it is another one.
		if back = dir.Remove(temp); back != nil {
			back = rescue(dir, temp, name, back)
		}
	}
	return errors.Join(changed(err), back)
}
