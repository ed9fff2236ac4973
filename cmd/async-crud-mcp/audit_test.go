package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Several hosts start a server each, all share one record, and one is killed: a
// follower and a later reader see every call that was answered by the others, as
// whole lines.
func TestOneRecordForManyServersSurvivesAKill(t *testing.T) {
	home := t.TempDir()
	follower := begin(t, home, "audit", "--follow", "--json")
	const servers, calls = 3, 60
	var all sync.WaitGroup
	for s := range servers + 1 {
		p := begin(t, home, "stdio", "--standalone", "--root", t.TempDir(), "--exclude-tools", "async_delete", "--set", "audit.max_size_mb=1", "--set", "crud.durability=rename")
		p.initialize()
		all.Go(func() {
			agent := fmt.Sprintf("agent%d", s)
			for i := range calls {
				name, path := "async_write", fmt.Sprintf("%d.txt", i)
				if i%10 == 0 {
					name, path = "async_delete", "x" // not on offer
				}
				p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"path":%q,"content":"hunter2"},"_meta":{"async-crud-mcp/agent":%q}}}`, i+10, name, path, agent))
				if s == servers && i == calls/2 {
					_ = p.cmd.Process.Kill()
					return
				}
			}
			for range calls {
				p.receive(func(m map[string]any) bool { return m["id"] != nil })
			}
			_ = p.in.Close()
			p.ends()
		})
	}
	all.Wait()

	type record struct {
		Tool, Outcome, Rule, Path, Event string
		Caller                           struct{ Agent, Client, Transport string }
	}
	count := func(next func() (string, bool)) map[string]int {
		seen := map[string]int{}
		for agents := 0; agents < servers*calls; {
			line, ok := next()
			if !ok {
				break
			}
			var r record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("not a record: %q", line)
			}
			if r.Caller.Agent != fmt.Sprintf("agent%d", servers) && r.Event == "" {
				agents++
			}
			seen[r.Caller.Agent+" "+r.Tool+" "+r.Outcome+" "+r.Rule]++
		}
		return seen
	}
	check := func(who string, seen map[string]int) {
		for s := range servers {
			refused := fmt.Sprintf("agent%d async_delete denied not on offer", s)
			done := fmt.Sprintf("agent%d async_write ok ", s)
			if seen[refused] != calls/10 || seen[done] != calls-calls/10 {
				t.Errorf("%s: server %d has %d refusals and %d writes; all: %v", who, s, seen[refused], seen[done], seen)
			}
		}
	}
	check("follower", count(func() (string, bool) {
		ok := follower.out.Scan()
		return follower.out.Text(), ok
	}))
	reader := begin(t, home, "audit", "--json")
	check("reader", count(func() (string, bool) {
		ok := reader.out.Scan()
		return reader.out.Text(), ok
	}))
	if raw, _ := os.ReadFile(filepath.Join(home, "audit.jsonl")); len(raw) == 0 || raw[len(raw)-1] != '\n' {
		t.Errorf("the record does not end with a whole line")
	}
}
