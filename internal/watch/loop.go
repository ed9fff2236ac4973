package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// loop is the one goroutine behind a Tree, with everything it knows:
//
//	kernel ──▶ notices ─┐                        ┌──▶ paths at rest ──▶ teller ──▶ notify
//	                    ├──▶ what is in the tree ─┤
//	looking (new, poll)─┘        (nodes)         └──▶ directories to look at ─┐
//	          ▲───────────────────────────────────────────────────────────────┘
//
// A turn empties the kernel's queue, then looks at a few directories, so that
// the queue never waits for long. The teller is a second goroutine that calls
// notify, so that the loop never waits for it.
type loop struct {
	tree   *Tree
	kernel kernel // nil: everything is polled
	now    time.Time

	root      *node              // nil: there is none
	info      fs.FileInfo        // of the root
	watched   map[int32]*node    // by the kernel's number
	unwatched map[*node]struct{} // polled
	work      []*node            // to look at, first in first out
	settle    settler

	unsure   bool      // notices were lost: every directory must be looked at again
	scanning bool      // and is
	scanAt   time.Time // when to begin, or to begin again
	began    time.Time // the last scan or poll
	polling  bool      // until the work is done
	polls    int
	pollAt   time.Time

	waiting []chan error // Syncs that came since the last flush
	flying  []chan error // answered when the teller is back

	tellings chan []Change
	told     chan struct{}
	telling  bool
	tellers  sync.WaitGroup

	facts      facts   // as published
	logged     reasons // as logged
	overflows  int
	unreadable int    // directories
	remote     int    // directories
	afar       string // the name of their file system
	full       string // why not all directories are watched
	barred     bool   // no more can be watched before the next poll
	why        string // why the system gives no notices
	lack       string // why there is no root
}

const (
	// visitsPerTurn is how many directories are looked at before the kernel's
	// queue is emptied again.
	visitsPerTurn = 32
	// idleShare is how much longer than a poll the pause after it must be.
	idleShare = 20
	// fullPoll is which poll takes in directories whose notices may be lost
	// without a word.
	fullPoll = 10
)

func newLoop(t *Tree) *loop {
	l := &loop{
		tree: t, watched: make(map[int32]*node), unwatched: make(map[*node]struct{}),
		settle:   newSettler(t.opts.Debounce, t.most),
		tellings: make(chan []Change, 1), told: make(chan struct{}, 1),
	}
	l.settle.passing = t.opts.Passing
	return l
}

// start opens the kernel and begins to tell.
func (l *loop) start(notify func([]Change)) {
	o := l.tree.opts
	if !o.PollOnly {
		k, err := l.tree.open(kernelOptions{watches: o.MaxWatches, rest: o.Debounce})
		if err != nil {
			l.why = err.Error()
		} else {
			l.kernel = k
		}
	}
	l.tellers.Go(func() {
		for changes := range l.tellings {
			notify(changes)
			l.told <- struct{}{}
		}
	})
}

func (l *loop) stop() {
	close(l.tellings)
	l.tellers.Wait()
	if l.kernel != nil {
		l.kernel.close()
	}
	l.tree.state.Store(&facts{mode: ModeOff})
}

func (l *loop) run(ctx context.Context) error {
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for {
		l.turn()
		l.publish()
		var ready <-chan struct{}
		if l.kernel != nil {
			ready = l.kernel.ready()
		}
		var more <-chan time.Time
		if len(l.work) > 0 {
			more = always
		} else {
			alarm.Reset(time.Until(l.next()))
		}
		select {
		case <-ctx.Done():
			return nil
		case done := <-l.tree.syncs:
			l.sync(done)
		case <-l.told:
			l.telling = false
			l.answer()
		case <-ready:
		case <-alarm.C:
		case <-more:
		}
	}
}

// always is a channel one can receive from at any time.
var always = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// next is when the loop has to turn even if nobody wakes it.
func (l *loop) next() time.Time {
	at := l.pollAt
	sooner := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	if l.settle.lost {
		sooner(l.lostUntil())
	} else if t, some := l.settle.next(); some && !l.telling {
		sooner(t)
	}
	return at
}

// turn does what there is to do now, and a bounded part of it.
func (l *loop) turn() {
	l.now = time.Now()
	l.drain()
	if !l.polling && !l.now.Before(l.pollAt) {
		l.poll()
	}
	for range min(visitsPerTurn, len(l.work)) {
		n := l.work[0]
		l.work[0], l.work = nil, l.work[1:]
		n.queued = false
		if !n.gone {
			l.visit(n)
		}
	}
	if len(l.work) == 0 {
		l.idle()
	}
	if len(l.work) == 0 {
		l.tell(len(l.waiting) > 0)
	} else {
		l.tell(false)
	}
}

// drain takes in what the kernel has queued.
func (l *loop) drain() {
	if l.kernel == nil {
		return
	}
	if err := l.kernel.read(l.apply); err != nil {
		l.abandon(err)
	}
}

// abandon goes on without a kernel that no longer works.
func (l *loop) abandon(err error) {
	l.kernel.close()
	l.kernel, l.why = nil, err.Error()
	for _, n := range l.watched {
		n.watch = 0
		l.unwatched[n] = struct{}{}
	}
	clear(l.watched)
	l.lose()
}

// lose begins to look at everything again, after a rest: more may be lost.
func (l *loop) lose() {
	if !l.unsure {
		l.unsure = true
		l.scanAt = l.now.Add(l.tree.opts.Debounce)
	}
	l.settle.lose(l.now)
}

// lostUntil is when being lost may end: after a scan, or after a rest when
// nothing was lost and there was only too much to remember.
func (l *loop) lostUntil() time.Time {
	if l.unsure {
		return l.scanAt
	}
	return l.settle.lostSince.Add(l.tree.opts.Debounce)
}

// idle is called when no directory is left to look at. It ends a poll or a scan,
// and begins the scan that is due.
func (l *loop) idle() {
	took := time.Since(l.began)
	if l.polling {
		l.polling = false
		l.pollAt = l.now.Add(max(l.tree.opts.Poll, idleShare*took))
		if !l.barred {
			l.full = ""
		}
	}
	if l.scanning {
		l.scanning = false
		if !l.unsure {
			l.settle.found()
		}
		l.scanAt = l.now.Add(max(l.tree.opts.Debounce, took)) // if it must be done again
	}
	if !l.settle.lost || len(l.waiting) == 0 && l.now.Before(l.lostUntil()) {
		return
	}
	if !l.unsure {
		l.settle.found()
		return
	}
	l.unsure, l.scanning, l.began = false, true, l.now
	l.queueAll()
	if len(l.work) == 0 { // there is no root
		l.idle()
	}
}

// poll looks at the root itself and at the directories nobody watches.
func (l *loop) poll() {
	l.checkRoot()
	l.barred = false // the limit may have been raised
	l.polls++
	l.polling, l.began = true, l.now
	if l.kernel != nil && !l.kernel.exact() && l.polls%fullPoll == 0 {
		l.queueAll()
	} else {
		l.queueUnwatched()
	}
}

// sync begins to answer one Sync.
func (l *loop) sync(done chan error) {
	if l.kernel != nil && !l.kernel.exact() {
		done <- fmt.Errorf("%s notices have no order: %w", l.kernel.mode(), errors.ErrUnsupported)
		return
	}
	l.now = time.Now()
	l.checkRoot()
	l.queueUnwatched()
	l.waiting = append(l.waiting, done)
}

// tell hands the teller what is at rest, or everything for those who wait.
func (l *loop) tell(everything bool) {
	if l.telling || l.settle.lost {
		return
	}
	changes := l.settle.take(l.now, everything)
	if everything {
		l.flying, l.waiting = l.waiting, nil
	}
	if len(changes) == 0 {
		l.answer()
		return
	}
	for i := range changes {
		changes[i].Path = l.tree.path(changes[i].Rel)
	}
	l.telling = true
	l.tellings <- changes
}

func (l *loop) answer() {
	for _, done := range l.flying {
		done <- nil
	}
	l.flying = nil
}

// checkRoot looks whether the root is there, and still the same directory.
func (l *loop) checkRoot() {
	info, err := os.Stat(l.tree.root)
	if err == nil && l.root != nil && info.IsDir() && os.SameFile(info, l.info) {
		return
	}
	if l.root != nil {
		l.forget(l.root)
		l.root = nil
	}
	switch {
	case err != nil:
		l.lack = fmt.Sprintf("%s is out of reach: %v", l.tree.root, errors.Unwrap(err))
	case !info.IsDir():
		l.lack = l.tree.root + " is not a directory"
	default:
		l.lack, l.info = "", info
		l.root = l.newNode(nil, ".")
		l.lose()
		l.scanAt = l.now
	}
}

// publish shows how the tree is watched when that has changed.
func (l *loop) publish() {
	f := facts{
		mode: ModePolling, watches: len(l.watched), polled: len(l.unwatched) - l.unreadable,
		unreadable: l.unreadable, overflows: l.overflows,
		reasons: reasons{rootless: l.lack, kernelless: l.why, full: l.full},
	}
	if l.kernel != nil && (f.watches > 0 || f.polled == 0) {
		f.mode = l.kernel.mode()
	}
	if l.remote > 0 {
		f.remote = l.afar
	}
	if f != l.facts {
		l.facts = f
		l.tree.state.Store(&f)
	}
	if len(l.work) > 0 || f.reasons == l.logged {
		return // it may be over in a moment
	}
	l.logged = f.reasons
	if s := f.status(); s.Degraded != "" {
		l.tree.opts.Logger.Warn("the tree is not watched as it could be", "path", l.tree.root, "reason", s.Degraded)
	} else {
		l.tree.opts.Logger.Info("the tree is watched as it should be", "path", l.tree.root, "watches", s.Watches)
	}
}
