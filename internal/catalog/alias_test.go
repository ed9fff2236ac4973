package catalog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/alias"
	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/catalog"
	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// sampleAliases are those that the examples are about.
const sampleAliases = `
alias gs='git status'
alias ll='ls -lhF'
alias hello='echo hello'
alias nuke='rm -rf /tmp/nothing'
alias slow='sleep 60'
alias GS='git status --short'
alias show='printenv'
alias many='seq 1 100000'
alias both='echo out; echo err >&2; exit 3'
alias catalog='echo named'
`

// aliasScope has the sample aliases, in the world's own home.
func (w *world) aliasScope(ctx context.Context) (*shell.AliasScope, error) {
	a, err := w.projects.Current(ctx)
	if err != nil {
		return nil, err
	}
	if w.aliases == nil {
		w.aliases = alias.NewStore(alias.Options{})
		w.write(filepath.Join(w.home, "aliases"), []byte(sampleAliases))
	}
	c := a.Settings().Config.Aliases
	s := &shell.AliasScope{
		Book: w.aliases.Book(alias.Settings{
			Files: []string{filepath.Join(w.home, "aliases")},
			Allow: []string{`^(git|ls|echo|sleep|printenv|seq)\b(?!\s+push)`, `^exit\b`}, Deny: c.DenyPatterns,
		}),
		Project: a.ID, Root: a.Root, Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.home, "LANG=C"},
		Home: w.home, Dir: w.home, Roots: []string{w.home, w.root}, Timeout: 20 * time.Second, MaxTimeout: time.Minute, MaxStdout: 100, MaxStderr: 100,
		Sandbox: func(string) (*shell.Sandbox, error) { return shell.Unconfined(), nil },
	}
	return s, nil
}

func (w *world) aliasCall(name, args string) map[string]any {
	w.t.Helper()
	var out map[string]any
	if err := json.Unmarshal(w.call(name, args).Body, &out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

func TestAConfirmationMayBeAskedOfThePerson(t *testing.T) {
	w := newWorld(t)
	w.start("--root")
	asked := 0
	var said caller.Answer
	w.answer = func(q caller.Question) (caller.Answer, error) {
		asked++
		for _, want := range []string{"echo hello 'a b'", "in " + w.home, "hello"} {
			if !strings.Contains(q.Message, want) {
				t.Errorf("the question lacks %q: %s", want, q.Message)
			}
		}
		return said, nil
	}
	const call = `{"name": "hello", "args": "'a b'", "dryRun": false}`
	for _, c := range []struct {
		name string
		said caller.Answer
		code fault.Code
	}{
		{"yes", caller.Answer{Accepted: true, Content: json.RawMessage(`{"run": true}`)}, ""},
		{"a form that says no", caller.Answer{Accepted: true, Content: json.RawMessage(`{"run": false}`)}, fault.ConfirmationRequired},
		{"declined", caller.Answer{}, fault.ConfirmationRequired},
		{"nonsense", caller.Answer{Accepted: true, Content: json.RawMessage(`[]`)}, fault.ConfirmationRequired},
	} {
		said = c.said
		if res := w.call("alias_exec", call); res.Code != c.code || c.code == "" && !strings.Contains(string(res.Body), `"stdout":"hello a b\n"`) {
			t.Errorf("%s: %s", c.name, res.Body)
		}
	}
	if asked != 4 {
		t.Errorf("asked %d times", asked)
	}
	// Nobody is asked about what may not run, what is not to run, or what is confirmed.
	for _, args := range []string{`{"name": "nuke", "dryRun": false}`, `{"name": "hello"}`, `{"name": "hello", "dryRun": false, "confirm": true}`} {
		w.call("alias_exec", args)
	}
	if asked != 4 {
		t.Errorf("asked %d times", asked)
	}
	// A protocol that repeats the call gets the question.
	w.answer = func(q caller.Question) (caller.Answer, error) { return caller.Answer{}, &caller.NeedInput{Question: q} }
	if res := w.set.Call(w.ctx, w.set.Lookup("alias_exec"), json.RawMessage(call)); res.Need == nil || res.Need.Question.Key != "run" {
		t.Errorf("%+v", res)
	}
	// What the person saw is what runs: not what the file says meanwhile.
	w.answer = func(caller.Question) (caller.Answer, error) {
		w.write(filepath.Join(w.home, "aliases"), []byte("alias hello='echo other'\n"))
		w.aliases = alias.NewStore(alias.Options{})
		return caller.Answer{Accepted: true, Content: json.RawMessage(`{"run": true}`)}, nil
	}
	if res := w.call("alias_exec", call); res.Code != fault.ConfirmationRequired {
		t.Errorf("%s", res.Body)
	}
}

func TestAnAliasGetsAMinimalEnvironmentAndNoProfile(t *testing.T) {
	w := newWorld(t)
	w.start("--root")
	t.Setenv("GITHUB_TOKEN", "s3cret")
	w.write(filepath.Join(w.home, "evil"), []byte("echo from BASH_ENV\n"))
	t.Setenv("BASH_ENV", filepath.Join(w.home, "evil"))
	for _, name := range []string{".bashrc", ".bash_profile", ".profile"} {
		w.write(filepath.Join(w.home, name), []byte("echo from "+name+"\n"))
	}
	for args, want := range map[string]string{"GITHUB_TOKEN": "", "BASH_ENV": "", "HOME": w.home + "\n"} {
		out := w.aliasCall("alias_exec", `{"name": "show", "args": "`+args+`", "dryRun": false, "confirm": true}`)
		if out["stdout"] != want || out["stderr"] != "" {
			t.Errorf("%s: it printed %q", args, out["stdout"])
		}
	}
}

func TestAliasesAreReadByTheirAddress(t *testing.T) {
	s := newShelf(t, "--root")
	contents, err := s.read("alias://catalog")
	if err != nil {
		t.Fatal(err)
	}
	var items []map[string]any
	if err := json.Unmarshal([]byte(contents[0].Text), &items); err != nil || len(items) != 10 {
		t.Fatalf("%v, %v", items, err)
	}
	for _, key := range []string{"name", "expansion", "safe", "sourceFile"} {
		if _, ok := items[0][key]; !ok {
			t.Errorf("an alias lacks %s: %v", key, items[0])
		}
	}
	contents, err = s.read("alias://ll")
	if err != nil {
		t.Fatal(err)
	}
	want := "alias: ll\nexpansion: ls -lhF\nsafe: true\nsource: " + filepath.Join(s.home, "aliases") + ":3\nexample: alias_exec { \"name\": \"ll\", \"dryRun\": true }\n"
	if contents[0].Text != want {
		t.Errorf("got %q\nwant %q", contents[0].Text, want)
	}
	if contents, err = s.read("alias://nuke"); err != nil || !strings.Contains(contents[0].Text, "safe: false\nreason: the pattern ^rm\\b") {
		t.Errorf("%v, %v", contents, err)
	}
	r, _ := s.lib.At("alias://ll")
	listed, err := r.List(s.ctx)
	if err != nil || len(listed) != 10 || !slices.ContainsFunc(listed, func(l tool.Listed) bool { return l.URI == "alias://ll" && l.Doc == "safe" }) {
		t.Errorf("listed %v, %v", listed, err)
	}
	// The alias that is named as the catalogue has an address of its own.
	if contents, err = s.read("alias://%63atalog"); err != nil || !strings.HasPrefix(contents[0].Text, "alias: catalog\n") {
		t.Errorf("%v, %v", contents, err)
	}
	if got, err := r.Complete(s.ctx, tool.Completion{Name: "name", Value: "s"}); err != nil || !slices.Equal(got, []string{"show", "slow"}) {
		t.Errorf("completed to %v, %v", got, err)
	}
	for uri, want := range map[string]bool{"alias://catalog": true, "alias://ll": true, "alias://gs": false} {
		r, ref := s.lib.At(uri)
		watch, err := r.Watch(s.ctx, ref)
		if err != nil || !watch.MayRead(s.ctx) {
			t.Fatal(err)
		}
		if got := watch.Touched(event.Event{Kind: event.AliasesChanged, Data: event.Aliases{Names: []string{"ll"}}}); got != want {
			t.Errorf("%s is touched: %t", uri, got)
		}
		if watch.Touched(event.Event{Kind: event.FileChanged, Data: event.File{}}) {
			t.Errorf("%s is touched by a file", uri)
		}
	}
}

func TestAliasPromptsAnswerToEverySpelling(t *testing.T) {
	s := newShelf(t, "--root")
	for _, name := range []string{"alias_suggest", "prompt.alias.suggest", "alias_confirm", "prompt.alias.confirm"} {
		if s.lib.Prompt(name) == nil {
			t.Errorf("no prompt answers to %s", name)
		}
	}
	messages, err := s.lib.Render(s.ctx, s.lib.Prompt("alias_confirm"), map[string]string{"name": "gs", "args": "--short", "cwd": s.root})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"git status --short", "directory: " + s.root, "PATH", `{"args":"--short","confirm":true,"cwd":"` + s.root, "wait for my answer"} {
		if !strings.Contains(messages[0].Text, want) {
			t.Errorf("alias_confirm lacks %q: %s", want, messages[0].Text)
		}
	}
	if messages, err = s.lib.Render(s.ctx, s.lib.Prompt("alias_confirm"), map[string]string{"name": "nuke"}); err != nil || !strings.Contains(messages[0].Text, "cannot run") {
		t.Errorf("%v, %v", messages, err)
	}
	messages, err = s.lib.Render(s.ctx, s.lib.Prompt("alias_suggest"), nil)
	if err != nil || !strings.Contains(messages[0].Text, "alias://catalog") || !strings.Contains(messages[0].Text, "dryRun: true") {
		t.Errorf("%v, %v", messages, err)
	}
}

func TestEachSafeAliasMayBeATool(t *testing.T) {
	w := newWorld(t)
	w.start("--root")
	book, err := w.commands.Book(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	tools, notes := catalog.AliasTools(w.commands, book)
	if w.set, err = tool.NewSet(append(w.set.Tools(), tools...), tool.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, one := range tools {
		names = append(names, one.Name)
	}
	// By name, capitals first; nuke is not safe.
	want := []string{"alias_run_gs", "alias_run_both", "alias_run_catalog", "alias_run_gs_2", "alias_run_hello", "alias_run_ll", "alias_run_many", "alias_run_show", "alias_run_slow"}
	if !slices.Equal(names, want) || len(notes) != 1 || !strings.Contains(notes[0], "the alias gs is the tool alias_run_gs_2") {
		t.Errorf("tools %v, notes %v", names, notes)
	}
	if out := w.aliasCall("alias_run_hello", `{"args": "you"}`); out["dryRun"] != true || out["command"] != "echo hello you" {
		t.Errorf("%v", out)
	}
	if out := w.aliasCall("alias.hello", `{"args": "you", "dryRun": false, "confirm": true}`); out["stdout"] != "hello you\n" {
		t.Errorf("%v", out)
	}
	record := w.recorded()
	if out := w.aliasCall("alias_run_hello", `{"args": "; ls", "dryRun": false, "confirm": true}`); out["error_code"] != "ALIAS_UNSAFE" {
		t.Errorf("%v", out)
	}
	if got := record(); !strings.Contains(got, `"alias":"hello"`) {
		t.Errorf("the record does not name the alias: %s", got)
	}
	if w.set.Lookup("alias.gs") == w.set.Lookup("alias.GS") || w.set.Lookup("alias.catalog").Name != "alias_catalog" || w.set.Lookup("alias.exec").Name != "alias_exec" {
		t.Error("another spelling leads elsewhere")
	}
	if out := w.aliasCall("alias_run_hello", `{"name": "x"}`); out["error_code"] != "VALIDATION_ERROR" {
		t.Errorf("%v", out)
	}
}

func TestALongCatalogueIsCutAndSaysSo(t *testing.T) {
	w := newWorld(t)
	w.start("--root")
	w.aliases = alias.NewStore(alias.Options{})
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "alias a%d='echo %s'\n", i, strings.Repeat("x", 100))
	}
	w.write(filepath.Join(w.home, "aliases"), []byte(b.String()))
	res := w.call("alias_catalog", `{}`)
	var out struct {
		Aliases   []any
		Total     int
		Truncated bool
	}
	if err := json.Unmarshal(res.Body, &out); err != nil || out.Total != 1000 || !out.Truncated || len(out.Aliases) == 1000 || len(out.Aliases) < 50 || len(res.Body) > 60<<10 {
		t.Errorf("%d of %d, truncated %t, %d bytes, %v", len(out.Aliases), out.Total, out.Truncated, len(res.Body), err)
	}
}
