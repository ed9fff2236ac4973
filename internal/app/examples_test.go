package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
)

const examples = "../../examples/aliases"

func readExample(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(examples, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// homeWith is a home directory with files, and the server's own files in it.
func homeWith(t *testing.T, files map[string]string) string {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("ASYNC_CRUD_MCP_HOME", filepath.Join(home, "state"))
	for name, text := range files {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

func TestTheExamplesAreWhatTheySay(t *testing.T) {
	home := homeWith(t, map[string]string{
		".bash_aliases": readExample(t, "bash_aliases"), ".work_functions": readExample(t, "work_functions"), "config.yaml": readExample(t, "config.yaml"),
		"project/.async-crud-mcp/config.json": readExample(t, "project.json"),
	})
	load := func(root string) *App {
		a, err := Load(Options{Mode: "call", Root: root, Quiet: true, Settings: config.Options{Env: []string{"HOME=" + home}, UserFile: filepath.Join(home, "config.yaml")}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Close)
		return a
	}
	a := load("")
	if w := a.Settings.Current().Warnings(); len(w) > 0 || len(a.aliasFindings()) > 0 {
		t.Errorf("warnings %v, findings %v", w, a.aliasFindings())
	}
	scope, err := a.Aliases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	book := scope.Book
	for name, safe := range map[string]bool{
		"ll": true, "la": true, "g": true, "gs": true, "gd": true, "recent": true, "todo": true, "since": true, "gp": false, "clean": false, "up": false,
	} {
		if one := book.Lookup(name); one == nil || one.Safe != safe {
			t.Errorf("%s: %+v, want safe %t", name, one, safe)
		}
	}
	if book.Len() != 11 || book.Lookup("gs").Resolved != "git status --short" || !book.Lookup("since").Function {
		t.Errorf("%d aliases, gs is %q", book.Len(), book.Lookup("gs").Resolved)
	}
	// The project is stricter.
	commit := `{"name": "g", "args": "commit -m x", "cwd": "` + home + `"}`
	if got := callTool(t, a, "alias_exec", commit); got["safe"] != true || got["timeoutSeconds"] != 20.0 {
		t.Errorf("without the project: %v", got)
	}
	if got := callTool(t, load(filepath.Join(home, "project")), "alias_exec", commit); got["safe"] != false || got["timeoutSeconds"] != 5.0 {
		t.Errorf("in the project: %v", got)
	}
}

func TestHostSnippetsStartThisProgram(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(examples, "hosts", "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	type server struct {
		Command string   `json:"command" toml:"command"`
		Args    []string `json:"args" toml:"args"`
		HTTPURL string   `json:"httpUrl" toml:"-"`
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var all struct {
			Servers map[string]server `json:"mcpServers" toml:"mcp_servers"`
		}
		if strings.HasSuffix(file, ".toml") {
			err = toml.Unmarshal(raw, &all)
		} else {
			err = json.Unmarshal(raw, &all)
		}
		if err != nil || len(all.Servers) != 1 {
			t.Errorf("%s: %v, %v", file, all, err)
		}
		for _, s := range all.Servers {
			if s.HTTPURL != "http://127.0.0.1:8720/mcp" && (s.Command != Name || len(s.Args) == 0 || s.Args[0] != "stdio") {
				t.Errorf("%s: %+v", file, s)
			}
		}
	}
}

// The sample of the specification, to the letter.
func TestTheSpecificationsSampleLoadsAndBehaves(t *testing.T) {
	const sample = `
aliasFiles:
  - ~/.bash_aliases
  - ~/.bashrc
allowPatterns:
  - '^ls\\b'
  - '^cat\\b'
  - '^git\\b(?!\\s+(push|reset|rebase|clean))'
  - '^grep\\b'
  - '^rg\\b'
denyPatterns:
  - '^rm\\b'
  - '^dd\\b'
  - '^shutdown\\b'
  - '^reboot\\b'
  - '^sudo\\b'
defaultCwd: '~'
defaultTimeoutSeconds: 20
maxStdoutBytes: 10000
maxStderrBytes: 10000
auditLogPath: '~/.local/state/mcp-bash-aliases/audit.log'
enableHotReload: true
`
	home := homeWith(t, map[string]string{
		".bash_aliases": "alias ll='ls -lhF --color=auto'\nalias gs='git status'\nalias gp='git push'\n",
		".bashrc":       "# comment\nalias gs=\"git status -sb\"\nalias bye='sudo reboot'\n", "config.yaml": sample,
	})
	a, err := Load(Options{Mode: "call", Quiet: true, Settings: config.Options{Env: []string{"HOME=" + home}, UserFile: filepath.Join(home, "config.yaml")}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for call, want := range map[string]string{
		`{"name": "ll", "args": "~", "dryRun": false, "confirm": true}`: "ok",
		`{"name": "gs"}`: "ok",
		`{"name": "gs", "args": "; rm x", "dryRun": false, "confirm": true}`: "ALIAS_UNSAFE",
		`{"name": "gp"}`: "ok",
		`{"name": "gp", "dryRun": false, "confirm": true}`:  "ALIAS_UNSAFE",
		`{"name": "bye", "dryRun": false, "confirm": true}`: "ALIAS_UNSAFE",
		`{"name": "nope"}`: "ALIAS_NOT_FOUND",
	} {
		if got := callTool(t, a, "alias.exec", call); got["status"] != want && got["error_code"] != want {
			t.Errorf("%s: %v, want %s", call, got, want)
		}
	}
	if got := callTool(t, a, "alias_exec", `{"name": "gs"}`); got["command"] != "git status -sb" || got["sourceFile"] != filepath.Join(home, ".bashrc") {
		t.Errorf("the later file does not win: %v", got)
	}
}
