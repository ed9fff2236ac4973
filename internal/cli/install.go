package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config/hosts"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/diff"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

func installCommand(t *terminal) *cobra.Command {
	var names []string
	var root, project, transport string
	var dryRun, deny, yes bool
	cmd := &cobra.Command{
		Use: "quick-install", Short: "Register this server with the MCP hosts of this machine", GroupID: "set", Args: cobra.NoArgs,
		Long: "Register this server with every MCP host that is found here, or with those that are named. What will change in\n" +
			"which file is shown first. The rest of a file stays as it is, a copy of it is put beside it, and 'uninstall' takes\n" +
			"back exactly what was done. To run it again changes nothing.\n\n" +
			"Without --root a host's server works in the project that the host has open. --deny-native also tells the hosts\n" +
			"that can be told not to use their own tools for commands and changes of files: agents that have both walk around\n" +
			"this server, and nobody else sees what they do.",
		Example: "  " + app.Name + " quick-install --dry-run\n" +
			"  " + app.Name + " quick-install --host claude-code --host codex --deny-native\n" +
			"  " + app.Name + " quick-install --project .            in the project's own files, for everybody who works in it",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if project != "" {
				dir, err := fsys.ResolveDir(project)
				if err != nil {
					return &failure{code: exitUsage, err: fmt.Errorf("--project: %w", err), next: "name an existing directory"}
				}
				project = dir
			}
			in, err := newInstaller(t, root, project, transport)
			if err != nil {
				return err
			}
			in.deny = deny
			if err := in.choose(names); err != nil {
				return err
			}
			if err := in.plan(); err != nil {
				return err
			}
			in.show()
			if dryRun || len(in.changes) == 0 {
				return nil
			}
			if err := confirm(t, yes, "Make these changes?"); err != nil {
				return err
			}
			return in.apply()
		},
	}
	cmd.Flags().StringSliceVar(&names, "host", nil, "register with this host alone; may be repeated: "+strings.Join(hostNames(), ", "))
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would change, and change nothing")
	cmd.Flags().StringVar(&root, "root", "", "the project `DIR` of the registered server (default: what the host has open)")
	cmd.Flags().StringVar(&project, "project", "", "register in the own files of the project `DIR`, not in yours")
	cmd.Flags().StringVar(&transport, "transport", "", "stdio: the host starts the server; http or sse: it connects to one that runs (default: daemon.transport if you have set it, else stdio)")
	cmd.Flags().BoolVar(&deny, "deny-native", false, "tell hosts not to use their own tools for commands and changes of files")
	cmd.Flags().BoolVar(&yes, "yes", false, "ask nothing")
	cmd.MarkFlagsMutuallyExclusive("root", "project")
	_ = cmd.RegisterFlagCompletionFunc("transport", cobra.FixedCompletions([]string{hosts.Stdio, hosts.HTTP, hosts.SSE}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.MarkFlagDirname("root")
	_ = cmd.MarkFlagDirname("project")
	_ = cmd.RegisterFlagCompletionFunc("host", cobra.FixedCompletions(hostNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func hostNames() []string {
	var names []string
	for _, h := range hosts.All() {
		names = append(names, h.Name)
	}
	return names
}

// installer registers the server with hosts: choose, plan, show, apply.
type installer struct {
	t       *terminal
	machine hosts.Machine
	book    *hosts.Book
	server  hosts.Server
	project string
	deny    bool

	hosts   []*hosts.Host
	changes []hosts.Change
	told    []string // lines about hosts that need no change
}

func newInstaller(t *terminal, root, project, transport string) (*installer, error) {
	machine, err := hosts.Here()
	if err != nil {
		return nil, err
	}
	dirs, err := fsys.UserDirs()
	if err != nil {
		return nil, err
	}
	server, err := serverEntry(root, project)
	if err != nil {
		return nil, err
	}
	if err := reachBy(&server, transport, root); err != nil {
		return nil, err
	}
	return &installer{t: t, machine: machine, book: hosts.NewBook(dirs.Data), server: server, project: project}, nil
}

// serverEntry is how a host is to start us. What stands in a project's own files
// has to mean the same on every machine.
func serverEntry(root, project string) (hosts.Server, error) {
	s := hosts.Server{Command: app.Name, Args: []string{"stdio"}}
	if project != "" {
		return s, nil
	}
	var err error
	if s.Command, err = programPath(); err != nil {
		return s, err
	}
	if root != "" {
		dir, err := fsys.ResolveDir(root)
		if err != nil {
			return s, &failure{code: exitUsage, err: fmt.Errorf("--root: %w", err), next: "name an existing directory"}
		}
		s.Args = append(s.Args, "--root", dir)
	}
	if home := os.Getenv("ASYNC_CRUD_MCP_HOME"); home != "" { // hosts may be started without it
		if home, err = filepath.Abs(home); err != nil {
			return s, err
		}
		s.Env = map[string]string{"ASYNC_CRUD_MCP_HOME": home}
	}
	return s, nil
}

// reachBy turns the entry into the address of a running server where a transport
// asks for that: the one given, else the one that a person has set.
func reachBy(s *hosts.Server, transport, root string) error {
	settings := config.New(config.Options{})
	if err := settings.Load(); err != nil {
		return &failure{code: exitFailed, err: err, next: nextForLoad(err)}
	}
	current := settings.Current()
	if transport == "" {
		transport = hosts.Stdio
		if current.Origin("daemon.transport") != config.FromDefault {
			transport = current.Config.Daemon.Transport
		}
	}
	path := map[string]string{hosts.HTTP: "/mcp", hosts.SSE: "/sse"}[transport]
	switch {
	case transport == hosts.Stdio:
		return nil
	case path == "":
		return &failure{code: exitUsage, err: fmt.Errorf("there is no transport %q", transport), next: "choose stdio, http or sse"}
	case root != "":
		return &failure{code: exitUsage, err: fmt.Errorf("over %s the project is that of the running server", transport), next: "leave --root out, or add --transport stdio"}
	}
	addresses := addresses(current.Config.Daemon)
	if len(addresses) == 0 {
		return &failure{code: exitUsage, err: errors.New("daemon.port is 0, so the server has another port each time"), next: "set daemon.port"}
	}
	s.Transport, s.URL = transport, "http://"+addresses[0]+path
	return nil
}

// programPath is the absolute path of this program: as PATH has it, which stays
// the same when a new version is installed.
func programPath() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	if found, err := exec.LookPath(app.Name); err == nil && sameFile(found, self) {
		return filepath.Abs(found)
	}
	if slices.ContainsFunc(strings.Split(filepath.ToSlash(self), "/"), func(part string) bool { return strings.HasPrefix(part, "go-build") }) {
		return "", &failure{code: exitFailed, err: errors.New("this is a temporary build, which hosts will not find again"), next: "build it with 'make build', put bin/" + app.Name + " into your PATH and run that"}
	}
	return self, nil
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// choose takes the hosts with these names, or those that are found.
func (in *installer) choose(names []string) error {
	for _, name := range names {
		h, err := hosts.Named(name)
		if err != nil {
			return &failure{code: exitUsage, err: err}
		}
		if in.project != "" && !h.InProject() {
			return &failure{code: exitUsage, err: fmt.Errorf("%s reads no servers from a project", h.Title), next: "leave --project out"}
		}
		in.hosts = append(in.hosts, h)
	}
	if len(names) > 0 {
		return nil
	}
	for _, h := range hosts.All() {
		switch {
		case in.project != "" && !h.InProject():
		case !in.machine.Present(h):
			in.told = append(in.told, h.Title+": not found")
		default:
			in.hosts = append(in.hosts, h)
		}
	}
	if len(in.hosts) == 0 {
		return &failure{code: exitFailed, err: errors.New("no MCP host is found here"), next: "name one with --host: " + strings.Join(hostNames(), ", ")}
	}
	return nil
}

func (in *installer) plan() error {
	for _, h := range in.hosts {
		changes, err := in.machine.Plan(h, in.want(h))
		if err != nil {
			return &failure{code: exitFailed, err: fmt.Errorf("%s: %w", h.Title, err), next: "mend the file, or leave this host out with --host"}
		}
		if len(changes) == 0 {
			in.told = append(in.told, h.Title+": registered already")
		}
		in.changes = append(in.changes, changes...)
		if in.deny && h.Note != "" {
			in.told = append(in.told, h.Title+": "+h.Note)
		}
	}
	return nil
}

// want is what a host is told: one that cannot connect as wanted starts us.
func (in *installer) want(h *hosts.Host) hosts.Want {
	s := in.server
	switch {
	case s.URL == "" || h.Connects(s.Transport):
	case h.Connects(hosts.HTTP):
		s.Transport, s.URL = hosts.HTTP, strings.TrimSuffix(s.URL, "/sse")+"/mcp"
	default:
		s.Transport, s.URL = "", ""
	}
	return hosts.Want{Server: s, Project: in.project, DenyNative: in.deny}
}

func (in *installer) show() {
	showChanges(in.t, in.changes)
	for _, line := range in.told {
		in.t.print("%s\n", paint(in.t.out, faint, line))
	}
	if in.deny && !shellEnabled() {
		in.t.warn("commands are off (shell.enabled), so agents in these hosts can run none; '%s setup' turns them on", app.Name)
	}
}

// shellEnabled tells whether the user's settings let agents run commands.
func shellEnabled() bool {
	settings := config.New(config.Options{})
	return settings.Load() == nil && settings.Current().Config.Shell.Enabled
}

func (in *installer) apply() error {
	perm := fs.FileMode(0o600)
	if in.project != "" {
		perm = 0o644
	}
	if err := applyChanges(in.t, in.book, in.changes, perm); err != nil {
		return err
	}
	for _, h := range in.hosts {
		left, err := in.machine.Plan(h, in.want(h))
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%s has changed again meanwhile", left[0].Path)
		}
		if err != nil {
			return &failure{code: exitFailed, err: fmt.Errorf("%s: %w", h.Title, err), next: "close the host and run the command again"}
		}
	}
	in.t.say("%s start the hosts anew, then '%s doctor' looks whether all is well", paint(in.t.err, cyan, "next:"), app.Name)
	return nil
}

func applyChanges(t *terminal, book *hosts.Book, changes []hosts.Change, perm fs.FileMode) error {
	for _, c := range changes {
		backup, err := book.Apply(c, perm)
		if err != nil {
			return &failure{code: exitFailed, err: err, next: "what was done before can be taken back with '" + app.Name + " uninstall'"}
		}
		line := c.Path
		if backup != "" {
			line += paint(t.out, faint, "  (as it was: "+filepath.Base(backup)+")")
		}
		t.print("%s %s\n", paint(t.out, green, "written:"), line)
	}
	return nil
}

// showChanges prints what becomes of files, with little of what is around it:
// files of hosts hold secrets of others.
func showChanges(t *terminal, changes []hosts.Change) {
	for _, c := range changes {
		title := c.Host
		if h, err := hosts.Named(c.Host); err == nil {
			title = h.Title
		}
		what := "change"
		switch {
		case c.Before == nil:
			what = "create"
		case c.After == nil:
			what = "remove"
		}
		t.print("%s: %s %s\n", paint(t.out, bold, title), what, c.Path)
		if c.After == nil {
			continue
		}
		for _, line := range shownLines(diff.Lines(c.Before, c.After).Unified("before", "after", 0)) {
			t.print("    %s\n", paintLine(t, line))
		}
	}
}

// shownLines are the lines of a diff that say something: without its headers,
// and without lines of others that only get or lose a comma.
func shownLines(text string) []string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	said := make(map[string]int)
	bare := func(line string) string { return strings.TrimRight(line[1:], ",\r") }
	for _, line := range lines[min(2, len(lines)):] {
		if line != "" {
			said[line[:1]+bare(line)]++
		}
	}
	var shown []string
	for _, line := range lines[min(2, len(lines)):] {
		switch {
		case line == "" || strings.HasPrefix(line, "@@"):
		case strings.TrimSpace(bare(line)) != "" && said["-"+bare(line)] > 0 && said["+"+bare(line)] > 0:
		default:
			shown = append(shown, line)
		}
	}
	return shown
}

// paintLine shows one line of a diff; of one that is too long for people it says
// that much, since it may hold anything.
func paintLine(t *terminal, line string) string {
	const most = 160
	if line = strings.TrimRight(line, "\r"); len(line) > most {
		line = fmt.Sprintf("%s (a line of %d bytes)", line[:1], len(line)-1)
	}
	switch {
	case strings.HasPrefix(line, "+"):
		return paint(t.out, green, line)
	case strings.HasPrefix(line, "-"):
		return paint(t.out, red, line)
	}
	return line
}
