package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// projects are small ones that need a compiler, a package manager and a build
// tool, and no network.
var projects = []struct {
	name, script string
	strict       string // what must also work with sources read-only
	files        map[string]string
}{
	{
		name:   "Go",
		script: `go build -o bin/app . && ./bin/app && go test ./... && go mod tidy`,
		strict: `go vet ./... && go build -o build/app .`,
		files: map[string]string{
			"go.mod":       "module example.com/app\n\ngo 1.24\n",
			"main.go":      "package main\n\nimport \"os\"\n\nfunc main() { os.Exit(code()) }\n\nfunc code() int { return 0 }\n",
			"main_test.go": "package main\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestCode(t *testing.T) {\n\tif err := os.WriteFile(t.TempDir()+\"/x\", nil, 0o644); err != nil || code() != 0 {\n\t\tt.Fatal(err)\n\t}\n}\n",
		},
	},
	{
		name:   "Node",
		script: `npm install --offline --no-audit --no-fund ./dep && npm run build && node test.js`,
		strict: `node --check build.js && node test.js`,
		files: map[string]string{
			"package.json":     `{"name": "app", "version": "1.0.0", "scripts": {"build": "node build.js"}}`,
			"build.js":         "const fs = require('fs'); fs.mkdirSync('dist', {recursive: true}); fs.writeFileSync('dist/out.js', 'module.exports = ' + require('dep')());\n",
			"test.js":          "const os = require('os'), fs = require('fs'); fs.mkdtempSync(os.tmpdir() + '/t'); require('assert').equal(require('./dist/out.js'), 42);\n",
			"dep/package.json": `{"name": "dep", "version": "1.0.0", "main": "index.js"}`,
			"dep/index.js":     "module.exports = () => 42;\n",
		},
	},
	{
		name:   "Make",
		script: `make && ./hello && make install DESTDIR="$PWD/out" && make clean && git init -q && git add -A && ` + commit,
		strict: `make -n && make OUT=build/hello`,
		files: map[string]string{
			"Makefile": "OUT = hello\n$(OUT): hello.c\n\tcc -O1 -o $@.tmp $< && mv $@.tmp $@\ninstall: $(OUT)\n\tinstall -D $(OUT) $(DESTDIR)/usr/bin/hello\nclean:\n\trm -f $(OUT)\n",
			"hello.c":  "int main(void) { return 0; }\n",
		},
	},
}

func TestRealProjectsBuild(t *testing.T) {
	for _, p := range projects {
		for _, backend := range backends(t) {
			t.Run(p.name+"/"+backend, func(t *testing.T) {
				s := &scene{dir: realTempDir(t)}
				s.write(t, "project/build/.keep", "")
				for name, text := range p.files {
					s.write(t, filepath.Join("project", name), text)
				}
				home, err := os.UserHomeDir()
				if err != nil {
					t.Fatal(err)
				}
				// The caches are the real ones, as for a person.
				for _, c := range []struct{ mode, script string }{{WorkspaceWrite, p.script}, {Strict, p.strict}} {
					box, err := New(Options{
						Mode: c.mode, Backend: backend, Root: s.path("project"), BuildDirs: []string{"build"},
						TempDirs: []string{s.path("tmp")}, Home: home, Protected: []string{s.path("server")},
					})
					if err != nil {
						t.Fatal(err)
					}
					if err := os.MkdirAll(s.path("tmp"), 0o755); err != nil {
						t.Fatal(err)
					}
					argv, err := box.Wrap([]string{"/bin/sh", "-ec", c.script})
					if err != nil {
						t.Fatal(err)
					}
					cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
					cmd.Dir = s.path("project")
					cmd.Env = append(os.Environ(), "TMPDIR="+s.path("tmp"), "GOFLAGS=-mod=mod", "GOTOOLCHAIN=local", "GIT_CONFIG_GLOBAL=/dev/null")
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Errorf("%s: %v: %s", c.mode, err, out)
					}
				}
			})
		}
	}
}
