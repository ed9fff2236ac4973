package fsys_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
)

var sizes = []struct {
	name string
	n    int
}{{"1KB", 1 << 10}, {"1MB", 1 << 20}}

// floor is the least that a durable write costs.
func floor(b *testing.B, path string, data []byte) {
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	must(b, err)
	_, err = f.Write(data)
	must(b, err)
	must(b, f.Sync())
	must(b, f.Close())
	must(b, os.Rename(path+".tmp", path))
	d, err := os.Open(filepath.Dir(path))
	must(b, err)
	must(b, d.Sync())
	must(b, d.Close())
}

// beside runs both in turn and reports how many times the floor's median ours
// is: what else the disk does meanwhile hits both.
func beside(b *testing.B, floor, ours func(i int)) {
	var took [2][]time.Duration
	for i := 0; b.Loop(); i++ {
		for k, f := range []func(int){floor, ours} {
			start := time.Now()
			f(i)
			took[k] = append(took[k], time.Since(start))
		}
	}
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)/2])
	}
	b.ReportMetric(median(took[0]), "floor-ns")
	b.ReportMetric(median(took[1]), "ours-ns")
	b.ReportMetric(median(took[1])/median(took[0]), "x-floor")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkCreate(b *testing.B) {
	for _, size := range sizes {
		data := bytes.Repeat([]byte("x"), size.n)
		b.Run("size="+size.name, func(b *testing.B) {
			root := tempDir(b)
			bases := open(b, root)
			beside(b,
				func(i int) { floor(b, filepath.Join(root, fmt.Sprint("floor", i)), data) },
				func(i int) { must(b, resolve(b, bases, fmt.Sprint(i)).Create(data, fsys.WriteOptions{})) })
		})
	}
}

func BenchmarkReplace(b *testing.B) {
	for _, size := range sizes {
		texts := [2][]byte{bytes.Repeat([]byte("x"), size.n), bytes.Repeat([]byte("y"), size.n)}
		contents := [2]fsys.Content{fsys.ContentOf(texts[0]), fsys.ContentOf(texts[1])}
		b.Run("size="+size.name, func(b *testing.B) {
			root := tempDir(b)
			bases := open(b, root)
			put(b, filepath.Join(root, "ours"), string(texts[1]))
			beside(b,
				func(i int) { floor(b, filepath.Join(root, "floor"), texts[i%2]) },
				func(i int) {
					must(b, resolve(b, bases, "ours").Replace(texts[i%2], contents[(i+1)%2], fsys.WriteOptions{}))
				})
		})
	}
}

func BenchmarkRead(b *testing.B) {
	for _, size := range sizes {
		root := tempDir(b)
		put(b, filepath.Join(root, "sub/f"), string(bytes.Repeat([]byte("x"), size.n)))
		b.Run("size="+size.name+"/floor", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := os.ReadFile(filepath.Join(root, "sub/f"))
				must(b, err)
			}
		})
		bases := open(b, root)
		b.Run("size="+size.name+"/fsys", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _, err := resolve(b, bases, "sub/f").Read(mega)
				must(b, err)
			}
		})
		b.Run("size="+size.name+"/hash", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _, err := resolve(b, bases, "sub/f").Hash(mega)
				must(b, err)
			}
		})
	}
}

func BenchmarkResolve(b *testing.B) {
	bases, root, _, _ := farm(b)
	for _, name := range []string{"sub/deep/file", "sub/deep/missing", "l-chain/deep/file", filepath.Join(root, "sub/deep/file")} {
		short := name
		if filepath.IsAbs(name) {
			short = "absolute"
		}
		b.Run(short, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				resolve(b, bases, name)
			}
		})
	}
}

func BenchmarkWalk(b *testing.B) {
	for _, c := range []struct {
		name       string
		dirs, each int
	}{{"entries=1k", 1, 1000}, {"entries=20k", 200, 100}} {
		root := tempDir(b)
		for d := range c.dirs {
			dir := filepath.Join(root, fmt.Sprintf("dir%03d", d))
			must(b, os.Mkdir(dir, 0o755))
			for f := range c.each {
				must(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%04d.go", f)), nil, 0o644))
			}
		}
		bases := open(b, root)
		floor := func(int) {
			must(b, filepath.WalkDir(root, func(string, fs.DirEntry, error) error { return nil }))
		}
		for name, look := range map[string]func(*fsys.Entry) error{
			"names": func(*fsys.Entry) error { return nil },
			"infos": func(e *fsys.Entry) error { _, err := e.Info(); return err },
		} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				beside(b, floor, func(int) {
					must(b, resolve(b, bases, ".").Walk(b.Context(), fsys.WalkOptions{Recursive: true}, look))
				})
			})
		}
	}
}
