package app

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

const claimEnv = "APP_TEST_CLAIM"

// TestClaimsOfAnotherProcess runs this test in another process, which claims a
// directory and stays until its input ends.
func TestClaimsOfAnotherProcess(t *testing.T) {
	silent := slog.New(slog.DiscardHandler)
	if args := os.Getenv(claimEnv); args != "" {
		file, root, _ := strings.Cut(args, "|")
		if err := newClaims(file, SharedMode, silent).take("s", []string{root}); err != nil {
			os.Exit(3)
		}
		_, _ = os.Stdout.WriteString("claimed\n")
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0) // without giving it back
	}
	top := t.TempDir()
	file, root := filepath.Join(top, "data", claimsFile), filepath.Join(top, "a")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestClaimsOfAnotherProcess$")
	cmd.Env = append(os.Environ(), claimEnv+"="+file+"|"+root)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	c := newClaims(file, "standalone stdio", silent)
	for _, overlaps := range []string{root, filepath.Join(root, "below"), top} {
		err := c.take("1", []string{filepath.Join(top, "b"), overlaps})
		if !errors.Is(err, errInUse) || fault.CodeOf(err) != fault.AccessDenied || !strings.Contains(err.Error(), SharedMode) {
			t.Errorf("%s: %v, want it refused by the name of who has it", overlaps, err)
		}
	}
	if err := c.take("1", []string{root + "x"}); err != nil {
		t.Errorf("a directory beside it: %v", err)
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := c.take("1", []string{root}); err != nil {
		t.Errorf("after its end: %v", err)
	}
}

func TestClaimsAreGivenBackWithTheirLastSession(t *testing.T) {
	file := filepath.Join(t.TempDir(), claimsFile)
	c := newClaims(file, SharedMode, slog.New(slog.DiscardHandler))
	listed := func() (roots string) {
		t.Helper()
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var all []claim
		if err := json.Unmarshal(raw, &all); err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			if one.Owner != fsys.Process() || one.PID != os.Getpid() {
				t.Errorf("claim of somebody else: %+v", one)
			}
			roots += one.Root + " "
		}
		return roots
	}
	for session, roots := range map[string][]string{"1": {"/a", "/b"}, "2": {"/a"}, "": {"/c"}} {
		if err := c.take(session, roots); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct{ ends, want string }{{"2", "/a /b /c "}, {"1", "/c "}, {"3", "/c "}} {
		c.drop(step.ends)
		if got := listed(); got != step.want {
			t.Errorf("after the end of %s: %q, want %q", step.ends, got, step.want)
		}
	}
	c.close()
	if got := listed(); got != "" {
		t.Errorf("at the end: %q", got)
	}
}

// What nobody can write down does not keep the only server from working.
func TestWithoutAListNothingIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := newClaims(filepath.Join(file, "below", claimsFile), "standalone stdio", slog.New(slog.DiscardHandler))
	if err := c.take("1", []string{"/a"}); err != nil {
		t.Errorf("take = %v", err)
	}
	odd := filepath.Join(t.TempDir(), claimsFile)
	if err := os.WriteFile(odd, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := newClaims(odd, "standalone stdio", slog.New(slog.DiscardHandler)).take("1", []string{"/a"}); err != nil {
		t.Errorf("take over a list that makes no sense = %v", err)
	}
}
