package linematch

import (
	"errors"
	"strings"
)

// weaken returns a pattern for the linear engine that matches wherever expr does,
// and more often: what looks around is taken to be fulfilled, and what refers
// back to be anything. It gives up on what it does not know.
func weaken(expr string) (string, error) {
	w := weakener{expr: expr}
	w.alternatives()
	if w.lost || w.at != len(expr) {
		return "", errTooStrange
	}
	return w.out.String(), nil
}

var errTooStrange = errors.New("it has parts that are not known here")

type weakener struct {
	expr string
	at   int
	out  strings.Builder
	lost bool
}

const anything = "(?s:.*)"

// alternatives copies up to the parenthesis that closes the group, or the end.
func (w *weakener) alternatives() {
	for w.at < len(w.expr) && !w.lost {
		switch w.expr[w.at] {
		case ')':
			return
		case '(':
			w.group()
		case '[':
			w.class()
		case '\\':
			w.escape()
		default:
			w.copy(1)
		}
	}
}

func (w *weakener) copy(n int) {
	n = min(n, len(w.expr)-w.at)
	w.out.WriteString(w.expr[w.at : w.at+n])
	w.at += n
}

func (w *weakener) has(prefix string) bool { return strings.HasPrefix(w.expr[w.at:], prefix) }

func (w *weakener) group() {
	switch {
	case w.has("(?=") || w.has("(?!"):
		w.around(3)
	case w.has("(?<=") || w.has("(?<!"):
		w.around(4)
	case w.has("(?>"):
		w.at += 3
		w.out.WriteString("(?:")
		w.rest()
	case w.has("(?:"):
		w.copy(3)
		w.rest()
	case w.has("(?P<") || w.has("(?<"):
		end := strings.IndexByte(w.expr[w.at:], '>')
		if end < 0 {
			w.lost = true
			return
		}
		w.at += end + 1
		w.out.WriteByte('(')
		w.rest()
	case w.has("(?"):
		end := strings.IndexAny(w.expr[w.at:], ":)")
		if end < 0 || strings.Trim(w.expr[w.at+2:w.at+end], "ims-") != "" {
			w.lost = true // a condition, a comment, blanks that do not count
			return
		}
		closed := w.expr[w.at+end] == ')'
		w.copy(end + 1)
		if !closed {
			w.rest()
		}
	default:
		w.copy(1)
		w.rest()
	}
}

// rest copies the rest of a group.
func (w *weakener) rest() {
	w.alternatives()
	if w.at >= len(w.expr) {
		w.lost = true
		return
	}
	w.copy(1)
}

// around leaves out a group that looks around.
func (w *weakener) around(n int) {
	w.at += n
	inner := weakener{expr: w.expr, at: w.at}
	inner.rest()
	w.at, w.lost = inner.at, inner.lost
	w.out.WriteString("(?:)")
}

func (w *weakener) class() {
	from := w.at
	w.at++
	for first := true; ; first = false {
		switch {
		case w.at >= len(w.expr):
			w.lost = true
			return
		case w.has("[:"):
			end := strings.Index(w.expr[w.at:], ":]")
			if end < 0 {
				w.lost = true
				return
			}
			w.at += end + 2
		case w.has("\\"):
			w.at += 2
		case first && w.has("^"):
			w.at++
			if w.has("]") {
				w.at++
			}
		case !first && w.has("]") || first && w.has("]") && w.at > from+1:
			w.at++
			w.out.WriteString(w.expr[from:w.at])
			return
		case w.has("-["): // what is taken out of a class
			w.lost = true
			return
		default:
			w.at++
		}
	}
}

func (w *weakener) escape() {
	if w.at+1 >= len(w.expr) {
		w.lost = true
		return
	}
	switch c := w.expr[w.at+1]; {
	case c >= '1' && c <= '9':
		end := w.at + 2
		for end < len(w.expr) && w.expr[end] >= '0' && w.expr[end] <= '9' {
			end++
		}
		w.at = end
		w.out.WriteString(anything)
	case c == 'k' && (w.has(`\k<`) || w.has(`\k{`) || w.has(`\k'`)):
		end := strings.IndexAny(w.expr[w.at+3:], ">}'")
		if end < 0 {
			w.lost = true
			return
		}
		w.at += 3 + end + 1
		w.out.WriteString(anything)
	case c == 'b' || c == 'B': // the engines do not agree on what is a word
		w.at += 2
		w.out.WriteString("(?:)")
	case c == 'p' || c == 'P' || c == 'x' || isLetter(c) && !strings.ContainsRune("AadDfnrsStvwWz", rune(c)):
		w.lost = true // the engines may not agree
	default:
		w.copy(2)
	}
}
