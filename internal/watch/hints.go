package watch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// mostDescriptors is what a tree may keep open where watching a directory
	// means to keep every file in it open (kqueue).
	mostDescriptors = 2048
	// mostHints bounds the directories remembered until the loop looks at them.
	mostHints = 1 << 12
)

// hints says in which directories something happened. What it was is found by
// looking there: the library under it names events differently from system to
// system, and some it drops. Hints are collected for one rest, so that a storm
// does not have the same directory listed over and over.
type hints struct {
	watcher *fsnotify.Watcher
	rest    time.Duration
	fill    chan struct{}
	pump    sync.WaitGroup

	limit, open int              // descriptors
	watches     map[int32]string // by number
	numbers     map[string]int32
	prices      map[int32]int
	last        int32

	mu    sync.Mutex
	dirty map[string]bool // directories with something new; guarded by mu
	lost  bool            // or anywhere; guarded by mu
}

func openHints(o kernelOptions) (*hints, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("notices of changed files: %w", err)
	}
	h := &hints{
		watcher: w, rest: o.rest, fill: make(chan struct{}, 1), limit: o.watches,
		watches: make(map[int32]string), numbers: make(map[string]int32), prices: make(map[int32]int),
	}
	if h.limit == 0 {
		h.limit = mostDescriptors
	}
	h.pump.Go(h.collect)
	return h, nil
}

func (h *hints) mode() string           { return ModeFsnotify }
func (h *hints) exact() bool            { return false }
func (h *hints) ready() <-chan struct{} { return h.fill }

func (h *hints) close() {
	_ = h.watcher.Close() // nothing can be done about it, and nothing depends on it
	h.pump.Wait()
}

// collect takes notices as they come, so that none waits for the loop.
func (h *hints) collect() {
	due := time.NewTimer(0)
	defer due.Stop()
	<-due.C
	for waiting := false; ; {
		select {
		case e, ok := <-h.watcher.Events:
			if !ok {
				return
			}
			h.remember(filepath.Dir(e.Name), e.Name)
		case _, ok := <-h.watcher.Errors:
			if !ok {
				return
			}
			h.mu.Lock()
			h.lost = true
			h.mu.Unlock()
		case <-due.C:
			waiting = false
			select {
			case h.fill <- struct{}{}:
			default: // the loop has it coming already
			}
			continue
		}
		if !waiting {
			waiting = true
			due.Reset(h.rest)
		}
	}
}

func (h *hints) remember(dirs ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dirty == nil {
		h.dirty = make(map[string]bool)
	}
	for _, dir := range dirs {
		h.dirty[dir] = true
	}
	if len(h.dirty) > mostHints {
		clear(h.dirty)
		h.lost = true
	}
}

func (h *hints) add(dir string, _ bool) (int32, error) {
	number, known := h.numbers[dir]
	if !known {
		h.last++
		number = h.last
	}
	price, err := h.price(dir)
	if err != nil {
		return 0, err
	}
	if h.open-h.prices[number]+price > h.limit {
		return 0, &fullError{fmt.Sprintf("watching more would keep more than %d files open", h.limit)}
	}
	if err := h.watcher.Add(dir); err != nil {
		if errors.Is(err, syscall.EMFILE) {
			return 0, &fullError{"no more files can be opened: raise the limit with ulimit -n"}
		}
		return 0, fmt.Errorf("watch %s: %w", dir, err)
	}
	h.open += price - h.prices[number]
	h.watches[number], h.numbers[dir], h.prices[number] = dir, number, price
	return number, nil
}

// price is how many files a watch keeps open.
func (h *hints) price(dir string) (int, error) {
	d, err := os.Open(dir)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	return 1 + len(names), err
}

func (h *hints) remove(number int32) {
	if dir, known := h.watches[number]; known {
		_ = h.watcher.Remove(dir) // it may have ended with its directory
		h.open -= h.prices[number]
		delete(h.watches, number)
		delete(h.numbers, dir)
		delete(h.prices, number)
	}
}

func (h *hints) read(each func(notice)) error {
	h.mu.Lock()
	dirty, all := h.dirty, h.lost
	h.dirty, h.lost = nil, false
	h.mu.Unlock()
	if all {
		each(notice{what: lost})
		return nil
	}
	for dir := range dirty {
		if number, watched := h.numbers[dir]; watched {
			each(notice{watch: number, what: stirred})
		}
	}
	return nil
}
