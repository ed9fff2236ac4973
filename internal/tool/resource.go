package tool

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/yosida95/uritemplate/v3"

	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
)

// ResourceSpec declares something that clients read by its address. It has a URI
// or a Template, and Read; the other functions may be nil.
type ResourceSpec struct {
	Name     string // [a-z0-9_]+, as listed
	URI      string // the one address; or
	Template string // a template of addresses, as RFC 6570 writes them, one variable in each {}
	Title    string // for people
	Doc      string // what a model reads: what comes back, what it is good for
	MIME     string // type of what is read; "": each content tells its own
	Toolset  string // the group it is switched on and off with
	Beside   string // a tool that gives the same; who may not call it may not read here; "": none
	Codes    []fault.Code
	Examples []ResourceExample

	// Read returns what is at the address. A code whose HTTP status is 404
	// becomes the protocol's "not found".
	Read func(ctx context.Context, ref Ref) ([]Content, error)
	// Tell says what a read was about, in facts that may be kept; of a read that
	// failed there are no contents.
	Tell func(f *Facts, ref Ref, contents []Content)
	// List returns addresses of the template that the caller may like to see.
	List func(ctx context.Context) ([]Listed, error)
	// Complete returns values for a variable of the template, best first.
	Complete func(ctx context.Context, c Completion) ([]string, error)
	// Watch begins to watch what is at the address, which the caller must be
	// allowed to read.
	Watch func(ctx context.Context, ref Ref) (Watch, error)
}

// ResourceExample is a read that documentation shows and a test runs.
type ResourceExample struct {
	Title string
	URI   string
	Code  fault.Code // expected; "": something is read
}

// Ref is the address a client names.
type Ref struct {
	URI  string            // as the client writes it
	Vars map[string]string // of the template, decoded
}

// Content is what is read at an address, or a part of it.
type Content struct {
	URI  string // "": the address that was read
	MIME string // "": that of the resource
	Text string
	Blob []byte         // not nil: the content, in place of Text
	Meta map[string]any // for who knows it; names are prefixed with ours
}

// Listed is an address in a listing.
type Listed struct {
	URI, Name, Title, Doc, MIME string
	Size                        int64 // in bytes; 0: not told
}

// Completion is the question how a value could go on.
type Completion struct {
	Name  string            // of the variable or argument
	Value string            // what there is of it
	Known map[string]string // the others, as far as they are settled
}

// Watch is one client's interest in a resource. Its functions are not called at
// the same time.
type Watch struct {
	// Touched reports whether what happened changed the resource.
	Touched func(event.Event) bool
	// MayRead reports whether the caller of ctx may read the resource now. A
	// change is told to nobody else.
	MayRead func(ctx context.Context) bool
	// Close ends the watch; nil: nothing needs to be done.
	Close func()
}

// Resource is a declared resource.
type Resource struct {
	ResourceSpec
	vars []string       // of the template, in its order
	fits *regexp.Regexp // the addresses of the template, a group for each variable; nil: it has one address
	seen *Tool          // what observers see of a read
}

// NewResource declares a resource. It panics when the declaration is wrong, since
// that is a mistake in this program.
func NewResource(spec ResourceSpec) *Resource {
	switch {
	case !validName(spec.Name):
		panic(fmt.Sprintf("resource name %q is not made of 1 to 64 of a-z, 0-9 and _", spec.Name))
	case (spec.URI == "") == (spec.Template == "") || spec.Read == nil:
		panic(fmt.Sprintf("resource %s needs a URI or a template, and a way to read it", spec.Name))
	}
	r := &Resource{ResourceSpec: spec}
	r.seen = observed("resource_"+spec.Name, spec.Title, spec.Toolset)
	if spec.Template != "" {
		t := uritemplate.MustNew(spec.Template)
		// The template's own matcher takes milliseconds for a long path.
		r.vars, r.fits = t.Varnames(), t.Regexp()
		if r.fits.NumSubexp() != len(r.vars) {
			panic(fmt.Sprintf("resource %s: one variable in each {} of %s", spec.Name, spec.Template))
		}
	}
	return r
}

// observed stands for a resource or prompt in an Observation, whose readers know
// tools.
func observed(name, title, toolset string) *Tool {
	return &Tool{Spec: Spec{Name: name, Title: title, Toolset: toolset, Effect: ReadOnly | Idempotent}}
}

// Address is what tells the resource from others: its URI or its template.
func (r *Resource) Address() string {
	if r.fits != nil {
		return r.Template
	}
	return r.URI
}

// Variables lists the variables of the template.
func (r *Resource) Variables() []string { return slices.Clone(r.vars) }

// Declares reports whether code is one that a read may answer.
func (r *Resource) Declares(code fault.Code) bool {
	return slices.Contains(r.Codes, code) || slices.Contains(CommonCodes, code)
}

// longestURI is how long an address may be. Taking it apart needs memory.
const longestURI = 16 << 10

// match takes an address apart, if it is one of r.
func (r *Resource) match(uri string) (Ref, bool) {
	if r.fits == nil {
		return Ref{URI: uri}, uri == r.URI
	}
	if prefix, _, _ := strings.Cut(r.Template, "{"); !strings.HasPrefix(uri, prefix) || len(uri) > longestURI {
		return Ref{}, false
	}
	values := r.fits.FindStringSubmatch(escapeURI(uri))
	if values == nil {
		return Ref{}, false
	}
	vars := make(map[string]string, len(r.vars))
	for i, name := range r.vars {
		vars[name], _ = url.PathUnescape(values[i+1]) // escapeURI made it right
	}
	return Ref{URI: uri, Vars: vars}, true
}

// escapeURI escapes what an address may not hold, as people write it all the
// same: spaces, letters beyond ASCII, a percent sign that stands for itself.
func escapeURI(uri string) string {
	var b strings.Builder
	for i := range len(uri) {
		c := uri[i]
		switch {
		case c == '%' && i+2 < len(uri) && isHex(uri[i+1]) && isHex(uri[i+2]),
			c != '%' && c > ' ' && c < 0x7f && !strings.ContainsRune("\"<>\\^`{|}", rune(c)):
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}
