package lock

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTimerOfAnEarlierLeaseDoesNotEndTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tab Table
		r := Request{Mode: Exclusive, Keys: []Key{"k"}, TTL: 10 * time.Second}
		first, err := tab.Hold(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		h := first.grant.(*hold)
		h.lapse() // nobody waits: there is no timer to run
		h.home.mu.Lock()
		h.armLocked(clock())
		h.home.mu.Unlock()
		first.Release()
		h.lapse() // it could not be stopped any more

		time.Sleep(time.Second)
		next, err := tab.Hold(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		defer next.Release()
		if next.grant != Grant(h) {
			t.Fatal("the hold was not used again, so this test shows nothing")
		}
		h.home.mu.Lock()
		h.armLocked(clock())
		h.home.mu.Unlock()
		h.lapse()
		if err := next.Commit(func() error { return nil }); err != nil {
			t.Errorf("Commit = %v", err)
		}
		time.Sleep(10 * time.Second)
		if err := next.Commit(func() error { return nil }); !errors.Is(err, ErrLost) {
			t.Errorf("Commit at the TTL = %v, want ErrLost", err)
		}
	})
}

func TestIdleTableKeepsNoKey(t *testing.T) {
	var tab Table
	var leases []Lease
	for i := range 5000 {
		k := Key([]byte{byte(i), byte(i >> 8)})
		l, err := tab.Hold(t.Context(), Request{Keys: []Key{k, k + "x", k + "y"}})
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, l)
	}
	for _, l := range leases {
		l.Release()
	}
	for i := range tab.shards {
		s := &tab.shards[i]
		if s.queues != [chainCount]*queue{} || len(s.idle) > spare || len(s.holds) > spare {
			t.Fatalf("shard %d still has queues, or %d idle and %d free", i, len(s.idle), len(s.holds))
		}
	}
}

type grant struct{ committed, released uint64 }

func (g *grant) Commit(token uint64, fn func() error) error { g.committed = token; return fn() }
func (g *grant) Release(token uint64)                       { g.released = token }

func TestLeaseOfAnotherImplementation(t *testing.T) {
	var g grant
	l := NewLease(&g, 7)
	failed := errors.New("failed")
	if err := l.Commit(func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("Commit = %v", err)
	}
	l.Release()
	if l.Token() != 7 || g != (grant{7, 7}) {
		t.Errorf("token %d, grant %+v", l.Token(), g)
	}
}
