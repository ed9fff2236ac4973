package metrics_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/metrics"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

type pathIn struct {
	Path string `json:"path"`
}

// Tell implements tool.Teller: an alias of that name.
func (in aliasIn) Tell(f *tool.Facts) { f.Alias = in.Name }

type aliasIn struct {
	Name string `json:"name"`
}

// Tell implements tool.Teller.
func (o aliasOut) Tell(f *tool.Facts) { f.TimedOut = o.late }

type aliasOut struct {
	Status string `json:"status"`
	late   bool
}

func TestCallsOfAliasesAreCountedTogether(t *testing.T) {
	m := metrics.New(metrics.Options{})
	handle := func(_ context.Context, in aliasIn) (aliasOut, error) {
		switch in.Name {
		case "unsafe":
			return aliasOut{}, fault.New(fault.AliasUnsafe, "no")
		case "unconfirmed":
			return aliasOut{}, fault.New(fault.ConfirmationRequired, "no")
		case "outside":
			return aliasOut{}, fault.New(fault.PathOutsideBase, "no")
		case "missing":
			return aliasOut{}, fault.New(fault.AliasNotFound, "no")
		}
		return aliasOut{Status: tool.OK, late: in.Name == "slow"}, nil
	}
	exec, one := tool.New(tool.Spec{Name: "alias_exec"}, handle), tool.New(tool.Spec{Name: "alias_run_x"}, handle)
	set, err := tool.NewSet([]*tool.Tool{exec, one}, tool.SetOptions{Observers: []tool.Observer{m}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ok", "slow", "unsafe", "unconfirmed", "outside", "missing"} {
		set.Call(t.Context(), exec, json.RawMessage(`{"name": "`+name+`"}`))
	}
	set.Call(t.Context(), one, json.RawMessage(`{"name": "ok"}`))
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	got := rec.Body.String()
	for _, want := range []string{
		"async_crud_mcp_alias_calls_total 7\n", "async_crud_mcp_alias_denials_total 3\n", "async_crud_mcp_alias_timeouts_total 1\n", "async_crud_mcp_alias_errors_total 1\n",
		`tool="alias_run_any"} 1`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("metrics lack %q", want)
		}
	}
	if strings.Contains(got, "alias_run_x") {
		t.Error("the name of an alias is a label")
	}
}

type statusOut struct {
	Status string `json:"status"`
}

func TestCallsAreCountedWithoutArguments(t *testing.T) {
	m := metrics.New(metrics.Options{Version: "1.2.3", Sessions: func() int { return 7 }})
	touch := tool.New(tool.Spec{Name: "touch"}, func(context.Context, pathIn) (statusOut, error) { return statusOut{tool.OK}, nil })
	set, err := tool.NewSet([]*tool.Tool{touch}, tool.SetOptions{Observers: []tool.Observer{m}})
	if err != nil {
		t.Fatal(err)
	}
	set.Call(t.Context(), touch, json.RawMessage(`{"path":"secret.txt"}`))
	set.Call(t.Context(), touch, json.RawMessage(`{"path":"secret.txt"}`))
	set.Call(t.Context(), touch, json.RawMessage(`{"pth":1}`))

	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	got := rec.Body.String()
	for _, want := range []string{
		`async_crud_mcp_tool_calls_total{code="",status="ok",tool="touch"} 2`,
		`async_crud_mcp_tool_calls_total{code="VALIDATION_ERROR",status="error",tool="touch"} 1`,
		`async_crud_mcp_tool_call_seconds_count{tool="touch"} 3`,
		`async_crud_mcp_sessions 7`, `version="1.2.3"`, `go_goroutines`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Contains(got, "secret") {
		t.Error("an argument reached the metrics")
	}
}
