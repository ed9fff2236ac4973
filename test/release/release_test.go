// Package release installs what a release is made of, the way its users do: the
// installer out of a release folder and from an address, and the Debian package
// into an empty root. It also holds the files below packaging/ to each other.
//
// The program and the release's own tool are built once.
package release

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

const (
	program = "async-crud-mcp"
	// version is one that no source has, so that it must come from the release.
	version = "1.2.3-test"
	// patience bounds one command; it is generous since the machine may be busy.
	patience = 2 * time.Minute
)

// Where TestMain has put what it built.
var builtProgram, builtTool string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "acm-release-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	suffix := ""
	if runtime.GOOS == "windows" {
		suffix = ".exe"
	}
	builtProgram, builtTool = filepath.Join(dir, program+suffix), filepath.Join(dir, "release"+suffix)
	for _, args := range [][]string{
		{"-ldflags", "-s -w -X github.com/async-crud-mcp/async-crud-mcp/internal/cli.version=" + version, "-o", builtProgram, "../../cmd/" + program},
		{"-o", builtTool, "../../scripts/release"},
	} {
		cmd := exec.Command("go", append([]string{"build", "-trimpath"}, args...)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build %v: %v\n%s", args, err, out)
			return 1
		}
	}
	return m.Run()
}

// result is what a command left behind.
type result struct {
	stdout, stderr string
	code           int
}

// command runs a program in the root of the checkout and waits for its end.
func command(t *testing.T, env []string, name string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = env
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil || ctx.Err() != nil {
		t.Fatalf("%s: %v\n%s", name, err, stderr.String())
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// must is command for what has to succeed.
func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	r := command(t, nil, name, args...)
	if r.code != 0 {
		t.Fatalf("%s %s ended with %d\n%s%s", name, strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// source is the path of a file of the checkout.
func source(elem ...string) string { return filepath.Join(append([]string{"..", ".."}, elem...)...) }

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// tree lists the files below dir.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			files = append(files, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// tool finds a program that make deps builds, in the version that the Makefile
// pins.
func tool(t *testing.T, name, variable string) string {
	t.Helper()
	version := pinned(t, variable)
	exe := filepath.Join(cache(t), "tools", name+"-"+version+"-"+runtime.Version())
	if _, err := os.Stat(exe); err != nil {
		absent(t, name, version)
	}
	return exe
}

func pinned(t *testing.T, variable string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + variable + `\s*:= (\S+)$`).FindStringSubmatch(read(t, source("Makefile")))
	if m == nil {
		t.Fatalf("the Makefile does not pin %s", variable)
	}
	return m[1]
}

func cache(t *testing.T) string {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(home, ".cache")), program)
}

// absent ends a test that lacks something make deps fetches. It is skipped when
// the registry did not answer; otherwise it fails in CI and is skipped with advice
// elsewhere.
func absent(t *testing.T, name, version string) {
	t.Helper()
	missing, err := os.ReadFile(filepath.Join(cache(t), "missing.txt"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(missing)) {
		if why, ok := strings.CutPrefix(strings.TrimSpace(line), name+"\tregistry unreachable:"); ok {
			t.Skipf("registry unreachable: %s", why)
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("no %s %s; run make deps", name, version)
	}
	t.Skipf("no %s %s; run make deps", name, version)
}
