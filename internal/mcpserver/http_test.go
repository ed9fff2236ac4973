package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
)

func TestForeignRequestsAreRefusedOnEveryEndpoint(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.AllowedHosts = []string{"Build.example"}
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "up 1") })
	})
	base, _ := r.serve(t)
	stream := openSSE(t, base)
	session := openSession(t, base)
	endpoints := []struct {
		method, url, body string
		header            []string
	}{
		{"POST", base + "/mcp", initialize, nil},
		{"POST", base + "/mcp", ping, []string{"Mcp-Session-Id", session}},
		{"POST", base + "/mcp", modernCall("echo", "{}"), modernHeaders("tools/call", "echo")},
		{"GET", base + "/mcp", "", []string{"Mcp-Session-Id", session}},
		{"DELETE", base + "/mcp", "", []string{"Mcp-Session-Id", session}},
		{"GET", base + "/sse", "", nil},
		{"POST", stream.post, ping, nil},
		{"GET", base + "/health", "", nil},
		{"GET", base + "/metrics", "", nil},
		{"GET", base + "/", "", nil},
	}
	foreign := [][]string{
		{"Origin", "http://evil.example"},
		{"Origin", "https://localhost.evil.example"},
		{"Origin", "null"},
		{"Origin", "http://127.0.0.1.evil.example"},
		{"Origin", "http://127.0.0.1@evil.example"},
		{"Origin", "file://localhost"},
		{"Origin", "http://evil.example:80@localhost"},
		{"Origin", "chrome-extension://localhost"},
		{"Origin", "localhost"},
		{"Origin", "http://192.168.1.5"},
		{"Origin", "http://[::2]"},
		{"Origin", "http://build.example.evil"},
		{"Host", "evil.example"},
		{"Host", "localhost.evil.example"},
		{"Host", "evil.example:8720"},
		{"Host", "127.0.0.1.nip.io"},
		{"Host", "2130706433"},
		{"Host", "0.0.0.0"},
		{"Host", "192.168.1.5:8720"},
		{"Host", "[::2]"},
		{"Host", "localhost:x:y"},
		{"Sec-Fetch-Site", "cross-site"},
	}
	for _, e := range endpoints {
		for _, f := range foreign {
			if status, _ := head(t, e.method, e.url, e.body, append(f[:2:2], e.header...)...); status != http.StatusForbidden {
				t.Errorf("%s %s with %s = %d, want 403", e.method, e.url, f, status)
			}
		}
	}
	for _, ours := range [][]string{
		{"Origin", "http://localhost:6274"},
		{"Origin", "http://127.0.0.1"},
		{"Origin", "https://[::1]:8080"},
		{"Origin", "http://build.example:1"},
		{"Host", "localhost"},
		{"Host", "LOCALHOST:8720"},
		{"Host", "[::1]:8720"},
		{"Host", "127.9.9.9"},
		{"Host", "build.example:8720"},
		{"Sec-Fetch-Site", "none"},
		{"Sec-Fetch-Site", "same-origin"},
	} {
		for _, path := range []string{"/health", "/metrics", "/"} {
			if status, body, _ := do(t, "GET", base+path, "", ours...); status != 200 {
				t.Errorf("GET %s with %s = %d %s, want 200", path, ours, status, body)
			}
		}
		if status, body, _ := do(t, "POST", base+"/mcp", initialize, ours...); status != 200 {
			t.Errorf("POST /mcp with %s = %d %s, want 200", ours, status, body)
		}
	}
	// Two Origins, of which one would do.
	req := request(t, t.Context(), "GET", base+"/health", "")
	req.Header["Origin"] = []string{"http://localhost", "http://evil.example"}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("two Origins = %d, want 403", res.StatusCode)
	}
}

func TestWrongContentTypeIsRefused(t *testing.T) {
	r := newRig(t)
	base, _ := r.serve(t)
	stream := openSSE(t, base)
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp", ";"} {
		for _, url := range []string{base + "/mcp", stream.post} {
			for _, header := range [][]string{{}, modernHeaders("tools/call", "echo")} {
				status, _, _ := do(t, "POST", url, modernCall("echo", "{}"), append([]string{"Content-Type", kind}, header...)...)
				if status != http.StatusUnsupportedMediaType {
					t.Errorf("POST %s with Content-Type %q = %d, want 415", url, kind, status)
				}
			}
		}
	}
	if status, body, _ := do(t, "POST", base+"/mcp", initialize, "Content-Type", "application/json; charset=utf-8"); status != 200 {
		t.Errorf("with a charset = %d %s", status, body)
	}
}

func TestMethodsAndPathsThatAreNotThere(t *testing.T) {
	r := newRig(t)
	base, _ := r.serve(t)
	for _, tt := range []struct {
		method, path string
		want         int
	}{
		{"OPTIONS", "/mcp", 405},
		{"PUT", "/mcp", 405},
		{"HEAD", "/sse", 405},
		{"DELETE", "/sse", 405},
		{"POST", "/health", 405},
		{"GET", "/nothing", 404},
		{"GET", "/metrics", 404},
		{"GET", "/mcp", 400},
		{"DELETE", "/mcp", 404},
	} {
		if status, _, _ := do(t, tt.method, base+tt.path, ""); status != tt.want {
			t.Errorf("%s %s = %d, want %d", tt.method, tt.path, status, tt.want)
		}
	}
	if status, _, _ := do(t, "GET", base+"/mcp", "", "Mcp-Protocol-Version", "2026-07-28"); status != 405 {
		t.Errorf("GET /mcp of the modern era = %d, want 405", status)
	}
	if status, _, _ := do(t, "POST", base+"/sse?sessionid=x", ping); status != 404 {
		t.Errorf("POST to an SSE session that is not there = %d, want 404", status)
	}
}

func TestTokenIsWantedEverywhere(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Token = "correct horse"
		o.Metrics = http.NotFoundHandler()
		o.Health = func() health.Report { return health.Report{Status: health.Degraded, Version: "secret version"} }
	})
	base, _ := r.serve(t)
	for _, wrong := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Bearer correct", "Basic correct horse", "correct horse", "Bearer correct horses"} {
		for _, path := range []string{"GET /mcp", "POST /mcp", "DELETE /mcp", "GET /sse", "POST /sse", "GET /metrics", "GET /", "GET /else"} {
			method, path, _ := strings.Cut(path, " ")
			status, h := head(t, method, base+path, initialize, "Authorization", wrong)
			if status != http.StatusUnauthorized || !strings.HasPrefix(h.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s %s with %q = %d, WWW-Authenticate %q; want 401", method, path, wrong, status, h.Get("WWW-Authenticate"))
			}
		}
		if status, body, _ := do(t, "GET", base+"/health", "", "Authorization", wrong); status != 200 || strings.Contains(body, "secret") || !strings.Contains(body, "degraded") {
			t.Errorf("GET /health with %q = %d %s, want the status alone", wrong, status, body)
		}
	}
	for _, right := range []string{"Bearer correct horse", "bearer correct horse"} {
		if status, body, _ := do(t, "GET", base+"/health", "", "Authorization", right); status != 200 || !strings.Contains(body, "secret version") {
			t.Errorf("GET /health with the token = %d %s", status, body)
		}
		if status, _, _ := do(t, "POST", base+"/mcp", initialize, "Authorization", right); status != 200 {
			t.Errorf("POST /mcp with the token = %d", status)
		}
	}
}

func TestTokenMayChangeAtAnyTime(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Token = "old" })
	base, _ := r.serve(t)
	status := func(token string) int {
		status, _, _ := do(t, "POST", base+"/mcp", modernCall("echo", "{}"), append(modernHeaders("tools/call", "echo"), "Authorization", "Bearer "+token)...)
		return status
	}
	for _, tt := range []struct {
		set, sent string
		want      int
	}{{"new", "old", 401}, {"new", "new", 200}, {"", "anything", 200}, {"back", "", 401}, {"back", "back", 200}} {
		r.SetToken(tt.set)
		if got := status(tt.sent); got != tt.want {
			t.Errorf("token %q, sent %q = %d, want %d", tt.set, tt.sent, got, tt.want)
		}
	}
}

func TestBodiesUpToTheLimit(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxMessageBytes = 10_000 })
	base, _ := r.serve(t)
	session := openSession(t, base)
	stream := openSSE(t, base)
	sized := func(body string, n int) string { return body + strings.Repeat(" ", n-len(body)) }
	for _, e := range []struct {
		name, url, body string
		ok              int
		header          []string
	}{
		{"session", base + "/mcp", ping, 200, []string{"Mcp-Session-Id", session}},
		{"modern", base + "/mcp", modernCall("echo", "{}"), 200, modernHeaders("tools/call", "echo")},
		{"sse", stream.post, ping, 202, nil},
	} {
		if status, body, _ := do(t, "POST", e.url, sized(e.body, 10_000), e.header...); status != e.ok {
			t.Errorf("%s: exactly the limit = %d %s", e.name, status, body)
		}
		status, body, _ := do(t, "POST", e.url, sized(e.body, 10_001), e.header...)
		if m := parse(t, body); status != 413 || !strings.Contains(m.Error.Message, "10000") {
			t.Errorf("%s: one more = %d %s, want 413", e.name, status, body)
		}
		// Without a length, so that it shows only while reading.
		req := request(t, t.Context(), "POST", e.url, "", e.header...)
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(sized(e.body, 50_000))), -1
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 413 {
			t.Errorf("%s: chunked = %d, want 413", e.name, res.StatusCode)
		}
	}
}

func TestTenMegabyteFileFits(t *testing.T) {
	const file = 10 << 20
	if DefaultMaxMessageBytes < 6*file+1<<20 {
		t.Errorf("the default limit %d does not hold a file in its longest form", DefaultMaxMessageBytes)
	}
	r := newRig(t)
	base, _ := r.serve(t)
	args, want := `{"text":"`+strings.Repeat(`x`, file)+`"}`, fmt.Sprintf(`"after":%d`, file)
	if _, body, _ := do(t, "POST", base+"/mcp", modernCall("count", args), modernHeaders("tools/call", "count")...); !strings.Contains(body, want) {
		t.Errorf("HTTP: %.200s", body)
	}
	if _, body, _ := do(t, "POST", base+"/mcp", callLine(1, "count", args), "Mcp-Session-Id", openSession(t, base)); !strings.Contains(body, want) {
		t.Errorf("HTTP with a session: %.200s", body)
	}
	p := r.stdio(t, t.Context())
	p.initialize()
	p.send(callLine(1, "count", args))
	if l := p.line(); !strings.Contains(l, want) {
		t.Errorf("stdio: %.200s", l)
	}
}

func TestMalformedBodiesAreAnswered(t *testing.T) {
	r := newRig(t)
	base, _ := r.serve(t)
	session := openSession(t, base)
	stream := openSSE(t, base)
	stream.initialize()
	for _, tt := range []struct {
		body string
		code int
	}{
		{"garbage", -32700},
		{"", -32700},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"`, -32700},
		{"null", -32600},
		{"42", -32600},
		{`{"jsonrpc":"2.0","id":1,"Method":"ping"}`, -32600},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","paramſ":{}}`, -32600},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}`, -32600},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700},
		{`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, -32600},
		{`[{"jsonrpc":"2.0","id":1,"Method":"ping"}]`, -32600},
		{strings.Repeat("[", 100_000), -32700},
	} {
		for _, where := range []struct {
			url    string
			header []string
		}{
			{base + "/mcp", []string{"Mcp-Session-Id", session}}, {base + "/mcp", modernHeaders("ping", "")}, {stream.post, nil},
		} {
			if tt.body == "" && where.url == stream.post {
				continue // nothing said, nothing answered
			}
			status, body, _ := do(t, "POST", where.url, tt.body, where.header...)
			if m := parse(t, body); status != 400 || m.Error == nil || m.Error.Code != tt.code {
				t.Errorf("POST %.60q to %s = %d %s, want 400 with %d", tt.body, where.url, status, body, tt.code)
			}
		}
	}
	status, body, _ := do(t, "POST", base+"/mcp", `{"jsonrpc":"2.0","id":1763164800123456789,"method":"ping"}`, "Mcp-Session-Id", session)
	if m := parse(t, body); status != 400 || string(m.ID) != "1763164800123456789" {
		t.Errorf("an id the SDK would round = %d %s", status, body)
	}
	status, body, _ = do(t, "POST", base+"/mcp", callLine(1, "echo", "{}"))
	if m := parse(t, body); status != 400 || m.Error.Code != -32600 || string(m.ID) != "1" {
		t.Errorf("a call without a session = %d %s", status, body)
	}
	fresh := openSSE(t, base)
	status, body, _ = do(t, "POST", fresh.post, callLine(1, "echo", "{}"))
	if m := parse(t, body); status != 400 || m.Error.Code != -32600 || string(m.ID) != "1" {
		t.Errorf("a call before initialize on SSE = %d %s", status, body)
	}
}

func TestBatchOverHTTPInTheVersionThatHasIt(t *testing.T) {
	r := newRig(t)
	base, _ := r.serve(t)
	status, _, h := do(t, "POST", base+"/mcp", strings.Replace(initialize, "2025-06-18", "2025-03-26", 1))
	if status != 200 {
		t.Fatal(status)
	}
	batch := `[` + callLine(1, "echo", "{}") + `,` + callLine(2, "echo", "{}") + `]`
	status, body, _ := do(t, "POST", base+"/mcp", batch, "Mcp-Session-Id", h.Get("Mcp-Session-Id"))
	if status != 200 || strings.Count(body, "structuredContent") != 2 {
		t.Errorf("batch = %d %s", status, body)
	}
	if status, _, _ := do(t, "POST", base+"/mcp", batch); status != 400 {
		t.Errorf("batch without a session = %d, want 400", status)
	}
	twice := strings.Replace(batch, `"id":2`, `"id":1`, 1)
	status, body, _ = do(t, "POST", base+"/mcp", twice, "Mcp-Session-Id", h.Get("Mcp-Session-Id"))
	if status != 400 || !strings.Contains(body, "id 1 stands twice") {
		t.Errorf("batch with one id twice = %d %s, want 400 and why", status, body)
	}
}

func TestModernRequestWithoutItsHeaderIsToldSo(t *testing.T) {
	r := newRig(t)
	base, _ := r.serve(t)
	status, body, _ := do(t, "POST", base+"/mcp", modernCall("echo", "{}"))
	if m := parse(t, body); status != 400 || m.Error.Code != -32020 {
		t.Errorf("modern call without the version header = %d %s, want -32020", status, body)
	}
	if n := r.Sessions(); n != 0 {
		t.Errorf("%d sessions, want 0", n)
	}
}

func TestSilentCallSendsItsHeadersEarlyAndThenSignsOfLife(t *testing.T) {
	for _, era := range []string{"session", "modern"} {
		t.Run(era, func(t *testing.T) {
			r := newRig(t)
			r.headerDelay, r.beat = time.Millisecond, time.Millisecond
			base, _ := r.serve(t)
			body, header := modernCall("stubborn", "{}"), modernHeaders("tools/call", "stubborn")
			if era == "session" {
				body, header = callLine(1, "stubborn", "{}"), []string{"Mcp-Session-Id", openSession(t, base)}
			}
			res := start(t, t.Context(), "POST", base+"/mcp", body, header...) // returns with the headers
			defer res.Body.Close()
			if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("headers = %d %s", res.StatusCode, res.Header.Get("Content-Type"))
			}
			lines := bufio.NewReader(res.Body)
			for range 3 { // comments, while the tool is silent
				if l, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(l, ":") {
					t.Fatalf("line = %q, %v", l, err)
				}
				if l, err := lines.ReadString('\n'); err != nil || l != "\n" {
					t.Fatalf("line = %q, %v", l, err)
				}
			}
			close(r.release)
			rest, err := io.ReadAll(lines)
			if err != nil || !strings.Contains(string(rest), "at last") {
				t.Errorf("the answer = %s, %v", rest, err)
			}
		})
	}
}

// A quick answer is not disturbed, and one that comes too late for its own
// status becomes an event.
func TestStreamWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := httptest.NewRecorder()
		w := newStreamWriter(rec)
		w.keepCompany(time.Second, 10*time.Second)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(400)
		_, _ = w.Write([]byte(`{"quick":true}`))
		w.close()
		time.Sleep(time.Minute)
		if rec.Code != 400 || rec.Body.String() != `{"quick":true}` {
			t.Errorf("quick answer = %d %q", rec.Code, rec.Body)
		}

		rec = httptest.NewRecorder()
		w = newStreamWriter(rec)
		w.Header().Set("Content-Type", "text/event-stream")
		w.keepCompany(time.Second, 10*time.Second)
		w.keepCompany(time.Nanosecond, time.Nanosecond) // the first counts
		time.Sleep(25 * time.Second)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(400)
		if n, err := w.Write([]byte(`{"late":true}`)); n != len(`{"late":true}`) || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
		w.close()
		w.keepCompany(time.Second, time.Second) // too late
		time.Sleep(time.Minute)
		want := strings.Repeat(": still here\n\n", 3) + "event: message\ndata: {\"late\":true}\n\n"
		if rec.Code != 200 || rec.Body.String() != want {
			t.Errorf("late answer = %d %q, want 200 %q", rec.Code, rec.Body, want)
		}
	})
}

func TestListeningStreamShowsSignsOfLife(t *testing.T) {
	r := newRig(t)
	r.beat = time.Millisecond
	base, _ := r.serve(t)
	for _, path := range []string{"/mcp", "/sse"} {
		ctx, cancel := context.WithCancel(t.Context())
		res := start(t, ctx, "GET", base+path, "", "Mcp-Session-Id", openSession(t, base))
		lines := bufio.NewReader(res.Body)
		for seen := 0; seen < 3; {
			l, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("GET %s: %v", path, err)
			}
			if strings.HasPrefix(l, ": still") {
				seen++
			}
		}
		cancel()
		res.Body.Close()
	}
}

func TestHealthAndRoot(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Health = func() health.Report {
			return health.Report{Status: health.Healthy, Version: "1.2.3", UptimeSeconds: 7, PortListening: true, Findings: []health.Finding{{Part: "a", Detail: "<b> & c"}}}
		}
	})
	base, _ := r.serve(t)
	status, body, h := do(t, "GET", base+"/health", "")
	var got health.Report
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != 200 || h.Get("Content-Type") != "application/json" {
		t.Fatalf("GET /health = %d %s %s, %v", status, h.Get("Content-Type"), body, err)
	}
	if got.UptimeSeconds != 7 || !got.PortListening || !strings.Contains(body, "<b> & c") {
		t.Errorf("GET /health = %s", body)
	}
	status, body, h = do(t, "GET", base+"/", "")
	if status != 200 || !strings.HasPrefix(h.Get("Content-Type"), "text/plain") || h.Get("Server") != "rig" ||
		!strings.Contains(body, "rig 1.2.3") || !strings.Contains(body, base+"/mcp") || strings.Contains(body, "/metrics") {
		t.Errorf("GET / = %d %s", status, body)
	}
	plain := newRig(t)
	base, _ = plain.serve(t)
	if _, body, _ := do(t, "GET", base+"/health", ""); !strings.Contains(body, `"status": "healthy"`) {
		t.Errorf("GET /health without a report = %s", body)
	}
}

func TestServeReportsAListenerThatFails(t *testing.T) {
	r := newRig(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := r.Serve(t.Context(), ln); err == nil {
		t.Error("Serve on a closed listener = nil")
	}
}

func TestPanicInAnEndpointIsContained(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Health = func() health.Report { panic("no report") } })
	base, _ := r.serve(t)
	if status, body, _ := do(t, "GET", base+"/health", ""); status != 500 || strings.Contains(body, "no report") {
		t.Errorf("GET /health = %d %s", status, body)
	}
	if status, _, _ := do(t, "GET", base+"/", ""); status != 200 {
		t.Errorf("GET / afterwards = %d", status)
	}
}

func TestSessionsAreAnnounced(t *testing.T) {
	var bus event.Bus
	sub := bus.Subscribe(20)
	defer sub.Close()
	r := newRig(t, func(o *Options) { o.Bus = &bus })
	base, _ := r.serve(t)
	id := openSession(t, base)
	first := <-sub.C
	do(t, "DELETE", base+"/mcp", "", "Mcp-Session-Id", id)
	last := wait(t, sub.C, "the second event")
	if first.Kind != event.SessionStarted || last.Kind != event.SessionEnded || first.Session != last.Session || first.Data != "http" {
		t.Errorf("events = %+v, %+v", first, last)
	}
	if first.Session == id || first.Session == "" {
		t.Error("the event shows the session's key")
	}
	if got := wait(t, r.gone, "the callback"); got != first.Session {
		t.Errorf("SessionEnded(%q), want %q", got, first.Session)
	}
}
