package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// terminal is where a command talks to its person.
type terminal struct {
	in       io.Reader
	out, err io.Writer
}

// The colours in use, by meaning.
const (
	bold   = "1"
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// isTerminal reports whether w is a terminal that wants colours.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func colours(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w)
}

// paint wraps s in a colour when w shows colours.
func paint(w io.Writer, colour, s string) string {
	if !colours(w) {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

// say prints a line for the person without touching standard output, which may
// belong to a protocol or a pipe.
func (t *terminal) say(format string, args ...any) {
	_, _ = fmt.Fprintf(t.err, format+"\n", args...)
}

// print writes the result of a command.
func (t *terminal) print(format string, args ...any) {
	_, _ = fmt.Fprintf(t.out, format, args...)
}

func (t *terminal) warn(format string, args ...any) {
	t.say("%s %s", paint(t.err, yellow, "warning:"), fmt.Sprintf(format, args...))
}

func (t *terminal) failed(f *failure) {
	t.say("%s %s", paint(t.err, red, "error:"), f.err)
	if f.next != "" {
		t.say("%s %s", paint(t.err, cyan, "next:"), f.next)
	}
}

// printJSON writes v as indented JSON; on a terminal the keys stand out.
func (t *terminal) printJSON(v any) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	text := b.String()
	if colours(t.out) {
		text = colourKeys(text)
	}
	_, err := io.WriteString(t.out, text)
	return err
}

// colourKeys paints the keys of indented JSON, which stand first on their line.
func colourKeys(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		key := strings.TrimLeft(line, " ")
		if !strings.HasPrefix(key, `"`) {
			continue
		}
		if end := strings.Index(key, `": `); end > 0 {
			indent := line[:len(line)-len(key)]
			lines[i] = indent + "\x1b[" + cyan + "m" + key[:end+1] + "\x1b[0m" + key[end+1:]
		}
	}
	return strings.Join(lines, "")
}
