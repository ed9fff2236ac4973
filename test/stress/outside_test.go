package stress

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// outsider is a program that knows nothing of the server: it reads the shared
// file, adds a line and saves.
type outsider struct {
	path    string
	inPlace bool
	rng     *rand.Rand
	saves   []save
	seen    int // lines that were away for a moment, while the server took a step back
	lost    []string
	err     error
}

// save is one save of an outsider.
type save struct {
	line, text string
	ended      time.Time
}

// perSave is how many edits of agents there are to one save of an outsider.
const perSave = 8

// work saves until ctx ends, in step with the agents.
func (o *outsider) work(ctx context.Context, all *progress) {
	for k := 0; ; k++ {
		for all.acked.Load() < int64(k*perSave) && ctx.Err() == nil {
			time.Sleep(time.Duration(o.rng.IntN(3000)) * time.Microsecond)
		}
		if ctx.Err() != nil {
			o.text() // the last save has to be there too
			return
		}
		lines := slices.Collect(strings.Lines(o.text()))
		s := save{line: fmt.Sprintf("outside %d\n", k)}
		s.text = strings.Join(slices.Insert(lines, o.rng.IntN(len(lines)+1), s.line), "")
		if o.err = o.save(s.text, k); o.err != nil {
			return
		}
		s.ended = time.Now()
		o.saves = append(o.saves, s)
	}
}

func (o *outsider) save(text string, k int) error {
	if o.inPlace {
		return os.WriteFile(o.path, []byte(text), 0o644)
	}
	temp := fmt.Sprintf("%s.%d~", o.path, k)
	if err := os.WriteFile(temp, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(temp, o.path)
}

// text reads the file. Every line saved so far has to be in it: nobody but the
// outsider takes lines away. The server may have its own draft there for the few
// microseconds until it sees that it was too late, so a second look is fair.
func (o *outsider) text() string {
	deadline := time.Now().Add(2 * time.Second)
	for looks := 0; ; looks++ {
		raw, err := os.ReadFile(o.path)
		if err != nil {
			o.err = err
			return ""
		}
		text := string(raw)
		missing := o.missing(text)
		switch {
		case len(missing) == 0:
			o.seen += min(looks, 1)
			return text
		case time.Now().After(deadline):
			o.lost = append(o.lost, missing...)
			return text
		}
		time.Sleep(time.Millisecond)
	}
}

func (o *outsider) missing(text string) (missing []string) {
	there := make(map[string]bool)
	for line := range strings.Lines(text) {
		there[line] = true
	}
	for _, s := range o.saves {
		if !there[s.line] && !slices.Contains(o.lost, s.line) {
			missing = append(missing, s.line)
		}
	}
	return missing
}

// tookAway reports whether a save replaced what an agent had been told is there.
func (o *outsider) tookAway(a acknowledged) bool {
	return slices.ContainsFunc(o.saves, func(s save) bool {
		return s.ended.After(a.asked) && !strings.Contains(s.text, a.line)
	})
}

func TestOutsideSavesByRenameAreNeverOverwrittenUnseen(t *testing.T) {
	t.Parallel()
	forSeeds(t, []int{1, 2, 3}, func(t *testing.T, s *server, p *project, seed int) {
		o := withOutsider(t, s, p, seed, false)
		if len(o.lost) > 0 {
			t.Errorf("%d of %d saves by rename were overwritten unseen: %q", len(o.lost), len(o.saves), o.lost)
		}
	})
}

func TestOutsideSavesInPlaceLoseNoAcknowledgedContent(t *testing.T) {
	t.Parallel()
	forSeeds(t, []int{4, 5}, func(t *testing.T, s *server, p *project, seed int) {
		o := withOutsider(t, s, p, seed, true)
		t.Logf("window: %d of %d saves in place were lost", len(o.lost), len(o.saves))
	})
}

// withOutsider lets the agents work beside an outsider and checks that whatever
// was acknowledged is in the file, or in history if an outside save replaced it.
func withOutsider(t *testing.T, s *server, p *project, seed int, inPlace bool) *outsider {
	t.Helper()
	o := &outsider{path: p.path(shared), inPlace: inPlace, rng: randomness(seed, agents)}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	var all progress
	go func() {
		defer close(done)
		o.work(ctx, &all)
	}()
	acked := make([][]acknowledged, agents)
	err := s.each(func(who int, a agent) error {
		e := newEditor(a, seed, who, &all)
		e.outside = true
		for k := range edits() {
			if err := e.edit(t.Context(), k); err != nil {
				return fmt.Errorf("agent %d: %w", who, err)
			}
		}
		acked[who] = e.acked
		return nil
	})
	stop()
	<-done
	if err != nil || o.err != nil {
		t.Fatal(err, o.err)
	}
	text := p.get(t, shared)
	replaced := 0
	for _, a := range slices.Concat(acked...) {
		switch n := strings.Count(text, a.line); {
		case n == 1:
			continue
		case n > 1:
			t.Errorf("%q is there %d times", a.line, n)
			continue
		}
		replaced++
		if !inPlace && !o.tookAway(a) {
			t.Errorf("%q was acknowledged, is gone, and no outside save explains it", a.line)
		}
		if err := inHistory(t.Context(), s.agents[0], a); err != nil {
			t.Errorf("%q was acknowledged, was replaced by an outside save, and is not in history: %v", a.line, err)
		}
	}
	t.Logf("%d edits, %d contentions, %d outside saves, %d edits replaced by them, %d times a draft was seen",
		agents*edits(), all.retries.Load(), len(o.saves), replaced, o.seen)
	return o
}

// inHistory asks what changed since the version that has the line. The patch fits
// nowhere, so that nothing is written whatever the answer.
func inHistory(ctx context.Context, a agent, want acknowledged) error {
	got, err := a.call(ctx, "async_update", map[string]any{
		"path": shared, "expected_hash": want.hash,
		"patches": []any{map[string]any{"old_string": "nobody ever wrote this", "new_string": ""}},
	})
	if err != nil {
		return err
	}
	if got.Status == "contention" && got.Known && got.Diff != nil {
		for _, ch := range got.Diff.Changes {
			if strings.Contains(ch.Old+"\n", want.line) {
				return nil
			}
		}
	}
	return fmt.Errorf("the answer was %s", got)
}
