package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv("MCPSERVER_TEST_VISIT"); addr != "" {
		os.Exit(visit(addr))
	}
	if addr := os.Getenv("MCPSERVER_TEST_LISTEN"); addr != "" {
		os.Exit(overhear(addr))
	}
	goleak.VerifyTestMain(m)
}

// visit is this program run as another user: it asks for a page and prints the
// answer.
func visit(url string) int {
	res, err := http.Get(url)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	fmt.Println(res.StatusCode, string(body))
	return 0
}

// overhear is this program run as another user: it prints where it listens, and
// then what the first to connect says.
func overhear(addr string) int {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(ln.Addr())
	c, err := ln.Accept()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second)) // in case it waits for an answer
	said, _ := io.ReadAll(c)
	fmt.Printf("%q\n", said)
	return 0
}

// The tools of the tests.

type echoIn struct {
	Text string `json:"text,omitempty" jsonschema:"what to say"`
	N    int64  `json:"n,omitempty" jsonschema:"a number"`
}

type echoOut struct {
	Status string `json:"status"`
	Text   string `json:"text"`
	N      int64  `json:"n"`
	After  int    `json:"after"`
}

type whoOut struct {
	Client    string `json:"client"`
	Version   string `json:"version"`
	Transport string `json:"transport"`
	Protocol  string `json:"protocol"`
	Session   string `json:"session"`
	Agent     string `json:"agent"`
	Thread    string `json:"thread"`
	Project   string `json:"project"`
}

type none struct{}

type saidOut struct {
	Said string `json:"said"`
}

// rig is a server with its tools and what they saw.
type rig struct {
	*Server
	started chan string   // a tool that waits has begun
	ended   chan error    // the cause that ended its context
	release chan struct{} // lets the stubborn tool return
	gone    chan string   // sessions that ended
	roots   chan string   // sessions whose roots changed
	slow    func([]byte)  // called with what is about to be sent, if not nil
}

// slowWriter and slowListener are connections that take their time.
type slowWriter struct {
	io.Writer
	before func([]byte)
}

func (w slowWriter) Write(b []byte) (int, error) {
	w.before(b)
	return w.Writer.Write(b)
}

type slowListener struct {
	net.Listener
	before func([]byte)
}

func (l slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return slowConn{c, l.before}, nil
}

type slowConn struct {
	net.Conn
	before func([]byte)
}

func (c slowConn) Write(b []byte) (int, error) {
	c.before(b)
	return c.Conn.Write(b)
}

// tools of every rig; with lists the names that are on.
func (r *rig) set(t testing.TB, with ...string) *tool.Set {
	t.Helper()
	all := []*tool.Tool{
		tool.New(tool.Spec{Name: "echo", Title: "Echo", Doc: "Says <the same> & no more.", Toolset: "talk", Other: []string{"say.echo"}},
			func(_ context.Context, in echoIn) (echoOut, error) {
				return echoOut{Status: "ok", Text: in.Text, N: in.N}, nil
			}),
		tool.New(tool.Spec{Name: "count", Toolset: "size"},
			func(_ context.Context, in echoIn) (echoOut, error) {
				return echoOut{Status: "ok", After: len(in.Text)}, nil
			}),
		tool.New(tool.Spec{Name: "who", Toolset: "talk"},
			func(ctx context.Context, _ none) (whoOut, error) {
				c := caller.From(ctx)
				return whoOut{c.Client, c.Version, c.Transport, c.Protocol, c.Session, c.Agent, c.Thread, c.Project}, nil
			}),
		tool.New(tool.Spec{Name: "wait", Toolset: "slow", Effect: tool.Additive},
			func(ctx context.Context, in echoIn) (saidOut, error) {
				r.started <- in.Text
				<-ctx.Done()
				r.ended <- context.Cause(ctx)
				return saidOut{}, context.Cause(ctx)
			}),
		tool.New(tool.Spec{Name: "nap", Toolset: "slow"},
			func(ctx context.Context, in echoIn) (saidOut, error) {
				select {
				case <-time.After(time.Duration(in.N) * time.Millisecond):
					return saidOut{Said: "rested"}, nil
				case <-ctx.Done():
					return saidOut{}, context.Cause(ctx)
				}
			}),
		tool.New(tool.Spec{Name: "stubborn", Toolset: "slow", Effect: tool.Destructive | tool.Idempotent | tool.OpenWorld},
			func(_ context.Context, in echoIn) (saidOut, error) {
				r.started <- in.Text
				<-r.release
				return saidOut{Said: "at last"}, nil
			}),
		tool.New(tool.Spec{Name: "fail", Toolset: "talk", Codes: []fault.Code{fault.FileNotFound}},
			func(context.Context, none) (saidOut, error) {
				return saidOut{}, fault.New(fault.FileNotFound, "no <such> file").At("a&b")
			}),
		tool.New(tool.Spec{Name: "panic", Toolset: "talk"},
			func(context.Context, none) (saidOut, error) { panic("broken on purpose") }),
		tool.New(tool.Spec{Name: "steps", Toolset: "talk"},
			func(ctx context.Context, in echoIn) (saidOut, error) {
				for i := range in.N {
					if in.Text == "no end in sight" {
						caller.Progress(ctx, 0, 0, "step")
						time.Sleep(time.Duration(i) * 10 * time.Millisecond) // so that not all become one
						continue
					}
					caller.Progress(ctx, float64(i+1), float64(in.N), "step")
				}
				return saidOut{Said: "done"}, nil
			}),
		tool.New(tool.Spec{Name: "confirm", Toolset: "ask"},
			func(ctx context.Context, _ none) (saidOut, error) {
				paths, err := caller.Roots(ctx)
				if err != nil && !errors.Is(err, caller.ErrNoRoots) {
					return saidOut{}, err
				}
				said := strings.Join(paths, ",")
				for _, key := range []string{"first", "second"} {
					a, err := caller.Elicit(ctx, caller.Question{
						Key: key, Message: key + "?", Schema: json.RawMessage(`{"type":"object","properties":{"sure":{"type":"boolean"}}}`),
					})
					switch {
					case errors.Is(err, caller.ErrCannotAsk):
						said += " cannot ask"
					case err != nil:
						return saidOut{}, err
					default:
						said += fmt.Sprintf(" %v%s", a.Accepted, a.Content)
					}
				}
				return saidOut{Said: said}, nil
			}),
	}
	var on []*tool.Tool
	for _, one := range all {
		if len(with) == 0 || strings.Contains(","+strings.Join(with, ",")+",", ","+one.Name+",") {
			on = append(on, one)
		}
	}
	set, err := tool.NewSet(on, tool.SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func newRig(t testing.TB, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{
		started: make(chan string, 100), ended: make(chan error, 100), release: make(chan struct{}),
		gone: make(chan string, 100), roots: make(chan string, 100),
	}
	opts := Options{
		Name: "rig", Title: "The Rig", Version: "1.2.3", Instructions: "be kind",
		Tools:        r.set(t),
		SessionEnded: func(id string) { r.gone <- id },
		RootsChanged: func(id string) { r.roots <- id },
	}
	if testing.Verbose() {
		opts.Logger = slog.New(slog.NewTextHandler(outputOf(t), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	for _, f := range change {
		f(&opts)
	}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	r.Server = s
	return r
}

// serve runs the HTTP server and returns its base URL and how to stop it.
func (r *rig) serve(t testing.TB) (base string, stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if r.slow != nil {
		ln = slowListener{ln, r.slow}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, ln) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve = %v, want nil", err)
		}
	})
	t.Cleanup(stop)
	return "http://" + ln.Addr().String(), stop
}

// pipe is a raw client on stdio.
type pipe struct {
	t     testing.TB
	in    *io.PipeWriter
	lines chan string // what the server wrote, line by line; closed at its end
	stop  context.CancelFunc
	done  chan error // the result of ServeStdio
}

func (r *rig) stdio(t testing.TB, ctx context.Context) *pipe {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	p := &pipe{t: t, in: inW, lines: make(chan string, 10000), stop: cancel, done: make(chan error, 1)}
	go func() {
		p.done <- r.ServeStdio(ctx, inR, outW)
		outW.Close()
	}()
	go func() {
		defer close(p.lines)
		b := bufio.NewReader(outR)
		for {
			line, err := b.ReadString('\n')
			if line != "" {
				p.lines <- strings.TrimSuffix(line, "\n")
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		inW.Close()
		for range p.lines {
		}
	})
	return p
}

func (p *pipe) send(lines ...string) {
	p.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(p.in, l+"\n"); err != nil {
			p.t.Fatalf("write stdin: %v", err)
		}
	}
}

func (p *pipe) line() string {
	p.t.Helper()
	select {
	case l, ok := <-p.lines:
		if !ok {
			p.t.Fatal("the server closed its output")
		}
		return l
	case <-time.After(20 * time.Second):
		p.t.Fatal("no answer")
	}
	return ""
}

// message is what came over the wire, loosely read.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

func parse(t testing.TB, line string) message {
	t.Helper()
	var m message
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("not JSON: %v: %q", err, line)
	}
	if m.Version != "2.0" {
		t.Fatalf("not JSON-RPC: %q", line)
	}
	return m
}

func (p *pipe) next() message {
	p.t.Helper()
	return parse(p.t, p.line())
}

const (
	initialize  = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"9"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	modernMeta  = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"9"},"io.modelcontextprotocol/clientCapabilities":{}}`
)

func (p *pipe) initialize() {
	p.t.Helper()
	p.send(initialize)
	if m := p.next(); m.Error != nil {
		p.t.Fatalf("initialize: %+v", m.Error)
	}
	p.send(initialized)
}

func callLine(id any, name, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name, args)
}

// do sends an HTTP request and returns status and body.
func do(t testing.TB, method, url, body string, header ...string) (int, string, http.Header) {
	t.Helper()
	res := start(t, t.Context(), method, url, body, header...)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return res.StatusCode, string(data), res.Header
}

// head is do without the body, which may be a stream that does not end.
func head(t testing.TB, method, url, body string, header ...string) (int, http.Header) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res := start(t, ctx, method, url, body, header...)
	defer res.Body.Close()
	return res.StatusCode, res.Header
}

// client has no idle connections to leak.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func start(t testing.TB, ctx context.Context, method, url, body string, header ...string) *http.Response {
	t.Helper()
	res, err := client.Do(request(t, ctx, method, url, body, header...))
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return res
}

func request(t testing.TB, ctx context.Context, method, url, body string, header ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	} else {
		req.Header.Set("Accept", "text/event-stream")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Del(header[i])
		if header[i+1] != "" {
			req.Header.Add(header[i], header[i+1])
		}
	}
	return req
}

// modernHeaders of a call.
func modernHeaders(method, name string) []string {
	return []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name}
}

func modernCall(name, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s,%s}}`, name, args, modernMeta)
}

// openSession begins a streamable session and returns its id.
func openSession(t testing.TB, base string) string {
	t.Helper()
	status, body, h := do(t, "POST", base+"/mcp", initialize)
	if status != 200 || h.Get("Mcp-Session-Id") == "" {
		t.Fatalf("initialize = %d %s", status, body)
	}
	id := h.Get("Mcp-Session-Id")
	if status, body, _ := do(t, "POST", base+"/mcp", initialized, "Mcp-Session-Id", id); status != 202 {
		t.Fatalf("initialized = %d %s", status, body)
	}
	return id
}

// eventData returns the JSON of the first message event in a body, or the body.
func eventData(body string) string {
	for l := range strings.Lines(body) {
		if d, ok := strings.CutPrefix(l, "data: "); ok && strings.HasPrefix(d, "{") {
			return strings.TrimSpace(d)
		}
	}
	return body
}

// sse is a raw client of the older HTTP transport.
type sse struct {
	t      testing.TB
	post   string // where messages go
	events chan string
	drop   context.CancelFunc
}

func openSSE(t testing.TB, base string, header ...string) *sse {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	res := start(t, ctx, "GET", base+"/sse", "", header...)
	if res.StatusCode != 200 {
		t.Fatalf("GET /sse = %d", res.StatusCode)
	}
	c := &sse{t: t, events: make(chan string, 100), drop: cancel}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(c.events)
		defer res.Body.Close()
		b := bufio.NewScanner(res.Body)
		b.Buffer(nil, 1<<26)
		for b.Scan() {
			if d, ok := bytes.CutPrefix(b.Bytes(), []byte("data: ")); ok {
				c.events <- string(d)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	c.post = base + c.event()
	return c
}

func (c *sse) event() string {
	c.t.Helper()
	select {
	case e, ok := <-c.events:
		if !ok {
			c.t.Fatal("the stream ended")
		}
		return e
	case <-time.After(20 * time.Second):
		c.t.Fatal("no event")
	}
	return ""
}

func (c *sse) send(body string) {
	c.t.Helper()
	if status, text, _ := do(c.t, "POST", c.post, body); status != 202 {
		c.t.Fatalf("POST to the session = %d %s", status, text)
	}
}

func (c *sse) initialize() {
	c.t.Helper()
	c.send(initialize)
	c.event()
	c.send(initialized)
}

// era is a transport with a protocol version, as the SDK's client speaks it.
type era struct {
	transport, version string
}

func (e era) String() string { return e.transport + " " + e.version }

var eras = []era{
	{"stdio", "2024-11-05"},
	{"stdio", "2025-06-18"},
	{"stdio", "2026-07-28"},
	{"http", "2025-03-26"},
	{"http", "2025-11-25"},
	{"http", "2026-07-28"},
	{"sse", "2024-11-05"},
	{"sse", "2025-06-18"},
}

// connect makes an SDK client of the era.
func (r *rig) connect(t testing.TB, e era, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	return r.connectAs(t, e, mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "0.1"}, opts))
}

func (r *rig) connectAs(t testing.TB, e era, c *mcp.Client) *mcp.ClientSession {
	t.Helper()
	var tr mcp.Transport
	switch e.transport {
	case "stdio":
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		done := make(chan error, 1)
		var out io.Writer = outW
		if r.slow != nil {
			out = slowWriter{outW, r.slow}
		}
		go func() { done <- r.ServeStdio(context.Background(), inR, out); outW.Close() }()
		t.Cleanup(func() {
			inW.Close()
			if err := <-done; err != nil {
				t.Errorf("ServeStdio = %v, want nil", err)
			}
		})
		tr = &mcp.IOTransport{Reader: outR, Writer: inW}
	case "http":
		base, _ := r.serve(t)
		tr = &mcp.StreamableClientTransport{Endpoint: base + "/mcp?project=by-url", HTTPClient: client, MaxRetries: -1}
	case "sse":
		base, _ := r.serve(t)
		tr = &mcp.SSEClientTransport{Endpoint: base + "/sse?project=by-url", HTTPClient: client}
	}
	sess, err := c.Connect(t.Context(), tr, &mcp.ClientSessionOptions{ProtocolVersion: e.version})
	if err != nil {
		t.Fatalf("connect %s: %v", e, err)
	}
	t.Cleanup(func() { _ = sess.Close() })
	return sess
}

// wantCause waits for the end of a tool's context.
func (r *rig) wantCause(t testing.TB, want error) {
	t.Helper()
	select {
	case got := <-r.ended:
		if !errors.Is(got, want) {
			t.Errorf("the handler's context ended with %v, want %v", got, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("the handler's context did not end; want %v", want)
	}
}

// wait takes one value, or fails the test.
func wait[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("waited in vain for %s", what)
	}
	panic("unreachable")
}

// outlived is the output of a test, for those who may say something when it has
// ended: a connection of the SDK's that closes late.
type outlived struct {
	mu sync.Mutex
	to io.Writer // guarded by mu; nil: the test has ended
}

func outputOf(t testing.TB) *outlived {
	o := &outlived{to: t.Output()}
	t.Cleanup(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.to = nil
	})
	return o
}

func (o *outlived) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.to == nil {
		return len(p), nil
	}
	return o.to.Write(p)
}
