package hosts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// nushellCalls is a table of commands for the shell tool with a real nu, and what
// their answers hold.
var nushellCalls = []struct{ name, command, want string }{
	{"a value", `[1 2 3] | math sum`, `"stdout":"6\n"`},
	{"which shell it is", `version | get version | describe`, `"shell_used":"nu"`},
	{"an exit code", `^sh -c "exit 7"; print never`, `"exit_code":7`},
	{"a high exit code", `^sh -c "exit 250"`, `"exit_code":250`},
	{"a missing command", `no-such-command-here`, `"exit_code":127`},
	{"a killed command", `^bash -c "kill -9 $$"`, `"exit_code":137`},
	{"text that does not parse", `let x = `, `"exit_code":2`},
	{"errors in plain lines", `error make {msg: "told plainly"}`, `told plainly`},
	{"a file read by a command of nu's own", `open file.txt`, `"use":"async_read"`},
	{"a file written", `"x" | save made.txt`, `"error":"BLOCKED_COMMAND"`},
	{"a file removed", `rm file.txt`, `"error":"BLOCKED_COMMAND"`},
	{"files listed", `ls`, `"use":"async_list"`},
	{"a file read by a program", `^cat file.txt`, `"error":"BLOCKED_COMMAND"`},
	{"another shell's redirection is text", `print "a > b"`, `"stdout":"a > b\n"`},
	{"bash syntax", `true && true`, `"exit_code":2`},
}

func TestShellToolSpeaksNushell(t *testing.T) {
	modules := installed(t, "nushell")
	argv, env, root := stdioCommand(t)
	if err := os.WriteFile(filepath.Join(root, "file.txt"), []byte("text\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := &host{dir: root, env: bareEnv(t, env), argv: []string{argv[0]}}
	call := func(tool, args string) string {
		t.Helper()
		out := h.run(t, "call", tool, args, "--compact", "--standalone", "--root", root, "--toolsets", "all",
			"--set", "shell.enabled=true", "--set", "shell.shell_path="+filepath.Join(modules, ".bin", "nu"))
		return out.stdout
	}
	for _, c := range nushellCalls {
		t.Run(c.name, func(t *testing.T) {
			args, err := json.Marshal(map[string]any{"command": c.command})
			if err != nil {
				t.Fatal(err)
			}
			if got := call("shell", string(args)); !strings.Contains(got, c.want) {
				t.Errorf("%s answers %s, want %s", c.command, got, c.want)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(root, "made.txt")); err == nil {
		t.Error("a command that was refused has run")
	}
}
