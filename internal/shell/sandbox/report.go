package sandbox

import (
	"os"
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
	if s.backend == Landlock || s.backend == Bwrap && s.mode() == WorkspaceWrite {
		if found := services(os.Getuid()); len(found) > 0 {
			open = append(open, "services that act outside of the sandbox: "+strings.Join(found, ", "))
		}
	}
	return open
}
