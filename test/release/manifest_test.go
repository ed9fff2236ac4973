package release

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"
)

// registryEntry is server.json, as far as the MCP registry's schema of 2025-12-11
// and its rules for packages demand something of it.
type registryEntry struct {
	Schema      string `json:"$schema"`
	Name        string
	Title       string
	Description string
	Version     string
	Repository  struct{ URL, Source string }
	Packages    []struct {
		RegistryType string
		Identifier   string
		Version      string
		FileSHA256   string
		Transport    struct{ Type string }
	}
}

func entry(t *testing.T, name string) registryEntry {
	t.Helper()
	var e registryEntry
	if err := json.Unmarshal([]byte(read(t, name)), &e); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestRegistryEntryNamesTheReleaseAndItsBundle(t *testing.T) {
	dir := t.TempDir()
	bundle, out := filepath.Join(dir, program+".mcpb"), filepath.Join(dir, "server.json")
	if err := os.WriteFile(bundle, []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, builtTool, "server", "-version", version, "-bundle", bundle, "-o", out)
	e := entry(t, out)
	if want := "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"; e.Schema != want {
		t.Errorf("schema %q, want %q", e.Schema, want)
	}
	if !regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`).MatchString(e.Name) {
		t.Errorf("name %q", e.Name)
	}
	if n := len(e.Description); n == 0 || n > 100 || e.Title == "" {
		t.Errorf("title %q, description of %d bytes, at most 100 are allowed", e.Title, n)
	}
	if e.Version != version {
		t.Errorf("version %q, want %q", e.Version, version)
	}
	if e.Repository.Source != "github" || !strings.HasPrefix(e.Repository.URL, "https://github.com/") {
		t.Errorf("repository %+v", e.Repository)
	}
	// A name below io.github.OWNER belongs to who owns the repository.
	if owner := strings.Split(e.Repository.URL, "/")[3]; !strings.HasPrefix(e.Name, "io.github."+owner+"/") {
		t.Errorf("name %q does not belong to %s", e.Name, owner)
	}
	var kinds []string
	for _, p := range e.Packages {
		kinds = append(kinds, p.RegistryType)
		if p.Transport.Type != "stdio" || !strings.Contains(p.Identifier, version) {
			t.Errorf("package %+v", p)
		}
		switch p.RegistryType {
		case "mcpb":
			if u, err := url.Parse(p.Identifier); err != nil || u.Scheme != "https" || !strings.HasSuffix(u.Path, "/v"+version+"/"+program+".mcpb") {
				t.Errorf("the bundle is at %q, %v", p.Identifier, err)
			}
			// SHA-256 of "abc".
			if want := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; p.FileSHA256 != want {
				t.Errorf("hash of the bundle %q, want %q", p.FileSHA256, want)
			}
		case "oci":
			if p.Version != "" || !strings.HasSuffix(p.Identifier, ":"+version) {
				t.Errorf("the version of an image is its tag alone: %+v", p)
			}
		}
	}
	if want := []string{"mcpb", "oci"}; !slices.Equal(kinds, want) {
		t.Errorf("packages %v, want %v", kinds, want)
	}
}

// TestRegistryEntryIsOfTheSchema judges server.json by the schema that the
// registry itself holds it to; its module brings it along.
func TestRegistryEntryIsOfTheSchema(t *testing.T) {
	version := pinned(t, "REGISTRY")
	var module struct{ Dir string }
	// Without a proxy: what make deps fetched, or nothing.
	got := command(t, append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=mod"), "go", "mod", "download", "-json", "github.com/modelcontextprotocol/registry@"+version)
	if err := json.Unmarshal([]byte(got.stdout), &module); err != nil || module.Dir == "" {
		absent(t, "MCP registry", version)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal([]byte(read(t, filepath.Join(module.Dir, "internal", "validators", "schemas", "2025-12-11.json"))), &schema); err != nil {
		t.Fatal(err)
	}
	rules, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, source("packaging", "server.json"))
	if err := rules.Validate(value(t, text)); err != nil {
		t.Error(err)
	}
	// The rules do see what is wrong.
	if err := rules.Validate(value(t, strings.Replace(text, `"type": "stdio"`, `"type": "telegraph"`, 1))); err == nil {
		t.Error("an unknown transport passes")
	}
}

func value(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestManifestsHaveTheVersionOfTheSource(t *testing.T) {
	m := regexp.MustCompile(`(?m)^var version = "([^"]+)"$`).FindStringSubmatch(read(t, source("internal", "cli", "version.go")))
	if m == nil {
		t.Fatal("internal/cli/version.go declares no version")
	}
	for _, name := range []string{"server.json", "mcpb/manifest.json"} {
		var has struct{ Version string }
		if err := json.Unmarshal([]byte(read(t, source("packaging", name))), &has); err != nil {
			t.Fatal(err)
		}
		if has.Version != m[1] {
			t.Errorf("packaging/%s has version %q, internal/cli %q; make docs mends it", name, has.Version, m[1])
		}
	}
}

func TestContainerFileFitsTheCheckoutAndTheRegistryEntry(t *testing.T) {
	text := strings.ReplaceAll(read(t, source("packaging", "Dockerfile")), "\\\n", " ")
	let := read(t, source("packaging", "Dockerfile.dockerignore"))
	var copied int
	instructions := map[string]string{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		instructions[f[0]] = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), f[0])) // the last one counts
		if f[0] != "COPY" || strings.HasPrefix(f[1], "--from=") {
			continue
		}
		for _, src := range f[1 : len(f)-1] {
			copied++
			if _, err := os.Stat(source(src)); err != nil {
				t.Errorf("COPY %s: %v", src, err)
			}
			if !strings.Contains(let, "\n!"+src+"\n") {
				t.Errorf("COPY %s: Dockerfile.dockerignore keeps it out", src)
			}
		}
	}
	if copied == 0 {
		t.Error("nothing is copied from the checkout")
	}
	if user := instructions["USER"]; user == "" || strings.HasPrefix(user, "0") || strings.HasPrefix(user, "root") {
		t.Errorf("USER %q, want one without rights", user)
	}
	if got, want := instructions["ENTRYPOINT"], `["/usr/bin/`+program+`"]`; got != want {
		t.Errorf("ENTRYPOINT %s, want %s", got, want)
	}
	var args []string
	if err := json.Unmarshal([]byte(instructions["CMD"]), &args); err != nil || len(args) == 0 || args[0] != "stdio" {
		t.Errorf("CMD %s: %v, want stdio and its flags", instructions["CMD"], err)
	}
	// With --help the flags are read and nothing is started.
	must(t, builtProgram, append(args, "--help")...)
	if name := entry(t, source("packaging", "server.json")).Name; !strings.Contains(instructions["LABEL"], `io.modelcontextprotocol.server.name="`+name+`"`) {
		t.Errorf("the image does not say that it is %s:\n%s", name, instructions["LABEL"])
	}
	if goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, source("go.mod"))); !strings.Contains(text, "golang:"+goVersion[1]+" ") {
		t.Errorf("the image is not built with Go %s", goVersion[1])
	}
}

func TestReleaseSettingsCoverWhatIsPromised(t *testing.T) {
	var settings struct {
		Builds []struct {
			Main   string
			Env    []string
			Goos   []string
			Goarch []string
		}
		Archives []struct {
			NameTemplate string `yaml:"name_template"`
			Files        []any
		}
		Nfpms    []struct{ Formats []string }
		Sboms    []struct{ Documents []string }
		Casks    []any `yaml:"homebrew_casks"`
		Scoops   []any
		Checksum struct {
			NameTemplate string `yaml:"name_template"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, source(".goreleaser.yaml"))), &settings); err != nil {
		t.Fatal(err)
	}
	b := settings.Builds[0]
	if !slices.Equal(b.Goos, []string{"linux", "darwin", "windows"}) || !slices.Equal(b.Goarch, []string{"amd64", "arm64"}) {
		t.Errorf("built for %v × %v", b.Goos, b.Goarch)
	}
	if !slices.Contains(b.Env, "CGO_ENABLED=0") {
		t.Errorf("not static: %v", b.Env)
	}
	if info, err := os.Stat(source(b.Main)); err != nil || !info.IsDir() {
		t.Errorf("main %s: %v", b.Main, err)
	}
	for _, f := range settings.Archives[0].Files {
		if name, ok := f.(string); ok {
			if _, err := os.Stat(source(name)); err != nil {
				t.Error(err)
			}
		}
	}
	if got := settings.Nfpms[0].Formats; !slices.Equal(got, []string{"deb", "rpm"}) {
		t.Errorf("packages %v", got)
	}
	if len(settings.Sboms) == 0 || len(settings.Casks) == 0 || len(settings.Scoops) == 0 {
		t.Errorf("%d bills of materials, %d casks, %d scoops, want one of each", len(settings.Sboms), len(settings.Casks), len(settings.Scoops))
	}
	// The installers ask for these names.
	names := strings.NewReplacer("{{ .ProjectName }}", program, "{{ .Os }}", "${os}", "{{ .Arch }}", "$arch")
	for installer, asked := range map[string]string{
		"install.sh":  "archive=" + strings.Replace(names.Replace(settings.Archives[0].NameTemplate), program, "${program}", 1) + ".tar.gz",
		"install.ps1": `$archive = "` + strings.Replace(strings.Replace(names.Replace(settings.Archives[0].NameTemplate), program, "${program}", 1), "${os}", "windows", 1) + `.zip"`,
	} {
		text := read(t, source("scripts", installer))
		for _, want := range []string{asked, settings.Checksum.NameTemplate} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not ask for %s", installer, want)
			}
		}
	}
}
