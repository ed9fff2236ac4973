package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// manifests are the files below packaging/ that name the version.
var manifests = []string{"server.json", "mcpb/manifest.json"}

// stamp puts the version of the source into the manifests.
func stamp(root string) error {
	version, err := sourceVersion(root)
	if err != nil {
		return err
	}
	for _, name := range manifests {
		text, err := stamped(root, name, version)
		if err != nil {
			return err
		}
		if err := os.WriteFile(manifestPath(root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// stamped returns a manifest with another version in all its places: its own
// field, and the addresses that are made of it.
func stamped(root, name, version string) (string, error) {
	b, err := os.ReadFile(manifestPath(root, name))
	if err != nil {
		return "", err
	}
	var has struct{ Version string }
	if err := json.Unmarshal(b, &has); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if has.Version == "" {
		return "", fmt.Errorf("%s has no version", name)
	}
	return strings.ReplaceAll(string(b), has.Version, version), nil
}

func manifestPath(root, name string) string {
	return filepath.Join(root, "packaging", filepath.FromSlash(name))
}

var fileHash = regexp.MustCompile(`"fileSha256": "[0-9a-f]{64}"`)

// writeServer writes the entry for the MCP registry: the version of the release,
// and the hash by which a client knows the bundle.
func writeServer(root, bundle, version, out string) error {
	text, err := stamped(root, "server.json", version)
	if err != nil {
		return err
	}
	sum, err := hashFile(bundle)
	if err != nil {
		return err
	}
	if len(fileHash.FindAllString(text, -1)) != 1 {
		return errors.New("packaging/server.json wants one fileSha256")
	}
	text = fileHash.ReplaceAllString(text, `"fileSha256": "`+sum+`"`)
	return os.WriteFile(out, []byte(text), 0o644)
}

func hashFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
