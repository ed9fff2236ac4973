package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config/hosts"
	"github.com/async-crud-mcp/async-crud-mcp/internal/daemon/control"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

func uninstallCommand(t *terminal) *cobra.Command {
	var names []string
	var dryRun, purge, yes bool
	cmd := &cobra.Command{
		Use: "uninstall", Short: "Take back what quick-install and setup did", GroupID: "set", Args: cobra.NoArgs,
		Long: "Take back what quick-install and setup did, file by file: a file that nobody has touched since is as it was before,\n" +
			"from others only our own entries go. --purge also removes this program's own files: settings, trust, history,\n" +
			"record of calls and logs. The program itself stays.",
		Example: "  " + app.Name + " uninstall --dry-run\n  " + app.Name + " uninstall --host codex\n  " + app.Name + " uninstall --purge",
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range names {
				if _, err := hosts.Named(name); err != nil {
					return &failure{code: exitUsage, err: err}
				}
			}
			dirs, err := fsys.UserDirs()
			if err != nil {
				return err
			}
			return uninstall(cmd.Context(), t, dirs, uninstallOptions{names, dryRun, purge, yes})
		},
	}
	cmd.Flags().StringSliceVar(&names, "host", nil, "take it back from this host alone; may be repeated")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would change, and change nothing")
	cmd.Flags().BoolVar(&purge, "purge", false, "remove this program's own files too")
	cmd.Flags().BoolVar(&yes, "yes", false, "ask nothing")
	cmd.MarkFlagsMutuallyExclusive("host", "purge")
	_ = cmd.RegisterFlagCompletionFunc("host", cobra.FixedCompletions(hostNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

type uninstallOptions struct {
	hosts              []string
	dryRun, purge, yes bool
}

func uninstall(ctx context.Context, t *terminal, dirs fsys.Dirs, o uninstallOptions) error {
	book := hosts.NewBook(dirs.Data)
	changes, err := book.Undo(o.hosts...)
	if err != nil {
		return &failure{code: exitFailed, err: err, next: "mend the file by hand; the copy beside it has the bytes from before"}
	}
	var ours []string
	if o.purge {
		if ours, err = ownFiles(dirs); err != nil {
			return err
		}
	}
	if len(changes)+len(ours) == 0 {
		t.print("there is nothing to take back\n")
		return nil
	}
	showUndo(t, changes)
	for _, path := range ours {
		t.print("remove %s\n", path)
	}
	if o.dryRun {
		return nil
	}
	if o.purge {
		if err := confirm(t, o.yes, "Remove them?"); err != nil {
			return err
		}
		if err := endIdle(ctx, dirs); err != nil {
			return err
		}
		if ours, err = ownFiles(dirs); err != nil { // with what it wrote last
			return err
		}
	}
	for _, c := range changes {
		if err := book.TakeBack(c); err != nil {
			return &failure{code: exitFailed, err: err}
		}
	}
	if err := removeOwn(t, dirs, ours); err != nil {
		return err
	}
	t.print("%s\n", paint(t.out, green, "done"))
	return nil
}

func showUndo(t *terminal, changes []hosts.Change) {
	for _, c := range changes {
		switch {
		case c.Note != "":
			t.print("%s: %s: %s\n", c.Host, c.Path, c.Note)
		case c.After != nil && string(c.After) == string(c.Before):
			t.print("%s: %s: our entries are gone already\n", c.Host, c.Path)
		default:
			showChanges(t, []hosts.Change{c})
		}
	}
}

// endIdle ends the daemon that works with our files, unless somebody uses it. A
// host that was just closed may take a moment to leave.
func endIdle(ctx context.Context, dirs fsys.Dirs) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client := control.Client{Dirs: dirs, Build: version}
	for patience := 50; ; patience-- {
		err := client.Stop(ctx, true)
		if err == nil || errors.Is(err, control.ErrAbsent) {
			return nil
		}
		refused, busy := errors.AsType[*control.Refused](err)
		if busy = busy && refused.Answer.Code == control.CodeBusy; !busy || patience == 0 {
			return &failure{code: exitFailed, err: fmt.Errorf("these files are in use: %w", err), next: "close the hosts, then run this again"}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ownNames are the files that this program makes in its directories. What else
// may be there belongs to somebody else.
var ownNames = []string{
	"config.json", "config.yaml", "config.yml", "config.toml", "config.*." + hosts.ServerName + ".bak*",
	app.TrustFile, app.TrustFile + ".lock", hosts.BookFile, "hosts.lock",
	app.HistoryFile, app.HistoryFile + "-*", app.HistoryFile + ".*", app.JobsFile, app.JobsFile + "-*",
	"roots.json", "roots.json.lock", "daemon*.lock", "daemon*.log", "journal", "spool", "run",
	"server.log", "server-*.log*", "server.log.lock", "audit.jsonl", "audit.*.jsonl", "audit.jsonl.lock", "aliases-audit.log", "aliases-audit.*.log", "aliases-audit.log.lock",
}

// ownFiles lists what is ours in our directories.
func ownFiles(dirs fsys.Dirs) ([]string, error) {
	var found []string
	for _, dir := range ownDirs(dirs) {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if slices.ContainsFunc(ownNames, func(pattern string) bool {
				ok, err := filepath.Match(pattern, e.Name())
				return ok && err == nil
			}) {
				found = append(found, filepath.Join(dir, e.Name()))
			}
		}
	}
	return found, nil
}

func ownDirs(dirs fsys.Dirs) []string {
	all := []string{dirs.Config, dirs.Data, dirs.Log}
	slices.Sort(all)
	return slices.Compact(all)
}

// removeOwn removes files and then directories of ours that are empty.
func removeOwn(t *terminal, dirs fsys.Dirs, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			return &failure{code: exitFailed, err: err}
		}
	}
	for _, dir := range slices.Backward(ownDirs(dirs)) {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		var left []string
		for _, e := range entries {
			left = append(left, e.Name())
		}
		t.say("left in %s, since it is not ours: %s", dir, strings.Join(left, ", "))
	}
	return nil
}

// bytesText shows a size as people read it.
func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	default:
		return fmt.Sprintf("%d MiB", n>>20)
	}
}
