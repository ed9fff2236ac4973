package release

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestImageHoldsAllTheProgramNeeds starts the program the way the container file
// says, as its user, in a root that has what the image has: itself, a project and
// places to write. An image cannot be built in a test; whether the program can do
// without anything else can be seen here. It takes the rights of root.
func TestImageHoldsAllTheProgramNeeds(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("not root: the program is not started in a root of its own")
		return
	}
	text := read(t, source("packaging", "Dockerfile"))
	user := submatch(t, text, `(?m)^USER (\d+):(\d+)$`)
	uid, gid := number(t, user[1]), number(t, user[2])
	var args []string
	if err := json.Unmarshal([]byte(submatch(t, text, `(?m)^CMD (\[.*\])$`)[1]), &args); err != nil {
		t.Fatal(err)
	}

	root := t.TempDir()
	for dir, mode := range map[string]os.FileMode{"usr/bin": 0o755, "project": 0o755, "state": 0o777 | os.ModeSticky, "tmp": 0o777 | os.ModeSticky} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(root, dir), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(filepath.Join(root, "project"), int(uid), int(gid)); err != nil {
		t.Fatal(err)
	}
	copyProgram(t, filepath.Join(root, "usr", "bin", program))

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/"+program, args...)
	cmd.Dir = "/project"
	cmd.Env = append(strings.Fields(submatch(t, text, `(?m)^ENV (.*)$`)[1]), "PATH=/usr/bin")
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"async_write","arguments":{"path":"new.txt","content":"written"}}}` + "\n")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, stderr.String())
	}
	if got := read(t, filepath.Join(root, "project", "new.txt")); got != "written" {
		t.Errorf("the project has %q; the server said:\n%s", got, stdout.String())
	}
	if files := tree(t, filepath.Join(root, "state")); len(files) == 0 {
		t.Error("nothing was recorded below /state")
	}
}

func copyProgram(t *testing.T, name string) {
	t.Helper()
	from, err := os.Open(builtProgram)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
}

func submatch(t *testing.T, text, pattern string) []string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("nothing is like %s in:\n%s", pattern, text)
	}
	return m
}

func number(t *testing.T, s string) uint32 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}
