package history_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/history"
)

func sum(content string) string {
	s := sha256.Sum256([]byte(content))
	return "sha256:" + hex.EncodeToString(s[:])
}

// by is a version of project p that agent made of path.
func by(agent, path, content string) history.Version {
	return history.Version{
		Project: "p", Path: path, Hash: sum(content), Op: "update", Keep: true,
		By: history.Author{Client: "test", Agent: agent, Session: "s", Tool: "async_update", Time: time.Now()},
	}
}

func external(path, content string) history.Version {
	v := by("", path, content)
	v.Op, v.By = "read", history.Author{External: true, Time: time.Now()}
	return v
}

func put(s *history.Store, agent, path, content string) string {
	s.Put(by(agent, path, content), []byte(content))
	return sum(content)
}

// noise is a content that nothing compresses.
func noise(seed, size int) string {
	b := make([]byte, size)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)}).Read(b)
	return string(b)
}

// run runs the worker until the test ends, and then verifies the counts.
func run(t *testing.T, s *history.Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		verify(t, s)
	})
	t.Cleanup(stop)
	return stop
}

func verify(t *testing.T, s *history.Store) {
	t.Helper()
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
}

func has(s *history.Store, path, content string) bool {
	got, v, ok := s.Get("p", path, sum(content))
	if ok && (string(got) != content || v.Hash != sum(content) || v.Path != path) {
		panic(fmt.Sprintf("Get(%s) = %q, %+v", path, got, v))
	}
	return ok
}

func TestContentIsThereAtOnceAndAfterPacking(t *testing.T) {
	s := history.New(history.Options{})
	texts := []string{"", "x", strings.Repeat("line\n", 1000), noise(1, 300_000)}
	for i, text := range texts {
		put(s, "alice", fmt.Sprint("/p/", i), text)
	}
	check := func() {
		t.Helper()
		for i, text := range texts {
			if !has(s, fmt.Sprint("/p/", i), text) {
				t.Errorf("content %d of %d bytes is not there", i, len(text))
			}
		}
	}
	check()
	waiting := s.Status().Waiting
	stop := run(t, s)
	for s.Status().Waiting > 0 {
		runtime.Gosched()
	}
	check()
	stop()
	check()
	if st := s.Status(); waiting == 0 || st.Bytes >= waiting || st.Versions != len(texts) {
		t.Errorf("%d bytes waited, then %+v; want them packed", waiting, st)
	}
}

func TestHashGivesNothingOutsideItsProjectAndPath(t *testing.T) {
	s := history.New(history.Options{})
	h := put(s, "alice", "/p/a", "secret plan")
	for _, q := range [][2]string{{"p", "/p/b"}, {"q", "/p/a"}, {"", "/p/a"}, {"p", ""}} {
		if got, v, ok := s.Get(q[0], q[1], h); ok || got != nil || v.Hash != "" {
			t.Errorf("Get(%q) = %q, %+v, %v; want nothing", q, got, v, ok)
		}
	}
}

func TestWhatMustNotBeKeptIsKnownByHashAlone(t *testing.T) {
	s := history.New(history.Options{MaxContent: 10})
	secret := by("alice", "/p/.env", "key=1")
	secret.Keep = false
	s.Put(secret, []byte("key=1"))
	put(s, "alice", "/p/copy", "key=1")
	put(s, "bob", "/p/big", "more than ten bytes")
	for path, content := range map[string]string{"/p/.env": "key=1", "/p/big": "more than ten bytes"} {
		got, v, ok := s.Get("p", path, sum(content))
		if ok || got != nil || v.Keep || v.By.Agent == "" {
			t.Errorf("Get(%s) = %q, %+v, %v; want no content", path, got, v, ok)
		}
		if h, ok := s.Tracked("p", path); h != sum(content) || !ok {
			t.Errorf("Tracked(%s) = %q, %v", path, h, ok)
		}
	}
	if author, ok := s.ChangedBy("p", "/p/.env", sum("key=1")); author.Agent != "alice" || !ok {
		t.Errorf("ChangedBy = %+v, %v; want alice", author, ok)
	}
	// When it may be kept after all, it is, and its author stays.
	s.Put(external("/p/.env", "key=1"), []byte("key=1"))
	if _, v, ok := s.Get("p", "/p/.env", sum("key=1")); !ok || v.By.Agent != "alice" {
		t.Errorf("Get = %+v, %v; want alice's content", v, ok)
	}
	verify(t, s)
}

func TestAuthorIsWhoMadeTheContentNotWhoReadIt(t *testing.T) {
	s := history.New(history.Options{})
	h := put(s, "alice", "/p/a", "one")
	s.Put(external("/p/a", "one"), []byte("one"))
	put(s, "bob", "/p/a", "one")
	if got, ok := s.ChangedBy("p", "/p/a", h); got.Agent != "alice" || got.Tool != "async_update" || !ok {
		t.Errorf("ChangedBy = %+v, %v; want alice", got, ok)
	}
	put(s, "bob", "/p/a", "two")
	s.Put(external("/p/a", "one"), []byte("one")) // somebody put the old text back
	if got, ok := s.ChangedBy("p", "/p/a", h); !got.External || !ok {
		t.Errorf("ChangedBy = %+v, %v; want external", got, ok)
	}
	if got, ok := s.ChangedBy("p", "/p/a", sum("never seen")); !got.External || ok {
		t.Errorf("ChangedBy of an unknown hash = %+v, %v; want external, false", got, ok)
	}
	all, err := s.Versions(t.Context(), "p", "/p/a")
	if len(all) != 3 || all[0].By.External != true || all[1].By.Agent != "bob" || all[2].By.Agent != "alice" || err != nil {
		t.Errorf("Versions = %+v, %v", all, err)
	}
}

func TestDeletedContentStaysAndSoDoesWhoDeletedIt(t *testing.T) {
	s := history.New(history.Options{})
	h := put(s, "alice", "/p/a", "one")
	del := by("bob", "/p/a", "one")
	del.Op = history.OpDelete
	s.Put(del, []byte("one"))
	s.Put(del, []byte("one"))
	if !has(s, "/p/a", "one") {
		t.Error("the content went with the file")
	}
	if _, ok := s.Tracked("p", "/p/a"); ok {
		t.Error("a deleted file is tracked")
	}
	put(s, "carol", "/p/a", "one")
	var who []string
	all, _ := s.Versions(t.Context(), "p", "/p/a")
	for _, v := range all {
		who = append(who, v.Op+" by "+v.By.Agent)
	}
	if want := []string{"update by carol", "delete by bob", "update by alice"}; !slices.Equal(who, want) {
		t.Errorf("history is %q, want %q", who, want)
	}
	if got, _ := s.ChangedBy("p", "/p/a", h); got.Agent != "carol" {
		t.Errorf("ChangedBy = %+v, want carol", got)
	}
	verify(t, s)
}

// One step of time between any two of these; the content of each is its name.
func TestContentsGoInOrder(t *testing.T) {
	const step = time.Hour
	type event struct {
		hand bool
		path string
		name string
	}
	made := func(path, name string) event { return event{path: path, name: name} }
	hand := func(path, name string) event { return event{hand: true, path: path, name: name} }
	tests := []struct {
		name   string
		events []event
		wait   time.Duration
		want   []string // in the order in which they go
	}{
		{
			name:   "never handed out: oldest first, the newest of a file after older ones",
			events: []event{made("a", "a1"), made("b", "b1"), made("a", "a2"), made("b", "b2"), made("a", "a3")},
			want:   []string{"a1", "b1", "a2", "b2", "a3"},
		},
		{
			name:   "what was handed out goes after what was not, the newest too",
			events: []event{made("a", "a1"), hand("a", "a1"), made("a", "a2"), made("b", "b1"), made("b", "b2")},
			want:   []string{"b1", "a2", "b2", "a1"},
		},
		{
			name:   "among what was handed out the longest unused goes first, a newest after older ones",
			events: []event{made("a", "a1"), made("a", "a2"), made("a", "a3"), made("b", "b1"), hand("b", "b1"), hand("a", "a2"), hand("a", "a1"), hand("a", "a3")},
			want:   []string{"a2", "a1", "b1", "a3"},
		},
		{
			name:   "a day later it is as if it had not been",
			events: []event{made("a", "a1"), hand("a", "a1"), made("a", "a2"), made("b", "b1"), made("b", "b2")},
			wait:   25 * time.Hour,
			want:   []string{"a1", "b1", "a2", "b2"},
		},
		{
			name:   "handed out again counts",
			events: []event{made("a", "a1"), made("a", "a2"), made("a", "a3"), hand("a", "a3"), hand("a", "a1"), hand("a", "a2"), hand("a", "a1")},
			want:   []string{"a2", "a1", "a3"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := history.New(history.Options{})
				for _, e := range tt.events {
					if e.hand {
						s.HandedOut("p", e.path, sum(e.name))
					} else {
						put(s, "", e.path, e.name)
					}
					time.Sleep(step)
				}
				time.Sleep(tt.wait)
				var got []string
				for range tt.want {
					before := left(s, tt.want)
					s.Squeeze()
					after := left(s, tt.want)
					got = append(got, slices.DeleteFunc(before, func(n string) bool { return slices.Contains(after, n) })...)
					verify(t, s)
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("went %q, want %q", got, tt.want)
				}
			})
		})
	}
}

func left(s *history.Store, names []string) (got []string) {
	for _, n := range names {
		if has(s, n[:1], n) {
			got = append(got, n)
		}
	}
	return got
}

// In a full store that holds nothing but what was handed out, what is new is not
// the first to go: its hash is about to be handed out too.
func TestNewContentStaysThoughAllOthersAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = history.VersionCost + history.ContentCost
		s := history.New(history.Options{MemoryBytes: 5*each + each/2})
		for i := range 20 {
			name := fmt.Sprint("a", i)
			put(s, "", "a", name)
			if !has(s, "a", name) {
				t.Fatalf("content %d was evicted at once", i)
			}
			s.HandedOut("p", "a", sum(name))
			time.Sleep(time.Second)
		}
		if st := s.Status(); st.Versions != 5 {
			t.Errorf("%d versions are left, want 5", st.Versions)
		}
	})
}

func TestMemoryStaysWithinItsBound(t *testing.T) {
	const bound = 1 << 20
	s := history.New(history.Options{MemoryBytes: bound})
	run(t, s)
	rng := rand.New(rand.NewPCG(1, 2))
	var last []string
	for i := range 400 {
		text := noise(i, 1+rng.IntN(60_000))
		put(s, "", fmt.Sprint("/p/", i%20), text)
		s.HandedOut("p", fmt.Sprint("/p/", i%20), sum(text))
		if last = append(last, text); len(last) > 5 {
			last = last[1:]
		}
		if st := s.Status(); st.Bytes > bound || st.Waiting > history.MaxRaw+60_000 {
			t.Fatalf("after %d contents: %+v", i, st)
		}
	}
	for i, text := range last {
		if !has(s, fmt.Sprint("/p/", (400-len(last)+i)%20), text) {
			t.Errorf("one of the last contents is gone")
		}
	}
	if st := s.Status(); st.Versions < 20 {
		t.Errorf("only %d versions are left: %+v", st.Versions, st)
	}
}

func TestCallersPackWhenTheWorkerIsBehind(t *testing.T) {
	s := history.New(history.Options{MemoryBytes: 64 << 20}) // and no worker at all
	text := make([]string, 20)
	for i := range text {
		text[i] = noise(i, 1<<20)
		put(s, "", fmt.Sprint("/p/", i), text[i])
	}
	if st := s.Status(); st.Waiting > history.MaxRaw {
		t.Errorf("%d bytes wait, want at most %d", st.Waiting, history.MaxRaw)
	}
	for i := range text {
		if !has(s, fmt.Sprint("/p/", i), text[i]) {
			t.Errorf("content %d is gone", i)
		}
	}
	verify(t, s)
}

func TestNoMemoryKeepsNothing(t *testing.T) {
	s := history.New(history.Options{MemoryBytes: -1})
	put(s, "alice", "/p/a", "one")
	if has(s, "/p/a", "one") || s.Status().Versions != 0 {
		t.Error("something was kept")
	}
	if h, ok := s.Tracked("p", "/p/a"); h != sum("one") || !ok {
		t.Error("the registry needs no room")
	}
	verify(t, s)
}

func TestRenameCarriesHistoryAlong(t *testing.T) {
	s := history.New(history.Options{})
	put(s, "alice", "/p/a", "one")
	put(s, "alice", "/p/b", "there before")
	put(s, "alice", "/p/a", "two")
	s.Rename("p", "/p/a", "/p/b")
	s.Rename("p", "/p/b", "/p/b")
	s.Rename("p", "/p/none", "/p/other")
	for _, content := range []string{"one", "two", "there before"} {
		if !has(s, "/p/b", content) {
			t.Errorf("%q did not come along", content)
		}
		if has(s, "/p/a", content) {
			t.Errorf("%q is still under the old name", content)
		}
	}
	if h, _ := s.Tracked("p", "/p/b"); h != sum("two") {
		t.Error("the registry has another hash than that of the renamed file")
	}
	if _, ok := s.Tracked("p", "/p/a"); ok || s.Count("p") != 1 {
		t.Errorf("the old name is tracked; %d files", s.Count("p"))
	}
	all, _ := s.Versions(t.Context(), "p", "/p/b")
	if len(all) != 3 || all[0].Former != "/p/a" || all[1].Former != "" || all[2].Former != "/p/a" {
		t.Errorf("Versions = %+v", all)
	}
	if found, _ := s.List(t.Context(), history.Filter{Path: "/p/a"}); len(found) != 2 {
		t.Errorf("by the former name: %+v", found)
	}
	verify(t, s)
}

func TestRenameTreeCarriesEverythingBelow(t *testing.T) {
	s := history.New(history.Options{})
	for _, path := range []string{"/p/d/a", "/p/d/x/b", "/p/dd", "/p/d"} {
		put(s, "alice", path, path)
	}
	s.RenameTree("p", "/p/d", "/q")
	for path, content := range map[string]string{"/q/a": "/p/d/a", "/q/x/b": "/p/d/x/b", "/p/dd": "/p/dd", "/p/d": "/p/d"} {
		if !has(s, path, content) {
			t.Errorf("%s is not there", path)
		}
	}
	if got, want := s.Paths("p"), []string{"/p/d", "/p/dd", "/q/a", "/q/x/b"}; !slices.Equal(got, want) || s.Count("") != 4 {
		t.Errorf("tracked %q, want %q", got, want)
	}
	verify(t, s)
}

func TestRegistryIsBoundedAndForgetsTheOldest(t *testing.T) {
	s := history.New(history.Options{})
	const extra = 2000
	for i := range history.MaxTracked + extra {
		s.Track("p", fmt.Sprint("/p/", i), "h")
		if i >= extra { // the first ones stay in use
			s.Track("p", fmt.Sprint("/p/", i%50), "h")
		}
	}
	if n := s.Count("p"); n != history.MaxTracked {
		t.Errorf("%d files, want %d", n, history.MaxTracked)
	}
	for i := range 50 {
		if _, ok := s.Tracked("p", fmt.Sprint("/p/", i)); !ok {
			t.Errorf("file %d was forgotten though it is in use", i)
		}
	}
	s.Untrack("p", "/p/0")
	s.Untrack("p", "/p/none")
	if _, ok := s.Tracked("p", "/p/0"); ok || s.Count("p") != history.MaxTracked-1 || s.Count("q") != 0 {
		t.Error("Untrack changed nothing")
	}
	verify(t, s)
}

func TestPeopleListShowAndPurge(t *testing.T) {
	s := history.New(history.Options{})
	put(s, "alice", "/p/a", "one")
	put(s, "bob", "/p/a", "two")
	put(s, "bob", "/p/d/b", "three")
	secret := by("bob", "/p/.env", "key")
	secret.Keep = false
	s.Put(secret, nil)
	lookUp(t, s)
}

// lookUp checks a store with four versions: one and two of a, three of d/b, and
// one of .env that is not kept.
func lookUp(t *testing.T, s *history.Store) {
	t.Helper()
	ctx := t.Context()
	all, err := s.List(ctx, history.Filter{})
	if len(all) != 4 || err != nil {
		t.Fatalf("List = %+v, %v", all, err)
	}
	ids := make(map[int64]bool)
	for i, want := range []string{"", "three", "two", "one"} {
		content, v, err := s.Show(ctx, all[i].ID)
		if string(content) != want || v.Hash != all[i].Hash || v.ID != all[i].ID || v.Keep != (want != "") || err != nil {
			t.Errorf("Show(%d) = %q, %+v, %v; want %q", all[i].ID, content, v, err, want)
		}
		ids[v.ID] = true
	}
	if len(ids) != 4 || ids[0] {
		t.Errorf("ids are %v", ids)
	}
	for _, id := range []int64{0, -1, 1 << 40} {
		if _, _, err := s.Show(ctx, id); err == nil {
			t.Errorf("Show(%d) found something", id)
		}
	}
	if some, _ := s.List(ctx, history.Filter{Path: "/p", Limit: 2}); len(some) != 2 || some[1].Path != "/p/d/b" {
		t.Errorf("List with a limit = %+v", some)
	}
	if n, err := s.Purge(ctx, history.Filter{Hash: sum("one")[7:20]}); n != 1 || err != nil {
		t.Errorf("Purge = %d, %v; want 1", n, err)
	}
	if has(s, "/p/a", "one") || !has(s, "/p/a", "two") {
		t.Error("Purge took the wrong version")
	}
	if n, err := s.Purge(ctx, history.Filter{}); n != 3 || err != nil {
		t.Errorf("Purge of all = %d, %v; want 3", n, err)
	}
	if all, _ := s.List(ctx, history.Filter{}); len(all) != 0 || has(s, "/p/a", "two") {
		t.Errorf("after Purge: %+v", all)
	}
	if s.Count("p") != 3 {
		t.Errorf("the registry has %d files, want 3", s.Count("p"))
	}
	verify(t, s)
}

func TestRevalidateBringsTheRegistryUpToDate(t *testing.T) {
	s := history.New(history.Options{})
	for _, path := range []string{"/p/same", "/p/changed", "/p/gone", "/p/busy"} {
		s.Track("p", path, "h1")
	}
	r, err := s.Revalidate(t.Context(), func(project, path string) (string, error) {
		switch path {
		case "/p/changed":
			return "h2", nil
		case "/p/gone":
			return "", context.DeadlineExceeded
		case "/p/busy":
			s.Track("p", path, "h3") // a call comes in while the file is read
			return "h2", nil
		}
		return "h1", nil
	})
	if want := (history.Recovery{Checked: 4, Modified: 2, Missing: 1}); r != want || err != nil {
		t.Errorf("Revalidate = %+v, %v; want %+v", r, err, want)
	}
	for path, want := range map[string]string{"/p/same": "h1", "/p/changed": "h2", "/p/gone": "", "/p/busy": "h3"} {
		if got, _ := s.Tracked("p", path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Revalidate(ctx, nil); err == nil {
		t.Error("Revalidate went on after the end of its context")
	}
	verify(t, s)
}

func TestManyCallersAtOnce(t *testing.T) {
	s := history.New(history.Options{MemoryBytes: 256 << 10})
	run(t, s)
	hammer(t, s, 8, 300)
}

// hammer lets callers use their own and each other's files at once. What a caller
// has just put must be there.
func hammer(t *testing.T, s *history.Store, callers, rounds int) {
	t.Helper()
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), 7))
			own := fmt.Sprint("/p/own", c)
			for i := range rounds {
				text := noise(c*rounds+i, 1+rng.IntN(5000))
				put(s, fmt.Sprint(c), own, text)
				s.HandedOut("p", own, sum(text))
				if got, _, ok := s.Get("p", own, sum(text)); !ok || string(got) != text {
					t.Errorf("caller %d: content %d is gone", c, i)
				}
				if author, ok := s.ChangedBy("p", own, sum(text)); !ok || author.Agent != fmt.Sprint(c) {
					t.Errorf("caller %d: ChangedBy = %+v, %v", c, author, ok)
				}
				shared := fmt.Sprint("/p/shared", rng.IntN(4))
				switch rng.IntN(12) {
				case 0:
					s.Rename("p", shared, fmt.Sprint("/p/shared", rng.IntN(4)))
				case 1:
					s.RenameTree("p", "/p/tree", "/p/other")
				case 2:
					if _, err := s.Purge(context.Background(), history.Filter{Path: shared}); err != nil {
						t.Errorf("Purge: %v", err)
					}
				case 3:
					if _, err := s.Versions(context.Background(), "p", shared); err != nil {
						t.Errorf("Versions: %v", err)
					}
				case 4:
					s.Untrack("p", shared)
				case 5:
					s.AddPending(history.Pending{ID: own, TTL: time.Minute, QueuedAt: time.Now()})
				case 6:
					s.RemovePending(own)
				case 7:
					s.Status()
				default:
					put(s, fmt.Sprint(c), shared, noise(rng.IntN(20), 2000))
					put(s, fmt.Sprint(c), "/p/tree/x", noise(rng.IntN(20), 2000))
				}
			}
		})
	}
	wg.Wait()
	verify(t, s)
}
