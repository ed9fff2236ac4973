package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestAnotherUserReachesNothing looks at a daemon with the eyes of user 65534.
func TestAnotherUserReachesNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("needs root to become another user")
		return
	}
	top, err := os.MkdirTemp("", "daemon") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	root, home := filepath.Join(top, "project"), filepath.Join(top, "home")
	program := filepath.Join(top, "bin", "async-crud-mcp")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{root, home, filepath.Dir(program)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(top, 0o755); err != nil {
		t.Fatal(err)
	}
	noDaemonAfter(t, home)
	h := joins(t, home, nil, "--root", root, "--set", "persistence.enabled=true", "--set", "shell.enabled=true", "--set", "sandbox.mode=off")
	h.must(t, "async_write", map[string]any{"path": "secret.txt", "content": "secret"})
	h.must(t, "async_exec", map[string]any{"command": "echo secret"})
	as := func(name string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = []string{"ASYNC_CRUD_MCP_HOME=" + home, "PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := as(program, "stdio", "--root", root); err == nil {
		t.Errorf("another user could join: %s", out)
	}
	files := 0
	err = filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == home {
			return err
		}
		if d.IsDir() {
			if out, err := as("ls", path); err == nil && strings.TrimSpace(out) != "" {
				t.Errorf("another user can list %s: %s", path, out)
			}
			return nil
		}
		files++
		if out, err := as("cat", path); err == nil {
			t.Errorf("another user can read %s: %q", path, out)
		}
		return nil
	})
	if err != nil || files < 4 {
		t.Errorf("%d files were looked at: %v", files, err)
	}
}

// A command that an agent runs must not become a client that is trusted more.
func TestACommandCannotJoinTheDaemonThatRunsIt(t *testing.T) {
	root, home := world(t)
	for _, args := range [][]string{
		{"--set", "sandbox.mode=off"},
		{"--set", "sandbox.backend=bwrap"},
	} {
		h := joins(t, home, nil, append(args, "--root", root, "--set", "shell.enabled=true")...)
		script := "#!/bin/sh\nexport ASYNC_CRUD_MCP_HOME='" + home + "'\nunset ASYNC_CRUD_MCP_JOB\necho '{}' | async-crud-mcp stdio --root . 2>&1\necho code $?\n"
		if err := os.WriteFile(filepath.Join(root, "try.sh"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		res := h.must(t, "async_exec", map[string]any{"command": "./try.sh"})
		out, _ := res["stdout"].(string)
		if !strings.Contains(out, "code 1") || strings.Contains(out, "jsonrpc") {
			t.Errorf("%q: %v", args, res)
		}
		if args[1] == "sandbox.mode=off" && !strings.Contains(out, "cannot use the server that runs it") {
			t.Errorf("%q: it is not told why: %v", args, res)
		}
		if n := len(statusOf(t, home).Clients); n != 1 {
			t.Errorf("%d clients, want 1", n)
		}
		h.leave()
	}
}
