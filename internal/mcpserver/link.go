package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// link is the SDK's connection to a client that stays connected: stdio or SSE.
// Whoever receives bytes gives them to accept, which never fails for good; what
// the SDK says goes out through send, one message a call and never two at once.
type link struct {
	sess   *session
	newest string // newest protocol version offered; "": all
	in     chan jsonrpc.Message
	seats  chan struct{} // one for each call until its answer is sent
	closed chan struct{}
	once   sync.Once

	out  sync.Mutex                 // held while a message is sent; reading goes on meanwhile
	send func(message []byte) error // guarded by out; nil when nothing can be sent any more

	mu    sync.Mutex
	ready bool                  // guarded by mu; a message that opens the protocol has come
	calls map[jsonrpc.ID]*batch // guarded by mu; calls without an answer, with their batch or nil

	tickets uint64                 // guarded by mu; given out
	later   map[uint64]*toolResult // guarded by mu; results the SDK has a ticket for
}

// batch gathers the answers to calls that came in one JSON array.
type batch struct {
	open    int
	answers [][]byte
}

const (
	// maxCalls is how many calls of a connection may be without an answer, and
	// how many messages a batch may have. Answers that are not read are kept.
	maxCalls = 256
	// seatPatience is how long a call beyond that waits for another to end. What
	// comes behind it waits too, and it may be what lets one end: a cancellation,
	// or an answer to a question.
	seatPatience = time.Second
)

func newLink(sess *session, newest string, send func([]byte) error) *link {
	l := &link{
		sess: sess, newest: newest, send: send,
		in: make(chan jsonrpc.Message), seats: make(chan struct{}, maxCalls), closed: make(chan struct{}), calls: make(map[jsonrpc.ID]*batch),
		later: make(map[uint64]*toolResult),
	}
	sess.link = l
	return l
}

// Connect makes link its own mcp.Transport.
func (l *link) Connect(context.Context) (mcp.Connection, error) { return l, nil }

// SupportsProtocolVersion tells the SDK what to offer.
func (l *link) SupportsProtocolVersion(version string) bool {
	return l.newest == "" || version <= l.newest
}

// SessionID is empty: ids on the wire are not the SDK's business here.
func (l *link) SessionID() string { return "" }

// Read returns the next message for the SDK.
func (l *link) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-l.in:
		return m, nil
	case <-l.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close ends Read. Messages may be sent until drop.
func (l *link) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// drop makes every later message fail. When it returns, none is being sent.
func (l *link) drop() {
	l.out.Lock()
	defer l.out.Unlock()
	l.send = nil
}

// accept takes what a client sent as one message. A refusal of the whole of it
// is returned, for the transport to say; one within a batch is part of the
// batch's answer.
func (l *link) accept(data []byte, extra *mcp.RequestExtra) *refusal {
	data, bad := checkJSON(data)
	if bad != nil || data == nil {
		return bad
	}
	if data[0] == '[' {
		return l.acceptBatch(data, extra)
	}
	m, bad := decodeMessage(data)
	if bad == nil {
		bad = l.admit(m, extra, nil, &time.Time{})
	}
	if bad != nil {
		return bad
	}
	l.push(m)
	return nil
}

// acceptBatch takes an array of messages, which protocol versions up to
// 2025-03-26 allow.
func (l *link) acceptBatch(data []byte, extra *mcp.RequestExtra) *refusal {
	if v := l.sess.negotiated(); v == "" || v > lastBatchVersion {
		return refuse(jsonrpc.CodeInvalidRequest, "invalid request: batches ended with protocol version "+lastBatchVersion+"; send one message at a time")
	}
	n := 0
	eachElement(data, func([]byte) { n++ })
	switch {
	case n == 0:
		return refuse(jsonrpc.CodeInvalidRequest, "invalid request: the batch is empty")
	case n > maxCalls:
		return refuse(jsonrpc.CodeInvalidRequest, fmt.Sprintf("invalid request: a batch has at most %d messages", maxCalls))
	}
	b := &batch{open: 1} // this function's own share
	var messages []jsonrpc.Message
	var until time.Time
	eachElement(data, func(val []byte) {
		m, bad := decodeMessage(val)
		if bad == nil {
			bad = l.admit(m, extra, b, &until)
		}
		switch {
		case bad == nil:
			messages = append(messages, m)
		case !bad.silent:
			l.mu.Lock()
			b.answers = append(b.answers, bad.encode())
			l.mu.Unlock()
		}
	})
	for _, m := range messages {
		l.push(m)
	}
	if all := l.settle(b, nil); all != nil {
		_ = l.put(all) // a client that cannot be written to is noticed by its transport
	}
	return nil
}

const lastBatchVersion = "2025-03-26"

// admit decides whether m may go to the SDK, and books it when it is a call. A
// call waits for a seat, in a batch all of them together.
func (l *link) admit(m jsonrpc.Message, extra *mcp.RequestExtra, b *batch, until *time.Time) *refusal {
	req, ok := m.(*jsonrpc.Request)
	if !ok {
		return nil
	}
	if extra != nil {
		req.Extra = extra
	}
	if req.IsCall() && !l.sit(until) {
		r := refuse(jsonrpc.CodeInternalError, fmt.Sprintf("busy: %d calls of this connection have no answer yet; read the answers, or wait for some of the calls", maxCalls))
		r.id, r.busy = req.ID, true
		return r
	}
	r := l.book(req, b)
	if r != nil && req.IsCall() {
		<-l.seats
	}
	return r
}

// sit takes a seat, and reports false when none became free.
func (l *link) sit(until *time.Time) bool {
	select {
	case l.seats <- struct{}{}:
		return true
	default:
	}
	if until.IsZero() {
		*until = time.Now().Add(seatPatience)
	}
	t := time.NewTimer(time.Until(*until))
	defer t.Stop()
	select {
	case l.seats <- struct{}{}:
		return true
	case <-l.closed:
	case <-t.C:
	}
	return false
}

// book notes what req begins.
func (l *link) book(req *jsonrpc.Request, b *batch) *refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	if req.Method == "initialize" || isModern(req.Params) {
		l.ready = true
	}
	if !req.IsCall() {
		return nil
	}
	switch _, taken := l.calls[req.ID]; {
	case taken:
		// Without an id, since the one it has belongs to the call under way.
		return refuse(jsonrpc.CodeInvalidRequest, fmt.Sprintf("invalid request: id %s is in use by a call that has no answer yet", encodeID(req.ID)))
	case !l.ready && req.Method != "ping":
		r := refuse(jsonrpc.CodeInvalidRequest, fmt.Sprintf("invalid request: %s came before initialize", req.Method))
		r.id = req.ID
		return r
	case !l.sess.enter(true):
		r := refuse(jsonrpc.CodeInternalError, errShutdown.Error())
		r.id = req.ID
		return r
	}
	l.calls[req.ID] = b
	if b != nil {
		b.open++
	}
	return nil
}

func (l *link) push(m jsonrpc.Message) {
	select {
	case l.in <- m:
	case <-l.closed:
	}
}

// Write sends what the SDK says.
func (l *link) Write(_ context.Context, m jsonrpc.Message) error {
	res, ok := m.(*jsonrpc.Response)
	if !ok {
		data, err := jsonrpc.EncodeMessage(m)
		if err != nil {
			return fmt.Errorf("encode message: %w", err)
		}
		return l.put(data)
	}
	data := l.encodeResponse(res)
	l.mu.Lock()
	b, booked := l.calls[res.ID]
	delete(l.calls, res.ID)
	l.mu.Unlock()
	if booked {
		defer func() {
			<-l.seats
			l.sess.leave(true)
		}()
	}
	if b != nil {
		if data = l.settle(b, data); data == nil {
			return nil
		}
	}
	return l.put(data)
}

// settle books one share of a batch, and returns the batch's answer with the
// last of them.
func (l *link) settle(b *batch, data []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if data != nil {
		b.answers = append(b.answers, data)
	}
	b.open--
	if b.open > 0 || len(b.answers) == 0 {
		return nil
	}
	return append(append([]byte{'['}, bytes.Join(b.answers, []byte{','})...), ']')
}

// put sends one message.
func (l *link) put(data []byte) error {
	l.out.Lock()
	defer l.out.Unlock()
	if l.send == nil {
		return io.ErrClosedPipe
	}
	return l.send(data)
}

// reply sends a refusal.
func (l *link) reply(r *refusal) {
	if !r.silent {
		_ = l.put(r.encode()) // a client that cannot be written to is noticed by its transport
	}
}

// encodeResponse renders a response. A result is JSON already and is not read
// again; an error always gets a code.
func (l *link) encodeResponse(res *jsonrpc.Response) []byte {
	if res.Error == nil {
		id := encodeID(res.ID)
		r := l.redeem(res.Result)
		size := len(res.Result)
		if r != nil {
			size = r.size()
		}
		b := make([]byte, 0, size+len(id)+40)
		b = append(b, `{"jsonrpc":"2.0","id":`...)
		b = append(b, id...)
		b = append(b, `,"result":`...)
		if r != nil {
			b = r.append(b)
		} else {
			b = append(b, res.Result...)
		}
		return append(b, '}')
	}
	r := refusal{id: res.ID, code: jsonrpc.CodeInternalError}
	r.message = clip(strings.ToValidUTF8(res.Error.Error(), "�"), 1000) // the SDK may quote a whole message
	e, ok := errors.AsType[*jsonrpc.Error](res.Error)
	switch {
	case ok && e.Code != 0:
		r.code, r.data = e.Code, e.Data
	case l.sess.negotiated() == "":
		// The SDK gives no code to a call that came behind an initialize that failed.
		r.code = jsonrpc.CodeInvalidRequest
	}
	return r.encode()
}

// Tickets begin with what no result of the SDK's is.
const ticketPrefix = `{"ticket":`

// ticket returns what the SDK carries in the place of r. One that it never brings
// back is forgotten with the link.
func (l *link) ticket(r *toolResult) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tickets++
	l.later[l.tickets] = r
	return append(strconv.AppendUint([]byte(ticketPrefix), l.tickets, 10), '}')
}

// redeem returns the result that a ticket stands for; nil for anything else.
func (l *link) redeem(result []byte) *toolResult {
	number, ok := bytes.CutPrefix(result, []byte(ticketPrefix))
	if !ok {
		return nil
	}
	n, err := strconv.ParseUint(string(bytes.TrimSuffix(number, []byte("}"))), 10, 64)
	if err != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.later[n]
	delete(l.later, n)
	return r
}

// clip shortens s to about n bytes, at a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
