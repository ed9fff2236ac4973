package localsock

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// peerHeldBy finds the socket at the other end of a loopback connection in the
// kernel's table, and who has it open in /proc.
func peerHeldBy(c net.Conn, pick func(pid int) bool) (bool, error) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return false, fmt.Errorf("peer of a %T: %w", c, ErrUnsupported)
	}
	here, there := addrPort(tcp.LocalAddr()), addrPort(tcp.RemoteAddr())
	if !here.Addr().IsLoopback() || !there.Addr().IsLoopback() {
		return false, ErrNotLocal
	}
	var inode string
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if inode = inodeIn(table, pair{local: there, remote: here}); inode != "" {
			break
		}
	}
	if inode == "" {
		return false, errNoOwner
	}
	want := "socket:[" + inode + "]"
	dirs, err := filepath.Glob("/proc/[0-9]*/fd")
	if err != nil {
		return false, err
	}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(strings.Split(dir, "/")[2])
		if err != nil || !pick(pid) {
			continue
		}
		files, _ := os.ReadDir(dir) // a process that has just ended holds nothing
		for _, f := range files {
			if target, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && target == want {
				return true, nil
			}
		}
	}
	return false, nil
}

// inodeIn returns the inode of the socket p in a file of the form of
// /proc/net/tcp, or "".
func inodeIn(table string, p pair) string {
	f, err := os.Open(table)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		col := strings.Fields(lines.Text())
		if len(col) > 9 && tableAddr(col[1]) == p.local && tableAddr(col[2]) == p.remote && col[9] != "0" {
			return col[9]
		}
	}
	return ""
}
