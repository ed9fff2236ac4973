// Package sandbox says what a command may touch and makes the system enforce
// it: bubblewrap or Landlock on Linux, seatbelt on macOS, nothing elsewhere.
//
//	s, err := sandbox.New(sandbox.Options{Mode: sandbox.WorkspaceWrite, Root: root, …})
//	argv, err := s.Wrap([]string{"/bin/bash", "-c", script})   // start this instead
//	s.Report()                                                 // what is in force, and what is not
//
// Reading is never restricted. Writing is, by mode: workspace-write allows the
// project, temporary directories and the caches of common tools; strict makes
// the project read-only but for its build directories; read-only allows nothing.
// In every mode the server's own files, .async-crud-mcp, .git/hooks and
// .git/config are out of reach as far as the backend can keep them so. Where it
// cannot, the report names them: nothing is promised that is not enforced.
//
// A Sandbox is immutable and safe for concurrent use. It looks at the disk anew
// for each command, since what is to be protected may have appeared meanwhile.
// Starting the command, its process group and its end are for package proc; when
// a command may run at all is for package policy.
package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/sandbox/confine"
)

// Modes: what a command may write.
const (
	Off            = "off"
	WorkspaceWrite = "workspace-write"
	Strict         = "strict"
	ReadOnly       = "read-only"
)

// Backends: who enforces it.
const (
	Auto     = "auto"
	Bwrap    = "bwrap"
	Landlock = "landlock"
	Seatbelt = "seatbelt"
	None     = "none"
)

// Values of Options.Network.
const (
	NetworkOn  = "on"
	NetworkOff = "off"
)

// ErrUnavailable is returned by Wrap when the settings demand what this system
// cannot enforce. The text says why.
var ErrUnavailable = errors.New("the sandbox cannot be enforced here")

// Options say what is wanted. The zero value of a field means its default.
type Options struct {
	Mode    string // default WorkspaceWrite
	Network string // default NetworkOn
	Backend string // default Auto
	Require bool   // refuse commands rather than run them with less than was asked for

	Root      string   // the project: absolute, without links; "" for none
	Writable  []string // further directories that commands may write; a leading ~ is the home directory
	BuildDirs []string // directories that commands may write in strict mode, relative to Root

	// Protected are files and directories of the server that no command may
	// write: its configuration, records, history, spool. Name directories where
	// possible: what does not exist cannot be protected.
	Protected []string
	// Hidden are files and directories that commands shall not even see, where
	// the backend can do that: the directory of the server's socket.
	Hidden []string

	TempDirs []string            // default: the system's
	Home     string              // default: the user's
	Getenv   func(string) string // where tools have their caches; default os.Getenv, never a caller's environment
	System   *System             // default Probe()
}

// Sandbox wraps commands so that they run under one set of Options.
type Sandbox struct {
	opts    Options
	sys     System
	backend string // in force
	network string // in force
	reason  string // why backend or network is less than was asked for; "" when it is not
	caches  []cache
	prepare func()
}

// New checks the options against what the system offers.
func New(o Options) (*Sandbox, error) {
	o.Mode = cmp.Or(o.Mode, WorkspaceWrite)
	o.Network = cmp.Or(o.Network, NetworkOn)
	o.Backend = cmp.Or(o.Backend, Auto)
	for _, c := range []struct {
		key, value string
		allowed    []string
	}{
		{"mode", o.Mode, []string{Off, WorkspaceWrite, Strict, ReadOnly}},
		{"network", o.Network, []string{NetworkOn, NetworkOff}},
		{"backend", o.Backend, []string{Auto, Bwrap, Landlock, Seatbelt, None}},
	} {
		if !slices.Contains(c.allowed, c.value) {
			return nil, fmt.Errorf("sandbox.%s: %q is none of %s", c.key, c.value, strings.Join(c.allowed, ", "))
		}
	}
	if o.Root != "" {
		if !filepath.IsAbs(o.Root) {
			return nil, fmt.Errorf("sandbox: the project %q is not an absolute path", o.Root)
		}
		o.Root = filepath.Clean(o.Root)
	}
	for _, dir := range o.BuildDirs {
		if !filepath.IsLocal(dir) || filepath.Clean(dir) == "." {
			return nil, fmt.Errorf("sandbox.build_dirs: %q is not a directory inside the project", dir)
		}
	}
	if o.Home == "" {
		o.Home, _ = os.UserHomeDir() // without one there are no caches
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.TempDirs == nil {
		o.TempDirs = tempDirs()
	}
	s := &Sandbox{opts: o}
	if o.System != nil {
		s.sys = *o.System
	} else {
		s.sys = Probe()
	}
	s.choose()
	s.caches = toolCaches(runtime.GOOS, o.Home, o.Getenv)
	s.prepare = sync.OnceFunc(s.makeCaches)
	return s, nil
}

// choose settles which backend is in force and whether it can do what was asked.
func (s *Sandbox) choose() {
	s.backend, s.network = None, NetworkOn
	if s.opts.Mode == Off && s.opts.Network == NetworkOn {
		return
	}
	switch s.opts.Backend {
	case None:
		s.reason = "sandbox.backend is none"
		return
	case Auto:
		s.backend = s.sys.Best()
		if s.backend == None {
			s.reason = s.sys.Why()
			return
		}
	default:
		if why := s.sys.Lacks(s.opts.Backend); why != "" {
			s.reason = why
			return
		}
		s.backend = s.opts.Backend
	}
	if s.opts.Network == NetworkOff {
		if s.backend == Landlock && !s.sys.Seccomp {
			s.reason = "the kernel has no seccomp filters, so Landlock alone cannot keep commands off the network"
			if s.opts.Mode == Off {
				s.backend = None
			}
			return
		}
		s.network = NetworkOff
	}
}

// Enforced reports whether all that was asked for is in force.
func (s *Sandbox) Enforced() bool { return s.reason == "" }

// mode is the mode in force.
func (s *Sandbox) mode() string {
	if s.backend == None {
		return Off
	}
	return s.opts.Mode
}

// Wrap returns the command line that runs argv under the sandbox, to be started
// by this process: it may name this very program through /proc/self/exe. What
// argv[0] is found by, the working directory and the environment are those that
// the command is started with.
//
// Under bubblewrap the process started is not the command but its keeper: a
// signal that ends the command arrives as an exit code, see ExitSignal. The
// keeper dies of SIGTERM while the command, in the same process group, may still
// be busy with it: wait for the group, not for the leader.
func (s *Sandbox) Wrap(argv []string) ([]string, error) {
	if len(argv) == 0 {
		return nil, errors.New("sandbox: no command")
	}
	if !s.Enforced() && s.opts.Require {
		return nil, fmt.Errorf("%w: %s; sandbox.require refuses to run commands without it", ErrUnavailable, s.reason)
	}
	if s.backend == None {
		return argv, nil
	}
	if s.mode() == WorkspaceWrite || s.mode() == Strict {
		s.prepare()
	}
	p := s.plan()
	switch s.backend {
	case Bwrap:
		return append(s.bwrapArgs(p), argv...), nil
	case Landlock:
		return append(s.landlockArgs(p), argv...), nil
	default:
		return append([]string{s.sys.Seatbelt, "-p", seatbeltProfile(p, s.network), "--"}, argv...), nil
	}
}

// landlockArgs is the command line of the helper, up to the command.
func (s *Sandbox) landlockArgs(p plan) []string {
	// Not by the program's path: what stands there may be another program by now.
	args := []string{"/proc/self/exe", confine.Name}
	if os.Geteuid() == 0 {
		args = append(args, "cap=drop")
	}
	if s.mode() != Off {
		args = append(args, "landlock")
		for _, path := range p.landlock() {
			args = append(args, "w="+path)
		}
	}
	if s.network == NetworkOff {
		args = append(args, "net=off")
	}
	return append(args, "--")
}

// ExitSignal returns the signal that ended a command whose process exited with
// code, where the backend turns one into the other as shells do, else 0.
func (s *Sandbox) ExitSignal(code int) int {
	if s.backend == Bwrap && code > 128 && code <= 128+64 {
		return code - 128
	}
	return 0
}

// Report is what is in force and what is not.
type Report struct {
	Mode    string   `json:"mode" jsonschema:"what commands may write: off, workspace-write, strict or read-only"`
	Asked   string   `json:"mode_asked,omitempty" jsonschema:"the mode the settings ask for, when it is not in force"`
	Backend string   `json:"backend" jsonschema:"who enforces it: bwrap, landlock, seatbelt or none"`
	Network string   `json:"network" jsonschema:"whether commands may use the network: on or off"`
	Reason  string   `json:"reason,omitempty" jsonschema:"why less is in force than was asked for"`
	Open    []string `json:"not_protected,omitempty" jsonschema:"what commands can reach although they should not"`
}

// Report says what is in force now.
func (s *Sandbox) Report() Report {
	r := s.Brief()
	if s.backend != None && s.mode() != Off {
		r.Open = s.open()
	}
	return r
}

// Brief is the report without what is not protected, for every reply: it costs
// nothing.
func (s *Sandbox) Brief() Report {
	r := Report{Mode: s.mode(), Backend: s.backend, Network: s.network, Reason: s.reason}
	if r.Mode != s.opts.Mode {
		r.Asked = s.opts.Mode
	}
	return r
}

func (r Report) String() string {
	text := r.Mode
	if r.Backend != None {
		text += " by " + r.Backend
	}
	text += ", network " + r.Network
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

// Findings is what a person should know of it.
func (r Report) Findings() []health.Finding {
	var all []health.Finding
	if r.Reason != "" {
		all = append(all, health.Finding{
			Part:   "sandbox",
			Detail: "commands run with less protection than the settings ask for: " + r.String(),
			Cure:   "install bubblewrap, or set sandbox.mode to off; 'async-crud-mcp sandbox probe' shows what this system offers",
		})
	}
	if len(r.Open) > 0 {
		f := health.Finding{Part: "sandbox", Detail: "not protected from commands: " + strings.Join(r.Open, "; ")}
		if r.Backend == Landlock {
			f.Cure = "install bubblewrap, which can protect what lies inside writable directories"
		}
		all = append(all, f)
	}
	return all
}
