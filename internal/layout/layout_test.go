package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The tree as the compiler sees it on each kind of system, with and without the
// build tags of the conformance fixtures and of measurements.
var views = []struct{ goos, tags string }{
	{"linux", ""}, {"linux", "conformance,bench"}, {"darwin", ""}, {"windows", ""},
}

func TestTreeFollowsTheMap(t *testing.T) {
	for _, v := range views {
		t.Run(strings.TrimSuffix(v.goos+"-"+v.tags, "-"), func(t *testing.T) {
			for _, p := range here.Check(list(t, v.goos, v.tags)) {
				t.Error(p)
			}
		})
	}
}

// A package past its budget is reported, not refused: it wants a look before it
// grows further.
func TestPackageSizes(t *testing.T) {
	for _, p := range list(t, "linux", "") {
		name, ok := strings.CutPrefix(p.ImportPath, Module+"/internal/")
		if !ok {
			continue
		}
		budget := 1500
		if name == "catalog" {
			budget = 3000
		}
		n := p.lines(t)
		t.Logf("%6d lines  %s", n, name)
		if n > budget {
			t.Logf("note: internal/%s has %d lines, past its budget of %d", name, n, budget)
		}
	}
}

func TestCheckCatches(t *testing.T) {
	m := Map{
		Rows: []Row{
			{Name: "pure", Pure: true, Packages: []string{"a", "b", "eng/leaf"}},
			{Name: "engines", Packages: []string{"eng/state", "eng", "other"}},
			{Name: "assembly", Packages: []string{"app", "cli"}},
		},
		Doors:    []Door{{"example.com/sdk", []string{"eng"}}},
		TestOnly: []string{"example.com/check"},
	}
	ours := func(p string) string { return Module + "/internal/" + p }
	pkg := func(p string, imports ...string) Package {
		return Package{ImportPath: ours(p), Imports: imports}
	}
	tests := []struct {
		name string
		pkg  Package
		want string // "" for none
	}{
		{"earlier package", pkg("b", ours("a"), "strings"), ""},
		{"later package", pkg("a", ours("b")), "a imports b: it stands after it in the import table"},
		{"later row", pkg("b", ours("other")), "b imports other: it stands after it in the import table"},
		{"later package in a test", Package{ImportPath: ours("a"), XTestImports: []string{ours("b")}}, "a imports b: it stands after it in the import table"},
		{"missing row", pkg("c"), "c has no row in the import table"},
		{"import of a missing row", pkg("b", ours("c")), "b imports c: it has no row in the import table"},
		{"own folder", pkg("eng", ours("eng/state"), ours("eng/leaf")), ""},
		{"sibling", pkg("eng/state", ours("eng/leaf")), ""},
		{"own folder, later in the table", pkg("a", ours("a/deep")), ""},
		{"another folder's package", pkg("other", ours("eng/leaf")), "other imports eng/leaf: it belongs to eng"},
		{"assembly may look into folders", pkg("app", ours("eng/leaf"), ours("eng/state")), ""},
		{"door", pkg("eng", "example.com/sdk/mcp"), ""},
		{"second door", pkg("other", "example.com/sdk/mcp"), "other imports example.com/sdk/mcp: its door is eng"},
		{"second door in cmd", Package{ImportPath: Module + "/cmd/x", Imports: []string{"example.com/sdk"}}, "cmd/x imports example.com/sdk: its door is eng"},
		{"any door in a test", Package{ImportPath: ours("other"), TestImports: []string{"example.com/sdk"}}, ""},
		{"module whose name merely begins like a door", pkg("eng", "example.com/sdk2"), "eng imports example.com/sdk2: no door is named for it"},
		{"unknown module", pkg("b", "example.com/new"), "b imports example.com/new: no door is named for it"},
		{"unknown module in a test", Package{ImportPath: ours("b"), TestImports: []string{"example.com/new"}}, "b imports example.com/new: no door is named for it"},
		{"test module", Package{ImportPath: ours("b"), TestImports: []string{"example.com/check/sub"}}, ""},
		{"test module outside tests", pkg("b", "example.com/check"), "b imports example.com/check: it is for test files alone"},
		{"helper in a test", Package{ImportPath: ours("eng"), XTestImports: []string{ours("eng/state/statetest")}}, ""},
		{"helper outside tests", pkg("eng", ours("eng/state/statetest")), "eng imports eng/state/statetest: it is for test files alone"},
		{"helper's own imports", pkg("eng/state/statetest", ours("eng/state"), "example.com/check", "os"), ""},
		{"helper looking ahead", pkg("eng/state/statetest", ours("app")), "eng/state/statetest imports app: it stands after it in the import table"},
		{"impure", pkg("a", "os"), "a imports os: its row is pure and touches no file, process or network"},
		{"impure in a test", Package{ImportPath: ours("a"), TestImports: []string{"os"}}, ""},
		{"bench and test code", Package{ImportPath: Module + "/test/hosts", XTestImports: []string{ours("eng/leaf"), "example.com/sdk", "example.com/check"}}, ""},
		{"unknown module in test code", Package{ImportPath: Module + "/bench", TestImports: []string{"example.com/new"}}, "bench imports example.com/new: no door is named for it"},
		{"script", Package{ImportPath: Module + "/scripts/x", Imports: []string{"os", "example.com/sdk"}}, "scripts/x imports example.com/sdk: scripts use the standard library alone"},
		{"script with our code", Package{ImportPath: Module + "/scripts/x", Imports: []string{ours("a")}}, "scripts/x imports " + ours("a") + ": scripts use the standard library alone"},
		{"import from outside internal", pkg("a", Module+"/cmd/x"), "a imports " + Module + "/cmd/x: only internal packages are imported"},
		{"unknown area", Package{ImportPath: Module + "/pkg/x"}, "pkg/x is in no known area: code lives in cmd, internal, scripts, test and bench"},
		{"package at the root", Package{ImportPath: Module}, "the root folder is in no known area: code lives in cmd, internal, scripts, test and bench"},
		{"layout", pkg("layout", ours("a")), "layout imports " + ours("a") + ": it uses the standard library alone"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(m.Check([]Package{tt.pkg}), "\n")
			if got != tt.want {
				t.Errorf("Check = %q, want %q", got, tt.want)
			}
		})
	}
}

// The table is only an order if every package and module stands in it once, and
// every door is a package of the table.
func TestMapIsConsistent(t *testing.T) {
	seen := make(map[string]bool)
	for _, r := range here.Rows {
		for _, p := range r.Packages {
			if seen[p] {
				t.Errorf("package %s stands twice in the table", p)
			}
			seen[p] = true
		}
	}
	modules := slices.Clone(here.TestOnly)
	for _, d := range here.Doors {
		modules = append(modules, d.Module)
		for _, via := range d.Via {
			if !seen[via] {
				t.Errorf("the door of %s, %s, has no row", d.Module, via)
			}
		}
	}
	slices.Sort(modules)
	if unique := slices.Compact(slices.Clone(modules)); len(unique) != len(modules) {
		t.Errorf("a module is named twice: %v", modules)
	}
}

// list returns the packages of the module as go list reports them.
func list(t *testing.T, goos, tags string) []Package {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-tags", tags,
		"-json=Dir,GoFiles,ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var pkgs []Package
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Package
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// lines counts the lines of the package's files that are not tests.
func (p Package) lines(t *testing.T) int {
	t.Helper()
	n := 0
	for _, f := range p.GoFiles {
		b, err := os.ReadFile(filepath.Join(p.Dir, f))
		if err != nil {
			t.Fatal(err)
		}
		n += bytes.Count(b, []byte("\n"))
	}
	return n
}
