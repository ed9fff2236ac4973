package mcpserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/schema"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// The SDK knows one resource and one prompt, which carry the requests for all of
// ours, as anyTool does for tools. It would match addresses one template after
// the other, and leave out the text of an empty file.
var (
	anyResource = &mcp.Resource{Name: "any", URI: "async-crud-mcp:any"}
	anyPrompt   = &mcp.Prompt{Name: "any"}
)

// shelf is the library in force, with what is listed of it.
type shelf struct {
	lib       *tool.Library
	resources map[string]*mcp.Resource         // by name; those with one address
	templates map[string]*mcp.ResourceTemplate // by name
	prompts   map[string]*mcp.Prompt           // by name
}

func newShelf(lib *tool.Library) *shelf {
	sh := &shelf{
		lib: lib, resources: make(map[string]*mcp.Resource),
		templates: make(map[string]*mcp.ResourceTemplate), prompts: make(map[string]*mcp.Prompt),
	}
	for _, r := range lib.Resources() {
		if r.Template != "" {
			sh.templates[r.Name] = &mcp.ResourceTemplate{Name: r.Name, Title: r.Title, Description: r.Doc, MIMEType: r.MIME, URITemplate: r.Template}
		} else {
			sh.resources[r.Name] = &mcp.Resource{Name: r.Name, Title: r.Title, Description: r.Doc, MIMEType: r.MIME, URI: r.URI}
		}
	}
	for _, p := range lib.Prompts() {
		listed := &mcp.Prompt{Name: p.Name, Title: p.Title, Description: p.Doc}
		for _, a := range p.Arguments {
			listed.Arguments = append(listed.Arguments, &mcp.PromptArgument{Name: a.Name, Description: a.Doc, Required: a.Required})
		}
		sh.prompts[p.Name] = listed
	}
	return sh
}

// SetLibrary replaces the resources and prompts on offer. Clients are told of each
// list that differs from before; requests under way go on with what they found.
// Subscribers hear nothing of what is not on offer any more.
func (s *Server) SetLibrary(lib *tool.Library) {
	s.changing.Lock()
	defer s.changing.Unlock()
	next := newShelf(lib)
	before := s.shelf.Swap(next)
	if before == nil || !reflect.DeepEqual(before.resources, next.resources) || !reflect.DeepEqual(before.templates, next.templates) {
		s.ResourceListChanged()
	}
	if before == nil || !reflect.DeepEqual(before.prompts, next.prompts) {
		s.mcp.AddPrompt(anyPrompt, s.handlePrompt) // the SDK announces whatever is added
	}
}

// ResourceListChanged tells clients that what a resource lists differs from before.
func (s *Server) ResourceListChanged() { s.mcp.AddResource(anyResource, s.handleRead) }

// receiveOther takes every request that is not about tools.
func (s *Server) receiveOther(ctx context.Context, sess *session, p *post, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	sh := s.shelf.Load()
	if sh == nil {
		return next(ctx, method, req)
	}
	switch req := req.(type) {
	case *mcp.ListResourcesRequest:
		return s.listResources(ctx, sess, sh, p, req, next)
	case *mcp.ListResourceTemplatesRequest:
		return s.listTemplates(ctx, sess, sh, req, next)
	case *mcp.ReadResourceRequest:
		return s.readResource(ctx, sess, sh, p, req, next)
	case *mcp.ListPromptsRequest:
		return s.listPrompts(ctx, sess, sh, req, next)
	case *mcp.GetPromptRequest:
		return s.getPrompt(ctx, sess, sh, p, req, next)
	case *mcp.CompleteRequest:
		a := sess.asks(ctx, req, p)
		defer a.finish()
		return next(context.WithValue(caller.With(ctx, a.caller), completionKey{}, &completion{sess, sh}), method, req)
	case *mcp.SubscribeRequest:
		return s.subscribe(ctx, sess, sh, p, req, next)
	case *mcp.UnsubscribeRequest:
		return s.unsubscribe(ctx, sess, req, next)
	case *mcp.SubscriptionsListenRequest:
		return s.listen(ctx, sess, sh, p, req, next)
	default:
		return next(ctx, method, req)
	}
}

// listResources lists the resources with one address, and what those with a
// template list.
func (s *Server) listResources(ctx context.Context, sess *session, sh *shelf, p *post, req *mcp.ListResourcesRequest, next mcp.MethodHandler) (mcp.Result, error) {
	if req.Params == nil {
		req.Params = &mcp.ListResourcesParams{}
	}
	res, err := next(ctx, "resources/list", req)
	list, ok := res.(*mcp.ListResourcesResult)
	if err != nil || !ok {
		return res, err
	}
	a := sess.asks(ctx, req, p)
	defer a.finish()
	all := []*mcp.Resource{} // never null
	for _, r := range sh.lib.Resources() {
		switch {
		case !s.allowsResource(sess, r):
		case r.Template == "":
			all = append(all, sh.resources[r.Name])
		case r.List != nil:
			found, err := r.List(caller.With(ctx, a.caller))
			if err != nil { // without a project, most likely; the other resources are there all the same
				s.log.Debug("a resource lists nothing", "resource", r.Name, "err", err)
			}
			for _, l := range found {
				all = append(all, &mcp.Resource{URI: l.URI, Name: l.Name, Title: l.Title, Description: l.Doc, MIMEType: l.MIME, Size: l.Size})
			}
		}
	}
	list.Resources = append(all, slices.DeleteFunc(list.Resources, func(r *mcp.Resource) bool { return r == anyResource })...)
	return list, nil
}

// listTemplates lists the resources with a template.
func (s *Server) listTemplates(ctx context.Context, sess *session, sh *shelf, req *mcp.ListResourceTemplatesRequest, next mcp.MethodHandler) (mcp.Result, error) {
	res, err := next(ctx, "resources/templates/list", req)
	list, ok := res.(*mcp.ListResourceTemplatesResult)
	if err != nil || !ok {
		return res, err
	}
	all := []*mcp.ResourceTemplate{}
	for _, r := range sh.lib.Resources() {
		if r.Template != "" && s.allowsResource(sess, r) {
			all = append(all, sh.templates[r.Name])
		}
	}
	list.ResourceTemplates = append(all, list.ResourceTemplates...) // those of the SDK are fixtures
	return list, nil
}

// at returns the resource of an address, if the session may have it.
func (sh *shelf) at(sess *session, uri string) (*tool.Resource, tool.Ref) {
	r, ref := sh.lib.At(uri)
	if r == nil || !sess.srv.allowsResource(sess, r) {
		return nil, ref
	}
	return r, ref
}

// allowsResource reports whether the session may have r: its toolset, and the tool
// that it stands beside, be it switched off for all or for this session.
func (s *Server) allowsResource(sess *session, r *tool.Resource) bool {
	if r.Beside != "" {
		set := s.tools.Load().set
		if t := set.Lookup(r.Beside); t == nil || !sess.allows(set, t) {
			return false
		}
	}
	return sess.allowsToolset(r.Toolset)
}

// reading is one resources/read on its way through the SDK to handleRead and back.
type reading struct {
	lib      *tool.Library
	resource *tool.Resource
	ref      tool.Ref
	asking   *asking
	contents []tool.Content
	asked    bool // the client was asked back
}

type readingKey struct{}

func (r *reading) subject() []string { return []string{"resources/read", r.ref.URI} }

// readResource has the SDK dispatch the read of one of our resources, and renders
// the result.
func (s *Server) readResource(ctx context.Context, sess *session, sh *shelf, p *post, req *mcp.ReadResourceRequest, next mcp.MethodHandler) (mcp.Result, error) {
	a := sess.asks(ctx, req, p)
	defer a.finish()
	uri := req.Params.URI
	r, ref := sh.at(sess, uri)
	if r == nil {
		res, err := next(ctx, "resources/read", req)
		if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e.Message == resourceNotFound {
			return nil, a.notFound(uri)
		}
		return res, err
	}
	reading := &reading{lib: sh.lib, resource: r, ref: ref, asking: a}
	if err := a.open(s, reading.subject, req.Params.RequestState, req.Params.InputResponses); err != nil {
		return nil, err
	}
	req.Params.URI = anyResource.URI
	res, err := next(context.WithValue(ctx, readingKey{}, reading), "resources/read", req)
	if err != nil || reading.asked {
		return res, err
	}
	out := &readResult{uri: uri, mime: r.MIME, contents: reading.contents}
	if a.modern {
		out.Meta, out.meta = s.info, s.infoRaw
	}
	return out, nil
}

// handleRead makes the read that readResource prepared.
func (s *Server) handleRead(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	r, ok := ctx.Value(readingKey{}).(*reading)
	if !ok { // a client that reads anyResource by its address
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	res := &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{}}
	var err error
	r.contents, err = r.lib.Read(caller.With(ctx, r.asking.caller), r.resource, r.ref)
	if need, ok := errors.AsType[*caller.NeedInput](err); ok {
		r.asked = true
		res.InputRequests, res.RequestState, err = s.askBack(r.subject, need, r.asking.answers)
		return res, err
	}
	if err != nil {
		return nil, r.asking.failed(r.ref.URI, err)
	}
	return res, nil
}

// resourceNotFound is what the SDK says of an address that it does not know.
const resourceNotFound = "Resource not found"

// The protocol's own code for an address that nothing is at, up to 2025-11-25.
// Later versions count it among the invalid parameters.
const codeNotFound = -32002

func (a *asking) notFound(uri string) error {
	return a.failed(uri, fault.New(fault.FileNotFound, "nothing is at %s", clip(uri, 200)).
		With("next", "resources/list and resources/templates/list say what there is."))
}

// failed turns a fault into an error of the protocol: not found, the client's
// mistake, or ours. The envelope that a tool would answer with comes along.
func (a *asking) failed(uri string, err error) error {
	f := fault.From(err)
	out := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: string(f.Code) + ": " + f.Text()}
	switch info := fault.Describe(f.Code); {
	case info.HTTP == 404 && uri != "" && !a.modern:
		out.Code = codeNotFound
	case info.Retry || info.HTTP >= 500:
		out.Code = jsonrpc.CodeInternalError
	}
	env := tool.Failure(f)
	if data, err := tool.Encode(struct {
		URI string `json:"uri,omitempty"`
		tool.Envelope
	}{uri, env}); err == nil { // details that JSON cannot hold are left out
		out.Data = data
	}
	return out
}

// readResult is what was read, on the wire. It replaces the SDK's own type, which
// leaves out a text that is empty.
type readResult struct {
	mcp.ResultBase
	uri, mime string
	contents  []tool.Content
	meta      json.RawMessage // the SDK's _meta of the modern era, rendered; nil: an older client
}

// MarshalJSON implements json.Marshaler.
func (r *readResult) MarshalJSON() ([]byte, error) {
	size := 256
	for _, c := range r.contents {
		size += len(c.Text) + len(c.Text)/8 + base64.StdEncoding.EncodedLen(len(c.Blob)) + len(r.uri) + 256
	}
	b := append(make([]byte, 0, size), `{"contents":[`...)
	for i, c := range r.contents {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"uri":`...)
		b = tool.AppendString(b, valid(first(c.URI, r.uri)))
		if mime := first(c.MIME, r.mime); mime != "" {
			b = tool.AppendString(append(b, `,"mimeType":`...), valid(mime))
		}
		if c.Blob != nil {
			b = append(b, `,"blob":"`...)
			b = append(base64.StdEncoding.AppendEncode(b, c.Blob), '"')
		} else {
			b = tool.AppendString(append(b, `,"text":`...), valid(c.Text))
		}
		if len(c.Meta) > 0 {
			meta, err := tool.Encode(c.Meta)
			if err != nil {
				return nil, fmt.Errorf("encode content: %w", err)
			}
			b = append(append(b, `,"_meta":`...), meta...)
		}
		b = append(b, '}')
	}
	b = append(b, ']')
	if r.meta != nil {
		b = append(b, `,"ttlMs":0,"cacheScope":"private","resultType":"complete","_meta":`...)
		b = append(b, r.meta...)
	}
	return append(b, '}'), nil
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// listPrompts lists the prompts.
func (s *Server) listPrompts(ctx context.Context, sess *session, sh *shelf, req *mcp.ListPromptsRequest, next mcp.MethodHandler) (mcp.Result, error) {
	res, err := next(ctx, "prompts/list", req)
	list, ok := res.(*mcp.ListPromptsResult)
	if err != nil || !ok {
		return res, err
	}
	all := []*mcp.Prompt{}
	for _, p := range sh.lib.Prompts() {
		if sess.allowsToolset(p.Toolset) {
			all = append(all, sh.prompts[p.Name])
		}
	}
	list.Prompts = append(all, slices.DeleteFunc(list.Prompts, func(p *mcp.Prompt) bool { return p == anyPrompt })...)
	return list, nil
}

// prompting is one prompts/get on its way through the SDK to handlePrompt.
type prompting struct {
	lib    *tool.Library
	prompt *tool.Prompt
	asking *asking
	args   map[string]string
}

type promptingKey struct{}

func (p *prompting) subject() []string {
	about := []string{"prompts/get", p.prompt.Name}
	for _, name := range slices.Sorted(maps.Keys(p.args)) {
		about = append(about, name, p.args[name])
	}
	return about
}

// getPrompt finds the prompt in any spelling and has the SDK dispatch the request.
func (s *Server) getPrompt(ctx context.Context, sess *session, sh *shelf, p *post, req *mcp.GetPromptRequest, next mcp.MethodHandler) (mcp.Result, error) {
	a := sess.asks(ctx, req, p)
	defer a.finish()
	name := req.Params.Name
	prompt := sh.lib.Prompt(name)
	if prompt == nil || !sess.allowsToolset(prompt.Toolset) {
		res, err := next(ctx, "prompts/get", req)
		if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e.Message == unknownPrompt(name) {
			var names []string
			for _, p := range sh.lib.Prompts() {
				if sess.allowsToolset(p.Toolset) {
					names = append(names, p.Name)
				}
			}
			return nil, unknown("prompt", name, names)
		}
		return res, err
	}
	do := &prompting{lib: sh.lib, prompt: prompt, asking: a, args: req.Params.Arguments}
	if err := a.open(s, do.subject, req.Params.RequestState, req.Params.InputResponses); err != nil {
		return nil, err
	}
	req.Params.Name = anyPrompt.Name
	return next(context.WithValue(ctx, promptingKey{}, do), "prompts/get", req)
}

// unknownPrompt is what the SDK says of a name that it does not know.
func unknownPrompt(name string) string { return fmt.Sprintf("unknown prompt %q", name) }

// handlePrompt renders what getPrompt prepared.
func (s *Server) handlePrompt(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	p, ok := ctx.Value(promptingKey{}).(*prompting)
	if !ok { // a client that asks for anyPrompt by its name
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: unknownPrompt(req.Params.Name)}
	}
	res := &mcp.GetPromptResult{Description: p.prompt.Doc}
	messages, err := p.lib.Render(caller.With(ctx, p.asking.caller), p.prompt, p.args)
	if need, ok := errors.AsType[*caller.NeedInput](err); ok {
		res = &mcp.GetPromptResult{}
		res.InputRequests, res.RequestState, err = s.askBack(p.subject, need, p.asking.answers)
		return res, err
	}
	if err != nil {
		return nil, p.asking.failed("", err)
	}
	res.Messages = []*mcp.PromptMessage{} // never null
	for _, m := range messages {
		role := mcp.Role("user")
		if m.Assistant {
			role = "assistant"
		}
		res.Messages = append(res.Messages, &mcp.PromptMessage{Role: role, Content: &mcp.TextContent{Text: valid(m.Text)}})
	}
	return res, nil
}

// completion is who asks how a value could go on.
type completion struct {
	sess  *session
	shelf *shelf
}

type completionKey struct{}

// maxCompletions is how many values the protocol lets an answer have.
const maxCompletions = 100

// complete is called by the SDK, with what receiveOther put into ctx.
func (s *Server) complete(ctx context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	c := ctx.Value(completionKey{}).(*completion)
	p := req.Params
	ask := tool.Completion{Name: p.Argument.Name, Value: p.Argument.Value}
	if p.Context != nil {
		ask.Known = p.Context.Arguments
	}
	propose, err := c.find(p.Ref, ask.Name)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	out := mcp.CompletionResultDetails{Values: []string{}}
	if propose != nil {
		values, err := propose(ctx, ask)
		if err != nil { // nothing can be proposed where nothing could be read
			s.log.Debug("no completion", "argument", ask.Name, "err", err)
		}
		out.Total, out.HasMore = len(values), len(values) > maxCompletions
		out.Values = append(out.Values, values[:min(len(values), maxCompletions)]...)
	}
	return &mcp.CompleteResult{Completion: out}, nil
}

// find returns what completes an argument; nil if nothing does.
func (c *completion) find(ref *mcp.CompleteReference, name string) (func(context.Context, tool.Completion) ([]string, error), error) {
	if ref.Type == "ref/prompt" {
		p := c.shelf.lib.Prompt(ref.Name)
		if p == nil || !c.sess.allowsToolset(p.Toolset) {
			return nil, fmt.Errorf("unknown prompt %q", clip(ref.Name, 100))
		}
		a := p.Argument(name)
		if a == nil {
			return nil, fmt.Errorf("prompt %s has no argument %q", p.Name, clip(name, 100))
		}
		return a.Complete, nil
	}
	r := c.shelf.lib.Declared(ref.URI)
	if r == nil || !c.sess.srv.allowsResource(c.sess, r) {
		return nil, fmt.Errorf("unknown resource %q; name it by its template", clip(ref.URI, 200))
	}
	if !slices.Contains(r.Variables(), name) {
		return nil, fmt.Errorf("%s has no variable %q", r.Address(), clip(name, 100))
	}
	return r.Complete, nil
}

// unknown says that nothing has this name, and which name comes near.
func unknown(what, name string, names []string) error {
	message := fmt.Sprintf("unknown %s %q", what, clip(name, 100))
	if near := schema.Nearest(name, names); near != "" {
		message += fmt.Sprintf("; did you mean %q?", near)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: message}
}
