package confine

import (
	"runtime"
	"syscall"
	"unsafe"
)

// Runs while packages are initialised, long before main; see the package comment.
var _ = early()

// early becomes the command when the command line asks for it. os.Args is not
// there yet, so the kernel is asked.
func early() bool {
	fd, err := syscall.Open("/proc/self/cmdline", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false // Main will do it
	}
	defer func() { _ = syscall.Close(fd) }()
	text := make([]byte, 4096)
	for n := 0; ; {
		more, err := syscall.Read(fd, text[n:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return false
		}
		if n += more; more == 0 {
			Main(split(text[:n]))
			return false
		}
		if n == more { // the first look: most programs are no helpers
			if args := split(text[:n]); len(args) < 2 || args[1] != Name {
				return false
			}
		}
		if n == len(text) {
			text = append(text, make([]byte, len(text))...)
		}
	}
}

// split returns the arguments in text, each of which ends with a zero byte. What
// follows the last one is cut off.
func split(text []byte) []string {
	var args []string
	start := 0
	for i, c := range text {
		if c == 0 {
			args = append(args, string(text[start:i]))
			start = i + 1
		}
	}
	return args
}

// after returns what follows prefix in s.
func after(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || s[:len(prefix)] != prefix {
		return "", false
	}
	return s[len(prefix):], true
}

// Numbers of the kernel that package syscall does not have.
const (
	sysLandlockCreateRuleset = 444
	sysLandlockAddRule       = 445
	sysLandlockRestrictSelf  = 446

	landlockVersion     = 1 // flag: return the ABI
	landlockPathBeneath = 1

	fsWriteFile = 1 << 1
	fsTruncate  = 1 << 14
	fsRefer     = 1 << 13
	// write, remove and make of every kind, rename between directories, truncate
	fsWriteAll = fsWriteFile | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12 | fsRefer | fsTruncate
	// making device nodes is never granted
	fsGranted = fsWriteAll &^ (1<<6 | 1<<11)
	fsOfFile  = fsWriteFile | fsTruncate

	scopeAbstractSocket = 1 << 0
	scopeSignal         = 1 << 1

	prSetNoNewPrivs = 38
	prSetSeccomp    = 22
	prCapbsetDrop   = 24
	oPath           = 0x200000
)

// FiltersNetwork reports whether net=off is known for this architecture.
const FiltersNetwork = archNative != 0

// LandlockABI returns the version of Landlock that the kernel offers, 0 for none.
func LandlockABI() int {
	abi, _, errno := syscall.RawSyscall(sysLandlockCreateRuleset, 0, 0, landlockVersion)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

// become gives up what args say on this thread and executes the command in its
// place. It returns only in a failed process that is about to end.
func become(args []string) {
	runtime.LockOSThread()
	var landlock, noNetwork, dropCaps bool
	var writable []string
	for len(args) > 0 && args[0] != "--" {
		switch args[0] {
		case "landlock":
			landlock = true
		case "net=off":
			noNetwork = true
		case "cap=drop":
			dropCaps = true
		default:
			path, ok := after(args[0], "w=")
			if !ok {
				fail("unknown argument "+args[0], syscall.EINVAL)
			}
			writable = append(writable, path)
		}
		args = args[1:]
	}
	if len(args) < 2 {
		fail("no command", syscall.EINVAL)
	}
	argv := args[1:]
	if dropCaps {
		dropCapabilities()
	}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		fail("no_new_privs", errno)
	}
	if landlock {
		restrict(writable)
	}
	if noNetwork {
		forbidNetwork()
	}
	execute(argv)
}

// rulesetAttr is the kernel's struct landlock_ruleset_attr.
type rulesetAttr struct{ fs, net, scoped uint64 }

// beneathAttr is the kernel's struct landlock_path_beneath_attr.
type beneathAttr struct {
	access uint64
	fd     int32
}

// restrict allows writing below the given paths alone. A path that does not
// exist grants nothing.
func restrict(writable []string) {
	attr := rulesetAttr{fs: fsWriteAll}
	if LandlockABI() >= 6 {
		// Neither the server nor what others run can be signalled, nor reached
		// through sockets that no file stands for.
		attr.scoped = scopeAbstractSocket | scopeSignal
	}
	ruleset, _, errno := syscall.Syscall(sysLandlockCreateRuleset, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		fail("landlock", errno)
	}
	for _, path := range writable {
		fd, err := syscall.Open(path, oPath|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err != nil {
			fail(path, err)
		}
		rule := beneathAttr{access: fsOfFile, fd: int32(fd)}
		switch st.Mode & syscall.S_IFMT {
		case syscall.S_IFDIR:
			rule.access = fsGranted
		case syscall.S_IFLNK: // somebody was faster: a link grants nothing
			_ = syscall.Close(fd)
			continue
		}
		if _, _, errno := syscall.Syscall6(sysLandlockAddRule, ruleset, landlockPathBeneath, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
			fail("landlock: "+path, errno)
		}
		_ = syscall.Close(fd)
	}
	if _, _, errno := syscall.Syscall(sysLandlockRestrictSelf, ruleset, 0, 0); errno != 0 {
		fail("landlock", errno)
	}
	_ = syscall.Close(int(ruleset))
}

// dropCapabilities takes all but KeptCapabilities out of what an execve gives
// to root.
func dropCapabilities() {
	kept := 0
	for _, c := range KeptCapabilities {
		kept |= 1 << c.Number
	}
	for c := range uintptr(64) {
		if kept>>c&1 == 1 {
			continue
		}
		_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prCapbsetDrop, c, 0, 0, 0, 0)
		if errno == syscall.EINVAL { // past the last one the kernel knows
			return
		}
		if errno != 0 {
			fail("capabilities", errno)
		}
	}
}

// execute becomes the command, looking for it as a shell does.
func execute(argv []string) {
	env := syscall.Environ()
	if hasSlash(argv[0]) {
		fail(argv[0], syscall.Exec(argv[0], argv, env))
	}
	err := error(syscall.ENOENT)
	path, _ := syscall.Getenv("PATH")
	for start, end := 0, 0; end <= len(path); end++ {
		if end < len(path) && path[end] != ':' {
			continue
		}
		dir := path[start:end]
		start = end + 1
		if dir == "" || dir[0] != '/' { // the current directory is no place to look in
			continue
		}
		if e := syscall.Exec(dir+"/"+argv[0], argv, env); e != syscall.ENOENT && e != syscall.ENOTDIR {
			err = e
		}
	}
	fail(argv[0], err)
}

func hasSlash(s string) bool {
	for i := range len(s) {
		if s[i] == '/' {
			return true
		}
	}
	return false
}

func fail(what string, err error) {
	_, _ = syscall.Write(2, []byte(Prefix+what+": "+err.Error()+"\n"))
	syscall.Exit(ExitFailed)
}
