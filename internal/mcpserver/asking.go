package mcpserver

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
)

// asking is who makes a request, and what its handler may ask of the client.
// Clients of the older eras are asked while the request runs. In the modern era
// it ends with the question and is made again with the answer; answers of earlier
// rounds come back with it, signed, in its request state.
type asking struct {
	ctx     context.Context //nolint:containedctx // the request's, which leads messages to its own stream
	sess    *session
	sdk     *mcp.ServerSession
	req     mcp.Request
	caller  *caller.Caller
	modern  bool
	repeats bool // the client makes the request again with what it is asked for
	answers mcp.InputResponseMap

	mu      sync.Mutex
	pending *mcp.ProgressNotificationParams // guarded by mu; the newest not yet sent
	last    float64                         // guarded by mu; how far the call was
	told    bool                            // guarded by mu; last means something
	sender  chan struct{}                   // guarded by mu; closed when the goroutine that sends ends
	over    bool                            // guarded by mu; the call has returned
}

// asks prepares a request: who makes it, and what may be asked meanwhile.
func (sess *session) asks(ctx context.Context, req mcp.Request, p *post) *asking {
	a := &asking{ctx: ctx, sess: sess, sdk: req.GetSession().(*mcp.ServerSession), req: req}
	meta := req.GetParams().GetMeta()
	version, ok := meta[mcp.MetaKeyProtocolVersion].(string)
	if a.modern = ok && version >= modernVersion; !a.modern {
		version = sess.negotiated()
	}
	a.caller = sess.callerOf(a.sdk, req.GetExtra(), p, meta)
	a.caller.Protocol = version
	a.caller.Ask = caller.Ask{Progress: a.progress, Roots: a.roots, Elicit: a.elicit}
	return a
}

// open takes up the answers that a request comes with, which is one that the
// client repeats.
func (a *asking) open(s *Server, about subject, state string, responses mcp.InputResponseMap) error {
	var err error
	if a.answers, err = s.openState(about, state, responses); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	a.repeats = true
	return nil
}

func (a *asking) capabilities() *mcp.ClientCapabilities {
	return a.req.(interface {
		ClientCapabilities() *mcp.ClientCapabilities
	}).ClientCapabilities()
}

// progress hands the newest state to a goroutine that sends it, so that a slow
// client holds nobody up; what it has no time for is skipped. Progress without
// an end in sight grows with every notice, as the protocol wants it.
func (a *asking) progress(_ context.Context, done, total float64, message string) {
	with, ok := a.req.GetParams().(interface{ GetProgressToken() any })
	if !ok {
		return
	}
	token := with.GetProgressToken()
	if token == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	if total <= 0 && a.told {
		done = max(done, a.last+1)
	}
	a.last, a.told = done, true
	a.pending = &mcp.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: max(total, 0), Message: message}
	if a.sender == nil {
		a.sender = make(chan struct{})
		go a.sendProgress(a.sender)
	}
}

func (a *asking) sendProgress(ended chan struct{}) {
	defer close(ended)
	for {
		a.mu.Lock()
		p := a.pending
		a.pending = nil
		if p == nil {
			a.sender = nil
			a.mu.Unlock()
			return
		}
		a.mu.Unlock()
		_ = a.sdk.NotifyProgress(a.ctx, p) // the client may be gone; the call will hear of it
	}
}

// finish waits for progress under way: none may follow the answer.
func (a *asking) finish() {
	a.mu.Lock()
	a.over = true
	sender := a.sender
	a.mu.Unlock()
	if sender != nil {
		<-sender
	}
}

// rootsKey names the question for roots among those of a call.
const rootsKey = "async-crud-mcp/roots"

const (
	// rootsPatience is how long a client may take to say its roots. Then it is
	// taken for one that has none, and is not asked again for rootsPause.
	rootsPatience = 5 * time.Second
	rootsPause    = time.Minute
)

var errNoAnswer = errors.New("the client does not answer")

// roots returns the directories the client offers. They are kept for the
// session until the client says that they changed.
func (a *asking) roots(ctx context.Context) ([]string, error) {
	if known, ok := a.sess.knownRoots(); ok {
		return offered(known)
	}
	if caps := a.capabilities(); caps == nil || caps.RootsV2 == nil || a.modern && !a.repeats {
		return nil, caller.ErrNoRoots
	}
	var list *mcp.ListRootsResult
	if a.modern {
		var ok bool
		if list, ok = a.answers[rootsKey].(*mcp.ListRootsResult); !ok {
			return nil, &caller.NeedInput{Question: caller.Question{Key: rootsKey, Message: "the client's roots"}}
		}
	} else {
		if !a.sess.mayAskRoots() {
			return nil, caller.ErrNoRoots
		}
		ctx, stop := a.during(ctx)
		defer stop()
		ctx, cancel := context.WithTimeoutCause(ctx, rootsPatience, errNoAnswer)
		defer cancel()
		var err error
		switch list, err = a.sdk.ListRoots(ctx, nil); {
		case err != nil && errors.Is(context.Cause(ctx), errNoAnswer):
			a.sess.rootsUnanswered()
			return nil, caller.ErrNoRoots
		case err != nil:
			return nil, fmt.Errorf("ask the client for its roots: %w", err)
		}
	}
	paths := []string{}
	for _, r := range list.Roots {
		if p, ok := rootPath(r.URI, runtime.GOOS == "windows"); ok {
			paths = append(paths, p)
		}
	}
	a.sess.setRoots(paths, true)
	return offered(paths)
}

func offered(paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, caller.ErrNoRoots
	}
	return paths, nil
}

// during joins a handler's context with that of the call, which leads what is
// asked to the stream of the call.
func (a *asking) during(ctx context.Context) (context.Context, func()) {
	joined, cancel := context.WithCancelCause(a.ctx)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return joined, func() {
		stop()
		cancel(nil)
	}
}

// rootPath turns a file URI into an absolute path.
func rootPath(uri string, windows bool) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || u.Path == "" {
		return "", false
	}
	p := u.Path
	if windows {
		p = strings.ReplaceAll(strings.TrimPrefix(p, "/"), "/", `\`)
		return p, len(p) > 2 && p[1] == ':' && p[2] == '\\'
	}
	return filepath.Clean(p), strings.HasPrefix(p, "/") && !strings.Contains(p, "\x00")
}

// rootsChanged is called when a client says that its roots differ.
func (s *Server) rootsChanged(ctx context.Context, _ *mcp.RootsListChangedRequest) {
	sess, _ := ctx.Value(sessionKey{}).(*session)
	sess.setRoots(nil, false)
	if s.opts.RootsChanged != nil {
		s.opts.RootsChanged(sess.id)
	}
}

// elicit asks the person at the client.
func (a *asking) elicit(ctx context.Context, q caller.Question) (caller.Answer, error) {
	caps := a.capabilities()
	if caps == nil || caps.Elicitation == nil || caps.Elicitation.Form == nil && caps.Elicitation.URL != nil || a.modern && !a.repeats {
		return caller.Answer{}, caller.ErrCannotAsk
	}
	var res *mcp.ElicitResult
	if a.modern {
		var ok bool
		if res, ok = a.answers[questionKey(q)].(*mcp.ElicitResult); !ok {
			return caller.Answer{}, &caller.NeedInput{Question: q}
		}
	} else {
		ctx, stop := a.during(ctx)
		defer stop()
		var err error
		if res, err = a.sdk.Elicit(ctx, elicitParams(q)); err != nil {
			return caller.Answer{}, fmt.Errorf("ask the person: %w", err)
		}
	}
	if res.Action != "accept" {
		return caller.Answer{}, nil
	}
	content, err := json.Marshal(res.Content)
	if err != nil {
		return caller.Answer{}, fmt.Errorf("read the person's answer: %w", err)
	}
	return caller.Answer{Accepted: true, Content: content}, nil
}

func questionKey(q caller.Question) string { return cmp.Or(q.Key, "question") }

var noFields = json.RawMessage(`{"type":"object","properties":{}}`)

func elicitParams(q caller.Question) *mcp.ElicitParams {
	fields := q.Schema
	if len(fields) == 0 {
		fields = noFields
	}
	return &mcp.ElicitParams{Mode: "form", Message: q.Message, RequestedSchema: fields}
}

// subject tells a request from others; it is made when it is needed.
type subject func() []string

// askBack ends a request with a question and what was answered before.
func (s *Server) askBack(about subject, need *caller.NeedInput, answers mcp.InputResponseMap) (ask mcp.InputRequestMap, state string, err error) {
	if need.Question.Key == rootsKey {
		ask = mcp.InputRequestMap{rootsKey: &mcp.ListRootsParams{}}
	} else {
		ask = mcp.InputRequestMap{questionKey(need.Question): elicitParams(need.Question)}
	}
	if len(answers) > 0 {
		kept, err := json.Marshal(answers)
		if err != nil {
			return nil, "", fmt.Errorf("keep the answers: %w", err)
		}
		text := base64.RawURLEncoding.EncodeToString(kept)
		state = text + "." + s.sign(about, text)
	}
	return ask, state, nil
}

// openState returns every answer a request comes with: those to the last question
// and those of earlier rounds from its state.
func (s *Server) openState(about subject, requestState string, responses mcp.InputResponseMap) (mcp.InputResponseMap, error) {
	if requestState == "" {
		return responses, nil
	}
	text, mac, _ := strings.Cut(requestState, ".")
	state, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || !hmac.Equal([]byte(mac), []byte(s.sign(about, text))) {
		return nil, errors.New("requestState is not what this server gave for this call; make the call again without it")
	}
	answers := mcp.InputResponseMap{}
	if err := json.Unmarshal(state, &answers); err != nil {
		return nil, fmt.Errorf("requestState: %w", err)
	}
	maps.Copy(answers, responses)
	return answers, nil
}

// sign binds state to this process and to the request it was given for.
func (s *Server) sign(about subject, state string) string {
	h := hmac.New(sha256.New, s.seal[:])
	for _, part := range append(about(), state) {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
