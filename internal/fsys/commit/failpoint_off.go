//go:build !failpoint

package commit

// Failpoint is called before each step. Only tests set it, before anything else.
var Failpoint func(step string) error
