package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// What a client may say of itself with a call, beside what the protocol has.
const (
	metaAgent   = "async-crud-mcp/agent"   // label of the agent inside the client
	metaThread  = "async-crud-mcp/thread"  // id of the conversation
	metaProject = "async-crud-mcp/project" // project id or path
	hostThread  = "threadId"               // the same as metaThread, as Codex says it
	agentHeader = "X-Async-Crud-Agent"     // the same as metaAgent, on HTTP
)

// receive is the SDK's way to us for every request and notification.
func (s *Server) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (res mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.log.Error("request panicked", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				res, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error; the server log has the details"}
			}
		}()
		if strings.HasPrefix(method, "notifications/") {
			return next(ctx, method, req)
		}
		sess, _ := ctx.Value(sessionKey{}).(*session)
		if method == "initialize" {
			return s.initialize(ctx, sess, req, next)
		}
		p := sess.postOf(req.GetExtra())
		if p != nil {
			p.stream.keepCompany(s.headerDelay, s.beat)
		}
		ctx, release := sess.bind(ctx, p)
		defer release()
		switch method {
		case "tools/call":
			res, err = s.callTool(ctx, sess, p, req.(*mcp.CallToolRequest), next)
		case "tools/list":
			res, err = s.listTools(ctx, sess, req, next)
		default:
			res, err = s.receiveOther(ctx, sess, p, method, req, next)
		}
		return res, coded(err)
	}
}

// bind ties ctx to everything that ends a call: beside what the SDK knows, the
// POST that brought it and the session.
func (sess *session) bind(ctx context.Context, p *post) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	end := func(of context.Context) func() bool {
		return context.AfterFunc(of, func() { cancel(context.Cause(of)) })
	}
	first, second := end(sess.ctx), func() bool { return true }
	if p != nil {
		second = end(p.ctx)
	}
	return ctx, func() {
		first()
		second()
		cancel(nil)
	}
}

// coded gives every error a code; the SDK sends 0 for those without.
func coded(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e.Code != 0 {
		return err
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
}

// initialize settles the protocol version and begins a streamable session.
func (s *Server) initialize(ctx context.Context, sess *session, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	if p, ok := req.GetParams().(*mcp.InitializeParams); ok && p.ProtocolVersion >= modernVersion {
		// A version without initialize cannot be meant. The SDK would agree on an
		// older one and still treat the client as one of the newer era.
		p.ProtocolVersion = lastSSEVersion
	}
	res, err := next(ctx, "initialize", req)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
	}
	if r, ok := res.(*mcp.InitializeResult); ok {
		sess.setProtocol(r.ProtocolVersion)
	}
	if sdk := req.GetSession().(*mcp.ServerSession); sdk.ID() != "" && !sess.begin(sdk, sdk.ID()) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: errShutdown.Error()}
	}
	return res, nil
}

// listTools lists what the session may call, in the order of the set.
func (s *Server) listTools(ctx context.Context, sess *session, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	res, err := next(ctx, "tools/list", req)
	list, ok := res.(*mcp.ListToolsResult)
	if err != nil || !ok {
		return res, err
	}
	o := s.tools.Load()
	tools := []*mcp.Tool{} // never null
	for _, t := range o.set.Tools() {
		if sess.allows(o.set, t) {
			tools = append(tools, o.listed[t.Name])
		}
	}
	for _, t := range list.Tools {
		if t != anyTool {
			tools = append(tools, t) // a fixture of the conformance suites
		}
	}
	list.Tools = tools
	return list, nil
}

// toolCall is one tools/call on its way through the SDK to handleTool and back.
type toolCall struct {
	offer  *offer
	tool   *tool.Tool
	asking *asking
	result tool.Result
}

type toolCallKey struct{}

// callTool finds the tool in any spelling, has the SDK dispatch the call and
// renders the result.
func (s *Server) callTool(ctx context.Context, sess *session, p *post, req *mcp.CallToolRequest, next mcp.MethodHandler) (mcp.Result, error) {
	o := s.tools.Load()
	name := req.Params.Name
	t := o.set.Lookup(name)
	switch {
	case t == nil:
		res, err := next(ctx, "tools/call", req)
		if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e.Message == fmt.Sprintf("unknown tool %q", name) {
			return nil, refused(ctx, sess, p, req, o.set)
		}
		return res, err
	case !sess.allows(o.set, t):
		return nil, refused(ctx, sess, p, req, o.set)
	}
	req.Params.Name = t.Name

	a := sess.asks(ctx, req, p)
	if err := a.open(s, callSubject(req.Params), req.Params.RequestState, req.Params.InputResponses); err != nil {
		return nil, err
	}
	call := &toolCall{offer: o, tool: t, asking: a}
	req.Params.Name = anyTool.Name // handleTool gives it back its own
	res, err := next(context.WithValue(ctx, toolCallKey{}, call), "tools/call", req)
	a.finish()
	if err != nil || call.result.Body == nil {
		return res, err
	}
	out := &toolResult{body: call.result.Body, isError: call.result.IsError, link: sess.link}
	if a.modern {
		out.Meta, out.meta = s.info, s.infoRaw
	}
	return out, nil
}

// handleTool runs the call that callTool prepared.
func (s *Server) handleTool(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	call, ok := ctx.Value(toolCallKey{}).(*toolCall)
	if !ok { // a client that calls anyTool by its name
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", req.Params.Name)}
	}
	req.Params.Name = call.tool.Name
	call.result = call.offer.set.Call(caller.With(ctx, call.asking.caller), call.tool, req.Params.Arguments)
	res := &mcp.CallToolResult{}
	if need := call.result.Need; need != nil {
		var err error
		if res.InputRequests, res.RequestState, err = s.askBack(callSubject(req.Params), need, call.asking.answers); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// callSubject is what the answers to questions of a call belong to.
func callSubject(p *mcp.CallToolParamsRaw) subject {
	return func() []string { return []string{"tools/call", p.Name, string(bytes.TrimSpace(p.Arguments))} }
}

// refused answers a call of a tool that is not on offer, and lets observers know.
func refused(ctx context.Context, sess *session, p *post, req *mcp.CallToolRequest, set *tool.Set) error {
	set.Refused(caller.With(ctx, sess.asks(ctx, req, p).caller), req.Params.Name)
	return unknownTool(set, sess, req.Params.Name)
}

func unknownTool(set *tool.Set, sess *session, name string) error {
	var names []string
	for _, t := range set.Tools() {
		if sess.allows(set, t) {
			names = append(names, t.Name)
		}
	}
	return unknown("tool", name, names)
}

// callerOf says who makes a call: what the surroundings know, over that what
// the client said at the beginning, over that what came with the call.
func (sess *session) callerOf(sdk *mcp.ServerSession, extra *mcp.RequestExtra, p *post, meta map[string]any) *caller.Caller {
	c := sess.base
	c.Transport, c.Session = sess.transport, sess.id
	if info, ok := meta[mcp.MetaKeyClientInfo].(map[string]any); ok {
		c.Client, c.Version = label(info["name"]), label(info["version"])
	} else if init := sdk.InitializeParams(); init != nil && init.ClientInfo != nil {
		c.Client, c.Version = label(init.ClientInfo.Name), label(init.ClientInfo.Version)
	}
	header := ""
	if extra != nil {
		header = extra.Header.Get(agentHeader)
	}
	c.Agent = cmp.Or(label(meta[metaAgent]), label(header), c.Agent)
	c.Thread = cmp.Or(label(meta[metaThread]), label(meta[hostThread]), c.Thread)
	if p != nil {
		c.Project = cmp.Or(p.project, c.Project)
	}
	if project, ok := meta[metaProject].(string); ok {
		c.Project = cmp.Or(project, c.Project)
	}
	return &c
}

// label makes a name of what a client sent, fit for logs: one short line.
func label(v any) string {
	s, _ := v.(string)
	plain := func(r rune) bool { return unicode.IsPrint(r) && r != utf8.RuneError }
	if len(s) > 200 || strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		s = strings.Map(func(r rune) rune {
			if plain(r) {
				return r
			}
			return -1
		}, clip(s, 200))
	}
	return s
}

// toolResult is a tool's answer on the wire. It replaces the SDK's own type,
// which escapes text for HTML and encodes the body over again.
type toolResult struct {
	mcp.ResultBase
	body    json.RawMessage
	isError bool
	meta    json.RawMessage // the SDK's _meta of the modern era, rendered; nil: an older client
	link    *link           // writes the result itself; nil: the SDK does
}

// MarshalJSON implements json.Marshaler. The SDK reads whatever comes from here
// once more from end to end, which takes longer than everything else about a
// large result, so where the connection is ours it gets a ticket to carry.
func (r *toolResult) MarshalJSON() ([]byte, error) {
	if r.link != nil {
		return r.link.ticket(r), nil
	}
	return r.append(make([]byte, 0, r.size())), nil
}

// size is about how many bytes append will add.
func (r *toolResult) size() int { return 2*len(r.body) + len(r.body)/8 + len(r.meta) + 128 }

func (r *toolResult) append(b []byte) []byte {
	b = append(b, `{"content":[{"type":"text","text":`...)
	b = tool.AppendString(b, r.body)
	b = append(b, `}],"structuredContent":`...)
	b = append(b, r.body...)
	b = append(b, `,"isError":`...)
	b = strconv.AppendBool(b, r.isError)
	if r.meta != nil {
		b = append(b, `,"resultType":"complete","_meta":`...)
		b = append(b, r.meta...)
	}
	return append(b, '}')
}
