package localsock_test

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/localsock"
)

func TestHolderOfNamesTheListeningProcess(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatalf("listen on %s: %v", addr, err)
		}
		h := localsock.HolderOf(ln.Addr().(*net.TCPAddr).Port)
		if h.PID != os.Getpid() || h.UID != os.Getuid() || !strings.Contains(h.String(), "localsock") {
			t.Errorf("HolderOf = %+v, want this process %d", h, os.Getpid())
		}
		_ = ln.Close()
	}
}

func TestHolderOfFreePortKnowsNothing(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	_ = ln.Close()
	if h := localsock.HolderOf(port); h.PID != 0 || h.String() != "another process" {
		t.Errorf("HolderOf = %+v", h)
	}
}
