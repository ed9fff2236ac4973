package commit

import (
	"strconv"
	"strings"
)

// Process names this process so that others can tell when it is gone.
func Process() string {
	me := self()
	return me.host + "-" + strconv.Itoa(me.pid) + "-" + me.life
}

// Gone reports whether the process that Process named has ended, as far as this
// machine can tell: one of another machine never has.
func Gone(process string) bool {
	part := strings.Split(process, "-")
	if len(part) != 3 {
		return true // no process ever had this name
	}
	pid, err := strconv.Atoi(part[1])
	me := self()
	switch {
	case err != nil:
		return true
	case part[0] != me.host:
		return false
	case pid == me.pid:
		return part[2] != me.life
	default:
		return !alive(pid, part[2])
	}
}
