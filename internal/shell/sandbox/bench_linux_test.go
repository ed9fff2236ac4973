package sandbox

import (
	"os/exec"
	"testing"
)

// BenchmarkExec is what a sandbox adds to the start and end of a program that
// does nothing. The helper is the test binary here; the whole program has its
// packages initialised as late (see package confine).
func BenchmarkExec(b *testing.B) {
	s := newScene(b)
	for _, backend := range append([]string{None}, backends(b)...) {
		for _, network := range []string{NetworkOn, NetworkOff} {
			if backend == None && network == NetworkOff {
				continue
			}
			b.Run(backend+"/network="+network, func(b *testing.B) {
				box := s.sandbox(b, func(o *Options) { o.Backend, o.Network = backend, network })
				b.ReportAllocs()
				for b.Loop() {
					argv, err := box.Wrap([]string{"/bin/true"})
					if err != nil {
						b.Fatal(err)
					}
					if err := exec.Command(argv[0], argv[1:]...).Run(); err != nil { //nolint:noctx // it ends by itself
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkWrap(b *testing.B) {
	s := newScene(b)
	box := s.sandbox(b, func(o *Options) {
		o.System = &System{OS: "linux", Bwrap: BwrapProgram{Path: "/usr/bin/bwrap", Works: true}}
	})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := box.Wrap([]string{"/bin/true"}); err != nil {
			b.Fatal(err)
		}
	}
}
