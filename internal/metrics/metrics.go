// Package metrics counts what the server does and shows the counts to a
// Prometheus scraper. It is a [tool.Observer]; nothing else calls into it.
//
// Metrics is safe for concurrent use. It keeps no argument, path or content:
// labels are tool names, statuses and error codes only, so their number is
// bounded.
package metrics

import (
	"context"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// Options are the facts that are read at scrape time.
type Options struct {
	Version  string
	Sessions func() int // open client sessions; nil: not shown
}

// Metrics counts tool calls.
type Metrics struct {
	opts    Options
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	aliases aliasCounters
}

// aliasCounters count calls of aliases, of all of them together.
type aliasCounters struct{ calls, denials, timeouts, errors prometheus.Counter }

func newAliasCounters() aliasCounters {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "alias_" + name + "_total", Help: help})
	}
	return aliasCounters{
		calls:    counter("calls", "Calls of aliases, dry runs included."),
		denials:  counter("denials", "Calls of aliases that rules or a missing confirmation refused."),
		timeouts: counter("timeouts", "Aliases that were ended because they took too long."),
		errors:   counter("errors", "Calls of aliases that failed for another reason."),
	}
}

// called counts a call of an alias.
func (c aliasCounters) called(o tool.Observation) {
	c.calls.Inc()
	switch {
	case o.Facts.TimedOut:
		c.timeouts.Inc()
	case !o.Result.IsError:
	case o.Result.Code == fault.AliasUnsafe, o.Result.Code == fault.ConfirmationRequired, o.Result.Code == fault.PathOutsideBase:
		c.denials.Inc()
	default:
		c.errors.Inc()
	}
}

const namespace = "async_crud_mcp"

// New returns metrics with everything at zero.
func New(opts Options) *Metrics {
	return &Metrics{
		opts: opts,
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "tool_calls_total",
			Help: "Finished tool calls by tool, status and error code.",
		}, []string{"tool", "status", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "tool_call_seconds",
			Help:    "Duration of tool calls.",
			Buckets: []float64{.0001, .001, .01, .1, 1, 10, 100},
		}, []string{"tool"}),
		aliases: newAliasCounters(),
	}
}

// ToolCalled counts one finished call.
func (m *Metrics) ToolCalled(_ context.Context, o tool.Observation) {
	name := o.Tool.Name
	if strings.HasPrefix(name, aliasTools) {
		name = aliasTools + "any" // files of aliases may change without end
	}
	m.calls.WithLabelValues(name, o.Result.Status, string(o.Result.Code)).Inc()
	m.seconds.WithLabelValues(name).Observe(o.Took.Seconds())
	if o.Facts.Alias != "" {
		m.aliases.called(o)
	}
}

// aliasTools begins the names of tools that are one alias each.
const aliasTools = "alias_run_"

// Handler shows the counts in the Prometheus text format. What it needs is made
// for the first scrape: most servers are never scraped.
func (m *Metrics) Handler() http.Handler {
	made := sync.OnceValue(func() http.Handler { return promhttp.HandlerFor(m.registry(), promhttp.HandlerOpts{}) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { made().ServeHTTP(w, r) })
}

func (m *Metrics) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(m.calls, m.seconds, m.aliases.calls, m.aliases.denials, m.aliases.timeouts, m.aliases.errors,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: namespace, Name: "build_info", Help: "Always 1; the labels say what runs.",
			ConstLabels: prometheus.Labels{"version": m.opts.Version, "go": goVersion()},
		}, func() float64 { return 1 }))
	if m.opts.Sessions != nil {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: namespace, Name: "sessions", Help: "Open client sessions.",
		}, func() float64 { return float64(m.opts.Sessions()) }))
	}
	return r
}

func goVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.GoVersion
	}
	return "unknown"
}
