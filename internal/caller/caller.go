// Package caller says who asks: the identity of a client session and what a
// handler may ask of its client while it serves a call.
//
// A Caller is made by mcpserver (or by the command line) and travels in the
// context. It is immutable; the functions in it are safe for concurrent use.
package caller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Caller identifies the client behind a call and carries its channel back.
type Caller struct {
	Client    string // client name, as the client gives it
	Version   string // client version
	Transport string // "stdio", "http", "sse" or "cli"
	Protocol  string // MCP protocol version in force
	Session   string // session id; "" where the protocol has no session
	Agent     string // optional label of the agent inside the client
	Thread    string // optional conversation id from _meta
	Project   string // project id or path named by the request itself (?project= or _meta)

	// Limits of this session; they only narrow what the process offers.
	Toolsets []string // nil: those of the process
	Exclude  []string
	ReadOnly bool
	// Allows says whether the session may use a tool or, for the name "", anything
	// of a toolset, at this moment; nil: it may.
	Allows func(toolset, tool string) bool

	Environ []string // environment of the client's process; nil: unknown
	Launch  any      // what the session was started with; project knows what it is

	// Ask is what may be asked of the client; each function may be nil.
	Ask Ask
}

// Ask is the set of questions a handler may put to its client.
type Ask struct {
	// Progress reports how far a call is. total <= 0 means unknown. It never
	// blocks for long and is a no-op when the client did not ask for progress.
	Progress func(ctx context.Context, done, total float64, message string)
	// Roots returns the directories the client offers, as absolute paths. Like
	// Elicit it may return a *NeedInput error.
	Roots func(ctx context.Context) ([]string, error)
	// Elicit asks the person at the client. It returns a *NeedInput error when
	// the protocol wants the call to be repeated with the answer: a handler
	// returns that error unchanged and does nothing irreversible before it.
	Elicit func(ctx context.Context, q Question) (Answer, error)
}

// Question is a form for the person: a message and a flat JSON Schema object.
type Question struct {
	Key     string // distinguishes several questions of one call
	Message string
	Schema  json.RawMessage
}

// Answer is what the person said.
type Answer struct {
	Accepted bool
	Content  json.RawMessage // the form's values when accepted
}

// NeedInput asks the surface to obtain an answer and to repeat the call.
type NeedInput struct{ Question Question }

func (e *NeedInput) Error() string { return fmt.Sprintf("input needed: %s", e.Question.Message) }

// ErrCannotAsk is returned when the client has no way to ask its person.
var ErrCannotAsk = errors.New("the client cannot ask its person")

// ErrNoRoots is returned when the client offers no roots.
var ErrNoRoots = errors.New("the client offers no roots")

type key struct{}

// With returns a context that carries c.
func With(ctx context.Context, c *Caller) context.Context { return context.WithValue(ctx, key{}, c) }

// From returns the caller in ctx, or an anonymous one; never nil.
func From(ctx context.Context) *Caller {
	if c, ok := ctx.Value(key{}).(*Caller); ok {
		return c
	}
	return &Caller{}
}

// String names the caller for logs: client/version, agent and session.
func (c *Caller) String() string {
	s := c.Client
	if s == "" {
		s = "unknown"
	}
	if c.Version != "" {
		s += "/" + c.Version
	}
	if c.Agent != "" {
		s += " (" + c.Agent + ")"
	}
	return s
}

// Progress reports progress to the client, when it wants any.
func Progress(ctx context.Context, done, total float64, message string) {
	if f := From(ctx).Ask.Progress; f != nil {
		f(ctx, done, total, message)
	}
}

// Roots asks the client for its roots.
func Roots(ctx context.Context) ([]string, error) {
	if f := From(ctx).Ask.Roots; f != nil {
		return f(ctx)
	}
	return nil, ErrNoRoots
}

// Elicit asks the person at the client.
func Elicit(ctx context.Context, q Question) (Answer, error) {
	if f := From(ctx).Ask.Elicit; f != nil {
		return f(ctx, q)
	}
	return Answer{}, ErrCannotAsk
}
