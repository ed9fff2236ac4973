package files_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
)

func (p *place) patch(ctx context.Context, name, hash, old, with string) error {
	_, err := p.Update(ctx, files.UpdateRequest{Path: name, ExpectedHash: hash, Patches: []files.Patch{{OldString: old, NewString: with}}})
	return err
}

// TestEveryCodeOfTheRegistryIsReached covers what a caller can bring about; the
// refusals of the system are below.
func TestEveryCodeOfTheRegistryIsReached(t *testing.T) {
	p, ctx := fresh(t), t.Context()
	if err := os.WriteFile(filepath.Join(p.root, "latin.txt"), []byte("caf\xe9\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h, text := p.hash(t, "a.txt"), "x"
	one := func(_ any, err error) error { return err }
	for _, c := range []struct {
		want fault.Code
		err  error
	}{
		{fault.FileNotFound, one(p.Read(ctx, files.ReadRequest{Path: "missing"}))},
		{fault.FileNotFound, p.patch(ctx, "missing", h, "a", "b")},
		{fault.FileNotFound, one(p.Delete(ctx, files.DeleteRequest{Path: "missing"}))},
		{fault.FileNotFound, one(p.Append(ctx, files.AppendRequest{Path: "missing"}))},
		{fault.FileNotFound, one(p.Rename(ctx, files.RenameRequest{OldPath: "missing", NewPath: "b"}))},
		{fault.FileNotFound, one(p.Copy(ctx, files.CopyRequest{From: "missing", To: "b"}))},
		{fault.FileNotFound, one(p.Read(ctx, files.ReadRequest{Path: "a.txt/below"}))},
		{fault.FileExists, one(p.Write(ctx, files.WriteRequest{Path: "a.txt"}))},
		{fault.FileExists, one(p.Rename(ctx, files.RenameRequest{OldPath: "a.txt", NewPath: "latin.txt"}))},
		{fault.FileExists, one(p.Copy(ctx, files.CopyRequest{From: "a.txt", To: "latin.txt"}))},
		{fault.AccessDenied, one(p.Write(ctx, files.WriteRequest{Path: "locked/x", CreateDirs: true}))},
		{fault.PathOutsideBase, one(p.Read(ctx, files.ReadRequest{Path: "../x"}))},
		{fault.EncodingError, one(p.Read(ctx, files.ReadRequest{Path: "latin.txt"}))},
		{fault.EncodingError, one(p.Read(ctx, files.ReadRequest{Path: "a.txt", Encoding: "no-such-encoding"}))},
		{fault.EncodingError, one(p.Write(ctx, files.WriteRequest{Path: "new", Content: "€", Encoding: "latin-1"}))},
		{fault.EncodingError, one(p.Append(ctx, files.AppendRequest{Path: "a.txt", Content: "€", Encoding: "ascii"}))},
		{fault.InvalidPatch, p.patch(ctx, "a.txt", h, "three", "3")},
		{fault.InvalidPatch, p.patch(ctx, "a.txt", h, "o", "0")},
		{fault.InvalidPatch, p.patch(ctx, "a.txt", h, "", "0")},
		{fault.ContentOrPatchesRequired, one(p.Update(ctx, files.UpdateRequest{Path: "a.txt", ExpectedHash: h}))},
		{fault.ContentOrPatchesRequired, one(p.Update(ctx, files.UpdateRequest{Path: "a.txt", ExpectedHash: h, Patches: []files.Patch{}}))},
		{fault.ContentOrPatchesRequired, one(p.Update(ctx, files.UpdateRequest{Path: "a.txt", ExpectedHash: h, Content: &text, Patches: []files.Patch{{OldString: "one"}}}))},
		{fault.FileTooLarge, one(p.Write(ctx, files.WriteRequest{Path: "new", Content: strings.Repeat("x", 1001)}))},
		{fault.FileExists, one(p.Rename(ctx, files.RenameRequest{OldPath: "dir", NewPath: "a.txt", Recursive: true, Overwrite: true}))},
		{fault.DirNotFound, one(p.List(ctx, files.ListRequest{Path: "missing", Pattern: "*"}))},
		{fault.DirNotFound, one(p.List(ctx, files.ListRequest{Path: "a.txt", Pattern: "*"}))},
		{fault.DirNotFound, one(p.List(ctx, files.ListRequest{Path: "a.txt/x", Pattern: "*"}))},
		{fault.DirNotFound, one(p.Write(ctx, files.WriteRequest{Path: "missing/x"}))},
		{fault.DirNotFound, one(p.Write(ctx, files.WriteRequest{Path: "a.txt/x"}))},
		{fault.DirNotFound, one(p.Write(ctx, files.WriteRequest{Path: "a.txt/x/y", CreateDirs: true}))},
		{fault.DirNotFound, one(p.Mkdir(ctx, files.MkdirRequest{Path: "a.txt/x", Parents: true}))},
		{fault.DirNotFound, one(p.Append(ctx, files.AppendRequest{Path: "missing/x", CreateIfMissing: true}))},
		{fault.DirNotFound, one(p.Rename(ctx, files.RenameRequest{OldPath: "a.txt", NewPath: "missing/x"}))},
		{fault.DirNotFound, one(p.Rename(ctx, files.RenameRequest{OldPath: "a.txt", NewPath: "latin.txt/x", CreateDirs: true}))},
		{fault.DirNotFound, one(p.Copy(ctx, files.CopyRequest{From: "a.txt", To: "missing/x"}))},
		{fault.DirNotFound, one(p.Copy(ctx, files.CopyRequest{From: "a.txt", To: "latin.txt/x", CreateDirs: true}))},
		{fault.IsADirectory, one(p.Read(ctx, files.ReadRequest{Path: "dir"}))},
		{fault.IsADirectory, one(p.Delete(ctx, files.DeleteRequest{Path: "dir"}))},
		{fault.IsADirectory, one(p.Copy(ctx, files.CopyRequest{From: "dir", To: "b"}))},
		{fault.ValidationError, one(p.Rename(ctx, files.RenameRequest{OldPath: "a.txt", NewPath: "./a.txt"}))},
	} {
		if got := fault.CodeOf(c.err); got != c.want {
			t.Errorf("got %s (%v), want %s", got, c.err, c.want)
		}
	}
	if raw, _ := os.ReadFile(filepath.Join(p.root, "a.txt")); string(raw) != "one\ntwo\n" {
		t.Errorf("a refused call changed the file: %q", raw)
	}
	items, _, err := p.BatchWrite(ctx, []files.WriteRequest{{Path: "b.txt"}, {Path: "a.txt"}}, true)
	if err != nil || items[0].Err.Code != fault.WriteError || items[1].Err.Code != fault.FileExists {
		t.Errorf("an atomic batch over a file that exists: %+v, %v", items, err)
	}
}

// TestLockTimeoutSaysWhoIsInTheWay holds a file and waits for it, in no time.
func TestLockTimeoutSaysWhoIsInTheWay(t *testing.T) {
	p := fresh(t)
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(p.root, "a.txt")
		lease, err := p.locks.Hold(t.Context(), lock.Request{
			Mode: lock.Exclusive, Keys: []lock.Key{lock.Key(path)}, TTL: time.Hour, Owner: lock.Owner{Op: "update", Caller: "agent-7"},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release()
		wait, text := 5*time.Second, "x"
		one := func(_ any, err error) error { return err }
		for _, call := range []func() error{
			func() error { return one(p.Append(t.Context(), files.AppendRequest{Path: "a.txt", Timeout: &wait})) },
			func() error { return one(p.Delete(t.Context(), files.DeleteRequest{Path: "a.txt", Timeout: &wait})) },
			func() error {
				return one(p.Rename(t.Context(), files.RenameRequest{OldPath: "a.txt", NewPath: "b.txt", Timeout: &wait}))
			},
			func() error {
				return one(p.Copy(t.Context(), files.CopyRequest{From: "a.txt", To: "b.txt", Timeout: &wait}))
			},
			func() error {
				return one(p.Update(t.Context(), files.UpdateRequest{Path: "a.txt", Content: &text, Timeout: &wait}))
			},
		} {
			start := time.Now()
			err := call()
			f := fault.From(err)
			if f.Code != fault.LockTimeout || time.Since(start) != wait || f.Path != path {
				t.Errorf("after %s: %+v", time.Since(start), f)
			}
			holder, _ := f.Details["holder"].(map[string]any)
			if f.Details["queue_depth"] != 0 || f.Details["timeout_applied"] != 5.0 || holder["operation"] != "update" || holder["caller"] != "agent-7" {
				t.Errorf("details: %v", f.Details)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Read(ctx, files.ReadRequest{Path: "a.txt"}); fault.CodeOf(err) != fault.LockTimeout {
			t.Errorf("a read whose caller went away: %v", err)
		}
	})
}

// reports are the codes a helper process got, by call.
type reports map[string]fault.Code

// helper runs a test of this binary again as a process of its own, since what it
// does to itself cannot be taken back.
func helper(t *testing.T, name, root string) reports {
	t.Helper()
	out := filepath.Join(t.TempDir(), "report")
	if err := os.WriteFile(out, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(out, 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+name+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), "ACM_HELPER="+root, "ACM_REPORT="+out)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	raw, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var got reports
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	return got
}

// refused makes one call of each kind and notes what came of it.
func refused(ctx context.Context, p *place, hash string) reports {
	one := func(_ any, err error) fault.Code { return fault.CodeOf(err) }
	text := "x"
	return reports{
		"read":   one(p.Read(ctx, files.ReadRequest{Path: "ro/a.txt"})),
		"write":  one(p.Write(ctx, files.WriteRequest{Path: "ro/new.txt", Content: "x"})),
		"mkdir":  one(p.Mkdir(ctx, files.MkdirRequest{Path: "ro/new", Parents: true})),
		"update": one(p.Update(ctx, files.UpdateRequest{Path: "ro/a.txt", ExpectedHash: hash, Content: &text})),
		"append": one(p.Append(ctx, files.AppendRequest{Path: "ro/a.txt", Content: "x"})),
		"delete": one(p.Delete(ctx, files.DeleteRequest{Path: "ro/a.txt"})),
		"rename": one(p.Rename(ctx, files.RenameRequest{OldPath: "ro/a.txt", NewPath: "ro/b.txt"})),
		"copy":   one(p.Copy(ctx, files.CopyRequest{From: "ro/a.txt", To: "ro/b.txt"})),
		"tree":   one(p.Delete(ctx, files.DeleteRequest{Path: "ro", Recursive: true})),
	}
}

// asHelper runs do if this process is a helper.
func asHelper(t *testing.T, limit func() error, do func(p *place, hash string) reports) bool {
	t.Helper()
	root := os.Getenv("ACM_HELPER")
	if root == "" {
		return false
	}
	report, err := os.OpenFile(os.Getenv("ACM_REPORT"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer report.Close()
	p := newPlace(t, root)
	h := p.hash(t, "ro/a.txt")
	if err := limit(); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(do(p, h))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := report.Write(got); err != nil {
		t.Fatal(err)
	}
	return true
}

// guarded makes a directory ro with a file in it.
func guarded(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "project")
	ro := filepath.Join(root, "ro")
	if err := errors.Join(os.MkdirAll(ro, 0o755), os.WriteFile(filepath.Join(ro, "a.txt"), []byte("one\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	return root
}

func intact(t *testing.T, root string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, "ro"))
	raw, _ := os.ReadFile(filepath.Join(root, "ro/a.txt"))
	if err != nil || len(entries) != 1 || string(raw) != "one\n" {
		t.Errorf("not as it was: %v %q %v", entries, raw, err)
	}
}

func compareReports(t *testing.T, got, want reports) {
	t.Helper()
	for call, code := range want {
		if got[call] != code {
			t.Errorf("%s: got %s, want %s", call, got[call], code)
		}
	}
}

// TestWhatTheSystemForbidsIsAccessDenied works as a user who may not write.
func TestWhatTheSystemForbidsIsAccessDenied(t *testing.T) {
	if asHelper(t, becomeNobody, func(p *place, h string) reports { return refused(t.Context(), p, h) }) {
		return
	}
	root := guarded(t)
	ro := filepath.Join(root, "ro")
	if err := errors.Join(os.Chmod(filepath.Join(ro, "a.txt"), 0o444), os.Chmod(ro, 0o555)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(ro, 0o755) })
	got := helper(t, t.Name(), root)
	compareReports(t, got, reports{
		"read": "", "write": fault.AccessDenied, "mkdir": fault.AccessDenied, "update": fault.AccessDenied, "append": fault.AccessDenied,
		"delete": fault.AccessDenied, "rename": fault.AccessDenied, "copy": fault.AccessDenied, "tree": fault.AccessDenied,
	})
	intact(t, root)
}

// TestAppendChangesNothingThatItCannotReadBack appends to a file that may be
// written but not read: no hash could be told of it.
func TestAppendChangesNothingThatItCannotReadBack(t *testing.T) {
	if asHelper(t, becomeNobody, func(p *place, _ string) reports {
		_, err := p.Append(t.Context(), files.AppendRequest{Path: "drop.txt", Content: "two\n"})
		return reports{"append": fault.CodeOf(err)}
	}) {
		return
	}
	root := guarded(t)
	drop := filepath.Join(root, "drop.txt")
	if err := errors.Join(os.WriteFile(drop, []byte("one\n"), 0o644), os.Chmod(drop, 0o222)); err != nil {
		t.Fatal(err)
	}
	compareReports(t, helper(t, t.Name(), root), reports{"append": fault.AccessDenied})
	if err := os.Chmod(drop, 0o644); err != nil {
		t.Fatal(err)
	}
	if raw, _ := os.ReadFile(drop); string(raw) != "one\n" {
		t.Errorf("a refused append left %q", raw)
	}
}

// TestADirectoryThatCannotBeDeletedWholeStays deletes a tree with a directory deep
// inside that lets nobody remove its entries.
func TestADirectoryThatCannotBeDeletedWholeStays(t *testing.T) {
	if asHelper(t, becomeNobody, func(p *place, _ string) reports {
		_, err := p.Delete(t.Context(), files.DeleteRequest{Path: "tree", Recursive: true})
		return reports{"tree": fault.CodeOf(err)}
	}) {
		return
	}
	root := guarded(t)
	closed := filepath.Join(root, "tree", "closed")
	inside := []string{filepath.Join(root, "tree", "a"), filepath.Join(closed, "deep", "b"), filepath.Join(root, "tree", "z")}
	if err := os.MkdirAll(filepath.Join(closed, "deep"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, f := range inside {
		if err := os.WriteFile(f, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{root, filepath.Join(root, "tree"), filepath.Join(closed, "deep")} {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(closed, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(closed, 0o755) })
	compareReports(t, helper(t, t.Name(), root), reports{"tree": fault.AccessDenied})
	for _, f := range inside {
		if _, err := os.Stat(f); err != nil {
			t.Errorf("a refused call deleted a part: %v", err)
		}
	}
}

// becomeNobody gives up root; another user cannot write there anyway.
func becomeNobody() error {
	if os.Getuid() != 0 {
		return nil
	}
	const nobody = 65534
	return errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody))
}

// TestOtherRefusalsOfTheSystemNameTheVerb leaves no file descriptor to the engine.
func TestOtherRefusalsOfTheSystemNameTheVerb(t *testing.T) {
	if asHelper(t, starve, func(p *place, h string) reports { return refused(t.Context(), p, h) }) {
		return
	}
	root := guarded(t)
	compareReports(t, helper(t, t.Name(), root), reports{
		"read": fault.ServerError, "write": fault.WriteError, "mkdir": fault.WriteError, "update": fault.WriteError, "append": fault.WriteError,
		"delete": fault.DeleteError, "rename": fault.RenameError, "copy": fault.WriteError, "tree": fault.DeleteError,
	})
	intact(t, root)
}

func starve() error {
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: 0})
}

// TestAFullDiskChangesNothing lets the system refuse the bytes themselves.
func TestAFullDiskChangesNothing(t *testing.T) {
	long := strings.Repeat("x", 500)
	if asHelper(t, fill, func(p *place, h string) reports {
		one := func(_ any, err error) fault.Code { return fault.CodeOf(err) }
		ctx := t.Context()
		return reports{
			"write":  one(p.Write(ctx, files.WriteRequest{Path: "ro/new.txt", Content: long})),
			"update": one(p.Update(ctx, files.UpdateRequest{Path: "ro/a.txt", ExpectedHash: h, Content: &long})),
			"append": one(p.Append(ctx, files.AppendRequest{Path: "ro/a.txt", Content: long})),
			"small":  one(p.Append(ctx, files.AppendRequest{Path: "ro/a.txt", Content: "two\n"})),
		}
	}) {
		return
	}
	root := guarded(t)
	compareReports(t, helper(t, t.Name(), root), reports{"write": fault.WriteError, "update": fault.WriteError, "append": fault.WriteError, "small": ""})
	entries, err := os.ReadDir(filepath.Join(root, "ro"))
	raw, _ := os.ReadFile(filepath.Join(root, "ro/a.txt"))
	if err != nil || len(entries) != 1 || string(raw) != "one\ntwo\n" {
		t.Errorf("left behind: %v %q %v", entries, raw, err)
	}
}

// fill forbids files over 100 bytes, as a disk without room does.
func fill() error {
	signal.Ignore(syscall.SIGXFSZ)
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100, Max: 100})
}
