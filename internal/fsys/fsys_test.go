package fsys

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestReadFileRefusesMoreThanTheBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "12345")
	if got, err := ReadFile(path, 5); err != nil || string(got) != "12345" {
		t.Fatalf("ReadFile(5) = %q, %v", got, err)
	}
	if _, err := ReadFile(path, 4); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("ReadFile(4) = %v, want ErrTooLarge", err)
	}
}

// A file in /proc says it has no bytes and then gives some.
func TestReadFileBoundsWhatIsReadNotWhatStatSays(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("no /proc here")
	}
	if _, err := ReadFile("/proc/self/status", 10); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("ReadFile = %v, want ErrTooLarge", err)
	}
}

func TestReadFileRefusesADirectory(t *testing.T) {
	_, err := ReadFile(t.TempDir(), 10)
	if err == nil {
		t.Fatal("a directory was read")
	}
	if runtime.GOOS != "windows" && !errors.Is(err, ErrNotRegular) {
		t.Fatalf("ReadFile = %v, want ErrNotRegular", err)
	}
}

func TestReadFileInFollowsLinksInsideAndRefusesLinksOut(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	write(t, outside, "secret")
	root := t.TempDir()
	write(t, filepath.Join(root, "real", "f"), "inside")
	for link, target := range map[string]string{
		"in":       "real/f",
		"out":      "../" + filepath.Base(filepath.Dir(outside)) + "/secret",
		"absolute": outside,
		"dir":      "..",
	} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Skip("no links here:", err)
		}
	}
	if got, err := ReadFileIn(root, "in", 100); err != nil || string(got) != "inside" {
		t.Errorf("link inside: %q, %v", got, err)
	}
	for _, name := range []string{"out", "absolute", "dir/" + filepath.Base(root) + "/real/f", "../x"} {
		if got, err := ReadFileIn(root, name, 100); err == nil {
			t.Errorf("%s gave %q", name, got)
		}
	}
}

func TestWriteFileReplacesWithTheGivenPermissions(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	write(t, path, "a long old text")
	if err := WriteFile(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(path)
	info, _ := os.Stat(path)
	if string(got) != "new" {
		t.Errorf("content %q, want new", got)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("permissions %v, want 0600", info.Mode().Perm())
	}
	if n := names(t, dir); n != "f" {
		t.Errorf("directory holds %q, want f alone", n)
	}
}

func TestWriteFileLeavesNoLitterWhenItFails(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f", "child"), "x") // a directory cannot be replaced by a file
	if err := WriteFile(filepath.Join(dir, "f"), []byte("new"), 0o600); err == nil {
		t.Fatal("a directory was replaced")
	}
	if n := names(t, dir); n != "f" {
		t.Errorf("directory holds %q, want f alone", n)
	}
	if err := WriteFile(filepath.Join(dir, "missing", "f"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: %v, want not exist", err)
	}
}

func TestWriteFileTakesTheLongestNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("n", 255))
	if err := WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWriteFileShowsOldOrNewBytesToReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	texts := [][]byte{bytes.Repeat([]byte("a"), 1<<16), bytes.Repeat([]byte("b"), 1<<15)}
	if err := WriteFile(path, texts[0], 0o600); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for _, text := range texts {
		writers.Go(func() {
			for range 20 {
				if err := WriteFile(path, text, 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 200 {
		got, err := ReadFile(path, 1<<20)
		if err != nil || !bytes.Equal(got, texts[0]) && !bytes.Equal(got, texts[1]) {
			t.Errorf("read %d bytes of a mixture, %v", len(got), err)
			break
		}
	}
	writers.Wait()
}

func TestWriteFileInMakesDirectoriesAndStaysBelowRoot(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	if err := WriteFileIn(root, filepath.Join("a", "b", "f"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(root, "a", "b", "f")); string(got) != "x" {
		t.Errorf("content %q, want x", got)
	}
	top := filepath.Join(root, "top")
	write(t, top, "old")
	if err := os.Chmod(top, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := WriteFileIn(root, "top", []byte("y"), 0o644); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(top); runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
		t.Errorf("permissions %v, want those it had", info.Mode().Perm())
	}
	if err := os.Symlink(outside, filepath.Join(root, "link")); err != nil {
		t.Skip("no links here:", err)
	}
	if err := WriteFileIn(root, filepath.Join("link", "f"), []byte("x"), 0o644); err == nil {
		t.Error("wrote through a link that leaves the root")
	}
	if n := names(t, outside); n != "" {
		t.Errorf("outside now holds %q", n)
	}
}

func TestResolveDirFollowsLinksAndWantsADirectory(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "f"), "")
	if _, err := ResolveDir(filepath.Join(dir, "f")); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a file: %v, want ENOTDIR", err)
	}
	if _, err := ResolveDir(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing: %v, want not exist", err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip("no links here:", err)
	}
	if got, err := ResolveDir(link); err != nil || got != dir {
		t.Errorf("ResolveDir = %q, %v, want %q", got, err, dir)
	}
}

func TestWithinComparesComponents(t *testing.T) {
	for _, c := range []struct {
		base, path string
		want       bool
	}{
		{"/a/b", "/a/b", true},
		{"/a/b", "/a/b/c", true},
		{"/a/b", "/a/b/..c", true},
		{"/a/b", "/a/bc", false},
		{"/a/b", "/a", false},
		{"/a/b", "/a/b/../c", false},
		{"/a/b", "c", false},
		{"/", "/a", true},
	} {
		if got := Within(filepath.FromSlash(c.base), filepath.FromSlash(c.path)); got != c.want {
			t.Errorf("Within(%q, %q) = %v, want %v", c.base, c.path, got, c.want)
		}
	}
}

func TestUserDirsPerSystem(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("paths below are written the Unix way")
	}
	const app = "/async-crud-mcp"
	for _, c := range []struct {
		name, goos string
		env        map[string]string
		want       Dirs
	}{
		{"linux", "linux", map[string]string{"HOME": "/h"}, Dirs{"/h/.config" + app, "/h/.local/share" + app, "/h/.local/state" + app}},
		{"xdg", "linux", map[string]string{"XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d", "XDG_STATE_HOME": "/s"}, Dirs{"/c" + app, "/d" + app, "/s" + app}},
		{"relative xdg is ignored", "linux", map[string]string{"HOME": "/h", "XDG_DATA_HOME": "d"}, Dirs{"/h/.config" + app, "/h/.local/share" + app, "/h/.local/state" + app}},
		{"darwin", "darwin", map[string]string{"HOME": "/h"}, Dirs{"/h/Library/Application Support" + app, "/h/Library/Application Support" + app, "/h/Library/Logs" + app}},
		{"windows", "windows", map[string]string{"APPDATA": "/r", "LOCALAPPDATA": "/l"}, Dirs{"/r" + app, "/l" + app, "/l" + app + "/logs"}},
		{"one for all", "linux", map[string]string{"HOME": "/h", "ASYNC_CRUD_MCP_HOME": "/one"}, Dirs{"/one", "/one", "/one"}},
	} {
		got, err := userDirs(c.goos, func(k string) string { return c.env[k] })
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	for _, goos := range []string{"linux", "windows"} {
		if _, err := userDirs(goos, func(string) string { return "" }); err == nil {
			t.Errorf("%s without an environment: no error", goos)
		}
	}
}

func TestRotatingFileSetsFullFilesAsideAndStaysPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	path := filepath.Join(dir, "server.log")
	f := NewRotatingFile(path)
	f.out.MaxSize = 1
	if _, err := os.Stat(dir); err == nil {
		t.Error("New touched the disk")
	}
	line := bytes.Repeat([]byte("x"), 700<<10)
	for range 2 {
		if n, err := f.Write(line); err != nil || n != len(line) {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() != int64(len(line)) {
		t.Fatalf("current file: %v, %v, want one line", info, err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("permissions %v, want 0600", info.Mode().Perm())
	}
	// The library compresses behind our back; its last act removes the original.
	compressed := func() bool {
		all := strings.Fields(names(t, dir))
		return len(all) == 2 && strings.HasSuffix(all[0], ".log.gz") && all[1] == "server.log"
	}
	for !compressed() {
		time.Sleep(5 * time.Millisecond)
	}
}

func TestRotatingFileTakesPermissionsFromOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits here")
	}
	path := filepath.Join(t.TempDir(), "server.log")
	write(t, path, "old\n")
	f := NewRotatingFile(path)
	defer f.Close()
	if _, err := f.Write([]byte("new\n")); err != nil {
		t.Fatal(err)
	}
	info, _ := os.Stat(path)
	got, _ := os.ReadFile(path)
	if info.Mode().Perm() != 0o600 || string(got) != "old\nnew\n" {
		t.Errorf("%v %q, want 0600 and both lines", info.Mode().Perm(), got)
	}
}

func TestRotatingFileRefusesADirectory(t *testing.T) {
	f := NewRotatingFile(t.TempDir())
	if _, err := f.Write([]byte("x")); !errors.Is(err, ErrNotRegular) {
		t.Fatalf("Write = %v, want ErrNotRegular", err)
	}
}
