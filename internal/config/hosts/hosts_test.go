package hosts

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// machine is a Linux with nothing but a home.
func machine(t *testing.T) Machine {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return Machine{GOOS: "linux", Home: home, Getenv: func(string) string { return "" }, Has: func(string) bool { return false }}
}

func named(t *testing.T, name string) *Host {
	t.Helper()
	h, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func put(t *testing.T, path, text string, perm fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), perm); err != nil {
		t.Fatal(err)
	}
}

// tree returns every file and directory below dir with its bytes and mode.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		all[rel] = info.Mode().String()
		if d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all[rel] += " " + string(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func sameTree(t *testing.T, got, want map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if want[name] != got[name] {
			t.Errorf("%s is\n%s\nwant\n%s", name, got[name], want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is gone", name)
		}
	}
}

var want = Want{Server: Server{Command: "/opt/async-crud-mcp", Args: []string{"stdio"}}, DenyNative: true}

func install(t *testing.T, m Machine, b *Book, h *Host, w Want) {
	t.Helper()
	changes, err := m.Plan(h, w)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if _, err := b.Apply(c, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func uninstall(t *testing.T, b *Book) {
	t.Helper()
	changes, err := b.Undo()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if err := b.TakeBack(c); err != nil {
			t.Fatal(err)
		}
	}
}

// existing is what the hosts' files may hold already.
var existing = map[string]map[string]string{
	"claude-code": {
		".claude.json":          "{\n  \"userID\": \"u\",\n  \"mcpServers\": {\n    \"other\": {\"command\": \"x\"}\n  }\n}",
		".claude/settings.json": "{\n\t\"permissions\": {\n\t\t\"deny\": [\"WebFetch\", \"Bash\"]\n\t}\n}\n",
	},
	"claude-desktop": {".config/Claude/claude_desktop_config.json": "{}"},
	"codex":          {".codex/config.toml": "model = \"m\" # mine\n\n[features]\nweb = true\n\n# others\n[mcp_servers.other]\ncommand = \"x\"\n"},
	"gemini":         {".gemini/settings.json": "// mine\n{\n  \"tools\": {\"exclude\": []},\n}\n"},
	"vscode":         {".config/Code/User/mcp.json": "{\r\n\t\"inputs\": [],\r\n\t\"servers\": {\r\n\t\t// none yet\r\n\t}\r\n}\r\n"},
	"cursor":         {".cursor/mcp.json": `{"mcpServers":{}}`},
}

func TestUninstallLeavesEveryFileAsItWas(t *testing.T) {
	for _, h := range All() {
		for _, filled := range []bool{false, true} {
			t.Run(h.Name+map[bool]string{false: " without files", true: " with files"}[filled], func(t *testing.T) {
				m := machine(t)
				if filled {
					for name, text := range existing[h.Name] {
						put(t, filepath.Join(m.Home, name), text, 0o640)
					}
				}
				if m.Present(h) != filled {
					t.Errorf("Present = %t, want %t", !filled, filled)
				}
				before := tree(t, m.Home)
				b := NewBook(filepath.Join(m.Home, "data", "share", "ours"))
				install(t, m, b, h, want)
				r, err := m.Registered(h, "")
				if err != nil || !r.Found || r.Command != want.Server.Command || strings.Join(r.Args, " ") != "stdio" || r.Denied != h.Denies() {
					t.Errorf("Registered = %+v, %v", r, err)
				}
				if again, err := m.Plan(h, want); err != nil || len(again) > 0 {
					t.Errorf("a second plan = %+v, %v, want none", again, err)
				}
				for name := range existing[h.Name] {
					if info, err := os.Stat(filepath.Join(m.Home, name)); filled && (err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640) {
						t.Errorf("%s has mode %v (%v), want it kept", name, info.Mode(), err)
					}
				}
				uninstall(t, b)
				sameTree(t, tree(t, m.Home), before)
			})
		}
	}
}

// Hosts write to their files all the time; then only our entries go.
func TestUninstallTakesOnlyOurEntriesFromAFileThatWasEditedSince(t *testing.T) {
	for _, h := range All() {
		t.Run(h.Name, func(t *testing.T) {
			m := machine(t)
			b := NewBook(filepath.Join(m.Home, "data"))
			install(t, m, b, h, want)
			edited := make(map[string]string)
			records, err := b.Records()
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				text, err := os.ReadFile(r.Path)
				if err != nil {
					t.Fatal(err)
				}
				if h.format == "toml" {
					put(t, r.Path, "# a person's\nmodel = \"m\"\n\n"+string(text)+"\n# last\n[z]\na = 1\n", 0o600)
					edited[r.Path] = "# a person's\nmodel = \"m\"\n\n# last\n[z]\na = 1\n"
					continue
				}
				put(t, r.Path, strings.Replace(string(text), "{", "{\n  // a person's\n  \"theme\": \"dark\",", 1), 0o600)
				edited[r.Path] = "{\n  // a person's\n  \"theme\": \"dark\"\n}\n"
			}
			uninstall(t, b)
			for path, want := range edited {
				got, err := os.ReadFile(path)
				if err != nil || strings.TrimSpace(string(got)) != strings.TrimSpace(want) {
					t.Errorf("%s = %q, %v\nwant %q", path, got, err, want)
				}
			}
			if r, err := m.Registered(h, ""); err != nil || r.Found || r.Denied {
				t.Errorf("Registered = %+v, %v", r, err)
			}
		})
	}
}

func TestAnEntryOfThePersonsOwnIsMergedAndComesBack(t *testing.T) {
	m := machine(t)
	h := named(t, "codex")
	path := filepath.Join(m.Home, ".codex", "config.toml")
	const own = "[mcp_servers.async-crud-mcp]\nurl = \"http://127.0.0.1:8720/mcp\"\nstartup_timeout_sec = 20\n"
	put(t, path, own, 0o600)
	b := NewBook(filepath.Join(m.Home, "data"))
	install(t, m, b, h, want)
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "startup_timeout_sec = 20") || strings.Contains(string(text), "url") || !strings.Contains(string(text), "/opt/async-crud-mcp") {
		t.Fatalf("%v\n%s", err, text)
	}
	put(t, path, string(text)+"\n[z]\na = 1\n", 0o600)
	uninstall(t, b)
	r, err := m.Registered(h, "")
	if err != nil || r.URL != "http://127.0.0.1:8720/mcp" || r.Command != "" {
		t.Errorf("Registered = %+v, %v, want the person's own", r, err)
	}
	// One that says just what we would is the person's, too.
	put(t, path, "[mcp_servers.async-crud-mcp]\ncommand = \"/opt/async-crud-mcp\"\nargs = [\"stdio\"]\n", 0o600)
	w := want
	w.DenyNative = false
	if changes, err := m.Plan(h, w); err != nil || len(changes) > 0 {
		t.Errorf("Plan = %+v, %v, want none", changes, err)
	}
}

func TestASecondInstallKeepsTheFirstCopy(t *testing.T) {
	m := machine(t)
	h := named(t, "claude-code")
	for name, text := range existing[h.Name] {
		put(t, filepath.Join(m.Home, name), text, 0o600)
	}
	before := tree(t, m.Home)
	b := NewBook(filepath.Join(m.Home, "data"))
	w := want
	w.DenyNative = false
	install(t, m, b, h, w)
	w.Server.Args = []string{"stdio", "--root", "/p"}
	w.DenyNative = true
	install(t, m, b, h, w)
	if r, err := m.Registered(h, ""); err != nil || strings.Join(r.Args, " ") != "stdio --root /p" || !r.Denied {
		t.Errorf("Registered = %+v, %v", r, err)
	}
	uninstall(t, b)
	sameTree(t, tree(t, m.Home), before)
}

func TestAFileThatChangedAfterThePlanIsLeftAlone(t *testing.T) {
	m := machine(t)
	h := named(t, "cursor")
	path := filepath.Join(m.Home, ".cursor", "mcp.json")
	put(t, path, "{}", 0o600)
	changes, err := m.Plan(h, want)
	if err != nil || len(changes) != 1 {
		t.Fatalf("Plan = %+v, %v", changes, err)
	}
	put(t, path, `{"new": 1}`, 0o600)
	before := tree(t, m.Home)
	b := NewBook(filepath.Join(m.Home, "data"))
	if _, err := b.Apply(changes[0], 0o600); !errors.Is(err, ErrMoved) {
		t.Errorf("Apply = %v, want ErrMoved", err)
	}
	sameTree(t, tree(t, m.Home), before)
}

func TestABrokenFileIsNamedAndLeftAlone(t *testing.T) {
	m := machine(t)
	path := filepath.Join(m.Home, ".cursor", "mcp.json")
	put(t, path, "{\n  \"a\": oops\n}", 0o600)
	if _, err := m.Plan(named(t, "cursor"), want); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("Plan = %v, want the file and the line", err)
	}
}

func TestALinkToAFileStaysALink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("links need a right that few have there")
		return
	}
	m := machine(t)
	dotfiles := filepath.Join(m.Home, "dotfiles", "mcp.json")
	put(t, dotfiles, "{}\n", 0o600)
	if err := os.Mkdir(filepath.Join(m.Home, ".cursor"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dotfiles, filepath.Join(m.Home, ".cursor", "mcp.json")); err != nil {
		t.Fatal(err)
	}
	before := tree(t, m.Home)
	b := NewBook(filepath.Join(m.Home, "data"))
	install(t, m, b, named(t, "cursor"), want)
	if text, err := os.ReadFile(dotfiles); err != nil || !strings.Contains(string(text), ServerName) {
		t.Errorf("the file behind the link holds %q, %v", text, err)
	}
	uninstall(t, b)
	sameTree(t, tree(t, m.Home), before)
}

func TestAProjectsOwnFiles(t *testing.T) {
	m := machine(t)
	w := want
	w.Project = t.TempDir()
	w.Server.Command = "async-crud-mcp"
	for name, args := range map[string]string{"claude-code": "stdio", "gemini": "stdio", "vscode": "stdio --root ${workspaceFolder}", "cursor": "stdio --root ${workspaceFolder}"} {
		h := named(t, name)
		b := NewBook(filepath.Join(m.Home, "data"))
		install(t, m, b, h, w)
		if r, err := m.Registered(h, w.Project); err != nil || strings.Join(r.Args, " ") != args || r.Denied != h.Denies() {
			t.Errorf("%s: Registered = %+v, %v", name, r, err)
		}
		if again, err := m.Plan(h, w); err != nil || len(again) > 0 {
			t.Errorf("%s: a second plan = %+v, %v, want none", name, again, err)
		}
		uninstall(t, b)
	}
	if left := tree(t, w.Project); len(left) != 1 {
		t.Errorf("left in the project: %v", left)
	}
	if _, err := m.Plan(named(t, "codex"), w); err == nil {
		t.Error("Codex took a project's file")
	}
}

func TestWhereFilesAre(t *testing.T) {
	env := map[string]string{}
	m := Machine{Home: "/home/me", Getenv: func(name string) string { return env[name] }, Has: func(string) bool { return false }}
	for _, c := range []struct{ goos, variable, host, want string }{
		{"linux", "", "claude-code", "/home/me/.claude.json"},
		{"linux", "CLAUDE_CONFIG_DIR=/c", "claude-code", "/c/.claude.json"},
		{"linux", "", "claude-desktop", "/home/me/.config/Claude/claude_desktop_config.json"},
		{"linux", "XDG_CONFIG_HOME=/x", "vscode", "/x/Code/User/mcp.json"},
		{"darwin", "", "claude-desktop", "/home/me/Library/Application Support/Claude/claude_desktop_config.json"},
		{"darwin", "", "vscode", "/home/me/Library/Application Support/Code/User/mcp.json"},
		{"windows", "APPDATA=/r", "claude-desktop", "/r/Claude/claude_desktop_config.json"},
		{"windows", "", "vscode", "/home/me/AppData/Roaming/Code/User/mcp.json"},
		{"linux", "CODEX_HOME=/x", "codex", "/x/config.toml"},
		{"linux", "GEMINI_CLI_HOME=/g", "gemini", "/g/.gemini/settings.json"},
		{"windows", "", "cursor", "/home/me/.cursor/mcp.json"},
	} {
		m.GOOS = c.goos
		clear(env)
		if name, value, ok := strings.Cut(c.variable, "="); ok {
			env[name] = value
		}
		if got := filepath.ToSlash(named(t, c.host).files(m)[0]); got != c.want {
			t.Errorf("%s on %s with %q: %s, want %s", c.host, c.goos, c.variable, got, c.want)
		}
	}
}

// A file that is ours as a whole comes back as a whole, or stays when a person
// has edited it.
func TestOurOwnFileGoesUnlessItWasEdited(t *testing.T) {
	m := machine(t)
	b := NewBook(filepath.Join(m.Home, "data"))
	path := filepath.Join(m.Home, "config.json")
	if _, err := b.Apply(Change{Host: Own, Path: path, After: []byte("{}\n")}, 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, path, "{ }\n", 0o600)
	changes, err := b.Undo()
	if err != nil || len(changes) != 1 || changes[0].Note == "" || string(changes[0].After) != "{ }\n" {
		t.Fatalf("Undo = %+v, %v, want it to stay", changes, err)
	}
	put(t, path, "{}\n", 0o600)
	uninstall(t, b)
	if left := tree(t, m.Home); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

func TestAHostThatConnectsIsGivenTheAddress(t *testing.T) {
	for _, h := range All() {
		for _, transport := range []string{HTTP, SSE} {
			m := machine(t)
			w := Want{Server: Server{Transport: transport, URL: "http://127.0.0.1:8720/x"}}
			if !h.Connects(transport) {
				if _, err := m.Plan(h, w); err == nil {
					t.Errorf("%s took %s, which it does not speak", h.Name, transport)
				}
				continue
			}
			b := NewBook(filepath.Join(m.Home, "data"))
			install(t, m, b, h, want) // first the other way
			install(t, m, b, h, w)
			if r, err := m.Registered(h, ""); err != nil || r.URL != w.Server.URL || r.Command != "" || len(r.Args) > 0 {
				t.Errorf("%s: Registered = %+v, %v", h.Name, r, err)
			}
			install(t, m, b, h, want)
			if r, err := m.Registered(h, ""); err != nil || r.URL != "" || r.Command != want.Server.Command {
				t.Errorf("%s: Registered = %+v, %v", h.Name, r, err)
			}
			uninstall(t, b)
			if left := tree(t, m.Home); len(left) != 1 {
				t.Errorf("%s: left: %v", h.Name, left)
			}
		}
	}
}

func TestWhatOthersWroteBetweenTwoInstallsStays(t *testing.T) {
	m := machine(t)
	h := named(t, "cursor")
	path := filepath.Join(m.Home, ".cursor", "mcp.json")
	put(t, path, "{\n  \"a\": 1\n}\n", 0o600)
	b := NewBook(filepath.Join(m.Home, "data"))
	install(t, m, b, h, want)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, path, strings.Replace(string(text), `"a": 1`, `"a": 2`, 1), 0o600)
	w := want
	w.Server.Args = []string{"stdio", "--root", "/p"}
	install(t, m, b, h, w)
	uninstall(t, b)
	if got, err := os.ReadFile(path); err != nil || string(got) != "{\n  \"a\": 2\n}\n" {
		t.Errorf("left is %q, %v", got, err)
	}
}

func TestAFileOfOursThatAHostWroteAnewGoesWhenNothingElseIsInIt(t *testing.T) {
	m := machine(t)
	h := named(t, "cursor")
	b := NewBook(filepath.Join(m.Home, "data"))
	install(t, m, b, h, want)
	put(t, filepath.Join(m.Home, ".cursor", "mcp.json"), `{"mcpServers":{"async-crud-mcp":{"command":"/opt/async-crud-mcp","args":["stdio"],"disabled":true}}}`, 0o600)
	uninstall(t, b)
	if left := tree(t, m.Home); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

func TestAValueThatAPersonHasChangedSinceStays(t *testing.T) {
	m := machine(t)
	h := named(t, "codex")
	path := filepath.Join(m.Home, ".codex", "config.toml")
	b := NewBook(filepath.Join(m.Home, "data"))
	install(t, m, b, h, want)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, path, strings.Replace(string(text), "shell_tool = false", "shell_tool = true", 1), 0o600)
	uninstall(t, b)
	if got, err := os.ReadFile(path); err != nil || strings.TrimSpace(string(got)) != "[features]\nshell_tool = true" {
		t.Errorf("left is %q, %v", got, err)
	}
}
