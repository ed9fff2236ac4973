package encoding

import (
	"encoding/binary"
	"strings"
	"sync"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// Byte order marks.
const (
	mark8  = "\xef\xbb\xbf"
	markLE = "\xff\xfe"
	markBE = "\xfe\xff"
)

type encodings struct {
	names  []string
	byName map[string]*Encoding // by plain name
}

// table is every encoding, made when first asked for.
var table = sync.OnceValue(func() *encodings {
	t := &encodings{byName: make(map[string]*Encoding)}
	little, big := utf16Codec{binary.LittleEndian}, utf16Codec{binary.BigEndian}
	sign8 := []mark{{mark8, utf8Codec{}}}
	t.add(Encoding{name: "utf-8", marks: sign8, codec: utf8Codec{}}, "u8 utf cp65001")
	t.add(Encoding{name: "utf-8-sig", marks: sign8, codec: utf8Codec{}, begins: mark8}, "utf8bom")
	// Without a mark it is little-endian, as on the web and on most machines.
	t.add(Encoding{name: "utf-16", marks: []mark{{markLE, little}, {markBE, big}}, codec: little, begins: markLE}, "u16 ucs2 unicode")
	t.add(Encoding{name: "utf-16le", marks: []mark{{markLE, little}}, codec: little}, "ucs2le")
	t.add(Encoding{name: "utf-16be", marks: []mark{{markBE, big}}, codec: big}, "ucs2be")
	t.add(Encoding{name: "ascii", codec: newByteCodec(nil)}, "usascii 646 iso646us ansix3.41968")
	for _, m := range []struct {
		name    string
		charmap *charmap.Charmap
		aliases string
	}{
		{"iso-8859-1", charmap.ISO8859_1, "latin1 latin l1 cp819 ibm819"},
		{"iso-8859-2", charmap.ISO8859_2, "latin2 l2"},
		{"iso-8859-3", charmap.ISO8859_3, "latin3 l3"},
		{"iso-8859-4", charmap.ISO8859_4, "latin4 l4"},
		{"iso-8859-5", charmap.ISO8859_5, "cyrillic"},
		{"iso-8859-6", charmap.ISO8859_6, "arabic"},
		{"iso-8859-7", charmap.ISO8859_7, "greek greek8"},
		{"iso-8859-8", charmap.ISO8859_8, "hebrew"},
		{"iso-8859-9", charmap.ISO8859_9, "latin5 l5"},
		{"iso-8859-10", charmap.ISO8859_10, "latin6 l6"},
		{"iso-8859-13", charmap.ISO8859_13, "latin7 l7"},
		{"iso-8859-14", charmap.ISO8859_14, "latin8 l8"},
		{"iso-8859-15", charmap.ISO8859_15, "latin9 l9"},
		{"iso-8859-16", charmap.ISO8859_16, "latin10 l10"},
		{"windows-874", charmap.Windows874, "cp874"},
		{"windows-1250", charmap.Windows1250, "cp1250 win1250"},
		{"windows-1251", charmap.Windows1251, "cp1251 win1251"},
		{"windows-1252", charmap.Windows1252, "cp1252 win1252 ansi"},
		{"windows-1253", charmap.Windows1253, "cp1253 win1253"},
		{"windows-1254", charmap.Windows1254, "cp1254 win1254"},
		{"windows-1255", charmap.Windows1255, "cp1255 win1255"},
		{"windows-1256", charmap.Windows1256, "cp1256 win1256"},
		{"windows-1257", charmap.Windows1257, "cp1257 win1257"},
		{"windows-1258", charmap.Windows1258, "cp1258 win1258"},
		{"cp437", charmap.CodePage437, "ibm437 437"},
		{"cp850", charmap.CodePage850, "ibm850 850"},
		{"cp852", charmap.CodePage852, "ibm852 852"},
		{"cp855", charmap.CodePage855, "ibm855 855"},
		{"cp858", charmap.CodePage858, "ibm858 858"},
		{"cp866", charmap.CodePage866, "ibm866 866"},
		{"koi8-r", charmap.KOI8R, "cskoi8r"},
		{"koi8-u", charmap.KOI8U, ""},
		{"macintosh", charmap.Macintosh, "macroman mac"},
		{"x-mac-cyrillic", charmap.MacintoshCyrillic, "maccyrillic"},
	} {
		t.add(Encoding{name: m.name, codec: newByteCodec(m.charmap)}, m.aliases)
	}
	t.add(Encoding{name: "shift_jis", codec: newWideCodec(japanese.ShiftJIS)}, "sjis shiftjis mskanji cp932 932 ms932 windows31j csshiftjis")
	t.add(Encoding{name: "euc-jp", codec: newWideCodec(japanese.EUCJP)}, "ujis")
	t.add(Encoding{name: "gbk", codec: newWideCodec(simplifiedchinese.GBK)}, "cp936 936 ms936 gb2312 euccn chinese")
	t.add(Encoding{name: "gb18030", codec: newWideCodec(simplifiedchinese.GB18030)}, "gb180302000")
	t.add(Encoding{name: "big5", codec: newWideCodec(traditionalchinese.Big5)}, "big5tw cp950 950 big5hkscs csbig5")
	t.add(Encoding{name: "euc-kr", codec: newWideCodec(korean.EUCKR)}, "korean ksc5601 ksx1001 cp949 949 ms949 uhc")
	return t
})

func (t *encodings) add(e Encoding, aliases string) {
	t.names = append(t.names, e.name)
	for _, name := range append(strings.Fields(aliases), plain(e.name)) {
		t.byName[name] = &e
	}
}
