package watch

import "time"

// kernel is the operating system's side of a Tree: the directories it watches
// and the notices it has queued. One goroutine uses it.
type kernel interface {
	mode() string
	// exact reports whether notices name what happened, and whether everything
	// that has happened is queued already. Otherwise they only say where to look,
	// some time later.
	exact() bool
	// add watches the directory and returns the watch's number, never 0: the one
	// it has if it is watched already. Only the root may be a link. The error is a
	// *fullError when no more can be watched.
	add(dir string, root bool) (int32, error)
	// remove ends a watch, which may have ended by itself.
	remove(watch int32)
	// ready receives when there is something to read.
	ready() <-chan struct{}
	// read hands over what is queued, without waiting for more.
	read(each func(notice)) error
	close()
}

type kernelOptions struct {
	watches int // how many at most; 0: the system's choice
	rest    time.Duration
}

// notice is one thing the kernel says.
type notice struct {
	watch int32
	what  what
	dir   bool   // name is a directory
	name  string // in the watched directory; empty: that directory itself
}

type what uint8

const (
	appeared what = iota + 1 // created or moved in
	vanished                 // deleted or moved out
	touched                  // written, closed after writing, attributes changed
	stirred                  // something in the watched directory; look there
	ended                    // the watch is no more
	lost                     // notices were dropped
)

// fullError says that no more directories can be watched, why, and the cure.
type fullError struct{ reason string }

func (e *fullError) Error() string { return e.reason }
