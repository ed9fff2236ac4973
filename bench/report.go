package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// The goals.
const (
	startGoal = 15 * time.Millisecond
	ratioGoal = 1.25
	idleGoal  = 25 << 20
	listGoal  = 12 << 10 // of what a model reads
)

// results is everything that was measured.
type results struct {
	effort effort
	server bool // starts, list and loads were measured
	starts pair
	list   listing
	loads  []load
	files  *fileResults   // nil: not measured
	shell  *shellResults  // nil: not measured
	search *searchResults // nil: not measured
}

// markdown renders the results.
func (r *results) markdown() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Results")
	line("")
	line("Written by `go run ./bench`, which builds everything anew, runs it on the standard streams of this machine and takes turns between the sides, so that other work on it slows all of them down. *bare* is the least the same SDK needs to serve one raw tool that gives the same answer, built with the same flags. Read the ratios: the absolute figures belong to the machine, %d cores, %s/%s, %s.", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	if r.server {
		r.writeServer(line)
	}
	if r.files != nil {
		r.files.write(line)
	}
	if r.shell != nil {
		r.shell.write(line)
	}
	if r.search != nil {
		r.search.write(line)
	}
	return b.String()
}

func (r *results) writeServer(line func(format string, args ...any)) {
	line("")
	line("## Start")
	line("")
	line("From the start of the process to the answer of `tools/list`, standalone on stdio, with the handshake as hosts do it. Median of %d.", len(r.starts.ours.times))
	line("")
	line("| | ours | bare | ratio | goal |")
	line("|---|---:|---:|---:|---|")
	line("| spawn → tools/list | %s | %s | %s | %s |", ms(r.starts.ours.median()), ms(r.starts.bare.median()),
		ratio(r.starts.ours.median(), r.starts.bare.median()), verdict(r.starts.ours.median() <= startGoal, "≤ %s", ms(startGoal)))
	line("")
	line("## Calls")
	line("")
	line("A tool that returns its text, one call after the other from a client that hardly looks at the answers, %d rounds in turn. Goal: the median at most %.2f times that of the bare server. CPU is what the server's threads used for a call. *thin* is the bare server when it leaves the structured half of the answer out, which ours may not: it is here to show what that half costs.", r.effort.rounds, ratioGoal)
	line("")
	line("| transport | text | median ours | bare | thin | ours / bare | ours / thin | p99 ours | bare | CPU ours | bare | ours / bare | goal |")
	line("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|")
	for _, l := range r.loads {
		reached := float64(l.ours.median()) <= ratioGoal*float64(l.bare.median())
		line("| %s | %s | %s | %s | %s | **%s** | %s | %s | %s | %s | %s | %s | %s |", l.way, l.size,
			ms(l.ours.median()), ms(l.bare.median()), ms(l.thin.median()),
			ratio(l.ours.median(), l.bare.median()), ratio(l.ours.median(), l.thin.median()),
			ms(l.ours.quantile(0.99)), ms(l.bare.quantile(0.99)),
			ms(l.ours.cpuPerCall()), ms(l.bare.cpuPerCall()), ratio(l.ours.cpuPerCall(), l.bare.cpuPerCall()),
			verdict(reached, "≤ %.2f×", ratioGoal))
	}
	line("")
	line("## Memory")
	line("")
	line("Resident set, in brackets the part that is not file-backed.")
	line("")
	line("| | ours | bare | goal |")
	line("|---|---:|---:|---|")
	line("| idle, after tools/list | %s | %s | %s |", r.list.idle.ours.idle, r.list.idle.bare.idle,
		verdict(r.list.idle.ours.idle.resident <= idleGoal, "≤ %d MiB", idleGoal>>20))
	for _, l := range r.loads {
		line("| after the calls of %s over %s | %s | %s | |", l.size, l.way, l.ours.loaded, l.bare.loaded)
	}
	line("")
	line("## Catalog")
	line("")
	line("| | ours | goal |")
	line("|---|---:|---|")
	line("| tools | %d | |", r.list.tools)
	line("| tools/list, bytes | %d | |", r.list.bytes)
	line("| names, texts and input schemas, bytes | %d | %s |", r.list.agent, verdict(r.list.agent <= listGoal, "≤ %d", listGoal))
}

func ms(d time.Duration) string {
	return fmt.Sprintf("%.3g ms", float64(d)/float64(time.Millisecond))
}

func ratio(ours, bare time.Duration) string {
	if bare == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f×", float64(ours)/float64(bare))
}

func (m memory) String() string {
	if m.resident == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f MiB (%.1f)", float64(m.resident)/(1<<20), float64(m.anonymous)/(1<<20))
}

func verdict(reached bool, format string, args ...any) string {
	word := "missed"
	if reached {
		word = "reached"
	}
	return fmt.Sprintf(format, args...) + ", " + word
}
