package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// bare serves an echo tool and some that read and change files with nothing but the SDK: on the standard streams,
// or on HTTP with one path for each protocol era, as the SDK wants it. The answer
// is that of our tools, or the text alone.
func bare(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: bare stdio|http same|thin")
	}
	thin := args[1] == "thin"
	s := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{
		Name: "echo", Description: "Return the text; for measurements.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","description":"what to say"}},"required":["text"]}`),
	}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return echo(req, thin) })
	s.AddTool(&mcp.Tool{
		Name: "read", Description: "Return a file; for measurements.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string","description":"file to read"}},"required":["path"]}`),
	}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return readFile(req) })
	for name, change := range map[string]func(in changeIn) error{
		"write": func(in changeIn) error { return durable(in.Path, []byte(in.Content)) },
		"edit":  func(in changeIn) error { return durableEdit(in.Path, in.Before, in.After) },
	} {
		s.AddTool(&mcp.Tool{Name: name, Description: "Change a file; for measurements.", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				var in changeIn
				if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
					return nil, err
				}
				if err := change(in); err != nil {
					return nil, err
				}
				return answer(struct {
					Status string `json:"status"`
					Path   string `json:"path"`
				}{"ok", in.Path})
			})
	}
	if args[0] == "stdio" {
		return s.Run(context.Background(), &mcp.StdioTransport{})
	}
	one := func(*http.Request) *mcp.Server { return s }
	mux := http.NewServeMux()
	mux.Handle("/old", mcp.NewStreamableHTTPHandler(one, nil))
	mux.Handle("/new", mcp.NewStreamableHTTPHandler(one, &mcp.StreamableHTTPOptions{Stateless: true}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "listening on http://%s\n", ln.Addr())
	return http.Serve(ln, mux)
}

type changeIn struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	Before  string `json:"before"`
	After   string `json:"after"`
}

// echo answers as our tools do, with one JSON object as structured content and as
// text, or thinly, with nothing but the text it was given.
func echo(req *mcp.CallToolRequest, thin bool) (*mcp.CallToolResult, error) {
	var in struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
		return nil, err
	}
	if thin {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil
	}
	return answer(struct {
		Status string `json:"status"`
		Text   string `json:"text"`
	}{"ok", in.Text})
}

// readFile answers as async_read does.
func readFile(req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		Path string `json:"path"`
	}
	if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(in.Path)
	if err != nil {
		return nil, err
	}
	lines := bytes.Count(data, []byte("\n"))
	return answer(struct {
		Status        string `json:"status"`
		Path          string `json:"path"`
		Content       string `json:"content"`
		Encoding      string `json:"encoding"`
		Hash          string `json:"hash"`
		TotalLines    int    `json:"total_lines"`
		Offset        int    `json:"offset"`
		Limit         *int   `json:"limit"`
		LinesReturned int    `json:"lines_returned"`
		Timestamp     string `json:"timestamp"`
	}{"ok", in.Path, string(data), "utf-8", fmt.Sprintf("sha256:%x", sha256.Sum256(data)), lines, 0, nil, lines, time.Now().UTC().Format(time.RFC3339Nano)})
}

func answer(out any) (*mcp.CallToolResult, error) {
	body, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: string(body)}},
		StructuredContent: json.RawMessage(body),
	}, nil
}
