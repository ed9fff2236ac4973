package localsock

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv("LOCALSOCK_TEST_DIAL"); addr != "" {
		network, addr, _ := strings.Cut(addr, " ")
		c, err := net.Dial(network, addr)
		if err != nil {
			os.Exit(1)
		}
		_, _ = c.Read(make([]byte, 1)) // until the test has looked
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// accepted returns the server's end of a connection that dial makes.
func accepted(t *testing.T, network, addr string, dial func(t *testing.T, ln net.Listener)) net.Conn {
	t.Helper()
	ln, err := net.Listen(network, addr)
	if err != nil {
		t.Skipf("no %s here: %v", network, err)
	}
	defer ln.Close()
	dial(t, ln)
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// dialHere connects from this process and stays connected.
func dialHere(t *testing.T, ln net.Listener) {
	t.Helper()
	c, err := net.Dial(ln.Addr().Network(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
}

// dialAs connects from a process of another user.
func dialAs(uid uint32) func(t *testing.T, ln net.Listener) {
	return func(t *testing.T, ln net.Listener) {
		t.Helper()
		dir, err := os.MkdirTemp("", "dial") // t.TempDir is closed to other users
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		self, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		program := filepath.Join(dir, "dialer")
		if err := errors.Join(os.WriteFile(program, self, 0o755), os.Chmod(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = []string{"LOCALSOCK_TEST_DIAL=" + ln.Addr().Network() + " " + ln.Addr().String(), "GORACE=atexit_sleep_ms=0"}
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Wait() })
	}
}

var places = []struct{ network, addr string }{
	{"tcp4", "127.0.0.1:0"}, {"tcp6", "[::1]:0"}, {"tcp", "[::]:0"}, {"unix", ""},
}

func addrFor(t *testing.T, network, addr string) string {
	t.Helper()
	if network != "unix" {
		return addr
	}
	dir, err := os.MkdirTemp("", "sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	syscall.Umask(0) // so that the other user may connect
	return filepath.Join(dir, "s")
}

func TestPeerIsThisUser(t *testing.T) {
	for _, p := range places {
		t.Run(p.network+p.addr, func(t *testing.T) {
			c := accepted(t, p.network, addrFor(t, p.network, p.addr), dialHere)
			if uid, err := PeerUID(c); err != nil || uid != os.Getuid() {
				t.Errorf("PeerUID = %d, %v, want %d", uid, err, os.Getuid())
			}
		})
	}
}

func TestPeerIsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become another user")
	}
	for _, p := range places {
		t.Run(p.network+p.addr, func(t *testing.T) {
			c := accepted(t, p.network, addrFor(t, p.network, p.addr), dialAs(65534))
			if uid, err := PeerUID(c); err != nil || uid != 65534 {
				t.Errorf("PeerUID = %d, %v, want 65534", uid, err)
			}
			c.Close()
		})
	}
}

// Some programs reach an IPv4 address with an IPv6 socket.
func TestPeerWithAMappedAddress(t *testing.T) {
	c := accepted(t, "tcp4", "127.0.0.1:0", func(t *testing.T, ln net.Listener) {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Skipf("no IPv6 here: %v", err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		to := &unix.SockaddrInet6{Port: ln.Addr().(*net.TCPAddr).Port}
		copy(to.Addr[:], net.ParseIP("127.0.0.1").To16())
		if err := unix.Connect(fd, to); err != nil {
			t.Skipf("no IPv4 through IPv6 here: %v", err)
		}
	})
	if uid, err := PeerUID(c); err != nil || uid != os.Getuid() {
		t.Errorf("PeerUID = %d, %v, want %d", uid, err, os.Getuid())
	}
	uid, err := readTables(peerOf(c), "/proc/net/tcp", "/proc/net/tcp6")
	if err != nil || uid != os.Getuid() {
		t.Errorf("from the tables = %d, %v, want %d", uid, err, os.Getuid())
	}
}

func peerOf(c net.Conn) pair {
	return pair{local: addrPort(c.RemoteAddr()), remote: addrPort(c.LocalAddr())}
}

func TestTablesSayTheSame(t *testing.T) {
	for _, p := range places[:3] {
		c := accepted(t, p.network, p.addr, dialHere)
		uid, err := readTables(peerOf(c), "/proc/net/tcp", "/proc/net/tcp6")
		if err != nil || uid != os.Getuid() {
			t.Errorf("%s: readTables = %d, %v, want %d", p.addr, uid, err, os.Getuid())
		}
	}
	if _, err := readTables(pair{}, "/proc/net/tcp", "/does/not/exist"); !errors.Is(err, errNoOwner) {
		t.Errorf("a connection that is not there = %v, want %v", err, errNoOwner)
	}
	odd := filepath.Join(t.TempDir(), "tcp")
	if err := os.WriteFile(odd, []byte("x\n 0: 0100007F:1F90 0100007F:1F91 01 a b c notanumber 0 77\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := pair{local: netip.MustParseAddrPort("127.0.0.1:8080"), remote: netip.MustParseAddrPort("127.0.0.1:8081")}
	if _, err := readTables(p, odd); err == nil || errors.Is(err, errNoOwner) {
		t.Errorf("a table that makes no sense = %v", err)
	}
}

// The kernel says user 0 of a socket that its process has closed.
func TestPeerThatHungUpHasNoOwner(t *testing.T) {
	var there net.Conn
	c := accepted(t, "tcp4", "127.0.0.1:0", func(t *testing.T, ln net.Listener) {
		var err error
		if there, err = net.Dial("tcp4", ln.Addr().String()); err != nil {
			t.Fatal(err)
		}
	})
	there.Close()
	_, _ = c.Read(make([]byte, 1)) // its end has arrived
	if uid, err := PeerUID(c); !errors.Is(err, errNoOwner) {
		t.Errorf("PeerUID = %d, %v, want %v", uid, err, errNoOwner)
	}
	if uid, err := readTables(peerOf(c), "/proc/net/tcp", "/proc/net/tcp6"); !errors.Is(err, errNoOwner) {
		t.Errorf("from the tables = %d, %v, want %v", uid, err, errNoOwner)
	}
}

func TestAcceptorIsKnownOnceItHasAccepted(t *testing.T) {
	for _, p := range places[:3] {
		ln, err := net.Listen(p.network, p.addr)
		if err != nil {
			t.Skipf("no %s here: %v", p.network, err)
		}
		defer ln.Close()
		c, err := net.Dial(ln.Addr().Network(), ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if uid, err := PeerUID(c); !errors.Is(err, errNoOwner) {
			t.Errorf("%s: before it was accepted = %d, %v, want %v", p.addr, uid, err, errNoOwner)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if uid, err := AcceptorUID(gone, c); !errors.Is(err, errNoOwner) {
			t.Errorf("%s: nobody waits = %d, %v, want %v", p.addr, uid, err, errNoOwner)
		}
		type answer struct {
			uid int
			err error
		}
		asked := make(chan answer)
		go func() {
			uid, err := AcceptorUID(t.Context(), c)
			asked <- answer{uid, err}
		}()
		there, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer there.Close()
		if a := <-asked; a.err != nil || a.uid != os.Getuid() {
			t.Errorf("%s: AcceptorUID = %d, %v, want %d", p.addr, a.uid, a.err, os.Getuid())
		}
	}
}

// A listener on the peer's port is not the peer.
func TestListenerIsNotThePeer(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p := pair{local: addrPort(ln.Addr()), remote: netip.MustParseAddrPort("127.0.0.1:9")}
	if uid, err := askKernel(p); err == nil {
		t.Errorf("askKernel = %d, want an error", uid)
	}
}

func TestAnswersThatAreNotOnes(t *testing.T) {
	p := pair{local: netip.MustParseAddrPort("127.0.0.1:1"), remote: netip.MustParseAddrPort("127.0.0.1:2")}
	short := make([]byte, 40)
	short[4] = unix.SOCK_DIAG_BY_FAMILY
	for name, b := range map[string][]byte{"empty": nil, "header alone": make([]byte, headerLen+4), "short": short} {
		if _, err := readDiagAnswer(b, p); !errors.Is(err, errNoDiag) {
			t.Errorf("%s: %v, want %v", name, err, errNoDiag)
		}
	}
}

func TestPeerElsewhere(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if _, err := PeerUID(a); !errors.Is(err, ErrUnsupported) {
		t.Errorf("net.Pipe = %v, want %v", err, ErrUnsupported)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range addrs {
		n, ok := addr.(*net.IPNet)
		if !ok || n.IP.IsLoopback() || n.IP.To4() == nil {
			continue
		}
		c := accepted(t, "tcp4", net.JoinHostPort(n.IP.String(), "0"), dialHere)
		if _, err := PeerUID(c); !errors.Is(err, ErrNotLocal) {
			t.Errorf("over %s = %v, want %v", n.IP, err, ErrNotLocal)
		}
		return
	}
	t.Log("no address but loopback here; that case was not seen")
}
