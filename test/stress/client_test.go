package stress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// agent is one client of the server.
type agent interface {
	// call runs a tool. An error means that its outcome is not known: the call was
	// cancelled by ctx, or the server died.
	call(ctx context.Context, tool string, args map[string]any) (answer, error)
}

// answer is the part of every tool's result that the tests read.
type answer struct {
	Status      string  `json:"status"`
	Code        string  `json:"error_code"`
	Message     string  `json:"message"`
	Content     string  `json:"content"`
	Hash        string  `json:"hash"`
	DeletedHash string  `json:"deleted_hash"`
	CurrentHash string  `json:"current_hash"`
	Known       bool    `json:"base_available"`
	Merged      bool    `json:"merged"`
	Applicable  bool    `json:"patches_applicable"`
	Applied     bool    `json:"applied"`
	Diff        *change `json:"diff"`
	raw         json.RawMessage
}

// change is a diff in its JSON form.
type change struct {
	Changes []struct {
		Type     string `json:"type"`
		Start    int    `json:"start_line"`
		End      int    `json:"end_line"`
		NewStart int    `json:"new_start_line"`
		Old      string `json:"old_content"`
		New      string `json:"new_content"`
	} `json:"changes"`
}

func (a answer) String() string { return string(a.raw) }

// hashOf names content as the server does.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

var errGone = errors.New("the server is gone")

type request struct {
	Version string `json:"jsonrpc"`
	ID      *int64 `json:"id,omitempty"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}

type response struct {
	ID     *int64          `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// answer unpacks a tool's result.
func (r response) answer() (answer, error) {
	if r.Error != nil {
		return answer{}, fmt.Errorf("protocol error: %s", r.Error)
	}
	var result struct {
		Structured json.RawMessage `json:"structuredContent"`
	}
	if err := json.Unmarshal(r.Result, &result); err != nil {
		return answer{}, err
	}
	a := answer{raw: result.Structured}
	return a, json.Unmarshal(result.Structured, &a)
}

const protocol = "2025-11-25"

func hello(name string) map[string]any {
	return map[string]any{
		"protocolVersion": protocol, "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": name, "version": "1"},
	}
}

func toolCall(id int64, tool string, args map[string]any) []byte {
	return mustJSON(request{Version: "2.0", ID: &id, Method: "tools/call", Params: map[string]any{"name": tool, "arguments": args}})
}

func cancelled(id int64) []byte {
	return mustJSON(request{Version: "2.0", Method: "notifications/cancelled", Params: map[string]any{"requestId": id, "reason": "changed my mind"}})
}

// stdioLine is one connection on a server's standard streams. Several agents
// share it.
type stdioLine struct {
	mu      sync.Mutex
	in      io.WriteCloser            // guarded by mu
	pending map[int64]chan<- response // guarded by mu; nil once the server is gone
	next    atomic.Int64
}

func newStdioLine(in io.WriteCloser) *stdioLine {
	return &stdioLine{in: in, pending: make(map[int64]chan<- response)}
}

// read hands out answers until the server is gone.
func (l *stdioLine) read(out io.Reader) {
	lines := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var r response
		if json.Unmarshal(line, &r) != nil || r.ID == nil {
			continue // a notification, or what a dying server began
		}
		l.mu.Lock()
		to := l.pending[*r.ID]
		delete(l.pending, *r.ID)
		l.mu.Unlock()
		if to != nil {
			to <- r
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, to := range l.pending {
		close(to)
	}
	l.pending = nil
}

func (l *stdioLine) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.in.Close() // that it is closed already is as good
}

func (l *stdioLine) send(frame []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.in.Write(append(frame, '\n'))
	return err
}

func (l *stdioLine) exchange(ctx context.Context, id int64, frame []byte) (response, error) {
	got := make(chan response, 1)
	l.mu.Lock()
	if l.pending == nil {
		l.mu.Unlock()
		return response{}, errGone
	}
	l.pending[id] = got
	l.mu.Unlock()
	if err := l.send(frame); err != nil {
		return response{}, errors.Join(errGone, err)
	}
	select {
	case r, ok := <-got:
		if !ok {
			return r, errGone
		}
		return r, nil
	case <-ctx.Done():
		l.mu.Lock()
		delete(l.pending, id)
		l.mu.Unlock()
		return response{}, errors.Join(context.Cause(ctx), l.send(cancelled(id)))
	}
}

func (l *stdioLine) initialize(ctx context.Context) error {
	id := l.next.Add(1)
	if _, err := l.exchange(ctx, id, mustJSON(request{Version: "2.0", ID: &id, Method: "initialize", Params: hello("stress")})); err != nil {
		return err
	}
	return l.send(mustJSON(request{Version: "2.0", Method: "notifications/initialized"}))
}

func (l *stdioLine) call(ctx context.Context, tool string, args map[string]any) (answer, error) {
	id := l.next.Add(1)
	r, err := l.exchange(ctx, id, toolCall(id, tool, args))
	if err != nil {
		return answer{}, err
	}
	return r.answer()
}

// httpSession is one session of streamable HTTP.
type httpSession struct {
	client  *http.Client
	url     string
	session string
	next    atomic.Int64
}

// dialHTTP opens n sessions.
func dialHTTP(ctx context.Context, address string, n int) ([]agent, func(), error) {
	transport := &http.Transport{MaxIdleConnsPerHost: n}
	client := &http.Client{Transport: transport}
	var all []agent
	for i := range n {
		s := &httpSession{client: client, url: address + "/mcp"}
		id := s.next.Add(1)
		if _, err := s.post(ctx, id, mustJSON(request{Version: "2.0", ID: &id, Method: "initialize", Params: hello("stress-" + strconv.Itoa(i))})); err != nil {
			return nil, transport.CloseIdleConnections, err
		}
		if _, err := s.post(ctx, 0, mustJSON(request{Version: "2.0", Method: "notifications/initialized"})); err != nil {
			return nil, transport.CloseIdleConnections, err
		}
		all = append(all, s)
	}
	return all, transport.CloseIdleConnections, nil
}

// post sends a message and returns the answer to id; 0 means that none comes.
func (s *httpSession) post(ctx context.Context, id int64, body []byte) (response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return response{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if s.session != "" {
		req.Header.Set("Mcp-Session-Id", s.session)
		req.Header.Set("Mcp-Protocol-Version", protocol)
	}
	res, err := s.client.Do(req)
	if err != nil {
		return response{}, err
	}
	defer res.Body.Close()
	if given := res.Header.Get("Mcp-Session-Id"); given != "" {
		s.session = given
	}
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return response{}, err
	}
	if res.StatusCode/100 != 2 {
		return response{}, fmt.Errorf("%s: %s", res.Status, raw)
	}
	if id == 0 {
		return response{}, nil
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		var r response
		return r, json.Unmarshal(raw, &r)
	}
	for line := range bytes.Lines(raw) {
		var r response
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if ok && json.Unmarshal(data, &r) == nil && r.ID != nil && *r.ID == id {
			return r, nil
		}
	}
	return response{}, errGone // the stream broke off
}

func (s *httpSession) call(ctx context.Context, tool string, args map[string]any) (answer, error) {
	id := s.next.Add(1)
	r, err := s.post(ctx, id, toolCall(id, tool, args))
	if err != nil {
		if id%2 == 0 && ctx.Err() != nil { // some clients say so, others just leave
			_, said := s.post(context.WithoutCancel(ctx), 0, cancelled(id))
			err = errors.Join(err, said)
		}
		return answer{}, err
	}
	return r.answer()
}
