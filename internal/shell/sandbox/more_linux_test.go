package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// git runs git in dir without the settings of the machine.
func git(t testing.TB, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=n", "-c", "user.email=e@x", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

const commit = `git -c user.name=n -c user.email=e@x -c safe.directory='*' commit -q --allow-empty -m x`

func TestWorktreeCanCommitAndCannotTouchItsRepository(t *testing.T) {
	s := newScene(t)
	main := s.path("outside/repo")
	if err := os.MkdirAll(main, 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, main, "init", "-q")
	git(t, main, "commit", "-q", "--allow-empty", "-m", "first")
	tree := s.path("tree")
	git(t, main, "worktree", "add", "-q", tree)
	for _, backend := range backends(t) {
		box := s.sandbox(t, func(o *Options) { o.Root, o.Backend = tree, backend })
		if code, said := s.sh(t, box, `cd $S/tree && echo x > file && git -c safe.directory='*' add file && `+commit); code != 0 {
			t.Errorf("%s: no commit in a worktree: %s", backend, said)
		}
		for _, script := range []string{
			`echo x > $S/outside/repo/.git/hooks/pre-commit`, `echo x >> $S/outside/repo/.git/config`, `echo x > $S/outside/repo/new`,
		} {
			if code, _ := s.sh(t, box, script); code == 0 {
				t.Errorf("%s: succeeds: %s", backend, script)
			}
		}
		if code, _ := s.sh(t, box, `echo gitdir: $S/home > $S/tree/.git`); backend == Bwrap && code == 0 {
			t.Errorf("%s: a command can lead git elsewhere", backend)
		}
	}
}

// A command that writes .git cannot make the next one's sandbox wider.
func TestWorktreeCountsOnlyWhenItsRepositoryKnowsIt(t *testing.T) {
	s := newScene(t)
	s.write(t, "elsewhere/.git", "a worktree of its own\n")
	s.write(t, "outside/.git/worktrees/w/gitdir", s.path("elsewhere/.git")+"\n")
	s.write(t, "outside/.git/objects/x", "")
	if err := os.RemoveAll(s.path("project/.git")); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"gitdir: " + s.path("outside/.git/worktrees/w"), "gitdir: ../outside", "gitdir: /", "x", ""} {
		s.write(t, "project/.git", text+"\n")
		p := s.sandbox(t, nil).plan()
		if p.writableAt(s.path("outside/.git/objects")) || p.writableAt(s.path("outside/.git/worktrees/w")) || p.writableAt("/usr") {
			t.Errorf(".git = %q makes another place writable: %v", text, p.areas)
		}
	}
	s.write(t, "outside/.git/worktrees/w/gitdir", s.path("project/.git")+"\n")
	s.write(t, "project/.git", "gitdir: "+s.path("outside/.git/worktrees/w")+"\n")
	if p := s.sandbox(t, nil).plan(); !p.writableAt(s.path("outside/.git/objects")) {
		t.Errorf("the worktree's repository is not writable: %v", p.areas)
	}
}

func TestLinksThatCommandsMadeAreNotFollowed(t *testing.T) {
	s := newScene(t)
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, s.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	link(s.path("outside"), "project/planted")
	link(s.path("outside"), "tmp/planted")
	link(s.path("tmp/planted"), "chain")
	link(s.path("outside"), "trusted")
	for _, c := range []struct {
		writable, mode string
		want           bool
	}{
		{s.path("project/planted"), WorkspaceWrite, false},
		{s.path("tmp/planted"), WorkspaceWrite, false},
		{s.path("chain"), WorkspaceWrite, false},
		{s.path("trusted"), WorkspaceWrite, true},
		{s.path("project/planted"), Strict, true}, // commands cannot have made it
		{s.path("missing"), WorkspaceWrite, false},
		{s.path("outside"), ReadOnly, false},
	} {
		p := s.sandbox(t, func(o *Options) { o.Writable, o.Mode = []string{c.writable}, c.mode }).plan()
		if got := p.writableAt(s.path("outside/new")); got != c.want {
			t.Errorf("writable = %s, %s: outside is writable = %v, want %v", c.writable, c.mode, got, c.want)
		}
	}
}

func TestLinksInPlaceOfWhatIsProtectedAreTold(t *testing.T) {
	s := newScene(t)
	if err := errors.Join(os.Rename(s.path("project/.git/hooks"), s.path("project/shared")), os.Symlink("../shared", s.path("project/.git/hooks"))); err != nil {
		t.Fatal(err)
	}
	box := s.sandbox(t, nil)
	p := box.plan()
	if !slices.Contains(p.protected, s.path("project/shared")) {
		t.Errorf("what the hooks link to is not protected: %v", p.protected)
	}
	if open := strings.Join(p.open, "\n"); !strings.Contains(open, ".git/hooks is a link that a command may replace") {
		t.Errorf("nobody is told that the link can be replaced: %s", open)
	}
	if Probe().Lacks(Bwrap) == "" {
		if code, _ := s.sh(t, s.sandbox(t, func(o *Options) { o.Backend = Bwrap }), `echo x > .git/hooks/pre-commit`); code == 0 {
			t.Error("a hook can be written through the link")
		}
	}
}

func TestMissingHooksAreMadeSoThatNobodyElseDoes(t *testing.T) {
	s := newScene(t)
	if err := os.RemoveAll(s.path("project/.git/hooks")); err != nil {
		t.Fatal(err)
	}
	if p := s.sandbox(t, nil).plan(); !slices.Contains(p.protected, s.path("project/.git/hooks")) {
		t.Errorf("protected = %v", p.protected)
	}
}

func TestMissingFileOfTheServerIsTold(t *testing.T) {
	s := newScene(t)
	r := s.sandbox(t, func(o *Options) { o.Protected = []string{s.path("tmp/later"), s.path("nowhere/at/all")} }).plan()
	if len(r.open) != 1 || !strings.Contains(r.open[0], "tmp/later") {
		t.Errorf("open = %q", r.open)
	}
}

// A project among temporary files stays read-only in strict mode, also where
// nothing inside a writable directory can be protected.
func TestStrictProjectAmongTemporaryFiles(t *testing.T) {
	s := newScene(t)
	for _, backend := range backends(t) {
		box := s.sandbox(t, func(o *Options) { o.Backend, o.Mode, o.TempDirs = backend, Strict, []string{s.dir, s.path("tmp")} })
		for script, want := range map[string]bool{
			`echo x > src/a.go`: false, `mv $S/project $S/gone`: false, `echo x > build/new`: true, `echo x > $TMPDIR/new`: backend == Bwrap, `echo x > .git/config`: false,
		} {
			if code, said := s.sh(t, box, script); code == 0 != want {
				t.Errorf("%s: %s: succeeds = %v, want %v: %s", backend, script, code == 0, want, said)
			}
		}
	}
}

func TestRequireRefusesToRunWithLess(t *testing.T) {
	nothing := &System{OS: "linux"}
	for name, o := range map[string]Options{
		"no backend":             {System: nothing},
		"another backend":        {System: &System{OS: "linux", LandlockABI: 7, Seccomp: true}, Backend: Bwrap},
		"old Landlock":           {System: &System{OS: "linux", LandlockABI: 2, Seccomp: true}},
		"none":                   {Backend: None},
		"network without filter": {System: &System{OS: "linux", LandlockABI: 7}, Network: NetworkOff},
		"windows":                {System: &System{OS: "windows"}},
		"broken bubblewrap":      {System: &System{OS: "linux", Bwrap: BwrapProgram{Path: "/usr/bin/bwrap", Detail: "no permission"}}},
	} {
		box, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		r := box.Report()
		if r.Reason == "" || len(r.Findings()) == 0 {
			t.Errorf("%s: the report keeps silent: %v", name, r)
		}
		if argv, err := box.Wrap([]string{"true"}); err != nil || argv[len(argv)-1] != "true" {
			t.Errorf("%s: Wrap = %q, %v, want the command", name, argv, err)
		}
		o.Require = true
		box, _ = New(o)
		if _, err := box.Wrap([]string{"true"}); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), r.Reason) {
			t.Errorf("%s: Wrap = %v, want ErrUnavailable and the reason %q", name, err, r.Reason)
		}
	}
	box, err := New(Options{Mode: Off, Require: true, System: nothing})
	if err != nil {
		t.Fatal(err)
	}
	if argv, err := box.Wrap([]string{"true"}); err != nil || len(argv) != 1 || box.Report().Reason != "" {
		t.Errorf("off is off: Wrap = %q, %v", argv, err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{
		{Mode: "loose"},
		{Network: "maybe"},
		{Backend: "docker"},
		{Root: "relative"},
		{BuildDirs: []string{"../up"}},
		{BuildDirs: []string{"/abs"}},
		{BuildDirs: []string{"."}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("New(%+v) is accepted", o)
		}
	}
}

func TestMarkIsOnAllThatACommandStarts(t *testing.T) {
	if err := Mark(); err != nil {
		t.Fatal(err)
	}
	s := newScene(t)
	for _, backend := range append(backends(t), None) {
		box := s.sandbox(t, func(o *Options) { o.Backend = backend })
		// The process that stays has left its session, its parent and its environment.
		argv, err := box.Wrap([]string{"/bin/sh", "-c", `env -i setsid sleep 60 </dev/null & echo started; wait`})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_, _ = out.Read(make([]byte, 8))
		pids := descendants(cmd.Process.Pid)
		if len(pids) == 0 {
			t.Errorf("%s: no process to look at", backend)
		}
		for _, pid := range pids {
			if in, err := InJob(pid); !in || err != nil {
				t.Errorf("%s: InJob(%d) = %v, %v, want true", backend, pid, in, err)
			}
		}
		for _, pid := range pids {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	if info, err := os.Stat(fmt.Sprintf("/proc/%d", os.Getppid())); err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
		return // another user's process is none to compare with
	}
	if in, err := InJob(os.Getppid()); in || err != nil {
		t.Errorf("InJob(who started us) = %v, %v, want false", in, err)
	}
}

// descendants lists the processes below pid, as the kernel tells.
func descendants(pid int) []int {
	var all []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	parent := map[int]int{}
	for _, name := range stats {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		text := string(raw)
		var id, up int
		id = atoi(text[:strings.IndexByte(text, ' ')])
		up = atoi(strings.Fields(text[strings.LastIndexByte(text, ')')+1:])[1])
		parent[id] = up
	}
	for id := range parent {
		for up := parent[id]; up > 1; up = parent[up] {
			if up == pid {
				all = append(all, id)
				break
			}
		}
	}
	return all
}

func atoi(s string) int {
	n := 0
	for _, c := range s {
		n = n*10 + int(c-'0')
	}
	return n
}

func TestForeignMarker(t *testing.T) {
	for _, c := range []struct {
		own, env string
		want     bool
	}{
		{"", "A=1\x00B=2\x00", false},
		{"", MarkerEnv + "=job_1\x00B=2\x00", true},
		{"", "A=1\x00" + MarkerEnv + "=job_1\x00", true},
		{"job_1", "A=1\x00" + MarkerEnv + "=job_1\x00", false}, // we are in it ourselves
		{"job_1", "A=1\x00" + MarkerEnv + "=job_2\x00", true},
		{"", "X" + MarkerEnv + "=1\x00", false},
	} {
		t.Setenv(MarkerEnv, c.own)
		if got := foreignMarker([]byte(c.env)); got != c.want {
			t.Errorf("own %q, environment %q: %v, want %v", c.own, c.env, got, c.want)
		}
	}
}

func TestHelperFailsClosed(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{}, {"--"}, {"landlock"}, {"unknown", "--", "true"}, {"--", "no-such-program"}, {"--", "/no/such/program"}} {
		cmd := exec.CommandContext(t.Context(), exe, append([]string{"__sandbox"}, args...)...)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 125 || !strings.HasPrefix(string(out), "async-crud-mcp sandbox: ") {
			t.Errorf("%q: exit code %d: %s", args, code, out)
		}
	}
	long := strings.Repeat("x", 100_000) // more than the helper reads at once
	cmd := exec.CommandContext(t.Context(), exe, "__sandbox", "landlock", "--", "sh", "-c", `printf '%s,' "$@"`, "sh", "", "a b", long, "")
	out, err := cmd.CombinedOutput()
	if want := ",a b," + long + ",,"; err != nil || string(out) != want {
		t.Errorf("arguments did not arrive as they were: %v, %d bytes, want %d", err, len(out), len(want))
	}
}

func TestExitCodeOfCommandsArrives(t *testing.T) {
	s := newScene(t)
	for _, backend := range backends(t) {
		box := s.sandbox(t, func(o *Options) { o.Backend = backend })
		if code, said := s.sh(t, box, `exit 7`); code != 7 || box.ExitSignal(code) != 0 {
			t.Errorf("%s: exit code %d: %s", backend, code, said)
		}
		code, _ := s.sh(t, box, `kill -9 $$`)
		if backend == Bwrap && box.ExitSignal(code) != 9 || backend == Landlock && code != -1 {
			t.Errorf("%s: killed by a signal: exit code %d, signal %d", backend, code, box.ExitSignal(code))
		}
	}
}

func TestHintSaysWhatWasRefusedAndWhatWouldChangeIt(t *testing.T) {
	s := newScene(t)
	for _, backend := range backends(t) {
		for _, c := range []struct{ mode, network, script, want string }{
			{WorkspaceWrite, "", `echo x > $S/outside/new`, "sandbox.writable"},
			{WorkspaceWrite, "", `touch ../outside/new`, "sandbox.writable"},
			{WorkspaceWrite, "", `mkdir $S/outside/dir`, "outside/dir"},
			{WorkspaceWrite, "", `node -e 'require("fs").writeFileSync(process.env.S + "/outside/n", "")'`, "sandbox.writable"},
			{Strict, "", `sed -i s/a/b/ src/a.go`, "sandbox.build_dirs"},
			{Strict, "", `echo x > src/a.go`, "file tools"},
			{Strict, "", `mkdir dist/x`, "no hint"}, // a missing parent is no refusal
			{Strict, "", `mkdir -p dist/x`, "async_mkdir"},
			{ReadOnly, "", `touch new`, "write nothing"},
			{WorkspaceWrite, NetworkOff, `perl -MSocket -e 'my $s; socket($s, AF_INET, SOCK_STREAM, 0) && connect($s, sockaddr_in(80, inet_aton("192.0.2.1"))) or die $!'`, "sandbox.network"},
			{WorkspaceWrite, "", `cat missing`, "no hint"},
			{WorkspaceWrite, "", `exit 1`, "no hint"},
			{WorkspaceWrite, "", `echo '/bin/bash: src/a.go: Permission denied' >&2; exit 1`, "no hint"}, // the sandbox allows that
		} {
			box := s.sandbox(t, func(o *Options) { o.Mode, o.Network, o.Backend = c.mode, c.network, backend })
			code, said := s.sh(t, box, c.script)
			got := box.Hint(code, said, s.path("project"))
			if c.want == "no hint" && got != "" || c.want != "no hint" && !strings.Contains(got, c.want) {
				t.Errorf("%s, %s: %s (exit code %d: %s): hint %q, want %q", backend, c.mode, c.script, code, strings.TrimSpace(said), got, c.want)
			}
		}
		if backend == Bwrap {
			box := s.sandbox(t, func(o *Options) { o.Backend = backend })
			code, said := s.sh(t, box, `echo x > .git/hooks/pre-commit`)
			if got := box.Hint(code, said, s.path("project")); !strings.Contains(got, "protects") {
				t.Errorf("hint %q for %s", got, said)
			}
			if got := box.Hint(1, "bwrap: Can't mount proc", ""); !strings.Contains(got, "sandbox probe") {
				t.Errorf("hint %q when bubblewrap itself fails", got)
			}
		}
		if got := s.sandbox(t, func(o *Options) { o.Backend = backend }).Hint(0, "x: Read-only file system", ""); got != "" {
			t.Errorf("hint %q for a command that succeeded", got)
		}
	}
}
