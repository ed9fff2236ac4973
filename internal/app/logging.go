package app

import (
	"io"
	"log/slog"
	"strings"

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
