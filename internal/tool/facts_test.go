package tool_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

type tellIn struct {
	Path string `json:"path"`
	Then string `json:"then,omitempty"`
}

func (in tellIn) Tell(f *tool.Facts) { f.Path, f.Expected = in.Path, "in" }

type tellOut struct {
	Status string `json:"status"`
}

func (o tellOut) ResultStatus() string { return o.Status }
func (o tellOut) Tell(f *tool.Facts)   { f.Path, f.Hash = "/abs", "out" }

type refusals []string

func (r *refusals) ToolCalled(context.Context, tool.Observation) {}
func (r *refusals) ToolRefused(_ context.Context, name string)   { *r = append(*r, name) }

func teller() *tool.Tool {
	return tool.New(tool.Spec{Name: "teller"}, func(ctx context.Context, in tellIn) (tellOut, error) {
		tool.InProject(ctx, "p1", "/root")
		switch in.Then {
		case "fail":
			return tellOut{}, fault.New(fault.AccessDenied, "no %s", in.Path).At("/abs/file").With("rule", "r1")
		case "panic":
			panic("the floor")
		}
		return tellOut{Status: tool.Contention}, nil
	})
}

func TestObserversGetWhatInputOutputAndErrorsTell(t *testing.T) {
	rec := &recorder{}
	one := teller()
	s := newSet(t, tool.SetOptions{Observers: []tool.Observer{rec}}, one)
	for _, tc := range []struct{ args, want string }{
		{`{"path":"a"}`, `{"outcome":"contention","project":"p1","root":"/root","path":"/abs","expected":"in","hash":"out"}`},
		{`{"path":"a","then":"fail"}`, `{"outcome":"error","code":"ACCESS_DENIED","rule":"r1","project":"p1","root":"/root","path":"/abs/file","expected":"in"}`},
		{`{"path":"a","then":"panic"}`, `{"outcome":"error","code":"SERVER_ERROR","project":"p1","root":"/root","path":"a","expected":"in"}`},
		{`{"path":7}`, `{"outcome":"error","code":"VALIDATION_ERROR","field":"path"}`},
		{`{"secret words":7}`, `{"outcome":"error","code":"VALIDATION_ERROR"}`},
	} {
		rec.calls = nil
		s.Call(t.Context(), one, json.RawMessage(tc.args))
		got, err := tool.Encode(rec.calls[0].Facts)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s:\n got %s (%v)\nwant %s", tc.args, got, err, tc.want)
		}
	}
}

func TestObserversHearOfToolsThatAreNotOnOffer(t *testing.T) {
	var seen refusals
	s := newSet(t, tool.SetOptions{Observers: []tool.Observer{&recorder{}, &seen}}, teller())
	s.Refused(t.Context(), "async_write")
	if len(seen) != 1 || seen[0] != "async_write" {
		t.Errorf("refused %q, want async_write once", seen)
	}
}

func TestProjectOutsideACallIsNobodysBusiness(t *testing.T) {
	tool.InProject(t.Context(), "p1", "/root") // nothing observes it, and nothing breaks
}
