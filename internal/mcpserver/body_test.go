package mcpserver

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// offeredRoom notes how much room a reader is given at most.
type offeredRoom struct {
	io.Reader
	most int
}

func (o *offeredRoom) Read(b []byte) (int, error) {
	o.most = max(o.most, len(b))
	return o.Reader.Read(b)
}

func TestAnnouncedLengthTakesNoMemory(t *testing.T) {
	r := newRig(t)
	body := &offeredRoom{Reader: strings.NewReader("{")}
	req := request(t, t.Context(), "POST", "http://localhost/mcp", "")
	req.Body, req.ContentLength = io.NopCloser(body), DefaultMaxMessageBytes
	r.Handler().ServeHTTP(httptest.NewRecorder(), req)
	if body.most > bodyStep {
		t.Errorf("room for %d bytes was made for one that came", body.most)
	}
}

func TestBodiesOfEverySizeAreReadWhole(t *testing.T) {
	for _, announced := range []bool{true, false} {
		for _, n := range []int{1, bodyStep - 1, bodyStep, bodyStep + 1, 2 * bodyStep, smallBody, smallBody + 1, 1 << 20, 3<<20 + 7} {
			want := strings.Repeat("0123456789abcdef", n/16+1)[:n]
			length := int64(-1)
			if announced {
				length = int64(n)
			}
			from := strings.NewReader(want)
			var got []byte
			var err error
			for err == nil {
				got, err = readStep(from, got, length)
				if room := cap(got); room > 3*max(len(got), bodyStep) {
					t.Errorf("%d of %d bytes hold %d", len(got), n, room)
				}
			}
			if string(got) != want {
				t.Errorf("announced %v: %d bytes of %d were read", announced, len(got), n)
			}
		}
	}
}

func TestBodyThatStopsArrivingIsGivenUp(t *testing.T) {
	r := newRig(t)
	r.bodyPatience = 50 * time.Millisecond
	base, _ := r.serve(t)
	for _, tt := range []struct{ path, more, want string }{
		{"/mcp", "", "408"},
		{"/sse?sessionid=none", "", "408"},
		{"/mcp", "Host: evil.example\r\n", "400"}, // two hosts
		{"/mcp", "Origin: http://evil.example\r\n", "403"},
		{"/nowhere", "", "404"},
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "POST "+tt.path+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+tt.more+"Content-Length: 1000\r\n\r\n{")
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		in := bufio.NewReader(c)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("POST %s: %v", tt.path, err)
		}
		body, _ := io.ReadAll(res.Body)
		if !strings.HasPrefix(res.Status, tt.want) {
			t.Errorf("POST %s = %s %s, want %s", tt.path, res.Status, body, tt.want)
		}
		if _, err := in.ReadByte(); err != io.EOF {
			t.Errorf("POST %s: the connection stays open: %v", tt.path, err)
		}
		c.Close()
	}
}

func TestPatienceWithABodyDoesNotBoundItsCall(t *testing.T) {
	r := newRig(t)
	r.bodyPatience = 20 * time.Millisecond
	base, _ := r.serve(t)
	for name, header := range map[string][]string{
		"modern":  modernHeaders("tools/call", "nap"),
		"session": {"Mcp-Session-Id", openSession(t, base)},
	} {
		body := modernCall("nap", `{"n":200}`)
		if name == "session" {
			body = callLine(1, "nap", `{"n":200}`)
		}
		if _, answer, _ := do(t, "POST", base+"/mcp", body, header...); !strings.Contains(answer, "rested") {
			t.Errorf("%s: a call longer than the patience = %s", name, answer)
		}
	}
}

// blocked gives what it has and then nothing until it is released.
type blocked struct {
	io.Reader
	release chan struct{}
}

func (b *blocked) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil {
		<-b.release
	}
	return n, err
}

func TestFewLargeBodiesAreReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		h := r.Handler()
		release, done := make(chan struct{}), make(chan int)
		post := func(body io.Reader) int {
			req := request(t, t.Context(), "POST", "http://localhost/mcp", "", modernHeaders("tools/call", "count")...)
			req.Body, req.ContentLength = io.NopCloser(body), -1
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			return w.Code
		}
		large := modernCall("count", `{"text":"`+strings.Repeat("x", 2*smallBody)+`"}`)
		for range largeBodies {
			go func() { done <- post(&blocked{strings.NewReader(large), release}) }()
		}
		synctest.Wait()
		if got := post(strings.NewReader(modernCall("count", "{}"))); got != 200 {
			t.Errorf("a small body beside the large ones = %d, want 200", got)
		}
		before := time.Now()
		if got := post(strings.NewReader(large)); got != 503 || time.Since(before) != bodyPatience {
			t.Errorf("one large body more = %d after %s, want 503 after %s", got, time.Since(before), bodyPatience)
		}
		go func() { done <- post(strings.NewReader(large)) }()
		synctest.Wait()
		close(release)
		for range largeBodies + 1 {
			if got := <-done; got != 200 {
				t.Errorf("a large body = %d, want 200", got)
			}
		}
	})
}
