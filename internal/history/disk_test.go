package history_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/history"
	"github.com/async-crud-mcp/async-crud-mcp/internal/history/archive"
)

func dbFile(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "history.db")
}

func opened(t *testing.T, o history.Options) *history.Store {
	t.Helper()
	s := history.New(o)
	if err := s.Open(t.Context()); err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func closed(t *testing.T, s *history.Store) {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Fatalf("Close: %v", err)
	}
	verify(t, s)
}

func flush(t *testing.T, s *history.Store) {
	t.Helper()
	if err := s.Flush(t.Context()); err != nil {
		t.Fatalf("Flush: %v", err)
	}
}

// execSQL runs SQL on the file, as any other process could.
func execSQL(t *testing.T, file, query string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", file+"?_busy_timeout=5000")
	if err == nil {
		_, err = db.ExecContext(t.Context(), query, args...)
		db.Close()
	}
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func onDisk(t *testing.T, file string) []string {
	t.Helper()
	r, err := archive.View(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all, err := r.List(t.Context(), archive.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range all {
		got = append(got, v.Path+" by "+v.By.Agent)
	}
	return got
}

func findings(s *history.Store) string {
	var b strings.Builder
	for _, f := range s.Status().Findings {
		fmt.Fprintf(&b, "%s: %s | %s\n", f.Part, f.Detail, f.Cure)
	}
	return b.String()
}

func TestStaleHashGetsItsContentAfterARestart(t *testing.T) {
	file := dbFile(t)
	s := opened(t, history.Options{File: file})
	for i := range 10 {
		put(s, "alice", "/p/a", fmt.Sprint("content ", i))
	}
	closed(t, s)
	if !has(s, "/p/a", "content 9") {
		t.Error("what is in memory is gone after Close")
	}

	s = opened(t, history.Options{File: file})
	for i := range 10 {
		if !has(s, "/p/a", fmt.Sprint("content ", i)) {
			t.Errorf("content %d is gone", i)
		}
	}
	if h, ok := s.Tracked("p", "/p/a"); h != sum("content 9") || !ok || s.Count("p") != 1 {
		t.Errorf("Tracked = %q, %v; %d files", h, ok, s.Count("p"))
	}
	if _, _, ok := s.Get("q", "/p/a", sum("content 1")); ok {
		t.Error("another project got the content")
	}
}

func TestAuthorIsKnownAfterARestart(t *testing.T) {
	file := dbFile(t)
	s := opened(t, history.Options{File: file})
	put(s, "alice", "/p/a", "one")
	put(s, "bob", "/p/a", "two")
	closed(t, s)

	s = opened(t, history.Options{File: file})
	if got, ok := s.ChangedBy("p", "/p/a", sum("two")); got.Agent != "bob" || !ok {
		t.Errorf("before the file is read: %+v, %v; want bob", got, ok)
	}
	s.Put(external("/p/a", "two"), []byte("two")) // the server reads it and cannot know
	for _, when := range []string{"before", "after"} {
		if got, ok := s.ChangedBy("p", "/p/a", sum("two")); got.Agent != "bob" || got.External || !ok {
			t.Errorf("%s writing: %+v, %v; want bob", when, got, ok)
		}
		flush(t, s)
	}
	s.Put(external("/p/a", "one"), []byte("one")) // somebody put the old text back meanwhile
	for _, when := range []string{"before", "after"} {
		if got, ok := s.ChangedBy("p", "/p/a", sum("one")); !got.External || !ok {
			t.Errorf("%s writing: %+v, %v; want external", when, got, ok)
		}
		flush(t, s)
	}
	if all, err := s.Versions(t.Context(), "p", "/p/a"); len(all) != 3 || err != nil {
		t.Errorf("Versions = %+v, %v; want three", all, err)
	}
}

func TestDatabaseIsWrittenWhenTheDebounceIsOver(t *testing.T) {
	file := dbFile(t)
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, history.Options{File: file, WriteDebounce: 3 * time.Second})
		defer run(t, s)()
		synctest.Wait()
		put(s, "alice", "/p/a", "one")
		time.Sleep(2 * time.Second)
		put(s, "bob", "/p/a", "two") // does not put it off
		time.Sleep(time.Second - time.Nanosecond)
		synctest.Wait()
		if got := onDisk(t, file); len(got) != 0 {
			t.Errorf("written early: %q", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got, want := onDisk(t, file), []string{"/p/a by bob", "/p/a by alice"}; !slices.Equal(got, want) {
			t.Errorf("after the debounce: %q, want %q", got, want)
		}
		if st := s.Status(); st.Unwritten != 0 {
			t.Errorf("%+v; want nothing unwritten", st)
		}
	})
}

func TestMuchIsWrittenBeforeTheDebounceIsOver(t *testing.T) {
	file := dbFile(t)
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, history.Options{File: file, MemoryBytes: 1 << 20, WriteDebounce: time.Hour})
		defer run(t, s)()
		for i := range 20 {
			put(s, "", "/p/a", noise(i, 100_000))
		}
		synctest.Wait()
		if got := onDisk(t, file); len(got) < 15 {
			t.Errorf("only %d versions are written", len(got))
		}
		for i := range 20 {
			if !has(s, "/p/a", noise(i, 100_000)) {
				t.Errorf("content %d is gone", i)
			}
		}
		if st := s.Status(); st.Bytes > 1<<20 || st.Lost != 0 {
			t.Errorf("%+v; want memory within its bound and nothing lost", st)
		}
	})
}

func TestRenamedFileHasItsHistoryBeforeTheDatabaseKnows(t *testing.T) {
	file := dbFile(t)
	s := opened(t, history.Options{File: file})
	for _, path := range []string{"/p/a", "/p/d/b", "/p/d/x/c"} {
		put(s, "alice", path, path)
	}
	closed(t, s)

	s = opened(t, history.Options{File: file})
	s.Rename("p", "/p/a", "/p/d/a")
	s.RenameTree("p", "/p/d", "/p/e")
	s.Rename("p", "/p/e/b", "/p/z")
	put(s, "bob", "/p/a", "another file")
	want := map[string]string{"/p/e/a": "/p/a", "/p/z": "/p/d/b", "/p/e/x/c": "/p/d/x/c", "/p/a": "another file"}
	for _, when := range []string{"before writing", "after writing", "after a restart"} {
		for path, content := range want {
			if !has(s, path, content) {
				t.Errorf("%s: %s has lost %q", when, path, content)
			}
			if got, ok := s.ChangedBy("p", path, sum(content)); got.External || !ok {
				t.Errorf("%s: ChangedBy(%s) = %+v, %v", when, path, got, ok)
			}
			if h, _ := s.Tracked("p", path); h != sum(content) {
				t.Errorf("%s: %s is tracked with %q", when, path, h)
			}
		}
		if n := s.Count(""); n != len(want) {
			t.Errorf("%s: %d files, want %d", when, n, len(want))
		}
		if when == "after writing" {
			closed(t, s)
			s = opened(t, history.Options{File: file})
		}
		flush(t, s)
	}
}

func TestHandedOutHashIsHeldInTheDatabase(t *testing.T) {
	file := dbFile(t)
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, history.Options{File: file, MemoryBytes: -1})
		h := put(s, "alice", "/p/a", "one")
		put(s, "alice", "/p/a", "two")
		flush(t, s)
		due := func() time.Duration {
			t.Helper()
			db, err := sql.Open("sqlite", file)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			var micros int64
			if err := db.QueryRowContext(t.Context(), "SELECT due FROM version WHERE hash = ?", h).Scan(&micros); err != nil {
				t.Fatal(err)
			}
			return time.Until(time.UnixMicro(micros)).Round(time.Second)
		}
		time.Sleep(time.Hour)
		if got := due(); got > 0 {
			t.Fatalf("held for %v without having been handed out", got)
		}
		s.HandedOut("p", "/p/a", h) // it is in the database alone
		flush(t, s)
		if got := due(); got != history.PinTime {
			t.Errorf("held for %v, want %v", got, history.PinTime)
		}
		closed(t, s)
		s = opened(t, history.Options{File: file})
		put(s, "alice", "/p/a", "three")
		h = sum("three")
		s.HandedOut("p", "/p/a", h)
		flush(t, s)
		time.Sleep(time.Minute)
		s.HandedOut("p", "/p/a", h)
		if _, late := s.Late(); late {
			t.Error("every reading is to be written")
		}
		time.Sleep(time.Second)
		s.HandedOut("p", "/p/a", h)
		flush(t, s)
		if got := due(); got != history.PinTime {
			t.Errorf("held for %v, want %v", got, history.PinTime)
		}
		closed(t, s)
	})
}

func TestPutWaitsForASlowDiskAMoment(t *testing.T) {
	file := dbFile(t)
	text := make([]string, 40)
	for i := range text {
		text[i] = noise(i, 1<<20)
	}
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, history.Options{File: file, MemoryBytes: 1 << 20})
		defer run(t, s)()
		synctest.Wait()
		free := s.Busy()
		start := time.Now()
		n := 0
		for ; n < len(text) && time.Since(start) == 0; n++ {
			put(s, "", fmt.Sprint("/p/", n), text[n])
		}
		if st := s.Status(); time.Since(start) != history.Patience || st.Bytes+st.Waiting < history.MinUnwrit/2 || n < 5 {
			t.Fatalf("the %dth Put waited %v; %+v", n, time.Since(start), st)
		}
		waiting := make(chan struct{})
		go func() {
			put(s, "", "/p/last", "last")
			close(waiting)
		}()
		synctest.Wait()
		select {
		case <-waiting:
			t.Fatal("Put did not wait")
		default:
		}
		free()
		<-waiting
		if got := time.Since(start); got != history.Patience {
			t.Errorf("Put waited %v for a disk that is free again", got-history.Patience)
		}
		synctest.Wait()
		flush(t, s)
		for i := range n {
			if !has(s, fmt.Sprint("/p/", i), text[i]) {
				t.Errorf("content %d is gone", i)
			}
		}
		if st := s.Status(); st.Lost != 0 || st.Bytes > 1<<20 {
			t.Errorf("%+v; want nothing lost and memory within its bound", st)
		}
	})
}

func TestMemoryStaysBoundedWhenTheDiskIsStuck(t *testing.T) {
	file := dbFile(t)
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, history.Options{File: file, MemoryBytes: 1 << 20})
		defer run(t, s)()
		free := s.Busy()
		for i := range 40 {
			put(s, "", fmt.Sprint("/p/", i), noise(i, 1<<20))
			if st := s.Status(); st.Bytes > history.MinUnwrit || st.Waiting > history.MaxRaw+1<<20 {
				t.Fatalf("after %d contents: %+v", i, st)
			}
		}
		if st := s.Status(); st.Lost == 0 {
			t.Errorf("%+v; want it told that versions were lost", st)
		}
		if !has(s, "/p/39", noise(39, 1<<20)) {
			t.Error("the newest content is gone")
		}
		verify(t, s)
		free()
	})
}

func TestWritingResumesAfterAFailure(t *testing.T) {
	file := dbFile(t)
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, history.Options{File: file, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		defer run(t, s)()
		execSQL(t, file, "CREATE TRIGGER stop BEFORE INSERT ON version BEGIN SELECT RAISE(FAIL, 'no space'); END")
		put(s, "alice", "/p/a", "one")
		s.Rename("p", "/p/a", "/p/b")
		s.AddPending(history.Pending{ID: "1", QueuedAt: time.Now(), TTL: time.Hour})
		time.Sleep(100 * time.Second)
		synctest.Wait()
		if got := findings(s); !strings.Contains(got, "cannot be written") || !strings.Contains(got, "no space") {
			t.Errorf("findings: %s", got)
		}
		if n := strings.Count(log.String(), "it will be tried again"); n < 4 || n > 10 {
			t.Errorf("tried %d times in 100 s", n)
		}
		if all, err := s.Versions(t.Context(), "p", "/p/b"); len(all) != 1 || err != nil {
			t.Errorf("Versions = %+v, %v; want the one in memory", all, err)
		}
		execSQL(t, file, "DROP TRIGGER stop")
		s.RemovePending("1")
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if got := onDisk(t, file); !slices.Equal(got, []string{"/p/b by alice"}) || findings(s) != "" {
			t.Errorf("on disk %q, findings %q", got, findings(s))
		}
	})
}

func TestStoreGoesOnInMemoryWhenTooMuchWaits(t *testing.T) {
	file := dbFile(t)
	s := opened(t, history.Options{File: file})
	execSQL(t, file, "CREATE TRIGGER stop BEFORE INSERT ON file BEGIN SELECT RAISE(FAIL, 'no space'); END")
	put(s, "alice", "/p/a", "one")
	for i := range 100_001 {
		s.Track("p", fmt.Sprint("/p/", i), "h")
	}
	if err := s.Flush(t.Context()); err == nil {
		t.Fatal("Flush succeeded")
	}
	if st := s.Status(); st.File != "" || st.Unwritten != 0 || !strings.Contains(findings(s), "in memory only") {
		t.Errorf("%+v", st)
	}
	if !has(s, "/p/a", "one") {
		t.Error("the content is gone")
	}
	all, err := s.List(t.Context(), history.Filter{})
	if err != nil || len(all) != 1 || all[0].ID == 0 {
		t.Errorf("List = %+v, %v", all, err)
	}
	verify(t, s)
}

func TestDamagedDatabaseIsSetAsideAndReported(t *testing.T) {
	file := dbFile(t)
	s := opened(t, history.Options{File: file})
	put(s, "alice", "/p/a", "one")
	closed(t, s)
	if err := os.Truncate(file, 5000); err != nil {
		t.Fatal(err)
	}
	s = opened(t, history.Options{File: file})
	aside, _ := filepath.Glob(file + ".damaged-*Z")
	if got := findings(s); len(aside) != 1 || !strings.Contains(got, aside[0]) {
		t.Fatalf("set aside %q, findings %q", aside, got)
	}
	if info, err := os.Stat(aside[0]); err != nil || info.Size() != 5000 {
		t.Errorf("the file set aside: %v, %v", info, err)
	}
	put(s, "bob", "/p/a", "two")
	closed(t, s)
	if got := onDisk(t, file); !slices.Equal(got, []string{"/p/a by bob"}) {
		t.Errorf("the new database has %q", got)
	}
}

func TestDatabaseDamagedInUseIsReplaced(t *testing.T) {
	for name, hurt := range map[string]func(s *history.Store) bool{
		"met by a reader": func(s *history.Store) bool { return !has(s, "/p/0", noise(0, 6000)) },
		"met by a writer": func(s *history.Store) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			file := dbFile(t)
			s := opened(t, history.Options{File: file})
			for i := range 50 {
				put(s, "alice", fmt.Sprint("/p/", i), noise(i, 6000))
			}
			closed(t, s)
			s = opened(t, history.Options{File: file})
			put(s, "bob", "/p/kept", "kept")
			s.Track("p", "/p/tracked", "h")
			scribble(t, file)
			if !hurt(s) {
				t.Skip("SQLite had the pages in memory")
			}
			for i := range 80 { // of pages all over the file
				put(s, "bob", fmt.Sprint("/p/", i), noise(1000+i, 6000))
			}
			flush(t, s)
			aside, _ := filepath.Glob(file + ".damaged-*")
			if got := findings(s); len(aside) == 0 || !strings.Contains(got, "set aside") {
				t.Fatalf("set aside %q, findings %q", aside, got)
			}
			closed(t, s)
			s = opened(t, history.Options{File: file})
			if h, _ := s.Tracked("p", "/p/tracked"); !has(s, "/p/kept", "kept") || !has(s, "/p/7", noise(1007, 6000)) || h != "h" {
				t.Error("what was in memory is not in the new database")
			}
		})
	}
}

// scribble overwrites the file beyond its first page.
func scribble(t *testing.T, file string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, _ := f.Stat()
	if _, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, int(info.Size())-4096), 4096); err != nil {
		t.Fatal(err)
	}
}

func TestForeignDatabaseIsLeftAlone(t *testing.T) {
	for name, query := range map[string]string{
		"another program's": "CREATE TABLE bookmarks (url TEXT)",
		"a newer version's": "CREATE TABLE version (id); PRAGMA application_id = 0x41434d48; PRAGMA user_version = 2",
	} {
		t.Run(name, func(t *testing.T) {
			file := dbFile(t)
			execSQL(t, file, query)
			before, _ := os.ReadFile(file)
			s := opened(t, history.Options{File: file})
			put(s, "alice", "/p/a", "one")
			if st := s.Status(); st.File != "" || !has(s, "/p/a", "one") || !strings.Contains(findings(s), "in memory only") {
				t.Errorf("%+v, findings %q", st, findings(s))
			}
			closed(t, s)
			if after, _ := os.ReadFile(file); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
			if names, _ := filepath.Glob(file + "*"); len(names) != 1 {
				t.Errorf("there are %q now", names)
			}
		})
	}
}

func TestDirectoryInPlaceOfTheDatabase(t *testing.T) {
	s := opened(t, history.Options{File: t.TempDir()})
	put(s, "alice", "/p/a", "one")
	if got := findings(s); !has(s, "/p/a", "one") || !strings.Contains(got, "not a regular file") {
		t.Errorf("findings %q", got)
	}
}

func TestWrongContentIsReported(t *testing.T) {
	file := dbFile(t)
	s := opened(t, history.Options{File: file})
	put(s, "alice", "/p/a", "one")
	closed(t, s)
	s = opened(t, history.Options{File: file})
	execSQL(t, file, "UPDATE content SET packed = x'0011'")
	if has(s, "/p/a", "one") || !strings.Contains(findings(s), `history purge "/p/a"`) {
		t.Errorf("findings %q", findings(s))
	}
}

func TestNoContentsOnDisk(t *testing.T) {
	file := dbFile(t)
	s := opened(t, history.Options{File: file})
	put(s, "alice", "/p/a", "one")
	closed(t, s)
	s = opened(t, history.Options{File: file, DiskBytes: -1})
	stop := run(t, s)
	put(s, "alice", "/p/a", "two")
	if !has(s, "/p/a", "two") {
		t.Error("the content is not in memory")
	}
	stop()
	if got := onDisk(t, file); len(got) != 0 {
		t.Errorf("on disk %q", got)
	}
	s = opened(t, history.Options{File: file})
	if h, ok := s.Tracked("p", "/p/a"); h != sum("two") || !ok {
		t.Errorf("Tracked = %q, %v", h, ok)
	}
}

func TestPendingRequestsOfAnEarlierRunAreDropped(t *testing.T) {
	file := dbFile(t)
	s := opened(t, history.Options{File: file})
	for id, ago := range map[string]time.Duration{"gone": 0, "late": time.Hour, "done": 0} {
		s.AddPending(history.Pending{ID: id, Project: "p", Path: "/p/" + id, Op: "update", QueuedAt: time.Now().Add(-ago), TTL: time.Minute})
	}
	s.AddPending(history.Pending{ID: "short"})
	s.RemovePending("short")
	flush(t, s)
	s.RemovePending("done")
	s.Track("p", "/p/x", "h")
	closed(t, s)
	var log bytes.Buffer
	s = opened(t, history.Options{File: file, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if got, want := s.Status().Recovery, (history.Recovery{Expired: 1, Dropped: 1, Tracked: 1}); got != want {
		t.Errorf("Recovery = %+v, want %+v", got, want)
	}
	if got := log.String(); !strings.Contains(got, "/p/gone") || strings.Contains(got, "/p/done") || !strings.Contains(got, "expired") {
		t.Errorf("log: %s", got)
	}
}

func TestPeopleListShowAndPurgeInTheDatabase(t *testing.T) {
	for name, memory := range map[string]int64{"and in memory": 0, "alone": -1} {
		t.Run(name, func(t *testing.T) {
			s := opened(t, history.Options{File: dbFile(t), MemoryBytes: memory})
			put(s, "alice", "/p/a", "one")
			put(s, "bob", "/p/a", "two")
			put(s, "bob", "/p/d/b", "three")
			secret := by("bob", "/p/.env", "key")
			secret.Keep = false
			s.Put(secret, nil)
			lookUp(t, s)
		})
	}
}

func TestManyCallersAtOnceWithADatabase(t *testing.T) {
	s := opened(t, history.Options{File: dbFile(t), MemoryBytes: 256 << 10, DiskBytes: 4 << 20, WriteDebounce: 10 * time.Millisecond})
	stop := run(t, s)
	hammer(t, s, 6, 40)
	if st := s.Status(); st.Lost != 0 || len(st.Findings) != 0 || st.FileBytes > 5<<20 {
		t.Errorf("%+v", st)
	}
	stop()
}

func TestOpenEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := history.New(history.Options{File: dbFile(t)})
	if err := s.Open(ctx); err == nil {
		t.Error("Open went on after the end of its context")
	}
}

// helper starts the test binary again as one of the helpers.
func helper(t *testing.T, name, file string, first int) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+name, fileEnv+"="+file, firstEnv+"="+strconv.Itoa(first))
	cmd.Stderr = os.Stderr
	return cmd
}

// Two servers share the database and are killed while they write to it.
func TestFlushedContentSurvivesKilledProcesses(t *testing.T) {
	file := dbFile(t)
	for round := range 3 {
		var children [2]*child
		for i := range children {
			children[i] = startPutting(t, file, 10_000*round+5000*i)
		}
		for _, c := range children {
			c.listen(t, 15+12*round)
		}
		for _, c := range children {
			c.kill(t)
		}
		if len(onDisk(t, file)) == 0 { // before anybody has mended anything
			t.Error("nothing can be seen from outside")
		}
		s := opened(t, history.Options{File: file})
		if got := findings(s); got != "" {
			t.Fatalf("findings: %s", got)
		}
		for _, c := range children {
			for i := c.first; i <= c.last; i++ { // a flush covers what was put before it
				if !has(s, numbered(i), noise(i, 3000)) {
					t.Errorf("round %d: content %d of %d to %d is lost", round, i, c.first, c.last)
				}
			}
		}
		closed(t, s)
	}
}

// child is a process that puts contents and tells which are flushed.
type child struct {
	cmd         *exec.Cmd
	lines       *bufio.Scanner
	first, last int
}

func startPutting(t *testing.T, file string, first int) *child {
	t.Helper()
	c := &child{cmd: helper(t, "put", file, first), first: first, last: first - 1}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// listen returns when the child has told so many numbers.
func (c *child) listen(t *testing.T, n int) {
	t.Helper()
	for ; n > 0; n-- {
		if !c.next(t) {
			t.Fatal("the process ended by itself")
		}
	}
}

func (c *child) next(t *testing.T) bool {
	t.Helper()
	if !c.lines.Scan() {
		return false
	}
	var err error
	if c.last, err = strconv.Atoi(c.lines.Text()); err != nil {
		t.Fatal(err)
	}
	return true
}

func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for c.next(t) { // what it told before it was dead
	}
	_ = c.cmd.Wait() // it was killed
}
