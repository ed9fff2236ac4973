//go:build !linux

package watch

import "os"

// exchange swaps two names; here with a moment in between.
func exchange(a, b string) {
	_ = os.Rename(a, a+".swap")
	_ = os.Rename(b, a)
	_ = os.Rename(a+".swap", b)
}
