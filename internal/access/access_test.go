package access_test

import (
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
)

func rules(t testing.TB, o access.Options) *access.Rules {
	t.Helper()
	r, err := access.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var ops = []access.Op{
	access.Read, access.Write, access.Update, access.Append, access.Delete, access.Rename, access.Copy, access.Mkdir,
	access.List, access.Status, access.Search,
}

var protected = []string{".async-crud-mcp/**", ".git/hooks/**", ".git/config", ".*.acm-tmp"}

func TestWithoutRulesEverythingIsAllowed(t *testing.T) {
	r := rules(t, access.Options{})
	for _, op := range ops {
		if d := r.Check(op, "a/b"); !d.Allowed {
			t.Errorf("Check(%s) = %+v", op, d)
		}
	}
	if r.Below(access.Delete, ".") || r.Secret("a") {
		t.Error("an empty set of rules is about something")
	}
}

func TestPriorityDecidesAndDenyWinsTies(t *testing.T) {
	r := rules(t, access.Options{Rules: []access.Rule{
		{Path: "**", Operations: []string{"write", "Update"}, Action: "deny"},
		{Path: "docs", Action: "allow", Priority: 10},
		{Path: "docs/frozen/**", Operations: []string{"*"}, Action: "deny", Priority: 10},
		{Path: "docs/frozen/but.md", Action: "allow", Priority: 11},
		{Path: "*.pem", Operations: []string{"read"}, Action: "deny", Priority: -5},
	}})
	tests := []struct {
		op   access.Op
		rel  string
		want string // the rule that denies, "" if allowed
	}{
		{access.Read, "src/a.go", ""},
		{access.Write, "src/a.go", "**"},
		{access.Update, "src/a.go", "**"},
		{access.Delete, "src/a.go", ""},
		{access.Write, "docs/a.md", ""},
		{access.Write, "docs/deep/a.md", ""},
		{access.Write, "docs/frozen/a.md", "docs/frozen/**"},
		{access.List, "docs/frozen", "docs/frozen/**"},
		{access.Write, "docs/frozen/but.md", ""},
		{access.Read, "x/key.pem", "*.pem"},
		{access.Search, "x/key.pem", "*.pem"},
		{access.Status, "x/key.pem", ""},
		{access.Read, "docs/key.pem", ""},
	}
	for _, tt := range tests {
		d := r.Check(tt.op, tt.rel)
		if d.Allowed != (tt.want == "") || d.Rule != tt.want {
			t.Errorf("Check(%s, %s) = %+v, want rule %q", tt.op, tt.rel, d, tt.want)
		}
		if !d.Allowed && !strings.Contains(d.Reason, tt.want) {
			t.Errorf("Check(%s, %s): reason %q", tt.op, tt.rel, d.Reason)
		}
	}
}

func TestNoRuleLiftsProtection(t *testing.T) {
	r := rules(t, access.Options{
		Rules:     []access.Rule{{Path: "**", Action: "allow", Priority: 1 << 30}},
		Protected: protected,
	})
	for _, rel := range []string{
		".git/hooks", ".git/hooks/pre-commit", ".git/hooks/a/b", ".git/config", ".async-crud-mcp", ".async-crud-mcp/config.json", "src/.main.go.x.acm-tmp",
	} {
		for _, op := range ops {
			if d := r.Check(op, rel); d.Allowed || d.Rule == "" {
				t.Errorf("Check(%s, %s) = %+v, want denied", op, rel, d)
			}
		}
	}
	for _, rel := range []string{".", ".git", ".git/HEAD", ".git/hooksy", ".git/configx"} {
		if d := r.Check(access.List, rel); !d.Allowed {
			t.Errorf("Check(list, %s) = %+v, want allowed", rel, d)
		}
	}
}

func TestProtectionIgnoresCaseWhereTheFileSystemDoes(t *testing.T) {
	r := rules(t, access.Options{Protected: protected, Fold: true})
	for _, rel := range []string{".GIT/Hooks/x", ".Git/CONFIG", ".git/config.", ".git/config::$DATA"} {
		if d := r.Check(access.Write, rel); d.Allowed {
			t.Errorf("Check(write, %s) is allowed", rel)
		}
	}
}

func TestOddPathsAreRefused(t *testing.T) {
	r := rules(t, access.Options{Rules: []access.Rule{{Path: "**", Action: "allow"}}})
	for _, rel := range []string{"", "..", "../x", "a/../../x", "/etc/passwd", "a\x00b", "a//b", "a/", "./a", "a/./b"} {
		if d := r.Check(access.Read, rel); d.Allowed {
			t.Errorf("Check(read, %q) is allowed", rel)
		}
		if !r.Secret(rel) || !r.Below(access.Read, rel) {
			t.Errorf("%q passes for harmless", rel)
		}
	}
	for _, rel := range []string{".", "..x", "a/..x", `a\b`, "a\xff"} {
		if d := r.Check(access.Read, rel); !d.Allowed {
			t.Errorf("Check(read, %q) = %+v, want allowed", rel, d)
		}
	}
}

func TestMoveAndCopyAreNoWayAroundRules(t *testing.T) {
	deny := func(glob string, ops ...string) access.Rule {
		return access.Rule{Path: glob, Operations: ops, Action: "deny"}
	}
	tests := []struct {
		name       string
		rule       access.Rule
		overwrite  bool
		move, copy bool
	}{
		{"nothing is said", deny("other"), true, true, true},
		{"source unreadable", deny("from", "read"), false, false, false},
		{"source must stay", deny("from", "delete"), false, false, true},
		{"source not to be renamed", deny("from", "rename"), false, false, true},
		{"source not to be copied", deny("from", "copy"), false, true, false},
		{"nothing new there", deny("to", "write"), false, false, false},
		{"no change there", deny("to", "update"), true, false, false},
		{"no change there, and nothing to change", deny("to", "update"), false, true, true},
		{"target unreadable", deny("to", "read"), true, true, true},
	}
	for _, tt := range tests {
		r := rules(t, access.Options{Rules: []access.Rule{tt.rule}})
		if d := r.Move("from", "to", tt.overwrite); d.Allowed != tt.move {
			t.Errorf("%s: Move = %+v, want %v", tt.name, d, tt.move)
		}
		if d := r.Copy("from", "to", tt.overwrite); d.Allowed != tt.copy {
			t.Errorf("%s: Copy = %+v, want %v", tt.name, d, tt.copy)
		}
	}
}

func TestBelowTellsWhenEntriesMustBeChecked(t *testing.T) {
	r := rules(t, access.Options{
		Rules: []access.Rule{
			{Path: "keep/**", Operations: []string{"delete"}, Action: "deny"},
			{Path: "private/**", Operations: []string{"read"}, Action: "deny"},
			{Path: "lib/**", Action: "allow"},
		},
		Protected: []string{".git/hooks/**"},
	})
	tests := []struct {
		op   access.Op
		dir  string
		want bool
	}{
		{access.Delete, ".", true},
		{access.Delete, ".git", true},
		{access.List, ".git/hooks", true},
		{access.Delete, ".git/objects", false},
		{access.Delete, "keep", true},
		{access.Read, "keep", false},
		{access.Search, "private/x", true},
		{access.List, "private", false},
		{access.Delete, "lib", false},
		{access.Delete, "src/deep", false},
	}
	for _, tt := range tests {
		if got := r.Below(tt.op, tt.dir); got != tt.want {
			t.Errorf("Below(%s, %s) = %v, want %v", tt.op, tt.dir, got, tt.want)
		}
	}
}

// If nothing below a directory can be denied, nothing is.
func TestBelowNeverMissesADenial(t *testing.T) {
	glob := rapid.SampledFrom([]string{"a", "/a", "a/**", "a/*", "**/b", "*.c", "a/b/c.c", "{a,b}/c*", "**", "[!a]/b", "a/**/c.c"})
	rule := rapid.Custom(func(t *rapid.T) access.Rule {
		return access.Rule{
			Path: glob.Draw(t, "glob"), Action: rapid.SampledFrom([]string{"allow", "deny"}).Draw(t, "action"),
			Operations: rapid.SampledFrom([][]string{nil, {"read"}, {"delete", "list"}}).Draw(t, "ops"),
			Priority:   rapid.IntRange(0, 2).Draw(t, "priority"),
		}
	})
	names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c.c", "C.C"}), 1, 4)
	rapid.Check(t, func(t *rapid.T) {
		r, err := access.New(access.Options{
			Rules:     rapid.SliceOfN(rule, 0, 4).Draw(t, "rules"),
			Protected: rapid.SliceOfN(glob, 0, 2).Draw(t, "protected"),
			Fold:      rapid.Bool().Draw(t, "fold"),
		})
		if err != nil {
			t.Fatal(err)
		}
		rel := strings.Join(names.Draw(t, "names"), "/")
		op := rapid.SampledFrom(ops).Draw(t, "op")
		d := r.Check(op, rel)
		for dir := path.Dir(rel); ; dir = path.Dir(dir) {
			if !d.Allowed && !r.Below(op, dir) {
				t.Fatalf("%s of %s is denied (%+v), and nothing below %s is", op, rel, d, dir)
			}
			if dir == "." {
				break
			}
		}
	})
}

func TestSecretFiles(t *testing.T) {
	r := rules(t, access.Options{Secret: []string{".env*", "*.pem", "id_rsa*", ".netrc", "vault/**"}})
	for rel, want := range map[string]bool{
		".env": true, "app/.env.local": true, "x/key.pem": true, "home/id_rsa.pub": true, "vault/a": true, ".env.d/x": true,
		"env": false, "pem": false, "src/main.go": false,
	} {
		if got := r.Secret(rel); got != want {
			t.Errorf("Secret(%s) = %v, want %v", rel, got, want)
		}
	}
}

func TestRulesThatDoNotHoldAreNamed(t *testing.T) {
	_, err := access.New(access.Options{
		Rules: []access.Rule{
			{Path: "ok", Action: "allow"},
			{Path: "a", Operations: []string{"reads"}, Action: "deny"},
			{Path: "a", Operations: []string{"async_update"}, Action: "deny"},
			{Path: "a", Operations: []string{"frobnicate"}, Action: "deny"},
			{Path: "a[", Action: "deny"},
			{Path: "a", Action: "forbid"},
		},
		Protected: []string{"../x"},
		Secret:    []string{`a\b`},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`access rule 2: "reads" is not an operation; did you mean read?`,
		`access rule 3: "async_update" is not an operation; did you mean update?`,
		`access rule 4: "frobnicate" is not an operation; they are read, write,`,
		`access rule 5: pattern "a[", at offset 1`,
		`access rule 6: "forbid" is not an action`,
		`protected path: pattern "../x"`,
		`secret file: pattern "a\\b", at offset 1`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "access rule 1") {
		t.Errorf("the error blames a good rule:\n%v", err)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("src/**", "write", "src/a", false)
	f.Add(".git/{hooks,config}", "*", ".GIT/hooks/x", true)
	f.Fuzz(func(t *testing.T, glob, op, rel string, fold bool) {
		if len(rel) > 200 {
			return
		}
		r, err := access.New(access.Options{
			Rules:     []access.Rule{{Path: glob, Operations: []string{op}, Action: "deny"}},
			Protected: []string{".git/hooks/**"},
			Fold:      fold,
		})
		if err != nil {
			return
		}
		for _, op := range ops {
			d := r.Check(op, rel)
			if d.Allowed == (d.Reason != "") || d.Allowed && strings.HasPrefix(rel+"/", ".git/hooks/") {
				t.Fatalf("Check(%s, %q) = %+v", op, rel, d)
			}
			if d.Rule != "" && !r.Below(op, path.Dir(rel)) {
				t.Fatalf("Check(%s, %q) = %+v, and nothing is denied below its directory", op, rel, d)
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	o := access.Options{Protected: protected}
	run := func(name string, o access.Options) {
		r := rules(b, o)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !r.Check(access.List, "internal/files/encoding/encoding.go").Allowed {
					b.Fatal("denied")
				}
			}
		})
	}
	run("rules=0", o)
	for range 10 {
		o.Rules = append(o.Rules, access.Rule{Path: "vendor/**/*.{pem,key}", Action: "deny"})
	}
	run("rules=10", o)
}
