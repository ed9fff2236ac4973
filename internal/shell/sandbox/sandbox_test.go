package sandbox

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The profile of macOS is made on every system; what it says is read here, what
// it does is seen on a Mac.
func TestSeatbeltProfileIsGolden(t *testing.T) {
	p := plan{
		areas: []area{
			{"/Users/me/code/app", true},
			{"/private/var/folders/xy/T", true},
			{"/Users/me/Library/Caches/go-build", true},
			{"/Users/me/code/app/vendor", false},
		},
		protected: []string{"/Users/me/code/app/.async-crud-mcp", "/Users/me/code/app/.git/config", "/Users/me/code/app/.git/hooks", `/Users/me/code/app/odd "name" \ here`},
		hidden:    []string{"/Users/me/Library/Application Support/async-crud-mcp/run"},
	}
	for name, text := range map[string]string{
		"workspace-write.sb": seatbeltProfile(p, NetworkOn),
		"network-off.sb":     seatbeltProfile(p, NetworkOff),
		"network-alone.sb":   seatbeltProfile(plan{areas: []area{{"/", true}}}, NetworkOff),
		"read-only.sb":       seatbeltProfile(plan{}, NetworkOn),
	} {
		file := filepath.Join("testdata", "seatbelt", name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if text != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, text, want)
		}
	}
}

func TestCachesFollowTheServersEnvironmentAndHoldNoPrograms(t *testing.T) {
	env := map[string]string{"GOCACHE": "/var/go-build", "GOPATH": "/opt/go:/opt/more", "CARGO_HOME": "relative", "XDG_CACHE_HOME": "/big/cache"}
	all := func(goos string, env map[string]string) []string {
		var paths []string
		for _, c := range toolCaches(goos, "/home/me", func(name string) string { return env[name] }) {
			paths = append(paths, slices.Concat(c.made, c.other)...)
		}
		return paths
	}
	got := all("linux", env)
	for _, want := range []string{"/var/go-build", "/opt/go/pkg/mod", "/home/me/.cargo/registry", "/big/cache/pip", "/home/me/.npm/_cacache"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in %q", want, got)
		}
	}
	if mac := all("darwin", nil); !slices.Contains(mac, "/home/me/Library/Caches/go-build") {
		t.Errorf("darwin: %q", mac)
	}
	for _, goos := range []string{"linux", "darwin"} {
		for _, path := range all(goos, nil) {
			if !filepath.IsAbs(path) || strings.Contains(path+"/", "/bin/") || strings.Count(path, "/") < 3 {
				t.Errorf("%s: %q is no cache", goos, path)
			}
		}
	}
	if none := toolCaches("linux", "", os.Getenv); none != nil {
		t.Errorf("without a home directory: %q", none)
	}
}

func TestAutoPrefersWhatCanProtectMore(t *testing.T) {
	works := BwrapProgram{Path: "/usr/bin/bwrap", Works: true}
	for _, c := range []struct {
		system System
		want   string
	}{
		{System{OS: "linux", Bwrap: works, LandlockABI: 7}, Bwrap},
		{System{OS: "linux", LandlockABI: 3}, Landlock},
		{System{OS: "linux", LandlockABI: 2}, None},
		{System{OS: "linux"}, None},
		{System{OS: "darwin", Seatbelt: "/usr/bin/sandbox-exec"}, Seatbelt},
		{System{OS: "darwin"}, None},
		{System{OS: "windows"}, None},
	} {
		if got := c.system.Best(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.system, got, c.want)
		}
		if c.want == None && c.system.Why() == "" {
			t.Errorf("%+v: no reason is given", c.system)
		}
	}
}

func TestReportSaysWhatIsInForceAndWhatWasAsked(t *testing.T) {
	for _, c := range []struct {
		opts Options
		want string
	}{
		{Options{Mode: Off}, "off, network on"},
		{Options{System: &System{OS: "windows"}}, "off, network on: there is no sandbox for windows"},
		{Options{Backend: None}, "off, network on: sandbox.backend is none"},
		{Options{System: &System{OS: "linux", LandlockABI: 7, Seccomp: true}, Network: NetworkOff, Mode: Strict}, "strict by landlock, network off"},
		{Options{System: &System{OS: "darwin", Seatbelt: "/usr/bin/sandbox-exec"}}, "workspace-write by seatbelt, network on"},
	} {
		box, err := New(c.opts)
		if err != nil {
			t.Fatal(err)
		}
		if got := box.Brief().String(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.opts, got, c.want)
		}
	}
}

func TestNothingWritableLiesInsideWhatIsProtected(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	own, inner := filepath.Join(dir, "own"), filepath.Join(dir, "own", "inner")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	box, err := New(Options{Protected: []string{own}, Writable: []string{inner, own}, TempDirs: []string{}, Home: dir, System: &System{OS: "linux", LandlockABI: 7}})
	if err != nil {
		t.Fatal(err)
	}
	p := box.plan()
	if !slices.Contains(p.protected, own) || slices.ContainsFunc(p.landlock(), func(path string) bool { return inside(path, own) }) {
		t.Errorf("protected %q, allowed %q", p.protected, p.landlock())
	}
}

// In strict mode with the repository among the build directories, its hooks are
// still protected; without a project nothing of the current directory is.
func TestStrictProtectsHooksOfAWritableRepository(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, ".git", "hooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for root, want := range map[string]bool{dir: true, "": false} {
		box, err := New(Options{Mode: Strict, Root: root, BuildDirs: []string{".git"}, TempDirs: []string{}, Home: dir, System: &System{OS: "linux", LandlockABI: 7}})
		if err != nil {
			t.Fatal(err)
		}
		p := box.plan()
		if got := slices.Contains(p.protected, filepath.Join(dir, ".git", "hooks")); got != want || len(p.protected) > 0 != want {
			t.Errorf("root %q: protected %q", root, p.protected)
		}
	}
}
