// Package access judges paths and content by the rules of a project: may this be
// done here ([Rules]), and may this text be shown or written ([Content])?
//
// It is values in, values out. Rules and Content are immutable once made and safe
// to share; a reload makes new ones. That a path is inside a base directory, and
// which file it really names, is settled before: here a path is relative to its
// base, resolved, clean and separated by slashes, with "." for the base itself.
// Asking in the right places, and acting on the answer, is left to the engines.
package access

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/pattern"
	"github.com/async-crud-mcp/async-crud-mcp/internal/schema"
)

// Op is what is done to a path. An access rule names operations by these words.
type Op string

// The operations: one for each tool that takes a path, and search.
const (
	Read   Op = "read"
	Write  Op = "write"  // create a file
	Update Op = "update" // change an existing one
	Append Op = "append"
	Delete Op = "delete"
	Rename Op = "rename" // either end; see Rules.Move
	Copy   Op = "copy"   // either end; see Rules.Copy
	Mkdir  Op = "mkdir"
	List   Op = "list"
	Status Op = "status"
	Search Op = "search" // shows content, so it needs Read as well
)

var ops = []Op{Read, Write, Update, Append, Delete, Rename, Copy, Mkdir, List, Status, Search}

// Rule allows or denies operations on what a glob covers: the paths it matches
// and, if they are directories, everything in them. See [pattern.Glob].
type Rule struct {
	Path       string
	Operations []string // empty, or with "*" among them: all
	Action     string   // "allow" or "deny"
	Priority   int
}

// Options say what is allowed where. The zero value allows everything.
type Options struct {
	Rules []Rule
	// Protected are globs of paths that are out of reach of every operation,
	// whatever the rules say.
	Protected []string
	// Secret are globs of files whose content is never kept.
	Secret []string
	// Fold is for file systems that ignore case.
	Fold bool
}

// Rules decide about paths.
type Rules struct {
	rules     []rule // in the order in which they decide
	protected []*pattern.Glob
	secret    []*pattern.Glob
}

type rule struct {
	glob     *pattern.Glob
	ops      []Op // nil: all
	deny     bool
	priority int
}

func (r *rule) about(op Op) bool { return r.ops == nil || slices.Contains(r.ops, op) }

// Decision is an answer. The zero value denies.
type Decision struct {
	Allowed bool
	Rule    string // glob of the rule or protected path that denies, or ""
	Reason  string // why it is denied, for the client
}

// New compiles the rules. The error names every rule that does not hold.
func New(o Options) (*Rules, error) {
	r := &Rules{}
	var errs []error
	for i, in := range o.Rules {
		out, err := newRule(in, o.Fold)
		if err != nil {
			errs = append(errs, fmt.Errorf("access rule %d: %w", i+1, err))
			continue
		}
		r.rules = append(r.rules, out)
	}
	// The highest priority decides, and among equals a rule that denies.
	slices.SortStableFunc(r.rules, func(a, b rule) int {
		if c := cmp.Compare(b.priority, a.priority); c != 0 || a.deny == b.deny {
			return c
		}
		if a.deny {
			return -1
		}
		return 1
	})
	var err error
	if r.protected, err = globs(o.Protected, o.Fold); err != nil {
		errs = append(errs, fmt.Errorf("protected path: %w", err))
	}
	if r.secret, err = globs(o.Secret, o.Fold); err != nil {
		errs = append(errs, fmt.Errorf("secret file: %w", err))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return r, nil
}

func newRule(in Rule, fold bool) (rule, error) {
	out := rule{priority: in.Priority, deny: in.Action == "deny"}
	if !out.deny && in.Action != "allow" {
		return out, fmt.Errorf("%q is not an action; it is allow or deny", in.Action)
	}
	for _, name := range in.Operations {
		if name == "*" {
			out.ops = nil
			break
		}
		op := Op(strings.ToLower(name))
		if !slices.Contains(ops, op) {
			return out, unknownOp(name)
		}
		out.ops = append(out.ops, op)
	}
	var err error
	out.glob, err = pattern.CompileGlob(in.Path, fold)
	return out, err
}

func unknownOp(name string) error {
	names := make([]string, len(ops))
	for i, op := range ops {
		names[i] = string(op)
	}
	if near := schema.Nearest(strings.TrimPrefix(name, "async_"), names); near != "" {
		return fmt.Errorf("%q is not an operation; did you mean %s?", name, near)
	}
	return fmt.Errorf("%q is not an operation; they are %s, and * for all", name, strings.Join(names, ", "))
}

func globs(exprs []string, fold bool) ([]*pattern.Glob, error) {
	var all []*pattern.Glob
	var errs []error
	for _, expr := range exprs {
		g, err := pattern.CompileGlob(expr, fold)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, g)
	}
	return all, errors.Join(errs...)
}

// Check decides whether op may be done to rel. Of the rules that are about both,
// the one with the highest priority decides; without one it is allowed. Protected
// paths come before every rule.
func (r *Rules) Check(op Op, rel string) Decision {
	if d, ok := unfit(rel); ok {
		return d
	}
	for _, g := range r.protected {
		if g.Covers(rel) {
			return Decision{Rule: g.String(), Reason: fmt.Sprintf("%s is protected by %s: no tool may touch it", rel, g)}
		}
	}
	if len(r.rules) == 0 {
		return Decision{Allowed: true}
	}
	if d := r.judge(op, rel); !d.Allowed || op != Search {
		return d
	}
	return r.judge(Read, rel)
}

func (r *Rules) judge(op Op, rel string) Decision {
	for i := range r.rules {
		in := &r.rules[i]
		if !in.about(op) || !in.glob.Covers(rel) {
			continue
		}
		if !in.deny {
			break
		}
		return Decision{Rule: in.glob.String(), Reason: fmt.Sprintf("the access rule for %s denies %s here", in.glob, op)}
	}
	return Decision{Allowed: true}
}

// Move decides whether from may be renamed to to, where overwrite says that there
// is something at to. A rename is a read, a write and a delete in one, so whoever
// may not do these may not do it: it would be a way around their rules.
//
// For a directory this is about its name alone; see [Rules.Below].
func (r *Rules) Move(from, to string, overwrite bool) Decision {
	if d := r.checkAll(from, Rename, Read, Delete); !d.Allowed {
		return d
	}
	return r.into(Rename, to, overwrite)
}

// Copy decides whether from may be copied to to, as [Rules.Move] does.
func (r *Rules) Copy(from, to string, overwrite bool) Decision {
	if d := r.checkAll(from, Copy, Read); !d.Allowed {
		return d
	}
	return r.into(Copy, to, overwrite)
}

func (r *Rules) into(op Op, to string, overwrite bool) Decision {
	if overwrite {
		return r.checkAll(to, op, Write, Update)
	}
	return r.checkAll(to, op, Write)
}

func (r *Rules) checkAll(rel string, ops ...Op) Decision {
	for _, op := range ops {
		if d := r.Check(op, rel); !d.Allowed {
			return d
		}
	}
	return Decision{Allowed: true}
}

// Below reports whether something inside the directory dir may be denied op (for
// Search, op or Read). If not, what holds for dir holds for all that is in it, and
// an operation on the whole need not look. If so, each entry must be checked under
// its own path; when a directory is renamed, under the path it has and the one it
// gets, since there may be a protected place below either.
func (r *Rules) Below(op Op, dir string) bool {
	if _, bad := unfit(dir); bad {
		return true
	}
	for _, g := range r.protected {
		if g.Below(dir) {
			return true
		}
	}
	for i := range r.rules {
		in := &r.rules[i]
		if in.deny && (in.about(op) || op == Search && in.about(Read)) && in.glob.Below(dir) {
			return true
		}
	}
	return false
}

// Secret reports whether the content of rel must not be kept.
func (r *Rules) Secret(rel string) bool {
	if _, bad := unfit(rel); bad {
		return true
	}
	return slices.ContainsFunc(r.secret, func(g *pattern.Glob) bool { return g.Covers(rel) })
}

// unfit denies what cannot be a resolved path inside a base. Such a path is a
// mistake further up, which must not become a way around the rules.
func unfit(rel string) (Decision, bool) {
	if rel != "" && rel[0] != '/' && rel != ".." && !strings.HasPrefix(rel, "../") &&
		strings.IndexByte(rel, 0) < 0 && path.Clean(rel) == rel {
		return Decision{}, false
	}
	return Decision{Reason: fmt.Sprintf("%q is not a path inside the project", rel)}, true
}
