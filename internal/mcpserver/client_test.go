package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/mcpserver"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

type in struct {
	Text string `json:"text,omitempty"`
	N    int64  `json:"n,omitempty"`
}

type out struct {
	Status string `json:"status"`
	Zulu   string `json:"zulu"`
	Alpha  int64  `json:"alpha"`
	Who    string `json:"who"`
}

func (o out) ResultStatus() string { return o.Status }

// serve runs a server with a token and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	set, err := tool.NewSet([]*tool.Tool{
		tool.New(tool.Spec{Name: "echo", Title: "Echo", Doc: "Says the same."}, func(ctx context.Context, i in) (out, error) {
			caller.Progress(ctx, 1, 2, "half way")
			c := caller.From(ctx)
			return out{tool.Contention, i.Text, i.N, c.String() + " " + c.Project}, nil
		}),
		tool.New(tool.Spec{Name: "fail", Codes: []fault.Code{fault.FileExists}}, func(context.Context, in) (out, error) {
			return out{}, fault.New(fault.FileExists, "it is there")
		}),
	}, tool.SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := mcpserver.New(mcpserver.Options{Name: "served", Version: "4.5", Tools: set, Token: "sesame"})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
	return fmt.Sprintf("http://%s/mcp", ln.Addr())
}

func TestClientCallsARunningServer(t *testing.T) {
	url := serve(t)
	var steps []string
	c, err := mcpserver.Dial(t.Context(), url, mcpserver.DialOptions{
		Name: "cli", Version: "0.9", Agent: "me", Project: "p1", Token: "sesame",
		Progress: func(done, total float64, message string) {
			steps = append(steps, fmt.Sprintf("%v/%v %s", done, total, message))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Server != "served" || c.Version != "4.5" {
		t.Errorf("server = %s %s", c.Server, c.Version)
	}
	tools, err := c.Tools(t.Context())
	if err != nil || len(tools) != 2 || tools[0].Name != "echo" || tools[0].Title != "Echo" || !strings.Contains(string(tools[0].InputSchema), `"text"`) {
		t.Errorf("Tools = %+v, %v", tools, err)
	}
	res, err := c.Call(t.Context(), "echo", json.RawMessage(`{"text":"<&>","n":9007199254740993}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"status":"contention","zulu":"<&>","alpha":9007199254740993,"who":"cli/0.9 (me) p1"}`; string(res.Body) != want || res.IsError || res.Status != tool.Contention {
		t.Errorf("Call = %s %v %s, want %s", res.Body, res.IsError, res.Status, want)
	}
	if len(steps) != 1 || steps[0] != "1/2 half way" {
		t.Errorf("progress = %v", steps)
	}
	res, err = c.Call(t.Context(), "fail", nil)
	if err != nil || !res.IsError || res.Code != fault.FileExists || res.Status != tool.Error {
		t.Errorf("Call fail = %+v, %v", res, err)
	}
	if _, err := c.Call(t.Context(), "ecko", nil); err == nil || !strings.Contains(err.Error(), `did you mean "echo"?`) {
		t.Errorf("Call ecko = %v", err)
	}
}

func TestDialSaysWhatIsWrong(t *testing.T) {
	url := serve(t)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, url, http.StatusTemporaryRedirect)
		case "/cut":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": nothing\n\n")
		case "/bad":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\n\n")
		default:
			fmt.Fprint(w, "<html>hello")
		}
	}))
	defer other.Close()
	for _, tt := range []struct{ url, want string }{
		{url, "401"},
		{other.URL, "hello"},
		{other.URL + "/away", "307"},
		{other.URL + "/cut", "before it answered"},
		{other.URL + "/bad", "read answer"},
		{"http://127.0.0.1:1/mcp", "refused"},
		{"::", "parse"},
	} {
		_, err := mcpserver.Dial(t.Context(), tt.url, mcpserver.DialOptions{})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Dial(%s) = %v, want %q in it", tt.url, err, tt.want)
		}
	}
}
