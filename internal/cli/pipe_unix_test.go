//go:build unix

package cli

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestStdioOutlivesItsOutput runs this test binary as the program, and closes
// the end that reads its answers.
func TestStdioOutlivesItsOutput(t *testing.T) {
	if dir := os.Getenv("CLI_TEST_STDIO"); dir != "" {
		os.Args = []string{"async-crud-mcp", "stdio", "--standalone", "--root", dir}
		os.Exit(Main())
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStdioOutlivesItsOutput$")
	cmd.Env = append(os.Environ(), "CLI_TEST_STDIO="+t.TempDir(), "ASYNC_CRUD_MCP_HOME="+t.TempDir())
	cmd.Stdout = theirs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"
	_, _ = io.WriteString(in, ping)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, `"id":1`) {
		t.Fatalf("ping = %q, %v", line, err)
	}
	out.Close()
	_, _ = io.WriteString(in, ping)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v, want no error", err)
	}
}
