// Package bridge is the process that an MCP host starts: it carries messages
// between the host's streams and the daemon, and hides from the host, as far as
// that is honest, that a daemon can die.
//
//	host ── lines ──▶ forward ─▶ daemon's socket
//	     ◀─ lines ── receive ◀─
//	                    └▶ the connection broke: another daemon, initialize again,
//	                       repeat what changes nothing, own up to the rest
//
// A message goes through unchanged; of each only what a reconnect needs is read.
// A call that was sent and not answered when the daemon went away is sent again
// if it changes nothing. If it might, the host is told that its outcome is
// unknown: sending it again could undo what somebody else was promised since.
//
// Run owns its goroutines and ends with the host's input, its output or ctx. How a
// daemon is found and started is control's business.
package bridge

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/daemon/control"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// Options are the two sides of the bridge.
type Options struct {
	In   io.Reader
	Out  io.Writer
	Join func(context.Context) (*control.Conn, error) // joins the daemon, starting it if needed
}

const (
	// endPatience is how long the daemon may take to answer, to end the commands
	// of the session and to close, when the host or we are about to go.
	endPatience = 5800 * time.Millisecond
	// replayPatience is how long a new daemon may take to take over.
	replayPatience = 30 * time.Second
	// maxLine is the longest message that can be sent again; a longer one, which
	// the daemon will refuse, only goes through.
	maxLine = 64 << 20
)

// bridge is one that runs.
type bridge struct {
	opts Options

	out  sync.Mutex // held while a line is written to the host
	turn chan struct{}
	died chan struct{} // closed when the host's output is gone
	once sync.Once

	mu         sync.Mutex
	conn       *control.Conn           // guarded by mu; nil: none
	taking     *control.Conn           // guarded by mu; the next one, which is being prepared
	ended      bool                    // guarded by mu; the host's input has ended
	seq        uint64                  // guarded by mu
	calls      map[string]*call        // guarded by mu; without an answer, by id
	repeatable map[string]bool         // guarded by mu; tools that change nothing
	past       past                    // guarded by mu
	asked      map[string]int          // guarded by mu; questions of the daemon without an answer, by id
	stale      map[string]int          // guarded by mu; those of a daemon that is gone
	replays    map[string]chan message // guarded by mu; answers that are for us
	readers    sync.WaitGroup
}

// call is a request of the host.
type call struct {
	seq       uint64
	id        string
	line      []byte // nil: it came in a batch and cannot be sent again
	method    string
	name      string // of a tool
	params    []byte
	sent      bool
	cancelled bool
}

// past is what the session is made of, for another daemon to learn.
type past struct {
	initialize  []byte            // params
	initialized []byte            // the notification
	level       []byte            // params of logging/setLevel
	active      []byte            // params of the call that activated a project
	subscribed  map[string][]byte // params of resources/subscribe by address
}

// Run carries messages until the host's input or output or ctx ends. An error
// means that no daemon could be joined at the beginning.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &bridge{
		opts: o, turn: make(chan struct{}, 1), died: make(chan struct{}),
		calls: make(map[string]*call), asked: make(map[string]int), stale: make(map[string]int), replays: make(map[string]chan message),
		past: past{subscribed: make(map[string][]byte)},
	}
	if err := b.connect(ctx); err != nil {
		return err
	}
	input := make(chan struct{})
	go func() { // a read of standard input cannot be interrupted and may outlast Run
		defer close(input)
		b.forward(ctx)
	}()
	select {
	case <-input:
		b.finish()
	case <-b.died:
	case <-ctx.Done():
		b.finish()
	}
	cancel()
	b.hangUp()
	b.readers.Wait()
	return nil
}

// finish lets the daemon answer what it has and end what runs for the host.
func (b *bridge) finish() {
	b.mu.Lock()
	b.ended = true
	conn := b.conn
	b.mu.Unlock()
	if conn == nil {
		return
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		b.readers.Wait()
	}()
	patience := endPatience
	if half, ok := conn.Conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		patience = eofGrace // a pipe has no end of its own for each direction
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-gone:
	case <-t.C:
	case <-b.died:
	}
}

// eofGrace is what a server gives the calls of a client that has gone.
const eofGrace = 250 * time.Millisecond

func (b *bridge) hangUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	for _, c := range []*control.Conn{b.conn, b.taking} {
		if c != nil {
			_ = c.Close() // its reader ends by it
		}
	}
}

// forward carries what the host says until it says no more.
func (b *bridge) forward(ctx context.Context) {
	r := bufio.NewReaderSize(b.opts.In, 64<<10)
	for {
		line, whole, err := readLine(r)
		switch {
		case !whole && err == nil:
			err = b.passThrough(line, r)
		case len(bytes.TrimSpace(line)) > 0:
			if line[len(line)-1] != '\n' {
				line = append(line, '\n')
			}
			b.send(ctx, line)
		}
		if err != nil {
			return
		}
	}
}

// readLine reads up to a newline or the end. whole is false for the beginning of a
// line that is too long.
func readLine(r *bufio.Reader) (line []byte, whole bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, true, err
		case len(line) > maxLine:
			return line, false, nil
		}
	}
}

// passThrough carries a line of any length. The daemon refuses it and answers.
func (b *bridge) passThrough(begin []byte, r *bufio.Reader) error {
	b.mu.Lock()
	conn := b.conn
	b.mu.Unlock()
	to := io.Discard
	if conn != nil {
		to = conn
	}
	for part := begin; ; {
		if _, err := to.Write(part); err != nil {
			to = io.Discard
		}
		var err error
		part, err = r.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			_, _ = to.Write(part) // its reader notices when it is gone
			return err
		}
	}
}

// send carries one message of the host to the daemon.
func (b *bridge) send(ctx context.Context, line []byte) {
	m := peek(line)
	if m.method == "" && m.id != "" {
		if conn := b.answered(m.id); conn != nil {
			_, _ = conn.Write(line) // a daemon that is gone does not wait for it
		}
		return
	}
	conn, waits := b.book(m, line)
	if conn != nil {
		n, err := conn.Write(line)
		if err == nil {
			return
		}
		b.unsent(m.id, n)
		b.lost(ctx, conn, false)
		return
	}
	if waits {
		b.begin(ctx)
	}
}

// answered notes that the host has answered a question, and returns who asked; nil:
// nobody who is still there.
func (b *bridge) answered(id string) *control.Conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stale[id] > 0 {
		if b.stale[id]--; b.stale[id] == 0 {
			delete(b.stale, id)
		}
		return nil
	}
	if b.asked[id]--; b.asked[id] <= 0 {
		delete(b.asked, id)
	}
	return cmp.Or(b.conn, b.taking)
}

// book notes what a message of the host means, and returns where to send it; nil:
// there is nobody, and waits says whether the host waits for an answer.
func (b *bridge) book(m message, line []byte) (conn *control.Conn, waits bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case m.method == "notifications/initialized":
		b.past.initialized = bytes.Clone(line)
	case m.method == "notifications/cancelled":
		eachMember(m.params, func(key, value []byte) bool {
			if c := b.calls[string(value)]; string(key) == "requestId" && c != nil {
				c.cancelled = true
			}
			return true
		})
	case m.id != "":
		b.addLocked(m, line)
		waits = true
	default:
		for _, part := range elements(line) {
			if m := peek(part); m.id != "" && m.method != "" {
				b.addLocked(m, nil)
				waits = true
			}
		}
	}
	return b.conn, waits
}

func (b *bridge) addLocked(m message, line []byte) {
	b.seq++
	c := &call{seq: b.seq, id: m.id, line: line, method: m.method, sent: b.conn != nil}
	switch m.method {
	case "tools/call":
		c.name = member(m.params, "name")
		if c.name == activate {
			c.params = m.params
		}
	case "initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		c.params = m.params
	}
	b.calls[m.id] = c
}

// activate is the tool whose effect a new daemon has to learn.
const activate = "crud_activate_project"

// unsent notes that nothing of a call reached the daemon.
func (b *bridge) unsent(id string, written int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.calls[id]; c != nil && written == 0 {
		c.sent = false
	}
}

// receive carries what the daemon says until the connection breaks.
func (b *bridge) receive(ctx context.Context, conn *control.Conn) {
	bye := false
	for {
		line, err := conn.Reader.ReadBytes('\n')
		if err != nil {
			break // what is not a whole line means nothing
		}
		if string(line) == control.Bye {
			bye = true
			continue
		}
		if b.note(line) && !b.tell(line) {
			break
		}
	}
	b.lost(ctx, conn, bye)
}

// note notes what a message of the daemon means, and reports whether it is for the
// host.
func (b *bridge) note(line []byte) bool {
	m := peekAnswer(line)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case m.id != "" && m.method != "":
		b.asked[m.id]++
	case m.id != "":
		if waits := b.replays[m.id]; waits != nil {
			delete(b.replays, m.id)
			waits <- m
			return false
		}
		b.settleLocked(m)
	case m.method == "":
		for _, part := range elements(line) {
			b.settleLocked(peek(part))
		}
	}
	return true
}

// settleLocked notes the answer to a call.
func (b *bridge) settleLocked(m message) {
	c := b.calls[m.id]
	if c == nil {
		return
	}
	delete(b.calls, m.id)
	if m.failed {
		return
	}
	switch c.method {
	case "initialize":
		b.past.initialize = bytes.Clone(c.params)
	case "logging/setLevel":
		b.past.level = bytes.Clone(c.params)
	case "resources/subscribe":
		b.past.subscribed[member(c.params, "uri")] = bytes.Clone(c.params)
	case "resources/unsubscribe":
		delete(b.past.subscribed, member(c.params, "uri"))
	case "tools/call":
		if c.params != nil { // refused or not: a new daemon judges it the same way
			b.past.active = bytes.Clone(c.params)
		}
	}
}

// tell writes a line to the host, and reports false when nobody reads it.
func (b *bridge) tell(line []byte) bool {
	b.out.Lock()
	defer b.out.Unlock()
	if _, err := b.opts.Out.Write(line); err != nil {
		b.once.Do(func() { close(b.died) })
		return false
	}
	return true
}

// lost notes that a connection is over. Somebody who waits for an answer, or for
// news of a resource, gets another daemon at once; else, and after one that said
// goodbye, the next call does.
func (b *bridge) lost(ctx context.Context, conn *control.Conn, bye bool) {
	_ = conn.Close() // it is broken already
	b.mu.Lock()
	if b.conn != conn {
		b.mu.Unlock()
		return
	}
	b.conn = nil
	for id, n := range b.asked {
		b.stale[id] += n
	}
	clear(b.asked)
	wanted := !bye && (len(b.calls) > 0 || len(b.past.subscribed) > 0)
	for _, c := range b.calls { // a listener waits for news, and can wait for them to begin again
		wanted = wanted || c.method != "subscriptions/listen"
	}
	b.mu.Unlock()
	if wanted {
		b.begin(ctx)
	}
}

// begin restores the connection beside whoever calls it: the host may have to
// answer questions before that is done.
func (b *bridge) begin(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.readers.Go(func() { b.restore(ctx) })
	}
}

// restore makes a new connection for the calls that wait, or tells why there is
// none.
func (b *bridge) restore(ctx context.Context) {
	err := b.connect(ctx)
	if err == nil || ctx.Err() != nil {
		return
	}
	for _, c := range b.takeCalls() {
		if !c.cancelled {
			b.tell(b.failure(c, err))
		}
	}
}

// takeCalls takes the calls that wait, in order.
func (b *bridge) takeCalls() []*call {
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting := slices.SortedFunc(maps.Values(b.calls), func(a, b *call) int { return cmp.Compare(a.seq, b.seq) })
	clear(b.calls)
	return waiting
}

// connect joins a daemon, teaches it what the session is, and hands it the calls
// that wait. It does nothing when there is a connection.
func (b *bridge) connect(ctx context.Context) error {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	b.mu.Lock()
	has := b.conn != nil
	b.mu.Unlock()
	if has {
		return nil
	}
	for attempt := 1; ; attempt++ {
		conn, err := b.opts.Join(ctx)
		if err != nil {
			return err
		}
		if err = b.take(ctx, conn); err == nil || attempt == attempts || ctx.Err() != nil {
			return err
		}
	}
}

// attempts is how many daemons may die in a row while they take over.
const attempts = 5

// take makes conn the connection.
func (b *bridge) take(ctx context.Context, conn *control.Conn) error {
	b.mu.Lock()
	if b.ended {
		b.mu.Unlock()
		_ = conn.Close() // nobody wants it any more
		return errors.New("the host has gone")
	}
	b.taking = conn
	b.repeatable = make(map[string]bool)
	for _, name := range conn.Answer.Repeatable {
		b.repeatable[name] = true
	}
	history := b.past
	history.subscribed = maps.Clone(b.past.subscribed)
	over := make(chan struct{})
	b.readers.Go(func() {
		defer close(over)
		b.receive(ctx, conn)
	})
	b.mu.Unlock()
	err := b.teach(conn, history, over)
	b.handOver(conn, err)
	if err != nil {
		_ = conn.Close()
		return fmt.Errorf("a new daemon could not take over: %w", err)
	}
	select {
	case <-over: // before anybody could have noticed
		b.lost(ctx, conn, false)
	default:
	}
	return nil
}

// teach makes of a new connection what the old one was.
func (b *bridge) teach(conn *control.Conn, p past, over <-chan struct{}) error {
	type step struct {
		method string
		params []byte
		line   []byte
	}
	var steps []step
	if p.initialize != nil {
		steps = append(steps, step{method: "initialize", params: p.initialize})
	}
	if p.initialized != nil {
		steps = append(steps, step{line: p.initialized})
	}
	if p.level != nil {
		steps = append(steps, step{method: "logging/setLevel", params: p.level})
	}
	if p.active != nil {
		steps = append(steps, step{method: "tools/call", params: p.active})
	}
	for _, params := range p.subscribed {
		steps = append(steps, step{method: "resources/subscribe", params: params})
	}
	for i, s := range steps {
		if s.line != nil {
			if _, err := conn.Write(s.line); err != nil {
				return err
			}
			continue
		}
		id := `"bridge-` + strconv.Itoa(i) + `"`
		answer := make(chan message, 1)
		b.mu.Lock()
		b.replays[id] = answer
		b.mu.Unlock()
		if _, err := fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`+"\n", id, s.method, s.params); err != nil {
			return err
		}
		t := time.NewTimer(replayPatience)
		select {
		case <-answer:
			t.Stop()
		case <-over:
			t.Stop()
			return errors.New("it went away")
		case <-t.C:
			return fmt.Errorf("it did not answer %s", s.method)
		}
	}
	return nil
}

// handOver makes a connection the current one and sends it the calls that wait: at
// once, so that nothing overtakes them.
func (b *bridge) handOver(conn *control.Conn, failed error) {
	b.mu.Lock()
	b.taking = nil
	clear(b.replays)
	if failed != nil {
		b.mu.Unlock()
		return
	}
	b.conn = conn
	var again, unknown []*call
	for _, c := range slices.SortedFunc(maps.Values(b.calls), func(a, b *call) int { return cmp.Compare(a.seq, b.seq) }) {
		switch {
		case c.sent && c.cancelled:
			delete(b.calls, c.id)
		case c.line != nil && (!c.sent || c.method != "tools/call" || b.repeatable[c.name]):
			c.sent = true
			again = append(again, c)
		default:
			delete(b.calls, c.id)
			unknown = append(unknown, c)
		}
	}
	b.mu.Unlock()
	for _, c := range unknown {
		b.tell(b.failure(c, nil))
	}
	for _, c := range again {
		if _, err := conn.Write(c.line); err != nil {
			return // its reader notices, and begins anew
		}
	}
}

// failure is the answer to a call that has none: cause says why it was not served;
// nil: it may have been.
func (b *bridge) failure(c *call, cause error) []byte {
	message := "the server process ended while this call was under way; another one runs now. Its outcome is unknown: it may have happened or not"
	next := "Look at what the call was to change (async_read, async_status, async_wait) before you repeat it."
	outcome := "unknown"
	if cause != nil && !c.sent {
		message, next, outcome = "the server process cannot be reached: "+cause.Error(), "Have a person look at it with 'async-crud-mcp doctor'; then try again.", "not_done"
	} else if cause != nil {
		message = "the server process ended while this call was under way, and no other can be reached: " + cause.Error() + ". Its outcome is unknown"
	}
	if c.method != "tools/call" {
		text := tool.AppendString(nil, []byte(message))
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":%s}}`+"\n", c.id, text)
	}
	body, err := tool.Encode(lostCall{
		Status: "error", Code: fault.ServerError, Message: message, Details: map[string]string{"next": next, "outcome": outcome},
	})
	if err != nil {
		panic(err) // it holds nothing but text
	}
	modern := ""
	if bytes.Contains(c.line, []byte(`"io.modelcontextprotocol/protocolVersion"`)) {
		modern = `,"resultType":"complete"`
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}],"structuredContent":%s,"isError":true%s}}`+"\n",
		c.id, tool.AppendString(nil, body), body, modern)
}

// lostCall is the result of a tool that nobody can tell.
type lostCall struct {
	Status  string            `json:"status"`
	Code    fault.Code        `json:"error_code"`
	Message string            `json:"message"`
	Path    *string           `json:"path"`
	Details map[string]string `json:"details"`
}
