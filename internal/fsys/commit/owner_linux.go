package commit

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// self is this process. Its host is the machine and the name space of process
// numbers, within which the living can be told from the dead.
var self = sync.OnceValue(func() owner {
	machine, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		name, _ := os.Hostname()
		machine = []byte(name)
	}
	space, _ := os.Readlink("/proc/self/ns/pid")
	pid := os.Getpid()
	life, _ := lifeOf(pid)
	return owner{host: short(string(machine), space), pid: pid, life: life}
})

// lifeOf tells one process from others with its number: by when it was started,
// counted from the start of the machine.
func lifeOf(pid int) (string, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return noTag, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return noTag, err
	}
	// The second field is the program's name and may hold anything, in brackets.
	rest := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
	const started = 22 - 3 // the third field comes first
	field := strings.Fields(rest)
	if len(field) <= started {
		return noTag, errors.ErrUnsupported
	}
	return short(string(boot), field[started]), nil
}

func alive(pid int, life string) bool {
	now, err := lifeOf(pid)
	if err == nil {
		return now == life
	}
	// Processes of others may be hidden.
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
