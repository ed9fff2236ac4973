// Package tool is the mechanism behind every tool, resource and prompt: one
// declaration gives the schemas, the decoding, the result envelope, the
// documentation and the observation.
//
// A Tool and a Set, a Library and what it holds are immutable and safe for
// concurrent use. Calls run on the caller's goroutine; a panic in a handler is
// contained here.
package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/schema"
)

// Effect says what a call may do to the world; it becomes the annotations.
type Effect uint8

// The effects; a tool without Additive or Destructive changes nothing.
const (
	Additive    Effect = 1 << iota // may add, never replaces or removes
	Destructive                    // may replace or remove
	Idempotent                     // a second identical call changes nothing more
	OpenWorld                      // reaches beyond this machine's files
)

// ReadOnly is the effect of a tool that changes nothing.
const ReadOnly Effect = 0

// Changes reports whether the tool may change anything.
func (e Effect) Changes() bool { return e&(Additive|Destructive) != 0 }

// Has reports whether e includes all of f.
func (e Effect) Has(f Effect) bool { return e&f == f }

// Spec declares a tool.
type Spec struct {
	Name     string       // [a-z0-9_]+, as listed
	Title    string       // for people
	Doc      string       // what a model reads: when to use it, what comes back, what next
	Toolset  string       // the group it is switched on and off with
	Effect   Effect       // what a call may do
	Codes    []fault.Code // every code a call can answer, beside those every tool can
	Examples []Example
	Other    []string               // other spellings accepted on call
	Errors   func(*fault.Error) any // another shape for errors; nil: the envelope
}

// Example is a call that documentation shows and a test runs.
type Example struct {
	Title  string
	Args   string     // JSON
	Status string     // expected status of the result
	Code   fault.Code // expected code when Status is "error"
}

// CommonCodes are the codes every tool can answer without declaring them.
var CommonCodes = []fault.Code{fault.ValidationError, fault.ServerError}

// The values of a result's status.
const (
	OK         = "ok"
	Contention = "contention"
	Denied     = "denied"
	Background = "background"
	Error      = "error"
)

// Tool is a declared tool with its schemas.
type Tool struct {
	Spec
	Input, Output *schema.Schema
	handle        func(context.Context, json.RawMessage, *Facts) (any, error)
}

// ResultSchema describes every result of the tool, errors included, since some
// clients hold those to the published schema too.
func (t *Tool) ResultSchema() json.RawMessage {
	if t.Errors != nil {
		return schema.BriefEither(t.Output, anything) // a shape of its own
	}
	return schema.BriefEither(t.Output, envelope)
}

var (
	envelope = mustSchema[Envelope]()
	anything = mustSchema[struct{}]()
)

func mustSchema[T any]() *schema.Schema {
	s, err := schema.Of[T]()
	if err != nil {
		panic(err)
	}
	return s
}

// New declares a tool. It panics when the declaration is wrong, since that is a
// mistake in this program.
func New[In, Out any](spec Spec, h func(context.Context, In) (Out, error)) *Tool {
	in, out := mustSchema[In](), mustSchema[Out]()
	return &Tool{
		Spec: spec, Input: in, Output: out,
		handle: func(ctx context.Context, raw json.RawMessage, facts *Facts) (any, error) {
			var args In
			if err := in.Decode(raw, &args); err != nil {
				return nil, invalid(err)
			}
			tell(facts, args)
			return h(ctx, args)
		},
	}
}

func invalid(err error) error {
	e := &fault.Error{Code: fault.ValidationError, Message: err.Error()}
	if p, ok := errors.AsType[*schema.Problem](err); ok && p.Field != "" {
		e.With("field", p.Field)
	}
	return e
}

// Declares reports whether code is one the tool may answer.
func (t *Tool) Declares(code fault.Code) bool {
	return slices.Contains(t.Codes, code) || slices.Contains(CommonCodes, code)
}

// Result is the answer to a call.
type Result struct {
	Body    json.RawMessage   // one JSON object
	IsError bool              // the call could not be judged or carried out
	Status  string            // status in Body, or "ok" where its shape has none
	Code    fault.Code        // when IsError
	Need    *caller.NeedInput // the call must be repeated with this answer; Body is empty
	Err     error             // the cause when IsError, for logs
}

// call runs the handler and wraps what comes back.
func (t *Tool) call(ctx context.Context, args json.RawMessage, facts *Facts) (res Result) {
	defer func() {
		if p := recover(); p != nil {
			res = t.failed(facts, &fault.Error{
				Code:    fault.ServerError,
				Message: "the tool hit an internal error; the server log has the details",
				Err:     &Panic{Value: p, Stack: debug.Stack()},
			})
		}
	}()
	out, err := t.handle(ctx, args, facts)
	if err == nil {
		body, err := Encode(out)
		if err != nil {
			return t.failed(facts, fmt.Errorf("encode result: %w", err))
		}
		Conclude(facts, out)
		return Result{Body: body, Status: facts.Outcome}
	}
	if need, ok := errors.AsType[*caller.NeedInput](err); ok {
		return Result{Need: need}
	}
	return t.failed(facts, err)
}

// Panic is a recovered panic of a handler.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Envelope is the shape of an error result.
type Envelope struct {
	Status  string         `json:"status"`
	Code    fault.Code     `json:"error_code"`
	Message string         `json:"message"`
	Path    *string        `json:"path"`
	Details map[string]any `json:"details"`
}

// Failure returns the envelope of e: message, next step and details.
func Failure(e *fault.Error) Envelope {
	env := Envelope{Status: Error, Code: e.Code, Message: e.Text(), Details: map[string]any{}}
	if e.Path != "" {
		env.Path = &e.Path
	}
	maps.Copy(env.Details, e.Details)
	if _, ok := env.Details["next"]; !ok {
		env.Details["next"] = fault.Describe(e.Code).Next
	}
	return env
}

func (t *Tool) failed(facts *Facts, err error) Result {
	e := fault.From(err)
	env := Failure(e)
	Conclude(facts, env)
	facts.Field = t.argument(e.Details["field"])
	var shape any = env
	if t.Errors != nil {
		shape = t.Errors(e)
	}
	body, encErr := Encode(shape)
	if encErr != nil { // details that JSON cannot hold
		body, _ = Encode(Envelope{Status: Error, Code: e.Code, Message: e.Text(), Details: map[string]any{}})
	}
	return Result{Body: body, IsError: true, Status: Error, Code: e.Code, Err: err}
}

// argument is the name of a declared argument, as an error names it, or "": what
// else a caller sends may be anything.
func (t *Tool) argument(field any) string {
	name, _ := field.(string)
	for _, f := range t.Input.Fields() {
		if rest, ok := strings.CutPrefix(name, f.Name); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return f.Name
		}
	}
	return ""
}

// Statused is implemented by results whose status may be other than "ok".
type Statused interface{ ResultStatus() string }

func statusOf(out any) string {
	if s, ok := out.(Statused); ok {
		return s.ResultStatus()
	}
	return OK
}

// Encode writes v as JSON in our key order, without HTML escapes.
func Encode(v any) (json.RawMessage, error) {
	if a, ok := v.(Appender); ok {
		return a.AppendJSON(make([]byte, 0, a.JSONSize())), nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
