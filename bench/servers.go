package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
)

// fileServer is a server of files, in the words of its own tools.
type fileServer struct {
	name  string
	argv  func(dir string) []string // to serve what is in dir
	env   []string
	read  func(path string) call
	write func(path, text string) call
	edit  func(path, before, after, hash string) call
	list  func(dir string) call // one level
	tree  func(dir string) call // all levels
	// refusals are what its answers hold when an edit was not made, beside an error.
	refusals []string
}

// start starts the server and makes the handshake.
func (s *fileServer) start(ctx context.Context, dir string) (*stdioClient, error) {
	c, err := startStdio(ctx, s.argv(dir), s.env)
	if err != nil {
		return nil, err
	}
	if err := c.greet(); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return c, nil
}

// refused reports whether an answer says that nothing was done.
func (s *fileServer) refused(answer []byte) bool {
	if bytes.Contains(answer, []byte(`"isError":true`)) || bytes.Contains(answer[:min(len(answer), 64)], []byte(`"error":`)) {
		return true
	}
	for _, text := range s.refusals {
		if bytes.Contains(answer, []byte(text)) {
			return true
		}
	}
	return false
}

// hashIn returns the hash that an answer of ours gives for the file as it is now;
// "" in other servers' answers.
func hashIn(answer []byte) string {
	for _, key := range []string{`"hash":"`, `"current_hash":"`} {
		if i := bytes.LastIndex(answer, []byte(key+"sha256:")); i >= 0 {
			from := i + len(key)
			return string(answer[from : from+len("sha256:")+64])
		}
	}
	return ""
}

func (p *programs) fileServer() *fileServer {
	return &fileServer{
		name: "ours", env: p.env,
		argv: func(dir string) []string { return []string{p.ours, "stdio", "--standalone", "--root", dir} },
		read: func(path string) call { return call{"async_read", map[string]any{"path": path}} },
		write: func(path, text string) call {
			return call{"async_write", map[string]any{"path": path, "content": text}}
		},
		edit: func(path, before, after, hash string) call {
			return call{"async_update", map[string]any{
				"path": path, "expected_hash": hash, "on_contention": "merge",
				"patches": []any{map[string]any{"old_string": before, "new_string": after}},
			}}
		},
		list:     func(dir string) call { return call{"async_list", map[string]any{"path": dir}} },
		tree:     func(dir string) call { return call{"async_list", map[string]any{"path": dir, "recursive": true}} },
		refusals: []string{`"status":"contention"`},
	}
}

// bareFiles is the least that gives the same answer to a read, and the floors of
// changes behind the same protocol.
func (p *programs) bareFiles() *fileServer {
	return &fileServer{
		name: "bare", env: p.env,
		argv:  func(string) []string { return p.bareStdio("same") },
		read:  func(path string) call { return call{"read", map[string]any{"path": path}} },
		write: func(path, text string) call { return call{"write", map[string]any{"path": path, "content": text}} },
		edit: func(path, before, after, _ string) call {
			return call{"edit", map[string]any{"path": path, "before": before, "after": after}}
		},
	}
}

// peers are other servers of files, where they could be had.
func (p *peerPrograms) fileServers() []*fileServer {
	if p == nil {
		return nil
	}
	path := func(name string) func(string) call {
		return func(path string) call { return call{name, map[string]any{"path": path}} }
	}
	write := func(path, text string) call { return call{"write_file", map[string]any{"path": path, "content": text}} }
	argv := func(with ...string) func(string) []string {
		return func(dir string) []string { return append(p.confined(), append(with, dir)...) }
	}
	return []*fileServer{
		{
			name: "server-filesystem", env: p.env,
			argv: argv("node", filepath.Join(p.npm, "@modelcontextprotocol/server-filesystem/dist/index.js")),
			read: path("read_text_file"), write: write, list: path("list_directory"), tree: path("directory_tree"),
			edit: func(path, before, after, _ string) call {
				return call{"edit_file", map[string]any{"path": path, "edits": []any{map[string]any{"oldText": before, "newText": after}}}}
			},
		},
		{
			name: "desktop-commander", env: p.env,
			argv: func(string) []string {
				return append(p.confined(), "node", filepath.Join(p.npm, "@wonderwhy-er/desktop-commander/dist/index.js"), "--no-onboarding")
			},
			read: func(path string) call { return call{"read_file", map[string]any{"path": path, "length": 1 << 30}} },
			write: func(path, text string) call {
				return call{"write_file", map[string]any{"path": path, "content": text, "mode": "rewrite"}}
			},
			list: func(dir string) call { return call{"list_directory", map[string]any{"path": dir, "depth": 1}} },
			tree: func(dir string) call { return call{"list_directory", map[string]any{"path": dir, "depth": 10}} },
			edit: func(path, before, after, _ string) call {
				return call{"edit_block", map[string]any{"file_path": path, "old_string": before, "new_string": after}}
			},
			refusals: []string{"Search content not found", "Expected 1 occurrences"},
		},
		{
			name: "mcp-filesystem-server", env: p.env,
			argv: argv(p.goServer),
			read: path("read_file"), write: write, list: path("list_directory"),
			tree: func(dir string) call { return call{"tree", map[string]any{"path": dir, "depth": 3}} },
			edit: func(path, before, after, _ string) call {
				return call{"modify_file", map[string]any{"path": path, "find": before, "replace": after}}
			},
			refusals: []string{"Made 0 replacement"},
		},
	}
}
