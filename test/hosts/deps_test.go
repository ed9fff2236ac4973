package hosts

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// installed returns the node_modules of a folder that deps.txt names. A test
// whose folder is not there skips when the registry did not answer; otherwise it
// fails in CI and skips with advice elsewhere.
func installed(t *testing.T, dir string) string {
	t.Helper()
	line := manifestLine(t, dir)
	folder := filepath.Join(npmCache(t), dir)
	mark, err := os.ReadFile(filepath.Join(folder, ".installed"))
	if err == nil && strings.TrimSpace(string(mark)) == line {
		return filepath.Join(folder, "node_modules")
	}
	if reason, err := os.ReadFile(filepath.Join(folder, ".unreachable")); err == nil {
		t.Skip("registry unreachable: " + strings.TrimPrefix(strings.TrimSpace(string(reason)), "registry unreachable: "))
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is not installed; run make deps", line)
	}
	t.Skipf("%s is not installed; run make deps", line)
	return ""
}

// manifestLine returns the line of deps.txt for a folder, its fields joined by
// one space as the installer does.
func manifestLine(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile("deps.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == dir {
			return strings.Join(f, " ")
		}
	}
	t.Fatalf("deps.txt has no line for %s", dir)
	return ""
}

func npmCache(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("ACM_NPM_CACHE"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(home, ".cache")), "async-crud-mcp", "npm")
}

// node returns the JavaScript engine: the installed one, else that of PATH.
func node(t *testing.T) string {
	t.Helper()
	modules := installed(t, "node")
	if exe := filepath.Join(modules, ".bin", "node"); executable(exe) {
		return exe
	}
	exe, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node package for this machine and no node in PATH")
	}
	return exe
}

// native returns the one file below modules that matches pattern: the binary a
// package brings for this machine.
func native(t *testing.T, modules, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(modules, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, exe := range found {
		if executable(exe) {
			return exe
		}
	}
	t.Fatalf("no %s below %s", pattern, modules)
	return ""
}

func executable(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
