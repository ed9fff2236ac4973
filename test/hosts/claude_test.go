package hosts

import (
	"encoding/json"
	"strings"
	"testing"
)

// claude returns Claude Code with a home of its own. It talks to modelURL only.
func claude(t *testing.T, modelURL string) *host {
	t.Helper()
	exe := native(t, installed(t, "claude"), "@anthropic-ai/claude-code-*/claude")
	return &host{argv: []string{exe}, dir: t.TempDir(), env: bareEnv(t, map[string]string{
		"ANTHROPIC_BASE_URL":                       modelURL,
		"ANTHROPIC_API_KEY":                        "none",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		"DISABLE_AUTOUPDATER":                      "1",
		"DISABLE_ERROR_REPORTING":                  "1",
		"DISABLE_TELEMETRY":                        "1",
		"ENABLE_TOOL_SEARCH":                       "false", // offer the tools themselves, not a way to find them
	})}
}

func TestClaudeCodeConnectsOverEveryTransport(t *testing.T) {
	t.Parallel()
	h := claude(t, "http://127.0.0.1:9")
	srv := serve(t, plain)
	argv, env, _ := stdioCommand(t)
	add := []string{"mcp", "add", "over-stdio"}
	for k, v := range env {
		add = append(add, "-e", k+"="+v)
	}
	h.must(t, append(append(add, "--"), argv...)...)
	h.must(t, "mcp", "add", "--transport", "http", "over-http", srv.url+"/mcp")
	h.must(t, "mcp", "add", "--transport", "sse", "over-sse", srv.url+"/sse")
	list := h.must(t, "mcp", "list").stdout
	for _, name := range []string{"over-stdio", "over-http", "over-sse"} {
		if line := lineWith(list, name+":"); !strings.HasSuffix(line, "✔ Connected") {
			t.Errorf("mcp list says %q of %s, want Connected\n%s", line, name, list)
		}
		got := h.must(t, "mcp", "get", name).stdout
		if line := lineWith(got, "Status:"); !strings.HasSuffix(line, "✔ Connected") {
			t.Errorf("mcp get %s says %q, want Connected\n%s", name, line, got)
		}
	}
}

func TestClaudeCodeCallsToolsOverEveryTransport(t *testing.T) {
	t.Parallel()
	installed(t, "claude")
	srv := serve(t, plain)
	argv, env, root := stdioCommand(t)
	m := newModel(t, []call{
		{"call_1", "mcp__over-stdio__health", map[string]any{}},
		{"call_2", "mcp__over-http__health", map[string]any{}},
		{"call_3", "mcp__over-sse__health", map[string]any{}},
		{"call_4", "mcp__over-stdio__crud_activate_project", map[string]any{"path": root}},
		{"call_5", "mcp__over-sse__crud_activate_project", map[string]any{"path": srv.root}},
	}, answerAnthropic)
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"over-stdio": map[string]any{"type": "stdio", "command": argv[0], "args": argv[1:], "env": env},
		"over-http":  map[string]any{"type": "http", "url": srv.url + "/mcp"},
		"over-sse":   map[string]any{"type": "sse", "url": srv.url + "/sse"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	out := claude(t, m.url).must(t, "-p", "call the tools", "--output-format", "json",
		"--strict-mcp-config", "--mcp-config", string(config),
		"--allowedTools", "mcp__over-stdio,mcp__over-http,mcp__over-sse")
	m.check(t, map[string]string{
		"call_1": `"status":"ok"`, "call_2": `"status":"ok"`, "call_3": `"status":"ok"`,
		"call_4": root, "call_5": srv.root,
	})
	var result struct {
		Result  string
		IsError bool `json:"is_error"`
	}
	if err := json.Unmarshal([]byte(out.stdout), &result); err != nil || result.IsError || result.Result != "done" {
		t.Errorf("the conversation ended with %+v (%v), want done\n%s", result, err, head(out.stdout))
	}
}

// lineWith returns the line that begins with prefix, without the space around it.
func lineWith(text, prefix string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, prefix) {
			return line
		}
	}
	return ""
}
