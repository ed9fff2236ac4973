//go:build failpoint

package commit

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// Failpoint kills this process, as a crash would, when it comes for the n-th time
// to the step that ACM_FAILPOINT names: "replace.exchange" or "replace.exchange:3".
var Failpoint = func() func(string) error {
	where, count, _ := strings.Cut(os.Getenv("ACM_FAILPOINT"), ":")
	if where == "" {
		return nil
	}
	left := new(atomic.Int64)
	left.Store(1)
	if n, err := strconv.ParseInt(count, 10, 64); err == nil {
		left.Store(n)
	}
	return func(step string) error {
		if step == where && left.Add(-1) == 0 {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Kill()
			}
			select {} // killed any moment now
		}
		return nil
	}
}()
