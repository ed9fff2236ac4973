package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// bareServer is one echo tool with nothing but the SDK, answering as ours does.
func bareServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"integer"}}}`)},
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var in echoIn
			if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
				return nil, err
			}
			out, err := json.Marshal(echoOut{Status: "ok", Text: in.Text, N: in.N})
			if err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(out)}}, StructuredContent: json.RawMessage(out)}, nil
		})
	return s
}

// BenchmarkCall compares a call of an echo tool with that of a bare server.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{16, 1 << 10, 100 << 10} {
		args := `{"text":"` + strings.Repeat(`1234567\n`, size/8) + `"}`
		b.Run(fmt.Sprintf("stdio/%d/bare", size), func(b *testing.B) {
			benchStdio(b, args, func(in io.ReadCloser, out io.WriteCloser) {
				_ = bareServer().Run(b.Context(), &mcp.IOTransport{Reader: in, Writer: out})
			})
		})
		b.Run(fmt.Sprintf("stdio/%d/ours", size), func(b *testing.B) {
			r := newRig(b)
			benchStdio(b, args, func(in io.ReadCloser, out io.WriteCloser) { _ = r.ServeStdio(b.Context(), in, out) })
		})
		for _, era := range []string{"session", "modern"} {
			b.Run(fmt.Sprintf("http/%s/%d/bare", era, size), func(b *testing.B) {
				bare := bareServer()
				h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return bare },
					&mcp.StreamableHTTPOptions{Stateless: era == "modern"})
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				hs := &http.Server{Handler: h}
				go hs.Serve(ln)
				defer hs.Close()
				benchHTTP(b, "http://"+ln.Addr().String()+"/mcp", era, args)
			})
			b.Run(fmt.Sprintf("http/%s/%d/ours", era, size), func(b *testing.B) {
				base, _ := newRig(b).serve(b)
				benchHTTP(b, base+"/mcp", era, args)
			})
		}
	}
}

func benchStdio(b *testing.B, args string, serve func(io.ReadCloser, io.WriteCloser)) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan struct{})
	go func() { defer close(done); serve(inR, outW) }()
	lines := bufio.NewReaderSize(outR, 1<<20)
	line := func() []byte {
		l, err := lines.ReadSlice('\n')
		if err != nil {
			b.Fatal(err)
		}
		return l
	}
	_, _ = io.WriteString(inW, initialize+"\n")
	line()
	_, _ = io.WriteString(inW, initialized+"\n")
	msg := []byte(callLine(1, "echo", args) + "\n")
	b.ReportAllocs()
	for b.Loop() {
		_, _ = inW.Write(msg)
		if !bytes.Contains(line(), []byte("structuredContent")) {
			b.Fatal("no answer")
		}
	}
	inW.Close()
	<-done
}

func benchHTTP(b *testing.B, url, era, args string) {
	keep := &http.Client{Transport: &http.Transport{}}
	defer keep.CloseIdleConnections()
	body, header := modernCall("echo", args), modernHeaders("tools/call", "echo")
	if era == "session" {
		body, header = callLine(1, "echo", args), []string{"Mcp-Session-Id", openSession(b, strings.TrimSuffix(url, "/mcp"))}
		defer func() { _, _, _ = do(b, "DELETE", url, "", header...) }()
	}
	b.ReportAllocs()
	for b.Loop() {
		res, err := keep.Do(request(b, b.Context(), "POST", url, body, header...))
		if err != nil {
			b.Fatal(err)
		}
		answer, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !bytes.Contains(answer, []byte("structuredContent")) {
			b.Fatalf("answer = %s, %v", answer, err)
		}
	}
}
