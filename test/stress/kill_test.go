package stress

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// The two files of an atomic batch, always of the same generation.
var pair = [2]string{"left.txt", "right.txt"}

func generation(n int) string {
	return fmt.Sprintf("generation %d\n", n) + strings.Repeat("the rest of the file\n", 50)
}

// batcher changes both files of the pair at once, again and again.
type batcher struct {
	asked int // the newest generation that was sent
	acked int // the newest one that was acknowledged
}

// work goes on until the server is gone.
func (b *batcher) work(ctx context.Context, a agent) error {
	for {
		var files []any
		for _, name := range pair {
			files = append(files, map[string]any{
				"path": name, "expected_hash": hashOf(generation(b.asked)), "content": generation(b.asked + 1),
			})
		}
		b.asked++
		got, err := a.call(ctx, "async_batch_update", map[string]any{"files": files, "atomic": true})
		if err != nil {
			return nil
		}
		if !got.Applied {
			return fmt.Errorf("generation %d was not made: %s", b.asked, got)
		}
		b.acked = b.asked
	}
}

// settled checks that both files have the same generation, one that may be.
func (b *batcher) settled(p *project) error {
	var text [2]string
	for i, name := range pair {
		raw, err := os.ReadFile(p.path(name))
		if err != nil {
			return err
		}
		text[i] = string(raw)
	}
	for n := b.acked; n <= b.asked; n++ {
		if text[0] == generation(n) && text[1] == generation(n) {
			b.asked, b.acked = n, n
			return nil
		}
	}
	return fmt.Errorf("generation %d was acknowledged and %d asked for; the files begin with %.20q and %.20q", b.acked, b.asked, text[0], text[1])
}

func TestKillsLoseNothingAndLeaveNothing(t *testing.T) {
	t.Parallel()
	const lives = 10 // kills of one project
	for group := range max(kills()/lives, 1) {
		transport := transports[group%len(transports)]
		t.Run(fmt.Sprintf("%s/seed=%d", transport, group+1), func(t *testing.T) {
			if group < len(transports) {
				t.Parallel()
			}
			p := newProject(t)
			b := new(batcher)
			for _, name := range pair {
				p.put(t, name, generation(0))
			}
			calls, unknown := 0, 0
			begin := p.state(t)
			for life := range min(lives, kills()) {
				seed := group*lives + life + 1
				h := newHistory()
				p.liveAndDie(t, transport, seed, h, b)
				p.comeBack(t, transport, h, b)
				if got := h.check(t, begin); got != porcupine.Ok {
					t.Fatalf("life %d: the checker says %s, want %s", life, got, porcupine.Ok)
				}
				begin = p.state(t)
				calls, unknown = calls+len(h.ops), unknown+h.unknown()
			}
			t.Logf("%d calls, %d of unknown outcome, %d atomic batches", calls, unknown, b.acked)
		})
	}
}

// liveAndDie serves the workers and kills the server in the middle.
func (p *project) liveAndDie(t *testing.T, transport string, seed int, h *history, b *batcher) {
	t.Helper()
	s := p.start(t, transport, agents/2, false)
	rng := randomness(seed, agents)
	var wg sync.WaitGroup
	var work, batch error
	wg.Go(func() { work = h.workers(t.Context(), s, seed, 0, honest) })
	wg.Go(func() { batch = b.work(t.Context(), s.agents[0]) })
	time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond) // any moment will do
	s.kill()
	wg.Wait()
	if batch != nil {
		t.Fatal(batch)
	}
	if work == nil {
		t.Fatal("the workers ended before the server")
	}
}

// comeBack serves the project again and looks at what the kill left.
func (p *project) comeBack(t *testing.T, transport string, h *history, b *batcher) {
	t.Helper()
	s := p.start(t, transport, 1, false)
	defer s.stop(t)
	if err := h.readAll(t.Context(), s.agents[0]); err != nil {
		t.Fatal(err)
	}
	if err := b.settled(p); err != nil {
		t.Error(err)
	}
	p.waitClean(t)
}

// waitClean waits for the sweep that follows the first call of a project.
func (p *project) waitClean(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		left := p.litter(t)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left behind: %q", left)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// litter lists temp files and journals.
func (p *project) litter(t *testing.T) (left []string) {
	t.Helper()
	for _, dir := range []string{p.root, p.home} {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it was swept just now
			}
			if err == nil && !e.IsDir() && (strings.HasSuffix(path, ".acm-tmp") || filepath.Base(filepath.Dir(path)) == "journal") {
				left = append(left, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return left
}

// state reads the files of a history past the server.
func (p *project) state(t *testing.T) (s state) {
	t.Helper()
	for i, name := range names {
		raw, err := os.ReadFile(p.path(name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			s[i] = absent
		case err != nil:
			t.Fatal(err)
		default:
			s[i] = string(raw)
		}
	}
	return s
}
