package hosts

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBundleIsAcceptedAndStarts hands the bundle to the tools of its format: they
// take the manifest for valid and unpack it, and what they make of the settings
// of a person is started and asked for its tools.
func TestBundleIsAcceptedAndStarts(t *testing.T) {
	modules := installed(t, "mcpb")
	work := t.TempDir()
	bundle, unpacked := filepath.Join(work, plain+".mcpb"), filepath.Join(work, "unpacked")
	const version = "1.2.3-test"
	out, err := exec.Command("go", "run", "../../scripts/release", "bundle", "-version", version, "-o", bundle, program(plain)).CombinedOutput()
	if err != nil {
		t.Fatalf("release bundle: %v\n%s", err, out)
	}
	mcpb := &host{
		argv: []string{node(t), filepath.Join(modules, "@anthropic-ai", "mcpb", "dist", "cli", "cli.js")},
		dir:  work, env: bareEnv(t, nil),
	}
	mcpb.must(t, "unpack", bundle, unpacked)
	mcpb.must(t, "validate", filepath.Join(unpacked, "manifest.json"))
	if said := mcpb.must(t, "info", bundle).stdout; !strings.Contains(said, plain+".mcpb") {
		t.Errorf("mcpb info says %q", head(said))
	}
	var manifest struct{ Name, Version string }
	b, err := os.ReadFile(filepath.Join(unpacked, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &manifest); err != nil || manifest.Name != plain || manifest.Version != version {
		t.Errorf("the manifest is of %+v, %v", manifest, err)
	}

	project := t.TempDir()
	start := &host{argv: mcpb.argv[:1], dir: work, env: mcpb.env}
	said := start.must(t, "--input-type=module", "--eval", `
		import { getMcpConfigForManifest } from `+quoted(filepath.Join(modules, "@anthropic-ai", "mcpb", "dist", "index.js"))+`;
		import { readFileSync } from "node:fs";
		const extensionPath = `+quoted(unpacked)+`;
		const config = await getMcpConfigForManifest({
			manifest: JSON.parse(readFileSync(extensionPath + "/manifest.json", "utf8")),
			extensionPath, systemDirs: {}, pathSeparator: "/",
			userConfig: { project: `+quoted(project)+`, read_only: true },
		});
		console.log(JSON.stringify(config));`).stdout
	var config struct {
		Command string
		Args    []string
	}
	if err := json.Unmarshal([]byte(said), &config); err != nil {
		t.Fatalf("%v: %s", err, head(said))
	}
	// Alone, so that no daemon outlives the test.
	server := exec.CommandContext(t.Context(), config.Command, append(config.Args, "--standalone")...)
	server.Env = bareEnv(t, map[string]string{"ASYNC_CRUD_MCP_HOME": t.TempDir()})
	server.Dir = work
	server.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}` + "\n" +
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"crud_get_config","arguments":{"section":"daemon"}}}` + "\n")
	var stdout, stderr bytes.Buffer
	server.Stdout, server.Stderr = &stdout, &stderr
	if err := server.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s", config.Command, config.Args, err, stderr.String())
	}
	said = stdout.String()
	for _, want := range []string{`"name":"async_read"`, project} {
		if !strings.Contains(said, want) {
			t.Errorf("the server does not tell of %s:\n%s", want, head(said))
		}
	}
	if strings.Contains(said, `"name":"async_write"`) {
		t.Error("async_write is offered though the person asked for reading only")
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // a string has no way to fail
	return string(b)
}
