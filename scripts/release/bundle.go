package main

import (
	"archive/zip"
	"compress/flate"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// The times in archives are those of no build, so that two builds are equal.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// member is one file of an archive.
type member struct {
	name, path string
	mode       os.FileMode
}

// writeBundle packs programs for several systems into one bundle: the manifest,
// the starter that picks the program of a Unix machine, and each program in a
// folder named after its system. A bundle cannot choose by processor; Windows on
// arm64 runs the program for amd64.
func writeBundle(root string, programs []string, version, out string) error {
	manifest, err := stamped(root, "mcpb/manifest.json", version)
	if err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer f.Close()
	z := zip.NewWriter(f)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	if err := addText(z, "manifest.json", manifest); err != nil {
		return err
	}
	files := []member{
		{"LICENSE", filepath.Join(root, "LICENSE"), 0o644},
		{"server/" + program, manifestPath(root, "mcpb/start.sh"), 0o755},
	}
	for _, exe := range programs {
		system, err := systemOf(exe)
		if err != nil {
			return err
		}
		switch system {
		case "windows_arm64":
		case "windows_amd64":
			files = append(files, member{"server/" + system + "/" + program + ".exe", exe, 0o755})
		default:
			files = append(files, member{"server/" + system + "/" + program, exe, 0o755})
		}
	}
	for _, m := range files {
		if err := addFile(z, m); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Close()
}

// systemOf reads out of a program which system it was built for.
func systemOf(exe string) (string, error) {
	info, err := buildinfo.ReadFile(exe)
	if err != nil {
		return "", fmt.Errorf("%s: %w", exe, err)
	}
	goos, arch := setting(info, "GOOS"), setting(info, "GOARCH")
	if goos == "" || arch == "" {
		return "", fmt.Errorf("%s does not say which system it is for", exe)
	}
	return goos + "_" + arch, nil
}

func addText(z *zip.Writer, name, text string) error {
	w, err := z.CreateHeader(header(name, 0o644))
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

func addFile(z *zip.Writer, m member) error {
	f, err := os.Open(m.path)
	if err != nil {
		return err
	}
	defer f.Close()
	w, err := z.CreateHeader(header(m.name, m.mode))
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

func header(name string, mode os.FileMode) *zip.FileHeader {
	h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: epoch}
	h.SetMode(mode)
	return h
}
