package app

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

// ownGlobs are globs, relative to the base directories, of what belongs to the
// server itself: a project that holds the user's own directories must not be a way
// to the settings, the list of trusted projects, past contents, the log and the
// record of calls.
func (a *App) ownGlobs(bases []string) []string {
	var globs []string
	add := func(dir string, names ...string) {
		dir = resolved(dir)
		for _, base := range bases {
			rel, err := filepath.Rel(base, dir)
			if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
				continue // elsewhere
			}
			at := "/"
			if rel != "." {
				at += literal(filepath.ToSlash(rel)) + "/"
			} else if len(names) == 0 {
				continue // a project inside our directory: nothing would be left of it
			}
			if len(names) == 0 {
				names = []string{"**"}
			}
			for _, name := range names {
				globs = append(globs, at+name)
			}
		}
	}
	if dirs, err := fsys.UserDirs(); err == nil {
		for _, dir := range []string{dirs.Config, dirs.Data, dirs.Log} {
			add(dir)
		}
	}
	add(filepath.Dir(a.historyFile), literal(filepath.Base(a.historyFile))+"*") // with its journals
	if file := a.started.Config.Daemon.LogFile; file != nil {
		ext := filepath.Ext(*file)
		add(filepath.Dir(*file), literal(strings.TrimSuffix(filepath.Base(*file), ext))+"*"+literal(ext)+"*")
	}
	for _, file := range []string{a.audit.File(), a.aliasAudit.File()} {
		ext := filepath.Ext(file)
		stem, end := literal(strings.TrimSuffix(filepath.Base(file), ext)), literal(ext)
		add(filepath.Dir(file), stem+end, stem+".*"+end, stem+end+".lock")
	}
	slices.Sort(globs)
	return slices.Compact(globs)
}

// resolved is path with its links followed as far as it exists.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	dir, name := filepath.Split(filepath.Clean(path))
	if name == "" || dir == path {
		return path
	}
	return filepath.Join(resolved(filepath.Clean(dir)), name)
}

// literal makes a glob of a name.
func literal(name string) string {
	var b strings.Builder
	for _, r := range name {
		if strings.ContainsRune(`*?[]{},-!^\`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
