package layout

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// ARCHITECTURE.md shows the import table as it is, and a line for every room that
// holds code. Rooms of the table without such a line are planned.
func TestArchitectureShowsTheMap(t *testing.T) {
	text := read(t, "ARCHITECTURE.md")
	known := map[string]bool{"layout": true}
	for i, r := range here.Rows {
		row := "| " + r.Name + " | " + strings.Join(r.Packages, " ") + " |"
		if !strings.Contains(text, row) {
			t.Errorf("ARCHITECTURE.md lacks row %d of the import table:\n%s", i, row)
		}
		for _, p := range r.Packages {
			known[p] = true
		}
	}
	drawn := rooms(text)
	for _, p := range list(t, "linux", "") {
		name, ok := strings.CutPrefix(p.ImportPath, Module+"/internal/")
		if _, helper := testHelper(name); ok && !helper && !slices.Contains(drawn, name) {
			t.Errorf("ARCHITECTURE.md has no line for internal/%s", name)
		}
	}
	for _, name := range drawn {
		if !known[name] {
			t.Errorf("ARCHITECTURE.md draws internal/%s, which has no row in the import table", name)
		}
	}
}

// rooms returns the packages that the tree in ARCHITECTURE.md draws below
// internal/: names that end in a slash at the beginning of a line, indented by
// two for a top-level package and by four for one in its folder.
func rooms(text string) []string {
	_, tree, _ := strings.Cut(text, "\ninternal/\n")
	var names []string
	folder := ""
	for line := range strings.Lines(tree) {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if indent == 0 {
			break
		}
		for word := range strings.FieldsSeq(line) {
			name, ok := strings.CutSuffix(word, "/")
			if !ok {
				break
			}
			if indent == 2 {
				folder = name
			} else {
				name = folder + "/" + name
			}
			names = append(names, name)
		}
	}
	return names
}

// seedKeys are the configuration keys of the five seeds, each with the key that
// serves it here, or "" where the map says why there is none.
var seedKeys = []struct{ seed, here string }{
	// 000
	{"shell.enabled", "shell.enabled"},
	{"shell.deny_patterns", "shell.deny_patterns"},
	{"shell.max_command_length", "shell.max_command_length"},
	{"shell.timeout_default", "shell.timeout_default"},
	{"shell.timeout_max", "shell.timeout_max"},
	{"shell.env_inherit", "shell.env_inherit"},
	{"shell.env_strip", "shell.env_strip"},
	{"shell.cwd_override", "shell.cwd_override"},
	{"search.enabled", "search.enabled"},
	{"search.max_results", "search.max_results"},
	{"search.max_file_size_bytes", "search.max_file_size_bytes"},
	{"search.timeout_default", "search.timeout_default"},
	{"shell_enabled", "shell_enabled"},
	{"shell_deny_patterns", "shell_deny_patterns"},
	{"shell_deny_patterns_mode", "shell_deny_patterns_mode"},
	// 001
	{"$schema", "$schema"},
	{"_version", "_version"},
	{"daemon.enabled", "daemon.enabled"},
	{"daemon.host", "daemon.host"},
	{"daemon.port", "daemon.port"},
	{"daemon.transport", "daemon.transport"},
	{"daemon.log_level", "daemon.log_level"},
	{"daemon.config_poll_seconds", "daemon.config_poll_seconds"},
	{"daemon.config_debounce_seconds", "daemon.config_debounce_seconds"},
	{"daemon.session_poll_seconds", "daemon.session_poll_seconds"},
	{"daemon.wait_for_session", "daemon.wait_for_session"},
	{"daemon.health_check_interval", "daemon.health_check_interval"},
	{"crud.base_directories", "crud.base_directories"},
	{"crud.default_timeout", "crud.default_timeout"},
	{"crud.max_timeout", "crud.max_timeout"},
	{"crud.default_encoding", "crud.default_encoding"},
	{"crud.diff_context_lines", "crud.diff_context_lines"},
	{"crud.max_file_size_bytes", "crud.max_file_size_bytes"},
	{"persistence.enabled", "persistence.enabled"},
	{"persistence.state_file", "persistence.state_file"},
	{"persistence.write_debounce_seconds", "persistence.write_debounce_seconds"},
	{"persistence.ttl_multiplier", "persistence.ttl_multiplier"},
	{"watcher.enabled", "watcher.enabled"},
	{"watcher.debounce_ms", "watcher.debounce_ms"},
	// 002
	{"enabled", "shell.enabled"},
	{"default_timeout_secs", "shell.default_timeout_secs"},
	{"restrict_to_project", "shell.restrict_to_project"},
	{"shell", "shell.shell"},
	{"shell_path", "shell.shell_path"},
	{"project_root", ""},
	{"max_completed_jobs", "shell.max_completed_jobs"},
	{"completed_job_ttl_secs", "shell.completed_job_ttl_secs"},
	{"max_concurrent_processes", "shell.max_concurrent_processes"},
	// 004
	{"aliasFiles", "aliases.alias_files"},
	{"allowPatterns", "aliases.allow_patterns"},
	{"denyPatterns", "aliases.deny_patterns"},
	{"defaultCwd", "aliases.default_cwd"},
	{"maxStdoutBytes", "aliases.max_stdout_bytes"},
	{"maxStderrBytes", "aliases.max_stderr_bytes"},
	{"defaultTimeoutSeconds", "aliases.default_timeout_seconds"},
	{"auditLogPath", "aliases.audit_log_path"},
	{"enableHotReload", "aliases.enable_hot_reload"},
	{"transport", "daemon.transport"},
}

func TestEverySeedKeyIsMappedAndDocumented(t *testing.T) {
	seedMap, reference := read(t, "docs/seed-map.md"), read(t, "docs/CONFIG.md")
	for _, k := range seedKeys {
		if !strings.Contains(seedMap, "| `"+k.seed+"`") {
			t.Errorf("docs/seed-map.md has no row for the key %s", k.seed)
		}
		if k.here != "" && !documented(reference, k.here) {
			t.Errorf("docs/CONFIG.md does not document %s, which serves the seeds' %s", k.here, k.seed)
		}
	}
}

// documented reports whether the reference has a row for key in its section, or
// speaks of it where it has none.
func documented(reference, key string) bool {
	section, name, ok := strings.Cut(key, ".")
	if !ok {
		return strings.Contains(reference, "`"+key+"`")
	}
	_, rows, _ := strings.Cut(reference, "\n## "+section+"\n")
	rows, _, _ = strings.Cut(rows, "\n## ")
	return strings.Contains(rows, "\n| `"+name+"` |")
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

func TestDocumentsLinkToWhatExists(t *testing.T) {
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "test/*/*.md", "bench/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range link.FindAllStringSubmatch(string(b), -1) {
				if _, err := os.Stat(filepath.Join(filepath.Dir(f), m[1])); err != nil {
					t.Errorf("%s links to %s, which does not exist", f, m[1])
				}
			}
		}
	}
}
