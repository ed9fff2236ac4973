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
	modules, reason := lookUp(npmCache(t), line)
	switch {
	case reason == "":
		return modules
	case os.Getenv("CI") != "" && !strings.HasPrefix(reason, unreachable):
		t.Fatalf("%s: %s", line, reason)
	default:
		t.Skipf("%s: %s", reason, line)
	}
	return ""
}

const unreachable = "registry unreachable:"

// lookUp finds what the installer made of a line, or says why there is nothing.
func lookUp(cache, line string) (modules, reason string) {
	dir, _, _ := strings.Cut(line, " ")
	folder := filepath.Join(cache, dir)
	if mark, err := os.ReadFile(filepath.Join(folder, ".installed")); err == nil && strings.TrimSpace(string(mark)) == line {
		return filepath.Join(folder, "node_modules"), ""
	}
	if said, err := os.ReadFile(filepath.Join(folder, ".unreachable")); err == nil {
		why := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(string(said)), unreachable))
		return "", unreachable + " " + why
	}
	return "", "not installed; run make deps"
}

func TestLookUpTellsAnAbsentPackageFromASilentRegistry(t *testing.T) {
	const line = "tool a@1 --flag"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string // reason; "": found
	}{
		{"installed", map[string]string{".installed": line + "\n"}, ""},
		{"installed again after an outage", map[string]string{".installed": line, ".unreachable": "no answer"}, ""},
		{"another version", map[string]string{".installed": "tool a@2"}, "not installed; run make deps"},
		{"never tried", nil, "not installed; run make deps"},
		{"silent registry", map[string]string{".unreachable": "registry unreachable: no answer\n"}, "registry unreachable: no answer"},
		{"another version and a silent registry", map[string]string{".installed": "tool a@0", ".unreachable": "no answer"}, "registry unreachable: no answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cache := t.TempDir()
			folder := filepath.Join(cache, "tool")
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			for name, text := range c.files {
				if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			modules, reason := lookUp(cache, line)
			if reason != c.want || (reason == "") != (modules == filepath.Join(folder, "node_modules")) {
				t.Errorf("lookUp = %q, %q, want reason %q", modules, reason, c.want)
			}
		})
	}
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
