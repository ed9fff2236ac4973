package mcpserver

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestAnotherUserIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become another user")
	}
	r := newRig(t, func(o *Options) { o.SameUser = true })
	base, _ := r.serve(t)
	if status, body, _ := do(t, "GET", base+"/health", ""); status != 200 {
		t.Errorf("our own request = %d %s", status, body)
	}
	for _, path := range []string{"/health", "/mcp", "/sse", "/"} {
		if got := visitAs(t, 65534, base+path); !strings.HasPrefix(got, "403 ") || !strings.Contains(got, "user 65534") {
			t.Errorf("GET %s of user 65534 = %q, want 403 and the reason", path, got)
		}
	}
	open := newRig(t)
	base, _ = open.serve(t)
	if got := visitAs(t, 65534, base+"/health"); !strings.HasPrefix(got, "200 ") {
		t.Errorf("without SameUser = %q, want 200", got)
	}
}

// Whoever is first may listen on a port; the token is not for them.
func TestDialSaysNothingToAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become another user")
	}
	cmd := asUser(t, 65534, "MCPSERVER_TEST_LISTEN=127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the other user does not listen")
	}
	c, err := Dial(t.Context(), "http://"+lines.Text()+"/mcp", DialOptions{Token: "sesame"})
	if err == nil {
		c.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
		t.Errorf("Dial = %v, want whose process it is", err)
	}
	if !lines.Scan() || lines.Text() != `""` {
		t.Errorf("the other user heard %s", lines.Text())
	}
}

// visitAs asks for a page as another user.
func visitAs(t *testing.T, uid uint32, url string) string {
	t.Helper()
	out, err := asUser(t, uid, "MCPSERVER_TEST_VISIT="+url).CombinedOutput()
	if err != nil {
		t.Fatalf("visit as %d: %v: %s", uid, err, out)
	}
	return string(out)
}

// asUser is this test binary run by another user.
func asUser(t *testing.T, uid uint32, env string) *exec.Cmd {
	t.Helper()
	dir, err := os.MkdirTemp("", "visit") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "visitor")
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = []string{env, "GORACE=atexit_sleep_ms=0"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return cmd
}
