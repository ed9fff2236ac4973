package security_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// plantedTemp looks like a temp file of a process of ours.
const plantedTemp = ".in.txt.abcdef-1-life00-aaaaaaaaaaaaa-0-00000000.acm-tmp"

// trap is a path that leads, or seems to lead, where nobody may go.
type trap struct {
	path string
	want string
}

// traps plants links of every kind and returns the paths that must be refused.
func traps(w *world) []trap {
	w.link(w.outside, "out")                                          // absolute, to a directory
	w.link("../outside", "outrel")                                    // relative
	w.link(filepath.Join(w.outside, "secret.txt"), "outfile")         // to a file
	w.link("../outside/secret.txt", "sub/../outfilerel")              // relative, to a file
	w.link(filepath.Join(w.outside, "missing"), "dangling")           // to nothing, outside
	w.link("../outside/missing/deeper", "danglingrel")                // the same, relative
	w.link("chain2", "chain1")                                        // over several links
	w.link("sub/chain3", "chain2")                                    //
	w.link(filepath.Join(w.root, "out"), "sub/chain3")                // absolute inside, then out
	w.link("..", "up")                                                // to the parent
	w.link("sub/..", "self")                                          // inside
	w.link("/proc/self/root", "procroot")                             // a magic link's name
	w.link("/proc/self/cwd/../../../../../../etc/passwd", "procfile") //
	w.link("/proc/self/environ", "environ")                           //
	w.link("/dev/stdin", "stdin")                                     // would block
	w.link("/dev/zero", "zero")                                       // would never end
	w.link(w.root+"-sibling", "sibling")                              //
	w.link("loop", "loop")
	w.link("loop2b", "loop2a")
	w.link("loop2a", "loop2b")
	return []trap{
		{"..", outsideBase},
		{"../outside/secret.txt", outsideBase},
		{"../outside/new.txt", outsideBase},
		{"../outside/new/deeper.txt", outsideBase},
		{"sub/../../outside/secret.txt", outsideBase},
		{"./sub/./../../outside/secret.txt", outsideBase},
		{"missing/../../outside/secret.txt", outsideBase},
		{"in.txt/../../outside/secret.txt", outsideBase},
		{"../project-sibling/secret.txt", outsideBase},
		{w.root + "-sibling/secret.txt", outsideBase},
		{w.root + "/../outside/secret.txt", outsideBase},
		{w.outside + "/secret.txt", outsideBase},
		{w.outside, outsideBase},
		{"/", outsideBase},
		{"//" + strings.TrimPrefix(w.outside, "/") + "/secret.txt", outsideBase},
		{"/etc/passwd", outsideBase},
		{"/proc/self/environ", outsideBase},
		{"/proc/self/root" + w.outside + "/secret.txt", outsideBase},
		{"/dev/zero", outsideBase},
		{"/dev/stdin", outsideBase},
		{"out", outsideBase},
		{"out/secret.txt", outsideBase},
		{"out/new.txt", outsideBase},
		{"out/new/deeper.txt", outsideBase},
		{"out/../outside/secret.txt", outsideBase}, // up after the link, not before
		{"out/dir/../secret.txt", outsideBase},
		{"outrel/secret.txt", outsideBase},
		{"outfile", outsideBase},
		{"outfilerel", outsideBase},
		{"dangling", outsideBase},
		{"dangling/deeper", outsideBase},
		{"danglingrel", outsideBase},
		{"chain1/secret.txt", outsideBase},
		{"up", outsideBase},
		{"up/outside/secret.txt", outsideBase},
		{"self/self/up/outside/secret.txt", outsideBase},
		{"self/../outside/secret.txt", outsideBase},
		{"procroot" + w.outside + "/secret.txt", outsideBase},
		{"procfile", outsideBase},
		{"environ", outsideBase},
		{"stdin", outsideBase},
		{"zero", outsideBase},
		{"sibling/secret.txt", outsideBase},
		{"loop", invalid},
		{"loop/x", invalid},
		{"loop2a", invalid},
		{"in.txt\x00", invalid},
		{"\x00", invalid},
		{"sub\x00/../../outside/secret.txt", invalid},
		{strings.Repeat("n", 256), invalid},
		{strings.Repeat("n", 256) + "/x", invalid},
		{strings.Repeat("d/", 2100) + "x", invalid},
		{plantedTemp, denied},
		{"sub/" + plantedTemp, denied},
		{plantedTemp + "/x", denied},
		{".async-crud-mcp", denied},
		{".async-crud-mcp/config.json", denied},
		{".async-crud-mcp/new/deeper.json", denied},
		{"sub/../.async-crud-mcp/config.json", denied},
		{"self/.async-crud-mcp/config.json", denied},
		{"mcplink", denied},
		{"mcplink/config.json", denied},
		{".git/hooks", denied},
		{".git/hooks/pre-commit", denied},
		{".git/config", denied},
		{"sub/.git/hooks/pre-commit", denied},
		{"sub/.git/config", denied},
		{"hooklink/pre-commit", denied},
		{"configlink", denied},
	}
}

func TestNoToolFollowsAPathOutOfTheProject(t *testing.T) {
	for _, u := range uses {
		t.Run(u.name, func(t *testing.T) {
			w := newWorld(t, settings{})
			w.put(".async-crud-mcp/config.json", "{}")
			w.put(".git/hooks/pre-commit", "#!/bin/sh\n")
			w.put(".git/config", "[core]\n")
			w.put("sub/.git/config", "[core]\n")
			w.put(plantedTemp, secret)
			w.link(".async-crud-mcp", "mcplink")
			w.link(filepath.Join(w.root, ".git/hooks"), "hooklink")
			w.link(".git/config", "configlink")
			all := traps(w)
			before := state(t, filepath.Dir(w.root))
			for _, trap := range all {
				a := w.call(u.tool, u.args(trap.path))
				if a.code != trap.want {
					t.Errorf("%s of %q: got %s %s, want %s\n%s", u.name, trap.path, a.status, a.code, trap.want, a.body)
				}
				if strings.Contains(a.body, secret) {
					t.Errorf("%s of %q shows what is outside:\n%s", u.name, trap.path, a.body)
				}
				if after := state(t, filepath.Dir(w.root)); after != before {
					t.Fatalf("%s of %q changed something:\nbefore:\n%s\nafter:\n%s", u.name, trap.path, before, after)
				}
			}
		})
	}
}

func TestListingShowsNothingOutsideTheProject(t *testing.T) {
	w := newWorld(t, settings{})
	w.put(".async-crud-mcp/config.json", "{}")
	w.put(".git/hooks/pre-commit", "#!/bin/sh\n")
	traps(w)
	a := w.call("async_list", args{"path": ".", "recursive": true, "pattern": "**"})
	for _, hidden := range []string{"secret", "deep.txt", "config.json", "pre-commit", "root:"} {
		if strings.Contains(a.body, hidden) {
			t.Errorf("the listing shows %s:\n%s", hidden, a.body)
		}
	}
}

func TestLinksThatStayInsideAreFollowed(t *testing.T) {
	w := newWorld(t, settings{})
	w.link("in.txt", "rel")
	w.link(filepath.Join(w.root, "in.txt"), "abs")
	w.link("rel", "chain")
	w.link(filepath.Join(w.root, "sub"), "dir")
	w.link("new-inside.txt", "fresh")
	for _, path := range []string{"rel", "abs", "chain", "dir/in.txt", "dir/../in.txt", w.root + "/sub/in.txt"} {
		if a := w.call("async_read", args{"path": path}); a.status != "ok" || a.fields["content"] != "inside\n" {
			t.Errorf("read of %s: %s", path, a.body)
		}
	}
	if a := w.call("async_append", args{"path": "chain", "content": "more\n"}); a.status != "ok" {
		t.Errorf("append through links: %s", a.body)
	}
	if a := w.call("async_write", args{"path": "fresh", "content": "x"}); a.status != "ok" {
		t.Errorf("write through a link to what does not exist yet: %s", a.body)
	}
	for name, want := range map[string]string{"rel": "in.txt", "fresh": "new-inside.txt", "chain": "rel"} {
		if to, err := os.Readlink(filepath.Join(w.root, name)); err != nil || to != want {
			t.Errorf("the link %s is now %q, %v; want %q", name, to, err, want)
		}
	}
	if raw, _ := os.ReadFile(filepath.Join(w.root, "in.txt")); string(raw) != "inside\nmore\n" {
		t.Errorf("in.txt holds %q", raw)
	}
}

// TestSpecialFilesAreRefusedAtOnce makes no tool wait for the other end of a pipe.
func TestSpecialFilesAreRefusedAtOnce(t *testing.T) {
	refusals := map[string][]string{
		"write": {"FILE_EXISTS"}, "batch write": {"FILE_EXISTS"}, "atomic write": {"FILE_EXISTS"}, "mkdir": {"FILE_EXISTS"},
		"rename to": {"FILE_EXISTS"}, "copy to": {"FILE_EXISTS"}, "list": {"DIR_NOT_FOUND"}, "status": {""},
	}
	for _, u := range uses {
		t.Run(u.name, func(t *testing.T) {
			w := newWorld(t, settings{})
			special := []string{"fifo", "socket", "fifolink"}
			if err := syscall.Mkfifo(filepath.Join(w.root, "fifo"), 0o666); err != nil {
				t.Fatal(err)
			}
			w.link("fifo", "fifolink")
			t.Chdir(w.root) // the name of a socket is short
			l, err := net.Listen("unix", "socket")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if syscall.Mknod(filepath.Join(w.root, "device"), syscall.S_IFCHR|0o666, 1<<8|5) == nil { // like /dev/zero
				special = append(special, "device")
			}
			want := refusals[u.name]
			if want == nil {
				want = []string{"NOT_A_REGULAR_FILE"}
			}
			before := state(t, w.root)
			for _, path := range special {
				a := w.call(u.tool, u.args(path))
				if !slices.Contains(want, a.code) {
					t.Errorf("%s of %s: got %s %s, want %v\n%s", u.name, path, a.status, a.code, want, a.body)
				}
				if after := state(t, w.root); after != before {
					t.Fatalf("%s of %s changed something:\nbefore:\n%s\nafter:\n%s", u.name, path, before, after)
				}
			}
		})
	}
}

// TestOddNamesAreNames takes every name the system takes through a life.
func TestOddNamesAreNames(t *testing.T) {
	w := newWorld(t, settings{})
	before := state(t, w.root)
	for _, name := range []string{
		strings.Repeat("n", 255), strings.Repeat("ä", 127), "-rf", "--", "a\nb", "a\tb", " ", "a b ", "...", "*", "[x]", "{a,b}", "$HOME", "~",
		"\\", "a\\b", "'\"`", "\u202egnp.exe", "<b>&amp;", "\x7f", "\x01", "con", "🦀",
	} {
		moved := "m" + name[:min(len(name), 250)]
		if strings.ToValidUTF8(moved, "") != moved {
			moved = "moved"
		}
		for _, step := range []struct {
			tool string
			args args
		}{
			{"async_write", args{"path": name, "content": "one\n"}},
			{"async_read", args{"path": name}},
			{"async_append", args{"path": name, "content": "two\n"}},
			{"async_status", args{"path": name}},
			{"async_copy", args{"from": name, "to": "copies/" + name}},
			{"async_delete", args{"path": "copies/" + name}},
			{"async_update", args{"path": name, "expected_hash": "sha256:af6b8ac49492d45af14c6dac79d0c19c3d0db8b9a6cb30b8e5d09c2d16a4e8c3", "on_contention": "merge", "patches": []any{args{"old_string": "two", "new_string": "2"}}}},
			{"async_rename", args{"old_path": name, "new_path": moved}},
			{"async_delete", args{"path": moved}},
			{"async_mkdir", args{"path": name}},
			{"async_list", args{"path": name}},
			{"async_delete", args{"path": name, "recursive": true}},
			{"async_delete", args{"path": "copies", "recursive": true}},
		} {
			if a := w.call(step.tool, step.args); a.status != "ok" {
				t.Errorf("%s of %q: %s", step.tool, name, a.body)
			}
		}
	}
	if after := state(t, w.root); after != before {
		t.Errorf("something is left:\n%s", after)
	}
}

// TestANameThatIsNoTextDisturbsNobody plants a file that JSON cannot name.
func TestANameThatIsNoTextDisturbsNobody(t *testing.T) {
	w := newWorld(t, settings{})
	w.put("tree/bad\xff\xfename", "x")
	w.put("tree/good", "x")
	if a := w.call("async_list", args{"path": "tree"}); a.status != "ok" || a.fields["total_entries"] != 2.0 {
		t.Errorf("list: %s", a.body)
	}
	if a := w.call("async_rename", args{"old_path": "tree", "new_path": "moved", "recursive": true}); a.status != "ok" {
		t.Errorf("rename: %s", a.body)
	}
	if _, err := os.Stat(filepath.Join(w.root, "moved/bad\xff\xfename")); err != nil {
		t.Error(err)
	}
	if a := w.call("async_delete", args{"path": "moved", "recursive": true}); a.status != "ok" {
		t.Errorf("delete: %s", a.body)
	}
}
