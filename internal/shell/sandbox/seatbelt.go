package sandbox

import (
	"fmt"
	"path/filepath"
	"strings"
)

// seatbeltProfile is the plan in the language of macOS's sandbox-exec, in which
// the last rule that fits decides.
func seatbeltProfile(p plan, network string) string {
	var b strings.Builder
	rule := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	rule("(version 1)")
	rule("(allow default)")
	if network == NetworkOff {
		rule("(deny network*)")
		rule("(allow network* (local unix-socket))")
		rule("(allow network* (remote unix-socket))")
	}
	if p.writableAt(string(filepath.Separator)) {
		return b.String()
	}
	rule("(deny file-write*)")
	for _, device := range append([]string{"/dev/stdout", "/dev/stderr", "/dev/dtracehelper"}, devices[:len(devices)-1]...) {
		rule("(allow file-write* (literal %s))", quoted(device))
	}
	rule(`(allow file-write* (regex #"^/dev/(tty|pty|fd/)"))`)
	for _, a := range p.areas {
		verb := "deny"
		if a.writable {
			verb = "allow"
		}
		rule("(%s file-write* (subpath %s))", verb, quoted(a.path))
	}
	for _, dir := range p.pinned() { // it may be written, not renamed
		rule("(deny file-write-unlink (literal %s))", quoted(dir))
	}
	for _, path := range p.protected {
		rule("(deny file-write* (subpath %s))", quoted(path))
	}
	for _, path := range p.hidden {
		rule("(deny file* (subpath %s))", quoted(path))
		rule("(deny network-outbound (remote unix-socket (subpath %s)))", quoted(path))
	}
	// What acts outside of the sandbox for whoever asks.
	rule(`(deny mach-lookup (global-name "com.apple.coreservices.launchservicesd"))`)
	rule("(deny appleevent-send)")
	return b.String()
}

// quoted is a string of the profile's language.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
