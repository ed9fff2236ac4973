package lock_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
)

func benchmarkHold(b *testing.B, r lock.Request) {
	var tab lock.Table
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		l, err := tab.Hold(ctx, r)
		if err != nil {
			b.Fatal(err)
		}
		l.Release()
	}
}

func BenchmarkHoldUncontended(b *testing.B) {
	owner := lock.Owner{Op: "update", Caller: "agent", Session: "s1"}
	for _, m := range []lock.Mode{lock.Shared, lock.Exclusive} {
		for _, n := range []int{1, 2, 16} {
			keys := make([]lock.Key, n)
			for i := range keys {
				keys[i] = lock.Key(fmt.Sprintf("/home/user/project/internal/file%d.go", i))
			}
			b.Run(fmt.Sprintf("mode=%v/keys=%d", m, n), func(b *testing.B) {
				benchmarkHold(b, lock.Request{Mode: m, Keys: keys, Owner: owner})
			})
		}
	}
}

func BenchmarkCommit(b *testing.B) {
	var tab lock.Table
	l, err := tab.Hold(b.Context(), lock.Request{Mode: lock.Exclusive, Keys: []lock.Key{"k"}, TTL: 1 << 60})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Release()
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Commit(func() error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHoldContended(b *testing.B) {
	for _, m := range []lock.Mode{lock.Shared, lock.Exclusive} {
		for _, n := range []int{1, 16} {
			b.Run(fmt.Sprintf("mode=%v/holders=16/keys=%d", m, n), func(b *testing.B) {
				var tab lock.Table
				var worker atomic.Int32
				b.SetParallelism(16)
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					r := lock.Request{Mode: m, Keys: []lock.Key{lock.Key(fmt.Sprint(int(worker.Add(1)) % n))}}
					ctx := context.Background()
					for pb.Next() {
						l, err := tab.Hold(ctx, r)
						if err != nil {
							b.Error(err)
							return
						}
						l.Release()
					}
				})
			})
		}
	}
}
