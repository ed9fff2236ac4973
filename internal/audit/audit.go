// Package audit keeps the record of calls: every call and refusal of every tool
// as one JSON line in a file that is rotated and only its owner can read.
//
//	tool.Set ──ToolCalled──▶ Log ──pending──▶ Log.Run ──▶ file ◀── Read, Follow
//
// A record holds who called what in which project, how it ended and how long it
// took; of files their paths, hashes and sizes, never contents; of commands their
// text with secrets redacted, and their output by the job that has it.
//
// A Log is safe for concurrent use. It slows calls down when they come faster than
// they can be written, for at most a second each; a record that still has no place
// is counted, and the file gets a line that says how many are missing. When the
// file cannot be written, calls go on: Findings says so, and what memory holds is
// written once that is possible. Several processes may share one file: they write,
// rotate and repair it one at a time, under a lock beside it.
//
// Which settings are in force, and what is shown to people how, is decided
// elsewhere.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// Options say where the record is kept.
type Options struct {
	File     string // absolute
	MaxSize  int64  // bytes at which a new file is begun; 0: 10 MiB
	MaxFiles int    // old files kept; 0: none

	// Enabled reports whether calls in the project at root are recorded; root is
	// "" where there is none. nil: all are.
	Enabled func(root string) bool
	// Line makes the line of a record; nil: the record itself. A record whose line
	// is nil is left out.
	Line   func(*Record) any
	Logger *slog.Logger // nil: silent
}

const (
	maxPending = 4096                    // records that wait to be written
	maxBatch   = 256                     // records written at once
	patience   = time.Second             // how long a call is held up
	retry      = time.Second             // between tries to write while the file cannot be
	defaultMax = int64(10 * 1024 * 1024) // MaxSize
)

// Log is the record of calls, a [tool.Observer].
type Log struct {
	opts Options
	file file // owned by Run

	wake chan struct{} // has a token when something is pending

	mu      sync.Mutex
	pending []Record      // guarded by mu
	room    chan struct{} // closed when pending was emptied; guarded by mu
	lost    gap           // not told in the file yet; guarded by mu
	broken  error         // why the file cannot be written; guarded by mu
}

// gap counts records that found no place.
type gap struct {
	count       int
	first, last time.Time
}

// New returns a log that has touched no disk yet.
func New(opts Options) *Log {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Enabled == nil {
		opts.Enabled = func(string) bool { return true }
	}
	if opts.Line == nil {
		opts.Line = func(r *Record) any { return r }
	}
	if opts.MaxSize <= 0 {
		opts.MaxSize = defaultMax
	}
	return &Log{
		opts: opts, file: newFile(opts.File, opts.MaxSize, opts.MaxFiles),
		wake: make(chan struct{}, 1), room: make(chan struct{}),
	}
}

// File is where the record is kept.
func (l *Log) File() string { return l.opts.File }

// ToolCalled records a finished call.
func (l *Log) ToolCalled(_ context.Context, o tool.Observation) {
	if l.opts.Enabled(o.Facts.Root) {
		l.add(Record{
			Time: o.Start.UTC(), Tool: o.Tool.Name, Caller: callerOf(o.Caller),
			DurationMS: float64(o.Took.Microseconds()) / 1000, Facts: o.Facts,
		})
	}
}

// ToolRefused records a call of a tool that is not on offer to its caller.
func (l *Log) ToolRefused(ctx context.Context, name string) {
	if l.opts.Enabled("") {
		l.add(Record{
			Time: time.Now().UTC(), Tool: clip(name, 100), Caller: callerOf(caller.From(ctx)),
			Facts: tool.Facts{Outcome: tool.Denied, Rule: notOffered},
		})
	}
}

// add hands a record to Run, and waits for room if there is none.
func (l *Log) add(r Record) {
	r.bound()
	var timeout <-chan time.Time
	for {
		l.mu.Lock()
		if len(l.pending) < maxPending {
			l.pending = append(l.pending, r)
			l.mu.Unlock()
			select {
			case l.wake <- struct{}{}:
			default:
			}
			return
		}
		if l.broken != nil {
			l.lost.add(r.Time)
			l.mu.Unlock()
			return
		}
		room := l.room
		l.mu.Unlock()
		if timeout == nil {
			timeout = time.After(patience)
		}
		select {
		case <-room:
		case <-timeout:
			l.mu.Lock()
			l.lost.add(r.Time)
			l.mu.Unlock()
			return
		}
	}
}

func (g *gap) add(t time.Time) {
	if g.count == 0 {
		g.first = t
	}
	g.count++
	g.last = t
}

// take returns what waits to be written, and makes room: spare becomes the place
// for what comes next.
func (l *Log) take(spare []Record) ([]Record, gap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken, lost := l.pending, l.lost
	if len(taken) > 0 || lost.count > 0 {
		l.pending, l.lost = spare, gap{}
		close(l.room)
		l.room = make(chan struct{})
	}
	return taken, lost
}

func (l *Log) append(lines []byte, line any) []byte {
	if line == nil {
		return lines
	}
	raw, err := tool.Encode(line)
	if err != nil { // a time that JSON cannot hold, or the like
		raw, _ = json.Marshal(Record{Time: time.Now().UTC(), Event: EventGap, Lost: 1})
		l.opts.Logger.Error("a call could not be recorded", "err", err)
	}
	return append(append(lines, raw...), '\n')
}

// Run writes records until ctx ends and everything is written. It may be run
// again afterwards, with a context that has ended to write what came late.
func (l *Log) Run(ctx context.Context) error {
	defer l.file.close()
	var all, rest []Record // what was taken, and what of it is still to be written
	var lost gap           // behind those
	var lines []byte
	for {
		if len(rest) == 0 && lost.count == 0 {
			if rest, lost = l.take(all[:0]); len(rest) == 0 && lost.count == 0 {
				select {
				case <-l.wake:
					continue
				case <-ctx.Done():
					if l.empty() {
						return nil
					}
					continue
				}
			}
			all = rest
		}
		n := min(len(rest), maxBatch)
		lines = lines[:0]
		for i := range rest[:n] {
			rest[i].redact()
			lines = l.append(lines, l.opts.Line(&rest[i]))
		}
		clear(rest[:n])
		if rest = rest[n:]; len(rest) == 0 && lost.count > 0 {
			lines = l.append(lines, &Record{Time: lost.last, Event: EventGap, Lost: lost.count, Since: &lost.first})
			l.opts.Logger.Warn("calls are missing from the audit record", "calls", lost.count)
			lost = gap{}
		}
		if err := l.write(ctx, lines); err != nil {
			return fmt.Errorf("the last calls could not be recorded: %w", err)
		}
	}
}

func (l *Log) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pending) == 0 && l.lost.count == 0
}

// write adds lines to the file, and tries again until it could or ctx ends.
func (l *Log) write(ctx context.Context, lines []byte) error {
	for len(lines) > 0 {
		err := l.file.append(lines)
		l.report(err)
		if err == nil {
			break
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return err
		}
	}
	return nil
}

// report keeps why the file cannot be written, and logs when that changes.
func (l *Log) report(err error) {
	l.mu.Lock()
	before := l.broken
	l.broken = err
	l.mu.Unlock()
	switch {
	case err != nil && before == nil:
		l.opts.Logger.Error("calls cannot be recorded", "file", l.opts.File, "err", err)
	case err == nil && before != nil:
		l.opts.Logger.Info("calls are recorded again", "file", l.opts.File)
	}
}

// Findings says what is wrong with the record, for health.
func (l *Log) Findings() []health.Finding {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		return nil
	}
	detail := fmt.Sprintf("calls are not recorded in %s: %v", l.opts.File, l.broken)
	if l.lost.count > 0 {
		detail += fmt.Sprintf("; %d are lost so far", l.lost.count)
	}
	return []health.Finding{{
		Part: "audit", Detail: detail,
		Cure: "make it writable, or name another file in the settings; calls go on meanwhile",
	}}
}

// refusals are the codes of errors that say no, rather than that something went
// wrong.
var refusals = map[fault.Code]bool{
	fault.AccessDenied: true, fault.PathOutsideBase: true, fault.ContentBlocked: true, fault.RedactionMarkersPresent: true,
	fault.CommandDenied: true, fault.BlockedCommand: true, fault.WorkingDirEscape: true, fault.ShellDisabled: true,
	fault.SearchDisabled: true, fault.TooManyJobs: true, fault.RateLimited: true, fault.AliasUnsafe: true,
	fault.ConfirmationRequired: true, fault.NotTrusted: true,
}
