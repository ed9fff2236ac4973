package localsock

import "fmt"

// Holder is the process that listens on a port.
type Holder struct {
	PID  int    // 0 when it could not be found out
	Name string // program name
	UID  int    // -1 when it could not be found out
}

func (h Holder) String() string {
	switch {
	case h.PID != 0:
		return fmt.Sprintf("%s (pid %d)", h.Name, h.PID)
	case h.UID >= 0:
		return fmt.Sprintf("a process of user id %d", h.UID)
	default:
		return "another process"
	}
}
