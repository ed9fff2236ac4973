package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
	"github.com/async-crud-mcp/async-crud-mcp/internal/pattern"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// userDir gives the test a configuration directory of its own.
func userDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("ASYNC_CRUD_MCP_HOME", dir)
	return dir
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// projectDir returns a project whose configuration file of the given name holds
// text.
func projectDir(t *testing.T, name, text string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, ProjectDir, name), text)
	return root
}

func loaded(t *testing.T, o Options) *Store {
	t.Helper()
	if o.Env == nil {
		o.Env = []string{"HOME=/home/u"}
	}
	st := New(o)
	if err := st.Load(); err != nil {
		t.Fatal(err)
	}
	return st
}

// fromFile loads one user file.
func fromFile(t *testing.T, name, text string) (*Snapshot, error) {
	t.Helper()
	st := New(Options{UserFile: write(t, filepath.Join(t.TempDir(), name), text), Env: []string{"HOME=/home/u"}})
	err := st.Load()
	return st.Current(), err
}

func warningTexts(s *Snapshot) string {
	var all []string
	for _, w := range s.Warnings() {
		all = append(all, w.String())
	}
	return strings.Join(all, "\n")
}

func wantContains(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("got %q, want it to contain %q", got, w)
		}
	}
}

func TestDefaultsAreThoseOfTheDocuments(t *testing.T) {
	userDir(t)
	c := loaded(t, Options{}).Current().Config
	for name, pair := range map[string][2]any{
		"port":            {*c.Daemon.Port, 8720},
		"host":            {c.Daemon.Host, "127.0.0.1"},
		"poll":            {c.Daemon.ConfigPollSeconds, 3.0},
		"debounce":        {c.Daemon.ConfigDebounceSeconds, 1.0},
		"max file":        {c.Crud.MaxFileSizeBytes, int64(10 << 20)},
		"default timeout": {c.Crud.DefaultTimeout, 30.0},
		"shell":           {c.Shell.Enabled, false},
		"shell timeout":   {c.Shell.TimeoutDefault, 120.0},
		"strip":           {c.Shell.EnvStrip[0], "CLAUDECODE"},
		"jobs":            {c.Shell.MaxCompletedJobs, 100},
		"search":          {c.Search.MaxResults, 1000},
		"aliases":         {c.Aliases.DefaultTimeoutSeconds, 20.0},
		"alias deny":      {c.Aliases.DenyPatterns[0], `^rm\b`},
		"cwd":             {c.Aliases.DefaultCwd, "/home/u"},
		"sandbox":         {c.Sandbox.Mode, "workspace-write"},
		"toolsets":        {c.Daemon.Toolsets == nil, true},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s = %v, want %v", name, pair[0], pair[1])
		}
	}
}

// The layers of DESIGN, lowest first; each test adds one and expects it to win.
func TestHigherLayersWin(t *testing.T) {
	dir := userDir(t)
	root := projectDir(t, "config.json", `{"crud": {"default_timeout": 20}}`)
	steps := []struct {
		origin Origin
		want   float64
		add    func(*Options)
	}{
		{FromDefault, 30, func(*Options) {}},
		{Origin("user file " + filepath.Join(dir, "config.yaml")), 25, func(*Options) {
			write(t, filepath.Join(dir, "config.yaml"), "crud:\n  default_timeout: 25\n")
		}},
		{Origin("project file " + filepath.Join(root, ProjectDir, "config.json")), 20, nil},
		{"environment ASYNC_CRUD_MCP_CRUD__DEFAULT_TIMEOUT", 15, func(o *Options) {
			o.Env = append(o.Env, "ASYNC_CRUD_MCP_CRUD__DEFAULT_TIMEOUT=15")
		}},
		{FromSet, 10, func(o *Options) { o.Set = append(o.Set, "crud.default_timeout=10") }},
		{FromFlag, 5, func(o *Options) { o.Flags = map[string]any{"crud.default_timeout": 5} }},
	}
	o := Options{Env: []string{"HOME=/home/u"}}
	for _, step := range steps {
		inProject := step.add == nil
		if !inProject {
			step.add(&o)
		}
		st := loaded(t, o)
		snap := st.Current()
		if inProject {
			p := st.Project(root)
			defer p.Release()
			snap = p.Current()
		}
		if got := snap.Config.Crud.DefaultTimeout; got != step.want || snap.Origin("crud.default_timeout") != step.origin {
			t.Errorf("default_timeout = %v from %q, want %v from %q", got, snap.Origin("crud.default_timeout"), step.want, step.origin)
		}
	}
}

func TestFormatsSayTheSame(t *testing.T) {
	want, err := fromFile(t, "config.json", `{
		"shell": {"enabled": true, "deny_patterns": [{"pattern": "^a$", "reason": "r"}]},
		"crud": {"base_directories": ["/a", "~/b"], "max_timeout": 100.5},
		"daemon": {"port": null, "toolsets": ["files", "search"]},
		"sandbox": {"network": "off", "mode": "off"}}`)
	if err != nil {
		t.Fatal(err)
	}
	if !want.Config.Shell.Enabled || want.Config.Daemon.Port != nil || want.Config.Crud.BaseDirectories[1] != "/home/u/b" {
		t.Fatalf("JSON gave %+v", want.Config)
	}
	for name, text := range map[string]string{
		"config.yaml": "shell:\n  enabled: true\n  deny_patterns:\n    - {pattern: ^a$, reason: r}\ncrud:\n  base_directories: [/a, ~/b]\n  max_timeout: 100.5\ndaemon:\n  port: null\n  toolsets: [files, search]\nsandbox:\n  network: off\n  mode: off\n",
		"config.yml":  "\ufeffshell: {enabled: True, deny_patterns: [{pattern: ^a$, reason: r}]}\ncrud: {base_directories: &l [/a, ~/b], max_timeout: 1.005e2}\ndaemon: {port: ~, toolsets: [files, search]}\nsandbox: {network: 'off', mode: OFF}\n",
		"config.toml": "[shell]\nenabled = true\n[[shell.deny_patterns]]\npattern = '^a$'\nreason = 'r'\n[crud]\nbase_directories = ['/a', '~/b']\nmax_timeout = 100.5\n[daemon]\ntoolsets = ['files', 'search']\n[sandbox]\nnetwork = 'off'\nmode = 'off'\n",
	} {
		got, err := fromFile(t, name, text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if name == "config.toml" { // which has no null
			got.Config.Daemon.Port = nil
		}
		if !reflect.DeepEqual(got.Config, want.Config) {
			t.Errorf("%s differs in %v", name, Changed(want, got))
		}
		if w := warningTexts(got); w != "" {
			t.Errorf("%s warns: %s", name, w)
		}
	}
}

func TestSpellings(t *testing.T) {
	for name, text := range map[string]string{
		"snake":         `{"shell": {"timeout_max": 7, "timeout_default": 7}}`,
		"camel":         `{"shell": {"timeoutMax": 7, "timeoutDefault": 7}}`,
		"kebab":         `{"Shell": {"timeout-max": 7, "timeout-default": 7}}`,
		"[tools.shell]": `{"tools": {"shell": {"timeout_max": 7, "timeout_default": 7}}}`,
	} {
		s, err := fromFile(t, "config.json", text)
		if err != nil || s.Config.Shell.TimeoutMax != 7 || len(s.Warnings()) > 0 {
			t.Errorf("%s: %v, %v, %v", name, s.Config.Shell.TimeoutMax, err, s.Warnings())
		}
	}
	s, err := fromFile(t, "config.json", `{"shell_enabled": true, "shellDenyPatterns": [{"pattern": "x", "notMatch": ["y"]}], "shell_deny_patterns_mode": "Replace"}`)
	if err != nil || !s.Config.Shell.Enabled || s.Config.Shell.DenyPatternsMode != "replace" || s.Config.Shell.DenyPatterns[0].NotMatch[0] != "y" {
		t.Errorf("flat keys: %+v, %v", s.Config.Shell, err)
	}
	if _, err := fromFile(t, "config.json", `{"shell": {"timeout_max": 7, "timeoutMax": 8}}`); err == nil || !strings.Contains(err.Error(), "shell.timeout_max is given twice") {
		t.Errorf("two spellings of one key: %v", err)
	}
}

// The sample files of the documents load without a word.
func TestSamplesOfTheDocuments(t *testing.T) {
	aliases := `
aliasFiles:
  - ~/.bash_aliases
  - ~/.bashrc
allowPatterns:
  - '^ls\b'
  - '^git\b(?!\s+(push|reset))'
denyPatterns:
  - '^rm\b'
defaultCwd: '~'
defaultTimeoutSeconds: 20
maxStdoutBytes: 10000
maxStderrBytes: 10000
auditLogPath: '~/.local/state/mcp-bash-aliases/audit.log'
enableHotReload: true
`
	indented := "aliases:" + strings.ReplaceAll(aliases, "\n", "\n  ")
	for name, text := range map[string]string{"flat": aliases, "section": indented} {
		s, err := fromFile(t, "config.yaml", text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		a := s.Config.Aliases
		if a.AliasFiles[1] != "/home/u/.bashrc" || len(a.DenyPatterns) != 1 || *a.AuditLogPath != "/home/u/.local/state/mcp-bash-aliases/audit.log" || len(s.Warnings()) > 0 {
			t.Errorf("%s: %+v, %s", name, a, warningTexts(s))
		}
	}

	s, err := fromFile(t, "config.json", `{
  "$schema": "https://example.com/schemas/async-crud-mcp.config.schema.json",
  "_version": "1.0",
  "daemon": {"enabled": true, "host": "127.0.0.1", "port": 8720, "_port_help": "HTTP port", "transport": "sse", "log_level": "DEBUG",
    "config_poll_seconds": 3, "config_debounce_seconds": 1.0, "session_poll_seconds": 3, "wait_for_session": true, "health_check_interval": 30},
  "crud": {"base_directories": [], "default_timeout": 30.0, "max_timeout": 300.0, "default_encoding": "utf-8", "diff_context_lines": 3, "max_file_size_bytes": 10485760},
  "persistence": {"enabled": false, "state_file": null, "write_debounce_seconds": 1.0, "ttl_multiplier": 2.0},
  "watcher": {"enabled": true, "debounce_ms": 100}}`)
	if err != nil || s.Config.Daemon.LogLevel != "DEBUG" || len(s.Warnings()) > 0 {
		t.Errorf("%v, %s", err, warningTexts(s))
	}

	s, err = fromFile(t, "config.toml", "[tools.shell]\nenabled = true\ndefault_timeout_secs = 60\nrestrict_to_project = true\nshell = \"nu\"\n")
	if err != nil || !s.Config.Shell.Enabled || s.Config.Shell.DefaultTimeoutSecs != 60 || len(s.Warnings()) > 0 {
		t.Errorf("%v, %s", err, warningTexts(s))
	}
}

func TestUnknownKeysWarnWithASuggestionAndTheRestApplies(t *testing.T) {
	s, err := fromFile(t, "config.yaml", "shell:\n  enabled: true\n  timout_max: 5\n  zzz: 1\naccess_rules: []\nserach: {}\n")
	if err != nil {
		t.Fatal(err)
	}
	if !s.Config.Shell.Enabled {
		t.Error("the rest of the file was not applied")
	}
	wantContains(t, warningTexts(s),
		"line 3: shell.timout_max is not a setting; did you mean shell.timeout_max?",
		"shell.zzz is not a setting",
		"access_rules is not a setting; did you mean crud.access_rules?",
		"serach is not a setting; did you mean search?")
}

func TestAWrongFileIsRefusedWithItsPlace(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"type":               {"config.json", "{\n\"shell\": {\n\"timeout_max\": \"long\"}}", "line 3: shell.timeout_max must be a number, not a string"},
		"type in YAML":       {"config.yaml", "shell:\n  enabled: maybe", "line 2: shell.enabled must be true or false, not a string"},
		"type in TOML":       {"config.toml", "[shell]\nenabled = 3", "shell.enabled must be true or false, not a number"},
		"range":              {"config.json", `{"daemon": {"port": 70000}}`, "daemon.port must be at most 65535, not 70000"},
		"enum":               {"config.json", `{"sandbox": {"mode": "loose"}}`, `sandbox.mode must be one of off, workspace-write, strict, read-only, not "loose"`},
		"section":            {"config.json", `{"shell": true}`, "shell must be an object, not a boolean"},
		"not an object":      {"config.yaml", "- a\n", "must hold an object of sections, not a list"},
		"rule":               {"config.json", `{"crud": {"access_rules": [{"path": "a", "action": "deny"}, {"path": "b", "actoin": "deny"}]}}`, `crud.access_rules[1] has the unknown key "actoin"`},
		"rule value":         {"config.json", `{"crud": {"access_rules": [{"path": "a", "action": "refuse"}]}}`, "crud.access_rules[0].action must be one of"},
		"relative path":      {"config.json", `{"crud": {"base_directories": ["a"]}}`, `crud.base_directories must be an absolute path or begin with ~/, not "a"`},
		"repeated":           {"config.json", "{\"shell\": {},\n\"shell\": {}}", "line 2: shell is given twice"},
		"repeated key":       {"config.json", `{"shell": {"enabled": true, "enabled": false}}`, "enabled is given twice"},
		"repeated in YAML":   {"config.yaml", "shell: {}\nshell: {}\n", "line 2: shell is given twice"},
		"two spellings":      {"config.json", `{"shell": {}, "Shell": {}}`, "given twice"},
		"comments":           {"config.json", "{\n  // note\n  \"shell\": {}}", "line 2: is not valid JSON: invalid character '/' looking for beginning of object key string; JSON has no comments"},
		"empty JSON":         {"config.json", "", "is not valid JSON"},
		"cut off":            {"config.json", `{"shell": {"enabled"`, "is not valid JSON"},
		"bad YAML":           {"config.yaml", "shell: [", "is not valid YAML"},
		"bad TOML":           {"config.toml", "[shell]\n=", "line 2: is not valid TOML"},
		"two documents":      {"config.yaml", "shell: {}\n---\nshell: {}\n", "more than one YAML document"},
		"not UTF-8":          {"config.json", "{\"shell\": \"\xff\"}", "is not UTF-8"},
		"not a number":       {"config.yaml", "shell: {timeout_max: .inf}", "shell.timeout_max is not a number that can be used"},
		"a tag":              {"config.yaml", "shell: {enabled: !yes true}", `shell.enabled has the tag "!yes"`},
		"deep":               {"config.json", `{"shell": {"enabled": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}}", "nested too deep"},
		"an alias of itself": {"config.yaml", "shell:\n  deny_patterns: &a [*a]\n", "nested too deep"},
		"a swelling alias": {"config.yaml", "x: &a [1,1,1,1,1,1,1,1,1,1]\ny: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nz: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"v: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\nw: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nshell: {enabled: [*e,*e]}\n", "too large"},
	} {
		s, err := fromFile(t, c.file, c.text)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, want it to contain %q", name, err, c.want)
		}
		if e, ok := errors.AsType[*Error](err); !ok || !strings.HasPrefix(string(e.Origin), "user file ") {
			t.Errorf("%s: %#v does not name its file", name, err)
		}
		if len(looserOrOther(s)) > 0 {
			t.Errorf("%s: part of a refused file was applied: %v", name, looserOrOther(s))
		}
	}
}

// A hostile file can be full of names: it is read in no time, and what is said
// about it is short and harmless on a terminal.
func TestWarningsAreFewAndPlain(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"\u001b[2J\nx": 1, "` + strings.Repeat("n", 1000) + `": 1`)
	for i := range 50_000 {
		fmt.Fprintf(&b, `,"k%d":1`, i)
	}
	b.WriteString("}")
	s, err := fromFile(t, "config.json", b.String())
	if err != nil {
		t.Fatal(err)
	}
	text := warningTexts(s)
	if n := len(s.Warnings()); n != maxStrays+1 || len(text) > 10_000 || strings.ContainsAny(text, "\x1b") {
		t.Errorf("%d warnings, %d bytes", n, len(text))
	}
	wantContains(t, text, "49982 more names are no settings")
	_, err = fromFile(t, "config.json", `{"crud": {"protected_paths": [`+strings.Repeat(`"a",`, 1000)+`"a"]}}`)
	if err == nil || !strings.Contains(err.Error(), "crud.protected_paths has more than 1000 items") {
		t.Errorf("a list without bound: %v", err)
	}
}

// looserOrOther lists what differs from the defaults.
func looserOrOther(s *Snapshot) []string {
	return Changed(New(Options{Env: []string{"HOME=/home/u"}}).Current(), s)
}

func TestEnvironment(t *testing.T) {
	userDir(t)
	c := loaded(t, Options{Env: []string{
		"HOME=/home/u", "PATH=/bin", "ASYNC_CRUD_MCP_HOME=/x",
		"ASYNC_CRUD_MCP_PERSISTENCE__ENABLED=true",
		"ASYNC_CRUD_MCP_DAEMON__PORT=null",
		"ASYNC_CRUD_MCP_DAEMON__TOOLSETS=files, search",
		"ASYNC_CRUD_MCP_DAEMON__HOST=::1",
		"ASYNC_CRUD_MCP_DAEMON__LOG_LEVEL=debug",
		"ASYNC_CRUD_MCP_DAEMON__LOG_FILE=~/x.log",
		"ASYNC_CRUD_MCP_CRUD__BASE_DIRECTORIES=[\"/a\", \"/b\"]",
		"ASYNC_CRUD_MCP_CRUD__accessRules=[{\"Path\": \"x\", \"action\": \"DENY\"}]",
		"ASYNC_CRUD_MCP_SHELL__ENABLED=1",
		"ASYNC_CRUD_MCP_SHELL__SHELL=\"zsh\"",
		"ASYNC_CRUD_MCP_SHELL__TIMEOUT_MAX=",
	}}).Current().Config
	for name, ok := range map[string]bool{
		"bool":    c.Persistence.Enabled && c.Shell.Enabled,
		"null":    c.Daemon.Port == nil,
		"words":   slices.Equal(c.Daemon.Toolsets, []string{"files", "search"}),
		"text":    c.Daemon.Host == "::1",
		"enum":    c.Daemon.LogLevel == "DEBUG",
		"path":    c.Daemon.LogFile != nil && *c.Daemon.LogFile == "/home/u/x.log",
		"JSON":    slices.Equal(c.Crud.BaseDirectories, []string{"/a", "/b"}),
		"objects": len(c.Crud.AccessRules) == 1 && c.Crud.AccessRules[0].Action == "deny" && c.Crud.AccessRules[0].Path == "x",
		"quoted":  c.Shell.Shell == "zsh",
		"empty":   c.Shell.TimeoutMax == 600,
	} {
		if !ok {
			t.Errorf("%s: wrong value in %+v", name, c)
		}
	}
}

func TestWrongEnvironmentIsAnErrorThatNamesItWithoutItsValue(t *testing.T) {
	userDir(t)
	for _, entry := range []string{
		"ASYNC_CRUD_MCP_DAEMON__PORT=hunter2", "ASYNC_CRUD_MCP_SANDBOX__MODE=hunter2",
		"ASYNC_CRUD_MCP_SHELL__ENABLED=hunter2", "ASYNC_CRUD_MCP_DAEMON__TOKEN=hunter2",
		"ASYNC_CRUD_MCP_CRUD__ACCESS_RULES=hunter2", `ASYNC_CRUD_MCP_CRUD__ACCESS_RULES=[{"path":"hunter2"}]`,
	} {
		st := New(Options{Env: []string{entry}})
		err := st.Load()
		name, _, _ := strings.Cut(entry, "=")
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want an error that names it and not its value", name, err)
		}
	}
}

func TestUnknownEnvironmentWarns(t *testing.T) {
	userDir(t)
	s := loaded(t, Options{Env: []string{"ASYNC_CRUD_MCP_PORT=1", "ASYNC_CRUD_MCP_SHELL_ENABLED=1", "ASYNC_CRUD_MCP_SHEL__ENABLED=1", "ASYNC_CRUD_MCP_X__Y=1"}}).Current()
	wantContains(t, warningTexts(s),
		"environment ASYNC_CRUD_MCP_PORT: is not a setting; did you mean ASYNC_CRUD_MCP_DAEMON__PORT?",
		"did you mean ASYNC_CRUD_MCP_SHELL__ENABLED?",
		"environment ASYNC_CRUD_MCP_X__Y: is not a setting")
	if s.Config.Shell.Enabled {
		t.Error("an unknown variable was applied")
	}
}

func TestCommandLine(t *testing.T) {
	userDir(t)
	c := loaded(t, Options{
		Set:   []string{"shell.timeout-max=5", "shell.timeoutMax=6", "daemon.port=0", "daemon.host=a=b", "shell_enabled=true"},
		Flags: map[string]any{"daemon.port": 99, "daemon.exclude_tools": []string{"x"}},
	}).Current().Config
	if c.Shell.TimeoutMax != 6 || *c.Daemon.Port != 99 || c.Daemon.Host != "a=b" || !c.Shell.Enabled || c.Daemon.ExcludeTools[0] != "x" {
		t.Errorf("got %+v %+v", c.Shell, c.Daemon)
	}
	for _, set := range []string{"shell.enabled=maybe", "shell.enabled", "shell.enabld=true", "daemon.port=70000", "nothing=1", "crud.access_rules=x"} {
		err := New(Options{Env: []string{}, Set: []string{set}}).Load()
		if err == nil || !strings.HasPrefix(err.Error(), "--set: ") {
			t.Errorf("--set %s: %v, want an error of --set", set, err)
		}
	}
	if err := New(Options{Env: []string{}, Flags: map[string]any{"daemon.port": "x"}}).Load(); err == nil || !strings.HasPrefix(err.Error(), "flag: daemon.port") {
		t.Errorf("flag: %v", err)
	}
}

func TestPathsOnTheCommandLineStartFromTheCurrentDirectory(t *testing.T) {
	userDir(t)
	dir := t.TempDir()
	t.Chdir(dir)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	c := loaded(t, Options{
		Set:   []string{"crud.base_directories=a,~/b,/c"},
		Flags: map[string]any{"daemon.log_file": "x.log"},
	}).Current().Config
	if want := []string{filepath.Join(here, "a"), "/home/u/b", "/c"}; !slices.Equal(c.Crud.BaseDirectories, want) || *c.Daemon.LogFile != filepath.Join(here, "x.log") {
		t.Errorf("%v %v, want %v", c.Crud.BaseDirectories, *c.Daemon.LogFile, want)
	}
}

func TestDefaultTimeoutNeverExceedsTheMaximum(t *testing.T) {
	s, err := fromFile(t, "config.json", `{"shell": {"timeout_max": 60}, "crud": {"max_timeout": 10}}`)
	if err != nil || s.Config.Shell.TimeoutDefault != 60 || s.Config.Crud.DefaultTimeout != 10 {
		t.Errorf("%v %v %v", s.Config.Shell.TimeoutDefault, s.Config.Crud.DefaultTimeout, err)
	}
	if got := s.Origin("shell.timeout_default"); got != s.Origin("shell.timeout_max") {
		t.Errorf("origin %q, want that of the maximum", got)
	}
}

func TestValuesHideSecretsAndNameOrigins(t *testing.T) {
	userDir(t)
	s := loaded(t, Options{Set: []string{`cluster.endpoints=["https://u:geheim@h:2379","u:geheim@h","h:2379"]`}}).Current()
	raw, err := json.Marshal(s.Values("Cluster"))
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"key":"cluster.backend","value":"local","origin":"default"},{"key":"cluster.endpoints","value":["https://***@h:2379","***@h","h:2379"],"origin":"--set"}]`
	if string(raw) != want {
		t.Errorf("Values = %s, want %s", raw, want)
	}
	if n := len(s.Values("")); n != len(settings().keys) {
		t.Errorf("%d values, want all %d", n, len(settings().keys))
	}
	if s.Values("nothing") != nil || s.Origin("nothing") != "" {
		t.Error("an unknown section or key has values")
	}
}

func TestMissingExplicitFileIsAnErrorAndMissingDefaultFileIsNot(t *testing.T) {
	userDir(t)
	loaded(t, Options{})
	err := New(Options{UserFile: filepath.Join(t.TempDir(), "none.json"), Env: []string{}}).Load()
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Load = %v, want not exist", err)
	}
}

func TestASecondFileBesideTheFirstIsNamed(t *testing.T) {
	dir := userDir(t)
	write(t, filepath.Join(dir, "config.json"), `{"shell": {"enabled": true}}`)
	write(t, filepath.Join(dir, "config.toml"), `shell_enabled = false`)
	st := loaded(t, Options{})
	if !st.Current().Config.Shell.Enabled || st.UserFile() != filepath.Join(dir, "config.json") {
		t.Error("config.json does not count first")
	}
	wantContains(t, warningTexts(st.Current()), filepath.Join(dir, "config.toml")+": is ignored: config.json beside it counts")
}

func TestUserPortFollowsTheDocument(t *testing.T) {
	// sha256("alice") begins 2bd8: 0x2bd8 % 100 = 24.
	if got := UserPort("Alice"); got != 8744 || got != UserPort("alice") {
		t.Errorf("UserPort = %d, want 8744", got)
	}
}

func TestReloadKeepsTheLastGoodFileAndSaysSo(t *testing.T) {
	dir := userDir(t)
	path := write(t, filepath.Join(dir, "config.json"), `{"crud": {"max_timeout": 100}}`)
	var bus event.Bus
	sub := bus.Subscribe(10)
	defer sub.Close()
	st := loaded(t, Options{Bus: &bus})
	var commits []string
	st.OnChange(func(_, next *Snapshot) error {
		if next.Config.Crud.MaxTimeout == 13 {
			return errors.New("thirteen is refused")
		}
		return nil
	}, func(_, next *Snapshot) {
		commits = append(commits, "max_timeout="+show(reflect.ValueOf(next.Config.Crud.MaxTimeout)))
	})
	root := projectDir(t, "config.json", `{"crud": {"diff_context_lines": 9}}`)
	p := st.Project(root)
	defer p.Release()

	for _, bad := range []string{`{"crud": {"max_timeout": "x"}}`, `{"crud": `, `{"crud": {"max_timeout": 13}}`} {
		write(t, path, bad)
		st.Reload()
		if got := st.Current().Config.Crud.MaxTimeout; got != 100 {
			t.Errorf("after %s: max_timeout %v, want the last good 100", bad, got)
		}
		status := st.Status()
		if len(status) != 1 || !strings.Contains(status[0].Detail, path) || status[0].Cure == "" {
			t.Errorf("after %s: status %+v", bad, status)
		}
		if e := <-sub.C; e.Kind != event.ConfigRefused {
			t.Errorf("event %v, want refused", e)
		}
	}
	if len(commits) > 0 {
		t.Errorf("commits %v of refused files", commits)
	}
	write(t, path, `{"crud": {"max_timeout": 50}}`)
	st.Reload()
	if len(st.Status()) > 0 || st.Current().Config.Crud.MaxTimeout != 50 {
		t.Errorf("a good file did not hold: %+v", st.Status())
	}
	if got := p.Current().Config.Crud; got.MaxTimeout != 50 || got.DiffContextLines != 9 {
		t.Errorf("the project did not follow its base: %+v", got)
	}
	if want := []string{"max_timeout=50", "max_timeout=50"}; !slices.Equal(commits, want) {
		t.Errorf("commits %v, want one for the user and one for the project", commits)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	st.Reload()
	if got := st.Current().Config.Crud.MaxTimeout; got != 300 {
		t.Errorf("without a file max_timeout is %v, want the default", got)
	}
}

func TestAProjectFileDoesNotHoldUpTheUser(t *testing.T) {
	dir := userDir(t)
	st := loaded(t, Options{})
	st.OnChange(func(_, next *Snapshot) error {
		if next.Config.Crud.MaxTimeout == 50 && next.Config.Crud.DiffContextLines == 9 {
			return errors.New("they do not go together")
		}
		return nil
	}, nil)
	p := st.Project(projectDir(t, "config.json", `{"crud": {"diff_context_lines": 9}}`))
	defer p.Release()
	write(t, filepath.Join(dir, "config.json"), `{"crud": {"max_timeout": 50}}`)
	st.Reload()
	if got := p.Current().Config.Crud; got.MaxTimeout != 50 || got.DiffContextLines != 3 {
		t.Errorf("project has %+v, want the user's change without its own", got)
	}
	if s := p.Status(); len(s) != 1 || !strings.Contains(s[0].Detail, "they do not go together") {
		t.Errorf("status %+v", s)
	}
	write(t, filepath.Join(dir, "config.json"), `{"crud": {"max_timeout": 60}}`)
	st.Reload()
	if got := p.Current().Config.Crud; got.MaxTimeout != 60 || got.DiffContextLines != 9 || len(p.Status()) > 0 {
		t.Errorf("project has %+v, want its own back", got)
	}
}

func TestProjectIsSharedUntilItsLastRelease(t *testing.T) {
	userDir(t)
	st := loaded(t, Options{})
	root := projectDir(t, "config.json", `{}`)
	a, b := st.Project(root), st.Project(root)
	if a.project != b.project {
		t.Error("two uses of one root are not shared")
	}
	a.Release()
	a.Release()
	if len(st.open()) != 1 {
		t.Error("a second release took the other user's place")
	}
	b.Release()
	if len(st.open()) != 0 {
		t.Error("the last release left the project open")
	}
}

func TestProjectFileOddities(t *testing.T) {
	userDir(t)
	st := loaded(t, Options{})
	secret := write(t, filepath.Join(t.TempDir(), "secret.json"), `{"crud": {"diff_context_lines": 9}}`)
	link := func(target string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			if err := os.Symlink(target, path); err != nil {
				t.Skip("no links here:", err)
			}
		}
	}
	for name, c := range map[string]struct {
		make  func(t *testing.T, path string)
		lines int
		want  string // in the refusal; "" for none
	}{
		"none": {func(*testing.T, string) {}, 3, ""},
		"link inside": {func(t *testing.T, path string) {
			write(t, filepath.Join(filepath.Dir(path), "real"), `{"crud": {"diff_context_lines": 9}}`)
			link("real")(t, path)
		}, 9, ""},
		"link out":           {link(secret), 3, "escapes"},
		"link to nothing":    {link("nothing"), 3, "no such file"},
		"directory":          {func(t *testing.T, path string) { _ = os.Mkdir(path, 0o755) }, 3, "not a regular file"},
		"too large":          {func(t *testing.T, path string) { write(t, path, "{}"+strings.Repeat(" ", 1<<20)) }, 3, "too large"},
		"empty YAML is fine": {func(t *testing.T, path string) { write(t, strings.Replace(path, ".json", ".yaml", 1), "# nothing\n") }, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := projectDir(t, "x", "")
			c.make(t, filepath.Join(root, ProjectDir, "config.json"))
			p := st.Project(root)
			defer p.Release()
			if got := p.Current().Config.Crud.DiffContextLines; got != c.lines {
				t.Errorf("diff_context_lines %d, want %d", got, c.lines)
			}
			var details []string
			for _, f := range p.Status() {
				details = append(details, f.Detail)
			}
			if got := strings.Join(details, "\n"); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("status %q, want %q", got, c.want)
			}
		})
	}
}

func TestInitWritesAFileThatSaysTheDefaults(t *testing.T) {
	defaults := New(Options{Env: []string{"HOME=/home/u"}}).Current()
	for _, format := range []string{"json", "yaml", "toml"} {
		var out bytes.Buffer
		if err := Init(format, &out); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		uncommented := regexpUncomment(text)
		for _, text := range []string{text, uncommented} {
			s, err := fromFile(t, "config."+format, text)
			if err != nil {
				t.Errorf("%s: %v\n%s", format, err, text)
				continue
			}
			if w := warningTexts(s); w != "" {
				t.Errorf("%s warns: %s", format, w)
			}
			if c := Changed(defaults, s); len(c) > 0 {
				t.Errorf("%s changes %v", format, c)
			}
		}
	}
	if err := Init("ini", &bytes.Buffer{}); err == nil {
		t.Error("an unknown format was written")
	}
}

func TestInitOfAProjectSetsNothing(t *testing.T) {
	for _, format := range []string{"json", "yaml", "toml"} {
		var out bytes.Buffer
		if err := InitProject(format, &out); err != nil {
			t.Fatal(err)
		}
		l, err := fileLayer("project", "config."+format, out.Bytes(), "/home/u")
		if err != nil || len(l.has) > 0 || len(l.warnings) > 0 {
			t.Errorf("%s: sets %d keys, warns %v, %v\n%s", format, len(l.has), l.warnings, err, out.String())
		}
		wantContains(t, out.String(), "in a project file: lower")
		if strings.Contains(out.String(), "base_directories") || strings.Contains(out.String(), "cluster") {
			t.Errorf("%s offers what a project cannot set", format)
		}
	}
}

func TestPreviewJudgesBytesThatAreNotThereYet(t *testing.T) {
	userDir(t)
	st := loaded(t, Options{})
	st.OnChange(func(_, next *Snapshot) error {
		if next.Config.Crud.DiffContextLines == 13 {
			return errors.New("thirteen is refused")
		}
		return nil
	}, nil)
	for _, c := range []struct {
		text    string
		trusted bool
		shell   bool
		want    string // error
	}{
		{"shell: {enabled: true}", true, true, ""},
		{"shell: {enabled: true}", false, false, ""},
		{"shell: {enabled: perhaps}", true, false, "line 1: shell.enabled must be"},
		{"crud: {diff_context_lines: 13}", true, false, "thirteen"},
	} {
		s, err := st.Preview("/p", "/p/config.yaml", []byte(c.text), c.trusted)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.text, err, c.want)
			}
			continue
		}
		if err != nil || s.Config.Shell.Enabled != c.shell {
			t.Errorf("%s, trusted %v: %v", c.text, c.trusted, err)
		}
	}
	if s, err := st.Preview("/p", "", nil, true); err != nil || len(Changed(s, st.Current())) > 0 {
		t.Errorf("without a file: %v", err)
	}
}

// regexpUncomment takes the mark of comment off lines that set something.
func regexpUncomment(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		body := strings.TrimPrefix(strings.TrimLeft(line, " "), "# ")
		name, value, ok := strings.Cut(body, ": ")
		if !ok {
			name, value, ok = strings.Cut(body, " = ")
		}
		if ok && settingLeaf(name) && strings.TrimSpace(value) != "" {
			indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
			line = indent + body
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

func settingLeaf(name string) bool {
	return slices.ContainsFunc(settings().keys, func(k *key) bool { return k.leaf == name })
}

func TestHealthFindingsNameTheirPart(t *testing.T) {
	userDir(t)
	st := loaded(t, Options{Env: []string{"ASYNC_CRUD_MCP_NO__SUCH=1"}})
	want := health.Finding{Part: "settings", Detail: "environment ASYNC_CRUD_MCP_NO__SUCH: is not a setting; a setting is ASYNC_CRUD_MCP_SECTION__KEY"}
	if got := st.Status(); len(got) != 1 || got[0] != want {
		t.Errorf("status %+v, want %+v", got, want)
	}
}

func TestADottedNameInAFileIsToldItsPlace(t *testing.T) {
	s, err := fromFile(t, "config.json", `{"crud.max_timeout": 5}`)
	if err != nil {
		t.Fatal(err)
	}
	wantContains(t, warningTexts(s), "crud.max_timeout is not a setting with a dot in its name; write max_timeout inside crud")
}

func TestProtectedPathsReachNestedRepositories(t *testing.T) {
	for _, path := range []string{".async-crud-mcp/config.json", ".git/config", ".git/hooks/pre-commit", "vendor/lib/.git/config", "a/.git/hooks/x"} {
		covered := false
		for _, expr := range settings().defaults.Crud.ProtectedPaths {
			g, err := pattern.CompileGlob(expr, false)
			if err != nil {
				t.Fatal(err)
			}
			covered = covered || g.Covers(path)
		}
		if !covered {
			t.Errorf("%s is not protected", path)
		}
	}
}
