package job

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/proc"
)

// fake is a process without one, for tests in which time is not real.
type fake struct {
	id       proc.Identity
	stdout   io.Writer
	done     chan struct{}
	gone     chan struct{}
	exit     proc.Exit
	stubborn bool // dies when it is killed, not before

	mu    sync.Mutex
	ended bool
	timer *time.Timer
}

func (f *fake) ID() proc.Identity     { return f.id }
func (f *fake) Done() <-chan struct{} { return f.done }
func (f *fake) Gone() <-chan struct{} { return f.gone }
func (f *fake) Exit() proc.Exit       { return f.exit }

func (f *fake) End(grace time.Duration) {
	if !f.stubborn || grace == 0 {
		f.finish(proc.Exit{Code: -1, Signal: "SIGTERM", Number: 15})
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer == nil && !f.ended {
		f.timer = time.AfterFunc(grace, func() { f.finish(proc.Exit{Code: -1, Signal: "SIGKILL", Number: 9}) })
	}
}

func (f *fake) finish(e proc.Exit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer != nil {
		f.timer.Stop()
	}
	if !f.ended {
		f.ended, f.exit = true, e
		close(f.done)
		close(f.gone)
	}
}

// fakes returns a registry whose commands are fakes, which take as long as their
// directory says, and the fakes by the command.
func fakes(t *testing.T, o Options) (*Registry, func(command string) *fake) {
	t.Helper()
	r := New(o)
	var mu sync.Mutex
	all := make(map[string]*fake)
	r.start = func(s proc.Spec) (process, error) {
		if s.Argv[0] == "missing" {
			return nil, errors.New("no such program")
		}
		f := &fake{stdout: s.Stdout, done: make(chan struct{}), gone: make(chan struct{}), stubborn: s.Argv[0] == "stubborn"}
		if d, err := time.ParseDuration(s.Dir); err == nil {
			f.mu.Lock()
			f.timer = time.AfterFunc(d, func() { f.finish(proc.Exit{}) })
			f.mu.Unlock()
		}
		mu.Lock()
		defer mu.Unlock()
		all[s.Argv[len(s.Argv)-1]] = f
		return f, nil
	}
	t.Cleanup(func() { r.Stop(context.WithoutCancel(t.Context())) })
	return r, func(command string) *fake {
		mu.Lock()
		defer mu.Unlock()
		return all[command]
	}
}

// memory is a store that forgets nothing by itself.
type memory struct {
	mu      sync.Mutex
	records map[string][]byte
	owners  map[string]string
}

func (m *memory) SaveJob(_ context.Context, id, owner string, record []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records == nil {
		m.records, m.owners = make(map[string][]byte), make(map[string]string)
	}
	m.records[id], m.owners[id] = record, owner
	return nil
}

func (m *memory) LoadJobs(_ context.Context, owner string, gone func(string) bool) (map[string][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(m.records)
	maps.DeleteFunc(all, func(id string, _ []byte) bool { return !gone(m.owners[id]) })
	for id := range all {
		m.owners[id] = owner
	}
	return all, nil
}

func (m *memory) DeleteJobs(_ context.Context, ids []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		delete(m.records, id)
	}
	return nil
}

func (m *memory) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.records)
}
