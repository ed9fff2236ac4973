package hosts

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The way of an alias through a real host: catalogue, dry run, refusal, confirmed
// run, redacted record.
func TestInspectorRunsAliases(t *testing.T) {
	t.Parallel()
	launcher := filepath.Join(installed(t, "inspector"), "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	engine := node(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("aliases", "alias hello='echo hello'\nalias nuke='rm -rf /nothing/at/all'\n")
	settings := func(record string) string {
		return write(record+".yaml", fmt.Sprintf("aliasFiles: [%q]\nallowPatterns: ['^echo\\b']\ncwdRoots: [%q]\ndefaultCwd: %q\nauditLogPath: %q\n",
			file, dir, dir, filepath.Join(dir, record+".log")))
	}
	srv := serve(t, plain, "--config", settings("http"))
	argv, env, _ := stdioCommand(t)
	for _, c := range []struct {
		name, era, record string
		target            []string
	}{
		{"stdio", "legacy", "stdio", append(argv, "--config", settings("stdio"))},
		{"http", "modern", "http", []string{srv.url + "/mcp", "--transport", "http"}},
	} {
		t.Run(c.name+"/"+c.era, func(t *testing.T) {
			h := &host{argv: []string{engine, launcher, "--cli"}, dir: t.TempDir(), env: bareEnv(t, env)}
			common := []string{"--format", "json", "--protocol-era", c.era}
			if c.name == "stdio" {
				for k, v := range env {
					common = append(common, "-e", k+"="+v)
				}
				common = append(common, "--")
			}
			inspect := func(args ...string) string {
				return h.run(t, slices.Concat(args, common, c.target)...).stdout // a refusal is a failure to it
			}
			call := func(args ...string) string {
				all := []string{"--method", "tools/call", "--tool-name", "alias_exec"}
				for _, a := range args {
					all = append(all, "--tool-arg", a)
				}
				return inspect(all...)
			}
			expect := func(what, got string, wants ...string) {
				t.Helper()
				for _, want := range wants { // whether it stands inside of a text or not
					if !strings.Contains(strings.ReplaceAll(got, `\`, ""), strings.ReplaceAll(want, `\`, "")) {
						t.Errorf("%s lacks %s: %s", what, want, head(got))
					}
				}
			}
			names := strictNames(t, inspect("--method", "tools/list", "--strict"))
			if !slices.Contains(names, "alias_exec") || !slices.Contains(names, "alias_catalog") {
				t.Errorf("tools/list has %v", names)
			}
			expect("the catalogue", inspect("--method", "resources/read", "--uri", "alias://catalog"), `"name":"hello","expansion":"echo hello","safe":true`)
			expect("an alias", inspect("--method", "resources/read", "--uri", "alias://nuke"), "safe: false")
			expect("the list of prompts", inspect("--method", "prompts/list"), "alias_suggest", "alias_confirm")
			expect("a dry run", call("name=hello", "args=a b"), `"command":"echo hello a b"`, `"dryRun":true`, `"exitCode":null`)
			expect("an unsafe run", call("name=nuke", "dryRun=false", "confirm=true"), "ALIAS_UNSAFE")
			expect("a confirmed run", call("name=hello", "args=--token hunter2", "dryRun=false", "confirm=true"), `"exitCode":0`, `"stdout":"hello --token hunter2\n"`)

			record := filepath.Join(dir, c.record+".log")
			want := `"alias":"hello","args":"--token [redacted]","cwd":"`
			for end := time.Now().Add(hostTimeout); ; time.Sleep(20 * time.Millisecond) { // it is written a moment later
				raw, err := os.ReadFile(record)
				if err == nil && strings.Contains(string(raw), want) && !strings.Contains(string(raw), "hunter2") {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("the record lacks %s: %v\n%s", want, err, raw)
				}
			}
		})
	}
}
