package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config/hosts"
	"github.com/async-crud-mcp/async-crud-mcp/internal/daemon/control"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/localsock"
	"github.com/async-crud-mcp/async-crud-mcp/internal/project"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/sandbox"
)

// The levels of a finding, from the best to the worst.
const (
	levelOK      = "ok"
	levelNote    = "note" // worth knowing
	levelWarning = "warning"
	levelError   = "error" // something does not work
)

var levels = []string{levelOK, levelNote, levelWarning, levelError}

// finding is one thing that doctor looked at.
type finding struct {
	Check  string `json:"check"`
	Level  string `json:"level"`
	Detail string `json:"detail"`
	Cure   string `json:"cure,omitempty"`
}

// diagnosis is everything that doctor found.
type diagnosis struct {
	Status   string    `json:"status"` // the worst level
	Version  string    `json:"version"`
	Findings []finding `json:"findings"`
}

func doctorCommand(t *terminal, f *flags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look whether everything is as it should be", GroupID: "look", Args: cobra.NoArgs,
		Long: "Look at the settings, this program's directories and files, the socket and the port, the limits of the system, the\n" +
			"sandbox, the space on disk and the registration with each host, and say what to do about what is wrong. Nothing is\n" +
			"changed. The exit code is 1 when something does not work; a warning alone does not change it.",
		Example: "  " + app.Name + " doctor\n  " + app.Name + " doctor --root . --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := examine(cmd, t, f)
			if err != nil {
				return err
			}
			if asJSON {
				if err := t.printJSON(d); err != nil {
					return err
				}
			} else {
				d.show(t)
			}
			if d.Status == levelError {
				return &failure{code: exitFailed, err: errors.New("something does not work"), silent: true}
			}
			return nil
		},
	}
	f.registerSettings(cmd)
	cmd.Flags().StringVar(&f.root, "root", "", "the project directory to look at (default: the current one, if it is a project)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	_ = cmd.MarkFlagDirname("root")
	return cmd
}

func (d *diagnosis) show(t *terminal) {
	colour := map[string]string{levelOK: green, levelNote: cyan, levelWarning: yellow, levelError: red}
	for _, f := range d.Findings {
		t.print("%s %-13s %s\n", paint(t.out, colour[f.Level], fmt.Sprintf("%-7s", f.Level)), f.Check, f.Detail)
		if f.Cure != "" {
			t.print("%21s %s %s\n", "", paint(t.out, cyan, "cure:"), f.Cure)
		}
	}
}

// doctor collects findings.
type doctor struct {
	ctx      context.Context //nolint:containedctx // it lives as long as one command
	dirs     fsys.Dirs
	app      *app.App      // nil when the settings are refused
	settings config.Config // the defaults then
	project  string        // "": none
	found    []finding
}

func (d *doctor) add(check, level, detail, cure string) {
	d.found = append(d.found, finding{check, level, detail, cure})
}

func examine(cmd *cobra.Command, t *terminal, f *flags) (*diagnosis, error) {
	dirs, err := fsys.UserDirs()
	if err != nil {
		return nil, err
	}
	d := &doctor{ctx: cmd.Context(), dirs: dirs, settings: config.New(config.Options{Env: []string{}}).Current().Config}
	d.add("program", levelOK, versionText(), "")
	if f.root != "" {
		if d.project, err = fsys.ResolveDir(f.root); err != nil {
			return nil, &failure{code: exitUsage, err: fmt.Errorf("--root: %w", err), next: "name an existing directory"}
		}
	} else if cwd, err := os.Getwd(); err == nil && project.LooksLikeProject(cwd) {
		d.project = cwd
	}
	d.lookAtSettings(cmd, t, f)
	if d.app != nil {
		defer d.app.Close()
	}
	d.lookAtDirectories()
	d.lookAtDisk()
	d.lookAtData()
	d.lookAtDaemon()
	d.lookAtPort()
	d.lookAtWatching()
	d.lookAtSandbox()
	if err := d.lookAtHosts(); err != nil {
		return nil, err
	}
	out := &diagnosis{Status: levelOK, Version: version, Findings: d.found}
	for _, f := range d.found {
		if slices.Index(levels, f.Level) > slices.Index(levels, out.Status) {
			out.Status = f.Level
		}
	}
	return out, nil
}

func (d *doctor) lookAtSettings(cmd *cobra.Command, t *terminal, f *flags) {
	const check = "settings"
	a, err := f.load(cmd, t, "call")
	if err != nil {
		d.add(check, levelError, err.Error(), "correct it; '"+app.Name+" config validate' checks it")
		return
	}
	d.app, d.settings = a, a.Settings.Current().Config
	current, active, err := a.Projects.Settings(cmd.Context())
	if err != nil {
		d.add(check, levelError, err.Error(), "'"+app.Name+" config validate' says more")
		return
	}
	d.settings = current.Config
	file := a.Settings.UserFile()
	if file == "" {
		file = "no file; the defaults hold"
	}
	d.add(check, levelOK, file, "")
	for _, text := range warningsOf(current, active) {
		d.add(check, levelWarning, text, "'"+app.Name+" config show --origin' shows what holds")
	}
}

func (d *doctor) lookAtDirectories() {
	const check = "directories"
	for _, dir := range ownDirs(d.dirs) {
		info, err := os.Stat(dir)
		switch {
		case os.IsNotExist(err):
			d.add(check, levelOK, dir+" is made when it is needed", "")
		case err != nil:
			d.add(check, levelError, err.Error(), "make it readable for you")
		case !info.IsDir():
			d.add(check, levelError, dir+" is not a directory", "move it away")
		case runtime.GOOS != "windows" && info.Mode().Perm()&0o700 != 0o700:
			d.add(check, levelError, dir+" cannot be written", "chmod 700 "+dir)
		case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
			d.add(check, levelWarning, dir+" can be entered by other users", "chmod 700 "+dir)
		default:
			d.add(check, levelOK, dir, "")
		}
	}
	files := append(settingsFilesIn(d.dirs.Config), filepath.Join(d.dirs.Config, app.TrustFile), filepath.Join(d.dirs.Data, hosts.BookFile))
	if d.settings.Daemon.Token != nil {
		files = append(files, *d.settings.Daemon.Token)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
			d.add(check, levelError, file+" can be written by other users", "look at what it says, then chmod 600 "+file)
		}
	}
}

// What disks should have left.
const (
	littleSpace = 1 << 30
	noSpace     = 100 << 20
)

func (d *doctor) lookAtDisk() {
	seen := make(map[int64]bool)
	places := ownDirs(d.dirs)
	if d.project != "" {
		places = append(places, d.project)
	}
	for _, dir := range places {
		for !fsys.Exists(dir) && filepath.Dir(dir) != dir {
			dir = filepath.Dir(dir)
		}
		free, err := fsys.Free(dir)
		if err != nil {
			d.add("disk", levelWarning, fmt.Sprintf("the free space of %s is unknown: %v", dir, err), "")
			continue
		}
		if seen[free>>20] { // the same disk
			continue
		}
		seen[free>>20] = true
		level, cure := levelOK, ""
		switch {
		case free < noSpace:
			level, cure = levelError, "free some space: changes of files are refused when the disk is full"
		case free < littleSpace:
			level, cure = levelWarning, "free some space"
		}
		d.add("disk", level, bytesText(free)+" free at "+dir, cure)
	}
}

// lookAtDaemon asks the server that the sessions of this user share.
func (d *doctor) lookAtDaemon() {
	const check = "daemon"
	path := localsock.Path(d.dirs.Data)
	client := control.Client{Dirs: d.dirs, Build: version}
	s, err := client.Status(d.ctx)
	switch {
	case errors.Is(err, control.ErrAbsent):
		d.add(check, levelOK, "none runs; the first session starts one", "")
		return
	case errors.Is(err, localsock.ErrStranger):
		d.add(check, levelError, path+": "+err.Error(), "find out who made it; remove it as that user or as root")
		return
	case err != nil:
		d.add(check, levelError, path+": "+err.Error(), "end the program that holds it, or remove it when there is none")
		return
	}
	detail := fmt.Sprintf("pid %d, %s, %d clients, %d commands", s.PID, s.Build, len(s.Clients), s.RunningJobs)
	if s.Build != version || s.Protocol != control.Protocol {
		d.add(check, levelWarning, detail+"; this program is "+version, "close the hosts; the next session starts a daemon of its own version once this one is idle")
	} else {
		d.add(check, levelOK, detail, "")
	}
	for _, f := range s.Health.Findings {
		d.add(check, levelWarning, f.Part+": "+f.Detail, f.Cure)
	}
}

func (d *doctor) lookAtPort() {
	const check = "port"
	daemon := d.settings.Daemon
	if daemon.Port == nil {
		d.add(check, levelOK, fmt.Sprintf("the first free one of %d to %d, from %d on", config.FirstPort, config.FirstPort+config.PortRange-1, config.UserPort(userName())), "")
		return
	}
	address := net.JoinHostPort(strings.Trim(daemon.Host, "[]"), strconv.Itoa(*daemon.Port))
	ln, err := new(net.ListenConfig).Listen(d.ctx, "tcp", address)
	if err == nil {
		_ = ln.Close() // nobody has connected
		d.add(check, levelOK, address+" is free for serve", "")
		return
	}
	if d.app != nil {
		if server, url, err := runningServer(d.ctx, d.app); err == nil {
			server.Close()
			d.add(check, levelOK, "a server of ours answers at "+url, "")
			return
		}
	}
	if holder := localsock.HolderOf(*daemon.Port); holder.PID != 0 {
		d.add(check, levelWarning, address+" is taken by "+holder.String(), "end it, or choose another: daemon.port, serve --port")
		return
	}
	d.add(check, levelWarning, fmt.Sprintf("serve cannot listen there: %v", err), "choose another: daemon.host and daemon.port")
}

// lookAtWatching compares what the kernel lets this user watch with the project.
func (d *doctor) lookAtWatching() {
	const check = "watching"
	if !d.settings.Watcher.Enabled {
		d.add(check, levelNote, "off (watcher.enabled): changes by others are noticed when a file is used", "")
		return
	}
	if runtime.GOOS != "linux" {
		return
	}
	raw, err := os.ReadFile("/proc/sys/fs/inotify/max_user_watches")
	limit, errNumber := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || errNumber != nil {
		d.add(check, levelWarning, "the kernel's limit for watches is unknown", "")
		return
	}
	if d.project == "" {
		d.add(check, levelOK, fmt.Sprintf("%d directories may be watched", limit), "")
		return
	}
	const most = 200_000
	count := countDirectories(d.ctx, d.project, most)
	detail := fmt.Sprintf("%d of %d watches are needed for %s", count, limit, d.project)
	if count >= most {
		detail = fmt.Sprintf("more than %d of %d watches are needed for %s", most, limit, d.project)
	}
	if count > limit/2 { // what is left is for others
		d.add(check, levelWarning, detail+"; the rest is looked at in an interval", fmt.Sprintf("sudo sysctl fs.inotify.max_user_watches=%d", max(1<<19, 4*count)))
		return
	}
	d.add(check, levelOK, detail, "")
}

// countDirectories counts those below root, up to a bound.
func countDirectories(ctx context.Context, root string, most int) int {
	count := 0
	_ = filepath.WalkDir(root, func(_ string, e os.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return nil //nolint:nilerr // what cannot be entered cannot be watched either
		}
		if count++; count >= most || ctx.Err() != nil {
			return filepath.SkipAll
		}
		if e.Name() == ".git" {
			return filepath.SkipDir
		}
		return nil
	})
	return count
}

func (d *doctor) lookAtSandbox() {
	const check = "sandbox"
	s := sandbox.Probe()
	switch {
	case !d.settings.Shell.Enabled:
		d.add(check, levelOK, "commands are off (shell.enabled); this system offers "+s.Best(), "")
	case d.settings.Sandbox.Mode == sandbox.Off:
		d.add(check, levelWarning, "commands run without a sandbox (sandbox.mode: off)", "set sandbox.mode to workspace-write or strict")
	case s.Best() == sandbox.None:
		level := levelWarning
		if d.settings.Sandbox.Require {
			level = levelError // then no command runs
		}
		d.add(check, level, "commands cannot be confined here: "+s.Why(), "install bubblewrap, or a kernel with Landlock")
	case s.Best() == sandbox.Landlock:
		d.add(check, levelNote, d.settings.Sandbox.Mode+" through Landlock, which cannot protect .git/hooks and .git/config", "install bubblewrap")
	default:
		d.add(check, levelOK, d.settings.Sandbox.Mode+" through "+s.Best(), "")
	}
}
