package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/history/archive"
)

func historyCommand(t *terminal, f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "history", Short: "Look at past contents of files, and bring one back", GroupID: "look", Args: cobra.NoArgs,
		Long: "Look at what files contained before agents and others changed them, and bring a version back. Past\n" +
			"contents outlive the server only with persistence.enabled; without it they are in its memory alone.",
	}
	cmd.AddCommand(historyList(t, f), historyShow(t, f), historyRestore(t, f), historyPurge(t, f))
	return cmd
}

// view opens the database of past contents.
func view(ctx context.Context, a *app.App) (*archive.Reader, error) {
	r, err := archive.View(ctx, a.HistoryFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &failure{code: exitFailed, err: errors.New("there is no history on disk yet"), next: "set persistence.enabled, so that past contents are kept in " + a.HistoryFile()}
	}
	return r, err
}

func absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real, nil
	}
	return abs, nil // it may be gone, which is when its history is wanted
}

func historyList(t *terminal, f *flags) *cobra.Command {
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list [PATH]", Short: "List versions of a file, or of all below a directory, the newest first", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			filter := archive.Filter{Limit: limit}
			if len(args) == 1 {
				var err error
				if filter.Path, err = absolute(args[0]); err != nil {
					return err
				}
			}
			return f.withHistory(cmd, t, func(r *archive.Reader, _ *app.App) error {
				versions, err := r.List(cmd.Context(), filter)
				if err != nil {
					return err
				}
				if asJSON {
					return t.printJSON(records(versions))
				}
				return printVersions(t, versions)
			})
		},
	}
	f.registerSettings(cmd)
	cmd.Flags().IntVar(&limit, "limit", 50, "versions at most; 0 for all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// record is a version as it is printed for programs.
type record struct {
	ID        int64  `json:"id"`
	Path      string `json:"path"`
	Hash      string `json:"hash"`
	SizeBytes int64  `json:"size_bytes"`
	Operation string `json:"operation"`
	Who       string `json:"who"`
	Agent     string `json:"agent,omitempty"`
	When      string `json:"when"`
	Kept      bool   `json:"kept"`
}

func records(versions []archive.Version) []record {
	out := make([]record, 0, len(versions))
	for _, v := range versions {
		out = append(out, record{
			ID: v.ID, Path: v.Path, Hash: v.Hash, SizeBytes: v.Size, Operation: v.Op, Who: who(v), Agent: v.By.Agent,
			When: v.By.Time.UTC().Format(time.RFC3339), Kept: v.Keep,
		})
	}
	return out
}

// who made a version.
func who(v archive.Version) string {
	if v.By.External {
		return "external"
	}
	return v.By.Client
}

func printVersions(t *terminal, versions []archive.Version) error {
	if len(versions) == 0 {
		t.say("no version is kept")
		return nil
	}
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "ID\tWHEN\tWHO\tDID\tBYTES\tKEPT\tPATH")
	for _, v := range versions {
		kept := "yes"
		if !v.Keep {
			kept = "no"
		}
		_, _ = fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%s\t%s\n", v.ID, v.By.Time.Local().Format("2006-01-02 15:04:05"), who(v), v.Op, v.Size, kept, v.Path)
	}
	return w.Flush()
}

func historyShow(t *terminal, f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ID", Short: "Print the content of a version", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.withHistory(cmd, t, func(r *archive.Reader, _ *app.App) error {
				content, _, err := version1(cmd, r, args[0])
				if err != nil {
					return err
				}
				_, err = t.out.Write(content)
				return err
			})
		},
	}
	f.registerSettings(cmd)
	return cmd
}

// version1 returns one version and its content.
func version1(cmd *cobra.Command, r *archive.Reader, arg string) ([]byte, archive.Version, error) {
	id, err := strconv.ParseInt(arg, 10, 64)
	if err != nil {
		return nil, archive.Version{}, &failure{code: exitUsage, err: fmt.Errorf("%q is not the id of a version", arg), next: "'" + app.Name + " history list' shows them"}
	}
	content, v, err := r.Show(cmd.Context(), id)
	switch {
	case errors.Is(err, archive.ErrUnknown):
		return nil, v, &failure{code: exitFailed, err: fmt.Errorf("no version has the id %d", id), next: "'" + app.Name + " history list' shows them"}
	case err != nil:
		return nil, v, err
	case content == nil && v.Size > 0:
		return nil, v, &failure{code: exitFailed, err: errors.New("the content of this version was not kept")}
	}
	return content, v, nil
}

func historyRestore(t *terminal, f *flags) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use: "restore ID", Short: "Bring a version back, as a new change of the file", Args: cobra.ExactArgs(1),
		Long: "Bring a version back: the file gets that content again, in one step, and what it holds now is kept as a\n" +
			"version of its own. With --to another file is written instead.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.withHistory(cmd, t, func(r *archive.Reader, a *app.App) error {
				content, v, err := version1(cmd, r, args[0])
				if err != nil {
					return err
				}
				path := v.Path
				if to != "" {
					if path, err = absolute(to); err != nil {
						return err
					}
				}
				if err := a.Restore(cmd.Context(), v.Project, path, content); err != nil {
					return err
				}
				t.say("%s %s, %d bytes", paint(t.err, green, "restored:"), path, len(content))
				return nil
			})
		},
	}
	f.registerSettings(cmd)
	cmd.Flags().StringVar(&to, "to", "", "write this `FILE` instead")
	return cmd
}

func historyPurge(t *terminal, f *flags) *cobra.Command {
	var all bool
	var older time.Duration
	cmd := &cobra.Command{
		Use: "purge [PATH]", Short: "Forget versions for good", Args: cobra.MaximumNArgs(1),
		Example: "  " + app.Name + " history purge secrets.txt\n  " + app.Name + " history purge --older-than 168h",
		RunE: func(cmd *cobra.Command, args []string) error {
			filter := archive.Filter{}
			if len(args) == 1 {
				var err error
				if filter.Path, err = absolute(args[0]); err != nil {
					return err
				}
			}
			if older > 0 {
				filter.Before = time.Now().Add(-older)
			}
			if filter.Path == "" && filter.Before.IsZero() && !all {
				return &failure{code: exitUsage, err: errors.New("this would forget everything"), next: "name a path, give --older-than, or mean it with --all"}
			}
			return f.withHistory(cmd, t, func(r *archive.Reader, _ *app.App) error {
				n, err := r.Purge(cmd.Context(), filter)
				if err != nil {
					return err
				}
				t.say("%s %d versions", paint(t.err, green, "forgotten:"), n)
				return nil
			})
		},
	}
	f.registerSettings(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "forget every version")
	cmd.Flags().DurationVar(&older, "older-than", 0, "only versions older than this, such as 168h")
	return cmd
}

// withHistory loads the settings and runs do with the database they name.
func (f *flags) withHistory(cmd *cobra.Command, t *terminal, do func(*archive.Reader, *app.App) error) error {
	a, err := f.load(cmd, t, "call")
	if err != nil {
		return err
	}
	defer a.Close()
	r, err := view(cmd.Context(), a)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	return do(r, a)
}
