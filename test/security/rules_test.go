package security_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/history"
)

// hash returns the hash the server gives a file.
func (w *world) hash(path string) string {
	w.t.Helper()
	h, _ := w.call("async_status", args{"path": path}).fields["hash"].(string)
	return h
}

// versions returns every content that is kept.
func (w *world) versions() []history.Version {
	w.t.Helper()
	all, err := w.history.List(w.ctx, history.Filter{})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// TestEachOperationHasItsOwnRule denies one operation after the other.
func TestEachOperationHasItsOwnRule(t *testing.T) {
	needs := map[string][]string{
		"read": {"read"}, "write": {"write"}, "update": {"update"}, "merge": {"update", "read"}, "append": {"append"},
		"delete": {"delete"}, "delete a tree": {"delete"}, "rename from": {"rename", "read", "delete"}, "rename to": {"rename", "write"},
		"rename over": {"rename", "write", "update"}, "copy from": {"copy", "read"}, "copy to": {"copy", "write"},
		"copy over": {"copy", "write", "update"}, "mkdir": {"mkdir"}, "list": {"list"}, "status": {"status"}, "batch read": {"read"},
		"batch write": {"write"}, "atomic write": {"write"}, "batch update": {"update"}, "atomic update": {"update"},
	}
	for _, op := range []string{"read", "write", "update", "append", "delete", "rename", "copy", "mkdir", "list", "status"} {
		for _, u := range uses {
			if needs[u.name] == nil {
				t.Fatalf("what does %s need?", u.name)
			}
			forbidden := false
			for _, n := range needs[u.name] {
				forbidden = forbidden || n == op
			}
			w := newWorld(t, settings{rules: []access.Rule{{Path: "locked/**", Operations: []string{op}, Action: "deny"}}})
			w.put("locked/old.txt", secret+"\n")
			before := state(t, w.root)
			for _, path := range []string{"locked/old.txt", "locked/new.txt", "sub/../locked/old.txt"} {
				a := w.call(u.tool, u.args(path))
				if forbidden != (a.code == denied) {
					t.Errorf("%s of %s when %s is denied: %s", u.name, path, op, a.body)
				}
				if !forbidden {
					break // it changed something, as it may
				}
				if strings.Contains(a.body, secret) {
					t.Errorf("%s of %s when %s is denied shows the content: %s", u.name, path, op, a.body)
				}
				if after := state(t, w.root); after != before {
					t.Errorf("%s of %s when %s is denied changed something:\n%s", u.name, path, op, after)
				}
			}
		}
	}
}

// TestWhatMayNotBeReadDoesNotShow allows everything but reading.
func TestWhatMayNotBeReadDoesNotShow(t *testing.T) {
	w := newWorld(t, settings{rules: []access.Rule{{Path: "vault/**", Operations: []string{"read"}, Action: "deny"}}})
	content := "first\nthe key is " + secret + "\nlast\n"
	w.put("vault/key.txt", content)
	h := w.hash("vault/key.txt")
	near := "the key is s3cr3t-hunterX"
	patch := func(old string) []any { return []any{args{"old_string": old, "new_string": "x"}} }
	steps := []struct {
		tool string
		args args
	}{
		{"async_read", args{"path": "vault/key.txt"}},
		{"async_batch_read", args{"files": []any{args{"path": "vault/key.txt"}}}},
		{"async_update", args{"path": "vault/key.txt", "expected_hash": h, "patches": patch(near)}},
		{"async_update", args{"path": "vault/key.txt", "expected_hash": h, "patches": patch("t")}},
		{"async_update", args{"path": "vault/key.txt", "expected_hash": h, "patches": []any{args{"start_line": 2, "end_line": 2, "expected": "x", "new_string": "y"}}}},
		{"async_update", args{"path": "vault/key.txt", "expected_hash": h[:len(h)-2] + "00", "patches": patch(near)}},
		{"async_update", args{"path": "vault/key.txt", "expected_hash": "00", "content": "x", "diff_format": "unified"}},
		{"async_update", args{"path": "vault/key.txt", "expected_hash": "00", "content": "x", "on_contention": "merge"}},
		{"async_batch_update", args{"files": []any{args{"path": "vault/key.txt", "expected_hash": h, "patches": patch(near)}}}},
		{"async_batch_update", args{"files": []any{args{"path": "vault/key.txt", "expected_hash": h, "patches": patch(near)}}, "atomic": true}},
		{"async_delete", args{"path": "vault/key.txt", "expected_hash": "00"}},
		{"async_rename", args{"old_path": "vault/key.txt", "new_path": "seen.txt"}},
		{"async_rename", args{"old_path": "vault/key.txt", "new_path": "seen.txt", "expected_hash": "00"}},
		{"async_rename", args{"old_path": "vault", "new_path": "seen", "recursive": true}},
		{"async_copy", args{"from": "vault/key.txt", "to": "seen.txt"}},
	}
	for _, s := range steps {
		if a := w.call(s.tool, s.args); strings.Contains(a.body, secret) || strings.Contains(a.body, "the key is") {
			t.Errorf("%s %v shows the content: %s", s.tool, s.args, a.body)
		}
	}
	if got, err := os.ReadFile(filepath.Join(w.root, "vault/key.txt")); err != nil || string(got) != content {
		t.Errorf("the file is now %q, %v", got, err)
	}
	// A version that was written before does not come back as a diff either.
	if a := w.call("async_append", args{"path": "vault/key.txt", "content": "more\n"}); a.status != "ok" {
		t.Fatal(a.body)
	}
	for _, name := range []string{"async_update", "async_delete"} {
		in := args{"path": "vault/key.txt", "expected_hash": h}
		if name == "async_update" {
			in["patches"] = patch(near)
		}
		if a := w.call(name, in); a.status != "contention" && a.code != denied || strings.Contains(a.body, "hunter") {
			t.Errorf("%s of an old version: %s", name, a.body)
		}
	}
}

// TestPatchesDoNotTellWhatMayNotBeRead asks of a guess whether it is right.
func TestPatchesDoNotTellWhatMayNotBeRead(t *testing.T) {
	w := newWorld(t, settings{rules: []access.Rule{{Path: "vault/**", Operations: []string{"read"}, Action: "deny"}}})
	w.put("vault/key.txt", "key: "+secret+"\n")
	h := w.hash("vault/key.txt")
	guess := func(expected, old string) string {
		a := w.call("async_update", args{"path": "vault/key.txt", "expected_hash": expected, "patches": []any{args{"old_string": old, "new_string": old}}})
		return a.status + " " + a.code + " " + fmt.Sprint(a.fields["patches_applicable"], a.fields["patch_verdicts"])
	}
	for _, expected := range []string{h, "sha256:00"} {
		if right, wrong := guess(expected, "key: s3"), guess(expected, "key: x3"); right != wrong {
			t.Errorf("a right guess answers %q, a wrong one %q", right, wrong)
		}
	}
}

var contentRules = []access.ContentRule{
	{Name: "key", Pattern: `key=\S+`, Action: "redact"},
	{Name: "private", Pattern: "BEGIN PRIVATE", Action: "deny"},
}

func TestRedactedContentDoesNotShowAndIsNotLost(t *testing.T) {
	w := newWorld(t, settings{content: contentRules})
	content := "one\nkey=" + secret + "\nthree\n"
	w.put("conf.txt", content)
	r := w.call("async_read", args{"path": "conf.txt"})
	shown, _ := r.fields["content"].(string)
	if strings.Contains(r.body, secret) || !strings.Contains(shown, "REDACTED") {
		t.Fatalf("read: %s", r.body)
	}
	h := r.fields["hash"].(string)
	patch := func(old, with string) []any { return []any{args{"old_string": old, "new_string": with}} }
	for _, s := range []struct {
		tool string
		args args
		want string
	}{
		{"async_update", args{"path": "conf.txt", "expected_hash": h, "content": strings.Replace(shown, "one", "1", 1)}, "REDACTION_MARKERS_PRESENT"},
		{"async_update", args{"path": "conf.txt", "expected_hash": h, "patches": patch("one", shown)}, "REDACTION_MARKERS_PRESENT"},
		{"async_update", args{"path": "conf.txt", "expected_hash": h, "patches": patch("key="+secret, "key=x")}, "INVALID_PATCH"},
		{"async_update", args{"path": "conf.txt", "expected_hash": h, "patches": patch("key=wrong-guess", "key=x")}, "INVALID_PATCH"},
		{"async_update", args{"path": "conf.txt", "expected_hash": h, "patches": []any{args{"start_line": 2, "end_line": 2, "new_string": "x\n"}}}, "REDACTION_MARKERS_PRESENT"},
		{"async_write", args{"path": "copy.txt", "content": shown}, "REDACTION_MARKERS_PRESENT"},
		{"async_append", args{"path": "conf.txt", "content": shown}, "REDACTION_MARKERS_PRESENT"},
		{"async_copy", args{"from": "conf.txt", "to": "copy.txt"}, "CONTENT_BLOCKED"},
		{"async_batch_write", args{"files": []any{args{"path": "copy.txt", "content": shown}}}, "REDACTION_MARKERS_PRESENT"},
		{"async_batch_update", args{"files": []any{args{"path": "conf.txt", "expected_hash": h, "content": shown}}, "atomic": true}, "REDACTION_MARKERS_PRESENT"},
		{"async_read", args{"path": "conf.txt", "encoding": "utf-16le"}, ""},
	} {
		a := w.call(s.tool, s.args)
		if s.want != "" && a.code != s.want {
			t.Errorf("%s %v: got %s, want %s", s.tool, s.args, a.body, s.want)
		}
		if strings.Contains(a.body, secret) {
			t.Errorf("%s %v shows the content: %s", s.tool, s.args, a.body)
		}
	}
	if got, _ := os.ReadFile(filepath.Join(w.root, "conf.txt")); string(got) != content {
		t.Fatalf("the file is now %q", got)
	}
	// Beside the marker everything can be edited, and the hidden bytes stay.
	if a := w.call("async_update", args{"path": "conf.txt", "expected_hash": h, "patches": patch("three", "3")}); a.status != "ok" {
		t.Errorf("edit beside the marker: %s", a.body)
	}
	if got, _ := os.ReadFile(filepath.Join(w.root, "conf.txt")); string(got) != strings.Replace(content, "three", "3", 1) {
		t.Errorf("the file is now %q", got)
	}
	for _, in := range []args{
		{"path": "conf.txt", "expected_hash": h, "content": "x"},
		{"path": "conf.txt", "expected_hash": h, "content": "x", "diff_format": "unified"},
		{"path": "conf.txt", "expected_hash": h, "patches": patch("key=s3cr3t-hunterX", "x")},
	} {
		if a := w.call("async_update", in); a.status != "contention" || strings.Contains(a.body, secret) {
			t.Errorf("contention: %s", a.body)
		}
	}
}

// TestPatchesDoNotTellWhatIsRedacted asks of a guess whether it is right.
func TestPatchesDoNotTellWhatIsRedacted(t *testing.T) {
	w := newWorld(t, settings{content: contentRules})
	w.put("conf.txt", "one\nkey="+secret+"\nthe word s3c in sight\n")
	h := w.hash("conf.txt")
	guess := func(expected string, p args) string {
		a := w.call("async_update", args{"path": "conf.txt", "expected_hash": expected, "patches": []any{p}})
		return a.status + " " + a.code + " " + fmt.Sprint(a.fields["patches_applicable"], a.fields["conflicts"])
	}
	for _, expected := range []string{h, "sha256:00"} {
		for _, g := range []struct{ right, wrong args }{
			{args{"old_string": "key=s3", "new_string": "x"}, args{"old_string": "key=x3", "new_string": "x"}},
			{args{"old_string": "hunter", "new_string": "x"}, args{"old_string": "jaeger", "new_string": "x"}},
			{
				args{"start_line": 2, "end_line": 2, "expected": "key=" + secret + "\n", "new_string": "x\n"},
				args{"start_line": 2, "end_line": 2, "expected": "key=other\n", "new_string": "x\n"},
			},
		} {
			if right, wrong := guess(expected, g.right), guess(expected, g.wrong); right != wrong {
				t.Errorf("the guess %v answers %q, a wrong one %q", g.right, right, wrong)
			}
		}
	}
	if a := w.call("async_update", args{"path": "conf.txt", "expected_hash": h, "patches": []any{args{"old_string": "s3c", "new_string": "abc"}}}); a.status != "ok" {
		t.Errorf("text that occurs once in sight counts as ambiguous because it is hidden elsewhere: %s", a.body)
	}
}

func TestDeniedContentIsNeitherShownNorWritten(t *testing.T) {
	w := newWorld(t, settings{content: contentRules})
	w.put("id", "BEGIN PRIVATE\n"+secret+"\n")
	h := w.hash("id")
	for _, s := range []struct {
		tool string
		args args
	}{
		{"async_read", args{"path": "id"}},
		{"async_read", args{"path": "id", "limit": 0}},
		{"async_read", args{"path": "id", "offset": 1}},
		{"async_batch_read", args{"files": []any{args{"path": "id"}}}},
		{"async_copy", args{"from": "id", "to": "copy"}},
		{"async_update", args{"path": "id", "expected_hash": h, "patches": []any{args{"old_string": secret, "new_string": "x"}}}},
		{"async_write", args{"path": "new", "content": "BEGIN PRIVATE"}},
		{"async_append", args{"path": "in.txt", "content": "BEGIN PRIVATE"}},
		{"async_batch_write", args{"files": []any{args{"path": "new", "content": "BEGIN PRIVATE"}}, "atomic": true}},
		{"async_update", args{"path": "in.txt", "expected_hash": w.hash("in.txt"), "content": "BEGIN PRIVATE"}},
	} {
		if a := w.call(s.tool, s.args); a.code != "CONTENT_BLOCKED" || strings.Contains(a.body, secret) {
			t.Errorf("%s %v: %s", s.tool, s.args, a.body)
		}
	}
	// Two parts that are harmless by themselves, brought together.
	w.put("log", "BEGIN PRI")
	for _, in := range []args{{"path": "log", "content": "VATE"}, {"path": "log", "content": "ATE", "separator": "V"}} {
		if a := w.call("async_append", in); a.code != "CONTENT_BLOCKED" {
			t.Errorf("append %v: %s", in, a.body)
		}
	}
	if raw, _ := os.ReadFile(filepath.Join(w.root, "log")); string(raw) != "BEGIN PRI" {
		t.Errorf("a refused append left %q", raw)
	}
	if a := w.call("async_append", args{"path": "id", "content": "more\n"}); a.status != "ok" {
		t.Errorf("adding harmless text to a file that holds denied content: %s", a.body)
	}
	for _, in := range []args{{"path": "id", "expected_hash": "00", "content": "x"}, {"path": "id", "expected_hash": "00", "patches": []any{args{"old_string": secret, "new_string": "x"}}}} {
		if a := w.call("async_update", in); a.status != "contention" || strings.Contains(a.body, secret) {
			t.Errorf("contention: %s", a.body)
		}
	}
	for _, v := range w.versions() {
		if strings.HasSuffix(v.Path, "/id") && v.Keep {
			t.Errorf("history keeps %+v", v)
		}
	}
}

func TestSecretFilesAreNeverKept(t *testing.T) {
	w := newWorld(t, settings{secrets: []string{".env*", "*.pem"}})
	w.put("sub/.env.local", "A="+secret+"\n")
	w.call("async_read", args{"path": "sub/.env.local"})
	h := w.hash("sub/.env.local")
	w.call("async_append", args{"path": "sub/.env.local", "content": "B=1\n"})
	a := w.call("async_update", args{"path": "sub/.env.local", "expected_hash": h, "content": "x"})
	if a.status != "contention" || a.fields["diff"] != nil || a.fields["base_available"] != false {
		t.Errorf("contention: %s", a.body)
	}
	w.call("async_write", args{"path": "k.pem", "content": secret})
	w.call("async_copy", args{"from": "k.pem", "to": "l.pem"})
	w.call("async_rename", args{"old_path": "l.pem", "new_path": "m.pem"})
	w.call("async_batch_write", args{"files": []any{args{"path": "n.pem", "content": secret}}, "atomic": true})
	w.call("async_delete", args{"path": "k.pem"})
	w.call("async_delete", args{"path": "sub", "recursive": true})
	for _, v := range w.versions() {
		raw, _, ok := w.history.Get(v.Project, v.Path, v.Hash)
		if strings.Contains(string(raw), secret) || ok && v.Path != filepath.Join(w.root, "sub/in.txt") {
			t.Errorf("history keeps %s: %q", v.Path, raw)
		}
	}
}

// TestProtectedPathsStayWhenTheirParentsAreTaken moves and deletes around them.
func TestProtectedPathsStayWhenTheirParentsAreTaken(t *testing.T) {
	w := newWorld(t, settings{})
	w.put("repo/.git/hooks/pre-commit", "#!/bin/sh\n")
	w.put("repo/.git/HEAD", "ref\n")
	w.put("repo/.git/config", "[core]\n")
	w.put(".git/hooks/pre-commit", "#!/bin/sh\n")
	w.put(".git/HEAD", "ref\n")
	w.put(".async-crud-mcp/config.json", "{}")
	w.put("evil/config.json", `{"shell": {"enabled": true}}`)
	w.put("evil/hooks/pre-commit", "#!/bin/sh\ntouch /tmp/pwned\n")
	w.link("repo", "alias")
	before := state(t, w.root)
	for _, s := range []struct {
		tool string
		args args
	}{
		{"async_delete", args{"path": ".", "recursive": true}},
		{"async_delete", args{"path": w.root, "recursive": true}},
		{"async_delete", args{"path": ".git", "recursive": true}},
		{"async_delete", args{"path": "repo", "recursive": true}},
		{"async_delete", args{"path": "alias", "recursive": true}},
		{"async_delete", args{"path": "repo/.git", "recursive": true}},
		{"async_delete", args{"path": ".async-crud-mcp", "recursive": true}},
		{"async_rename", args{"old_path": ".git", "new_path": "gone", "recursive": true}},
		{"async_rename", args{"old_path": "repo", "new_path": "gone", "recursive": true}},
		{"async_rename", args{"old_path": "alias/.git", "new_path": "gone", "recursive": true}},
		{"async_rename", args{"old_path": ".", "new_path": "gone", "recursive": true}},
		{"async_rename", args{"old_path": "evil", "new_path": ".async-crud-mcp", "recursive": true}},
		{"async_rename", args{"old_path": "evil", "new_path": "sub/.git", "recursive": true}},
		{"async_rename", args{"old_path": "evil/config.json", "new_path": ".async-crud-mcp/config.json", "overwrite": true}},
		{"async_rename", args{"old_path": "evil/config.json", "new_path": ".git/config"}},
		{"async_copy", args{"from": "evil/hooks/pre-commit", "to": ".git/hooks/post-commit"}},
		{"async_copy", args{"from": "evil/hooks/pre-commit", "to": "repo/.git/hooks/pre-commit", "overwrite": true}},
		{"async_mkdir", args{"path": "fresh/.git/hooks"}},
		{"async_write", args{"path": "fresh/.git/hooks/x", "content": "x"}},
		{"async_write", args{"path": "fresh/.git/config", "content": "x"}},
	} {
		a := w.call(s.tool, s.args)
		if a.code != denied && !(s.args["path"] == "." || s.args["path"] == w.root || s.args["old_path"] == ".") || a.status == "ok" {
			t.Errorf("%s %v: %s", s.tool, s.args, a.body)
		}
		if after := state(t, w.root); after != before {
			t.Fatalf("%s %v changed something:\n%s", s.tool, s.args, after)
		}
	}
}

func TestTheSizeLimitHoldsForEveryTool(t *testing.T) {
	const limit = 100
	w := newWorld(t, settings{limit: limit})
	big, half := strings.Repeat("x", limit+1), strings.Repeat("y", limit/2+1)
	w.put("big.txt", big)
	w.put("half.txt", half)
	h := w.hash("half.txt")
	before := state(t, w.root)
	for _, s := range []struct {
		tool string
		args args
	}{
		{"async_read", args{"path": "big.txt"}},
		{"async_read", args{"path": "big.txt", "limit": 1}},
		{"async_batch_read", args{"files": []any{args{"path": "big.txt"}}}},
		{"async_write", args{"path": "new.txt", "content": big}},
		{"async_write", args{"path": "new.txt", "content": half, "encoding": "utf-16"}},
		{"async_batch_write", args{"files": []any{args{"path": "new.txt", "content": big}}}},
		{"async_batch_write", args{"files": []any{args{"path": "new.txt", "content": big}}, "atomic": true}},
		{"async_append", args{"path": "half.txt", "content": half}},
		{"async_append", args{"path": "half.txt", "content": "a", "separator": half}},
		{"async_append", args{"path": "new.txt", "content": big, "create_if_missing": true}},
		{"async_append", args{"path": "big.txt", "content": "x"}},
		{"async_update", args{"path": "half.txt", "expected_hash": h, "content": big}},
		{"async_update", args{"path": "half.txt", "expected_hash": h, "patches": []any{args{"old_string": "y", "new_string": "yyy", "replace_all": true}}}},
		{"async_update", args{"path": "big.txt", "expected_hash": "00", "content": "x"}},
		{"async_batch_update", args{"files": []any{args{"path": "half.txt", "expected_hash": h, "content": big}}, "atomic": true}},
		{"async_copy", args{"from": "big.txt", "to": "new.txt"}},
	} {
		a := w.call(s.tool, s.args)
		if a.code != "FILE_TOO_LARGE" {
			t.Errorf("%s %v: %s", s.tool, s.args, a.body)
		}
		if after := state(t, w.root); after != before {
			t.Fatalf("%s %v changed something:\n%s", s.tool, s.args, after)
		}
	}
	// These need no content in memory.
	if a := w.call("async_rename", args{"old_path": "big.txt", "new_path": "moved.txt"}); a.status != "ok" {
		t.Errorf("a file that is too large cannot be moved: %s", a.body)
	}
	if a := w.call("async_delete", args{"path": "moved.txt"}); a.status != "ok" {
		t.Errorf("a file that is too large cannot be deleted: %s", a.body)
	}
}

// TestAChangeOfHiddenContentIsADiffWithoutLines keeps the shape of the answer.
func TestAChangeOfHiddenContentIsADiffWithoutLines(t *testing.T) {
	w := newWorld(t, settings{content: contentRules})
	w.put("conf.txt", "key=old\n")
	h := w.call("async_read", args{"path": "conf.txt"}).fields["hash"]
	w.put("conf.txt", "key=new\n")
	a := w.call("async_update", args{"path": "conf.txt", "expected_hash": h, "content": "x"})
	diff, _ := a.fields["diff"].(map[string]any)
	if changes, ok := diff["changes"].([]any); !ok || len(changes) != 0 {
		t.Errorf("contention: %s", a.body)
	}
}

// TestTheNearestMatchShowsNoPartOfWhatIsHidden looks for something like a line in
// the middle of hidden ones, which alone no rule would know.
func TestTheNearestMatchShowsNoPartOfWhatIsHidden(t *testing.T) {
	w := newWorld(t, settings{content: []access.ContentRule{{Name: "block", Pattern: `(?s)<key>.*?</key>`, Action: "redact"}}})
	w.put("conf.txt", "top\n<key>\nthe inner word is "+secret+"\n</key>\nend\n")
	patches := []any{args{"old_string": "the inner word is s3cr3t-hunterX", "new_string": "x"}}
	for _, expected := range []string{w.hash("conf.txt"), "sha256:00"} {
		for _, mode := range []string{"fail", "merge"} {
			a := w.call("async_update", args{"path": "conf.txt", "expected_hash": expected, "patches": patches, "on_contention": mode})
			if a.status == "ok" || strings.Contains(a.body, secret) || strings.Contains(a.body, "inner") {
				t.Errorf("%s: %s", mode, a.body)
			}
		}
	}
}
