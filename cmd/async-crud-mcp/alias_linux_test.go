package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// aliasHome is a home with alias files, and the settings of a server in it.
func aliasHome(t *testing.T, settings string) (user, home string) {
	t.Helper()
	user, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home = filepath.Join(user, "state")
	t.Setenv("HOME", user)
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		filepath.Join(user, "aliases"):     "alias hello='echo hello'\nalias nuke='rm -rf ~/precious'\nalias show='printenv'\nalias mk='touch'\nalias slow='sleep 60'\nalias long='seq 1 100000'\n",
		filepath.Join(home, "config.yaml"): "aliases:\n  aliasFiles: [~/aliases]\n  allowPatterns: ['^(echo|printenv|touch|sleep|seq)\\b']\n" + settings,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return user, home
}

// The whole way of an alias: seen, tried, refused, run, recorded.
func TestAliasesOverStdio(t *testing.T) {
	user, home := aliasHome(t, "")
	t.Setenv("API_TOKEN", "hunter2")
	p := begin(t, home, "stdio", "--root", t.TempDir())
	p.initialize()

	read := p.request(2, "resources/read", `{"uri":"alias://catalog"}`)
	var items []map[string]any
	text := read["contents"].([]any)[0].(map[string]any)
	if err := json.Unmarshal([]byte(text["text"].(string)), &items); err != nil || text["mimeType"] != "application/json" || len(items) != 6 {
		t.Errorf("the catalogue is %v, %v", text, err)
	}
	if one := p.request(3, "resources/read", `{"uri":"alias://hello"}`); !strings.Contains(fmt.Sprint(one), "expansion: echo hello") {
		t.Errorf("alias://hello is %v", one)
	}
	if got := p.call(4, "alias.exec", map[string]any{"name": "hello", "args": "a"}); got["dryRun"] != true || got["command"] != "echo hello a" || got["exitCode"] != nil {
		t.Errorf("dry run: %v", got)
	}
	if got := p.call(5, "alias_exec", map[string]any{"name": "nuke"}); got["safe"] != false || got["dryRun"] != true {
		t.Errorf("dry run of an unsafe alias: %v", got)
	}
	if got := p.call(6, "alias_exec", map[string]any{"name": "nuke", "dryRun": false, "confirm": true}); got["error_code"] != "ALIAS_UNSAFE" {
		t.Errorf("run of an unsafe alias: %v", got)
	}
	if got := p.call(7, "alias_exec", map[string]any{"name": "hello", "dryRun": false}); got["error_code"] != "CONFIRMATION_REQUIRED" {
		t.Errorf("unconfirmed: %v", got)
	}
	if got := p.call(8, "alias_exec", map[string]any{"name": "hello", "args": "--password sw0rdfish", "dryRun": false, "confirm": true}); got["stdout"] != "hello --password sw0rdfish\n" {
		t.Errorf("run: %v", got)
	}
	if got := p.call(9, "alias_exec", map[string]any{"name": "show", "dryRun": false, "confirm": true}); strings.Contains(fmt.Sprint(got["stdout"]), "hunter2") {
		t.Errorf("environment: %v", got)
	}
	if got := p.call(10, "alias_exec", map[string]any{"name": "slow", "dryRun": false, "confirm": true, "timeoutSeconds": 1}); got["timedOut"] != true || got["exitCode"] != nil {
		t.Errorf("timeout: %v", got)
	}
	if got := p.call(11, "alias_exec", map[string]any{"name": "long", "dryRun": false, "confirm": true}); got["truncated"].(map[string]any)["stdout"] != true || len(got["stdout"].(string)) != 10000 {
		t.Errorf("truncation: %v", got["truncated"])
	}
	// Where the sandbox can protect single files, no alias writes into those they are from.
	got := p.call(12, "alias_exec", map[string]any{"name": "mk", "args": "aliases", "dryRun": false, "confirm": true})
	if got["sandbox"].(map[string]any)["backend"] == "bwrap" && got["exitCode"] == 0.0 {
		t.Errorf("it wrote into its own file: %v", got)
	}
	if got := p.request(13, "prompts/list", `{}`); !strings.Contains(fmt.Sprint(got), "alias_suggest") || !strings.Contains(fmt.Sprint(got), "alias_confirm") {
		t.Errorf("prompts: %v", got)
	}
	if got := p.request(14, "prompts/get", `{"name":"prompt.alias.confirm","arguments":{"name":"hello","args":"you"}}`); !strings.Contains(fmt.Sprint(got), "echo hello you") {
		t.Errorf("prompt: %v", got)
	}
	if got := p.request(15, "completion/complete", `{"ref":{"type":"ref/resource","uri":"alias://{name}"},"argument":{"name":"name","value":"s"}}`); !strings.Contains(fmt.Sprint(got), "[show slow]") {
		t.Errorf("completion: %v", got)
	}
	_ = p.in.Close()
	p.ends()
	stopDaemon(t, home)
	raw, err := os.ReadFile(filepath.Join(home, "aliases-audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	if len(lines) != 9 {
		t.Errorf("%d lines, want one for each call:\n%s", len(lines), raw)
	}
	for _, want := range []string{
		`"alias":"hello","args":"--password [redacted]","cwd":"` + user + `","exitCode":0,"timedOut":false,"dryRun":false,"outcome":"ok"`,
		`"alias":"nuke","args":"","cwd":"","exitCode":null,"timedOut":false,"dryRun":false,"outcome":"error","code":"ALIAS_UNSAFE"`,
		`"exitCode":null,"timedOut":true,"dryRun":false,"outcome":"ok"`,
	} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the record lacks %s:\n%s", want, raw)
		}
	}
	if strings.Contains(string(raw), "sw0rdfish") {
		t.Errorf("the record is not redacted: %s", raw)
	}
}

// stopDaemon ends the process that served, if it goes on without its client, so
// that its records are complete.
func stopDaemon(t *testing.T, home string) {
	t.Helper()
	p := begin(t, home, "daemon", "stop")
	p.ends()
}

// A client hears of aliases that come and go, as tools and as resources.
func TestAliasFilesOfARunningSessionMayChange(t *testing.T) {
	user, home := aliasHome(t, "  toolPerAlias: true\n")
	p := begin(t, home, "stdio")
	p.initialize()
	tools := func(id float64) (names []string) {
		for _, one := range p.request(id, "tools/list", `{}`)["tools"].([]any) {
			if name := one.(map[string]any)["name"].(string); strings.HasPrefix(name, "alias_run_") {
				names = append(names, name)
			}
		}
		return names
	}
	if got := tools(2); !slices.Contains(got, "alias_run_hello") || slices.Contains(got, "alias_run_nuke") {
		t.Errorf("tools %v", got)
	}
	p.request(3, "resources/subscribe", `{"uri":"alias://hello"}`)
	if err := os.WriteFile(filepath.Join(user, "aliases"), []byte("alias hello='echo other'\nalias fresh='echo fresh'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	heard := make(map[string]bool)
	p.receive(func(m map[string]any) bool {
		if method, ok := m["method"].(string); ok {
			heard[method] = true
		}
		return heard["notifications/tools/list_changed"] && heard["notifications/resources/updated"] && heard["notifications/resources/list_changed"]
	})
	if got := tools(4); !slices.Equal(got, []string{"alias_run_fresh", "alias_run_hello"}) {
		t.Errorf("tools %v", got)
	}
	if got := p.call(5, "alias.fresh", map[string]any{"dryRun": false, "confirm": true}); got["stdout"] != "fresh\n" {
		t.Errorf("%v", got)
	}
	if got := p.call(6, "alias_exec", map[string]any{"name": "hello"}); got["command"] != "echo other" {
		t.Errorf("%v", got)
	}
}

// A host that can ask its person does so in place of confirm.
func TestAConfirmationIsAskedOverTheProtocol(t *testing.T) {
	_, home := aliasHome(t, "")
	p := begin(t, home, "stdio")
	p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"test","version":"1"}}}`)
	p.receive(answerTo(1))
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	p.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"alias_exec","arguments":{"name":"hello","dryRun":false}}}`)
	q := p.receive(func(m map[string]any) bool { return m["method"] == "elicitation/create" })
	if message := fmt.Sprint(q["params"].(map[string]any)["message"]); !strings.Contains(message, "echo hello") {
		t.Errorf("asked: %s", message)
	}
	id, _ := json.Marshal(q["id"])
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"run":true}}}`, id))
	res := p.receive(answerTo(2))["result"].(map[string]any)["structuredContent"].(map[string]any)
	if res["stdout"] != "hello\n" {
		t.Errorf("%v", res)
	}
}

func TestAliasesOverHTTPAreCounted(t *testing.T) {
	_, home := aliasHome(t, "")
	p := begin(t, home, "serve", "--port", "0", "--root", t.TempDir())
	url := p.stderr.wait(t, `listening on (http://\S+)`)[1]
	call := func(name string, args map[string]any) map[string]any {
		t.Helper()
		body, _ := json.Marshal(map[string]any{
			"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
				"name": name, "arguments": args, "_meta": map[string]any{
					"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": map[string]any{"name": "t", "version": "1"},
					"io.modelcontextprotocol/clientCapabilities": map[string]any{},
				},
			},
		})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/mcp", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name,
		} {
			req.Header.Set(key, value)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		raw, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			var m struct {
				Result struct{ StructuredContent map[string]any }
			}
			if json.Unmarshal([]byte(strings.TrimPrefix(strings.TrimSpace(line), "data: ")), &m) == nil && m.Result.StructuredContent != nil {
				return m.Result.StructuredContent
			}
		}
		t.Fatalf("%s answered %s", name, raw)
		return nil
	}
	if got := call("alias_exec", map[string]any{"name": "hello", "dryRun": false, "confirm": true}); got["stdout"] != "hello\n" {
		t.Errorf("%v", got)
	}
	if got := call("alias_exec", map[string]any{"name": "nuke", "dryRun": false, "confirm": true}); got["error_code"] != "ALIAS_UNSAFE" {
		t.Errorf("%v", got)
	}
	res, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(res.Body)
	for _, want := range []string{"async_crud_mcp_alias_calls_total 2\n", "async_crud_mcp_alias_denials_total 1\n", "async_crud_mcp_alias_timeouts_total 0\n", "async_crud_mcp_alias_errors_total 0\n"} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}
