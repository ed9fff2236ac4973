// Command deps fetches what the checks and tests need and a machine may lack:
// Debian packages when it runs as root, npm packages into a cache folder outside
// the checkout, Go modules, and the pinned golangci-lint and nfpm, built from their
// modules.
//
// What is there already is left alone, so a second run takes no time. Nothing
// that cannot be had ends the run: it is printed, and kept in missing.txt in the
// cache folder, one "name<tab>reason" a line, for those who then have to skip. A
// reason begins with "registry unreachable:" when a registry did not answer after
// several tries.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	manifest := flag.String("manifest", "test/hosts/deps.txt", "list of npm packages")
	linter := flag.String("golangci", "", "version of golangci-lint to build; empty for none")
	packager := flag.String("nfpm", "", "version of nfpm to build; empty for none")
	registry := flag.String("registry", "", "version of the MCP registry, whose module has the schema of server.json; empty for none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *manifest, *linter, *packager, *registry); err != nil {
		fmt.Fprintln(os.Stderr, "deps:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, manifest, linter, packager, registry string) error {
	cache, err := cacheDir()
	if err != nil {
		return err
	}
	entries, err := readManifest(manifest)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	var r report
	debian(ctx, &r)
	// One waits for the network, the other for the compiler.
	var wg sync.WaitGroup
	wg.Go(func() {
		npmAll(ctx, cmp.Or(os.Getenv("ACM_NPM_CACHE"), filepath.Join(cache, "npm")), entries, &r)
	})
	wg.Go(func() {
		r.add("Go modules", retry(ctx, func() error { return command(ctx, "", "go", "mod", "download") }))
		if registry != "" {
			const module = "github.com/modelcontextprotocol/registry"
			r.add("MCP registry", retry(ctx, func() error { return command(ctx, "", "go", "mod", "download", module+"@"+registry) }))
		}
		for _, t := range []tool{
			{"golangci-lint", "github.com/golangci/golangci-lint/v2/cmd/golangci-lint", linter},
			{"nfpm", "github.com/goreleaser/nfpm/v2/cmd/nfpm", packager},
		} {
			if t.version != "" {
				r.add(t.name, t.build(ctx, filepath.Join(cache, "tools")))
			}
		}
	})
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.write(filepath.Join(cache, "missing.txt"))
}

// cacheDir is the same on every system, so that tests find it without asking.
func cacheDir() (string, error) {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "async-crud-mcp"), nil
}

// entry is one folder of npm packages: its name and the arguments of npm install.
type entry struct {
	dir  string
	args []string
}

func (e entry) String() string { return strings.Join(append([]string{e.dir}, e.args...), " ") }

func readManifest(name string) ([]entry, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		if len(f) < 2 || !filepath.IsLocal(f[0]) {
			return nil, fmt.Errorf("%s: %q is not a folder and its packages", name, strings.TrimSpace(line))
		}
		entries = append(entries, entry{f[0], f[1:]})
	}
	return entries, nil
}

// report collects what could not be had.
type report struct {
	mu    sync.Mutex
	lines []string
}

func (r *report) add(name string, err error) {
	if err == nil {
		return
	}
	reason := strings.Join(strings.Fields(err.Error()), " ")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, name+"\t"+reason)
	fmt.Fprintf(os.Stderr, "deps: no %s: %s\n", name, reason)
}

func (r *report) write(name string) error {
	if len(r.lines) == 0 {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	slices.Sort(r.lines)
	return os.WriteFile(name, []byte(strings.Join(r.lines, "\n")+"\n"), 0o644)
}

// Programs the tests start, and the Debian packages that bring them.
var programs = []struct {
	command  string
	packages []string
}{
	{"git", []string{"git", "ca-certificates"}},
	{"gcc", []string{"gcc", "libc6-dev"}}, // for the race detector
	{"npm", []string{"nodejs", "npm"}},
	{"make", []string{"make"}},
	{"bwrap", []string{"bubblewrap"}},
	{"shellcheck", []string{"shellcheck"}},
}

// debian installs the missing programs where that is possible. Elsewhere it says
// nothing: whoever needs one of them reports it.
func debian(ctx context.Context, r *report) {
	if os.Geteuid() != 0 || !found("apt-get") {
		return
	}
	var want []string
	for _, p := range programs {
		if !found(p.command) {
			want = append(want, p.packages...)
		}
	}
	if len(want) == 0 {
		return
	}
	say("installing Debian packages", strings.Join(want, " "))
	err := retry(ctx, func() error {
		if err := command(ctx, "", "apt-get", "update", "-qq", "-o", "APT::Update::Error-Mode=any"); err != nil {
			return err
		}
		return command(ctx, "", "apt-get", append([]string{"install", "-y", "-qq", "--no-install-recommends"}, want...)...)
	})
	r.add("Debian packages "+strings.Join(want, " "), err)
}

// npmAll fills a folder below root for every entry. Once the registry has not
// answered it is not asked again: seven times its silence would take too long.
func npmAll(ctx context.Context, root string, entries []entry, r *report) {
	var silence error
	for _, e := range entries {
		dir := filepath.Join(root, e.dir)
		if installed(dir, e) {
			continue
		}
		err := silence
		if err == nil {
			err = npmInstall(ctx, dir, e)
		}
		if err != nil && unreachable(err) {
			silence = err
			noteUnreachable(dir, err)
		}
		r.add(e.dir, err)
	}
}

// installed reports whether dir holds what e asks for: the tests take it so when
// .installed has the manifest's line.
func installed(dir string, e entry) bool {
	b, err := os.ReadFile(filepath.Join(dir, ".installed"))
	return err == nil && strings.TrimSpace(string(b)) == e.String()
}

// noteUnreachable leaves word in dir, where the tests that must skip look for it.
func noteUnreachable(dir string, err error) {
	if os.MkdirAll(dir, 0o755) == nil {
		_ = os.WriteFile(filepath.Join(dir, ".unreachable"), []byte(err.Error()+"\n"), 0o644)
	}
}

// npmInstall fills dir.
func npmInstall(ctx context.Context, dir string, e entry) error {
	if !found("npm") {
		return errors.New("not available: npm is not installed; install Node.js 20 or newer")
	}
	say("installing", e.String())
	// Beside its place first, so that an interrupted install never looks whole.
	fresh := fmt.Sprintf("%s.new%d", dir, os.Getpid())
	defer os.RemoveAll(fresh)
	err := retry(ctx, func() error {
		if err := os.RemoveAll(fresh); err != nil {
			return err
		}
		if err := os.MkdirAll(fresh, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(fresh, "package.json"), []byte("{\"private\":true}\n"), 0o644); err != nil {
			return err
		}
		npm := []string{
			"install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error",
			"--fetch-retries=1", "--fetch-retry-mintimeout=1000", // the tries are counted here
		}
		if err := command(ctx, fresh, "npm", append(npm, e.args...)...); err != nil {
			return err
		}
		// Optional packages that cannot be had are no error to npm. Either none is
		// for this machine, which is fine, or the registry did not answer.
		if got, _ := filepath.Glob(filepath.Join(fresh, "node_modules", "[^.]*")); len(got) > 0 {
			return nil
		}
		return command(ctx, fresh, "npm", "view", "--loglevel=error", "--fetch-retries=1", e.args[0], "version")
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(fresh, ".installed"), []byte(e.String()+"\n"), 0o644); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(fresh, dir)
}

// tool is a program that is built from its module, outside of ours.
type tool struct{ name, pkg, version string }

// build builds it with the Go at hand: a linter must be built with one that is at
// least as new as the code it reads.
func (t tool) build(ctx context.Context, dir string) error {
	exe := filepath.Join(dir, t.name+"-"+t.version+"-"+runtime.Version())
	if _, err := os.Stat(exe); err == nil {
		return nil
	}
	say("building "+t.name, t.version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	err = retry(ctx, func() error {
		cmd := exec.CommandContext(ctx, "go", "install", "-trimpath", "-ldflags=-s -w", t.pkg+"@"+t.version)
		cmd.Env = append(os.Environ(), "GOBIN="+tmp, "GOFLAGS=", "CGO_ENABLED=0")
		return runQuietly(cmd)
	})
	if err != nil {
		return err
	}
	return os.Rename(filepath.Join(tmp, t.name), exe)
}

func found(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

func say(what, which string) { fmt.Fprintln(os.Stderr, "deps:", what, which) }

func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	return runQuietly(cmd)
}

// runQuietly keeps a program's output for the error that ends it.
func runQuietly(cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return &programError{program: cmd.Args[0] + " " + cmd.Args[1], err: err, output: out.String()}
	}
	return nil
}

// programError is a program that failed, with all it said.
type programError struct {
	program string
	err     error
	output  string
}

// Error has the lines in which a program says what went wrong, or all but those
// that only tell of progress.
func (e *programError) Error() string {
	var said, rest []string
	for line := range strings.Lines(e.output) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "go: downloading "):
		case strings.HasPrefix(line, "npm error ") || strings.HasPrefix(line, "E: "):
			said = append(said, strings.TrimPrefix(line, "npm error "))
		default:
			rest = append(rest, line)
		}
	}
	if said == nil {
		said = rest
	}
	const most = 300
	text := strings.Join(said, "; ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return fmt.Sprintf("%s: %v: %s", e.program, e.err, text)
}

func (e *programError) Unwrap() error { return e.err }

// silent reports whether the program failed since a registry did not answer.
func (e *programError) silent() bool {
	return slices.ContainsFunc(silences, func(s string) bool { return strings.Contains(e.output, s) })
}

const tries = 3

// pause is the first wait between tries; the next is four times as long.
var pause = 3 * time.Second

// retry repeats do while the registry does not answer, and says in the error
// which of the two it was.
func retry(ctx context.Context, do func() error) error {
	for n := 1; ; n++ {
		err := do()
		switch {
		case err == nil:
			return nil
		case !isSilent(err):
			return fmt.Errorf("not available: %w", err)
		case n == tries:
			return fmt.Errorf("%s %w", unreachablePrefix, err)
		}
		say("no answer, trying again:", err.Error())
		select {
		case <-time.After(time.Duration(n*n) * pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

const unreachablePrefix = "registry unreachable:"

func unreachable(err error) bool { return strings.HasPrefix(err.Error(), unreachablePrefix) }

// silences are the words of npm, apt and go for a registry that does not answer.
var silences = []string{
	"ENOTFOUND", "EAI_AGAIN", "ETIMEDOUT", "ECONNREFUSED", "ECONNRESET", "ENETUNREACH", "EHOSTUNREACH", "ERR_SOCKET_TIMEOUT",
	"socket hang up", "network request", "E429", "E500", "E502", "E503", "E504",
	"Could not resolve", "Temporary failure", "Could not connect", "Connection failed", "Connection timed out",
	"no such host", "i/o timeout", "connection refused", "connection reset", "network is unreachable", "TLS handshake timeout",
	"unexpected EOF", "429 Too Many Requests", "500 Internal Server Error", "502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout",
}

func isSilent(err error) bool {
	e, ok := errors.AsType[*programError](err)
	return ok && e.silent()
}
