package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// The figures are of no interest here: a benchmark that no longer runs is.
func TestEveryMeasurementRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts every program")
	}
	out := filepath.Join(t.TempDir(), "results.md")
	if err := run(t.Context(), effort{starts: 1, rounds: 1, small: 2, large: 1, fileRounds: 1}, "", false, nil, out); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, want := range []string{
		"| spawn → tools/list |", "| stdio | 1 KB |", "| stdio | 100 KB |",
		"| HTTP 2025-11-25 | 1 KB |", "| HTTP 2026-07-28 | 100 KB |", "| idle, after tools/list |", "| tools |",
		"| read 1 KB |", "| edit one line in 1 MB |", "| list 20,000 files, recursive |", "| uncontended hold |", "| ours | one for all |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the results have no row %q", want)
		}
	}
	if runtime.GOOS == "linux" && strings.Contains(text, "| – |") {
		t.Error("something was not measured")
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestQuantileOfSamples(t *testing.T) {
	s := &sample{}
	if got := s.median(); got != 0 {
		t.Errorf("median of nothing = %s, want 0", got)
	}
	for i := range 101 {
		s.times = append(s.times, time.Duration(100-i))
	}
	for q, want := range map[float64]time.Duration{0: 0, 0.5: 50, 0.99: 99, 1: 100} {
		if got := s.quantile(q); got != want {
			t.Errorf("quantile(%g) = %d, want %d", q, got, want)
		}
	}
}
