package sandbox

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/sandbox/confine"
)

// bwrapArgs is the command line of bubblewrap, up to the command. Mounts are
// made in order, so what comes later lies on top.
func (s *Sandbox) bwrapArgs(p plan) []string {
	root := os.Geteuid() == 0
	args := []string{s.sys.Bwrap.Path}
	if s.network == NetworkOff {
		args = append(args, "--unshare-net") // with a loopback of its own
	}
	if s.mode() == Off {
		return append(append(args, "--dev-bind", "/", "/"), bwrapEnd(root)...)
	}
	args = append(args, bwrapBase(root, s.sys.Bwrap.PIDNamespace)...)
	type mount struct {
		path, flag string
	}
	var mounts []mount
	for _, a := range p.areas {
		switch {
		case inside(a.path, "/dev"), a.path == "/": // /dev is a new one, with its own shm
		case a.writable:
			mounts = append(mounts, mount{a.path, "--bind-try"})
		default:
			mounts = append(mounts, mount{a.path, "--ro-bind-try"})
		}
	}
	for _, dir := range p.pinned() { // a mount point cannot be renamed
		mounts = append(mounts, mount{dir, "--bind-try"})
	}
	slices.SortStableFunc(mounts, func(a, b mount) int { return cmp.Compare(len(a.path), len(b.path)) })
	for _, path := range p.protected {
		mounts = append(mounts, mount{path, "--ro-bind-try"})
	}
	for _, m := range mounts {
		args = append(args, m.flag, m.path, m.path)
	}
	for _, path := range s.hiddenHere(p) {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			args = append(args, "--tmpfs", path, "--remount-ro", path)
		} else {
			args = append(args, "--ro-bind-try", "/dev/null", path)
		}
	}
	return append(args, bwrapEnd(root)...)
}

// bwrapBase are the mounts that every command has: all of the disk read-only,
// devices and processes of its own.
func bwrapBase(root, pids bool) []string {
	args := []string{"--ro-bind", "/", "/", "--dev", "/dev"}
	if pids {
		args = append(args, "--unshare-pid", "--proc", "/proc")
	}
	if root {
		// The kernel's settings in /proc/sys and elsewhere ask for the user, not
		// for a capability.
		args = append(args, "--remount-ro", "/proc")
	}
	return args
}

// bwrapEnd are the arguments right before the command.
func bwrapEnd(root bool) []string {
	var args []string
	if root {
		args = append(args, "--cap-drop", "ALL")
		for _, c := range confine.KeptCapabilities {
			args = append(args, "--cap-add", c.Name)
		}
	}
	return append(args, "--")
}

// hiddenHere adds to what is hidden the services that would run or change things
// for a command outside of its sandbox. In workspace-write they are left: git and
// gh ask one of them for passwords, and containers are tools of the trade there.
func (s *Sandbox) hiddenHere(p plan) []string {
	hidden := slices.Clone(p.hidden)
	if s.mode() == Strict || s.mode() == ReadOnly {
		hidden = append(hidden, services(os.Getuid())...)
	}
	slices.Sort(hidden)
	return slices.Compact(hidden)
}

// services are sockets of programs that act outside of the sandbox for whoever
// asks, as far as there are any.
func services(uid int) []string {
	run := filepath.Join("/run/user", strconv.Itoa(uid))
	var found []string
	for _, path := range []string{
		"/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock",
		run + "/docker.sock", run + "/podman/podman.sock", run + "/bus", run + "/systemd/private",
	} {
		if exists(path) && mayWrite(path) {
			found = append(found, path)
		}
	}
	return found
}
