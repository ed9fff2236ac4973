package policy

import (
	"slices"
	"strings"
	"sync"

	"github.com/async-crud-mcp/async-crud-mcp/internal/policy/snippet"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shellast"
)

// language is how an interpreter is given code.
type language struct {
	spec
	lang  snippet.Lang
	code  string // options whose value is code
	loops string // options that run the code for each line of standard input or of the files named
	edits string // options that write the files named
	sub   string // code follows this subcommand
	stdin bool   // without a script file it reads code from standard input
	perl  bool   // its options cluster as those of perl do
	dash  bool   // its long options have one dash
}

var interpreters = sync.OnceValue(func() map[string]*language {
	return map[string]*language{
		"python":    {lang: snippet.Python, code: "c", stdin: true, spec: spec{values: "c m W X Q check-hash-based-pycs", final: "c m", first: true}},
		"node":      {lang: snippet.Node, code: "e p eval print", stdin: true, spec: spec{values: "e p r C eval print require import loader experimental-loader conditions env-file input-type", final: "", first: true}},
		"perl":      {lang: snippet.Perl, code: "e E", loops: "n p", edits: "i", stdin: true, perl: true},
		"ruby":      {lang: snippet.Ruby, code: "e", loops: "n p", edits: "i", stdin: true, perl: true},
		"php":       {lang: snippet.PHP, code: "r R B E run process-code process-begin process-end", stdin: true, spec: spec{values: "r R B E F f d c z run process-code process-begin process-end file define", first: true}},
		"lua":       {lang: snippet.Lua, code: "e", stdin: true, spec: spec{values: "e l", first: true}},
		"rscript":   {lang: snippet.R, code: "e", spec: spec{values: "e", first: true}},
		"r":         {lang: snippet.R, code: "e", stdin: true, spec: spec{values: "e f file", first: true}},
		"julia":     {lang: snippet.Julia, code: "e E eval print", stdin: true, spec: spec{values: "e E L p t J eval print load", first: true}},
		"tclsh":     {lang: snippet.Tcl, stdin: true, spec: spec{first: true}},
		"expect":    {lang: snippet.Tcl, code: "c", stdin: true, spec: spec{values: "c f", first: true}},
		"deno":      {lang: snippet.Node, sub: "eval", spec: spec{values: "ext config", first: true}},
		"bun":       {lang: snippet.Node, code: "e p eval print", spec: spec{values: "e p r eval print preload cwd", first: true}},
		"groovy":    {lang: snippet.JVM, code: "e", spec: spec{values: "e", first: true}},
		"scala":     {lang: snippet.JVM, code: "e", spec: spec{values: "e", first: true}},
		"kotlin":    {lang: snippet.JVM, code: "e", spec: spec{values: "e", first: true}},
		"jshell":    {lang: snippet.JVM, stdin: true, spec: spec{first: true}},
		"osascript": {lang: snippet.JVM, code: "e", stdin: true, spec: spec{values: "e l s", first: true}},
		"elixir":    {lang: snippet.BEAM, code: "e eval rpc-eval", spec: spec{values: "e r S eval require", first: true}},
		"erl":       {lang: snippet.BEAM, code: "eval", dash: true, spec: spec{values: "eval", first: true}},
		"ghc":       {lang: snippet.BEAM, code: "e", spec: spec{values: "e", first: true}},
		"runghc":    {lang: snippet.BEAM, stdin: true, spec: spec{first: true}},
		"clojure":   {lang: snippet.Lisp, code: "e M", spec: spec{values: "e M", first: true}},
		"bb":        {lang: snippet.Lisp, code: "e", spec: spec{values: "e", first: true}},
		"guile":     {lang: snippet.Lisp, code: "c", stdin: true, spec: spec{values: "c e l s", first: true}},
		"racket":    {lang: snippet.Lisp, code: "e", spec: spec{values: "e f l", first: true}},
		"sbcl":      {lang: snippet.Lisp, code: "eval", stdin: true, spec: spec{values: "eval load", first: true}},
		"sqlite3":   {lang: snippet.SQL, code: "cmd c", sub: "*", stdin: true, dash: true, spec: spec{values: "cmd separator newline nullvalue init mmap pagecache lookaside"}},
		"psql":      {lang: snippet.SQL, code: "c command", stdin: true, spec: spec{values: "c d f F h L o p P R T U v command dbname file host output port username set variable", writes: "o output L log-file"}},
		"mysql":     {lang: snippet.SQL, code: "e execute", stdin: true, spec: spec{values: "e h P u D S execute host port user database socket"}},
		"duckdb":    {lang: snippet.SQL, code: "c s cmd", sub: "*", stdin: true, dash: true, spec: spec{values: "c s cmd separator nullvalue init"}},
	}
})

// interpreter returns the language of a program, whatever its version is.
func interpreter(name string) (*language, bool) {
	base := strings.ToLower(name)
	if l, ok := interpreters()[base]; ok {
		return l, true
	}
	base = strings.TrimRight(base, "0123456789.-")
	switch base {
	case "pypy", "python", "pythonw", "ipython", "py", "micropython", "bpython", "jython", "graalpy":
		base = "python"
	case "nodejs", "iojs", "ts-node", "tsx", "esno", "babel-node", "mongosh", "mongo":
		base = "node"
	case "luajit", "lua", "texlua", "luau":
		base = "lua"
	case "jruby", "ruby", "irb", "truffleruby":
		base = "ruby"
	case "wish", "jimsh", "tclsh":
		base = "tclsh"
	case "clj", "lein":
		base = "clojure"
	case "mariadb":
		base = "mysql"
	case "php-cgi", "hhvm":
		base = "php"
	}
	if base == "sqlite" {
		base = "sqlite3"
	}
	l, ok := interpreters()[base]
	return l, ok
}

// given is the code and files an interpreter was given.
type given struct {
	code     []shellast.Word
	operands []shellast.Word
	module   string
	loops    bool
	edits    bool
}

func (l *language) read(args []shellast.Word) given {
	if l.perl {
		return l.readPerl(args)
	}
	if l.lang == snippet.Node {
		args = printing(args)
	}
	if l.dash {
		args = lengthened(args, l.spec.values)
	}
	a := l.spec.read(args)
	g := given{code: a.all(l.code), operands: a.operands}
	if l.lang == snippet.Python {
		if m := a.all("m"); len(m) > 0 {
			g.module = m[0].Text
		}
	}
	if l.sub == "*" { // every operand but the first is code
		g.code = append(g.code, g.operands[min(1, len(g.operands)):]...)
	} else if l.sub != "" && len(g.operands) > 1 && g.operands[0].Text == l.sub {
		rest := l.spec.read(g.operands[1:])
		g.code = append(g.code, rest.operands[:min(1, len(rest.operands))]...)
	}
	return g
}

// lengthened gives the second dash to options that have one alone: sqlite3 -cmd.
func lengthened(args []shellast.Word, options string) []shellast.Word {
	out := slices.Clone(args)
	for i, a := range out {
		if name, ok := strings.CutPrefix(a.Text, "-"); ok && len(name) > 1 && has(options, name) {
			out[i].Text = "-" + a.Text
		}
	}
	return out
}

// printing reads node's -pe, and -p before another option, as what they are: a
// flag.
func printing(args []shellast.Word) []shellast.Word {
	out := make([]shellast.Word, 0, len(args))
	for i, a := range args {
		if a.Text == "-pe" || a.Text == "-ep" {
			a.Text = "-e"
		}
		if (a.Text == "-p" || a.Text == "--print") && i+1 < len(args) && strings.HasPrefix(args[i+1].Text, "-") {
			continue
		}
		out = append(out, a)
	}
	return out
}

// readPerl reads options that cluster with values: -lane, -pi.bak, -0777 -ne.
func (l *language) readPerl(args []shellast.Word) given {
	var g given
	for i := 0; i < len(args); i++ {
		text := args[i].Text
		if len(text) < 2 || text[0] != '-' {
			g.operands = args[i:]
			return g
		}
		if text == "--" {
			g.operands = args[i+1:]
			return g
		}
		for k := 1; k < len(text); k++ {
			letter := text[k : k+1]
			switch {
			case has(l.code, letter):
				if rest := text[k+1:]; rest != "" && l.lang == snippet.Ruby {
					g.code = append(g.code, shellast.Word{Text: rest, Span: args[i].Span})
				} else if i+1 < len(args) {
					i++
					g.code = append(g.code, args[i])
				}
				k = len(text)
			case has(l.edits, letter):
				g.edits = true
				k = len(text) // the rest is the extension of the backup
			case has(l.loops, letter):
				g.loops = true
			case letter == "0" || letter == "l":
				for k+1 < len(text) && strings.IndexByte("01234567xabcdefABCDEF", text[k+1]) >= 0 && letter == "0" || k+1 < len(text) && letter == "l" && text[k+1] >= '0' && text[k+1] <= '7' {
					k++
				}
			case strings.Contains("MmIFxCDrKEW", letter):
				if strings.Contains("Ir", letter) && k+1 == len(text) {
					i++
				}
				if (letter == "M" || letter == "m") && k+1 < len(text) {
					g.code = append(g.code, shellast.Word{Text: "use " + strings.TrimLeft(text[k+1:], "-"), Span: args[i].Span})
				}
				if letter == "r" && l.lang == snippet.Ruby && k+1 < len(text) {
					g.code = append(g.code, shellast.Word{Text: "require '" + text[k+1:] + "'", Span: args[i].Span})
				}
				k = len(text)
			}
		}
	}
	return g
}

// interpreted judges an interpreter by the code it is given.
func (j *judge) interpreted(c *command, l *language) *Decision {
	g := l.read(c.args())
	if l.lang == snippet.SQL {
		for _, o := range l.spec.read(c.args()).all(l.writes) {
			if !stream(o) {
				return j.deny("redirect-write", c.name+" "+o.Text, c.at)
			}
		}
	}
	if g.edits && len(g.code)+len(g.operands) > 0 {
		return j.deny("edit-file", c.name+" -i", c.at)
	}
	for _, code := range g.code {
		if d := j.code(c, l.lang, code.Text); d != nil {
			return d
		}
	}
	if len(g.code) > 0 && l.lang != snippet.SQL {
		if len(g.operands) > 0 && !stream(g.operands[0]) && (g.loops || readsOperands(l.lang, g.code)) {
			return j.deny("one-liner", c.name+" "+g.operands[0].Text, c.at)
		}
		if c.stdin.Kind == shellast.File && !stream(c.stdin.File) {
			return j.deny("redirect-read", c.name+" < "+c.stdin.File.Text, c.at)
		}
		return nil
	}
	if d := j.framework(c, l.lang, g.operands); d != nil {
		return d
	}
	switch {
	case g.module != "":
		return j.module(c, g)
	case l.sub != "" && l.sub != "*" && !l.stdin:
		return j.subInterpreter(c, g)
	case len(g.operands) > 0 && g.operands[0].Process:
		return j.deny("computed-script", c.name, c.at)
	case l.stdin && (len(g.operands) == 0 || g.operands[0].Text == "-" || g.operands[0].Text == "/dev/stdin" || l.lang == snippet.SQL):
		return j.stdinCode(c, l.lang)
	}
	return nil
}

// framework judges code given to the consoles of web frameworks: manage.py shell
// -c, artisan tinker --execute, rails runner.
func (j *judge) framework(c *command, lang snippet.Lang, args []shellast.Word) *Decision {
	if len(args) < 2 {
		return nil
	}
	script, _ := args[0].Base()
	s := spec{values: "c command e execute i interface environment"}
	a := s.read(args[2:])
	var code []shellast.Word
	switch script + " " + args[1].Text {
	case "manage.py shell", "manage.py shell_plus", "artisan tinker":
		if code = a.all("c command execute"); len(code) == 0 {
			return j.stdinCode(c, lang) // a console
		}
	case "rails runner", "rails r":
		code = a.operands[:min(1, len(a.operands))]
	}
	for _, w := range code {
		if d := j.code(c, lang, w.Text); d != nil {
			return d
		}
	}
	return nil
}

// rails judges the runner of Ruby on Rails.
func (j *judge) rails(c *command) *Decision {
	return j.framework(c, snippet.Ruby, c.words)
}

// readsOperands reports whether code reads the files that are its operands.
func readsOperands(lang snippet.Lang, code []shellast.Word) bool {
	for _, w := range code {
		perl := strings.Contains(w.Text, "<>") || strings.Contains(w.Text, "ARGV>")
		ruby := strings.Contains(w.Text, "gets") || strings.Contains(w.Text, "readline") || strings.Contains(w.Text, "$<") || strings.Contains(w.Text, "ARGF")
		if lang == snippet.Perl && perl || lang == snippet.Ruby && ruby {
			return true
		}
	}
	return false
}

// subInterpreter judges deno and bun, whose subcommands run programs too.
func (j *judge) subInterpreter(c *command, g given) *Decision {
	if c.name == "deno" && len(g.operands) > 1 && g.operands[0].Text == "run" && g.operands[len(g.operands)-1].Text == "-" {
		return j.stdinCode(c, snippet.Node)
	}
	return nil
}

// code judges the text of a one-liner.
func (j *judge) code(c *command, lang snippet.Lang, code string) *Decision {
	if blank(code) {
		return j.deny("computed-script", c.name, c.at)
	}
	if found := snippet.Find(lang, code); found != "" {
		if lang == snippet.SQL {
			return j.deny("file-url", found, c.at)
		}
		return j.deny("one-liner", found, c.at)
	}
	return nil
}

// stdinText returns the text that standard input holds, whether there is one, and
// whether it is known.
func stdinText(in *shellast.Input) (text string, present, known bool) {
	switch in.Kind {
	case shellast.Text:
		return in.Text, true, true
	case shellast.Pipe, shellast.Process:
		text, known = literalOutput(in.From)
		return text, true, known
	case shellast.File:
		return "", !stream(in.File), false
	case shellast.Inherited:
	}
	return "", false, false
}

// stdinCode judges code that an interpreter reads from standard input.
func (j *judge) stdinCode(c *command, lang snippet.Lang) *Decision {
	text, present, known := stdinText(c.stdin)
	if !present || c.stdin.Kind == shellast.File {
		return nil // a script file
	}
	if !known {
		if lang == snippet.SQL {
			return nil
		}
		return j.deny("computed-script", c.name, c.at)
	}
	return j.code(c, lang, text)
}

// module judges python -m.
func (j *judge) module(c *command, g given) *Decision {
	switch g.module {
	case "timeit":
		s := spec{values: "n r s u p number repeat setup unit"}
		a := s.read(g.operands)
		for _, w := range append(a.all("s setup"), a.operands...) {
			if d := j.code(c, snippet.Python, w.Text); d != nil {
				return d
			}
		}
	case "base64", "quopri", "uu", "gzip", "zipfile", "tarfile", "fileinput", "tokenize", "ast", "dis", "shutil", "pprint", "encodings.rot_13":
		s := spec{}
		for _, o := range s.read(g.operands).operands {
			if !stream(o) {
				return j.deny("one-liner", "python -m "+g.module, c.at)
			}
		}
	case "code", "pdb", "runpy":
		if len(g.operands) == 0 {
			return j.stdinCode(c, snippet.Python)
		}
	default:
		if strings.ContainsRune(g.module, shellast.Hole) {
			return nil
		}
		// A module may be a program that runs others, or one that the rules name.
		if _, ok := wrappers()[g.module]; ok {
			return j.inner(c, append([]shellast.Word{{Text: g.module}}, g.operands...))
		}
	}
	return nil
}

const shells = "sh bash dash ash zsh ksh ksh93 mksh pdksh yash fish rbash rzsh oksh bash5 posh csh tcsh elvish xonsh"

// shell judges a shell by the text it is given.
func (j *judge) shell(c *command) *Decision {
	args, fromStdin := c.args(), false
	i := 0
	for ; i < len(args); i++ {
		text := args[i].Text
		if len(text) < 2 || text[0] != '-' && text[0] != '+' || args[i].Process {
			break
		}
		switch {
		case text == "--":
			i++
			goto operands
		case text == "--rcfile" || text == "--init-file":
			if i++; i < len(args) && args[i].Process {
				return j.deny("computed-script", c.name, c.at)
			}
		case text == "--command" || text == "--init-command": // fish
			if i+1 < len(args) {
				return j.innerScript(c, args[i+1].Text, shellast.Options{})
			}
		case strings.HasPrefix(text, "--"):
			if value, ok := strings.CutPrefix(text, "--command="); ok {
				return j.innerScript(c, value, shellast.Options{})
			}
		case text[0] == '-' && strings.ContainsRune(text, 'c'):
			i += strings.Count(text, "o") + strings.Count(text, "O")
			for i++; i < len(args) && len(args[i].Text) > 1 && (args[i].Text[0] == '-' || args[i].Text[0] == '+'); i++ { // options may follow -c
				if strings.HasSuffix(args[i].Text, "o") || strings.HasSuffix(args[i].Text, "O") {
					i++
				}
			}
			if i >= len(args) {
				return nil
			}
			if c.stdin.Kind == shellast.File && !stream(c.stdin.File) {
				if d := j.deny("redirect-read", c.name+" < "+c.stdin.File.Text, c.at); d != nil {
					return d
				}
			}
			return j.innerScript(c, args[i].Text, shellast.Options{Args: append([]shellast.Word{}, args[i+1:]...), Known: true})
		default:
			fromStdin = fromStdin || text[0] == '-' && strings.ContainsRune(text, 's')
			i += strings.Count(text, "o") + strings.Count(text, "O")
		}
	}
operands:
	if i < len(args) && !fromStdin && args[i].Text != "-" && args[i].Text != "/dev/stdin" && args[i].Text != "/dev/fd/0" && args[i].Text != "/proc/self/fd/0" {
		if args[i].Process {
			return j.sourced(c, args[i])
		}
		return nil // a script file
	}
	return j.stdinScript(c)
}

// stdinScript judges the text that a shell reads from standard input.
func (j *judge) stdinScript(c *command) *Decision {
	text, present, known := stdinText(c.stdin)
	if !present || c.stdin.Kind == shellast.File {
		return nil // a script file
	}
	if !known {
		return j.deny("computed-script", c.name, c.at)
	}
	return j.innerScript(c, text, shellast.Options{Stdin: &shellast.Input{}})
}

// source judges . and source.
func (j *judge) source(c *command) *Decision {
	args := c.args()
	if len(args) == 0 {
		return nil
	}
	if args[0].Process {
		return j.sourced(c, args[0])
	}
	if args[0].Text == "/dev/stdin" || args[0].Text == "/dev/fd/0" || args[0].Text == "/proc/self/fd/0" {
		return j.stdinScript(c)
	}
	return nil
}

// sourced judges text that a command prints for the shell to run.
func (j *judge) sourced(c *command, w shellast.Word) *Decision {
	if w.From != nil {
		if text, ok := literalOutput(w.From); ok {
			return j.innerScript(c, text, shellast.Options{})
		}
		if settings(w.From) {
			return nil
		}
	}
	return j.deny("computed-script", c.name, c.at)
}

// eval judges eval of text that nothing is known of; the rest shellast has read.
func (j *judge) eval(c *command) *Decision {
	args := c.args()
	if len(args) > 0 && args[0].Text == "--" {
		args = args[1:]
	}
	if !blank(joined(args)) {
		return nil
	}
	if len(args) == 1 && args[0].From != nil && settings(args[0].From) {
		return nil
	}
	return j.deny("computed-script", c.name, c.at)
}

// settings reports whether a command prints settings for a shell, as ssh-agent -s
// or pyenv init do, by its name and by what it is asked for.
func settings(c *shellast.Call) bool {
	name, ok := c.Name()
	if !ok || byCommand()[name] != nil || wrappers()[name] != nil && wrappers()[name].sub == "" || has(shells, name) || len(c.Redirs) > 0 {
		return false
	}
	if _, ok := interpreter(name); ok {
		return false
	}
	if _, ok := handler(name); ok && name != "docker" && name != "go" {
		return false
	}
	switch name {
	case "ssh-agent", "dircolors", "keychain", "resize", "gpg-agent", "dbus-launch", "locale", "tset":
		return true
	case "echo", "printf", "curl", "wget", "base64", "jq", "yq", "fold", "yes", "seq", "date", "envsubst", "aws":
		return false
	}
	for _, a := range c.Words[1:] {
		switch strings.TrimLeft(a.Text, "-") {
		case "init", "env", "hook", "shellenv", "activate", "completion", "completions", "docker-env", "hook-env", "shell.bash", "shell-init", "shell", "shell-hook", "podman-env", "print-env", "exports", "export", "path", "setup", "alias", "print-completion", "generate-shell-completion", "generate-completion":
			return true
		}
	}
	return false
}
