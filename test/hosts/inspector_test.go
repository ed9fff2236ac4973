package hosts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every transport, and on those that have two protocol eras, both.
func TestInspectorListsStrictlyAndCallsTools(t *testing.T) {
	t.Parallel()
	launcher := filepath.Join(installed(t, "inspector"), "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	engine := node(t)
	srv := serve(t, plain)
	argv, env, stdioRoot := stdioCommand(t)
	for _, c := range []struct {
		name, era, root string
		target          []string
	}{
		{"stdio", "legacy", stdioRoot, argv},
		{"stdio", "modern", stdioRoot, argv},
		{"http", "legacy", srv.root, []string{srv.url + "/mcp", "--transport", "http"}},
		{"http", "modern", srv.root, []string{srv.url + "/mcp", "--transport", "http"}},
		{"sse", "legacy", srv.root, []string{srv.url + "/sse", "--transport", "sse"}},
	} {
		t.Run(c.name+"/"+c.era, func(t *testing.T) {
			h := &host{argv: []string{engine, launcher, "--cli"}, dir: t.TempDir(), env: bareEnv(t, env)}
			common := []string{"--format", "json", "--protocol-era", c.era}
			if c.name == "stdio" {
				for k, v := range env {
					common = append(common, "-e", k+"="+v)
				}
				// What follows the command belongs to the command, unless it comes first.
				common = append(common, "--")
			}
			inspect := func(args ...string) output {
				return h.must(t, slices.Concat(args, common, c.target)...)
			}

			names := strictNames(t, inspect("--method", "tools/list", "--strict").stdout)
			for _, want := range []string{"health", "crud_activate_project", "crud_get_config", "crud_update_config"} {
				if !slices.Contains(names, want) {
					t.Errorf("tools/list has no %s: %v", want, names)
				}
			}
			if got := inspect("--method", "tools/call", "--tool-name", "health").stdout; !strings.Contains(compact(got), `"status":"ok"`) {
				t.Errorf("health answered %s", head(got))
			}
			got := inspect("--method", "tools/call", "--tool-name", "crud_activate_project", "--tool-arg", "path="+c.root).stdout
			if !strings.Contains(compact(got), `"status":"ok"`) || !strings.Contains(got, c.root) {
				t.Errorf("crud_activate_project answered %s", head(got))
			}
			if got := inspect("--method", "resources/templates/list").stdout; !strings.Contains(got, "file://{+path}") {
				t.Errorf("resources/templates/list answered %s", head(got))
			}
			note := filepath.Join(c.root, "a note.txt")
			if err := os.WriteFile(note, []byte("read <me>\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			uri := "file://" + strings.ReplaceAll(note, " ", "%20")
			if got := inspect("--method", "resources/read", "--uri", uri).stdout; !strings.Contains(got, `read <me>\n`) || !strings.Contains(got, "async-crud-mcp/hash") {
				t.Errorf("resources/read answered %s", head(got))
			}
		})
	}
}

// strictNames returns the names in a list whose schemas no host or model
// provider would refuse or misread. A result that may be null says so with a
// union of types, which is no trouble: models are told about inputs.
func strictNames(t *testing.T, envelope string) []string {
	t.Helper()
	var list struct {
		Result struct {
			Tools []struct{ Name string }
		}
		SchemaFindings []struct {
			ToolName string
			Findings []struct{ Rule, Severity, Schema, Path, Issue string }
		}
	}
	if err := json.Unmarshal([]byte(envelope), &list); err != nil {
		t.Fatalf("%v in %s", err, head(envelope))
	}
	for _, tool := range list.SchemaFindings {
		for _, f := range tool.Findings {
			if f.Rule != "type-union" || f.Schema != "outputSchema" {
				t.Errorf("--strict finds %s at %s of the %s of %s: %s", f.Rule, f.Path, f.Schema, tool.ToolName, f.Issue)
			}
		}
	}
	var names []string
	for _, tool := range list.Result.Tools {
		names = append(names, tool.Name)
	}
	return names
}
