// Package files is the engine behind the file tools: read, write, update,
// append, rename, copy, delete, list and batches of them.
//
// Every change runs on one spine, each verb with its own decide:
//
//	admit   resolve the path, ask the rules        (before any waiting)
//	hold    take the file's lock, first come first served
//	load    read the bytes as they are now, hash them
//	decide  what shall be there, or that others were faster
//	commit  replace, refused when somebody outside was faster or the lock is lost
//	remember keep the content, so that a late caller gets a difference
//
// Truth is on disk: whether a caller is late is judged by hashing the bytes
// under the lock, never by time or by what is remembered. The engine has no
// goroutine that outlives a call and is safe for concurrent use. Paths and system calls
// are fsys's work, queues lock's, differences diff's and patch's, and what was is
// history's.
package files

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/encoding"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/history"
)

// Locker is the lock table the engine queues at: of this process, or of several
// machines.
type Locker interface {
	Hold(ctx context.Context, r lock.Request) (lock.Lease, error)
	Inspect(k lock.Key) lock.State
	Stats() lock.Stats
}

// LocalLocks returns a lock table for this process.
func LocalLocks() Locker { return new(lock.Table) }

// Options wire an Engine.
type Options struct {
	Locks   Locker
	History *history.Store
	// Scope says what a call may reach and which limits hold there.
	Scope  func(ctx context.Context) (*Scope, error)
	Bus    *event.Bus
	Logger *slog.Logger
	// JournalDir is where atomic batches note what they are about to do.
	JournalDir string
	// TTLMultiplier times its timeout is how long a note about a waiting request
	// means anything after a restart.
	TTLMultiplier float64
}

// Scope is a project as a call sees it.
type Scope struct {
	Project string // id
	Root    string
	Bases   *fsys.Bases
	Rules   *access.Rules
	Content *access.Content
	Redacts bool // there are content rules, so text may come back with markers
	Limits  Limits
}

// Limits bound what a call may do.
type Limits struct {
	MaxFileSize    int64
	MaxResult      int64 // bytes of a read; 0: no limit
	MaxEntries     int   // of a listing
	DefaultTimeout time.Duration
	MaxTimeout     time.Duration
	Encoding       string
	ContextLines   int
	OnContention   string // "fail" or "merge"
	Sync           fsys.Sync
}

// Engine does the work of the file tools.
type Engine struct {
	opts Options
	// tree is held by who moves a directory, and shared by who makes a name: what
	// comes into a directory while it is moved would arrive where it may not be.
	tree     sync.RWMutex
	followed follows
}

// making runs what makes a name, while no directory is moved.
func (e *Engine) making(do func() error) error {
	e.tree.RLock()
	defer e.tree.RUnlock()
	return do()
}

// New returns an engine.
func New(opts Options) *Engine {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Engine{opts: opts}
}

// minTTL is the shortest life of a lease, however short the caller's patience.
const minTTL = 30 * time.Second

// target is a path that has been admitted for an operation.
type target struct {
	*Engine
	scope *Scope
	op    access.Op
	path  fsys.Path
}

// admit resolves a path and asks the rules, so that a refused caller never
// holds up others.
func (e *Engine) admit(scope *Scope, op access.Op, name string) (*target, error) {
	p, err := scope.Bases.Resolve(name)
	if err != nil {
		return nil, coded(op, name, err)
	}
	if d := scope.Rules.Check(op, p.Rel()); !d.Allowed {
		return nil, denied(p.String(), d)
	}
	return &target{Engine: e, scope: scope, op: op, path: p}, nil
}

func denied(path string, d access.Decision) *fault.Error {
	return fault.New(fault.AccessDenied, "%s", d.Reason).At(path).With("rule", d.Rule)
}

// admitOne is admit for a call that has one path.
func (e *Engine) admitOne(ctx context.Context, op access.Op, name string) (*target, error) {
	scope, err := e.opts.Scope(ctx)
	if err != nil {
		return nil, err
	}
	return e.admit(scope, op, name)
}

// timeout is how long a change may wait: what was asked for within the limit.
func (s *Scope) timeout(asked *time.Duration) time.Duration {
	if asked == nil {
		return s.Limits.DefaultTimeout
	}
	return min(max(*asked, 0), s.Limits.MaxTimeout)
}

// hold waits for the lock of every target. Reads wait as long as their caller.
func (e *Engine) hold(ctx context.Context, mode lock.Mode, timeout time.Duration, targets ...*target) (lock.Lease, error) {
	c := caller.From(ctx)
	r := lock.Request{
		Mode: mode, TTL: max(timeout, minTTL),
		Owner: lock.Owner{Op: string(targets[0].op), Caller: c.String(), Session: c.Session},
	}
	pending := history.Pending{Project: targets[0].scope.Project, Path: targets[0].path.String(), Op: r.Op}
	r.Moved = func(position int) {
		caller.Progress(ctx, 0, 0, fmt.Sprintf("waiting for the file, place %d in the queue", position))
		if pending.ID == "" { // it has begun to wait
			pending.ID, pending.QueuedAt = rand.Text(), time.Now()
			pending.TTL = time.Duration(float64(timeout) * max(e.opts.TTLMultiplier, 1))
			e.opts.History.AddPending(pending)
		}
	}
	defer func() {
		if pending.ID != "" {
			e.opts.History.RemovePending(pending.ID)
		}
	}()
	for _, t := range targets {
		r.Keys = append(r.Keys, lock.Key(t.path.Key()))
	}
	wait := ctx
	if mode == lock.Exclusive {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	lease, err := e.opts.Locks.Hold(wait, r)
	if err == nil {
		return lease, nil
	}
	t := targets[0]
	if errors.Is(err, lock.ErrTimeout) {
		return lease, e.lockTimeout(t, timeout)
	}
	if ctx.Err() != nil {
		//nolint:sloglint // the specification gives this line word for word
		e.opts.Logger.Info("Client disconnected while waiting for lock on "+t.path.String(), "caller", c.String())
	}
	return lease, t.failed(err)
}

// lockTimeout says who is in the way.
func (e *Engine) lockTimeout(t *target, timeout time.Duration) error {
	s := e.opts.Locks.Inspect(lock.Key(t.path.Key()))
	err := fault.New(fault.LockTimeout, "the file was not free within %s", timeout).At(t.path.String()).
		With("queue_depth", len(s.Queue)).With("timeout_applied", timeout.Seconds())
	if len(s.Holders) > 0 {
		err.With("holder", map[string]any{"operation": s.Holders[0].Op, "caller": s.Holders[0].Caller})
	}
	return err
}

// content is a file's bytes as they were at one moment.
type content struct {
	raw   []byte
	sum   [sha256.Size]byte
	hash  string
	large int64 // size of a file over the limit, whose bytes were not kept; else 0
	stamp fsys.Stamp
}

func contentOf(raw []byte) content {
	c := content{raw: raw, sum: sha256.Sum256(raw)}
	c.hash = hashOf(c.sum)
	return c
}

func (c content) onDisk() fsys.Content { return fsys.Content{Sum: c.sum, Bytes: c.raw} }

// load reads the file under its lock.
func (t *target) load() (content, error) {
	raw, stamp, err := t.path.Read(t.scope.Limits.MaxFileSize)
	if err != nil {
		return content{}, t.failed(err)
	}
	c := contentOf(raw)
	c.stamp = stamp
	return c, nil
}

// loadAny is load, but a file over the size limit is no error: its bytes go by,
// and only their hash is kept.
func (t *target) loadAny() (content, error) {
	c, err := t.load()
	if !errors.Is(err, fsys.ErrTooLarge) {
		return c, err
	}
	info, err := t.path.Stat()
	if err != nil {
		return content{}, t.failed(err)
	}
	sum, stamp, err := t.path.Hash(anySize)
	if err != nil {
		return content{}, t.failed(err)
	}
	return content{sum: sum, hash: hashOf(sum), large: max(info.Size, 1), stamp: stamp}, nil
}

// anySize is no bound.
const anySize = 1 << 50

// still returns ErrChanged if the file does not hold c any more: somebody outside
// was faster. Renaming it is no change.
func (t *target) still(c content) error {
	info, err := t.path.Stat()
	now := info.Stamp
	if now.Ctime = c.stamp.Ctime; err == nil && now == c.stamp {
		return nil
	}
	sum, _, err := t.path.Hash(anySize)
	if errors.Is(err, fs.ErrNotExist) || err == nil && sum != c.sum {
		err = fsys.ErrChanged
	}
	return err
}

// hashOf names content: sha256 of the raw bytes.
func hashOf(sum [sha256.Size]byte) string { return "sha256:" + hex.EncodeToString(sum[:]) }

// sameHash compares a hash a caller gives, with or without its prefix.
func sameHash(given, hash string) bool {
	return strings.EqualFold(strings.TrimPrefix(given, "sha256:"), strings.TrimPrefix(hash, "sha256:"))
}

// author is who makes a change in this call.
func author(ctx context.Context, op access.Op) history.Author {
	c := caller.From(ctx)
	return history.Author{Client: c.String(), Agent: c.Agent, Session: c.Session, Tool: "async_" + string(op), Time: time.Now()}
}

// remember keeps content that this call wrote, and who wrote it.
func (t *target) remember(ctx context.Context, c content) {
	t.put(c, string(t.op), author(ctx, t.op))
	t.announce(ctx, c.hash)
}

// served keeps content that somebody gets to know. If it is new to us, somebody
// outside made it.
func (t *target) served(c content) {
	t.put(c, string(access.Read), history.Author{External: true, Time: time.Now()})
}

func (t *target) put(c content, op string, by history.Author) {
	v := history.Version{
		Project: t.scope.Project, Path: t.path.String(), Hash: c.hash, Size: max(int64(len(c.raw)), c.large), Op: op, By: by,
		Keep: c.large == 0 && !t.scope.Rules.Secret(t.path.Rel()) && !t.forbidden(c),
	}
	if !v.Keep {
		c.raw = nil
	}
	t.opts.History.Put(v, c.raw)
	t.opts.History.HandedOut(v.Project, v.Path, v.Hash)
}

// forbidden reports whether a content rule denies what the file holds.
func (t *target) forbidden(c content) bool {
	return t.scope.Redacts && t.scope.Content.ScanAs(string(c.raw), c.raw).Denied != nil
}

func (t *target) announce(ctx context.Context, hash string) {
	t.followed.note(t.path.String(), hash)
	t.opts.Bus.Publish(event.Event{
		Kind: event.FileChanged, Session: caller.From(ctx).Session, Project: t.scope.Project,
		Data: event.File{Path: t.path.String(), Hash: hash},
	})
}

// changedBy says who made the version that is there now.
func (t *target) changedBy(current content) *Author {
	by, _ := t.opts.History.ChangedBy(t.scope.Project, t.path.String(), current.hash)
	if by.External {
		a := &Author{External: true}
		if info, err := t.path.Stat(); err == nil {
			a.Time = info.ModTime
		}
		return a
	}
	return &Author{Client: by.Client, Agent: by.Agent, Session: by.Session, Tool: by.Tool, Time: by.Time}
}

// failed gives a cause its code, for this operation on this path.
func (t *target) failed(err error) error { return coded(t.op, t.path.String(), err) }

// again runs a verb once more when a link was put in its way after its paths were
// resolved: then they mean something else now.
func again[T any](f func() (T, error)) (out T, err error) {
	for range 3 {
		if out, err = f(); !errors.Is(err, fsys.ErrMoved) {
			break
		}
	}
	return out, err
}

// coded is the one place that turns causes into protocol codes.
func coded(op access.Op, path string, err error) error {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e
	}
	e := &fault.Error{Code: failure(op), Op: string(op), Path: path, Err: err}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Code, e.Message = fault.LockTimeout, "the call was cancelled while it waited"
	case errors.Is(err, fsys.ErrInvalidName), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP):
		e.Code, e.Message = fault.ValidationError, "no file can have this name: "+err.Error()
	case errors.Is(err, fsys.ErrReserved), errors.Is(err, fsys.ErrBase):
		e.Code, e.Message = fault.AccessDenied, err.Error()
	case errors.Is(err, fsys.ErrMoved):
		e.Message = "a link was put in the way while this ran; nothing was done"
		if e.Code == fault.ServerError {
			e.Code = fault.AccessDenied // nothing of ours broke
		}
	case errors.Is(err, fsys.ErrChanged):
		e.Message = "another program keeps changing it; nothing was done"
	case errors.Is(err, fsys.ErrOutside):
		e.Code, e.Message = fault.PathOutsideBase, path+" is not inside a base directory of this session"
	case errors.Is(err, fsys.ErrIsDirectory), errors.Is(err, syscall.EISDIR):
		e.Code, e.Message = fault.IsADirectory, path+" is a directory"
	case errors.Is(err, fsys.ErrNotRegular):
		e.Code, e.Message = fault.NotARegularFile, path+" is not a regular file"
	case errors.Is(err, fsys.ErrTooLarge):
		e.Code, e.Message = fault.FileTooLarge, err.Error()
	case errors.Is(err, fs.ErrExist):
		e.Code, e.Message = fault.FileExists, "File already exists: "+path
	case errors.Is(err, syscall.ENOTDIR) && (op == access.Write || op == access.Mkdir || op == access.List):
		e.Code, e.Message = fault.DirNotFound, "a file stands where a directory is needed: "+path
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		e.Code, e.Message = fault.FileNotFound, "File does not exist: "+path
	case errors.Is(err, fs.ErrPermission):
		e.Code, e.Message = fault.AccessDenied, "the operating system refuses access to "+path
		e.With("next", "Choose another path, or ask a person to change the permissions of this one.")
	case errors.Is(err, lock.ErrLost):
		e.Code, e.Message = fault.LockTimeout, "the lock ran out before the change was made; nothing was changed"
	case errors.Is(err, encoding.ErrEncoding):
		e.Code, e.Message = fault.EncodingError, err.Error()
	}
	return e
}

// failure is the code of a verb that the operating system refused for a reason
// without a code of its own.
func failure(op access.Op) fault.Code {
	switch op {
	case access.Delete:
		return fault.DeleteError
	case access.Rename:
		return fault.RenameError
	case access.Read, access.List, access.Status:
		return fault.ServerError
	default:
		return fault.WriteError
	}
}
