package archive

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
)

func TestRecordsOfJobsOutliveTheirServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deep", "jobs.db")
	ctx := t.Context()
	first := NewJobs(file)
	for _, save := range []struct{ id, owner, record string }{
		{"a", "dead", "old"}, {"a", "dead", "new"}, {"b", "alive", "b"}, {"c", "dead", "c"}, {"d", "me", "d"}, {"e", "dead", "e"},
	} {
		if err := first.SaveJob(ctx, save.id, save.owner, []byte(save.record)); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.DeleteJobs(ctx, []string{"c", "nobody"}); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v (%v), want it for its owner alone", info.Mode(), err)
	}
	second := NewJobs(file)
	defer second.Close()
	got, err := second.LoadJobs(ctx, "me", func(owner string) bool { return owner == "dead" })
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || string(got["a"]) != "new" || string(got["e"]) != "e" {
		t.Errorf("LoadJobs = %q, want a and e", got)
	}
	if again, err := second.LoadJobs(ctx, "other", func(owner string) bool { return owner == "dead" }); err != nil || len(again) != 0 {
		t.Errorf("a second server was given %q (%v), want nothing", again, err)
	}
}

func TestOneServerGetsARecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.db")
	first := NewJobs(file)
	defer first.Close()
	for _, id := range []string{"a", "b", "c"} {
		if err := first.SaveJob(t.Context(), id, "dead", []byte(id)); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var all []string
	var servers sync.WaitGroup
	for _, owner := range []string{"one", "two", "three"} {
		servers.Go(func() {
			j := NewJobs(file)
			defer j.Close()
			got, err := j.LoadJobs(context.WithoutCancel(t.Context()), owner, func(o string) bool { return o == "dead" })
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			all = slices.AppendSeq(all, maps.Keys(got))
		})
	}
	servers.Wait()
	slices.Sort(all)
	if !slices.Equal(all, []string{"a", "b", "c"}) {
		t.Errorf("the servers got %q, want each record once", all)
	}
}

func TestDamagedRecordsAreSetAside(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.db")
	if err := os.WriteFile(file, []byte("this is no database, and long enough to be read as one page of it"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := NewJobs(file)
	defer j.Close()
	if err := j.SaveJob(t.Context(), "a", "me", []byte("a")); err != nil {
		t.Fatal(err)
	}
	if aside, _ := filepath.Glob(file + ".damaged-*"); len(aside) != 1 {
		t.Errorf("set aside: %q, want one file", aside)
	}
}

func TestForeignDatabaseIsLeftAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.db")
	d, _, err := Open(t.Context(), file, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	j := NewJobs(file)
	defer j.Close()
	if err := j.SaveJob(t.Context(), "a", "me", nil); err == nil {
		t.Error("a record was saved in the history's database")
	}
}

func TestUnusedRecordsMakeNoFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.db")
	if err := NewJobs(file).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("there is a file")
	}
}
