package policy

import (
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/shellast"
)

// git is allowed, what it prints and changes included; not what makes it run
// other commands or write files by name.
func (j *judge) git(c *command) *Decision {
	global := spec{values: "C c git-dir work-tree namespace super-prefix config-env", first: true}
	a := global.read(c.args())
	for _, kv := range a.all("c") {
		key, value, _ := strings.Cut(kv.Text, "=")
		if d := j.gitConfig(c, key, value); d != nil {
			return d
		}
	}
	for _, o := range a.opts {
		if o.name == "exec-path" && o.has {
			return j.deny("git-command", "git --exec-path", c.at)
		}
	}
	if len(a.operands) == 0 {
		return nil
	}
	sub, args := a.operands[0].Text, a.operands[1:]
	if d := j.gitOptions(c, sub, args); d != nil {
		return d
	}
	switch sub {
	case "config":
		return j.gitSetConfig(c, args)
	case "bisect":
		if len(args) > 1 && args[0].Text == "run" {
			return j.inner(c, args[1:])
		}
	case "submodule":
		for i, w := range args {
			if w.Text == "foreach" {
				s := spec{first: true}
				if words := s.read(args[i+1:]).operands; len(words) > 0 {
					return j.innerScript(c, joined(words), shellast.Options{})
				}
			}
		}
	case "clone", "fetch", "pull", "push", "ls-remote", "remote", "archive", "submodule add":
		for _, w := range args {
			if strings.HasPrefix(w.Text, "ext::") {
				return j.deny("git-command", "ext::", c.at)
			}
		}
	case "hook":
		return nil
	}
	return nil
}

// gitScripts are options of subcommands whose value git runs.
const gitScripts = `exec x extcmd tree-filter index-filter msg-filter env-filter parent-filter commit-filter tag-name-filter setup upload-pack receive-pack open-files-in-pager`

func (j *judge) gitOptions(c *command, sub string, args []shellast.Word) *Decision {
	for i, w := range args {
		if w.Text == "--" {
			break
		}
		name, value, ok := strings.Cut(strings.TrimLeft(w.Text, "-"), "=")
		if !strings.HasPrefix(w.Text, "-") {
			continue
		}
		next := ""
		if i+1 < len(args) {
			next = args[i+1].Text
		}
		if !ok {
			value = next
		}
		long := strings.HasPrefix(w.Text, "--")
		switch {
		case long && name == "no-index":
			if d := j.deny("read-file", "git diff --no-index", c.at); d != nil {
				return d
			}
		case long && name == "output" && !stream(shellast.Word{Text: value}),
			sub == "archive" && !long && strings.HasPrefix(name, "o") && !stream(shellast.Word{Text: next}):
			return j.deny("git-command", "git "+sub+" "+dashed(name), c.at)
		case long && has(gitScripts, name) && gitTakes(sub, name),
			!long && w.Text == "-x" && (sub == "rebase" || sub == "difftool"),
			!long && w.Text == "-u" && sub == "clone":
			if value == "" {
				continue
			}
			if name == "extcmd" || sub == "difftool" || name == "open-files-in-pager" {
				value += " " + unknownWord.Text
			}
			if d := j.innerScript(c, value, shellast.Options{Stdin: &shellast.Input{Kind: shellast.Pipe}}); d != nil {
				return d
			}
		case !long && sub == "grep" && len(w.Text) > 2 && strings.HasPrefix(w.Text, "-O"):
			if d := j.innerScript(c, w.Text[2:]+" "+unknownWord.Text, shellast.Options{}); d != nil {
				return d
			}
		}
	}
	return nil
}

// gitTakes tells options that run something from namesakes of other subcommands.
func gitTakes(sub, name string) bool {
	switch name {
	case "exec":
		return sub == "rebase" || sub == "archive" || sub == "push" || sub == "ls-remote"
	case "extcmd":
		return sub == "difftool"
	case "setup":
		return sub == "filter-branch"
	}
	return true
}

func (j *judge) gitSetConfig(c *command, args []shellast.Word) *Decision {
	s := spec{values: "f file blob t type default comment value url"}
	words := s.read(args).operands
	if len(words) > 0 && (words[0].Text == "set" || words[0].Text == "add") {
		words = words[1:]
	}
	if len(words) < 2 {
		return nil
	}
	return j.gitConfig(c, words[0].Text, words[1].Text)
}

type gitRun uint8

const (
	notRun   gitRun = iota
	asAlias         // a command of git's, or with ! one of the shell's
	asFilter        // a command that reads standard input
	onFiles         // a command that is given files
	never
)

// gitRuns says whether git runs the value of a setting.
func gitRuns(key string) gitRun {
	key = strings.ToLower(key)
	section, last := key, key
	if i := strings.IndexByte(key, '.'); i >= 0 {
		section = key[:i]
		last = key[strings.LastIndexByte(key, '.')+1:]
	}
	switch {
	case section == "alias":
		return asAlias
	case section == "pager", key == "core.pager", key == "core.editor", key == "sequence.editor", key == "core.sshcommand", key == "core.askpass",
		key == "gpg.program", last == "program" && section == "gpg", key == "interactive.difffilter", key == "core.gitproxy", key == "uploadpack.packobjectshook",
		section == "remote" && (last == "uploadpack" || last == "receivepack"), section == "browser", section == "sendemail" && last == "smtpserver", key == "trailer.command", section == "trailer" && (last == "command" || last == "cmd"):
		return asFilter
	case key == "diff.external", section == "diff" && (last == "command" || last == "textconv"), section == "difftool" && last == "cmd",
		section == "mergetool" && last == "cmd", section == "merge" && last == "driver", section == "man" && last == "cmd":
		return onFiles
	case section == "filter" && (last == "clean" || last == "smudge" || last == "process"), key == "core.fsmonitor":
		return asFilter
	case section == "credential" && last == "helper":
		return asAlias
	case key == "protocol.ext.allow":
		return never
	}
	return notRun
}

func (j *judge) gitConfig(c *command, key, value string) *Decision {
	switch gitRuns(key) {
	case asAlias:
		if strings.HasPrefix(strings.TrimSpace(value), "!") || blank(value) {
			return j.deny("git-command", key, c.at)
		}
	case asFilter:
		return j.setting(key, value, c.at, false)
	case onFiles:
		return j.setting(key, value, c.at, true)
	case never:
		return j.deny("git-command", key, c.at)
	case notRun:
	}
	return nil
}
