package catalog

import "testing"

func TestAFileAddressNamesALocalPath(t *testing.T) {
	for _, tc := range []struct {
		in      string
		windows bool
		want    string // "": refused
	}{
		{"/a/b", false, "/a/b"},
		{"localhost/a/b", false, "/a/b"},
		{"/", false, "/"},
		{"a/b", false, ""},
		{"host/a", false, ""},
		{"localhostile/a", false, ""},
		{"localhost", false, ""},
		{"//host/a", false, ""},
		{"", false, ""},
		{"/C:/a/b", true, `C:\a\b`},
		{"localhost/C:/a", true, `C:\a`},
		{"/a/b", true, ""},
		{"/C:", true, ""},
		{"//host/share", true, ""},
	} {
		got, ok := localPath(tc.in, tc.windows)
		if !ok {
			got = ""
		}
		if got != tc.want {
			t.Errorf("localPath(%q, %v) = %q, want %q", tc.in, tc.windows, got, tc.want)
		}
	}
}
