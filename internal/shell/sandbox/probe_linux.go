package sandbox

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/sandbox/confine"
)

// patience with a program that should answer within milliseconds.
const patience = 10 * time.Second

func probe() System {
	s := System{OS: "linux", LandlockABI: confine.LandlockABI(), UserNamespaces: userNamespaces()}
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	s.Seccomp = err == nil && (mode == 0 || mode == 2) && confine.FiltersNetwork
	s.Bwrap = probeBwrap()
	return s
}

// probeBwrap runs a command under bubblewrap with the arguments that commands
// will have, and once more without processes of its own where that is what does
// not work, as in many containers.
func probeBwrap() BwrapProgram {
	b := BwrapProgram{}
	for _, path := range []string{"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			b.Path = path
			break
		}
	}
	if b.Path == "" {
		path, err := exec.LookPath("bwrap")
		if err != nil {
			return b
		}
		b.Path = path
	}
	if out, err := run(nil, b.Path, "--version"); err == nil {
		b.Version = strings.TrimPrefix(strings.TrimSpace(out), "bubblewrap ")
	}
	for _, pids := range []bool{true, false} {
		root := os.Geteuid() == 0
		args := slices.Concat([]string{"--unshare-net"}, bwrapBase(root, pids), bwrapEnd(root), []string{"/proc/self/exe", "--version"})
		out, err := run(nil, b.Path, args...)
		if err == nil {
			b.Works, b.PIDNamespace, b.Detail = true, pids, ""
			return b
		}
		b.Detail = strings.TrimSpace(strings.TrimPrefix(out, "bwrap: "))
		if b.Detail == "" {
			b.Detail = err.Error()
		}
	}
	return b
}

// userNamespaces reports whether this user may make one, by making one.
func userNamespaces() bool {
	_, err := run(&syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}, "/proc/self/exe", confine.Name, "--", "/bin/sh", "-c", ":")
	return err == nil
}

func run(attr *syscall.SysProcAttr, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = attr
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}
