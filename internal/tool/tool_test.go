package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

type echoIn struct {
	Text string `json:"text"`
	N    int64  `json:"n,omitempty"`
}

type echoOut struct {
	Status string `json:"status"`
	Text   string `json:"text"`
	N      int64  `json:"n"`
}

func (o echoOut) ResultStatus() string { return o.Status }

func echo(name, toolset string, effect tool.Effect) *tool.Tool {
	return tool.New(tool.Spec{
		Name: name, Title: "Echo", Doc: "Say it again.", Toolset: toolset, Effect: effect,
		Codes: []fault.Code{fault.FileNotFound}, Other: []string{"say." + name},
	}, func(_ context.Context, in echoIn) (echoOut, error) {
		switch in.Text {
		case "panic":
			panic("the floor")
		case "missing":
			return echoOut{}, fault.New(fault.FileNotFound, "no %s", in.Text).At("/a/b").With("line", 3)
		case "plain":
			return echoOut{}, errors.New("password hunter2")
		case "ask":
			return echoOut{}, &caller.NeedInput{Question: caller.Question{Key: "k"}}
		case "unencodable":
			return echoOut{}, fault.New(fault.WriteError, "full").With("f", func() {})
		case "contention":
			return echoOut{Status: tool.Contention}, nil
		}
		return echoOut{Status: tool.OK, Text: in.Text, N: in.N}, nil
	})
}

type recorder struct{ calls []tool.Observation }

func (r *recorder) ToolCalled(_ context.Context, o tool.Observation) { r.calls = append(r.calls, o) }

func newSet(t *testing.T, opts tool.SetOptions, tools ...*tool.Tool) *tool.Set {
	t.Helper()
	s, err := tool.NewSet(tools, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCallWrapsEveryKindOfEnd(t *testing.T) {
	var log bytes.Buffer
	rec := &recorder{}
	s := newSet(t, tool.SetOptions{Observers: []tool.Observer{rec}, Logger: slog.New(slog.NewTextHandler(&log, nil))},
		echo("echo", "files", tool.ReadOnly))
	for _, tc := range []struct {
		args, body, status string
		code               fault.Code
	}{
		{`{"text":"<b>&\u2028","n":1763164800123456789}`, `{"status":"ok","text":"<b>&\u2028","n":1763164800123456789}`, "ok", ""},
		{`{"text":"contention"}`, `{"status":"contention","text":"","n":0}`, "contention", ""},
		{`{"text":"missing"}`, `{"status":"error","error_code":"FILE_NOT_FOUND","message":"no missing","path":"/a/b","details":{"line":3,"next":"Check the path with async_list, or create the file with async_write."}}`, "error", fault.FileNotFound},
		{`{"txt":"a"}`, `{"status":"error","error_code":"VALIDATION_ERROR","message":"txt is not a known argument; did you mean \"text\"?","path":null,"details":{"field":"txt","next":"Correct the argument the message names."}}`, "error", fault.ValidationError},
		{`{"text":"plain"}`, `{"status":"error","error_code":"SERVER_ERROR","message":"unexpected internal error; the server log has the cause","path":null,"details":{"next":"Try again once; then report it with the server log."}}`, "error", fault.ServerError},
		{`{"text":"panic"}`, `{"status":"error","error_code":"SERVER_ERROR","message":"the tool hit an internal error; the server log has the details","path":null,"details":{"next":"Try again once; then report it with the server log."}}`, "error", fault.ServerError},
		{`{"text":"unencodable"}`, `{"status":"error","error_code":"WRITE_ERROR","message":"full","path":null,"details":{}}`, "error", fault.WriteError},
	} {
		rec.calls = nil
		res := s.Call(t.Context(), s.Lookup("echo"), json.RawMessage(tc.args))
		if string(res.Body) != tc.body {
			t.Errorf("%s:\n got %s\nwant %s", tc.args, res.Body, tc.body)
		}
		if res.Status != tc.status || res.Code != tc.code || res.IsError != (tc.status == "error") {
			t.Errorf("%s: status %s code %s isError %v", tc.args, res.Status, res.Code, res.IsError)
		}
		if len(rec.calls) != 1 || rec.calls[0].Tool.Name != "echo" || rec.calls[0].Result.Status != tc.status {
			t.Errorf("%s: observed %+v", tc.args, rec.calls)
		}
	}
	if !strings.Contains(log.String(), "the floor") || !strings.Contains(log.String(), "tool_test.go") {
		t.Errorf("the log does not show the panic and its place: %s", log.String())
	}
	if !strings.Contains(log.String(), "hunter2") {
		t.Error("the answer says that the log has the cause, and it has not")
	}
}

func TestCallThatNeedsInputIsNotAnEnd(t *testing.T) {
	rec := &recorder{}
	s := newSet(t, tool.SetOptions{Observers: []tool.Observer{rec}}, echo("echo", "files", tool.ReadOnly))
	res := s.Call(t.Context(), s.Lookup("echo"), json.RawMessage(`{"text":"ask"}`))
	if res.Need == nil || res.Need.Question.Key != "k" || res.Body != nil || len(rec.calls) != 0 {
		t.Errorf("res %+v, observed %d", res, len(rec.calls))
	}
}

func TestErrorsMayHaveAnotherShape(t *testing.T) {
	plain := tool.New(tool.Spec{Name: "x", Errors: func(e *fault.Error) any {
		return map[string]string{"error": string(e.Code), "message": e.Text()}
	}}, func(context.Context, echoIn) (echoOut, error) {
		return echoOut{}, fault.New(fault.JobNotFound, "no job")
	})
	s := newSet(t, tool.SetOptions{}, plain)
	res := s.Call(t.Context(), plain, json.RawMessage(`{"text":""}`))
	if string(res.Body) != `{"error":"JOB_NOT_FOUND","message":"no job"}` || !res.IsError {
		t.Errorf("got %s", res.Body)
	}
}

func TestLookupAcceptsOtherSpellings(t *testing.T) {
	e := echo("alias_exec", "aliases", tool.ReadOnly)
	s := newSet(t, tool.SetOptions{}, e)
	for _, name := range []string{"alias_exec", "alias_exec_tool", "say.alias_exec", "say.alias_exec_tool"} {
		if s.Lookup(name) != e {
			t.Errorf("Lookup(%q) found nothing", name)
		}
	}
	for _, name := range []string{"", "_tool", "Alias_exec", "alias_exec_tool_tool"} {
		if s.Lookup(name) != nil {
			t.Errorf("Lookup(%q) found a tool", name)
		}
	}
}

func TestNewSetRefusesClashesAndBadNames(t *testing.T) {
	for _, tools := range [][]*tool.Tool{
		{echo("a", "x", 0), echo("a", "x", 0)},
		{echo("a", "x", 0), echo("a_tool", "x", 0)},
		{echo("A", "x", 0)},
		{echo("a.b", "x", 0)},
		{echo("", "x", 0)},
		{echo(strings.Repeat("a", 65), "x", 0)},
	} {
		if _, err := tool.NewSet(tools, tool.SetOptions{}); err == nil {
			t.Errorf("NewSet(%s…) succeeded, want an error", tools[0].Name)
		}
	}
}

func TestSelectNarrows(t *testing.T) {
	s := newSet(t, tool.SetOptions{},
		echo("read", "files", tool.ReadOnly), echo("write", "files", tool.Additive),
		echo("run", "shell", tool.Destructive|tool.OpenWorld), echo("health", "project", tool.ReadOnly))
	names := func(s *tool.Set) string {
		var n []string
		for _, t := range s.Tools() {
			n = append(n, t.Name)
		}
		return strings.Join(n, " ")
	}
	for _, tc := range []struct {
		f    tool.Filter
		want string
	}{
		{tool.Filter{}, "read write health"},
		{tool.Filter{Toolsets: []string{"all"}}, "read write run health"},
		{tool.Filter{Toolsets: []string{"shell"}}, "run"},
		{tool.Filter{Toolsets: []string{}}, ""},
		{tool.Filter{ReadOnly: true}, "read health"},
		{tool.Filter{Exclude: []string{"write_tool", "say.health"}}, "read"},
	} {
		got, err := s.Select(tc.f, []string{"files", "project"})
		if err != nil {
			t.Errorf("%+v: %v", tc.f, err)
		} else if names(got) != tc.want {
			t.Errorf("%+v: got %q, want %q", tc.f, names(got), tc.want)
		}
	}
	for _, f := range []tool.Filter{{Toolsets: []string{"fils"}}, {Exclude: []string{"nope"}}} {
		if _, err := s.Select(f, nil); err == nil {
			t.Errorf("Select(%+v) succeeded, want an error", f)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	s, _ := tool.NewSet([]*tool.Tool{echo("echo", "files", 0)}, tool.SetOptions{})
	e := s.Lookup("echo")
	args := json.RawMessage(`{"text":"hello","n":12}`)
	b.ReportAllocs()
	for b.Loop() {
		s.Call(b.Context(), e, args)
	}
}
