package hosts

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// model stands in for the language model of a host. Its first answer calls every
// wanted tool, its second ends the conversation; in between the host calls the
// tools for real and reports what they said.
type model struct {
	url  string
	want []call

	mu      sync.Mutex
	offered map[string]bool   // guarded by mu; the tools the host told the model about
	results map[string]string // guarded by mu; what came back, by call
}

// call is one use of a tool, under a name the host gave it.
type call struct {
	id, tool string
	args     map[string]any
}

// newModel starts a stub that speaks the wire format of answer.
func newModel(t *testing.T, want []call, answer func(*model, http.ResponseWriter, *http.Request, []byte)) *model {
	t.Helper()
	m := &model{want: want, offered: make(map[string]bool), results: make(map[string]string)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer(m, w, r, readAll(t, r.Body))
	}))
	t.Cleanup(srv.Close)
	m.url = srv.URL
	return m
}

// next returns the calls to make, or none when they have been made: the results
// are there, or this is a side conversation without our tools.
func (m *model) next(offered []string, results map[string]string) []call {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range offered {
		m.offered[name] = true
	}
	maps.Copy(m.results, results)
	if len(m.results) > 0 {
		return nil
	}
	for _, c := range m.want {
		if !slices.Contains(offered, c.tool) {
			return nil
		}
	}
	return m.want
}

// check fails unless every wanted call brought a result that holds its text.
func (m *model) check(t *testing.T, holds map[string]string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.want {
		if !m.offered[c.tool] {
			t.Errorf("the host never offered %s; it offered %v", c.tool, slices.Sorted(maps.Keys(m.offered)))
			continue
		}
		if got := compact(m.results[c.id]); !strings.Contains(got, holds[c.id]) {
			t.Errorf("%s answered %q, want it to hold %q", c.tool, head(got), holds[c.id])
		}
	}
}

// compact undoes what a host adds to a JSON text when it hands it on: quotes may
// have been escaped and white space put between the tokens.
func compact(s string) string {
	s = strings.ReplaceAll(s, `\"`, `"`)
	return strings.NewReplacer(`": `, `":`, "\n", "", `\n`, "").Replace(s)
}

// answerAnthropic speaks the streaming Messages API.
func answerAnthropic(m *model, w http.ResponseWriter, r *http.Request, body []byte) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/messages" {
		http.NotFound(w, r)
		return
	}
	var req struct {
		Model    string
		Tools    []struct{ Name string }
		Messages []struct{ Content json.RawMessage }
	}
	if err := json.Unmarshal(body, &req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var offered []string
	for _, t := range req.Tools {
		offered = append(offered, t.Name)
	}
	results := make(map[string]string)
	for _, msg := range req.Messages {
		var blocks []struct {
			Type      string
			ToolUseID string `json:"tool_use_id"`
			Content   json.RawMessage
		}
		if json.Unmarshal(msg.Content, &blocks) != nil {
			continue // a plain text
		}
		for _, b := range blocks {
			if b.Type == "tool_result" {
				results[b.ToolUseID] = string(b.Content)
			}
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(event map[string]any) {
		b, err := json.Marshal(event)
		if err != nil {
			panic(err) // built from strings and maps
		}
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event["type"], b)
	}
	type object = map[string]any
	send(object{"type": "message_start", "message": object{
		"id": "msg_stub", "type": "message", "role": "assistant", "model": req.Model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": object{"input_tokens": 1, "output_tokens": 1},
	}})
	block := func(i int, start, delta object) {
		send(object{"type": "content_block_start", "index": i, "content_block": start})
		send(object{"type": "content_block_delta", "index": i, "delta": delta})
		send(object{"type": "content_block_stop", "index": i})
	}
	calls, reason := m.next(offered, results), "tool_use"
	for i, c := range calls {
		args, err := json.Marshal(c.args)
		if err != nil {
			panic(err)
		}
		block(i, object{"type": "tool_use", "id": c.id, "name": c.tool, "input": object{}},
			object{"type": "input_json_delta", "partial_json": string(args)})
	}
	if len(calls) == 0 {
		reason = "end_turn"
		block(0, object{"type": "text", "text": ""}, object{"type": "text_delta", "text": "done"})
	}
	send(object{"type": "message_delta", "delta": object{"stop_reason": reason, "stop_sequence": nil}, "usage": object{"output_tokens": 1}})
	send(object{"type": "message_stop"})
}

// answerGemini speaks the generateContent API, streamed or not.
func answerGemini(m *model, w http.ResponseWriter, r *http.Request, body []byte) {
	var req struct {
		Tools []struct {
			FunctionDeclarations []struct{ Name string }
		}
		Contents []struct {
			Parts []struct {
				FunctionResponse *struct {
					ID       string
					Name     string
					Response json.RawMessage
				}
			}
		}
	}
	if err := json.Unmarshal(body, &req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var offered []string
	for _, t := range req.Tools {
		for _, f := range t.FunctionDeclarations {
			offered = append(offered, f.Name)
		}
	}
	results := make(map[string]string)
	for _, c := range req.Contents {
		for _, p := range c.Parts {
			if f := p.FunctionResponse; f != nil {
				for _, c := range m.want {
					if c.tool == f.Name {
						results[c.id] = string(f.Response)
					}
				}
			}
		}
	}
	type object = map[string]any
	var parts []any
	for _, c := range m.next(offered, results) {
		parts = append(parts, object{"functionCall": object{"name": c.tool, "args": c.args}})
	}
	if parts == nil {
		parts = append(parts, object{"text": "done"})
	}
	answer, err := json.Marshal(object{
		"candidates":    []any{object{"content": object{"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": object{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
	})
	if err != nil {
		panic(err)
	}
	if r.URL.Query().Get("alt") == "sse" {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\r\n\r\n", answer)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, "%s", answer)
}
