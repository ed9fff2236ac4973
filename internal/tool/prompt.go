package tool

import (
	"context"
	"fmt"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/schema"
)

// PromptSpec declares a text that people have their host put to the model.
type PromptSpec struct {
	Name      string // [a-z0-9_]+, as listed
	Title     string // for people
	Doc       string // what it is good for
	Toolset   string // the group it is switched on and off with
	Arguments []Argument
	Other     []string // other spellings accepted
	Codes     []fault.Code
	Examples  []PromptExample

	// Render returns the messages. Every required argument is there, and none
	// that is not declared.
	Render func(ctx context.Context, args map[string]string) ([]Message, error)
}

// Argument is one argument of a prompt.
type Argument struct {
	Name     string
	Doc      string
	Required bool
	// Complete returns values, best first; nil: there is nothing to propose.
	Complete func(ctx context.Context, c Completion) ([]string, error)
}

// PromptExample is a use that documentation shows and a test runs.
type PromptExample struct {
	Title string
	Args  map[string]string
	Code  fault.Code // expected; "": there are messages
}

// Message is one message of a prompt.
type Message struct {
	Assistant bool // said by the model; else by the person
	Text      string
}

// Prompt is a declared prompt.
type Prompt struct {
	PromptSpec
	seen *Tool // what observers see of it
}

// NewPrompt declares a prompt. It panics when the declaration is wrong.
func NewPrompt(spec PromptSpec) *Prompt {
	if !validName(spec.Name) || spec.Doc == "" || spec.Render == nil {
		panic(fmt.Sprintf("prompt %q needs a name of 1 to 64 of a-z, 0-9 and _, a text and a way to render it", spec.Name))
	}
	return &Prompt{PromptSpec: spec, seen: observed("prompt_"+spec.Name, spec.Title, spec.Toolset)}
}

// Argument returns the argument of that name, or nil.
func (p *Prompt) Argument(name string) *Argument {
	for i := range p.Arguments {
		if p.Arguments[i].Name == name {
			return &p.Arguments[i]
		}
	}
	return nil
}

// check refuses arguments that are unknown or missing, by name.
func (p *Prompt) check(args map[string]string) error {
	names := make([]string, len(p.Arguments))
	for i, a := range p.Arguments {
		names[i] = a.Name
		if _, given := args[a.Name]; a.Required && !given {
			return fault.New(fault.ValidationError, "%s is required", a.Name).With("field", a.Name)
		}
	}
	for name := range args {
		if p.Argument(name) != nil {
			continue
		}
		err := fault.New(fault.ValidationError, "%s is not a known argument", name)
		if near := schema.Nearest(name, names); near != "" {
			err = fault.New(fault.ValidationError, "%s is not a known argument; did you mean %q?", name, near)
		}
		return err.With("field", name)
	}
	return nil
}
