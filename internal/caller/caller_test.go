package caller_test

import (
	"context"
	"errors"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
)

func TestAnonymousCallerCannotBeAsked(t *testing.T) {
	ctx := t.Context()
	caller.Progress(ctx, 1, 2, "half") // must not panic
	if _, err := caller.Roots(ctx); !errors.Is(err, caller.ErrNoRoots) {
		t.Errorf("Roots = %v, want ErrNoRoots", err)
	}
	if _, err := caller.Elicit(ctx, caller.Question{}); !errors.Is(err, caller.ErrCannotAsk) {
		t.Errorf("Elicit = %v, want ErrCannotAsk", err)
	}
	if got := caller.From(ctx).String(); got != "unknown" {
		t.Errorf("String = %q", got)
	}
}

func TestCallerTravelsInContext(t *testing.T) {
	var told string
	c := &caller.Caller{Client: "claude", Version: "2", Agent: "reviewer", Ask: caller.Ask{
		Progress: func(_ context.Context, _, _ float64, m string) { told = m },
		Roots:    func(context.Context) ([]string, error) { return []string{"/a"}, nil },
		Elicit: func(_ context.Context, q caller.Question) (caller.Answer, error) {
			return caller.Answer{}, &caller.NeedInput{Question: q}
		},
	}}
	ctx := caller.With(t.Context(), c)
	caller.Progress(ctx, 1, 0, "first")
	roots, _ := caller.Roots(ctx)
	_, err := caller.Elicit(ctx, caller.Question{Message: "sure?"})
	need, ok := errors.AsType[*caller.NeedInput](err)
	if told != "first" || len(roots) != 1 || !ok || need.Error() != "input needed: sure?" {
		t.Errorf("told %q, roots %v, err %v", told, roots, err)
	}
	if got := caller.From(ctx).String(); got != "claude/2 (reviewer)" {
		t.Errorf("String = %q", got)
	}
}
