package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"async-crud-mcp": main})
}

// TestScripts runs the program as people and hosts do: as a process of its own.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("ASYNC_CRUD_MCP_HOME", home)
			env.Defer(func() {
				if err := endDaemon(home); err != nil {
					t.Errorf("the daemon in %s does not end: %v", home, err)
				}
			})
			env.Setenv("NO_COLOR", "1")
			return os.Mkdir(filepath.Join(env.WorkDir, "project"), 0o755)
		},
	})
}
