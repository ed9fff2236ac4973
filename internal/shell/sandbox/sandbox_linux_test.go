package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const testPatience = time.Minute // for what takes milliseconds on an idle machine

// scene is a project with what surrounds it.
//
//	project/  src lib build .git .async-crud-mcp
//	outside/  home/  tmp/  server/  secret/
type scene struct {
	dir  string
	opts Options
}

func newScene(t testing.TB) *scene {
	t.Helper()
	s := &scene{dir: realTempDir(t)}
	for name, text := range map[string]string{
		"project/src/a.go":                    "package a\n",
		"project/lib/b.go":                    "package b\n",
		"project/build/old":                   "",
		"project/.git/HEAD":                   "ref: refs/heads/main\n",
		"project/.git/config":                 "[core]\n",
		"project/.git/hooks/sample":           "",
		"project/.git/modules/sub/HEAD":       "ref: refs/heads/main\n",
		"project/.git/modules/sub/config":     "[core]\n",
		"project/.async-crud-mcp/config.json": "{}",
		"outside/keep":                        "kept\n",
		"home/.bashrc":                        "",
		"home/.cache/go-build/x":              "",
		"home/go/bin/tool":                    "",
		"home/go/pkg/mod/x":                   "",
		"tmp/x":                               "",
		"tmp/deep/server/audit.jsonl":         "",
		"server/config.json":                  "{}",
		"secret/socket":                       "",
	} {
		s.write(t, name, text)
	}
	s.opts = Options{
		Root: s.path("project"), Home: s.path("home"), TempDirs: []string{s.path("tmp")}, BuildDirs: []string{"build", "dist"},
		Protected: []string{s.path("server"), s.path("tmp/deep/server")}, Hidden: []string{s.path("secret")},
		Getenv: func(string) string { return "" },
	}
	return s
}

// realTempDir is a directory that the user of the test owns, by its real name.
func realTempDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

func (s *scene) write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(s.path(name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sandbox makes one for the scene, with its options changed.
func (s *scene) sandbox(t testing.TB, change func(*Options)) *Sandbox {
	t.Helper()
	o := s.opts
	if change != nil {
		change(&o)
	}
	box, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// sh runs a script under the sandbox, in the project, and returns how it ended
// and what it said.
func (s *scene) sh(t testing.TB, box *Sandbox, script string) (int, string) {
	t.Helper()
	return s.run(t, box, "/bin/bash", "-c", script)
}

func (s *scene) run(t testing.TB, box *Sandbox, argv ...string) (int, string) {
	t.Helper()
	argv, err := box.Wrap(argv)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = s.path("project")
	cmd.Env = append(os.Environ(), "S="+s.dir, "HOME="+s.path("home"), "TMPDIR="+s.path("tmp"), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// backends are those of this system that work here.
func backends(t testing.TB) []string {
	t.Helper()
	var found []string
	for _, b := range []string{Bwrap, Landlock} {
		if why := Probe().Lacks(b); why != "" {
			t.Logf("not tried here: %s", why)
			continue
		}
		found = append(found, b)
	}
	if len(found) == 0 {
		t.Log("this system has no sandbox")
	}
	return found
}

var (
	nobody  = []string{}                       // no mode allows it
	writers = []string{WorkspaceWrite}         // only where the project is writable
	anyTemp = []string{WorkspaceWrite, Strict} // wherever temporary files are
	always  = []string{WorkspaceWrite, Strict, ReadOnly}
)

// attempts are what commands may try. An attempt has succeeded when its script
// exits with 0: a script that can go wrong quietly checks its own effect.
var attempts = []struct {
	name, script string
	bwrap        []string // modes in which it succeeds
	landlock     []string
}{
	{"read the project", `cat src/a.go >/dev/null`, always, always},
	{"read outside", `cat $S/outside/keep >/dev/null`, always, always},
	{"write a device", `echo x >/dev/null && echo x >/dev/full; test $? = 1`, always, always},
	{"reopen the output", `echo x >/dev/stdout && echo x >/dev/stderr`, always, always},

	{"make a file in the project", `echo x > new`, writers, writers},
	{"change a source", `echo x >> src/a.go`, writers, writers},
	{"empty a source", `: > src/a.go`, writers, writers},
	{"delete a source", `rm lib/b.go`, writers, writers},
	{"rename between directories", `perl -e 'rename("src/a.go", "lib/c.go") && rename("lib/c.go", "src/a.go") or die $!'`, writers, writers},
	{"link between directories", `perl -e 'link("src/a.go", "lib/d.go") or die $!'`, writers, writers},
	{"make a directory", `mkdir fresh`, writers, writers},
	{"write a build directory", `echo x > build/new`, anyTemp, anyTemp},
	{"make a build directory that is missing", `mkdir dist`, writers, writers},
	{"write a temporary file", `echo x > $TMPDIR/new`, anyTemp, anyTemp},
	{"write a cache", `echo x > $HOME/.cache/go-build/new && echo x > $HOME/go/pkg/mod/new`, anyTemp, anyTemp},

	{"make a file outside", `echo x > $S/outside/new`, nobody, nobody},
	{"change a file outside", `echo x >> $S/outside/keep`, nobody, nobody},
	{"empty a file outside", `perl -e 'truncate($ENV{S}."/outside/keep", 0) or die $!'`, nobody, nobody},
	{"delete outside", `rm -f $S/outside/keep`, nobody, nobody},
	{"make a directory outside", `mkdir $S/outside/dir`, nobody, nobody},
	{"start something with every shell", `echo x >> $HOME/.bashrc`, nobody, nobody},
	{"put a program where a person finds it", `echo x > $HOME/go/bin/tool`, nobody, nobody},
	{"rename from outside", `perl -e 'rename($ENV{S}."/outside/keep", "build/mine") or die $!'`, nobody, nobody},
	{"rename to outside", `perl -e 'rename("build/old", $ENV{S}."/outside/a.go") or die $!'`, nobody, nobody},
	{"write through a hard link", `ln $S/outside/keep build/l && echo x >> build/l`, nobody, nobody},
	{"write a source through a hard link", `ln src/a.go build/l2 && echo x >> build/l2`, writers, writers},
	{"write through a link", `ln -s $S/outside/keep build/s && echo x >> build/s`, nobody, nobody},
	{"write through a link to a directory", `ln -s $S/outside build/d && echo x > build/d/new`, nobody, nobody},

	{"write a hook", `echo x > .git/hooks/pre-commit`, nobody, writers},
	{"change git's configuration", `echo x >> .git/config`, nobody, writers},
	{"replace git's configuration", `echo x > .git/config.lock && mv -f .git/config.lock .git/config && grep -q x .git/config`, nobody, writers},
	{"rename the hooks away", `mv .git/hooks gone && mv gone .git/hooks`, nobody, writers},
	{"rename the repository away", `mv .git gone && mkdir .git && rmdir .git && mv gone .git`, nobody, writers},
	{"delete the hooks", `rm -r .git/hooks && mkdir .git/hooks`, nobody, writers},
	{"lay hooks over the hooks", `mkdir h && rm -f .git/hooks/* && mv -T h .git/hooks`, nobody, writers},
	{"change a submodule's configuration", `echo x >> .git/modules/sub/config`, nobody, writers},
	{"write a submodule's hook", `mkdir -p .git/modules/sub/hooks; echo x > .git/modules/sub/hooks/pre-commit`, nobody, writers},
	{"rename a submodule away", `mv .git/modules/sub .git/modules/gone && mv .git/modules/gone .git/modules/sub`, nobody, writers},
	{"commit", `echo x > .git/index.lock && mv .git/index.lock .git/index && mkdir -p .git/objects/aa && echo x > .git/objects/aa/b`, writers, writers},

	{"change the project's settings", `echo x > .async-crud-mcp/config.json`, nobody, writers},
	{"rename the project's settings away", `mv .async-crud-mcp gone && mv gone .async-crud-mcp`, nobody, writers},
	{"change the server's settings", `echo x > $S/server/config.json`, nobody, nobody},
	{"change records among temporary files", `echo x > $S/tmp/deep/server/audit.jsonl`, nobody, anyTemp},
	{"rename what records lie in", `mv $S/tmp/deep $S/tmp/gone && mv $S/tmp/gone $S/tmp/deep`, nobody, anyTemp},
	{"see what is hidden", `test -e $S/secret/socket`, nobody, always},

	{"change a mode outside", `chmod 700 $S/outside/keep`, nobody, always},
	{"leave through another process", `echo x > /proc/$SERVER/root$S/outside/new`, nobody, nobody},
	{"signal the server", `kill -0 $SERVER`, nobody, nobody},
	{"trace the server", `perl -e 'exit(syscall(101, 16, $ENV{SERVER}, 0, 0) == 0 ? 0 : 1)'`, nobody, nobody},
	{"remount", `mount -o remount,bind,rw $S/outside; echo x > $S/outside/new`, nobody, nobody},
	{"unmount", `umount -l .git/hooks; echo x > $S/outside/new`, nobody, nobody},
	{"namespaces of its own", `unshare -rm sh -c 'mount -o remount,bind,rw /; umount -l .git/config; echo x > $S/outside/new'`, nobody, nobody},
	{"make a disk", `mknod build/disk b 254 0`, nobody, nobody},
	{"have no power that leads out", `test $((0x$(sed -n 's/^CapEff:\t//p' /proc/self/status) & ~0x4fb)) = 0`, always, always},
	{"set a limit that marks it back", `perl -e 'my $l = pack("QQ", ~0, ~0); exit(syscall(160, 15, $l) == 0 ? 0 : 1)'`, nobody, nobody},
	{"change the kernel's settings", `was=$(cat /proc/sys/kernel/core_pattern) && echo "$was" > /proc/sys/kernel/core_pattern`, nobody, nobody},
}

func TestAttemptsByModeAndBackend(t *testing.T) {
	if err := Mark(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SERVER", fmt.Sprint(os.Getpid()))
	// One command makes all attempts, each in a shell of its own, and tells how
	// each ended and what it said. What succeeds is put back by its script.
	argv := []string{"/bin/bash", "-c", `for a; do out=$( (eval "$a") 2>&1 </dev/null ); printf '%s\0%s\0' $? "$out"; done`, "bash"}
	for _, a := range attempts {
		argv = append(argv, a.script)
	}
	for _, backend := range backends(t) {
		for _, mode := range always {
			t.Run(backend+"/"+mode, func(t *testing.T) {
				s := newScene(t)
				box := s.sandbox(t, func(o *Options) { o.Mode, o.Backend = mode, backend })
				_, said := s.run(t, box, argv...)
				results := strings.Split(said, "\x00")
				if len(results) != 2*len(attempts)+1 {
					t.Fatalf("%d results for %d attempts: %q", len(results), len(attempts), said)
				}
				for i, a := range attempts {
					allowed := a.bwrap
					if backend == Landlock {
						allowed = a.landlock
					}
					want, got := slices.Contains(allowed, mode), results[2*i] == "0"
					if got != want {
						t.Errorf("%s: succeeds = %v, want %v; exit code %s: %s", a.name, got, want, results[2*i], results[2*i+1])
					}
				}
				if kept, err := os.ReadFile(s.path("outside/keep")); err != nil || string(kept) != "kept\n" {
					t.Errorf("a file outside was changed: %q, %v", kept, err)
				}
				if names, err := os.ReadDir(s.path("outside")); err != nil || len(names) != 1 {
					t.Errorf("a file was made outside: %v, %v", names, err)
				}
			})
		}
	}
}

// What is allowed by the table for a backend that cannot protect it is what the
// report names.
func TestReportNamesWhatLandlockCannotProtect(t *testing.T) {
	if why := Probe().Lacks(Landlock); why != "" {
		t.Log(why)
		return
	}
	s := newScene(t)
	open := strings.Join(s.sandbox(t, func(o *Options) { o.Backend = Landlock }).Report().Open, "\n")
	for _, want := range []string{".git/hooks", ".git/config", ".git/modules/sub/config", ".async-crud-mcp", "tmp/deep/server", "modes, owners"} {
		if !strings.Contains(open, want) {
			t.Errorf("the report does not name %s:\n%s", want, open)
		}
	}
	open = strings.Join(s.sandbox(t, func(o *Options) { o.Backend, o.Mode = Landlock, Strict }).Report().Open, "\n")
	if strings.Contains(open, ".git") {
		t.Errorf("in strict mode the repository is protected, the report says otherwise:\n%s", open)
	}
	if why := Probe().Lacks(Bwrap); why != "" {
		t.Log(why)
		return
	}
	open = strings.Join(s.sandbox(t, func(o *Options) { o.Backend, o.Mode = Bwrap, Strict }).Report().Open, "\n")
	if open != "" {
		t.Errorf("not protected under bubblewrap: %s", open)
	}
}

func TestNetworkOff(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	// Whatever came before our own message was the command's.
	tries := map[string]struct {
		script string
		heard  func() (string, error)
	}{
		"tcp": {fmt.Sprintf("echo command >/dev/tcp/127.0.0.1/%d", tcp.Addr().(*net.TCPAddr).Port), func() (string, error) {
			conn, err := net.Dial("tcp", tcp.Addr().String())
			if err != nil {
				return "", err
			}
			_, _ = io.WriteString(conn, "test\n")
			_ = conn.Close()
			peer, err := tcp.Accept()
			if err != nil {
				return "", err
			}
			defer peer.Close()
			text, err := io.ReadAll(peer)
			if string(text) != "test\n" { // ours is still waiting
				own, err := tcp.Accept()
				if err != nil {
					return "", err
				}
				_ = own.Close()
			}
			return string(text), err
		}},
		"udp": {fmt.Sprintf("echo command >/dev/udp/127.0.0.1/%d", udp.LocalAddr().(*net.UDPAddr).Port), func() (string, error) {
			conn, err := net.Dial("udp", udp.LocalAddr().String())
			if err != nil {
				return "", err
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "test\n")
			buf := make([]byte, 100)
			n, _, err := udp.ReadFrom(buf)
			if text := string(buf[:n]); text != "test\n" {
				_, _, err = udp.ReadFrom(make([]byte, 100))
				return text, err
			}
			return string(buf[:n]), err
		}},
	}
	s := newScene(t)
	for _, backend := range backends(t) {
		for _, mode := range []string{Off, WorkspaceWrite, Strict} {
			for network, want := range map[string]string{NetworkOn: "command\n", NetworkOff: "test\n"} {
				box := s.sandbox(t, func(o *Options) { o.Mode, o.Backend, o.Network = mode, backend, network })
				for proto, try := range tries {
					_, said := s.sh(t, box, try.script)
					if got, err := try.heard(); got != want || err != nil {
						t.Errorf("%s, %s, network %s, %s: heard %q, want %q (%v); the command said %s", backend, mode, network, proto, got, want, err, said)
					}
				}
				// Programs of one machine may still talk to each other.
				if code, said := s.sh(t, box, `perl -MSocket -e 'socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) or die $!' && test -e /proc/self/fd/0`); code != 0 {
					t.Errorf("%s, %s: Unix sockets are refused: %s", backend, mode, said)
				}
			}
		}
		box := s.sandbox(t, func(o *Options) { o.Mode, o.Backend, o.Network = Off, backend, NetworkOff })
		if code, said := s.sh(t, box, `echo x > $S/outside/new`); code != 0 {
			t.Errorf("%s: with the network off alone, writing is refused too: %s", backend, said)
		}
	}
}

// Seccomp must not be walked around by programs of another architecture or by
// io_uring, whose calls it does not see.
func TestNetworkOffLeavesNoWayAround(t *testing.T) {
	if why := Probe().Lacks(Landlock); why != "" {
		t.Log(why)
		return
	}
	s := newScene(t)
	box := s.sandbox(t, func(o *Options) { o.Backend, o.Network = Landlock, NetworkOff })
	for name, script := range map[string]string{
		"inet":     `perl -MSocket -e 'socket(my $s, AF_INET, SOCK_DGRAM, 0) or die $!'`,
		"inet6":    `perl -MSocket -e 'socket(my $s, AF_INET6, SOCK_STREAM, 0) or die $!'`,
		"packet":   `perl -MSocket -e 'socket(my $s, 17, SOCK_RAW, 0) or die $!'`,
		"vsock":    `perl -MSocket -e 'socket(my $s, 40, SOCK_STREAM, 0) or die $!'`,
		"io_uring": `perl -e 'my $p = "\0" x 256; my $r = syscall(425, 8, $p); exit($r >= 0 ? 0 : 1)'`,
		"x32":      `perl -e 'my $r = syscall(0x40000000 + 41, 2, 1, 0); exit($r >= 0 ? 0 : 1)'`,
	} {
		if code, _ := s.sh(t, box, script); code == 0 {
			t.Errorf("%s: a way to the network is open", name)
		}
	}
}

// The suite runs again as a user without any power, whatever user runs it first.
func TestOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		return // the other tests have just done it
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "ordinary-user-") // others may enter it, unlike t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	const uid = 65534
	mine := filepath.Join(dir, "tmp")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(mine, 0o700), os.Chown(mine, uid, uid),
		os.WriteFile(filepath.Join(dir, "suite"), program, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "suite"), "-test.v", "-test.run=^(TestAttempts|TestNetwork|TestReport|TestMark|TestWorktree|TestLinks|TestRequire)")
	cmd.Dir = mine
	cmd.Env = append(os.Environ(), "TMPDIR="+mine, "HOME="+mine)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestAttemptsByModeAndBackend")) {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
}
