package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newLog returns a log in a directory that does not exist yet.
func newLog(t *testing.T, change func(*Options)) *Log {
	t.Helper()
	o := Options{File: filepath.Join(t.TempDir(), "logs", "audit.jsonl"), MaxFiles: 10}
	if change != nil {
		change(&o)
	}
	return New(o)
}

// run runs the log until the returned function is called.
func run(t *testing.T, l *Log) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// flush writes what is pending.
func flush(t *testing.T, l *Log) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.Run(ctx); err != nil {
		t.Fatalf("Run: %v", err)
	}
}

func call(l *Log, name string, f tool.Facts) {
	l.ToolCalled(context.Background(), tool.Observation{
		Tool: &tool.Tool{Spec: tool.Spec{Name: name}}, Caller: &caller.Caller{Client: "c", Session: "s"},
		Facts: f, Start: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), Took: 1500 * time.Microsecond,
	})
}

func records(t *testing.T, path string) []Record {
	t.Helper()
	var all []Record
	if err := Read(t.Context(), path, Filter{}, func(r *Record, _ []byte) error {
		all = append(all, *r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) == 0 {
		return nil
	}
	if raw[len(raw)-1] != '\n' {
		t.Errorf("%s does not end with a line end", path)
	}
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
}

func TestACallIsOneLineThatSaysWhoDidWhatAndHowItEnded(t *testing.T) {
	l := newLog(t, nil)
	size := int64(12)
	l.ToolCalled(t.Context(), tool.Observation{
		Tool:   &tool.Tool{Spec: tool.Spec{Name: "async_write"}},
		Caller: &caller.Caller{Client: "host", Version: "1.2", Agent: "planner", Session: "s1", Thread: "t1", Transport: "stdio"},
		Facts:  tool.Facts{Outcome: "ok", Project: "p1", Root: "/r", Path: "/r/<a>&b", Hash: "sha256:00", Bytes: &size},
		Start:  time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600)), Took: 1500 * time.Microsecond,
	})
	call(l, "exec", tool.Facts{Outcome: "denied", Rule: "cat", Command: "TOKEN=hunter2 cat x", Jobs: []string{"job_1"}})
	l.ToolRefused(caller.With(t.Context(), &caller.Caller{Client: "host"}), "async_rename")
	flush(t, l)
	got := lines(t, l.File())
	want := []string{
		`{"time":"2026-01-02T02:04:05.000006Z","tool":"async_write","caller":{"client":"host","version":"1.2","agent":"planner","session":"s1","thread":"t1","transport":"stdio"},"duration_ms":1.5,"outcome":"ok","project":"p1","root":"/r","path":"/r/<a>&b","hash":"sha256:00","bytes":12}`,
		`{"time":"2026-01-02T03:04:05.000006Z","tool":"exec","caller":{"client":"c","session":"s"},"duration_ms":1.5,"outcome":"denied","rule":"cat","command":"TOKEN=[redacted] cat x","jobs":["job_1"]}`,
	}
	if len(got) != 3 || got[0] != want[0] || got[1] != want[1] {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !strings.HasSuffix(got[2], `"tool":"async_rename","caller":{"client":"host"},"outcome":"denied","rule":"not on offer"}`) {
		t.Errorf("the refusal is %s", got[2])
	}
}

func TestOnlyTheOwnerCanReadTheRecord(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("permissions are of another kind here")
		return
	}
	l := newLog(t, nil)
	if err := os.MkdirAll(filepath.Dir(l.File()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.File(), nil, 0o644); err != nil { // of somebody careless
		t.Fatal(err)
	}
	call(l, "x", tool.Facts{})
	flush(t, l)
	info, err := os.Stat(l.File())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v), want 0600", info.Mode(), err)
	}
}

func TestLongTextsAreCut(t *testing.T) {
	l := newLog(t, nil)
	long := strings.Repeat("ä", 1<<20)
	items := []tool.Facts{{Path: long}}
	call(l, "x", tool.Facts{Path: long, To: long, Cwd: long, Command: long, Args: long, Items: items})
	l.ToolRefused(t.Context(), long)
	flush(t, l)
	for _, line := range lines(t, l.File()) {
		if len(line) > 100<<10 || !strings.Contains(line, "ä…") {
			t.Errorf("a line has %d bytes", len(line))
		}
	}
	if items[0].Path != long {
		t.Error("other observers see the path cut")
	}
}

func TestNothingIsRecordedWhereItIsSwitchedOff(t *testing.T) {
	l := newLog(t, func(o *Options) { o.Enabled = func(root string) bool { return root == "/on" } })
	call(l, "a", tool.Facts{Root: "/off"})
	call(l, "b", tool.Facts{Root: "/on"})
	l.ToolRefused(t.Context(), "c")
	flush(t, l)
	if got := records(t, l.File()); len(got) != 1 || got[0].Tool != "b" {
		t.Errorf("recorded %+v, want b alone", got)
	}
}

func TestRecordsWithoutALineAreLeftOut(t *testing.T) {
	l := newLog(t, func(o *Options) {
		o.Line = func(r *Record) any {
			if r.Tool != "alias_exec" {
				return nil
			}
			return map[string]string{"alias": r.Alias}
		}
	})
	stop := run(t, l)
	defer stop()
	for range 3 * maxBatch {
		call(l, "async_read", tool.Facts{})
	}
	call(l, "alias_exec", tool.Facts{Alias: "ll"})
	stop()
	if got := lines(t, l.File()); len(got) != 1 || got[0] != `{"alias":"ll"}` {
		t.Errorf("got %q", got)
	}
}

func TestFullFilesAreSetAsideAndTheOldestDeleted(t *testing.T) {
	l := newLog(t, func(o *Options) { o.MaxSize, o.MaxFiles = 1000, 3 })
	for i := range 100 {
		call(l, fmt.Sprintf("tool%02d", i), tool.Facts{})
		flush(t, l) // 110 bytes each: nine to a file
	}
	old, err := setAside(l.File())
	if err != nil || len(old) != 3 {
		t.Fatalf("set aside %v (%v), want three", old, err)
	}
	got := records(t, l.File())
	if len(got) >= 100 || len(got) < 28 || got[len(got)-1].Tool != "tool99" {
		t.Fatalf("%d records remain, the last %s", len(got), got[len(got)-1].Tool)
	}
	for i, r := range got {
		if want := fmt.Sprintf("tool%02d", 100-len(got)+i); r.Tool != want {
			t.Fatalf("record %d is %s, want %s: not in order", i, r.Tool, want)
		}
	}
	for _, o := range append(old, aside{path: l.File()}) {
		if info, err := os.Stat(o.path); err != nil || info.Size() > 1000 {
			t.Errorf("%s: %v, %v", o.path, info.Size(), err)
		}
	}
}

func TestALineLargerThanAFileHasOneOfItsOwn(t *testing.T) {
	l := newLog(t, func(o *Options) { o.MaxSize = 100 })
	for range 3 {
		call(l, "x", tool.Facts{Path: strings.Repeat("a", 500)})
		flush(t, l)
	}
	if got := records(t, l.File()); len(got) != 3 {
		t.Errorf("%d records, want 3", len(got))
	}
}

func TestALineThatACrashCutOffIsTakenOutAndSaidSo(t *testing.T) {
	for _, torn := range []string{`{`, `{"time":"2026-01-02T03:04:05Z","tool":"x"}`, strings.Repeat("x", 200<<10)} {
		l := newLog(t, nil)
		call(l, "before", tool.Facts{})
		flush(t, l)
		f, err := os.OpenFile(l.File(), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.WriteString(torn)
		_ = f.Close()

		if got := records(t, l.File()); len(got) != 1 {
			t.Errorf("%.20s: a reader sees %d records, want 1", torn, len(got))
		}
		next := New(l.opts)
		call(next, "after", tool.Facts{})
		flush(t, next)
		got := records(t, l.File())
		if len(got) != 3 || got[0].Tool != "before" || got[1].Event != EventTorn || got[1].Lost != len(torn) || got[2].Tool != "after" {
			t.Errorf("%.20s: got %+v", torn, got)
		}
		for _, line := range lines(t, l.File()) {
			if !json.Valid([]byte(line)) {
				t.Errorf("not JSON: %.100s", line)
			}
		}
	}
}

func TestAFileThatIsOneTornLineIsRepaired(t *testing.T) {
	l := newLog(t, nil)
	_ = os.MkdirAll(filepath.Dir(l.File()), 0o700)
	if err := os.WriteFile(l.File(), []byte(`{"ti`), 0o600); err != nil {
		t.Fatal(err)
	}
	call(l, "after", tool.Facts{})
	flush(t, l)
	if got := records(t, l.File()); len(got) != 2 || got[0].Event != EventTorn || got[1].Tool != "after" {
		t.Errorf("got %+v", got)
	}
}

func TestAWriteThatTheDiskCutsShortLeavesWholeLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, nil)
		call(l, "before", tool.Facts{})
		flush(t, l)

		var full atomic.Bool
		full.Store(true)
		l.file.write = func(f *os.File, p []byte) (int, error) {
			if full.Load() {
				n, _ := f.Write(p[:len(p)/2])
				return n, syscall.ENOSPC
			}
			return f.Write(p)
		}
		stop := run(t, l)
		defer stop()
		call(l, "during", tool.Facts{})
		synctest.Wait()
		if got := lines(t, l.File()); len(got) != 1 {
			t.Errorf("the file has %d lines while the disk is full, want 1", len(got))
		}
		f := l.Findings()
		if len(f) != 1 || !strings.Contains(f[0].Detail, syscall.ENOSPC.Error()) {
			t.Errorf("findings %+v", f)
		}
		full.Store(false)
		time.Sleep(2 * retry)
		synctest.Wait()
		if got := records(t, l.File()); len(got) != 2 || got[1].Tool != "during" {
			t.Errorf("after the disk has room again: %+v", got)
		}
		if f := l.Findings(); f != nil {
			t.Errorf("findings %+v, want none", f)
		}
	})
}

func TestCallsGoOnWhenTheFileCannotBeWrittenAndTheGapIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, nil)
		dir := filepath.Dir(l.File())
		if err := os.WriteFile(dir, nil, 0o600); err != nil { // a file where the directory should be
			t.Fatal(err)
		}
		stop := run(t, l)
		defer stop()
		call(l, "first", tool.Facts{})
		synctest.Wait()
		start := time.Now()
		const more = maxPending + 50
		for range more {
			call(l, "x", tool.Facts{})
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("calls were held up for %v", waited)
		}
		f := l.Findings()
		if len(f) != 1 || f[0].Part != "audit" || !strings.Contains(f[0].Detail, "50 are lost") {
			t.Fatalf("findings %+v", f)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * retry)
		synctest.Wait()
		got := records(t, l.File())
		last := got[len(got)-1]
		if len(got) != 1+maxPending+1 || last.Event != EventGap || last.Lost != 50 || last.Since == nil {
			t.Errorf("%d records, the last %+v", len(got), last)
		}
	})
}

func TestACallThatFindsNoRoomWaitsForItABit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, nil)
		for range maxPending {
			call(l, "x", tool.Facts{})
		}
		start := time.Now()
		call(l, "lost", tool.Facts{}) // nobody writes
		if waited := time.Since(start); waited != patience {
			t.Errorf("waited %v, want %v", waited, patience)
		}
		var late sync.WaitGroup
		late.Go(func() { call(l, "late", tool.Facts{}) })
		synctest.Wait()
		flush(t, l)
		late.Wait()
		flush(t, l)
		tools := map[string]int{}
		for _, r := range records(t, l.File()) {
			tools[r.Tool] += max(1, r.Lost)
		}
		if tools["x"] != maxPending || tools["late"] != 1 || tools["lost"] != 0 || tools[""] != 1 {
			t.Errorf("recorded %v", tools)
		}
	})
}

func TestWhatCannotBeWrittenAtTheEndIsAnError(t *testing.T) {
	l := newLog(t, nil)
	if err := os.WriteFile(filepath.Dir(l.File()), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	call(l, "x", tool.Facts{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Run(ctx); err == nil || !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("Run = %v, want the reason", err)
	}
}

func TestAPipeInPlaceOfTheFileIsNotWaitedFor(t *testing.T) {
	l := newLog(t, nil)
	if err := os.MkdirAll(l.File(), 0o700); err != nil { // a directory does as well
		t.Fatal(err)
	}
	if err := l.file.append([]byte("{}\n")); err == nil {
		t.Error("a directory was written to")
	}
}

// Two servers that share a file are two logs: nothing but the file connects them.
func TestManySessionsInSeveralProcessesLoseNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	const logs, sessions, calls = 3, 16, 150
	var all sync.WaitGroup
	for p := range logs {
		l := New(Options{File: path, MaxSize: 64 << 10, MaxFiles: 1000})
		stop := run(t, l)
		all.Go(func() {
			var callers sync.WaitGroup
			for s := range sessions {
				callers.Go(func() {
					for i := range calls {
						l.ToolCalled(context.Background(), tool.Observation{
							Tool:   &tool.Tool{Spec: tool.Spec{Name: "x"}},
							Caller: &caller.Caller{Session: fmt.Sprintf("%d.%d", p, s)},
							Facts:  tool.Facts{Outcome: "ok", Path: fmt.Sprint(i), Code: fault.AccessDenied},
							Start:  time.Now(),
						})
					}
				})
			}
			callers.Wait()
			stop()
		})
	}
	all.Wait()
	next := map[string]int{}
	for _, r := range records(t, path) {
		if r.Event != "" {
			t.Fatalf("unexpected %+v", r)
		}
		if r.Path != fmt.Sprint(next[r.Caller.Session]) {
			t.Fatalf("session %s: call %s, want %d: lost, doubled or out of order", r.Caller.Session, r.Path, next[r.Caller.Session])
		}
		next[r.Caller.Session]++
	}
	if len(next) != logs*sessions {
		t.Errorf("%d sessions recorded, want %d", len(next), logs*sessions)
	}
	for s, n := range next {
		if n != calls {
			t.Errorf("session %s: %d calls, want %d", s, n, calls)
		}
	}
	if old, _ := setAside(path); len(old) < 5 {
		t.Errorf("only %d files were set aside; the test wants rotation under load", len(old))
	}
}

func TestFollowGoesOnThroughRotation(t *testing.T) {
	l := newLog(t, func(o *Options) { o.MaxSize, o.MaxFiles = 2000, 1000 })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(chan string, 1000)
	done := make(chan error, 1)
	go func() {
		done <- Follow(ctx, l.File(), Filter{}, func(r *Record, line []byte) error {
			if !json.Valid(line) {
				t.Errorf("not JSON: %s", line)
			}
			seen <- r.Tool
			return nil
		})
	}()
	stop := run(t, l)
	defer stop()
	for i := range 500 {
		name := fmt.Sprintf("tool%03d", i)
		call(l, name, tool.Facts{})
		if i%50 == 0 { // let the follower come near
			for len(seen) < i/2 {
				runtime.Gosched()
			}
		}
	}
	for i := range 500 {
		select {
		case got := <-seen:
			if want := fmt.Sprintf("tool%03d", i); got != want {
				t.Fatalf("followed %s, want %s", got, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("call %d was not followed", i)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Follow = %v", err)
	}
}

func TestFollowIsNotLedAstrayByARepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, nil)
		call(l, "one", tool.Facts{})
		flush(t, l)
		f, _ := os.OpenFile(l.File(), os.O_APPEND|os.O_WRONLY, 0)
		_, _ = f.WriteString(`{"time":"2026-01-02T03:04:05Z","tool":"to`)
		_ = f.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var seen []string
		var done sync.WaitGroup
		done.Go(func() {
			_ = Follow(ctx, l.File(), Filter{}, func(r *Record, _ []byte) error {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, r.Tool+r.Event)
				return nil
			})
		})
		synctest.Wait()
		call(l, "two", tool.Facts{})
		flush(t, l)
		time.Sleep(2 * interval)
		cancel()
		done.Wait()
		if got := strings.Join(seen, " "); got != "one torn two" {
			t.Errorf("followed %q, want one torn two", got)
		}
	})
}

func TestFilters(t *testing.T) {
	l := newLog(t, nil)
	add := func(at, name, agent string, f tool.Facts) {
		start, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		l.ToolCalled(t.Context(), tool.Observation{Tool: &tool.Tool{Spec: tool.Spec{Name: name}}, Caller: &caller.Caller{Client: "Host", Agent: agent}, Facts: f, Start: start})
	}
	add("2026-01-01T00:00:00Z", "async_read", "planner", tool.Facts{Outcome: "ok", Path: "1"})
	add("2026-01-02T00:00:00Z", "async_read", "worker", tool.Facts{Outcome: "error", Code: fault.AccessDenied, Path: "2"})
	add("2026-01-03T00:00:00Z", "async_exec", "worker", tool.Facts{Outcome: "denied", Path: "3"})
	add("2026-01-04T00:00:00Z", "async_batch_read", "worker", tool.Facts{Outcome: "ok", Path: "4", Items: []tool.Facts{{Outcome: "ok"}, {Outcome: "error", Code: fault.PathOutsideBase}}})
	add("2026-01-05T00:00:00Z", "async_read", "worker", tool.Facts{Outcome: "error", Code: fault.FileNotFound, Path: "5"})
	flush(t, l)
	day := func(d int) time.Time { return time.Date(2026, 1, d, 0, 0, 0, 0, time.UTC) }
	for _, tc := range []struct {
		f    Filter
		want string
	}{
		{Filter{}, "12345"},
		{Filter{Since: day(3)}, "345"},
		{Filter{Tool: "async_read"}, "125"},
		{Filter{Caller: "PLAN"}, "1"},
		{Filter{Caller: "host"}, "12345"},
		{Filter{Caller: "nobody"}, ""},
		{Filter{Denied: true}, "234"},
		{Filter{Denied: true, Tool: "async_read", Since: day(2)}, "2"},
	} {
		var got bytes.Buffer
		if err := Read(t.Context(), l.File(), tc.f, func(r *Record, _ []byte) error {
			got.WriteString(r.Path)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if got.String() != tc.want {
			t.Errorf("%+v: got %s, want %s", tc.f, got.String(), tc.want)
		}
	}
}

func TestReadingWhatIsNotThereYetFindsNothing(t *testing.T) {
	if got := records(t, filepath.Join(t.TempDir(), "none", "audit.jsonl")); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestForeignLinesAndFilesArePassedOver(t *testing.T) {
	l := newLog(t, nil)
	dir := filepath.Dir(l.File())
	_ = os.MkdirAll(dir, 0o700)
	for _, name := range []string{"audit.x.jsonl", "audit..jsonl", "audit.000001.jsonl.gz", "audit.-1.jsonl", "other.000001.jsonl", "audit.99999999999999999999.jsonl"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(`{"tool":"foreign"}`+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.WriteFile(l.File(), []byte("hello\n\n{\"tool\":\"a\"}\n[1]\n"), 0o600)
	if got := records(t, l.File()); len(got) != 1 || got[0].Tool != "a" {
		t.Errorf("got %+v", got)
	}
}

func BenchmarkToolCalled(b *testing.B) {
	l := New(Options{File: filepath.Join(b.TempDir(), "audit.jsonl"), MaxFiles: 2})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = l.Run(ctx) }()
	b.ReportAllocs()
	for b.Loop() {
		call(l, "async_read", tool.Facts{Outcome: "ok", Path: "/project/src/file.go", Hash: "sha256:" + strings.Repeat("0", 64)})
	}
	cancel()
	<-done
}
