package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Every command under Landlock pays for the start of the helper, so it must not
// wait for packages that it does not need.
func TestSandboxHelperStartsBeforeOtherPackages(t *testing.T) {
	cmd := exec.Command("async-crud-mcp", "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	foreign := 0
	for line := range strings.Lines(string(out)) {
		_, name, _ := strings.Cut(line, "init ")
		name, _, _ = strings.Cut(name, " ")
		if strings.HasSuffix(name, "/sandbox/confine") {
			return
		}
		if name == "os" || name == "strings" || name == "reflect" {
			t.Errorf("%s is initialised before the sandbox's helper", name)
		}
		if first, _, _ := strings.Cut(name, "/"); strings.Contains(first, ".") {
			foreign++
		}
		const few = 5 // that import as little, and come first by name
		if foreign > few {
			t.Fatalf("more than %d packages of others are initialised before the sandbox's helper:\n%s", few, out)
		}
	}
	t.Errorf("the program has no sandbox helper:\n%s", out)
}
