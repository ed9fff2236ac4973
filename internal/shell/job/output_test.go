package job

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// file returns a stream that spools up to so many bytes.
func file(t *testing.T, limit int64) *stream {
	s := &stream{notify: func() {}, cap: limit, create: func() (*os.File, error) {
		return openSpool(t.TempDir(), "me", "out")
	}}
	t.Cleanup(s.remove)
	return s
}

// Whatever is written in whatever pieces, pages put together are what was
// written, but for the bytes that are said to be lost.
func TestPagesAreWhatWasWritten(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		limit := []int64{0, 1, 1000, 70_000, 1 << 20}[rnd.IntN(5)]
		s := file(t, limit)
		var all []byte
		for range rnd.IntN(12) {
			piece := bytes.Repeat([]byte("aé€😀\n"), rnd.IntN([]int{3, 300, 30_000}[rnd.IntN(3)]))
			if rnd.IntN(3) > 0 && len(piece) > 0 {
				piece = piece[:rnd.IntN(len(piece))] // within a character
			}
			all = append(all, piece...)
			if n, err := s.Write(piece); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
		s.close()
		total := int64(len(all))
		kept := min(total, headBytes) + min(limit, max(0, total-headBytes))
		if want := max(0, total-kept-min(tailBytes, max(0, total-headBytes))); s.view().lost() != want {
			t.Errorf("seed %d: lost %d, want %d", seed, s.view().lost(), want)
		}
		var got []byte
		for at := int64(0); ; {
			b, from := s.view().slice(at, 1+rnd.IntN(100_000))
			if len(b) == 0 {
				break
			}
			got = append(got, all[at:from]...) // what is lost
			got = append(got, b...)
			at = from + int64(len(b))
		}
		if !bytes.Equal(got, all) {
			t.Fatalf("seed %d: %d bytes come out as %d others", seed, len(all), len(got))
		}
		if lost := s.view().lost(); lost > 0 {
			if _, from := s.view().slice(kept, 1); from != kept+lost {
				t.Errorf("seed %d: after the gap comes %d, want %d", seed, from, kept+lost)
			}
		}
	}
}

func TestPagesNeverSplitACharacter(t *testing.T) {
	s := file(t, 0)
	text := strings.Repeat("é€😀", 50)
	var got strings.Builder
	next := int64(0)
	for i := range len(text) {
		s.Write([]byte(text[i : i+1]))
		page, n := s.page(next, 5)
		if page.Repaired {
			t.Fatalf("after %d bytes: %q is repaired", i, page.Text)
		}
		got.WriteString(page.Text)
		next = n
	}
	if got.String() != text {
		t.Errorf("pages are %q", got.String())
	}
	s.Write([]byte("é")[:1])
	if page, n := s.page(next, 100); page.Text != "" || n != next {
		t.Errorf("half a character comes as %q", page.Text)
	}
	s.close()
	if page, n := s.page(next, 100); page.Text != "\ufffd" || !page.Repaired || n != next+1 {
		t.Errorf("half a character at the end comes as %+v, %d", page, n)
	}
}

func TestInvalidTextIsRepairedAndSaidSo(t *testing.T) {
	s := file(t, 0)
	s.Write([]byte("good \xff\xfe bad"))
	s.close()
	if got, _ := s.whole(100); got.Text != "good \ufffd bad" || !got.Repaired || got.Truncated || got.Total != 11 {
		t.Errorf("whole = %+v", got)
	}
}

func TestHalfACharacterOfAStreamThatGoesOnIsLeftForLater(t *testing.T) {
	for _, limit := range []int{100, 16} { // all of it, and its two ends
		s := file(t, 0)
		s.Write([]byte(strings.Repeat("x", 50) + "€"[:2]))
		got, next := s.whole(limit)
		if got.Repaired || next != 50 || !strings.HasSuffix(got.Text, "x") {
			t.Errorf("limit %d: %+v, next %d", limit, got, next)
		}
		s.Write([]byte("€"[2:]))
		if page, _ := s.page(next, 100); page.Text != "€" || page.Repaired {
			t.Errorf("limit %d: goes on with %+v", limit, page)
		}
		s.Write([]byte("€"[:1]))
		s.close()
		if got, next := s.whole(limit); !got.Repaired || next != 54 {
			t.Errorf("limit %d: at the end %+v, next %d", limit, got, next)
		}
	}
}

func TestLongOutputIsCutInTheMiddle(t *testing.T) {
	s := file(t, 1<<20)
	for i := range 50_000 {
		fmt.Fprintf(s, "line %d €\n", i)
	}
	s.close()
	got, _ := s.whole(1000)
	if !strings.HasPrefix(got.Text, "line 0 €\n") || !strings.HasSuffix(got.Text, "line 49999 €\n") || !got.Truncated || got.Repaired || got.Lost != 0 {
		t.Errorf("whole = %+v", got)
	}
	marker := fmt.Sprintf("\n[… %d bytes left out …]\n", got.Omitted)
	if int64(len(got.Text)-len(marker))+got.Omitted != got.Total || !strings.Contains(got.Text, marker) {
		t.Errorf("%d bytes of text and %d omitted are not %d", len(got.Text), got.Omitted, got.Total)
	}
	if all, _ := s.whole(1 << 20); int64(len(all.Text)) != all.Total || all.Truncated {
		t.Errorf("%d of %d bytes, truncated %t", len(all.Text), all.Total, all.Truncated)
	}
	// Without its file, the middle is lost, and that is said.
	s.remove()
	if lost, _ := s.whole(1 << 20); !lost.Truncated || lost.Lost == 0 || !utf8.ValidString(lost.Text) || lost.Repaired {
		t.Errorf("without its file: %d bytes, truncated %t, lost %d", len(lost.Text), lost.Truncated, lost.Lost)
	}
	page, next := s.page(headBytes, 100)
	if page.Omitted == 0 || !page.Truncated || next != page.Total-tailBytes+100 {
		t.Errorf("past the head without a file: %+v, %d", page, next)
	}
}

func TestAFailingFileIsNotTheEnd(t *testing.T) {
	for name, create := range map[string]func() (*os.File, error){
		"cannot be made": func() (*os.File, error) { return nil, errors.New("no space") },
		"cannot be written": func() (*os.File, error) {
			name := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return os.Open(name)
		},
	} {
		s := &stream{notify: func() {}, cap: 1 << 20, create: create}
		s.Write(bytes.Repeat([]byte("x"), headBytes))
		for range 5 {
			s.Write(bytes.Repeat([]byte("y"), tailBytes))
		}
		if got, _ := s.whole(100); got.Lost != 4*tailBytes || !strings.HasSuffix(got.Text, "yy") {
			t.Errorf("%s: lost %d, text %q", name, got.Lost, got.Text)
		}
		s.remove()
	}
}

func TestCursor(t *testing.T) {
	for _, c := range []Cursor{{}, {1, 2}, {1 << 62, 0}} {
		if got, err := ParseCursor(c.String()); err != nil || got != c {
			t.Errorf("ParseCursor(%s) = %v, %v", c, got, err)
		}
	}
	if got, err := ParseCursor(""); err != nil || got != (Cursor{}) {
		t.Errorf("ParseCursor of nothing = %v, %v", got, err)
	}
	for _, bad := range []string{"1", "x.y", "-1.2", "1.-2", "1.2.3", "99999999999999999999.0"} {
		if got, err := ParseCursor(bad); err == nil {
			t.Errorf("ParseCursor(%s) = %v, want an error", bad, got)
		}
	}
}
