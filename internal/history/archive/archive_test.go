package archive_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/async-crud-mcp/async-crud-mcp/internal/history/archive"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	codec = archive.NewCodec()
	wide  = archive.Limits{Bytes: 1 << 30, Age: 365 * 24 * time.Hour, Versions: 20}
)

func sum(content string) string {
	s := sha256.Sum256([]byte(content))
	return "sha256:" + hex.EncodeToString(s[:])
}

// draft is a version of project p made by agent at a time, held until due.
func draft(path, content, agent string, due time.Time) *archive.Draft {
	return &archive.Draft{
		Version: archive.Version{
			Project: "p", Path: path, Hash: sum(content), Size: int64(len(content)), Op: "update", Keep: true,
			By: archive.Author{Client: "test", Agent: agent, Session: "s", Tool: "async_update", Time: time.UnixMicro(1_700_000_000_000_000)},
		},
		Due:    due,
		Packed: codec.Pack([]byte(content)),
	}
}

func open(t *testing.T, file string) (*archive.DB, archive.Leftover) {
	t.Helper()
	db, left, err := archive.Open(t.Context(), file, 1000)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { db.Close() })
	return db, left
}

func write(t *testing.T, db *archive.DB, drafts ...*archive.Draft) {
	t.Helper()
	if err := db.Write(t.Context(), &archive.Batch{Drafts: drafts}, wide); err != nil {
		t.Fatalf("Write: %v", err)
	}
}

// contents lists the contents of what is there, newest first, as path=content.
func contents(t *testing.T, r interface {
	List(context.Context, archive.Filter) ([]archive.Version, error)
	Show(context.Context, int64) ([]byte, archive.Version, error)
}, f archive.Filter,
) []string {
	t.Helper()
	all, err := r.List(t.Context(), f)
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	var got []string
	for _, v := range all {
		content, shown, err := r.Show(t.Context(), v.ID)
		if err != nil || shown != v {
			t.Fatalf("Show(%d) = %+v, %v; want %+v", v.ID, shown, err, v)
		}
		got = append(got, filepath.Base(v.Path)+"="+string(content))
	}
	return got
}

func TestWhatIsWrittenIsFoundAfterReopening(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sub dir", "100%?#.db")
	db, _ := open(t, file)
	d := draft("/p/a", "one\n", "alice", time.Now())
	write(t, db, d, draft("/p/empty", "", "alice", time.Now()))
	db.Close()

	db, _ = open(t, file)
	names := []archive.Key{{Project: "p", Path: "/elsewhere"}, {Project: "p", Path: "/p/a"}}
	content, v, err := db.Find(t.Context(), names, sum("one\n"))
	want := d.Version
	want.ID = d.Row
	if string(content) != "one\n" || v != want || err != nil {
		t.Errorf("Find = %q, %+v, %v; want %+v", content, v, err, want)
	}
	content, _, err = db.Find(t.Context(), []archive.Key{{Project: "p", Path: "/p/empty"}}, sum(""))
	if content == nil || len(content) != 0 || err != nil {
		t.Errorf("Find(empty) = %v, %v; want an empty content", content, err)
	}
	for _, other := range []archive.Key{{Project: "q", Path: "/p/a"}, {Project: "p", Path: "/p/b"}} {
		if content, _, err := db.Find(t.Context(), []archive.Key{other}, sum("one\n")); content != nil || !errors.Is(err, archive.ErrUnknown) {
			t.Errorf("Find under %+v = %q, %v; want ErrUnknown", other, content, err)
		}
	}
}

func TestContentThatIsNotKeptIsNotGivenThoughAnotherFileHasIt(t *testing.T) {
	db, _ := open(t, filepath.Join(t.TempDir(), "h.db"))
	secret := draft("/p/.env", "key", "alice", time.Now())
	secret.Keep, secret.Packed = false, nil
	write(t, db, draft("/p/public", "key", "alice", time.Now()), secret)
	content, v, err := db.Find(t.Context(), []archive.Key{{Project: "p", Path: "/p/.env"}}, sum("key"))
	if content != nil || v.Keep || v.By.Agent != "alice" || err != nil {
		t.Errorf("Find = %q, %+v, %v; want who made it and no content", content, v, err)
	}
}

func TestVersionThatIsThereAlreadyKeepsItsAuthor(t *testing.T) {
	db, _ := open(t, filepath.Join(t.TempDir(), "h.db"))
	first := draft("/p/a", "one", "alice", time.Now())
	write(t, db, first)
	again := draft("/p/a", "one", "", time.Now().Add(time.Hour))
	again.By.External = true
	back := draft("/p/a", "one", "carol", time.Now())
	write(t, db, again, draft("/p/a", "two", "bob", time.Now()), back)
	if again.Row != first.Row || again.Known == nil || again.Known.By.Agent != "alice" {
		t.Errorf("again: row %d, known %+v; want row %d by alice", again.Row, again.Known, first.Row)
	}
	if back.Known != nil || back.Row == first.Row {
		t.Errorf("a content that came back is not a version of its own: %+v", back)
	}
	key := []archive.Key{{Project: "p", Path: "/p/a"}}
	if by, ok, err := db.Maker(t.Context(), key, sum("one"), true); by.Agent != "carol" || !ok || err != nil {
		t.Errorf("Maker = %+v, %v, %v; want carol", by, ok, err)
	}
	if by, ok, _ := db.Maker(t.Context(), key, sum("two"), false); by.Agent != "bob" || !ok {
		t.Errorf("Maker of an older version = %+v, %v; want bob", by, ok)
	}
	if by, ok, _ := db.Maker(t.Context(), key, sum("two"), true); ok {
		t.Errorf("Maker of an older version, as the current one = %+v; want none", by)
	}
}

func TestDeletionIsAVersionOfItsOwn(t *testing.T) {
	db, _ := open(t, filepath.Join(t.TempDir(), "h.db"))
	del := draft("/p/a", "one", "bob", time.Now())
	del.Op = archive.OpDelete
	write(t, db, draft("/p/a", "one", "alice", time.Now()), del, draft("/p/a", "one", "carol", time.Now()))
	all, _ := db.List(t.Context(), archive.Filter{})
	var who []string
	for _, v := range all {
		who = append(who, v.By.Agent)
	}
	if want := []string{"carol", "bob", "alice"}; !slices.Equal(who, want) {
		t.Errorf("authors %v, want %v", who, want)
	}
}

func TestRenameCarriesVersionsAndMergesWhatWasThere(t *testing.T) {
	db, _ := open(t, filepath.Join(t.TempDir(), "h.db"))
	sep := string(filepath.Separator)
	dir := sep + "p" + sep + "d"
	write(t, db,
		draft(dir+sep+"a", "a1", "", time.Now()), draft(dir+sep+"x"+sep+"b", "b1", "", time.Now()),
		draft(dir+"0", "sibling", "", time.Now()), draft(dir+"-", "sibling", "", time.Now()),
		draft(sep+"q"+sep+"a", "older", "", time.Now()))
	err := db.Write(t.Context(), &archive.Batch{
		Moves: []archive.Move{
			{From: archive.Key{Project: "p", Path: dir}, To: archive.Key{Project: "p", Path: sep + "q"}, Tree: true},
			{From: archive.Key{Project: "p", Path: sep + "q" + sep + "a"}, To: archive.Key{Project: "p", Path: sep + "z"}},
			{From: archive.Key{Project: "p", Path: "nothing"}, To: archive.Key{Project: "p", Path: sep + "z"}},
		},
		Drafts: []*archive.Draft{draft(dir+sep+"a", "new file", "", time.Now())},
	}, wide)
	if err != nil {
		t.Fatal(err)
	}
	got := contents(t, db, archive.Filter{})
	want := []string{"a=new file", "z=older", "d-=sibling", "d0=sibling", "b=b1", "z=a1"}
	if !slices.Equal(got, want) {
		t.Errorf("after the renames: %q, want %q", got, want)
	}
	all, _ := db.List(t.Context(), archive.Filter{Path: sep + "z"})
	if len(all) != 2 || all[1].Former != dir+sep+"a" || all[0].Former != sep+"q"+sep+"a" {
		t.Errorf("former names are %+v", all)
	}
	if got := contents(t, db, archive.Filter{Path: dir}); !slices.Equal(got, []string{"a=new file", "b=b1", "z=a1"}) {
		t.Errorf("by the former name of the directory: %q", got)
	}
}

func TestRegistryAndRequestsAreTakenOver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "h.db")
	db, left := open(t, file)
	if len(left.Tracked)+len(left.Dropped)+left.Expired != 0 {
		t.Fatalf("a new database has left %+v", left)
	}
	now := time.Now()
	request := func(id string, queued time.Time) *archive.Pending {
		return &archive.Pending{ID: id, Project: "p", Path: "/p/" + id, Op: "update", QueuedAt: queued.Truncate(time.Microsecond), TTL: time.Minute}
	}
	key := func(path string) archive.Key { return archive.Key{Project: "p", Path: path} }
	for _, b := range []*archive.Batch{
		{
			Registry: map[archive.Key]string{key("a"): "h1", key("b"): "h2"},
			Pending:  map[string]*archive.Pending{"live": request("live", now), "late": request("late", now.Add(-time.Hour)), "done": request("done", now)},
		},
		{
			Moves:    []archive.Move{{From: key("b"), To: key("c")}},
			Registry: map[archive.Key]string{key("a"): "", key("b"): "", key("c"): "h3", key("never"): ""},
			Pending:  map[string]*archive.Pending{"done": nil},
		},
	} {
		if err := db.Write(t.Context(), b, wide); err != nil {
			t.Fatal(err)
		}
	}
	db.Close()

	db, left = open(t, file)
	if len(left.Tracked) != 1 || left.Tracked[key("c")] != "h3" {
		t.Errorf("tracked %v, want c alone", left.Tracked)
	}
	if left.Expired != 1 || len(left.Dropped) != 1 || !left.Dropped[0].QueuedAt.Equal(request("", now).QueuedAt) || left.Dropped[0].TTL != time.Minute {
		t.Errorf("requests left: %+v", left)
	}
	db.Close()
	if _, left = open(t, file); len(left.Dropped)+left.Expired != 0 {
		t.Errorf("requests were left twice: %+v", left)
	}
}

func TestRequestsOfALivingProcessStay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "h.db")
	db, _ := open(t, file)
	p := archive.Pending{ID: "x", QueuedAt: time.Now(), TTL: time.Hour}
	if err := db.Write(t.Context(), &archive.Batch{Pending: map[string]*archive.Pending{"x": &p}}, wide); err != nil {
		t.Fatal(err)
	}
	raw := rawOpen(t, file)
	mustExec(t, raw, "UPDATE pending SET pid = ?", os.Getppid())
	if _, left := open(t, file); len(left.Dropped)+left.Expired != 0 {
		t.Errorf("left %+v, want the request untouched", left)
	}
	mustExec(t, raw, "UPDATE pending SET pid = ?", 1<<30)
	if _, left := open(t, file); len(left.Dropped) != 1 {
		t.Errorf("left %+v, want the request of a dead process dropped", left)
	}
}

// rawOpen opens the file with SQLite as anybody could.
func rawOpen(t *testing.T, file string) *sql.DB {
	t.Helper()
	raw, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	return raw
}

func mustExec(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func TestVersionsLeaveInOrderWhenSpaceIsShort(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	ahead := func(d time.Duration) time.Time { return now.Add(d) }
	type v struct {
		path string
		due  time.Time
	}
	versions := []v{ // in order of making
		{"busy", ago(1 * time.Hour)}, // beyond the two that are to stay
		{"busy", ago(9 * time.Hour)}, // the same, unused for longer
		{"busy", ago(8 * time.Hour)},
		{"busy", ago(7 * time.Hour)}, // its newest
		{"old", ago(20 * time.Hour)},
		{"old", ago(19 * time.Hour)},   // its newest
		{"held", ahead(2 * time.Hour)}, // beyond the two
		{"held", ahead(1 * time.Hour)},
		{"held", ahead(3 * time.Hour)}, // its newest
	}
	want := []int{1, 0, 4, 2, 5, 3, 6, 7, 8}
	body := func(i int) string { return noise(i, 20_000) } // each weighs the same
	for gone := range versions {
		t.Run(fmt.Sprint(gone), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "h.db")
			db, _ := open(t, file)
			var drafts []*archive.Draft
			var weight int64
			for i, v := range versions {
				drafts = append(drafts, draft("/p/"+v.path, body(i), "", v.due))
				weight = max(weight, int64(len(drafts[i].Packed)))
			}
			write(t, db, drafts...)
			// Room for all but so many: a tenth of the bound is freed beyond it.
			used := usedBytes(t, file)
			keep := used - int64(gone)*weight
			l := archive.Limits{Bytes: keep + keep/9 + 2000, Age: wide.Age, Versions: 2}
			if gone == 0 {
				l.Bytes = used
			}
			if err := db.Retain(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			all, err := db.List(t.Context(), archive.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			left := make(map[string]bool)
			for _, v := range all {
				left[v.Hash] = true
			}
			var went []int
			for i := range versions {
				if !left[sum(body(i))] {
					went = append(went, i)
				}
			}
			expect := slices.Sorted(slices.Values(want[:len(went)]))
			if !slices.Equal(went, expect) || gone > 0 && (len(went) < gone-1 || len(went) > gone+1) || gone == 0 && len(went) > 0 {
				t.Errorf("went %v, want the first %d or so of %v", went, gone, want)
			}
		})
	}
}

func usedBytes(t *testing.T, file string) (n int64) {
	t.Helper()
	err := rawOpen(t, file).QueryRowContext(t.Context(),
		`SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// noise is a content that nothing compresses.
func noise(seed, size int) string {
	b := make([]byte, size)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(b)
	return string(b)
}

func TestFileStaysWithinItsBound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "h.db")
	db, _ := open(t, file)
	l := archive.Limits{Bytes: 1 << 20, Age: wide.Age, Versions: 20}
	for i := range 40 {
		var drafts []*archive.Draft
		for j := range 5 {
			drafts = append(drafts, draft(fmt.Sprintf("/p/%d", j), noise(i*10+j, 20_000), "", time.Now().Add(time.Hour)))
		}
		if err := db.Write(t.Context(), &archive.Batch{Drafts: drafts}, l); err != nil {
			t.Fatal(err)
		}
		if info, _ := os.Stat(file); info.Size() > l.Bytes+64<<10 {
			t.Fatalf("after batch %d the file has %d bytes, bound %d", i, info.Size(), l.Bytes)
		}
	}
	all, _ := db.List(t.Context(), archive.Filter{})
	if len(all) < 40 {
		t.Errorf("only %d versions are left within %d bytes", len(all), l.Bytes)
	}
	l.Bytes /= 2
	if err := db.Retain(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	db.Close()
	if info, _ := os.Stat(file); info.Size() > l.Bytes {
		t.Errorf("with a lower bound the file has %d bytes, bound %d", info.Size(), l.Bytes)
	}
}

func TestOldVersionsLeave(t *testing.T) {
	file := filepath.Join(t.TempDir(), "h.db")
	db, _ := open(t, file)
	day := 24 * time.Hour
	write(t, db,
		draft("/p/a", "old", "", time.Now().Add(-31*day)),
		draft("/p/b", "old", "", time.Now().Add(-29*day)), // the same content
		draft("/p/c", "older", "", time.Now().Add(-40*day)),
		draft("/p/d", "new", "", time.Now()))
	l := wide
	l.Age = 30 * day
	if err := db.Retain(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, db, archive.Filter{}); !slices.Equal(got, []string{"d=new", "b=old"}) {
		t.Errorf("left %q", got)
	}
	var files, bodies int
	err := rawOpen(t, file).QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM file), (SELECT count(*) FROM content)").Scan(&files, &bodies)
	if files != 2 || bodies != 2 || err != nil {
		t.Errorf("%d files and %d contents are left, want 2 and 2 (%v)", files, bodies, err)
	}
}

func TestPurgedBytesAreGoneFromTheDisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "h.db")
	db, _ := open(t, file)
	secret := "c0rrect-horse-battery" // too short to be packed into something else
	other := draft("/p/b", "harmless", "", time.Now())
	write(t, db, draft("/p/a", secret, "", time.Now()), other)
	if !onDisk(t, file, secret) {
		t.Fatal("the test cannot see contents in the file")
	}
	r, err := archive.View(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n, err := r.Purge(t.Context(), archive.Filter{Path: "/p/a"}); n != 1 || err != nil {
		t.Fatalf("Purge = %d, %v; want 1", n, err)
	}
	if onDisk(t, file, secret) {
		t.Error("what was purged is still in the file")
	}
	if got := contents(t, r, archive.Filter{}); !slices.Equal(got, []string{"b=harmless"}) {
		t.Errorf("left %q", got)
	}
	write(t, db, draft("/p/a", "again", "", time.Now())) // the server goes on
}

func onDisk(t *testing.T, file, text string) bool {
	t.Helper()
	names, _ := filepath.Glob(file + "*")
	return slices.ContainsFunc(names, func(name string) bool {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(b, []byte(text))
	})
}

func TestFilesAreTheirOwnersAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits")
	}
	dir := filepath.Join(t.TempDir(), "new")
	file := filepath.Join(dir, "h.db")
	for range 2 {
		db, _ := open(t, file)
		write(t, db, draft("/p/a", "x", "", time.Now()))
		for _, name := range []string{file, file + "-wal", file + "-shm"} {
			if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v; want 0600", filepath.Base(name), info.Mode(), err)
			}
		}
		db.Close()
		if err := os.Chmod(file, 0o644); err != nil { // as somebody may have copied it back
			t.Fatal(err)
		}
	}
	if info, _ := os.Stat(dir); info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has %v, want 0700", info.Mode())
	}
}

func TestDamageIsToldFromOtherTroubles(t *testing.T) {
	sound := func(t *testing.T, file string) {
		db, _ := open(t, file)
		for i := range 50 {
			write(t, db, draft(fmt.Sprintf("/p/%d", i), noise(i, 5000), "", time.Now()))
		}
		db.Close()
	}
	tests := []struct {
		name    string
		make    func(t *testing.T, file string)
		damaged bool
		is      error // nil: any
		works   bool
	}{
		{name: "nothing there", make: func(*testing.T, string) {}, works: true},
		{name: "empty file", works: true, make: func(t *testing.T, file string) { put(t, file, nil) }},
		{name: "garbage", damaged: true, make: func(t *testing.T, file string) { put(t, file, []byte(noise(1, 10_000))) }},
		{name: "a JSON state file", damaged: true, make: func(t *testing.T, file string) { put(t, file, []byte(`{"hashes": {}}`)) }},
		{name: "truncated", damaged: true, make: func(t *testing.T, file string) {
			sound(t, file)
			if err := os.Truncate(file, 20_000); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "truncated inside the header", damaged: true, make: func(t *testing.T, file string) {
			sound(t, file)
			if err := os.Truncate(file, 50); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "overwritten in the middle", damaged: true, make: func(t *testing.T, file string) {
			sound(t, file)
			b, _ := os.ReadFile(file)
			for i := 4096; i < len(b)-4096; i++ {
				b[i] = byte(i)
			}
			put(t, file, b)
		}},
		{name: "a directory", is: nil, make: func(t *testing.T, file string) {
			if err := os.Mkdir(file, 0o700); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "another program's database", is: archive.ErrForeign, make: func(t *testing.T, file string) {
			mustExec(t, rawOpen(t, file), "CREATE TABLE bookmarks (url TEXT)")
		}},
		{name: "a newer version's database", is: archive.ErrForeign, make: func(t *testing.T, file string) {
			sound(t, file)
			mustExec(t, rawOpen(t, file), "PRAGMA user_version = 99")
		}},
		{name: "a place that cannot be made", is: nil, make: func(t *testing.T, file string) {
			if err := os.Remove(filepath.Dir(file)); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Dir(file), nil) // a file where the directory should be
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "h.db")
			tt.make(t, file)
			before, _ := os.ReadFile(file)
			db, _, err := archive.Open(t.Context(), file, 10)
			if tt.works {
				if err != nil {
					t.Fatalf("Open: %v", err)
				}
				write(t, db, draft("/p/a", "x", "", time.Now()))
				db.Close()
				return
			}
			if err == nil {
				db.Close()
				t.Fatal("it was opened")
			}
			if archive.Damaged(err) != tt.damaged || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("Open = %v (damaged: %v), want damaged: %v, %v", err, archive.Damaged(err), tt.damaged, tt.is)
			}
			after, _ := os.ReadFile(file)
			if !tt.damaged {
				if !bytes.Equal(before, after) {
					t.Error("the file was changed")
				}
				return
			}
			aside, err := archive.SetAside(file)
			if err != nil || !strings.HasPrefix(aside, file+".damaged-") {
				t.Fatalf("SetAside = %q, %v", aside, err)
			}
			if b, _ := os.ReadFile(aside); !bytes.Equal(b, after) {
				t.Error("the file set aside is not what it was")
			}
			db, _ = open(t, file)
			write(t, db, draft("/p/a", "x", "", time.Now()))
		})
	}
}

func put(t *testing.T, file string, b []byte) {
	t.Helper()
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWrongContentIsNotGiven(t *testing.T) {
	file := filepath.Join(t.TempDir(), "h.db")
	db, _ := open(t, file)
	for name, change := range map[string]string{
		"other bytes": "UPDATE content SET packed = (SELECT packed FROM content WHERE hash = '" + sum("decoy") + "')",
		"not packed":  "UPDATE content SET packed = x'00'",
		"missing":     "DELETE FROM content",
		"huge":        "UPDATE version SET size = 1 << 40",
		"short":       "UPDATE version SET size = 1",
	} {
		t.Run(name, func(t *testing.T) {
			write(t, db, draft("/p/a", "right one", "", time.Now()), draft("/p/b", "decoy", "", time.Now()))
			mustExec(t, rawOpen(t, file), change)
			content, v, err := db.Find(t.Context(), []archive.Key{{Project: "p", Path: "/p/a"}}, sum("right one"))
			bad, ok := errors.AsType[*archive.BadContent](err)
			if content != nil || !ok || bad.Version != v || bad.Version.Path != "/p/a" || bad.Error() == "" {
				t.Errorf("Find = %q, %v; want BadContent", content, err)
			}
			if n, err := db.Purge(t.Context(), archive.Filter{}); n != 2 || err != nil {
				t.Errorf("Purge = %d, %v", n, err)
			}
		})
	}
}

func TestViewLooksFromOutside(t *testing.T) {
	file := filepath.Join(t.TempDir(), "h.db")
	if _, err := archive.View(t.Context(), file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("View of nothing = %v, want fs.ErrNotExist", err)
	}
	db, _ := open(t, file)
	write(t, db, draft("/p/a", "one", "", time.Now()))
	look := func(want ...string) {
		t.Helper()
		r, err := archive.View(t.Context(), file)
		if err != nil {
			t.Fatalf("View: %v", err)
		}
		defer r.Close()
		if got := contents(t, r, archive.Filter{}); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if _, _, err := r.Show(t.Context(), 1<<40); !errors.Is(err, archive.ErrUnknown) {
			t.Errorf("Show of nothing = %v, want ErrUnknown", err)
		}
	}
	look("a=one") // beside a server
	write(t, db, draft("/p/a", "two", "", time.Now()))
	look("a=two", "a=one")
	db.Close()
	look("a=two", "a=one") // without one

	other := filepath.Join(t.TempDir(), "other.db")
	mustExec(t, rawOpen(t, other), "CREATE TABLE bookmarks (url TEXT)")
	if _, err := archive.View(t.Context(), other); !errors.Is(err, archive.ErrForeign) {
		t.Errorf("View of another program's = %v, want ErrForeign", err)
	}
}

// The condition that goes to SQLite selects what Selects does.
func TestFilterMeansTheSameInMemoryAndInTheDatabase(t *testing.T) {
	db, _ := open(t, filepath.Join(t.TempDir(), "h.db"))
	sep := string(filepath.Separator)
	var drafts []*archive.Draft
	for i, path := range []string{"a", "a", "a.b", "a" + sep + "b", "a" + sep + "b" + sep + "c", "ab", "b", "ä", "a\U0001F600"} {
		d := draft(sep+path, fmt.Sprint(i%4), "", time.Now())
		d.Project = []string{"p", "q"}[i%2]
		d.By.Time = time.UnixMicro(int64(1000 * i))
		drafts = append(drafts, d)
	}
	moves := []archive.Move{{From: archive.Key{Project: "q", Path: sep + "ab"}, To: archive.Key{Project: "q", Path: sep + "c"}}}
	write(t, db, drafts...)
	if err := db.Write(t.Context(), &archive.Batch{Moves: moves}, wide); err != nil {
		t.Fatal(err)
	}
	all, err := db.List(t.Context(), archive.Filter{})
	if err != nil || len(all) != len(drafts) {
		t.Fatalf("List = %d, %v", len(all), err)
	}
	rapid.Check(t, func(t *rapid.T) {
		f := archive.Filter{
			Project: rapid.SampledFrom([]string{"", "p", "q", "r"}).Draw(t, "project"),
			Path:    rapid.SampledFrom([]string{"", sep, sep + "a", sep + "a" + sep, sep + "ab", sep + "a" + sep + "b", sep + "c", "x"}).Draw(t, "path"),
			Hash:    rapid.SampledFrom([]string{"", "sha256:", sum("1"), sum("2")[7:12], "zz"}).Draw(t, "hash"),
			Limit:   rapid.IntRange(0, 4).Draw(t, "limit"),
		}
		if n := rapid.IntRange(0, 9).Draw(t, "before"); n > 0 {
			f.Before = time.UnixMicro(int64(1000 * n))
		}
		var want []archive.Version
		for _, v := range all {
			if f.Selects(v) && (f.Limit == 0 || len(want) < f.Limit) {
				want = append(want, v)
			}
		}
		got, err := db.List(context.Background(), f)
		if !slices.Equal(got, want) || err != nil {
			t.Fatalf("List(%+v) = %+v, %v; want %+v", f, got, err, want)
		}
	})
}

func TestProcessesShareADatabase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "h.db")
	done := make(chan error)
	for w := range 3 {
		go func() {
			db, _, err := archive.Open(context.Background(), file, 10)
			if err != nil {
				done <- err
				return
			}
			for i := range 20 {
				b := &archive.Batch{Drafts: []*archive.Draft{draft(fmt.Sprintf("/p/%d", w), fmt.Sprint(i), "", time.Now())}}
				err = errors.Join(err, db.Write(context.Background(), b, wide))
			}
			done <- errors.Join(err, db.Close())
		}()
	}
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	db, _ := open(t, file)
	if all, err := db.List(t.Context(), archive.Filter{}); len(all) != 60 || err != nil {
		t.Errorf("%d versions, %v; want 60", len(all), err)
	}
}
