package encoding_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/async-crud-mcp/async-crud-mcp/internal/files/encoding"
)

func lookup(t testing.TB, name string) *encoding.Encoding {
	t.Helper()
	e, err := encoding.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestLookupKnowsManySpellings(t *testing.T) {
	for name, want := range map[string]string{
		"utf-8": "utf-8", "UTF8": "utf-8", "utf_8": "utf-8", "U8": "utf-8", "utf-8-sig": "utf-8-sig", "utf_8_sig": "utf-8-sig",
		"utf-16": "utf-16", "utf_16_le": "utf-16le", "UTF-16BE": "utf-16be", "utf-16-le": "utf-16le",
		"latin-1": "iso-8859-1", "latin1": "iso-8859-1", "ISO_8859-1": "iso-8859-1", "iso8859-15": "iso-8859-15", "Latin-9": "iso-8859-15",
		"cp1252": "windows-1252", "windows-1251": "windows-1251", "Windows 1250": "windows-1250",
		"shift-jis": "shift_jis", "SJIS": "shift_jis", "cp932": "shift_jis", "euc_jp": "euc-jp", "gb2312": "gbk", "GB18030": "gb18030",
		"big5": "big5", "euc_kr": "euc-kr", "cp949": "euc-kr", "koi8_r": "koi8-r", "us-ascii": "ascii", "cp437": "cp437", "mac-roman": "macintosh",
	} {
		if e, err := encoding.Lookup(name); err != nil || e.Name() != want {
			t.Errorf("Lookup(%q) = %v, %v; want %s", name, e, err, want)
		}
	}
}

func TestLookupSuggests(t *testing.T) {
	for name, want := range map[string]string{
		"utf-9": "did you mean utf-8", "windows-1259": "did you mean windows-125", "shift_jsi": "did you mean shift_jis", "": "not a known encoding", "iso-2022-jp": "not a known encoding",
	} {
		_, err := encoding.Lookup(name)
		if !errors.Is(err, encoding.ErrEncoding) || !strings.Contains(err.Error(), want) {
			t.Errorf("Lookup(%q) = %v, want %q", name, err, want)
		}
	}
}

func TestDecodeAndEncode(t *testing.T) {
	tests := []struct{ name, bytes, text string }{
		{"utf-8", "a\xc3\xa4\r\n", "aä\r\n"},
		{"utf-8-sig", "\xef\xbb\xbfa", "a"},
		{"utf-16", "\xff\xfea\x00\x3d\xd8\x00\xde", "a😀"},
		{"utf-16le", "a\x00\xac\x20", "a€"},
		{"utf-16be", "\x00a\x20\xac", "a€"},
		{"latin-1", "a\xe4\x80", "aä\u0080"},
		{"windows-1252", "a\xe4\x80", "aä€"},
		{"iso-8859-15", "\xa4", "€"},
		{"windows-1251", "\xcf\xf0", "Пр"},
		{"koi8-r", "\xf0\xd2", "Пр"},
		{"cp437", "\x81", "ü"},
		{"ascii", "abc\x00", "abc\x00"},
		{"shift_jis", "\x93\xfa\x96\x7b\xb1\\", "日本ｱ\\"},
		{"euc-jp", "\xc6\xfc\xcb\xdc", "日本"},
		{"gbk", "\xc8\xd5\xb1\xbe", "日本"},
		{"gb18030", "\xc8\xd5\x94\x39\xfc\x36\x84\x31\xa4\x37", "日😀\ufffd"},
		{"big5", "\xa4\xe9\xa5\xbb", "日本"},
		{"euc-kr", "\xc7\xd1", "한"},
	}
	for _, tt := range tests {
		e := lookup(t, tt.name)
		if got, err := e.Decode([]byte(tt.bytes)); err != nil || got != tt.text {
			t.Errorf("%s: Decode = %q, %v; want %q", tt.name, got, err, tt.text)
		}
		if got, err := e.Encode(tt.text); err != nil || string(got) != tt.bytes {
			t.Errorf("%s: Encode = %q, %v; want %q", tt.name, got, err, tt.bytes)
		}
	}
}

func TestMarksStayOutOfTheText(t *testing.T) {
	tests := []struct{ name, bytes, text, replaced string }{
		{"utf-8", "\xef\xbb\xbfab", "ab", "\xef\xbb\xbfX"},
		{"utf-8-sig", "ab", "ab", "X"},
		{"utf-16", "\xfe\xff\x00a", "a", "\xfe\xff\x00X"},
		{"utf-16", "a\x00", "a", "X\x00"},
		{"utf-16", "", "", "\xff\xfeX\x00"},
		{"utf-16le", "\xff\xfea\x00", "a", "\xff\xfeX\x00"},
		{"utf-16be", "\xfe\xff\x00a", "a", "\xfe\xff\x00X"},
		{"utf-8", "\xef\xbb\xbf", "", "\xef\xbb\xbfX"},
		{"utf-8-sig", "", "", "\xef\xbb\xbfX"},
		{"latin-1", "\xef\xbb\xbfa", "ï»¿a", "X"},
	}
	for _, tt := range tests {
		v := lookup(t, tt.name).View([]byte(tt.bytes))
		if got, err := v.Text(); err != nil || got != tt.text {
			t.Errorf("%s of %q: Text = %q, %v; want %q", tt.name, tt.bytes, got, err, tt.text)
		}
		if got, err := v.Replace("X"); err != nil || string(got) != tt.replaced {
			t.Errorf("%s of %q: Replace = %q, %v; want %q", tt.name, tt.bytes, got, err, tt.replaced)
		}
	}
	for _, raw := range []string{"\xef\xbb\xbfab", ""} {
		got, err := lookup(t, "utf-8-sig").View([]byte(raw)).Replace("\ufeffX")
		if err != nil || string(got) != "\xef\xbb\xbfX" {
			t.Errorf("a mark in the new text of %q gives %q, %v; want one mark", raw, got, err)
		}
	}
}

func TestAppendFollowsTheByteOrderOfTheFile(t *testing.T) {
	got, err := lookup(t, "utf-16").View([]byte("\xfe\xff")).Encode("a")
	if err != nil || string(got) != "\x00a" {
		t.Errorf("Encode = %q, %v; want big-endian without a mark", got, err)
	}
}

func TestDecodeErrorsSayWhere(t *testing.T) {
	tests := []struct {
		name, bytes  string
		offset, line int
		hint         string
	}{
		{"utf-8", "ab\ncd\xff\n", 5, 2, "name the encoding"},
		{"utf-8", "\xef\xbb\xbfa\n\xc3", 5, 2, ""},
		{"utf-8", "\xff\xfea\x00", 0, 1, "utf-16"},
		{"utf-8", "a\x00\xff", 2, 1, "binary"},
		{"ascii", "a\n\n\xc3\xa4", 3, 3, "valid utf-8"},
		{"iso-8859-8", "a\xa1", 1, 1, ""},
		{"utf-16le", "a\x00\n\x00\x00\xd8a\x00", 4, 2, ""},
		{"utf-16le", "a\x00b", 2, 1, ""},
		{"utf-16be", "\xdc\x00", 0, 1, ""},
		{"shift_jis", "a\x81", 1, 1, ""},
		{"shift_jis", "\x93\xfa\x81\x20", 2, 1, ""},
		{"gbk", "\n\xc8\xff", 1, 2, ""},
		{"gb18030", "\x84\x31\xa4\x37\x84\x31\xa4", 4, 1, ""},
		{"big5", "\xff", 0, 1, ""},
	}
	for _, tt := range tests {
		_, err := lookup(t, tt.name).Decode([]byte(tt.bytes))
		e, ok := errors.AsType[*encoding.DecodeError](err)
		if !ok || !errors.Is(err, encoding.ErrEncoding) {
			t.Errorf("%s: Decode(%q) = %v, want a DecodeError", tt.name, tt.bytes, err)
			continue
		}
		if e.Offset != tt.offset || e.Line != tt.line || e.Byte != tt.bytes[tt.offset] || !strings.Contains(err.Error(), tt.hint) {
			t.Errorf("%s: Decode(%q) = %v, want offset %d, line %d, %q", tt.name, tt.bytes, err, tt.offset, tt.line, tt.hint)
		}
	}
}

func TestEncodeErrorsSayWhat(t *testing.T) {
	tests := []struct {
		name, text   string
		r            rune
		offset, line int
	}{
		{"ascii", "a\nä", 'ä', 2, 2},
		{"latin-1", "ab€", '€', 2, 1},
		{"shift_jis", "日\n한", '한', 4, 2},
		{"shift_jis", "¥", '¥', 0, 1}, // not as a backslash
		{"euc-kr", "a\ufffd", '\ufffd', 1, 1},
		{"utf-8", "a\n\xff", -1, 2, 2},
		{"utf-16", "\xed\xb2\x80", -1, 0, 1},
	}
	for _, tt := range tests {
		_, err := lookup(t, tt.name).Encode(tt.text)
		e, ok := errors.AsType[*encoding.EncodeError](err)
		if !ok || !errors.Is(err, encoding.ErrEncoding) || e.Rune != tt.r || e.Offset != tt.offset || e.Line != tt.line {
			t.Errorf("%s: Encode(%q) = %#v, want %q at %d, line %d", tt.name, tt.text, err, tt.r, tt.offset, tt.line)
		}
		if strings.Contains(fmt.Sprint(err), "%!") {
			t.Errorf("bad message: %v", err)
		}
	}
}

func TestEditLeavesUnsoundBytesElsewhereAlone(t *testing.T) {
	tests := []struct{ name, before, old, with, after string }{
		{"utf-8", "\xff\xfe one \x80\r\ntwo", "one", "één", "\xff\xfe \xc3\xa9\xc3\xa9n \x80\r\ntwo"},
		{"utf-8", "\xef\xbb\xbfone\xc3", "one", "", "\xef\xbb\xbf\xc3"},
		{"ascii", "\xc3\xa4 one", "one", "two", "\xc3\xa4 two"},
		{"shift_jis", "\x81\x20\x93\xfa\x96\x7b", "日", "本", "\x81\x20\x96\x7b\x96\x7b"},
		{"shift_jis", "\x87\x90\x81\xe0 a", "a", "b", "\x87\x90\x81\xe0 b"}, // two spellings of one character
		{"utf-16le", "\x00\xd8a\x00b", "a", "ä", "\x00\xd8\xe4\x00b"},
		{"iso-8859-8", "\xa1 x", "x", "א", "\xa1 \xe0"},
	}
	for _, tt := range tests {
		v := lookup(t, tt.name).View([]byte(tt.before))
		places := v.Find(tt.old)
		if len(places) != 1 {
			t.Errorf("%s: Find(%q in %q) = %v", tt.name, tt.old, tt.before, places)
			continue
		}
		got, err := v.Splice(encoding.Edit{Span: places[0], Text: tt.with})
		if err != nil || string(got) != tt.after {
			t.Errorf("%s: Splice = %q, %v; want %q", tt.name, got, err, tt.after)
		}
	}
}

func TestFindStaysOnCharacterBorders(t *testing.T) {
	tests := []struct {
		name, bytes, needle string
		want                int
	}{
		{"shift_jis", "\x95\x5c \\", "\\", 1},         // 0x5c is also half of 表
		{"gbk", "\x81\x7c|", "|", 1},                  // and 0x7c of 亅
		{"euc-jp", "\xc6\xfc\xcb\xdc", "\u8e8c", 0},   // fccb across two characters
		{"utf-16le", "a\x62\x00\x61\x62\x00", "a", 0}, // 0x61 as the high half
		{"big5", "\x88\x62x", "\u00ca", 0},            // one character of the file, two of text
		{"big5", "\x88\x62x", "\u00ca\u0304", 1},
		{"utf-8", "ää", "ä", 2},
		{"utf-8", "aaa", "aa", 1},
		{"utf-8", "a", "", 0},
	}
	for _, tt := range tests {
		if got := lookup(t, tt.name).View([]byte(tt.bytes)).Find(tt.needle); len(got) != tt.want {
			t.Errorf("%s: Find(%q in %q) = %v, want %d", tt.name, tt.needle, tt.bytes, got, tt.want)
		}
	}
}

func TestSpliceRefusesWhatSplits(t *testing.T) {
	at := func(start, end int) encoding.Edit { return encoding.Edit{Span: encoding.Span{Start: start, End: end}} }
	tests := []struct {
		name, bytes string
		edits       []encoding.Edit
	}{
		{"utf-8", "ä", []encoding.Edit{at(1, 2)}},
		{"utf-8", "😀", []encoding.Edit{at(0, 3)}},
		{"utf-8", "abc", []encoding.Edit{at(0, 2), at(1, 3)}},
		{"utf-8", "abc", []encoding.Edit{at(2, 4)}},
		{"utf-8", "abc", []encoding.Edit{at(2, 1)}},
		{"utf-8", "abc", []encoding.Edit{at(-1, 1)}},
		{"latin-1", "\xe4", []encoding.Edit{at(1, 2)}},
		{"big5", "\x88\x62", []encoding.Edit{at(0, 2)}},
	}
	for _, tt := range tests {
		if got, err := lookup(t, tt.name).View([]byte(tt.bytes)).Splice(tt.edits...); !errors.Is(err, encoding.ErrSplit) {
			t.Errorf("%s: Splice(%q, %v) = %q, %v; want ErrSplit", tt.name, tt.bytes, tt.edits, got, err)
		}
	}
	v := lookup(t, "utf-8").View([]byte("a\xc3\xffb"))
	if got, err := v.Splice(at(2, 3)); err != nil || string(got) != "a\xc3b" {
		t.Errorf("Splice between unsound bytes = %q, %v", got, err)
	}
}

func TestSpliceTakesEditsInAnyOrder(t *testing.T) {
	v := lookup(t, "utf-16").View(nil)
	got, err := v.Splice(encoding.Edit{Text: "a"}, encoding.Edit{Text: "b"})
	if err != nil || string(got) != "\xff\xfea\x00b\x00" {
		t.Errorf("two edits of an empty file = %q, %v; want one mark", got, err)
	}
	v = lookup(t, "latin-1").View([]byte("\xe4bc"))
	got, err = v.Splice(encoding.Edit{Span: encoding.Span{Start: 3, End: 4}, Text: "ö"}, encoding.Edit{Span: encoding.Span{Start: 0, End: 2}, Text: "x"})
	if err != nil || string(got) != "xb\xf6" {
		t.Errorf("Splice = %q, %v", got, err)
	}
}

func TestReplaceKeepsCommonLines(t *testing.T) {
	// 0x8790 and 0x81e0 are both ≒; only one of them is written anew.
	v := lookup(t, "shift_jis").View([]byte("\x87\x90\na\n\x87\x90\n"))
	got, err := v.Replace("≒\nb\n≒\n")
	if err != nil || string(got) != "\x87\x90\nb\n\x87\x90\n" {
		t.Errorf("Replace = %q, %v", got, err)
	}
}

// sound draws text that an encoding can hold.
func sound(e *encoding.Encoding) *rapid.Generator[string] {
	runes := []rune("ab \n\r\tzé€ßЖא日本한語ｱ😀\u0304\ufeff\ufffd\u0080")
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		for _, r := range rapid.SliceOfN(rapid.SampledFrom(runes), 0, 40).Draw(t, "runes") {
			if r == '\ufeff' && b.Len() == 0 {
				continue
			}
			if _, err := e.Encode("x" + string(r)); err == nil {
				b.WriteRune(r)
			}
		}
		return b.String()
	})
}

func TestDecodeAfterEncodeIsTheText(t *testing.T) {
	for _, name := range encoding.Names() {
		e := lookup(t, name)
		rapid.Check(t, func(t *rapid.T) {
			text := sound(e).Draw(t, "text")
			b, err := e.Encode(text)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := e.Decode(b); err != nil || got != text {
				t.Fatalf("%s: %q came back as %q, %v", name, text, got, err)
			}
		})
	}
}

// Whatever the bytes: an edit changes those of its span and no other.
func checkView(t interface{ Fatalf(string, ...any) }, name string, raw []byte, start, end uint, with string) {
	e, err := encoding.Lookup(name)
	if err != nil {
		return
	}
	v := e.View(raw)
	loose := v.Loose()
	text, err := v.Text()
	if (err == nil) != utf8.ValidString(loose) || err == nil && text != loose {
		t.Fatalf("%s of %q: Text = %q, %v; Loose = %q", name, raw, text, err, loose)
	}
	if decErr, ok := errors.AsType[*encoding.DecodeError](err); ok && (decErr.Offset >= len(raw) || decErr.Line < 1) {
		t.Fatalf("%s of %q: %v", name, raw, err)
	}
	if got, err := v.Splice(); err != nil || !bytes.Equal(got, raw) {
		t.Fatalf("%s of %q: no edit gives %q, %v", name, raw, got, err)
	}
	span := encoding.Span{Start: int(start % uint(len(loose)+1)), End: int(end % uint(len(loose)+1))}
	if span.End < span.Start {
		span.Start, span.End = span.End, span.Start
	}
	cut, err := v.Splice(encoding.Edit{Span: span})
	if err != nil {
		return
	}
	// What was cut out is one piece.
	head := 0
	for head < len(cut) && cut[head] == raw[head] {
		head++
	}
	if !bytes.HasSuffix(raw, cut[head:]) {
		t.Fatalf("%s of %q: cutting %v gives %q", name, raw, span, cut)
	}
	got, err := v.Splice(encoding.Edit{Span: span, Text: with})
	if err != nil {
		return
	}
	inserted, _ := v.Encode(with)
	if len(got) != len(cut)+len(inserted) {
		t.Fatalf("%s of %q: putting %q for %v gives %q", name, raw, with, span, got)
	}
	ok := false // it is the cut with one insertion
	for i := 0; i <= len(cut) && !ok; i++ {
		ok = bytes.Equal(got, slices.Concat(cut[:i], inserted, cut[i:]))
	}
	if !ok {
		t.Fatalf("%s of %q: putting %q for %v gives %q", name, raw, with, span, got)
	}
	for _, s := range v.Find(with) {
		if loose[s.Start:s.End] != with {
			t.Fatalf("Find(%q) = %v", with, s)
		}
	}
	if whole, err := v.Replace(with); err == nil {
		back, err := e.View(whole).Text()
		// A mark at the start of the text may become the mark of the file.
		if want := strings.TrimLeft(with, "\ufeff"); err != nil || strings.TrimLeft(back, "\ufeff") != want {
			t.Fatalf("%s of %q: Replace(%q) reads %q, %v", name, raw, with, back, err)
		}
	}
}

func TestEditsTouchNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkView(t, rapid.SampledFrom(encoding.Names()).Draw(t, "name"), rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "raw"),
			rapid.Uint().Draw(t, "start"), rapid.Uint().Draw(t, "end"), rapid.String().Draw(t, "with"))
	})
}

func FuzzView(f *testing.F) {
	for _, name := range encoding.Names() {
		f.Add(name, []byte("a\r\n\x81\x40\xff\xfe\xc3\xa4\xd8\x00"), uint(1), uint(4), "日ä\n")
	}
	f.Fuzz(func(t *testing.T, name string, raw []byte, start, end uint, with string) {
		if len(raw) < 500 && len(with) < 500 {
			checkView(t, name, raw, start, end, with)
		}
	})
}

func BenchmarkView(b *testing.B) {
	text := strings.Repeat("func main() { return héllo } // ünïcode\r\n", 25_000)
	for _, name := range []string{"utf-8", "utf-16", "latin-1", "gb18030"} {
		e := lookup(b, name)
		raw, err := e.Encode(text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/decode=1MB", func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				e.View(raw)
			}
		})
		v := e.View(raw)
		mid := strings.Index(v.Loose()[len(text)/2:], "main") + len(text)/2
		b.Run(name+"/splice=1MB", func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Splice(encoding.Edit{Span: encoding.Span{Start: mid, End: mid + 4}, Text: "other"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
