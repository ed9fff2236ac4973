package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/project"
)

func configCommand(t *terminal, f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Make, show, edit and check settings", GroupID: "set", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(configInit(t), configShow(t, f), configEdit(t, f), configValidate(t, f), configSchema(t))
	return cmd
}

func configInit(t *terminal) *cobra.Command {
	var format, project string
	var force bool
	cmd := &cobra.Command{
		Use: "init", Short: "Write a starter file with every setting explained", Args: cobra.NoArgs,
		Example: "  " + app.Name + " config init --format yaml\n  " + app.Name + " config init --project .",
		RunE: func(*cobra.Command, []string) error {
			path, err := writeStarter(format, project, force)
			if err != nil {
				return err
			}
			t.say("%s %s", paint(t.err, green, "written:"), path)
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", "json", "json, yaml or toml")
	cmd.Flags().StringVar(&project, "project", "", "write the project's own file into this `DIR` instead of the user's")
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing file")
	_ = cmd.MarkFlagDirname("project")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"json", "yaml", "toml"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// writeStarter writes the user's file or, with project, that of a project.
func writeStarter(format, project string, force bool) (string, error) {
	dir, fill := "", config.Init
	if project == "" {
		dirs, err := fsys.UserDirs()
		if err != nil {
			return "", err
		}
		dir = dirs.Config
	} else {
		root, err := fsys.ResolveDir(project)
		if err != nil {
			return "", &failure{code: exitFailed, err: err, next: "name an existing project directory"}
		}
		project, dir, fill = root, filepath.Join(root, config.ProjectDir), config.InitProject
	}
	var text bytes.Buffer
	if err := fill(format, &text); err != nil {
		return "", &failure{code: exitUsage, err: err}
	}
	path := filepath.Join(dir, "config."+format)
	for _, other := range settingsFilesIn(dir) {
		switch {
		case other != path:
			return "", &failure{code: exitFailed, err: fmt.Errorf("%s exists already, and of two files only one counts", other), next: "edit it with '" + app.Name + " config edit', or move it away first"}
		case !force:
			return "", &failure{code: exitFailed, err: fmt.Errorf("%s exists already", path), next: "edit it with '" + app.Name + " config edit', or write anew with --force"}
		}
	}
	if project != "" { // whose folder could be a link that leads elsewhere
		return path, fsys.WriteFileIn(project, filepath.Join(config.ProjectDir, filepath.Base(path)), text.Bytes(), 0o644)
	}
	if err := fsys.MkdirPrivate(dir); err != nil {
		return "", err
	}
	return path, fsys.WriteFile(path, text.Bytes(), 0o600)
}

// settingsFilesIn lists the settings files in dir; the first counts.
func settingsFilesIn(dir string) []string {
	var found []string
	for _, name := range config.FileNames() {
		if path := filepath.Join(dir, name); fsys.Exists(path) {
			found = append(found, path)
		}
	}
	return found
}

func configShow(t *terminal, f *flags) *cobra.Command {
	var origin, asJSON, changed bool
	cmd := &cobra.Command{
		Use: "show [SECTION]", Short: "Show the settings in force, with --origin where each comes from", Args: cobra.MaximumNArgs(1),
		ValidArgs: config.SectionNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			section := ""
			if len(args) == 1 {
				section = args[0]
			}
			a, err := f.load(cmd, t, "call")
			if err != nil {
				return err
			}
			defer a.Close()
			settings, active, err := a.Projects.Settings(cmd.Context())
			if err != nil {
				return err
			}
			values := settings.Values(section)
			if len(values) == 0 {
				return &failure{code: exitUsage, err: fmt.Errorf("there is no section %q", section), next: "sections are " + strings.Join(config.SectionNames(), ", ")}
			}
			for _, text := range warningsOf(settings, active) {
				t.warn("%s", text)
			}
			if changed {
				values = notDefault(values)
			}
			if asJSON {
				return t.printJSON(values)
			}
			return printValues(t, values, origin)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&origin, "origin", false, "show where each value comes from")
	cmd.Flags().BoolVar(&changed, "changed", false, "show only what is not a default")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with origins")
	return cmd
}

// warningsOf says what of the settings does not apply; active may be nil.
func warningsOf(settings *config.Snapshot, active *project.Active) []string {
	if active != nil {
		return active.Warnings()
	}
	var texts []string
	for _, w := range settings.Warnings() {
		texts = append(texts, w.String())
	}
	return texts
}

func notDefault(values []config.Value) []config.Value {
	var out []config.Value
	for _, v := range values {
		if v.Origin != config.FromDefault {
			out = append(out, v)
		}
	}
	return out
}

func printValues(t *terminal, values []config.Value, origin bool) error {
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	for _, v := range values {
		line := v.Key + " = " + jsonText(v.Value)
		if origin {
			line += "\t# " + string(v.Origin)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return w.Flush()
}

func jsonText(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func configValidate(t *terminal, f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "validate [FILE]", Short: "Check the settings, or one file", Args: cobra.MaximumNArgs(1),
		Long: "Check the user's settings, or FILE in their place, together with the project's own: that of --root or of the\n" +
			"current directory. The exit code is 1 when something is refused; what is merely ignored is a warning.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.config = args[0]
			}
			return validate(cmd, t, f)
		},
	}
	f.registerSettings(cmd)
	cmd.Flags().StringVar(&f.root, "root", "", "the project directory whose file is checked too")
	_ = cmd.MarkFlagDirname("root")
	return cmd
}

// validate builds the server with the settings, so that every part has its say,
// and starts nothing.
func validate(cmd *cobra.Command, t *terminal, f *flags) error {
	a, err := f.load(cmd, t, "call")
	if err != nil {
		return &failure{code: exitFailed, err: err, next: "correct it; '" + app.Name + " config show' lists every key"}
	}
	defer a.Close()
	settings, active, err := a.Projects.Settings(cmd.Context())
	if err != nil {
		return err
	}
	files := []string{a.Settings.UserFile()}
	if active != nil {
		path, raw, err := config.ReadProjectFile(active.Root)
		if err == nil {
			_, err = a.Settings.Preview(active.Root, path, raw, active.Trusted())
		}
		if err != nil {
			return &failure{code: exitFailed, err: err, next: "correct it; '" + app.Name + " config show' lists every key"}
		}
		files = append(files, path)
	}
	for _, text := range warningsOf(settings, active) {
		t.warn("%s", text)
	}
	files = slices.DeleteFunc(files, func(path string) bool { return path == "" })
	if len(files) == 0 {
		files = []string{"no settings file; the defaults hold"}
	}
	for _, file := range files {
		t.print("%s %s\n", paint(t.out, green, "ok:"), file)
	}
	return nil
}

func configEdit(t *terminal, f *flags) *cobra.Command {
	return &cobra.Command{
		Use: "edit", Short: "Open the user's settings in $VISUAL or $EDITOR, then check them", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dirs, err := fsys.UserDirs()
			if err != nil {
				return err
			}
			path := filepath.Join(dirs.Config, config.FileNames()[0])
			found := settingsFilesIn(dirs.Config)
			if len(found) > 0 {
				path = found[0]
			}
			editor, err := editorWords(path)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				if err := fsys.MkdirPrivate(dirs.Config); err != nil {
					return err
				}
				if err := fsys.WriteFile(path, []byte("{\n}\n"), 0o600); err != nil {
					return err
				}
			}
			if err := runEditor(cmd, t, append(editor, path)); err != nil {
				return err
			}
			f.config = path
			return validate(cmd, t, f)
		},
	}
}

// editorWords returns the person's editor; "code --wait" is usual.
func editorWords(path string) ([]string, error) {
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if words := strings.Fields(os.Getenv(name)); len(words) > 0 {
			return words, nil
		}
	}
	return nil, &failure{code: exitFailed, err: errors.New("neither VISUAL nor EDITOR is set"), next: "edit " + path + " yourself, then run '" + app.Name + " config validate'"}
}

func runEditor(cmd *cobra.Command, t *terminal, words []string) error {
	run := exec.CommandContext(cmd.Context(), words[0], words[1:]...)
	run.Stdin, run.Stdout, run.Stderr = t.in, t.out, t.err
	if err := run.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return &failure{code: exitFailed, err: err, next: "set EDITOR to an editor that is installed"}
		}
		return fmt.Errorf("editor %s: %w", words[0], err)
	}
	return nil
}

func configSchema(t *terminal) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of settings files", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return t.printJSON(config.JSONSchema()) },
	}
}
