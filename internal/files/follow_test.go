package files_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
)

// content gives the place content rules.
func (p *place) content(t *testing.T, rules ...access.ContentRule) {
	t.Helper()
	c, err := access.NewContent(rules)
	if err != nil {
		t.Fatal(err)
	}
	p.scope.Content, p.scope.Redacts = c, len(rules) > 0
}

func (p *place) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.root, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFetchShowsTextAndHandsOutBytes(t *testing.T) {
	secret := access.ContentRule{Name: "key", Pattern: `SECRET\w+`, Action: "redact"}
	for _, tc := range []struct {
		name, raw      string
		text, encoding string
		blob           bool
		rules          []access.ContentRule
		redacted       int
		code           fault.Code
	}{
		{name: "text", raw: "café\r\n", text: "café\r\n", encoding: "utf-8"},
		{name: "empty", raw: "", text: "", encoding: "utf-8"},
		{name: "byte order mark", raw: bom8 + "one", text: "one", encoding: "utf-8"},
		{name: "utf-16", raw: bom16 + utf16le("one\n"), text: "one\n", encoding: "utf-16"},
		{name: "a zero byte", raw: "a\x00b", blob: true},
		{name: "no text", raw: "\xff\xd8\xff", blob: true},
		{name: "half a utf-16", raw: bom16 + "x", blob: true},
		{name: "redacted", raw: "k=SECRETabc\n", rules: []access.ContentRule{secret}, text: "k=[[REDACTED:key]]\n", encoding: "utf-8", redacted: 1},
		{name: "secret in bytes", raw: "\xff\x00SECRETabc", rules: []access.ContentRule{secret}, code: fault.ContentBlocked},
		{name: "secret in utf-16", raw: bom16 + utf16le("SECRETabc"), rules: []access.ContentRule{secret}, text: "[[REDACTED:key]]", encoding: "utf-16", redacted: 1},
		{name: "denied", raw: "SECRETabc", rules: []access.ContentRule{{Name: "no", Pattern: "SECRET", Action: "deny"}}, code: fault.ContentBlocked},
		{name: "too large", raw: strings.Repeat("x", 1001), code: fault.FileTooLarge},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := fresh(t)
			p.content(t, tc.rules...)
			p.write(t, "f", tc.raw)
			got, err := p.Fetch(t.Context(), "f")
			if tc.code != "" {
				if fault.CodeOf(err) != tc.code {
					t.Fatalf("Fetch = %+v, %v; want %s", got, err, tc.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tc.blob != (got.Bytes != nil) || tc.blob && string(got.Bytes) != tc.raw || got.Text != tc.text || got.Encoding != tc.encoding || got.Redacted != tc.redacted {
				t.Errorf("Fetch = %+v, want text %q in %q, blob %v, %d redacted", got, tc.text, tc.encoding, tc.blob, tc.redacted)
			}
			if got.Path != filepath.Join(p.root, "f") || got.Hash != p.hash(t, "f") {
				t.Errorf("Fetch = %s %s", got.Path, got.Hash)
			}
			if _, tracked := p.history.Tracked("p", got.Path); !tracked {
				t.Error("what was handed out is not remembered")
			}
		})
	}
}

func TestFetchKeepsToTheRules(t *testing.T) {
	p := fresh(t)
	if err := os.MkdirAll(filepath.Join(p.root, "locked"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.write(t, "locked/f", "x")
	if err := os.Symlink(filepath.Dir(p.root), filepath.Join(p.root, "out")); err != nil {
		t.Fatal(err)
	}
	p.scope.Limits.MaxResult = 3
	for name, want := range map[string]fault.Code{
		"../outside": fault.PathOutsideBase, "out/x": fault.PathOutsideBase, "/etc/passwd": fault.PathOutsideBase,
		"locked/f": fault.AccessDenied, "missing": fault.FileNotFound, "dir": fault.IsADirectory, "a.txt": fault.FileTooLarge,
	} {
		if _, err := p.Fetch(t.Context(), name); fault.CodeOf(err) != want {
			t.Errorf("Fetch(%s) = %v, want %s", name, err, want)
		}
	}
}

// follow follows name and returns what is told of it.
func (p *place) follow(t *testing.T, name string) (f *files.Following, told func() string) {
	t.Helper()
	sub := p.bus.Subscribe(100)
	t.Cleanup(sub.Close)
	f, err := p.Follow(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f, func() string {
		var out []string
		for {
			select {
			case e := <-sub.C:
				if c, ok := e.Data.(event.File); ok && f.Concerns(c) {
					what := "here"
					if c.Hash == "" {
						what = "gone"
					}
					if c.External {
						what += " outside"
					}
					out = append(out, what)
				}
			default:
				return strings.Join(out, ", ")
			}
		}
	}
}

func TestAFollowedFileIsToldOfOncePerChange(t *testing.T) {
	p := fresh(t)
	_, told := p.follow(t, "a.txt")
	path := filepath.Join(p.root, "a.txt")
	step := func(what, want string, do func()) {
		t.Helper()
		do()
		p.Noticed(t.Context(), p.scope, path) // as the watcher does after every change
		if got := told(); got != want {
			t.Errorf("%s: told %q, want %q", what, got, want)
		}
	}
	step("nothing", "", func() {})
	step("a change outside", "here outside", func() { p.write(t, "a.txt", "new\n") })
	step("a change of ours", "here", func() {
		content := "ours\n"
		if _, err := p.Update(t.Context(), files.UpdateRequest{Path: "a.txt", ExpectedHash: p.hash(t, "a.txt"), Content: &content}); err != nil {
			t.Fatal(err)
		}
	})
	step("a deletion of ours", "gone", func() {
		if _, err := p.Delete(t.Context(), files.DeleteRequest{Path: "a.txt"}); err != nil {
			t.Fatal(err)
		}
	})
	step("its return outside", "here outside", func() { p.write(t, "a.txt", "back\n") })
	step("growth over the limit", "gone outside", func() { p.large(t, "a.txt") })
	step("more of that", "", func() { p.write(t, "a.txt", strings.Repeat("y", 6000)) })
	step("a deletion outside", "gone outside", func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAFileMayBeFollowedBeforeItExists(t *testing.T) {
	for _, outside := range []bool{false, true} {
		p := fresh(t)
		_, told := p.follow(t, "new/later.txt")
		if outside {
			if err := os.MkdirAll(filepath.Join(p.root, "new"), 0o755); err != nil {
				t.Fatal(err)
			}
			p.write(t, "new/later.txt", "x")
			p.NoticedAll(t.Context(), p.scope) // as after lost notices
		} else if _, err := p.Write(t.Context(), files.WriteRequest{Path: "new/later.txt", Content: "x", CreateDirs: true}); err != nil {
			t.Fatal(err)
		}
		want := "here"
		if outside {
			want = "here outside"
		}
		if got := told(); got != want {
			t.Errorf("outside %v: told %q, want %q", outside, got, want)
		}
	}
}

func TestAFollowedFileGoesWithItsDirectory(t *testing.T) {
	p := fresh(t)
	p.write(t, "dir/f", "x")
	_, told := p.follow(t, "dir/f")
	if _, err := p.Rename(t.Context(), files.RenameRequest{OldPath: "dir", NewPath: "moved", Recursive: true}); err != nil {
		t.Fatal(err)
	}
	p.Noticed(t.Context(), p.scope, filepath.Join(p.root, "dir/f"))
	if got := told(); got != "gone" {
		t.Errorf("told %q, want gone", got)
	}
}

func TestNobodyHearsOfAFileThatNobodyFollows(t *testing.T) {
	p := fresh(t)
	f, told := p.follow(t, "a.txt")
	f.Close()
	f.Close()
	p.write(t, "a.txt", "new\n")
	p.Noticed(t.Context(), p.scope, filepath.Join(p.root, "a.txt"))
	if got := told(); got != "" {
		t.Errorf("told %q", got)
	}
}

func TestFollowingKeepsToTheRulesAtEveryMoment(t *testing.T) {
	p := fresh(t)
	for name, want := range map[string]fault.Code{
		"../outside": fault.PathOutsideBase, "locked/f": fault.AccessDenied, "dir": fault.IsADirectory,
	} {
		if _, err := p.Follow(t.Context(), name); fault.CodeOf(err) != want {
			t.Errorf("Follow(%s) = %v, want %s", name, err, want)
		}
	}
	f, _ := p.follow(t, "a.txt")
	if !f.MayRead(t.Context()) {
		t.Error("may not read what it follows")
	}
	p.content(t, access.ContentRule{Name: "no", Pattern: "one", Action: "deny"})
	if f.MayRead(t.Context()) {
		t.Error("may read what a content rule forbids by now")
	}
	if _, err := p.Follow(t.Context(), "a.txt"); fault.CodeOf(err) != fault.ContentBlocked {
		t.Errorf("Follow = %v, want %s", err, fault.ContentBlocked)
	}
	p.content(t)
	rules := p.scope.Rules
	var err error
	if p.scope.Rules, err = access.New(access.Options{Rules: []access.Rule{{Path: "a.txt", Action: "deny"}}}); err != nil {
		t.Fatal(err)
	}
	if f.MayRead(t.Context()) {
		t.Error("may read what an access rule forbids by now")
	}
	p.scope.Rules = rules
	path := filepath.Join(p.root, "a.txt")
	if err := errors.Join(os.Remove(path), os.Symlink(filepath.Join(p.root, "dir", "x"), path)); err != nil {
		t.Fatal(err)
	}
	if f.MayRead(t.Context()) {
		t.Error("a link took the place of the file, and its target is taken for it")
	}
}

func TestAWaitingCallIsToldItsPlace(t *testing.T) {
	p := fresh(t)
	queued := make(chan int, 10)
	request := lock.Request{
		Keys: []lock.Key{lock.Key(filepath.Join(p.root, "a.txt"))}, Mode: lock.Exclusive, Moved: func(place int) { queued <- place },
	}
	first, err := p.locks.Hold(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan lock.Lease, 1)
	go func() {
		lease, err := p.locks.Hold(t.Context(), request)
		if err != nil {
			t.Error(err)
		}
		second <- lease
	}()
	<-queued
	said := make(chan string, 10)
	ctx := caller.With(t.Context(), &caller.Caller{Ask: caller.Ask{
		Progress: func(_ context.Context, _, _ float64, message string) { said <- message },
	}})
	ended := make(chan error, 1)
	go func() {
		_, err := p.Append(ctx, files.AppendRequest{Path: "a.txt", Content: "x"})
		ended <- err
	}()
	for place := 2; place > 0; place-- {
		if got, want := <-said, fmt.Sprintf("waiting for the file, place %d in the queue", place); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
		if place == 2 {
			first.Release()
		}
	}
	lease := <-second
	lease.Release()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
