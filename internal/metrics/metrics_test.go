package metrics_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/metrics"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

type pathIn struct {
	Path string `json:"path"`
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
