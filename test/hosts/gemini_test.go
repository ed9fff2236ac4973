package hosts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// gemini returns Gemini CLI in a trusted folder, with a home of its own. It talks
// to modelURL only.
func gemini(t *testing.T, modelURL string) *host {
	t.Helper()
	bundle := filepath.Join(installed(t, "gemini"), "@google", "gemini-cli", "bundle", "gemini.js")
	home := t.TempDir()
	settings := filepath.Join(home, ".gemini", "settings.json")
	if err := os.MkdirAll(filepath.Dir(settings), 0o700); err != nil {
		t.Fatal(err)
	}
	const quiet = `{
		"security": {"auth": {"selectedType": "gemini-api-key"}},
		"privacy": {"usageStatisticsEnabled": false},
		"telemetry": {"enabled": false},
		"general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false}
	}`
	if err := os.WriteFile(settings, []byte(quiet), 0o600); err != nil {
		t.Fatal(err)
	}
	return &host{argv: []string{node(t), bundle}, dir: t.TempDir(), env: bareEnv(t, map[string]string{
		"HOME":                       home,
		"GEMINI_API_KEY":             "none",
		"GEMINI_CLI_TRUST_WORKSPACE": "true",
		"GEMINI_TELEMETRY_ENABLED":   "false",
		"GOOGLE_GEMINI_BASE_URL":     modelURL,
	})}
}

func TestGeminiConnectsAndCallsToolsOverEveryTransport(t *testing.T) {
	t.Parallel()
	installed(t, "gemini")
	srv := serve(t, plain)
	argv, env, root := stdioCommand(t)
	m := newModel(t, []call{
		{"call_1", "mcp_over-stdio_health", map[string]any{}},
		{"call_2", "mcp_over-http_health", map[string]any{}},
		{"call_3", "mcp_over-sse_health", map[string]any{}},
		{"call_4", "mcp_over-stdio_crud_activate_project", map[string]any{"path": root}},
		{"call_5", "mcp_over-http_crud_activate_project", map[string]any{"path": srv.root}},
		{"call_6", "mcp_over-sse_crud_activate_project", map[string]any{"path": srv.root}},
	}, answerGemini)
	h := gemini(t, m.url)
	add := []string{"mcp", "add", "--trust", "over-stdio", argv[0]}
	for k, v := range env {
		add = append(add, "-e", k+"="+v)
	}
	h.must(t, append(append(add, "--"), argv[1:]...)...)
	h.must(t, "mcp", "add", "--trust", "-t", "http", "over-http", srv.url+"/mcp")
	h.must(t, "mcp", "add", "--trust", "-t", "sse", "over-sse", srv.url+"/sse")

	out := h.must(t, "mcp", "list")
	list := out.stdout + out.stderr
	for _, name := range []string{"over-stdio", "over-http", "over-sse"} {
		if line := lineWith(list, "✓ "+name+":"); !strings.HasSuffix(line, "Connected") {
			t.Errorf("mcp list says %q of %s, want Connected\n%s", line, name, list)
		}
	}

	// A named model, since choosing one would be a conversation of its own.
	out = h.must(t, "-p", "call the tools", "-m", "gemini-2.5-flash", "-o", "json")
	m.check(t, map[string]string{
		"call_1": `"status":"ok"`, "call_2": `"status":"ok"`, "call_3": `"status":"ok"`,
		"call_4": root, "call_5": srv.root, "call_6": srv.root,
	})
	var result struct {
		Response string
		Stats    struct {
			Tools struct{ TotalSuccess, TotalFail int }
		}
	}
	if err := json.Unmarshal([]byte(out.stdout), &result); err != nil || result.Response != "done" ||
		result.Stats.Tools.TotalSuccess != len(m.want) || result.Stats.Tools.TotalFail != 0 {
		t.Errorf("the conversation ended with %+v (%v), want done after %d successful calls\n%s", result, err, len(m.want), head(out.stdout))
	}
}
