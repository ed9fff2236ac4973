package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
)

// Observer sees every call of a Set after it ended. It must not block.
type Observer interface {
	ToolCalled(ctx context.Context, c Observation)
}

// RefusalObserver is an Observer that also wants to know of calls of tools that
// are not on offer to their caller.
type RefusalObserver interface {
	ToolRefused(ctx context.Context, name string)
}

// Observation is one finished call.
type Observation struct {
	Tool   *Tool
	Caller *caller.Caller
	Facts  Facts // what may be kept of the arguments and the result
	Result Result
	Start  time.Time
	Took   time.Duration
}

// Set is a group of tools that are offered together.
type Set struct {
	tools  []*Tool
	byName map[string]*Tool // by every spelling but those with _tool behind
	opts   SetOptions
}

// SetOptions are the parts a Set reports to.
type SetOptions struct {
	Observers []Observer
	Logger    *slog.Logger // nil: silent
}

// validName reports whether every host can take name.
func validName(name string) bool {
	other := func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') }
	return name != "" && len(name) <= 64 && !strings.ContainsFunc(name, other)
}

// NewSet returns a set that offers tools in the given order. Two tools that
// answer to one spelling are an error.
func NewSet(tools []*Tool, opts SetOptions) (*Set, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Set{tools: tools, byName: make(map[string]*Tool), opts: opts}
	for _, t := range tools {
		if !validName(t.Name) {
			return nil, fmt.Errorf("tool name %q is not made of 1 to 64 of a-z, 0-9 and _", t.Name)
		}
		if s.byName[t.Name] != nil {
			return nil, fmt.Errorf("two tools are named %s", t.Name)
		}
		if strings.HasSuffix(t.Name, "_tool") {
			return nil, fmt.Errorf("tool name %q ends in _tool, the ending that every tool accepts", t.Name)
		}
		s.byName[t.Name] = t
	}
	for _, t := range tools {
		for _, other := range t.Other {
			if first := s.byName[other]; first != nil && first != t {
				return nil, fmt.Errorf("tools %s and %s both answer to %s", first.Name, t.Name, other)
			}
			s.byName[other] = t
		}
	}
	return s, nil
}

// Tools returns the tools in listing order.
func (s *Set) Tools() []*Tool { return slices.Clone(s.tools) }

// Len returns how many tools there are.
func (s *Set) Len() int { return len(s.tools) }

// Lookup returns the tool that answers to name in any accepted spelling, or nil:
// its own, another declared one, or either with "_tool" behind.
func (s *Set) Lookup(name string) *Tool {
	if t := s.byName[name]; t != nil {
		return t
	}
	return s.byName[strings.TrimSuffix(name, "_tool")]
}

// Filter narrows a Set.
type Filter struct {
	Toolsets []string // nil: those of Default; "all" for every one
	Exclude  []string // tool names, in any spelling
	ReadOnly bool     // only tools that change nothing
}

// Select returns the subset that f lets through, or an error that names what f
// got wrong. Default lists the toolsets that are on when f names none.
func (s *Set) Select(f Filter, defaults []string) (*Set, error) {
	known := make(map[string]bool)
	for _, t := range s.tools {
		known[t.Toolset] = true
	}
	on := f.Toolsets
	if on == nil {
		on = defaults
	}
	for _, name := range on {
		if name != "all" && !known[name] && !slices.Contains(defaults, name) {
			return nil, fmt.Errorf("toolset %q is unknown; known: %s, all", name, strings.Join(s.Toolsets(), ", "))
		}
	}
	excluded := make(map[*Tool]bool)
	for _, name := range f.Exclude {
		t := s.Lookup(name)
		if t == nil {
			return nil, fmt.Errorf("tool %q to exclude is unknown", name)
		}
		excluded[t] = true
	}
	all := slices.Contains(on, "all")
	var tools []*Tool
	for _, t := range s.tools {
		if (all || slices.Contains(on, t.Toolset)) && !excluded[t] && (!f.ReadOnly || !t.Effect.Changes()) {
			tools = append(tools, t)
		}
	}
	return NewSet(tools, s.opts)
}

// Toolsets lists the toolsets of the set in listing order.
func (s *Set) Toolsets() []string {
	var names []string
	for _, t := range s.tools {
		if !slices.Contains(names, t.Toolset) {
			names = append(names, t.Toolset)
		}
	}
	return names
}

// cause is what went wrong inside, which the client is not told.
func cause(err error) error {
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Err != nil {
		return e.Err
	}
	return err
}

// Call runs t and tells the observers. It never panics.
func (s *Set) Call(ctx context.Context, t *Tool, args json.RawMessage) Result {
	start := time.Now()
	var facts Facts
	var project atomic.Pointer[inProject]
	res := t.call(context.WithValue(ctx, projectKey{}, &project), args, &facts)
	if res.Need != nil {
		return res // not an end; the repeated call is the one to observe
	}
	if p, ok := errors.AsType[*Panic](res.Err); ok {
		s.opts.Logger.Error("tool panicked", "tool", t.Name, "panic", fmt.Sprint(p.Value), "stack", string(p.Stack))
	} else if res.Code == fault.ServerError {
		s.opts.Logger.Error("tool failed", "tool", t.Name, "err", cause(res.Err))
	}
	if p := project.Load(); p != nil {
		facts.Project, facts.Root = p.id, p.root
	}
	o := Observation{Tool: t, Caller: caller.From(ctx), Facts: facts, Result: res, Start: start, Took: time.Since(start)}
	for _, obs := range s.opts.Observers {
		obs.ToolCalled(ctx, o)
	}
	return res
}

// Refused tells the observers of a call of a tool that is not on offer.
func (s *Set) Refused(ctx context.Context, name string) {
	for _, obs := range s.opts.Observers {
		if r, ok := obs.(RefusalObserver); ok {
			r.ToolRefused(ctx, name)
		}
	}
}
