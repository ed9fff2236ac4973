package tool_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

func FuzzAppendString(f *testing.F) {
	for _, seed := range []string{"", "plain", `"\`, "a\tb\r\nc\x00\x1f\x7f", "<&>  é😀", "12345678\"", "\xff\xfebroken", "seven77\n", "eightxyz\n", "no\x80w"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := strings.ToValidUTF8(s, "")
		text := string(tool.AppendString([]byte("before"), s))
		raw, ok := strings.CutPrefix(text, "before")
		var got string
		if err := json.Unmarshal([]byte(raw), &got); err != nil || !ok {
			t.Fatalf("%q became %s: %v", s, text, err)
		}
		if strings.ReplaceAll(got, "�", "") != strings.ReplaceAll(want, "�", "") {
			t.Errorf("%q came back as %q", s, got)
		}
		if other := string(tool.AppendString([]byte("before"), []byte(s))); other != text {
			t.Errorf("bytes became %s, text %s", other, text)
		}
		if strings.ContainsAny(s, "<>&") && want == s && strings.Contains(raw, `\u003`) {
			t.Errorf("%q was escaped for HTML: %s", s, raw)
		}
	})
}

func BenchmarkAppendString(b *testing.B) {
	s := strings.Repeat("\tif err := step(ctx, \"name\", 7); err != nil { return err }\n", 1<<14)
	b.SetBytes(int64(len(s)))
	room := make([]byte, 0, 2*len(s))
	for b.Loop() {
		tool.AppendString(room, s)
	}
}
