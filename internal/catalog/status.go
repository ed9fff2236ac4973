package catalog

import (
	"context"
	"net"
	"strconv"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// StatusIn is the input of async_status.
type StatusIn struct {
	Path string `json:"path,omitempty" jsonschema:"one file; left out: the server"`
}

// StatusOut is the state of the server, or of one file.
type StatusOut struct {
	Status string `json:"status"`

	Server          *ServerOut `json:"server,omitempty"`
	TrackedFiles    *int       `json:"tracked_files,omitempty"`
	ActiveLocks     *LocksOut  `json:"active_locks,omitempty"`
	BaseDirectories []string   `json:"base_directories,omitempty"`

	Path            string        `json:"path,omitempty"`
	Exists          *bool         `json:"exists,omitempty"`
	Hash            *textOrNull   `json:"hash,omitempty" jsonschema:"of a file; null: there is none"`
	LockState       string        `json:"lock_state,omitempty"`
	QueueDepth      int           `json:"queue_depth"`
	ActiveReaders   *int          `json:"active_readers,omitempty"`
	Holders         []HolderOut   `json:"holders,omitempty"`
	PendingRequests *[]PendingOut `json:"pending_requests,omitempty"`
	Timestamp       string        `json:"timestamp"`
}

// ServerOut describes the server.
type ServerOut struct {
	Version       string `json:"version"`
	UptimeSeconds int64  `json:"uptime_seconds"`
	Transport     string `json:"transport"`
	Port          *int   `json:"port"`
	Persistence   string `json:"persistence"`
}

// LocksOut counts locks that are held.
type LocksOut struct {
	Read  int `json:"read"`
	Write int `json:"write"`
}

// HolderOut is who has a file.
type HolderOut struct {
	Type   string `json:"type"`
	Caller string `json:"caller"`
	Since  string `json:"since"`
}

// PendingOut is who waits for a file.
type PendingOut struct {
	Type      string `json:"type"`
	Caller    string `json:"caller"`
	QueuedAt  string `json:"queued_at"`
	TimeoutAt string `json:"timeout_at,omitempty"`
}

// Status declares async_status.
func Status(engine *files.Engine, report func() health.Report) *tool.Tool {
	return tool.New(tool.Spec{
		Name: "async_status", Title: "Locks and queues", Toolset: Files,
		Doc:    "Show who holds and who waits for a file, or without path the locks of the whole server.",
		Effect: tool.ReadOnly | tool.Idempotent,
		Codes:  fileCodes(fault.FileNotFound),
		Examples: []tool.Example{
			{Title: "One file", Args: `{"path": "hello.txt"}`, Status: tool.OK},
			{Title: "The server", Args: `{}`, Status: tool.OK},
		},
	}, func(ctx context.Context, in StatusIn) (StatusOut, error) {
		if in.Path != "" {
			s, err := engine.Status(ctx, in.Path)
			if err != nil {
				return StatusOut{}, err
			}
			return fileStatus(s), nil
		}
		o, err := engine.Overview(ctx)
		if err != nil {
			return StatusOut{}, err
		}
		return serverStatus(ctx, o, report()), nil
	})
}

func fileStatus(s *files.Status) StatusOut {
	readers := s.Lock.Readers()
	out := StatusOut{
		Status: tool.OK, Path: s.Path, Exists: &s.Exists, LockState: string(s.Lock.Access),
		QueueDepth: len(s.Lock.Queue), ActiveReaders: &readers, Timestamp: now(),
	}
	out.Hash = orNull(s.Hash)
	for _, h := range s.Lock.Holders {
		out.Holders = append(out.Holders, HolderOut{Type: h.Op, Caller: h.Caller, Since: stamp(h.Since)})
	}
	pending := []PendingOut{}
	for _, w := range s.Lock.Queue {
		p := PendingOut{Type: w.Op, Caller: w.Caller, QueuedAt: stamp(w.QueuedAt)}
		if !w.TimeoutAt.IsZero() {
			p.TimeoutAt = stamp(w.TimeoutAt)
		}
		pending = append(pending, p)
	}
	out.PendingRequests = &pending
	return out
}

func serverStatus(ctx context.Context, o *files.Overview, r health.Report) StatusOut {
	server := &ServerOut{
		Version: r.Version, UptimeSeconds: r.UptimeSeconds, Transport: caller.From(ctx).Transport, Persistence: r.Persistence,
	}
	if _, port, err := net.SplitHostPort(r.Address); err == nil {
		if n, err := strconv.Atoi(port); err == nil {
			server.Port = &n
		}
	}
	return StatusOut{
		Status: tool.OK, Server: server, TrackedFiles: &o.TrackedFiles,
		ActiveLocks: &LocksOut{Read: o.Locks.Shared, Write: o.Locks.Exclusive}, QueueDepth: o.Locks.Queued,
		BaseDirectories: o.Bases, Timestamp: now(),
	}
}
