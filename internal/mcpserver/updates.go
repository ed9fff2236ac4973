package mcpserver

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// Subscriptions. A client of the older eras subscribes for its session, one of the
// modern era for as long as a request of its own stays open. Each such subscriber
// has one goroutine, from its first subscription on, that hears what happens and
// tells its client:
//
//	engine ─▶ event.Bus ─▶ subscriber ─▶ touched? may read it now? ─▶ resources/updated
//
// A client that is slow holds up its own goroutine alone. What happens meanwhile
// becomes one notice for each address; if even that is too much to remember, every
// address counts as changed.
const (
	// eventBuffer is how many events wait for a subscriber that is telling.
	eventBuffer = 256
	// updatePause is the least time between two rounds of notices to one client.
	updatePause = 50 * time.Millisecond
	// maxSubscriptions is how many addresses one client may have.
	maxSubscriptions = 1000
)

// subscriber tells one client of changes of what it has subscribed to.
type subscriber struct {
	srv    *Server
	sess   *session
	sdk    *mcp.ServerSession
	ctx    context.Context //nolint:containedctx // the life of the subscriptions, not of a request
	cancel context.CancelFunc
	ready  chan struct{}  // closed when notices may be sent
	meta   map[string]any // of every notice; set before ready is closed
	done   chan struct{}  // closed when the goroutine has ended

	mu      sync.Mutex
	subs    map[string]*subscription // guarded by mu; by address
	running bool                     // guarded by mu; there is a goroutine
	ended   bool                     // guarded by mu; nothing can be added any more
}

// subscription is the wish to hear of changes at one address.
type subscription struct {
	uri   string
	ctx   context.Context //nolint:containedctx // carries the caller that has it
	watch tool.Watch
}

func (sess *session) newSubscriber(ctx context.Context, sdk *mcp.ServerSession) *subscriber {
	b := &subscriber{srv: sess.srv, sess: sess, sdk: sdk, ready: make(chan struct{}), done: make(chan struct{}), subs: make(map[string]*subscription)}
	b.ctx, b.cancel = context.WithCancel(ctx)
	return b
}

// begin lets notices out.
func (b *subscriber) begin(meta map[string]any) {
	b.meta = meta
	close(b.ready)
}

// add subscribes the caller of a request to an address.
func (b *subscriber) add(ctx context.Context, a *asking, r *tool.Resource, ref tool.Ref) error {
	if r.Watch == nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("%s never tells that it changed; it cannot be subscribed to", r.Address())}
	}
	// First, so that no change falls between.
	if err := b.start(ref.URI); err != nil { //nolint:contextcheck // what it starts lives as long as the subscriptions, not as this request
		return err
	}
	watch, err := r.Watch(caller.With(ctx, a.caller), ref)
	if err != nil {
		return a.failed(ref.URI, err)
	}
	c := *a.caller
	c.Ask = caller.Ask{Roots: func(context.Context) ([]string, error) {
		known, _ := a.sess.knownRoots()
		return offered(known) // nobody can be asked outside of a request
	}}
	sub := &subscription{uri: ref.URI, ctx: caller.With(b.ctx, &c), watch: watch}
	b.mu.Lock()
	before := b.subs[ref.URI]
	ended := b.ended
	if !ended {
		b.subs[ref.URI] = sub
	}
	b.mu.Unlock()
	switch {
	case ended:
		sub.close()
		return errGone
	case before != nil:
		before.close()
	}
	return nil
}

// start begins to hear events, unless that has begun.
func (b *subscriber) start(uri string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subs[uri] == nil && len(b.subs) >= maxSubscriptions {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("too many subscriptions: a client has at most %d", maxSubscriptions)}
	}
	if !b.running && !b.ended {
		b.running = true
		go b.run(b.srv.opts.Bus.Subscribe(eventBuffer))
	}
	return nil
}

// remove ends a subscription.
func (b *subscriber) remove(uri string) {
	b.mu.Lock()
	sub := b.subs[uri]
	delete(b.subs, uri)
	b.mu.Unlock()
	if sub != nil {
		sub.close()
	}
}

// stop ends everything; done is closed when that has come to pass.
func (b *subscriber) stop() {
	b.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	if !b.running {
		b.running = true
		close(b.done)
	}
}

func (b *subscriber) run(events *event.Subscription) {
	defer close(b.done)
	defer b.closeAll()
	defer events.Close()
	select {
	case <-b.ready:
	case <-b.ctx.Done():
		return
	}
	lost := int64(0)
	for {
		var changed []*subscription
		select {
		case <-b.ctx.Done():
			return
		case e := <-events.C:
			changed = b.touched(changed, e)
		}
		for more := true; more; {
			select {
			case e := <-events.C:
				changed = b.touched(changed, e)
			default:
				more = false
			}
		}
		if n := events.Dropped(); n != lost {
			lost = n
			changed = b.all()
		}
		for _, sub := range changed {
			b.tell(sub)
		}
		if len(changed) == 0 {
			continue
		}
		select {
		case <-time.After(updatePause):
		case <-b.ctx.Done():
			return
		}
	}
}

// all returns every subscription, in the order of addresses.
func (b *subscriber) all() []*subscription {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]*subscription, 0, len(b.subs))
	for _, uri := range slices.Sorted(maps.Keys(b.subs)) {
		all = append(all, b.subs[uri])
	}
	return all
}

// touched adds what an event has changed.
func (b *subscriber) touched(changed []*subscription, e event.Event) []*subscription {
	for _, sub := range b.all() {
		if !slices.Contains(changed, sub) && b.safely(func() bool { return sub.watch.Touched(e) }) {
			changed = append(changed, sub)
		}
	}
	return changed
}

// tell sends a notice to a client that still wants and may have it.
func (b *subscriber) tell(sub *subscription) {
	b.mu.Lock()
	wanted := b.subs[sub.uri] == sub
	b.mu.Unlock()
	if r, _ := b.srv.shelf.Load().at(b.sess, sub.uri); r == nil { // it was taken off the offer
		return
	}
	if !wanted || !b.safely(func() bool { return sub.watch.MayRead(sub.ctx) }) {
		return
	}
	notice := &mcp.ResourceUpdatedNotificationParams{URI: sub.uri, Meta: maps.Clone(b.meta)}
	// The SDK tells all clients of an address, one after the other. Progress goes
	// to one client; send puts the notice in its place.
	err := b.sdk.NotifyProgress(context.WithValue(b.ctx, noticeKey{}, notice), &mcp.ProgressNotificationParams{})
	if err != nil {
		b.srv.log.Debug("a change could not be told", "err", err)
	}
}

type noticeKey struct{}

// safely asks a watch, which must not take the server down.
func (b *subscriber) safely(ask func() bool) (yes bool) {
	defer func() {
		if p := recover(); p != nil {
			b.srv.log.Error("watch panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	return ask()
}

func (b *subscriber) closeAll() {
	b.mu.Lock()
	b.ended = true
	subs := b.subs
	b.subs = nil
	b.mu.Unlock()
	for _, sub := range subs {
		sub.close()
	}
}

func (sub *subscription) close() {
	if sub.watch.Close != nil {
		sub.watch.Close()
	}
}

// send is the SDK's way out for what the server says unasked.
func (s *Server) send(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if notice, ok := ctx.Value(noticeKey{}).(*mcp.ResourceUpdatedNotificationParams); ok {
			return next(ctx, "notifications/resources/updated", &mcp.ServerRequest[*mcp.ResourceUpdatedNotificationParams]{
				Session: req.GetSession().(*mcp.ServerSession), Params: notice,
			})
		}
		res, err := next(ctx, method, req)
		if l, ok := ctx.Value(listeningKey{}).(*listening); ok && method == "notifications/subscriptions/acknowledged" {
			l.begin(req.GetParams().GetMeta()) // every notice names the request it belongs to
		}
		return res, err
	}
}

// subscribe serves clients of the older eras.
func (s *Server) subscribe(ctx context.Context, sess *session, sh *shelf, p *post, req *mcp.SubscribeRequest, next mcp.MethodHandler) (mcp.Result, error) {
	a := sess.asks(ctx, req, p)
	defer a.finish()
	r, ref := sh.at(sess, req.Params.URI)
	if r == nil {
		return next(context.WithValue(ctx, listeningKey{}, &listening{asking: a}), "resources/subscribe", req)
	}
	if err := sess.subscriber(req.Session).add(ctx, a, r, ref); err != nil {
		return nil, err
	}
	return &done{}, nil
}

// done is the answer that says nothing more.
type done struct{ mcp.ResultBase }

// subscriber returns the one of the session, made when it is first needed.
func (sess *session) subscriber(sdk *mcp.ServerSession) *subscriber {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if sess.updates == nil {
		sess.updates = sess.newSubscriber(sess.ctx, sdk)
		sess.updates.begin(nil)
	}
	return sess.updates
}

func (s *Server) unsubscribe(ctx context.Context, sess *session, req *mcp.UnsubscribeRequest, next mcp.MethodHandler) (mcp.Result, error) {
	sess.mu.Lock()
	updates := sess.updates
	sess.mu.Unlock()
	if updates != nil {
		updates.remove(req.Params.URI)
	}
	return next(ctx, "resources/unsubscribe", req)
}

// listening is a request of the modern era that stays open for notices.
type listening struct {
	*subscriber // nil: one of the older eras, about what is none of ours
	asking      *asking
	shelf       *shelf
}

type listeningKey struct{}

// listen lets the SDK serve the request; it calls subscribing for each address.
func (s *Server) listen(ctx context.Context, sess *session, sh *shelf, p *post, req *mcp.SubscriptionsListenRequest, next mcp.MethodHandler) (mcp.Result, error) {
	a := sess.asks(ctx, req, p)
	defer a.finish()
	l := &listening{subscriber: sess.newSubscriber(ctx, req.Session), asking: a, shelf: sh}
	defer l.stop()
	return next(context.WithValue(ctx, listeningKey{}, l), "subscriptions/listen", req)
}

// subscribing is called by the SDK for an address that a client listens to, and for
// one that nothing of ours is at.
func (s *Server) subscribing(ctx context.Context, req *mcp.SubscribeRequest) error {
	l := ctx.Value(listeningKey{}).(*listening)
	if l.subscriber == nil {
		return l.asking.notFound(req.Params.URI)
	}
	r, ref := l.shelf.at(l.sess, req.Params.URI)
	if r == nil {
		return l.asking.notFound(req.Params.URI)
	}
	return l.add(ctx, l.asking, r, ref)
}
