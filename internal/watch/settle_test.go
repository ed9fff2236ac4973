package watch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// told renders changes as "kind rel" lines; a directory ends in a slash.
func told(changes []Change) []string {
	var lines []string
	for _, c := range changes {
		lines = append(lines, c.Kind.String()+" "+key(c))
	}
	return lines
}

func wantTold(t *testing.T, got []Change, want ...string) {
	t.Helper()
	if lines := told(got); !slices.Equal(lines, want) {
		t.Errorf("told\n\t%s\nwant\n\t%s", strings.Join(lines, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestSettlerMakesOneChangeOfMany(t *testing.T) {
	for _, c := range []struct {
		name   string
		states []presence // what the path held, in order
		want   []string
	}{
		{"written", []presence{aFile, aFile}, []string{"modified p"}},
		{"written often", []presence{aFile, aFile, aFile, aFile}, []string{"modified p"}},
		{"created and written", []presence{nothing, aFile, aFile}, []string{"created p"}},
		{"deleted", []presence{aFile, nothing}, []string{"deleted p"}},
		{"written and deleted", []presence{aFile, aFile, nothing}, []string{"deleted p"}},
		{"saved by rename", []presence{aFile, nothing, aFile}, []string{"modified p"}},
		{"came and went", []presence{nothing, aFile, nothing}, nil},
		{"came, went and came", []presence{nothing, aFile, nothing, aFile}, []string{"created p"}},
		{"new directory", []presence{nothing, aDir}, []string{"created p/"}},
		{"directory deleted", []presence{aDir, nothing}, []string{"deleted p/"}},
		{"directory replaced by another", []presence{aDir, nothing, aDir}, []string{"modified p/"}},
		{"file became a directory", []presence{aFile, nothing, aDir}, []string{"deleted p", "created p/"}},
		{"directory became a file", []presence{aDir, nothing, aFile}, []string{"deleted p/", "created p"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, now := newSettler(time.Second, 10), time.Now()
			for i := range len(c.states) - 1 {
				s.note("p", c.states[i], c.states[i+1], now)
			}
			wantTold(t, s.take(now.Add(time.Second), false), c.want...)
			if len(s.paths) != 0 || len(s.queue) != 0 {
				t.Errorf("%d paths, %d in the queue are left", len(s.paths), len(s.queue))
			}
		})
	}
}

func TestSettlerWaitsForRestButNotForever(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	s := newSettler(100*time.Millisecond, 10)
	s.note("p", aFile, aFile, at(0))
	s.note("q", aFile, aFile, at(50))
	wantTold(t, s.take(at(99), false))
	wantTold(t, s.take(at(100), false), "modified p")
	s.note("q", aFile, aFile, at(149))
	wantTold(t, s.take(at(248), false))
	if next, some := s.next(); !some || !next.Equal(at(249)) {
		t.Errorf("next = %v, %v; want %v", next.Sub(start), some, at(249).Sub(start))
	}
	wantTold(t, s.take(at(249), false), "modified q")

	for ms := 1000; ms < 2000; ms += 90 { // never at rest
		wantTold(t, s.take(at(ms), false))
		s.note("log", aFile, aFile, at(ms))
	}
	wantTold(t, s.take(at(1999), false))
	wantTold(t, s.take(at(2000), false), "modified log")
	s.note("log", aFile, aFile, at(2010))
	wantTold(t, s.take(at(2010), true), "modified log")
	if _, some := s.next(); some {
		t.Error("something is due in an empty settler")
	}
}

func TestSettlerTellsDeletionsFromBelowAndTheRestFromAbove(t *testing.T) {
	s, now := newSettler(0, 100), time.Now()
	for _, rel := range []string{"old/f", ".", "old", "a"} {
		is := aFile
		if rel == "old" || rel == "." {
			is = aDir
		}
		s.note(rel, is, nothing, now)
	}
	for _, rel := range []string{"new/g", "new", "b"} {
		is := aFile
		if rel == "new" {
			is = aDir
		}
		s.note(rel, nothing, is, now)
	}
	wantTold(t, s.take(now, false),
		"deleted old/f", "deleted old/", "deleted a", "deleted ./", "created b", "created new/", "created new/g")
}

func TestSettlerIsBoundedAndSaysWhenItWasTooMuch(t *testing.T) {
	s, now := newSettler(time.Second, 100), time.Now()
	for i := range 1000 {
		s.note(fmt.Sprint(i), nothing, aFile, now)
		if len(s.paths) > 100 || len(s.queue) > 100 {
			t.Fatalf("%d paths are kept, want at most 100", len(s.paths))
		}
	}
	if !s.lost {
		t.Fatal("it is not lost")
	}
	s.found()
	s.note("p", aFile, aFile, now)
	wantTold(t, s.take(now, false), "overflow ./")
	wantTold(t, s.take(now.Add(time.Second), false), "modified p")
}

func TestSettlerTellsWhatCameAndWentOnRequest(t *testing.T) {
	for passing, want := range map[bool][]string{false: nil, true: {"passed p"}} {
		s := newSettler(time.Second, 10)
		s.passing = passing
		now := time.Now()
		s.note("p", nothing, aFile, now)
		s.note("p", aFile, nothing, now)
		wantTold(t, s.take(now, true), want...)
	}
}
