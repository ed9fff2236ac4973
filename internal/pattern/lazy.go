package pattern

import (
	"regexp"
	"sync"
)

// Lazily returns a function that compiles an expression, which must be a right
// one, when it is first called: a program that never asks does not pay for it.
func Lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
