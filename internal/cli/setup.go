package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config/hosts"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/sandbox"
)

func setupCommand(t *terminal) *cobra.Command {
	var a answers
	var yes bool
	cmd := &cobra.Command{
		Use: "setup", Short: "Set the server up: a few questions, then everything in its place", GroupID: "set", Args: cobra.NoArgs,
		Long: "Ask where agents may work, whether they may run commands and what those may write, which hosts to register with\n" +
			"and whether to deny those their own tools. What will change is shown before anything changes, and 'uninstall' takes\n" +
			"it back. With --yes nothing is asked: what no flag says stays as it is, and every host found is registered.",
		Example: "  " + app.Name + " setup\n  " + app.Name + " setup --yes --shell on --deny-native",
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, flag := range []string{"base", "shell", "sandbox", "host", "deny-native"} {
				if cmd.Flags().Changed(flag) {
					a.given = append(a.given, flag)
				}
			}
			return setUp(t, &a, yes)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&yes, "yes", false, "ask nothing")
	fl.StringSliceVar(&a.bases, "base", nil, "a `DIR` that agents may work in, besides the project of a host; may be repeated")
	fl.StringVar(&a.shell, "shell", "", "on or off: whether agents may run commands")
	fl.StringVar(&a.sandbox, "sandbox", "", "what commands may write: "+strings.Join(sandboxModes, ", "))
	fl.StringSliceVar(&a.hosts, "host", nil, "register with this host alone, or none; may be repeated")
	fl.BoolVar(&a.deny, "deny-native", false, "tell hosts not to use their own tools for commands and changes of files")
	_ = cmd.MarkFlagDirname("base")
	_ = cmd.RegisterFlagCompletionFunc("shell", cobra.FixedCompletions([]string{"on", "off"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("sandbox", cobra.FixedCompletions(sandboxModes, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("host", cobra.FixedCompletions(append(hostNames(), "none"), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

var sandboxModes = []string{sandbox.Off, sandbox.WorkspaceWrite, sandbox.Strict, sandbox.ReadOnly}

// answers are what setup needs to know. Those that flags gave are not asked for.
type answers struct {
	bases   []string
	shell   string // on or off
	sandbox string
	hosts   []string
	deny    bool
	given   []string // names of flags
}

func (a *answers) open(flag string) bool { return !slices.Contains(a.given, flag) }

// setUp asks, shows, and does.
func setUp(t *terminal, a *answers, yes bool) error {
	if !yes && !isTerminal(t.in) {
		return needsYes()
	}
	dirs, err := fsys.UserDirs()
	if err != nil {
		return err
	}
	path, current, err := userSettings(dirs)
	if err != nil {
		return err
	}
	in, err := newInstaller(t, "", "", "")
	if err != nil {
		return err
	}
	a.fill(in, current)
	ask := newAsker(t)
	if !yes {
		if err := a.ask(ask); err != nil {
			return err
		}
	}
	if err := a.check(current.Crud.BaseDirectories); err != nil {
		return err
	}
	settings, err := a.settings(path, current)
	if err != nil {
		return err
	}
	in.deny = a.deny
	if names := a.hosts; len(names) > 0 {
		if err := in.choose(names); err != nil {
			return err
		}
	}
	if err := in.plan(); err != nil {
		return err
	}
	if settings != nil {
		showChanges(t, []hosts.Change{*settings})
	}
	showChanges(t, in.changes)
	for _, line := range in.told {
		t.print("%s\n", paint(t.out, faint, line))
	}
	if a.deny && a.shell == "off" {
		t.warn("commands are off, so agents in these hosts can run none")
	}
	if settings == nil && len(in.changes) == 0 {
		t.print("everything is set up already\n")
		return nil
	}
	if !yes {
		if err := ask.confirm("Make these changes?"); err != nil {
			return err
		}
	}
	if settings != nil {
		if err := applyChanges(t, in.book, []hosts.Change{*settings}, 0o600); err != nil {
			return err
		}
	}
	return in.apply()
}

// userSettings reads the user's own file, without what the environment says.
func userSettings(dirs fsys.Dirs) (path string, current config.Config, err error) {
	path = filepath.Join(dirs.Config, config.FileNames()[0])
	if found := settingsFilesIn(dirs.Config); len(found) > 0 {
		path = found[0]
	}
	home, err := fsys.Home()
	if err != nil {
		return "", current, err
	}
	store := config.New(config.Options{Env: []string{"HOME=" + home, "USERPROFILE=" + home}})
	if err := store.Load(); err != nil {
		return "", current, &failure{code: exitFailed, err: err, next: "correct it, then check with '" + app.Name + " config validate'"}
	}
	return path, store.Current().Config, nil
}

// fill answers what flags left open with what holds now, and with every host
// that is found.
func (a *answers) fill(in *installer, current config.Config) {
	if a.open("base") {
		a.bases = slices.Clone(current.Crud.BaseDirectories)
	}
	if a.open("shell") {
		a.shell = map[bool]string{true: "on", false: "off"}[current.Shell.Enabled]
	}
	if a.open("sandbox") {
		a.sandbox = current.Sandbox.Mode
	}
	if slices.Equal(a.hosts, []string{"none"}) {
		a.hosts = nil
	}
	for _, h := range hosts.All() {
		if a.open("host") && in.machine.Present(h) {
			a.hosts = append(a.hosts, h.Name)
		}
	}
}

// ask puts the questions that are open to the person.
func (a *answers) ask(ask *asker) error {
	if a.open("base") {
		text, err := ask.line("Directories that agents may work in, besides the project a host has open, with commas between", strings.Join(a.bases, ","))
		if err != nil {
			return err
		}
		a.bases = words(text)
	}
	if a.open("shell") {
		on, err := ask.yes("May agents run commands, under the policy?", a.shell == "on")
		if err != nil {
			return err
		}
		a.shell = map[bool]string{true: "on", false: "off"}[on]
	}
	if a.open("sandbox") && a.shell == "on" {
		ask.t.say("  this system offers: %s", sandbox.Probe().Best())
		text, err := ask.line("What may commands write: "+strings.Join(sandboxModes, ", ")+"?", a.sandbox)
		if err != nil {
			return err
		}
		a.sandbox = text
	}
	if a.open("host") {
		text, err := ask.line("Hosts to register with, with commas between", strings.Join(a.hosts, ","))
		if err != nil {
			return err
		}
		a.hosts = words(text)
	}
	if a.open("deny-native") && a.canDeny() {
		ask.t.say("  Agents that keep the tools of their host walk around this server.")
		deny, err := ask.yes("Deny these hosts their own tools for commands and changes of files?", false)
		if err != nil {
			return err
		}
		a.deny = deny
	}
	return nil
}

// words splits an answer; "none" has none.
func words(text string) []string {
	var list []string
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" && word != "none" {
			list = append(list, word)
		}
	}
	return list
}

func (a *answers) canDeny() bool {
	return slices.ContainsFunc(a.hosts, func(name string) bool {
		h, err := hosts.Named(name)
		return err == nil && h.Denies()
	})
}

// check refuses what cannot be, before anything is shown.
func (a *answers) check(known []string) error {
	for i, dir := range a.bases {
		if slices.Contains(known, dir) {
			continue
		}
		if rest, ok := strings.CutPrefix(dir, "~"); ok {
			home, err := fsys.Home()
			if err != nil {
				return err
			}
			dir = home + rest
		}
		real, err := fsys.ResolveDir(dir)
		if err != nil {
			return &failure{code: exitUsage, err: fmt.Errorf("base directory: %w", err), next: "name an existing directory"}
		}
		a.bases[i] = real
	}
	if a.shell != "on" && a.shell != "off" {
		return &failure{code: exitUsage, err: fmt.Errorf("commands are on or off, not %q", a.shell)}
	}
	if !slices.Contains(sandboxModes, a.sandbox) {
		return &failure{code: exitUsage, err: fmt.Errorf("there is no sandbox mode %q", a.sandbox), next: "choose " + strings.Join(sandboxModes, ", ")}
	}
	for _, name := range a.hosts {
		if _, err := hosts.Named(name); err != nil {
			return &failure{code: exitUsage, err: err}
		}
	}
	return nil
}

// settings returns what becomes of the user's settings file; nil: nothing.
func (a *answers) settings(path string, current config.Config) (*hosts.Change, error) {
	set := make(map[string]json.RawMessage)
	put := func(key string, same bool, value any) {
		if !same {
			set[key] = json.RawMessage(jsonText(value))
		}
	}
	put("crud.base_directories", slices.Equal(a.bases, current.Crud.BaseDirectories), append([]string{}, a.bases...))
	put("shell.enabled", (a.shell == "on") == current.Shell.Enabled, a.shell == "on")
	put("sandbox.mode", a.sandbox == current.Sandbox.Mode, a.sandbox)
	if len(set) == 0 {
		return nil, nil
	}
	real, err := fsys.ResolveNearest(path)
	if err != nil {
		return nil, err
	}
	c := &hosts.Change{Host: hosts.Own, Path: real}
	if fsys.Exists(real) {
		if c.Before, err = fsys.ReadFile(real, 1<<20); err != nil {
			return nil, err
		}
	}
	if c.After, err = config.EditUser(real, c.Before, set); err != nil {
		return nil, &failure{code: exitFailed, err: err, next: "correct it, then check with '" + app.Name + " config validate'"}
	}
	return c, nil
}
