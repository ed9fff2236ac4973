package cli

import (
	"testing"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

func TestSinceIsADurationOrADate(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"1h": now.Add(-time.Hour), "90m": now.Add(-90 * time.Minute), "2d": time.Date(2026, 3, 8, 12, 0, 0, 0, time.Local), "0s": now,
		"2026-01-31":           time.Date(2026, 1, 31, 0, 0, 0, 0, time.Local),
		"2026-01-31 15:04":     time.Date(2026, 1, 31, 15, 4, 0, 0, time.Local),
		"2026-01-31T15:04:05":  time.Date(2026, 1, 31, 15, 4, 5, 0, time.Local),
		"2026-01-31T15:04:05Z": time.Date(2026, 1, 31, 15, 4, 5, 0, time.UTC),
	} {
		if got, err := parseSince(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: got %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "yesterday", "-1h", "-2d", "d", "31.1.2026"} {
		if got, err := parseSince(text, now); err == nil {
			t.Errorf("%s: got %v, want an error", text, got)
		}
	}
}

func TestWhatACallWasAboutIsOneLine(t *testing.T) {
	bytes, entries, exit := int64(12), 3, 1
	for want, f := range map[string]tool.Facts{
		"/a → /b, 12 bytes": {Path: "/a", To: "/b", Bytes: &bytes},
		"/d, 3 entries":     {Path: "/d", Entries: &entries},
		"make test, job_1, exit 1, timed out, rule: r": {Command: "make test", Cwd: "/x", Jobs: []string{"job_1"}, ExitCode: &exit, TimedOut: true, Rule: "r"},
		"ll -a, dry run": {Alias: "ll", Args: "-a", DryRun: true},
		"1 2 3 5 FILE_NOT_FOUND 6 contention and 1 more": {Items: []tool.Facts{{Path: "1"}, {Path: "2"}, {Path: "3"}, {Path: "4"}, {Path: "5", Code: "FILE_NOT_FOUND"}, {Path: "6", Outcome: tool.Contention}}},
		"crud.max_timeout": {Settings: []string{"crud.max_timeout"}},
		"argument: path":   {Field: "path"},
		"/a, merged":       {Path: "/a", Merged: true},
		"":                 {},
	} {
		if got := auditWhat(&f); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestNothingShownMakesATerminalAct(t *testing.T) {
	if got, want := plain("a\x1b[31m\nü\u202e\x00b"), `a\x1b[31m\nü\u202e\x00b`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
