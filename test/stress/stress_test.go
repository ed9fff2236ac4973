// Package stress drives real server processes with many agents at once and judges
// what they were told against what is on disk: no acknowledged change is lost, no
// history breaks the order of a single copy, and no kill leaves half a file.
//
// Agents are raw clients, 16 of them on one stdio connection or in 16 sessions of
// HTTP. Everything random comes from a seed that a failure names. The usual run
// takes 5 seeds, spread over transports and ways of an outside editor, and 20
// kills; with ACM_STRESS=1 every test takes 100 seeds over both transports, and
// there are 500 kills.
package stress

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// long asks for the long run.
var long = os.Getenv("ACM_STRESS") == "1"

// seeds and kills are how much is tried.
func seeds() int { return scaled(5, 100) }
func kills() int { return scaled(20, 500) }

func scaled(usual, most int) int {
	switch {
	case long:
		return most
	case testing.Short():
		return 1
	default:
		return usual
	}
}

// agents work at a time, each making so many edits.
const agents = 16

func edits() int {
	if testing.Short() {
		return 10
	}
	return 50
}

// patience bounds everything that is waited for; it is generous since the machine
// may be busy.
const patience = 2 * time.Minute

// The server under test, as users get it and with the race detector, if the tests
// have that themselves: it costs much, so the usual run takes it for some.
var plain, watched string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "acm-stress-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

func build(dir string) error {
	plain, watched = filepath.Join(dir, "async-crud-mcp"), filepath.Join(dir, "async-crud-mcp-race")
	builds := [][]string{{"-o", plain}}
	if raceEnabled {
		builds = append(builds, []string{"-o", watched, "-race"})
	} else {
		watched = plain
	}
	for _, flags := range builds {
		args := append([]string{"build"}, flags...)
		if out, err := exec.Command("go", append(args, "../../cmd/async-crud-mcp")...).CombinedOutput(); err != nil {
			return fmt.Errorf("build the server: %w\n%s", err, out)
		}
	}
	return nil
}

// project is a directory that is served, with a home for the server's own files.
type project struct {
	root, home string
}

func newProject(t *testing.T) *project {
	t.Helper()
	return &project{root: t.TempDir(), home: t.TempDir()}
}

func (p *project) path(name string) string { return filepath.Join(p.root, name) }

// put makes a file before anybody is served.
func (p *project) put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(p.path(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// get reads a file past the server.
func (p *project) get(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(p.path(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// server is a running process and the agents that talk to it.
type server struct {
	cmd    *exec.Cmd
	agents []agent
	ended  chan struct{} // closed once the process is gone and everything is read
	close  func()        // lets go of the connections
	log    bytes.Buffer  // its standard error; to be read after ended
}

// The ways to reach a server.
var transports = []string{"stdio", "http"}

// start serves p to n agents over one transport. With races, or in the long run,
// the race detector looks on.
func (p *project) start(t *testing.T, transport string, n int, races bool) *server {
	t.Helper()
	verb := []string{"stdio", "--standalone", "--root", p.root} // the process that is killed is the server
	if transport == "http" {
		verb = []string{"serve", "--root", p.root, "--port", "0"}
	}
	program := plain
	if races || long {
		program = watched
	}
	s := &server{cmd: exec.Command(program, verb...), ended: make(chan struct{})}
	s.cmd.Env = []string{"HOME=" + p.home, "ASYNC_CRUD_MCP_HOME=" + p.home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	address := make(chan string, 1)
	readers.Go(func() { s.readLog(stderr, address) })
	var line *stdioLine
	if transport == "stdio" {
		line = newStdioLine(stdin)
		readers.Go(func() { line.read(stdout) })
	}
	go func() {
		readers.Wait()
		_ = s.cmd.Wait() // how it ended is asked of its state
		close(s.ended)
	}()
	if line != nil {
		s.close = line.close
		err = line.initialize(t.Context())
		for range n {
			s.agents = append(s.agents, line)
		}
	} else {
		s.agents, s.close, err = dialHTTP(t.Context(), s.address(t, address), n)
	}
	if err != nil {
		s.kill()
		t.Fatalf("connect over %s: %v\n%s", transport, err, s.log.String())
	}
	return s
}

var listening = regexp.MustCompile(`listening on (http://\S+)`)

func (s *server) readLog(stderr io.Reader, address chan<- string) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			select {
			case address <- m[1]:
			default: // it says so once; nobody waits for a second time
			}
		}
		fmt.Fprintln(&s.log, lines.Text())
	}
}

func (s *server) address(t *testing.T, address <-chan string) string {
	t.Helper()
	select {
	case a := <-address:
		return a
	case <-s.ended:
		t.Fatalf("the server ended before it listened\n%s", s.log.String())
	case <-time.After(patience):
		s.kill()
		t.Fatal("the server does not listen")
	}
	return ""
}

// stop ends the server as its host would, and fails the test if it did not end
// well: a data race is such an end.
func (s *server) stop(t *testing.T) {
	t.Helper()
	s.close()
	_ = s.cmd.Process.Signal(os.Interrupt) // the end of its input may have been enough
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.kill()
		t.Error("the server does not end")
	}
	if !s.cmd.ProcessState.Success() || strings.Contains(s.log.String(), "DATA RACE") {
		t.Errorf("the server ended with %v\n%s", s.cmd.ProcessState, s.log.String())
	}
}

// kill ends the server without a warning.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // it is gone already, or this ends it
	<-s.ended
	if s.close != nil {
		s.close()
	}
}

// randomness returns the numbers of one agent of one seed.
func randomness(seed, who int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), uint64(who))) }

// each runs work for every agent of the server at once. The first error stops
// nobody; all are returned.
func (s *server) each(work func(who int, a agent) error) error {
	errs := make([]error, len(s.agents))
	var wg sync.WaitGroup
	for who, a := range s.agents {
		wg.Go(func() { errs[who] = work(who, a) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// mustJSON is for arguments that can always be marshalled.
func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
