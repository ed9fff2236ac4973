package linematch

import (
	"errors"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/pattern"
)

// parse reads expr the way the standard engine does, as it is meant within one
// line: no part of it matches a line feed any more.
func parse(expr string, fold bool) (*syntax.Regexp, error) {
	flags := syntax.Perl
	if fold {
		flags |= syntax.FoldCase
	}
	re, err := syntax.Parse(expr, flags)
	if err != nil {
		return nil, err
	}
	re, fed := withinLine(re)
	if re.Op == syntax.OpNoMatch && fed {
		return nil, errNeedsLineFeed
	}
	return re.Simplify(), nil
}

var errNeedsLineFeed = errors.New("it needs a line feed")

func needsLineFeed(expr string) *pattern.SyntaxError {
	return &pattern.SyntaxError{
		Expr:   expr,
		Offset: max(0, strings.Index(expr, `\n`), strings.IndexByte(expr, '\n')),
		Reason: "it matches only across lines, and lines are searched one at a time",
		Advice: "search for one of the lines, and ask for lines of context",
	}
}

var nothing = &syntax.Regexp{Op: syntax.OpNoMatch}

// withinLine takes the line feed out of re, and reports whether something asked
// for one by name. What cannot match then is gone; a whole that cannot is
// OpNoMatch. It changes re.
func withinLine(re *syntax.Regexp) (in *syntax.Regexp, fed bool) {
	for i, sub := range re.Sub {
		var f bool
		re.Sub[i], f = withinLine(sub)
		fed = fed || f
	}
	switch re.Op {
	case syntax.OpLiteral:
		if slices.Contains(re.Rune, '\n') {
			return nothing, true
		}
	case syntax.OpCharClass:
		named := len(re.Rune) == 2 && re.Rune[0] == '\n' && re.Rune[1] == '\n'
		re.Rune = without(re.Rune, '\n')
		if len(re.Rune) == 0 {
			return nothing, named
		}
	case syntax.OpCapture, syntax.OpPlus:
		if re.Sub[0].Op == syntax.OpNoMatch {
			return nothing, fed
		}
	case syntax.OpStar, syntax.OpQuest:
		if re.Sub[0].Op == syntax.OpNoMatch {
			return &syntax.Regexp{Op: syntax.OpEmptyMatch}, fed
		}
	case syntax.OpRepeat:
		if re.Sub[0].Op == syntax.OpNoMatch {
			if re.Min == 0 {
				return &syntax.Regexp{Op: syntax.OpEmptyMatch}, fed
			}
			return nothing, fed
		}
	case syntax.OpConcat:
		if slices.ContainsFunc(re.Sub, never) {
			return nothing, fed
		}
	case syntax.OpAlternate:
		re.Sub = slices.DeleteFunc(re.Sub, never)
		if len(re.Sub) == 0 {
			return nothing, fed
		}
	default: // the automaton never reads a line feed
	}
	return re, fed
}

func never(re *syntax.Regexp) bool { return re.Op == syntax.OpNoMatch }

// without returns the ranges of a class without r.
func without(ranges []rune, r rune) []rune {
	var kept []rune
	for i := 0; i < len(ranges); i += 2 {
		lo, hi := ranges[i], ranges[i+1]
		if r < lo || r > hi {
			kept = append(kept, lo, hi)
			continue
		}
		if lo < r {
			kept = append(kept, lo, r-1)
		}
		if r < hi {
			kept = append(kept, r+1, hi)
		}
	}
	return kept
}
