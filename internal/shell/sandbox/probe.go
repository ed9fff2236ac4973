package sandbox

import (
	"fmt"
	"sync"
)

// System is what the operating system offers to confine a command with.
type System struct {
	OS             string       `json:"os"`
	Bwrap          BwrapProgram `json:"bwrap"`
	LandlockABI    int          `json:"landlock_abi" jsonschema:"version of Landlock in the kernel, 0 for none"`
	Seccomp        bool         `json:"seccomp" jsonschema:"system calls can be filtered"`
	UserNamespaces bool         `json:"user_namespaces" jsonschema:"this user may make them"`
	Seatbelt       string       `json:"seatbelt,omitempty" jsonschema:"path of sandbox-exec"`
}

// BwrapProgram is bubblewrap as it was found.
type BwrapProgram struct {
	Path         string `json:"path,omitempty"`
	Version      string `json:"version,omitempty"`
	Works        bool   `json:"works" jsonschema:"a command could be run under it"`
	PIDNamespace bool   `json:"pid_namespace" jsonschema:"commands see and signal their own processes alone"`
	Detail       string `json:"detail,omitempty" jsonschema:"why it does not work"`
}

// Probe finds out what the system offers, once: later calls return what the
// first one found. It runs bubblewrap if that is installed.
func Probe() System { return probed() }

var probed = sync.OnceValue(probe)

// leastLandlock is the first version that also judges truncation; before it a
// command could empty every file of its user.
const leastLandlock = 3

// Best is the backend that auto stands for here. Bubblewrap comes before
// Landlock since it can protect what lies inside a writable directory.
func (s System) Best() string {
	for _, backend := range []string{Bwrap, Landlock, Seatbelt} {
		if s.Lacks(backend) == "" {
			return backend
		}
	}
	return None
}

// Lacks says why a backend cannot be used here, "" when it can.
func (s System) Lacks(backend string) string {
	switch backend {
	case Bwrap:
		switch {
		case s.OS != "linux":
			return "bubblewrap is for Linux"
		case s.Bwrap.Path == "":
			return "bubblewrap (bwrap) is not installed"
		case !s.Bwrap.Works:
			return "bubblewrap does not work here: " + s.Bwrap.Detail
		}
	case Landlock:
		switch {
		case s.OS != "linux":
			return "Landlock is for Linux"
		case s.LandlockABI == 0:
			return "the kernel has no Landlock, or it is switched off"
		case s.LandlockABI < leastLandlock:
			return fmt.Sprintf("the kernel's Landlock is version %d, which cannot keep files from being emptied; version %d can", s.LandlockABI, leastLandlock)
		}
	case Seatbelt:
		switch {
		case s.OS != "darwin":
			return "seatbelt is for macOS"
		case s.Seatbelt == "":
			return "sandbox-exec was not found"
		}
	}
	return ""
}

// Why says why no backend can be used here.
func (s System) Why() string {
	switch s.OS {
	case "linux":
		return s.Lacks(Bwrap) + "; " + s.Lacks(Landlock)
	case "darwin":
		return s.Lacks(Seatbelt)
	default:
		return "there is no sandbox for " + s.OS
	}
}
