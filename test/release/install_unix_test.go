//go:build unix

package release

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// installation is a home without the program, and a release folder.
type installation struct {
	home, from string
	path       string // PATH of the installer
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	i := &installation{home: t.TempDir(), from: filepath.Join(t.TempDir(), "release folder"), path: os.Getenv("PATH")}
	packed.Do(func() { must(t, builtTool, "folder", "-program", builtProgram, releaseFolder()) })
	if err := os.CopyFS(i.from, os.DirFS(releaseFolder())); err != nil {
		t.Fatal(err)
	}
	return i
}

// packed fills the folder that every installation has a copy of.
var packed sync.Once

func releaseFolder() string { return filepath.Join(filepath.Dir(builtProgram), "folder") }

func (i *installation) install(t *testing.T, args ...string) result {
	t.Helper()
	env := []string{"HOME=" + i.home, "PATH=" + i.path, "LANG=C.UTF-8"}
	return command(t, env, "sh", append([]string{"scripts/install.sh"}, args...)...)
}

// refused demands that the installer ends with an error that says why, and leaves
// nothing behind.
func (i *installation) refused(t *testing.T, r result, why string) {
	t.Helper()
	if r.code == 0 || !strings.Contains(r.stderr, why) {
		t.Errorf("install.sh ended with %d and said %q, want an error with %q", r.code, r.stderr, why)
	}
	if files := tree(t, i.home); len(files) != 0 {
		t.Errorf("install.sh left %v behind", files)
	}
}

func (i *installation) archive() string {
	return filepath.Join(i.from, program+"_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz")
}

func TestInstallerPutsOneFileIntoTheHome(t *testing.T) {
	i := newInstallation(t)
	r := i.install(t, "--from", i.from)
	if r.code != 0 {
		t.Fatalf("install.sh ended with %d\n%s", r.code, r.stderr)
	}
	if got, want := tree(t, i.home), []string{".local/bin/" + program}; !slices.Equal(got, want) {
		t.Errorf("the home has %v, want %v", got, want)
	}
	exe := filepath.Join(i.home, ".local", "bin", program)
	if says := must(t, exe, "version"); !strings.HasPrefix(says, program+" "+version) {
		t.Errorf("the installed program says %q", says)
	}
	for _, want := range []string{"installed " + program + " " + version, "not in PATH", exe + " setup "} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("install.sh does not say %q:\n%s", want, r.stdout)
		}
	}
	// With --help the advised commands are known and do nothing.
	for line := range strings.Lines(r.stdout) {
		if advice, ok := strings.CutPrefix(line, "  "+exe+" "); ok {
			must(t, exe, strings.Fields(advice)[0], "--help")
		}
	}
}

func TestInstallerReplacesAnOlderProgramInAGivenDirectory(t *testing.T) {
	i := newInstallation(t)
	dir := filepath.Join(i.home, "my tools")
	exe := filepath.Join(dir, program)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(exe, []byte("#!/bin/sh\necho old\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	i.path = dir + ":" + i.path
	r := i.install(t, "--from", i.from, "--dir", dir)
	if r.code != 0 {
		t.Fatalf("install.sh ended with %d\n%s", r.code, r.stderr)
	}
	if says := must(t, exe, "version"); !strings.Contains(says, version) {
		t.Errorf("the installed program says %q", says)
	}
	if strings.Contains(r.stdout, "not in PATH") {
		t.Errorf("install.sh does not see that its directory is in PATH:\n%s", r.stdout)
	}
	if got, want := tree(t, i.home), []string{"my tools/" + program}; !slices.Equal(got, want) {
		t.Errorf("the home has %v, want %v", got, want)
	}
}

func TestInstallerFetchesFromAnAddress(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		if _, err := exec.LookPath("wget"); err != nil {
			t.Log("neither curl nor wget here: only the refusal is looked at")
			i := newInstallation(t)
			i.refused(t, i.install(t, "--from", "https://localhost:1"), "curl or wget is needed")
			return
		}
	}
	i := newInstallation(t)
	server := httptest.NewServer(http.FileServer(http.Dir(i.from)))
	defer server.Close()
	if r := i.install(t, "--from", server.URL); r.code != 0 {
		t.Fatalf("install.sh ended with %d\n%s", r.code, r.stderr)
	}
	if says := must(t, filepath.Join(i.home, ".local", "bin", program), "version"); !strings.Contains(says, version) {
		t.Errorf("the installed program says %q", says)
	}
	other := newInstallation(t)
	other.refused(t, other.install(t, "--from", server.URL+"/nowhere"), "cannot fetch")
	other.refused(t, other.install(t, "--from", "http://example.invalid"), "is not safe")
}

func TestInstallerRefusesWhatDoesNotMatchItsChecksum(t *testing.T) {
	tests := map[string]struct {
		spoil func(t *testing.T, i *installation)
		why   string
	}{
		"another archive": {func(t *testing.T, i *installation) {
			appendTo(t, i.archive(), "x")
		}, "has the checksum"},
		"another checksum": {func(t *testing.T, i *installation) {
			name := filepath.Join(i.from, "checksums.txt")
			text := strings.Repeat("0", 64) + read(t, name)[64:]
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}, "has the checksum"},
		"an archive that is not named": {func(t *testing.T, i *installation) {
			if err := os.WriteFile(filepath.Join(i.from, "checksums.txt"), []byte(strings.Repeat("0", 64)+"  other.tar.gz\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, "does not name"},
		"no checksums": {func(t *testing.T, i *installation) {
			if err := os.Remove(filepath.Join(i.from, "checksums.txt")); err != nil {
				t.Fatal(err)
			}
		}, "has no checksums.txt"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			i := newInstallation(t)
			tt.spoil(t, i)
			i.refused(t, i.install(t, "--from", i.from), tt.why)
		})
	}
}

func TestInstallerRefusesAProgramThatDoesNotRun(t *testing.T) {
	i := newInstallation(t)
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	must(t, builtTool, "folder", "-program", broken, i.from)
	i.refused(t, i.install(t, "--from", i.from), "does not run on this system")
}

func TestInstallerNamesAMachineItHasNothingFor(t *testing.T) {
	tests := []struct{ system, machine, why string }{
		{"Linux", "riscv64", "no release for linux on riscv64"},
		{"FreeBSD", "amd64", "no release for FreeBSD"},
		{"MINGW64_NT-10.0", "x86_64", "use install.ps1"},
	}
	for _, tt := range tests {
		t.Run(tt.system+" "+tt.machine, func(t *testing.T) {
			i := newInstallation(t)
			fake := t.TempDir()
			script := "#!/bin/sh\ncase $1 in -s) echo " + tt.system + " ;; -m) echo " + tt.machine + " ;; esac\n"
			if err := os.WriteFile(filepath.Join(fake, "uname"), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			i.path = fake + ":" + i.path
			i.refused(t, i.install(t, "--from", i.from), tt.why)
		})
	}
}

func TestInstallerRefusesArgumentsItDoesNotKnow(t *testing.T) {
	tests := []struct {
		args []string
		why  string
	}{
		{[]string{"--prefix", "x"}, "unknown argument --prefix"},
		{[]string{"--dir"}, "--dir wants a value"},
		{[]string{"--from", "x", "--version", "1"}, "leave --version out"},
	}
	for _, tt := range tests {
		i := &installation{home: t.TempDir(), path: os.Getenv("PATH")}
		i.refused(t, i.install(t, tt.args...), tt.why)
	}
}

func TestShellScriptsPassShellcheck(t *testing.T) {
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("no shellcheck on this system")
	}
	r := command(t, nil, "shellcheck", "--shell=sh", "scripts/install.sh", "packaging/mcpb/start.sh")
	if r.code != 0 {
		t.Errorf("shellcheck:\n%s", r.stdout)
	}
}

func appendTo(t *testing.T, name, text string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}
