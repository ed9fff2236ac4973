package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// itemChanged tells that the item whose id is the event's Data changed.
const itemChanged event.Kind = "item_changed"

// shelves are the resources and prompts of the tests, and what became of them.
type shelves struct {
	bus      event.Bus
	hidden   atomic.Bool  // nobody may read any item
	watching atomic.Int64 // watches that are open
	asked    atomic.Int64 // how often MayRead was
}

func (s *shelves) change(id string) { s.bus.Publish(event.Event{Kind: itemChanged, Data: id}) }

func (s *shelves) read(ctx context.Context, ref tool.Ref) ([]tool.Content, error) {
	switch id := ref.Vars["id"]; id {
	case "empty":
		return []tool.Content{{}}, nil
	case "blob":
		return []tool.Content{{MIME: "image/png", Blob: []byte{0, 1, 0xff}}, {URI: "item://part", Text: "a part"}}, nil
	case "missing":
		return nil, fault.New(fault.JobNotFound, "no such item").With("id", 7)
	case "denied":
		return nil, fault.New(fault.AccessDenied, "not for you").At("/secret").With("rule", "r1")
	case "busy":
		return nil, fault.New(fault.LockTimeout, "somebody has it")
	case "plain":
		return nil, errors.New("password hunter2")
	case "panic":
		panic("broken on purpose")
	default:
		c := caller.From(ctx)
		return []tool.Content{{Text: fmt.Sprintf("<%s> for %s over %s", id, c.Client, c.Transport), Meta: map[string]any{"test/n": int64(9007199254740993)}}}, nil
	}
}

func (s *shelves) watch(_ context.Context, ref tool.Ref) (tool.Watch, error) {
	id := ref.Vars["id"]
	if id == "denied" {
		return tool.Watch{}, fault.New(fault.AccessDenied, "not for you")
	}
	s.watching.Add(1)
	return tool.Watch{
		Touched: func(e event.Event) bool {
			if id == "panic" && e.Kind == itemChanged {
				panic("broken on purpose")
			}
			return e.Kind == itemChanged && e.Data == id
		},
		MayRead: func(ctx context.Context) bool {
			s.asked.Add(1)
			return !s.hidden.Load() && caller.From(ctx).Client != ""
		},
		Close: func() { s.watching.Add(-1) },
	}, nil
}

// library has an item for every id, a board, the roots and a prompt; more adds
// prompts.
func (s *shelves) library(t testing.TB, more ...string) *tool.Library {
	t.Helper()
	resources := []*tool.Resource{
		tool.NewResource(tool.ResourceSpec{
			Name: "item", Template: "item://{id}", Title: "An item", Doc: "Any <item>.", MIME: "text/plain", Toolset: "talk",
			Read: s.read, Watch: s.watch,
			List: func(context.Context) ([]tool.Listed, error) {
				return []tool.Listed{{URI: "item://one", Name: "one", Size: 3}, {URI: "item://two", Name: "two"}}, nil
			},
			Complete: func(_ context.Context, c tool.Completion) ([]string, error) {
				if c.Value == "fail" {
					return nil, errors.New("not now")
				}
				var ids []string
				for i := range 120 {
					ids = append(ids, fmt.Sprintf("%s%d%s", c.Value, i, c.Known["kind"]))
				}
				return ids, nil
			},
		}),
		tool.NewResource(tool.ResourceSpec{
			Name: "board", URI: "board://", Title: "The board", Doc: "A board.", Toolset: "slow", Read: s.read,
		}),
		tool.NewResource(tool.ResourceSpec{
			Name: "roots", URI: "roots://", Toolset: "ask",
			Read: func(ctx context.Context, _ tool.Ref) ([]tool.Content, error) {
				paths, err := caller.Roots(ctx)
				if err != nil {
					return nil, err
				}
				return []tool.Content{{Text: strings.Join(paths, ",")}}, nil
			},
		}),
	}
	var prompts []*tool.Prompt
	for _, name := range append([]string{"greet"}, more...) {
		prompts = append(prompts, tool.NewPrompt(tool.PromptSpec{
			Name: name, Title: "Greet", Doc: "Greet <somebody>.", Toolset: "talk", Other: []string{"prompt." + name},
			Arguments: []tool.Argument{{Name: "who", Doc: "whom to greet", Required: true, Complete: func(context.Context, tool.Completion) ([]string, error) {
				return []string{"Ann", "Bob"}, nil
			}}, {Name: "how"}},
			Render: func(_ context.Context, args map[string]string) ([]tool.Message, error) {
				if args["who"] == "nobody" {
					return nil, fault.New(fault.AliasNotFound, "nobody is there")
				}
				return []tool.Message{{Text: "Hello <" + args["who"] + ">"}, {Assistant: true, Text: "Hi"}}, nil
			},
		}))
	}
	lib, err := tool.NewLibrary(resources, prompts, tool.SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

func newLibraryRig(t testing.TB) (*rig, *shelves) {
	t.Helper()
	s := &shelves{}
	return newRig(t, func(o *Options) { o.Library, o.Bus = s.library(t), &s.bus }), s
}

func eachLibraryEra(t *testing.T, f func(t *testing.T, r *rig, s *shelves, e era)) {
	for _, e := range eras {
		t.Run(e.String(), func(t *testing.T) {
			r, s := newLibraryRig(t)
			f(t, r, s, e)
		})
	}
}

func TestResourcesAreListedAndRead(t *testing.T) {
	eachLibraryEra(t, func(t *testing.T, r *rig, _ *shelves, e era) {
		s := r.connect(t, e, nil)
		caps := s.InitializeResult().Capabilities
		if caps.Resources == nil || !caps.Resources.Subscribe || !caps.Resources.ListChanged || caps.Prompts == nil || !caps.Prompts.ListChanged || caps.Completions == nil {
			t.Errorf("capabilities = %+v", caps)
		}
		list, err := s.ListResources(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var listed []string
		for _, one := range list.Resources {
			listed = append(listed, fmt.Sprint(one.URI, " ", one.Name, " ", one.Size))
		}
		if got, want := strings.Join(listed, ", "), "item://one one 3, item://two two 0, board:// board 0, roots:// roots 0"; got != want {
			t.Errorf("resources = %s, want %s", got, want)
		}
		templates, err := s.ListResourceTemplates(t.Context(), nil)
		if err != nil || len(templates.ResourceTemplates) != 1 {
			t.Fatalf("templates = %+v, %v", templates, err)
		}
		if one := templates.ResourceTemplates[0]; one.URITemplate != "item://{id}" || one.Name != "item" || one.Title != "An item" || one.Description != "Any <item>." || one.MIMEType != "text/plain" {
			t.Errorf("template = %+v", one)
		}
		for _, tc := range []struct{ uri, want string }{
			{"item://a%20b", `[{item://a%20b text/plain <a b> for tester over ` + e.transport + ` []}]`},
			{"item://a b", `[{item://a b text/plain <a b> for tester over ` + e.transport + ` []}]`},
			{"item://empty", `[{item://empty text/plain  []}]`},
			{"item://blob", `[{item://blob image/png  [0 1 255]} {item://part text/plain a part []}]`},
			{"board://", `[{board://  <> for tester over ` + e.transport + ` []}]`},
		} {
			res, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: tc.uri})
			if err != nil {
				t.Errorf("read %s: %v", tc.uri, err)
				continue
			}
			type plain struct {
				URI, MIME, Text string
				Blob            []byte
			}
			var got []plain
			for _, c := range res.Contents {
				got = append(got, plain{c.URI, c.MIMEType, c.Text, c.Blob})
			}
			if fmt.Sprint(got) != tc.want {
				t.Errorf("read %s = %v, want %s", tc.uri, got, tc.want)
			}
			if e.version >= modernVersion && res.CacheScope != "private" {
				t.Errorf("read %s may be kept by %q", tc.uri, res.CacheScope)
			}
		}
	})
}

func TestAReadIsExactOnTheWire(t *testing.T) {
	r, _ := newLibraryRig(t)
	p := r.stdio(t, t.Context())
	p.initialize()
	for uri, want := range map[string]string{
		"item://empty": `{"contents":[{"uri":"item://empty","mimeType":"text/plain","text":""}]}`,
		"item://x":     `{"contents":[{"uri":"item://x","mimeType":"text/plain","text":"<x> for raw over stdio","_meta":{"test/n":9007199254740993}}]}`,
		"item://blob":  `{"contents":[{"uri":"item://blob","mimeType":"image/png","blob":"AAH/"},{"uri":"item://part","mimeType":"text/plain","text":"a part"}]}`,
	} {
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":%q}}`, uri))
		if got := string(p.next().Result); got != want {
			t.Errorf("read %s:\n got %s\nwant %s", uri, got, want)
		}
	}
	p.send(`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"item://empty",` + modernMeta + `}}`)
	want := `{"contents":[{"uri":"item://empty","mimeType":"text/plain","text":""}],"ttlMs":0,"cacheScope":"private","resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"rig","title":"The Rig","version":"1.2.3"}}}`
	if got := string(p.next().Result); got != want {
		t.Errorf("in the modern era:\n got %s\nwant %s", got, want)
	}
}

func TestFailedReadsAreErrorsOfTheProtocol(t *testing.T) {
	eachLibraryEra(t, func(t *testing.T, r *rig, _ *shelves, e era) {
		s := r.connect(t, e, nil)
		notFound := int64(-32002)
		if e.version >= modernVersion {
			notFound = -32602
		}
		for _, tc := range []struct {
			uri  string
			code int64
			text string // of the message
			data string // in the data
		}{
			{"item://missing", notFound, "JOB_NOT_FOUND: no such item", `"details":{"id":7,"next":`},
			{"item://denied", -32602, "ACCESS_DENIED: not for you", `"path":"/secret","details":{"next":`},
			{"item://busy", -32603, "LOCK_TIMEOUT: somebody has it", `"error_code":"LOCK_TIMEOUT"`},
			{"item://plain", -32603, "SERVER_ERROR: unexpected internal error; the server log has the cause", `"uri":"item://plain"`},
			{"item://panic", -32603, "SERVER_ERROR: the server hit an internal error; its log has the details", `"uri":"item://panic"`},
			{"other://x", notFound, "FILE_NOT_FOUND: nothing is at other://x", "resources/templates/list"},
			{anyResource.URI, notFound, "FILE_NOT_FOUND: nothing is at " + anyResource.URI, ""},
			{"item://" + strings.Repeat("x", 20000), notFound, "", ""},
		} {
			_, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: tc.uri})
			wire, ok := errors.AsType[*jsonrpc.Error](err)
			if !ok || wire.Code != tc.code || !strings.Contains(wire.Message, tc.text) || !strings.Contains(string(wire.Data), tc.data) {
				t.Errorf("read %.40s = %v %+v, want %d %q with %s", tc.uri, err, wire, tc.code, tc.text, tc.data)
			}
			if strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Errorf("read %s tells %v", tc.uri, err)
			}
		}
	})
}

func TestPromptsAreListedAndRendered(t *testing.T) {
	eachLibraryEra(t, func(t *testing.T, r *rig, _ *shelves, e era) {
		s := r.connect(t, e, nil)
		list, err := s.ListPrompts(t.Context(), nil)
		if err != nil || len(list.Prompts) != 1 {
			t.Fatalf("prompts = %+v, %v", list, err)
		}
		if got, _ := json.Marshal(list.Prompts[0]); string(got) != `{"arguments":[{"name":"who","description":"whom to greet","required":true},{"name":"how"}],"description":"Greet \u003csomebody\u003e.","name":"greet","title":"Greet"}` {
			t.Errorf("prompt = %s", got)
		}
		for _, name := range []string{"greet", "prompt.greet"} {
			res, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: name, Arguments: map[string]string{"who": "Ann"}})
			if err != nil {
				t.Fatalf("get %s: %v", name, err)
			}
			got, _ := json.Marshal(res.Messages)
			if res.Description != "Greet <somebody>." || string(got) != `[{"content":{"type":"text","text":"Hello \u003cAnn\u003e"},"role":"user"},{"content":{"type":"text","text":"Hi"},"role":"assistant"}]` {
				t.Errorf("get %s = %s %s", name, res.Description, got)
			}
		}
		for _, tc := range []struct {
			name string
			args map[string]string
			want string
		}{
			{"gret", nil, `unknown prompt "gret"; did you mean "greet"?`},
			{anyPrompt.Name, nil, `unknown prompt "any"`},
			{"greet", nil, "VALIDATION_ERROR: who is required"},
			{"greet", map[string]string{"who": "x", "hou": "y"}, `VALIDATION_ERROR: hou is not a known argument; did you mean "how"?`},
			{"greet", map[string]string{"who": "nobody"}, "ALIAS_NOT_FOUND: nobody is there"},
		} {
			_, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: tc.name, Arguments: tc.args})
			if wire, ok := errors.AsType[*jsonrpc.Error](err); !ok || wire.Code != jsonrpc.CodeInvalidParams || wire.Message != tc.want {
				t.Errorf("get %s %v = %v, want %s", tc.name, tc.args, err, tc.want)
			}
		}
	})
}

func TestValuesAreCompleted(t *testing.T) {
	eachLibraryEra(t, func(t *testing.T, r *rig, _ *shelves, e era) {
		s := r.connect(t, e, nil)
		ask := func(ref mcp.CompleteReference, name, value string) (*mcp.CompleteResult, error) {
			return s.Complete(t.Context(), &mcp.CompleteParams{
				Ref: &ref, Argument: mcp.CompleteParamsArgument{Name: name, Value: value},
				Context: &mcp.CompleteContext{Arguments: map[string]string{"kind": "k"}},
			})
		}
		item := mcp.CompleteReference{Type: "ref/resource", URI: "item://{id}"}
		greet := mcp.CompleteReference{Type: "ref/prompt", Name: "prompt.greet"}
		res, err := ask(item, "id", "x")
		if err != nil || len(res.Completion.Values) != 100 || res.Completion.Total != 120 || !res.Completion.HasMore || res.Completion.Values[3] != "x3k" {
			t.Errorf("id = %+v, %v", res, err)
		}
		res, err = ask(greet, "who", "")
		if err != nil || fmt.Sprint(res.Completion.Values) != "[Ann Bob]" || res.Completion.HasMore {
			t.Errorf("who = %+v, %v", res, err)
		}
		for _, none := range []struct {
			ref         mcp.CompleteReference
			name, value string
		}{{item, "id", "fail"}, {greet, "how", ""}} {
			res, err = ask(none.ref, none.name, none.value)
			if err != nil || res.Completion.Values == nil || len(res.Completion.Values) > 0 {
				t.Errorf("%s = %+v, %v; want none", none.name, res, err)
			}
		}
		for _, bad := range []struct {
			ref  mcp.CompleteReference
			name string
		}{
			{item, "other"},
			{greet, "other"},
			{mcp.CompleteReference{Type: "ref/resource", URI: "other://{id}"}, "id"},
			{mcp.CompleteReference{Type: "ref/prompt", Name: "other"}, "who"},
		} {
			_, err := ask(bad.ref, bad.name, "")
			if wire, ok := errors.AsType[*jsonrpc.Error](err); !ok || wire.Code != jsonrpc.CodeInvalidParams {
				t.Errorf("%+v %s = %v, want invalid params", bad.ref, bad.name, err)
			}
		}
	})
}

func TestARootIsAskedForDuringARead(t *testing.T) {
	eachLibraryEra(t, func(t *testing.T, r *rig, _ *shelves, e era) {
		c := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "0.1"}, nil)
		c.AddRoots(&mcp.Root{URI: "file:///home/me", Name: "me"})
		s := r.connectAs(t, e, c)
		for range 2 {
			res, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "roots://"})
			if err != nil || len(res.Contents) != 1 || res.Contents[0].Text != "/home/me" {
				t.Errorf("read = %+v, %v", res, err)
			}
		}
	})
}

func TestASessionHasTheResourcesOfItsToolsets(t *testing.T) {
	r, _ := newLibraryRig(t)
	p := r.stdio(t, caller.With(t.Context(), &caller.Caller{Toolsets: []string{"slow"}}))
	p.initialize()
	for _, tc := range []struct{ method, params, want string }{
		{"resources/list", `{}`, `"board://"`},
		{"resources/list", `{}`, `!item://`},
		{"resources/templates/list", `{}`, `"resourceTemplates":[]`},
		{"resources/read", `{"uri":"item://x"}`, `nothing is at item://x`},
		{"resources/subscribe", `{"uri":"item://x"}`, `nothing is at item://x`},
		{"prompts/list", `{}`, `"prompts":[]`},
		{"prompts/get", `{"name":"greet","arguments":{"who":"x"}}`, `unknown prompt`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":""}}`, `unknown prompt`},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"item://{id}"},"argument":{"name":"id","value":""}}`, `unknown resource`},
	} {
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, tc.method, tc.params))
		line := p.line()
		if without, no := strings.CutPrefix(tc.want, "!"); strings.Contains(line, without) == no {
			t.Errorf("%s %s = %s, want %s", tc.method, tc.params, line, tc.want)
		}
	}
}

func TestAResourceGoesWithTheToolItStandsBeside(t *testing.T) {
	s := &shelves{}
	lib, err := tool.NewLibrary([]*tool.Resource{tool.NewResource(tool.ResourceSpec{
		Name: "item", Template: "item://{id}", Toolset: "talk", Beside: "count", Read: s.read, Watch: s.watch,
	})}, nil, tool.SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(o *Options) { o.Library = lib })
	for _, tc := range []struct {
		tools []string // of the server
		limit caller.Caller
		has   bool
	}{
		{nil, caller.Caller{}, true},
		{nil, caller.Caller{Exclude: []string{"count_tool"}}, false},
		{nil, caller.Caller{Toolsets: []string{"talk"}}, false}, // count is in another
		{[]string{"echo"}, caller.Caller{}, false},
	} {
		r.SetTools(r.set(t, tc.tools...))
		p := r.stdio(t, caller.With(t.Context(), &tc.limit))
		p.initialize()
		p.send(`{"jsonrpc":"2.0","id":1,"method":"resources/templates/list"}`)
		if got := p.line(); strings.Contains(got, "item://{id}") != tc.has {
			t.Errorf("%+v: listed %s", tc, got)
		}
		for _, method := range []string{"read", "subscribe"} {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/%s","params":{"uri":"item://x"}}`, method))
			if m := p.next(); (m.Error == nil) != tc.has {
				t.Errorf("%+v: %s = %+v", tc, method, m)
			}
		}
	}
}

func TestASubscriberHearsNothingOfWhatIsNotOnOffer(t *testing.T) {
	r, s := newLibraryRig(t)
	u := r.subscriber(t, era{"stdio", "2025-06-18"})
	kept := tool.NewResource(tool.ResourceSpec{Name: "kept", Template: "kept://{id}", Toolset: "talk", Read: s.read, Watch: s.watch})
	offer := func(resources ...*tool.Resource) {
		t.Helper()
		lib, err := tool.NewLibrary(resources, nil, tool.SetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r.SetLibrary(lib)
	}
	offer(append(s.library(t).Resources(), kept)...)
	for _, uri := range []string{"item://gone", "kept://here"} {
		if err := u.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
			t.Fatal(err)
		}
	}
	offer(kept)
	s.change("gone")
	u.until(t, s, "here", "kept://here") // and nothing else came before it
	for range len(u.told) {
		<-u.told
	}
	offer(append(s.library(t).Resources(), kept)...)
	u.until(t, s, "gone", "item://gone")
}

func TestAChangedLibraryIsAnnounced(t *testing.T) {
	eachLibraryEra(t, func(t *testing.T, r *rig, s *shelves, e era) {
		resources, prompts := make(chan struct{}, 100), make(chan struct{}, 100)
		c := r.connect(t, e, &mcp.ClientOptions{
			ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { resources <- struct{}{} },
			PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { prompts <- struct{}{} },
		})
		// A listener of the modern era, or a GET, may still be on its way.
		until := func(changed <-chan struct{}, change func(i int)) {
			t.Helper()
			for i := range 1000 {
				change(i)
				select {
				case <-changed:
					return
				case <-time.After(50 * time.Millisecond):
				}
			}
			t.Fatal("no change was announced")
		}
		until(prompts, func(i int) {
			if i%2 == 0 {
				r.SetLibrary(s.library(t, "bid_farewell"))
			} else {
				r.SetLibrary(s.library(t))
			}
		})
		r.SetLibrary(s.library(t, "bid_farewell"))
		if _, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "bid_farewell", Arguments: map[string]string{"who": "x"}}); err != nil {
			t.Error(err)
		}
		if len(resources) > 0 {
			t.Error("resources were announced, and did not change")
		}
		until(resources, func(int) { r.ResourceListChanged() })
		empty, err := tool.NewLibrary(nil, nil, tool.SetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r.SetLibrary(empty)
		list, err := c.ListResources(t.Context(), nil)
		if err != nil || len(list.Resources) != 0 {
			t.Errorf("resources = %+v, %v; want none", list, err)
		}
		if _, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "item://x"}); err == nil {
			t.Error("a resource that was taken away can be read")
		}
	})
}

func TestTheSameLibraryIsNotAnnounced(t *testing.T) {
	r, s := newLibraryRig(t)
	p := r.stdio(t, t.Context())
	p.initialize()
	r.SetLibrary(s.library(t))
	r.SetLibrary(s.library(t))
	r.SetLibrary(s.library(t, "bid_farewell"))
	if m := p.next(); m.Method != "notifications/prompts/list_changed" {
		t.Errorf("first message = %+v", m)
	}
	p.wantAlive() // nothing else came before it
}

// updates is a client that notes which addresses it was told of.
type updates struct {
	*mcp.ClientSession
	told chan string
}

func (r *rig) subscriber(t testing.TB, e era) *updates {
	u := &updates{told: make(chan string, 10000)}
	u.ClientSession = r.connect(t, e, &mcp.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
		u.told <- req.Params.URI
	}})
	return u
}

// until changes an item again and again until the client is told of it: a stream
// may still be on its way.
func (u *updates) until(t testing.TB, s *shelves, id, uri string) {
	t.Helper()
	for range 1000 {
		s.change(id)
		select {
		case got := <-u.told:
			if got != uri {
				t.Fatalf("told of %s, want %s", got, uri)
			}
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatalf("never told of %s", uri)
}

// wantWatching waits until that many watches are open.
func (s *shelves) wantWatching(t testing.TB, want int64) {
	t.Helper()
	for range 2000 {
		if s.watching.Load() == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%d watches are open, want %d", s.watching.Load(), want)
}

func TestASubscriberIsToldOfItsResources(t *testing.T) {
	eachLibraryEra(t, func(t *testing.T, r *rig, s *shelves, e era) {
		u := r.subscriber(t, e)
		// As the client writes it, not as we would.
		for _, uri := range []string{"item://a%20b", "item://other"} {
			if err := u.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
				t.Fatal(err)
			}
		}
		s.wantWatching(t, 2)
		u.until(t, s, "a b", "item://a%20b")
		s.change("nothing of it")
		s.hidden.Store(true)
		s.change("other")
		for s.asked.Load() < 2 { // it was asked whether it may still read it
			time.Sleep(time.Millisecond)
		}
		s.hidden.Store(false)
		if err := u.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: "item://a%20b"}); err != nil {
			t.Fatal(err)
		}
		s.wantWatching(t, 1)
		s.change("a b")
		for range len(u.told) { // of what was told before the hiding
			if got := <-u.told; got != "item://a%20b" {
				t.Errorf("told of %s, which it may not read", got)
			}
		}
		u.until(t, s, "other", "item://other")
		if err := u.Close(); err != nil {
			t.Log(err)
		}
		s.wantWatching(t, 0)
	})
}

func TestSubscribingIsRefusedClearly(t *testing.T) {
	r, s := newLibraryRig(t)
	p := r.stdio(t, t.Context())
	p.initialize()
	listen := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["item://x",%q]},` + modernMeta + `}}`
	for uri, want := range map[string]string{
		"item://denied": "ACCESS_DENIED: not for you",
		"other://x":     "FILE_NOT_FOUND: nothing is at other://x",
		"board://":      "board:// never tells that it changed; it cannot be subscribed to",
	} {
		for _, request := range []string{`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":%q}}`, listen} {
			p.send(fmt.Sprintf(request, uri))
			if m := p.next(); m.Error == nil || m.Error.Message != want {
				t.Errorf("%s: %+v, want %s", uri, m, want)
			}
		}
	}
	s.wantWatching(t, 0)
}

func TestSubscriptionsHaveALimit(t *testing.T) {
	r, s := newLibraryRig(t)
	p := r.stdio(t, t.Context())
	p.initialize()
	for i := range maxSubscriptions + 1 {
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":"item://%d"}}`, i, i%maxSubscriptions))
		if m := p.next(); m.Error != nil { // the last is the first once more
			t.Fatalf("subscription %d: %+v", i, m.Error)
		}
	}
	p.send(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"item://more"}}`)
	if m := p.next(); m.Error == nil || !strings.Contains(m.Error.Message, "too many subscriptions") {
		t.Errorf("one too many: %+v", m)
	}
	if n := s.watching.Load(); n != maxSubscriptions {
		t.Errorf("%d watches are open, want %d", n, maxSubscriptions)
	}
}

func TestAWatchThatPanicsHarmsNobody(t *testing.T) {
	r, s := newLibraryRig(t)
	u := r.subscriber(t, era{"stdio", "2025-06-18"})
	for _, uri := range []string{"item://panic", "item://good"} {
		if err := u.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
			t.Fatal(err)
		}
	}
	u.until(t, s, "good", "item://good")
}

func TestAListenerHearsNothingBeforeItIsAcknowledged(t *testing.T) {
	r, s := newLibraryRig(t)
	p := r.stdio(t, t.Context())
	stop := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				s.change("x")
			}
		}
	})
	defer changing.Wait()
	defer close(stop)
	p.send(`{"jsonrpc":"2.0","id":"L","method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["item://x"]},` + modernMeta + `}}`)
	if m := p.next(); m.Method != "notifications/subscriptions/acknowledged" {
		t.Fatalf("first came %+v", m)
	}
	m := p.next()
	if m.Method != "notifications/resources/updated" || string(m.Params) != `{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"},"uri":"item://x"}` {
		t.Errorf("then came %s %s", m.Method, m.Params)
	}
}

// TestASlowClientHoldsUpNobodyElse has a client whose connection takes no more
// after its first notice.
func TestASlowClientHoldsUpNobodyElse(t *testing.T) {
	for _, e := range []era{{"stdio", "2025-06-18"}, {"stdio", "2026-07-28"}, {"http", "2025-11-25"}, {"http", "2026-07-28"}, {"sse", "2025-06-18"}} {
		t.Run(e.String(), func(t *testing.T) {
			r, s := newLibraryRig(t)
			stuck, free := make(chan struct{}, 100), make(chan struct{})
			r.slow = func(b []byte) {
				if strings.Contains(string(b), "item://stuck") && strings.Contains(string(b), "resources/updated") {
					stuck <- struct{}{}
					<-free
				}
			}
			slow := r.subscriber(t, e)
			if err := slow.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "item://stuck"}); err != nil {
				t.Fatal(err)
			}
			for have := false; !have; {
				s.change("stuck")
				select {
				case <-stuck:
					have = true
				case <-time.After(50 * time.Millisecond): // its stream may still be on its way
				}
			}
			quick := r.subscriber(t, era{"sse", "2025-06-18"})
			if err := quick.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "item://good"}); err != nil {
				t.Fatal(err)
			}
			for range 10 * eventBuffer { // more than anybody's buffer holds
				s.change("stuck")
			}
			quick.until(t, s, "good", "item://good")
			close(free)
			slow.until(t, s, "stuck", "item://stuck")
		})
	}
}

// TestWhatHappensDuringANoticeBecomesOne has a client that takes its time: it
// hears of every address that changed, once, also when there was more than could
// be remembered.
func TestWhatHappensDuringANoticeBecomesOne(t *testing.T) {
	for _, changes := range []int{10, 10 * eventBuffer} {
		t.Run(fmt.Sprint(changes), func(t *testing.T) {
			r, s := newLibraryRig(t)
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			served := make(chan error, 1)
			go func() { served <- r.ServeStdio(context.Background(), inR, outW) }()
			dec := json.NewDecoder(outR)
			next := func() message {
				t.Helper()
				var m message
				if err := dec.Decode(&m); err != nil {
					t.Fatal(err)
				}
				return m
			}
			for i, line := range []string{
				initialize, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"item://a"}}`,
				`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"item://b"}}`,
			} {
				if _, err := io.WriteString(inW, line+"\n"); err != nil {
					t.Fatal(err)
				}
				if m := next(); m.Error != nil {
					t.Fatalf("request %d: %+v", i, m.Error)
				}
			}
			s.change("a")
			for s.asked.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			// The notice of a is on its way, and nobody reads.
			for range changes {
				s.change("a")
			}
			s.change("b")
			var told []string
			for len(told) == 0 || told[len(told)-1] != "item://b" {
				var p struct{ URI string }
				if err := json.Unmarshal(next().Params, &p); err != nil {
					t.Fatal(err)
				}
				told = append(told, p.URI)
			}
			if len(told) > 4 {
				t.Errorf("%d notices of %d changes: %v", len(told), changes+2, told)
			}
			inW.Close()
			go func() { _, _ = io.Copy(io.Discard, outR) }()
			if err := <-served; err != nil {
				t.Error(err)
			}
			outW.Close()
			s.wantWatching(t, 0)
		})
	}
}
