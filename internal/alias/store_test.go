package alias

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(patternClock)) }

// patternClock is the clock of the engine for look-around, which ends by itself.
const patternClock = "github.com/dlclark/regexp2/v2.runClock"

// running is a store whose Run goes on until the test ends.
func running(t *testing.T, o Options) *Store {
	t.Helper()
	s := NewStore(o)
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		done.Wait()
	})
	return s
}

const patience = time.Minute

func TestFilesAreReadAgainWhenTheyChange(t *testing.T) {
	changed := make(chan []string, 10)
	s := running(t, Options{Debounce: 10 * time.Millisecond, Changed: func(names []string) { changed <- names }})
	dir := t.TempDir()
	one, two := write(t, filepath.Join(dir, "one"), "alias a='ls'\nalias b='git status'\n"), filepath.Join(dir, "two")
	set := Settings{Files: []string{one, two}, Allow: sampleAllow, Deny: sampleDeny, Watch: true}
	before := s.Book(set)
	if before.Len() != 2 || s.Book(set) != before {
		t.Fatalf("%d aliases", before.Len())
	}
	next := func(want ...string) *Book {
		t.Helper()
		select {
		case got := <-changed:
			if !slices.Equal(got, want) {
				t.Errorf("changed %q, want %q", got, want)
			}
		case <-time.After(patience):
			t.Fatal("nobody was told")
		}
		return s.Book(set)
	}
	write(t, one, "alias a='rm x'\nalias b='git status'\nalias c='ls -a'\n")
	now := next("a", "c")
	if now.Lookup("a").Safe || !now.Lookup("c").Safe || now.Len() != 3 {
		t.Errorf("after a change: %+v", now.Lookup("a"))
	}
	if !before.Lookup("a").Safe || before.Len() != 2 {
		t.Error("a book that was handed out changed")
	}
	write(t, two, "alias b='git log'\n") // it comes to be
	if now = next("b"); now.Lookup("b").Expansion != "git log" || now.Lookup("b").File != two {
		t.Errorf("b is %+v", now.Lookup("b"))
	}
	// Replaced by rename, as editors do.
	write(t, filepath.Join(dir, "new"), "alias d='ls'\n")
	if err := os.Rename(filepath.Join(dir, "new"), two); err != nil {
		t.Fatal(err)
	}
	if now = next("b", "d"); now.Lookup("b").Expansion != "git status" {
		t.Errorf("b is %+v", now.Lookup("b"))
	}
	// What no longer parses keeps what it had, and says so.
	write(t, two, "alias d='ls -l'\nalias e='git\n")
	if now = next(); now.Lookup("d").Expansion != "ls" || now.Lookup("e") != nil || !strings.Contains(warnings(now), "the aliases it had before stay") {
		t.Errorf("d is %+v, warnings %s", now.Lookup("d"), warnings(now))
	}
	write(t, two, "alias d='ls -l'\n")
	if now = next("d"); warnings(now) != "" {
		t.Error(warnings(now))
	}
	if err := os.Remove(two); err != nil {
		t.Fatal(err)
	}
	if now = next("d"); now.Lookup("d") != nil || !strings.Contains(warnings(now), "there is no such file") {
		t.Errorf("after its file is gone: %+v", now.Lookup("d"))
	}
}

func TestTheSameContentIsNotReadAgain(t *testing.T) {
	told := 0
	s := NewStore(Options{Changed: func([]string) { told++ }})
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "file"), "alias a='ls'\n")
	set := Settings{Files: []string{file}, Watch: true}
	before := s.Book(set)
	write(t, file, "alias a='ls'\n")
	s.Reload(file)
	if s.Book(set) != before || told != 0 {
		t.Errorf("the same bytes were taken for a change")
	}
	write(t, file, "alias a='ls '\n")
	s.Reload(file)
	if s.Book(set) == before || told != 1 {
		t.Errorf("other bytes were not")
	}
}

func TestLinksAreFollowedToWhatChanges(t *testing.T) {
	dir := t.TempDir()
	real := write(t, filepath.Join(dir, "dotfiles"), "alias a='ls'\n")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	s := NewStore(Options{})
	set := Settings{Files: []string{link}, Watch: true}
	s.Book(set)
	write(t, real, "alias b='ls'\n")
	resolved, err := filepath.EvalSymlinks(real)
	if err != nil {
		t.Fatal(err)
	}
	s.Reload(resolved)
	if b := s.Book(set); b.Lookup("b") == nil || b.Lookup("b").File != link {
		t.Errorf("%v", b.All())
	}
}

func TestWithoutHotReloadABookStays(t *testing.T) {
	s := NewStore(Options{})
	file := write(t, filepath.Join(t.TempDir(), "file"), "alias a='ls'\n")
	set := Settings{Files: []string{file}}
	before := s.Book(set)
	write(t, file, "alias b='ls'\n")
	s.Reload(file)
	if s.Book(set) != before {
		t.Error("it was made anew")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Run(ctx); err != nil { // nothing is watched
		t.Error(err)
	}
}

// A book is whole: whoever looks while files change sees all of one version.
func TestABookIsNeverHalfUpdated(t *testing.T) {
	s := NewStore(Options{})
	dir := t.TempDir()
	text := func(version int) string {
		var b strings.Builder
		for i := range 50 {
			fmt.Fprintf(&b, "alias a%d='echo %d'\n", i, version)
		}
		return b.String()
	}
	file := write(t, filepath.Join(dir, "file"), text(0))
	sets := []Settings{{Files: []string{file}, Watch: true}, {Files: []string{file}, Allow: []string{"^echo"}, Watch: true}}
	var readers sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for i := range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				b := s.Book(sets[i%2])
				first := b.Lookup("a0").Expansion
				for _, a := range b.All() {
					if a.Expansion != first {
						t.Errorf("%s is %q beside %q", a.Name, a.Expansion, first)
						return
					}
				}
			}
		})
	}
	for v := range 30 {
		write(t, filepath.Join(dir, "next"), text(v+1))
		if err := os.Rename(filepath.Join(dir, "next"), file); err != nil {
			t.Fatal(err)
		}
		s.Reload(file)
	}
	stop()
	readers.Wait()
	if got := s.Book(sets[1]).Lookup("a7"); got.Expansion != "echo 30" || !got.Safe {
		t.Errorf("at the end: %+v", got)
	}
}

// files makes 500 aliases in 5 files, as people have them.
func files(tb testing.TB) (paths []string, set Settings) {
	dir := tb.TempDir()
	kinds := []string{
		"alias g%d='git log --oneline -n%[1]d'\n", "alias l%d='ls -lhF --color=auto --width=%[1]d'\n", "alias d%d='docker compose ps web%[1]d | grep web'\n", "alias n%d='g%[1]d --short'\n",
		"# a comment\nalias k%d=\"kubectl get pods -n it%[1]d's\"\n",
	}
	for f := range 5 {
		var b strings.Builder
		for i := range 100 {
			fmt.Fprintf(&b, kinds[i%len(kinds)], f*100+i-i%len(kinds))
		}
		paths = append(paths, write(tb, filepath.Join(dir, itoa(f)), b.String()))
	}
	return paths, Settings{Files: paths, Allow: sampleAllow, Deny: sampleDeny, Watch: true}
}

func BenchmarkLoad500(b *testing.B) {
	_, set := files(b)
	b.ReportAllocs()
	for b.Loop() {
		if n := NewStore(Options{}).Book(set).Len(); n != 500 {
			b.Fatal(n)
		}
	}
}

func BenchmarkReload500(b *testing.B) {
	paths, set := files(b)
	s := NewStore(Options{})
	s.Book(set)
	raw, err := os.ReadFile(paths[2])
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		write(b, paths[2], string(raw)+fmt.Sprintf("alias new='ls -%d'\n", i))
		s.Reload(paths[2])
		if s.Book(set).Lookup("new").Expansion != fmt.Sprintf("ls -%d", i) {
			b.Fatal("it was not read")
		}
	}
}

func BenchmarkCompose(b *testing.B) {
	_, set := files(b)
	book := NewStore(Options{}).Book(set)
	b.ReportAllocs()
	for b.Loop() {
		if c, err := book.Compose("g0", "--short 'a b' src"); err != nil || !c.Safe {
			b.Fatal(c, err)
		}
	}
}
