package control

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// child is a daemon that was started and is not ours to end.
type child struct {
	ended chan struct{} // closed when it has
	log   string
}

// spawnChild starts a process that outlives this one, in a session of its own and
// without our streams. What it says on standard error before it is ready is kept
// in a file.
func spawnChild(l Launch, dir, log string) (*child, error) {
	if err := fsys.MkdirPrivate(filepath.Dir(log)); err != nil {
		return nil, fmt.Errorf("log directory: %w", err)
	}
	said, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer said.Close()
	cmd := exec.Command(l.Program) //nolint:noctx // it is to outlive whoever starts it
	cmd.Args, cmd.Env, cmd.Dir, cmd.Stderr = l.Args, l.Env, dir, said
	cmd.SysProcAttr = detached()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{ended: make(chan struct{}), log: log}
	go func() {
		defer close(c.ended)
		_ = cmd.Wait() // how it ended is what it said
	}()
	return c, nil
}

// said returns why it could not start, in its own words.
func (c *child) said() string {
	raw, err := fsys.ReadFile(c.log, 64<<10)
	text := strings.TrimSpace(string(bytes.ToValidUTF8(raw, []byte("?"))))
	if err != nil || text == "" {
		return "it ended without a word; see the log"
	}
	return text
}
