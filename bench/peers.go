package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// The peers, at the versions that were measured first. One package that
// desktop-commander asks for is not to be had in the version it names.
const (
	npmPeers = `{"private": true, "dependencies": {"@modelcontextprotocol/server-filesystem": "2026.8.31", "@wonderwhy-er/desktop-commander": "0.2.52", "mcp-server-commands": "0.5.0"}, "overrides": {"typedarray.prototype.slice": "1.0.5"}}
`
	goPeer    = "github.com/mark3labs/mcp-filesystem-server"
	goPeerMod = "module peer\n\ngo 1.24\n\nrequire " + goPeer + " v0.11.1\n"
)

// peerPrograms are the peers as they were installed.
type peerPrograms struct {
	npm      string // its node_modules
	goServer string
	env      []string
}

// confined is what a peer is started with: it gets no network but its own
// loopback, since some like to report home.
func (p *peerPrograms) confined() []string { return []string{"unshare", "--map-root-user", "--net"} }

// fetchPeers installs the peers into the cache folder, once, and gives them a
// home in dir.
func fetchPeers(ctx context.Context, dir string) (*peerPrograms, error) {
	if err := quietly(exec.CommandContext(ctx, "unshare", "--map-root-user", "--net", "true")); err != nil {
		return nil, fmt.Errorf("they cannot be kept from the network here: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	cache = filepath.Join(cache, "async-crud-mcp", "bench")
	node, module := filepath.Join(cache, "npm"), filepath.Join(cache, "go")
	err = once(node, "package.json", npmPeers, func(at string) error {
		cmd := exec.CommandContext(ctx, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
		cmd.Dir = at
		return quietly(cmd)
	})
	if err != nil {
		return nil, err
	}
	err = once(module, "go.mod", goPeerMod, func(at string) error {
		cmd := exec.CommandContext(ctx, "go", "build", "-mod=mod", "-o", "server", goPeer)
		cmd.Dir = at
		return quietly(cmd)
	})
	if err != nil {
		return nil, err
	}
	interpreter, err := exec.LookPath("node")
	if err != nil {
		return nil, err
	}
	home := filepath.Join(dir, "peers")
	settings := filepath.Join(home, ".claude-server-commander")
	if err := os.MkdirAll(settings, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(settings, "config.json"), []byte(`{"telemetryEnabled": false, "allowedDirectories": []}`), 0o644); err != nil {
		return nil, err
	}
	return &peerPrograms{
		npm: filepath.Join(node, "node_modules"), goServer: filepath.Join(module, "server"),
		// Without what version managers put there: one peer starts python3 for
		// every call.
		env: []string{"PATH=" + filepath.Dir(interpreter) + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + home},
	}, nil
}

// once fills a folder that is described by one file. The whole folder appears
// when it is complete; one for another description is replaced.
func once(dir, name, text string, fill func(at string) error) error {
	if b, err := os.ReadFile(filepath.Join(dir, ".complete")); err == nil && string(b) == text {
		return nil
	}
	fmt.Fprintln(os.Stderr, "bench: fetching peers into", dir)
	fresh := fmt.Sprintf("%s.new%d", dir, os.Getpid())
	defer os.RemoveAll(fresh)
	if err := os.MkdirAll(fresh, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(fresh, name), []byte(text), 0o644); err != nil {
		return err
	}
	if err := fill(fresh); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(fresh, ".complete"), []byte(text), 0o644); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(dir), os.Rename(fresh, dir))
}

func quietly(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd.Args[0], err, bytes.TrimSpace(out))
	}
	return nil
}
