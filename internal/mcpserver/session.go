package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// Why a handler's context ended, as its cause.
var (
	errGone     = errors.New("the client went away")
	errDeleted  = errors.New("the client ended its session")
	errExpired  = errors.New("the session was idle for too long")
	errCrowded  = errors.New("too many sessions are open")
	errShutdown = errors.New("the server is stopping")
)

// scope is the life of one Serve or ServeStdio: when it stops its sessions end.
type scope struct {
	ctx    context.Context //nolint:containedctx // the life of what is served, not of a request
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	sessions int           // guarded by mu; begun and not ended
	stopping bool          // guarded by mu; no session begins any more
	empty    chan struct{} // closed when stopping and no session is left
}

func newScope() *scope {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &scope{ctx: ctx, cancel: cancel, empty: make(chan struct{})}
}

// join counts a session in, unless the scope is stopping.
func (sc *scope) join() bool {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if !sc.stopping {
		sc.sessions++
	}
	return !sc.stopping
}

func (sc *scope) part() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.sessions--
	if sc.stopping && sc.sessions == 0 {
		close(sc.empty)
	}
}

// stop ends every session of the scope, now and for ever. It must be called
// once; empty is closed when the last session has ended.
func (sc *scope) stop(cause error) {
	sc.mu.Lock()
	sc.stopping = true
	if sc.sessions == 0 {
		close(sc.empty)
	}
	sc.mu.Unlock()
	sc.cancel(cause)
}

// session is one client on one transport. A request of a protocol version
// without sessions has a session too, without an id and for as long as it runs.
type session struct {
	srv       *Server
	scope     *scope
	transport string
	id        string          // for callers and events; never the id on the wire, which is a key
	base      caller.Caller   // what the surroundings say of the client, and its limits
	ctx       context.Context //nolint:containedctx // ends with the session; its cause says why
	cancel    context.CancelCauseFunc
	done      chan struct{} // closed when the session has ended entirely
	link      *link         // of a client that stays connected; nil: a streamable one

	mu       sync.Mutex
	sdk      *mcp.ServerSession
	protocol string // negotiated by initialize, or ""
	wireID   string
	begun    bool
	ended    bool
	calls    int           // calls under way
	streams  int           // other requests that show the client is there
	quiet    chan struct{} // made by who waits for calls to become 0
	timer    *time.Timer   // of an idle streamable session
	idle     time.Time     // when it became idle; zero: it is not
	unhook   func() bool
	posts    map[string]*post
	nextPost uint64
	roots    []string
	hasRoots bool
	silent   time.Time // when the client did not answer the question for its roots
	updates  *subscriber
}

type sessionKey struct{}

// newSession returns a session that has not begun. What ctx says of the caller
// holds for every call of the session.
func (s *Server) newSession(ctx context.Context, sc *scope, transport string) *session {
	sess := &session{srv: s, scope: sc, transport: transport, base: *caller.From(ctx), done: make(chan struct{})}
	sess.ctx, sess.cancel = context.WithCancelCause(sc.ctx)
	return sess
}

// within returns a context that carries the session to the handlers of the
// connection made with it.
func (sess *session) within(ctx context.Context) context.Context {
	return context.WithValue(ctx, sessionKey{}, sess)
}

// begin makes the session known. wireID is its key for later HTTP requests, if
// there are any. It reports false when the server is stopping already.
func (sess *session) begin(sdk *mcp.ServerSession, wireID string) bool {
	s := sess.srv
	if !sess.scope.join() {
		return false
	}
	sess.mu.Lock()
	sess.id, sess.sdk, sess.wireID, sess.begun = rand.Text(), sdk, wireID, true
	sess.mu.Unlock()

	s.mu.Lock()
	s.open[sess] = struct{}{}
	if wireID != "" {
		s.byID[wireID] = sess
	}
	s.mu.Unlock()
	unhook := context.AfterFunc(sess.scope.ctx, func() { sess.end(errShutdown) })
	sess.mu.Lock()
	sess.unhook = unhook
	sess.mu.Unlock()
	s.log.Info("session started", "session", sess.id, "transport", sess.transport)
	s.opts.Bus.Publish(event.Event{Kind: event.SessionStarted, Session: sess.id, Data: sess.transport})
	return true
}

// end cancels what runs in the session and ends it. Its handlers get stopGrace
// to answer and return; those that do not are left behind. end itself does not
// wait; it may be called more than once.
func (sess *session) end(cause error) {
	s := sess.srv
	sess.mu.Lock()
	if sess.ended || !sess.begun {
		sess.mu.Unlock()
		sess.cancel(cause)
		return
	}
	sess.ended = true
	if sess.timer != nil {
		sess.timer.Stop()
	}
	if sess.unhook != nil {
		sess.unhook()
	}
	sess.mu.Unlock()

	sess.cancel(cause)
	s.mu.Lock()
	delete(s.open, sess)
	delete(s.byID, sess.wireID)
	s.mu.Unlock()
	go sess.finish(cause)
}

func (sess *session) finish(cause error) {
	s := sess.srv
	defer sess.scope.part()
	defer close(sess.done)
	sess.waitQuiet(s.stopGrace) // lets answers out that are still to come
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = sess.sdk.Close() // waits for handlers; the error is that of a connection we are done with
		sess.mu.Lock()
		updates := sess.updates
		sess.mu.Unlock()
		if updates != nil {
			updates.stop()
			<-updates.done
		}
	}()
	t := time.NewTimer(s.stopGrace / 4) // enough for all but who had stopGrace already
	defer t.Stop()
	select {
	case <-closed:
	case <-t.C:
		s.log.Warn("a call ignores its cancellation and was left behind", "session", sess.id)
	}
	s.log.Info("session ended", "session", sess.id, "transport", sess.transport, "reason", cause.Error())
	if s.opts.SessionEnded != nil {
		s.opts.SessionEnded(sess.id)
	}
	s.opts.Bus.Publish(event.Event{Kind: event.SessionEnded, Session: sess.id, Data: sess.transport})
}

// enter notes that a call, or with call false another request, is under way.
// It reports false when the session is ending.
func (sess *session) enter(call bool) bool {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if sess.ended {
		return false
	}
	if call {
		sess.calls++
	} else {
		sess.streams++
	}
	if sess.timer != nil {
		sess.timer.Stop()
	}
	sess.idle = time.Time{}
	return true
}

// leave undoes enter. A streamable session that nothing is left of begins to
// wait for its expiry.
func (sess *session) leave(call bool) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if call {
		sess.calls--
		if sess.calls == 0 && sess.quiet != nil {
			close(sess.quiet)
			sess.quiet = nil
		}
	} else {
		sess.streams--
	}
	if sess.calls+sess.streams > 0 || sess.ended || sess.wireID == "" {
		return
	}
	sess.idle = time.Now()
	if d := sess.srv.sessionTimeout(); sess.timer == nil {
		sess.timer = time.AfterFunc(d, sess.expire)
	} else {
		sess.timer.Reset(d)
	}
}

// rewind applies a new timeout to a session that is idle.
func (sess *session) rewind() {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if !sess.ended && !sess.idle.IsZero() {
		sess.timer.Reset(time.Until(sess.idle.Add(sess.srv.sessionTimeout())))
	}
}

// idleSince returns when a streamable session became idle, if it is.
func (sess *session) idleSince() (time.Time, bool) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	return sess.idle, !sess.idle.IsZero()
}

func (sess *session) expire() {
	sess.mu.Lock()
	idle := sess.calls+sess.streams == 0
	sess.mu.Unlock()
	if idle { // a request may have come while the timer fired
		sess.end(errExpired)
	}
}

// waitQuiet waits until no call is under way, for at most d, and reports
// whether it came to that.
func (sess *session) waitQuiet(d time.Duration) bool {
	sess.mu.Lock()
	if sess.calls == 0 {
		sess.mu.Unlock()
		return true
	}
	if sess.quiet == nil {
		sess.quiet = make(chan struct{})
	}
	quiet := sess.quiet
	sess.mu.Unlock()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-quiet:
		return true
	case <-t.C:
		return false
	}
}

// post is one POST of a streamable session.
type post struct {
	ctx     context.Context //nolint:containedctx // ends when the client gives the request up
	stream  *streamWriter
	project string
}

// postHeader tells the handler of a call which POST brought it. A client cannot
// send it: no header name on the wire holds a space.
const postHeader = "call of post"

// addPost registers p and marks the request's header with it.
func (sess *session) addPost(h http.Header, p *post) (remove func()) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.nextPost++
	key := strconv.FormatUint(sess.nextPost, 36)
	if sess.posts == nil {
		sess.posts = make(map[string]*post)
	}
	sess.posts[key] = p
	h[postHeader] = []string{key}
	return func() {
		sess.mu.Lock()
		defer sess.mu.Unlock()
		delete(sess.posts, key)
	}
}

// postOf returns the POST that brought a request, or nil.
func (sess *session) postOf(extra *mcp.RequestExtra) *post {
	if extra == nil || len(extra.Header[postHeader]) == 0 {
		return nil
	}
	sess.mu.Lock()
	defer sess.mu.Unlock()
	return sess.posts[extra.Header[postHeader][0]]
}

func (sess *session) hasBegun() bool {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	return sess.begun
}

// setProtocol notes the version that initialize settled on.
func (sess *session) setProtocol(version string) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.protocol = version
}

func (sess *session) negotiated() string {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	return sess.protocol
}

// knownRoots returns the roots the client named before, if it did.
func (sess *session) knownRoots() ([]string, bool) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	return sess.roots, sess.hasRoots
}

func (sess *session) setRoots(roots []string, known bool) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.roots, sess.hasRoots, sess.silent = roots, known, time.Time{}
}

// rootsUnanswered notes that the client does not say its roots.
func (sess *session) rootsUnanswered() {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.silent = time.Now()
}

// mayAskRoots reports whether the client has not left that question open lately.
func (sess *session) mayAskRoots() bool {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	return sess.silent.IsZero() || time.Since(sess.silent) >= rootsPause
}

// allows reports whether the session's own limits let t through.
func (sess *session) allows(set *tool.Set, t *tool.Tool) bool {
	b := &sess.base
	if b.ReadOnly && t.Effect.Changes() {
		return false
	}
	if !sess.allowsToolset(t.Toolset) || b.Allows != nil && !b.Allows(t.Toolset, t.Name) {
		return false
	}
	return !slices.ContainsFunc(b.Exclude, func(name string) bool { return set.Lookup(name) == t })
}

// allowsToolset reports whether the session's own limits let a toolset through.
func (sess *session) allowsToolset(name string) bool {
	if sess.base.Allows != nil && !sess.base.Allows(name, "") {
		return false
	}
	on := sess.base.Toolsets
	return on == nil || slices.Contains(on, name) || slices.Contains(on, "all")
}
