package project_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/caller"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/project"
)

// bench is a set of directories and a registry over them.
type bench struct {
	t        *testing.T
	base     string
	opts     project.Options
	settings *config.Store
	*project.Registry
}

// newBench makes the directories a, b, c and a registry; change may alter its
// options before.
func newBench(t *testing.T, change func(*bench, *config.Options)) *bench {
	t.Helper()
	base, err := fsys.ResolveDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, base: base}
	b.write("user.json", "{}")
	for _, d := range []string{"a", "b", "c"} {
		b.write(d+"/file.txt", "x")
	}
	b.opts.Trust = project.NewTrust(b.path("trust.json"))
	o := config.Options{Env: []string{}, UserFile: b.path("user.json")}
	if change != nil {
		change(b, &o)
	}
	o.Trusted, o.Vouched = b.opts.Trusts, b.opts.Vouched
	b.settings = config.New(o)
	if err := b.settings.Load(); err != nil {
		t.Fatal(err)
	}
	b.opts.Settings = b.settings
	b.Registry = project.New(b.opts)
	return b
}

// trust vouches for the project at root as it is now.
func (b *bench) trust(root string) {
	b.t.Helper()
	_, raw, err := config.ReadProjectFile(root)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.opts.Trust.Add(root, raw); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) path(rel string) string { return filepath.Join(b.base, filepath.FromSlash(rel)) }

func (b *bench) write(rel, text string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(rel)), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.path(rel), []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func session(t *testing.T, id string) context.Context {
	return caller.With(t.Context(), &caller.Caller{Client: "t", Session: id})
}

func (b *bench) wantRoot(ctx context.Context, rel string, via project.Via) {
	b.t.Helper()
	a, err := b.Current(ctx)
	if err != nil {
		b.t.Errorf("Current = %v, want %s", err, rel)
	} else if a.Root != b.path(rel) || a.Via != via {
		b.t.Errorf("Current = %s via %s, want %s via %s", a.Root, a.Via, b.path(rel), via)
	}
}

func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Errorf("error = %v, want %s", err, code)
	}
}

func TestProjectIsFoundInOrder(t *testing.T) {
	b := newBench(t, func(b *bench, o *config.Options) {
		o.Set = []string{fmt.Sprintf(`crud.base_directories=[%q]`, b.path("b"))}
		b.opts.Cwd = b.path("c")
	})
	b.wantRoot(session(t, "s"), "c", project.ViaCwd)

	roots := caller.With(t.Context(), &caller.Caller{Session: "r", Ask: caller.Ask{
		Roots: func(context.Context) ([]string, error) {
			return []string{b.path("missing"), b.path("a"), b.path("c")}, nil
		},
	}})
	b.wantRoot(roots, "a", project.ViaRoots)
	if a, _ := b.Current(roots); !slices.Equal(a.Bases, []string{b.path("a"), b.path("b"), b.path("c")}) {
		t.Errorf("Bases = %v", a.Bases)
	}

	b.opts.Root = b.path("a")
	b.Registry = project.New(b.opts)
	b.wantRoot(roots, "a", project.ViaRoot)
	if _, err := b.Activate(session(t, "s"), b.path("b")); err != nil {
		t.Fatal(err)
	}
	b.wantRoot(session(t, "s"), "b", project.ViaActivation)
	b.wantRoot(session(t, "other"), "a", project.ViaRoot) // activation belongs to the session

	named := caller.With(t.Context(), &caller.Caller{Session: "s", Project: project.ID(b.path("a"))})
	b.wantRoot(named, "a", project.ViaRequest)

	b.SessionEnded("s")
	b.wantRoot(session(t, "s"), "a", project.ViaRoot)
}

func TestNothingIsReachableWithoutAProject(t *testing.T) {
	b := newBench(t, nil)
	_, err := b.Current(session(t, "s"))
	wantCode(t, err, fault.NoProjectActivated)
	if !strings.Contains(err.Error(), "crud_activate_project") {
		t.Errorf("the error does not name the call that mends it: %v", err)
	}
	_, err = b.Activate(session(t, "s"), b.path("a"))
	wantCode(t, err, fault.PathOutsideBase)
	_, err = b.Activate(session(t, "s"), "/no/such/place/anywhere")
	wantCode(t, err, fault.PathOutsideBase) // whether it exists is not told
}

func TestOnlyAllowedDirectoriesAreActivated(t *testing.T) {
	b := newBench(t, func(b *bench, _ *config.Options) { b.opts.Root = b.path("a") })
	b.write("a/sub/x", "")
	b.write("a-evil/x", "")
	for _, link := range [][2]string{{"../b", "a/out"}, {b.path("b"), "a/abs"}, {"sub", "a/in"}, {"nowhere", "a/dangling"}} {
		if err := os.Symlink(link[0], b.path(link[1])); err != nil {
			t.Skipf("links cannot be made here: %v", err)
		}
	}
	for path, want := range map[string]fault.Code{
		b.path("a"):                    "",
		b.path("a/sub"):                "",
		b.path("a/in"):                 "",
		b.path("a") + "/":              "",
		b.path("a") + "/../a/sub/.":    "",
		"sub":                          "",
		"../a":                         "",
		"..":                           fault.PathOutsideBase,
		"../b":                         fault.PathOutsideBase,
		b.path("a-evil"):               fault.PathOutsideBase,
		b.path("a") + "/../b":          fault.PathOutsideBase,
		b.path("a/out"):                fault.PathOutsideBase,
		b.path("a/abs"):                fault.PathOutsideBase,
		b.path("a/dangling"):           fault.PathOutsideBase,
		b.path("a/out/file.txt"):       fault.PathOutsideBase,
		b.path("a/nope"):               fault.DirNotFound,
		b.path("a/file.txt"):           fault.DirNotFound,
		b.path("a/file.txt/x"):         fault.PathOutsideBase,
		"/":                            fault.PathOutsideBase,
		b.path("a\x00b"):               fault.PathOutsideBase,
		strings.Repeat("x/", 5000):     fault.PathOutsideBase,
		"/" + strings.Repeat("x", 300): fault.PathOutsideBase,
	} {
		_, err := b.Activate(session(t, "s-"+path), path)
		if fault.CodeOf(err) != want {
			t.Errorf("Activate(%.60q) = %v, want %q", path, err, want)
		}
	}
}

func TestClientRootsMayBeActivated(t *testing.T) {
	b := newBench(t, func(b *bench, _ *config.Options) { b.opts.Root = b.path("a") })
	asked := 0
	ctx := caller.With(t.Context(), &caller.Caller{Session: "s", Ask: caller.Ask{
		Roots: func(context.Context) ([]string, error) { asked++; return []string{b.path("b")}, nil },
	}})
	if _, err := b.Activate(ctx, b.path("a")); err != nil || asked != 0 {
		t.Errorf("Activate(root) = %v after asking %d times, want no question", err, asked)
	}
	if a, err := b.Activate(ctx, b.path("b")); err != nil || a.Root != b.path("b") {
		t.Errorf("Activate(client root) = %v", err)
	}
	_, err := b.Activate(ctx, b.path("c"))
	wantCode(t, err, fault.PathOutsideBase)
}

func TestQuestionForRootsIsPassedOn(t *testing.T) {
	b := newBench(t, nil)
	ctx := caller.With(t.Context(), &caller.Caller{Session: "s", Ask: caller.Ask{
		Roots: func(context.Context) ([]string, error) { return nil, &caller.NeedInput{} },
	}})
	for name, call := range map[string]func() error{
		"Current":           func() error { _, err := b.Current(ctx); return err },
		"Activate":          func() error { _, err := b.Activate(ctx, b.path("a")); return err },
		"Activate relative": func() error { _, err := b.Activate(ctx, "a"); return err },
		"Settings":          func() error { _, _, err := b.Settings(ctx); return err },
		"Update":            func() error { _, _, err := b.Update(ctx, nil); return err },
	} {
		if _, ok := errors.AsType[*caller.NeedInput](call()); !ok {
			t.Errorf("%s = %v, want *caller.NeedInput", name, call())
		}
	}
}

func TestWithoutSessionsTheRequestNamesItsProject(t *testing.T) {
	b := newBench(t, func(b *bench, o *config.Options) {
		o.Set = []string{fmt.Sprintf(`crud.base_directories=[%q]`, b.base)}
	})
	none := caller.With(t.Context(), &caller.Caller{})
	a, err := b.Activate(none, b.path("a"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Current(none)
	wantCode(t, err, fault.NoProjectActivated) // nothing is remembered for nobody
	for _, name := range []string{a.ID, b.path("a")} {
		b.wantRoot(caller.With(t.Context(), &caller.Caller{Project: name}), "a", project.ViaRequest)
	}
	for name, code := range map[string]fault.Code{"p000000000000": fault.NoProjectActivated, "/etc": fault.PathOutsideBase, "a": fault.NoProjectActivated} {
		_, err := b.Current(caller.With(t.Context(), &caller.Caller{Project: name}))
		wantCode(t, err, code)
		_, _, err = b.Settings(caller.With(t.Context(), &caller.Caller{Project: name}))
		wantCode(t, err, code)
	}

	// After a restart the id of a base directory is known again.
	again := project.New(b.opts)
	if a, err := again.Current(caller.With(t.Context(), &caller.Caller{Project: project.ID(b.base)})); err != nil || a.Root != b.base {
		t.Errorf("after a restart: %v", err)
	}
}

func TestManyProjectsDoNotStayOpen(t *testing.T) {
	b := newBench(t, func(b *bench, _ *config.Options) { b.opts.Root = b.path("a") })
	if _, err := b.Activate(session(t, "keeps"), b.path("a")); err != nil {
		t.Fatal(err)
	}
	first := ""
	for i := range 200 {
		dir := fmt.Sprintf("a/d%d", i)
		b.write(dir+"/x", "")
		a, err := b.Activate(caller.With(t.Context(), &caller.Caller{}), b.path(dir))
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = a.ID
		}
	}
	_, err := b.Current(caller.With(t.Context(), &caller.Caller{Project: first}))
	wantCode(t, err, fault.NoProjectActivated)
	b.wantRoot(session(t, "keeps"), "a", project.ViaActivation)
}

func TestActivationIsAnnounced(t *testing.T) {
	var bus event.Bus
	sub := bus.Subscribe(1)
	b := newBench(t, func(b *bench, _ *config.Options) { b.opts.Root, b.opts.Bus = b.path("a"), &bus })
	a, err := b.Activate(session(t, "s"), b.path("a"))
	if err != nil {
		t.Fatal(err)
	}
	if e := <-sub.C; e.Kind != event.ProjectActivated || e.Session != "s" || e.Project != a.ID {
		t.Errorf("event = %+v", e)
	}
}

const loose = `{"shell": {"enabled": true}}`

func TestTrustLetsAProjectLoosenUntilItsBytesChange(t *testing.T) {
	b := newBench(t, nil)
	b.write("a/.async-crud-mcp/config.json", loose)
	b.trust(b.path("a"))
	ctx := session(t, "s")
	a, err := b.Activate(ctx, b.path("a")) // a trusted project may be activated
	if err != nil {
		t.Fatal(err)
	}
	if !a.Trusted() || !a.Settings().Config.Shell.Enabled {
		t.Error("the trusted file does not hold")
	}
	b.write("a/.async-crud-mcp/config.json", loose+" ")
	b.settings.Reload()
	if a.Trusted() || a.Settings().Config.Shell.Enabled {
		t.Error("changed bytes are still trusted")
	}
	if texts := fmt.Sprint(a.Settings().Warnings()); !strings.Contains(texts, "has changed since a person vouched for it") {
		t.Errorf("nobody is told that trust is lost: %s", texts)
	}
	if found, err := b.opts.Trust.Remove(b.path("a")); !found || err != nil {
		t.Errorf("Remove = %v, %v", found, err)
	}
	_, err = b.Activate(ctx, b.path("a"))
	wantCode(t, err, fault.PathOutsideBase)
}

func TestStartedWithTrustMeansTheLaunchedProjectAlone(t *testing.T) {
	b := newBench(t, func(b *bench, o *config.Options) {
		b.opts.Root, b.opts.TrustLaunched = b.path("a"), true
		o.Set = []string{fmt.Sprintf(`crud.base_directories=[%q]`, b.base)}
	})
	for _, d := range []string{"a", "b"} {
		b.write(d+"/.async-crud-mcp/config.json", loose)
		a, err := b.Activate(session(t, "s"), b.path(d))
		if err != nil {
			t.Fatal(err)
		}
		if a.Trusted() != (d == "a") {
			t.Errorf("project %s: trusted = %v", d, a.Trusted())
		}
	}
}

func TestUnreadableTrustListVouchesForNothing(t *testing.T) {
	b := newBench(t, nil)
	b.write("trust.json", "{broken")
	_, err := b.Activate(session(t, "s"), b.path("a"))
	wantCode(t, err, fault.PathOutsideBase)
	if _, err := b.opts.Trust.Add(b.path("a"), nil); err == nil || !strings.Contains(err.Error(), "trust.json") {
		t.Errorf("Add = %v, want an error that names the file", err)
	}
	if raw, _ := os.ReadFile(b.path("trust.json")); string(raw) != "{broken" {
		t.Errorf("the broken list was overwritten: %s", raw)
	}
}

func TestTrustListIsPrivateAndSorted(t *testing.T) {
	b := newBench(t, nil)
	for _, d := range []string{"b", "a", "b"} {
		b.trust(b.path(d))
	}
	entries, err := b.opts.Trust.List()
	if err != nil || len(entries) != 2 || entries[0].Root != b.path("a") || entries[0].SHA256 != "" {
		t.Errorf("List = %+v, %v", entries, err)
	}
	info, err := os.Stat(b.path("trust.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v; want 0600", info.Mode(), err)
	}
	if _, err := b.opts.Trust.Add(b.path("nope"), nil); err == nil {
		t.Error("a directory that does not exist was trusted")
	}
	if found, err := b.opts.Trust.Remove(b.path("c")); found || err != nil {
		t.Errorf("Remove of an untrusted one = %v, %v", found, err)
	}
	// A project that is gone can still be taken off the list.
	if err := os.RemoveAll(b.path("b")); err != nil {
		t.Fatal(err)
	}
	if found, err := b.opts.Trust.Remove(b.path("b")); !found || err != nil {
		t.Errorf("Remove of a vanished one = %v, %v", found, err)
	}
}

const trustEnv = "PROJECT_TEST_TRUST"

// TestTrustOfManyProcessesIsKept vouches for other projects from several
// processes at once.
func TestTrustOfManyProcessesIsKept(t *testing.T) {
	if list := os.Getenv(trustEnv); list != "" { // a child: vouch for some
		for d := range strings.SplitSeq(os.Getenv(trustEnv+"_DIRS"), ",") {
			if _, err := project.NewTrust(list).Add(d, nil); err != nil {
				t.Error(err)
			}
		}
		return
	}
	b := newBench(t, nil)
	var all sync.WaitGroup
	for i := range 4 {
		var dirs []string
		for j := range 5 {
			b.write(fmt.Sprintf("p%d%d/x", i, j), "")
			dirs = append(dirs, b.path(fmt.Sprintf("p%d%d", i, j)))
		}
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTrustOfManyProcessesIsKept$")
			cmd.Env = append(os.Environ(), trustEnv+"="+b.path("trust.json"), trustEnv+"_DIRS="+strings.Join(dirs, ","))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	all.Wait()
	if entries, err := b.opts.Trust.List(); len(entries) != 20 || err != nil {
		t.Errorf("%d entries are left of 20: %v", len(entries), err)
	}
}

func set(pairs ...string) map[string]json.RawMessage {
	m := make(map[string]json.RawMessage)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = json.RawMessage(pairs[i+1])
	}
	return m
}

func asking(t *testing.T, answer func(caller.Question) (caller.Answer, error)) context.Context {
	return caller.With(t.Context(), &caller.Caller{Client: "claude", Session: "s", Ask: caller.Ask{
		Elicit: func(_ context.Context, q caller.Question) (caller.Answer, error) { return answer(q) },
	}})
}

func TestLooseningATrustedProjectAsksThePerson(t *testing.T) {
	b := newBench(t, func(b *bench, _ *config.Options) { b.opts.Root = b.path("a") })
	b.write("a/.async-crud-mcp/config.json", `{"crud": {"max_timeout": 10}}`)
	b.trust(b.path("a"))
	before, _ := os.ReadFile(b.path("a/.async-crud-mcp/config.json"))
	change := set("shell.enabled", "true")

	for name, answer := range map[string]func(caller.Question) (caller.Answer, error){
		"declined": func(caller.Question) (caller.Answer, error) { return caller.Answer{}, nil },
		"said no": func(caller.Question) (caller.Answer, error) {
			return caller.Answer{Accepted: true, Content: json.RawMessage(`{"allow":false}`)}, nil
		},
		"said nothing": func(caller.Question) (caller.Answer, error) {
			return caller.Answer{Accepted: true, Content: json.RawMessage(`{}`)}, nil
		},
		"said nonsense": func(caller.Question) (caller.Answer, error) {
			return caller.Answer{Accepted: true, Content: json.RawMessage(`[]`)}, nil
		},
		"cannot ask":      func(caller.Question) (caller.Answer, error) { return caller.Answer{}, caller.ErrCannotAsk },
		"asking went bad": func(caller.Question) (caller.Answer, error) { return caller.Answer{}, errors.New("lost") },
	} {
		_, _, err := b.Update(asking(t, answer), change)
		if fault.CodeOf(err) != fault.ConfirmationRequired {
			t.Errorf("%s: %v, want CONFIRMATION_REQUIRED", name, err)
		}
	}
	if after, _ := os.ReadFile(b.path("a/.async-crud-mcp/config.json")); string(after) != string(before) {
		t.Errorf("an unconfirmed update changed the file: %s", after)
	}

	var question string
	ctx := asking(t, func(q caller.Question) (caller.Answer, error) {
		question = q.Message
		return caller.Answer{Accepted: true, Content: json.RawMessage(`{"allow":true}`)}, nil
	})
	a, done, err := b.Update(ctx, change)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(question, "claude") || !strings.Contains(question, "shell.enabled = true") || !strings.Contains(question, b.path("a")) {
		t.Errorf("the person is not told who wants what where: %s", question)
	}
	if !a.Settings().Config.Shell.Enabled || !a.Trusted() || !slices.Equal(done.Keys, []string{"shell.enabled"}) {
		t.Errorf("after the update: enabled %v, trusted %v, keys %v", a.Settings().Config.Shell.Enabled, a.Trusted(), done.Keys)
	}
}

func TestTighteningKeepsTrustAndAsksNobody(t *testing.T) {
	b := newBench(t, func(b *bench, _ *config.Options) { b.opts.Root = b.path("a") })
	b.write("a/.async-crud-mcp/config.json", `{"shell": {"enabled": true}, "crud": {"max_timeout": 10}}`)
	b.trust(b.path("a"))
	a, _, err := b.Update(session(t, "s"), set("crud.max_timeout", "5"))
	if err != nil {
		t.Fatal(err)
	}
	if !a.Trusted() || !a.Settings().Config.Shell.Enabled || a.Settings().Config.Crud.MaxTimeout != 5 {
		t.Errorf("trusted %v, shell %v, max_timeout %v", a.Trusted(), a.Settings().Config.Shell.Enabled, a.Settings().Config.Crud.MaxTimeout)
	}
}

// The user allows commands today, so that the project's file seems to change
// nothing; tomorrow they do not.
func TestAnUnaskedUpdateHidesNothingForLater(t *testing.T) {
	b := newBench(t, func(b *bench, _ *config.Options) { b.opts.Root = b.path("a") })
	b.write("user.json", loose)
	b.settings.Reload()
	b.trust(b.path("a"))
	_, _, err := b.Update(session(t, "s"), set("shell.enabled", "true"))
	wantCode(t, err, fault.ConfirmationRequired)
	b.write("user.json", "{}")
	b.settings.Reload()
	a, err := b.Current(session(t, "s"))
	if err != nil || a.Settings().Config.Shell.Enabled {
		t.Errorf("commands are on again: %v", err)
	}
}

func TestAProjectTrustedWithoutAFileStaysTrusted(t *testing.T) {
	b := newBench(t, func(b *bench, _ *config.Options) { b.opts.Root = b.path("a") })
	b.trust(b.path("a"))
	for _, change := range []map[string]json.RawMessage{set("shell.enabled", "null"), set("sandbox.network", `"off"`)} {
		a, _, err := b.Update(session(t, "s"), change)
		if err != nil || !a.Trusted() {
			t.Errorf("%s: trusted %v, %v", change, err == nil && a.Trusted(), err)
		}
	}
}

func TestUpdateThatCannotBeWrittenSaysSo(t *testing.T) {
	b := newBench(t, func(b *bench, _ *config.Options) { b.opts.Root = b.path("a") })
	b.write("a/.async-crud-mcp", "a file where the folder should be")
	_, _, err := b.Update(session(t, "s"), set("crud.max_timeout", "5"))
	if c := fault.CodeOf(err); c != fault.WriteError && c != fault.ValidationError {
		t.Errorf("Update = %v, want a coded refusal", err)
	}
	if raw, _ := os.ReadFile(b.path("a/.async-crud-mcp")); !strings.HasPrefix(string(raw), "a file") {
		t.Error("the file in the way was lost")
	}
}

func TestIDOpensOnlyWhatItsPathWould(t *testing.T) {
	b := newBench(t, func(b *bench, _ *config.Options) { b.opts.Root = b.path("a") })
	owner := caller.With(t.Context(), &caller.Caller{Session: "owner", Ask: caller.Ask{
		Roots: func(context.Context) ([]string, error) { return []string{b.path("b")}, nil },
	}})
	if _, err := b.Activate(owner, b.path("b")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*caller.Caller{
		"without a session": {Project: project.ID(b.path("b"))},
		"another session":   {Session: "other", Project: project.ID(b.path("b"))},
	} {
		_, err := b.Current(caller.With(t.Context(), c))
		if fault.CodeOf(err) != fault.PathOutsideBase {
			t.Errorf("%s: %v, want PATH_OUTSIDE_BASE", name, err)
		}
	}
	b.wantRoot(owner, "b", project.ViaActivation)
}

func TestWithdrawnTrustHoldsAtOnce(t *testing.T) {
	b := newBench(t, nil)
	b.trust(b.path("a"))
	ctx := session(t, "s")
	if _, err := b.Activate(ctx, b.path("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.opts.Trust.Remove(b.path("a")); err != nil {
		t.Fatal(err)
	}
	_, err := b.Current(ctx)
	wantCode(t, err, fault.PathOutsideBase)
	_, err = b.Current(caller.With(t.Context(), &caller.Caller{Project: project.ID(b.path("a"))}))
	wantCode(t, err, fault.PathOutsideBase)
}

// Sessions that were started with different directories and settings stay apart.
func TestEverySessionHasItsOwnLaunch(t *testing.T) {
	b := newBench(t, func(b *bench, _ *config.Options) { b.opts.Root = b.path("a") })
	other := config.New(config.Options{Env: []string{}, UserFile: b.path("user.json"), Set: []string{"crud.max_timeout=5"}})
	if err := other.Load(); err != nil {
		t.Fatal(err)
	}
	launched := func(id string, l *project.Launch) context.Context {
		return caller.With(t.Context(), &caller.Caller{Client: "t", Session: id, Launch: l})
	}
	plain := session(t, "1")
	inB := launched("2", &project.Launch{Root: b.path("b"), Settings: b.settings})
	inA := launched("3", &project.Launch{Cwd: b.path("a"), Settings: other})
	b.wantRoot(plain, "a", project.ViaRoot)
	b.wantRoot(inB, "b", project.ViaRoot)
	b.wantRoot(inA, "a", project.ViaCwd)
	for ctx, want := range map[context.Context]float64{plain: 300, inA: 5} {
		active, err := b.Current(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got := active.Settings().Config.Crud.MaxTimeout; got != want {
			t.Errorf("max_timeout = %v, want %v", got, want)
		}
	}
	if _, err := b.Activate(inB, b.path("a")); fault.CodeOf(err) != fault.PathOutsideBase {
		t.Errorf("a session activated the root of another: %v", err)
	}
	b.Forget(other)
	b.wantRoot(inA, "a", project.ViaCwd) // it is opened again
}
