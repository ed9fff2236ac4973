package mcpserver

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

// streamWriter is the response of a request that may be silent for long. Once
// told to keep the client company it sends the headers of an event stream
// after a moment and a comment now and then, from its own timer; the SDK would
// send nothing before its first event.
type streamWriter struct {
	to      http.ResponseWriter
	header  http.Header // the SDK's; to's own is touched under mu alone
	rewrite bool        // guarded by mu; headers went out before the SDK chose another kind of answer

	mu     sync.Mutex
	sent   bool // guarded by mu; headers are out
	closed bool // guarded by mu
	timer  *time.Timer
	beat   time.Duration
}

func newStreamWriter(to http.ResponseWriter) *streamWriter {
	return &streamWriter{to: to, header: make(http.Header)}
}

// keepCompany begins to break the silence after delay, then every beat.
func (w *streamWriter) keepCompany(delay, beat time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer == nil && !w.closed {
		w.beat = beat
		w.timer = time.AfterFunc(delay, w.speak)
	}
}

func (w *streamWriter) speak() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	if !w.sent {
		h := w.to.Header()
		h.Set("Content-Type", eventStream)
		h.Set("Cache-Control", "no-cache, no-transform")
		w.to.WriteHeader(http.StatusOK)
		w.sent, w.rewrite = true, true
	}
	// A client that cannot be written to ends its request's context.
	_, _ = w.to.Write([]byte(": still here\n\n"))
	_ = http.NewResponseController(w.to).Flush()
	w.timer.Reset(w.beat)
}

const eventStream = "text/event-stream"

// Header implements http.ResponseWriter.
func (w *streamWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *streamWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sendHeaderLocked(status)
}

func (w *streamWriter) sendHeaderLocked(status int) {
	if w.sent {
		return
	}
	w.sent = true
	maps.Copy(w.to.Header(), w.header)
	w.to.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *streamWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sendHeaderLocked(http.StatusOK)
	if w.timer != nil {
		w.timer.Reset(w.beat)
	}
	if w.rewrite && !strings.HasPrefix(w.header.Get("Content-Type"), eventStream) {
		// One JSON message, too late for its own status: it becomes an event.
		n, err := w.to.Write(appendEvent(nil, b))
		return min(n, len(b)), err
	}
	return w.to.Write(b)
}

// FlushError is found by http.ResponseController.
func (w *streamWriter) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sendHeaderLocked(http.StatusOK)
	return http.NewResponseController(w.to).Flush()
}

// close ends the company. Nothing is written afterwards.
func (w *streamWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// appendEvent appends message as a server-sent event.
func appendEvent(b, message []byte) []byte {
	b = append(b, "event: message\ndata: "...)
	b = append(b, message...)
	return append(b, "\n\n"...)
}
