package files_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
)

// utf16le writes plain letters as UTF-16, little end first.
func utf16le(text string) string {
	out := ""
	for _, r := range text {
		out += string([]byte{byte(r), byte(r >> 8)})
	}
	return out
}

const (
	bom8  = "\xef\xbb\xbf"
	bom16 = "\xff\xfe"
)

// TestAnEditLeavesEveryOtherByte edits by patch, in every kind of text.
func TestAnEditLeavesEveryOtherByte(t *testing.T) {
	for _, c := range []struct {
		name, encoding string
		before         string
		old, with      string
		after          string
	}{
		{"crlf", "", "one\r\ntwo\r\nthree\r\n", "two", "2", "one\r\n2\r\nthree\r\n"},
		{"crlf, edit over a line end", "", "one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2", "1\r\n2\r\nthree\r\n"},
		{"mixed ends", "", "one\r\ntwo\nthree\rfour\n", "two", "2", "one\r\n2\nthree\rfour\n"},
		{"no final line end", "", "one\ntwo", "two", "2", "one\n2"},
		{"only line ends", "", "\n\r\n\n x\n", "x", "y", "\n\r\n\n y\n"},
		{"byte order mark", "", bom8 + "one\ntwo\n", "one", "1", bom8 + "1\ntwo\n"},
		{"byte order mark and crlf", "utf-8", bom8 + "one\r\ntwo", "two", "2", bom8 + "one\r\n2"},
		{"bytes that are no text, elsewhere", "", "a\xff\xfe\x00b\none\n\xc3(\n", "one", "1", "a\xff\xfe\x00b\n1\n\xc3(\n"},
		{"half a character at the end", "", "one\n\xe2\x82", "one", "1", "1\n\xe2\x82"},
		{"zero bytes", "", "a\x00b\none\n", "one", "1", "a\x00b\n1\n"},
		{"decomposed letters", "", "cafe\u0301\none\ncafé\n", "one", "1", "cafe\u0301\n1\ncafé\n"},
		{"latin-1", "latin-1", "caf\xe9\none\n\xa4\x80\n", "one", "für", "caf\xe9\nf\xfcr\n\xa4\x80\n"},
		{"windows-1252", "windows-1252", "\x93one\x94\r\ntwo\x85\r\n", "one", "€", "\x93\x80\x94\r\ntwo\x85\r\n"},
		{"utf-16 with mark", "utf-16", bom16 + utf16le("one\r\ntwo\r\n"), "two", "zwei", bom16 + utf16le("one\r\nzwei\r\n")},
		{"utf-16 without mark", "utf-16le", utf16le("one\ntwo"), "one", "1", utf16le("1\ntwo")},
		{"utf-16 with half a pair elsewhere", "utf-16le", utf16le("one\n") + "\x00\xd8" + utf16le("\ntwo\n"), "two", "2", utf16le("one\n") + "\x00\xd8" + utf16le("\n2\n")},
		{"shift-jis", "shift_jis", "\x82\xa0\\\none\n\x83\x5c\n", "one", "1", "\x82\xa0\\\n1\n\x83\x5c\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, ctx := fresh(t), t.Context()
			path := filepath.Join(p.root, "f")
			if err := os.WriteFile(path, []byte(c.before), 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := p.Update(ctx, files.UpdateRequest{
				Path: "f", ExpectedHash: p.hash(t, "f"), Encoding: c.encoding, Patches: []files.Patch{{OldString: c.old, NewString: c.with}},
			})
			if err != nil || out.Done == nil {
				t.Fatalf("Update = %+v, %v", out, err)
			}
			if got, _ := os.ReadFile(path); string(got) != c.after {
				t.Errorf("got  %q\nwant %q", got, c.after)
			}
		})
	}
}

// TestWhatIsReadCanBeWrittenBack sends the text of a file back as its new content.
func TestWhatIsReadCanBeWrittenBack(t *testing.T) {
	for _, c := range []struct{ encoding, raw string }{
		{"", "one\r\ntwo\nthree\r"},
		{"", bom8 + "one\n"},
		{"", bom8},
		{"", ""},
		{"latin-1", "caf\xe9\r\n"},
		{"utf-16", bom16 + utf16le("one\r\ntwo")},
		{"utf-16le", utf16le("one\n")},
		{"utf-16be", "\x00o\x00\n"},
	} {
		p, ctx := fresh(t), t.Context()
		path := filepath.Join(p.root, "f")
		if err := os.WriteFile(path, []byte(c.raw), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := p.Read(ctx, files.ReadRequest{Path: "f", Encoding: c.encoding})
		if err != nil {
			t.Errorf("%q as %s: %v", c.raw, c.encoding, err)
			continue
		}
		if _, err := p.Update(ctx, files.UpdateRequest{Path: "f", ExpectedHash: r.Hash, Encoding: c.encoding, Content: &r.Content}); err != nil {
			t.Errorf("%q as %s: %v", c.raw, c.encoding, err)
		}
		if got, _ := os.ReadFile(path); string(got) != c.raw {
			t.Errorf("as %s: got %q, want %q", c.encoding, got, c.raw)
		}
	}
}

// TestAppendFitsWhatIsThere adds to texts of several kinds, in place.
func TestAppendFitsWhatIsThere(t *testing.T) {
	for _, c := range []struct {
		name, encoding string
		before         string
		separator, add string
		after          string
		bytes          int64
	}{
		{"plain", "", "one\n", "", "two\n", "one\ntwo\n", 4},
		{"no final line end", "", "one", "\n", "two", "one\ntwo", 4},
		{"crlf stays", "", "one\r\n", "", "two\r\n", "one\r\ntwo\r\n", 5},
		{"byte order mark", "", bom8 + "one", "", "€", bom8 + "one€", 3},
		{"bytes that are no text", "", "\xff\xfe\x00", "", "x", "\xff\xfe\x00x", 1},
		{"latin-1", "latin-1", "caf\xe9", " ", "für", "caf\xe9 f\xfcr", 4},
		{"utf-16 with mark", "utf-16", bom16 + utf16le("one"), "", "two", bom16 + utf16le("onetwo"), 6},
		{"utf-16 without mark", "utf-16le", utf16le("one"), "", "two", utf16le("onetwo"), 6},
		{"utf-16, big end first", "utf-16", "\xfe\xff\x00o", "", "k", "\xfe\xff\x00o\x00k", 2},
		{"utf-8-sig", "utf-8-sig", bom8 + "one", "", "two", bom8 + "onetwo", 3},
		{"utf-16, an empty file", "utf-16", "", "", "k", bom16 + "k\x00", 4},
		{"nothing", "", "one", "", "", "one", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := fresh(t)
			path := filepath.Join(p.root, "f")
			if err := os.WriteFile(path, []byte(c.before), 0o644); err != nil {
				t.Fatal(err)
			}
			a, err := p.Append(t.Context(), files.AppendRequest{Path: "f", Separator: c.separator, Content: c.add, Encoding: c.encoding})
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := os.ReadFile(path); string(got) != c.after {
				t.Errorf("got  %q\nwant %q", got, c.after)
			}
			if a.BytesAppended != c.bytes || a.TotalSizeBytes != int64(len(c.after)) {
				t.Errorf("%d bytes appended, %d in all; want %d, %d", a.BytesAppended, a.TotalSizeBytes, c.bytes, len(c.after))
			}
		})
	}
}

// TestWhatAnEncodingCannotSayChangesNothing refuses before a byte is written.
func TestWhatAnEncodingCannotSayChangesNothing(t *testing.T) {
	p, ctx := fresh(t), t.Context()
	path := filepath.Join(p.root, "f")
	const raw = "caf\xe9\none\n"
	if err := os.WriteFile(path, []byte(raw), 0o644); err != nil {
		t.Fatal(err)
	}
	h, euro := p.hash(t, "f"), "€"
	_, byContent := p.Update(ctx, files.UpdateRequest{Path: "f", ExpectedHash: h, Encoding: "latin-1", Content: &euro})
	_, byPatch := p.Update(ctx, files.UpdateRequest{Path: "f", ExpectedHash: h, Encoding: "latin-1", Patches: []files.Patch{{OldString: "one", NewString: euro}}})
	_, byAppend := p.Append(ctx, files.AppendRequest{Path: "f", Content: euro, Encoding: "latin-1"})
	_, byWrite := p.Write(ctx, files.WriteRequest{Path: "g", Content: euro, Encoding: "latin-1"})
	for name, err := range map[string]error{"content": byContent, "patch": byPatch, "append": byAppend, "write": byWrite} {
		if fault.CodeOf(err) != fault.EncodingError {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, _ := os.ReadFile(path); string(got) != raw {
		t.Errorf("the file is now %q", got)
	}
}
