package bridge

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/async-crud-mcp/async-crud-mcp/internal/daemon/control"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// rig is a bridge between a host and daemons that the test plays.
type rig struct {
	t      *testing.T
	in     *io.PipeWriter
	out    chan string   // what the host hears
	joined chan net.Conn // the daemon's ends
	refuse chan error    // a Join that fails
	done   chan error
}

// daemonEnd is one daemon's end of a connection.
type daemonEnd struct {
	*rig
	net.Conn
	lines chan string
}

// pump reads lines as they come, as a host does and a daemon.
func pump(from io.Reader, to chan<- string) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		to <- lines.Text()
	}
}

func newRig(t *testing.T) *rig {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	r := &rig{t: t, in: inW, out: make(chan string, 100), joined: make(chan net.Conn), refuse: make(chan error), done: make(chan error, 1)}
	go func() {
		defer close(r.out)
		pump(outR, r.out)
	}()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		r.done <- Run(ctx, Options{In: inR, Out: outW, Join: func(ctx context.Context) (*control.Conn, error) {
			here, there := net.Pipe()
			select {
			case r.joined <- there:
				return &control.Conn{Conn: here, Reader: bufio.NewReader(here), Answer: control.Answer{Repeatable: []string{"async_read"}}}, nil
			case err := <-r.refuse:
				return nil, err
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}})
		_ = outW.Close()
	}()
	t.Cleanup(func() {
		_ = outR.Close()
		cancel()
		_ = inW.Close()
		select {
		case <-r.done:
		case <-time.After(patience):
			t.Error("the bridge does not end")
		}
	})
	return r
}

// daemon waits until the bridge joins one.
func (r *rig) daemon() *daemonEnd {
	r.t.Helper()
	select {
	case c := <-r.joined:
		d := &daemonEnd{r, c, make(chan string, 100)}
		go func() {
			defer close(d.lines)
			pump(c, d.lines)
		}()
		r.t.Cleanup(func() { _ = c.Close() })
		return d
	case <-time.After(patience):
		r.t.Fatal("the bridge joins no daemon")
		return nil
	}
}

// says sends a line of the host.
func (r *rig) says(line string) {
	r.t.Helper()
	if _, err := io.WriteString(r.in, line+"\n"); err != nil {
		r.t.Fatal(err)
	}
}

// hears wants the next line to the host to hold every part.
func (r *rig) hears(parts ...string) string {
	r.t.Helper()
	return wants(r.t, r.out, parts)
}

func (d *daemonEnd) hears(parts ...string) string {
	d.t.Helper()
	return wants(d.t, d.lines, parts)
}

func wants(t *testing.T, lines <-chan string, parts []string) string {
	t.Helper()
	select {
	case line, ok := <-lines:
		if !ok {
			t.Fatalf("it ended, want %q", parts)
		}
		for _, part := range parts {
			if !strings.Contains(line, part) {
				t.Fatalf("got %s, want %q in it", line, part)
			}
		}
		return line
	case <-time.After(patience):
		t.Fatalf("nothing came, want %q", parts)
		return ""
	}
}

func (d *daemonEnd) says(line string) {
	d.t.Helper()
	if _, err := io.WriteString(d.Conn, line+"\n"); err != nil {
		d.t.Fatal(err)
	}
}

// answers hears a call and answers it.
func (d *daemonEnd) answers(parts ...string) {
	d.t.Helper()
	var m struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(d.hears(parts...)), &m); err != nil {
		d.t.Fatal(err)
	}
	d.says(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID))
}

func (d *daemonEnd) dies() { _ = d.Conn.Close() }

const (
	hello   = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","marks":"it"}}`
	started = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// greeted goes through the beginning of a session.
func (r *rig) greeted() *daemonEnd {
	r.t.Helper()
	d := r.daemon()
	r.says(hello)
	d.answers(`"initialize"`)
	r.hears(`"id":1`)
	r.says(started)
	d.hears("notifications/initialized")
	return d
}

func TestMessagesGoThroughUnchanged(t *testing.T) {
	r := newRig(t)
	d := r.greeted()
	odd := `  {"method":"tools/call" , "id":"é\"7", "jsonrpc":"2.0","params":{"name":"async_update","arguments":{"content":"a\\"}}}`
	r.says(odd)
	if got := d.hears(); got != odd {
		t.Errorf("the daemon got %s", got)
	}
	answer := `{"jsonrpc":"2.0","id":"é\"7","result":{"content":"<&>"}}`
	d.says(answer)
	if got := r.hears(); got != answer {
		t.Errorf("the host got %s", got)
	}
	r.says("not JSON at all")
	d.hears("not JSON at all")
}

func TestANewDaemonLearnsWhatTheOldOneKnew(t *testing.T) {
	r := newRig(t)
	old := r.greeted()
	for i, line := range []string{
		`"method":"logging/setLevel","params":{"level":"warning"}`,
		`"method":"resources/subscribe","params":{"uri":"file:///a"}`,
		`"method":"resources/subscribe","params":{"uri":"file:///b"}`,
		`"method":"resources/unsubscribe","params":{"uri":"file:///a"}`,
		`"method":"tools/call","params":{"name":"crud_activate_project","arguments":{"path":"/p"}}`,
	} {
		r.says(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, i+2, line))
		old.answers()
		r.hears()
	}
	old.dies()
	d := r.daemon() // at once: somebody waits for news of file:///b
	d.answers(`"initialize"`, `"marks":"it"`)
	d.hears("notifications/initialized")
	d.answers("logging/setLevel", "warning")
	d.answers("crud_activate_project", "/p")
	d.answers("resources/subscribe", "file:///b")
	r.says(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)
	d.answers("ping")
	r.hears(`"id":9`) // and nothing of what was only between us and the daemon
}

func TestCallsWithoutAnAnswerAreRepeatedOrOwnedUpTo(t *testing.T) {
	r := newRig(t)
	old := r.greeted()
	calls := []string{
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"async_read","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":"w","method":"tools/call","params":{"arguments":{"name":"async_read"},"name":"async_write"}}`,
		`{"jsonrpc":"2.0","id":4,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"async_exec","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
		`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"async_read"}}`,
	}
	for _, c := range calls {
		r.says(c)
		old.hears()
	}
	r.says(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":6}}`)
	old.hears("cancelled")
	old.dies()
	d := r.daemon()
	d.answers(`"initialize"`)
	d.hears("initialized")
	for _, want := range []string{`"id":"w"`, `"id":5`} {
		got := r.hears(want, `"isError":true`, "SERVER_ERROR", "outcome is unknown")
		if strings.Contains(got, "resultType") != (want == `"id":5`) {
			t.Errorf("only the newer protocol has a resultType: %s", got)
		}
	}
	d.answers(`"id":2`, "async_read")
	d.answers(`"id":4`, "tools/list")
	r.hears(`"id":2`, `"result":{}`)
	r.hears(`"id":4`)
}

// What could not be sent is sent to the next one, changes too.
func TestACallThatWasNeverSentWaitsForTheNextDaemon(t *testing.T) {
	r := newRig(t)
	r.greeted().dies()
	r.says(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"async_write"}}`)
	d := r.daemon()
	d.answers(`"initialize"`)
	d.hears("initialized")
	d.answers("async_write")
	r.hears(`"id":2`, `"result":{}`)
}

func TestWithoutADaemonCallsAreToldSo(t *testing.T) {
	r := newRig(t)
	d := r.greeted()
	r.says(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"async_write"}}`)
	d.hears()
	r.says(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	d.hears()
	d.dies()
	r.refuse <- errors.New(`no "room"`)
	r.hears(`"id":2`, "unknown", `no \\\"room\\\"`)
	r.hears(`"id":3`, `"error"`, `no \"room\"`)
	// The next call tries again.
	r.says(`{"jsonrpc":"2.0","id":4,"method":"tools/list"}`)
	d = r.daemon()
	d.answers(`"initialize"`)
	d.hears("initialized")
	d.answers("tools/list")
	r.hears(`"id":4`, "result")
}

// A daemon that dies while it takes over is replaced as well.
func TestTakingOverSurvivesAnotherDeath(t *testing.T) {
	r := newRig(t)
	old := r.greeted()
	r.says(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	old.hears()
	old.dies()
	second := r.daemon()
	second.hears(`"initialize"`)
	second.dies()
	third := r.daemon()
	third.answers(`"initialize"`)
	third.hears("initialized")
	third.answers("tools/list")
	r.hears(`"id":2`)
}

// The answer to a question of a daemon that is gone is not for the next one, whose
// questions may have the same ids.
func TestAnswersGoToWhoAsked(t *testing.T) {
	r := newRig(t)
	old := r.greeted()
	r.says(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	old.hears()
	old.says(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`)
	r.hears("elicitation")
	old.dies()
	d := r.daemon()
	d.hears(`"initialize"`)
	// It asks before it has taken over, and is answered.
	d.says(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
	r.hears("roots/list")
	r.says(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`)
	r.says(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
	d.hears(`"roots":[]`)
	d.says(`{"jsonrpc":"2.0","id":"bridge-0","result":{}}`)
	d.hears("initialized")
	d.answers("tools/list")
	r.hears(`"id":2`)
}

// Who ends on purpose is not started again for a client that waits for news alone.
func TestAfterAGoodbyeTheNextCallStartsADaemon(t *testing.T) {
	r := newRig(t)
	old := r.greeted()
	r.says(`{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{}}`)
	old.hears()
	if _, err := io.WriteString(old.Conn, control.Bye); err != nil {
		t.Fatal(err)
	}
	old.dies()
	select {
	case <-r.joined:
		t.Fatal("a daemon was started for nobody")
	case <-time.After(100 * time.Millisecond):
	}
	r.says(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	d := r.daemon()
	d.answers(`"initialize"`)
	d.hears("initialized")
	d.hears("subscriptions/listen")
	d.answers("ping")
	r.hears(`"id":3`)
}

func TestBatchesAreOwnedUpToOneByOne(t *testing.T) {
	r := newRig(t)
	old := r.greeted()
	r.says(`[{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"async_read"}}]`)
	old.hears()
	old.dies()
	d := r.daemon()
	d.answers(`"initialize"`)
	d.hears("initialized")
	r.hears(`"id":2`, "unknown")
	r.hears(`"id":3`, "unknown")
	r.says(`[{"jsonrpc":"2.0","id":4,"method":"ping"}]`)
	d.hears()
	d.says(`[{"jsonrpc":"2.0","id":4,"result":{}}]`)
	r.hears(`"id":4`)
}

func TestTheBridgeEndsWithItsHost(t *testing.T) {
	for name, end := range map[string]func(*rig, *daemonEnd){
		"end of input": func(r *rig, _ *daemonEnd) { _ = r.in.Close() },
		"and without a daemon": func(r *rig, d *daemonEnd) {
			d.dies()
			_ = r.in.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			end(r, r.greeted())
			select {
			case err := <-r.done:
				if err != nil {
					t.Errorf("Run = %v", err)
				}
				r.done <- nil
			case <-time.After(patience):
				t.Error("it does not end")
			}
		})
	}
}

func TestWhoCannotJoinAtTheBeginningIsTold(t *testing.T) {
	want := errors.New("no")
	err := Run(t.Context(), Options{In: strings.NewReader(""), Out: io.Discard, Join: func(context.Context) (*control.Conn, error) { return nil, want }})
	if !errors.Is(err, want) {
		t.Errorf("Run = %v, want %v", err, want)
	}
}

func TestPeek(t *testing.T) {
	for line, want := range map[string]message{
		`{"id":1,"method":"a"}`: {id: "1", method: "a"},
		`{"jsonrpc":"2.0","params":{"id":2,"x":"}{\"]"},"id":"\"","method":"ab"}`: {id: `"\""`, method: "ab", params: []byte(`{"id":2,"x":"}{\"]"}`)},
		`{"id":null,"method":"a"}`:                    {method: "a"},
		`{"jsonrpc":"2.0","id":3,"error":{"code":1}}`: {id: "3", failed: true},
		`[{"id":1}]`: {}, `x`: {}, ``: {}, `{`: {}, `{"id"`: {}, `{"id":`: {}, `{"id":"`: {}, `{"id":1`: {id: "1"},
	} {
		for name, got := range map[string]message{"peek": peek([]byte(line)), "peekAnswer": peekAnswer([]byte(line))} {
			if got.id != want.id || got.method != want.method || got.failed != want.failed || string(got.params) != string(want.params) {
				t.Errorf("%s(%s) = %+v, want %+v", name, line, got, want)
			}
		}
	}
	if got := member([]byte(`{"a":{"name":"x"},"name":"y\u0041"}`), "name"); got != "yA" {
		t.Errorf("member = %q", got)
	}
}

// FuzzPeek holds the short way of reading to encoding/json.
func FuzzPeek(f *testing.F) {
	for _, seed := range []string{hello, started, `{"a":[1,{"b":"\\\""}],"id":-1.5e3,"method":"m"}`, `[1,"a",{}]`, `{"id" : "x" }`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m := peek(line)
		peekAnswer(line)
		elements(line)
		var want map[string]json.RawMessage
		if json.Unmarshal(line, &want) != nil || strings.Contains(string(line), `\u`) || strings.Count(string(line), `"id"`) > 1 {
			return // escaped and repeated names are read otherwise
		}
		if id := string(want["id"]); id != m.id && id != "null" {
			t.Errorf("id = %s, want %s", m.id, id)
		}
	})
}
