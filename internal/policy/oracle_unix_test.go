//go:build unix

package policy

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// oracle runs scripts in a real bash in which every program is a stub that notes
// its name. Wrappers note it and then run what they wrap.
type oracle struct {
	dir, work, stubs, logs string
	bash                   string
	runs                   int
}

// real are the wrappers that run for real; what they start is a stub again.
var real = []string{"env", "xargs", "timeout", "nice", "nohup", "setsid", "stdbuf", "bash", "sh"}

const (
	stub     = "printf '%s\\n' \"${0##*/}\" >>\"$ORACLE_LOG\"\n"
	notFound = "() { printf '%s\\n' \"$1\" >>\"$ORACLE_LOG\"; return 127; }"
)

func newOracle(t *testing.T) *oracle {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := &oracle{dir: dir, work: filepath.Join(dir, "work"), stubs: filepath.Join(dir, "stubs"), logs: filepath.Join(dir, "logs"), bash: bash}
	for _, d := range []string{o.work, o.stubs, o.logs} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	names := []string{"sed", "awk", "git", "go", "npm", "npx", "make", "curl", "python3", "node", "perl", "sudo", "docker"}
	for name := range byCommand() {
		names = append(names, name)
	}
	for _, name := range names {
		o.write(t, name, stub)
	}
	for _, name := range real {
		path, err := exec.LookPath(name)
		if err != nil {
			continue // this system has no such wrapper: its scripts run nothing
		}
		o.write(t, name, stub+"exec "+path+" \"$@\"\n")
	}
	return o
}

func (o *oracle) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(o.stubs, name), []byte("#!"+o.bash+"\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// run returns the names of the programs that a script starts.
func (o *oracle) run(t *testing.T, script string) []string {
	t.Helper()
	o.runs++ // what an earlier script left running has a log of its own
	log := filepath.Join(o.logs, strconv.Itoa(o.runs))
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, o.bash, "-c", script)
	cmd.Dir = o.work
	cmd.WaitDelay = time.Second
	cmd.Env = []string{"PATH=" + o.stubs, "HOME=" + o.work, "ORACLE_LOG=" + log, "BASH_FUNC_command_not_found_handle%%=" + notFound}
	_ = cmd.Run() // most scripts fail: their programs are not there
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(b))
	slices.Sort(names)
	return slices.Compact(names)
}

// clean says what a script left outside its directory.
func (o *oracle) clean(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(o.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains([]string{"work", "stubs", "logs"}, e.Name()) {
			t.Errorf("%s was left outside of the working directory", e.Name())
		}
	}
}

var oracleScripts = []string{
	"cat f; head g && tail h || wc i | sort", "c'a't f", `"c"at f`, `\cat f`, `c\at f`, "ca\\\nt f", `$'\x63at' f`, `$'\143at' f`, "{cat,f}", "{c,h}at f", "{ca,hea}{t,d} f",
	"x=cat; $x f", "x=ca; ${x}t f", "x='cat f'; $x", "a=(cat f); \"${a[@]}\"", "a=(go cat); ${a[1]} f", "for x in cat head; do $x f; done", "x=cat; y=$x; $y f", "x=; $x cat f",
	"x=go; if cat f; then x=head; fi; $x f", "while $x; do x=cat; [ -n \"$d\" ] && break; d=1; done", "x=c; x+=at; $x f", "declare x=cat; $x f", "export x=cat; $x f", "local x=cat; $x",
	"f() { cat x; }; f", "f() { \"$@\"; }; f cat x", "f() { $1 x; }; f cat; f head", "f() { g \"$@\"; }; g() { $2 $1; }; f x cat", "git() { rm x; }; git status", "f() { cat; }; go test | f",
	"function f { ls; }; f", "f() ( cat x )\nf", "eval 'cat f'", "eval cat f", "eval \"x=cat; \\$x f\"", "eval 'eval \"cat f\"'", "trap 'cat f' EXIT", "trap cat EXIT", "x=cat; trap \"$x f\" EXIT",
	"echo $(cat f)", "echo `cat f`", "echo \"$(cat $(ls))\"", "cat <(head f) > >(tail)", "x=$(cat f)", "a=($(ls))", "echo ${x:-$(cat f)}", "echo $(( $(cat f) + 1 ))", "[[ -z $(cat f) ]]", "case $(cat f) in x) ls;; *) rm;; esac",
	"if cat f; then ls; elif head f; then rm; else wc; fi", "until cat f; do ls; break; done", "for x in $(ls); do cat; done; head", "select x in a; do cat; done <<< 1", "(cat f); { head f; }", "! cat f", "time cat f", "cat f & wait", "coproc cat f; wait",
	"cat <<E\n$(head f)\nE", "cat <<'E'\n$(head f)\nE", "cat <<< \"$(head f)\"", "bash -c 'cat f'", "bash -c \"x=cat; \\$x f\"", "sh -c 'head f | tail'", "bash -c '\"$@\"' _ cat f", "bash -c '$0 f' cat", "bash -c 'sh -c \"cat f\"'",
	"bash <<< 'cat f'", "bash <<E\ncat f\nE", "echo 'cat f' | bash", "printf 'cat f\\nhead g\\n' | sh", "printf '%s\\n' 'cat f' | sh", "echo -e 'cat\\x20f' | sh", "cat() { :; }; cat f", ". /dev/stdin <<< 'cat f'", "source <(echo cat f)",
	"env cat f", "env A=1 cat f", "env -i A=1 PATH=\"$PATH\" ORACLE_LOG=\"$ORACLE_LOG\" cat f", "env -u X cat f", "timeout 5 cat f", "timeout -k 1 5 cat f", "nice -n 5 cat f", "nice cat f", "nohup cat f", "setsid -w cat f", "stdbuf -oL cat f", "command cat f", "exec cat f", "builtin command cat f",
	"echo f | xargs cat", "echo f | xargs -n1 head -1", "echo f | xargs -I{} cat {}", "echo f | xargs -I % sh -c 'cat %; head %'", "echo f | xargs sh -c 'wc \"$1\"' _", "echo cat f | xargs env", "timeout 5 env A=1 nice bash -c 'cat f'",
	"ls; # cat f", "echo 'cat f'", "echo \"cat f\"", "git commit -m 'rm x'", "echo cat \\; rm", "A=cat B=rm go test", "[ -f x ] && cat x || ls", "test -f x; cat x", "go test 2>&1 | grep -v x | head -3", "x=5; ((x++)); let x=x+1; echo $x; wc",
	"shopt -s expand_aliases\nalias c=cat\nc f", "set -- cat f; \"$@\"", "read x <<< cat; $x f", "printf -v x cat; $x f", "x=cat; ${x} f; ${x:-head} f", "y=x; x=cat; ${!y} f", "x=XcatX; x=${x//X}; $x f", "IFS=,; x=cat,f; $x", "IFS=: read -r a b <<< cat:f; $a $b", "hash -p \"$PWD/../stubs/cat\" zz; zz f",
	"declare -n r=x; x=cat; $r f", "$(which nosuch) cat f", "$(which cat) head f", "c\"\"at f", "cat$IFS'f'", "cat${IFS}f", "$(echo cat) f", "$(printf cat) f", "`echo head` f", "l=(cat head); for c in \"${l[@]}\"; do $c f; done", "case x in x) c=cat;; esac; $c f", "f() { c=cat; }; f; $c f", "mapfile -t a <<< cat; ${a[0]} f",
}

// Whatever a script runs, the policy has seen; or it has seen a command that it
// cannot know, and denies it for that.
func TestPolicySeesWhateverRuns(t *testing.T) {
	o := newOracle(t)
	scripts := oracleScripts
	if os.Getenv("ACM_STRESS") != "" {
		for _, l := range corpus(t, "testdata/corpus.jsonl") {
			if !strings.ContainsAny(l.Cmd, "/~") && !strings.Contains(l.Cmd, "HOME") && !strings.Contains(l.Cmd, "kill") && !strings.Contains(l.Cmd, "while ") && !strings.Contains(l.Cmd, "until ") &&
				!strings.Contains(l.Cmd, "-lc") && !strings.HasPrefix(l.Cmd, "local ") && !strings.HasPrefix(l.Cmd, "time -") {
				scripts = append(scripts, l.Cmd)
			}
		}
	}
	s := builtin(t)
	ran := 0
	for _, script := range scripts {
		names := o.run(t, script)
		ran += len(names)
		all, unreadable := Commands(script)
		if unreadable != nil {
			continue // it is denied as it is
		}
		d := s.Script(script, Bash)
		for _, name := range names {
			seen := slices.ContainsFunc(all, func(c Command) bool { return c.Name == name })
			open := slices.ContainsFunc(all, func(c Command) bool { return c.Name == "" && !strings.Contains(c.Text, "=") })
			if !seen && !(d.Denied && (open || d.Rule == "computed-script" || d.Rule == "hidden-name" || d.Rule == "environment")) {
				t.Errorf("%q ran %s; the policy saw %v and said %+v", script, name, all, d)
			}
		}
	}
	o.clean(t)
	if ran < len(oracleScripts)/2 {
		t.Errorf("only %d programs ran: the oracle is not at work", ran)
	}
}

// The stubs note what runs, and bash does what it does outside of tests.
func TestOracleNotesWhatRuns(t *testing.T) {
	o := newOracle(t)
	for script, want := range map[string]string{"cat f | env head; nosuch x": "cat env head nosuch", "echo cat": "", "bash -c 'rm x; nosuch'": "bash nosuch rm"} {
		if got := strings.Join(o.run(t, script), " "); got != want {
			t.Errorf("%q: got %q, want %q", script, got, want)
		}
	}
	b, err := exec.CommandContext(t.Context(), o.bash, "-c", "echo ok").Output()
	if err != nil || !bytes.Equal(b, []byte("ok\n")) {
		t.Errorf("got %q, %v", b, err)
	}
}
