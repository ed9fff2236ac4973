//go:build !linux

package confine

import "os"

// become says that there is no helper here: seatbelt has its own program, and
// Windows has no sandbox of ours.
func become([]string) {
	_, _ = os.Stderr.WriteString(Prefix + "no helper on this system\n")
	os.Exit(ExitFailed)
}
