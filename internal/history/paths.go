package history

import "slices"

// Paths returns the files of the project that are in the registry, sorted.
func (s *Store) Paths(project string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var paths []string
	for key, f := range s.files {
		if key.Project == project && f.hash != "" {
			paths = append(paths, key.Path)
		}
	}
	slices.Sort(paths)
	return paths
}
