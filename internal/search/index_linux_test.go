package search_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/async-crud-mcp/async-crud-mcp/internal/search"
)

// toldOfChanges: the system tells of every change before a search that follows.
const toldOfChanges = true

// A store through shared memory raises no notice. What is shown is right anyway.
func TestAStoreThroughSharedMemoryShowsNothingOld(t *testing.T) {
	x := newIndexed(t, map[string]string{"a": "one\n", "b": "one\n"}, search.Options{}, false)
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(x.root, "a"), old, old); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(x.root, "a"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := syscall.Mmap(int(f.Fd()), 0, 4, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Munmap(mem); err != nil {
			t.Error(err)
		}
	}()
	r := search.Request{Pattern: "one", Recursive: true, MaxResults: 10, Mode: search.Content}
	x.until(r, fromMemory)
	copy(mem, "two\n")
	if _, _, no := syscall.Syscall(syscall.SYS_MSYNC, uintptr(unsafe.Pointer(&mem[0])), uintptr(len(mem)), syscall.MS_SYNC); no != 0 {
		t.Fatal(no)
	}
	equal(t, "what is gone", names(x.search(r)), []string{"b"})
	r.Pattern = "two"
	equal(t, "what is new, now that it was noticed", names(x.search(r)), []string{"a"})
}

// A pattern made to be slow ends in time when texts are in memory, too, and
// harms nobody else.
func TestTheTimeLimitHoldsWithAnIndex(t *testing.T) {
	files := map[string]string{"a": "other\n"}
	for _, name := range []string{"b", "c", "d", "e", "f", "g", "h", "i"} {
		files[name] = strings.Repeat(strings.Repeat("a", 40)+"!hit\n", 500)
	}
	x := newIndexed(t, files, search.Options{Workers: 2}, false)
	x.until(search.Request{Pattern: "hit", Recursive: true}, fromMemory)
	x.limits.Timeout = 300 * time.Millisecond
	r := x.search(search.Request{Pattern: `^(a|aa)+(?<!a)!hit`, Recursive: true})
	if !r.Slow || r.Exact || !r.TimedOut && r.Skipped.TooSlow == 0 {
		t.Errorf("slow %v, exact %v, timed out %v, skipped %+v", r.Slow, r.Exact, r.TimedOut, r.Skipped)
	}
	x.limits.Timeout = time.Minute
	x.same("after a slow one", search.Request{Pattern: "other", Recursive: true})
}
