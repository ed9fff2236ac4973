package app

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// logs is where the process writes down what it does: JSON lines in a rotated
// file, and readable text on the terminal of the person who started it.
type logs struct {
	level  slog.LevelVar
	logger *slog.Logger
	file   io.Closer
}

// newLogs opens nothing yet: the file is created by the first line. terminal
// may be nil.
func newLogs(file string, terminal io.Writer) *logs {
	l := &logs{}
	var handlers []slog.Handler
	if file != "" {
		f := fsys.NewRotatingFile(file)
		l.file = f
		handlers = append(handlers, slog.NewJSONHandler(f, &slog.HandlerOptions{Level: &l.level}))
	}
	if terminal != nil {
		handlers = append(handlers, slog.NewTextHandler(terminal, &slog.HandlerOptions{Level: &l.level, ReplaceAttr: shortTime}))
	}
	l.logger = slog.New(slog.NewMultiHandler(handlers...))
	return l
}

// setLevel takes the words of daemon.log_level.
func (l *logs) setLevel(name string) {
	switch strings.ToUpper(name) {
	case "DEBUG":
		l.level.Set(slog.LevelDebug)
	case "WARN", "WARNING":
		l.level.Set(slog.LevelWarn)
	case "ERROR":
		l.level.Set(slog.LevelError)
	default:
		l.level.Set(slog.LevelInfo)
	}
}

func (l *logs) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// shortTime shows the time of day only: a person at a terminal knows the date.
func shortTime(groups []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey && len(groups) == 0 {
		a.Value = slog.StringValue(a.Value.Time().Format("15:04:05"))
	}
	return a
}

// lateHandler is for a part that is made before the log, whose place depends on
// it. What is said before the log exists is dropped.
type lateHandler struct {
	to atomic.Pointer[slog.Logger]
}

func (h *lateHandler) handler() slog.Handler {
	if l := h.to.Load(); l != nil {
		return l.Handler()
	}
	return slog.DiscardHandler
}

func (h *lateHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.handler().Enabled(ctx, level)
}

func (h *lateHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.handler().Handle(ctx, r)
}

func (h *lateHandler) WithAttrs(attrs []slog.Attr) slog.Handler { return h.handler().WithAttrs(attrs) }

func (h *lateHandler) WithGroup(name string) slog.Handler { return h.handler().WithGroup(name) }
