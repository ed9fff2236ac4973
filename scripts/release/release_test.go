package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

func TestStampedChangesTheVersionInAllItsPlaces(t *testing.T) {
	root := t.TempDir()
	write(t, manifestPath(root, "server.json"), `{"version": "0.1.0-dev", "packages": [{"identifier": "https://host/v0.1.0-dev/x.mcpb"}]}`)
	got, err := stamped(root, "server.json", "2.0.0")
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"version": "2.0.0", "packages": [{"identifier": "https://host/v2.0.0/x.mcpb"}]}`; got != want {
		t.Errorf("stamped = %s, want %s", got, want)
	}
	for name, text := range map[string]string{"no version": `{"name": "x"}`, "no JSON": "version"} {
		write(t, manifestPath(root, "server.json"), text)
		if got, err := stamped(root, "server.json", "2.0.0"); err == nil {
			t.Errorf("%s: stamped = %s, want an error", name, got)
		}
	}
}

func TestStampTakesTheVersionOfTheSource(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "internal", "cli", "version.go"), "package cli\n\nvar version = \"3.4.5-dev\"\n")
	for _, name := range manifests {
		write(t, manifestPath(root, name), `{"version": "0.1.0-dev"}`)
	}
	if err := stamp(root); err != nil {
		t.Fatal(err)
	}
	for _, name := range manifests {
		if got, want := slurp(t, manifestPath(root, name)), `{"version": "3.4.5-dev"}`; got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
}

func TestBillOfMaterialsNamesEveryModuleOnce(t *testing.T) {
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8",
		Main:      debug.Module{Path: module, Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "example.com/a", Version: "v1.0.0", Sum: "h1:abc="},
			{Path: "example.com/b", Version: "v2.0.0+incompatible", Replace: &debug.Module{Path: "example.com/fork", Version: "v2.0.1"}},
		},
		Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "-ldflags", Value: "-s"}},
	}
	sum := strings.Repeat("0123456789abcdef", 4)
	b := describe(info, "1.2.3", sum)
	var names []string
	for _, c := range b.Components {
		names = append(names, c.PURL)
	}
	if want := []string{"pkg:golang/std@1.26.8", "pkg:golang/example.com/a@v1.0.0", "pkg:golang/example.com/fork@v2.0.1"}; !slices.Equal(names, want) {
		t.Errorf("components %v, want %v", names, want)
	}
	if !slices.Equal(b.Dependencies[0].DependsOn, names) || b.Dependencies[0].Ref != b.Metadata.Component.Ref {
		t.Errorf("dependencies %+v", b.Dependencies)
	}
	root := b.Metadata.Component
	if root.Version != "1.2.3" || root.PURL != "pkg:golang/"+module+"@v1.2.3" || root.Hashes[0].Content != sum {
		t.Errorf("the program is %+v", root)
	}
	if !slices.Equal(root.Properties, []property{{"go:GOOS", "linux"}}) {
		t.Errorf("properties %v", root.Properties)
	}
	if !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(b.Serial) {
		t.Errorf("serial number %s", b.Serial)
	}
}

// The test's own program is one that the linker told about its modules.
func TestBillOfMaterialsIsReadOutOfAProgram(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.cdx.json")
	if err := run([]string{"sbom", "-version", "1.2.3", "-o", out, self(t)}); err != nil {
		t.Fatal(err)
	}
	var b bom
	if err := json.Unmarshal([]byte(slurp(t, out)), &b); err != nil {
		t.Fatal(err)
	}
	sum, err := hashFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	if b.Format != "CycloneDX" || b.SpecVersion != "1.6" || b.Metadata.Component.Hashes[0].Content != sum {
		t.Errorf("bill of materials %+v", b.Metadata)
	}
	if len(b.Components) == 0 || b.Components[0].Version != strings.TrimPrefix(runtime.Version(), "go") {
		t.Errorf("components %+v, want the standard library first", b.Components)
	}
}

func TestBundleHoldsEachProgramAndIsTheSameTwice(t *testing.T) {
	dir := t.TempDir()
	var made []string
	for _, name := range []string{"a.mcpb", "b.mcpb"} {
		file := filepath.Join(dir, name)
		if err := run([]string{"bundle", "-version", "1.2.3", "-o", file, self(t)}); err != nil {
			t.Fatal(err)
		}
		made = append(made, slurp(t, file))
	}
	if made[0] != made[1] {
		t.Error("two bundles of the same program differ")
	}
	z, err := zip.NewReader(strings.NewReader(made[0]), int64(len(made[0])))
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]os.FileMode{}
	for _, f := range z.File {
		modes[f.Name] = f.Mode()
	}
	want := map[string]os.FileMode{"manifest.json": 0o644, "LICENSE": 0o644, "server/" + program: 0o755}
	if runtime.GOOS != "windows" {
		want["server/"+runtime.GOOS+"_"+runtime.GOARCH+"/"+program] = 0o755
	}
	for name, mode := range want {
		if modes[name] != mode {
			t.Errorf("%s has mode %v, want %v; the bundle has %v", name, modes[name], mode, modes)
		}
	}
}

func TestFolderHasTheArchiveAndItsChecksum(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the archive of Windows is a zip file")
	}
	dir, exe := t.TempDir(), filepath.Join(t.TempDir(), "exe")
	write(t, exe, "a program")
	if err := run([]string{"folder", "-program", exe, dir}); err != nil {
		t.Fatal(err)
	}
	sum, name, _ := strings.Cut(strings.TrimSpace(slurp(t, filepath.Join(dir, "checksums.txt"))), "  ")
	if got, err := hashFile(filepath.Join(dir, name)); err != nil || got != sum {
		t.Errorf("%s has the checksum %s, %v; checksums.txt says %s", name, got, err, sum)
	}
	z, err := gzip.NewReader(strings.NewReader(slurp(t, filepath.Join(dir, name))))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := b.ReadFrom(r); err != nil {
			t.Fatal(err)
		}
		found[h.Name] = b.String()
	}
	if found[program] != "a program" || !strings.Contains(found["LICENSE"], "Apache License") {
		t.Errorf("the archive has %d files, and its program is %q", len(found), found[program])
	}
}

func TestPartsRefuseWhatIsMissing(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"everything"},
		{"share"},
		{"sbom", "x"},
		{"bundle", "-version", "1", "-o", "x"},
		{"bundle", "-version", "1", "-o", filepath.Join(t.TempDir(), "x"), "no-such-*"},
		{"server", "-version", "1"},
		{"folder"},
		{"sbom", "-version", "1", "-o", filepath.Join(t.TempDir(), "x"), "main.go"},
	} {
		if err := run(args); err == nil {
			t.Errorf("release %v succeeds", args)
		}
	}
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func slurp(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
