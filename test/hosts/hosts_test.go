// Package hosts drives the real program with software that others wrote: the
// official conformance suites and real MCP hosts, installed from npm.
//
// Everything runs offline: the whole test process moves into a network namespace
// that holds nothing but loopback, where the system allows it, and every host
// gets a scratch home, a bare environment and, where it wants a model, a stub on
// loopback. The programs under test are built once, before that move.
package hosts

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/daemon/control"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

const (
	// insideEnv marks the process that runs the tests, after the move.
	insideEnv = "ACM_HOSTS_INSIDE"
	// binariesEnv names the folder with the programs under test.
	binariesEnv = "ACM_HOSTS_BINARIES"
	// hostTimeout bounds one command of a host or one suite; it is generous since
	// the machine may be busy.
	hostTimeout = 3 * time.Minute
)

func TestMain(m *testing.M) {
	if os.Getenv(insideEnv) != "" {
		if err := enterNamespace(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(notIsolated)
		}
		os.Exit(m.Run())
	}
	os.Exit(outside(m))
}

// outside builds the programs and runs the tests, isolated if that can be done.
func outside(m *testing.M) int {
	dir, err := os.MkdirTemp("", "acm-hosts-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := buildPrograms(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.Setenv(binariesEnv, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code, err := runIsolated()
	if err == nil {
		return code
	}
	fmt.Fprintln(os.Stderr, "no network namespace, the hosts see this machine's network:", err)
	return m.Run()
}

// The programs under test: what users get, and the same with the conformance
// suites' fixtures.
const (
	plain    = "async-crud-mcp"
	fixtures = "async-crud-mcp-conformance"
)

func buildPrograms(dir string) error {
	builds := map[string][]string{plain: nil, fixtures: {"-tags", "conformance"}}
	var wg sync.WaitGroup
	errs := make(chan error, len(builds))
	for name, flags := range builds {
		wg.Go(func() {
			args := append([]string{"build", "-o", filepath.Join(dir, name)}, flags...)
			cmd := exec.Command("go", append(args, "../../cmd/async-crud-mcp")...)
			if out, err := cmd.CombinedOutput(); err != nil {
				errs <- fmt.Errorf("build %s: %w\n%s", name, err, out)
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// program returns the path of a program under test.
func program(name string) string { return filepath.Join(os.Getenv(binariesEnv), name) }

// stdioCommand is how a host starts the server on its standard streams: in a
// project and a home of its own. The daemon that it joins ends with the test.
func stdioCommand(t *testing.T) (argv []string, env map[string]string, root string) {
	t.Helper()
	root, home := t.TempDir(), t.TempDir()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		daemon := control.Client{Dirs: fsys.Dirs{Config: home, Data: home, Log: home}}
		if err := daemon.Stop(ctx, false); err != nil && !errors.Is(err, control.ErrAbsent) {
			t.Errorf("the daemon does not end: %v", err)
		}
	})
	return []string{program(plain), "stdio", "--root", root}, map[string]string{"ASYNC_CRUD_MCP_HOME": home}, root
}

// server is a running `serve`.
type server struct {
	url  string // without a path
	root string // its project
}

var listening = regexp.MustCompile(`listening on (http://\S+)`)

// serve starts `serve` on a free port and ends it with the test.
func serve(t *testing.T, name string, args ...string) *server {
	t.Helper()
	s := &server{root: t.TempDir()}
	cmd := exec.Command(program(name), append([]string{"serve", "--root", s.root, "--port", "0"}, args...)...)
	cmd.Env = bareEnv(t, map[string]string{"ASYNC_CRUD_MCP_HOME": t.TempDir()})
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found := make(chan string, 1)
	var log bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case found <- m[1]:
				default: // it says so once; nobody waits for a second time
				}
			}
			fmt.Fprintln(&log, lines.Text())
		}
	}()
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Errorf("interrupt the server: %v", err)
		}
		late := time.AfterFunc(10*time.Second, func() {
			t.Error("the server did not end within 10 s of an interrupt")
			_ = cmd.Process.Kill() // it has ended meanwhile, or this ends it
		})
		<-read
		err := cmd.Wait()
		late.Stop()
		if err != nil {
			t.Errorf("the server ended with %v", err)
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", log.String())
		}
	})
	select {
	case s.url = <-found:
	case <-read:
		t.Fatal("the server ended before it listened")
	case <-time.After(hostTimeout):
		t.Fatal("the server does not listen")
	}
	return s
}

// bareEnv is the environment of everything the tests start: a scratch home, no
// colors, nothing of the person who runs the tests, and a proxy that refuses
// whatever is not on loopback.
func bareEnv(t *testing.T, more map[string]string) []string {
	t.Helper()
	const nowhere = "http://127.0.0.1:9"
	env := map[string]string{
		"HOME": t.TempDir(), "PATH": os.Getenv("PATH"), "TMPDIR": os.TempDir(), "LANG": "C.UTF-8",
		"TERM": "dumb", "NO_COLOR": "1",
		"HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "http_proxy": nowhere, "https_proxy": nowhere,
		"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost",
	}
	maps.Copy(env, more)
	list := make([]string, 0, len(env))
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	return list
}

// host is a program of somebody else's, with the folder and environment it runs in.
type host struct {
	argv []string
	dir  string
	env  []string
}

// output is what a command left behind.
type output struct {
	stdout, stderr string
	code           int
}

// run starts the host with args and waits for its end.
func (h *host) run(t *testing.T, args ...string) output {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hostTimeout)
	defer cancel()
	argv := append(append([]string{}, h.argv...), args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = h.dir, h.env
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	out := output{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && (!ended || ctx.Err() != nil) {
		t.Fatalf("%s %s: %v\n%s%s", filepath.Base(h.argv[len(h.argv)-1]), strings.Join(args, " "), err, out.stdout, out.stderr)
	}
	return out
}

// must is run for commands that have to succeed.
func (h *host) must(t *testing.T, args ...string) output {
	t.Helper()
	out := h.run(t, args...)
	if out.code != 0 {
		t.Fatalf("%s ended with %d\n%s%s", strings.Join(args, " "), out.code, out.stdout, out.stderr)
	}
	return out
}

// head returns the beginning of s, for messages.
func head(s string) string {
	const most = 2000
	if len(s) > most {
		return s[:most] + " …"
	}
	return s
}

func readAll(t *testing.T, r io.Reader) []byte {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("read: %v", err)
	}
	return b
}
