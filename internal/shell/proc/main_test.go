package proc

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 60 * time.Second

// buffer is a writer that may be read meanwhile.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// sh starts a script, and ends it with the test.
func sh(t *testing.T, script string, out io.Writer, args ...string) *Process {
	t.Helper()
	p, err := Start(Spec{
		Argv: append([]string{"/bin/sh", "-c", script, "sh"}, args...),
		Env:  os.Environ(), Dir: t.TempDir(), Stdout: out, Stderr: out,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.End(0)
		wait(t, p.Gone(), "the end of the tree")
	})
	return p
}

func wait(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s did not come within %s", what, patience)
	}
}

// eventually waits until ok reports true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so within %s: %s", patience, what)
		}
	}
}

// unique returns a number of seconds that no other process sleeps for.
func unique() string {
	var b [5]byte
	_, _ = rand.Read(b[:])
	return fmt.Sprintf("86399.%012d", uint64(b[0])<<32|uint64(b[1])<<24|uint64(b[2])<<16|uint64(b[3])<<8|uint64(b[4]))
}

// with returns the processes whose command line has the word: a way to find them
// that has nothing to do with how the package does.
func with(word string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(line), word) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			pids = append(pids, pid)
		}
	}
	return pids
}
