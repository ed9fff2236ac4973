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
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

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
	}
}

// ToolCalled counts one finished call.
func (m *Metrics) ToolCalled(_ context.Context, o tool.Observation) {
	m.calls.WithLabelValues(o.Tool.Name, o.Result.Status, string(o.Result.Code)).Inc()
	m.seconds.WithLabelValues(o.Tool.Name).Observe(o.Took.Seconds())
}

// Handler shows the counts in the Prometheus text format. What it needs is made
// for the first scrape: most servers are never scraped.
func (m *Metrics) Handler() http.Handler {
	made := sync.OnceValue(func() http.Handler { return promhttp.HandlerFor(m.registry(), promhttp.HandlerOpts{}) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { made().ServeHTTP(w, r) })
}

func (m *Metrics) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(m.calls, m.seconds,
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
