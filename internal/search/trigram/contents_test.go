package trigram

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

func textOf(id ID, version, size int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "<%d:%d>", id, version), size/4)[:size]
}

func TestContentsAreKeptByVersion(t *testing.T) {
	c := NewContents(0)
	defer c.Drop()
	c.Keep(1, Stamp{1}, []byte("first"))
	c.Keep(1, Stamp{2}, []byte("second"))
	if _, ok := c.Get(1, Stamp{1}); ok {
		t.Error("an old version is kept")
	}
	v, ok := c.Get(1, Stamp{2})
	if !ok || string(v.Text) != "second" {
		t.Errorf("Get = %q, %v, want second", v.Text, ok)
	}
	v.Release()
	c.Remove(1)
	if _, ok := c.Get(1, Stamp{2}); ok || c.Bytes() != 0 {
		t.Errorf("kept %v, %d bytes, after Remove", ok, c.Bytes())
	}
}

func TestContentsStayWithinTheirLimit(t *testing.T) {
	const limit = 8 << 20
	c := NewContents(limit)
	for i := range ID(1000) {
		if !c.Keep(i, Stamp{}, textOf(i, 0, 50_000)) {
			t.Fatalf("file %d was refused", i)
		}
		if n := c.Bytes(); n > limit {
			t.Fatalf("%d bytes, want %d at most", n, limit)
		}
		if i > 20 && i%10 == 0 { // somebody asks for a few again and again
			for hot := ID(15); hot < 18; hot++ {
				v, ok := c.Get(hot, Stamp{})
				if !ok || !bytes.Equal(v.Text, textOf(hot, 0, 50_000)) {
					t.Fatalf("file %d was asked for all the time and is not kept at %d", hot, i)
				}
				v.Release()
			}
		}
	}
	if _, ok := c.Get(500, Stamp{}); ok {
		t.Error("a file that nobody asked for is still kept")
	}
	if c.Keep(5000, Stamp{}, make([]byte, limit)) {
		t.Error("a text that leaves no room for others was kept")
	}
	c.Drop()
	if c.Bytes() != 0 {
		t.Errorf("%d bytes after Drop", c.Bytes())
	}
}

func TestNothingIsKeptWithoutALimit(t *testing.T) {
	c := NewContents(-1)
	if c.Keep(1, Stamp{}, []byte("text")) || c.Bytes() != 0 {
		t.Errorf("kept, %d bytes", c.Bytes())
	}
}

// A text that is being read stays what it is, whatever goes on around it.
func TestReadersKeepTheirText(t *testing.T) {
	c := NewContents(3 << 20)
	var group sync.WaitGroup
	for w := range 4 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for range 300 {
				id, version := ID(r.IntN(60)), r.IntN(3)
				size := 10_000 + int(id)*1000
				if v, ok := c.Get(id, Stamp{int64(version)}); ok {
					c.Keep(ID(r.IntN(60)), Stamp{9}, textOf(0, 0, 40_000))
					if !bytes.Equal(v.Text, textOf(id, version, size)) {
						t.Errorf("file %d: %.20q", id, v.Text)
					}
					v.Release()
				}
				c.Keep(id, Stamp{int64(version)}, textOf(id, version, size))
				if r.IntN(100) == 0 {
					c.Drop()
				}
			}
		})
	}
	group.Wait()
	c.Drop()
	if c.Bytes() != 0 {
		t.Errorf("%d bytes after Drop", c.Bytes())
	}
}
