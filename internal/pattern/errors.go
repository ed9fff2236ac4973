package pattern

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
)

// SyntaxError says why a pattern or glob does not compile, where, and what to
// write instead.
type SyntaxError struct {
	Expr   string
	Offset int // of the fault, in bytes from the start of Expr
	Reason string
	Advice string
}

func (e *SyntaxError) Error() string {
	shown := e.Expr
	if len(shown) > 200 {
		shown = strings.ToValidUTF8(shown[:200], "") + "…"
	}
	return fmt.Sprintf("pattern %q, at offset %d: %s; %s", shown, e.Offset, e.Reason, e.Advice)
}

func tooLong(expr string, limit int) *SyntaxError {
	return &SyntaxError{expr, limit, fmt.Sprintf("it is longer than %d bytes", limit), "split it into several"}
}

// refusals are the reasons of the linear engine in our words. Those beyond it may
// be understood by the other engine.
var refusals = map[syntax.ErrorCode]struct {
	reason, advice string
	beyond         bool
}{
	syntax.ErrInvalidPerlOp:         {"%s is not a known group", "write ( ) to group, (?: ) without capture, (?= ), (?! ), (?<= ) or (?<! ) to look around", true},
	syntax.ErrInvalidEscape:         {"%s is not a known escape", `write \\ for a backslash`, true},
	syntax.ErrInvalidNamedCapture:   {"%s is not a valid named group", "write (?P<name> ) with letters, digits and _, each name once", false},
	syntax.ErrInvalidRepeatOp:       {"%s repeats what is repeated already", `drop one, escape it with a backslash, or group with (?: )`, true},
	syntax.ErrInvalidRepeatSize:     {"%s repeats too often, or from more to less", "repeat 1000 times at most, {least,most}", true},
	syntax.ErrMissingRepeatArgument: {"%s has nothing to repeat", `put something before it, or escape it with a backslash`, false},
	syntax.ErrMissingBracket:        {"the [ is not closed", `close it with ], or write \[ for the character`, false},
	syntax.ErrMissingParen:          {"the ( is not closed", `close it with ), or write \( for the character`, false},
	syntax.ErrUnexpectedParen:       {"the ) closes nothing", `open it with (, or write \) for the character`, false},
	syntax.ErrTrailingBackslash:     {"a backslash at the end escapes nothing", `write \\ for the character`, false},
	syntax.ErrInvalidCharRange:      {"%s is not a valid range", "write the lower character first", false},
	syntax.ErrInvalidCharClass:      {"%s is not a valid character class", "write [ and ] around characters and ranges", false},
	syntax.ErrInvalidUTF8:           {"it is not valid UTF-8", "write it in UTF-8", false},
	syntax.ErrLarge:                 {"it is too large", "repeat less", false},
	syntax.ErrNestingDepth:          {"its groups are nested too deep", "nest less", false},
}

// explain says why the linear engine refused expr, and whether that may be
// because the pattern is beyond it.
func explain(expr string, err error) (refused *SyntaxError, beyond bool) {
	cause, ok := errors.AsType[*syntax.Error](err)
	known, listed := refusals[codeOf(cause)]
	if !ok || !listed {
		return &SyntaxError{expr, 0, err.Error(), "correct it"}, false
	}
	reason := known.reason
	if strings.Contains(reason, "%s") {
		reason = fmt.Sprintf(reason, cause.Expr)
	}
	beyond = known.beyond || strings.HasPrefix(cause.Expr, "(?<=") || strings.HasPrefix(cause.Expr, "(?<!")
	return &SyntaxError{expr, offset(expr, cause), reason, known.advice}, beyond
}

func codeOf(err *syntax.Error) syntax.ErrorCode {
	if err == nil {
		return ""
	}
	return err.Code
}

// inOther returns e for a pattern that the backtracking engine refuses as well.
// It reads more patterns, so what it complains of is the fault.
func (e *SyntaxError) inOther(err error) *SyntaxError {
	reason := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
	reason, _, _ = strings.Cut(reason, " in `")
	if at := unpaired(e.Expr); at >= 0 {
		code := syntax.ErrMissingParen
		if e.Expr[at] == ')' {
			code = syntax.ErrUnexpectedParen
		}
		return &SyntaxError{e.Expr, at, refusals[code].reason, refusals[code].advice}
	}
	return &SyntaxError{e.Expr, e.Offset, e.Reason + " (" + reason + ")", e.Advice}
}

// offset finds the place of a fault of which the engine gives only the text: the
// shortest beginning of expr with the same fault ends in it.
func offset(expr string, cause *syntax.Error) int {
	if cause.Code == syntax.ErrMissingParen || cause.Code == syntax.ErrUnexpectedParen {
		return max(0, unpaired(expr))
	}
	if cause.Code == syntax.ErrTrailingBackslash {
		return len(expr) - 1
	}
	if len(expr) <= 500 { // each beginning is parsed
		for n := 1; n <= len(expr); n++ {
			_, err := syntax.Parse(expr[:n], syntax.Perl)
			if e, ok := errors.AsType[*syntax.Error](err); ok && e.Code == cause.Code && e.Expr == cause.Expr {
				return max(0, n-len(cause.Expr))
			}
		}
	}
	return max(0, strings.LastIndex(expr, cause.Expr))
}

// strayEscape returns where a letter is escaped that has no meaning then, or -1.
// The backtracking engine takes it for the letter, which hides mistakes.
func strayEscape(expr string) int {
	for i := 0; i+1 < len(expr); i++ {
		if expr[i] != '\\' {
			continue
		}
		c := expr[i+1]
		if (c|0x20 >= 'a' && c|0x20 <= 'z') && !strings.ContainsRune("AabBcdDeEfGknpPQrsStuvwWxzZ", rune(c)) {
			return i
		}
		i++
	}
	return -1
}

// unpaired returns where the first parenthesis without its other half stands, or
// -1.
func unpaired(expr string) int {
	var open []int
	class := false
	for i := 0; i < len(expr); i++ {
		switch c := expr[i]; {
		case c == '\\':
			if strings.HasPrefix(expr[i:], `\Q`) {
				end := strings.Index(expr[i:], `\E`)
				if end < 0 {
					end = len(expr)
				}
				i += end
			}
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
			if rest := strings.TrimPrefix(expr[i+1:], "^"); strings.HasPrefix(rest, "]") {
				i += len(expr[i+1:]) - len(rest) + 1 // a ] that comes first is a member
			}
		case c == '(':
			open = append(open, i)
		case c == ')':
			if len(open) == 0 {
				return i
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		return open[len(open)-1]
	}
	return -1
}
