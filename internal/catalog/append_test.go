package catalog

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// A result that writes itself must not forget a field.
func TestResultsWriteThemselvesAsTheirTagsSay(t *testing.T) {
	limit, size, hash := 7, int64(9223372036854775807), ListOut{}
	full := ReadOut{
		Status: "ok", Path: "/a \"b\"\\c", Content: "x\ty\r\n<&>é😀\x01", Encoding: "utf-8", Hash: "sha256:00", TotalLines: 2, Offset: 1,
		Limit: &limit, LinesReturned: 1, Redacted: 3, Truncated: true, Timestamp: "2026-01-02T03:04:05Z",
	}
	hash.Entries = []EntryOut{
		{Name: "a.go", Type: "file", SizeBytes: &size, Modified: "then", Hash: orNull("sha256:00")},
		{Name: "b", Type: "file", Modified: "then", Hash: orNull("")},
		{Name: "d", Type: "directory", Modified: "then"},
	}
	for _, v := range []tool.Appender{
		ReadOut{},
		full,
		ListOut{Entries: []EntryOut{}},
		hash,
		ListOut{Status: "ok", Path: "/p", Entries: []EntryOut{}, TotalEntries: 4, Pattern: "*", Recursive: true, Truncated: true, Unreadable: 5, Timestamp: "now"},
	} {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
		got := append(v.AppendJSON(nil), '\n')
		if !bytes.Equal(got, want.Bytes()) {
			t.Errorf("\n got %s\nwant %s", got, want.Bytes())
		}
		if n := v.JSONSize(); n < len(got) {
			t.Errorf("%T has %d bytes, and says %d", v, len(got), n)
		}
	}
}
