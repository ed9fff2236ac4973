package main

import (
	"strings"
	"time"
)

// The goals of the file tools that are no ratio.
const (
	holdGoal      = 120 * time.Nanosecond
	hostileGoal   = 2 * time.Second
	duringGoal    = 2.0 // times the idle median
	duringP99     = 10 * time.Millisecond
	loadedGoal    = 40 << 20 // beyond what the history may keep
	historyMemory = 32 << 20
)

func (f *fileResults) write(line func(format string, args ...any)) {
	peers := f.names[1:]
	line("")
	line("## Files")
	line("")
	line("Every server on stdio with one call at a time, all on the same files. The floor is the same work in the client's own process, without a server: a write is a temp file, fsync, rename and fsync of the directory; an edit reads and replaces before that; a listing is `filepath.WalkDir` with `Info`. *bare* does the floor's work behind the protocol. Medians, and the goal for ours against what it is measured against, bold; *fastest tenths* is that ratio where other work on the machine shows least.")
	line("")
	if f.noPeers != nil {
		line("No peers: %s.", strings.Join(strings.Fields(f.noPeers.Error()), " "))
	} else {
		line("Peers: `@modelcontextprotocol/server-filesystem` 2026.8.31 and `@wonderwhy-er/desktop-commander` 0.2.52 (telemetry off) from npm, `mark3labs/mcp-filesystem-server` v0.11.1 from its Go module, each without a network. None of them hashes what it reads or flushes what it writes.")
	}
	line("")
	line("| %s |", strings.Join(append([]string{"", "ours", "p99", "floor", "ours / floor", "bare", "ours / bare", "fastest tenths", "goal"}, peers...), " | "))
	line("|---|---:|---:|---:|---:|---:|---:|---:|---|" + strings.Repeat("---:|", len(peers)))
	for _, r := range f.rows {
		own, base := r.side(ours), r.side(r.against)
		cells := []string{r.name, ms(own.median()), ms(own.quantile(0.99))}
		for _, name := range []string{theFloor, "bare"} {
			side, times := r.side(name), ""
			if side == nil {
				cells = append(cells, "", "")
				continue
			}
			if times = ratio(own.median(), side.median()); name == r.against {
				times = "**" + times + "**"
			}
			cells = append(cells, ms(side.median()), times)
		}
		cells = append(cells, ratio(own.quantile(0.1), base.quantile(0.1)), verdict(float64(own.median()) <= r.goal*float64(base.median()), "≤ %.3g×", r.goal))
		for _, name := range peers {
			cells = append(cells, ms(r.side(name).median()))
		}
		line("| %s |", strings.Join(cells, " | "))
	}
	line("")
	line("A read of 1 KB while a listing of 20,000 files runs on the same connection:")
	line("")
	line("| | alone | during: median | p99 | times | goal |")
	line("|---|---:|---:|---:|---:|---|")
	for _, d := range f.during {
		goal := ""
		if d.name == ours {
			ok := float64(d.during.median()) <= duringGoal*float64(d.idle.median()) && d.during.quantile(0.99) <= duringP99
			goal = verdict(ok, "≤ %.3g×, p99 ≤ %s", duringGoal, ms(duringP99))
		}
		line("| %s | %s | %s | %s | %s | %s |", d.name, ms(d.idle.median()), ms(d.during.median()), ms(d.during.quantile(0.99)), ratio(d.during.median(), d.idle.median()), goal)
	}
	line("")
	line("| | | goal |")
	line("|---|---:|---|")
	line("| uncontended hold | %d ns, %g allocations | %s |", f.hold.took.Nanoseconds(), f.hold.allocs,
		verdict(f.hold.took <= holdGoal && f.hold.allocs == 0, "≤ %d ns, none", holdGoal.Nanoseconds()))
	line("| memory of ours after all of the above | %s | %s |", f.memory, verdict(f.memory.resident <= loadedGoal+historyMemory, "≤ %d MiB and %d MiB of history", loadedGoal>>20, historyMemory>>20))
	line("| 30,000 × 30,000 hostile lines compared | %s | %s |", ms(f.hostile), verdict(f.hostile <= hostileGoal, "≤ %s", ms(hostileGoal)))
	for _, s := range f.sizes {
		line("| %s | %d bytes | %s |", s.name, s.bytes, verdict(s.bytes <= s.goal, "≤ %d", s.goal))
	}
	line("")
	line("### Lost updates")
	line("")
	line("%d agents on one file, each with its own place in it, %d edits each with the server's edit tool and no pause, up to %d tries of an edit that is refused and %d s in all. Ours with `on_contention: \"merge\"`. *Lost* is what the server said it had written and is not in the file.", agents, f.updates[0].edits/agents, tries, int(patience.Seconds()))
	line("")
	line("| server | servers | acknowledged | lost | refused, tried again | given up | other lines gone | text per edit, bytes |")
	line("|---|---|---:|---:|---:|---:|---:|---:|")
	for _, u := range f.updates {
		servers := "one each"
		if u.shared {
			servers = "one for all"
		}
		if u.refused {
			line("| %s | %s | a second one does not start on files that the first one has | | | | | |", u.server, servers)
			continue
		}
		line("| %s | %s | %d of %d | **%d** | %d | %d | %d | %d |", u.server, servers, u.acknowledged, u.edits, u.lost, u.refusals, u.gaveUp, u.spoilt, u.text/max(1, u.acknowledged-u.lost))
	}
}
