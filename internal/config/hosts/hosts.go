// Package hosts knows the configuration files of MCP hosts: where they are, how
// a server is registered in them, and how a host is told to leave its own tools
// for files and commands alone.
//
//	Machine.Plan ─▶ Change: a file, before and after ─▶ Book.Apply: backup, record, write
//	                                                    Book.Undo: exactly that, taken back
//
// A plan changes nothing; it can be shown first. Every byte of a file that is
// not ours stays as it is. A Book remembers what was changed, so that it can be
// taken back also from a file that was edited since: then only our own entries
// go. Books of several processes take turns; a file that changes between plan
// and Apply is left alone with an error.
//
// Starting hosts, talking to the person and what a good registration is are left
// to others.
package hosts

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// ServerName is what our server is called in every host.
const ServerName = "async-crud-mcp"

// The transports by which a host reaches a server.
const (
	Stdio = "stdio" // it starts one
	HTTP  = "http"  // it connects to one that runs
	SSE   = "sse"
)

// Machine is what decides where the files of hosts are.
type Machine struct {
	GOOS   string
	Home   string
	Getenv func(string) string
	Has    func(program string) bool // in PATH
}

// Here returns the machine this process runs on.
func Here() (Machine, error) {
	home, err := fsys.Home()
	if err != nil {
		return Machine{}, err
	}
	return Machine{GOOS: runtime.GOOS, Home: home, Getenv: os.Getenv, Has: func(program string) bool {
		_, err := exec.LookPath(program)
		return err == nil
	}}, nil
}

// Host is one MCP host.
type Host struct {
	Name  string // as people type it
	Title string

	program string // its command, if it has one
	format  string
	section string // where servers are registered
	typed   bool   // an entry says that it is stdio
	named   bool   // an entry names the transport of a server it connects to
	http    bool   // it connects to streamable HTTP
	sse     bool   // it connects to SSE

	files  func(m Machine) []string // signs that the host is there; the first holds servers
	within string                   // the same file in a project; "": it has none
	root   string                   // what a project's own file names as the project; "": the host starts servers there
	deny   *denial                  // nil: no file of its can deny tools
	Note   string                   // what a person should know, who denies native tools
}

// denial is how a host is told not to use its own tools.
type denial struct {
	file   func(m Machine) string // "": the file of servers
	within string
	path   []string
	tools  []string // items of a list, or none: path is set to false
}

// All returns every host we know.
func All() []*Host {
	return []*Host{
		{
			Name: "claude-code", Title: "Claude Code", program: "claude", format: "json", section: "mcpServers", typed: true, named: true, http: true, sse: true,
			files: func(m Machine) []string {
				if dir := m.Getenv("CLAUDE_CONFIG_DIR"); dir != "" {
					return []string{filepath.Join(dir, ".claude.json"), dir}
				}
				return []string{filepath.Join(m.Home, ".claude.json"), filepath.Join(m.Home, ".claude")}
			},
			within: ".mcp.json",
			deny: &denial{
				file: func(m Machine) string {
					return filepath.Join(cmp.Or(m.Getenv("CLAUDE_CONFIG_DIR"), filepath.Join(m.Home, ".claude")), "settings.json")
				},
				within: filepath.Join(".claude", "settings.json"),
				path:   []string{"permissions", "deny"}, tools: []string{"Bash", "Edit", "Write", "NotebookEdit"},
			},
		},
		{
			Name: "claude-desktop", Title: "Claude Desktop", format: "json", section: "mcpServers",
			files: func(m Machine) []string {
				dir := m.appData("Claude")
				return []string{filepath.Join(dir, "claude_desktop_config.json"), dir}
			},
			Note: "it has no tools of its own for files and commands",
		},
		{
			Name: "codex", Title: "Codex", program: "codex", format: "toml", section: "mcp_servers", http: true,
			files: func(m Machine) []string {
				dir := cmp.Or(m.Getenv("CODEX_HOME"), filepath.Join(m.Home, ".codex"))
				return []string{filepath.Join(dir, "config.toml"), dir}
			},
			deny: &denial{path: []string{"features", "shell_tool"}},
			Note: "its shell can be switched off, its apply_patch cannot: ask it in AGENTS.md to use our tools",
		},
		{
			Name: "gemini", Title: "Gemini CLI", program: "gemini", format: "json", section: "mcpServers", named: true, http: true, sse: true,
			files: func(m Machine) []string {
				dir := filepath.Join(cmp.Or(m.Getenv("GEMINI_CLI_HOME"), m.Home), ".gemini")
				return []string{filepath.Join(dir, "settings.json"), dir}
			},
			within: filepath.Join(".gemini", "settings.json"),
			deny:   &denial{path: []string{"tools", "exclude"}, tools: []string{"run_shell_command", "write_file", "replace"}},
		},
		{
			Name: "vscode", Title: "VS Code", program: "code", format: "json", section: "servers", typed: true, named: true, http: true, sse: true,
			files: func(m Machine) []string {
				dir := filepath.Join(m.appData("Code"), "User")
				return []string{filepath.Join(dir, "mcp.json"), dir}
			},
			within: filepath.Join(".vscode", "mcp.json"), root: "${workspaceFolder}",
			Note: "no file can deny its own tools: clear editFiles and runCommands in the tool picker of the chat",
		},
		{
			Name: "cursor", Title: "Cursor", program: "cursor", format: "json", section: "mcpServers", http: true, sse: true,
			files: func(m Machine) []string {
				dir := filepath.Join(m.Home, ".cursor")
				return []string{filepath.Join(dir, "mcp.json"), dir}
			},
			within: filepath.Join(".cursor", "mcp.json"), root: "${workspaceFolder}",
			Note: "no file can deny the editor's own tools: make a custom mode without edit and terminal",
		},
	}
}

// Named returns the host with a name.
func Named(name string) (*Host, error) {
	var names []string
	for _, h := range All() {
		if h.Name == name {
			return h, nil
		}
		names = append(names, h.Name)
	}
	return nil, fmt.Errorf("there is no host %q; known: %s", name, strings.Join(names, ", "))
}

// appData is the directory in which desktop programs keep one of theirs.
func (m Machine) appData(name string) string {
	switch m.GOOS {
	case "darwin":
		return filepath.Join(m.Home, "Library", "Application Support", name)
	case "windows":
		return filepath.Join(cmp.Or(m.Getenv("APPDATA"), filepath.Join(m.Home, "AppData", "Roaming")), name)
	default:
		config := m.Getenv("XDG_CONFIG_HOME")
		if !filepath.IsAbs(config) {
			config = filepath.Join(m.Home, ".config")
		}
		return filepath.Join(config, name)
	}
}

// Present reports whether the host is installed: its command is in PATH, or one
// of its files is there.
func (m Machine) Present(h *Host) bool {
	return h.program != "" && m.Has(h.program) || slices.ContainsFunc(h.files(m), fsys.Exists)
}

// Denies reports whether native tools of the host can be denied, at least some.
func (h *Host) Denies() bool { return h.deny != nil }

// Connects reports whether the host can connect to a running server with a
// transport, http or sse, instead of starting one.
func (h *Host) Connects(transport string) bool {
	return transport == HTTP && h.http || transport == SSE && h.sse
}

// InProject reports whether a project can register servers for the host in a
// file of its own.
func (h *Host) InProject() bool { return h.within != "" }
