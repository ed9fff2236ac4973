package tool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/schema"
)

// String names the effect in words.
func (e Effect) String() string {
	var words []string
	switch {
	case e.Has(Destructive):
		words = append(words, "changes")
	case e.Has(Additive):
		words = append(words, "adds")
	default:
		words = append(words, "reads")
	}
	if e.Has(Idempotent) {
		words = append(words, "idempotent")
	}
	if e.Has(OpenWorld) {
		words = append(words, "open world")
	}
	return strings.Join(words, ", ")
}

// AllCodes lists every code the tool may answer, sorted.
func (t *Tool) AllCodes() []fault.Code {
	return allCodes(t.Codes)
}

func allCodes(own []fault.Code) []fault.Code {
	all := append(slices.Clone(own), CommonCodes...)
	slices.Sort(all)
	return slices.Compact(all)
}

// Markdown documents the tool for people.
func (t *Tool) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s\n\n", t.Name, t.Doc)
	fmt.Fprintf(&b, "*%s*; toolset `%s`; effect: %s.", t.Title, t.Toolset, t.Effect)
	if len(t.Other) > 0 {
		fmt.Fprintf(&b, " Also answers to `%s`.", strings.Join(t.Other, "`, `"))
	}
	b.WriteString("\n\n### Parameters\n\n")
	if fields := t.Input.Fields(); len(fields) == 0 {
		b.WriteString("None.\n")
	} else {
		b.WriteString("| name | type | default | meaning |\n|---|---|---|---|\n")
		parameters(&b, "", fields)
	}
	b.WriteString("\n### Result\n\n| field | type | meaning |\n|---|---|---|\n")
	results(&b, "", t.Output.Fields())
	codes(&b, t.Codes)
	if len(t.Examples) > 0 {
		b.WriteString("\n### Examples\n")
	}
	for _, e := range t.Examples {
		outcome := e.Status
		if e.Code != "" {
			outcome += ", " + string(e.Code)
		}
		fmt.Fprintf(&b, "\n%s (%s):\n\n```json\n%s\n```\n", e.Title, outcome, e.Args)
	}
	b.WriteString("\n")
	return b.String()
}

func parameters(b *strings.Builder, prefix string, fields []schema.Field) {
	for _, f := range fields {
		def := f.Default
		if f.Required {
			def = "*required*"
		} else if def != "" {
			def = "`" + cell(def) + "`"
		}
		fmt.Fprintf(b, "| `%s%s` | %s | %s | %s |\n", prefix, f.Name, cell(typeOf(f)), def, cell(f.Description))
		parameters(b, prefix+f.Name+".", f.Fields)
	}
}

func results(b *strings.Builder, prefix string, fields []schema.Field) {
	for _, f := range fields {
		fmt.Fprintf(b, "| `%s%s` | %s | %s |\n", prefix, f.Name, cell(typeOf(f)), cell(f.Description))
		results(b, prefix+f.Name+".", f.Fields)
	}
}

func typeOf(f schema.Field) string {
	if len(f.Enum) > 0 {
		return "one of `" + strings.Join(f.Enum, "`, `") + "`"
	}
	return f.Type
}

// cell makes s fit into a cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
}

// Markdown documents the resource for people.
func (r *Resource) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## `%s`\n\n%s\n\n", r.Address(), r.Doc)
	fmt.Fprintf(&b, "*%s*; name `%s`; toolset `%s`.", r.Title, r.Name, r.Toolset)
	if r.Watch != nil {
		b.WriteString(" It can be subscribed to.")
	}
	if r.Complete != nil {
		b.WriteString(" Its variables can be completed.")
	}
	b.WriteString("\n")
	codes(&b, r.Codes)
	for i, e := range r.Examples {
		if i == 0 {
			b.WriteString("\n### Examples\n\n| what | address | answer |\n|---|---|---|\n")
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", cell(e.Title), cell(e.URI), answer(e.Code))
	}
	b.WriteString("\n")
	return b.String()
}

// Markdown documents the prompt for people.
func (p *Prompt) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s\n\n*%s*; toolset `%s`.", p.Name, p.Doc, p.Title, p.Toolset)
	if len(p.Other) > 0 {
		fmt.Fprintf(&b, " Also answers to `%s`.", strings.Join(p.Other, "`, `"))
	}
	b.WriteString("\n\n### Arguments\n\n")
	if len(p.Arguments) == 0 {
		b.WriteString("None.\n")
	} else {
		b.WriteString("| name | required | meaning |\n|---|---|---|\n")
	}
	for _, a := range p.Arguments {
		required := "no"
		if a.Required {
			required = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", a.Name, required, cell(a.Doc))
	}
	codes(&b, p.Codes)
	b.WriteString("\n")
	return b.String()
}

// codes lists what may be answered.
func codes(b *strings.Builder, own []fault.Code) {
	b.WriteString("\n### Error codes\n\n")
	for i, c := range allCodes(own) {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, "[`%s`](ERRORS.md#%s)", c, strings.ToLower(string(c)))
	}
	b.WriteString("\n")
}

func answer(code fault.Code) string {
	if code == "" {
		return "read"
	}
	return "`" + string(code) + "`"
}
