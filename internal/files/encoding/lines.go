package encoding

import "strings"

// Lines. A line ends with a line feed, which belongs to it; a carriage return
// before it is part of the line, and nothing else ends one. What follows the last
// line feed is a line if it is not empty. So "a\nb\n" and "a\nb" have two lines, ""
// has none. Offsets of lines count from 0, as async_read does; numbers of lines in
// messages count from 1.

// CountLines returns how many lines text has.
func CountLines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

// SliceLines returns the lines of text from offset on, as they are, at most limit
// of them (all if limit is negative), and how many they are.
func SliceLines(text string, offset, limit int) (part string, lines int) {
	start := skipLines(text, offset)
	if limit < 0 {
		return text[start:], CountLines(text[start:])
	}
	part = text[start:]
	part = part[:skipLines(part, limit)]
	return part, CountLines(part)
}

// skipLines returns where text goes on after n lines.
func skipLines(text string, n int) int {
	at := 0
	for ; n > 0; n-- {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			return len(text)
		}
		at += i + 1
	}
	return at
}

// LineAt returns the number of the line, counted from 1, in which offset lies.
func LineAt(text string, offset int) int {
	return 1 + strings.Count(text[:min(offset, len(text))], "\n")
}

// Fitted is a replacement in the words of the file.
type Fitted struct {
	Old, New string
	// LineEnds is "crlf" if line feeds were read or written as CR LF, else "".
	LineEnds string
}

// Fit returns the replacement of old with another text in the line ends of text.
//
// Agents write \n, whatever the file has. If old has no carriage return and does
// not occur in text as it is (a \n out of a \r\n does not count), but does if \n may stand for \r\n, then Old is what
// stands there, and New is the other text in the same line ends; lines at its
// beginning and end that old has, too, keep the ends they have. If old occurs as
// it is and has no line end, New gets those of the line where old ends. A carriage
// return in old or in the other text says that the caller minds them: then that
// one is taken literally.
//
// Where old occurs in several places with different line ends, nothing is changed.
func Fit(text, old, with string) Fitted {
	as := Fitted{Old: old, New: with}
	if old == "" || strings.Contains(old, "\r") {
		return as
	}
	if at := whole(text, old); at >= 0 {
		if !strings.Contains(old, "\n") {
			if s := LikeLine(text, at+len(old), with); s != with {
				as.New, as.LineEnds = s, "crlf"
			}
		}
		return as
	}
	found, ok := withEnds(text, old)
	if !ok {
		return as
	}
	as.Old, as.LineEnds = found, "crlf"
	if strings.Contains(with, "\r") {
		return as
	}
	start := commonLines(old, with)
	end := commonEnd(old[start:], with[start:])
	head, tail := grown(found, start), grown(found, len(old)-end)
	middle := with[start : len(with)-end]
	if 2*strings.Count(found, "\r\n") >= strings.Count(found, "\n") {
		middle = strings.ReplaceAll(middle, "\n", "\r\n")
	}
	as.New = found[:head] + middle + found[tail:]
	return as
}

// whole returns where old first occurs in text without beginning inside a \r\n, or
// -1.
func whole(text, old string) int {
	for from := 0; ; {
		i := strings.Index(text[from:], old)
		if i < 0 {
			return -1
		}
		at := from + i
		if old[0] != '\n' || at == 0 || text[at-1] != '\r' {
			return at
		}
		from = at + 1
	}
}

// LikeLine returns s with the line ends of the line of text in which offset lies:
// if that ends in CR LF, and s has no carriage return, each \n becomes \r\n. A last
// line without an end goes by the one before it.
func LikeLine(text string, offset int, s string) string {
	if !strings.Contains(s, "\n") || strings.Contains(s, "\r") {
		return s
	}
	end := strings.IndexByte(text[offset:], '\n')
	if end >= 0 {
		end += offset
	} else {
		end = strings.LastIndexByte(text[:offset], '\n')
	}
	if end < 1 || text[end-1] != '\r' {
		return s
	}
	return strings.ReplaceAll(s, "\n", "\r\n")
}

// withEnds returns what stands in text for old when \n may stand for \r\n, if that
// is the same in every place.
func withEnds(text, old string) (found string, ok bool) {
	if !strings.Contains(old, "\n") || !strings.Contains(text, "\r\n") {
		return "", false
	}
	plain := strings.ReplaceAll(text, "\r\n", "\n")
	at, raw := 0, 0 // the same place in plain and in text
	for {
		i := strings.Index(plain[at:], old)
		if i < 0 {
			return found, ok
		}
		start := raw + grown(text[raw:], i)
		end := start + grown(text[start:], len(old))
		if here := text[start:end]; !ok {
			found, ok = here, true
		} else if here != found {
			return "", false
		}
		at, raw = at+i+len(old), end
	}
}

// grown returns the length in text of its first n bytes, \r\n counted as one.
func grown(text string, n int) int {
	at := 0
	for ; n > 0; n-- {
		if strings.HasPrefix(text[at:], "\r\n") {
			at++
		}
		at++
	}
	return at
}
