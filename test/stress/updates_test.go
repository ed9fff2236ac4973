package stress

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const shared = "shared.txt"

// anchor is the line below which an agent that patches adds its lines.
func anchor(who int) string { return fmt.Sprintf("agent %02d\n", who) }

// ownLine is a line that only this edit adds.
func ownLine(seed, who, k int) string {
	return fmt.Sprintf("s%d a%02d e%03d\n", seed, who, k)
}

func beginning() string {
	var b strings.Builder
	for who := range agents {
		b.WriteString(anchor(who))
	}
	return b.String()
}

// acknowledged is an edit that an agent was told is made.
type acknowledged struct {
	line  string
	hash  string
	asked time.Time
}

// editor is an agent that reads, changes and writes one file again and again.
type editor struct {
	agent
	who, seed int
	rng       *rand.Rand
	progress  *progress
	acked     []acknowledged
	text      string // what the agent knows
	hash      string // its hash; "": it has to read
	outside   bool   // somebody outside saves too, and may take lines away
}

// progress counts what all editors of a file did.
type progress struct {
	acked, retries atomic.Int64
}

func newEditor(a agent, seed, who int, p *progress) *editor {
	return &editor{agent: a, who: who, seed: seed, rng: randomness(seed, who), progress: p}
}

func (e *editor) read(ctx context.Context) error {
	a, err := e.call(ctx, "async_read", map[string]any{"path": shared})
	if err != nil {
		return err
	}
	if a.Status != "ok" || a.Hash != hashOf(a.Content) {
		return fmt.Errorf("read answered %s", a)
	}
	e.text, e.hash = a.Content, a.Hash
	return nil
}

// edit adds a line, however often others come in between.
func (e *editor) edit(ctx context.Context, k int) error {
	line := ownLine(e.seed, e.who, k)
	asked := time.Now()
	for tries := 0; ; tries++ {
		if e.hash == "" || tries == 0 && e.rng.IntN(8) == 0 {
			if err := e.read(ctx); err != nil {
				return err
			}
		}
		next, sent := e.insert(line), time.Now()
		a, err := e.call(ctx, "async_update", e.update(line, next))
		if err != nil {
			return err
		}
		switch {
		case a.Status == "ok":
			if !e.patches() && a.Hash != hashOf(next) {
				return fmt.Errorf("update of %q answered a hash that is not that of the new text: %s", line, a)
			}
			e.text, e.hash = next, a.Hash
			e.acked = append(e.acked, acknowledged{line, a.Hash, asked})
			e.progress.acked.Add(1)
			return nil
		case a.Status == "contention":
			e.progress.retries.Add(1)
			if err := e.adjust(a); err != nil {
				return err
			}
			// Who is late thinks for a while, so that others get through; else 16
			// agents spend their time on being late.
			pause := time.Duration(e.rng.Float64() * agents * float64(time.Since(sent)))
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		case e.outside && (a.Code == "INVALID_PATCH" || a.Code == "WRITE_ERROR" && strings.Contains(a.Message, "keeps changing")):
			e.hash = "" // half a save was read, or they never rest; nothing was done
		default:
			return fmt.Errorf("update of %q answered %s", line, a)
		}
	}
}

// patches says how this agent edits: by patches, without knowing the rest of the
// file, or by whole content.
func (e *editor) patches() bool { return e.who%4 != 0 }

// insert returns the known text with a line added, for an agent that knows it.
func (e *editor) insert(line string) string {
	if e.patches() {
		return ""
	}
	lines := slices.Collect(strings.Lines(e.text))
	return strings.Join(slices.Insert(lines, e.rng.IntN(len(lines)+1), line), "")
}

func (e *editor) update(line, next string) map[string]any {
	args := map[string]any{"path": shared, "expected_hash": e.hash, "timeout": patience.Seconds()}
	if e.patches() {
		args["patches"] = []any{map[string]any{"old_string": anchor(e.who), "new_string": anchor(e.who) + line}}
	} else {
		args["content"] = next
	}
	return args
}

// adjust learns from a contention what others made of the file: from the diff,
// which has to lead to the current version exactly, or by reading again.
func (e *editor) adjust(a answer) error {
	if !a.Known || a.Diff == nil {
		e.hash = ""
		return nil
	}
	if e.patches() && !a.Applicable && !e.outside {
		return fmt.Errorf("a patch at a line of its own does not fit any more: %s", a)
	}
	if e.patches() {
		e.hash = a.CurrentHash
		return nil
	}
	text := a.Diff.apply(e.text)
	if hashOf(text) != a.CurrentHash && e.outside {
		e.hash = "" // half a save may end without the end of a line
		return nil
	}
	if hashOf(text) != a.CurrentHash {
		return fmt.Errorf("the diff does not lead to the current version\nbase %q\ngives %q\nanswer %s", e.text, text, a)
	}
	e.text, e.hash = text, a.CurrentHash
	return nil
}

// apply makes the new text out of the old one, whose last line ends as the others
// do.
func (c *change) apply(text string) string {
	old := slices.Collect(strings.Lines(text))
	var out []string
	for _, ch := range c.Changes {
		same := min(max(ch.NewStart-1-len(out), 0), len(old))
		out, old = append(out, old[:same]...), old[same:]
		if ch.Type != "added" {
			old = old[min(ch.End-ch.Start+1, len(old)):]
		}
		if ch.Type != "removed" {
			out = slices.AppendSeq(out, strings.Lines(ch.New+"\n"))
		}
	}
	return strings.Join(append(out, old...), "")
}

// forSeeds runs a test over every transport for every seed, each on a server of its
// own; in the usual run for these seeds only.
func forSeeds(t *testing.T, usual []int, run func(t *testing.T, s *server, p *project, seed int)) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			for seed := 1; seed <= seeds(); seed++ {
				if !long && !slices.Contains(usual, seed) {
					continue
				}
				t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
					p := newProject(t)
					p.put(t, shared, beginning())
					s := p.start(t, transport, agents, false)
					defer s.stop(t)
					run(t, s, p, seed)
				})
			}
		})
	}
}

// wantOnce checks that text is the beginning and every line once, in any order.
func wantOnce(t *testing.T, text string, lines []string) {
	t.Helper()
	count := make(map[string]int)
	for line := range strings.Lines(text) {
		count[line]++
	}
	for line := range strings.Lines(beginning()) {
		lines = append(lines, line)
	}
	for _, line := range lines {
		if count[line] != 1 {
			t.Errorf("%q is there %d times, want once", line, count[line])
		}
		delete(count, line)
	}
	for line := range count {
		t.Errorf("%q is there, and nobody wrote it", line)
	}
}

func TestNoUpdateIsLostWhenManyAgentsEditOneFile(t *testing.T) {
	t.Parallel()
	forSeeds(t, []int{1, 2, 3, 4, 5}, func(t *testing.T, s *server, p *project, seed int) {
		var all progress
		began := time.Now()
		err := s.each(func(who int, a agent) error {
			e := newEditor(a, seed, who, &all)
			for k := range edits() {
				if err := e.edit(t.Context(), k); err != nil {
					return fmt.Errorf("agent %d: %w", who, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for who := range agents {
			for k := range edits() {
				lines = append(lines, ownLine(seed, who, k))
			}
		}
		wantOnce(t, p.get(t, shared), lines)
		t.Logf("%d edits, %d contentions, %v", len(lines), all.retries.Load(), time.Since(began).Round(time.Millisecond))
	})
}

func TestPatchesWithMergeNeedNoRetry(t *testing.T) {
	t.Parallel()
	forSeeds(t, []int{1, 2}, func(t *testing.T, s *server, p *project, seed int) {
		var merged atomic.Int64
		err := s.each(func(who int, a agent) error {
			e := newEditor(a, seed, who, nil)
			if err := e.read(t.Context()); err != nil {
				return err
			}
			hash := e.hash
			for k := range edits() {
				line := ownLine(seed, who, k)
				a, err := a.call(t.Context(), "async_update", map[string]any{
					"path": shared, "expected_hash": hash, "on_contention": "merge", "timeout": patience.Seconds(),
					"patches": []any{map[string]any{"old_string": anchor(who), "new_string": anchor(who) + line}},
				})
				if err != nil {
					return err
				}
				if a.Status != "ok" {
					return fmt.Errorf("agent %d, edit %d: %s", who, k, a)
				}
				if a.Merged {
					merged.Add(1)
				}
				if e.rng.IntN(2) == 0 { // a version a while ago is as good as the last one
					hash = a.Hash
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for who := range agents {
			for k := range edits() {
				lines = append(lines, ownLine(seed, who, k))
			}
		}
		wantOnce(t, p.get(t, shared), lines)
		t.Logf("%d edits, %d of them merged, none sent twice", len(lines), merged.Load())
	})
}
