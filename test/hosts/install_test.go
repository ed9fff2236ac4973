package hosts

import (
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A person who has hosts installs us with one command, works, and takes it all
// back. Our own files are in the same home, as on a real machine.

// home returns the home directory in an environment.
func (h *host) home(t *testing.T) string {
	t.Helper()
	for _, entry := range h.env {
		if dir, ok := strings.CutPrefix(entry, "HOME="); ok {
			return dir
		}
	}
	t.Fatal("no HOME")
	return ""
}

// ours is our program in the home of a host, in whose project it stands. What it
// starts there ends with the test.
func (h *host) ours(t *testing.T) *host {
	t.Helper()
	p := &host{argv: []string{program(plain)}, dir: h.dir, env: h.env}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hostTimeout) // that of the test is over
		defer cancel()
		cmd := exec.CommandContext(ctx, program(plain), "uninstall", "--purge", "--yes")
		cmd.Dir, cmd.Env = p.dir, p.env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("the last uninstall: %v\n%s", err, out)
		}
	})
	return p
}

// files returns every file below dir with its mode and bytes.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = info.Mode().String() + "\n" + string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// leavesNothing installs and uninstalls without starting a host: every file of
// the home must be as it was.
func leavesNothing(t *testing.T, h, p *host, name string) {
	t.Helper()
	before := files(t, h.home(t))
	p.must(t, "quick-install", "--host", name, "--deny-native", "--yes")
	if maps.Equal(files(t, h.home(t)), before) {
		t.Fatal("quick-install changed nothing")
	}
	p.must(t, "uninstall")
	after := files(t, h.home(t))
	for _, path := range slices.Sorted(maps.Keys(after)) {
		if after[path] != before[path] {
			t.Errorf("%s is\n%s\nwant\n%s", path, head(after[path]), head(before[path]))
		}
	}
	for path := range before {
		if _, ok := after[path]; !ok {
			t.Errorf("%s is gone", path)
		}
	}
}

// forgotten checks that no file of a host's configuration names us any more,
// though the host has written to it since, and that nothing of ours is left.
func forgotten(t *testing.T, h *host, configs ...string) {
	t.Helper()
	for _, name := range configs {
		text, err := os.ReadFile(filepath.Join(h.home(t), name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if strings.Contains(string(text), plain) {
			t.Errorf("%s still names us:\n%s", name, head(string(text)))
		}
	}
	for path := range files(t, h.home(t)) {
		if strings.Contains(path, plain) && !strings.Contains(path, "mcp-logs-") { // Claude Code's own
			t.Errorf("%s is left", path)
		}
	}
}

// doctorFinds runs doctor, which must see nothing that does not work, and the
// host registered and denied its own tools.
func doctorFinds(t *testing.T, p *host, name string) {
	t.Helper()
	out := p.must(t, "doctor", "--json").stdout
	var d struct {
		Status   string
		Findings []struct{ Check, Level, Detail string }
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	for _, f := range d.Findings {
		if f.Check == name && f.Level == "ok" && strings.Contains(f.Detail, program(plain)) {
			return
		}
	}
	t.Errorf("doctor does not find %s well:\n%s", name, out)
}

// denied checks that the model was not told of the host's own tools.
func (m *model) denied(t *testing.T, tools ...string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range tools {
		if m.offered[name] {
			t.Errorf("the host still offers %s; it offers %v", name, slices.Sorted(maps.Keys(m.offered)))
		}
	}
}

func TestClaudeCodeIsRegisteredAndForgotten(t *testing.T) {
	t.Parallel()
	installed(t, "claude")
	m := newModel(t, []call{{"call_1", "mcp__async-crud-mcp__health", map[string]any{}}}, answerAnthropic)
	h := claude(t, m.url)
	h.env = append(h.env, "MCP_CONNECTION_NONBLOCKING=0") // connect before the model is asked
	p := h.ours(t)
	h.must(t, "mcp", "add", "--scope", "user", "other", "--", "/bin/true")
	leavesNothing(t, h, p, "claude-code")

	p.must(t, "setup", "--yes", "--deny-native")
	list := h.must(t, "mcp", "list").stdout
	if line := lineWith(list, "async-crud-mcp:"); !strings.HasSuffix(line, "✔ Connected") {
		t.Errorf("mcp list says %q, want Connected\n%s", line, list)
	}
	h.must(t, "-p", "call the tool", "--output-format", "json", "--allowedTools", "mcp__async-crud-mcp")
	m.check(t, map[string]string{"call_1": `"status":"ok"`})
	m.denied(t, "Bash", "Edit", "Write", "NotebookEdit")
	doctorFinds(t, p, "claude-code")

	p.must(t, "uninstall", "--purge", "--yes")
	forgotten(t, h, ".claude.json", ".claude/settings.json")
	if list := h.must(t, "mcp", "list").stdout; lineWith(list, "async-crud-mcp:") != "" || lineWith(list, "other:") == "" {
		t.Errorf("after uninstall mcp list says\n%s", list)
	}
}

func TestCodexIsRegisteredAndForgotten(t *testing.T) {
	t.Parallel()
	exe := native(t, installed(t, "codex"), "@openai/codex-*/vendor/*/bin/codex")
	h := &host{argv: []string{exe}, dir: t.TempDir(), env: bareEnv(t, nil)}
	config := filepath.Join(h.home(t), ".codex", "config.toml")
	if err := os.Mkdir(filepath.Dir(config), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte(codexConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	p := h.ours(t)
	h.must(t, "mcp", "add", "other", "--", "/bin/true")
	leavesNothing(t, h, p, "codex")

	p.must(t, "setup", "--yes", "--deny-native")
	if line := lineWith(h.must(t, "features", "list").stdout, "shell_tool "); !strings.HasSuffix(line, "false") {
		t.Errorf("features list says %q, want the shell off", line)
	}
	t.Run("connects", func(t *testing.T) {
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
		connected := false
		for _, s := range status.Data {
			connected = connected || s.Name == plain && s.Tools["async_read"] != nil
		}
		if !connected {
			t.Errorf("Codex lists %+v, want our tools", status.Data)
		}
	})
	doctorFinds(t, p, "codex")

	p.must(t, "uninstall", "--purge", "--yes")
	forgotten(t, h, ".codex/config.toml")
	if list := h.must(t, "mcp", "list").stdout; strings.Contains(list, plain) || !strings.Contains(list, "other") {
		t.Errorf("after uninstall mcp list says\n%s", list)
	}
}

func TestGeminiIsRegisteredAndForgotten(t *testing.T) {
	t.Parallel()
	installed(t, "gemini")
	m := newModel(t, []call{{"call_1", "mcp_async-crud-mcp_health", map[string]any{}}}, answerGemini)
	h := gemini(t, m.url)
	p := h.ours(t)
	leavesNothing(t, h, p, "gemini")

	p.must(t, "setup", "--yes", "--deny-native")
	out := h.must(t, "mcp", "list")
	if line := lineWith(out.stdout+out.stderr, "✓ async-crud-mcp:"); !strings.HasSuffix(line, "Connected") {
		t.Errorf("mcp list says %q, want Connected\n%s%s", line, out.stdout, out.stderr)
	}
	h.must(t, "-p", "call the tool", "-m", "gemini-2.5-flash", "-o", "json", "--approval-mode", "yolo")
	m.check(t, map[string]string{"call_1": `"status":"ok"`})
	m.denied(t, "run_shell_command", "write_file", "replace")
	doctorFinds(t, p, "gemini")

	p.must(t, "uninstall", "--purge", "--yes")
	forgotten(t, h, ".gemini/settings.json")
	out = h.must(t, "mcp", "list")
	if strings.Contains(out.stdout+out.stderr, plain) {
		t.Errorf("after uninstall mcp list says\n%s%s", out.stdout, out.stderr)
	}
}
