// Package confine is the sandbox's helper: the program runs itself again as
//
//	async-crud-mcp __sandbox [cap=drop] [landlock] [w=PATH …] [net=off] -- PROGRAM ARGUMENTS…
//
// gives up on this thread what the command shall not have, and becomes the
// command. Landlock and seccomp bind a thread for good and pass to all it
// starts, so this must never happen in the server itself.
//
// A program with all our packages needs milliseconds to reach main: they are
// initialised first, by name as soon as what they import is. This one imports
// nothing but syscall, not even strings, and so is among the first: on Linux a
// helper has become its command before the others begin. Main is for where that
// was not possible.
//
// It decides nothing: what may be written is in its arguments, which package
// sandbox makes.
package confine

// Name is the first argument that makes the program a helper.
const Name = "__sandbox"

// ExitFailed is the exit code of a helper that could not do its work. The
// command was not run then.
const ExitFailed = 125

// Prefix begins what a helper says when it could not do its work.
const Prefix = "async-crud-mcp sandbox: "

// KeptCapabilities are those that a command of root keeps: about owners and
// modes of files, other users' processes, becoming another user, low ports.
// With the others it could mount, trace, load code into the kernel or raise its
// limits, and so leave the sandbox.
var KeptCapabilities = []Capability{
	{"CAP_CHOWN", 0},
	{"CAP_DAC_OVERRIDE", 1},
	{"CAP_FOWNER", 3},
	{"CAP_FSETID", 4},
	{"CAP_KILL", 5},
	{"CAP_SETGID", 6},
	{"CAP_SETUID", 7},
	{"CAP_NET_BIND_SERVICE", 10},
}

// Capability is a part of root's power, by the kernel's name and number.
type Capability struct {
	Name   string
	Number uintptr
}

// Main becomes the command when args, the whole command line, ask for it, and
// returns otherwise. It is the first thing in main.
func Main(args []string) {
	if len(args) > 1 && args[1] == Name {
		become(args[2:])
	}
}
