package history

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
	"github.com/async-crud-mcp/async-crud-mcp/internal/history/archive"
)

// replace sets the damaged database aside and opens an empty one in its place.
func (s *Store) replace(ctx context.Context, why error) (*archive.DB, error) {
	s.mu.Lock()
	db := s.db
	s.db = nil // who reads meanwhile finds what is in memory
	s.mu.Unlock()
	if db != nil {
		_ = db.Close() // it is lost anyway
	}
	aside, err := archive.SetAside(s.opts.File)
	if err != nil {
		return nil, errors.Join(why, err)
	}
	s.log.Warn("a damaged history database was set aside", "file", s.opts.File, "aside", aside, "err", why)
	s.report(wasDamaged, health.Finding{
		Part:   "history",
		Detail: fmt.Sprintf("%s was damaged (%v); it was set aside as %s and a new one begun", s.opts.File, why, aside),
		Cure:   "Earlier history is in the file set aside; delete it when nobody needs it.",
	})
	fresh, _, err := archive.Open(ctx, s.opts.File, maxTracked)
	return fresh, err
}

// suspect takes note of what a reader met. A damaged database is replaced by
// whoever writes next.
func (s *Store) suspect(db *archive.DB, err error) {
	if errors.Is(err, archive.ErrUnknown) {
		return
	}
	s.mu.Lock()
	current := s.db == db
	if current && archive.Damaged(err) {
		s.suspicion = err
		s.writeBy = time.Now()
		s.signal()
	}
	s.mu.Unlock()
	if !current {
		return // it was closed under the reader's hands
	}
	s.log.Warn("history cannot be read", "file", s.opts.File, "err", err)
	if bad, ok := errors.AsType[*archive.BadContent](err); ok {
		s.report(badContent, health.Finding{
			Part:   "history",
			Detail: s.opts.File + ": " + bad.Error(),
			Cure:   "async-crud-mcp history purge " + strconv.Quote(bad.Version.Path),
		})
	}
}

// trouble is a kind of finding; each is reported once.
type trouble int

const (
	cannotOpen trouble = iota
	cannotWrite
	wasDamaged
	badContent
)

func (s *Store) report(t trouble, f health.Finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.troubles[t] = f
}
