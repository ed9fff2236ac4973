package localsock

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func peerUID(c net.Conn) (int, error) {
	if tcp, ok := c.(*net.TCPConn); ok {
		return tcpPeer(tcp)
	}
	if u, ok := c.(*net.UnixConn); ok {
		return unixPeer(u)
	}
	return 0, fmt.Errorf("peer of a %T: %w", c, ErrUnsupported)
}

// unixPeer asks the socket itself, which remembers who connected.
func unixPeer(c *net.UnixConn) (int, error) {
	cred, err := credentials(c)
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}

func peerPID(c net.Conn) (int, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("peer of a %T: %w", c, ErrUnsupported)
	}
	cred, err := credentials(u)
	if err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}

func credentials(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("peer of %s: %w", c.LocalAddr(), err)
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, fmt.Errorf("peer of %s: %w", c.LocalAddr(), err)
	}
	if credErr != nil {
		return nil, fmt.Errorf("peer of %s: %w", c.LocalAddr(), credErr)
	}
	return cred, nil
}

// pair is a TCP connection seen from one end.
type pair struct{ local, remote netip.AddrPort }

// tcpPeer finds the socket at the other end in the kernel's table. It asks the
// kernel for that one socket, and reads the whole table where it cannot.
func tcpPeer(c *net.TCPConn) (int, error) {
	here, there := addrPort(c.LocalAddr()), addrPort(c.RemoteAddr())
	if !here.Addr().IsLoopback() || !there.Addr().IsLoopback() {
		return 0, ErrNotLocal
	}
	peer := pair{local: there, remote: here}
	uid, err := askKernel(peer)
	if errors.Is(err, errNoDiag) {
		uid, err = readTables(peer, "/proc/net/tcp", "/proc/net/tcp6")
	}
	if err != nil {
		return 0, fmt.Errorf("owner of %s: %w", there, err)
	}
	return uid, nil
}

func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := t.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
}

var errNoDiag = errors.New("the kernel does not answer questions about sockets")

// Sizes and places in the messages of sock_diag(7).
const (
	headerLen  = 16
	requestLen = headerLen + 56
	idAt       = headerLen + 8 // in the request
	answerLen  = headerLen + 72
	stateAt    = headerLen + 1 // in the answer
	answerIDAt = headerLen + 4
	uidAt      = headerLen + 64
	inodeAt    = headerLen + 68
	portsLen   = 4
	addrLen    = 16
	listening  = 10 // TCP_LISTEN
)

// askKernel asks for the socket p by sock_diag.
func askKernel(p pair) (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, errNoDiag
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written that could be lost
	timeout := unix.Timeval{Sec: 1}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return 0, errNoDiag
	}
	if err := unix.Sendto(fd, diagRequest(p), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, errNoDiag
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return 0, errNoDiag
	}
	return readDiagAnswer(answer[:n], p)
}

func diagRequest(p pair) []byte {
	b := make([]byte, requestLen)
	ne := binary.NativeEndian
	ne.PutUint32(b[0:], requestLen)
	ne.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	ne.PutUint16(b[6:], unix.NLM_F_REQUEST)
	b[headerLen] = unix.AF_INET
	if p.local.Addr().Is6() {
		b[headerLen] = unix.AF_INET6
	}
	b[headerLen+1] = unix.IPPROTO_TCP
	ne.PutUint32(b[headerLen+4:], 0xFFFFFFFF) // every state
	putID(b[idAt:], p)
	ne.PutUint64(b[idAt+portsLen+2*addrLen+4:], ^uint64(0)) // no cookie
	return b
}

// putID writes ports and addresses in network order.
func putID(b []byte, p pair) {
	binary.BigEndian.PutUint16(b[0:], p.local.Port())
	binary.BigEndian.PutUint16(b[2:], p.remote.Port())
	copy(b[portsLen:], p.local.Addr().AsSlice())
	copy(b[portsLen+addrLen:], p.remote.Addr().AsSlice())
}

// readID reads what putID writes. A socket of one family may hold a connection
// of the other, whose addresses it then maps.
func readID(b []byte, family byte) pair {
	n := addrLen
	if family == unix.AF_INET {
		n = 4
	}
	local, _ := netip.AddrFromSlice(b[portsLen : portsLen+n])
	remote, _ := netip.AddrFromSlice(b[portsLen+addrLen : portsLen+addrLen+n])
	return pair{
		local:  netip.AddrPortFrom(local.Unmap(), binary.BigEndian.Uint16(b[0:])),
		remote: netip.AddrPortFrom(remote.Unmap(), binary.BigEndian.Uint16(b[2:])),
	}
}

func readDiagAnswer(b []byte, p pair) (int, error) {
	ne := binary.NativeEndian
	if len(b) < headerLen+4 {
		return 0, errNoDiag
	}
	switch ne.Uint16(b[4:]) {
	case unix.NLMSG_ERROR:
		if syscall.Errno(-int32(ne.Uint32(b[headerLen:]))) == unix.ENOENT {
			return 0, errNoOwner
		}
		return 0, errNoDiag
	case unix.SOCK_DIAG_BY_FAMILY:
	default:
		return 0, errNoDiag
	}
	if len(b) < answerLen {
		return 0, errNoDiag
	}
	// Without that connection the kernel may answer with whoever listens there.
	if b[stateAt] == listening || readID(b[answerIDAt:], b[headerLen]) != p {
		return 0, errNoOwner
	}
	if ne.Uint32(b[inodeAt:]) == 0 {
		return 0, errNoOwner
	}
	return int(ne.Uint32(b[uidAt:])), nil
}

// readTables looks for the socket p in files of the form of /proc/net/tcp.
func readTables(p pair, tables ...string) (int, error) {
	for _, name := range tables {
		uid, err := readTable(p, name)
		if err == nil || !errors.Is(err, errNoOwner) && !errors.Is(err, os.ErrNotExist) {
			return uid, err
		}
	}
	return 0, errNoOwner
}

func readTable(p pair, name string) (int, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, fmt.Errorf("read socket table: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// sl local remote state queues timer retransmits uid timeout inode …
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[0] == "sl" || tableAddr(f[1]) != p.local || tableAddr(f[2]) != p.remote || f[9] == "0" {
			continue
		}
		uid, err := strconv.ParseUint(f[7], 10, 32)
		if err != nil {
			return 0, fmt.Errorf("read socket table: %w", err)
		}
		return int(uid), nil
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("read socket table: %w", err)
	}
	return 0, errNoOwner
}

// tableAddr reads "0100007F:1F90": groups of four bytes in the machine's order,
// then the port.
func tableAddr(s string) netip.AddrPort {
	addr, port, ok := strings.Cut(s, ":")
	raw, err := hex.DecodeString(addr)
	n, portErr := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || portErr != nil {
		return netip.AddrPort{}
	}
	for i := 0; i+4 <= len(raw); i += 4 {
		binary.BigEndian.PutUint32(raw[i:], binary.NativeEndian.Uint32(raw[i:]))
	}
	a, ok := netip.AddrFromSlice(raw)
	if !ok {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(n))
}
