package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/daemon/control"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/localsock"
)

func TestMain(m *testing.M) {
	// The log's library never ends the goroutine that removes old files.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"))
}

const patience = 30 * time.Second

// running is a daemon in this process.
type running struct {
	*control.Client
	t    *testing.T
	done chan error
	stop context.CancelFunc
}

// runs starts a daemon in a home of its own.
func runs(t *testing.T, idle time.Duration) *running {
	t.Helper()
	home := t.TempDir()
	t.Setenv("ASYNC_CRUD_MCP_HOME", home)
	dirs := fsys.Dirs{Config: home, Data: home, Log: home}
	release, err := Hold(t.Context(), dirs)
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.Load(app.Options{Version: "1", Mode: app.SharedMode, Shared: true, Settings: config.Options{Env: []string{"HOME=" + home}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{Client: &control.Client{Dirs: dirs, Build: "2"}, t: t, done: make(chan error, 1), stop: stop}
	ready := make(chan struct{})
	go func() {
		err := Run(ctx, Options{App: a, Dirs: dirs, Build: "1", Idle: idle, Ready: func() { close(ready) }})
		a.Close()
		release()
		r.done <- err
	}()
	t.Cleanup(func() {
		stop()
		r.ends()
	})
	select {
	case <-ready:
	case err := <-r.done:
		t.Fatalf("the daemon ended: %v", err)
	}
	return r
}

// ends waits for the daemon's end.
func (r *running) ends() {
	r.t.Helper()
	select {
	case err := <-r.done:
		if err != nil {
			r.t.Errorf("Run = %v", err)
		}
		r.done <- nil
	case <-time.After(patience):
		r.t.Fatal("the daemon does not end")
	}
}

// joins opens a session and greets.
func (r *running) joins(s control.Start) *control.Conn {
	r.t.Helper()
	c, err := r.Session(r.t.Context(), s)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	r.call(c, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	return c
}

// call makes a request on a session and returns the answer.
func (r *running) call(c *control.Conn, method, params string) string {
	r.t.Helper()
	if _, err := fmt.Fprintf(c, `{"jsonrpc":"2.0","id":%q,"method":%q,"params":%s}`+"\n", method, method, params); err != nil {
		r.t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	for {
		line, err := c.Reader.ReadString('\n')
		if err != nil {
			r.t.Fatalf("%s: %v", method, err)
		}
		if strings.Contains(line, fmt.Sprintf(`"id":%q`, method)) {
			return line
		}
	}
}

// says sends a Hello as it is and returns the answer.
func (r *running) says(hello any) control.Answer {
	r.t.Helper()
	c, err := localsock.Dial(r.t.Context(), localsock.Path(r.Dirs.Data))
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	if err := control.Write(c, hello); err != nil {
		r.t.Fatal(err)
	}
	var a control.Answer
	if err := control.Read(bufio.NewReader(c), &a); err != nil {
		r.t.Fatal(err)
	}
	return a
}

func TestStatusTellsWhoIsThere(t *testing.T) {
	r := runs(t, time.Hour)
	root := t.TempDir()
	r.joins(control.Start{Root: root})
	s, err := r.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.PID != os.Getpid() || s.Build != "1" || s.IdleAfter != 3600 || len(s.Clients) != 1 || s.Clients[0].Root != root || s.Clients[0].Build != "2" {
		t.Errorf("status = %+v", s)
	}
	if s.Health.Coordination != "daemon: shared by 1 session" || s.LogFile != filepath.Join(r.Dirs.Log, "server.log") {
		t.Errorf("status = %+v", s)
	}
}

func TestOneDaemonOnADataDirectory(t *testing.T) {
	r := runs(t, 0)
	if _, err := Hold(t.Context(), r.Dirs); !errors.Is(err, ErrRuns) {
		t.Errorf("Hold = %v, want %v", err, ErrRuns)
	}
	if err := r.Stop(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	r.ends()
	release, err := Hold(t.Context(), r.Dirs)
	if err != nil {
		t.Fatalf("Hold after its end = %v", err)
	}
	release()
	if _, err := r.Status(t.Context()); !errors.Is(err, control.ErrAbsent) {
		t.Errorf("Status after its end = %v, want %v", err, control.ErrAbsent)
	}
	if err := r.Stop(t.Context(), false); !errors.Is(err, control.ErrAbsent) {
		t.Errorf("Stop after its end = %v, want %v", err, control.ErrAbsent)
	}
}

func TestStopSaysGoodbye(t *testing.T) {
	r := runs(t, 0)
	c := r.joins(control.Start{Root: t.TempDir()})
	var busy *control.Refused
	if err := r.Stop(t.Context(), true); !errors.As(err, &busy) || busy.Answer.Code != control.CodeBusy {
		t.Errorf("Stop of a daemon in use = %v, want %s", err, control.CodeBusy)
	}
	r.call(c, "ping", "{}")
	if err := r.Stop(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(c.Reader)
	if err != nil || !strings.HasSuffix(string(rest), control.Bye) {
		t.Errorf("the session heard %q, %v", rest, err)
	}
}

func TestIdleDaemonEndsAndNeverWithAClient(t *testing.T) {
	r := runs(t, 50*time.Millisecond)
	c, err := r.Session(t.Context(), control.Start{Root: t.TempDir()})
	if errors.Is(err, control.ErrAbsent) {
		t.Log("this machine is too slow to come in time")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond) // much longer than it waits for a client
	if _, err := r.Status(t.Context()); err != nil {
		t.Errorf("with a client: %v", err)
	}
	_ = c.Close()
	r.ends()
}

func TestOtherVersionsAreRefusedWithTheCure(t *testing.T) {
	r := runs(t, 0)
	start := &control.Start{Root: t.TempDir()}
	newer := r.says(control.Hello{Kind: control.KindSession, Protocol: control.Protocol + 1, Build: "9", Start: start})
	if newer.OK || newer.Code != control.CodeProtocol || !newer.Restart || !newer.Idle {
		t.Errorf("a newer program and an idle daemon: %+v", newer)
	}
	older := r.says(control.Hello{Kind: control.KindSession, Protocol: control.Protocol - 1, Build: "0", Start: start})
	if older.OK || older.Code != control.CodeProtocol || older.Restart || !strings.Contains(older.Cure, "update") {
		t.Errorf("an older program: %+v", older)
	}
	r.joins(*start)
	busy := r.says(control.Hello{Kind: control.KindSession, Protocol: control.Protocol + 1, Build: "9", Start: start})
	if busy.OK || busy.Idle || busy.Cure == "" {
		t.Errorf("a newer program and a daemon in use: %+v", busy)
	}
	for kind, hello := range map[string]any{"unknown": control.Hello{Kind: "x", Protocol: control.Protocol}, "no start": control.Hello{Kind: control.KindSession, Protocol: control.Protocol}, "no hello": "x"} {
		if a := r.says(hello); a.OK || a.Code != control.CodeHello {
			t.Errorf("%s: %+v", kind, a)
		}
	}
	// What a person asks is answered to every version.
	if a := r.says(control.Hello{Kind: control.KindStatus, Protocol: 77}); !a.OK || a.Status == nil {
		t.Errorf("status: %+v", a)
	}
	if a := r.says(control.Hello{Kind: control.KindStop, Protocol: 77}); !a.OK {
		t.Errorf("stop: %+v", a)
	}
	r.ends()
}

// A newer program replaces a daemon that nobody uses.
func TestJoinReplacesAnIdleDaemonThatDoesNotSuit(t *testing.T) {
	r := runs(t, 0)
	launched := errors.New("launched")
	start := control.Start{Root: t.TempDir(), Set: []string{"shell.enabled=true"}}
	launch := func() (control.Launch, error) { return control.Launch{}, launched }
	c := r.joins(control.Start{Root: start.Root})
	var refused *control.Refused
	if _, err := r.Join(t.Context(), start, launch); !errors.As(err, &refused) || !strings.Contains(refused.Answer.Message, "shell.enabled") {
		t.Fatalf("Join of a daemon in use = %v", err)
	}
	_ = c.Close()
	for {
		if s, err := r.Status(t.Context()); err != nil || len(s.Clients) == 0 {
			break
		}
	}
	if _, err := r.Join(t.Context(), start, launch); !errors.Is(err, launched) {
		t.Errorf("Join = %v, want that another is launched", err)
	}
	r.ends()
}

func TestListenServesHTTPForAsLongAsItIsWanted(t *testing.T) {
	r := runs(t, 0)
	start := control.Start{Root: t.TempDir(), Flags: map[string]any{"daemon.port": 0}}
	c, err := r.Listen(t.Context(), start, false)
	if err != nil {
		t.Fatal(err)
	}
	get := func() error {
		conn, err := net.Dial("tcp", c.Answer.Address)
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /health HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
			return err
		}
		raw, err := io.ReadAll(conn)
		if err == nil && !strings.Contains(string(raw), "daemon: shared by") {
			err = fmt.Errorf("health: %s", raw)
		}
		return err
	}
	if err := get(); err != nil {
		t.Errorf("while it is wanted: %v", err)
	}
	if s, err := r.Status(t.Context()); err != nil || len(s.Addresses) != 1 || s.Addresses[0] != c.Answer.Address {
		t.Errorf("Status = %+v, %v", s, err)
	}
	_ = c.Close()
	deadline := time.Now().Add(patience)
	for get() == nil {
		if time.Now().After(deadline) {
			t.Fatal("it still listens")
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := strings.Cut(taken.Addr().String(), ":")
	start.Flags = map[string]any{"daemon.port": json.Number(port)}
	var refused *control.Refused
	if _, err := r.Listen(t.Context(), start, false); !errors.As(err, &refused) || refused.Answer.Code != control.CodePort {
		t.Errorf("Listen on a port that is taken = %v, want %s", err, control.CodePort)
	}
}

func TestSessionsWithWrongSettingsAreToldWhy(t *testing.T) {
	r := runs(t, 0)
	for name, c := range map[string]struct {
		start control.Start
		want  string
	}{
		"no such root":    {control.Start{Root: "/no/such/place"}, "--root"},
		"unknown setting": {control.Start{Set: []string{"x.y=1"}}, "x.y"},
		"wrong value":     {control.Start{Environ: []string{"ASYNC_CRUD_MCP_SHELL__ENABLED=perhaps"}}, "SHELL__ENABLED"},
		"unknown toolset": {control.Start{Flags: map[string]any{"daemon.toolsets": []string{"nonsense"}}}, "nonsense"},
		"another file":    {control.Start{Config: "other.json", Dir: "/"}, "settings file"},
	} {
		_, err := r.Session(t.Context(), c.start)
		var refused *control.Refused
		if !errors.As(err, &refused) || !strings.Contains(refused.Answer.Message, c.want) || refused.Answer.Cure == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s, err := r.Status(t.Context()); err != nil || len(s.Clients) != 0 {
		t.Errorf("refused clients are still counted: %+v, %v", s, err)
	}
}
