package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// forest makes dirs directories with files in each, a hundred beside each other.
func forest(b *testing.B, dirs, files int) string {
	b.Helper()
	root := b.TempDir()
	for i := range dirs {
		dir := filepath.Join(root, fmt.Sprintf("a%d", i/100), fmt.Sprintf("d%d", i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		for j := range files {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%d.go", j)), nil, 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	return root
}

// running starts a tree, waits until everything is watched and returns how to
// end it.
func running(b *testing.B, tree *Tree, notify func([]Change)) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- tree.Run(ctx, notify) }()
	if err := tree.Sync(ctx); err != nil {
		b.Fatal(err)
	}
	return func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}

func BenchmarkTreeSetup(b *testing.B) {
	const dirs, files = 10_000, 5
	root := forest(b, dirs, files)
	for _, mode := range []string{"system", "polling"} {
		b.Run(fmt.Sprintf("%s/dirs=10k/files=50k", mode), func(b *testing.B) {
			b.ReportAllocs()
			var before, after runtime.MemStats
			best := time.Duration(1 << 62)
			for b.Loop() {
				runtime.GC()
				runtime.ReadMemStats(&before)
				tree := NewTree(root, TreeOptions{Poll: time.Hour, PollOnly: mode == "polling", MaxWatches: 1 << 20})
				start := time.Now()
				stop := running(b, tree, func([]Change) {})
				best = min(best, time.Since(start))
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MB/tree")
				stop()
			}
			b.ReportMetric(float64(best.Microseconds())/1000, "ms/best-setup")
		})
	}
}

func BenchmarkTreePoll(b *testing.B) {
	root := forest(b, 10_000, 5)
	tree := NewTree(root, TreeOptions{Poll: time.Hour, PollOnly: true})
	defer running(b, tree, func([]Change) {})()
	b.ReportAllocs()
	for b.Loop() {
		if err := tree.Sync(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTreeSync(b *testing.B) {
	for _, dirs := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("idle/dirs=%d", dirs), func(b *testing.B) {
			tree := NewTree(forest(b, dirs, 1), TreeOptions{Poll: time.Hour, MaxWatches: 1 << 20})
			defer running(b, tree, func([]Change) {})()
			b.ReportAllocs()
			for b.Loop() {
				if err := tree.Sync(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("after a write", func(b *testing.B) {
		root := forest(b, 1, 1)
		tree := NewTree(root, TreeOptions{Poll: time.Hour})
		defer running(b, tree, func([]Change) {})()
		f, err := os.OpenFile(filepath.Join(root, "a0", "d0", "file0.go"), os.O_WRONLY, 0)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			if _, err := f.WriteAt([]byte("x"), 0); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			if err := tree.Sync(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkTreeEvent is what one notice costs the loop, from the kernel's queue
// to the consumer; the writes that cause them are not counted.
func BenchmarkTreeEvent(b *testing.B) {
	const burst = 4000
	root := forest(b, 10, burst/10)
	var told atomic.Int64
	tree := NewTree(root, TreeOptions{Poll: time.Hour, Debounce: time.Hour})
	defer running(b, tree, func(changes []Change) { told.Add(int64(len(changes))) })()
	b.ReportAllocs()
	var took time.Duration
	for b.Loop() {
		for i := range burst {
			path := filepath.Join(root, "a0", fmt.Sprintf("d%d", i%10), fmt.Sprintf("file%d.go", i/10))
			if err := os.Truncate(path, int64(i)); err != nil {
				b.Fatal(err)
			}
		}
		start := time.Now()
		if err := tree.Sync(b.Context()); err != nil {
			b.Fatal(err)
		}
		took += time.Since(start)
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N*burst), "ns/path")
	if told.Load() < int64(b.N*burst) {
		b.Errorf("%d told of %d", told.Load(), b.N*burst)
	}
}
