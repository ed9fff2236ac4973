package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// Following is somebody's wish to hear of changes of a file, by the server or by
// others. They are told as event.FileChanged; the file need not exist yet.
type Following struct {
	engine *Engine
	name   string // as it was asked for
	path   string
	end    sync.Once
}

// Follow begins to follow a file that the caller may read. It ends with Close.
func (e *Engine) Follow(ctx context.Context, name string) (*Following, error) {
	return again(func() (*Following, error) {
		t, err := e.admitOne(ctx, access.Read, name)
		if err != nil {
			return nil, err
		}
		f := &Following{engine: e, name: name, path: t.path.String()}
		e.followed.add(f.path) // before the look, so that no change falls between the two
		state, err := t.state()
		if err == nil {
			err = t.mayShow(state)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		e.followed.note(f.path, state)
		return f, nil
	})
}

// Concerns reports whether the file, or a directory it is in, has changed.
func (f *Following) Concerns(c event.File) bool {
	return c.Path == f.path || c.Hash == "" && below(c.Path, f.path)
}

// MayRead reports whether the caller of ctx may read the file as it is now.
func (f *Following) MayRead(ctx context.Context) bool {
	t, err := f.engine.admitOne(ctx, access.Read, f.name)
	if err != nil || t.path.String() != f.path {
		return false
	}
	state, err := t.state()
	return err == nil && t.mayShow(state) == nil
}

// below reports whether path is in the directory dir; both are clean.
func below(dir, path string) bool {
	return len(path) > len(dir) && os.IsPathSeparator(path[len(dir)]) && path[:len(dir)] == dir
}

// Close ends it. It may be called more than once.
func (f *Following) Close() { f.end.Do(func() { f.engine.followed.remove(f.path) }) }

// tooLarge stands for the hash of a file over the size limit.
const tooLarge = "too large"

// state is the hash of the file; "" if there is none.
func (t *target) state() (string, error) {
	sum, _, err := t.path.Hash(t.scope.Limits.MaxFileSize)
	switch {
	case err == nil:
		return hashOf(sum), nil
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case errors.Is(err, fsys.ErrTooLarge):
		return tooLarge, nil
	default:
		return "", t.failed(err)
	}
}

// mayShow refuses a file that a content rule forbids to show.
func (t *target) mayShow(state string) error {
	if !t.scope.Redacts || state == "" || state == tooLarge {
		return nil
	}
	c, err := t.load()
	if err != nil {
		return err
	}
	return t.reveal(&Fetched{}, c.raw)
}

// follows are the files that somebody follows, with what is known of each.
type follows struct {
	mu     sync.Mutex
	byPath map[string]*followed // guarded by mu
}

type followed struct {
	by    int    // how many follow it
	state string // as target.state has it
}

func (f *follows) add(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byPath == nil {
		f.byPath = make(map[string]*followed)
	}
	if f.byPath[path] == nil {
		f.byPath[path] = &followed{}
	}
	f.byPath[path].by++
}

func (f *follows) remove(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.byPath[path]; one != nil {
		if one.by--; one.by == 0 {
			delete(f.byPath, path)
		}
	}
}

// note keeps what a file is known to hold. What is gone took with it what was in
// it.
func (f *follows) note(path, state string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.byPath[path]; one != nil {
		one.state = state
	}
	if state != "" {
		return
	}
	for other, one := range f.byPath {
		if below(path, other) {
			one.state = ""
		}
	}
}

// known returns what a file that is followed is known to hold.
func (f *follows) known(path string) (state string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.byPath[path]
	if one == nil {
		return "", false
	}
	return one.state, true
}

func (f *follows) paths() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]string, 0, len(f.byPath))
	for path := range f.byPath {
		all = append(all, path)
	}
	return all
}
