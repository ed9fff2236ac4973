package app

import (
	"errors"
	"net"
	"slices"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
)

func appWith(t *testing.T, set ...string) *App {
	t.Helper()
	t.Setenv("ASYNC_CRUD_MCP_HOME", t.TempDir())
	a, err := Load(Options{Version: "0.0.0", Mode: "serve", Quiet: true, Settings: config.Options{Env: []string{}, Set: set}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func TestPortNullTakesTheNextFreeOneOfOurs(t *testing.T) {
	a := appWith(t, "daemon.port=null")
	first, err := a.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := a.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	for _, ln := range []net.Listener{first, second} {
		port := ln.Addr().(*net.TCPAddr).Port
		if port < 8720 || port > 8819 {
			t.Errorf("port %d is not one of ours", port)
		}
	}
	if first.Addr().String() == second.Addr().String() {
		t.Error("two listeners on one port")
	}
}

func TestChosenPortIsNotExchangedForAnother(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	_, err = appWith(t, "daemon.port="+port).Listen(t.Context())
	if taken, ok := errors.AsType[*PortTaken](err); !ok || taken.Address != ln.Addr().String() {
		t.Errorf("Listen = %v, want PortTaken", err)
	}
}

func TestLoopbackIsRecognised(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.8.9.10": true, "::1": true, "[::1]": true, "localhost": true,
		"0.0.0.0": false, "::": false, "192.168.1.2": false, "localhost.evil.example": false, "": false, "example.com": false,
	} {
		if got := isLoopback(host); got != want {
			t.Errorf("isLoopback(%q) = %v, want %v", host, got, want)
		}
	}
}

func TestHostNamesOfOtherAddresses(t *testing.T) {
	if got := hostNames("127.0.0.1"); got != nil {
		t.Errorf("loopback has %v, want none", got)
	}
	if got := hostNames("192.0.2.7"); !slices.Equal(got, []string{"192.0.2.7"}) {
		t.Errorf("one address has %v", got)
	}
	if got := hostNames("0.0.0.0"); !slices.Contains(got, "127.0.0.1") {
		t.Errorf("every address has %v, want the machine's own", got)
	}
}
