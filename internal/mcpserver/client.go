package mcpserver

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/localsock"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// Client calls the tools of a running server of ours, over HTTP without a session
// or over a connection that has one. Results and schemas come back byte for byte, which the SDK's client
// does not do: it reads numbers as float64 and forgets the order of keys.
//
// A Client is safe for concurrent use.
type Client struct {
	opts   DialOptions
	url    string
	http   *http.Client
	meta   map[string]any
	nextID atomic.Int64

	turn  sync.Mutex    // held by a call over a connection
	conn  net.Conn      // nil: over HTTP
	lines *bufio.Reader // of conn

	// Server and Version are what the other end says it is.
	Server, Version string
}

// DialOptions say who calls.
type DialOptions struct {
	Name, Version string // of the client
	Agent         string // label of the agent inside it, or ""
	Project       string // project id or path for every call, or ""
	Token         string // the server's, or ""

	// Progress hears how far a call is; nil: nobody wants to know.
	Progress func(done, total float64, message string)
}

// Dial asks the server at url, such as http://127.0.0.1:8720/mcp, who it is.
// Where the system can tell, nothing is said to a process of another user of
// this machine. Close the client when done.
func Dial(ctx context.Context, url string, opts DialOptions) (*Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = dialOwn
	c := &Client{opts: opts, url: url, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token is for url alone
	}}
	if err := c.discover(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("connect to %s: %w", url, err)
	}
	return c, nil
}

// Attach is Dial for a connection that speaks MCP, one message a line; lines is
// what is read of it. Calls take turns. Close closes the connection.
func Attach(ctx context.Context, conn net.Conn, lines *bufio.Reader, opts DialOptions) (*Client, error) {
	c := &Client{opts: opts, conn: conn, lines: lines}
	if err := c.discover(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("greet the server: %w", err)
	}
	return c, nil
}

// discover asks the server who it is.
func (c *Client) discover(ctx context.Context) error {
	opts := c.opts
	c.meta = map[string]any{
		mcp.MetaKeyProtocolVersion:    modernVersion,
		mcp.MetaKeyClientInfo:         mcp.Implementation{Name: cmp.Or(opts.Name, "unknown"), Version: opts.Version},
		mcp.MetaKeyClientCapabilities: map[string]any{},
	}
	if opts.Agent != "" {
		c.meta[metaAgent] = opts.Agent
	}
	if opts.Project != "" {
		c.meta[metaProject] = opts.Project
	}
	raw, err := c.call(ctx, "server/discover", "", nil)
	if err != nil {
		return err
	}
	var found struct {
		Meta map[string]struct{ Name, Version string } `json:"_meta"`
	}
	if json.Unmarshal(raw, &found) == nil {
		info := found.Meta[mcp.MetaKeyServerInfo]
		c.Server, c.Version = info.Name, info.Version
	}
	return nil
}

// dialOwn connects, and hangs up on a local process that is not our user's
// before anything is sent: whoever is first may listen on a port.
func dialOwn(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: 30 * time.Second}
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	uid, err := localsock.AcceptorUID(ctx, conn)
	switch {
	case errors.Is(err, localsock.ErrUnsupported), errors.Is(err, localsock.ErrNotLocal):
		return conn, nil
	case err != nil:
		err = fmt.Errorf("cannot tell whose process answers on %s, so nothing was sent to it: %w", addr, err)
	case uid != os.Getuid():
		err = fmt.Errorf("the process on %s belongs to user %d, not to you (user %d), so nothing was sent to it", addr, uid, os.Getuid())
	default:
		return conn, nil
	}
	return nil, errors.Join(err, conn.Close())
}

// Close drops idle connections.
func (c *Client) Close() {
	if c.conn != nil {
		_ = c.conn.Close() // every answer has come
		return
	}
	c.http.CloseIdleConnections()
}

// ToolInfo is a tool as the server lists it.
type ToolInfo struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  json.RawMessage `json:"annotations,omitempty"`
}

// Tools lists the tools in the server's order.
func (c *Client) Tools(ctx context.Context) ([]ToolInfo, error) {
	var all []ToolInfo
	var cursor map[string]any
	for {
		raw, err := c.call(ctx, "tools/list", "", cursor)
		if err != nil {
			return nil, fmt.Errorf("list tools: %w", err)
		}
		var page struct {
			Tools      []ToolInfo `json:"tools"`
			NextCursor string     `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, fmt.Errorf("list tools: %w", err)
		}
		all = append(all, page.Tools...)
		if page.NextCursor == "" {
			return all, nil
		}
		cursor = map[string]any{"cursor": page.NextCursor}
	}
}

// Call calls a tool with one JSON object. The error is about the call itself,
// such as an unknown tool; what the tool says of a failure is in the result.
func (c *Client) Call(ctx context.Context, name string, args json.RawMessage) (tool.Result, error) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	raw, err := c.call(ctx, "tools/call", name, map[string]any{"name": name, "arguments": args})
	if err != nil {
		return tool.Result{}, fmt.Errorf("call %s: %w", name, err)
	}
	var res struct {
		StructuredContent json.RawMessage `json:"structuredContent"`
		IsError           bool            `json:"isError"`
	}
	if err := json.Unmarshal(raw, &res); err != nil {
		return tool.Result{}, fmt.Errorf("call %s: %w", name, err)
	}
	out := tool.Result{Body: res.StructuredContent, IsError: res.IsError, Status: tool.OK}
	var head struct {
		Status string     `json:"status"`
		Code   fault.Code `json:"error_code"`
	}
	if json.Unmarshal(out.Body, &head) == nil {
		out.Status, out.Code = cmp.Or(head.Status, out.Status), head.Code
	}
	return out, nil
}

// call makes one request and returns the raw result.
func (c *Client) call(ctx context.Context, method, name string, params map[string]any) (json.RawMessage, error) {
	id := c.nextID.Add(1)
	meta := c.meta
	if c.opts.Progress != nil && method == "tools/call" {
		meta = maps.Clone(c.meta)
		meta["progressToken"] = id
	}
	all := map[string]any{"_meta": meta}
	maps.Copy(all, params)
	body, err := tool.Encode(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": all})
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	if c.conn != nil {
		return c.callLine(ctx, id, body)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	h := req.Header
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, "+eventStream)
	h.Set(versionHeader, modernVersion)
	h.Set("Mcp-Method", method)
	if name != "" {
		h.Set("Mcp-Name", name)
	}
	if c.opts.Token != "" {
		h.Set("Authorization", "Bearer "+c.opts.Token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return c.readAnswer(res)
}

// callLine makes one request on the connection.
func (c *Client) callLine(ctx context.Context, id int64, body []byte) (json.RawMessage, error) {
	c.turn.Lock()
	defer c.turn.Unlock()
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := c.conn.Write(append(body, '\n')); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	for {
		line, err := c.lines.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("read answer: %w", err)
		}
		var r struct {
			ID json.Number `json:"id"`
			reply
		}
		if json.Unmarshal(line, &r) != nil {
			continue // a question to the client, whose id may be anything
		}
		switch {
		case r.Method == "notifications/progress" && c.opts.Progress != nil:
			c.opts.Progress(r.Params.Progress, r.Params.Total, r.Params.Message)
		case r.Method != "" || r.ID != json.Number(strconv.FormatInt(id, 10)):
		case r.Error != nil:
			return nil, r.Error
		default:
			return r.Result, nil
		}
	}
}

// reply is any message the server sends in reply to a request.
type reply struct {
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *jsonrpc.Error  `json:"error"`
	Params struct {
		Progress, Total float64
		Message         string
	} `json:"params"`
}

func (c *Client) readAnswer(res *http.Response) (json.RawMessage, error) {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if kind == eventStream {
		return c.readEvents(res.Body)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	var r reply
	if kind != "application/json" || json.Unmarshal(body, &r) != nil || r.Error == nil && r.Result == nil {
		return nil, fmt.Errorf("%s: %s", res.Status, clip(strings.TrimSpace(string(body)), 300))
	}
	if r.Error != nil {
		return nil, r.Error
	}
	return r.Result, nil
}

// readEvents reads server-sent events up to the answer.
func (c *Client) readEvents(body io.Reader) (json.RawMessage, error) {
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			var r reply
			if err := json.Unmarshal(bytes.TrimSpace(data), &r); err != nil {
				return nil, fmt.Errorf("read answer: %w", err)
			}
			switch {
			case r.Error != nil:
				return nil, r.Error
			case r.Result != nil:
				return r.Result, nil
			case r.Method == "notifications/progress" && c.opts.Progress != nil:
				c.opts.Progress(r.Params.Progress, r.Params.Total, r.Params.Message)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the server closed the connection before it answered")
		}
		if err != nil {
			return nil, fmt.Errorf("read answer: %w", err)
		}
	}
}
