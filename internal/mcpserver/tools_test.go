package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
)

// eachEra runs f with a fresh rig on every transport and protocol version.
func eachEra(t *testing.T, f func(t *testing.T, r *rig, e era)) {
	for _, e := range eras {
		t.Run(e.String(), func(t *testing.T) { f(t, newRig(t), e) })
	}
}

func call(t testing.TB, s *mcp.ClientSession, name string, args any) *mcp.CallToolResult {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("call %s: %v", name, err)
	}
	return res
}

// body returns a result's text, which must be the same JSON as its structure.
func body(t testing.TB, res *mcp.CallToolResult) string {
	t.Helper()
	if len(res.Content) != 1 {
		t.Fatalf("%d contents, want 1", len(res.Content))
	}
	text := res.Content[0].(*mcp.TextContent).Text
	var fromText any
	if err := json.Unmarshal([]byte(text), &fromText); err != nil {
		t.Fatalf("text is not JSON: %v: %s", err, text)
	}
	a, _ := json.Marshal(fromText)
	b, _ := json.Marshal(res.StructuredContent)
	if string(a) != string(b) {
		t.Errorf("text %s differs from structure %s", a, b)
	}
	return text
}

func TestToolsAreListedInFull(t *testing.T) {
	eachEra(t, func(t *testing.T, r *rig, e era) {
		s := r.connect(t, e, nil)
		if got := s.InitializeResult(); got.Instructions != "be kind" || got.ServerInfo.Name != "rig" || got.ServerInfo.Title != "The Rig" || got.ServerInfo.Version != "1.2.3" {
			t.Errorf("initialize = %+v", got)
		}
		if caps := s.InitializeResult().Capabilities; caps.Tools == nil || !caps.Tools.ListChanged || caps.Logging == nil || caps.Prompts != nil {
			t.Errorf("capabilities = %+v", caps)
		}
		list, err := s.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		byName := map[string]*mcp.Tool{}
		for _, one := range list.Tools {
			names = append(names, one.Name)
			byName[one.Name] = one
		}
		if got, want := strings.Join(names, " "), "echo count who wait nap stubborn fail panic steps confirm"; got != want {
			t.Errorf("tools = %s, want %s", got, want)
		}
		if list.TTLMs != 0 || list.CacheScope != "private" {
			t.Errorf("the list may be kept for %d ms, scope %s", list.TTLMs, list.CacheScope)
		}
		echo := byName["echo"]
		if echo.Title != "Echo" || echo.Description != "Says <the same> & no more." {
			t.Errorf("echo = %+v", echo)
		}
		in, _ := json.Marshal(echo.InputSchema)
		if !strings.Contains(string(in), `"what to say"`) || !strings.Contains(string(in), `"type":"object"`) {
			t.Errorf("input schema = %s", in)
		}
		out, _ := json.Marshal(echo.OutputSchema)
		if !strings.Contains(string(out), `"after"`) {
			t.Errorf("output schema = %s", out)
		}
	})
}

func TestAnnotationsAreAllExplicit(t *testing.T) {
	r := newRig(t)
	p := r.stdio(t, t.Context())
	p.initialize()
	p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	line := p.line()
	var list struct {
		Tools []struct {
			Name        string
			Annotations map[string]bool
		}
	}
	if err := json.Unmarshal(parse(t, line).Result, &list); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"echo":     "map[destructiveHint:false idempotentHint:true openWorldHint:false readOnlyHint:true]",
		"wait":     "map[destructiveHint:false idempotentHint:false openWorldHint:false readOnlyHint:false]",
		"stubborn": "map[destructiveHint:true idempotentHint:true openWorldHint:true readOnlyHint:false]",
	}
	for _, one := range list.Tools {
		if w, ok := want[one.Name]; ok && fmt.Sprint(one.Annotations) != w {
			t.Errorf("annotations of %s = %v, want %s", one.Name, one.Annotations, w)
		}
	}
	if !strings.Contains(line, "Says <the same> & no more.") {
		t.Error("the listing is escaped for HTML")
	}
}

func TestResultsComeTwiceAndExact(t *testing.T) {
	eachEra(t, func(t *testing.T, r *rig, e era) {
		s := r.connect(t, e, nil)
		res := call(t, s, "echo", json.RawMessage(`{"text":"<a href=\"x\">&amp;</a> \\u003c é \u2028","n":1763164800123456789}`))
		text := body(t, res)
		if res.IsError || !strings.Contains(text, `"n":1763164800123456789,"after":0}`) || !strings.HasPrefix(text, `{"status":"ok","text":"<a href=\"x\">&amp;</a> \\u003c é`) {
			t.Errorf("echo = %v %s", res.IsError, text)
		}
		res = call(t, s, "fail", nil)
		if text := body(t, res); !res.IsError || !strings.HasPrefix(text, `{"status":"error","error_code":"FILE_NOT_FOUND","message":"no <such> file","path":"a&b"`) {
			t.Errorf("fail = %v %s", res.IsError, text)
		}
		res = call(t, s, "echo", json.RawMessage(`{"txt":1}`))
		if text := body(t, res); !res.IsError || !strings.Contains(text, `VALIDATION_ERROR`) {
			t.Errorf("wrong argument = %v %s", res.IsError, text)
		}
		res = call(t, s, "panic", nil)
		if text := body(t, res); !res.IsError || !strings.Contains(text, "SERVER_ERROR") || strings.Contains(text, "on purpose") {
			t.Errorf("panic = %v %s", res.IsError, text)
		}
	})
}

// What leaves on the wire, byte for byte.
func TestWireFormIsNotEscapedAndKeepsEveryDigit(t *testing.T) {
	r := newRig(t)
	base, _ := r.serve(t)
	args := `{"text":"<&> \"q\" \\\n","n":-9223372036854775808}`
	inner := `{"status":"ok","text":"<&> \"q\" \\\n","n":-9223372036854775808,"after":0}`
	quoted := `"{\"status\":\"ok\",\"text\":\"<&> \\\"q\\\" \\\\\\n\",\"n\":-9223372036854775808,\"after\":0}"`
	want := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":` + quoted + `}],"structuredContent":` + inner + `,"isError":false`
	modernTail := `,"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"rig","title":"The Rig","version":"1.2.3"}}}}`

	p := r.stdio(t, t.Context())
	p.initialize()
	p.send(callLine(1, "echo", args))
	if got := p.line(); got != want+"}}" {
		t.Errorf("stdio:\n got %s\nwant %s", got, want+"}}")
	}
	p.send(modernCall("echo", args))
	if got := p.line(); got != want+modernTail {
		t.Errorf("stdio, modern:\n got %s\nwant %s", got, want+modernTail)
	}
	_, answer, _ := do(t, "POST", base+"/mcp", callLine(1, "echo", args), "Mcp-Session-Id", openSession(t, base))
	if got := eventData(answer); got != want+"}}" {
		t.Errorf("http:\n got %s\nwant %s", got, want+"}}")
	}
	_, answer, _ = do(t, "POST", base+"/mcp", modernCall("echo", args), modernHeaders("tools/call", "echo")...)
	if got := eventData(answer); got != want+modernTail {
		t.Errorf("http, modern:\n got %s\nwant %s", got, want+modernTail)
	}
	c := openSSE(t, base)
	c.initialize()
	c.send(callLine(1, "echo", args))
	if got := c.event(); got != want+"}}" {
		t.Errorf("sse:\n got %s\nwant %s", got, want+"}}")
	}
}

func TestOtherSpellingsReachTheTool(t *testing.T) {
	eachEra(t, func(t *testing.T, r *rig, e era) {
		s := r.connect(t, e, nil)
		for _, name := range []string{"echo", "echo_tool", "say.echo", "say.echo_tool"} {
			if text := body(t, call(t, s, name, echoIn{Text: name})); !strings.Contains(text, name) {
				t.Errorf("call %s = %s", name, text)
			}
		}
		_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "ecco"})
		wire, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok || wire.Code != jsonrpc.CodeInvalidParams || !strings.Contains(wire.Message, `did you mean "echo"?`) {
			t.Errorf("call ecco = %v, want an unknown tool with the nearest", err)
		}
		for _, name := range []string{"nothing like it", anyTool.Name} {
			_, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: name})
			if wire, ok := errors.AsType[*jsonrpc.Error](err); !ok || wire.Code != jsonrpc.CodeInvalidParams {
				t.Errorf("call of %s = %v, want an unknown tool", name, err)
			}
		}
	})
}

func TestCallerIsKnown(t *testing.T) {
	eachEra(t, func(t *testing.T, r *rig, e era) {
		s := r.connect(t, e, nil)
		var who whoOut
		if err := json.Unmarshal([]byte(body(t, call(t, s, "who", nil))), &who); err != nil {
			t.Fatal(err)
		}
		want := whoOut{Client: "tester", Version: "0.1", Transport: e.transport, Protocol: e.version, Session: who.Session}
		if e.transport != "stdio" {
			want.Project = "by-url"
		}
		if who != want {
			t.Errorf("caller = %+v, want %+v", who, want)
		}
		if stateless := e.transport == "http" && e.version >= modernVersion; (who.Session == "") != stateless {
			t.Errorf("session = %q", who.Session)
		}
		first := who.Session
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "who", Meta: mcp.Meta{
			"async-crud-mcp/agent": "rev\niewer", "threadId": "t-1", "async-crud-mcp/project": "p-2",
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(body(t, res)), &who); err != nil {
			t.Fatal(err)
		}
		if who.Agent != "reviewer" || who.Thread != "t-1" || who.Project != "p-2" || who.Session != first {
			t.Errorf("caller with _meta = %+v", who)
		}
	})
}

func TestAgentMayBeNamedInAHeader(t *testing.T) {
	r := newRig(t)
	base, _ := r.serve(t)
	header := []string{"X-Async-Crud-Agent", "worker 7", "Mcp-Session-Id", openSession(t, base)}
	if _, answer, _ := do(t, "POST", base+"/mcp", callLine(1, "who", "{}"), header...); !strings.Contains(answer, `"agent":"worker 7"`) {
		t.Errorf("http = %s", answer)
	}
	c := openSSE(t, base)
	c.initialize()
	do(t, "POST", c.post, callLine(1, "who", "{}"), "X-Async-Crud-Agent", "worker 8")
	if e := c.event(); !strings.Contains(e, `"agent":"worker 8"`) {
		t.Errorf("sse = %s", e)
	}
}

// No header of a client can pretend to be another client's request.
func TestInnerHeaderCannotBeSent(t *testing.T) {
	r := newRig(t)
	base, _ := r.serve(t)
	status, _, _ := do(t, "POST", base+"/mcp", ping, "Call-Of-Post", "1", "Mcp-Session-Id", openSession(t, base))
	if status != 200 {
		t.Errorf("a header with a similar name = %d", status)
	}
}

func TestProgressArrivesInOrderAndBeforeTheAnswer(t *testing.T) {
	eachEra(t, func(t *testing.T, r *rig, e era) {
		steps := make(chan float64, 1000)
		s := r.connect(t, e, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			steps <- req.Params.Progress
		}})
		p := &mcp.CallToolParams{Name: "steps", Arguments: echoIn{N: 50}}
		p.SetProgressToken("tok")
		if _, err := s.CallTool(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		last := 0.0
		for last < 50 {
			n := wait(t, steps, "progress")
			if n <= last {
				t.Fatalf("progress %v after %v", n, last)
			}
			last = n
		}
		call(t, s, "steps", echoIn{N: 5}) // without a token nobody wants to know
		if len(steps) > 0 {
			t.Error("progress without a token")
		}
	})
	// On the wire nothing follows the answer.
	r := newRig(t)
	p := r.stdio(t, t.Context())
	p.initialize()
	p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"steps","arguments":{"n":100},"_meta":{"progressToken":7}}}`)
	for p.next().Method != "" {
	}
	p.wantAlive()
}

func TestProgressWithoutAnEndGrows(t *testing.T) {
	r := newRig(t)
	p := r.stdio(t, t.Context())
	p.initialize()
	p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"steps","arguments":{"n":8,"text":"no end in sight"},"_meta":{"progressToken":7}}}`)
	last, n := -1.0, 0
	for m := p.next(); m.Method != ""; m = p.next() {
		var step struct{ Progress, Total float64 }
		if err := json.Unmarshal(m.Params, &step); err != nil {
			t.Fatal(err)
		}
		if step.Progress <= last || step.Total != 0 {
			t.Errorf("progress %v of %v after %v", step.Progress, step.Total, last)
		}
		last = step.Progress
		n++
	}
	if n < 2 || last != 7 {
		t.Errorf("%d notices up to %v, want some up to 7", n, last)
	}
}

func TestPersonAndRootsAreAsked(t *testing.T) {
	for _, e := range eras {
		t.Run(e.String(), func(t *testing.T) {
			r := newRig(t)
			asked := make(chan string, 10)
			c := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "0.1"}, &mcp.ClientOptions{
				ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					asked <- req.Params.Message
					if req.Params.Message == "second?" {
						return &mcp.ElicitResult{Action: "decline"}, nil
					}
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"sure": true}}, nil
				},
			})
			c.AddRoots(&mcp.Root{URI: "file:///home/a%20b"}, &mcp.Root{URI: "file://localhost/c/../d/"}, &mcp.Root{URI: "https://example.org/"}, &mcp.Root{URI: "file://other/x"})
			s := r.connectAs(t, e, c)
			want := `{"said":"/home/a b,/d true{\"sure\":true} false"}`
			for range 2 { // the second time the roots are known
				if text := body(t, call(t, s, "confirm", nil)); text != want {
					t.Errorf("confirm = %s, want %s", text, want)
				}
				if a, b := wait(t, asked, "a question"), wait(t, asked, "a question"); a != "first?" || b != "second?" {
					t.Errorf("asked %q and %q", a, b)
				}
			}
			if len(asked) > 0 {
				t.Errorf("asked once more: %s", <-asked)
			}
			if e.version >= modernVersion {
				return // that era has no word for changed roots
			}
			c.AddRoots(&mcp.Root{URI: "file:///new"})
			wait(t, r.roots, "the change of roots")
			if text := body(t, call(t, s, "confirm", nil)); !strings.Contains(text, "/new") {
				t.Errorf("after the change = %s", text)
			}
		})
	}
}

func TestClientThatDoesNotSayItsRootsHasNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.stdio(t, t.Context())
		p.send(strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"roots":{"listChanged":true}}`, 1), initialized)
		p.next()
		call := func(id int, asked bool, want string, took time.Duration) message {
			t.Helper()
			before := time.Now()
			p.send(callLine(id, "confirm", `{}`))
			var question message
			for {
				m := p.next()
				switch {
				case m.Method == "roots/list":
					question = m
				case m.Method == "":
					if !strings.Contains(string(m.Result), want) || time.Since(before) != took || (question.Method != "") != asked {
						t.Errorf("call %d = %s %+v after %s, asked %v; want %s after %s", id, m.Result, m.Error, time.Since(before), question.Method != "", want, took)
					}
					return question
				}
			}
		}
		call(1, true, " cannot ask", rootsPatience)
		call(2, false, " cannot ask", 0) // not again at once
		time.Sleep(rootsPause)
		call(3, true, " cannot ask", rootsPatience)
		p.send(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`) // it speaks of them
		<-r.roots
		call(4, true, " cannot ask", rootsPatience)
		p.in.Close()
		<-p.done
	})
}

func TestClientThatCannotBeAsked(t *testing.T) {
	eachEra(t, func(t *testing.T, r *rig, e era) {
		s := r.connect(t, e, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
		if text := body(t, call(t, s, "confirm", nil)); text != `{"said":" cannot ask cannot ask"}` {
			t.Errorf("confirm = %s", text)
		}
	})
}

// A client that opens with initialize is one of the older eras, whatever
// version it asks for.
func TestInitializeWithAVersionThatHasNone(t *testing.T) {
	r := newRig(t)
	p := r.stdio(t, t.Context())
	p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2026-07-28","capabilities":{"roots":{}},"clientInfo":{"name":"raw","version":"9"}}}`)
	if m := p.next(); !strings.Contains(string(m.Result), `"protocolVersion":"2025-11-25"`) {
		t.Fatalf("initialize = %s", m.Result)
	}
	p.send(initialized, callLine(2, "confirm", "{}"))
	if m := p.next(); m.Method != "roots/list" {
		t.Fatalf("the server asked %+v, want roots/list", m)
	}
	p.send(`{"jsonrpc":"2.0","id":1,"result":{"roots":[{"uri":"file:///r"}]}}`)
	if m := p.next(); !strings.Contains(string(m.Result), `{"said":"/r cannot ask cannot ask"}`) {
		t.Errorf("confirm = %s", m.Result)
	}
	p.send(callLine(3, "confirm", "{}")) // the roots are known now
	if m := p.next(); !strings.Contains(string(m.Result), `{"said":"/r cannot ask cannot ask"}`) {
		t.Errorf("second confirm = %+v", m)
	}
}

func TestRequestStateOfAnotherCallIsRefused(t *testing.T) {
	r := newRig(t)
	p := r.stdio(t, t.Context())
	caps := strings.Replace(modernMeta, `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}`, 1)
	ask := func(id int, args, extra string) message {
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"confirm","arguments":%s,%s%s}}`, id, args, caps, extra))
		return p.next()
	}
	yes := `{"action":"accept","content":{"sure":true}}`
	if m := ask(1, "{}", ""); !strings.Contains(string(m.Result), `"inputRequests":{"first"`) || !strings.Contains(string(m.Result), `"resultType":"input_required"`) {
		t.Fatalf("first round = %s", m.Result)
	}
	m := ask(2, "{}", `,"inputResponses":{"first":`+yes+`}`)
	var round struct{ RequestState string }
	if err := json.Unmarshal(m.Result, &round); err != nil || round.RequestState == "" {
		t.Fatalf("second round = %s", m.Result)
	}
	if m := ask(3, "{}", `,"inputResponses":{"second":`+yes+`},"requestState":"`+round.RequestState+`"`); !strings.Contains(string(m.Result), `true{`) {
		t.Errorf("third round = %s %+v", m.Result, m.Error)
	}
	for _, tt := range []struct{ name, args, state string }{
		{"another call's", `{"x":1}`, round.RequestState}, {"forged", "{}", "e30.AAAA"}, {"rubbish", "{}", "§"},
	} {
		m := ask(4, tt.args, `,"inputResponses":{"second":`+yes+`},"requestState":"`+tt.state+`"`)
		if m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("%s state = %s %+v, want an error", tt.name, m.Result, m.Error)
		}
	}
}

func TestChangedToolsAreAnnounced(t *testing.T) {
	eachEra(t, func(t *testing.T, r *rig, e era) {
		changed := make(chan struct{}, 100)
		s := r.connect(t, e, &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }})
		call(t, s, "echo", nil)
		names := func() string {
			list, err := s.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, one := range list.Tools {
				names = append(names, one.Name)
			}
			return strings.Join(names, " ")
		}
		// A listener of the modern era, or a GET, may still be on its way.
		for have := false; !have; {
			r.SetTools(r.set(t, "who", "echo"))
			select {
			case <-changed:
				have = true
			case <-time.After(50 * time.Millisecond):
				r.SetTools(r.set(t, "who"))
			}
		}
		if got := names(); got != "echo who" {
			t.Errorf("tools = %s, want echo who", got)
		}
		if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "wait"}); err == nil {
			t.Error("a tool that was taken away can be called")
		}
	})
}

func TestSameToolsAreNotAnnounced(t *testing.T) {
	var bus event.Bus
	sub := bus.Subscribe(20)
	defer sub.Close()
	r := newRig(t, func(o *Options) { o.Bus = &bus })
	p := r.stdio(t, t.Context())
	p.initialize()
	<-sub.C // the session
	r.SetTools(r.set(t))
	r.SetTools(r.set(t))
	r.SetTools(r.set(t, "echo"))
	if m := p.next(); m.Method != "notifications/tools/list_changed" {
		t.Errorf("first message = %+v", m)
	}
	if e := <-sub.C; e.Kind != event.ToolsChanged || len(sub.C) > 0 {
		t.Errorf("event %s and %d more, want one ToolsChanged", e.Kind, len(sub.C))
	}
	p.wantAlive() // nothing else came before it
}

func TestPanicOutsideAToolIsContained(t *testing.T) {
	r := newRig(t, func(o *Options) { o.RootsChanged = func(string) { panic("broken on purpose") } })
	p := r.stdio(t, t.Context())
	p.initialize()
	p.send(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	p.wantAlive()
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	set := newRig(t).set(t)
	for name, o := range map[string]Options{
		"no name":          {Tools: set},
		"no tools":         {Name: "x"},
		"negative limit":   {Name: "x", Tools: set, MaxMessageBytes: -1},
		"negative timeout": {Name: "x", Tools: set, SessionTimeout: -1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: New = nil, want an error", name)
		}
	}
}

func TestRootPath(t *testing.T) {
	for _, tt := range []struct {
		uri     string
		windows bool
		want    string
	}{
		{"file:///a/b", false, "/a/b"},
		{"file:///a/%C3%BC", false, "/a/ü"},
		{"file://localhost/a/", false, "/a"},
		{"file:///", false, "/"},
		{"file://host/a", false, ""},
		{"http://a/b", false, ""},
		{"file:", false, ""},
		{"/a", false, ""},
		{"file:///a%00b", false, ""},
		{"%", false, ""},
		{"file:a/b", false, ""},
		{"file:///C:/x/y", true, `C:\x\y`},
		{"file:///c%3A/x", true, `c:\x`},
		{"file:///x", true, ""},
		{"file:///", true, ""},
	} {
		got, ok := rootPath(tt.uri, tt.windows)
		if ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("rootPath(%q, windows %v) = %q, %v, want %q", tt.uri, tt.windows, got, ok, tt.want)
		}
	}
}

func TestLabelsAreOneShortLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "a\nb\x1b[31m": "ab[31m", "ünï": "ünï", "bad\xff": "bad", strings.Repeat("x", 300): strings.Repeat("x", 200) + "…",
	} {
		if got := label(in); got != want {
			t.Errorf("label(%q) = %q, want %q", in, got, want)
		}
	}
	if got := label(5); got != "" {
		t.Errorf("label(5) = %q", got)
	}
}
