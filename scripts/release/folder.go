package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// share writes what the program knows about itself: dir/man/*.1.gz and
// dir/completions/async-crud-mcp.{bash,zsh,fish,ps1}.
func share(root, exe, dir string) error {
	exe, done, err := built(root, exe, "")
	if err != nil {
		return err
	}
	defer done()
	man, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	for _, d := range []string{man, completions} {
		if err := os.RemoveAll(d); err != nil {
			return err
		}
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if _, err := output(exe, "man", man); err != nil {
		return err
	}
	if err := compressAll(man); err != nil {
		return err
	}
	for shell, suffix := range map[string]string{"bash": "bash", "zsh": "zsh", "fish": "fish", "powershell": "ps1"} {
		text, err := output(exe, "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(completions, program+"."+suffix), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func compressAll(dir string) error {
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression) // without name and time
		if err != nil {
			return err
		}
		if _, err := z.Write(text); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		if err := os.WriteFile(page+".gz", packed.Bytes(), 0o644); err != nil {
			return err
		}
		if err := os.Remove(page); err != nil {
			return err
		}
	}
	return nil
}

// folder writes what the installers need of a release, for this machine alone:
// its archive under the name goreleaser gives it, and checksums.txt. It is for
// trying the installers; a release has all systems and comes from goreleaser.
func folder(root, exe, version, dir string) error {
	exe, done, err := built(root, exe, version)
	if err != nil {
		return err
	}
	defer done()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := program + "_" + runtime.GOOS + "_" + runtime.GOARCH
	pack := packTar
	if runtime.GOOS == "windows" {
		name, pack = name+".zip", packZip
	} else {
		name += ".tar.gz"
	}
	file := filepath.Join(dir, name)
	if err := pack(file, exe, filepath.Join(root, "LICENSE")); err != nil {
		return err
	}
	sum, err := hashFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "checksums.txt"), []byte(sum+"  "+name+"\n"), 0o644)
}

func packTar(file, exe, license string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, m := range archived(exe, license) {
		b, err := os.ReadFile(m.path)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: m.name, Mode: int64(m.mode), Size: int64(len(b)), ModTime: epoch}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(b); err != nil {
			return err
		}
	}
	return closeAll(t, z, f)
}

func packZip(file, exe, license string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	z := zip.NewWriter(f)
	for _, m := range archived(exe, license) {
		if err := addFile(z, m); err != nil {
			return err
		}
	}
	return closeAll(z, f)
}

// archived are the files of the archive.
func archived(exe, license string) []member {
	name := program
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return []member{{"LICENSE", license, 0o644}, {name, exe, 0o755}}
}

func closeAll(closers ...io.Closer) error {
	for _, c := range closers {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}

// built returns the program to use: the given one, or a fresh build which done
// removes.
func built(root, exe, version string) (path string, done func(), err error) {
	if exe != "" {
		path, err = filepath.Abs(exe)
		return path, func() {}, err
	}
	dir, err := os.MkdirTemp("", "acm-release-")
	if err != nil {
		return "", nil, err
	}
	done = func() { _ = os.RemoveAll(dir) }
	path = filepath.Join(dir, program)
	ldflags := "-s -w"
	if version != "" {
		ldflags += " -X " + module + "/internal/cli.version=" + version
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", ldflags, "-o", path, "./cmd/"+program)
	cmd.Dir = root
	cmd.Env = append(slices.DeleteFunc(os.Environ(), foreign), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		done()
		return "", nil, fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, done, nil
}

// foreign tells the variables that would make a program for another machine.
func foreign(variable string) bool {
	return strings.HasPrefix(variable, "GOOS=") || strings.HasPrefix(variable, "GOARCH=")
}

func output(exe string, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := exec.Command(exe, args...)
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", args[0], err, stderr.Bytes())
	}
	return b, nil
}
