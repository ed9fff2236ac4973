package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"
)

// Filter says which records are wanted; its zero value wants all.
type Filter struct {
	Since  time.Time
	Tool   string
	Caller string // part of a client's, agent's, session's or thread's name, in any case
	Denied bool   // only refusals
}

// Wants reports whether r is wanted. What befell the record itself is wanted
// whenever it is recent enough.
func (f Filter) Wants(r *Record) bool {
	switch {
	case r.Time.Before(f.Since):
		return false
	case r.Event != "":
		return true
	case f.Tool != "" && r.Tool != f.Tool, f.Denied && !r.Refused():
		return false
	}
	return f.Caller == "" || r.Caller != nil && r.Caller.has(strings.ToLower(f.Caller))
}

func (c *Caller) has(part string) bool {
	for _, s := range []string{c.Client, c.Agent, c.Session, c.Thread} {
		if strings.Contains(strings.ToLower(s), part) {
			return true
		}
	}
	return false
}

// Read hands every wanted record in the file at path and in the full ones before
// it to show, the oldest first, with its line. A line that a crash has cut off is
// passed over. A file that does not exist yet has no records.
func Read(ctx context.Context, path string, f Filter, show func(*Record, []byte) error) error {
	r := reader{path: path, filter: f, show: show}
	defer r.close()
	return r.catchUp(ctx)
}

// Follow is Read that does not end: it goes on with the records that are written
// from then on, into whichever file, until ctx ends.
func Follow(ctx context.Context, path string, f Filter, show func(*Record, []byte) error) error {
	r := reader{path: path, filter: f, show: show}
	defer r.close()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := r.catchUp(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// interval is how often a follower looks.
const interval = 200 * time.Millisecond

// reader has read some files wholly, and the one that is written up to a place.
type reader struct {
	path   string
	filter Filter
	show   func(*Record, []byte) error

	number  int      // of the last full file that was read
	current *os.File // nil: none is open
	at      int64    // where the next line of current begins
}

func (r *reader) close() {
	if r.current != nil {
		_ = r.current.Close()
		r.current = nil
	}
}

// catchUp reads everything that is there.
func (r *reader) catchUp(ctx context.Context) error {
	if r.current != nil {
		if err := r.read(ctx, r.current, &r.at); err != nil {
			return err
		}
		now, err := os.Stat(r.path)
		if info, ownErr := r.current.Stat(); err == nil && ownErr == nil && os.SameFile(now, info) {
			return nil
		}
		// It was set aside. What was written to it before that is read once more.
		if err := r.read(ctx, r.current, &r.at); err != nil {
			return err
		}
	}
	// The file that is written is opened before the others are listed: if it is
	// set aside in between, it is among them and counts as read.
	before := r.current
	next, err := os.Open(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	}
	if err := r.full(ctx, before, next); err != nil {
		if next != nil {
			_ = next.Close()
		}
		return err
	}
	if before != nil {
		_ = before.Close()
	}
	r.current, r.at = next, 0
	if next == nil {
		return nil
	}
	return r.read(ctx, next, &r.at)
}

// full reads the full files that are new, but for those that are open.
func (r *reader) full(ctx context.Context, open ...*os.File) error {
	all, err := setAside(r.path)
	if err != nil {
		return err
	}
	for _, a := range all {
		if a.number <= r.number {
			continue
		}
		f, err := os.Open(a.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // too old by now
		}
		if err != nil {
			return err
		}
		info, err := f.Stat()
		skip := err == nil && info.ModTime().Before(r.filter.Since)
		for _, o := range open {
			if o == nil || err != nil {
				continue
			}
			own, ownErr := o.Stat()
			skip = skip || ownErr == nil && os.SameFile(info, own)
		}
		if err == nil && !skip {
			var at int64
			err = r.read(ctx, f, &at)
		}
		_ = f.Close()
		if err != nil {
			return err
		}
		r.number = a.number
	}
	return nil
}

// read hands out the whole lines of f from at on, and moves at behind them. What
// stands behind the last line end is looked at again the next time.
func (r *reader) read(ctx context.Context, f *os.File, at *int64) error {
	if info, err := f.Stat(); err == nil && info.Size() < *at {
		*at = 0 // somebody emptied it
	}
	in := bufio.NewReaderSize(io.NewSectionReader(f, *at, math.MaxInt64-*at), 256<<10)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		*at += int64(len(line))
		line = line[:len(line)-1]
		var record Record
		if json.Unmarshal(line, &record) != nil || !r.filter.Wants(&record) {
			continue
		}
		if err := r.show(&record, line); err != nil {
			return err
		}
	}
}
