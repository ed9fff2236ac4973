package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
)

// Serve serves HTTP on ln until ctx ends and closes ln. A caller in ctx says what
// is known of every client beforehand, as for ServeStdio. Handlers are cancelled
// first; Serve returns nil at most about two seconds later, whatever they do.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	sc := newScope()
	hs := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(caller.With(context.Background(), caller.From(ctx)), scopeKey{}, sc)
		},
		ConnContext: s.guard.connContext,
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- hs.Serve(ln) }()
	var result error
	select {
	case <-ctx.Done():
	case err := <-failed:
		failed <- err
		result = fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	sc.stop(errShutdown)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.stopGrace)
	defer cancel()
	if hs.Shutdown(grace) != nil {
		_ = hs.Close() // cuts off who did not stop; nothing more can be done about them
	}
	<-sc.empty
	<-failed
	return result
}

type scopeKey struct{}

// scopeOf returns the Serve that r came through. Sessions of a Handler that
// somebody else serves end by DELETE or expiry.
func (s *Server) scopeOf(r *http.Request) *scope {
	if sc, ok := r.Context().Value(scopeKey{}).(*scope); ok {
		return sc
	}
	return s.scope
}

// Handler serves /mcp, /sse, /health, /metrics, and / which says what is here.
// The same-user check needs Serve.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /mcp", s.postMCP)
	mux.HandleFunc("GET /mcp", s.getMCP)
	mux.HandleFunc("DELETE /mcp", s.deleteMCP)
	mux.HandleFunc("GET /sse", s.getSSE)
	mux.HandleFunc("POST /sse", s.postSSE)
	mux.HandleFunc("GET /health", s.getHealth)
	mux.HandleFunc("GET /{$}", s.getRoot)
	if s.opts.Metrics != nil {
		mux.Handle("GET /metrics", s.opts.Metrics)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil || p == http.ErrAbortHandler { //nolint:errorlint // the value that net/http compares with
				return
			}
			s.log.Error("request panicked", "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			http.Error(w, "internal error; the server log has the details", http.StatusInternalServerError)
		}()
		w.Header().Set("Server", s.opts.Name)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.ContentLength != 0 { // also of a body that nobody wants
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.bodyPatience)) // a connection without deadlines is not one of ours
		}
		if s.guard.admit(w, r) {
			mux.ServeHTTP(w, r)
		}
	})
}

// postMCP takes a message. Versions without sessions say so in a header, or at
// least in the message; all others go to the handler that has sessions.
func (s *Server) postMCP(w http.ResponseWriter, r *http.Request) {
	body, ok := s.readBody(w, r)
	if !ok {
		return
	}
	msg, bad := checkPost(body)
	if bad != nil {
		s.log.Debug("message refused", "code", bad.code, "reason", bad.message)
		writeRefusal(w, http.StatusBadRequest, bad)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	out := newStreamWriter(w)
	defer out.close()
	req, _ := msg.(*jsonrpc.Request)
	p := &post{stream: out, project: r.URL.Query().Get("project")}
	if r.Header.Get(versionHeader) >= modernVersion || req != nil && isModern(req.Params) {
		s.postModern(out, r, p)
		return
	}
	s.postSession(out, r, p, req)
}

const (
	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
)

// postModern serves a message that is its own session. The SDK ties the handler
// to the context of the request.
func (s *Server) postModern(w *streamWriter, r *http.Request, p *post) {
	sess := s.newSession(r.Context(), s.scopeOf(r), "http")
	defer sess.cancel(nil)
	r, stop := untilGone(r)
	defer stop()
	p.ctx = r.Context()
	defer sess.addPost(r.Header, p)()
	s.modern.ServeHTTP(w, r.WithContext(sess.within(r.Context())))
}

// untilGone returns r with a context that is cancelled when the client gives it
// up, but not when its handler returns.
func untilGone(r *http.Request) (*http.Request, func() bool) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	return r.WithContext(ctx), context.AfterFunc(r.Context(), func() { cancel(errGone) })
}

// postSession serves a message of a session, or the one that begins it.
func (s *Server) postSession(w *streamWriter, r *http.Request, p *post, req *jsonrpc.Request) {
	sess := s.sessionOf(r)
	switch id := r.Header.Get(sessionHeader); {
	case sess == nil && id != "":
		http.Error(w, "session not found: it ended or never was; begin again with initialize", http.StatusNotFound)
		return
	case sess == nil && (req == nil || req.Method != "initialize" && req.Method != "ping"):
		bad := refuse(jsonrpc.CodeInvalidRequest, "invalid request: a session begins with initialize; its messages carry the "+sessionHeader+" header")
		if req != nil {
			bad.id = req.ID
		}
		writeRefusal(w, http.StatusBadRequest, bad)
		return
	case sess == nil && req.Method == "initialize" && !s.makeRoom():
		http.Error(w, errCrowded.Error()+"; end some of them, or try again later", http.StatusServiceUnavailable)
		return
	case sess == nil:
		sess = s.newSession(r.Context(), s.scopeOf(r), "http")
		r = r.WithContext(sess.within(r.Context()))
		defer func() {
			if !sess.hasBegun() {
				sess.cancel(nil)
			}
		}()
	}
	if !sess.enter(true) {
		http.Error(w, "session not found: it is ending", http.StatusNotFound)
		return
	}
	defer sess.leave(true)
	// A tool may close its own stream to answer on a later one: then ServeHTTP
	// returns by itself and the call goes on.
	r, stop := untilGone(r)
	defer stop()
	p.ctx = r.Context()
	defer sess.addPost(r.Header, p)()
	s.old.ServeHTTP(w, r)
}

// getMCP is the stream for what the server says unasked.
func (s *Server) getMCP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(versionHeader) >= modernVersion {
		s.modern.ServeHTTP(w, r) // says that there is none
		return
	}
	if sess := s.sessionOf(r); sess != nil {
		if !sess.enter(false) {
			http.Error(w, "session not found: it is ending", http.StatusNotFound)
			return
		}
		defer sess.leave(false)
		out := newStreamWriter(w)
		defer out.close()
		out.keepCompany(s.beat, s.beat)
		s.old.ServeHTTP(out, r)
		return
	}
	s.old.ServeHTTP(w, r) // says what is wrong
}

// deleteMCP ends a session without waiting for its handlers.
func (s *Server) deleteMCP(w http.ResponseWriter, r *http.Request) {
	sess := s.sessionOf(r)
	if sess == nil {
		http.Error(w, "session not found", http.StatusNotFound)
		return
	}
	sess.end(errDeleted)
	w.WriteHeader(http.StatusNoContent)
}

// sessionOf returns the session that r names, or nil.
func (s *Server) sessionOf(r *http.Request) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[r.Header.Get(sessionHeader)]
}

// readBody reads the JSON body of a POST within the message limit, or answers
// why it does not. A body must go on arriving, and few large ones are read at
// once.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return nil, false
	}
	limit := s.opts.MaxMessageBytes
	conn := http.NewResponseController(w)
	from := http.MaxBytesReader(w, r.Body, limit)
	var body []byte
	var err error
	large := false
	for err == nil {
		if len(body) > smallBody && !large {
			if large = s.takePlace(r.Context()); !large {
				w.Header().Set("Retry-After", "1")
				http.Error(w, "busy: too many large messages arrive at once; send this one again later", http.StatusServiceUnavailable)
				return nil, false
			}
			defer func() { <-s.places }()
		}
		_ = conn.SetReadDeadline(time.Now().Add(s.bodyPatience)) // a connection without deadlines is not one of ours
		body, err = readStep(from, body, r.ContentLength)
		if r.ContentLength > limit {
			body = body[:0] // read for the client's sake, who hears why only when it has spoken
		}
	}
	_, long := errors.AsType[*http.MaxBytesError](err)
	switch {
	case long || r.ContentLength > limit:
		writeRefusal(w, http.StatusRequestEntityTooLarge,
			refuse(jsonrpc.CodeInvalidRequest, fmt.Sprintf("invalid request: the message is longer than %d bytes", limit)))
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		http.Error(w, "the body did not go on arriving", http.StatusRequestTimeout)
	case !errors.Is(err, io.EOF):
		http.Error(w, "the body could not be read", http.StatusBadRequest)
	default:
		_ = conn.SetReadDeadline(time.Time{}) // what follows may take its time
		return body, true
	}
	return nil, false
}

const (
	// bodyStep is how much of a body must arrive within bodyPatience.
	bodyStep     = 64 << 10
	bodyPatience = 30 * time.Second
	// smallBody is how long a body may be to be read at once with any number of
	// others; beyond it one of largeBodies places is needed.
	smallBody   = 256 << 10
	largeBodies = 4
)

// readStep appends up to bodyStep bytes. The memory it takes follows what has
// arrived: what a client announces costs it nothing.
func readStep(from io.Reader, body []byte, announced int64) ([]byte, error) {
	if cap(body)-len(body) < bodyStep {
		more := max(bodyStep, len(body))
		if rest := announced - int64(len(body)); announced > 0 && rest < int64(more) {
			more = int(max(rest, 0)) + 1 // for the end to show
		}
		body = slices.Grow(body, more)
	}
	for end := min(cap(body), len(body)+bodyStep); len(body) < end; {
		n, err := from.Read(body[len(body):end])
		body = body[:len(body)+n]
		if err != nil {
			return body, err
		}
	}
	return body, nil
}

// takePlace waits, within bodyPatience, for one of the places for large bodies.
func (s *Server) takePlace(ctx context.Context) bool {
	t := time.NewTimer(s.bodyPatience)
	defer t.Stop()
	select {
	case s.places <- struct{}{}:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

// checkPost checks a body before the SDK reads it. The message is nil for a
// batch.
func checkPost(body []byte) (jsonrpc.Message, *refusal) {
	data, bad := checkJSON(body)
	switch {
	case bad != nil:
		return nil, bad
	case data == nil:
		return nil, refuse(jsonrpc.CodeParseError, "parse error: the body is empty")
	case data[0] != '[':
		return checkMessage(data)
	}
	n, ids := 0, make(map[jsonrpc.ID]struct{})
	eachElement(data, func(val []byte) {
		if bad != nil {
			return
		}
		if n++; n > maxCalls {
			bad = refuse(jsonrpc.CodeInvalidRequest, fmt.Sprintf("invalid request: a batch has at most %d messages", maxCalls))
			return
		}
		var m jsonrpc.Message
		if m, bad = checkMessage(val); bad != nil {
			return
		}
		if req, ok := m.(*jsonrpc.Request); ok && req.IsCall() {
			if _, taken := ids[req.ID]; taken { // the SDK would answer one of the two
				bad = refuse(jsonrpc.CodeInvalidRequest, fmt.Sprintf("invalid request: id %s stands twice in the batch", encodeID(req.ID)))
			}
			ids[req.ID] = struct{}{}
		}
	})
	return nil, bad
}

// checkMessage also refuses the ids that the SDK's own decoder would round.
func checkMessage(data []byte) (jsonrpc.Message, *refusal) {
	m, bad := decodeMessage(data)
	if req, ok := m.(*jsonrpc.Request); ok && isLong(req.ID) {
		bad = refuse(jsonrpc.CodeInvalidRequest, `invalid request: over HTTP a number "id" must be within 2^53; use a string`)
		bad.id = req.ID
		return nil, bad
	}
	return m, bad
}

func writeRefusal(w http.ResponseWriter, status int, r *refusal) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(r.encode()) // the client may be gone
}

// getHealth answers with the whole report, or to who has no token with the
// status alone.
func (s *Server) getHealth(w http.ResponseWriter, r *http.Request) {
	report := health.Report{Status: health.Healthy, Version: s.opts.Version}
	if s.opts.Health != nil {
		report = s.opts.Health()
	}
	var body any = report
	if !s.guard.authorized(r) {
		body = map[string]string{"status": report.Status}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	_ = enc.Encode(body) // the client may be gone
}

// getRoot tells a person what this port is.
func (s *Server) getRoot(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	metrics := ""
	if s.opts.Metrics != nil {
		metrics = "  /metrics  figures for a scraper\n"
	}
	fmt.Fprintf(w, "%[1]s %[2]s: an MCP server.\n\n"+
		"Endpoints\n"+
		"  /mcp      MCP over streamable HTTP, every protocol version\n"+
		"  /sse      MCP over SSE, for older hosts\n"+
		"  /health   how the server is\n%[3]s\n"+
		"Connect\n"+
		"  claude mcp add --transport http %[1]s http://%[4]s/mcp\n"+
		"  codex mcp add %[1]s --url http://%[4]s/mcp\n"+
		"  gemini mcp add -t http %[1]s http://%[4]s/mcp\n",
		s.opts.Name, s.opts.Version, metrics, r.Host)
}
