package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// claimsFile lists which process of the user holds the locks below which
// directory.
const claimsFile = "roots.json"

// claims are the directories that this process has for itself: no other process
// of ours works below or above one of them, so that a file has one lock table.
// They are written down in a file that all processes of the user share under its
// lock; a process that is gone has none, however it went.
type claims struct {
	file string // "": nobody is told
	as   string // what this process is, for others to read
	log  *slog.Logger

	turn chan struct{} // held by who reads and writes the file
	mu   sync.Mutex
	mine map[string]map[string]bool // root → the sessions that have it; guarded by mu
}

// claim is one line of the file.
type claim struct {
	Root  string `json:"root"`
	Owner string `json:"owner"` // as fsys.Process names it
	PID   int    `json:"pid"`
	As    string `json:"as"`
}

func newClaims(file, as string, log *slog.Logger) *claims {
	return &claims{file: file, as: as, log: log, turn: make(chan struct{}, 1), mine: make(map[string]map[string]bool)}
}

// errInUse is behind the refusal of a directory that another process has.
var errInUse = errors.New("another process holds the locks there")

// take claims directories for a session, or says who has one of them.
func (c *claims) take(session string, roots []string) error {
	if c.joined(session, roots) {
		return nil
	}
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if c.joined(session, roots) {
		return nil
	}
	err := c.change(func(others []claim) ([]string, error) {
		for _, root := range roots {
			for _, o := range others {
				if fsys.Within(o.Root, root) || fsys.Within(root, o.Root) {
					return nil, c.refusal(root, o)
				}
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, root := range roots {
			if c.mine[root] == nil {
				c.mine[root] = make(map[string]bool)
			}
			c.mine[root][session] = true
		}
		return c.rootsLocked(), nil
	})
	if err != nil && !errors.Is(err, errInUse) {
		// Nobody can be told, and nobody can be asked. What is on disk stays the truth.
		c.log.Warn("directories cannot be claimed; other processes may work there too", "err", err)
		return nil
	}
	return err
}

// joined adds the session to what this process has already, and reports whether
// that is all.
func (c *claims) joined(session string, roots []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, root := range roots {
		if c.mine[root] == nil {
			return false
		}
	}
	for _, root := range roots {
		c.mine[root][session] = true
	}
	return true
}

// drop gives back what only this session had.
func (c *claims) drop(session string) { c.release(func(s string) bool { return s == session }) }

// close gives everything back.
func (c *claims) close() { c.release(func(string) bool { return true }) }

func (c *claims) release(ends func(session string) bool) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	c.mu.Lock()
	gone := false
	for root, sessions := range c.mine {
		for s := range sessions {
			if ends(s) {
				delete(sessions, s)
			}
		}
		if len(sessions) == 0 {
			delete(c.mine, root)
			gone = true
		}
	}
	left := c.rootsLocked()
	c.mu.Unlock()
	if !gone {
		return
	}
	if err := c.change(func([]claim) ([]string, error) { return left, nil }); err != nil {
		c.log.Warn("directories stay claimed until this process ends", "err", err)
	}
}

func (c *claims) rootsLocked() []string {
	var roots []string
	for root := range c.mine {
		roots = append(roots, root)
	}
	slices.Sort(roots)
	return roots
}

// change rewrites the file: the claims of others that live, and ours as decide
// says after it has seen theirs.
func (c *claims) change(decide func(others []claim) (mine []string, err error)) error {
	if c.file == "" {
		_, err := decide(nil)
		return err
	}
	if err := fsys.MkdirPrivate(filepath.Dir(c.file)); err != nil {
		return err
	}
	return fsys.Locked(c.file+".lock", func() error {
		others, err := c.others()
		if err != nil {
			return err
		}
		mine, err := decide(others)
		if err != nil {
			return err
		}
		for _, root := range mine {
			others = append(others, claim{Root: root, Owner: fsys.Process(), PID: os.Getpid(), As: c.as})
		}
		raw, err := json.Marshal(others)
		if err != nil {
			return fmt.Errorf("encode claims: %w", err)
		}
		return fsys.WriteFile(c.file, raw, 0o600)
	})
}

// others reads the claims of processes that live. A file that makes no sense is
// one that nobody of ours wrote.
func (c *claims) others() ([]claim, error) {
	raw, err := fsys.ReadFile(c.file, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []claim
	if err := json.Unmarshal(raw, &all); err != nil {
		c.log.Warn("the list of claimed directories is begun anew", "file", c.file, "err", err)
		return nil, nil
	}
	me := fsys.Process()
	return slices.DeleteFunc(all, func(o claim) bool { return o.Owner == me || fsys.Gone(o.Owner) }), nil
}

func (c *claims) refusal(root string, o claim) error {
	next := fmt.Sprintf("End process %d, or start both without --standalone: then they share one daemon.", o.PID)
	if o.As == SharedMode {
		next = "Leave --standalone out, so that this process joins the daemon, or end that with '" + Name + " daemon stop'."
	}
	e := fault.New(fault.AccessDenied, "%s is in use by another %s process (%s, pid %d), which holds the locks of %s", root, Name, o.As, o.PID, o.Root).
		At(root).With("pid", o.PID).With("next", next)
	e.Err = errInUse
	return e
}
