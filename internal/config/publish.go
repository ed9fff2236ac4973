package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/config/document"
	"github.com/async-crud-mcp/async-crud-mcp/internal/schema"
)

const (
	schemaURL     = "https://raw.githubusercontent.com/async-crud-mcp/async-crud-mcp/main/docs/config.schema.json"
	formatVersion = "1.0"
)

// JSONSchema returns the published schema of a settings file. It knows the
// snake_case spelling alone, so that editors offer one.
func JSONSchema() json.RawMessage {
	top, err := document.ParseJSON(settings().schema.JSON())
	if err != nil {
		panic(err) // it is our own
	}
	properties := member(top, "properties")
	for i := 1; i < len(properties.Content); i += 2 {
		tolerant(properties.Content[i])
	}
	for _, k := range settings().keys {
		if k.nullable && k.typ.Kind() != reflect.Pointer {
			typ := member(member(member(properties, k.section), "properties"), k.leaf)
			setMember(typ, "type", document.Of([]any{"array", "null"}))
		}
	}
	for _, name := range []string{"shell.deny_patterns_mode", "shell.deny_patterns", "shell.enabled"} {
		k := settings().find(name)
		shell := member(member(properties, k.section), "properties")
		properties.Content = append(properties.Content, document.Of(strings.ReplaceAll(name, ".", "_")), member(shell, k.leaf))
	}
	properties.Content = append(properties.Content,
		document.Of("$schema"), document.Of(map[string]any{"type": "string"}),
		document.Of("_version"), document.Of(map[string]any{"type": "string"}))
	tolerant(top)
	top.Content = append([]*document.Node{
		document.Of("$schema"), document.Of("https://json-schema.org/draft/2020-12/schema"),
		document.Of("$id"), document.Of(schemaURL),
		document.Of("title"), document.Of("Settings of async-crud-mcp"),
	}, top.Content...)
	text, err := document.Render("json", top)
	if err != nil {
		panic(err)
	}
	return text
}

// tolerant lets an object schema have the names that explain.
func tolerant(n *document.Node) {
	n.Content = append(n.Content, document.Of("patternProperties"), document.Of(map[string]any{"^_(.*_)?help$": map[string]any{}}))
}

func member(n *document.Node, name string) *document.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	panic("config: the schema has no " + name)
}

func setMember(n *document.Node, name string, value *document.Node) { *member(n, name) = *value }

// Init writes a starter file of the user's in the format json, yaml or toml:
// every setting with its default and an explanation. What JSON must state, the
// others have commented out.
func Init(format string, w io.Writer) error { return starter(format, w, false) }

// InitProject writes a starter file of a project: an explanation of every
// setting it may have, and none that is set. A default that it stated would go
// before the user's own value.
func InitProject(format string, w io.Writer) error { return starter(format, w, true) }

func starter(format string, w io.Writer, project bool) error {
	var out bytes.Buffer
	sections := settings().schema.Fields()
	if project {
		sections = projectFields(sections)
	}
	switch format {
	case "json":
		fmt.Fprintf(&out, "{\n  \"$schema\": %q,\n  \"_version\": %q", schemaURL, formatVersion)
		for _, s := range sections {
			fmt.Fprintf(&out, ",\n\n  %q: {\n    \"_help\": %s", s.Name, document.Quote(s.Description))
			for _, f := range s.Fields {
				if project {
					fmt.Fprintf(&out, ",\n    \"_%s_help\": %s", f.Name, document.Quote(explain(f)+"; default "+defaultOf(f)))
					continue
				}
				fmt.Fprintf(&out, ",\n\n    %q: %s,\n    \"_%s_help\": %s", f.Name, defaultOf(f), f.Name, document.Quote(explain(f)))
			}
			out.WriteString("\n  }")
		}
		out.WriteString("\n}\n")
	case "yaml", "yml":
		fmt.Fprintf(&out, "# yaml-language-server: $schema=%s\n_version: %q\n", schemaURL, formatVersion)
		for _, s := range sections {
			fmt.Fprintf(&out, "\n# %s\n%s:\n", s.Description, s.Name)
			for _, f := range s.Fields {
				fmt.Fprintf(&out, "  # %s\n  # %s: %s\n", explain(f), f.Name, defaultOf(f))
			}
		}
	case "toml":
		fmt.Fprintf(&out, "#:schema %s\n_version = %q\n", schemaURL, formatVersion)
		for _, s := range sections {
			fmt.Fprintf(&out, "\n# %s\n[%s]\n", s.Description, s.Name)
			for _, f := range s.Fields {
				value := f.Default // JSON that TOML reads the same way
				if value == "null" {
					value = ""
				}
				fmt.Fprintf(&out, "# %s\n# %s = %s\n", explain(f), f.Name, value)
			}
		}
	default:
		return fmt.Errorf("format %q is unknown; use json, yaml or toml", format)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// projectFields leaves out what no project file can set and says of the rest
// what it may do there.
func projectFields(sections []schema.Field) []schema.Field {
	var left []schema.Field
	for _, s := range sections {
		var fields []schema.Field
		for _, f := range s.Fields {
			if k := settings().find(s.Name + "." + f.Name); k.mark != process {
				f.Description += "; in a project file: " + k.inProject()
				fields = append(fields, f)
			}
		}
		if s.Fields = fields; len(fields) > 0 {
			left = append(left, s)
		}
	}
	return left
}

func defaultOf(f schema.Field) string {
	if f.Default == "" {
		return "null"
	}
	return f.Default
}

// explain returns the description with the choices.
func explain(f schema.Field) string {
	if len(f.Enum) == 0 {
		return f.Description
	}
	return f.Description + " (" + strings.Join(f.Enum, ", ") + ")"
}

// Markdown returns the body of docs/CONFIG.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(intro())
	for _, s := range settings().schema.Fields() {
		fmt.Fprintf(&b, "\n## %s\n\nAbout %s.\n\n| key | type | default | in a project file | meaning |\n|---|---|---|---|---|\n", s.Name, s.Description)
		var nested []schema.Field
		for _, f := range s.Fields {
			k := settings().find(s.Name + "." + f.Name)
			fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s | %s |\n", f.Name, cell(f.Type), cell(defaultOf(f)), k.inProject(), cell(explain(f)))
			if len(f.Fields) > 0 {
				nested = append(nested, f)
			}
		}
		for _, f := range nested {
			fmt.Fprintf(&b, "\nEach item of `%s`:\n\n| key | type | default | meaning |\n|---|---|---|---|\n", f.Name)
			for _, g := range f.Fields {
				value := "`" + cell(g.Default) + "`"
				if g.Required {
					value = "required"
				}
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", g.Name, cell(g.Type), value, cell(explain(g)))
			}
		}
	}
	return b.String()
}

// inProject says in a few words what a project file may do with the key.
func (k *key) inProject() string {
	switch k.mark {
	case free:
		return "free"
	case process:
		return "no"
	case tighten:
		return map[string]string{
			"lower": "lower", "limit": "lower (0 is no limit)", "true": "only to true", "false": "only to false",
			"append": "add to it", "subset": "leave items out", "patterns": "extend", "order": "only towards " + last(k.order),
		}[k.rule]
	default:
		return "when trusted"
	}
}

func last(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// intro explains layers, spellings and project files.
func intro() string {
	return `Settings come from six places. The higher one wins:

1. the parameter of a call
2. ` + "`--set key=value`" + ` and named flags
3. the environment: ` + "`ASYNC_CRUD_MCP_SECTION__KEY`" + `, for example ` + "`" + EnvName("crud.default_timeout") + "=60`" + `
4. the project's file: ` + "`" + ProjectDir + "/config.json`, `.yaml`, `.yml` or `.toml`" + `
5. the user's file: ` + "`config.json`, `.yaml`, `.yml` or `.toml`" + ` in the user's configuration directory, or ` + "`--config FILE`" + `
6. the defaults below

` + "`async-crud-mcp config init`" + ` writes a starter file, ` + "`config show --origin`" + ` shows every value in force and where it comes from, ` + "`config validate`" + ` checks a file.

- Keys may be written ` + "`snake_case`, `camelCase` or `kebab-case`" + `, also in the environment and with ` + "`--set`" + `. ` + "`shell_enabled`, `shell_deny_patterns` and `shell_deny_patterns_mode`" + ` may stand at the top of a file; so may the keys of ` + "`aliases`" + ` when the file has no others; ` + "`[tools.shell]`" + ` is read as ` + "`[shell]`" + `.
- Values in the environment and with ` + "`--set`" + ` are JSON; strings may be plain text, lists of strings may have commas between them. An empty variable counts as not set.
- ` + "`$schema`, `_version`, `_help` and `_…_help`" + ` are ignored. Any other unknown key is a warning with a suggestion. A wrong value, or an unknown key inside a rule, refuses the whole file; the last good one stays in force and health says so.
- Files are read again when they change: once they have been at rest for ` + "`daemon.config_debounce_seconds`" + `.
- A path may begin with ` + "`~`" + `.

## Project files

A project's file comes with the project, so it cannot loosen what the user has set. The tables say for each key what it may do:

| mark | meaning |
|---|---|
| free | it may be set |
| lower, only to …, add to it, leave items out, extend | it may only be made stricter than the value below it; anything else is ignored with a warning |
| when trusted | it counts only when a person has run ` + "`async-crud-mcp trust`" + ` in the project, or started the server with ` + "`--trust-project`" + `; so do looser values of the marks above |
| no | it belongs to the server process and is never taken from a project |

Trust holds for the bytes of the file: when they change it is lost, and a warning says so. Rules of a project (` + "`access_rules`, `content_rules`, `deny_patterns`" + ` and other lists marked "add to it") are added to those of the user, trusted or not.

An agent may change the file with ` + "`crud_update_config`" + ` as long as it lets no more through than before, whatever the user's own settings are or become. In a project that is not trusted it can do no more. In a trusted one, anything else asks the person at the client first: loosening, and also a limit the file did not have, since a trusted file's value goes before the user's own.
`
}
