package linematch

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// queries are one or two of each kind that people and agents ask.
var queries = []struct {
	name, expr string
	fold       bool
}{
	{"rare literal", `ErrNoProgress`, false},
	{"common literal", `fmt\.Errorf\(`, false},
	{"common word", `return`, false},
	{"word", `\bonce\b`, false},
	{"declaration", `^func New\w*\(`, false},
	{"alternation", `panic\(|log\.Fatal`, false},
	{"common tail", `(read|write|close)Error`, false},
	{"case-blind", `race condition`, true},
	{"case-blind k and s", `task`, true},
	{"no match", `qqxj_absent_token_4410`, false},
	{"anchored", `^import \($`, false},
	{"anchored class", `^[A-Z]\w+$`, false},
	{"hex run", `[a-f0-9]{16,}`, false},
	{"dotted quad", `\d+\.\d+\.\d+\.\d+`, false},
	{"upper-case run", `[A-Z]{8,}`, false},
	{"greek", `\p{Greek}`, false},
	{"not ASCII", `é`, false},
	{"field", `json:"[a-z]+,omitempty"`, false},
	{"look-around", `(?<!return )err\b(?! )`, false},
}

// source is the files of 64 MB of Go code, or as much as there is, one after the
// other in memory.
var source = sync.OnceValue(func() (files [][]byte) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil
	}
	size := 0
	_ = filepath.WalkDir(filepath.Join(strings.TrimSpace(string(root)), "src"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || filepath.Ext(path) != ".go" {
			return err
		}
		if size > 64<<20 {
			return filepath.SkipAll
		}
		b, err := os.ReadFile(path)
		files, size = append(files, b), size+len(b)
		return err
	})
	return files
})

func sizeOf(files [][]byte) (n int64) {
	for _, f := range files {
		n += int64(len(f))
	}
	return n
}

func BenchmarkCount(b *testing.B) {
	files := source()
	for _, q := range queries {
		b.Run(strings.ReplaceAll(q.name, " ", "-"), func(b *testing.B) {
			m, err := Compile(q.expr, Options{FoldCase: q.fold})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(sizeOf(files))
			b.ReportAllocs()
			s := m.Scanner()
			n := 0
			for b.Loop() {
				n = 0
				for _, f := range files {
					s.Reset(f, nil)
					n += s.Count()
				}
			}
			b.ReportMetric(float64(n), "lines")
		})
	}
}

// What the standard engine takes for the same, line by line, on a tenth.
func BenchmarkCountWithRegexp(b *testing.B) {
	files := source()
	files = files[:len(files)/10]
	for _, q := range queries {
		source := q.expr
		if q.fold {
			source = "(?i)" + source
		}
		re, err := regexp.Compile(source)
		if err != nil {
			continue // look-around
		}
		b.Run(strings.ReplaceAll(q.name, " ", "-"), func(b *testing.B) {
			b.SetBytes(sizeOf(files))
			for b.Loop() {
				for _, f := range files {
					expected(re, f)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, q := range queries {
		b.Run(strings.ReplaceAll(q.name, " ", "-"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Compile(q.expr, Options{FoldCase: q.fold}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
