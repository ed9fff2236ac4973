package audit

import (
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

func TestTheRecordOfAliasesHasTheirCallsAlone(t *testing.T) {
	l := newLog(t, func(o *Options) { o.Line = AliasLine })
	code := 3
	call(l, "async_read", tool.Facts{Outcome: "ok", Path: "x"})
	call(l, "alias_exec", tool.Facts{Outcome: "ok", Alias: "deploy", Args: "--token hunter2 -v", Cwd: "/home/x", ExitCode: &code, TimedOut: true})
	call(l, "alias_exec", tool.Facts{Outcome: "error", Code: fault.AliasUnsafe, Alias: "ll", DryRun: true})
	flush(t, l)
	want := []string{
		`{"timestamp":"2026-01-02T03:04:05.000006Z","alias":"deploy","args":"--token [redacted] -v","cwd":"/home/x","exitCode":3,"timedOut":true,"dryRun":false,"outcome":"ok"}`,
		`{"timestamp":"2026-01-02T03:04:05.000006Z","alias":"ll","args":"","cwd":"","exitCode":null,"timedOut":false,"dryRun":true,"outcome":"error","code":"ALIAS_UNSAFE"}`,
	}
	got := lines(t, l.File())
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
