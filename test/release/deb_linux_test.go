package release

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestDebianPackageInstallsRunsAndLeavesNothing builds the package out of what
// .goreleaser.yaml says of it, with the packager goreleaser uses, and hands it to
// dpkg with an empty root.
func TestDebianPackageInstallsRunsAndLeavesNothing(t *testing.T) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("no dpkg on this system")
	}
	packager := tool(t, "nfpm", "NFPM")
	work := t.TempDir()
	shared := filepath.Join(work, "share")
	must(t, builtTool, "share", "-program", builtProgram, shared)

	file := filepath.Join(work, program+".deb")
	settings := filepath.Join(work, "nfpm.json") // JSON is YAML
	if err := os.WriteFile(settings, packageSettings(t, shared), 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, packager, "package", "--config", settings, "--packager", "deb", "--target", file)

	root := filepath.Join(work, "root")
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"status", "available"} {
		if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg", name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dpkg := func(args ...string) string {
		t.Helper()
		return must(t, "dpkg", append([]string{"--root=" + root, "--force-not-root", "--log=" + filepath.Join(work, "dpkg.log")}, args...)...)
	}

	dpkg("--install", file)
	if got := must(t, filepath.Join(root, "usr/bin", program), "version"); !strings.HasPrefix(got, program+" "+version) {
		t.Errorf("the installed program says %q", got)
	}
	listed := strings.Fields(dpkg("--listfiles", program))
	for _, want := range []string{
		"/usr/bin/" + program,
		"/usr/share/man/man1/" + program + ".1.gz",
		"/usr/share/man/man1/" + program + "-serve.1.gz",
		"/usr/share/bash-completion/completions/" + program,
		"/usr/share/fish/vendor_completions.d/" + program + ".fish",
		"/usr/share/zsh/vendor-completions/_" + program,
		"/usr/share/doc/" + program + "/copyright",
	} {
		if !slices.Contains(listed, want) {
			t.Errorf("the package has no %s", want)
			continue
		}
		if info, err := os.Stat(filepath.Join(root, want)); err != nil || info.Size() == 0 || info.Mode()&0o022 != 0 {
			t.Errorf("%s: %v, %v", want, info, err)
		}
	}
	if status := dpkg("--status", program); !strings.Contains(status, "Version: 1.2.3~test") || !strings.Contains(status, "Recommends: bubblewrap") {
		t.Errorf("dpkg knows it as:\n%s", status)
	}
	if damage := dpkg("--verify", program); damage != "" {
		t.Errorf("dpkg finds damage:\n%s", damage)
	}

	dpkg("--purge", program)
	for _, name := range tree(t, root) {
		if !strings.HasPrefix(name, "var/lib/dpkg/") {
			t.Errorf("%s is still there", name)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "usr")); err == nil {
		t.Error("/usr is still there, and was not before")
	}
}

// packageSettings turns the section nfpms of goreleaser's settings into those of
// its packager: the contents are the same, the program stands where goreleaser
// puts it.
func packageSettings(t *testing.T, shared string) []byte {
	t.Helper()
	var release struct {
		Nfpms []struct {
			PackageName string `yaml:"package_name"`
			Bindir      string
			Contents    []map[string]any
			Rest        map[string]any `yaml:",inline"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, source(".goreleaser.yaml"))), &release); err != nil {
		t.Fatal(err)
	}
	if len(release.Nfpms) != 1 {
		t.Fatalf(".goreleaser.yaml describes %d packages, want one", len(release.Nfpms))
	}
	p := release.Nfpms[0]
	if len(p.Contents) == 0 || p.Bindir == "" {
		t.Fatalf(".goreleaser.yaml: the package is %+v", p)
	}
	for _, c := range p.Contents {
		src, ok := c["src"].(string)
		if !ok {
			t.Fatalf("no source in %v", c)
		}
		if rest, ok := strings.CutPrefix(src, "bin/share/"); ok {
			c["src"] = filepath.Join(shared, rest)
		}
	}
	p.Contents = append(p.Contents, map[string]any{
		"src": builtProgram, "dst": p.Bindir + "/" + program, "file_info": map[string]any{"mode": 0o755},
	})
	settings := map[string]any{"name": p.PackageName, "arch": runtime.GOARCH, "version": version, "contents": p.Contents}
	for _, key := range []string{"id", "ids", "formats"} { // goreleaser's own
		delete(p.Rest, key)
	}
	maps.Copy(settings, p.Rest)
	b, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
