// Package layout holds the map of this repository as data, who may import whom
// and which package is the one door to each third-party module, and checks a
// list of packages against it.
//
// The check is a pure function over what `go list` reports; the package's test
// runs it on the real tree. Nothing here is used at run time and nothing imports
// this package.
package layout

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Module is the path of this module.
const Module = "github.com/async-crud-mcp/async-crud-mcp"

// Map is who may import whom, and through which door the outside comes in.
type Map struct {
	Rows     []Row
	Doors    []Door
	TestOnly []string // modules that test code, and only test code, may import
}

// Row is one line of the import table. Its packages are in order: each may
// import those that stand before it, in this row and in the rows above.
type Row struct {
	Name     string
	Packages []string // paths below internal/
	Pure     bool     // values in, values out: none of the packages in impure
}

// Door names the packages that may import a third-party module.
type Door struct {
	Module string
	Via    []string // paths below internal/
}

// impure are the standard packages that a pure row stays away from: they reach
// files, processes or the network.
var impure = []string{"net", "net/http", "os", "os/exec", "os/signal", "os/user", "syscall"}

// The map of this repository.
var here = Map{
	Rows: []Row{
		{Name: "vocabulary", Pure: true, Packages: []string{"fault", "caller", "event", "health"}},
		{Name: "pure", Pure: true, Packages: []string{
			"schema", "tool", "pattern", "shellast", "access",
			"files/diff", "files/patch", "files/encoding", "search/ignore", "search/linematch", "policy/snippet", "policy", "config/document", "config/splice",
		}},
		{Name: "system", Packages: []string{"fsys/opendir", "fsys/commit", "fsys", "watch", "localsock", "shell/proc", "shell/sandbox/confine", "shell/sandbox", "daemon/osservice"}},
		{Name: "state", Packages: []string{
			"history/archive", "history", "config", "config/hosts", "alias", "files/lock", "files/lock/etcdlock",
			"search/trigram", "shell/job", "audit", "metrics",
		}},
		{Name: "engines", Packages: []string{"project", "files", "shell", "search"}},
		{Name: "conversion", Packages: []string{"catalog"}},
		{Name: "surfaces", Packages: []string{"mcpserver", "daemon/control", "daemon/bridge", "dashboard"}},
		{Name: "assembly", Packages: []string{"app", "daemon", "cli"}},
	},
	Doors: []Door{
		{"github.com/modelcontextprotocol/go-sdk", []string{"mcpserver"}},
		{"github.com/google/jsonschema-go", []string{"schema"}},
		{"github.com/yosida95/uritemplate/v3", []string{"tool"}},
		{"mvdan.cc/sh/v3", []string{"shellast"}},
		{"github.com/dlclark/regexp2", []string{"pattern"}},
		{"github.com/bmatcuk/doublestar/v4", []string{"pattern"}},
		{"github.com/fsnotify/fsnotify", []string{"watch"}},
		{"gopkg.in/natefinch/lumberjack.v2", []string{"fsys"}},
		{"golang.org/x/sys", []string{"fsys/opendir", "fsys", "watch", "localsock", "shell/proc", "shell/sandbox", "daemon/osservice"}},
		{"github.com/Microsoft/go-winio", []string{"localsock"}},
		{"github.com/kardianos/service", []string{"daemon/osservice"}},
		{"modernc.org/sqlite", []string{"history/archive"}},
		{"github.com/klauspost/compress", []string{"history/archive", "history"}},
		{"go.yaml.in/yaml/v3", []string{"config/document"}},
		{"github.com/pelletier/go-toml/v2", []string{"config/document"}},
		{"go.etcd.io/etcd", []string{"files/lock/etcdlock"}},
		{"github.com/oklog/ulid/v2", []string{"shell/job"}},
		{"github.com/prometheus/client_golang", []string{"metrics"}},
		{"golang.org/x/text", []string{"files/encoding", "fsys", "files"}},
		{"github.com/spf13/cobra", []string{"cli"}},
		{"github.com/spf13/pflag", []string{"cli"}},
		{"golang.org/x/term", []string{"cli"}},
	},
	TestOnly: []string{
		"github.com/rogpeppe/go-internal",
		"go.uber.org/goleak",
		"pgregory.net/rapid",
		"github.com/anishathalye/porcupine",
		"golang.org/x/tools/txtar",
	},
}

// Package is the part of a `go list` record that the check reads.
type Package struct {
	Dir          string
	GoFiles      []string
	ImportPath   string
	Imports      []string
	TestImports  []string // of files in the package itself
	XTestImports []string // of files in its _test package
}

// Check returns every way in which pkgs break m, sorted; none is the goal.
//
// Under internal/ every package needs a row. A package may import what stands
// before it and what its own folder holds; a package below another folder is for
// that folder, app, cli and cmd. Test files follow the same table, and may use
// any module the map knows, since tests look at doors from outside. cmd/ stands
// after the table; test/ and bench/ are test code; scripts/ uses the standard
// library alone, so that it runs before anything was fetched.
func (m Map) Check(pkgs []Package) []string {
	c := checker{m: m, place: make(map[string]int), pure: make(map[string]bool)}
	for _, r := range m.Rows {
		for _, p := range r.Packages {
			c.place[p] = len(c.place)
			c.pure[p] = r.Pure
		}
	}
	for _, p := range pkgs {
		c.check(p)
	}
	slices.Sort(c.problems)
	return slices.Compact(c.problems)
}

type checker struct {
	m        Map
	place    map[string]int // order in the table
	pure     map[string]bool
	problems []string
}

func (c *checker) report(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *checker) check(p Package) {
	rel := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, Module), "/")
	area, name, _ := strings.Cut(rel, "/")
	tests := slices.Concat(p.TestImports, p.XTestImports)
	switch area {
	case "internal":
		c.checkInternal(name, p.Imports, tests)
	case "cmd":
		c.checkModules(rel, "cmd", p.Imports, false)
		c.checkModules(rel, "cmd", tests, true)
	case "test", "bench":
		c.checkModules(rel, area, slices.Concat(p.Imports, tests), true)
	case "scripts":
		for _, imp := range slices.Concat(p.Imports, tests) {
			if !standard(imp) {
				c.report("%s imports %s: scripts use the standard library alone", rel, imp)
			}
		}
	default:
		c.report("%s is in no known area: code lives in cmd, internal, scripts, test and bench", cmp.Or(rel, "the root folder"))
	}
}

func (c *checker) checkInternal(name string, imports, tests []string) {
	owner, helper := name, false
	if parent, ok := testHelper(name); ok {
		owner, helper = parent, true
	}
	if owner == "layout" {
		for _, imp := range slices.Concat(imports, tests) {
			if !standard(imp) {
				c.report("layout imports %s: it uses the standard library alone", imp)
			}
		}
		return
	}
	if _, ok := c.place[owner]; !ok {
		c.report("%s has no row in the import table", name)
		return
	}
	for _, imp := range imports {
		c.checkInward(name, owner, imp, helper)
		if c.pure[owner] && !helper && slices.Contains(impure, imp) {
			c.report("%s imports %s: its row is pure and touches no file, process or network", name, imp)
		}
	}
	for _, imp := range tests {
		c.checkInward(name, owner, imp, true)
	}
	c.checkModules(name, owner, imports, helper)
	c.checkModules(name, owner, tests, true)
}

// checkInward judges the import of another package of ours.
func (c *checker) checkInward(name, owner, imp string, test bool) {
	target, ok := strings.CutPrefix(imp, Module+"/internal/")
	if !ok {
		if strings.HasPrefix(imp, Module+"/") {
			c.report("%s imports %s: only internal packages are imported", name, imp)
		}
		return
	}
	if parent, ok := testHelper(target); ok {
		if !test {
			c.report("%s imports %s: it is for test files alone", name, target)
		}
		target = parent
	}
	if target == owner || strings.HasPrefix(target, owner+"/") {
		return
	}
	at, ok := c.place[target]
	if !ok {
		c.report("%s imports %s: it has no row in the import table", name, target)
		return
	}
	if at > c.place[owner] {
		c.report("%s imports %s: it stands after it in the import table", name, target)
	}
	folder := path.Dir(target)
	inside := owner == folder || strings.HasPrefix(owner, folder+"/")
	if folder != "." && !inside && owner != "app" && owner != "cli" {
		c.report("%s imports %s: it belongs to %s", name, target, folder)
	}
}

// checkModules judges the imports of third-party modules.
func (c *checker) checkModules(name, owner string, imports []string, test bool) {
	for _, imp := range imports {
		if standard(imp) || imp == Module || strings.HasPrefix(imp, Module+"/") {
			continue
		}
		if slices.ContainsFunc(c.m.TestOnly, func(mod string) bool { return within(imp, mod) }) {
			if !test {
				c.report("%s imports %s: it is for test files alone", name, imp)
			}
			continue
		}
		i := slices.IndexFunc(c.m.Doors, func(d Door) bool { return within(imp, d.Module) })
		switch {
		case i < 0:
			c.report("%s imports %s: no door is named for it", name, imp)
		case !test && !slices.Contains(c.m.Doors[i].Via, owner):
			c.report("%s imports %s: its door is %s", name, imp, strings.Join(c.m.Doors[i].Via, ", "))
		}
	}
}

// testHelper reports whether name is a package of test helpers, such as
// files/lock/locktest, and which package it is for.
func testHelper(name string) (parent string, ok bool) {
	parent = path.Dir(name)
	return parent, parent != "." && path.Base(name) == path.Base(parent)+"test"
}

// within reports whether imp is the module or one of its packages.
func within(imp, module string) bool {
	rest, ok := strings.CutPrefix(imp, module)
	return ok && (rest == "" || rest[0] == '/')
}

// standard reports whether imp is in the standard library: the first element of
// any other path has a dot.
func standard(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".")
}
