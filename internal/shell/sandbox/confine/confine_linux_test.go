//go:build amd64 || arm64

package confine

import (
	"slices"
	"syscall"
	"testing"
)

// The filter is run here as the kernel would: not every kernel has every kind of
// program that it must stop.
func TestFilterStopsSocketsOfEveryKindOfProgram(t *testing.T) {
	const (
		yes     = allow
		refused = errno | uint32(syscall.ENETUNREACH)
		unknown = errno | uint32(syscall.ENOSYS)
	)
	for _, c := range []struct {
		name                   string
		arch, number, argument uint32
		want                   uint32
	}{
		{"write", archNative, syscall.SYS_WRITE, 1, yes},
		{"execve", archNative, syscall.SYS_EXECVE, 0, yes},
		{"unix", archNative, sysSocket, syscall.AF_UNIX, yes},
		{"netlink", archNative, sysSocket, syscall.AF_NETLINK, yes},
		{"inet", archNative, sysSocket, syscall.AF_INET, refused},
		{"inet6", archNative, sysSocket, syscall.AF_INET6, refused},
		{"packet", archNative, sysSocket, syscall.AF_PACKET, refused},
		{"io_uring", archNative, sysIOURingSetup, 8, unknown},
		{"x32 socket", archNative, numberLimit + sysSocket, syscall.AF_INET, unknown},
		{"compat write", archCompat, 4, 1, yes},
		{"compat unix", archCompat, sysCompatSocket, syscall.AF_UNIX, yes},
		{"compat inet", archCompat, sysCompatSocket, syscall.AF_INET, refused},
		{"compat socketcall", archCompat, sysCompatSocketcall, 1, refused},
		{"compat io_uring", archCompat, sysIOURingSetup, 8, unknown},
		{"another architecture", 0x1234, sysSocket, syscall.AF_INET, unknown},
	} {
		if got := filtered(t, c.arch, c.number, c.argument); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
}

// filtered runs the filter on one system call.
func filtered(t *testing.T, arch, number, argument uint32) uint32 {
	t.Helper()
	program := networkFilter()
	var loaded uint32
	for at := 0; at < len(program); at++ {
		line := program[at]
		jump := func(holds bool) {
			if holds {
				at += int(line.Jt)
			} else {
				at += int(line.Jf)
			}
		}
		switch line.Code {
		case load:
			loaded = map[uint32]uint32{atArch: arch, atNumber: number, atArgument: argument}[line.K]
		case jumpEqual:
			jump(loaded == line.K)
		case jumpGreatE:
			jump(loaded >= line.K)
		case give:
			return line.K
		default:
			t.Fatalf("line %d has the unknown code %#x", at, line.Code)
		}
	}
	t.Fatal("the filter ends without an answer")
	return 0
}

func TestSplitKeepsEmptyArgumentsAndCutsWhatIsUnfinished(t *testing.T) {
	if got := split([]byte("a\x00\x00b c\x00unfini")); !slices.Equal(got, []string{"a", "", "b c"}) {
		t.Errorf("split = %q", got)
	}
}
