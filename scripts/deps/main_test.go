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
						return &programError{program: "npm install", err: errors.New("exit status 1"), output: text}
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

func TestErrorsTellTheCauseAndNotTheProgress(t *testing.T) {
	tests := []struct{ name, output, want string }{
		{"npm", "added 1\nnpm error code E404\nnpm error 404 Not Found\n", "p: exit status 1: code E404; 404 Not Found"},
		{"apt", "Reading lists\nE: Unable to locate package x\n", "p: exit status 1: E: Unable to locate package x"},
		{"go", "go: downloading a v1\na.go:1: b: 403 Forbidden\n", "p: exit status 1: a.go:1: b: 403 Forbidden"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := &programError{program: "p", err: errors.New("exit status 1"), output: tt.output}
			if e.Error() != tt.want {
				t.Errorf("Error = %q, want %q", e, tt.want)
			}
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
	fakeNPM(t, `echo "$@" >> `+count+`; mkdir -p node_modules/pkg`)
	root := t.TempDir()
	for _, version := range []string{"pkg@1", "pkg@1", "pkg@2"} {
		var r report
		npmAll(t.Context(), root, []entry{{"suite", []string{version}}}, &r)
		if len(r.lines) != 0 {
			t.Fatalf("report = %q, want none", r.lines)
		}
		if mark := read(t, filepath.Join(root, "suite", ".installed")); mark != "suite "+version+"\n" {
			t.Errorf("mark = %q, want the manifest's line with %s", mark, version)
		}
	}
	calls := strings.Split(strings.TrimSpace(read(t, count)), "\n")
	if len(calls) != 2 || !strings.HasPrefix(calls[0], "install --ignore-scripts ") || !strings.HasSuffix(calls[0], " pkg@1") {
		t.Errorf("npm was called with %q, want one install per version, without scripts", calls)
	}
	if _, err := os.Stat(filepath.Join(root, "suite", "node_modules")); err != nil {
		t.Error(err)
	}
}

func TestFailedInstallLeavesNoHalfFolder(t *testing.T) {
	fakeNPM(t, `mkdir -p node_modules/pkg; echo "npm error code E404" >&2; exit 1`)
	root := t.TempDir()
	var r report
	npmAll(t.Context(), root, []entry{{"suite", []string{"pkg@1"}}}, &r)
	if got := strings.Join(r.lines, "\n"); !strings.HasPrefix(got, "suite\tnot available: ") || !strings.Contains(got, "E404") {
		t.Errorf("report = %q, want not available with npm's words", got)
	}
	if left, _ := filepath.Glob(filepath.Join(root, "*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSilentRegistryIsAskedForOnePackageOnlyAndRememberedUntilASuccess(t *testing.T) {
	defer func(d time.Duration) { pause = d }(pause)
	pause = 0
	count := filepath.Join(t.TempDir(), "count")
	fakeNPM(t, `echo x >> `+count+`; echo "npm error code ECONNREFUSED"; exit 1`)
	root := t.TempDir()
	entries := []entry{{"one", []string{"a@1"}}, {"two", []string{"b@1"}}}
	var r report
	npmAll(t.Context(), root, entries, &r)
	if calls := strings.Count(read(t, count), "x"); calls != tries {
		t.Errorf("npm was started %d times, want %d", calls, tries)
	}
	if len(r.lines) != 2 {
		t.Errorf("report = %q, want both packages", r.lines)
	}
	for _, e := range entries {
		mark := read(t, filepath.Join(root, e.dir, ".unreachable"))
		if !strings.HasPrefix(mark, "registry unreachable: ") || !strings.Contains(mark, "ECONNREFUSED") {
			t.Errorf("mark of %s = %q, want npm's words", e.dir, mark)
		}
	}
	fakeNPM(t, `mkdir -p node_modules/pkg`)
	r = report{}
	npmAll(t.Context(), root, entries, &r)
	if len(r.lines) != 0 {
		t.Errorf("report = %q after the registry answered, want none", r.lines)
	}
	if _, err := os.Stat(filepath.Join(root, "one", ".unreachable")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the mark of a silent registry outlived a success: %v", err)
	}
}

func TestOptionalPackagesThatDidNotComeAreNotTakenForInstalled(t *testing.T) {
	defer func(d time.Duration) { pause = d }(pause)
	pause = 0
	fakeNPM(t, `[ "$1" = view ] || exit 0; echo "npm error code ECONNREFUSED"; exit 1`)
	root := t.TempDir()
	entries := []entry{{"node", []string{"node-x@1", "--save-optional"}}}
	var r report
	npmAll(t.Context(), root, entries, &r)
	if len(r.lines) != 1 || !strings.HasPrefix(r.lines[0], "node\tregistry unreachable: ") {
		t.Errorf("report = %q, want node: registry unreachable", r.lines)
	}
	fakeNPM(t, `exit 0`) // it answers, and has nothing for this machine
	r = report{}
	npmAll(t.Context(), root, entries, &r)
	if len(r.lines) != 0 || !installed(filepath.Join(root, "node"), entries[0]) {
		t.Errorf("report = %q, want nothing missing and the folder marked", r.lines)
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
