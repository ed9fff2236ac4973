// Package catalog is the product's table of contents: every tool, one file
// each. A handler converts, makes one engine call, and converts back; it holds
// no state and no rules of its own.
package catalog

import (
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
	"github.com/async-crud-mcp/async-crud-mcp/internal/project"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// Engines are what the tools call.
type Engines struct {
	Projects *project.Registry
	Files    *files.Engine
	Search   *search.Engine
	Shell    *shell.Engine
	Shells   Shells
	Health   func() health.Report
}

// Shells names the shells that run commands, since a tool's text must say which
// language to write.
type Shells struct {
	Posix string // of async_exec and exec
	Shell string // of shell
}

// The toolsets.
const (
	Files   = "files"
	Search  = "search"
	Exec    = "exec"
	Project = "project"
	Shell   = "shell"
	Command = "command"
	Aliases = "aliases"
)

// DefaultToolsets are on unless the settings say otherwise; Aliases are, too, where
// there are files of them.
func DefaultToolsets() []string { return []string{Files, Search, Exec, Project} }

// All returns every tool in listing order.
func All(e Engines) []*tool.Tool {
	return append([]*tool.Tool{
		Read(e.Files),
		Write(e.Files),
		Update(e.Files),
		Delete(e.Files),
		Rename(e.Files),
		Append(e.Files),
		List(e.Files),
		Status(e.Files, e.Health),
		BatchRead(e.Files),
		BatchWrite(e.Files),
		BatchUpdate(e.Files),
		Mkdir(e.Files),
		Copy(e.Files),
		SearchContents(e.Search),
		RunExec(e.Shell, e.Shells.Posix),
		Wait(e.Shell),
		ActivateProject(e.Projects),
		GetConfig(e.Projects),
		UpdateConfig(e.Projects),
		Health(e.Health),
		RunShell(e.Shell, e.Shells.Shell),
		ShellJobStatus(e.Shell),
		ShellJobs(e.Shell),
		ShellJobCancel(e.Shell),
		RunCommand(e.Shell, e.Shells.Posix),
		AliasExec(e.Shell),
		AliasCatalog(e.Shell),
	}, extra()...)
}

// Instructions tell a model when to use what. They are sent once per session
// and stay under 150 words.
const Instructions = `async-crud-mcp stands between you and the project, so that agents working side by side do not overwrite each other. Use its tools for every read, change and search of files and for every command.

- NO_PROJECT_ACTIVATED: call crud_activate_project with the project's absolute path.
- Read with async_read and keep the hash; change with async_update and that expected_hash. Create with async_write. Several files: the batch tools. Find with async_search.
- status "contention": others changed the file and nothing was written. Read diff and patch_verdicts, adjust, send again with current_hash; or set on_contention: "merge".
- Builds, tests, git: async_exec; long ones with background, then async_wait. status "denied": reason names the tool to use instead.
- status "error": message says what is wrong, details.next what to do.
- crud_get_config shows the limits in force; health shows how the server is.`

// now is the timestamp of a result.
func now() string { return time.Now().UTC().Format(time.RFC3339) }
