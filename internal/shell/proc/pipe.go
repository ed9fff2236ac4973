package proc

import (
	"io"
	"os"
	"sync"
	"time"
)

// Sizes of what is read at once. A pipe that is full of it gets the next one, so
// that a quiet process costs little and a loud one is drained fast.
var readSizes = []int{4 << 10, 64 << 10, 256 << 10}

// pipes are the outputs of one process.
type pipes struct {
	writers []*os.File
	readers []*os.File
	to      []io.Writer
	reading sync.WaitGroup
	ended   chan struct{} // closed when every reader is at the end
}

// open makes a pipe whose output goes to w, and returns the child's end of it.
// Without w the output goes nowhere.
func (o *pipes) open(w io.Writer) (*os.File, error) {
	if w == nil {
		f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err == nil {
			o.writers = append(o.writers, f)
		}
		return f, err
	}
	r, child, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	o.writers = append(o.writers, child)
	o.readers, o.to = append(o.readers, r), append(o.to, w)
	return child, nil
}

func (o *pipes) closeWriters() { closeAll(o.writers) }
func (o *pipes) closeReaders() { closeAll(o.readers) }

// drain starts to take the output.
func (o *pipes) drain() {
	o.ended = make(chan struct{})
	for i, r := range o.readers {
		o.reading.Go(func() { pump(o.to[i], r) })
	}
	go func() {
		o.reading.Wait()
		o.closeReaders()
		close(o.ended)
	}()
}

// finish waits for the end of the output, for as long as it may take, and
// reports whether it came.
func (o *pipes) finish(limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-o.ended:
		return true
	case <-t.C:
	}
	for _, r := range o.readers {
		stopReading(r)
	}
	<-o.ended
	return false
}

// pump takes everything that comes out of r.
func pump(w io.Writer, r *os.File) {
	size := 0
	buf := make([]byte, readSizes[size])
	for {
		n, err := r.Read(buf)
		if n > 0 {
			_, _ = w.Write(buf[:n]) // a writer that fails loses output; the process goes on
		}
		if err != nil {
			return
		}
		if n == len(buf) && size+1 < len(readSizes) {
			size++
			buf = make([]byte, readSizes[size])
			if size+1 == len(readSizes) {
				enlarge(r)
			}
		}
	}
}
