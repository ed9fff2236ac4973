package files_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
)

// interrupted are locks that let somebody outside in before the first commit.
type interrupted struct {
	files.Locker
	outside func()
}

func (l *interrupted) Hold(ctx context.Context, r lock.Request) (lock.Lease, error) {
	lease, err := l.Locker.Hold(ctx, r)
	return lock.NewLease(&interruptedGrant{l, lease}, lease.Token()), err
}

type interruptedGrant struct {
	of    *interrupted
	lease lock.Lease
}

func (g *interruptedGrant) Commit(_ uint64, fn func() error) error {
	return g.lease.Commit(func() error {
		if outside := g.of.outside; outside != nil {
			g.of.outside = nil
			outside()
		}
		return fn()
	})
}

func (g *interruptedGrant) Release(uint64) { g.lease.Release() }

// interruptedPlace has somebody outside save a.txt between the moment a call looks
// at it and the moment it acts.
func interruptedPlace(t *testing.T, outside func(path string)) *place {
	t.Helper()
	p := fresh(t)
	p.locks = &interrupted{files.LocalLocks(), func() { outside(filepath.Join(p.root, "a.txt")) }}
	p.Engine = files.New(files.Options{
		Locks: p.locks, History: p.history, Bus: p.bus, JournalDir: filepath.Join(p.root, "..", "journal"),
		Scope: func(context.Context) (*files.Scope, error) { return p.scope, nil },
	})
	return p
}

func TestMovesAndCopiesSeeWhatIsSavedMeanwhile(t *testing.T) {
	for how, save := range map[string]func(t *testing.T, text string) func(path string){
		"in place": func(t *testing.T, text string) func(string) {
			return func(path string) { must(t, os.WriteFile(path, []byte(text), 0o644)) }
		},
		"by rename": func(t *testing.T, text string) func(string) {
			return func(path string) {
				must(t, os.WriteFile(path+"~", []byte(text), 0o644))
				must(t, os.Rename(path+"~", path))
			}
		},
		"by deletion": func(t *testing.T, _ string) func(string) {
			return func(path string) { must(t, os.Remove(path)) }
		},
	} {
		t.Run(how, func(t *testing.T) {
			ctx := t.Context()
			p := interruptedPlace(t, save(t, "saved outside\n"))
			known := p.hash(t, "a.txt")
			renamed, err := p.Rename(ctx, files.RenameRequest{OldPath: "a.txt", NewPath: "b.txt", ExpectedHash: known})
			if how == "by deletion" {
				if fault.CodeOf(err) != fault.FileNotFound {
					t.Errorf("rename: %+v, %v", renamed, err)
				}
			} else if err != nil || renamed.Contention == nil || renamed.Contention.CurrentHash != p.hash(t, "a.txt") {
				t.Errorf("rename with a hash: %+v, %v", renamed, err)
			}
			if how == "by deletion" {
				return
			}
			p = interruptedPlace(t, save(t, "saved outside\n"))
			renamed, err = p.Rename(ctx, files.RenameRequest{OldPath: "a.txt", NewPath: "b.txt"})
			if err != nil || renamed.Done == nil || renamed.Done.Hash != p.hash(t, "b.txt") {
				t.Errorf("rename: %+v, %v; the file has %s", renamed.Done, err, p.hash(t, "b.txt"))
			}
			p = interruptedPlace(t, save(t, "saved outside\n"))
			copied, err := p.Copy(ctx, files.CopyRequest{From: "a.txt", To: "b.txt"})
			if err != nil || copied.Hash != p.hash(t, "b.txt") || copied.BytesWritten != int64(len("saved outside\n")) {
				t.Errorf("copy: %+v, %v", copied, err)
			}
			p = interruptedPlace(t, save(t, "FORBIDDEN\n"))
			if p.scope.Content, err = access.NewContent([]access.ContentRule{{Name: "no", Pattern: "FORBIDDEN", Action: "deny"}}); err != nil {
				t.Fatal(err)
			}
			p.scope.Redacts = true
			if _, err := p.Copy(ctx, files.CopyRequest{From: "a.txt", To: "b.txt"}); fault.CodeOf(err) != fault.ContentBlocked {
				t.Errorf("a copy of what became forbidden meanwhile: %v", err)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
