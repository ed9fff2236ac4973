package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// What a package makes before main, every start of every host waits for. Bytes
// stand for time here, since they are the same on every machine: a regular
// expression takes two to fifty thousand of them.
func TestPackagesMakeLittleBeforeMain(t *testing.T) {
	const most = 8 << 10
	cmd := exec.Command("async-crud-mcp", "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	line := regexp.MustCompile(`(?m)^init github\.com/async-crud-mcp/async-crud-mcp/(\S+) .*, (\d+) bytes`)
	found := line.FindAllStringSubmatch(string(out), -1)
	if len(found) == 0 {
		t.Fatalf("the runtime does not say what was made:\n%s", out)
	}
	for _, m := range found {
		if n, err := strconv.Atoi(m[2]); err != nil || n > most {
			t.Errorf("%s makes %s bytes before main, want at most %d: make it when it is first asked for, with sync.OnceValue", m[1], m[2], most)
		}
	}
}
