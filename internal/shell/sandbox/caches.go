package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
)

// cache is what one tool keeps for itself between runs. Directories of programs
// are left out on purpose: what a command puts there, a person would run.
type cache struct {
	tool  string   // the program
	made  []string // made when missing, if the program is installed
	other []string // used when they are there
}

// toolCaches lists the caches that commands may write, for a home directory and
// the environment of the server.
func toolCaches(goos, home string, getenv func(string) string) []cache {
	if home == "" {
		return nil
	}
	inHome := func(parts ...string) string { return filepath.Join(append([]string{home}, parts...)...) }
	first := func(values ...string) string {
		for _, v := range values {
			if filepath.IsAbs(v) {
				return filepath.Clean(v)
			}
		}
		return ""
	}
	user := first(getenv("XDG_CACHE_HOME"), inHome(".cache"))
	system := user // where the system wants caches
	switch goos {
	case "darwin":
		system = inHome("Library", "Caches")
	case "windows":
		system = first(getenv("LocalAppData"), inHome("AppData", "Local"))
	}
	in := filepath.Join
	data := first(getenv("XDG_DATA_HOME"), inHome(".local", "share"))
	gopath := first(firstOfList(getenv("GOPATH")), inHome("go"))
	cargo := first(getenv("CARGO_HOME"), inHome(".cargo"))
	npm := first(getenv("npm_config_cache"), getenv("NPM_CONFIG_CACHE"), inHome(".npm"))
	if goos == "windows" && getenv("npm_config_cache") == "" {
		npm = in(system, "npm-cache")
	}
	gradle := first(getenv("GRADLE_USER_HOME"), inHome(".gradle"))
	return []cache{
		{"go", []string{first(getenv("GOCACHE"), in(system, "go-build")), first(getenv("GOMODCACHE"), in(gopath, "pkg", "mod"))}, []string{in(gopath, "pkg", "sumdb")}},
		{"golangci-lint", []string{first(getenv("GOLANGCI_LINT_CACHE"), in(system, "golangci-lint"))}, nil},
		{"staticcheck", []string{first(getenv("STATICCHECK_CACHE"), in(system, "staticcheck"))}, nil},
		{"npm", []string{in(npm, "_cacache")}, nil},
		{"yarn", []string{first(getenv("YARN_CACHE_FOLDER"), in(system, "yarn"))}, []string{inHome(".yarn", "berry", "cache")}},
		{"pnpm", []string{in(data, "pnpm", "store")}, []string{in(user, "pnpm")}},
		{"bun", []string{inHome(".bun", "install", "cache")}, nil},
		{"deno", []string{first(getenv("DENO_DIR"), in(system, "deno"))}, nil},
		{"cargo", []string{in(cargo, "registry"), in(cargo, "git")}, []string{in(cargo, ".package-cache"), in(cargo, ".package-cache-mutate"), in(cargo, ".global-cache")}},
		{"sccache", []string{first(getenv("SCCACHE_DIR"), in(user, "sccache"))}, nil},
		{"ccache", []string{first(getenv("CCACHE_DIR"), in(user, "ccache"))}, []string{inHome(".ccache")}},
		{"pip", []string{first(getenv("PIP_CACHE_DIR"), in(system, "pip"))}, nil},
		{"uv", []string{first(getenv("UV_CACHE_DIR"), in(user, "uv"))}, nil},
		{"poetry", []string{first(getenv("POETRY_CACHE_DIR"), in(system, "pypoetry"))}, nil},
		{"mvn", []string{inHome(".m2", "repository")}, nil},
		{"gradle", []string{in(gradle, "caches")}, nil},
		{"dotnet", []string{first(getenv("NUGET_PACKAGES"), inHome(".nuget", "packages"))}, []string{in(data, "NuGet")}},
		{"composer", []string{first(getenv("COMPOSER_CACHE_DIR"), in(user, "composer"))}, nil},
		{"bundle", []string{inHome(".bundle", "cache")}, nil},
		{"zig", []string{first(getenv("ZIG_GLOBAL_CACHE_DIR"), in(user, "zig"))}, nil},
		{"bazel", []string{in(user, "bazel")}, nil},
	}
}

// firstOfList returns the first directory of a list such as GOPATH.
func firstOfList(list string) string {
	if dirs := filepath.SplitList(list); len(dirs) > 0 {
		return dirs[0]
	}
	return ""
}

// makeCaches makes the caches of tools that are installed and were never used:
// their parents are not writable to commands. Where it cannot be done the tool
// will say so.
func (s *Sandbox) makeCaches() {
	for _, c := range s.caches {
		if _, err := exec.LookPath(c.tool); err != nil {
			continue
		}
		for _, path := range c.made {
			_ = os.MkdirAll(path, 0o755)
		}
	}
}
