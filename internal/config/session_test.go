package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A session may be stricter than the process it joins, and no more.
func TestBeyondNamesWhatASessionCannotHave(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "user.json"), `{"crud": {"max_timeout": 200}, "shell": {"shell": "zsh"}}`)
	for name, c := range map[string]struct {
		process, session []string // --set of each
		env              []string
		differ, looser   string
		needs            string
	}{
		"nothing asked":              {},
		"stricter":                   {session: []string{"crud.max_timeout=100", "audit.enabled=true", `sandbox.network=off`}},
		"looser":                     {session: []string{"shell.enabled=true"}, looser: "shell.enabled", needs: "shell.enabled=true"},
		"looser, which the other is": {process: []string{"shell.enabled=true"}, session: []string{"shell.enabled=true"}, needs: "shell.enabled=true"},
		"the user's own":             {process: []string{"crud.max_timeout=50", "shell.shell=bash"}, session: []string{"crud.max_timeout=200", "shell.shell=zsh"}},
		"another shell":              {session: []string{"shell.shell=fish"}, looser: "shell.shell", needs: `shell.shell="fish"`},
		"a key of the process":       {session: []string{"persistence.enabled=true"}, differ: "persistence.enabled", needs: "persistence.enabled=true"},
		"the same of the process":    {process: []string{"persistence.enabled=true"}, session: []string{"persistence.enabled=true"}, needs: "persistence.enabled=true"},
		"what is offered":            {session: []string{"daemon.read_only=true", `daemon.toolsets=["files"]`, `daemon.exclude_tools=["async_read"]`}},
		"free":                       {session: []string{"crud.diff_context_lines=7"}},
		"more patterns":              {session: []string{`shell.deny_patterns=[{"pattern":"x"}]`}},
		"no patterns":                {session: []string{"shell.deny_patterns_mode=disable"}, looser: "shell.deny_patterns_mode", needs: `shell.deny_patterns_mode="disable"`},
		"by the environment":         {env: []string{"ASYNC_CRUD_MCP_SHELL__ENABLED=true"}, looser: "shell.enabled", needs: "shell.enabled=true"},
	} {
		t.Run(name, func(t *testing.T) {
			process := loaded(t, Options{UserFile: file, Set: c.process})
			session := loaded(t, Options{UserFile: file, Set: c.session, Env: append([]string{"HOME=/home/u"}, c.env...)})
			differ, looser := session.Beyond(process.Current())
			if got := strings.Join(differ, " "); got != c.differ {
				t.Errorf("differ = %q, want %q", got, c.differ)
			}
			if got := strings.Join(looser, " "); got != c.looser {
				t.Errorf("looser = %q, want %q", got, c.looser)
			}
			if got, want := session.Asks(), len(c.session)+len(c.env) > 0; got != want {
				t.Errorf("Asks = %v, want %v", got, want)
			}
			needs := session.Needs()
			if got := strings.Join(needs, " "); got != c.needs {
				t.Errorf("Needs = %q, want %q", got, c.needs)
			}
			// A process that has what it needs suits it.
			differ, looser = session.Beyond(loaded(t, Options{UserFile: file, Set: needs}).Current())
			if all := slices.Concat(differ, looser); len(all) > 0 {
				t.Errorf("a process with %q lacks %q", needs, all)
			}
		})
	}
}

func TestRelativePathsStartWhereTheyWereTyped(t *testing.T) {
	st := loaded(t, Options{UserFile: write(t, filepath.Join(t.TempDir(), "user.json"), "{}"), Dir: "/there", Set: []string{`crud.base_directories=["x","/y"]`}})
	if got := st.Current().Config.Crud.BaseDirectories; !slices.Equal(got, []string{filepath.FromSlash("/there/x"), "/y"}) {
		t.Errorf("base directories = %q", got)
	}
}
