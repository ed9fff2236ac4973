package diff

import (
	"bytes"
	"strconv"
)

// Unified returns the diff in the unified format that diff -u and git print and
// that patch and git apply read, with up to context unchanged lines around the
// changes. It is empty when the texts are equal.
func (d *Diff) Unified(oldName, newName string, context int) string {
	if len(d.hunks) == 0 {
		return ""
	}
	context = max(context, 0)
	out := []byte("--- " + oldName + "\n+++ " + newName + "\n")
	for first := 0; first < len(d.hunks); {
		last := first
		for last+1 < len(d.hunks) && d.hunks[last+1].Old.Line-d.hunks[last].Old.LineEnd <= 2*context {
			last++
		}
		out = d.appendGroup(out, d.hunks[first:last+1], context)
		first = last + 1
	}
	return string(out)
}

// appendGroup writes hunks that are so close that their context meets.
func (d *Diff) appendGroup(out []byte, hunks []Hunk, context int) []byte {
	first, last := hunks[0], hunks[len(hunks)-1]
	before := lastLines(d.old[:first.Old.Byte], context)
	after := firstLines(d.old[last.Old.ByteEnd:], context)
	lead, trail := countLines(before), countLines(after)
	out = append(out, "@@ -"...)
	out = appendRange(out, first.Old.Line-lead, last.Old.LineEnd+trail)
	out = append(out, " +"...)
	out = appendRange(out, first.New.Line-lead, last.New.LineEnd+trail)
	out = append(out, " @@\n"...)
	out = appendLines(out, ' ', before)
	for i, h := range hunks {
		if i > 0 {
			out = appendLines(out, ' ', d.old[hunks[i-1].Old.ByteEnd:h.Old.Byte])
		}
		out = appendLines(out, '-', h.Old.Of(d.old))
		out = appendLines(out, '+', h.New.Of(d.new))
	}
	return appendLines(out, ' ', after)
}

// appendRange writes the lines from to to of one text as a header names them: the
// first one and how many, or the one before when there are none.
func appendRange(out []byte, from, to int) []byte {
	if from == to {
		return append(strconv.AppendInt(out, int64(from), 10), ",0"...)
	}
	out = strconv.AppendInt(out, int64(from+1), 10)
	if to-from > 1 {
		out = strconv.AppendInt(append(out, ','), int64(to-from), 10)
	}
	return out
}

func appendLines(out []byte, mark byte, text []byte) []byte {
	for line := range bytes.Lines(text) {
		out = append(append(out, mark), line...)
		if line[len(line)-1] != '\n' {
			out = append(out, "\n\\ No newline at end of file\n"...)
		}
	}
	return out
}
