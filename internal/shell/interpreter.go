package shell

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/policy"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/job"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/proc"
)

// interpreter is a shell that runs a command.
type interpreter struct {
	name     string // as answers show it: bash, sh, nu
	path     string
	dialect  policy.Dialect
	fallback bool // it stands in for the shell of the settings
}

// argv is the command line that runs text, without any profile of the user.
func (i interpreter) argv(text string) []string {
	switch i.dialect {
	case policy.Nu:
		// Errors as lines rather than as drawings.
		return []string{i.path, "--no-config-file", "--no-std-lib", "--error-style", "plain", "-c", text}
	case policy.PowerShell:
		return []string{i.path, "-NoProfile", "-NonInteractive", "-Command", text}
	default:
		return []string{i.path, "-c", text}
	}
}

// finder looks for shells and remembers what it found, as long as the file stays
// the same.
type finder struct {
	mu    sync.Mutex
	works map[string]works // by path; guarded by mu
}

type works struct {
	changed time.Time
	err     error
}

// shellFor settles which shell runs a command.
func (e *Engine) shellFor(r Request, scope *Scope) (interpreter, error) {
	switch {
	case r.Shell != "":
		return e.find.named(r.Shell, scope.pathOf(r.Shell))
	case r.Door != Shell:
		return e.find.posix()
	}
	i, err := e.find.named(scope.Shell, scope.ShellPath)
	if fault.CodeOf(err) == fault.ShellNotInstalled {
		i, err = e.find.named("sh", "")
		i.fallback = true
	}
	return i, err
}

// pathOf is the configured path of a shell, if it is the one that is configured.
func (s *Scope) pathOf(name string) string {
	if name == s.Shell {
		return s.ShellPath
	}
	return ""
}

// posix returns bash, or else sh.
func (f *finder) posix() (interpreter, error) {
	for _, name := range []string{"bash", "sh"} {
		if i, err := f.named(name, ""); err == nil {
			return i, nil
		}
	}
	return interpreter{}, fault.New(fault.ShellNotInstalled, "neither bash nor sh is installed on this system")
}

// named returns the shell of a name, at path or wherever it is installed.
func (f *finder) named(name, path string) (interpreter, error) {
	base := strings.TrimSuffix(strings.ToLower(filepath.Base(name)), ".exe")
	dialect := policy.Unknown
	switch base {
	case "sh", "bash", "dash", "ash", "zsh", "ksh":
		dialect = policy.Bash
	case "nu", "nushell":
		base, dialect = "nu", policy.Nu
	case "pwsh", "powershell":
		dialect = policy.PowerShell
	}
	if path == "" {
		if filepath.Base(name) != name {
			path = name
		} else if found, err := exec.LookPath(base); err == nil {
			path, _ = filepath.Abs(found)
		}
	}
	missing := fault.New(fault.ShellNotInstalled, "shell not installed: %s", name)
	if dialect == policy.Nu {
		missing.Message += ". Install it from https://nushell.sh"
	}
	if path == "" {
		return interpreter{}, missing
	}
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return interpreter{}, missing.At(path)
	}
	if dialect == policy.Nu {
		path = native(path)
		if err := f.starts(path); err != nil {
			return interpreter{}, missing.At(path)
		}
	}
	return interpreter{name: base, path: path, dialect: dialect}, nil
}

// native returns the program behind the script that npm puts in its place, which
// takes ten times as long to start.
func native(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || filepath.Ext(real) != ".js" {
		return path
	}
	for dir := filepath.Dir(real); filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
		if arch == "" {
			arch = runtime.GOARCH
		}
		nu := filepath.Join(dir, "@nushell", runtime.GOOS+"-"+arch, "bin", "nu")
		if info, err := os.Stat(nu); err == nil && info.Mode().IsRegular() {
			return nu
		}
	}
	return path
}

// patience is how long a shell may take to tell its version.
const patience = 10 * time.Second

// starts checks that the program at path runs here: a file of that name may be
// for another machine, or be something else.
func (f *finder) starts(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.works[path]; ok && known.changed.Equal(info.ModTime()) {
		return known.err
	}
	if f.works == nil {
		f.works = make(map[string]works)
	}
	err = version(path)
	f.works[path] = works{info.ModTime(), err}
	return err
}

func version(path string) error {
	var out bytes.Buffer
	p, err := proc.Start(proc.Spec{Argv: []string{path, "--version"}, Env: os.Environ(), Stdout: &out})
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-time.After(patience):
		p.End(0)
	}
	<-p.Gone()
	if code := p.Exit().Code; code != 0 || out.Len() == 0 {
		return fmt.Errorf("%s --version exits with %d", path, code)
	}
	return nil
}

// What nu says when it exits with 1 for a reason that other shells have a code
// of their own for.
const (
	nuNotFound = "` not found"
	nuExternal = "nu::shell::external_command"
	nuParser   = "nu::parser::"
	nuSignal   = "nu::shell::terminated_by_signal"
)

// exitOf gives the end of a job the meaning it has in other shells: 128 and the
// number of a signal for a command that one ended, 127 for one that is not there,
// 2 for text that does not parse.
func exitOf(shell string, keeperSignal func(int) int, s *job.Snapshot, stderr string) {
	if s.ExitCode == nil {
		if s.SignalNo > 0 {
			code := 128 + s.SignalNo
			s.ExitCode = &code
		}
		return
	}
	code, number := *s.ExitCode, keeperSignal(*s.ExitCode)
	if shell == "nu" {
		switch {
		case code > 192 && strings.Contains(stderr, nuSignal):
			number = 256 - code
		case code == 1 && strings.Contains(stderr, nuNotFound) && strings.Contains(stderr, nuExternal):
			code = 127
		case code == 1 && strings.Contains(stderr, nuParser):
			code = 2
		}
	}
	if number > 0 {
		code = 128 + number
		s.Signal, s.SignalNo = proc.SignalName(number), number
	}
	s.ExitCode = &code
}
