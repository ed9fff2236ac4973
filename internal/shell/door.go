package shell

import (
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/policy"
)

// Door is a way in which clients ask for commands. Doors differ in defaults and
// in how they answer; the engine behind them is one.
type Door uint8

// The doors.
const (
	Exec    Door = iota // async_exec
	Shell               // shell
	Command             // exec
	Alias               // alias_exec: judged by its own rules
)

// commandTimeout is the default of the exec tool.
const commandTimeout = 300 * time.Second

// shortest is the least time a command is given.
const shortest = 100 * time.Millisecond

// timeout settles how long a command may take; 0 is for ever. clamped says that
// the caller asked for more or less than may be.
func (r Request) timeout(scope *Scope) (limit time.Duration, clamped bool) {
	if r.Timeout != nil {
		limit = min(max(*r.Timeout, shortest), scope.MaxTimeout)
		return limit, limit != *r.Timeout
	}
	switch {
	case r.Door == Shell:
		return min(scope.ShellTimeout, scope.MaxTimeout), false
	case r.Door == Command:
		return min(commandTimeout, scope.MaxTimeout), false
	case r.Background:
		return 0, false
	default:
		return scope.Timeout, false
	}
}

// wait settles after which time a foreground command is handed over; 0: never.
func (r Request) wait(scope *Scope) time.Duration {
	if r.Door != Exec {
		return 0
	}
	if r.Wait != nil {
		return *r.Wait
	}
	return scope.Foreground
}

// dirCodes are the codes for a working directory outside, and for a missing one.
func (d Door) dirCodes() (outside, missing fault.Code) {
	if d == Shell {
		return fault.WorkingDirEscape, fault.WorkingDirNotFound
	}
	return fault.PathOutsideBase, fault.DirNotFound
}

// judge asks the rules about a command. The shell door has some that no setting
// takes away.
func (d Door) judge(rules *policy.Set, command string, dialect policy.Dialect) policy.Decision {
	if d == Shell {
		if blocked := policy.Blocked(command); blocked.Denied {
			return blocked
		}
	}
	return rules.Script(command, dialect)
}
