package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/daemon/control"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// daemonOf asks the daemon whose files are in home.
func daemonOf(home string) *control.Client {
	return &control.Client{Dirs: fsys.Dirs{Config: home, Data: home, Log: home}, Build: "test"}
}

// endDaemon ends the daemon whose files are in home, if there is one.
func endDaemon(home string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := daemonOf(home).Stop(ctx, false); err != nil && !errors.Is(err, control.ErrAbsent) {
		return err
	}
	return nil
}

// noDaemonAfter ends the daemon in home at the end of the test.
func noDaemonAfter(t *testing.T, home string) {
	t.Cleanup(func() {
		if err := endDaemon(home); err != nil {
			t.Errorf("the daemon in %s does not end: %v", home, err)
		}
	})
}

// statusOf returns how the daemon in home is.
func statusOf(t *testing.T, home string) *control.Status {
	t.Helper()
	s, err := daemonOf(home).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// daemonsIn counts the daemons that were ever started in home.
func daemonsIn(t *testing.T, home string) int {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(home, "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(raw), `"msg":"started"`)
}

// host is an MCP host with a server of its own on its streams. Unlike process it
// may be used on any goroutine.
type host struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	id  int
	err strings.Builder
}

func newHost(t *testing.T, home string, env []string, args ...string) (*host, error) {
	t.Helper()
	h := &host{cmd: exec.Command("async-crud-mcp", append([]string{"stdio"}, args...)...)}
	h.cmd.Dir = filepath.Dir(home)
	h.cmd.Env = append(append(os.Environ(), "ASYNC_CRUD_MCP_HOME="+home), env...)
	h.cmd.Stderr = &h.err
	in, err := h.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.in, h.out = in, bufio.NewReader(out)
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	_, err = h.ask("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "host", "version": "1"}})
	if err == nil {
		_, err = io.WriteString(h.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	}
	if err != nil {
		h.leave()
		return nil, fmt.Errorf("%w: %s", err, h.err.String())
	}
	return h, nil
}

// joins is newHost for the goroutine of the test.
func joins(t *testing.T, home string, env []string, args ...string) *host {
	t.Helper()
	h, err := newHost(t, home, env, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.leave)
	return h
}

func (h *host) leave() {
	_ = h.in.Close()
	_ = h.cmd.Wait()
}

// ask makes one request and returns its result.
func (h *host) ask(method string, params any) (map[string]any, error) {
	h.id++
	raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": h.id, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	if _, err := h.in.Write(append(raw, '\n')); err != nil {
		return nil, err
	}
	for {
		line, err := h.out.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("the server's output: %w", err)
		}
		var m struct {
			ID     any
			Result map[string]any
			Error  map[string]any
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		if m.ID != float64(h.id) {
			continue
		}
		if m.Error != nil {
			return nil, fmt.Errorf("%s: %v", method, m.Error["message"])
		}
		return m.Result, nil
	}
}

// call calls a tool and returns its result.
func (h *host) call(name string, args map[string]any) (map[string]any, error) {
	res, err := h.ask("tools/call", map[string]any{"name": name, "arguments": args})
	if err != nil {
		return nil, err
	}
	return res["structuredContent"].(map[string]any), nil
}

// must is call for what should work.
func (h *host) must(t *testing.T, name string, args map[string]any) map[string]any {
	t.Helper()
	res, err := h.call(name, args)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// addLine adds a line to a file by reading it and updating what was read, until
// that worked. An answer that the outcome is unknown is looked into.
func (h *host) addLine(file, line string) error {
	for {
		read, err := h.call("async_read", map[string]any{"path": file})
		if err != nil {
			return err
		}
		text, ok := read["content"].(string)
		if !ok {
			return fmt.Errorf("read: %v", read)
		}
		if strings.Contains(text, line) {
			return nil // an attempt of ours that nobody could tell us of
		}
		res, err := h.call("async_update", map[string]any{"path": file, "expected_hash": read["hash"], "content": text + line})
		if err != nil {
			return err
		}
		switch res["status"] {
		case "ok":
			return nil
		case "contention":
		default:
			details, _ := res["details"].(map[string]any)
			if res["error_code"] != "SERVER_ERROR" || details["outcome"] == nil {
				return fmt.Errorf("update: %v", res)
			}
		}
	}
}

// world is a project and the files of a server.
func world(t *testing.T) (root, home string) {
	t.Helper()
	top := t.TempDir()
	root, home = filepath.Join(top, "project"), filepath.Join(top, "home")
	for _, dir := range []string{root, home} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	noDaemonAfter(t, home)
	return root, home
}

func TestEightHostsShareOneTruth(t *testing.T) {
	for name, kills := range map[string]int{"undisturbed": 0, "daemon killed": 3} {
		t.Run(name, func(t *testing.T) {
			const hosts, edits = 8, 25
			root, home := world(t)
			if err := os.WriteFile(filepath.Join(root, "log.txt"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			var done atomic.Int64
			var all sync.WaitGroup
			for i := range hosts {
				all.Go(func() {
					h, err := newHost(t, home, nil, "--root", root)
					if err != nil {
						t.Error(err)
						return
					}
					defer h.leave()
					for j := range edits {
						if err := h.addLine("log.txt", fmt.Sprintf("host %d edit %d\n", i, j)); err != nil {
							t.Errorf("host %d edit %d: %v", i, j, err)
							return
						}
						done.Add(1)
					}
				})
			}
			for i := range kills {
				for done.Load() < int64((i+1)*hosts*edits/(kills+1)) && !t.Failed() {
					time.Sleep(time.Millisecond)
				}
				if daemon, err := os.FindProcess(statusOf(t, home).PID); err == nil {
					_ = daemon.Kill()
				}
			}
			all.Wait()
			raw, err := os.ReadFile(filepath.Join(root, "log.txt"))
			if err != nil {
				t.Fatal(err)
			}
			seen := make(map[string]int)
			for line := range strings.Lines(string(raw)) {
				seen[line]++
			}
			for i := range hosts {
				for j := range edits {
					if line := fmt.Sprintf("host %d edit %d\n", i, j); seen[line] != 1 {
						t.Errorf("%q is there %d times", line, seen[line])
					}
				}
			}
			if got := daemonsIn(t, home); got != kills+1 {
				t.Errorf("%d daemons were started, want %d", got, kills+1)
			}
		})
	}
}

func TestSessionsStayApart(t *testing.T) {
	root, home := world(t)
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "config.json"), []byte(`{"shell": {"enabled": true}, "sandbox": {"mode": "off"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	reader := joins(t, home, []string{"ACM_TEST_WHO=reader"}, "--root", root, "--read-only", "--toolsets", "files,exec", "--set", "crud.max_file_size_bytes=10")
	writer := joins(t, home, []string{"ACM_TEST_WHO=writer"}, "--root", other, "--toolsets", "all", "--exclude-tools", "async_delete")
	plain := joins(t, home, []string{"ACM_TEST_WHO=plain", "ASYNC_CRUD_MCP_SHELL__ENABLED=false"}, "--root", root)

	tools := func(h *host) string {
		t.Helper()
		res, err := h.ask("tools/list", map[string]any{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range res["tools"].([]any) {
			names = append(names, tool.(map[string]any)["name"].(string))
		}
		return " " + strings.Join(names, " ") + " "
	}
	for _, c := range []struct {
		name    string
		h       *host
		has, no []string
	}{
		{"reader", reader, []string{"async_read", "async_wait"}, []string{"async_write", "async_exec", "async_search", "health", "shell"}},
		{"writer", writer, []string{"async_write", "shell", "exec", "health", "async_search"}, []string{"async_delete"}},
		{"plain", plain, []string{"async_write", "async_delete", "async_exec", "health"}, []string{"shell", "exec"}},
	} {
		got := tools(c.h)
		for _, name := range c.has {
			if !strings.Contains(got, " "+name+" ") {
				t.Errorf("%s lacks %s:%s", c.name, name, got)
			}
		}
		for _, name := range c.no {
			if strings.Contains(got, " "+name+" ") {
				t.Errorf("%s has %s:%s", c.name, name, got)
			}
		}
	}
	if res, err := reader.call("async_write", map[string]any{"path": "x.txt", "content": "x"}); err == nil {
		t.Errorf("a session that may only read wrote: %v", res)
	}
	if res := plain.must(t, "async_write", map[string]any{"path": "large.txt", "content": strings.Repeat("x", 100)}); res["status"] != "ok" {
		t.Errorf("a session beside one with limits: %v", res)
	}
	if res := reader.must(t, "async_read", map[string]any{"path": "large.txt"}); res["error_code"] != "FILE_TOO_LARGE" {
		t.Errorf("a session beside one without limits: %v", res)
	}
	if res := writer.must(t, "async_read", map[string]any{"path": filepath.Join(root, "large.txt")}); res["error_code"] != "PATH_OUTSIDE_BASE" {
		t.Errorf("a session reached the root of another: %v", res)
	}
	if res := writer.must(t, "async_exec", map[string]any{"command": "echo $ACM_TEST_WHO; pwd"}); res["stdout"] != "writer\n"+other+"\n" {
		t.Errorf("the environment of a command: %v", res)
	}
	if res := plain.must(t, "async_exec", map[string]any{"command": "echo $ACM_TEST_WHO"}); res["error_code"] != "SHELL_DISABLED" {
		t.Errorf("a session that has switched commands off: %v", res)
	}
	if res := plain.must(t, "health", map[string]any{}); !strings.Contains(fmt.Sprint(res["coordination"]), "daemon: shared by 3 sessions") {
		t.Errorf("health: %v", res)
	}
	if n := len(statusOf(t, home).Clients); n != 3 {
		t.Errorf("%d clients, want 3", n)
	}
	// A session may not loosen what holds for all, while others are there.
	for _, args := range [][]string{
		{"--set", "sandbox.network=on", "--set", "shell.deny_patterns_mode=disable"},
		{"--set", "persistence.enabled=true"},
		{"--config", filepath.Join(t.TempDir(), "other.json")},
	} {
		h, err := newHost(t, home, nil, append(args, "--root", root)...)
		if err == nil {
			h.leave()
			t.Errorf("%q was let in", args)
		} else if !strings.Contains(err.Error(), "--standalone") {
			t.Errorf("%q: %v names no cure", args, err)
		}
	}
	if got := daemonsIn(t, home); got != 1 {
		t.Errorf("%d daemons were started, want 1", got)
	}
}

// A daemon that nobody uses makes room for one that suits.
func TestAnIdleDaemonIsReplacedByOneThatSuits(t *testing.T) {
	root, home := world(t)
	joins(t, home, nil, "--root", root).leave()
	first := statusOf(t, home).PID
	h := joins(t, home, nil, "--root", root, "--set", "shell.enabled=true", "--set", "sandbox.mode=off")
	if res := h.must(t, "async_exec", map[string]any{"command": "echo hi"}); res["status"] != "ok" {
		t.Errorf("async_exec: %v", res)
	}
	if now := statusOf(t, home).PID; now == first {
		t.Error("it is still the first daemon")
	}
	// It holds for who asked for it.
	if res := joins(t, home, nil, "--root", root).must(t, "async_exec", map[string]any{"command": "echo hi"}); res["error_code"] != "SHELL_DISABLED" {
		t.Errorf("another session: %v", res)
	}
}

func TestDaemonEndsWhenIdle(t *testing.T) {
	t.Parallel()
	root, home := world(t)
	d := begin(t, home, "daemon", "run", "--idle", "1s")
	for {
		if _, err := daemonOf(home).Status(t.Context()); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	h := joins(t, home, nil, "--root", root)
	if statusOf(t, home).PID != d.cmd.Process.Pid {
		t.Log("this machine is too slow to come in time")
		return
	}
	time.Sleep(2500 * time.Millisecond) // longer than it would wait without a client
	if res := h.must(t, "health", map[string]any{}); res["status"] != "ok" {
		t.Errorf("health: %v", res)
	}
	if n := daemonsIn(t, home); n != 1 {
		t.Errorf("%d daemons were started: it ended with a client", n)
	}
	h.leave()
	if code := d.ends(); code != 0 {
		t.Errorf("exit code %d: %s", code, d.stderr)
	}
}

// Whoever comes first, a file never has two lock tables: the others join or are
// refused by name.
func TestEveryOrderOfStartingMakesOneLockTable(t *testing.T) {
	kinds := []string{"bridge", "standalone", "serve", "daemon"}
	var orders [][]string
	var permute func(done, left []string)
	permute = func(done, left []string) {
		if len(left) == 0 {
			orders = append(orders, done)
		}
		for i, kind := range left {
			rest := append(append([]string{}, left[:i]...), left[i+1:]...)
			permute(append(append([]string{}, done...), kind), rest)
		}
	}
	permute(nil, kinds)
	for _, order := range orders {
		t.Run(strings.Join(order, " "), func(t *testing.T) {
			t.Parallel()
			root, home := world(t)
			tables := make(map[string]bool) // of the processes that serve root
			for _, kind := range order {
				switch kind {
				case "daemon":
					begin(t, home, "daemon", "run")
				case "serve":
					p := begin(t, home, "serve", "--root", root, "--port", "0")
					for line := range p.stderr.said {
						if strings.Contains(line, "listening on") || strings.Contains(line, "is in use by another") {
							break
						}
					}
				default:
					args := []string{"--root", root}
					if kind == "standalone" {
						args = append(args, "--standalone")
					}
					h, err := newHost(t, home, nil, args...)
					if err != nil {
						if !strings.Contains(err.Error(), "is in use by another") {
							t.Errorf("%s: %v", kind, err)
						}
						continue
					}
					t.Cleanup(h.leave)
					res := h.must(t, "async_write", map[string]any{"path": kind + ".txt", "content": "x"})
					switch {
					case res["status"] == "ok" && kind == "standalone":
						tables[kind] = true
					case res["status"] == "ok":
						tables["daemon"] = true
					case !strings.Contains(fmt.Sprint(res["message"]), "is in use by another"):
						t.Errorf("%s: %v", kind, res)
					}
				}
			}
			if len(tables) != 1 {
				t.Errorf("the root is served by %v, want exactly one", tables)
			}
		})
	}
}
