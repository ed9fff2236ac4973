package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
)

// stress lets workers take, wait for, abandon and outlive leases on few keys in
// real time, and checks that exclusive work is alone and that tokens rise.
func stress(t *testing.T, newLocker func(*testing.T) Locker) {
	workers, rounds := 16, 400
	if testing.Short() {
		rounds = 50
	}
	l := newLocker(t)
	var cells [5]cell
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(w)))
			for range rounds {
				if err := visit(t.Context(), l, rnd, &cells); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if s := l.Stats(); s != (lock.Stats{}) {
		t.Errorf("at the end Stats = %+v", s)
	}
}

// cell counts who is in at one key.
type cell struct {
	readers, writers atomic.Int32
	token            uint64 // of the last exclusive lease; written by its holder alone
}

func (c *cell) enter(m lock.Mode, token uint64) error {
	if m == lock.Shared {
		if c.readers.Add(1); c.writers.Load() > 0 {
			return errors.New("a reader is in with a writer")
		}
		return nil
	}
	if c.writers.Add(1) > 1 || c.readers.Load() > 0 {
		return errors.New("a writer is not alone")
	}
	if token <= c.token {
		return fmt.Errorf("token %d after %d", token, c.token)
	}
	c.token = token
	return nil
}

func (c *cell) exit(m lock.Mode) {
	if m == lock.Shared {
		c.readers.Add(-1)
	} else {
		c.writers.Add(-1)
	}
}

// visit takes one lease, does its work as a commit, and sometimes outstays it.
func visit(ctx context.Context, l Locker, rnd *rand.Rand, cells *[5]cell) error {
	r := lock.Request{Mode: lock.Mode(rnd.IntN(2)), TTL: time.Minute}
	var mine []*cell
	for _, i := range rnd.Perm(len(cells))[:1+rnd.IntN(3)] {
		r.Keys = append(r.Keys, lock.Key(fmt.Sprint("cell", i)))
		mine = append(mine, &cells[i])
	}
	if rnd.IntN(4) == 0 {
		r.TTL = time.Duration(rnd.IntN(200)) * time.Microsecond
	}
	if rnd.IntN(4) == 0 {
		r.Moved = func(int) {}
	}
	if rnd.IntN(3) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rnd.IntN(300))*time.Microsecond)
		defer cancel()
	}
	lease, err := l.Hold(ctx, r)
	if errors.Is(err, lock.ErrTimeout) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lease.Release()
	var wrong error
	err = lease.Commit(func() error {
		for _, c := range mine {
			wrong = errors.Join(wrong, c.enter(r.Mode, lease.Token()))
		}
		time.Sleep(time.Duration(rnd.IntN(50)) * time.Microsecond)
		for _, c := range mine {
			c.exit(r.Mode)
		}
		return nil
	})
	if err != nil && !errors.Is(err, lock.ErrLost) {
		return err
	}
	if rnd.IntN(8) == 0 {
		lease.Release()
		lease.Release()
	}
	return wrong
}
