// Package snippet reads the code of one-liners, as they are given to python -c,
// node -e, awk or sed, and says what they would do with files and processes.
//
// It does not parse these languages: it takes string literals and comments out of
// the code and looks for the names that reach files or processes, or that hide
// such names. awk and sed, whose output and input commands are punctuation, have
// small readers of their own. Functions are pure and safe for concurrent use. Which
// program takes which code, and what follows from a finding, is left to policy.
package snippet

import (
	"regexp"
	"strings"
	"sync"

	"github.com/async-crud-mcp/async-crud-mcp/internal/pattern"
)

// Lang is a language of one-liners.
type Lang string

// The languages that are told apart.
const (
	Python Lang = "python"
	Node   Lang = "node"
	Perl   Lang = "perl"
	Ruby   Lang = "ruby"
	PHP    Lang = "php"
	Lua    Lang = "lua"
	R      Lang = "r"
	Julia  Lang = "julia"
	Tcl    Lang = "tcl"
	Lisp   Lang = "lisp"
	JVM    Lang = "jvm"
	BEAM   Lang = "beam"
	SQL    Lang = "sql"
)

// Find returns the first construct in code that reaches files or processes, or
// that hides what it reaches; "" if there is none.
func Find(lang Lang, code string) string {
	l, ok := languages()[lang]
	if !ok {
		return ""
	}
	if l.plain.there(code) {
		code = l.plain.re.ReplaceAllString(code, "plain(")
	}
	if m := first(l.raw, code); m != "" {
		return shown(m)
	}
	bare := code
	if l.strip != nil {
		bare = l.strip(code)
	}
	for _, f := range l.harmless {
		if f.there(bare) {
			bare = f.re.ReplaceAllString(bare, " ")
		}
	}
	if m := identifier(bare, l.names); m != "" {
		return shown(m)
	}
	if m := first(l.forms, bare); m != "" {
		return shown(m)
	}
	if l.check != nil {
		return shown(l.check(code, bare))
	}
	return ""
}

// form is a construct. Its pattern is tried where one of the needed texts is, so
// that ordinary code costs a few scans.
type form struct {
	need []string
	re   *regexp.Regexp
}

func (f form) there(code string) bool {
	for _, n := range f.need {
		if strings.Contains(code, n) {
			return true
		}
	}
	return false
}

func first(forms []form, code string) string {
	for _, f := range forms {
		if f.there(code) {
			if m := f.re.FindString(code); m != "" {
				return m
			}
		}
	}
	return ""
}

// on makes a form of a pattern and the texts of which one is in every match,
// separated by spaces.
func on(need, pattern string) form {
	return form{strings.Fields(need), regexp.MustCompile(pattern)}
}

// identifier returns the first identifier in code that is one of names.
func identifier(code string, names map[string]bool) string {
	for i := 0; i < len(code); {
		if !wordByte(code[i]) {
			i++
			continue
		}
		end := i
		for end < len(code) && wordByte(code[end]) {
			end++
		}
		if names[code[i:end]] {
			return code[i:end]
		}
		i = end
	}
	return ""
}

func set(list string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		m[w] = true
	}
	return m
}

func shown(m string) string {
	m = strings.Trim(strings.Join(strings.Fields(m), " "), " ;({=,")
	if len(m) > 40 {
		m = strings.ToValidUTF8(m[:40], "") + "…"
	}
	return m
}

type language struct {
	plain    form   // fine although it looks like file access: standard input, a script; taken out first
	raw      []form // looked for in the code as it is
	strip    func(string) string
	harmless []form          // taken out after stripping
	names    map[string]bool // identifiers looked for in what is left
	forms    []form          // and constructs
	check    func(code, bare string) string
}

// stripped returns a function that empties string literals and drops comments.
// keep says what stays of the inside of a string, given what stands before it.
func stripped(quotes, comment string, triple bool, keep func(before, inside string, quote byte) string) func(string) string {
	return func(code string) string {
		var b strings.Builder
		for i := 0; i < len(code); {
			c := code[i]
			switch {
			case strings.IndexByte(quotes, c) >= 0:
				mark := string(c)
				if triple && strings.HasPrefix(code[i:], strings.Repeat(mark, 3)) {
					mark = strings.Repeat(mark, 3)
				}
				end := closing(code, i+len(mark), mark)
				if end < 0 { // not closed: take it for code
					b.WriteString(code[i:])
					return b.String()
				}
				inside := code[i+len(mark) : end]
				b.WriteByte(c)
				b.WriteString(keep(code[:i], inside, c))
				b.WriteByte(c)
				i = end + len(mark)
			case comment != "" && strings.HasPrefix(code[i:], comment):
				end := strings.IndexByte(code[i:], '\n')
				if end < 0 {
					return b.String()
				}
				i += end
			default:
				b.WriteByte(c)
				i++
			}
		}
		return b.String()
	}
}

// closing returns where mark ends a string that began before i, or -1.
func closing(code string, i int, mark string) int {
	for ; i < len(code); i++ {
		if code[i] == '\\' {
			i++
			continue
		}
		if strings.HasPrefix(code[i:], mark) {
			return i
		}
	}
	return -1
}

func nothing(string, string, byte) string { return "" }

// braced keeps what stands in {…} after open, which is code again.
func braced(inside, open string) string {
	var b strings.Builder
	for {
		i := strings.Index(inside, open)
		if i < 0 {
			return b.String()
		}
		inside = inside[i+len(open):]
		end := strings.IndexByte(inside, '}')
		if end < 0 {
			end = len(inside)
		}
		b.WriteString(" " + inside[:end] + " ")
		inside = inside[end:]
	}
}

func keepPython(before, inside string, _ byte) string {
	prefix := before[len(strings.TrimRight(before, "fFrRbBuU")):]
	if strings.ContainsAny(prefix, "fF") {
		return braced(inside, "{")
	}
	return ""
}

func keepNode(_, inside string, quote byte) string {
	if quote == '`' {
		return braced(inside, "${")
	}
	return ""
}

func keepRuby(_, inside string, quote byte) string {
	if quote == '"' {
		return braced(inside, "#{")
	}
	return ""
}

func keepPHP(_, inside string, quote byte) string {
	if quote == '"' {
		return braced(inside, "{$")
	}
	return ""
}

// any is an alternation of the words of a list.
func any(list string) string {
	return `(?:` + strings.Join(strings.Fields(list), "|") + `)`
}

var languages = sync.OnceValue(func() map[Lang]language {
	return map[Lang]language{
		Python: {
			plain: on("open", `\bopen\s*\(\s*(?:0\b|['"]/dev/stdin['"])`),
			raw:   []form{on("file: FILE: File:", `(?i)\bfile:/`)},
			strip: stripped(`'"`, "#", true, keepPython),
			harmless: []form{
				on("importlib", `\bimportlib\s*\.\s*(?:metadata|util|resources)\b`),
				on("shutil", `\bshutil\s*\.\s*(?:which|get_terminal_size|disk_usage)\b|\bimport\s+shutil\b`),
			},
			names: set(`open listdir scandir makedirs removedirs popen popen2 Popen rmtree copyfile copytree copy2 copyfileobj copymode startfile
			fwalk getoutput getstatusoutput check_output check_call read_text write_text read_bytes write_bytes iterdir rglob
			symlink_to hardlink_to FileIO fdopen urlretrieve sendfile import_module SourceFileLoader spec_from_file_location
			exec_module run_path run_module mkstemp NamedTemporaryFile TemporaryFile fromfile tofile loadtxt savetxt
			create_subprocess_exec create_subprocess_shell __import__ __builtins__ __loader__ __subclasses__ __globals__ __getattribute__ __spec__
			getattr globals marshal breakpoint execfile mkdtemp TemporaryDirectory SpooledTemporaryFile GzipFile BZ2File LZMAFile ZipFile TarFile extractall
			module_from_spec copy_tree remove_tree copy_file`),
			forms: []form{
				on("os", `\bos\s*\.\s*`+any(`system exec\w* spawn\w* posix_spawn\w* fork\w* walk remove unlink rename renames replace mkdir rmdir
				read pread readv write pwrite symlink link truncate ftruncate mkfifo mknod readlink kill killpg __dict__`)+`\b`),
				on("os posix nt", `\bfrom\s+(?:os|posix|nt)\s+import\s[^;\n]*(?:\*|\b`+any(`system exec\w* spawn\w* fork walk remove unlink rename replace mkdir rmdir read write`)+`\b)`),
				on("os shutil", `\bimport\s+(?:os|shutil)\s+as\b`),
				on("shutil glob", `\bfrom\s+(?:shutil|glob)\s+import\b`),
				on("import", `\bimport\s+(?:[\w.]+(?:\s+as\s+\w+)?\s*,\s*)*(?:`+pythonModules+`)\b`),
				on("from", `\bfrom\s+(?:`+pythonModules+`)\b`),
				on("subprocess glob fileinput linecache runpy pty posix shutil", `\b(?:subprocess|glob|fileinput|linecache|runpy|pty|posix|shutil)\s*\.\s*\w`),
				on("touch unlink mkdir rmdir", `\.\s*(?:touch|unlink|mkdir|rmdir)\s*\(`),
				on("Path", `\bPath\s*\([^)]*\)\s*\.\s*(?:glob|rename|replace|walk|chmod)\b`),
				on("exec eval compile", `(?:^|[^.\w])(?:exec|eval|compile)\s*\(|(?:^|[;\n])\s*exec\s|=\s*(?:exec|eval|compile)\b`),
				on("vars", `\bvars\s*\(\s*(?:os|sys|posix|__\w+)`),
				on("modules", `\bsys\s*\.\s*modules\b`),
				on("locals", `\blocals\s*\(\s*\)\s*\[`),
				// Tables, which know files of many kinds.
				on("read_", `\b(?:pd|pandas|pl|polars)\s*\.\s*(?:read|scan)_`+any(`csv table fwf json ndjson excel parquet feather pickle html xml hdf orc stata sas spss ipc avro`)+`\s*\(`),
				on("to_ write_", `\.\s*(?:to|write)_`+any(`csv excel parquet feather pickle hdf orc stata ndjson ipc avro`)+`\s*\(\s*[^)\s]`),
				on("basicConfig", `\bbasicConfig\s*\([^)]*\bfilename\b`), on("FileHandler", `\b\w*FileHandler\s*\(`),
			},
		},
		Node: {
			plain: on("readFileSync", `(?:\brequire\s*\(\s*['"](?:node:)?fs['"]\s*\)|\bfs)\s*\.\s*readFileSync\s*\(\s*(?:0\b|process\.stdin\.fd|['"]/dev/stdin['"])`),
			raw: []form{
				on("require import", `\b(?:require|import)\s*\(\s*['"\x60](?:node:)?(?:`+nodeModules+`)(?:/[\w-]+)?['"\x60]`),
				on("from import", `\b(?:from|import)\s*['"](?:node:)?(?:`+nodeModules+`)(?:/[\w-]+)?['"]`),
				on("process", `\bprocess\s*\[`),
				on("file: data:", `(?i)\bfile:/|\bdata:text/javascript`),
				on("[", `\[\s*['"](?:constructor|require|mainModule|binding)['"]\s*\]`),
			},
			strip:    stripped("'\"`", "//", false, keepNode),
			harmless: []form{on("require", `\brequire\s*\.\s*(?:resolve|main|cache)\b`)},
			names: set(`fs child_process fsPromises readFile readFileSync writeFile writeFileSync appendFile appendFileSync readdir readdirSync unlinkSync rmSync
			rmdirSync mkdirSync mkdtempSync renameSync copyFile copyFileSync cpSync createReadStream createWriteStream openSync truncateSync symlinkSync
			execSync execFile execFileSync spawn spawnSync readTextFile readTextFileSync writeTextFile writeTextFileSync readDir opendirSync
			getBuiltinModule _load createRequire`),
			forms: []form{
				on("Deno", `\bDeno\s*\.\s*(?:open|read|write|remove|rename|mkdir|copyFile|create|truncate|run|Command|symlink|link)\w*`),
				on("Bun", `\bBun\s*\.\s*(?:file|write|spawn|spawnSync|\$|Glob|openInEditor)`),
				on("eval Function", `(?:^|[^.\w])eval\s*\(|\bFunction\s*\(`),
				on("process", `\bprocess\s*\.\s*(?:binding|dlopen|mainModule|_linkedBinding)\b`),
				on("globalThis global module", `\b(?:globalThis|global|module)\s*\[|\bmodule\s*\.\s*(?:require|constructor)\b`),
			},
			check: func(code, bare string) string {
				// Every require and import() takes one literal.
				if strings.Contains(bare, "require") || strings.Contains(bare, "import") {
					if len(requireWord().FindAllString(bare, -1)) > len(requireLiteral().FindAllString(code, -1)) {
						return "require of a computed name"
					}
				}
				return ""
			},
		},
		Perl: {
			forms: []form{
				on("`", "`"), on("qx", `\bqx\b`),
				on("<", `<(?:\$\w+|[A-RT-Z]\w*|[^<>=\s$]*[*/.][^<>=\s]*)>`),
				on("open", `\bopen\s*\(?\s*(?:my\b|our\b|local\b|\$|\*|[A-Z]\w*\s*[,;)])`),
				on("system exec unlink rename link truncate utime ch readpipe syscall copy move open", `\b`+any(`system exec unlink rename opendir sysopen symlink link truncate utime chmod chown readpipe syscall copy move`)+`\s*(?:\(|["'$@]|q[qw]?\b|<|\{|[A-Z]\w*\s*,)`),
				on("mkdir rmdir glob", `\b(?:mkdir|rmdir|glob)\s*[("'$@<]`),
				on("do require", `\b(?:do|require)\s*["'$(]`),
				on("eval", `\beval\s*(?:["'$(]|q\b|qq\b|\w+\s*\()`),
				on("fork", `\bfork\b\s*[;(]`),
				on("::", `\b(?:File::(?:Slurp|Copy|Find|Path|Temp|Touch|Map|ReadBackwards|Remove|Rename|Grep|Glob|Open)|IO::(?:File|All|Handle|Pipe|Dir|Uncompress)|Path::|Tie::File|IPC::|POSIX::(?:open|creat|unlink|rename|mkdir|rmdir|link|dup|exec|fork|system|read|write))\w*`),
				on("ARGV", `\bARGV\s*=|\b(?:push|unshift)\s*\(?\s*@ARGV`),
				on("&", `&\s*\{\s*["'$]|&\s*\$`), on("can", `->\s*can\b`), on("unpack", `\bunpack\s*\(?\s*["']u`),
			},
		},
		Ruby: {
			raw: []form{
				on("`", "`"), on("%x", `%x\s*[^\w\s]`),
				on("require", `\brequire\s*\(?\s*['"](?:fileutils|open3|pathname|tempfile|tmpdir|pty|shell|find|open-uri|fiddle|un)['"]`),
			},
			strip: stripped(`'"`, "", false, keepRuby),
			names: set(`FileUtils Open3 Pathname Tempfile PTY Fiddle Kernel instance_eval class_eval module_eval instance_exec const_get __send__ public_send require_relative`),
			forms: []form{
				on("File IO", `\b(?:File|IO)\s*(?:\.|::)\s*`+any(`read readlines open write foreach binread binwrite new delete unlink rename symlink link
				truncate chmod mkfifo copy_stream popen sysopen pipe readlink for_fd`)+`\b`),
				on("Dir", `\bDir\s*(?:\[|(?:\.|::)\s*(?:glob|entries|children|each|foreach|mkdir|rmdir|delete|unlink|open|new|empty)\b|(?:\.|::)\s*each_child)`),
				on("open system exec spawn fork load eval syscall", `(?:^|[^.\w:])(?:open|system|exec|spawn|fork|load|eval|syscall)\s*(?:\(|["'%\[\w])`),
				on("send eval", `\.\s*(?:send|eval)\s*\(`), on("method", `\bmethod\s*\(\s*:`), on("spawn", `\bProcess\s*\.\s*spawn`),
				on("require", `\brequire\s*\(?\s*[^\s'"(]`),
			},
		},
		PHP: {
			plain: on("include require", `\b(?:include|require)(?:_once)?\s*\(?\s*(?:__DIR__\s*\.\s*)?(?:'[^']+\.php'|"[^"$]+\.php")\s*\)?`),
			raw:   []form{on("`", "`")},
			strip: stripped(`'"`, "", false, keepPHP),
			forms: []form{
				on("( ' \" $", `(?i)(?:^|[^\w>:$])`+any(`file_get_contents file_put_contents fopen file readfile fpassthru unlink rename copy mkdir rmdir touch scandir glob opendir
				dir tempnam tmpfile symlink link highlight_file show_source php_strip_whitespace parse_ini_file move_uploaded_file system exec shell_exec
				passthru popen proc_open pcntl_exec eval assert create_function call_user_func call_user_func_array simplexml_load_file
				include include_once require require_once`)+`\s*[('"$]`),
				on("new NEW New", `(?i)\bnew\s+\\?(?:Spl(?:Temp)?FileObject|SplFileInfo|DirectoryIterator|RecursiveDirectoryIterator|GlobIterator|FilesystemIterator|ZipArchive|Phar\w*|ReflectionFunction)\b`),
				on("(", `\$\w+\s*\(|['"]\s*\(`),
			},
		},
		Lua: {
			strip: stripped(`'"`, "--", false, nothing),
			names: set(`dofile loadfile loadstring _G _ENV lfs`),
			forms: []form{
				on("io os", `\bio\s*\.\s*(?:open|lines|popen|input|output|tmpfile)\b|\bio\s*\[|\bos\s*\.\s*(?:execute|remove|rename|tmpname)\b|\bos\s*\[`),
				on("load package require", `\bload\s*[("'\[]|\bpackage\s*\.|\brequire\s*\(?\s*[^\s("'\[]`),
			},
		},
		R: {
			strip: stripped(`'"`, "#", false, nothing),
			forms: []form{
				on("(", `\b`+any(`readLines read\.table read\.csv read\.delim read_csv read_lines read_file readChar readBin scan file readRDS saveRDS
				writeLines writeBin write\.table write\.csv system system2 shell unlink file\.remove file\.rename file\.copy file\.create
				file\.append file\.show list\.files list\.dirs dir dir\.create sink eval do\.call match\.fun fread fwrite`)+`\s*\(`),
				on("cat", `\bcat\s*\([^)]*\bfile\s*=`),
			},
		},
		Julia: {
			plain: on("stdin", `\b(?:read|readline|readlines|eachline)\s*\(\s*stdin\b`),
			strip: stripped(`"`, "#", false, nothing),
			forms: []form{
				on("`", "`"), on("parse", `\bMeta\s*\.\s*parse`),
				on("(", `\b`+any(`read readlines readline eachline readdir walkdir open write rm mv cp mkdir mkpath touch symlink run pipeline eval download`)+`\s*\(`),
			},
		},
		Tcl: {
			forms: []form{
				on("open exec glob source eval uplevel cd load spawn log_file", `(?:^|[;\[\n{"])\s*(?:open|exec|glob|source|eval|uplevel|cd|load|spawn|log_file)\b`),
				on("file", `\bfile\s+(?:delete|copy|rename|mkdir|link|attributes)\b`), on("$", `(?:^|[\[;\n])\s*\$`),
			},
		},
		Lisp: {
			strip: stripped(`"`, ";", false, nothing),
			forms: []form{
				on("(", `\(\s*`+any(`slurp spit delete-file open-input-file open-output-file with-open-file call-with-input-file call-with-output-file
				with-input-from-file with-output-to-file file->string file->lines display-to-file write-to-file read-file load load-file system system\* process sh
				shell-command shell-command-to-string call-process insert-file-contents find-file write-region delete-directory rename-file copy-file
				make-directory directory-list directory eval run-program open-file uiop:\S+ sb-ext:run-program java\.io\.\S+ clojure\.java\.\S+`)+`(?:[\s)]|$)|\(\s*\(`),
			},
		},
		JVM: {
			raw:   []form{on("shell", `\bdo\s+shell\s+script\b`)},
			strip: stripped(`'"`, "//", false, nothing),
			names: set(`File Files Paths FileReader FileWriter FileInputStream FileOutputStream RandomAccessFile ProcessBuilder Runtime Source FileManager Process Eval GroovyShell forName`),
			forms: []form{
				on("execute evaluate exec", `\.\s*(?:execute|evaluate|exec)\s*\(`),
				on("import", `\bimport\s+(?:java\.(?:io|nio)|scala\.(?:io|sys)|kotlin\.io)`), on("sys", `\bsys\s*\.\s*process\b`),
			},
		},
		BEAM: {
			strip: stripped(`"`, "", false, nothing),
			names: set(`File Port Code open_port readFile writeFile appendFile getDirectoryContents readProcess callCommand system unsafePerformIO removeFile apply`),
			forms: []form{on("wildcard System file os filelib", `\bPath\.wildcard\b|\bSystem\.(?:cmd|shell)\b|\b(?:file|os|filelib)\s*:\s*\w|:(?:file|os|filelib)\b`)},
		},
		SQL: {
			raw: []form{
				on(".", `(?im)(?:^|[;'"])\s*\.(?:shell|system|read|import|output|once|excel|save|log|cd|load)\b`),
				on("(", `(?i)\b(?:readfile|writefile|edit|load_extension|fsdir|load_file|pg_read_file|lo_import|lo_export)\s*\(`),
				on(`\`, `\\!|(?m)(?:^|\s)\\(?:o|i|ir|g|copy|w|s)\s+\S`),
				on("o O", `(?i)\binto\s+(?:outfile|dumpfile)\b|\bcopy\b[^;]*\b(?:program|from|to)\s+'`),
				on("s t p", `(?m)^\s*(?:system|source|tee|pager)\s+\S`),
			},
		},
	}
})

const nodeModules = `fs|child_process|vm|worker_threads|module|cluster|repl|inspector|fs-extra|graceful-fs|shelljs|execa|rimraf|glob|globby|fast-glob|mkdirp|del|cpy|zx|cross-spawn|node-pty|tinyexec|jsonfile`

const pythonModules = `subprocess|glob|fileinput|linecache|mmap|ctypes|cffi|runpy|pty|posix|nt|_io|plumbum|sh|pexpect|builtins|_posixsubprocess|asyncio\.subprocess`

var (
	requireWord    = pattern.Lazily(`\brequire\b|\bimport\s*\(`)
	requireLiteral = pattern.Lazily(`\b(?:require|import)\s*\(\s*(?:'[^'\\]*'|"[^"\\]*"|` + "`[^`$\\\\]*`" + `)\s*\)`)
)
