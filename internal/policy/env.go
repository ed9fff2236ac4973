package policy

import (
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/shellast"
)

// loaders are variables that make every program load code, whoever starts it.
const loaders = "LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES GCONV_PATH"

// startup are variables whose value a shell or interpreter runs when it starts.
const startup = `BASH_ENV PROMPT_COMMAND PERL5OPT PERL5DB PYTHONSTARTUP RUBYSHELL GIT_EXEC_PATH GIT_CONFIG_PARAMETERS GIT_PROXY_COMMAND LESSOPEN LESSCLOSE
	NODE_REPL_EXTERNAL_MODULE BASH_LOADABLES_PATH BASH_CMDS BASH_ALIASES`

// pagers are variables that hold a command which reads standard input or is given
// something else than a project file.
const pagers = `PAGER GIT_PAGER MANPAGER SYSTEMD_PAGER GH_PAGER BAT_PAGER DELTA_PAGER AWS_PAGER PSQL_PAGER EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR FCEDIT
	HGEDITOR SVN_EDITOR KUBE_EDITOR GIT_SSH_COMMAND GIT_SSH GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS BROWSER RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RSYNC_RSH CVS_RSH
	CARGO_BUILD_RUSTC_WRAPPER GH_BROWSER`

// differs are variables that hold a command which is given files.
const differs = `GIT_EXTERNAL_DIFF`

// variable judges the assignment of a variable that commands will see.
func (j *judge) variable(name, value string, at Span) *Decision {
	value = strings.TrimSpace(value)
	switch {
	case has(loaders, name), has(startup, name), strings.HasPrefix(name, "BASH_FUNC_"):
		if value == "" {
			return nil // taken away
		}
		return j.deny("environment", name, at)
	case has(pagers, name) || strings.HasPrefix(name, "CARGO_TARGET_") && strings.HasSuffix(name, "_RUNNER"):
		return j.setting(name, value, at, false)
	case has(differs, name):
		return j.setting(name, value, at, true)
	case name == "ENV":
		// The file that an interactive sh reads; as a name for a stage it is common.
		if strings.ContainsAny(value, "/$`(") {
			return j.deny("environment", name, at)
		}
	case name == "NODE_OPTIONS":
		if strings.Contains(value, "data:") || strings.Contains(value, "--eval") || strings.Contains(value, " -e ") {
			return j.deny("environment", name, at)
		}
	case name == "TAR_OPTIONS":
		if strings.Contains(value, "exec") || strings.Contains(value, "command") || strings.Contains(value, "-I") || strings.Contains(value, "compress-program") {
			return j.deny("environment", name, at)
		}
	case name == "RUBYOPT":
		if strings.Contains(value, "-e") || strings.Contains(value, "-r/") || strings.Contains(value, "-r.") {
			return j.deny("environment", name, at)
		}
	case name == "MAKEFLAGS" || name == "GNUMAKEFLAGS" || name == "MFLAGS":
		if strings.Contains(value, "eval") || strings.Contains(value, "$(") {
			return j.deny("environment", name, at)
		}
	case name == "PS0" || name == "PS1" || name == "PS2" || name == "PS4":
		if strings.ContainsAny(value, "`") || strings.Contains(value, "$(") {
			return j.deny("environment", name, at)
		}
	case name == "GOFLAGS":
		if strings.Contains(value, "-toolexec") || strings.Contains(value, "-exec") || strings.Contains(value, "-vettool") {
			return j.deny("environment", name, at)
		}
	case strings.HasPrefix(name, "GIT_CONFIG_KEY_"):
		if gitRuns(value) != notRun {
			return j.deny("environment", name, at)
		}
	}
	return nil
}

// setting judges a command that a setting holds. files says that it will be given
// files.
func (j *judge) setting(name, value string, at Span, files bool) *Decision {
	value = strings.TrimSpace(value)
	switch strings.ToLower(value) {
	case "", "true", "false", "0", "1", "never", "auto":
		return nil
	}
	if blank(value) {
		return nil // whatever it was before
	}
	if files {
		value += " " + string(shellast.Hole)
	}
	if words := strings.Fields(value); byCommand()[canonical(words[0])] == byName()["editor"] && operandless(words[1:]) {
		return nil // an editor by its name
	}
	d := j.script(value, shellast.Options{Stdin: &shellast.Input{Kind: shellast.Pipe}}, &at)
	if d != nil {
		d.Reason = name + ": " + d.Reason
	}
	return d
}

// operandless reports whether words are options alone.
func operandless(words []string) bool {
	for _, w := range words {
		if !strings.HasPrefix(w, "-") || strings.ContainsAny(w, "!|;&>`$") {
			return false
		}
	}
	return true
}

// Env judges a variable that a caller gives to a command. What tells programs
// which code to load is refused whatever the mode is: it would reach the program
// that sets up the sandbox.
func (s *Set) Env(name, value string) Decision {
	allowed := Decision{Level: LevelGrammar}
	upper := strings.ToUpper(name)
	if strings.HasPrefix(upper, "LD_") || strings.HasPrefix(upper, "DYLD_") || upper == "GCONV_PATH" || upper == "GLIBC_TUNABLES" {
		return Decision{
			Denied: true, Rule: "environment", Level: LevelGrammar,
			Reason: name + " tells programs which code to load; leave it out, or write NAME=value before the command",
		}
	}
	if s.mode != Extend {
		return allowed
	}
	d := (&judge{set: &Set{mode: Extend}}).variable(name, value, Span{})
	if d == nil {
		return allowed
	}
	d.Level = LevelGrammar
	return *d
}
