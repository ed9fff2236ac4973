package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestASearchSeesWhatHappenedBeforeIt changes files by a tool, by a command and
// from outside, and searches with the next call, when there is an index.
func TestASearchSeesWhatHappenedBeforeIt(t *testing.T) {
	root := projectWith(t, map[string]string{"a.txt": "first\n", "b.txt": "first\n", "run.sh": "#!/bin/sh\necho \"by command $1\" >> b.txt\n"})
	p := begin(t, "", "stdio", "--standalone", "--root", root, "--set", "shell.enabled=true")
	p.initialize()
	id := 1.0
	call := func(name string, args map[string]any) map[string]any {
		t.Helper()
		id++
		got := p.call(id, name, args)
		if got["status"] != "ok" {
			t.Fatalf("%s %v: %v", name, args, got)
		}
		return got
	}
	find := func(pattern string, want int) string {
		t.Helper()
		got := call("async_search", map[string]any{"pattern": pattern})
		if n := len(got["matches"].([]any)); n != want {
			t.Errorf("%s is found in %d files, want %d: %v", pattern, n, want, got)
		}
		return got["source"].(string)
	}
	deadline := time.Now().Add(time.Minute)
	for find("first", 2) == "scan" {
		if time.Now().After(deadline) {
			t.Fatal("after a minute there is no index")
		}
		time.Sleep(10 * time.Millisecond)
	}
	for i := range 10 {
		call("async_write", map[string]any{"path": fmt.Sprintf("new%d.txt", i), "content": fmt.Sprintf("written by tool %d\n", i)})
		find(fmt.Sprintf("by tool %d", i), 1)
		find("written by tool", i+1)
		call("async_exec", map[string]any{"command": fmt.Sprintf("./run.sh %d", i)})
		find(fmt.Sprintf("by command %d", i), 1)
		if err := os.WriteFile(filepath.Join(root, "a.txt"), fmt.Appendf(nil, "outside %d\n", i), 0o644); err != nil {
			t.Fatal(err)
		}
		find(fmt.Sprintf("outside %d", i), 1)
		find("absent", 0)
	}
	if err := os.WriteFile(filepath.Join(root, ".gitignore"), []byte("new*\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	find("written by tool", 0)
	if source := find("first", 1); source == "scan" {
		t.Errorf("in the end answers come from a %s", source)
	}
	_ = p.in.Close()
	if code := p.ends(); code != 0 {
		t.Errorf("the server ends with %d", code)
	}
}
