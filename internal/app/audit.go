package app

import (
	"context"
	"path/filepath"

	"github.com/async-crud-mcp/async-crud-mcp/internal/audit"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// The record of alias calls is as large as its specification says.
const (
	aliasLogSize  = 5 << 20
	aliasLogFiles = 5
)

// newAudit maps the settings to the records of calls: that of every tool, and that
// of aliases.
func newAudit(a *App, dirs fsys.Dirs, c config.Config) (calls, aliases *audit.Log) {
	o := audit.Options{
		File: filepath.Join(dirs.Log, "audit.jsonl"), MaxSize: int64(c.Audit.MaxSizeMB) << 20, MaxFiles: c.Audit.MaxFiles,
		Enabled: a.audits, Logger: a.Logger,
	}
	if c.Audit.File != nil {
		o.File = *c.Audit.File
	}
	calls = audit.New(o)
	o.File, o.MaxSize, o.MaxFiles, o.Line = filepath.Join(dirs.Log, "aliases-audit.log"), aliasLogSize, aliasLogFiles, audit.AliasLine
	if c.Aliases.AuditLogPath != nil {
		o.File = *c.Aliases.AuditLogPath
	}
	return calls, audit.New(o)
}

// audits reports whether calls in the project at root are recorded: what the user
// has switched off, a project may switch on for itself.
func (a *App) audits(root string) bool {
	if a.Settings.Current().Config.Audit.Enabled {
		return true
	}
	return a.scopes.at(root, func(s *scope) bool { return s.settings.Config.Audit.Enabled }) != nil
}

// AuditFile is where every call is recorded.
func (a *App) AuditFile() string { return a.audit.File() }

// flushAudit writes what was recorded while nothing ran that writes it: a call of
// the command line, or one that ended late.
func (a *App) flushAudit() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, l := range []*audit.Log{a.audit, a.aliasAudit} {
		if err := l.Run(ended); err != nil {
			a.Logger.Error("the record of calls is incomplete", "err", err)
		}
	}
}
