package mcpserver

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The older HTTP transport: a GET that stays open carries what the server says,
// POSTs to an address it names carry what the client says. The SDK has one too;
// it drops the query, gives sessions no identity and does not notice a client
// that goes away.

// lastSSEVersion is the newest protocol version offered there.
const lastSSEVersion = "2025-11-25"

// getSSE opens a session that lasts as long as the request.
func (s *Server) getSSE(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		return
	}
	if !s.makeRoom() {
		http.Error(w, errCrowded.Error()+"; end some of them, or try again later", http.StatusServiceUnavailable)
		return
	}
	out := newStreamWriter(w)
	defer out.close()
	sess := s.newSession(r.Context(), s.scopeOf(r), "sse")
	if id := r.URL.Query().Get("project"); id != "" {
		sess.base.Project = id
	}
	l := newLink(sess, lastSSEVersion, func(message []byte) error {
		if _, err := out.Write(appendEvent(nil, message)); err != nil {
			return err
		}
		return out.FlushError()
	})
	defer l.drop()
	sdk, err := s.mcp.Connect(sess.within(r.Context()), l, nil)
	if err != nil {
		http.Error(w, "the session could not be opened", http.StatusInternalServerError)
		return
	}
	if !sess.begin(sdk, "") {
		_ = sdk.Close() // nothing has run in it
		http.Error(w, errShutdown.Error(), http.StatusServiceUnavailable)
		return
	}
	wireID := rand.Text()
	s.mu.Lock()
	s.links[wireID] = l
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.links, wireID)
	}()

	h := out.Header()
	h.Set("Content-Type", eventStream)
	h.Set("Cache-Control", "no-cache, no-transform")
	_, err = fmt.Fprintf(out, "event: endpoint\ndata: %s?sessionid=%s\n\n", r.URL.Path, url.QueryEscape(wireID))
	if err == nil {
		err = out.FlushError()
	}
	if err == nil {
		out.keepCompany(s.beat, s.beat)
		select {
		case <-r.Context().Done():
		case <-sess.done:
		}
	}
	sess.end(errGone)
}

// postSSE takes a message of such a session.
func (s *Server) postSSE(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	l := s.links[r.URL.Query().Get("sessionid")]
	s.mu.Unlock()
	body, ok := s.readBody(w, r)
	if !ok {
		return
	}
	if l == nil {
		http.Error(w, "session not found: it ended with its GET", http.StatusNotFound)
		return
	}
	if bad := l.accept(body, &mcp.RequestExtra{Header: r.Header}); bad != nil {
		s.log.Debug("message refused", "code", bad.code, "reason", bad.message)
		status := http.StatusBadRequest
		if bad.busy {
			status = http.StatusServiceUnavailable
		}
		writeRefusal(w, status, bad)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}
