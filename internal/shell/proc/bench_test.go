//go:build unix

package proc

import (
	"os/exec"
	"testing"
)

func BenchmarkBareOSExec(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if err := exec.CommandContext(b.Context(), "/bin/sh", "-c", "true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStart(b *testing.B) {
	b.ReportAllocs()
	var c count
	for b.Loop() {
		p, err := Start(Spec{Argv: []string{"/bin/sh", "-c", "true"}, Stdout: &c, Stderr: &c})
		if err != nil {
			b.Fatal(err)
		}
		<-p.Gone()
	}
}

func BenchmarkCapture(b *testing.B) {
	b.SetBytes(64 << 20)
	var c count
	for b.Loop() {
		p, err := Start(Spec{Argv: []string{"/bin/sh", "-c", "head -c 64M /dev/zero"}, Stdout: &c, Stderr: &c})
		if err != nil {
			b.Fatal(err)
		}
		<-p.Gone()
	}
}
