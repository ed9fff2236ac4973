package confine

import (
	"syscall"
	"unsafe"
)

// The parts of a filter program, from the kernel's bpf_common.h and seccomp.h.
const (
	load       = 0x20 // load a word of what the filter looks at
	jumpEqual  = 0x15
	jumpGreatE = 0x35
	give       = 0x06 // return

	atNumber   = 0
	atArch     = 4
	atArgument = 16 // low half of the first argument, on little-endian machines

	allow = 0x7fff0000
	errno = 0x00050000

	seccompModeFilter = 2
	sysIOURingSetup   = 425 // on every architecture
)

// forbidNetwork makes this thread, and all it starts, unable to make sockets
// other than Unix and netlink ones. io_uring could make them behind the
// filter's back: programs that use it are told that the kernel has none.
func forbidNetwork() {
	if !FiltersNetwork {
		fail("network off", syscall.ENOSYS)
	}
	program := networkFilter()
	prog := syscall.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetSeccomp, seccompModeFilter, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		fail("network off", errno)
	}
}

// networkFilter is written with labels and made into relative jumps here.
func networkFilter() []syscall.SockFilter {
	type line struct {
		label    string
		code     uint16
		k        uint32
		yes, not string // where a comparison leads; "" is the next line
	}
	lines := []line{
		{"", load, atArch, "", ""},
		{"", jumpEqual, archNative, "native", ""},
		{"", jumpEqual, archCompat, "compat", "unknown"},

		{"native", load, atNumber, "", ""},
		{"", jumpGreatE, numberLimit, "unknown", ""}, // x32 has numbers of its own
		{"", jumpEqual, sysIOURingSetup, "unknown", ""},
		{"", jumpEqual, sysSocket, "socket", "allowed"},

		{"compat", load, atNumber, "", ""},
		{"", jumpEqual, sysIOURingSetup, "unknown", ""},
		{"", jumpEqual, sysCompatSocketcall, "refused", ""},
		{"", jumpEqual, sysCompatSocket, "socket", "allowed"},

		{"socket", load, atArgument, "", ""},
		{"", jumpEqual, syscall.AF_UNIX, "allowed", ""},
		{"", jumpEqual, syscall.AF_NETLINK, "allowed", "refused"},

		{"allowed", give, allow, "", ""},
		{"refused", give, errno | uint32(syscall.ENETUNREACH), "", ""},
		{"unknown", give, errno | uint32(syscall.ENOSYS), "", ""},
	}
	at := make(map[string]int, len(lines))
	for i, l := range lines {
		at[l.label] = i
	}
	program := make([]syscall.SockFilter, len(lines))
	for i, l := range lines {
		program[i] = syscall.SockFilter{Code: l.code, K: l.k}
		if l.yes != "" {
			program[i].Jt = uint8(at[l.yes] - i - 1)
		}
		if l.not != "" {
			program[i].Jf = uint8(at[l.not] - i - 1)
		}
	}
	return program
}
