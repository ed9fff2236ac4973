package history_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/history"
)

// text is a source file of about this size.
func text(size int) []byte {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "\tif err := step%d(ctx, value[%d]); err != nil {\n\t\treturn fmt.Errorf(\"step %d: %%w\", err)\n\t}\n", i%97, i, i*7919)
	}
	return []byte(b.String()[:size])
}

var sizes = []struct {
	name string
	size int
}{{"1KB", 1 << 10}, {"1MB", 1 << 20}}

var paths = func() (all [100]string) {
	for i := range all {
		all[i] = fmt.Sprint("/p/", i)
	}
	return all
}()

// What a request pays: idle, when the worker has nothing else to do, and busy,
// when callers put more than it can pack, so that they pack themselves.
func BenchmarkPut(b *testing.B) {
	for _, disk := range []string{"memory", "sqlite"} {
		for _, size := range sizes {
			for _, load := range []string{"idle", "busy"} {
				b.Run(disk+"/"+size.name+"/"+load, func(b *testing.B) {
					o := history.Options{}
					if disk == "sqlite" {
						o.File = filepath.Join(b.TempDir(), "h.db")
					}
					s := started(b, o)
					v, bytes := by("alice", "", ""), text(size.size)
					b.ReportAllocs()
					b.SetBytes(int64(size.size))
					for i := 0; b.Loop(); i++ {
						v.Path, v.Hash = paths[i%len(paths)], fmt.Sprintf("sha256:%064x", i)
						s.Put(v, bytes)
						if load == "idle" {
							b.StopTimer()
							packed(s)
							b.StartTimer()
						}
					}
				})
			}
		}
	}
}

// packed returns when the worker has nothing left to pack.
func packed(s *history.Store) {
	for s.Status().Waiting > 0 {
		runtime.Gosched()
	}
}

func BenchmarkPutKnown(b *testing.B) {
	s := started(b, history.Options{})
	bytes := text(1 << 20)
	v := by("alice", "/p/a", string(bytes))
	b.ReportAllocs()
	for b.Loop() {
		s.Put(v, bytes)
		s.HandedOut("p", v.Path, v.Hash)
	}
}

func BenchmarkGet(b *testing.B) {
	for _, disk := range []string{"memory", "sqlite"} {
		for _, size := range sizes {
			b.Run(disk+"/"+size.name, func(b *testing.B) {
				o := history.Options{}
				if disk == "sqlite" {
					o.File, o.MemoryBytes = filepath.Join(b.TempDir(), "h.db"), -1
				}
				s := started(b, o)
				content := string(text(size.size))
				h := put(s, "alice", "/p/a", content)
				packed(s)
				if err := s.Flush(context.Background()); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.SetBytes(int64(size.size))
				for b.Loop() {
					if _, _, ok := s.Get("p", "/p/a", h); !ok {
						b.Fatal("gone")
					}
				}
			})
		}
	}
}

func started(b *testing.B, o history.Options) *history.Store {
	b.Helper()
	s := history.New(o)
	if err := s.Open(context.Background()); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	b.Cleanup(func() {
		stop()
		<-done
	})
	return s
}
