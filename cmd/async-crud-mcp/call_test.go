package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A running server has settings of its own: what flags of a call forbid is not
// asked of it, and what would not reach it is refused.
func TestCallSaysWhoAnswersAndKeepsItsFlags(t *testing.T) {
	root := t.TempDir()
	server := begin(t, "", "serve", "--port", "0", "--root", root)
	address := server.stderr.wait(t, `listening on http://127\.0\.0\.1:(\d+)`)[1]
	call := func(args ...string) (code int, text string) {
		cmd := exec.Command("async-crud-mcp", append([]string{"call", "--compact", "--set", "daemon.port=" + address}, args...)...)
		cmd.Env = append(os.Environ(), "ASYNC_CRUD_MCP_HOME="+server.home, "NO_COLOR=1")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"health"}, 0, "the server at http://127.0.0.1:" + address + "/mcp answers\n"},
		{[]string{"health", "--set", "daemon.host=0.0.0.0"}, 0, `"mode":"serve"`}, // where it listens is not where it is reached
		{[]string{"health", "--read-only"}, 0, `"mode":"serve"`},
		{[]string{"crud_update_config", "--read-only", `{"set": {"crud.max_timeout": 5}}`}, 2, "is not on"},
		{[]string{"health", "--exclude-tools", "health"}, 2, "is not on"},
		{[]string{"health", "--set", "crud.maxTimeout=5"}, 2, "--set crud.maxTimeout does not reach it"},
		{[]string{"health", "--trust-project"}, 2, "--trust-project does not reach it"},
		{[]string{"health", "--set", "crud.max_timeout=5", "--standalone"}, 0, `"mode":"call"`},
	} {
		if code, text := call(c.args...); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("call %s: exit code %d, want %d, with %q:\n%s", c.args, code, c.code, c.want, text)
		}
	}
	if files, _ := os.ReadDir(root); len(files) > 0 {
		t.Errorf("a call that was refused changed the project: %v", files)
	}
}
