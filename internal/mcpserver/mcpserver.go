// Package mcpserver is the only door to the MCP SDK: it serves a set of tools,
// and a library of resources and prompts, over stdio, streamable HTTP and the
// older SSE transport, in every protocol version the SDK has, and turns each
// request into one call with a caller.
//
//	stdin ─ lines ─▶ link ─┐
//	GET /sse, POST ─▶ link ─┼─▶ SDK ─▶ receive ─▶ tool.Set.Call, tool.Library.Read
//	POST /mcp ─▶ guard ─▶ SDK's HTTP handlers ─┘   (cancellation, caller, names)
//
// Everything a client sends is checked before the SDK sees it, so that nothing
// malformed ends a connection, and every way in which a client can go away
// cancels the context of its handlers. A handler that ignores its context is
// waited for briefly and then left behind.
//
// A Server is safe for concurrent use. Each session has one goroutine of its
// own, and one more when it subscribes to resources, which end with it; New
// starts none. What a call does, whether it is
// allowed and how it is recorded is left to the tools.
package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// Options say what is served and to whom.
type Options struct {
	Name         string
	Title        string
	Version      string
	Instructions string        // what every client is told at the beginning
	Tools        *tool.Set     // may be changed by SetTools
	Library      *tool.Library // may be changed by SetLibrary; nil: no resources and prompts, ever
	Logger       *slog.Logger  // nil: silent
	Bus          *event.Bus    // hears of sessions, tells of changed resources; may be nil

	Health  func() health.Report // for GET /health; nil: healthy, nothing more
	Metrics http.Handler         // for GET /metrics; nil: there is none

	MaxMessageBytes int64         // 0: DefaultMaxMessageBytes
	SessionTimeout  time.Duration // an HTTP session without any request ends after it; 0: 30 minutes

	Token    string // wanted as "Authorization: Bearer" by every endpoint; "": none
	SameUser bool   // where the system can tell, the peer of a loopback connection must be our user
	// Refuse says why the peer of a new HTTP connection may not use the server; nil:
	// everybody may who passes the other checks.
	Refuse       func(net.Conn) error
	AllowedHosts []string // names accepted in Host and Origin beside those of loopback

	SessionEnded func(session string) // called once for each session, after its end
	RootsChanged func(session string) // called when a client says that its roots differ
}

// DefaultMaxMessageBytes holds a file of 10 MiB in the longest form JSON can
// give it, six bytes for one, and its envelope.
const DefaultMaxMessageBytes = 64 << 20

const (
	defaultSessionTimeout = 30 * time.Minute
	// maxSessions is how many sessions are kept. Then the one that was idle for
	// longest makes room for another.
	maxSessions = 1000
	// stopGrace is how long the end of a session waits for its handlers.
	stopGrace = 2 * time.Second
	// eofGrace lets calls that are nearly done answer a client that closes its
	// end right after asking, as a shell pipe does, before they are cancelled.
	eofGrace = 200 * time.Millisecond
	// headerDelay is how long a call may be silent before the headers of its
	// response are sent: hosts give up on servers that send none.
	headerDelay = time.Second
	// beat is how often a silent stream carries a comment: hosts and proxies
	// cut off bodies that stay silent for minutes.
	beat = 15 * time.Second
)

// Server serves one set of tools to any number of clients.
type Server struct {
	opts    Options
	log     *slog.Logger
	mcp     *mcp.Server
	old     *mcp.StreamableHTTPHandler // protocol versions with sessions
	modern  *mcp.StreamableHTTPHandler // those without
	guard   *guard
	seal    [32]byte       // signs what a client must hand back
	info    map[string]any // the _meta of results of the modern era
	infoRaw json.RawMessage
	scope   *scope        // of sessions that belong to no Serve
	places  chan struct{} // for large bodies being read
	timeout atomic.Int64  // of idle sessions, a time.Duration

	stopGrace, eofGrace, headerDelay, beat, bodyPatience time.Duration // as the constants; tests shorten them
	maxSessions                                          int           // the same

	changing sync.Mutex // held while the tools or the library change
	tools    atomic.Pointer[offer]
	shelf    atomic.Pointer[shelf]

	mu    sync.Mutex
	open  map[*session]struct{} // guarded by mu; every session that has begun and not ended
	byID  map[string]*session   // guarded by mu; streamable sessions by the id on the wire
	links map[string]*link      // guarded by mu; SSE sessions by the id on the wire
}

// New returns a server that is ready to serve.
func New(opts Options) (*Server, error) {
	switch {
	case opts.Name == "":
		return nil, errors.New("mcpserver: a server needs a name")
	case opts.Tools == nil:
		return nil, errors.New("mcpserver: a server needs a set of tools")
	case opts.MaxMessageBytes < 0:
		return nil, fmt.Errorf("mcpserver: message limit %d is negative", opts.MaxMessageBytes)
	case opts.SessionTimeout < 0:
		return nil, fmt.Errorf("mcpserver: session timeout %s is negative", opts.SessionTimeout)
	}
	if opts.MaxMessageBytes == 0 {
		opts.MaxMessageBytes = DefaultMaxMessageBytes
	}
	if opts.Bus == nil {
		opts.Bus = new(event.Bus)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		opts: opts, log: opts.Logger, guard: newGuard(opts), scope: newScope(),
		open: make(map[*session]struct{}), byID: make(map[string]*session), links: make(map[string]*link),
		places: make(chan struct{}, largeBodies), maxSessions: maxSessions,
		stopGrace: stopGrace, eofGrace: eofGrace, headerDelay: headerDelay, beat: beat, bodyPatience: bodyPatience,
	}
	s.SetSessionTimeout(opts.SessionTimeout)
	rand.Read(s.seal[:])
	impl := &mcp.Implementation{Name: opts.Name, Title: opts.Title, Version: opts.Version}
	s.info = map[string]any{mcp.MetaKeyServerInfo: impl}
	var err error
	if s.infoRaw, err = tool.Encode(s.info); err != nil {
		return nil, fmt.Errorf("mcpserver: %w", err)
	}

	sdkLog := slog.New(quiet{opts.Logger.Handler()})
	so := &mcp.ServerOptions{
		Instructions: opts.Instructions,
		Logger:       sdkLog,
		Capabilities: &mcp.ServerCapabilities{
			Tools:   &mcp.ToolCapabilities{ListChanged: true},
			Logging: &mcp.LoggingCapabilities{},
		},
		RootsListChangedHandler: s.rootsChanged,
		// What is listed depends on the session and may change at any moment.
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
			c.TTLMs, c.CacheScope = 0, "private"
		},
	}
	if opts.Library != nil { // also while it is empty: it may change
		so.Capabilities.Resources = &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true}
		so.Capabilities.Prompts = &mcp.PromptCapabilities{ListChanged: true}
		so.CompletionHandler = s.complete
		so.SubscribeHandler = s.subscribing
		so.UnsubscribeHandler = func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
	}
	fixtureOptions(so)
	s.mcp = mcp.NewServer(impl, so)
	s.mcp.AddReceivingMiddleware(s.receive)
	s.mcp.AddSendingMiddleware(s.send)
	addFixtures(s.mcp)

	one := func(*http.Request) *mcp.Server { return s.mcp }
	// Bodies were read within MaxMessageBytes and Host was checked before these
	// two get a request; sessions are ended by us, who know of every stream.
	s.old = mcp.NewStreamableHTTPHandler(one, &mcp.StreamableHTTPOptions{
		Logger: sdkLog, MaxRequestBodyBytes: -1, DisableLocalhostProtection: true, EventStore: fixtureEvents(),
	})
	s.modern = mcp.NewStreamableHTTPHandler(one, &mcp.StreamableHTTPOptions{
		Logger: sdkLog, MaxRequestBodyBytes: -1, DisableLocalhostProtection: true,
		Stateless: true, PropagateRequestCancellation: true,
	})
	s.SetTools(opts.Tools)
	if opts.Library != nil {
		s.SetLibrary(opts.Library)
	}
	return s, nil
}

// Sessions returns how many client sessions are open. Requests of protocol
// versions without sessions do not count.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// SetToken changes the token that every request from now on must carry; "":
// none. What is under way goes on.
func (s *Server) SetToken(token string) { s.guard.setToken(token) }

// SetSessionTimeout changes after how long an HTTP session without any request
// ends; 0: 30 minutes. It holds for sessions that are idle already, too.
func (s *Server) SetSessionTimeout(d time.Duration) {
	if d <= 0 {
		d = defaultSessionTimeout
	}
	if s.timeout.Swap(int64(d)) == int64(d) {
		return
	}
	s.mu.Lock()
	open := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	for _, sess := range open {
		sess.rewind()
	}
}

func (s *Server) sessionTimeout() time.Duration { return time.Duration(s.timeout.Load()) }

// makeRoom reports whether another session may begin. Where there are too many
// it ends the one that was idle for longest.
func (s *Server) makeRoom() bool {
	s.mu.Lock()
	full := len(s.open) >= s.maxSessions
	var open []*session
	if full {
		open = slices.Collect(maps.Keys(s.open))
	}
	s.mu.Unlock()
	var oldest *session
	var since time.Time
	for _, sess := range open {
		if t, idle := sess.idleSince(); idle && (oldest == nil || t.Before(since)) {
			oldest, since = sess, t
		}
	}
	if oldest != nil {
		oldest.end(errCrowded)
	}
	return !full || oldest != nil
}

// offer is the set of tools in force, with what tools/list says of each.
type offer struct {
	set    *tool.Set
	listed map[string]*mcp.Tool
}

func newOffer(set *tool.Set) *offer {
	o := &offer{set: set, listed: make(map[string]*mcp.Tool, set.Len())}
	for _, t := range set.Tools() {
		destructive, open := t.Effect.Has(tool.Destructive), t.Effect.Has(tool.OpenWorld)
		o.listed[t.Name] = &mcp.Tool{
			Name: t.Name, Title: t.Title, Description: t.Doc,
			InputSchema: t.Input.Compact(), OutputSchema: t.ResultSchema(),
			Annotations: &mcp.ToolAnnotations{
				ReadOnlyHint:    !t.Effect.Changes(),
				DestructiveHint: &destructive,
				IdempotentHint:  t.Effect.Has(tool.Idempotent) || !t.Effect.Changes(),
				OpenWorldHint:   &open,
			},
		}
	}
	return o
}

// anyTool is the one tool the SDK knows of: callTool sends the calls of every
// tool of an offer through it. The SDK would read the schema of each tool twice
// when it is added and again for every call; clients get the real tools from
// listTools.
var anyTool = &mcp.Tool{Name: "any", InputSchema: json.RawMessage(`{"type":"object"}`)}

// SetTools replaces the tools on offer. Clients are told when the list differs
// from before; calls under way go on with the tools they found.
func (s *Server) SetTools(set *tool.Set) {
	s.changing.Lock()
	defer s.changing.Unlock()
	next := newOffer(set)
	before := s.tools.Swap(next)
	if before != nil && reflect.DeepEqual(before.listed, next.listed) {
		return
	}
	s.mcp.AddTool(anyTool, s.handleTool) // the SDK announces a change whenever a tool is added
	if before != nil {
		s.opts.Bus.Publish(event.Event{Kind: event.ToolsChanged})
	}
}

// OfferChanged tells clients that what they may use differs from before, because
// what Allows of their callers says does.
func (s *Server) OfferChanged() {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mcp.AddTool(anyTool, s.handleTool) // the SDK announces whatever is added
	if s.shelf.Load() != nil {
		s.ResourceListChanged()
		s.mcp.AddPrompt(anyPrompt, s.handlePrompt)
	}
}

// quiet hands the SDK's log lines on as debug lines: what it calls an error is
// mostly a client's mistake, which the client is told.
type quiet struct{ to slog.Handler }

func (q quiet) Enabled(ctx context.Context, _ slog.Level) bool {
	return q.to.Enabled(ctx, slog.LevelDebug)
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return q.to.Handle(ctx, r)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.to.WithAttrs(attrs)} }
func (q quiet) WithGroup(name string) slog.Handler       { return quiet{q.to.WithGroup(name)} }
