package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/audit"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

func auditCommand(t *terminal, f *flags) *cobra.Command {
	var since, name, caller string
	var denied, follow, asJSON bool
	cmd := &cobra.Command{
		Use: "audit", Short: "Show who called what, and what was refused", GroupID: "look", Args: cobra.NoArgs,
		Long: "Show the record of calls, the oldest first: every call and refusal of every tool, with its caller, its\n" +
			"outcome and what it was about. Contents of files are not in it, and secrets in commands are redacted.",
		Example: "  " + app.Name + " audit --since 1h --denied\n" +
			"  " + app.Name + " audit --tool async_write --caller planner\n" +
			"  " + app.Name + " audit --follow --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter := audit.Filter{Tool: name, Caller: caller, Denied: denied}
			if since != "" {
				var err error
				if filter.Since, err = parseSince(since, time.Now()); err != nil {
					return &failure{code: exitUsage, err: err, next: "give a duration such as 90m or 2d, or a date such as 2026-01-31 or 2026-01-31T15:04"}
				}
			}
			a, err := f.load(cmd, t, "call")
			if err != nil {
				return err
			}
			defer a.Close()
			if known := a.AllTools().Lookup(name); known != nil {
				filter.Tool = known.Name // in any spelling
			}
			return showAudit(cmd, t, a.AuditFile(), filter, follow, asJSON)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&since, "since", "", "only calls from then on: a `time` ago such as 1h, or a date")
	fl.StringVar(&name, "tool", "", "only calls of this tool")
	fl.StringVar(&caller, "caller", "", "only calls whose client, agent, session or thread has this in its name")
	fl.BoolVar(&denied, "denied", false, "only what was refused")
	fl.BoolVar(&follow, "follow", false, "go on with calls as they come, until interrupted")
	fl.BoolVar(&asJSON, "json", false, "print the records as they are, one JSON object per line")
	f.registerSettings(cmd)
	return cmd
}

func showAudit(cmd *cobra.Command, t *terminal, path string, filter audit.Filter, follow, asJSON bool) error {
	shown := 0
	show := func(r *audit.Record, line []byte) error {
		shown++
		var err error
		switch {
		case asJSON:
			_, err = fmt.Fprintf(t.out, "%s\n", line)
		case shown == 1:
			header := auditRow(t, "", "WHEN", "TOOL", "OUTCOME", "TOOK", "CALLER", "WHAT")
			_, err = fmt.Fprintf(t.out, "%s\n%s\n", paint(t.out, bold, header), auditLine(t, r))
		default:
			_, err = fmt.Fprintln(t.out, auditLine(t, r))
		}
		return err
	}
	if follow {
		return audit.Follow(cmd.Context(), path, filter, show)
	}
	if err := audit.Read(cmd.Context(), path, filter, show); err != nil {
		return err
	}
	if shown > 0 || asJSON {
		return nil
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.say("no call has been recorded in %s yet", path)
	} else {
		t.say("no call in %s fits", path)
	}
	return nil
}

// parseSince reads a duration before now, in which days count too, or a date in
// local time.
func parseSince(s string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return at, nil
	}
	for _, layout := range []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
		if at, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is neither a duration nor a date", s)
}

// auditRow puts columns of one width for the whole list, which may have no end,
// next to each other; outcome is painted.
func auditRow(t *terminal, colour, when, name, outcome, took, caller, what string) string {
	outcome = fmt.Sprintf("%-18s", outcome)
	if colour != "" {
		outcome = paint(t.out, colour, outcome)
	}
	return strings.TrimRight(fmt.Sprintf("%-19s  %-21s  %s  %9s  %-24s  %s", when, name, outcome, took, caller, what), " ")
}

// auditLine shows a record on one line. What callers sent is made harmless for a
// terminal first.
func auditLine(t *terminal, r *audit.Record) string {
	when := r.Time.Local().Format("2006-01-02 15:04:05")
	if r.Event != "" {
		return when + "  " + paint(t.out, red, auditEvent(r))
	}
	outcome := r.Outcome
	if r.Code != "" {
		outcome = string(r.Code)
	}
	colour := green
	switch {
	case r.Refused():
		colour = red
	case r.Outcome == tool.Contention || r.Outcome == tool.Error:
		colour = yellow
	}
	took := time.Duration(r.DurationMS * float64(time.Millisecond)).Round(10 * time.Microsecond).String()
	return auditRow(t, colour, when, plain(r.Tool), plain(outcome), took, plain(auditCaller(r.Caller)), plain(auditWhat(&r.Facts)))
}

func auditEvent(r *audit.Record) string {
	switch r.Event {
	case audit.EventGap:
		return fmt.Sprintf("%d calls could not be recorded", r.Lost)
	case audit.EventTorn:
		return fmt.Sprintf("a record of %d bytes was cut off by a crash", r.Lost)
	default:
		return plain(r.Event)
	}
}

func auditCaller(c *audit.Caller) string {
	if c == nil {
		return ""
	}
	s := c.Client
	if c.Agent != "" {
		s += " (" + c.Agent + ")"
	}
	return s
}

// auditWhat says what a call was about: the most telling facts first.
func auditWhat(f *tool.Facts) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch {
	case f.Command != "":
		add("%s", f.Command)
	case f.Alias != "":
		add("%s", strings.TrimSpace(f.Alias+" "+f.Args))
	case f.Path != "" && f.To != "":
		add("%s → %s", f.Path, f.To)
	case f.Path != "":
		add("%s", f.Path)
	}
	if len(f.Items) > 0 {
		add("%s", auditItems(f.Items))
	}
	if len(f.Settings) > 0 {
		add("%s", strings.Join(f.Settings, " "))
	}
	if f.Bytes != nil {
		add("%d bytes", *f.Bytes)
	}
	if f.Entries != nil {
		add("%d entries", *f.Entries)
	}
	if f.Merged {
		add("merged")
	}
	if len(f.Jobs) > 0 {
		add("%s", strings.Join(f.Jobs, " "))
	}
	if f.ExitCode != nil {
		add("exit %d", *f.ExitCode)
	}
	if f.TimedOut {
		add("timed out")
	}
	if f.DryRun {
		add("dry run")
	}
	if f.Rule != "" {
		add("rule: %s", f.Rule)
	}
	if f.Field != "" {
		add("argument: %s", f.Field)
	}
	return strings.Join(parts, ", ")
}

// auditItems names the first files of a batch, and those that did not go well.
func auditItems(items []tool.Facts) string {
	var names []string
	for i, f := range items {
		switch {
		case f.Code != "":
			names = append(names, f.Path+" "+string(f.Code))
		case f.Outcome == tool.Contention:
			names = append(names, f.Path+" contention")
		case i < 3:
			names = append(names, f.Path)
		}
	}
	s := strings.Join(names, " ")
	if n := len(items) - len(names); n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}

// plain makes s one line without anything that a terminal acts on.
func plain(s string) string {
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
