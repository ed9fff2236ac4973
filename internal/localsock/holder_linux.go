package localsock

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// HolderOf names the process that listens on a TCP port of this machine, as far
// as this user may know.
func HolderOf(port int) Holder {
	h := Holder{UID: -1}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		uid, inode, ok := listener(table, port)
		if !ok {
			continue
		}
		h.UID = uid
		if pid := owner(inode); pid != 0 {
			h.PID = pid
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			h.Name = strings.TrimSpace(string(comm))
		}
		break
	}
	return h
}

// listener finds the listening socket of port in one of the kernel's tables.
func listener(table string, port int) (uid int, inode string, ok bool) {
	f, err := os.Open(table)
	if err != nil {
		return 0, "", false
	}
	defer f.Close()
	const stateListen = "0A"
	suffix := fmt.Sprintf(":%04X", port)
	for sc := bufio.NewScanner(f); sc.Scan(); {
		// sl local remote state queues timer retransmits uid timeout inode …
		col := strings.Fields(sc.Text())
		if len(col) > 9 && col[3] == stateListen && strings.HasSuffix(col[1], suffix) {
			uid, err = strconv.Atoi(col[7])
			return uid, col[9], err == nil
		}
	}
	return 0, "", false
}

// owner finds the process that has the socket with this inode open.
func owner(inode string) int {
	want := "socket:[" + inode + "]"
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && target == want {
			pid, _ := strconv.Atoi(strings.Split(fd, "/")[2])
			return pid
		}
	}
	return 0
}
