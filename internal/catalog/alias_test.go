package catalog_test

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/alias"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell"
)

// sampleAliases are those that the examples are about.
const sampleAliases = `
alias gs='git status'
alias ll='ls -lhF'
alias hello='echo hello'
alias nuke='rm -rf /tmp/nothing'
alias slow='sleep 60'
alias GS='git status --short'
alias show='printenv'
alias many='seq 1 100000'
alias both='echo out; echo err >&2; exit 3'
alias catalog='echo named'
`

// aliasScope has the sample aliases, in the world's own home.
func (w *world) aliasScope(ctx context.Context) (*shell.AliasScope, error) {
	a, err := w.projects.Current(ctx)
	if err != nil {
		return nil, err
	}
	if w.aliases == nil {
		w.aliases = alias.NewStore(alias.Options{})
		w.write(filepath.Join(w.home, "aliases"), []byte(sampleAliases))
	}
	c := a.Settings().Config.Aliases
	s := &shell.AliasScope{
		Book: w.aliases.Book(alias.Settings{
			Files: []string{filepath.Join(w.home, "aliases")},
			Allow: []string{`^(git|ls|echo|sleep|printenv|seq)\b(?!\s+push)`, `^exit\b`}, Deny: c.DenyPatterns,
		}),
		Project: a.ID, Root: a.Root, Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.home, "LANG=C"},
		Home: w.home, Dir: w.home, Roots: []string{w.home, w.root}, Timeout: 20 * time.Second, MaxTimeout: time.Minute, MaxStdout: 100, MaxStderr: 100,
		Sandbox: func(string) (*shell.Sandbox, error) { return shell.Unconfined(), nil },
	}
	return s, nil
}
