package stress

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// The files of a history. Rename joins them, so that one state holds all.
var names = [...]string{"a.txt", "b.txt", "c.txt"}

// absent is the content of a file that is not there.
const absent = "\x00"

// state is what every file holds.
type state [len(names)]string

// op is one call of a history.
type op struct {
	kind      string // read, write, update, append, delete, rename
	file, to  int
	expected  string // "": whatever is there
	text      string
	overwrite bool
}

// outcome is what an agent was told.
type outcome struct {
	unknown bool // cancelled, or the server died: it happened or it did not
	answer
}

// modelFrom is a single copy of the files that does one call after the other.
func modelFrom(begin state) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return begin },
		Step: func(s, in, out any) (bool, any) { return s.(state).step(in.(op), out.(outcome)) },
		DescribeOperation: func(in, out any) string {
			i, o := in.(op), out.(outcome)
			return fmt.Sprintf("%s %s %.14s: %s%s %.14s", i.kind, names[i.file], i.expected, o.Status, o.Code, o.Hash)
		},
	}
}

// step says whether the single copy could have answered so, and what it holds
// then. A call whose outcome is unknown does what it can: if it did nothing, it
// counts as done after everything else.
func (s state) step(o op, got outcome) (bool, state) {
	now := s[o.file]
	next := s
	var want answer
	switch {
	case o.kind == "write" && now != absent:
		want.Code = "FILE_EXISTS"
	case o.kind == "write":
		next[o.file], want.Hash = o.text, hashOf(o.text)
	case o.kind == "rename" && !o.overwrite && s[o.to] != absent && got.Code == "FILE_EXISTS":
		want.Code = "FILE_EXISTS" // true even if there is nothing to move
	case now == absent:
		want.Code = "FILE_NOT_FOUND"
	case o.kind == "read":
		want.Hash, want.Content = hashOf(now), now
	case o.expected != "" && o.expected != hashOf(now):
		want.CurrentHash = hashOf(now)
	case o.kind == "update":
		next[o.file], want.Hash = o.text, hashOf(o.text)
	case o.kind == "append":
		next[o.file], want.Hash = now+o.text, hashOf(now+o.text)
	case o.kind == "delete":
		next[o.file], want.DeletedHash = absent, hashOf(now)
	case o.kind == "rename" && !o.overwrite && s[o.to] != absent:
		want.Code = "FILE_EXISTS"
	case o.kind == "rename":
		next[o.to], next[o.file], want.Hash = now, absent, hashOf(now)
	}
	if got.unknown {
		return true, next
	}
	same := got.Code == want.Code && got.Hash == want.Hash && got.DeletedHash == want.DeletedHash &&
		got.CurrentHash == want.CurrentHash && got.Content == want.Content
	return same, next
}

// history is what agents asked and were told, and when.
type history struct {
	start time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation // guarded by mu
}

func newHistory() *history { return &history{start: time.Now()} }

// forever is the time at which a call of unknown outcome returns.
const forever = math.MaxInt64

// do makes a call and writes it down. An error is that of a server that is gone.
func (h *history) do(ctx context.Context, who int, a agent, o op) (outcome, error) {
	tool, args := o.call()
	called := time.Since(h.start).Nanoseconds()
	got, err := a.call(ctx, tool, args)
	returned := time.Since(h.start).Nanoseconds()
	out := outcome{answer: got}
	if err != nil {
		out, returned = outcome{unknown: true}, forever
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: who, Input: o, Output: out, Call: called, Return: returned})
	if ctx.Err() != nil {
		err = nil // we left, not the server
	}
	return out, err
}

func (o op) call() (tool string, args map[string]any) {
	args = map[string]any{"path": names[o.file]}
	switch o.kind {
	case "write", "update", "append":
		args["content"] = o.text
	case "rename":
		args = map[string]any{"old_path": names[o.file], "new_path": names[o.to], "overwrite": o.overwrite}
	}
	if o.expected != "" {
		args["expected_hash"] = o.expected
	}
	if o.kind != "read" {
		args["timeout"] = patience.Seconds()
	}
	return "async_" + o.kind, args
}

// check judges the history, and draws one that cannot be (go test -artifacts).
func (h *history) check(t *testing.T, begin state) porcupine.CheckResult {
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(modelFrom(begin), h.ops, patience)
	if result == porcupine.Illegal {
		path := filepath.Join(t.ArtifactDir(), "history.html")
		if err := porcupine.VisualizePath(modelFrom(begin), info, path); err != nil {
			t.Error(err)
		}
	}
	return result
}

// worker makes random calls, on versions it has seen.
type worker struct {
	agent
	*history
	who   int
	rng   *rand.Rand
	known [len(names)]string // hashes
	made  int
}

// step makes one call; now and then it leaves before the answer comes.
func (w *worker) step(ctx context.Context) error {
	o := op{file: w.rng.IntN(len(names)), text: fmt.Sprintf("%d of %d\n", w.made, w.who)}
	w.made++
	known := w.known[o.file]
	switch n := w.rng.IntN(100); {
	case n < 25 || n < 60 && known == "":
		o.kind, o.text = "read", ""
	case n < 60:
		o.kind, o.expected = "update", known
	case n < 75:
		o.kind = "append"
	case n < 88:
		o.kind = "write"
	case n < 93:
		o.kind = "delete"
		if w.rng.IntN(2) == 0 {
			o.expected = known
		}
	default:
		o.kind, o.to, o.overwrite = "rename", (o.file+1+w.rng.IntN(len(names)-1))%len(names), w.rng.IntN(2) == 0
		if w.rng.IntN(2) == 0 {
			o.expected = known
		}
	}
	if w.rng.IntN(16) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(w.rng.IntN(8000))*time.Microsecond)
		defer cancel()
	}
	out, err := w.do(ctx, w.who, w.agent, o)
	switch {
	case out.unknown:
	case out.CurrentHash != "":
		w.known[o.file] = out.CurrentHash
	case o.kind == "rename" && out.Hash != "":
		w.known[o.to], w.known[o.file] = out.Hash, ""
	case out.Hash != "":
		w.known[o.file] = out.Hash
	}
	return err
}

// workers makes so many calls with every agent, or goes on until the server is
// gone if calls is 0.
func (h *history) workers(ctx context.Context, s *server, seed, calls int, wrap func(agent) agent) error {
	return s.each(func(who int, a agent) error {
		w := &worker{agent: wrap(a), history: h, who: who, rng: randomness(seed, who)}
		for calls == 0 || w.made < calls {
			if err := w.step(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// readAll ends a history with a read of every file.
func (h *history) readAll(ctx context.Context, a agent) error {
	for i := range names {
		if _, err := h.do(ctx, agents, a, op{kind: "read", file: i}); err != nil {
			return err
		}
	}
	return nil
}

func honest(a agent) agent { return a }

// record makes one history on a server of its own.
func record(t *testing.T, transport string, seed, calls int, wrap func(agent) agent) (*history, state) {
	t.Helper()
	p := newProject(t)
	begin := state{"beginning of a\n", "beginning of b\n", absent}
	p.put(t, names[0], begin[0])
	p.put(t, names[1], begin[1])
	s := p.start(t, transport, agents/2, seed == 1) // more would take the checker too long
	defer s.stop(t)
	h := newHistory()
	if err := h.workers(t.Context(), s, seed, calls, wrap); err != nil {
		t.Fatal(err)
	}
	if err := h.readAll(t.Context(), wrap(s.agents[0])); err != nil {
		t.Fatal(err)
	}
	return h, begin
}

const callsPerAgent = 50

func TestHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			for seed := 1; seed <= seeds(); seed++ {
				t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
					h, begin := record(t, transport, seed, callsPerAgent, honest)
					began := time.Now()
					if got := h.check(t, begin); got != porcupine.Ok {
						t.Errorf("the checker says %s, want %s", got, porcupine.Ok)
					}
					t.Logf("%d calls, %d of unknown outcome, judged in %v", len(h.ops), h.unknown(), time.Since(began).Round(time.Millisecond))
				})
			}
		})
	}
}

func (h *history) unknown() (n int) {
	for _, o := range h.ops {
		if o.Output.(outcome).unknown {
			n++
		}
	}
	return n
}

// blind is a planted bug: an update that does not look at the hash it was given.
type blind struct{ agent }

func (b blind) call(ctx context.Context, tool string, args map[string]any) (answer, error) {
	if tool != "async_update" {
		return b.agent.call(ctx, tool, args)
	}
	careless := maps.Clone(args)
	for {
		got, err := b.agent.call(ctx, tool, careless)
		if err != nil || got.Status != "contention" {
			return got, err
		}
		careless["expected_hash"] = got.CurrentHash
	}
}

// forgetful is a planted bug: reads answered from what was read before.
type forgetful struct {
	agent
	read map[any]answer
}

func (f forgetful) call(ctx context.Context, tool string, args map[string]any) (answer, error) {
	if tool != "async_read" {
		return f.agent.call(ctx, tool, args)
	}
	if old, ok := f.read[args["path"]]; ok {
		return old, nil
	}
	got, err := f.agent.call(ctx, tool, args)
	if err == nil {
		f.read[args["path"]] = got
	}
	return got, err
}

func TestCheckerFindsPlantedBugs(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(agent) agent{
		"update without a look at the hash": func(a agent) agent { return blind{a} },
		"reads from a cache":                func(a agent) agent { return forgetful{a, make(map[any]answer)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, begin := record(t, "stdio", 2, callsPerAgent, wrap)
			if got := h.check(t, begin); got != porcupine.Illegal {
				t.Errorf("the checker says %s, want %s", got, porcupine.Illegal)
			}
		})
	}
}
