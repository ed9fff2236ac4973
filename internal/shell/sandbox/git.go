package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// protectProject protects what a project directory holds of our own settings and
// of what git runs or obeys: hooks and configuration, also of submodules.
func (p *plan) protectProject(root string) {
	if own := filepath.Join(root, ".async-crud-mcp"); exists(own) {
		p.protect(own)
	}
	git := filepath.Join(root, ".git")
	info, err := os.Lstat(git)
	switch {
	case err != nil:
		return
	case info.Mode().IsRegular(): // it names the repository, which lies elsewhere
		p.protect(git)
		if dir, ok := worktree(root); ok {
			for _, name := range []string{"commondir", "gitdir", "config.worktree"} {
				if path := filepath.Join(dir, name); exists(path) {
					p.protect(path)
				}
			}
		}
		return
	}
	p.protectRepository(git)
}

// protectRepository protects the hooks and the configuration of a repository and
// of its submodules.
func (p *plan) protectRepository(git string) {
	hooks := filepath.Join(git, "hooks")
	if !exists(hooks) && exists(filepath.Join(git, "HEAD")) && p.writableAt(git) {
		_ = os.Mkdir(hooks, 0o755) // else a command could make it; git does not mind
	}
	p.protect(hooks)
	p.protect(filepath.Join(git, "config"))
	if path := filepath.Join(git, "config.worktree"); exists(path) {
		p.protect(path)
	}
	const most = 200 // directories looked at; repositories with more submodules are rare
	seen := 0
	_ = filepath.WalkDir(filepath.Join(git, "modules"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // what cannot be read is not there for git either
		}
		if seen++; seen > most {
			p.open = append(p.open, fmt.Sprintf("submodules in %s beyond the first %d directories", git, most))
			return fs.SkipAll
		}
		if exists(filepath.Join(path, "HEAD")) && exists(filepath.Join(path, "config")) {
			p.protectRepository(path)
			return fs.SkipDir
		}
		return nil
	})
}

// worktreeDirs are the directories of another repository that git writes when it
// commits in root, a worktree of it. Its hooks and configuration are in none of
// them.
func worktreeDirs(root string) []string {
	dir, ok := worktree(root)
	if !ok {
		return nil
	}
	common := filepath.Dir(filepath.Dir(dir))
	return []string{dir, filepath.Join(common, "objects"), filepath.Join(common, "refs"), filepath.Join(common, "logs")}
}

// worktree returns the directory that git keeps for the worktree root in its
// repository. A command may write the file .git and point it anywhere; so the
// directory counts only if it points back, which nobody but the repository's
// owner can have arranged.
func worktree(root string) (string, bool) {
	link := filepath.Join(root, ".git")
	text, ok := oneLine(link)
	if !ok {
		return "", false
	}
	dir, ok := strings.CutPrefix(text, "gitdir: ")
	if !ok {
		return "", false
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil || filepath.Base(filepath.Dir(dir)) != "worktrees" {
		return "", false
	}
	back, ok := oneLine(filepath.Join(dir, "gitdir"))
	if !ok {
		return "", false
	}
	if !filepath.IsAbs(back) {
		back = filepath.Join(dir, back)
	}
	back, err = filepath.EvalSymlinks(back)
	return dir, err == nil && back == link
}

// oneLine returns the text of a small regular file without its line end.
func oneLine(path string) (string, bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > 4096 {
		return "", false
	}
	text, err := os.ReadFile(path)
	return strings.TrimRight(string(text), "\r\n"), err == nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
