package hosts

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// codexConfig keeps Codex away from the network: no updates, no analytics, and a
// model that nobody answers for.
const codexConfig = `model = "stub"
model_provider = "stub"
check_for_update_on_startup = false
[model_providers.stub]
name = "stub"
base_url = "http://127.0.0.1:9/v1"
wire_api = "responses"
[analytics]
enabled = false
`

func TestCodexListsAndCallsToolsOverStdioAndHTTP(t *testing.T) {
	t.Parallel()
	exe := native(t, installed(t, "codex"), "@openai/codex-*/vendor/*/bin/codex")
	codexHome := t.TempDir()
	if err := os.WriteFile(filepath.Join(codexHome, "config.toml"), []byte(codexConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &host{argv: []string{exe}, dir: t.TempDir(), env: bareEnv(t, map[string]string{"CODEX_HOME": codexHome})}
	srv := serve(t, plain)
	argv, env, root := stdioCommand(t)
	add := []string{"mcp", "add", "over_stdio"}
	for k, v := range env {
		add = append(add, "--env", k+"="+v)
	}
	h.must(t, append(append(add, "--"), argv...)...)
	h.must(t, "mcp", "add", "over_http", "--url", srv.url+"/mcp")

	app := startAppServer(t, h)
	app.ask("initialize", map[string]any{"clientInfo": map[string]any{"name": "hosts-test", "title": "hosts test", "version": "1"}}, nil)
	app.send(map[string]any{"method": "initialized"})
	var status struct {
		Data []struct {
			Name  string
			Tools map[string]json.RawMessage
		}
	}
	app.ask("mcpServerStatus/list", map[string]any{}, &status)
	listed := make(map[string]map[string]json.RawMessage)
	for _, s := range status.Data {
		listed[s.Name] = s.Tools
	}
	var started struct{ Thread struct{ ID string } }
	app.ask("thread/start", map[string]any{"cwd": h.dir}, &started)
	for server, project := range map[string]string{"over_stdio": root, "over_http": srv.root} {
		for _, c := range []struct {
			tool, holds string
			args        map[string]any
		}{
			{"health", `"status":"ok"`, map[string]any{}},
			{"crud_activate_project", project, map[string]any{"path": project}},
		} {
			if listed[server][c.tool] == nil {
				t.Errorf("%s does not list %s", server, c.tool)
			}
			var result struct {
				StructuredContent json.RawMessage
				IsError           bool
			}
			app.ask("mcpServer/tool/call", map[string]any{
				"threadId": started.Thread.ID, "server": server, "tool": c.tool, "arguments": c.args,
			}, &result)
			if got := string(result.StructuredContent); result.IsError || !strings.Contains(compact(got), c.holds) {
				t.Errorf("%s on %s answered %s (isError %t), want it to hold %s", c.tool, server, head(got), result.IsError, c.holds)
			}
		}
	}
}

// appServer is a running `codex app-server`: JSON-RPC, one message a line.
type appServer struct {
	t      *testing.T
	in     io.Writer
	lines  *bufio.Scanner
	nextID int
}

func startAppServer(t *testing.T, h *host) *appServer {
	t.Helper()
	cmd := exec.Command(h.argv[0], "app-server")
	cmd.Dir, cmd.Env = h.dir, h.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	silent := time.AfterFunc(hostTimeout, func() { _ = cmd.Process.Kill() }) // ends a read that waits for ever
	t.Cleanup(func() {
		_ = in.Close() // the end of its input ends it
		err := cmd.Wait()
		if !silent.Stop() {
			t.Error("the app server had to be killed")
		} else if err != nil {
			t.Errorf("the app server ended with %v", err)
		}
		if t.Failed() {
			t.Logf("its log:\n%s", head(stderr.String()))
		}
	})
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	return &appServer{t: t, in: in, lines: lines}
}

func (a *appServer) send(message map[string]any) {
	a.t.Helper()
	b, err := json.Marshal(message)
	if err != nil {
		a.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(a.in, "%s\n", b); err != nil {
		a.t.Fatal(err)
	}
}

// ask sends a request and puts the result of its answer into result.
func (a *appServer) ask(method string, params map[string]any, result any) {
	a.t.Helper()
	a.nextID++
	a.send(map[string]any{"id": a.nextID, "method": method, "params": params})
	for a.lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Result json.RawMessage
			Error  json.RawMessage
		}
		if err := json.Unmarshal(a.lines.Bytes(), &m); err != nil {
			a.t.Fatalf("%s: not JSON: %s", method, a.lines.Text())
		}
		if m.Method != "" || string(m.ID) != fmt.Sprint(a.nextID) {
			continue // a notification, or a question nobody answers here
		}
		if m.Error != nil {
			a.t.Fatalf("%s: %s", method, m.Error)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				a.t.Fatalf("%s: %v in %s", method, err, head(string(m.Result)))
			}
		}
		return
	}
	a.t.Fatalf("%s: no answer: %v", method, a.lines.Err())
}
