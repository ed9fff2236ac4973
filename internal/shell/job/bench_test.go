//go:build unix

package job

import (
	"testing"
	"time"
)

func BenchmarkRunTrue(b *testing.B) {
	r := New(Options{Limits: Limits{PerMinute: -1}})
	defer r.Stop(b.Context())
	s := script("true")
	b.ReportAllocs()
	for b.Loop() {
		j, err := r.Start(s)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := r.Wait(b.Context(), here, []Watch{{ID: j.ID}}, WaitOptions{Timeout: -1}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCapture(b *testing.B) {
	for name, spool := range map[string]int64{"spool=64MiB": 64 << 20, "spool=none": -1} {
		b.Run(name, func(b *testing.B) {
			r := New(Options{SpoolDir: b.TempDir(), SpoolBytes: spool, Limits: Limits{PerMinute: -1, CompletedTTL: time.Nanosecond}})
			defer r.Stop(b.Context())
			b.SetBytes(256 << 20)
			for b.Loop() {
				j, err := r.Start(script("head -c 256M /dev/zero"))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := r.Wait(b.Context(), here, []Watch{{ID: j.ID}}, WaitOptions{Timeout: -1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
