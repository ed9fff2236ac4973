package access_test

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
)

func content(t testing.TB, rules ...access.ContentRule) *access.Content {
	t.Helper()
	c, err := access.NewContent(rules)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func redact(name, pattern string, priority int) access.ContentRule {
	return access.ContentRule{Name: name, Pattern: pattern, Action: "redact", Priority: priority}
}

func deny(name, pattern string, priority int) access.ContentRule {
	return access.ContentRule{Name: name, Pattern: pattern, Action: "deny", Priority: priority}
}

func TestScanRedacts(t *testing.T) {
	tests := []struct {
		name  string
		rules []access.ContentRule
		text  string
		want  string
	}{
		{"no rules", nil, "key=1", "key=1"},
		{"no hit", []access.ContentRule{redact("k", `key=\w+`, 0)}, "nothing", "nothing"},
		{"each hit", []access.ContentRule{redact("k", `\d+`, 0)}, "a1b22c", "a[[REDACTED:k]]b[[REDACTED:k]]c"},
		{"hits that touch", []access.ContentRule{redact("k", `\d`, 0)}, "a123b", "a[[REDACTED:k]]b"},
		{"lines stay lines", []access.ContentRule{redact("pem", `(?s)BEGIN.*?END`, 0)}, "x BEGIN\r\nab\r\n\r\nEND y\r\n", "x [[REDACTED:pem]]\r\n[[REDACTED:pem]]\r\n\r\n[[REDACTED:pem]] y\r\n"},
		{"a hit that ends its line", []access.ContentRule{redact("k", `key.*\n`, 0)}, "key 1\nb", "[[REDACTED:k]]\nb"},
		{"half a line end", []access.ContentRule{redact("k", `key.*`, 0)}, "key 1\r\nb", "[[REDACTED:k]]\r\nb"},
		{"only line ends", []access.ContentRule{redact("k", `\n\n`, 0)}, "a\n\nb", "a\n\nb"},
		{"overlap goes to the higher priority", []access.ContentRule{redact("low", `bcd`, 1), redact("high", `abc`, 2)}, "xabcdx", "x[[REDACTED:high]]x"},
		{"overlap from the left", []access.ContentRule{redact("high", `bcd`, 2), redact("low", `abc`, 1)}, "xabcdx", "x[[REDACTED:high]]x"},
		{"one hit over two", []access.ContentRule{redact("high", `[ac]`, 2), redact("low", `abc`, 1)}, "xabcx", "x[[REDACTED:high]]x"},
		{"different rules side by side", []access.ContentRule{redact("a", `a`, 2), redact("b", `b`, 1)}, "ab", "[[REDACTED:a]][[REDACTED:b]]"},
		{"names are made safe", []access.ContentRule{redact("a]] b/ä", `x`, 0)}, "x", "[[REDACTED:a---b--]]"},
		{"without a name", []access.ContentRule{redact("", `x`, 0)}, "x", "[[REDACTED:rule-1]]"},
		{"look-behind", []access.ContentRule{redact("pw", `(?<=password: )\S+`, 0)}, "password: hunter2\n", "password: [[REDACTED:pw]]\n"},
		{"broken text", []access.ContentRule{redact("k", `key`, 0)}, "\xffkey\xfe", "\xff[[REDACTED:k]]\xfe"},
	}
	for _, tt := range tests {
		v := content(t, tt.rules...).Scan(tt.text)
		if v.Denied != nil || v.Text != tt.want {
			t.Errorf("%s: Scan(%q) = %q, %+v; want %q", tt.name, tt.text, v.Text, v.Denied, tt.want)
		}
		if strings.Count(v.Text, "\n") != strings.Count(tt.text, "\n") {
			t.Errorf("%s: lines were lost: %q", tt.name, v.Text)
		}
	}
}

func TestVerdictSaysWhatIsHidden(t *testing.T) {
	c := content(t, redact("key", `key=\d+`, 0), redact("pem", `(?s)BEGIN.*?END\n`, 0))
	v := c.Scan("a\nkey=1 key=22\nBEGIN\nx\nEND\nlast")
	want := []access.Hidden{
		{Start: 2, End: 7, Rule: "key", Line: 2, Lines: 1},
		{Start: 8, End: 14, Rule: "key", Line: 2, Lines: 1},
		{Start: 15, End: 27, Rule: "pem", Line: 3, Lines: 3},
	}
	if !reflect.DeepEqual(v.Hidden, want) {
		t.Errorf("Hidden = %+v, want %+v", v.Hidden, want)
	}
	for _, tt := range []struct {
		start, end int
		want       bool
	}{
		{0, 2, false},
		{2, 2, false},
		{3, 3, true},
		{7, 8, false},
		{7, 9, true},
		{0, 31, true},
		{6, 7, true},
		{27, 31, false},
		{31, 31, false},
	} {
		if got := v.Touches(tt.start, tt.end); got != tt.want {
			t.Errorf("Touches(%d, %d) = %v, want %v", tt.start, tt.end, got, tt.want)
		}
	}
}

func TestScanDenies(t *testing.T) {
	tests := []struct {
		name  string
		rules []access.ContentRule
		text  string
		rule  string // "" if it is not denied
		line  int
	}{
		{"a hit", []access.ContentRule{deny("no", `secret`, 0)}, "a\nb secret\nsecret", "no", 2},
		{"no hit", []access.ContentRule{deny("no", `secret`, 0)}, "a", "", 0},
		{"the highest priority names it", []access.ContentRule{deny("low", `a`, 0), deny("high", `b`, 1)}, "a\nb", "high", 2},
		{"deny wins ties", []access.ContentRule{redact("hide", `secret`, 5), deny("no", `secret`, 5)}, "secret", "no", 1},
		{"hidden by a higher rule", []access.ContentRule{redact("hide", `BEGIN.*END`, 6), deny("no", `secret`, 5)}, "BEGIN secret END", "", 0},
		{"partly hidden", []access.ContentRule{redact("hide", `sec`, 6), deny("no", `secret`, 5)}, "secret", "no", 1},
		{"hidden by two together", []access.ContentRule{redact("a", `sec`, 6), redact("b", `ret`, 6), deny("no", `secret`, 5)}, "secret", "", 0},
		{"hidden here, not there", []access.ContentRule{redact("hide", `BEGIN.*END`, 6), deny("no", `secret`, 5)}, "BEGIN secret END\nsecret", "no", 2},
		{"a lower rule hides too late", []access.ContentRule{redact("hide", `secret`, 4), deny("no", `secret`, 5)}, "secret", "no", 1},
		{"a pattern without end", []access.ContentRule{redact("slow", `(?=s)secret(?:(a+)+)+\1x`, 0)}, "secret" + strings.Repeat("a", 40), "slow", 0},
		{"too many places", []access.ContentRule{redact("all", `a\b`, 0)}, strings.Repeat("a ", 60_000), "all", 0},
		{"too many lines", []access.ContentRule{redact("all", `(?s)B.*E`, 0)}, "B" + strings.Repeat("x\n", 60_000) + "E", "all", 0},
	}
	for _, tt := range tests {
		v := content(t, tt.rules...).Scan(tt.text)
		switch {
		case tt.rule == "":
			if v.Denied != nil {
				t.Errorf("%s: Scan(%.40q) is denied: %+v", tt.name, tt.text, v.Denied)
			}
		case v.Denied == nil:
			t.Errorf("%s: Scan(%.40q) is not denied", tt.name, tt.text)
		case v.Denied.Rule != tt.rule || v.Denied.Line != tt.line || !strings.Contains(v.Denied.Reason, tt.rule):
			t.Errorf("%s: Scan(%.40q) is denied by %+v, want %s on line %d", tt.name, tt.text, v.Denied, tt.rule, tt.line)
		case v.Text != "" || v.Hidden != nil || strings.Contains(v.Denied.Reason, "secret"):
			t.Errorf("%s: the denial tells too much: %+v", tt.name, v)
		}
	}
}

func utf16le(text string) []byte {
	var b []byte
	for _, u := range utf16.Encode([]rune(text)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return b
}

func TestAnotherEncodingIsNoWayAround(t *testing.T) {
	c := content(t, redact("key", `AKIA[0-9A-Z]{4}`, 0), deny("umlaut", `schlüssel`, 0))
	plain := "key AKIA1234 end "
	tests := []struct {
		name   string
		text   string
		raw    []byte
		denied bool
		want   string
	}{
		{"utf-8 as utf-8", plain, []byte(plain), false, "key [[REDACTED:key]] end "},
		{"utf-8 with a mark", plain, []byte("\xef\xbb\xbf" + plain), false, "key [[REDACTED:key]] end "},
		{"utf-16 as utf-16", plain, utf16le(plain), false, "key [[REDACTED:key]] end "},
		{"latin-1 as latin-1", "ä" + plain, []byte("\xe4" + plain), false, "ä" + "key [[REDACTED:key]] end "},
		{"utf-8 as utf-16", string(utf16.Decode([]uint16{0x656b, 0x2079, 0x4b41})), []byte(plain), true, ""},
		{"utf-16 as utf-8", string(utf16le(plain)), utf16le(plain), true, ""},
		{"latin-1 as cyrillic", "schlьssel", []byte("schl\xfcssel"), true, ""},
		{"harmless", "日本", utf16le("日本"), false, "日本"},
	}
	for _, tt := range tests {
		v := c.ScanAs(tt.text, tt.raw)
		if (v.Denied != nil) != tt.denied || v.Text != tt.want {
			t.Errorf("%s: ScanAs = %q, %+v; want %q, denied %v", tt.name, v.Text, v.Denied, tt.want, tt.denied)
		}
	}
	if v := content(t).ScanAs("a", []byte("b")); v.Denied != nil || v.Text != "a" {
		t.Errorf("ScanAs without rules = %+v", v)
	}
}

func TestScanBytesDeniesAnyHit(t *testing.T) {
	c := content(t, redact("key", `AKIA[0-9A-Z]{4}`, 0), deny("umlaut", `schlüssel`, 0))
	for name, raw := range map[string][]byte{
		"as it is": []byte("\x00\xffAKIA1234"), "utf-16": utf16le("AKIA1234"), "latin-1": []byte("schl\xfcssel"), "utf-8": []byte("schlüssel\xff"),
	} {
		if d := c.ScanBytes(raw); d == nil {
			t.Errorf("%s: %q is not denied", name, raw)
		}
	}
	if d := c.ScanBytes([]byte("\x00\xff harmless")); d != nil {
		t.Errorf("ScanBytes = %+v", d)
	}
	if d := content(t).ScanBytes([]byte("x")); d != nil {
		t.Errorf("ScanBytes without rules = %+v", d)
	}
}

func TestMarkersAreRecognised(t *testing.T) {
	v := content(t, redact("key", `\d+`, 0)).Scan("a 1\nb\n")
	if !access.HasMarkers(v.Text) || access.HasMarkers("a [REDACTED] b") {
		t.Error("HasMarkers is wrong")
	}
	for _, tt := range []struct {
		before, after string
		want          bool
	}{
		{"a 1\nb\n", v.Text, true},
		{"", "x [[REDACTED:key]]", true},
		{"old", "new", false},
		{"see [[REDACTED:key]] in the manual", "see [[REDACTED:key]] in this manual", false},
		{"old [[REDACTED:cut", "[[REDACTED:cut and [[REDACTED:key]]", true},
	} {
		if got := access.AddsMarkers(tt.before, tt.after); got != tt.want {
			t.Errorf("AddsMarkers(%q, %q) = %v, want %v", tt.before, tt.after, got, tt.want)
		}
	}
}

func TestContentRulesThatDoNotHoldAreNamed(t *testing.T) {
	_, err := access.NewContent([]access.ContentRule{
		redact("good", `x`, 0),
		redact("open", `(x`, 0),
		redact("", `x*`, 0),
		{Name: "mask", Pattern: "x", Action: "mask"},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"content rule 2 (open): pattern \"(x\", at offset 0", "content rule 3 (rule-3): pattern \"x*\" fits the empty text", `content rule 4 (mask): "mask" is not an action`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
}

// Whatever the rules: what is shown holds nothing that a rule hides, the rest is
// shown, and line by line.
func TestScanHidesAllAndOnlyHits(t *testing.T) {
	pattern := rapid.SampledFrom([]string{`a`, `ab`, `b+`, `a\nb`, `(?s)a.b`, `c[^c]*c`, `(?<=a)b`, `bc|cb`, `\d\d`})
	rule := rapid.Custom(func(t *rapid.T) access.ContentRule {
		return redact(fmt.Sprint("r", rapid.IntRange(0, 9).Draw(t, "name")), pattern.Draw(t, "pattern"), rapid.IntRange(0, 2).Draw(t, "priority"))
	})
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rule, 0, 4).Draw(t, "rules")
		c, err := access.NewContent(list)
		if err != nil {
			t.Fatal(err)
		}
		text := rapid.StringOfN(rapid.SampledFrom([]rune("abc1\r\n ä")), 0, 40, -1).Draw(t, "text")
		v := c.Scan(text)
		if v.Denied != nil {
			t.Fatalf("denied: %+v", v.Denied)
		}
		var b strings.Builder
		from := 0
		for _, h := range v.Hidden {
			if h.Start < from || h.End <= h.Start || h.Line != 1+strings.Count(text[:h.Start], "\n") {
				t.Fatalf("Hidden = %+v", v.Hidden)
			}
			b.WriteString(text[from:h.Start])
			from = h.End
		}
		b.WriteString(text[from:])
		shown, kept := strings.Split(v.Text, "\n"), strings.Split(text, "\n")
		if len(shown) != len(kept) {
			t.Fatalf("%q has other lines than %q", v.Text, text)
		}
		for i, line := range shown {
			if !access.HasMarkers(line) && line != kept[i] {
				t.Fatalf("line %d of %q is %q without a marker", i+1, text, line)
			}
		}
		// A second scan finds nothing more in what is not hidden, as far as rules
		// look at single characters.
		for _, r := range list {
			if r.Pattern == `a` && strings.Contains(b.String(), "a") {
				t.Fatalf("%q still shows a", v.Text)
			}
		}
	})
}

func FuzzScan(f *testing.F) {
	f.Add(`key=\w+`, "a key=1\nb", "redact")
	f.Add(`(?s)B.*E`, "B\r\nE", "deny")
	f.Fuzz(func(t *testing.T, pattern, text, action string) {
		if len(pattern) > 60 || len(text) > 500 {
			return
		}
		c, err := access.NewContent([]access.ContentRule{{Pattern: pattern, Action: action}, redact("x", `x+`, 1)})
		if err != nil {
			return
		}
		v := c.Scan(text)
		if v.Denied == nil && strings.Count(v.Text, "\n") != strings.Count(text, "\n") {
			t.Fatalf("Scan(%q) = %q", text, v.Text)
		}
		c.ScanAs(text, []byte(text+"\x00"))
		c.ScanBytes([]byte(text))
	})
}

func BenchmarkScan(b *testing.B) {
	c := content(b,
		redact("aws", `AKIA[0-9A-Z]{16}`, 0), redact("password", `(?i)password\s*=\s*\S+`, 0),
		redact("pem", `-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]+?-----END [A-Z ]*PRIVATE KEY-----`, 0),
		redact("github", `gh[pousr]_[A-Za-z0-9]{36}`, 0), redact("base64", `\b[A-Za-z0-9+/]{40}\b`, 0), redact("mail", `[\w.]+@[\w.]+\.\w+`, 0),
		redact("api", `(?i)(api|secret)[_-]?key["']?\s*[:=]\s*["']?[a-z0-9]{16,}`, 0), redact("jwt", `eyJ[\w-]+\.[\w-]+\.[\w-]+`, 0),
		redact("netrc", `(?m)^machine\s+\S+\s+login\s+\S+\s+password\s+\S+$`, 0), deny("slack", `xox[baprs]-[0-9A-Za-z-]{10,}`, 0))
	line := "func handler(w http.ResponseWriter, r *http.Request) { token := r.Header.Get(key) // ünïcode\n"
	for _, size := range []int{1 << 10, 1 << 20, 10 << 20} {
		text := strings.Repeat(line, size/len(line)) + "password = hunter2\n"
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if v := c.Scan(text); len(v.Hidden) != 1 {
					b.Fatal(v.Denied, len(v.Hidden))
				}
			}
		})
	}
}
