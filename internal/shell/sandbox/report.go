package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// open names what commands can reach although the mode says otherwise.
func (s *Sandbox) open() []string {
	p := s.plan()
	open := slices.Clone(p.open)
	if s.backend == Landlock {
		for _, path := range p.protected {
			if insideAny(path, p.landlock()) {
				open = append(open, path)
			}
		}
		open = append(open, "modes, owners and times of files that this user owns")
	}
	if s.backend == Landlock && s.sys.LandlockABI < 6 || s.backend == Bwrap && !s.sys.Bwrap.PIDNamespace || s.backend == Seatbelt {
		open = append(open, "other processes of this user, which can be signalled")
	}
	if s.mode() == WorkspaceWrite && exists(filepath.Join(s.opts.Root, ".git")) {
		open = append(open, "names that git looks for and that do not exist yet, such as .git/commondir and .git/config.worktree: they may be made")
	}
	if s.backend == Landlock || s.backend == Bwrap && s.mode() == WorkspaceWrite {
		if found := services(os.Getuid()); len(found) > 0 {
			open = append(open, "services that act outside of the sandbox: "+strings.Join(found, ", "))
		}
	}
	return open
}
