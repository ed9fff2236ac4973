package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is the program running as a process of its own.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	home   string
	in     io.WriteCloser
	out    *bufio.Scanner
	stderr *lines
}

// lines collects what a process says and lets a test wait for a line.
type lines struct {
	said chan string

	mu  sync.Mutex
	all bytes.Buffer // guarded by mu
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	l.all.Write(p)
	l.mu.Unlock()
	for line := range strings.Lines(string(p)) {
		l.said <- line
	}
	return len(p), nil
}

const patience = 30 * time.Second // for what should take milliseconds on an idle machine

func (l *lines) wait(t *testing.T, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	timeout := time.After(patience)
	for {
		select {
		case line := <-l.said:
			if m := re.FindStringSubmatch(line); m != nil {
				return m
			}
		case <-timeout:
			t.Fatalf("no line matches %s; said: %s", pattern, l)
		}
	}
}

// begin starts the program. Its own files are in a directory of their own.
func begin(t *testing.T, home string, args ...string) *process {
	t.Helper()
	return beginWith(t, home, nil, args...)
}

// beginWith is begin with more in the environment.
func beginWith(t *testing.T, home string, env []string, args ...string) *process {
	t.Helper()
	if home == "" {
		home = t.TempDir()
	}
	noDaemonAfter(t, home)
	p := &process{t: t, home: home, stderr: &lines{said: make(chan string, 1000)}}
	p.cmd = exec.Command("async-crud-mcp", args...)
	p.cmd.Dir = t.TempDir()
	p.cmd.Env = append(append(os.Environ(), "ASYNC_CRUD_MCP_HOME="+home, "NO_COLOR=1"), env...)
	p.cmd.Stderr = p.stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	p.out.Buffer(nil, 1<<20)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// ends waits for the process and returns its exit code.
func (p *process) ends() int {
	p.t.Helper()
	done := make(chan error, 1)
	go func() { done <- p.cmd.Wait() }()
	select {
	case err := <-done:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			p.t.Fatal(err)
		}
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatal("the process does not end")
		return -1
	}
}

func (p *process) send(message string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, message+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// receive reads messages until one satisfies want.
func (p *process) receive(want func(m map[string]any) bool) map[string]any {
	p.t.Helper()
	defer time.AfterFunc(2*patience, func() { _ = p.cmd.Process.Kill() }).Stop() // what never comes ends the reading
	for p.out.Scan() {
		var m map[string]any
		if err := json.Unmarshal(p.out.Bytes(), &m); err != nil {
			p.t.Fatalf("standard output has something else than JSON: %q", p.out.Text())
		}
		if m["jsonrpc"] != "2.0" {
			p.t.Fatalf("standard output has something else than JSON-RPC: %s", p.out.Text())
		}
		if want(m) {
			return m
		}
	}
	p.t.Fatalf("standard output ended: %v; standard error: %s", p.out.Err(), p.stderr.String())
	return nil
}

func answerTo(id float64) func(map[string]any) bool {
	return func(m map[string]any) bool { return m["id"] == id }
}

func (p *process) initialize() {
	p.t.Helper()
	p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	p.receive(answerTo(1))
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (p *process) toolCount(id float64) int {
	p.t.Helper()
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"tools/list"}`, id))
	return len(p.receive(answerTo(id))["result"].(map[string]any)["tools"].([]any))
}

func TestStdioEndsWithItsClient(t *testing.T) {
	for name, end := range map[string]func(*process){
		"end of input": func(p *process) { _ = p.in.Close() },
		"SIGTERM":      func(p *process) { _ = p.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGINT":       func(p *process) { _ = p.cmd.Process.Signal(os.Interrupt) },
	} {
		t.Run(name, func(t *testing.T) {
			p := begin(t, "", "stdio", "--root", t.TempDir())
			p.initialize()
			if n := p.toolCount(2); n == 0 {
				t.Error("no tools")
			}
			end(p)
			if code := p.ends(); code != 0 {
				t.Errorf("exit code %d, want 0; standard error: %s", code, p.stderr.String())
			}
		})
	}
}

func TestStdioKeepsItsLogInAFile(t *testing.T) {
	p := begin(t, "", "stdio", "--standalone")
	p.initialize()
	_ = p.in.Close()
	p.ends()
	if p.stderr.String() != "" {
		t.Errorf("standard error is not a terminal and got: %s", p.stderr.String())
	}
	raw, err := os.ReadFile(filepath.Join(p.home, "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	var started bool
	for line := range strings.Lines(string(raw)) {
		var record struct{ Msg, Mode string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("the log is not JSON lines: %q", line)
		}
		started = started || record.Msg == "started" && record.Mode == "stdio"
	}
	if !started {
		t.Errorf("the log does not tell of the start: %s", raw)
	}
	if info, _ := os.Stat(filepath.Join(p.home, "server.log")); info.Mode().Perm() != 0o600 {
		t.Errorf("the log has mode %v, want 0600", info.Mode())
	}
}

func TestReloadChangesTheToolsOfARunningSession(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "config.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{}`)
	p := begin(t, home, "stdio", "--set", "daemon.config_debounce_seconds=0.05", "--set", "daemon.config_poll_seconds=0.2")
	p.initialize()
	all := p.toolCount(2)

	write(`{"daemon": {"read_only": true}}`)
	p.receive(func(m map[string]any) bool { return m["method"] == "notifications/tools/list_changed" })
	if n := p.toolCount(3); n >= all {
		t.Errorf("%d tools after read_only, %d before", n, all)
	}

	id := 10.0
	healthWith := func(key string, value any) map[string]any {
		t.Helper()
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) { // until the file is at rest
			id++
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"tools/call","params":{"name":"health","arguments":{}}}`, id))
			body := p.receive(answerTo(id))["result"].(map[string]any)["structuredContent"].(map[string]any)
			if body[key] == value {
				return body
			}
			if time.Now().After(end) {
				t.Fatalf("health = %v", body)
			}
		}
	}
	healthWith("read_only", true) // the server reads the file for itself, beside the session

	// A wrong file changes nothing and shows in health.
	write(`{"daemon": {"read_only": "no"}}`)
	body := healthWith("health", "degraded")
	if !strings.Contains(fmt.Sprint(body["findings"]), "daemon.read_only") || body["read_only"] != true {
		t.Errorf("health = %v", body)
	}
}

func TestServeAnswersAndStops(t *testing.T) {
	p := begin(t, "", "serve", "--port", "0", "--root", t.TempDir())
	address := p.stderr.wait(t, `listening on (http://127\.0\.0\.1:\d+)`)[1]
	resp, err := http.Get(address + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var report map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&report); err != nil {
		t.Fatal(err)
	}
	if report["status"] != "healthy" || report["port_listening"] != true || report["version"] == "" || report["uptime_seconds"] == nil {
		t.Errorf("health = %v", report)
	}
	out, err := exec.Command("async-crud-mcp", "call", "--url", address+"/mcp", "--compact", "health").CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"mode":"serve"`) {
		t.Errorf("call = %v: %s", err, out)
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.ends(); code != 0 {
		t.Errorf("exit code %d, want 0; standard error: %s", code, p.stderr.String())
	}
}

func TestTakenPortIsExit48AndNamesTheHolder(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p := begin(t, "", "serve", "--port", fmt.Sprint(ln.Addr().(*net.TCPAddr).Port))
	if code := p.ends(); code != 48 {
		t.Errorf("exit code %d, want 48", code)
	}
	said := p.stderr.String()
	if !strings.Contains(said, fmt.Sprintf("pid %d", os.Getpid())) || !strings.Contains(said, "next:") {
		t.Errorf("standard error names neither holder nor next step: %s", said)
	}
}

func TestOtherMachinesNeedAToken(t *testing.T) {
	p := begin(t, "", "serve", "--host", "0.0.0.0", "--port", "0")
	if code := p.ends(); code != 1 || !strings.Contains(p.stderr.String(), "daemon.token") {
		t.Errorf("exit code %d, want 1 and advice; standard error: %s", code, p.stderr.String())
	}
}

func TestTokenIsAskedForAndKeptPrivate(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef0123\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"serve", "--port", "0", "--set", fmt.Sprintf("daemon.token=%q", token)}
	open := begin(t, "", args...)
	if code := open.ends(); code != 1 || !strings.Contains(open.stderr.String(), "chmod 600") {
		t.Errorf("a token that others can read was taken: exit code %d, %s", code, open.stderr.String())
	}
	if err := os.Chmod(token, 0o600); err != nil {
		t.Fatal(err)
	}
	p := begin(t, "", args...)
	address := p.stderr.wait(t, `listening on (http://127\.0\.0\.1:\d+)`)[1]
	for given, want := range map[string]int{"": 401, "Bearer wrong": 401, "Bearer 0123456789abcdef0123": 405} {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPut, address+"/mcp", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", given)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("with %q: status %d, want %d", given, resp.StatusCode, want)
		}
	}
}
