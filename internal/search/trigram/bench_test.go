package trigram

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// source is the files of the Go tree.
var source = sync.OnceValue(func() (files [][]byte) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil
	}
	_ = filepath.WalkDir(filepath.Join(strings.TrimSpace(string(root)), "src"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		if info, err := e.Info(); err != nil || info.Size() > 10<<20 {
			return err
		}
		b, err := os.ReadFile(path)
		if !strings.Contains(string(b), "\x00") { // not a binary
			files = append(files, b)
		}
		return err
	})
	return files
})

func build(x *Index, files [][]byte, workers int) {
	var group sync.WaitGroup
	next := make(chan int)
	for range workers {
		group.Go(func() {
			for i := range next {
				x.Put(ID(i), files[i])
			}
		})
	}
	for i := range files {
		next <- i
	}
	close(next)
	group.Wait()
}

func tidied(files [][]byte) *Index {
	x := New(Options{})
	build(x, files, 2)
	for x.tidy(true) {
		continue
	}
	return x
}

// BenchmarkBuild puts the Go tree into an index and joins its shards.
func BenchmarkBuild(b *testing.B) {
	files := source()
	size := int64(0)
	for _, f := range files {
		size += int64(len(f))
	}
	b.SetBytes(size)
	b.ReportAllocs()
	var x *Index
	for b.Loop() {
		x = tidied(files)
	}
	s := x.Stats()
	b.ReportMetric(float64(s.Files), "files")
	b.ReportMetric(float64(s.Shards), "shards")
	b.ReportMetric(100*float64(s.Bytes)/float64(size), "%_of_source")
}

// BenchmarkPut replaces a file of 8 KB.
func BenchmarkPut(b *testing.B) {
	files := source()
	x := tidied(files)
	b.ReportAllocs()
	for b.Loop() {
		x.Put(7, files[7])
	}
}

func BenchmarkCandidates(b *testing.B) {
	files := source()
	x := tidied(files)
	for _, expr := range []string{"ErrNoProgress", `fmt\.Errorf\(`, `\bonce\b`, `\bgo\b`, `^import \($`, `panic\(|log\.Fatal`, "qqxj_absent_token_4410", "return"} {
		b.Run(expr, func(b *testing.B) {
			q, _ := query(b, expr, false)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n = len(x.Candidates(q).Files)
			}
			b.ReportMetric(float64(n), "files")
		})
	}
}
