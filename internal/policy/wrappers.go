package policy

import (
	"strings"
	"sync"

	"github.com/async-crud-mcp/async-crud-mcp/internal/shellast"
)

// wrapper is a program that runs the command its operands are.
type wrapper struct {
	spec
	skip    int    // operands before the command
	sub     string // it is a wrapper with these subcommands only
	env     bool   // NAME=value operands stand before the command
	scripts string // options whose value is text of a shell
	line    bool   // the operands, joined, are text of a shell
	each    bool   // each operand is text of a shell
	dash    bool   // the command follows --
}

func run(values string) *wrapper { return &wrapper{spec: spec{values: values, first: true}} }

func skipping(n int, values string) *wrapper {
	w := run(values)
	w.skip = n
	return w
}

func with(sub, values string) *wrapper {
	w := run(values)
	w.sub = sub
	return w
}

func (w *wrapper) scripted(options string) *wrapper {
	w.scripts = options
	w.values += " " + options
	return w
}

func (w *wrapper) writing(options string) *wrapper {
	w.writes = options
	return w
}

func (w *wrapper) after(n int) *wrapper { w.skip = n; return w }
func (w *wrapper) dashed() *wrapper     { w.dash = true; return w }
func (w *wrapper) assigning() *wrapper  { w.env = true; return w }

var wrappers = sync.OnceValue(func() map[string]*wrapper {
	return map[string]*wrapper{
		"builtin": run(""), "exec": run("a"), "nohup": run(""), "setsid": run(""), "time": run("f o format output").writing("o output"), "nice": run("n adjustment"),
		"ionice": run("c n p P u class classdata"), "chrt": skipping(1, "T P D"), "taskset": skipping(1, ""), "stdbuf": run("i o e input output error"),
		"timeout": skipping(1, "k s kill-after signal"), "sudo": run("u g p C r t h D R T U user group prompt chdir host close-from role type").assigning(),
		"doas": run("u C"), "pkexec": run("user"), "chroot": skipping(1, "userspec groups"), "unshare": run("S G R w setuid setgid root wd map-user map-group"),
		"nsenter": run("t S G target setuid setgid"), "setpriv": run("reuid regid groups inh-caps ambient-caps bounding-set securebits pdeathsig selinux-label apparmor-profile"),
		"setarch": skipping(1, ""), "linux32": run(""), "linux64": run(""), "i386": run(""), "x86_64": run(""), "arch": run(""),
		"flock": skipping(1, "w E wait timeout conflict-exit-code").scripted("c command"), "strace": run("e o p P s S a E I O u X b").writing("o"), "ltrace": run("e o p s a u n l x").writing("o"),
		"perf": with("stat record trace", "e o r p F c event output repeat pid"), "valgrind": run(""), "xvfb-run": run("e f n p s w error-file auth-file server-num server-args"),
		"dbus-run-session": run(""), "dbus-launch": run(""), "fakeroot": run("l s b i u"), "faketime": skipping(1, "f"), "proot": run("r b q w v k rootfs bind cwd"),
		"firejail": run(""), "bwrap": run("").dashed(), "caffeinate": run("t w"), "unbuffer": run(""), "catchsegv": run(""), "rlwrap": run("a b c f H l"), "gosu": skipping(1, ""),
		"su-exec": skipping(1, ""), "tini": run("p g"), "dumb-init": run("r"), "prlimit": run("p pid"), "numactl": run("N m C p i l cpunodebind membind physcpubind"),
		"cgexec": run("g"), "systemd-run": run("u p E H M G unit property setenv uid gid slice description working-directory"), "systemd-inhibit": run("what who why mode"),
		"busybox": run(""), "toybox": run(""), "shx": run(""), "coreutils": run(""), "winpty": run(""), "wsl": run("d u e"), "stdenv": run(""), "gtimeout": skipping(1, "k s"),
		"start-stop-daemon": run("x p n u g d exec pidfile").dashed(), "retry": run("t d times delay"), "ts-retry": run(""), "chronic": run(""), "ifne": run(""), "daemonize": run("c p l u o e a"), "eatmydata": run(""), "torsocks": run("a u p P"),
		"torify": run(""), "proxychains": run("f"), "proxychains4": run("f"), "mispipe": {each: true}, "pee": {each: true},

		"watch": {spec: spec{values: "n interval", first: true}, line: true}, "script": {spec: spec{values: "c command E I O B T m o"}, scripts: "c command", skip: 99}, "su": {spec: spec{values: "s g G c shell command"}, scripts: "c command", skip: 99},
		"runuser": run("u g G s user group").scripted("c command"), "sg": {spec: spec{values: "c", first: true}, skip: 1, scripts: "c", line: true},
		"hyperfine":             {spec: spec{values: "w m M r p c n L s S warmup min-runs max-runs runs prepare setup cleanup parameter-list parameter-scan shell style export-json export-markdown command-name u i N"}, scripts: "p prepare s setup c cleanup", each: true},
		"concurrently":          {spec: spec{values: "n c p names prefix-colors prefix max-processes kill-others"}, each: true},
		"start-server-and-test": {each: true},
		"nodemon":               run("w e i watch ext ignore delay").scripted("x exec"), "chokidar": {spec: spec{values: "c command d t"}, scripts: "c command", skip: 99},
		"watchexec": run("w e f i s d watch exts filter ignore signal debounce"), "onchange": run("").dashed(), "entr": run("").scripted("s"),

		"npx": run("p package").scripted("c call"), "pnpx": run("p package").scripted("c shell-mode"), "bunx": run("p package"),
		"npm": with("exec x", "p w package workspace prefix C loglevel").scripted("c call"), "pnpm": with("exec dlx", "C F filter dir package"), "yarn": with("exec dlx", "p cwd package"),
		"uv": with("run tool", "p with python env-file project directory package extra group with-editable index index-url"), "uvx": run("p from with python"), "pipx": with("run", "spec pip-args python"),
		"poetry": with("run", "C P directory project"), "pipenv": with("run", "python"), "pdm": with("run", "p"), "hatch": with("run", "e env"), "rye": with("run", ""), "pixi": with("run", "e environment manifest-path"),
		"conda": with("run", "n p name prefix cwd"), "mamba": with("run", "n p name prefix cwd"), "micromamba": with("run", "n p name prefix cwd"),
		"bundle": with("exec", ""), "pyenv": with("exec", ""), "rbenv": with("exec", ""), "nodenv": with("exec", ""), "goenv": with("exec", ""), "jenv": with("exec", ""), "asdf": with("exec", ""),
		"mise": with("exec x", "C j cd jobs").scripted("c command").dashed(), "rtx": with("exec x", "").scripted("c command").dashed(), "direnv": with("exec", "").after(1),
		"nvm": with("exec", "").after(1), "fnm": with("exec", "using"), "volta": with("run", "node npm pnpm yarn"), "nix-shell": run("p I A packages attr arg argstr").scripted("run command"),
		"devbox": with("run", "c e config env"), "devenv": with("shell", ""), "cross-env": run("").assigning(), "cross-env-shell": {env: true, line: true, spec: spec{first: true}},
		"dotenv": run("e c p f v"), "dotenvx": with("run", "f env-file").dashed(), "env-cmd": run("f e r"), "aws-vault": with("exec", "d n").after(1).dashed(), "op": with("run", "env-file").dashed(),
		"doppler": with("run", "p c project config").scripted("command").dashed(), "infisical": with("run", "env path").scripted("command").dashed(), "chamber": with("exec", "").dashed(),
		"envchain": skipping(1, ""), "lerna": with("exec", "scope ignore").dashed(), "npm-run-all": {}, "turbo": {}, "lage": {}, "screen": run("S s T t e c h p r x D R"),
		"vagrant": with("ssh", "").scripted("c command").after(99), "ansible": {spec: spec{values: "a m i l u f args module-name inventory"}, scripts: "a args", skip: 99},
	}
})

// loader reports whether a program is the dynamic linker, which runs the program
// named to it.
func loader(name string) bool {
	return strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") || strings.HasPrefix(name, "ld.so") || strings.HasPrefix(name, "ld-2.") || name == "ld-elf.so.1"
}

// wrapper judges what a wrapper runs.
func (j *judge) wrapper(c *command, w *wrapper) *Decision {
	args := c.args()
	if w.sub != "" {
		rest, ok := subcommand(args, w)
		if !ok {
			return nil
		}
		args = rest
	}
	a := w.read(args)
	if d := j.fileOptions(c, &w.spec, a, "redirect-write"); d != nil {
		return d
	}
	for _, text := range a.all(w.scripts) {
		if d := j.innerScript(c, text.Text, shellast.Options{}); d != nil {
			return d
		}
	}
	words := a.operands
	if w.dash {
		for i, o := range args {
			if o.Text == "--" {
				return j.inner(c, args[i+1:])
			}
		}
	}
	words = words[min(w.skip, len(words)):]
	if w.skip > 0 && len(words) > 0 && words[0].Text == "--" {
		words = words[1:]
	}
	if w.skip > 0 && len(a.all(w.scripts)) == 0 && len(words) > 1 && has(w.scripts, strings.TrimLeft(words[0].Text, "-")) && strings.HasPrefix(words[0].Text, "-") {
		return j.innerScript(c, words[1].Text, shellast.Options{}) // flock FILE -c TEXT
	}
	if w.env {
		var d *Decision
		if words, d = j.assigned(c, words); d != nil {
			return d
		}
	}
	switch {
	case w.line && len(words) > 0:
		return j.innerScript(c, joined(words), shellast.Options{})
	case w.each:
		for _, o := range words {
			if d := j.innerScript(c, o.Text, shellast.Options{}); d != nil {
				return d
			}
		}
		return nil
	}
	return j.inner(c, words)
}

// assigned judges and removes NAME=value before a command.
func (j *judge) assigned(c *command, words []shellast.Word) ([]shellast.Word, *Decision) {
	for len(words) > 0 {
		name, value, ok := strings.Cut(words[0].Text, "=")
		if !ok || strings.ContainsRune(name, '/') {
			break
		}
		if d := j.variable(name, value, c.at); d != nil {
			return nil, d
		}
		words = words[1:]
	}
	return words, nil
}

// subcommand returns what follows the subcommand if it is one that runs a
// command.
func subcommand(args []shellast.Word, w *wrapper) ([]shellast.Word, bool) {
	global := spec{values: w.values, first: true}
	a := global.read(args)
	if len(a.operands) == 0 || !has(w.sub, a.operands[0].Text) {
		return nil, false
	}
	rest := a.operands[1:]
	if a.operands[0].Text == "tool" { // uv tool run
		if len(rest) == 0 || rest[0].Text != "run" {
			return nil, false
		}
		rest = rest[1:]
	}
	return rest, true
}

// envCommand judges env, which has assignments, and text that it splits.
func (j *judge) envCommand(c *command) *Decision {
	s := spec{values: "u C S unset chdir split-string", first: true}
	a := s.read(c.args())
	words := a.operands
	if text := a.all("S split-string"); len(text) > 0 {
		return j.innerScript(c, joined(append(text, words...)), shellast.Options{})
	}
	words, d := j.assigned(c, words)
	if d != nil {
		return d
	}
	return j.inner(c, words)
}

// commandBuiltin judges command, which asks with -v and -V, and runs otherwise.
func (j *judge) commandBuiltin(c *command) *Decision {
	s := spec{first: true}
	a := s.read(c.args())
	if _, ok := a.find("v V"); ok {
		return nil
	}
	return j.inner(c, a.operands)
}

// xargs judges the command that gets operands from standard input.
func (j *judge) xargs(c *command) *Decision {
	s := spec{values: "a d E I L n P s arg-file delimiter eof max-lines max-args max-procs max-chars process-slot-var replace", first: true, reads: "a arg-file"}
	a := s.read(c.args())
	if d := j.fileOptions(c, &s, a, "redirect-read"); d != nil {
		return d
	}
	if len(a.operands) == 0 {
		return nil
	}
	mark := ""
	if o, ok := a.find("I replace i"); ok {
		if mark = "{}"; o.has && o.value.Text != "" {
			mark = o.value.Text
		}
	}
	return j.inner(c, filled(a.operands, mark))
}

// filled puts an unknown word in the place of mark, or at the end.
func filled(words []shellast.Word, mark string) []shellast.Word {
	out := make([]shellast.Word, 0, len(words)+1)
	for _, w := range words {
		if mark != "" {
			w.Text = strings.ReplaceAll(w.Text, mark, unknownWord.Text)
		}
		out = append(out, w)
	}
	if mark == "" {
		out = append(out, unknownWord)
	}
	return out
}

// parallel judges GNU parallel: a command with {} or operands from :::, or whole
// commands as operands.
func (j *judge) parallel(c *command) *Decision {
	s := spec{values: "a j I N n L S P arg-file jobs replace colsep delay timeout joblog results tmpdir wd", first: true, reads: "a arg-file"}
	a := s.read(c.args())
	if d := j.fileOptions(c, &s, a, "redirect-read"); d != nil {
		return d
	}
	words, inputs := a.operands, []shellast.Word(nil)
	for i, w := range words {
		if strings.HasPrefix(w.Text, ":::") {
			words, inputs = words[:i], words[i+1:]
			break
		}
	}
	if len(words) == 0 {
		if inputs == nil {
			return j.deny("computed-script", c.name, c.at)
		}
		for _, in := range inputs {
			if d := j.innerScript(c, in.Text, shellast.Options{}); d != nil {
				return d
			}
		}
		return nil
	}
	text := joined(words)
	replaced := strings.NewReplacer("{}", unknownWord.Text, "{.}", unknownWord.Text, "{/}", unknownWord.Text, "{//}", unknownWord.Text, "{/.}", unknownWord.Text, "{#}", "1", "{1}", unknownWord.Text, "{2}", unknownWord.Text).Replace(text)
	if replaced == text {
		replaced += " " + unknownWord.Text
	}
	return j.innerScript(c, replaced, shellast.Options{})
}

// ssh judges what runs on the other side as if it ran here: the other side may be
// this machine.
func (j *judge) ssh(c *command) *Decision {
	s := spec{values: "B b c D E e F I i J L l m O o p Q R S W w", first: true}
	a := s.read(c.args())
	for _, o := range a.all("o") {
		key, value, _ := strings.Cut(strings.ReplaceAll(o.Text, "=", " "), " ")
		switch strings.ToLower(key) {
		case "proxycommand", "localcommand", "knownhostscommand":
			if d := j.innerScript(c, value, shellast.Options{}); d != nil {
				return d
			}
		}
	}
	if len(a.operands) < 2 {
		if len(a.operands) == 1 && c.stdin.Kind != shellast.Inherited {
			return j.stdinScript(c)
		}
		return nil
	}
	more := spec{values: s.values, first: true}
	rest := more.read(a.operands[1:]).operands
	if len(rest) == 0 {
		return nil
	}
	return j.innerScript(c, joined(rest), shellast.Options{})
}

// tmux judges the commands that panes start with, and the keys sent to them.
func (j *judge) tmux(c *command) *Decision {
	global := spec{values: "c f L S T", first: true}
	a := global.read(c.args())
	for _, text := range a.all("c") {
		if d := j.innerScript(c, text.Text, shellast.Options{}); d != nil {
			return d
		}
	}
	if len(a.operands) == 0 {
		return nil
	}
	sub, rest := a.operands[0].Text, a.operands[1:]
	s := spec{values: "c e F f n s t x y l p N"}
	switch sub {
	case "new", "new-session", "neww", "new-window", "splitw", "split-window", "respawn-pane", "respawnp", "respawn-window", "run", "run-shell", "pipe-pane", "pipep", "display-popup", "popup", "if-shell":
		if words := s.read(rest).operands; len(words) > 0 {
			return j.innerScript(c, joined(words), shellast.Options{})
		}
	case "send", "send-keys":
		var text []string
		for _, w := range s.read(rest).operands {
			switch w.Text {
			case "Enter", "C-m", "C-c", "C-d", "KPEnter":
			case "Space":
				text = append(text, " ")
			default:
				text = append(text, w.Text)
			}
		}
		if len(text) > 0 {
			return j.innerScript(c, strings.Join(text, ""), shellast.Options{})
		}
	}
	return nil
}
