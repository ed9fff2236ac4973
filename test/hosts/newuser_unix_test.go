//go:build unix

package hosts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// releaseFolder makes what a release has for this machine: the archive and its
// checksum.
func releaseFolder(t *testing.T) string {
	t.Helper()
	exe, err := os.ReadFile(program(plain))
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zip)
	if err := archive.WriteHeader(&tar.Header{Name: plain, Mode: 0o755, Size: int64(len(exe))}); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Write(exe); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	dir, name := t.TempDir(), fmt.Sprintf("%s_%s_%s.tar.gz", plain, runtime.GOOS, runtime.GOARCH)
	for file, data := range map[string][]byte{
		name:            packed.Bytes(),
		"checksums.txt": fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(packed.Bytes()), name),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The way of a new user, from the installer to the last trace.
func TestANewUserInstallsSetsUpWorksAndLeaves(t *testing.T) {
	t.Parallel()
	h := claude(t, "http://127.0.0.1:9")
	h.must(t, "mcp", "add", "--scope", "user", "other", "--", "/bin/true")
	before := files(t, h.home(t))

	installer, err := filepath.Abs("../../scripts/install.sh")
	if err != nil {
		t.Fatal(err)
	}
	(&host{argv: []string{"sh", installer}, dir: h.dir, env: h.env}).must(t, "--from", releaseFolder(t))
	exe := filepath.Join(h.home(t), ".local", "bin", plain)
	p := &host{argv: []string{exe}, dir: h.dir, env: h.env}
	h.ours(t) // whatever happens, what it started ends

	p.must(t, "setup", "--yes")
	list := h.must(t, "mcp", "list").stdout
	if line := lineWith(list, "async-crud-mcp:"); !strings.Contains(line, exe) || !strings.HasSuffix(line, "✔ Connected") {
		t.Errorf("mcp list says %q, want %s Connected\n%s", line, exe, list)
	}
	if out := p.must(t, "doctor"); strings.Contains(out.stdout, "error  ") {
		t.Errorf("doctor finds\n%s", out.stdout)
	}
	p.must(t, "uninstall", "--purge", "--yes")
	if err := os.Remove(exe); err != nil {
		t.Fatal(err)
	}

	if list := h.must(t, "mcp", "list").stdout; lineWith(list, "async-crud-mcp:") != "" || lineWith(list, "other:") == "" {
		t.Errorf("after uninstall mcp list says\n%s", list)
	}
	forgotten(t, h, ".claude.json")
	for path, text := range files(t, h.home(t)) {
		rel, err := filepath.Rel(h.home(t), path)
		if err != nil {
			t.Fatal(err)
		}
		if first, _, _ := strings.Cut(rel, string(filepath.Separator)); first == ".claude" || first == ".claude.json" || first == ".cache" {
			continue // Claude Code writes there whenever it runs
		}
		if before[path] != text {
			t.Errorf("%s is left, or changed", path)
		}
	}
}
