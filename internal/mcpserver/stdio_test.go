package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
)

const ping = `{"jsonrpc":"2.0","id":"still there?","method":"ping"}`

func (p *pipe) wantAlive() {
	p.t.Helper()
	p.send(ping)
	if m := p.next(); string(m.ID) != `"still there?"` || m.Error != nil {
		p.t.Fatalf("ping was answered with %+v", m)
	}
}

func TestMalformedLinesAreAnsweredAndSurvived(t *testing.T) {
	deep := strings.Repeat("[", 200_000)
	tests := []struct {
		name, line string
		code       int    // 0: no answer is due
		id         string // "": null
	}{
		{"garbage", "hello there", -32700, ""},
		{"log line", "2026-01-01 INFO started", -32700, ""},
		{"truncated", `{"jsonrpc":"2.0","id":7,"method":"ping","params":{`, -32700, "7"},
		{"truncated in the id", `{"jsonrpc":"2.0","id":7`, -32700, ""},
		{"null", "null", -32600, ""},
		{"number", "42", -32600, ""},
		{"string", `"x"`, -32600, ""},
		{"two values", `{"jsonrpc":"2.0","id":1,"method":"ping"}{}`, -32700, "1"},
		{"no version", `{"id":3,"method":"ping"}`, -32600, "3"},
		{"wrong version", `{"jsonrpc":"1.0","id":3,"method":"ping"}`, -32600, "3"},
		{"NUL bytes", "\x00\x00", -32700, ""},
		{"NUL inside", "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"pi\x00ng\"}", -32700, "4"},
		{"deep nesting", deep, -32700, ""},
		{"deep nesting in params", `{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":` + deep, -32700, "5"},
		{"closed deep nesting", strings.Repeat("[", 9000) + strings.Repeat("]", 9000), -32600, ""},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"\xff\"}", -32700, "6"},
		{"UTF-16", "\xff\xfe{\x00}\x00", -32700, ""},
		{"batch", `[` + ping + `]`, -32600, ""},
		{"empty batch", `[]`, -32600, ""},
		{"Method", `{"jsonrpc":"2.0","id":8,"Method":"ping"}`, -32600, "8"},
		{"paramſ", `{"jsonrpc":"2.0","id":9,"method":"ping","paramſ":{}}`, -32600, "9"},
		{"ID", `{"jsonrpc":"2.0","ID":9,"method":"ping"}`, -32600, ""},
		{"method twice", `{"jsonrpc":"2.0","id":10,"method":"ping","method":"tools/list"}`, -32600, "10"},
		{"method twice, escaped", `{"jsonrpc":"2.0","id":10,"method":"ping","m\u0065thod":"tools/list"}`, -32600, "10"},
		{"params twice", `{"jsonrpc":"2.0","id":11,"method":"ping","params":{},"params":{}}`, -32600, "11"},
		{"no method", `{"jsonrpc":"2.0","id":12}`, -32600, "12"},
		{"empty method", `{"jsonrpc":"2.0","id":12,"method":""}`, -32600, "12"},
		{"method is a number", `{"jsonrpc":"2.0","id":12,"method":5}`, -32600, "12"},
		{"params is a list", `{"jsonrpc":"2.0","id":13,"method":"ping","params":[1]}`, -32600, "13"},
		{"id is null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, -32600, ""},
		{"id is an object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600, ""},
		{"id is a fraction", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, -32600, ""},
		{"unknown method", `{"jsonrpc":"2.0","id":14,"method":"no/such"}`, -32601, "14"},
		{"method and result", `{"jsonrpc":"2.0","id":15,"method":"ping","result":{}}`, -32600, "15"},
		{"broken answer", `{"jsonrpc":"2.0","result":{}}`, 0, ""},
		{"broken answer with null id", `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`, 0, ""},
		{"cut off answer", `{"jsonrpc":"2.0","id":3,"result":{}`, 0, ""},
		{"answer to nothing", `{"jsonrpc":"2.0","id":99,"result":{}}`, 0, ""},
		{"error answer to nothing", `{"jsonrpc":"2.0","id":99,"error":{"code":-1,"message":"x"}}`, 0, ""},
		{"unknown notification", `{"jsonrpc":"2.0","method":"no/such"}`, 0, ""},
		{"empty line", "", 0, ""},
		{"blank line", " \t \r", 0, ""},
	}
	r := newRig(t)
	for _, when := range []string{"before initialize", "after"} {
		p := r.stdio(t, t.Context())
		if when == "after" {
			p.initialize()
		}
		for _, tt := range tests {
			t.Run(when+"/"+tt.name, func(t *testing.T) {
				p.t = t
				p.send(tt.line)
				if tt.code != 0 {
					m := p.next()
					if m.Error == nil {
						t.Fatalf("answer = %+v, want an error", m)
					}
					want := tt.code
					if when != "after" && want == -32601 {
						want = -32600 // nothing but initialize is served yet
					}
					if id := cmpOr(tt.id, "null"); m.Error.Code != want || string(m.ID) != id {
						t.Errorf("answer = %d for id %s (%s), want %d for id %s", m.Error.Code, m.ID, m.Error.Message, want, id)
					}
				}
				p.wantAlive()
			})
		}
		p.t = t
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func TestTolerableLinesAreServed(t *testing.T) {
	r := newRig(t)
	p := r.stdio(t, t.Context())
	p.initialize()
	for name, tt := range map[string]struct{ line, id string }{
		"BOM":              {"\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "1"},
		"CRLF":             {`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\r", "1"},
		"spaces":           {"  " + `{ "jsonrpc" : "2.0" , "id" : 1 , "method" : "ping" }` + "  ", "1"},
		"null params":      {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}`, "1"},
		"extra keys":       {`{"jsonrpc":"2.0","id":1,"method":"ping","trace":{"a":[1,2,"}"]}}`, "1"},
		"escaped slash":    {`{"jsonrpc":"2.0","id":1,"method":"tools\/list"}`, "1"},
		"integral decimal": {`{"jsonrpc":"2.0","id":1.0,"method":"ping"}`, "1"},
		"string id":        {`{"jsonrpc":"2.0","id":"a\"<ü>\n","method":"ping"}`, `"a\"<ü>\n"`},
		"empty id":         {`{"jsonrpc":"2.0","id":"","method":"ping"}`, `""`},
		"negative id":      {`{"jsonrpc":"2.0","id":-5,"method":"ping"}`, "-5"},
		"nanoseconds":      {`{"jsonrpc":"2.0","id":1763164800123456789,"method":"ping"}`, "1763164800123456789"},
		"smallest id":      {`{"jsonrpc":"2.0","id":-9223372036854775808,"method":"ping"}`, "-9223372036854775808"},
		"error, long id":   {`{"jsonrpc":"2.0","id":1763164800123456789,"method":"no/such"}`, "1763164800123456789"},
	} {
		t.Run(name, func(t *testing.T) {
			p.t = t
			p.send(tt.line)
			line := p.line()
			if m := parse(t, line); string(m.ID) != tt.id {
				t.Errorf("answer to id %s: %s", tt.id, line)
			}
		})
	}
	p.t = t
}

func TestOversizedLineIsSkippedWithinBoundedMemory(t *testing.T) {
	const limit = 100_000
	r := newRig(t, func(o *Options) { o.MaxMessageBytes = limit })
	p := r.stdio(t, t.Context())
	p.initialize()
	fits := func(n int) string { // a ping of n bytes
		head, tail := `{"jsonrpc":"2.0","id":21,"method":"ping","params":{"_meta":{"pad":"`, `"}}}`
		return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
	}
	p.send(fits(limit))
	if m := p.next(); m.Error != nil {
		t.Errorf("a message of exactly the limit was refused: %+v", m.Error)
	}
	p.send(fits(limit) + "\r")
	if m := p.next(); m.Error != nil {
		t.Errorf("a line end counted: %+v", m.Error)
	}
	for _, n := range []int{limit + 1, 5 * limit} {
		p.send(fits(n))
		m := p.next()
		if m.Error == nil || m.Error.Code != -32600 || !strings.Contains(m.Error.Message, "100000") || string(m.ID) != "21" {
			t.Errorf("a message of %d bytes was answered with %+v", n, m)
		}
	}
	p.send(strings.Repeat(" ", 3*limit)) // nothing but spaces has no id
	if m := p.next(); m.Error == nil || string(m.ID) != "null" {
		t.Errorf("spaces were answered with %+v", m)
	}
	p.wantAlive()
}

func TestReadLineKeepsOnlyTheHeadOfALongLine(t *testing.T) {
	endless := io.MultiReader(strings.NewReader(`{"id":5,`), io.LimitReader(zeros{}, 64<<20), strings.NewReader("\nnext"))
	rd := bufio.NewReaderSize(endless, 64<<10)
	line, long, err := readLine(rd, 1<<20)
	if err != nil || !long || len(line) > peekBytes || cap(line) > 2*peekBytes {
		t.Fatalf("readLine = %d bytes of %d, long %v, %v", len(line), cap(line), long, err)
	}
	if id := peekID(line); string(encodeID(id)) != "5" {
		t.Errorf("id = %s, want 5", encodeID(id))
	}
	if line, long, err := readLine(rd, 1<<20); string(line) != "next" || long || !errors.Is(err, io.EOF) {
		t.Errorf("the line after it = %q, long %v, %v", line, long, err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestBatchesAreServedWhereTheProtocolHasThem(t *testing.T) {
	r := newRig(t)
	p := r.stdio(t, t.Context())
	p.send(strings.Replace(initialize, "2025-06-18", "2025-03-26", 1))
	p.next()
	p.send(initialized)
	p.send(`[` + callLine(1, "echo", `{"text":"a"}`) + `,{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}},` +
		callLine(2, "echo", `{"text":"b"}`) + `,{"jsonrpc":"2.0","id":3,"Method":"ping"},5,` + callLine(1, "echo", `{}`) + `]`)
	var got []message
	if err := json.Unmarshal([]byte(p.line()), &got); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range got {
		seen[fmt.Sprintf("%s error=%v", m.ID, m.Error != nil)] = true
	}
	for _, want := range []string{"1 error=false", "2 error=false", "3 error=true", "null error=true"} {
		if !seen[want] {
			t.Errorf("no answer %q in %v", want, seen)
		}
	}
	if len(got) != 5 {
		t.Errorf("%d answers, want 5", len(got))
	}
	p.send(`[` + initialized + `]`) // nothing to answer
	p.send(`[]`)
	if m := p.next(); m.Error == nil || m.Error.Code != -32600 {
		t.Errorf("empty batch = %+v", m)
	}
	p.send(`[5]`)
	if l := p.line(); !strings.HasPrefix(l, `[{"jsonrpc":"2.0","id":null,"error":{"code":-32600`) {
		t.Errorf("batch of rubbish = %s", l)
	}
	p.wantAlive()
}

func TestAnIDInUseIsRefusedAndTheCallGoesOn(t *testing.T) {
	r := newRig(t)
	p := r.stdio(t, t.Context())
	p.initialize()
	p.send(callLine(1, "wait", `{}`))
	wait(t, r.started, "the tool")
	p.send(callLine(1, "echo", `{}`))
	if m := p.next(); m.Error == nil || m.Error.Code != -32600 || string(m.ID) != "null" {
		t.Errorf("second call with id 1 = %+v", m)
	}
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	r.wantCause(t, context.Canceled)
	if m := p.next(); string(m.ID) != "1" {
		t.Errorf("first call = %+v", m)
	}
}

// Two readers of one message must not see two calls.
func TestParamsThatCanBeTakenInTwoWaysAreRefused(t *testing.T) {
	r := newRig(t)
	p := r.stdio(t, t.Context())
	p.initialize()
	base, _ := r.serve(t)
	session, stream := openSession(t, base), openSSE(t, base)
	stream.initialize()
	for _, tt := range []struct{ params, want string }{
		{`"name":"echo","name":"count"`, `key "name" is given twice`},
		{`"name":"echo","n\u0061me":"count"`, `key "name" is given twice`},
		{`"Name":"echo","name":"count"`, `"Name" must be spelt "name"`},
		{`"name":"count","Name":"echo"`, `"name" and "Name" differ in case alone`},
		{`"Name":"echo"`, `"Name" must be spelt "name"`},
		{`"name":"echo","argument\u017f":{}`, `must be spelt "arguments"`},
		{`"name":"echo","arguments":{},"arguments":{"n":1}`, `key "arguments" is given twice`},
		{`"name":"echo","_meta":{},"_meta":{}`, `key "_meta" is given twice`},
		{`"name":"echo","_meta":{"threadId":"a","threadId":"b"}`, `key "threadId" is given twice`},
		{`"name":"echo","_meta":{"threadid":"a","threadId":"b"}`, `differ in case alone`},
		{`"name":"echo","_meta":{"io.modelcontextprotocol/clientInfo":{"name":"a","name":"b"}}`, `key "name" is given twice`},
		{`"name":"echo","clientInfo":{"name":"a","Name":"b"}`, `differ in case alone`},
	} {
		call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + tt.params + `}}`
		p.send(call)
		_, overHTTP, _ := do(t, "POST", base+"/mcp", call, "Mcp-Session-Id", session)
		_, overSSE, _ := do(t, "POST", stream.post, call)
		for transport, line := range map[string]string{"stdio": p.line(), "http": overHTTP, "sse": overSSE} {
			if m := parse(t, line); m.Error == nil || m.Error.Code != -32602 || string(m.ID) != "7" || !strings.Contains(m.Error.Message, tt.want) {
				t.Errorf("%s: %s = %s, want %s", transport, tt.params, line, tt.want)
			}
		}
	}
	p.send(callLine(8, "echo", `{"text":"n"}`)) // keys of other objects may look alike
	if m := p.next(); m.Error != nil {
		t.Errorf("echo = %+v", m.Error)
	}
}

func TestCancellationReachesCallsOfEveryID(t *testing.T) {
	r := newRig(t)
	p := r.stdio(t, t.Context())
	p.initialize()
	for _, id := range []string{"9007199254740993", "-9223372036854775808", "9223372036854775807", "1e3", `"a\u0062"`} {
		p.send(callLine(id, "wait", `{}`))
		wait(t, r.started, "the tool")
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"` + strings.Trim(id, `"`) + `","requestId":` + id + `}}`)
		r.wantCause(t, context.Canceled)
		p.next()
	}
}

func TestCallBeforeInitializeHasACode(t *testing.T) {
	r := newRig(t)
	p := r.stdio(t, t.Context())
	p.send(callLine(1, "echo", `{}`))
	if m := p.next(); m.Error == nil || m.Error.Code != -32600 || !strings.Contains(m.Error.Message, "initialize") {
		t.Errorf("tools/call first = %+v", m.Error)
	}
	// The same behind an opening that the SDK refuses.
	p.send(strings.ReplaceAll(modernCall("echo", `{}`), "2026-07-28", "2099-01-01"))
	if m := p.next(); m.Error == nil || m.Error.Code != -32022 {
		t.Errorf("unknown protocol version = %+v", m.Error)
	}
	p.send(callLine(3, "echo", `{}`))
	if m := p.next(); m.Error == nil || m.Error.Code != -32600 {
		t.Errorf("tools/call after a refused opening = %+v", m.Error)
	}
	// And initialize twice.
	p.initialize()
	p.send(initialize)
	if m := p.next(); m.Error == nil || m.Error.Code != -32600 {
		t.Errorf("second initialize = %+v", m.Error)
	}
}

func TestErrorsDoNotQuoteTheWholeMessage(t *testing.T) {
	r := newRig(t)
	p := r.stdio(t, t.Context())
	p.initialize()
	p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5,"arguments":{"text":"` + strings.Repeat("secret ", 10_000) + `"}}}`)
	if line := p.line(); len(line) > 2000 || !strings.Contains(line, "-32602") {
		t.Errorf("answer of %d bytes: %.100s", len(line), line)
	}
}

func TestPipedScriptIsAnsweredThoughItsInputEnds(t *testing.T) {
	r := newRig(t)
	// The last line has no newline, as with printf.
	in := strings.Join([]string{initialize, initialized, callLine(1, "echo", `{"text":"piped"}`), `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`}, "\n")
	var out bytes.Buffer
	if err := r.ServeStdio(t.Context(), strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 3 || !strings.Contains(out.String(), `"text":"piped"`) {
		t.Errorf("%d lines of output, want 3:\n%s", len(lines), out.String())
	}
	wait(t, r.gone, "the end of the session")
}

func TestCallThatIsNearlyDoneAnswersAfterEOF(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.stdio(t, t.Context())
		p.initialize()
		p.send(callLine(1, "nap", `{"n":150}`), callLine(2, "nap", `{"n":5000}`))
		p.in.Close()
		if l := p.line(); !strings.Contains(l, "rested") {
			t.Errorf("a call of 150 ms = %s", l)
		}
		begin := time.Now()
		if l := p.line(); strings.Contains(l, "rested") || time.Since(begin) > eofGrace {
			t.Errorf("a call of 5 s, after %s = %s", time.Since(begin), l)
		}
		<-p.done
	})
}

func TestStdioEndsInTimeBehindAStubbornHandler(t *testing.T) {
	for _, how := range []string{"EOF", "context"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			p := r.stdio(t, t.Context())
			p.initialize()
			p.send(callLine(1, "stubborn", `{}`), callLine(2, "wait", `{}`))
			<-r.started
			<-r.started
			begin := time.Now()
			if how == "EOF" {
				p.in.Close()
			} else {
				p.stop()
			}
			<-r.ended // the polite one hears of it
			if took := time.Since(begin); took > eofGrace {
				t.Errorf("%s: the context was cancelled after %s", how, took)
			}
			if err := <-p.done; err != nil {
				t.Errorf("%s: ServeStdio = %v, want nil", how, err)
			}
			if took := time.Since(begin); took > 3*time.Second {
				t.Errorf("%s: ServeStdio took %s", how, took)
			}
			<-r.gone
			if n := r.Sessions(); n != 0 {
				t.Errorf("%s: %d sessions are left", how, n)
			}
			p.in.Close()
			close(r.release)
		})
	}
}

func TestStdioOnRealPipesReturnsWithTheContext(t *testing.T) {
	r := newRig(t)
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer inR.Close()
	defer inW.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.ServeStdio(ctx, inR, io.Discard) }()
	if _, err := io.WriteString(inW, initialize+"\n"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := wait(t, done, "ServeStdio"); err != nil {
		t.Errorf("ServeStdio = %v, want nil", err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestBrokenOutputEndsTheSession(t *testing.T) {
	r := newRig(t)
	inR, inW := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- r.ServeStdio(t.Context(), inR, brokenWriter{}) }()
	if _, err := io.WriteString(inW, initialize+"\n"); err != nil {
		t.Fatal(err)
	}
	if err := wait(t, done, "ServeStdio"); err != nil {
		t.Errorf("ServeStdio = %v, want nil", err)
	}
	wait(t, r.gone, "the end of the session")
	inW.Close()
}

func TestBrokenInputIsAnError(t *testing.T) {
	r := newRig(t)
	failure := errors.New("disk on fire")
	if err := r.ServeStdio(t.Context(), io.MultiReader(strings.NewReader(ping), failing{failure}), io.Discard); !errors.Is(err, failure) {
		t.Errorf("ServeStdio = %v, want %v", err, failure)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestReadingGoesOnWhileTheClientDoesNotRead(t *testing.T) {
	r := newRig(t)
	inR, inW := io.Pipe()
	outR, outW := io.Pipe() // nobody reads it yet
	done := make(chan error, 1)
	go func() { done <- r.ServeStdio(t.Context(), inR, outW); outW.Close() }()
	_, _ = io.WriteString(inW, initialize+"\n"+initialized+"\n")
	for i := range maxCalls - 1 { // initialize has no answer yet either
		if _, err := io.WriteString(inW, callLine(i, "echo", `{"text":"x"}`)+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		defer inW.Close()
		buf := make([]byte, 1<<16)
		for n := 0; n < maxCalls; {
			k, err := outR.Read(buf)
			if err != nil {
				return
			}
			n += bytes.Count(buf[:k], []byte("\n"))
		}
	}()
	if err := wait(t, done, "ServeStdio"); err != nil {
		t.Error(err)
	}
}

func TestCallsWithoutAnAnswerAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.stdio(t, t.Context())
		p.initialize()
		for i := range maxCalls {
			p.send(callLine(i, "wait", `{}`))
			<-r.started
		}
		before := time.Now()
		p.send(callLine(maxCalls, "echo", `{}`))
		if m := p.next(); m.Error == nil || !strings.Contains(m.Error.Message, "busy") || string(m.ID) != fmt.Sprint(maxCalls) || time.Since(before) != seatPatience {
			t.Errorf("one call more = %+v after %s, want busy after %s", m, time.Since(before), seatPatience)
		}
		// What comes behind it is heard.
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, callLine("9999", "echo", `{}`))
		if m := p.next(); string(m.ID) != "7" {
			t.Errorf("the cancelled call = %+v", m)
		}
		if m := p.next(); string(m.ID) != "9999" || m.Error != nil {
			t.Errorf("the call in its place = %+v", m)
		}
		p.in.Close()
		for range maxCalls {
			<-r.ended
		}
		<-p.done
	})
}

func TestManyQuickCallsInARowAreAllServed(t *testing.T) {
	r := newRig(t)
	p := r.stdio(t, t.Context())
	p.initialize()
	const n = 10 * maxCalls
	go func() {
		for i := range n {
			_, _ = io.WriteString(p.in, callLine(i, "echo", `{}`)+"\n")
		}
	}()
	for range n {
		if m := p.next(); m.Error != nil {
			t.Fatalf("call %s = %+v", m.ID, m.Error)
		}
	}
}

func TestBatchBeyondTheBoundIsRefused(t *testing.T) {
	r := newRig(t)
	p := r.stdio(t, t.Context())
	p.send(strings.Replace(initialize, "2025-06-18", "2025-03-26", 1), initialized)
	p.next()
	calls := make([]string, maxCalls+1)
	for i := range calls {
		calls[i] = callLine(i, "echo", `{}`)
	}
	p.send("[" + strings.Join(calls, ",") + "]")
	if m := p.next(); m.Error == nil || m.Error.Code != -32600 {
		t.Errorf("a batch of %d = %+v", len(calls), m)
	}
	if _, bad := checkPost([]byte("[" + strings.Join(calls, ",") + "]")); bad == nil || bad.code != -32600 {
		t.Errorf("the same over HTTP = %+v", bad)
	}
	p.send("[" + strings.Join(calls[:maxCalls], ",") + "]")
	var got []message
	if err := json.Unmarshal([]byte(p.line()), &got); err != nil || len(got) != maxCalls {
		t.Errorf("%d answers, %v, want %d", len(got), err, maxCalls)
	}
}

func TestCallsOfAStreamAreBounded(t *testing.T) {
	r := newRig(t)
	base, _ := r.serve(t)
	c := openSSE(t, base)
	c.initialize()
	for i := range maxCalls {
		c.send(callLine(i, "wait", `{}`))
		wait(t, r.started, "the tool")
	}
	if status, body, _ := do(t, "POST", c.post, callLine(maxCalls, "echo", `{}`)); status != 503 || !strings.Contains(body, "busy") {
		t.Errorf("one call more = %d %s, want 503", status, body)
	}
	c.drop()
	for range maxCalls {
		wait(t, r.ended, "the end of the tool")
	}
}

func TestLimitsOfASessionNarrowWhatItSees(t *testing.T) {
	r := newRig(t)
	ctx := caller.With(t.Context(), &caller.Caller{Toolsets: []string{"talk", "slow"}, Exclude: []string{"say.echo"}, ReadOnly: true, Agent: "planner", Project: "p1"})
	p := r.stdio(t, ctx)
	p.initialize()
	p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(p.next().Result, &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, one := range list.Tools {
		names = append(names, one.Name)
	}
	if got, want := strings.Join(names, " "), "who nap fail panic steps"; got != want {
		t.Errorf("tools = %s, want %s", got, want)
	}
	for _, name := range []string{"echo", "say.echo", "wait", "confirm", "nonsense"} {
		p.send(callLine(2, name, `{}`))
		if m := p.next(); m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("call of %s = %+v, want an unknown tool", name, m)
		}
	}
	p.send(callLine(3, "who", `{}`))
	if l := p.line(); !strings.Contains(l, `"agent":"planner"`) || !strings.Contains(l, `"project":"p1"`) {
		t.Errorf("who = %s", l)
	}
	err := r.ServeStdio(caller.With(t.Context(), &caller.Caller{Exclude: []string{"ekko"}}), strings.NewReader(""), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "ekko") {
		t.Errorf("a limit that names no tool = %v, want an error that names it", err)
	}
}

func FuzzFraming(f *testing.F) {
	for _, s := range []string{
		"hello", "{", "null\n42\n", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "\xef\xbb\xbf" + initialize,
		"\x00", strings.Repeat("[", 50), `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, initialize + "\r\n" + initialized + "\n" + `[` + ping + `,1]`,
		`{"jsonrpc":"2.0","id":1,"Method":"ping"}`, `{"jsonrpc":"2.0","id":"` + strings.Repeat("a", 600) + `"}`, "\xff\xfe",
		`{"jsonrpc":"2.0","id":1e3,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":9007199254740993,"method":"x"}`,
		initialize + "\n" + callLine(1, "echo", `{"text":"\ud800<>"}`), `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"a":"\`, `{"":`, `{"id":,`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo",` + modernMeta + `}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"the end"}}`,
	} {
		f.Add([]byte(s))
	}
	r := newRig(f, func(o *Options) { o.MaxMessageBytes, o.SessionEnded = 4096, nil })
	r.eofGrace = 10 * time.Second // every answer counts here
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Contains(data, []byte("wait")) || bytes.Contains(data, []byte("stubborn")) || bytes.Contains(data, []byte("listen")) {
			return // those calls end only by being cancelled
		}
		in := append(bytes.Clone(data), "\n"+`{"jsonrpc":"2.0","id":"the end","method":"ping"}`+"\n"...)
		var out bytes.Buffer
		if err := r.ServeStdio(context.Background(), bytes.NewReader(in), &out); err != nil {
			t.Fatalf("ServeStdio = %v", err)
		}
		ended := false
		for line := range strings.Lines(out.String()) {
			var one message
			all := []message{}
			if json.Unmarshal([]byte(line), &one) == nil {
				all = append(all, one)
			} else if err := json.Unmarshal([]byte(line), &all); err != nil {
				t.Fatalf("not JSON-RPC: %q", line)
			}
			for _, m := range all {
				if m.Version != "2.0" {
					t.Fatalf("not JSON-RPC: %q", line)
				}
				if m.Error != nil && m.Error.Code == 0 {
					t.Fatalf("error without a code: %q", line)
				}
				ended = ended || string(m.ID) == `"the end"`
			}
		}
		if !ended {
			t.Fatalf("the server did not survive %q:\n%s", data, out.String())
		}
	})
}
