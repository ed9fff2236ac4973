package tool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
)

// Library is a group of resources and prompts that are offered together. Like a
// Set it is immutable.
type Library struct {
	resources []*Resource
	prompts   []*Prompt
	byURI     map[string]*Resource // those with one address
	byName    map[string]*Prompt   // by every spelling
	opts      SetOptions
}

// NewLibrary returns a library in the given order. Two that answer to one name or
// address are an error. Of two templates that fit an address the first has it.
func NewLibrary(resources []*Resource, prompts []*Prompt, opts SetOptions) (*Library, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Library{
		resources: resources, prompts: prompts, opts: opts,
		byURI: make(map[string]*Resource), byName: make(map[string]*Prompt),
	}
	names, addresses := make(map[string]bool), make(map[string]bool)
	for _, r := range resources {
		if names[r.Name] || addresses[r.Address()] {
			return nil, fmt.Errorf("two resources are named %s or stand at %s", r.Name, r.Address())
		}
		names[r.Name], addresses[r.Address()] = true, true
		if r.fits == nil {
			l.byURI[r.URI] = r
		}
	}
	for _, p := range prompts {
		for _, name := range append([]string{p.Name}, p.Other...) {
			if l.byName[name] != nil {
				return nil, fmt.Errorf("prompts %s and %s both answer to %s", l.byName[name].Name, p.Name, name)
			}
			l.byName[name] = p
		}
	}
	return l, nil
}

// Resources returns the resources in listing order.
func (l *Library) Resources() []*Resource { return slices.Clone(l.resources) }

// Prompts returns the prompts in listing order.
func (l *Library) Prompts() []*Prompt { return slices.Clone(l.prompts) }

// Select returns what belongs to one of the toolsets; nil: those of defaults,
// "all" for everything.
func (l *Library) Select(toolsets, defaults []string) (*Library, error) {
	if toolsets == nil {
		toolsets = defaults
	}
	on := func(toolset string) bool {
		return slices.Contains(toolsets, toolset) || slices.Contains(toolsets, "all")
	}
	var resources []*Resource
	for _, r := range l.resources {
		if on(r.Toolset) {
			resources = append(resources, r)
		}
	}
	var prompts []*Prompt
	for _, p := range l.prompts {
		if on(p.Toolset) {
			prompts = append(prompts, p)
		}
	}
	return NewLibrary(resources, prompts, l.opts)
}

// At returns the resource that an address is of, and what the address says; nil if
// there is none.
func (l *Library) At(uri string) (*Resource, Ref) {
	if r := l.byURI[uri]; r != nil {
		return r, Ref{URI: uri}
	}
	for _, r := range l.resources {
		if r.fits == nil {
			continue
		}
		if ref, ok := r.match(uri); ok {
			return r, ref
		}
	}
	return nil, Ref{}
}

// Declared returns the resource with this URI or template, or nil.
func (l *Library) Declared(address string) *Resource {
	i := slices.IndexFunc(l.resources, func(r *Resource) bool { return r.Address() == address })
	if i < 0 {
		return nil
	}
	return l.resources[i]
}

// Prompt returns the prompt that answers to name in any spelling, or nil.
func (l *Library) Prompt(name string) *Prompt { return l.byName[name] }

// Read reads a resource and tells the observers. It never panics. The error is a
// *fault.Error, or a *caller.NeedInput: then the read must be made again with
// the answer.
func (l *Library) Read(ctx context.Context, r *Resource, ref Ref) ([]Content, error) {
	return observe(ctx, l, r.seen, func(ctx context.Context, f *Facts) ([]Content, error) {
		contents, err := r.Read(ctx, ref)
		if r.Tell != nil {
			r.Tell(f, ref, contents)
		}
		return contents, err
	})
}

// Render makes the messages of a prompt and tells the observers. Panics and errors
// are as with Read.
func (l *Library) Render(ctx context.Context, p *Prompt, args map[string]string) ([]Message, error) {
	return observe(ctx, l, p.seen, func(ctx context.Context, _ *Facts) ([]Message, error) {
		if err := p.check(args); err != nil {
			return nil, err
		}
		return p.Render(ctx, args)
	})
}

// observe runs do as a call that observers see.
func observe[T any](ctx context.Context, l *Library, seen *Tool, do func(context.Context, *Facts) (T, error)) (T, error) {
	start := time.Now()
	facts := Facts{Outcome: OK}
	var project atomic.Pointer[inProject]
	out, err := contain(func() (T, error) { return do(context.WithValue(ctx, projectKey{}, &project), &facts) })
	if need, ok := errors.AsType[*caller.NeedInput](err); ok {
		return out, need
	}
	res := Result{Status: OK}
	if err != nil {
		e := fault.From(err)
		Failure(e).Tell(&facts)
		res = Result{IsError: true, Status: Error, Code: e.Code, Err: err}
		if p, ok := errors.AsType[*Panic](err); ok {
			l.opts.Logger.Error("resource or prompt panicked", "name", seen.Name, "panic", fmt.Sprint(p.Value), "stack", string(p.Stack))
		} else if e.Code == fault.ServerError {
			l.opts.Logger.Error("resource or prompt failed", "name", seen.Name, "err", cause(err))
		}
		err = e
	}
	if p := project.Load(); p != nil {
		facts.Project, facts.Root = p.id, p.root
	}
	o := Observation{Tool: seen, Caller: caller.From(ctx), Facts: facts, Result: res, Start: start, Took: time.Since(start)}
	for _, obs := range l.opts.Observers {
		obs.ToolCalled(ctx, o)
	}
	return out, err
}

// contain turns a panic into an error.
func contain[T any](do func() (T, error)) (out T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &fault.Error{
				Code:    fault.ServerError,
				Message: "the server hit an internal error; its log has the details",
				Err:     &Panic{Value: p, Stack: debug.Stack()},
			}
		}
	}()
	return do()
}
