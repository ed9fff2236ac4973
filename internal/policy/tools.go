package policy

import (
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/policy/snippet"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shellast"
)

// handler returns the judgement of a program that needs more than a table.
func handler(name string) (func(*judge, *command) *Decision, bool) {
	if has(shells, name) {
		return (*judge).shell, true
	}
	h := handlerOf(name)
	return h, h != nil
}

func handlerOf(name string) func(*judge, *command) *Decision {
	switch name {
	case "env":
		return (*judge).envCommand
	case "command":
		return (*judge).commandBuiltin
	case "xargs":
		return (*judge).xargs
	case "parallel", "sem":
		return (*judge).parallel
	case "ssh", "mosh", "autossh":
		return (*judge).ssh
	case "tmux":
		return (*judge).tmux
	case "eval":
		return (*judge).eval
	case "source", ".":
		return (*judge).source
	case "at", "batch":
		return (*judge).stdinScript
	case "git", "hub":
		return (*judge).git
	case "gh":
		return (*judge).gh
	case "sed", "ssed":
		return (*judge).sed
	case "awk", "gawk", "mawk", "nawk", "goawk", "frawk", "bwk":
		return (*judge).awk
	case "sort":
		return (*judge).sort
	case "rg", "ripgrep", "rga":
		return (*judge).rg
	case "find", "fd", "fdfind":
		return (*judge).find
	case "echo", "printf":
		return (*judge).echo
	case "compgen":
		return (*judge).compgen
	case "hash", "enable":
		return (*judge).hash
	case "crontab":
		return (*judge).crontab
	case "alias":
		return (*judge).alias
	case "history", "fc":
		return (*judge).history
	case "curl", "curlie":
		return (*judge).curl
	case "wget", "wget2", "aria2c", "axel":
		return (*judge).wget
	case "rsync", "scp", "sftp":
		return (*judge).rsync
	case "tar", "bsdtar", "gtar":
		return (*judge).tar
	case "gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "unzstd", "lz4", "pigz", "lzma", "unlzma", "brotli":
		return (*judge).gzip
	case "openssl":
		return (*judge).openssl
	case "cmake":
		return (*judge).cmake
	case "make", "gmake", "bmake", "mingw32-make":
		return (*judge).make
	case "go":
		return (*judge).goTool
	case "docker", "podman", "nerdctl":
		return (*judge).docker
	case "yq", "dasel", "crudini", "sd":
		return (*judge).inPlace
	case "socat":
		return (*judge).socat
	case "gdb", "lldb":
		return (*judge).debugger
	case "nix":
		return (*judge).nix
	case "bun":
		return (*judge).bun
	case "cargo":
		return (*judge).cargo
	case "just":
		return (*judge).just
	case "gio":
		return (*judge).gio
	case "rails":
		return (*judge).rails
	case "pwsh", "powershell":
		return (*judge).pwsh
	case "cmd":
		return (*judge).cmdExe
	case "nu":
		return (*judge).nuShell
	case "async-crud-mcp":
		return (*judge).own
	}
	return nil
}

func (j *judge) own(c *command) *Decision {
	if args := c.args(); len(args) > 0 {
		switch args[0].Text {
		case "version", "--version", "help", "--help", "-h":
			return nil
		}
	}
	return j.deny("own-program", c.name, c.at)
}

func (j *judge) gh(c *command) *Decision {
	args := c.args()
	if len(args) > 3 && args[0].Text == "alias" && args[1].Text == "set" {
		for _, a := range args[2:] {
			if strings.HasPrefix(strings.TrimSpace(a.Text), "!") || a.Text == "--shell" || a.Text == "-s" {
				return j.deny("git-command", "gh alias", c.at)
			}
		}
	}
	return nil
}

// sed is a filter whose program may read, write and run.
func (j *judge) sed(c *command) *Decision {
	s := *syntaxOf("sed")
	args := c.args()
	for _, a := range args {
		t := a.Text
		if t == "--" {
			break
		}
		if strings.HasPrefix(t, "--in-p") || len(t) > 1 && t[0] == '-' && t[1] != '-' && inCluster(t[1:], 'i', "efl") || len(t) > 1 && t[0] == '-' && t[1] == 'I' {
			if d := j.deny("edit-file", "sed "+t, c.at); d != nil {
				return d
			}
		}
	}
	a := s.read(args)
	programs := a.all("e expression")
	if len(programs) == 0 && len(a.all("f file")) == 0 && len(a.operands) > 0 {
		programs = a.operands[:1]
	}
	for _, f := range j.files(&s, a) {
		if !stream(f) {
			if d := j.deny("read-file", "sed "+f.Text, c.at); d != nil {
				return d
			}
		}
	}
	var text []string
	for _, p := range programs {
		text = append(text, p.Text)
	}
	if d := j.programFile(c, a.all("f file"), snippet.Sed); d != nil {
		return d
	}
	return j.program(c, strings.Join(text, "\n"), snippet.Sed)
}

// programFile judges a program that is no file, but standard input.
func (j *judge) programFile(c *command, files []shellast.Word, read func(string) snippet.Effects) *Decision {
	for _, f := range files {
		if !stream(f) {
			continue
		}
		text, _, known := stdinText(c.stdin)
		if f.Process {
			text, known = literalOutput(f.From)
		}
		if !known {
			return j.deny("computed-script", c.name, c.at)
		}
		if d := j.program(c, text, read); d != nil {
			return d
		}
	}
	return nil
}

// inCluster reports whether letter is among options, before one that takes a
// value.
func inCluster(options string, letter rune, values string) bool {
	for _, r := range options {
		if r == letter {
			return true
		}
		if strings.ContainsRune(values, r) {
			return false
		}
	}
	return false
}

func (j *judge) awk(c *command) *Decision {
	s := *syntaxOf("awk")
	a := s.read(c.args())
	for _, v := range a.all("i include l load") {
		if strings.HasPrefix(v.Text, "inplace") {
			if d := j.deny("edit-file", "awk -i inplace", c.at); d != nil {
				return d
			}
		}
	}
	programs := a.all("e source")
	if len(programs) == 0 && len(a.all("f file")) == 0 && len(a.operands) > 0 {
		programs = a.operands[:1]
	}
	if d := j.programFile(c, a.all("f file"), snippet.Awk); d != nil {
		return d
	}
	for _, p := range programs {
		if d := j.program(c, p.Text, snippet.Awk); d != nil {
			return d
		}
	}
	for _, f := range j.files(&s, a) {
		if name, _, ok := strings.Cut(f.Text, "="); ok && !strings.ContainsAny(name, "/. ") {
			continue // a variable
		}
		if !stream(f) {
			return j.deny("read-file", "awk "+f.Text, c.at)
		}
	}
	return nil
}

// program judges a program of sed or awk.
func (j *judge) program(c *command, text string, read func(string) snippet.Effects) *Decision {
	if blank(text) {
		return j.deny("computed-script", c.name, c.at)
	}
	e := read(text)
	if e.Computed != "" {
		return j.deny("filter-program", c.name+" ("+e.Computed+")", c.at)
	}
	for _, f := range e.Files {
		if !stream(shellast.Word{Text: f}) {
			return j.deny("filter-program", c.name+" ("+f+")", c.at)
		}
	}
	for _, cmd := range e.Commands {
		if d := j.innerScript(c, cmd, shellast.Options{Stdin: &shellast.Input{Kind: shellast.Pipe}}); d != nil {
			return d
		}
	}
	return nil
}

func (j *judge) sort(c *command) *Decision {
	a := syntaxOf("sort").read(c.args())
	for _, v := range a.all("o output") {
		if !stream(v) {
			if d := j.deny("edit-file", "sort -o", c.at); d != nil {
				return d
			}
		}
	}
	for _, v := range a.all("compress-program") {
		if d := j.innerScript(c, v.Text, shellast.Options{}); d != nil {
			return d
		}
	}
	return j.ruled(c)
}

func (j *judge) rg(c *command) *Decision {
	a := syntaxOf("rg").read(c.args())
	if _, ok := a.find("files"); ok {
		if d := j.deny("list-files", "rg --files", c.at); d != nil {
			return d
		}
	}
	if _, ok := a.find("type-list"); ok {
		return nil
	}
	for _, v := range a.all("pre hostname-bin") { // programs that it runs, on each file
		if d := j.innerScript(c, v.Text+" "+unknownWord.Text, shellast.Options{}); d != nil {
			return d
		}
	}
	return j.ruled(c)
}

// find lists files, and runs commands on them.
func (j *judge) find(c *command) *Decision {
	if d := j.ruled(c); d != nil {
		return d
	}
	args := c.args()
	for i, a := range args {
		switch a.Text {
		case "-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch":
		default:
			continue
		}
		words := args[i+1:]
		for n, w := range words {
			if w.Text == ";" || w.Text == "+" {
				words = words[:n]
				break
			}
		}
		if d := j.inner(c, filled(words, "{}")); d != nil {
			return d
		}
	}
	return nil
}

// echo judges globs that would list files.
func (j *judge) echo(c *command) *Decision {
	for _, a := range c.args() {
		if a.Glob && strings.Contains(a.Text, "*") && strings.Trim(a.Text, "*=-_") == strings.Trim(a.Text, "=-_") || a.Glob && strings.Trim(a.Text, "*") == "" && len(a.Text) < 3 {
			return j.deny("list-by-glob", c.name+" "+a.Text, c.at)
		}
		if a.Glob && strings.Contains(a.Text, "*") && strings.ContainsAny(a.Text, "/.") {
			return j.deny("list-by-glob", c.name+" "+a.Text, c.at)
		}
	}
	return nil
}

func (j *judge) compgen(c *command) *Decision {
	s := spec{values: "A G W F C P S X o"}
	a := s.read(c.args())
	if _, ok := a.find("f d G"); ok {
		return j.deny("list-by-glob", c.name, c.at)
	}
	for _, v := range a.all("A") {
		if v.Text == "file" || v.Text == "directory" {
			return j.deny("list-by-glob", c.name, c.at)
		}
	}
	return nil
}

// hash judges hash -p and enable -f, which give names other meanings.
func (j *judge) hash(c *command) *Decision {
	s := spec{values: "p f"}
	if o, ok := s.read(c.args()).find("p f"); ok && o.has {
		return j.deny("hidden-name", c.name+" "+dashed(o.name), c.at)
	}
	return nil
}

// crontab judges a table of commands that is not a file.
func (j *judge) crontab(c *command) *Decision {
	s := spec{values: "u"}
	a := s.read(c.args())
	if _, ok := a.find("l r e V"); ok || len(a.operands) > 0 && !stream(a.operands[0]) {
		return nil
	}
	if c.stdin.Kind == shellast.Inherited && len(a.operands) == 0 {
		return nil
	}
	return j.deny("computed-script", c.name, c.at)
}

// alias judges what an alias would run, with an operand.
func (j *judge) alias(c *command) *Decision {
	for _, a := range c.args() {
		if _, value, ok := strings.Cut(a.Text, "="); ok && value != "" {
			if j.innerScript(c, value+" "+unknownWord.Text, shellast.Options{}) != nil {
				return j.deny("hidden-name", "alias "+a.Text, c.at)
			}
		}
	}
	return nil
}

func (j *judge) history(c *command) *Decision {
	s := spec{values: "r w a n e"}
	if o, ok := s.read(c.args()).find("r w a n e"); ok && o.has {
		return j.deny("redirect-read", c.name+" "+dashed(o.name), c.at)
	}
	return nil
}

const curlValues = `A b c C d D e E F h H K m o P Q r t T u U w x X Y y z data data-binary data-raw data-urlencode form header output user user-agent cookie cookie-jar
	max-time connect-timeout retry retry-delay request url write-out proxy cacert cert key upload-file range referer resolve interface limit-rate config
	dump-header output-dir json form-string trace trace-ascii stderr unix-socket connect-to noproxy etag-save etag-compare`

func (j *judge) curl(c *command) *Decision {
	s := spec{values: curlValues, writes: "o output D dump-header c cookie-jar trace trace-ascii etag-save stderr output-dir"}
	a := s.read(c.args())
	if _, ok := a.find("O remote-name remote-name-all"); ok {
		return j.deny("download-file", "curl -O", c.at)
	}
	for _, o := range a.opts {
		if o.has && (len(o.name) == 1 && has(s.writes, o.name) || has(s.writes, o.name)) && !stream(o.value) {
			return j.deny("download-file", "curl "+dashed(o.name), c.at)
		}
	}
	for _, w := range append(a.operands, a.all("url")...) {
		if strings.HasPrefix(strings.ToLower(w.Text), "file:") {
			return j.deny("file-url", w.Text, c.at)
		}
	}
	return nil
}

func (j *judge) wget(c *command) *Decision {
	s := spec{values: "O o a i P t T U e w Q B A R D I X output-document output-file append-output input-file directory-prefix tries timeout user-agent header user password post-data post-file body-data method load-cookies save-cookies d dir out"}
	a := s.read(c.args())
	out := a.all("O output-document o output-file a append-output out")
	for _, w := range out {
		if !stream(w) {
			return j.deny("download-file", c.name+" "+w.Text, c.at)
		}
	}
	for _, w := range a.operands {
		if strings.HasPrefix(strings.ToLower(w.Text), "file:") {
			return j.deny("file-url", w.Text, c.at)
		}
	}
	if _, spider := a.find("spider V version h help"); spider || len(a.all("O output-document")) > 0 {
		return nil
	}
	if len(a.operands)+len(a.all("i input-file")) > 0 {
		return j.deny("download-file", c.name, c.at)
	}
	return nil
}

// rsync is fine where it sends to another machine.
func (j *judge) rsync(c *command) *Decision {
	s := spec{values: "e f B T i o F P S c J l rsh filter exclude include exclude-from include-from files-from temp-dir port password-file bwlimit rsync-path"}
	a := s.read(c.args())
	for _, v := range a.all("e rsh rsync-path") {
		if d := j.innerScript(c, v.Text, shellast.Options{}); d != nil {
			return d
		}
	}
	if n := len(a.operands); n > 1 && strings.ContainsRune(a.operands[n-1].Text, ':') {
		return nil
	}
	if len(a.operands) == 0 {
		return nil
	}
	return j.deny("copy-file", c.name, c.at)
}

func (j *judge) tar(c *command) *Decision {
	args := c.args()
	if len(args) > 0 && !strings.HasPrefix(args[0].Text, "-") { // old style: tar xOf
		args = append([]shellast.Word{{Text: "-" + args[0].Text, Span: args[0].Span}}, args[1:]...)
		if strings.ContainsRune(args[0].Text, 'O') {
			if d := j.deny("file-url", "tar -O", c.at); d != nil {
				return d
			}
		}
	}
	s := spec{values: "f C T X I g b H K L N V F file directory files-from exclude-from use-compress-program to-command checkpoint-action info-script new-volume-script rsh-command rmt-command exclude transform"}
	a := s.read(args)
	if o, ok := a.find("O to-stdout to-command"); ok {
		if d := j.deny("file-url", "tar "+dashed(o.name), c.at); d != nil {
			return d
		}
	}
	for _, v := range a.all("to-command I use-compress-program F info-script new-volume-script rsh-command rmt-command") {
		if d := j.innerScript(c, v.Text, shellast.Options{Stdin: &shellast.Input{Kind: shellast.Pipe}}); d != nil {
			return d
		}
	}
	for _, v := range a.all("checkpoint-action") {
		if text, ok := strings.CutPrefix(v.Text, "exec="); ok {
			if d := j.innerScript(c, text, shellast.Options{}); d != nil {
				return d
			}
		}
	}
	return nil
}

func (j *judge) gzip(c *command) *Decision {
	s := spec{values: "S o T b suffix output threads"}
	a := s.read(c.args())
	if _, ok := a.find("c stdout to-stdout"); !ok {
		return nil
	}
	for _, f := range a.operands {
		if !stream(f) {
			return j.deny("read-file", c.name+" -c "+f.Text, c.at)
		}
	}
	return nil
}

func (j *judge) openssl(c *command) *Decision {
	args := c.args()
	if len(args) == 0 {
		return nil
	}
	switch args[0].Text {
	case "enc", "base64", "dgst", "zlib", "rc4", "aes-256-cbc", "aes-128-cbc", "des3", "smime", "cms", "asn1parse":
	default:
		return nil
	}
	for i, a := range args {
		if (a.Text == "-in" || a.Text == "-out") && i+1 < len(args) && !stream(args[i+1]) {
			return j.deny("file-url", "openssl "+args[0].Text, c.at)
		}
	}
	return nil
}

// cmake -E is a set of file commands.
func (j *judge) cmake(c *command) *Decision {
	args := c.args()
	if len(args) < 2 || args[0].Text != "-E" {
		return nil
	}
	names := map[string]string{
		"cat": "file-url", "copy": "copy-file", "copy_if_different": "copy-file", "copy_if_newer": "copy-file", "copy_directory": "copy-file", "copy_directory_if_different": "copy-file",
		"rename": "move-file", "remove": "delete-file", "remove_directory": "delete-file", "rm": "delete-file", "make_directory": "make-directory",
		"touch": "write-file", "touch_nocreate": "write-file", "create_symlink": "write-file", "create_hardlink": "write-file", "compare_files": "read-file",
	}
	if name, ok := names[args[1].Text]; ok {
		return j.deny(name, "cmake -E "+args[1].Text, c.at)
	}
	switch args[1].Text {
	case "env", "time", "chdir":
		rest := args[2:]
		if args[1].Text == "chdir" && len(rest) > 0 {
			rest = rest[1:]
		}
		return j.inner(c, append([]shellast.Word{{Text: "env"}}, rest...))
	}
	return nil
}

func (j *judge) make(c *command) *Decision {
	s := spec{values: "C f I j l o W E file makefile directory include-dir eval old-file what-if"}
	a := s.read(c.args())
	for _, v := range a.all("f file makefile") {
		if v.Process || v.Text == "-" || v.Text == "/dev/stdin" {
			return j.deny("computed-script", "make -f "+v.Text, c.at)
		}
	}
	for _, w := range append(a.all("E eval"), a.operands...) {
		if strings.Contains(w.Text, "$(shell") || strings.Contains(w.Text, "$(file") || strings.Contains(w.Text, "${shell") || strings.Contains(w.Text, "!=") {
			return j.deny("computed-script", "make "+w.Text, c.at)
		}
	}
	if o, ok := a.find("eval E"); ok && o.has {
		return j.deny("computed-script", "make --eval", c.at)
	}
	return nil
}

// goTool judges the commands that go runs in place of others.
func (j *judge) goTool(c *command) *Decision {
	args := c.args()
	for i, a := range args {
		name, value, ok := strings.Cut(strings.TrimLeft(a.Text, "-"), "=")
		if !strings.HasPrefix(a.Text, "-") {
			continue
		}
		switch name {
		case "exec", "toolexec", "vettool":
			if !ok && i+1 < len(args) {
				value = args[i+1].Text
			}
			if value == "" {
				continue
			}
			if d := j.innerScript(c, value+" "+unknownWord.Text, shellast.Options{}); d != nil {
				return d
			}
		}
	}
	return nil
}

const dockerValues = `a c e h l m p u v w H t add-host annotation attach blkio-weight cap-add cap-drop cgroup-parent cidfile context config cpu-period cpu-quota cpu-shares cpus
	cpuset-cpus device dns entrypoint env env-file expose gpus group-add health-cmd host hostname init-path ip ipc label label-file link log-driver log-opt
	mac-address memory memory-swap mount name net network network-alias pid pids-limit platform publish pull restart runtime security-opt shm-size stop-signal
	stop-timeout storage-opt sysctl tmpfs ulimit user userns uts volume volume-driver volumes-from workdir project-directory file profile`

// docker judges the command of a container that has directories of this machine;
// others have files of their own.
func (j *judge) docker(c *command) *Decision {
	global := spec{values: "H c l context config host log-level", first: true}
	operands := global.read(c.args()).operands
	if len(operands) > 0 && operands[0].Text == "container" {
		operands = operands[1:]
	}
	if len(operands) == 0 || operands[0].Text != "run" && operands[0].Text != "create" {
		return nil
	}
	s := spec{values: dockerValues, first: true}
	a := s.read(operands[1:])
	mounts := a.all("v volume mount volumes-from")
	shared := false
	for _, m := range mounts {
		if strings.ContainsAny(m.Text, "/.~") || m.Computed() {
			shared = true
		}
	}
	if !shared || len(a.operands) == 0 {
		return nil
	}
	words := a.operands[1:]
	for _, e := range a.all("entrypoint") {
		if e.Text != "" {
			words = append([]shellast.Word{e}, words...)
		}
	}
	return j.inner(c, words)
}

func (j *judge) inPlace(c *command) *Decision {
	s := spec{values: "o p s t r w I f selector parser"}
	a := s.read(c.args())
	switch c.name {
	case "yq":
		if _, ok := a.find("i inplace in-place"); ok {
			return j.deny("edit-file", "yq -i", c.at)
		}
	case "dasel":
		if len(a.operands) > 0 && (a.operands[0].Text == "put" || a.operands[0].Text == "delete") && len(a.all("f")) > 0 {
			return j.deny("edit-file", "dasel "+a.operands[0].Text, c.at)
		}
	case "crudini":
		if _, ok := a.find("set del merge inplace"); ok {
			return j.deny("edit-file", "crudini", c.at)
		}
	case "sd":
		if len(a.operands) > 2 {
			return j.deny("edit-file", "sd "+a.operands[2].Text, c.at)
		}
	}
	return nil
}

func (j *judge) socat(c *command) *Decision {
	for _, a := range c.args() {
		kind, rest, _ := strings.Cut(a.Text, ":")
		switch strings.ToUpper(kind) {
		case "EXEC", "SYSTEM", "SHELL":
			if d := j.innerScript(c, strings.SplitN(rest, ",", 2)[0], shellast.Options{}); d != nil {
				return d
			}
		case "FILE", "OPEN", "GOPEN", "CREATE", "CREAT":
			if !stream(shellast.Word{Text: strings.SplitN(rest, ",", 2)[0]}) {
				return j.deny("file-url", "socat "+kind, c.at)
			}
		}
	}
	return nil
}

func (j *judge) debugger(c *command) *Decision {
	args := c.args()
	for i, a := range args {
		switch a.Text {
		case "-ex", "--ex", "-iex", "-o", "--one-line", "--eval-command":
			if i+1 < len(args) {
				verb, rest, _ := strings.Cut(strings.TrimSpace(args[i+1].Text), " ")
				switch verb {
				case "shell", "!", "platform":
					if d := j.innerScript(c, rest, shellast.Options{}); d != nil {
						return d
					}
				case "python", "py", "script":
					if d := j.code(c, snippet.Python, rest); d != nil {
						return d
					}
				}
			}
		case "--args", "--":
			return j.inner(c, args[i+1:])
		}
	}
	return nil
}

func (j *judge) nix(c *command) *Decision {
	args := c.args()
	for i, a := range args {
		if a.Text == "-c" || a.Text == "--command" {
			return j.inner(c, args[i+1:])
		}
	}
	return nil
}

func (j *judge) bun(c *command) *Decision {
	args := c.args()
	if len(args) > 1 {
		switch args[0].Text {
		case "exec":
			return j.innerScript(c, args[1].Text, shellast.Options{})
		case "x":
			return j.inner(c, args[1:])
		}
	}
	return j.interpreted(c, interpreters()["bun"])
}

func (j *judge) cargo(c *command) *Decision {
	args := c.args()
	if len(args) == 0 || args[0].Text != "watch" {
		return nil
	}
	s := spec{values: "s x w i C d shell exec watch ignore workdir delay", first: true}
	a := s.read(args[1:])
	for _, text := range a.all("s shell") {
		if d := j.innerScript(c, text.Text, shellast.Options{}); d != nil {
			return d
		}
	}
	return j.inner(c, a.operands)
}

func (j *judge) just(c *command) *Decision {
	args := c.args()
	for i, a := range args {
		if a.Text == "--command" || a.Text == "-c" {
			return j.inner(c, args[i+1:])
		}
	}
	return nil
}

func (j *judge) gio(c *command) *Decision {
	if args := c.args(); len(args) > 1 {
		switch args[0].Text {
		case "cat":
			return j.deny("read-file", "gio cat", c.at)
		case "list", "tree":
			return j.deny("list-files", "gio "+args[0].Text, c.at)
		case "copy":
			return j.deny("copy-file", "gio copy", c.at)
		case "move", "rename":
			return j.deny("move-file", "gio "+args[0].Text, c.at)
		case "remove", "trash":
			return j.deny("delete-file", "gio "+args[0].Text, c.at)
		case "mkdir":
			return j.deny("make-directory", "gio mkdir", c.at)
		case "save":
			return j.deny("write-file", "gio save", c.at)
		}
	}
	return nil
}

// nuShell judges nu -c.
func (j *judge) nuShell(c *command) *Decision {
	s := spec{values: "c commands e execute config env-config I m", first: true}
	a := s.read(c.args())
	for _, text := range a.all("c commands e execute") {
		if blank(text.Text) {
			return j.deny("computed-script", c.name, c.at)
		}
		if d := j.nu(text.Text); d != nil {
			d.Span = c.at
			return d
		}
	}
	return nil
}

// pwsh judges powershell -Command and its like.
func (j *judge) pwsh(c *command) *Decision {
	args := c.args()
	for i, a := range args {
		name := strings.ToLower(strings.TrimLeft(a.Text, "-/"))
		switch {
		case !strings.HasPrefix(a.Text, "-") && !strings.HasPrefix(a.Text, "/c"):
			return nil // a script file
		case strings.HasPrefix(name, "e") && strings.HasPrefix("encodedcommand", name), name == "ec":
			return j.deny("computed-script", c.name, c.at)
		case strings.HasPrefix("command", name):
			text := joined(args[i+1:])
			if blank(text) || text == "-" {
				return j.deny("computed-script", c.name, c.at)
			}
			return j.powershell(text, &c.at)
		case strings.HasPrefix("file", name):
			return nil
		case name == "executionpolicy" || name == "ep" || name == "ex":
			continue
		}
	}
	return nil
}

// cmdExe judges cmd /c by the names of its builtins.
func (j *judge) cmdExe(c *command) *Decision {
	args := c.args()
	for i, a := range args {
		if t := strings.ToLower(a.Text); t == "/c" || t == "/k" || t == "//c" {
			if i+1 >= len(args) {
				return nil
			}
			verb, _, _ := strings.Cut(args[i+1].Text, " ")
			if name, ok := windows()[strings.ToLower(verb)]; ok {
				return j.deny(name, "cmd /c "+verb, c.at)
			}
			return j.innerScript(c, strings.ReplaceAll(joined(args[i+1:]), `\`, "/"), shellast.Options{})
		}
	}
	return nil
}
