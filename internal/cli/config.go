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
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

func configCommand(t *terminal, f *flags) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Make, show, edit and check settings", GroupID: "set", Args: cobra.NoArgs}
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
			dir, err := initDir(project)
			if err != nil {
				return err
			}
			var text bytes.Buffer
			if err := config.Init(format, &text); err != nil {
				return &failure{code: exitUsage, err: err}
			}
			path := filepath.Join(dir, "config."+format)
			if other := settingsFileIn(dir); other != "" && !force {
				return &failure{code: exitFailed, err: fmt.Errorf("%s exists already", other), next: "edit it with '" + app.Name + " config edit', or write anew with --force"}
			}
			if err := fsys.MkdirPrivate(dir); err != nil {
				return err
			}
			if err := fsys.WriteFile(path, text.Bytes(), 0o600); err != nil {
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

func initDir(project string) (string, error) {
	if project == "" {
		dirs, err := fsys.UserDirs()
		return dirs.Config, err
	}
	root, err := fsys.ResolveDir(project)
	if err != nil {
		return "", &failure{code: exitFailed, err: err, next: "name an existing project directory"}
	}
	return filepath.Join(root, config.ProjectDir), nil
}

func settingsFileIn(dir string) string {
	for _, name := range config.FileNames() {
		if path := filepath.Join(dir, name); fsys.Exists(path) {
			return path
		}
	}
	return ""
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
			settings, _, err := a.Projects.Settings(cmd.Context())
			if err != nil {
				return err
			}
			values := settings.Values(section)
			if len(values) == 0 {
				return &failure{code: exitUsage, err: fmt.Errorf("there is no section %q", section), next: "sections are " + strings.Join(config.SectionNames(), ", ")}
			}
			for _, w := range settings.Warnings() {
				t.warn("%s", w)
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
		Long: "Check the settings in force, or one file as a user's own. The exit code is 1 when something is refused;\n" +
			"what is merely ignored is a warning.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.config = args[0]
			}
			st := config.New(f.settings(cmd))
			if err := st.Load(); err != nil {
				return &failure{code: exitFailed, err: err, next: "correct it; '" + app.Name + " config show' lists every key"}
			}
			for _, w := range st.Current().Warnings() {
				t.warn("%s", w)
			}
			file := st.UserFile()
			if file == "" {
				file = "no settings file; the defaults hold"
			}
			t.print("%s %s\n", paint(t.out, green, "ok:"), file)
			return nil
		},
	}
	f.registerSettings(cmd)
	return cmd
}

func configEdit(t *terminal, f *flags) *cobra.Command {
	return &cobra.Command{
		Use: "edit", Short: "Open the user's settings in $VISUAL or $EDITOR, then check them", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dirs, err := fsys.UserDirs()
			if err != nil {
				return err
			}
			path := settingsFileIn(dirs.Config)
			if path == "" {
				path = filepath.Join(dirs.Config, config.FileNames()[0])
				if err := fsys.MkdirPrivate(dirs.Config); err != nil {
					return err
				}
				if err := fsys.WriteFile(path, []byte("{\n}\n"), 0o600); err != nil {
					return err
				}
			}
			if err := runEditor(cmd, t, path); err != nil {
				return err
			}
			check := configValidate(t, f)
			return check.RunE(check, []string{path})
		},
	}
}

func runEditor(cmd *cobra.Command, t *terminal, path string) error {
	editor := os.Getenv("VISUAL")
	if editor == "" {
		editor = os.Getenv("EDITOR")
	}
	if editor == "" {
		return &failure{code: exitFailed, err: errors.New("neither VISUAL nor EDITOR is set"), next: "edit " + path + " yourself, then run '" + app.Name + " config validate'"}
	}
	words := strings.Fields(editor) // "code --wait" is usual
	run := exec.CommandContext(cmd.Context(), words[0], append(words[1:], path)...)
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
