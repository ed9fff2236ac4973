package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Each way in which a client can give up a call or go away, on each transport
// that has it, must reach the context of the handler.
func TestEveryWayToGoAwayReachesTheHandler(t *testing.T) {
	const cancelled = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}`
	tests := []struct {
		name string
		want error
		run  func(t *testing.T, r *rig)
	}{
		{"stdio/cancelled", context.Canceled, func(t *testing.T, r *rig) {
			p := r.stdio(t, t.Context())
			p.initialize()
			p.send(callLine(1, "wait", `{}`))
			wait(t, r.started, "the tool")
			p.send(cancelled)
			if m := p.next(); string(m.ID) != "1" {
				t.Errorf("the cancelled call = %+v", m)
			}
			p.wantAlive()
		}},
		{"stdio/EOF", errGone, func(t *testing.T, r *rig) {
			p := r.stdio(t, t.Context())
			p.initialize()
			p.send(callLine(1, "wait", `{}`))
			wait(t, r.started, "the tool")
			p.in.Close()
		}},
		{"stdio/modern/cancelled", context.Canceled, func(t *testing.T, r *rig) {
			p := r.stdio(t, t.Context())
			p.send(modernCall("wait", `{}`))
			wait(t, r.started, "the tool")
			p.send(cancelled)
			p.next()
		}},
		{"stdio/shutdown", errShutdown, func(t *testing.T, r *rig) {
			p := r.stdio(t, t.Context())
			p.initialize()
			p.send(callLine(1, "wait", `{}`))
			wait(t, r.started, "the tool")
			p.stop()
			if m := p.next(); string(m.ID) != "1" { // there was time to answer
				t.Errorf("the call = %+v", m)
			}
			if err := wait(t, p.done, "ServeStdio"); err != nil {
				t.Error(err)
			}
		}},
		{"http/cancelled", context.Canceled, func(t *testing.T, r *rig) {
			base, _ := r.serve(t)
			id := openSession(t, base)
			res := start(t, t.Context(), "POST", base+"/mcp", callLine(1, "wait", `{}`), "Mcp-Session-Id", id)
			defer res.Body.Close()
			wait(t, r.started, "the tool")
			do(t, "POST", base+"/mcp", cancelled, "Mcp-Session-Id", id)
			if body, _ := io.ReadAll(res.Body); !strings.Contains(string(body), `"id":1`) {
				t.Errorf("the cancelled call = %s", body)
			}
		}},
		{"http/POST aborted", errGone, func(t *testing.T, r *rig) {
			base, _ := r.serve(t)
			id := openSession(t, base)
			ctx, abort := context.WithCancel(t.Context())
			go func() {
				res, err := client.Do(request(t, ctx, "POST", base+"/mcp", callLine(1, "wait", `{}`), "Mcp-Session-Id", id))
				if err == nil {
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			}()
			wait(t, r.started, "the tool")
			abort()
		}},
		{"http/POST aborted after headers", errGone, func(t *testing.T, r *rig) {
			r.headerDelay = time.Millisecond
			base, _ := r.serve(t)
			id := openSession(t, base)
			ctx, abort := context.WithCancel(t.Context())
			res := start(t, ctx, "POST", base+"/mcp", callLine(1, "wait", `{}`), "Mcp-Session-Id", id)
			defer res.Body.Close()
			wait(t, r.started, "the tool")
			abort()
		}},
		{"http/DELETE", errDeleted, func(t *testing.T, r *rig) {
			r.headerDelay = time.Millisecond
			base, _ := r.serve(t)
			id := openSession(t, base)
			res := start(t, t.Context(), "POST", base+"/mcp", callLine(1, "wait", `{}`), "Mcp-Session-Id", id)
			defer res.Body.Close()
			wait(t, r.started, "the tool")
			if status, _, _ := do(t, "DELETE", base+"/mcp", "", "Mcp-Session-Id", id); status != 204 {
				t.Errorf("DELETE = %d, want 204", status)
			}
			wait(t, r.gone, "the end of the session")
			if status, _, _ := do(t, "POST", base+"/mcp", ping, "Mcp-Session-Id", id); status != 404 {
				t.Errorf("POST to a deleted session = %d, want 404", status)
			}
		}},
		{"http/shutdown", errShutdown, func(t *testing.T, r *rig) {
			r.headerDelay = time.Millisecond
			base, stop := r.serve(t)
			id := openSession(t, base)
			res := start(t, t.Context(), "POST", base+"/mcp", callLine(1, "wait", `{}`), "Mcp-Session-Id", id)
			defer res.Body.Close()
			wait(t, r.started, "the tool")
			stop()
			if body, _ := io.ReadAll(res.Body); !strings.Contains(string(body), `"id":1`) { // there was time to answer
				t.Errorf("the call = %q", body)
			}
			wait(t, r.gone, "the end of the session")
		}},
		{"http/modern/POST aborted", errGone, func(t *testing.T, r *rig) {
			base, _ := r.serve(t)
			ctx, abort := context.WithCancel(t.Context())
			go func() {
				res, err := client.Do(request(t, ctx, "POST", base+"/mcp", modernCall("wait", `{}`), modernHeaders("tools/call", "wait")...))
				if err == nil {
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			}()
			wait(t, r.started, "the tool")
			abort()
		}},
		{"http/modern/shutdown", errShutdown, func(t *testing.T, r *rig) {
			r.headerDelay = time.Millisecond
			base, stop := r.serve(t)
			res := start(t, t.Context(), "POST", base+"/mcp", modernCall("wait", `{}`), modernHeaders("tools/call", "wait")...)
			defer res.Body.Close()
			wait(t, r.started, "the tool")
			stop()
			if body, _ := io.ReadAll(res.Body); !strings.Contains(string(body), `"id":1`) {
				t.Errorf("the call = %q", body)
			}
		}},
		{"sse/cancelled", context.Canceled, func(t *testing.T, r *rig) {
			base, _ := r.serve(t)
			c := openSSE(t, base)
			c.initialize()
			c.send(callLine(1, "wait", `{}`))
			wait(t, r.started, "the tool")
			c.send(cancelled)
			c.event()
		}},
		{"sse/GET dropped", errGone, func(t *testing.T, r *rig) {
			base, _ := r.serve(t)
			c := openSSE(t, base)
			c.initialize()
			c.send(callLine(1, "wait", `{}`))
			wait(t, r.started, "the tool")
			c.drop()
			wait(t, r.gone, "the end of the session")
			if status, _, _ := do(t, "POST", c.post, ping); status != 404 {
				t.Errorf("POST to an ended session = %d, want 404", status)
			}
		}},
		{"sse/shutdown", errShutdown, func(t *testing.T, r *rig) {
			base, stop := r.serve(t)
			c := openSSE(t, base)
			c.initialize()
			c.send(callLine(1, "wait", `{}`))
			wait(t, r.started, "the tool")
			stop()
			if e := c.event(); !strings.Contains(e, `"id":1`) {
				t.Errorf("the call = %s", e)
			}
			wait(t, r.gone, "the end of the session")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			tt.run(t, r)
			r.wantCause(t, tt.want)
		})
	}
}

func TestShutdownLeavesAStubbornHandlerBehind(t *testing.T) {
	for _, transport := range []string{"http", "modern", "sse"} {
		t.Run(transport, func(t *testing.T) {
			r := newRig(t)
			r.stopGrace, r.headerDelay = 50*time.Millisecond, time.Millisecond
			defer close(r.release)
			base, stop := r.serve(t)
			switch transport {
			case "http":
				id := openSession(t, base)
				res := start(t, t.Context(), "POST", base+"/mcp", callLine(1, "stubborn", `{}`), "Mcp-Session-Id", id)
				defer res.Body.Close()
			case "modern":
				res := start(t, t.Context(), "POST", base+"/mcp", modernCall("stubborn", `{}`), modernHeaders("tools/call", "stubborn")...)
				defer res.Body.Close()
			case "sse":
				c := openSSE(t, base)
				c.initialize()
				c.send(callLine(1, "stubborn", `{}`))
			}
			wait(t, r.started, "the tool")
			stop() // fails the test by hanging if it waits for the handler
			if n := r.Sessions(); n != 0 {
				t.Errorf("%d sessions are left", n)
			}
		})
	}
}

func TestDeleteDoesNotWaitForAStubbornHandler(t *testing.T) {
	r := newRig(t)
	r.headerDelay, r.stopGrace = time.Millisecond, time.Hour
	base, _ := r.serve(t)
	id := openSession(t, base)
	res := start(t, t.Context(), "POST", base+"/mcp", callLine(1, "stubborn", `{}`), "Mcp-Session-Id", id)
	defer res.Body.Close()
	wait(t, r.started, "the tool")
	if status, _, _ := do(t, "DELETE", base+"/mcp", "", "Mcp-Session-Id", id); status != 204 { // while the handler is stuck
		t.Errorf("DELETE = %d, want 204", status)
	}
	if status, _, _ := do(t, "POST", base+"/mcp", ping, "Mcp-Session-Id", id); status != 404 {
		t.Errorf("POST to an ending session = %d, want 404", status)
	}
	if status, _, _ := do(t, "DELETE", base+"/mcp", "", "Mcp-Session-Id", id); status != 404 {
		t.Errorf("second DELETE = %d, want 404", status)
	}
	close(r.release)
	wait(t, r.gone, "the end of the session")
}

// post serves one POST in this goroutine, without a network.
func (r *rig) local(t *testing.T, h http.Handler, body, session string) *httptest.ResponseRecorder {
	t.Helper()
	req := request(t, t.Context(), "POST", "http://localhost/mcp", body)
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func TestIdleSessionExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.SessionTimeout = time.Minute })
		h := r.Handler()
		w := r.local(t, h, initialize, "")
		id := w.Header().Get("Mcp-Session-Id")
		if w.Code != 200 || id == "" || r.Sessions() != 1 {
			t.Fatalf("initialize = %d, %d sessions", w.Code, r.Sessions())
		}
		time.Sleep(59 * time.Second)
		if w := r.local(t, h, ping, id); w.Code != 200 {
			t.Fatalf("ping after 59 s = %d", w.Code)
		}
		time.Sleep(59 * time.Second)
		if w := r.local(t, h, ping, id); w.Code != 200 {
			t.Fatalf("ping 59 s after the ping = %d", w.Code)
		}
		// A client that listens is there, however silent.
		ctx, drop := context.WithCancel(t.Context())
		listening := make(chan struct{})
		go func() {
			defer close(listening)
			h.ServeHTTP(httptest.NewRecorder(), request(t, ctx, "GET", "http://localhost/mcp", "", "Mcp-Session-Id", id))
		}()
		time.Sleep(time.Hour)
		if r.Sessions() != 1 {
			t.Fatal("the session of a listening client expired")
		}
		drop()
		<-listening
		time.Sleep(time.Minute + time.Second)
		if r.Sessions() != 0 {
			t.Fatal("the idle session did not expire")
		}
		<-r.gone
		if w := r.local(t, h, ping, id); w.Code != 404 {
			t.Errorf("ping of an expired session = %d, want 404", w.Code)
		}
	})
}

func TestNewTimeoutHoldsForSessionsThatAreIdleAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.SessionTimeout = time.Hour })
		h := r.Handler()
		open := func() string { return r.local(t, h, initialize, "").Header().Get("Mcp-Session-Id") }
		open()
		time.Sleep(10 * time.Minute)
		open()
		time.Sleep(time.Minute)
		r.SetSessionTimeout(5 * time.Minute)
		synctest.Wait()
		if n := r.Sessions(); n != 1 {
			t.Errorf("%d sessions, want 1: one was idle for longer", n)
		}
		r.SetSessionTimeout(0) // 30 minutes
		time.Sleep(28 * time.Minute)
		if n := r.Sessions(); n != 1 {
			t.Errorf("%d sessions, want 1: the timeout is longer again", n)
		}
		time.Sleep(2 * time.Minute)
		if n := r.Sessions(); n != 0 {
			t.Errorf("%d sessions, want none", n)
		}
		<-r.gone
		<-r.gone
	})
}

func TestSessionThatWasIdleForLongestMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.maxSessions = 3
		h := r.Handler()
		var ids []string
		for range 3 {
			ids = append(ids, r.local(t, h, initialize, "").Header().Get("Mcp-Session-Id"))
			time.Sleep(time.Minute)
		}
		r.local(t, h, ping, ids[0])
		w := r.local(t, h, initialize, "")
		ids = append(ids, w.Header().Get("Mcp-Session-Id"))
		if w.Code != 200 || r.Sessions() != 3 {
			t.Errorf("one session more = %d, %d are open, want 200 and 3", w.Code, r.Sessions())
		}
		<-r.gone
		if w := r.local(t, h, ping, ids[1]); w.Code != 404 {
			t.Errorf("the session that was idle for longest = %d, want 404", w.Code)
		}
		ctx, drop := context.WithCancel(t.Context())
		listening := make(chan struct{})
		for _, id := range []string{ids[0], ids[2], ids[3]} {
			go func() {
				h.ServeHTTP(httptest.NewRecorder(), request(t, ctx, "GET", "http://localhost/mcp", "", "Mcp-Session-Id", id))
				listening <- struct{}{}
			}()
		}
		synctest.Wait()
		if w := r.local(t, h, initialize, ""); w.Code != 503 {
			t.Errorf("where every session is in use = %d, want 503", w.Code)
		}
		stream := httptest.NewRecorder()
		h.ServeHTTP(stream, request(t, ctx, "GET", "http://localhost/sse", ""))
		if stream.Code != 503 {
			t.Errorf("a stream where every session is in use = %d, want 503", stream.Code)
		}
		drop()
		for range 3 {
			<-listening
		}
		time.Sleep(time.Hour)
		for range 3 {
			<-r.gone
		}
	})
}

func TestCallUnderWayKeepsItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.SessionTimeout = time.Minute })
		h := r.Handler()
		id := r.local(t, h, initialize, "").Header().Get("Mcp-Session-Id")
		answered := make(chan string, 1)
		go func() { answered <- r.local(t, h, callLine(1, "stubborn", `{}`), id).Body.String() }()
		<-r.started
		time.Sleep(time.Hour)
		close(r.release)
		if got := <-answered; !strings.Contains(got, "at last") {
			t.Errorf("the long call = %q", got)
		}
		time.Sleep(2 * time.Minute)
		<-r.gone
	})
}

func TestNoSessionBeginsOnceTheServerStops(t *testing.T) {
	r := newRig(t)
	sc := newScope()
	sess := r.newSession(t.Context(), sc, "http")
	sc.stop(errShutdown)
	if sess.begin(nil, "key") || r.Sessions() != 0 {
		t.Error("a session began in a scope that had stopped")
	}
	<-sc.empty
}

func TestFailedInitializeLeavesNoSession(t *testing.T) {
	r := newRig(t)
	base, _ := r.serve(t)
	for _, params := range []string{``, `,"params":null`, `,"params":{"protocolVersion":5}`, `,"params":{"capabilities":[]}`} {
		status, body, _ := do(t, "POST", base+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize"`+params+`}`)
		if m := parse(t, body); status != 400 || m.Error == nil || m.Error.Code != -32602 || string(m.ID) != "1" {
			t.Errorf("initialize%s = %d %s", params, status, body)
		}
	}
	do(t, "POST", base+"/mcp", ping) // allowed before a session, and opens none
	if n := r.Sessions(); n != 0 {
		t.Errorf("%d sessions, want 0", n)
	}
}

func TestManyClientsComeAndGo(t *testing.T) {
	r := newRig(t)
	base, stop := r.serve(t)
	errs := make(chan error, 40)
	for i := range 40 {
		go func() {
			errs <- func() error {
				id := openSession(t, base)
				_, body, _ := do(t, "POST", base+"/mcp", callLine(1, "echo", fmt.Sprintf(`{"n":%d}`, i)), "Mcp-Session-Id", id)
				if !strings.Contains(body, fmt.Sprintf(`"n":%d`, i)) {
					return errors.New(body)
				}
				if i%2 == 0 {
					do(t, "DELETE", base+"/mcp", "", "Mcp-Session-Id", id)
				}
				return nil
			}()
		}()
	}
	for range 40 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := r.Sessions(); n != 20 {
		t.Errorf("%d sessions, want 20", n)
	}
	stop()
	for range 40 {
		wait(t, r.gone, "the end of a session")
	}
	if n := r.Sessions(); n != 0 {
		t.Errorf("%d sessions after the end, want 0", n)
	}
}
