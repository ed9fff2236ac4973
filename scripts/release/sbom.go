package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
)

// The parts of a CycloneDX 1.6 document that are used here.
type (
	bom struct {
		Schema       string       `json:"$schema"`
		Format       string       `json:"bomFormat"`
		SpecVersion  string       `json:"specVersion"`
		Serial       string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		PURL       string     `json:"purl"`
		Hashes     []hash     `json:"hashes,omitempty"`
		Licenses   []license  `json:"licenses,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	license struct {
		License struct {
			ID string `json:"id"`
		} `json:"license"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn,omitempty"`
	}
)

// sbom writes the bill of materials of a program. It is read out of the program
// itself, where the linker left the modules that went in, and so names what is
// there, not what go.mod would allow. Which module asked for which is not known
// there: all of them hang on the program.
func sbom(exe, version, out string) error {
	info, err := buildinfo.ReadFile(exe)
	if err != nil {
		return fmt.Errorf("%s: %w", exe, err)
	}
	sum, err := hashFile(exe)
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(describe(info, version, sum), "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(b, '\n'), 0o644)
}

func describe(info *debug.BuildInfo, version, sum string) bom {
	root := component{
		Type: "application", Name: info.Main.Path, Version: version, PURL: purl(info.Main.Path, "v"+version),
		Hashes: []hash{{"SHA-256", sum}},
	}
	root.Ref = root.PURL
	root.Licenses = make([]license, 1)
	root.Licenses[0].License.ID = "Apache-2.0"
	for _, s := range info.Settings {
		if s.Key == "GOOS" || s.Key == "GOARCH" || s.Key == "CGO_ENABLED" || s.Key == "vcs.revision" {
			root.Properties = append(root.Properties, property{"go:" + s.Key, s.Value})
		}
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	all := []component{{Type: "library", Name: "std", Version: goVersion, PURL: purl("std", goVersion)}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component{Type: "library", Name: m.Path, Version: m.Version, PURL: purl(m.Path, m.Version)}
		if m.Sum != "" {
			c.Properties = []property{{"go:sum", m.Sum}}
		}
		all = append(all, c)
	}
	tree := []dependency{{Ref: root.Ref}}
	for i := range all {
		all[i].Ref = all[i].PURL
		tree[0].DependsOn = append(tree[0].DependsOn, all[i].Ref)
		tree = append(tree, dependency{Ref: all[i].Ref})
	}
	return bom{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", SpecVersion: "1.6",
		Serial: "urn:uuid:" + uuid(sum), Version: 1,
		Metadata: metadata{root}, Components: all, Dependencies: tree,
	}
}

func purl(path, version string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return "pkg:golang/" + strings.Join(segments, "/") + "@" + url.PathEscape(version)
}

// uuid makes a name of the program's hash: one program, one serial number.
func uuid(sum string) string {
	return fmt.Sprintf("%s-%s-8%s-8%s-%s", sum[:8], sum[8:12], sum[13:16], sum[17:20], sum[20:32])
}

func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
