package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/async-crud-mcp/async-crud-mcp/internal/config/document"
)

// under returns the settings of a project file over a user file.
func under(t *testing.T, user, project string, trusted bool) *Snapshot {
	t.Helper()
	st := loaded(t, Options{
		UserFile: write(t, filepath.Join(t.TempDir(), "config.json"), user),
		Trusted:  func(string, string) bool { return trusted },
	})
	p := st.Project(projectDir(t, "config.json", project))
	defer p.Release()
	for _, f := range p.Status() {
		if f.Cure != "" {
			t.Fatalf("refused: %s", f.Detail)
		}
	}
	return p.Current()
}

// The border: for each key what an untrusted and a trusted project file get.
func TestWhatAProjectFileMayDo(t *testing.T) {
	for _, c := range []struct {
		key, user, project string
		untrusted, trusted string // JSON of the value in force
	}{
		// free
		{"crud.on_contention", ``, `"merge"`, `"merge"`, `"merge"`},
		{"crud.default_encoding", ``, `"latin1"`, `"latin1"`, `"latin1"`},
		{"search.respect_gitignore", ``, `false`, `false`, `false`},
		// tighten: numbers
		{"shell.timeout_max", `100`, `50`, `50`, `50`},
		{"shell.timeout_max", `100`, `500`, `100`, `500`},
		{"crud.max_file_size_bytes", `1000`, `10`, `10`, `10`},
		{"crud.max_file_size_bytes", `1000`, `1001`, `1000`, `1001`},
		{"crud.max_result_bytes", `0`, `10`, `10`, `10`},
		{"crud.max_result_bytes", `10`, `0`, `10`, `0`},
		{"crud.max_result_bytes", `10`, `11`, `10`, `11`},
		{"shell.max_commands_per_minute", ``, `0`, `600`, `0`},
		// tighten: switches
		{"shell.enabled", `false`, `true`, `false`, `true`},
		{"shell.enabled", `true`, `false`, `false`, `false`},
		{"shell.env_inherit", `false`, `true`, `false`, `true`},
		{"shell.restrict_to_project", `true`, `false`, `true`, `false`},
		{"shell.restrict_to_project", `false`, `true`, `true`, `true`},
		{"sandbox.require", ``, `true`, `true`, `true`},
		{"audit.enabled", ``, `false`, `true`, `false`},
		// tighten: orders
		{"sandbox.mode", ``, `"off"`, `"workspace-write"`, `"off"`},
		{"sandbox.mode", ``, `"strict"`, `"strict"`, `"strict"`},
		{"sandbox.mode", `"strict"`, `"read-only"`, `"read-only"`, `"read-only"`},
		{"sandbox.mode", `"read-only"`, `"strict"`, `"read-only"`, `"strict"`},
		{"sandbox.network", `"off"`, `"on"`, `"off"`, `"on"`},
		{"sandbox.network", `"on"`, `"off"`, `"off"`, `"off"`},
		{"crud.durability", ``, `"rename"`, `"full"`, `"rename"`},
		// tighten: lists
		{"shell.env_strip", `["A"]`, `["B"]`, `["A","B"]`, `["A","B"]`},
		{"shell.env_strip", `["A"]`, `[]`, `["A"]`, `["A"]`},
		{"crud.protected_paths", `["A"]`, `["A","B"]`, `["A","B"]`, `["A","B"]`},
		{"aliases.allow_patterns", `["a","b"]`, `["b"]`, `["b"]`, `["b"]`},
		{"aliases.allow_patterns", `["a"]`, `["a","b"]`, `["a"]`, `["a","b"]`},
		{"sandbox.writable", `["/a"]`, `["/"]`, `["/a"]`, `["/"]`},
		{"sandbox.build_dirs", `["a","b"]`, `["."]`, `["a","b"]`, `["."]`},
		// rules
		{
			"crud.access_rules", `[]`, `[{"path": "a", "action": "allow"}, {"path": "b", "action": "deny"}]`,
			`[{"path":"b","operations":[],"action":"deny","priority":0}]`,
			`[{"path":"a","operations":[],"action":"allow","priority":0},{"path":"b","operations":[],"action":"deny","priority":0}]`,
		},
		{
			"crud.content_rules", `[{"pattern": "p", "action": "deny", "priority": 5}]`,
			`[{"pattern": "q", "action": "redact", "priority": 5}, {"pattern": "q", "action": "redact", "priority": 4}, {"pattern": "q", "action": "deny"}]`,
			`[{"name":"","pattern":"p","action":"deny","priority":5},{"name":"","pattern":"q","action":"redact","priority":4},{"name":"","pattern":"q","action":"deny","priority":0}]`,
			`[{"name":"","pattern":"p","action":"deny","priority":5},{"name":"","pattern":"q","action":"redact","priority":5},{"name":"","pattern":"q","action":"redact","priority":4},{"name":"","pattern":"q","action":"deny","priority":0}]`,
		},
		// never, but when trusted
		{"shell.shell", ``, `"evil"`, `"nu"`, `"evil"`},
		{"shell.shell_path", ``, `"/evil"`, `null`, `"/evil"`},
		{"shell.cwd_override", ``, `"/"`, `null`, `"/"`},
		{"sandbox.backend", ``, `"none"`, `"auto"`, `"none"`},
		{"aliases.alias_files", ``, `["/evil"]`, `[]`, `["/evil"]`},
		{"watcher.enabled", ``, `false`, `true`, `false`},
		// process: not even then
		{"daemon.host", ``, `"0.0.0.0"`, `"127.0.0.1"`, `"127.0.0.1"`},
		{"daemon.port", ``, `1`, `8720`, `8720`},
		{"daemon.token", `"/t"`, `null`, `"/t"`, `"/t"`},
		{"daemon.transport", ``, `"stdio"`, `"sse"`, `"sse"`},
		{"crud.base_directories", ``, `["/"]`, `[]`, `[]`},
		{"persistence.state_file", ``, `"/x"`, `null`, `null`},
		{"audit.file", ``, `"/x"`, `null`, `null`},
		{"aliases.audit_log_path", ``, `"/x"`, `null`, `null`},
		{"cluster.endpoints", ``, `["x"]`, `[]`, `[]`},
	} {
		name := c.key + "=" + c.project + " over " + c.user
		section, leaf, _ := strings.Cut(c.key, ".")
		file := func(value string) string {
			if value == "" {
				return "{}"
			}
			return fmt.Sprintf(`{%q: {%q: %s}}`, section, leaf, value)
		}
		for _, trusted := range []bool{false, true} {
			s := under(t, file(c.user), file(c.project), trusted)
			want := c.untrusted
			if trusted {
				want = c.trusted
			}
			got, err := json.Marshal(settings().find(c.key).in(&s.Config).Interface())
			if err != nil || string(got) != want {
				t.Errorf("%s, trusted %v: %s, want %s", name, trusted, got, want)
			}
			asked := c.untrusted == c.project || strings.ReplaceAll(c.project, " ", "") == c.untrusted
			if trusted {
				asked = c.trusted == c.project
			}
			if warned := len(s.Warnings()) > 0; !asked && !warned && settings().find(c.key).rule != "append" {
				t.Errorf("%s, trusted %v: ignored without a warning", name, trusted)
			}
		}
	}
}

func TestIgnoredKeysSayWhyAndHowToTrust(t *testing.T) {
	s := under(t, `{}`, `{"shell": {"enabled": true, "shell": "x"}, "daemon": {"port": 1}, "crud": {"accessRules": [{"path": "a", "action": "allow"}]}}`, false)
	wantContains(t, warningTexts(s),
		"shell.enabled is ignored: a project may only make it stricter, and here false is in force; a person can allow it with 'async-crud-mcp trust'",
		"shell.shell is ignored: the project is not trusted; a person can allow it with 'async-crud-mcp trust'",
		"daemon.port is ignored: it belongs to the server process",
		"crud.access_rules [0] is ignored: a project may only add rules that deny")
}

func TestDenyPatternsOfAProject(t *testing.T) {
	for _, c := range []struct {
		user, project      string
		untrusted, trusted string // mode: patterns
	}{
		{`extend A`, `extend B`, "extend: A B", "extend: A B"},
		{`extend A`, `extend A`, "extend: A", "extend: A"},
		{`extend A`, `replace B`, "extend: A B", "replace: B"},
		{`extend A`, `disable B`, "extend: A B", "disable: A"},
		{`replace A`, `extend B`, "replace: A B", "replace: A B"},
		{`disable A`, `extend B`, "replace: B", "replace: B"},
		{`disable A`, `extend`, "disable: A", "disable: A"},
		{`replace A`, `disable`, "replace: A", "disable: A"},
	} {
		file := func(spec string) string {
			mode, patterns, _ := strings.Cut(spec, " ")
			var list []string
			for p := range strings.FieldsSeq(patterns) {
				list = append(list, fmt.Sprintf(`{"pattern": %q}`, p))
			}
			return fmt.Sprintf(`{"shell": {"deny_patterns_mode": %q, "deny_patterns": [%s]}}`, mode, strings.Join(list, ","))
		}
		for _, trusted := range []bool{false, true} {
			shell := under(t, file(c.user), file(c.project), trusted).Config.Shell
			var names []string
			for _, p := range shell.DenyPatterns {
				names = append(names, p.Pattern)
			}
			want := c.untrusted
			if trusted {
				want = c.trusted
			}
			if got := shell.DenyPatternsMode + ": " + strings.Join(names, " "); got != want {
				t.Errorf("%s under %s, trusted %v: %s, want %s", c.user, c.project, trusted, got, want)
			}
		}
	}
}

func TestChangedBytesLoseTrustAndSaySo(t *testing.T) {
	userDir(t)
	const vouched = `{"shell": {"enabled": true}}`
	root := projectDir(t, "config.json", vouched)
	path := filepath.Join(root, ProjectDir, "config.json")
	trusted := func(_, sum string) bool { return sum == hashOf([]byte(vouched)) }
	st := loaded(t, Options{Trusted: trusted})
	p := st.Project(root)
	defer p.Release()
	if !p.Current().Config.Shell.Enabled || !p.Trusted() {
		t.Fatal("a trusted file was not applied")
	}
	write(t, path, vouched+"\n")
	st.Reload()
	if p.Current().Config.Shell.Enabled || p.Trusted() {
		t.Error("changed bytes are still trusted")
	}
	st.Reload()
	wantContains(t, warningTexts(p.Current()), "trust is lost: the file has changed since a person vouched for it")

	// Another process sees the changed file first: only the list of trust knows.
	st = loaded(t, Options{Trusted: trusted, Vouched: func(r string) bool { return r == root }})
	q := st.Project(root)
	defer q.Release()
	wantContains(t, warningTexts(q.Current()), "trust is lost")

	write(t, path, vouched)
	st.Reload()
	if !q.Current().Config.Shell.Enabled || strings.Contains(warningTexts(q.Current()), "lost") {
		t.Error("the vouched bytes are back and not trusted")
	}
}

// A refused file must not loosen: what the last good one added stays.
func TestABadProjectFileKeepsTheLastGoodOne(t *testing.T) {
	userDir(t)
	st := loaded(t, Options{})
	root := projectDir(t, "config.yaml", "sandbox: {network: off}\n")
	p := st.Project(root)
	defer p.Release()
	for _, text := range []string{"sandbox: {network: perhaps}\n", "sandbox: {", "\xff"} {
		write(t, filepath.Join(root, ProjectDir, "config.yaml"), text)
		st.Reload()
		if got := p.Current().Config.Sandbox.Network; got != "off" {
			t.Errorf("after %q: network %s, want the last good off", text, got)
		}
		if len(p.Status()) != 1 || len(st.Status()) != 1 {
			t.Errorf("after %q: status %+v", text, p.Status())
		}
	}
}

func TestUpdateEditsTheFileAndKeepsTheRest(t *testing.T) {
	for name, c := range map[string]struct {
		file, before, after string
	}{
		"JSON keeps order, help and spelling": {
			"config.json",
			"{\n  \"_version\": \"1.0\",\n  \"shell\": {\n    \"timeoutMax\": 100,\n    \"_timeoutMax_help\": \"<b> & so\"\n  },\n  \"crud\": {\"max_timeout\": 10.5, \"zzz\": [1, {}]}\n}\n",
			"{\n  \"_version\": \"1.0\",\n  \"shell\": {\n    \"timeoutMax\": 50,\n    \"_timeoutMax_help\": \"<b> & so\"\n  },\n  \"crud\": {\n    \"max_timeout\": 10.5,\n    \"zzz\": [\n      1,\n      {}\n    ]\n  },\n  \"sandbox\": {\n    \"build_dirs\": [\n      \"dist\"\n    ],\n    \"network\": \"off\"\n  }\n}\n",
		},
		"YAML keeps comments": {
			"config.yaml",
			"# mine\nshell:\n  timeout_max: 100 # seconds\nsandbox:\n  mode: strict\n",
			"# mine\nshell:\n  timeout_max: 50 # seconds\nsandbox:\n  mode: strict\n  build_dirs:\n    - dist\n  network: off\n",
		},
		"TOML keeps other keys": {
			"config.toml",
			"zzz = 1\n[shell]\ntimeout_max = 100\n",
			"zzz = 1\n\n[sandbox]\nbuild_dirs = ['dist']\nnetwork = 'off'\n\n[shell]\ntimeout_max = 50\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			userDir(t)
			st := loaded(t, Options{})
			root := projectDir(t, c.file, c.before)
			change, err := st.Update(root, map[string]json.RawMessage{
				"shell.timeout_max": json.RawMessage(`50`), "sandbox.network": json.RawMessage(`"off"`), "sandbox.buildDirs": json.RawMessage(`["dist"]`),
			}, false)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := os.ReadFile(filepath.Join(root, ProjectDir, c.file))
			if string(got) != c.after || string(change.Content) != c.after {
				t.Errorf("file is\n%s\nwant\n%s", got, c.after)
			}
			if want := []string{"shell.timeout_default", "shell.timeout_max", "sandbox.network", "sandbox.build_dirs"}; !slices.Equal(change.Keys, want) {
				t.Errorf("changed %v, want %v", change.Keys, want)
			}
			p := st.Project(root)
			defer p.Release()
			if s := p.Current().Config; s.Shell.TimeoutMax != 50 || s.Sandbox.Network != "off" || s.Sandbox.BuildDirs[0] != "dist" {
				t.Errorf("the file does not say what was set: %+v", s.Sandbox)
			}
		})
	}
}

func TestUpdateMakesTheFileAndNullTakesAKeyOut(t *testing.T) {
	userDir(t)
	st := loaded(t, Options{})
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := st.Project(root)
	defer p.Release()
	change, err := st.Update(root, map[string]json.RawMessage{"crud.on_contention": json.RawMessage(`"merge"`)}, false)
	if err != nil || change.File != filepath.Join(root, ProjectDir, "config.json") || change.WasTrusted {
		t.Fatalf("%+v, %v", change, err)
	}
	st.Reload()
	if p.Current().Config.Crud.OnContention != "merge" {
		t.Error("the change does not hold after Reload")
	}
	if _, err := st.Update(root, map[string]json.RawMessage{"crud.on_contention": json.RawMessage(`null`)}, false); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(change.File); string(got) != "{\n  \"crud\": {}\n}\n" {
		t.Errorf("file is %s", got)
	}
}

func TestUpdateRefusesWhatItMust(t *testing.T) {
	userDir(t)
	const before = `{"shell": {"timeout_max": 50}, "sandbox": {"network": "off"}}`
	root := projectDir(t, "config.json", before)
	trust := false
	st := loaded(t, Options{Trusted: func(string, string) bool { return trust }})
	st.OnChange(func(_, next *Snapshot) error {
		if next.Config.Crud.DiffContextLines == 13 {
			return errors.New("thirteen is refused")
		}
		return nil
	}, nil)
	update := func(key, value string, loosen bool) error {
		_, err := st.Update(root, map[string]json.RawMessage{key: json.RawMessage(value)}, loosen)
		return err
	}
	for _, c := range []struct {
		key, value string
		looser     bool
		want       string
	}{
		{"shell.enabled", `true`, true, "shell.enabled is ignored"},
		{"shell.timeout_max", `60`, true, "shell.timeout_max would be less strict than now"}, // below the user's, above now
		{"sandbox.network", `null`, true, "sandbox.network would be less strict than now"},
		{"shell.shell", `"x"`, true, "not trusted"},
		{"shell.deny_patterns_mode", `"disable"`, true, "may only extend"},
		{"daemon.port", `1`, false, "belongs to the server process"},
		{"shell.enabld", `true`, false, "did you mean shell.enabled?"},
		{"crud.diff_context_lines", `"x"`, false, "must be a whole number"},
		{"crud.diff_context_lines", `13`, false, "thirteen"},
		{"crud.diff_context_lines", `{`, false, "is not valid JSON"},
	} {
		for _, loosen := range []bool{false, true} { // without trust no confirmation helps
			err := update(c.key, c.value, loosen)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s=%s: %v, want %q", c.key, c.value, err, c.want)
			}
			if _, ok := errors.AsType[*LooserError](err); ok != c.looser {
				t.Errorf("%s=%s: %T, want a LooserError: %v", c.key, c.value, err, c.looser)
			}
		}
	}
	trust = true
	if _, ok := errors.AsType[*LooserError](update("shell.enabled", "true", false)); !ok {
		t.Error("a trusted project was loosened without a confirmation")
	}
	if got, _ := os.ReadFile(filepath.Join(root, ProjectDir, "config.json")); string(got) != before {
		t.Fatalf("a refused update wrote %s", got)
	}
	if err := update("shell.enabled", "true", true); err != nil {
		t.Errorf("trusted and confirmed: %v", err)
	}
}

func TestUpdateRefusesAKeyInTwoSpellings(t *testing.T) {
	userDir(t)
	_, err := loaded(t, Options{}).Update(projectDir(t, "config.json", "{}"), map[string]json.RawMessage{
		"crud.max_timeout": json.RawMessage("10"), "crud.maxTimeout": json.RawMessage("20"),
	}, false)
	if err == nil || !strings.Contains(err.Error(), "crud.max_timeout is given twice") {
		t.Errorf("Update = %v", err)
	}
}

func TestUpdateOfAFlatAliasesFile(t *testing.T) {
	userDir(t)
	st := loaded(t, Options{})
	root := projectDir(t, "config.yaml", "maxStdoutBytes: 100\n")
	if _, err := st.Update(root, map[string]json.RawMessage{"aliases.max_stderr_bytes": json.RawMessage(`5`)}, false); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(root, ProjectDir, "config.yaml")); string(got) != "maxStdoutBytes: 100\nmax_stderr_bytes: 5\n" {
		t.Errorf("file is %s", got)
	}
	if _, err := st.Update(root, map[string]json.RawMessage{"crud.max_timeout": json.RawMessage(`5`)}, false); err == nil {
		t.Error("a key of another section would turn the flat keys into unknown ones")
	}
}

// drawConfig returns the JSON of a file with random but valid values.
func drawConfig(t *rapid.T, label string) string {
	sections := make(map[string]map[string]any)
	for _, k := range rapid.SliceOfNDistinct(rapid.SampledFrom(settings().keys), 0, 12, func(k *key) string { return k.name }).Draw(t, label) {
		if sections[k.section] == nil {
			sections[k.section] = make(map[string]any)
		}
		sections[k.section][k.leaf] = drawValue(t, k.typ, k.enum, k.path == "absolute", k.name)
	}
	raw, err := json.Marshal(sections)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func drawValue(t *rapid.T, typ reflect.Type, enum []string, absolute bool, label string) any {
	switch typ.Kind() {
	case reflect.Pointer:
		if rapid.Bool().Draw(t, label+" null") {
			return nil
		}
		return drawValue(t, typ.Elem(), enum, absolute, label)
	case reflect.Bool:
		return rapid.Bool().Draw(t, label)
	case reflect.Int, reflect.Int64, reflect.Float64:
		return rapid.SampledFrom([]int{0, 1, 2, 10, 50}).Draw(t, label)
	case reflect.String:
		if enum != nil {
			return rapid.SampledFrom(enum).Draw(t, label)
		}
		return rapid.SampledFrom(map[bool][]string{true: {"/a", "/b", "~/c"}, false: {"a", "b", "c"}}[absolute]).Draw(t, label)
	case reflect.Slice:
		var list []any
		for i := range rapid.IntRange(0, 3).Draw(t, label+" items") {
			list = append(list, drawValue(t, typ.Elem(), enum, absolute, fmt.Sprint(label, i)))
		}
		if list == nil {
			return []any{}
		}
		return list
	default:
		m := make(map[string]any)
		for f := range typ.Fields() {
			m[document.JSONName(f)] = drawValue(t, f.Type, document.Enum(f), false, label+"."+document.JSONName(f))
		}
		return m
	}
}

// The border as a property: whatever an untrusted project file says, over
// whatever the user says, nothing gets looser than without it.
func TestAnUntrustedProjectFileNeverLoosens(t *testing.T) {
	defaults := New(Options{Env: []string{"HOME=/home/u"}}).defaults
	layers := 0
	rapid.Check(t, func(t *rapid.T) {
		read := func(label string) *layer {
			l, err := fileLayer(label, label+".json", []byte(drawConfig(t, label)), "/home/u")
			if err != nil {
				return nil // a value out of bounds: such a file counts as none
			}
			layers++
			return l
		}
		user, project, above := read("user"), read("project"), read("above")
		base := merge(defaults, user, nil, false, above)
		got := merge(defaults, user, project, false, above)
		if keys := looser(&base.cfg, &got.cfg); len(keys) > 0 {
			t.Fatalf("looser in %v", keys)
		}
		for _, k := range settings().keys {
			if k.mark == process && !reflect.DeepEqual(k.in(&base.cfg).Interface(), k.in(&got.cfg).Interface()) {
				t.Fatalf("%s is set by a project file", k.name)
			}
		}
		trusted := merge(defaults, user, project, true, above)
		for _, k := range settings().keys {
			if k.mark == process && !reflect.DeepEqual(k.in(&base.cfg).Interface(), k.in(&trusted.cfg).Interface()) {
				t.Fatalf("%s is set by a trusted project file", k.name)
			}
		}
	})
	if layers == 0 {
		t.Error("no valid file was drawn")
	}
}

// looser itself: a change in the loosening direction is seen.
func TestLooserSeesEveryDirection(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.Shell.Enabled = true },
		func(c *Config) { c.Shell.TimeoutMax++ },
		func(c *Config) { c.Shell.MaxCommandsPerMinute = 0 },
		func(c *Config) { c.Shell.RestrictToProject = false },
		func(c *Config) { c.Shell.EnvStrip = c.Shell.EnvStrip[1:] },
		func(c *Config) { c.Shell.DenyPatternsMode = "disable" },
		func(c *Config) { c.Shell.DenyPatternsMode = "replace" },
		func(c *Config) { c.Shell.DenyPatterns = nil },
		func(c *Config) { c.Crud.AccessRules = nil },
		func(c *Config) { c.Crud.AccessRules = append(c.Crud.AccessRules, AccessRule{Action: "allow"}) },
		func(c *Config) {
			c.Crud.ContentRules = append(c.Crud.ContentRules, ContentRule{Action: "redact", Priority: 1})
		},
		func(c *Config) { c.Aliases.AllowPatterns = []string{"."} },
		func(c *Config) { c.Sandbox.Mode = "off" },
		func(c *Config) { c.Sandbox.Writable = []string{"/"} },
		func(c *Config) { c.Daemon.Host = "0.0.0.0" },
		func(c *Config) { c.Shell.Shell = "x" },
	} {
		base := settings().defaults
		base.Shell.DenyPatterns = []DenyPattern{{Pattern: "p"}}
		base.Crud.AccessRules = []AccessRule{{Path: "p", Action: "deny"}}
		base.Crud.ContentRules = []ContentRule{{Pattern: "p", Action: "deny"}}
		next := base
		change(&next)
		if len(looser(&base, &next)) == 0 {
			t.Errorf("not seen: %+v", next)
		}
		if keys := looser(&base, &base); len(keys) > 0 {
			t.Errorf("no change is looser in %v", keys)
		}
	}
}

// Whoever confirms nothing must not be able to make a project's file looser
// where today's settings hide it.
func TestUpdateSeesWhatOtherSettingsHide(t *testing.T) {
	for name, c := range map[string]struct {
		user, project string
		set           []string
		above         string // --set
		trusted       bool
		keys          string // "": the update is accepted
	}{
		"the user has it on today":           {user: `{"shell": {"enabled": true}}`, set: []string{"shell.enabled", "true", "sandbox.mode", `"workspace-write"`}, trusted: true, keys: "shell.enabled sandbox.mode"},
		"a default the user may change":      {set: []string{"sandbox.mode", `"workspace-write"`}, trusted: true, keys: "sandbox.mode"},
		"a limit the user may lower further": {set: []string{"crud.max_timeout", "5"}, trusted: true, keys: "crud.max_timeout"},
		"a flag lies on top":                 {project: `{"crud": {"max_timeout": 50}}`, set: []string{"crud.max_timeout", "250"}, above: "crud.max_timeout=10", keys: "crud.max_timeout"},
		"a rule is taken out below a flag":   {project: `{"crud": {"access_rules": [{"path": "a", "action": "deny"}]}}`, set: []string{"crud.access_rules", "[]"}, above: "crud.access_rules=[]", keys: "crud.access_rules"},
		"a switch is taken out":              {user: `{"sandbox": {"require": true}}`, project: `{"sandbox": {"require": true}}`, set: []string{"sandbox.require", "null"}, keys: "sandbox.require"},
		"a key only trust lets through":      {set: []string{"shell.shell", `"nu"`}, trusted: true, keys: "shell.shell"},
		"a redaction may decide too early":   {set: []string{"crud.content_rules", `[{"pattern": "p", "action": "redact"}]`}, trusted: true, keys: "crud.content_rules"},
		"patterns are replaced by the same":  {user: `{"shell": {"deny_patterns_mode": "disable"}}`, set: []string{"shell.deny_patterns_mode", `"disable"`}, trusted: true, keys: "shell.deny_patterns_mode"},

		"a lower limit than the file's":       {project: `{"crud": {"max_timeout": 50}}`, set: []string{"crud.max_timeout", "5"}, trusted: true},
		"nothing is stricter than off":        {set: []string{"shell.enabled", "false", "sandbox.network", `"off"`, "sandbox.writable", "[]"}, trusted: true},
		"rules that deny":                     {set: []string{"crud.access_rules", `[{"path": "a", "action": "deny"}]`, "shell.env_strip", `["X"]`, "shell.deny_patterns", `[{"pattern": "x"}]`}, trusted: true},
		"a loosening is taken out":            {project: `{"shell": {"enabled": true}}`, set: []string{"shell.enabled", "null"}, trusted: true},
		"a limit without trust":               {set: []string{"crud.max_timeout", "5"}},
		"a preference":                        {set: []string{"crud.on_contention", `"merge"`}, trusted: true},
		"a redaction without trust":           {set: []string{"crud.content_rules", `[{"pattern": "p", "action": "redact"}]`}},
		"what the file has already said":      {project: `{"shell": {"shell": "x", "enabled": true}}`, set: []string{"shell.enabled", "true", "shell.shell", `"x"`}, trusted: true},
		"patterns on again after a replacing": {project: `{"shell": {"deny_patterns_mode": "replace"}}`, set: []string{"shell.deny_patterns_mode", "null"}, trusted: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Trusted: func(string, string) bool { return c.trusted }}
			o.UserFile = write(t, filepath.Join(t.TempDir(), "config.json"), cmp.Or(c.user, "{}"))
			if c.above != "" {
				o.Set = []string{c.above}
			}
			set := make(map[string]json.RawMessage)
			for pair := range slices.Chunk(c.set, 2) {
				set[pair[0]] = json.RawMessage(pair[1])
			}
			root := projectDir(t, "config.json", cmp.Or(c.project, "{}"))
			_, err := loaded(t, o).Update(root, set, false)
			looser, refused := errors.AsType[*LooserError](err)
			switch {
			case c.keys == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.keys != "" && !refused:
				t.Errorf("accepted: %v", err)
			case refused && strings.Join(looser.Keys, " ") != c.keys:
				t.Errorf("blamed %v, want %s", looser.Keys, c.keys)
			}
		})
	}
}

// The same as a property: what is accepted unasked lets nothing more through,
// whatever lies below and above the file.
func TestAnUnaskedUpdateNeverLoosens(t *testing.T) {
	defaults := New(Options{Env: []string{"HOME=/home/u"}}).defaults
	read := func(label, text string) *layer {
		l, err := fileLayer(label, label+".json", []byte(text), "/home/u")
		if err != nil {
			return nil // a value out of bounds: such a file counts as none
		}
		return l
	}
	accepted := make(map[bool]int)
	rapid.Check(t, func(t *rapid.T) {
		file := drawConfig(t, "project")
		set := make(map[string]json.RawMessage)
		for _, k := range rapid.SliceOfNDistinct(rapid.SampledFrom(settings().keys), 1, 3, func(k *key) string { return k.name }).Draw(t, "set") {
			raw, err := json.Marshal(drawValue(t, k.typ, k.enum, k.path == "absolute", k.name))
			if err != nil {
				t.Fatal(err)
			}
			set[k.name] = raw
			if rapid.IntRange(0, 3).Draw(t, k.name+" out") == 0 {
				set[k.name] = json.RawMessage("null")
			}
		}
		text, err := edit("json", []byte(file), set)
		if err != nil {
			t.Fatal(err)
		}
		before, after := read("project", file), read("project", string(text))
		if before == nil || after == nil {
			return
		}
		trusted := rapid.Bool().Draw(t, "trusted")
		if len(looserFile(before, after, trusted)) > 0 {
			return
		}
		accepted[trusted]++
		for i := range 8 {
			user, above := read("user", drawConfig(t, fmt.Sprint("user", i))), read("above", drawConfig(t, fmt.Sprint("above", i)))
			for _, top := range []*layer{nil, above} {
				was, is := merge(defaults, user, before, trusted, top), merge(defaults, user, after, trusted, top)
				if keys := looser(&was.cfg, &is.cfg); len(keys) > 0 {
					t.Fatalf("%s, trusted %v: looser in %v", set, trusted, keys)
				}
			}
		}
	})
	if accepted[true] == 0 || accepted[false] == 0 {
		t.Errorf("nothing was accepted: %v", accepted)
	}
}

func TestAProjectTrustedWithoutAFileIsTrustedOnUpdate(t *testing.T) {
	userDir(t)
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	st := loaded(t, Options{Trusted: func(_, sum string) bool { return sum == "" }})
	change, err := st.Update(root, map[string]json.RawMessage{"shell.enabled": json.RawMessage("null")}, false)
	if err != nil || !change.WasTrusted || change.Content != nil {
		t.Errorf("an update that makes no file: %+v, %v", change, err)
	}
	change, err = st.Update(root, map[string]json.RawMessage{"shell.enabled": json.RawMessage("true")}, true)
	if err != nil || !change.WasTrusted || len(change.Content) == 0 {
		t.Errorf("a confirmed update: %+v, %v", change, err)
	}
}
