package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// request makes a request and returns the result, or the error.
func (p *process) request(id float64, method, params string) map[string]any {
	p.t.Helper()
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":%q,"params":%s}`, id, method, params))
	m := p.receive(answerTo(id))
	if res, ok := m["result"].(map[string]any); ok {
		return res
	}
	return m["error"].(map[string]any)
}

func TestAFileIsFollowedWhoeverChangesIt(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := begin(t, "", "stdio", "--root", root, "--set", "watcher.debounce_ms=10")
	p.initialize()
	if got := fmt.Sprint(p.request(2, "resources/templates/list", `{}`)); !strings.Contains(got, "uriTemplate:file://{+path}") {
		t.Errorf("templates: %s", got)
	}
	file := filepath.Join(root, "dir", "later.txt")
	uri := "file:///" + strings.TrimPrefix(filepath.ToSlash(file), "/")
	if got := p.request(3, "resources/subscribe", fmt.Sprintf(`{"uri":%q}`, uri)); len(got) != 0 {
		t.Fatalf("subscribe = %v", got)
	}
	isUpdate := func(m map[string]any) bool {
		params, _ := m["params"].(map[string]any)
		return m["method"] == "notifications/resources/updated" && params["uri"] == uri
	}
	told := func() {
		t.Helper()
		p.receive(isUpdate)
	}
	if err := os.WriteFile(file, []byte("from outside\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	told()
	if got := fmt.Sprint(p.request(4, "resources/read", fmt.Sprintf(`{"uri":%q}`, uri))); !strings.Contains(got, "text:from outside\n") {
		t.Errorf("read = %s", got)
	}
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"async_append","arguments":{"path":%q,"content":"more\n"}}}`, file))
	answered, updated := false, false
	p.receive(func(m map[string]any) bool { // in whatever order
		answered, updated = answered || m["id"] == 5.0, updated || isUpdate(m)
		return answered && updated
	})
	if err := os.RemoveAll(filepath.Join(root, "dir")); err != nil {
		t.Fatal(err)
	}
	told()
	if got := p.request(6, "resources/read", fmt.Sprintf(`{"uri":%q}`, uri)); got["code"] != -32002.0 {
		t.Errorf("read of what is gone = %v", got)
	}
	if got := p.request(7, "resources/subscribe", `{"uri":"file:///etc/passwd"}`); !strings.Contains(fmt.Sprint(got["message"]), "PATH_OUTSIDE_BASE") {
		t.Errorf("subscribe outside = %v", got)
	}
}

func TestResourcesGoWithTheirToolset(t *testing.T) {
	p := begin(t, "", "stdio", "--root", t.TempDir(), "--toolsets", "project")
	p.initialize()
	if got := fmt.Sprint(p.request(2, "resources/templates/list", `{}`)); strings.Contains(got, "file://") {
		t.Errorf("templates: %s", got)
	}
}
