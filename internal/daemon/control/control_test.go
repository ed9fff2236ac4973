package control_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/async-crud-mcp/async-crud-mcp/internal/daemon/control"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/localsock"
)

const failEnv = "CONTROL_TEST_FAIL"

func TestMain(m *testing.M) {
	if os.Getenv(failEnv) != "" { // a daemon that cannot start
		_, _ = os.Stderr.WriteString("the moon is wrong\n")
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func client(t *testing.T) *control.Client {
	t.Helper()
	home := t.TempDir()
	return &control.Client{Dirs: fsys.Dirs{Config: home, Data: home, Log: filepath.Join(home, "log")}, Build: "b"}
}

func TestADaemonThatCannotStartSaysWhy(t *testing.T) {
	c := client(t)
	launch := func() (control.Launch, error) {
		return control.Launch{Program: os.Args[0], Args: []string{"x"}, Env: append(os.Environ(), failEnv+"=1")}, nil
	}
	if _, err := c.Join(t.Context(), control.Start{}, launch); err == nil || !strings.Contains(err.Error(), "the moon is wrong") {
		t.Errorf("Join = %v, want the daemon's words", err)
	}
	want := errors.New("no")
	if err := c.Start(t.Context(), func() (control.Launch, error) { return control.Launch{}, want }); !errors.Is(err, want) {
		t.Errorf("Start = %v, want %v", err, want)
	}
	nobody := func() (control.Launch, error) {
		return control.Launch{Program: filepath.Join(c.Dirs.Data, "nothing")}, nil
	}
	if err := c.Start(t.Context(), nobody); err == nil {
		t.Error("a program that is not there was started")
	}
}

func TestWithoutADaemonThereIsNoneToAsk(t *testing.T) {
	c := client(t)
	for name, ask := range map[string]func() error{
		"status":  func() error { _, err := c.Status(t.Context()); return err },
		"stop":    func() error { return c.Stop(t.Context(), false) },
		"session": func() error { _, err := c.Session(t.Context(), control.Start{}); return err },
		"listen":  func() error { _, err := c.Listen(t.Context(), control.Start{}, false); return err },
	} {
		if err := ask(); !errors.Is(err, control.ErrAbsent) {
			t.Errorf("%s = %v, want %v", name, err, control.ErrAbsent)
		}
	}
}

// A daemon that is about to end closes without a word.
func TestADaemonThatHangsUpCountsAsAbsent(t *testing.T) {
	c := client(t)
	ln, err := localsock.Listen(localsock.Path(c.Dirs.Data))
	if err != nil {
		t.Fatal(err)
	}
	hangsUp := make(chan struct{})
	go func() {
		defer close(hangsUp)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	if _, err := c.Session(t.Context(), control.Start{Environ: []string{strings.Repeat("x", 1<<20)}}); !errors.Is(err, control.ErrAbsent) {
		t.Errorf("Session = %v, want %v", err, control.ErrAbsent)
	}
	_ = ln.Close()
	<-hangsUp
}

func TestTheFirstLineIsReadAndNoMore(t *testing.T) {
	here, there := net.Pipe()
	go func() {
		_ = control.Write(there, control.Hello{Kind: control.KindStop, IfIdle: true})
		_, _ = io.WriteString(there, "rest")
		_ = there.Close()
	}()
	r := bufio.NewReaderSize(here, 16)
	var h control.Hello
	if err := control.Read(r, &h); err != nil || h.Kind != control.KindStop || !h.IfIdle {
		t.Errorf("Read = %+v, %v", h, err)
	}
	if rest, err := io.ReadAll(r); err != nil || string(rest) != "rest" {
		t.Errorf("behind it: %q, %v", rest, err)
	}
	for name, text := range map[string]string{"no line": "{", "no JSON": "x\n", "too long": strings.Repeat(" ", 9<<20) + "{}\n"} {
		if err := control.Read(bufio.NewReader(strings.NewReader(text)), &h); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := control.Read(bufio.NewReader(strings.NewReader("")), &h); !errors.Is(err, io.EOF) {
		t.Errorf("nothing at all = %v, want %v", err, io.EOF)
	}
}
