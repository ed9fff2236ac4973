package config

import (
	"encoding/json"
	"testing"
)

// FuzzMerge lays three files of random bytes over each other, in every role and
// format. Nothing panics, and an untrusted project file never loosens.
func FuzzMerge(f *testing.F) {
	for _, text := range []string{
		"{}", "", "null",
		`{"shell": {"enabled": true, "deny_patterns_mode": "disable"}, "daemon": {"port": null}}`,
		`{"shell_enabled": true, "shell_deny_patterns": [{"pattern": "x"}], "crud": {"access_rules": [{"path": "a", "action": "allow"}]}}`,
		"sandbox: {mode: off, writable: [/]}\nshell: &s {enabled: true}\ntools: {shell: *s}\n",
		"aliasFiles: [~/.bashrc]\nallowPatterns: ['.']\ndefaultCwd: /\n",
		"x: &a [*a]\nshell: *a\n<<: *a\n? [1]\n: 2\n",
		"[tools.shell]\nenabled = true\ntimeout_max = 1e400\n[crud]\ncontent_rules = [{pattern = 'p', action = 'redact', priority = 9}]\nx = 1979-05-27\n",
		"\xef\xbb\xbf{\"crud\": {\"max_timeout\": 1e999}}", "shell: {timeout_max: .nan}\n",
	} {
		f.Add([]byte(text), []byte(text), []byte(text), uint8(0))
		f.Add([]byte("{}"), []byte(text), []byte("{}"), uint8(5))
		f.Add([]byte(text), []byte(text), []byte(text), uint8(10))
	}
	defaults := New(Options{Env: []string{"HOME=/home/u"}}).defaults
	f.Fuzz(func(t *testing.T, user, project, above []byte, formats uint8) {
		read := func(kind string, data []byte, format uint8) *layer {
			l, err := fileLayer(kind, []string{"c.json", "c.yaml", "c.toml", "c.yml"}[format%4], data, "/home/u")
			if err != nil {
				_ = err.Error()
				return nil
			}
			return l
		}
		u, p, a := read("user", user, formats), read("project", project, formats>>2), read("above", above, formats>>4)
		base := merge(defaults, u, nil, false, a)
		got := merge(defaults, u, p, false, a)
		if keys := looser(&base.cfg, &got.cfg); len(keys) > 0 {
			t.Fatalf("looser in %v", keys)
		}
		trusted := merge(defaults, u, p, true, a)
		for _, k := range settings().keys {
			if k.mark == process && show(k.in(&trusted.cfg)) != show(k.in(&base.cfg)) {
				t.Fatalf("%s is set by a project file", k.name)
			}
		}
		env, err := envLayer([]string{"ASYNC_CRUD_MCP_SHELL__DENY_PATTERNS=" + string(above), "ASYNC_CRUD_MCP_" + string(user)}, "")
		if err == nil {
			merge(defaults, u, p, false, env)
		}
	})
}

// FuzzEdit sets a key in a file of random bytes: the outcome is a file that is
// valid and says so, or an error.
func FuzzEdit(f *testing.F) {
	for _, text := range []string{
		"{}", `{"shell": null, "crud": {}}`, `{"shell": {"timeoutMax": 5}}`, "shell:\n  # c\n  timeout_max: 5 # d\n",
		"[shell]\ntimeout_max = 5\n", "maxStdoutBytes: 5\n", "a: &a {timeout_max: 3}\nshell: *a\n", "# only\n", "---\n...\n",
	} {
		for format := range uint8(3) {
			f.Add([]byte(text), format)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, format uint8) {
		name := []string{"json", "yaml", "toml"}[format%3]
		if _, err := fileLayer("project", "c."+name, data, ""); err != nil {
			return
		}
		out, err := edit(name, data, map[string]json.RawMessage{"shell.timeout_max": json.RawMessage("7")})
		if err != nil {
			return
		}
		l, err := fileLayer("project", "c."+name, out, "")
		if err != nil {
			t.Fatalf("the edited file is refused: %v\n%s", err, out)
		}
		if l.cfg.Shell.TimeoutMax != 7 {
			t.Fatalf("the edited file says %v\n%s", l.cfg.Shell.TimeoutMax, out)
		}
	})
}
