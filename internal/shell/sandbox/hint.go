package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/pattern"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/sandbox/confine"
)

var (
	refusal   = pattern.Lazily(`(?i)read-only file ?system|permission denied|operation not permitted|device or resource busy|cross-device link|\b(EROFS|EACCES|EPERM|EBUSY|EXDEV)\b|could not write config file|could not lock config file`)
	certain   = pattern.Lazily(`(?i)read-only file ?system|\bEROFS\b`)
	noNetwork = pattern.Lazily(`(?i)network is unreachable|could ?n[o']t resolve|temporary failure in name resolution|name or service not known|no such host|\b(ENETUNREACH|EAI_AGAIN|ENOTFOUND)\b`)
	noSignal  = pattern.Lazily(`(?i)\bkill(all)?\b.*(operation not permitted|no such process)`)
	quotation = pattern.Lazily(`'([^']+)'|"([^"]+)"|‘([^’]+)’|` + "`([^`']+)'")
)

// Hint explains a command that failed, when it looks as if the sandbox had
// refused it something, and names the setting that would change it; else it is
// "". The command ran in dir and ended with exitCode after saying stderr.
//
// It is a guess from what the command said, checked against what the sandbox
// allows and what this user may do otherwise.
func (s *Sandbox) Hint(exitCode int, stderr, dir string) string {
	if s.backend == None || exitCode == 0 {
		return ""
	}
	const most = 16 << 10
	if len(stderr) > most {
		stderr = stderr[len(stderr)-most:]
	}
	if exitCode == confine.ExitFailed && strings.Contains(stderr, confine.Prefix) ||
		s.backend == Bwrap && exitCode == 1 && strings.HasPrefix(stderr, "bwrap: ") {
		return "the sandbox could not start the command; 'async-crud-mcp sandbox probe' shows what this system offers"
	}
	p := s.plan()
	unnamed := false
	for line := range strings.Lines(stderr) {
		if s.network == NetworkOff && noNetwork().MatchString(line) {
			return "the network is off for commands (sandbox.network)"
		}
		if s.mode() == Off {
			continue
		}
		if noSignal().MatchString(line) {
			return "under the sandbox a command sees and signals its own processes alone; end another job with its tool"
		}
		if !refusal().MatchString(line) {
			continue
		}
		for _, path := range pathsIn(line, dir) {
			if text := s.refused(p, path); text != "" {
				return text
			}
		}
		unnamed = unnamed || certain().MatchString(line)
	}
	if unnamed {
		return "the sandbox (" + s.mode() + ") lets commands write " + s.allowed() + " only"
	}
	return ""
}

// refused says why the sandbox refuses to write path, "" when it does not, or
// when the path is closed to this user anyway.
func (s *Sandbox) refused(p plan, path string) string {
	real := nearest(path)
	free := p.writableAt(real) && (s.backend != Landlock || insideAny(real, p.landlock()))
	guarded := insideAny(real, p.protected) && s.backend != Landlock
	if free && !guarded || insideAny(path, devices) || !mayWrite(real) {
		return ""
	}
	switch {
	case guarded:
		return fmt.Sprintf("the sandbox protects %s: hooks, git's configuration and the server's own files are not for commands to change", path)
	case s.mode() == ReadOnly:
		return "the sandbox (read-only) lets commands write nothing"
	case s.mode() == Strict && s.opts.Root != "" && inside(real, s.opts.Root):
		for _, dir := range s.opts.BuildDirs {
			if full := filepath.Join(s.opts.Root, dir); inside(path, full) && !exists(full) {
				return fmt.Sprintf("commands may write %s (sandbox.build_dirs), but it does not exist: make it with async_mkdir first", dir)
			}
		}
		return fmt.Sprintf("the sandbox (strict) lets commands read the project, not write %s: change sources with the file tools, or add a directory to sandbox.build_dirs", path)
	default:
		return fmt.Sprintf("the sandbox (%s) does not let commands write %s: a person may add its directory to sandbox.writable", s.mode(), path)
	}
}

// allowed says in words what the mode lets commands write.
func (s *Sandbox) allowed() string {
	switch s.mode() {
	case ReadOnly:
		return "nothing: /dev/null"
	case Strict:
		return "build directories (sandbox.build_dirs), temporary directories, caches of tools and sandbox.writable"
	default:
		return "the project, temporary directories, caches of tools and sandbox.writable"
	}
}

// pathsIn returns what looks like a path in a message: quoted text, else the
// last word with a slash, or with a dot before a colon.
func pathsIn(line, dir string) []string {
	var names []string
	for _, m := range quotation().FindAllStringSubmatch(line, 4) {
		names = append(names, strings.Join(m[1:], ""))
	}
	if names == nil {
		for _, word := range slices.Backward(strings.Fields(line)) {
			trimmed := strings.Trim(word, "'\"`,;:()[]")
			if strings.Contains(trimmed, "/") || strings.HasSuffix(word, ":") && strings.Contains(trimmed, ".") {
				names = append(names, trimmed)
				break
			}
		}
	}
	for i, name := range names {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		names[i] = filepath.Clean(name)
	}
	return names
}

// nearest is the part of path that exists, without links.
func nearest(path string) string {
	for {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real
		}
		up := filepath.Dir(path)
		if up == path {
			return path
		}
		path = up
	}
}
