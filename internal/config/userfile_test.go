package config

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestEditUserKeepsTheRestAndRefusesWhatWouldBeRefused(t *testing.T) {
	set := map[string]json.RawMessage{"shell.enabled": json.RawMessage("true")}
	for _, c := range []struct {
		name, path, raw, want string
		none                  bool
	}{
		{name: "new", path: "config.json", none: true, want: "\"shell\": {\n    \"enabled\": true"},
		{name: "new TOML", path: "config.toml", none: true, want: "[shell]\nenabled = true"},
		{name: "comments", path: "config.yaml", raw: "# mine\ncrud:\n  max_timeout: 60 # short\n", want: "# mine\ncrud:\n  max_timeout: 60 # short\nshell:\n  enabled: true\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := []byte(c.raw)
			if c.none {
				raw = nil
			}
			got, err := EditUser(c.path, raw, set)
			if err != nil || !strings.Contains(string(got), c.want) {
				t.Errorf("EditUser = %v\n%s\nwant it to hold\n%s", err, got, c.want)
			}
		})
	}
	if _, err := EditUser("config.yaml", []byte("crud:\n  max_timeout: soon\n"), set); err == nil {
		t.Error("a file with a wrong value was edited")
	}
	if _, err := EditUser("config.json", nil, map[string]json.RawMessage{"sandbox.mode": json.RawMessage(`"loose"`)}); err == nil {
		t.Error("a wrong value was set")
	}
}
