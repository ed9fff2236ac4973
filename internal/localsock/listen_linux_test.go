package localsock

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestListenIsReadyWhenItsNameIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "s")
	if _, err := Dial(t.Context(), path); !Absent(err) {
		t.Fatalf("Dial before = %v, want one that Absent knows", err)
	}
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	there, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if pid, err := PeerPID(there); err != nil || pid != os.Getpid() {
		t.Errorf("PeerPID = %d, %v, want %d", pid, err, os.Getpid())
	}
	for name, want := range map[string]os.FileMode{filepath.Dir(path): 0o700, path: 0o600} {
		if info, err := os.Lstat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v, want %v", name, info.Mode(), err, want)
		}
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), path); !Absent(err) {
		t.Errorf("Dial after = %v, want one that Absent knows", err)
	}
}

// A process that dies leaves its socket behind.
func TestListenTakesOverADeadSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	if _, err := Dial(t.Context(), path); !Absent(err) {
		t.Fatalf("Dial = %v, want one that Absent knows", err)
	}
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	// Closing an old listener does not take the name from a new one.
	next, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	ln.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the new listener lost its name: %v", err)
	}
}

func TestPathFitsEverySystem(t *testing.T) {
	a, b := Path("/"+strings.Repeat("a", 300)), Path("/"+strings.Repeat("b", 300))
	if len(a) > maxPath || a == b {
		t.Errorf("Path = %q and %q", a, b)
	}
	if got, want := Path("/d"), "/d/run/daemon.sock"; got != want {
		t.Errorf("Path = %q, want %q", got, want)
	}
}

func TestListenRefusesADirectoryOfSomebodyElse(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("needs root to make a directory of another user")
		return
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if ln, err := Listen(filepath.Join(dir, "s")); !errors.Is(err, ErrStranger) {
		t.Errorf("Listen = %v, %v, want %v", ln, err, ErrStranger)
	}
	other := t.TempDir()
	if err := os.Symlink(dir, filepath.Join(other, "link")); err != nil {
		t.Fatal(err)
	}
	if ln, err := Listen(filepath.Join(other, "link", "s")); !errors.Is(err, ErrStranger) {
		t.Errorf("through a link: %v, %v, want %v", ln, err, ErrStranger)
	}
}

// The directory keeps another user out; were it open, the listener would.
func TestAnotherUserIsNotServed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("needs root to become another user")
		return
	}
	dir, err := os.MkdirTemp("", "sock") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program, path := filepath.Join(dir, "dialer"), filepath.Join(dir, "run", "s")
	if err := errors.Join(os.WriteFile(program, self, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		defer close(accepted)
		if c, err := ln.Accept(); err == nil {
			accepted <- c
		}
	}()
	dialAs := func() error {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = []string{"LOCALSOCK_TEST_DIAL=unix " + path, "GORACE=atexit_sleep_ms=0"}
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		return cmd.Run()
	}
	if err := dialAs(); err == nil {
		t.Error("another user could connect")
	}
	if err := errors.Join(os.Chmod(filepath.Dir(path), 0o755), os.Chmod(path, 0o666)); err != nil {
		t.Fatal(err)
	}
	if err := dialAs(); err != nil { // it connects, and its connection is closed at once
		t.Errorf("the other user could not even connect: %v", err)
	}
	ln.Close()
	if c, ok := <-accepted; ok {
		t.Errorf("a connection of another user was accepted: %v", c.RemoteAddr())
	}
}
