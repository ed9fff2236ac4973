package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config/hosts"
	"github.com/async-crud-mcp/async-crud-mcp/internal/history/archive"
	"github.com/async-crud-mcp/async-crud-mcp/internal/project"
)

// lookAtData looks whether files of ours can be read.
func (d *doctor) lookAtData() {
	const check = "data"
	sound := true
	bad := func(detail, cure string) {
		sound = false
		d.add(check, levelError, detail, cure)
	}
	book := filepath.Join(d.dirs.Data, hosts.BookFile)
	if _, err := hosts.NewBook(d.dirs.Data).Records(); err != nil {
		bad(err.Error(), "mend it, or remove "+book+"; then take registrations back by hand")
	}
	trust := filepath.Join(d.dirs.Config, app.TrustFile)
	if _, err := project.NewTrust(trust).List(); err != nil {
		bad(err.Error(), "mend it, or remove "+trust+" and trust your projects again")
	}
	if d.app != nil {
		r, err := archive.View(d.ctx, d.app.HistoryFile())
		if err == nil {
			_, err = r.List(d.ctx, archive.Filter{Limit: 1})
			err = errors.Join(err, r.Close())
		}
		switch {
		case err == nil || errors.Is(err, fs.ErrNotExist):
		case archive.Damaged(err):
			bad(err.Error(), "start a server: it sets the damaged file aside and begins anew")
		default:
			bad(err.Error(), "see that "+d.app.HistoryFile()+" is yours and was written by this version")
		}
	}
	if sound {
		d.add(check, levelOK, "trust, history and record of changes can be read", "")
	}
}

// lookAtHosts looks at the registration with every host.
func (d *doctor) lookAtHosts() error {
	machine, err := hosts.Here()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	found := false
	for _, h := range hosts.All() {
		present := machine.Present(h)
		found = found || present
		r, err := machine.Registered(h, "")
		switch {
		case err != nil:
			d.add(h.Name, levelError, err.Error(), "mend the file")
		case r.Found:
			d.lookAtRegistration(h, r, self)
		case present:
			d.add(h.Name, levelNote, h.Title+" is here, and this server is not registered with it", app.Name+" quick-install --host "+h.Name)
		}
		if d.project != "" && h.InProject() {
			if r, err := machine.Registered(h, d.project); err != nil {
				d.add(h.Name, levelError, err.Error(), "mend the file")
			} else if r.Found {
				d.lookAtRegistration(h, r, self)
			}
		}
	}
	if !found {
		d.add("hosts", levelNote, "no MCP host is found here", "")
	}
	return nil
}

func (d *doctor) lookAtRegistration(h *hosts.Host, r hosts.Registration, self string) {
	again := app.Name + " quick-install --host " + h.Name
	if r.Command == "" {
		d.lookAtAddress(h, r)
		return
	}
	program, err := exec.LookPath(r.Command)
	switch {
	case err != nil:
		d.add(h.Name, levelError, fmt.Sprintf("%s starts %s, which cannot be run", r.Path, r.Command), again)
		return
	case strings.TrimSuffix(filepath.Base(program), ".exe") != app.Name:
		d.add(h.Name, levelNote, fmt.Sprintf("%s starts this server through %s; which version that is was not looked at", r.Path, r.Command), "")
		return
	}
	if root := rootOf(r.Args); filepath.IsAbs(root) {
		if info, err := os.Stat(root); err != nil || !info.IsDir() {
			d.add(h.Name, levelError, fmt.Sprintf("%s names the project %s, which does not exist", r.Path, root), again)
			return
		}
	}
	if !sameFile(program, self) {
		theirs, err := versionOfProgram(d.ctx, program)
		if err != nil {
			d.add(h.Name, levelError, fmt.Sprintf("%s starts %s, which does not tell its version: %v", r.Path, r.Command, err), again)
			return
		}
		if ours := versionOf(); theirs.Version != ours.Version || theirs.Commit != ours.Commit {
			d.add(h.Name, levelWarning, fmt.Sprintf("%s starts %s %s, and this program is %s", r.Path, r.Command, theirs.text(), ours.text()), "remove one of the two, or "+again)
			return
		}
	}
	detail := r.Path + " starts " + r.Command
	if h.Denies() && !r.Denied {
		d.add(h.Name, levelNote, detail+"; its agents also have the host's own tools", again+" --deny-native")
		return
	}
	d.add(h.Name, levelOK, detail, "")
}

// lookAtAddress looks whether a server runs where a host looks for one.
func (d *doctor) lookAtAddress(h *hosts.Host, r hosts.Registration) {
	detail := r.Path + " connects to " + r.URL
	at, err := url.Parse(r.URL)
	if err != nil || at.Host == "" {
		d.add(h.Name, levelError, detail+", which is no address", app.Name+" quick-install --host "+h.Name)
		return
	}
	ctx, cancel := context.WithTimeout(d.ctx, 5*time.Second)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", at.Host)
	if err != nil {
		d.add(h.Name, levelWarning, detail+", where nobody listens now", "start it with '"+app.Name+" serve', or let the host start it: "+app.Name+" quick-install --host "+h.Name+" --transport stdio")
		return
	}
	_ = c.Close() // nothing was said
	d.add(h.Name, levelOK, detail, "")
}

// rootOf returns the project in the arguments of a registered server.
func rootOf(args []string) string {
	if i := slices.Index(args, "--root"); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

func (v versionInfo) text() string {
	if v.Commit == "" {
		return v.Version
	}
	return v.Version + " (" + v.Commit + ")"
}

// versionOfProgram asks another copy of this program which one it is.
func versionOfProgram(ctx context.Context, program string) (versionInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var v versionInfo
	cmd := exec.CommandContext(ctx, program, "version", "--json")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(out, &v); err != nil || v.Name != app.Name {
		return v, errors.New("it is another program")
	}
	return v, nil
}
