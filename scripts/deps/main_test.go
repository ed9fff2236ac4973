package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestManifestIsReadAsItsReadmeSays(t *testing.T) {
	name := filepath.Join(t.TempDir(), "deps.txt")
	write(t, name, "# a comment\n\nnode   node-a@1 node-b@1 --save-optional\r\n  suite @scope/pkg@1.2.3\n")
	got, err := readManifest(name)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range got {
		lines = append(lines, e.String())
	}
	want := "node node-a@1 node-b@1 --save-optional|suite @scope/pkg@1.2.3"
	if joined := strings.Join(lines, "|"); joined != want {
		t.Errorf("readManifest = %q, want %q", joined, want)
	}
}

func TestManifestRefusesAFolderOutsideTheCache(t *testing.T) {
	for _, line := range []string{"../up pkg@1", "/abs pkg@1", "alone"} {
		name := filepath.Join(t.TempDir(), "deps.txt")
		write(t, name, line+"\n")
		if _, err := readManifest(name); err == nil {
			t.Errorf("readManifest accepts %q", line)
		}
	}
}

func TestTheProjectsManifestIsValid(t *testing.T) {
	entries, err := readManifest("../../test/hosts/deps.txt")
	if err != nil || len(entries) == 0 {
		t.Errorf("readManifest = %v, %v", entries, err)
	}
}

func TestRetryRepeatsOnlyWhileTheRegistryIsSilent(t *testing.T) {
	tests := []struct {
		name   string
		errs   []string // one per try, "" for success
		calls  int
		prefix string
	}{
		{"at once", []string{""}, 1, ""},
		{"second try", []string{"npm error code EAI_AGAIN", ""}, 2, ""},
		{"silent", []string{"dial tcp: i/o timeout", "E503", "connection refused"}, 3, "registry unreachable: "},
		{"definite", []string{"npm error code ETARGET"}, 1, "not available: "},
		{"silent, then definite", []string{"ECONNRESET", "404 Not Found"}, 2, "not available: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				err := retry(t.Context(), func() error {
					calls++
					if text := tt.errs[calls-1]; text != "" {
						return errors.New(text)
					}
					return nil
				})
				if calls != tt.calls {
					t.Errorf("tried %d times, want %d", calls, tt.calls)
				}
				if tt.prefix == "" && err != nil {
					t.Errorf("retry = %v, want success", err)
				}
				if tt.prefix != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.prefix)) {
					t.Errorf("retry = %v, want %q…", err, tt.prefix)
				}
			})
		})
	}
}

// fakeNPM puts an npm into PATH that does what script says.
func fakeNPM(t *testing.T, script string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a stand-in for npm is a shell script")
	}
	bin := t.TempDir()
	write(t, filepath.Join(bin, "npm"), "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(filepath.Join(bin, "npm"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestInstalledFolderIsMarkedAndLeftAlone(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	fakeNPM(t, `echo "$@" >> `+count+`; mkdir node_modules`)
	dir := filepath.Join(t.TempDir(), "suite")
	for range 2 {
		if err := npmInstall(t.Context(), dir, []string{"pkg@1"}); err != nil {
			t.Fatal(err)
		}
	}
	calls := read(t, count)
	if strings.Count(calls, "\n") != 1 || !strings.HasPrefix(calls, "install --ignore-scripts ") || !strings.HasSuffix(calls, " pkg@1\n") {
		t.Errorf("npm was called with %q, want one install without scripts", calls)
	}
	if mark := read(t, filepath.Join(dir, ".installed")); mark != "suite pkg@1\n" {
		t.Errorf("mark = %q, want the manifest's line", mark)
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		t.Error(err)
	}
	if err := npmInstall(t.Context(), dir, []string{"pkg@2"}); err != nil {
		t.Fatal(err)
	}
	if mark := read(t, filepath.Join(dir, ".installed")); mark != "suite pkg@2\n" {
		t.Errorf("mark = %q after a new version, want it renewed", mark)
	}
}

func TestFailedInstallLeavesNoHalfFolder(t *testing.T) {
	fakeNPM(t, `mkdir node_modules; echo "npm error code E404" >&2; exit 1`)
	dir := filepath.Join(t.TempDir(), "suite")
	err := npmInstall(t.Context(), dir, []string{"pkg@1"})
	if err == nil || !strings.HasPrefix(err.Error(), "not available: ") || !strings.Contains(err.Error(), "E404") {
		t.Errorf("npmInstall = %v, want not available with npm's words", err)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "*"))
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSilentRegistryIsRememberedUntilASuccess(t *testing.T) {
	defer func(d time.Duration) { pause = d }(pause)
	pause = 0
	dir := filepath.Join(t.TempDir(), "suite")
	fakeNPM(t, `echo "npm error code ECONNREFUSED"; exit 1`)
	err := npmInstall(t.Context(), dir, []string{"pkg@1"})
	if err == nil || !strings.HasPrefix(err.Error(), "registry unreachable: ") {
		t.Errorf("npmInstall = %v, want registry unreachable", err)
	}
	if mark := read(t, filepath.Join(dir, ".unreachable")); !strings.Contains(mark, "ECONNREFUSED") {
		t.Errorf("mark = %q, want npm's words", mark)
	}
	fakeNPM(t, `mkdir node_modules`)
	if err := npmInstall(t.Context(), dir, []string{"pkg@1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".unreachable")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the mark of a silent registry outlived a success: %v", err)
	}
}

func TestReportListsWhatIsMissingAndGoesWhenNothingIs(t *testing.T) {
	name := filepath.Join(t.TempDir(), "missing.txt")
	var r report
	r.add("b", errors.New("registry unreachable: no\nanswer"))
	r.add("a", errors.New("not available: gone"))
	r.add("c", nil)
	if err := r.write(name); err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, name), "a\tnot available: gone\nb\tregistry unreachable: no answer\n"; got != want {
		t.Errorf("report = %q, want %q", got, want)
	}
	if err := new(report).write(name); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty report leaves the old one: %v", err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
